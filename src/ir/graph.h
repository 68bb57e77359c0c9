// SPDX-License-Identifier: Apache-2.0
// The one program form: typed SSA, a list of equations.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/attrs.h"
#include "ir/layout.h"
#include "ir/type.h"
#include "tessera/loc.h"

namespace tessera::ir {

class OpDef;
using ValueId = std::int32_t;

struct Eqn {
  const OpDef* op = nullptr;
  Attrs attrs;
  std::vector<ValueId> in;
  std::vector<ValueId> out;
  Loc loc;
};

/// Immutable once built (by a Builder). Values are numbered; inputs and equation results define each number once.
/// A partitioned graph also has `mesh` and one layout a value.
class Graph {
 public:
  std::vector<Type> types;  ///< by value
  std::vector<ValueId> inputs;
  std::vector<Eqn> eqns;
  std::vector<ValueId> outputs;
  MeshAxesPtr mesh;             ///< null unless partitioned
  std::vector<Layout> layouts;  ///< by value; empty unless partitioned

  const Type& type(ValueId v) const { return types[static_cast<std::size_t>(v)]; }
  const Layout& layout(ValueId v) const { return layouts[static_cast<std::size_t>(v)]; }
  std::size_t num_values() const { return types.size(); }
  Types input_types() const;
  Types output_types() const;
};

/// Structural equality: same equations in the same order under renaming-free numbering.
bool equal(const Graph& a, const Graph& b);
std::size_t hash_of(const Graph& g);

/// Text of a graph; values are named a, b, …, z, aa, …
///   main(a:f32[8,4], b:f32[4,6]) {
///     c:f32[8,6] = dot_general[…] a b
///     return c }
std::string to_string(const Graph& g, const std::string& name = "main", int indent = 0);

/// Throws `InternalError` with the equations around the first broken rule: a value used before its definition or
/// defined twice, a type that differs from what the op infers, a wrong count of layouts.
void verify(const Graph& g);

/// For each value the position of the last equation that reads it; `eqns.size()` for outputs, -1 when unused.
std::vector<std::int32_t> last_uses(const Graph& g);

/// Whether the equation, or one of a graph inside it, has an effect.
bool has_effect(const Eqn& e);
bool has_effect(const Graph& g);

/// A copy without equations whose results nobody needs (effects are kept).
Graph eliminate_dead(const Graph& g);

}  // namespace tessera::ir
