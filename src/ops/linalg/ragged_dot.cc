// SPDX-License-Identifier: Apache-2.0
#include "ops/linalg/ragged_dot.h"

#include <algorithm>
#include <numeric>

#include "base/strings.h"
#include "tessera/error.h"

namespace tessera::ops {

namespace {
constexpr const char* kRaggedName = "ragged_dot_general";

bool has(const Dims& dims, std::int64_t d) { return std::ranges::find(dims, d) != dims.end(); }

std::int64_t checked(const char* what, std::int64_t d, Value x) {
  if (d >= 0 && d < x.rank()) return d;
  throw ValueError(
      str(kRaggedName, ": ", what, " = ", d, " for an operand of shape ", x.shape(), "; expected 0 to ", x.rank() - 1));
}

// Of an operand: its ragged dimension, and those that have group sizes of their own, in the order in which
// `group_sizes` has them: batch dimensions, then those outside the ragged one.
struct RaggedAxis {
  std::int64_t ragged;
  Dims prefix;
};

Dims up_to(const Dims& dims, std::int64_t d) { return {dims.begin(), std::ranges::find(dims, d)}; }

RaggedAxis in_free(std::int64_t ragged, const Dims& batch, const Dims& contracting) {
  RaggedAxis g{ragged, batch};
  for (std::int64_t d = 0; d < ragged; ++d) {
    if (!has(batch, d) && !has(contracting, d)) g.prefix.push_back(d);
  }
  return g;
}
RaggedAxis in_contracted(std::int64_t ragged, const Dims& batch, const Dims& contracting) {
  RaggedAxis g{ragged, batch};
  const Dims outer = up_to(contracting, ragged);
  g.prefix.insert(g.prefix.end(), outer.begin(), outer.end());
  return g;
}

void check_sizes(Value sizes, Value lhs, const Dims& prefix) {
  if (!is_integer(sizes.dtype()))
    throw TypeError(str(kRaggedName, ": group_sizes of dtype ", dtype_name(sizes.dtype()), "; expected integers"));
  if (sizes.rank() == 1) return;
  Shape expected;
  for (auto d : prefix) expected.push_back(lhs.shape()[d]);
  if (sizes.rank() > 0 && Shape(sizes.shape().begin(), sizes.shape().end() - 1) == expected) return;
  throw ValueError(str(kRaggedName, ": group_sizes of shape ", sizes.shape(), " for lhs of shape ", lhs.shape(),
                       "; expected [g]", prefix.empty() ? "" : str(", or ", expected, " and then g")));
}

// [g, …x]: x once a group, zero at the positions of other groups.
Value spread(Value x, Value sizes, const RaggedAxis& groups) {
  const std::int64_t g = sizes.shape().back();
  Value ends = cumsum(sizes, sizes.rank() - 1);
  Value starts = sub(ends, sizes);
  // The mask has the dimensions that it depends on alone: the group, then some of x's in x's order.
  Dims own = sizes.rank() == 1 ? Dims{} : groups.prefix;
  Dims order(own.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::ranges::sort(order, {}, [&](std::int64_t i) { return own[i]; });
  Dims masked = own;
  masked.push_back(groups.ragged);
  std::ranges::sort(masked);
  Shape shape{g};
  Dims into{0};     // of the mask's dimensions, those of the group sizes
  Dims in_grid{0};  // of the grid's, the mask's
  for (auto d : masked) {
    if (d != groups.ragged) into.push_back(static_cast<std::int64_t>(shape.size()));
    shape.push_back(x.shape()[d]);
    in_grid.push_back(d + 1);
  }
  Dims front{sizes.rank() - 1};
  front.insert(front.end(), order.begin(), order.end());
  auto laid = [&](Value v) { return broadcast_in_dim(transpose(v, front), shape, into); };
  const auto along = std::ranges::find(masked, groups.ragged) - masked.begin() + 1;
  Value place = iota(*x.builder, sizes.dtype(), shape, along);
  Value inside = and_(ge(place, laid(starts)), lt(place, laid(ends)));

  Shape grid{g};
  grid.insert(grid.end(), x.shape().begin(), x.shape().end());
  Dims behind(x.rank());
  std::iota(behind.begin(), behind.end(), std::int64_t{1});
  Value wide = broadcast_in_dim(x, grid, behind);
  return where(broadcast_in_dim(inside, grid, in_grid), wide, zeros_like(wide));
}

Dims moved_up(Dims dims) {
  for (auto& d : dims) ++d;
  return dims;
}

Value product(Value lhs, Value rhs, const DotGeneral& dot) {
  return lhs.builder->add1(def::dot_general, {lhs, rhs}, ir::make_attrs(dot));
}
}  // namespace

Value ragged_dot_general(Value lhs, Value rhs, Value sizes, const DotGeneral& dot, const Dims& lhs_ragged,
                         const Dims& rhs_group) {
  if (lhs_ragged.size() != 1)
    throw ValueError(str(kRaggedName, ": lhs_ragged_dimensions = ", lhs_ragged, "; expected one dimension"));
  const std::int64_t ragged = checked("lhs_ragged_dimensions", lhs_ragged[0], lhs);
  const bool contracted = has(dot.lhs_contracting, ragged);
  const bool batch = has(dot.lhs_batch, ragged);
  if ((contracted || batch) != rhs_group.empty() || rhs_group.size() > 1) {
    throw ValueError(str(kRaggedName, ": rhs_group_dimensions = ", rhs_group, " where the ragged dimension ", ragged,
                         " of lhs is ",
                         contracted ? "contracted"
                         : batch    ? "a batch dimension"
                                    : "free",
                         "; expected ", contracted || batch ? "none" : "one dimension"));
  }
  if (dot.lhs_contracting.size() != dot.rhs_contracting.size()) {
    throw ValueError(str(kRaggedName, ": lhs_contracting = ", dot.lhs_contracting,
                         " and rhs_contracting = ", dot.rhs_contracting, "; expected as many dimensions of each"));
  }
  for (auto d : dot.lhs_batch) checked("lhs_batch", d, lhs);
  for (auto d : dot.lhs_contracting) checked("lhs_contracting", d, lhs);
  for (auto d : dot.rhs_contracting) checked("rhs_contracting", d, rhs);

  if (batch) {
    check_sizes(sizes, lhs, up_to(dot.lhs_batch, ragged));
    return product(lhs, rhs, dot);
  }
  const RaggedAxis of_lhs = contracted ? in_contracted(ragged, dot.lhs_batch, dot.lhs_contracting)
                                       : in_free(ragged, dot.lhs_batch, dot.lhs_contracting);
  check_sizes(sizes, lhs, of_lhs.prefix);
  DotGeneral out = dot;
  out.lhs_contracting = moved_up(dot.lhs_contracting);
  out.lhs_batch = moved_up(dot.lhs_batch);
  if (!contracted) {
    const std::int64_t group = checked("rhs_group_dimensions", rhs_group[0], rhs);
    if (has(dot.rhs_batch, group) || has(dot.rhs_contracting, group)) {
      throw ValueError(str(kRaggedName, ": rhs_group_dimensions = ", rhs_group,
                           " is a batch or contracted dimension; expected another one of rhs"));
    }
    if (rhs.shape()[group] != sizes.shape().back()) {
      throw ValueError(str(kRaggedName, ": rhs of shape ", rhs.shape(), " has ", rhs.shape()[group],
                           " groups along dimension ", group, " and group_sizes of shape ", sizes.shape(), " has ",
                           sizes.shape().back(), "; expected as many"));
    }
    out.lhs_contracting.push_back(0);
    out.rhs_contracting.push_back(group);
    return product(spread(lhs, sizes, of_lhs), rhs, out);
  }
  const auto k = std::ranges::find(dot.lhs_contracting, ragged) - dot.lhs_contracting.begin();
  const RaggedAxis of_rhs = in_contracted(dot.rhs_contracting[k], dot.rhs_batch, dot.rhs_contracting);
  out.rhs_contracting = moved_up(dot.rhs_contracting);
  out.rhs_batch = moved_up(dot.rhs_batch);
  out.lhs_batch.insert(out.lhs_batch.begin(), 0);
  out.rhs_batch.insert(out.rhs_batch.begin(), 0);
  return product(spread(lhs, sizes, of_lhs), spread(rhs, sizes, of_rhs), out);
}

}  // namespace tessera::ops
