// SPDX-License-Identifier: Apache-2.0
#include "ir/graph.h"

#include <algorithm>

#include "base/hash.h"
#include "base/strings.h"
#include "ir/graph_text.h"
#include "ir/op_def.h"
#include "ir/rewriter.h"
#include "tessera/error.h"

namespace tessera::ir {

std::int64_t Type::size() const {
  // Beyond what any machine holds the count stands still, so that bytes stay countable and asking for them fails.
  constexpr std::int64_t kMost = std::int64_t{1} << 58;
  std::int64_t n = 1;
  for (auto d : shape) {
    if (d == 0) return 0;
    n = n > kMost / d ? kMost : n * d;
  }
  return n;
}
std::int64_t View::size() const {
  std::int64_t n = 1;
  for (auto d : shape) n *= d;
  return n;
}

Types Graph::input_types() const {
  Types out;
  for (auto v : inputs) out.push_back(type(v));
  return out;
}
Types Graph::output_types() const {
  Types out;
  for (auto v : outputs) out.push_back(type(v));
  return out;
}

bool equal(const Graph& a, const Graph& b) {
  if (a.types != b.types || a.inputs != b.inputs || a.outputs != b.outputs || a.eqns.size() != b.eqns.size() ||
      a.layouts != b.layouts || (a.mesh == nullptr) != (b.mesh == nullptr) || (a.mesh && !(*a.mesh == *b.mesh))) {
    return false;
  }
  for (std::size_t i = 0; i < a.eqns.size(); ++i) {
    const auto& x = a.eqns[i];
    const auto& y = b.eqns[i];
    if (x.op != y.op || x.in != y.in || x.out != y.out || !equal(x.attrs, y.attrs)) return false;
  }
  return true;
}

std::size_t hash_of(const Graph& g) {
  std::size_t h = base::hash_range(19, g.inputs);
  for (const auto& t : g.types) h = base::hash_mix(base::hash_range(h, t.shape), static_cast<std::size_t>(t.dtype));
  for (const auto& e : g.eqns) {
    h = base::hash_mix(h, std::hash<const void*>{}(e.op));
    h = base::hash_range(base::hash_range(h, e.in), e.out);
    h = base::hash_mix(h, hash_of(e.attrs));
  }
  return base::hash_range(h, g.outputs);
}

namespace {
[[noreturn]] void broken(const Graph& g, std::size_t at, const std::string& what) {
  ValueNames names;
  for (auto v : g.inputs) names(v);
  std::string around;
  for (std::size_t i = 0; i < g.eqns.size() && i < at + 10; ++i) {
    std::string line = eqn_text(g, g.eqns[i], names, TextForm::Short);
    if (i + 10 >= at) around += str(i == at ? "\n> " : "\n  ", line);
  }
  throw InternalError(str("verify: ", what, " at equation ", at, around));
}

Types inferred(const Graph& g, std::size_t at, TypeSpan in) {
  const Eqn& e = g.eqns[at];
  try {
    return e.op->infer(in, e.attrs);
  } catch (const Error& refusal) {
    broken(g, at, str("the operands are refused (", refusal.what(), ")"));
  }
}
}  // namespace

void verify(const Graph& g) {
  std::vector<bool> defined(g.num_values());
  auto define = [&](ValueId v, std::size_t at) {
    if (v < 0 || static_cast<std::size_t>(v) >= g.num_values()) broken(g, at, str("value ", v, " has no type"));
    if (defined[static_cast<std::size_t>(v)]) broken(g, at, str("value ", v, " is defined twice"));
    defined[static_cast<std::size_t>(v)] = true;
  };
  auto used = [&](ValueId v, std::size_t at) {
    if (v < 0 || static_cast<std::size_t>(v) >= g.num_values() || !defined[static_cast<std::size_t>(v)]) {
      broken(g, at, str("value ", v, " is used before it is defined"));
    }
  };
  if (g.mesh && g.layouts.size() != g.num_values()) broken(g, 0, "the count of layouts differs from that of values");
  for (auto v : g.inputs) define(v, 0);
  for (std::size_t i = 0; i < g.eqns.size(); ++i) {
    const auto& e = g.eqns[i];
    Types in;
    for (auto v : e.in) {
      used(v, i);
      in.push_back(g.type(v));
    }
    for (auto v : e.out) define(v, i);
    for (const auto& inner : e.op->subgraphs(e.attrs)) verify(*inner);
    Types want = inferred(g, i, in);
    if (want.size() != e.out.size()) broken(g, i, str(e.op->name(), " gives ", want.size(), " results"));
    for (std::size_t k = 0; k < want.size(); ++k) {
      const Type& got = g.type(e.out[k]);
      if (got.dtype != want[k].dtype || got.shape != want[k].shape) {
        broken(g, i, str("result ", k, " is ", got, ", expected ", want[k]));
      }
    }
  }
  for (auto v : g.outputs) used(v, g.eqns.size());
}

std::vector<std::int32_t> last_uses(const Graph& g) {
  std::vector<std::int32_t> last(g.num_values(), -1);
  for (std::size_t i = 0; i < g.eqns.size(); ++i) {
    for (auto v : g.eqns[i].in) last[static_cast<std::size_t>(v)] = static_cast<std::int32_t>(i);
  }
  for (auto v : g.outputs) last[static_cast<std::size_t>(v)] = static_cast<std::int32_t>(g.eqns.size());
  return last;
}

bool has_effect(const Eqn& e) {
  if (e.op->traits().effect) return true;
  auto inner = e.op->subgraphs(e.attrs);
  return std::any_of(inner.begin(), inner.end(), [](const GraphPtr& g) { return has_effect(*g); });
}
bool has_effect(const Graph& g) {
  return std::any_of(g.eqns.begin(), g.eqns.end(), [](const Eqn& e) { return has_effect(e); });
}

Graph eliminate_dead(const Graph& g) {
  Graph out = g;
  prune(out);
  return out;
}

}  // namespace tessera::ir
