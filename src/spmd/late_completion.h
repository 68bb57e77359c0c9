// SPDX-License-Identifier: Apache-2.0
// Partial values that pass through linear equations, so that one sum is completed where several would be.
#pragma once

#include <vector>

#include "spmd/factoring.h"
#include "spmd/value_versions.h"

namespace tessera::spmd {

struct Use {
  const ir::Eqn* eqn;
  std::size_t operand;
};

/// Who makes and who reads each value of a graph.
class GraphUses {
 public:
  explicit GraphUses(const ir::Graph& g);
  const std::vector<Use>& of(ir::ValueId v) const { return uses_[static_cast<std::size_t>(v)]; }
  bool returned(ir::ValueId v) const { return returned_[static_cast<std::size_t>(v)]; }
  /// The equation that makes a value; null for inputs.
  const ir::Eqn* maker(ir::ValueId v) const { return makers_[static_cast<std::size_t>(v)]; }
  /// The same of a value which one operand alone reads; null for others.
  const ir::Eqn* maker_for_one(ir::ValueId v) const;

 private:
  std::vector<std::vector<Use>> uses_;
  std::vector<bool> returned_;
  std::vector<const ir::Eqn*> makers_;
};

/// Whether a constrained value is read as an addend only, itself or transposed, of sums that are constrained as it is.
bool only_added(const std::vector<ir::Layout>& wanted, const GraphUses& uses, ir::ValueId v);

class LateCompletion {
 public:
  /// `sums_wanted`: by value, the axes over which all who read it take it as a sum.
  LateCompletion(const ir::Graph& g, const ir::MeshAxes& mesh, const VersionTable& values, const GraphUses& uses,
                 const std::vector<AxisMask>& sums_wanted, ChangeCosts& costs)
      : g_(g),
        mesh_(mesh),
        values_(values),
        uses_(uses),
        sums_wanted_(sums_wanted),
        costs_(costs),
        left_(g.num_values()) {}

  /// A value is to stay partial over these axes, because it is cheaper to complete what is made of it.
  void leave(ir::ValueId v, AxisMask axes) { left_[static_cast<std::size_t>(v)] |= axes; }
  /// Axes over which a value is not completed where it is made.
  AxisMask stays(ir::ValueId v) const {
    return sums_wanted_[static_cast<std::size_t>(v)] | left_[static_cast<std::size_t>(v)];
  }

  /// Whether a value that is made as `made`, a sum, is only added, itself or what a linear op makes of it alone, to
  /// another such sum that is still to be completed: both are completed in one then.
  bool joins(ir::ValueId v, const ir::Layout& made, const std::vector<ir::Layout>& wanted) const;

  /// What is moved for a sum over these axes where it is completed, as far as one equation after the other takes it
  /// there; 0 where several read it.
  double completed_later(ir::ValueId v, AxisMask axes, const std::vector<ir::Layout>& wanted) const;

  /// Which operands stay partial, over the axes `over`, when the equation is split so; empty, for none, unless it pays
  /// or is asked for.
  std::vector<bool> passing(const ir::Eqn& e, const Factoring& f, const FactorAxes& split, AxisMask& over) const;

 private:
  bool pays(const ir::Eqn& e, const Factoring& f, const FactorAxes& split, const std::vector<bool>& marks) const;
  bool readers_pass(const ir::Eqn& e, ir::ValueId v, AxisMask sums) const;
  bool could_pass(const Use& use, AxisMask sums) const;

  const ir::Graph& g_;
  const ir::MeshAxes& mesh_;
  const VersionTable& values_;
  const GraphUses& uses_;
  const std::vector<AxisMask>& sums_wanted_;
  ChangeCosts& costs_;
  std::vector<AxisMask> left_;  ///< by value
};

/// The values that stay partial over `axes` when the sum `origin` is completed where the least is moved over all that
/// is linear in it: those before a minimum cut of the graph, and those of the cut, which are completed where they are
/// read. Empty where nothing is less than completing `origin` itself. `wanted` has the layouts that propagation chose.
std::vector<ir::ValueId> left_partial(const ir::Graph& g, const ir::MeshAxes& mesh,
                                      const std::vector<ir::Layout>& wanted, const GraphUses& uses, ir::ValueId origin,
                                      AxisMask axes, ChangeCosts& costs);

}  // namespace tessera::spmd
