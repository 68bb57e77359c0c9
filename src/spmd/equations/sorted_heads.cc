// SPDX-License-Identifier: Apache-2.0
#include "spmd/equations/sorted_heads.h"

#include <algorithm>
#include <map>
#include <optional>

#include "ir/op_def.h"
#include "ir/rewriter.h"
#include "ops/control/subgraph_structure.h"
#include "ops/define_op.h"
#include "ops/reduce/sorting.h"
#include "ops/shared_attrs.h"
#include "spmd/late_completion.h"

namespace tessera::spmd {

namespace {

using ir::Values;

bool has_sort(const ir::Graph& g) {
  return std::ranges::any_of(g.eqns, [](const ir::Eqn& e) {
    if (e.op == &ops::def::sort) return true;
    auto control = ops::control_of(e);
    return control && std::ranges::any_of(control->bodies, [](const auto& b) { return has_sort(*b.graph); });
  });
}

// How many elements along the dimension of a sort are read of its results: the same number of each, by slices from the
// beginning. Nothing for other sorts.
std::optional<std::int64_t> elements_read(const ir::Graph& g, const GraphUses& uses, const ir::Eqn& sort) {
  const auto d = static_cast<std::size_t>(ir::get<ops::Sort>(sort.attrs).dimension);
  std::optional<std::int64_t> read;
  for (auto v : sort.out) {
    if (uses.returned(v)) return std::nullopt;
    for (const Use& use : uses.of(v)) {
      if (use.eqn->op != &ops::def::slice) return std::nullopt;
      const auto& p = ir::get<ops::StaticSlice>(use.eqn->attrs);
      Shape head = g.type(v).shape;
      head[d] = p.limits[d];
      const bool from_the_first = std::ranges::all_of(p.starts, [](auto n) { return n == 0; }) &&
                                  std::ranges::all_of(p.strides, [](auto n) { return n == 1; });
      if (!from_the_first || p.limits != head || (read && *read != head[d])) return std::nullopt;
      read = head[d];
    }
  }
  return read;
}

// The greatest of a line are found in one pass over it, as long as they are few.
constexpr std::int64_t kFew = 4;

std::optional<std::int64_t> elements_wanted(const ir::Graph& g, const GraphUses& uses, const ir::Eqn& e) {
  if (e.op != &ops::def::sort) return std::nullopt;
  const auto& p = ir::get<ops::Sort>(e.attrs);
  const ir::Type& key = g.type(e.in[0]);
  if (p.num_keys != 1 || !is_integer(key.dtype)) return std::nullopt;
  const auto read = elements_read(g, uses, e);
  const bool few = read && *read > 0 && *read <= key.shape[static_cast<std::size_t>(p.dimension)] / kFew;
  return few ? read : std::nullopt;
}

// 0, 1, ... along the dimension.
bool counts_along(const ir::Eqn* e, std::int64_t dimension) {
  if (e == nullptr || e->op != &ops::def::iota) return false;
  const auto& p = ir::get<ops::Iota>(e->attrs);
  return p.start == 0 && p.dimension == dimension && is_integer(p.dtype) && dtype_size(p.dtype) >= 4;
}

}  // namespace

ir::GraphPtr with_sorted_heads(const ir::GraphPtr& graph) {
  if (!has_sort(*graph)) return graph;
  const GraphUses uses(*graph);
  std::map<ir::ValueId, ir::Value> heads;  // by result of a sort
  ir::Builder b;
  ir::Rewriter r(b, *graph);
  r.add_inputs();
  bool changed = false;
  r.walk([&](const ir::Eqn& e, const Values& in) {
    if (auto control = ops::control_of(e)) {
      std::vector<ir::GraphPtr> bodies;
      for (const auto& body : control->bodies) bodies.push_back(with_sorted_heads(body.graph));
      for (std::size_t i = 0; i < bodies.size(); ++i) changed = changed || bodies[i] != control->bodies[i].graph;
      return r.copy(e, in, ops::with_bodies(e, bodies));
    }
    if (const auto k = elements_wanted(*graph, uses, e)) {
      const std::int64_t d = ir::get<ops::Sort>(e.attrs).dimension;
      const Values greatest = ops::top_k(ops::not_(in[0]), *k, d);  // not x is the order of -x
      for (std::size_t i = 0; i < in.size(); ++i) {
        if (uses.of(e.out[i]).empty()) continue;
        const bool places = counts_along(uses.maker(e.in[i]), d);
        heads[e.out[i]] = i == 0   ? ops::not_(greatest[0])
                          : places ? ops::convert(greatest[1], in[i].dtype())
                                   : ops::take_along(in[i], greatest[1], d);
      }
      changed = true;
      return Values(in.size());
    }
    if (auto head = e.op == &ops::def::slice ? heads.find(e.in[0]) : heads.end(); head != heads.end())
      return Values{head->second};
    return r.copy(e, in);
  });
  return changed ? r.finish("with_sorted_heads") : graph;
}

}  // namespace tessera::spmd
