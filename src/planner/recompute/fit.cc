// SPDX-License-Identifier: Apache-2.0
#include "planner/recompute/fit.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "ir/op_def.h"
#include "ops/ops.h"
#include "planner/recompute/choice.h"

namespace tessera::planner {

namespace {

constexpr int kMostChecks = 4;

// Of collectives how long they take, whether or not the device waits: once more they might be in the way of others.
std::vector<double> seconds_by_equation(const PlanPricer& pricer, const ir::Graph& partitioned) {
  std::vector<double> out(partitioned.eqns.size());
  for (const auto& event : pricer.timeline_of(*tagged(partitioned)).events) {
    if (const auto i = tag_of(event.loc)) out[*i] += event.seconds;
  }
  return out;
}

// What partitioning takes for the value itself: that with a constraint on it.
std::vector<Recomputation> with_constrained(const ir::Graph& program, std::vector<Recomputation> list) {
  for (const auto& e : program.eqns) {
    if (e.op != &ops::def::sharding_constraint) continue;
    const std::size_t count = list.size();
    for (std::size_t i = 0; i < count; ++i) {
      if (list[i].value == e.in[0]) list.push_back({e.out[0], list[i].after, false});
    }
  }
  return list;
}

std::vector<RecomputedValues> report(const ir::Graph& program, const std::vector<FreedValue>& freed) {
  std::vector<const ir::Eqn*> makers(program.num_values());
  for (const auto& e : program.eqns) {
    for (auto v : e.out) makers[static_cast<std::size_t>(v)] = &e;
  }
  std::vector<RecomputedValues> out;
  std::map<std::tuple<std::string, std::string, bool>, std::size_t> index;
  for (const auto& f : freed) {
    const ir::Eqn* e = makers[static_cast<std::size_t>(f.value)];
    RecomputedValues one{e ? std::string(e->op->name()) : "argument", e ? e->loc : Loc{}, program.type(f.value)};
    one.copies = f.copies;
    auto [it, added] = index.try_emplace({one.op, to_string(one.type), f.copies}, out.size());
    if (added) out.push_back(std::move(one));
    RecomputedValues& all = out[it->second];
    ++all.count;
    all.bytes += f.bytes;
    all.seconds += f.seconds;
  }
  std::ranges::stable_sort(out, std::greater(), &RecomputedValues::bytes);
  return out;
}

}  // namespace

Fitted fit(const PlanPricer& exact, const Chosen& chosen) {
  const ir::GraphPtr program = exact.constrained(chosen);
  const ir::GraphPtr partitioned = exact.partitioned(chosen, tagged(*program));
  Fitted out;
  out.kept = exact.price_of(*partitioned);
  out.price = out.kept;
  if (exact.fits(out.kept)) return out;
  const ReplayProgram steps = replay_program(*program, *partitioned, seconds_by_equation(exact, *partitioned));
  std::int64_t limit = exact.limit() - (out.kept.memory - Replay(steps, {}).most());  // of temporary bytes
  std::vector<FreedValue> freed;
  for (int i = 0; i < kMostChecks; ++i) {
    freed = choose_recomputations(steps, limit, std::move(freed));
    if (freed.empty()) break;
    const std::vector<Recomputation> again = with_constrained(*program, recomputations(freed));
    const Price price = exact.price_of(*exact.partitioned(chosen, with_recomputations(program, again)));
    if (exact.better(price, out.price)) {
      out.again = again;
      out.recomputed = report(*program, freed);
      out.price = price;
    }
    if (exact.fits(price) || Replay(steps, recomputations(freed)).most() > limit) break;
    limit -= price.memory - exact.limit();
  }
  return out;
}

}  // namespace tessera::planner
