// SPDX-License-Identifier: Apache-2.0
#include "numpy/placed.h"

#include <algorithm>

#include "base/strings.h"
#include "mesh/mesh_state.h"
#include "ops/shared_attrs.h"
#include "program/trace.h"
#include "tessera/error.h"

namespace tessera::program {

bool checks_placements() {
  Trace* t = Trace::current();
  if (t == nullptr) return mesh::types_in_use();
  return t->builder().typing() == ir::Typing::Strict;
}

ir::TypeShardingPtr checked_sharding(const Array& x, const char* name) {
  return checks_placements() ? type_of(x, name).sharding : nullptr;
}

bool is_split(ir::TypeShardingPtr s, std::int64_t d) {
  return s != nullptr && !s->dims[static_cast<std::size_t>(d)].empty();
}
bool is_split(ir::TypeShardingPtr s) { return s != nullptr && s->split() != 0; }

Array typed_as(ir::TypeShardingPtr want, const std::function<Array()>& f) {
  if (want == nullptr) return f();
  if (Trace::current() == nullptr) {
    const Traced whole = trace([&](const std::vector<Array>&) { return std::vector<Array>{typed_as(want, f)}; }, {});
    return bind_graph(whole.graph, whole.captures, Loc::current())[0];
  }
  Trace* t = Trace::current();
  const std::size_t own = t->builder().graph().num_values();
  Array made;
  {
    LenientTyping lenient;
    made = f();
  }
  t->builder().set_loc(Loc::current());
  return t->wrap(ops::placed_as(t->lift(made, "placement"), want, own), "reshard", Loc::current());
}

ir::Value split_like(ir::Value x, ir::Value made) {
  if (x.type().sharding == nullptr || x.builder->typing() != ir::Typing::Strict) return made;
  ir::TypeSharding s = *x.type().sharding;
  s.unreduced = s.reduced = 0;
  return ops::placed_as(made, ir::intern(std::move(s)), 0);
}

ir::TypeShardingPtr broadcast_sharding(const char* name, const std::vector<Array>& in, const Shape& shape) {
  if (!checks_placements()) return nullptr;
  const AbstractMesh* mesh = nullptr;
  ir::DimAxes dims(shape.size());
  for (const Array& x : in) {
    const ir::Type t = type_of(x, name);
    if (t.sharding == nullptr) continue;
    if (t.sharding->marked()) return nullptr;
    mesh = &t.sharding->mesh;
    const std::size_t missing = shape.size() - t.shape.size();
    for (std::size_t d = 0; d < t.shape.size(); ++d) {
      const ir::AxisList& axes = t.sharding->dims[d];
      ir::AxisList& known = dims[missing + d];
      if (!axes.empty() && !known.empty() && known != axes) {
        throw ShardingTypeError(str(name, ": broadcasting: dimension ", missing + d, " of the operands is split over ",
                                    ir::axes_text(known, *mesh), " and over ", ir::axes_text(axes, *mesh),
                                    "; reshard an operand so that they agree"));
      }
      if (!axes.empty()) known = axes;
    }
  }
  return mesh == nullptr ? nullptr : ir::intern({*mesh, std::move(dims), 0, 0});
}

}  // namespace tessera::program
