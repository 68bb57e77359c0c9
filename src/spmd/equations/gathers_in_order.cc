// SPDX-License-Identifier: Apache-2.0
#include "spmd/equations/gathers_in_order.h"

#include <algorithm>
#include <map>
#include <optional>

#include "core/integer_range.h"
#include "ir/op_def.h"
#include "ir/rewriter.h"
#include "ops/control/subgraph_structure.h"
#include "ops/define_op.h"
#include "ops/reduce/sorting.h"
#include "ops/shape/indexing_ops.h"
#include "ops/shared_attrs.h"
#include "spmd/equations/known_constants.h"

namespace tessera::spmd {

namespace {

using ir::ValueId;
using ir::Values;

// What is known of a graph's values, found from the first equation to the last.
class OrderFinder {
 public:
  explicit OrderFinder(const ir::Graph& g) : g_(g), uses_(g), known_(g.num_values()) {
    for (std::size_t v = 0; v < known_.size(); ++v) known_[v].elements = static_cast<ValueId>(v);
    for (std::size_t i = 0; i < g.eqns.size(); ++i) {
      number_.emplace(&g.eqns[i], i);
      look_at(g.eqns[i]);
    }
  }

  /// The sort in whose order the equation gathers an array that is there before it; null for others.
  const ir::Eqn* sort_of_gather(const ir::Eqn& e) const {
    if (e.op != &ops::def::gather) return nullptr;
    const ir::Eqn* sort = known(e.in[1]).order;
    if (sort == nullptr || !picks_lines(e, *sort)) return nullptr;
    const ir::Eqn* made = uses_.maker(e.in[0]);
    return made != nullptr && number_.at(made) >= number_.at(sort) ? nullptr : sort;
  }
  /// The first value that has the elements of `v` in the same order.
  ValueId elements(ValueId v) const { return known(v).elements; }
  /// What a mask is at all places, where it asks whether places are inside of their line.
  std::optional<bool> decided(ValueId mask) const { return known(mask).mask; }

 private:
  struct Known {
    ValueId elements = 0;
    const ir::Eqn* order =
        nullptr;  // the sort whose permutation it is, as [..., n, ...] or with a dimension of one element behind
    std::optional<std::int64_t> places_along;  // 0, 1, ... along this dimension and nothing else
    std::optional<bool> mask;
  };

  const Known& known(ValueId v) const { return known_[static_cast<std::size_t>(v)]; }
  const Shape& shape(ValueId v) const { return g_.type(v).shape; }
  static const ops::Sort& attrs_of(const ir::Eqn& sort) { return ir::get<ops::Sort>(sort.attrs); }
  std::int64_t last_place(const ir::Eqn& sort) const {
    return shape(sort.in[0])[static_cast<std::size_t>(attrs_of(sort).dimension)] - 1;
  }

  void look_at(const ir::Eqn& e) {
    if (e.out.empty()) return;
    Known& k = known_[static_cast<std::size_t>(e.out[0])];
    if (e.op == &ops::def::sort) return look_at_sort(e);
    if (e.op == &ops::def::iota) {
      const auto& p = ir::get<ops::Iota>(e.attrs);
      const std::int64_t last = p.shape[static_cast<std::size_t>(p.dimension)] - 1;
      if (p.start == 0 && is_integer(p.dtype) && last <= core::largest_integer(p.dtype)) k.places_along = p.dimension;
    } else if (e.op == &ops::def::convert) {
      look_at_conversion(e, k);
    } else if (e.op == &ops::def::select_n) {
      if (const auto taken = decided(e.in[0])) k.order = known(e.in[*taken ? 2 : 1]).order;
    } else if (e.op == &ops::def::and_) {
      const auto x = decided(e.in[0]), y = decided(e.in[1]);
      if (x == false || y == false) k.mask = false;
      if (x == true && y == true) k.mask = true;
    } else if (e.op == &ops::def::reduce_and) {
      k.mask = decided(e.in[0]);
    } else if (e.op == &ops::def::broadcast_in_dim || e.op == &ops::def::reshape || e.op == &ops::def::slice ||
               e.op == &ops::def::transpose || e.op == &ops::def::rev) {
      look_at_move(e, k);
    } else {
      k.mask = compared(e);
    }
  }

  void look_at_sort(const ir::Eqn& e) {
    const std::int64_t d = ir::get<ops::Sort>(e.attrs).dimension;
    for (std::size_t i = 0; i < e.out.size(); ++i) {
      if (known(e.in[i]).places_along == d) known_[static_cast<std::size_t>(e.out[i])].order = &e;
    }
  }

  void look_at_conversion(const ir::Eqn& e, Known& k) const {
    const Known& from = known(e.in[0]);
    if (!is_integer(g_.type(e.out[0]).dtype)) return;
    const std::int64_t most = core::largest_integer(g_.type(e.out[0]).dtype);
    if (from.order != nullptr && last_place(*from.order) <= most) k.order = from.order;
    if (from.places_along && shape(e.in[0])[static_cast<std::size_t>(*from.places_along)] - 1 <= most)
      k.places_along = from.places_along;
  }

  void look_at_move(const ir::Eqn& e, Known& k) const {
    const Known& from = known(e.in[0]);
    const Dims* dims = e.op == &ops::def::broadcast_in_dim ? &ir::get<ops::BroadcastInDim>(e.attrs).dims : nullptr;
    k.mask = from.mask;
    if (dims != nullptr && from.places_along) {
      const auto own = static_cast<std::size_t>(*from.places_along);
      const std::int64_t to = (*dims)[own];
      if (shape(e.in[0])[own] == shape(e.out[0])[static_cast<std::size_t>(to)]) k.places_along = to;
    }
    if (!keeps_elements(e, dims)) return;
    k.elements = from.elements;
    if (from.order == nullptr) return;
    Shape whole = shape(from.order->in[0]);
    const bool same = shape(e.out[0]) == whole;
    whole.push_back(1);
    if (same || shape(e.out[0]) == whole) k.order = from.order;
  }
  // Whether only dimensions of one element come, go and change places.
  bool keeps_elements(const ir::Eqn& e, const Dims* broadcast) const {
    const Shape& from = shape(e.in[0]);
    auto without_ones = [](Shape s) {
      std::erase(s, 1);
      return s;
    };
    if (without_ones(from) != without_ones(shape(e.out[0]))) return false;
    auto longer = [&](std::int64_t d) { return from[static_cast<std::size_t>(d)] != 1; };
    if (e.op == &ops::def::rev) return std::ranges::none_of(ir::get<ops::Rev>(e.attrs).dimensions, longer);
    if (broadcast != nullptr) return std::ranges::is_sorted(*broadcast);
    if (e.op != &ops::def::transpose) return true;
    Dims order = ir::get<ops::Transpose>(e.attrs).permutation;
    std::erase_if(order, [&](std::int64_t d) { return !longer(d); });
    return std::ranges::is_sorted(order);
  }

  // A comparison of places with a number.
  std::optional<bool> compared(const ir::Eqn& e) const {
    const bool less = e.op == &ops::def::lt, at_most = e.op == &ops::def::le;
    const bool at_least = e.op == &ops::def::ge, more = e.op == &ops::def::gt;
    if (!less && !at_most && !at_least && !more) return std::nullopt;
    const ir::Eqn* order = known(e.in[0]).order;
    const auto limit = order != nullptr ? number_of(g_, uses_, e.in[1]) : std::nullopt;
    if (!limit) return std::nullopt;
    // Whether all places are below the limit, or none; of at_most and more, below the number after it.
    const bool below = less || at_most;
    const bool all = less || at_least ? last_place(*order) < *limit : last_place(*order) <= *limit;
    const bool none = less || at_least ? *limit <= 0 : *limit < 0;
    if (none) return !below;
    return all ? std::optional(below) : std::nullopt;
  }

  // Whether a gather picks one element of its own line for each place of the permutation.
  bool picks_lines(const ir::Eqn& e, const ir::Eqn& sort) const {
    const auto& p = ir::get<ops::Gather>(e.attrs);
    const ir::Type& array = g_.type(e.in[0]);
    const ir::Type& sorted = g_.type(sort.in[0]);
    const std::int64_t d = attrs_of(sort).dimension;
    if (array.shape != sorted.shape || array.sharding != sorted.sharding) return false;
    if (!(array == g_.type(e.out[0]))) return false;
    Dims others;
    for (std::int64_t i = 0; i < array.rank(); ++i) {
      if (i != d) others.push_back(i);
    }
    Shape indices = array.shape;
    indices.push_back(1);
    return shape(e.in[1]) == indices && p.offset_dims.empty() && p.collapsed_slice_dims == Dims{d} &&
           p.start_index_map == Dims{d} && p.operand_batching_dims == others && p.indices_batching_dims == others;
  }

  const ir::Graph& g_;
  GraphUses uses_;
  std::vector<Known> known_;  // by value
  std::map<const ir::Eqn*, std::size_t> number_;
};

bool has_op(const ir::Graph& g, const ir::OpDef& op) {
  return std::ranges::any_of(g.eqns, [&](const ir::Eqn& e) { return e.op == &op; });
}

bool may_be_in_order(const ir::Graph& g) {
  if (has_op(g, ops::def::sort) && has_op(g, ops::def::gather)) return true;
  return std::ranges::any_of(g.eqns, [](const ir::Eqn& e) {
    auto control = ops::control_of(e);
    return control && std::ranges::any_of(control->bodies, [](const auto& b) { return may_be_in_order(*b.graph); });
  });
}

// What a sort gets beside its operands, and where results of it stand.
struct WiderSort {
  std::vector<ValueId> further;
  std::map<ValueId, std::size_t> result;  // by array
  Values written;
};

// Of each sort the operands that decide, and those of which the results are read.
ir::GraphPtr without_unread_operands(const ir::GraphPtr& graph) {
  const GraphUses uses(*graph);
  ir::Builder b;
  ir::Rewriter r(b, *graph);
  r.add_inputs();
  r.walk([&](const ir::Eqn& e, const Values& in) {
    if (e.op != &ops::def::sort) return r.copy(e, in);
    const auto& p = ir::get<ops::Sort>(e.attrs);
    std::vector<std::size_t> kept;
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (static_cast<std::int64_t>(i) < p.num_keys || uses.returned(e.out[i]) || !uses.of(e.out[i]).empty())
        kept.push_back(i);
    }
    if (kept.size() == in.size()) return r.copy(e, in);
    Values operands;
    for (auto i : kept) operands.push_back(in[i]);
    const Values sorted = ops::sort(operands, p.dimension, p.num_keys, p.stable);
    Values out(in.size());
    for (std::size_t i = 0; i < kept.size(); ++i) out[kept[i]] = sorted[i];
    return out;
  });
  return r.finish("without_unread_operands");
}

}  // namespace

ir::GraphPtr with_gathers_in_order(const ir::GraphPtr& graph) {
  if (!may_be_in_order(*graph)) return graph;
  const OrderFinder found(*graph);
  std::map<const ir::Eqn*, WiderSort> sorts;
  for (const auto& e : graph->eqns) {
    const ir::Eqn* sort = found.sort_of_gather(e);
    if (sort == nullptr) continue;
    const ValueId array = e.in[0];
    WiderSort& s = sorts[sort];
    if (s.result.contains(array)) continue;
    const auto& operands = sort->in;
    auto same = [&](ValueId v) {
      return found.elements(v) == found.elements(array) && graph->type(v) == graph->type(array);
    };
    const auto operand = std::ranges::find_if(operands, same);
    const bool further = operand == operands.end();
    s.result[array] = static_cast<std::size_t>(operand - operands.begin()) + (further ? s.further.size() : 0);
    if (further) s.further.push_back(array);
  }
  auto nests = [](const ir::Eqn& e) { return ops::control_of(e).has_value(); };
  if (sorts.empty() && std::ranges::none_of(graph->eqns, nests)) return graph;
  ir::Builder b;
  ir::Rewriter r(b, *graph);
  r.add_inputs();
  r.walk([&](const ir::Eqn& e, const Values& in) {
    if (auto control = ops::control_of(e)) {
      std::vector<ir::GraphPtr> bodies;
      for (const auto& body : control->bodies) bodies.push_back(with_gathers_in_order(body.graph));
      return r.copy(e, in, ops::with_bodies(e, bodies));
    }
    if (auto s = sorts.find(&e); s != sorts.end()) {
      Values operands = in;
      for (auto v : s->second.further) operands.push_back(r[v]);
      const auto& p = ir::get<ops::Sort>(e.attrs);
      s->second.written = ops::sort(operands, p.dimension, p.num_keys, p.stable);
      return Values(s->second.written.begin(), s->second.written.begin() + static_cast<std::ptrdiff_t>(in.size()));
    }
    if (const ir::Eqn* sort = found.sort_of_gather(e)) {
      const WiderSort& s = sorts.at(sort);
      return Values{s.written[s.result.at(e.in[0])]};
    }
    if (e.op == &ops::def::select_n) {
      const auto taken = found.decided(e.in[0]);
      const std::size_t which = taken && *taken ? 2 : 1;
      if (taken && graph->type(e.in[which]) == graph->type(e.out[0])) return Values{in[which]};
    }
    return r.copy(e, in);
  });
  return without_unread_operands(r.finish("gathers_in_order"));
}

}  // namespace tessera::spmd
