// SPDX-License-Identifier: Apache-2.0
#include "spmd/equations/known_constants.h"

#include "ir/op_def.h"
#include "ops/define_op.h"
#include "ops/transform/interpret.h"

namespace tessera::spmd {

const ir::Eqn* constant_of(const GraphUses& uses, ir::ValueId v) {
  const ir::Eqn* e = uses.maker(v);
  while (e != nullptr && e->op == &ops::def::broadcast_in_dim) e = uses.maker(e->in[0]);
  return e != nullptr && e->op == &ops::def::constant ? e : nullptr;
}

std::optional<std::int64_t> number_of(const ir::Graph& g, const GraphUses& uses, ir::ValueId v) {
  const ir::Eqn* e = constant_of(uses, v);
  if (e == nullptr || !is_integer(g.type(v).dtype) || g.type(e->out[0]).rank() != 0) return std::nullopt;
  if (g.type(v).dtype == DType::U64) return std::nullopt;  // which 63 bits may not hold
  return ops::interpret(*e->op, {}, e->attrs)[0].astype(DType::I64).span<std::int64_t>()[0];
}

}  // namespace tessera::spmd
