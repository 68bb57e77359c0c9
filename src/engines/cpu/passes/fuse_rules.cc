// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/passes/fuse_rules.h"

#include <algorithm>
#include <unordered_map>

#include "engines/cpu/adapters/ew_ops.h"
#include "engines/cpu/passes/find_windows.h"
#include "ir/op_def.h"
#include "ops/ops.h"
#include "ops/shape/halo.h"
#include "ops/shared_attrs.h"
#include "tessera/config.h"

namespace tessera::cpu {

using kernels::Access;
using kernels::ReduceOp;

namespace {

std::int64_t rank_of(const FusionGroup& group) { return static_cast<std::int64_t>(group.space.size()); }

bool computes(const ir::Graph& g, const ir::Eqn& e) {
  if (!e.op->traits().elementwise || e.out.size() != 1) return false;
  ir::Types in;
  for (auto v : e.in) in.push_back(g.type(v));
  ir::Types out{g.type(e.out[0])};
  return writes_ew(*e.op, e.attrs, in, out);
}

// True for one value a row: the shape of the space up to the split, perhaps followed by ones.
bool one_a_row(const ir::Graph& g, const FusionGroup& group, ir::ValueId v) {
  if (group.split < 0) return false;
  const Shape& shape = g.type(v).shape;
  auto k = at(group.split);
  if (shape.size() != k && shape.size() != group.space.size()) return false;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (d < k ? shape[d] != group.space[d] || g.layout(v).dims[d] != group.dims[d]
              : shape[d] != 1 || !g.layout(v).dims[d].empty()) {
      return false;
    }
  }
  return true;
}

const Role* produced(const FusionGroup& group, ir::ValueId v) {
  auto it = group.produced.find(v);
  return it == group.produced.end() ? nullptr : &it->second;
}

std::optional<Fit> fit_elementwise(const ir::Graph& g, const FusionGroup& group, const ir::Eqn& e) {
  ir::ValueId out = e.out[0];
  auto scalar = [&](ir::ValueId v) { return g.type(v).shape.empty(); };
  if (covers_space(g, group, out)) {
    for (auto v : e.in) {
      if (!scalar(v) && !covers_space(g, group, v)) return std::nullopt;
    }
    return Fit{Role::Full};
  }
  if (!one_a_row(g, group, out)) return std::nullopt;
  bool linked = false;
  for (auto v : e.in) {
    const Role* role = produced(group, v);
    if (role != nullptr && *role != Role::Row) return std::nullopt;
    linked = linked || role != nullptr;
    if (!scalar(v) && g.type(v).shape != g.type(out).shape) return std::nullopt;
    if (!scalar(v) && g.layout(v).dims != g.layout(out).dims) return std::nullopt;
  }
  return linked ? std::optional(Fit{Role::Row}) : std::nullopt;
}

// Dimensions of the result along which the operand of a repetition differs; nothing when they are not in order: the
// operand is transposed then.
std::optional<Dims> dims_in_order(const ir::Graph& g, const ir::Eqn& e) {
  const auto& p = ir::get<ops::BroadcastInDim>(e.attrs);
  const Shape& shape = g.type(e.in[0]).shape;
  Dims dims;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    if (!dims.empty() && dims.back() > p.dims[i]) return std::nullopt;
    dims.push_back(p.dims[i]);
  }
  return dims;
}

// The same for a repetition over the space; nothing also when the operand is split otherwise than the space.
std::optional<Dims> moving_dims(const ir::Graph& g, const FusionGroup& group, const ir::Eqn& e) {
  const auto& p = ir::get<ops::BroadcastInDim>(e.attrs);
  const Shape& shape = g.type(e.in[0]).shape;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const auto& axes = g.layout(e.in[0]).dims[i];
    // Where one element is split, some shards have none to repeat.
    if (shape[i] == 1 ? !axes.empty() : axes != group.dims[at(p.dims[i])]) return std::nullopt;
  }
  return dims_in_order(g, e);
}
// True when the dims are all of [begin, end) that have more than one element.
bool exactly(const FusionGroup& group, const Dims& dims, std::int64_t begin, std::int64_t end) {
  std::size_t i = 0;
  for (std::int64_t d = begin; d < end; ++d) {
    if (group.space[at(d)] == 1) continue;
    if (i == dims.size() || dims[i] != d) return false;
    ++i;
  }
  return i == dims.size();
}

// Lines that are worth a copy each, and that are with their repetitions.
constexpr std::int64_t kShortestLine = 16, kShortestRepeated = 64;

// The operand's dimension that each of the result's steps along; -1: none.
Dims source_dims(const ir::Graph& g, const ir::Eqn& e) {
  if (const auto* turned = ir::get_if<ops::Transpose>(e.attrs)) return turned->permutation;
  const auto& p = ir::get<ops::BroadcastInDim>(e.attrs);
  const Shape& shape = g.type(e.in[0]).shape;
  Dims out(g.type(e.out[0]).shape.size(), -1);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != 1) out[at(p.dims[i])] = static_cast<std::int64_t>(i);
  }
  return out;
}

// True where a repetition or a transposition over the space leaves lines of the operand as they are, in the shards that
// the space has.
bool has_lines(const ir::Graph& g, const FusionGroup& group, const ir::Eqn& e) {
  const Shape& shape = g.type(e.in[0]).shape;
  const ir::Layout& layout = g.layout(e.in[0]);
  const Dims from = source_dims(g, e);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const auto d = std::find(from.begin(), from.end(), static_cast<std::int64_t>(i)) - from.begin();
    // Where one element is split, some shards have none to repeat.
    if (at(d) == from.size() ? !layout.dims[i].empty() : layout.dims[i] != group.dims[at(d)]) return false;
  }
  std::int64_t line = 1;
  std::int64_t repeated = 1;
  auto next = static_cast<std::int64_t>(shape.size()) - 1;
  for (std::size_t d = from.size(); d-- > 0;) {
    if (group.space[d] == 1) continue;
    while (next >= 0 && shape[at(next)] == 1) --next;
    const bool repeats = from[d] < 0;
    if (!repeats && (repeated > 1 || next < 0 || from[d] != next)) break;
    if (!repeats) --next;
    (repeats ? repeated : line) *= group.space[d];
  }
  return line >= kShortestLine || line * repeated >= kShortestRepeated;
}

struct Repetition {
  Access access;
  std::int64_t split = -1;
};
std::optional<Repetition> repetition(const ir::Graph& g, const FusionGroup& group, const ir::Eqn& e) {
  if (!covers_space(g, group, e.out[0])) return std::nullopt;
  const std::optional<Repetition> lines =
      has_lines(g, group, e) ? std::optional(Repetition{Access::Window}) : std::nullopt;
  auto dims = moving_dims(g, group, e);
  if (!dims) return lines;
  if (dims->empty()) return Repetition{Access::Scalar};
  if (exactly(group, *dims, 0, rank_of(group))) return Repetition{Access::Contiguous};
  std::int64_t k = group.split >= 0 ? group.split : dims->back() + 1;
  if (exactly(group, *dims, 0, k)) return Repetition{Access::ColBroadcast, k};
  k = group.split >= 0 ? group.split : dims->front();
  if (exactly(group, *dims, k, rank_of(group))) return Repetition{Access::RowBroadcast, k};
  return lines;
}

std::optional<Fit> fit_repetition(const ir::Graph& g, const FusionGroup& group, const ir::Eqn& e) {
  const Role* role = produced(group, e.in[0]);
  if (role != nullptr && *role == Role::Row && one_a_row(g, group, e.out[0])) {
    return dims_in_order(g, e) ? std::optional(Fit{Role::Row}) : std::nullopt;
  }
  auto r = repetition(g, group, e);
  if (!r) return std::nullopt;
  if (role == nullptr) return Fit{Role::Full, r->split};
  // Values of the group are not in memory: only their own way of lying over the space can be read.
  bool same = *role == Role::Full
                  ? r->access == Access::Contiguous
                  : r->access == Access::ColBroadcast || (r->access == Access::Scalar && group.split == 0);
  return same ? std::optional(Fit{Role::Full, r->split}) : std::nullopt;
}

// First reduced axis when exactly the last axes are reduced, or -1.
std::int64_t trailing(const Dims& axes, std::int64_t rank) {
  auto sorted = axes;
  std::sort(sorted.begin(), sorted.end());
  auto n = static_cast<std::int64_t>(sorted.size());
  for (std::int64_t i = 0; i < n; ++i) {
    if (sorted[at(i)] != rank - n + i) return -1;
  }
  return n == 0 ? -1 : rank - n;
}

std::optional<Fit> fit_reduction(const ir::Graph& g, const FusionGroup& group, const ir::Eqn& e) {
  if (!covers_space(g, group, e.in[0])) return std::nullopt;
  const Role* role = produced(group, e.in[0]);
  if (role != nullptr && *role != Role::Full) return std::nullopt;
  std::int64_t k = trailing(ir::get<ops::Axes>(e.attrs).axes, rank_of(group));
  if (k < 0 || (group.split >= 0 && group.split != k && !splits_at(g, group, k))) return std::nullopt;
  return Fit{Role::Row, k};
}

// Rows that are worth blocks of them, and columns of which a cache has some rows.
constexpr std::int64_t kFewestColumnRows = 64, kFewestColumns = 16, kMostColumns = 16 << 10;

// A reduction over all rows of a value that the group makes.
std::optional<Fit> fit_column(const ir::Graph& g, const FusionGroup& group, const ir::Eqn& e) {
  const ir::ValueId operand = e.in[0];
  const Role* role = produced(group, operand);
  if (role == nullptr || *role != Role::Full || !covers_space(g, group, operand)) return std::nullopt;
  Dims axes = ir::get<ops::Axes>(e.attrs).axes;
  std::sort(axes.begin(), axes.end());
  const auto k = static_cast<std::int64_t>(axes.size());
  if (k == 0 || k == rank_of(group) || axes.back() != k - 1) return std::nullopt;
  if (group.split >= 0 && group.split != k && !splits_at(g, group, k)) return std::nullopt;
  const Shape shard = ir::tile_shape(group.space, g.layout(operand), *g.mesh);
  std::int64_t rows = 1, columns = 1;
  for (std::size_t d = 0; d < shard.size(); ++d) (static_cast<std::int64_t>(d) < k ? rows : columns) *= shard[d];
  if (rows < kFewestColumnRows || columns < kFewestColumns || columns > kMostColumns) return std::nullopt;
  return Fit{Role::Column, k};
}

std::optional<Fit> fit_transpose(const ir::Graph& g, const FusionGroup& group, const ir::Eqn& e) {
  const bool fits = covers_space(g, group, e.out[0]) && produced(group, e.in[0]) == nullptr && has_lines(g, group, e);
  return fits ? std::optional(Fit{Role::Full}) : std::nullopt;
}

bool moves_window(const ir::Eqn& e) { return e.op == &halo_shift() || ops::is_window(e); }

// By dimension how much the operand's first element comes after the result's.
Dims window_low(const ir::Graph& g, const ir::Eqn& e) {
  if (e.op == &ops::def::pad) return ir::get<ops::Pad>(e.attrs).low;
  Dims low;
  if (const auto* shift = ir::get_if<HaloShift>(e.attrs)) {
    low.assign(g.type(e.in[0]).shape.size(), 0);
    low[at(shift->dimension)] = shift->by;
  } else {
    low = ir::get<ops::StaticSlice>(e.attrs).starts;
  }
  for (auto& n : low) n = -n;
  return low;
}

// Only what lies within a shard is read through a window, and only in lines that are worth a copy each.
std::optional<Fit> fit_window(const ir::Graph& g, const FusionGroup& group, const ir::Eqn& e) {
  if (!covers_space(g, group, e.out[0])) return std::nullopt;
  const ir::ValueId operand = e.in[0];
  for (auto v : e.in) {
    if (produced(group, v) != nullptr) return std::nullopt;
  }
  const Shape& shape = g.type(operand).shape;
  const ir::Layout& layout = g.layout(operand);
  if (layout.distinct() != group.distinct || layout.dims != group.dims || layout.partial != 0) return std::nullopt;
  if (e.op == &halo_shift()) return Fit{Role::Full};
  const Dims low = window_low(g, e);
  std::int64_t line = 1;
  bool whole = true;
  for (std::size_t d = low.size(); d-- > 0;) {
    if (whole) line *= std::min(shape[d], group.space[d]);
    const bool moves = low[d] != 0 || shape[d] != group.space[d];
    if (moves && !layout.dims[d].empty()) return std::nullopt;
    whole = whole && !moves;
  }
  return line < kShortestLine ? std::nullopt : std::optional(Fit{Role::Full});
}

// Backwards, or with elements left out in between.
bool steps(const ir::Eqn& e) { return e.op == &ops::def::rev || (e.op == &ops::def::slice && !ops::is_window(e)); }

// Of the operand's elements along a dimension: the first, and how far the next is.
std::pair<std::int64_t, std::int64_t> steps_along(const ir::Eqn& e, std::size_t d, std::int64_t extent) {
  if (const auto* slice = ir::get_if<ops::StaticSlice>(e.attrs)) return {slice->starts[d], slice->strides[d]};
  const Dims& backwards = ir::get<ops::Rev>(e.attrs).dimensions;
  const bool turns = std::ranges::find(backwards, static_cast<std::int64_t>(d)) != backwards.end();
  return turns ? std::pair(extent - 1, std::int64_t{-1}) : std::pair(std::int64_t{0}, std::int64_t{1});
}

// As `fit_window`: within a shard, in lines that are worth a copy.
std::optional<Fit> fit_steps(const ir::Graph& g, const FusionGroup& group, const ir::Eqn& e) {
  if (!covers_space(g, group, e.out[0]) || produced(group, e.in[0]) != nullptr) return std::nullopt;
  const Shape& shape = g.type(e.in[0]).shape;
  const ir::Layout& layout = g.layout(e.in[0]);
  if (layout.distinct() != group.distinct || layout.dims != group.dims || layout.partial != 0) return std::nullopt;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const bool whole =
        steps_along(e, d, shape[d]) == std::pair(std::int64_t{0}, std::int64_t{1}) && shape[d] == group.space[d];
    if (!whole && !layout.dims[d].empty()) return std::nullopt;
  }
  const Shape shard = ir::tile_shape(group.space, layout, *g.mesh);
  return shard.empty() || shard.back() < kShortestLine ? std::nullopt : std::optional(Fit{Role::Full});
}

}  // namespace

bool splits_at(const ir::Graph& g, const FusionGroup& group, std::int64_t k) {
  FusionGroup other = group;
  other.split = k;
  return std::ranges::all_of(group.eqns, [&](std::size_t i) {
    const ir::Eqn& e = g.eqns[i];
    return group.produced.at(e.out[0]) == Role::Full && fit(g, other, e).has_value();
  });
}

bool reads_window(const ir::Graph& g, const FusionGroup& group, const ir::Eqn& e) {
  return !e.in.empty() && access(g, group, e, 0) == Access::Window;
}

kernels::Window window_of(const ir::Graph& g, const ir::Eqn& e, const Shape& local_space, const Shape& local_operand) {
  if (moves_window(e)) return {local_space, local_operand, window_low(g, e)};
  Dims own(local_operand.size(), 1);
  for (std::size_t i = own.size(); i-- > 1;) own[i - 1] = own[i] * local_operand[i];
  Dims strides;
  if (steps(e)) {
    std::int64_t first = 0;
    for (std::size_t d = 0; d < own.size(); ++d) {
      const auto [start, step] = steps_along(e, d, local_operand[d]);
      first += start * own[d];
      strides.push_back(step * own[d]);
    }
    return {local_space, strides, first};
  }
  for (std::int64_t d : source_dims(g, e)) strides.push_back(d < 0 ? 0 : own[at(d)]);
  return {local_space, strides};
}

bool covers_space(const ir::Graph& g, const FusionGroup& group, ir::ValueId v) {
  return g.type(v).shape == group.space && g.layout(v).dims == group.dims;
}

std::optional<ReduceOp> reduce_op(const ir::OpDef& op) {
  // Never destroyed: other threads may compile while the program ends.
  static const auto& table = *new std::unordered_map<const ir::OpDef*, ReduceOp>{
      {&ops::def::reduce_sum, ReduceOp::Sum},
      {&ops::def::reduce_max, ReduceOp::Max},
      {&ops::def::reduce_min, ReduceOp::Min},
      {&ops::def::reduce_prod, ReduceOp::Prod},
  };
  auto it = table.find(&op);
  return it == table.end() ? std::nullopt : std::optional(it->second);
}

bool has_windows(const ir::Graph& g, const FusionGroup& group) {
  return std::ranges::any_of(group.eqns, [&](std::size_t i) { return reads_window(g, group, g.eqns[i]); });
}

namespace {
std::optional<Fit> fit_beside_others(const ir::Graph& g, const FusionGroup& group, const ir::Eqn& e) {
  if (e.out.size() != 1 || g.layout(e.out[0]).distinct() != group.distinct) return std::nullopt;
  if (e.op == &ops::def::broadcast_in_dim) return fit_repetition(g, group, e);
  if (moves_window(e)) return fit_window(g, group, e);
  if (e.op == &ops::def::transpose) return fit_transpose(g, group, e);
  if (steps(e)) return fit_steps(g, group, e);
  if (e.op == &ops::def::reshape) {
    const Role* role = produced(group, e.in[0]);
    bool row = role != nullptr && *role == Role::Row && one_a_row(g, group, e.out[0]);
    return row ? std::optional(Fit{Role::Row}) : std::nullopt;
  }
  DType t = e.in.empty() ? DType::Bool : g.type(e.in[0]).dtype;
  // Columns of a tile are added as the rest of the group leaves room for them: no order that others would find again.
  auto reduce = reduce_op(*e.op);
  bool sums = reduce == ReduceOp::Sum || reduce == ReduceOp::Prod;
  if (sums && is_inexact(t) && config().deterministic) return std::nullopt;
  if (reduce && !is_complex(t) && !is_bool(t)) {
    auto f = fit_reduction(g, group, e);
    return f || has_windows(g, group) ? f : fit_column(g, group, e);
  }
  return computes(g, e) ? fit_elementwise(g, group, e) : std::nullopt;
}

}  // namespace

std::optional<Fit> fit(const ir::Graph& g, const FusionGroup& group, const ir::Eqn& e) {
  auto f = fit_beside_others(g, group, e);
  if (!f || !group.has_columns()) return f;
  // Blocks of rows are read without windows, and values of columns are there when all of them are done.
  FusionGroup with = group;
  with.produced[e.out[0]] = f->role;
  if (f->split >= 0) with.split = f->split;
  const bool column = std::ranges::any_of(e.in, [&](ir::ValueId v) {
    const Role* role = produced(group, v);
    return role != nullptr && *role == Role::Column;
  });
  return column || reads_window(g, with, e) ? std::nullopt : f;
}

bool FusionGroup::has_columns() const {
  return std::ranges::any_of(produced, [](const auto& p) { return p.second == Role::Column; });
}

std::optional<FusionGroup> group_for(const ir::Graph& g, const ir::Eqn& e) {
  if (e.out.size() != 1 || e.in.empty()) return std::nullopt;
  ir::ValueId space = reduce_op(*e.op) ? e.in[0] : e.out[0];
  FusionGroup group;
  group.space = g.type(space).shape;
  // Without elements there is no block in which values of rows would be computed.
  if (size_of(group.space) == 0) return std::nullopt;
  group.dims = g.layout(space).dims;
  group.distinct = g.layout(e.out[0]).distinct();
  if (!fit(g, group, e)) return std::nullopt;
  return group;
}

Access access(const ir::Graph& g, const FusionGroup& group, const ir::Eqn& e, std::size_t i) {
  ir::ValueId v = e.in[i];
  if (e.op == &ops::def::transpose || steps(e)) return Access::Window;
  if (moves_window(e)) return e.op == &ops::def::pad && i == 1 ? Access::Scalar : Access::Window;
  bool row = group.produced.at(e.out[0]) == Role::Row && !reduce_op(*e.op);
  // One value a row stays that in another shape, whether the group makes it or another one did.
  if (e.op == &ops::def::broadcast_in_dim && !row) return repetition(g, group, e)->access;
  if (g.type(v).shape.empty() && !(group.space.empty() && !row)) return Access::Scalar;
  return row ? Access::ColBroadcast : Access::Contiguous;
}

}  // namespace tessera::cpu
