// SPDX-License-Identifier: Apache-2.0
#include "ir/rewriter.h"

#include <algorithm>

#include "base/check.h"
#include "base/strings.h"
#include "ir/op_def.h"
#include "ir/pass.h"

namespace tessera::ir {

void Rewriter::add_inputs() {
  if (from_.mesh) to_.set_mesh(from_.mesh);
  for (auto v : from_.inputs) {
    bind(v, to_.input(from_.type(v)));
    if (!from_.layouts.empty()) to_.set_layout((*this)[v], from_.layout(v));
  }
}

void Rewriter::bind(std::span<const ValueId> old, ValueSpan values) {
  TESSERA_CHECK(old.size() == values.size(), str(values.size(), " values for ", old.size()));
  for (std::size_t i = 0; i < old.size(); ++i) bind(old[i], values[i]);
}

Values Rewriter::of(std::span<const ValueId> old) const {
  Values out;
  out.reserve(old.size());
  for (auto v : old) out.push_back((*this)[v]);
  return out;
}

Values Rewriter::copy(const Eqn& e, ValueSpan in, Attrs attrs) {
  for (const auto& v : in) TESSERA_CHECK(v.builder == &to_, str("an operand of ", e.op->name(), " has no value here"));
  to_.set_loc(line_of(e));
  Types types;
  types.reserve(e.out.size());
  for (auto v : e.out) types.push_back(from_.type(v));
  Values out = to_.add_typed(*e.op, in, std::move(attrs), std::move(types));
  for (std::size_t i = 0; i < out.size() && !from_.layouts.empty(); ++i) to_.set_layout(out[i], from_.layout(e.out[i]));
  return out;
}

void Rewriter::copy(const Eqn& e) { bind(e.out, copy(e, of(e.in))); }

void Rewriter::walk(const Rule& rule) {
  Values in;
  for (const auto& e : from_.eqns) {
    in.clear();
    for (auto v : e.in) in.push_back((*this)[v]);
    to_.set_loc(line_of(e));
    bind(e.out, rule(e, in));
  }
  to_.set_loc(before_);
}

void Rewriter::walk() {
  for (const auto& e : from_.eqns) copy(e);
  to_.set_loc(before_);
}

GraphPtr Rewriter::finish(const char* pass) { return after_pass(pass, to_.finish_shared(outputs())); }

GraphPtr part_of(const Graph& g, std::span<const ValueId> inputs, const std::vector<bool>& keep,
                 std::span<const ValueId> outputs) {
  Builder b;
  Rewriter r(b, g);
  for (auto v : inputs) r.bind(v, b.input(g.type(v)));
  for (std::size_t i = 0; i < g.eqns.size(); ++i) {
    if (keep[i]) r.copy(g.eqns[i]);
  }
  return b.finish_shared(r.of(outputs));
}

namespace {

// By equation, whether its results, or an effect, are needed.
std::vector<bool> needed_equations(const Graph& g) {
  std::vector<bool> needed(g.num_values());
  for (auto v : g.outputs) needed[static_cast<std::size_t>(v)] = true;
  std::vector<bool> keep(g.eqns.size());
  for (std::size_t i = g.eqns.size(); i-- > 0;) {
    const auto& e = g.eqns[i];
    bool want = has_effect(e);
    for (auto v : e.out) want = want || needed[static_cast<std::size_t>(v)];
    keep[i] = want;
    if (!want) continue;
    for (auto v : e.in) needed[static_cast<std::size_t>(v)] = true;
  }
  return keep;
}

bool numbered_in_order(const Graph& g) {
  ValueId next = 0;
  bool in_order = true;
  for (auto v : g.inputs) in_order = in_order && v == next++;
  for (const auto& e : g.eqns) {
    for (auto v : e.out) in_order = in_order && v == next++;
  }
  return in_order && static_cast<std::size_t>(next) == g.num_values();
}

}  // namespace

void prune(Graph& g) {
  const std::vector<bool> keep = needed_equations(g);
  const auto dead = std::count(keep.begin(), keep.end(), false);
  if (dead == 0 && numbered_in_order(g)) return;
  std::vector<ValueId> number(g.num_values(), -1);
  std::vector<Type> types;
  std::vector<Layout> layouts;
  auto renumber = [&](ValueId& v) { v = number[static_cast<std::size_t>(v)]; };
  auto define = [&](ValueId& v) {
    const auto old = static_cast<std::size_t>(v);
    v = number[old] = static_cast<ValueId>(types.size());
    types.push_back(std::move(g.types[old]));
    if (!g.layouts.empty()) layouts.push_back(std::move(g.layouts[old]));
  };
  for (auto& v : g.inputs) define(v);
  std::vector<Eqn> eqns;
  eqns.reserve(g.eqns.size() - static_cast<std::size_t>(dead));
  for (std::size_t i = 0; i < g.eqns.size(); ++i) {
    if (!keep[i]) continue;
    Eqn& e = eqns.emplace_back(std::move(g.eqns[i]));
    for (auto& v : e.in) renumber(v);
    for (auto& v : e.out) define(v);
  }
  for (auto& v : g.outputs) renumber(v);
  g.types = std::move(types);
  g.layouts = std::move(layouts);
  g.eqns = std::move(eqns);
}

}  // namespace tessera::ir
