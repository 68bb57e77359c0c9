// SPDX-License-Identifier: Apache-2.0
#include "spmd/equations/makers_and_readers.h"

#include "ir/op_def.h"
#include "ops/define_op.h"
#include "ops/transform/interpret.h"

namespace tessera::spmd {

MakersAndReaders::MakersAndReaders(const ir::Graph& g)
    : graph_(g), maker_(g.num_values(), nullptr), readers_(g.num_values()) {
  for (const auto& e : g.eqns) {
    for (auto v : e.out) maker_[at(v)] = &e;
    for (auto v : e.in) readers_[at(v)].push_back(&e);
  }
  for (auto v : g.outputs) readers_[at(v)].push_back(nullptr);
}

const ir::Eqn* MakersAndReaders::constant_of(ir::ValueId v) const {
  const ir::Eqn* e = maker(v);
  while (e != nullptr && e->op == &ops::def::broadcast_in_dim) e = maker(e->in[0]);
  return e != nullptr && e->op == &ops::def::constant ? e : nullptr;
}

std::optional<std::int64_t> MakersAndReaders::number_of(ir::ValueId v) const {
  const ir::Eqn* e = constant_of(v);
  if (e == nullptr || !is_integer(type(v).dtype) || type(e->out[0]).rank() != 0) return std::nullopt;
  if (type(v).dtype == DType::U64) return std::nullopt;  // which 63 bits may not hold
  return ops::interpret(*e->op, {}, e->attrs)[0].astype(DType::I64).span<std::int64_t>()[0];
}

}  // namespace tessera::spmd
