// SPDX-License-Identifier: Apache-2.0
#include "ops/control/trip_count.h"

#include <algorithm>
#include <limits>

#include "core/integer_range.h"
#include "ops/define_op.h"
#include "ops/shared_attrs.h"
#include "ops/transform/interpret.h"

namespace tessera::ops {

namespace {

const ir::Eqn* maker_of(const ir::Graph& g, ir::ValueId v) {
  auto makes = [&](const ir::Eqn& e) { return std::ranges::find(e.out, v) != e.out.end(); };
  auto it = std::ranges::find_if(g.eqns, makes);
  return it == g.eqns.end() ? nullptr : &*it;
}

std::optional<std::size_t> input_number(const ir::Graph& g, ir::ValueId v) {
  auto it = std::ranges::find(g.inputs, v);
  if (it == g.inputs.end()) return std::nullopt;
  return static_cast<std::size_t>(it - g.inputs.begin());
}

std::optional<std::int64_t> constant_of(const ir::Graph& g, ir::ValueId v) {
  const Type& type = g.type(v);
  if (!is_integer(type.dtype) || !type.shape.empty()) return std::nullopt;
  const ir::Eqn* e = maker_of(g, v);
  while (e != nullptr && e->op == &def::reshard) {
    v = e->in[static_cast<std::size_t>(std::ranges::find(e->out, v) - e->out.begin())];
    e = maker_of(g, v);
  }
  if (e == nullptr || e->op != &def::constant) return std::nullopt;
  HostArray value = interpret(*e->op, {}, e->attrs)[0];
  if (value.dtype() == DType::U64) return std::nullopt;
  return value.astype(DType::I64).span<std::int64_t>()[0];
}

// A loop and the graph that it is in.
struct Loop {
  const ir::Graph& outside;
  const ir::Eqn& eqn;
  const While& p;

  std::size_t consts() const { return at(p.cond_consts + p.body_consts); }
  std::optional<std::size_t> variable(const ir::Graph& inside, ir::ValueId v) const {
    auto input = input_number(inside, v);
    std::size_t own = at(&inside == p.cond.get() ? p.cond_consts : p.body_consts);
    return input && *input >= own ? std::optional(*input - own) : std::nullopt;
  }
  // Inputs are known where they are constants of the loop, or variables that every round leaves as they are.
  std::optional<std::int64_t> number(const ir::Graph& inside, ir::ValueId v) const {
    auto input = input_number(inside, v);
    if (!input) return constant_of(inside, v);
    auto changing = variable(inside, v);
    if (!changing) return constant_of(outside, eqn.in[&inside == p.cond.get() ? *input : at(p.cond_consts) + *input]);
    bool stays = p.body->outputs[*changing] == p.body->inputs[at(p.body_consts) + *changing];
    return stays ? constant_of(outside, eqn.in[consts() + *changing]) : std::nullopt;
  }
};

}  // namespace

std::optional<std::int64_t> trip_count(const ir::Graph& g, const ir::Eqn& e) {
  const auto* p = e.attrs ? ir::get_if<While>(e.attrs) : nullptr;
  if (p == nullptr) return std::nullopt;
  Loop loop{g, e, *p};
  const ir::Eqn* test = maker_of(*p->cond, p->cond->outputs[0]);
  if (test == nullptr || (test->op != &def::lt && test->op != &def::gt)) return std::nullopt;
  bool less = test->op == &def::lt;
  auto counter = loop.variable(*p->cond, test->in[less ? 0 : 1]);
  auto limit = loop.number(*p->cond, test->in[less ? 1 : 0]);
  if (!counter || !limit) return std::nullopt;
  const ir::Eqn* next = maker_of(*p->body, p->body->outputs[*counter]);
  if (next == nullptr || next->op != &def::add) return std::nullopt;
  std::size_t side = loop.variable(*p->body, next->in[0]) == counter ? 0 : 1;
  if (loop.variable(*p->body, next->in[side]) != counter) return std::nullopt;
  auto step = loop.number(*p->body, next->in[1 - side]);
  auto first = constant_of(g, e.in[loop.consts() + *counter]);
  if (!step || !first || *step <= 0) return std::nullopt;
  if (*first >= *limit) return 0;
  // Beyond the largest number the counter would begin again below the limit.
  if (*limit - 1 > core::largest_integer(g.type(e.in[loop.consts() + *counter]).dtype) - *step) return std::nullopt;
  auto distance = static_cast<std::uint64_t>(*limit) - static_cast<std::uint64_t>(*first);
  auto rounds = (distance - 1) / static_cast<std::uint64_t>(*step) + 1;
  if (rounds > static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max())) return std::nullopt;
  return static_cast<std::int64_t>(rounds);
}

}  // namespace tessera::ops
