// SPDX-License-Identifier: Apache-2.0
#include "program/typed/hidden_communication.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "ir/derive_sharding.h"
#include "ops/shared_attrs.h"
#include "tessera/error.h"
#include "tessera/explicit_sharding.h"

namespace tessera {

namespace {
thread_local int guards = 0;
}

NoHiddenCommunication::NoHiddenCommunication() { ++guards; }
NoHiddenCommunication::~NoHiddenCommunication() { --guards; }
bool NoHiddenCommunication::current() { return guards > 0; }

namespace program {

namespace {

using Line = std::tuple<std::string, std::uint32_t, const std::string*>;
Line line_of(const Loc& loc) { return {loc.file != nullptr ? loc.file : "", loc.line, loc.scope}; }

bool is_split(const ir::Type& t, std::size_t d) { return t.sharding != nullptr && !t.sharding->dims[d].empty(); }

// Whether a dimension is split that the op sums over, or works along.
bool works_along_split(const ir::Eqn& e, const ir::Types& in, const ir::Types& out) {
  const ir::FactorRule rule = e.op->factors(in, out, e.attrs);
  for (std::size_t i = 0; i < rule.operands.size(); ++i) {
    for (std::size_t d = 0; d < rule.operands[i].size(); ++d) {
      if (!is_split(in[i], d)) continue;
      const auto& factors = rule.operands[i][d];
      const bool whole = factors.empty() || std::ranges::any_of(factors, [&](int f) {
                           return rule.factors[static_cast<std::size_t>(f)].kind == ir::Factor::Kind::Whole;
                         });
      const bool summed = std::ranges::any_of(
          factors, [&](int f) { return rule.factors[static_cast<std::size_t>(f)].kind == ir::Factor::Kind::Reduce; });
      if (summed || (whole && e.op->traits().whole_entry != ir::WholeEntry::Refused)) return true;
    }
  }
  return false;
}

bool placed_otherwise(const ir::Eqn& e, const ir::Types& in, const ir::Types& out) {
  ir::Types derived = e.op->infer(in, e.attrs);
  try {
    ir::derive_shardings(*e.op, in, derived, e.attrs, ir::Typing::Strict);
  } catch (const Error&) {
    return true;
  }
  for (std::size_t k = 0; k < out.size(); ++k) {
    if (!ir::same_sharding(derived[k], out[k])) return true;
  }
  return false;
}

bool states(const ir::Graph& g, const ir::Eqn& e) {
  const auto* constraint = ir::get_if<ops::ShardingConstraint>(e.attrs);
  if (e.op->traits().collective || constraint != nullptr || e.op == &ops::def::mesh_cast) return true;
  ir::Types in, out;
  for (auto v : e.in) in.push_back(g.type(v));
  for (auto v : e.out) out.push_back(g.type(v));
  if (std::ranges::any_of(out, [](const ir::Type& t) { return t.sharding == nullptr; })) return true;
  if (!e.op->subgraphs(e.attrs).empty()) return false;  // what is inside states for itself
  return works_along_split(e, in, out) || placed_otherwise(e, in, out);
}

void collect(const ir::Graph& g, std::set<Line>& stated) {
  for (const auto& e : g.eqns) {
    if (states(g, e)) stated.insert(line_of(e.loc));
    for (const auto& sub : e.op->subgraphs(e.attrs)) collect(*sub, stated);
  }
}

}  // namespace

std::vector<CommStep> hidden_steps(const ir::Graph& typed, const CommPlan& plan) {
  std::set<Line> stated;
  collect(typed, stated);
  std::vector<CommStep> out;
  for (const auto& step : plan.steps()) {
    if (!stated.contains(line_of(step.loc))) out.push_back(step);
  }
  return out;
}

}  // namespace program
}  // namespace tessera
