// SPDX-License-Identifier: Apache-2.0
#include "numpy/placed.h"

#include "ops/shared_attrs.h"
#include "program/trace.h"

namespace tessera::program {

bool checks_placements() {
  Trace* t = Trace::current();
  return t != nullptr && t->builder().typing() == ir::Typing::Strict;
}

ir::TypeShardingPtr checked_sharding(const Array& x, const char* name) {
  return checks_placements() ? type_of(x, name).sharding : nullptr;
}

bool is_split(ir::TypeShardingPtr s, std::int64_t d) {
  return s != nullptr && !s->dims[static_cast<std::size_t>(d)].empty();
}
bool is_split(ir::TypeShardingPtr s) { return s != nullptr && s->split() != 0; }

Array typed_as(ir::TypeShardingPtr want, const std::function<Array()>& f) {
  Trace* t = Trace::current();
  if (t == nullptr || want == nullptr) return f();
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

}  // namespace tessera::program
