// SPDX-License-Identifier: Apache-2.0
// Factor rules applied: from axes of dimensions to axes of factors and back.
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "ir/axis_sets.h"
#include "ir/factors.h"
#include "ir/graph.h"
#include "ir/module.h"
#include "spmd/spmd.h"

namespace tessera::spmd {

using ir::AxisList;
using ir::AxisMask;
using ir::DimAxes;
using FactorAxes = DimAxes;  ///< by factor of a rule

using ir::bit;
using ir::common_prefix;
using ir::is_prefix;
using ir::mask_of;

/// One equation's rule together with how far each factor may be split. Tensors are numbered: operands first, then
/// results.
class Factoring {
 public:
  /// `shifted`: shards need not begin at the same place in all tensors, because what is missing is moved.
  Factoring(ir::FactorRule rule, ir::TypeSpan in, ir::TypeSpan out, const ir::Module& m, bool shifted = false);

  const ir::FactorRule& rule() const { return rule_; }
  std::size_t num_factors() const { return rule_.factors.size(); }
  std::size_t num_operands() const { return rule_.operands.size(); }
  std::size_t num_tensors() const { return rule_.operands.size() + rule_.results.size(); }
  const ir::FactorRule::Tensor& tensor(std::size_t t) const {
    return t < rule_.operands.size() ? rule_.operands[t] : rule_.results[t - rule_.operands.size()];
  }

  /// Factor f may be cut in `count` parts.
  bool splittable(int f, std::int64_t count) const;
  /// Factor f is cut down to single elements, so that the factor after it in a dimension may be split too.
  bool used_up(int f, const AxisList& axes) const;

  /// What axes of the dimensions of tensor t mean for factors: the leading axes of each dimension that its factors can
  /// take. `out` has one list a factor; those of factors outside the tensor stay as they are.
  void project(std::size_t t, const DimAxes& dims, FactorAxes& out) const;
  /// The axes of one dimension's factors, in `out`; true when they are all of `axes`.
  bool project_dim(const std::vector<int>& factors, const AxisList& axes, FactorAxes& out) const;
  /// Axes of the dimensions of tensor t when factors are split so.
  DimAxes dims_of(std::size_t t, const FactorAxes& axes) const;
  /// Drops axes until the assignment is one that every tensor can have: an axis on one factor, splittable factors,
  /// minor factors of a dimension split only where the major ones are used up, one kind of reduction.
  void repair(FactorAxes& axes) const;

 private:
  ir::FactorRule rule_;
  const ir::MeshAxes& mesh_;
  std::vector<std::int64_t> unit_;    ///< by factor: what the number of parts must divide
  std::vector<std::int64_t> uneven_;  ///< by factor: up to how many parts need not be equal
};

/// Those of a module's equations, each made when it is first asked for.
class Factorings {
 public:
  const Factoring& of(const ir::Eqn& e, const ir::Module& m);
  /// The same where the equation's rule is known.
  const Factoring& of(const ir::Eqn& e, const ir::FactorRule& rule, ir::TypeSpan in, ir::TypeSpan out,
                      const ir::Module& m);

 private:
  std::unordered_map<const ir::Eqn*, Factoring> made_;
};

/// How many bytes each value of a graph is made of: its own, but for values that ops which compute element by element
/// or repeat elements make of less. Such values can be made again under another layout, where that moves less than they
/// do.
class SourceBytes {
 public:
  explicit SourceBytes(const ir::Graph& g);
  /// Equations are added in their order.
  void add(const ir::Graph& g, const ir::Eqn& e, const ir::FactorRule& rule);
  std::int64_t of(ir::ValueId v) const { return bytes_[static_cast<std::size_t>(v)]; }

 private:
  std::vector<std::int64_t> bytes_;  ///< by value; scalars count nothing
};
/// Whether an equation can be computed twice, in any split of its result.
bool repeatable(const ir::Graph& g, const ir::Eqn& e, const ir::FactorRule& rule);

/// Types of an equation's operands and results.
ir::Types types_of(const ir::Graph& g, std::span<const ir::ValueId> values);

}  // namespace tessera::spmd
