// SPDX-License-Identifier: Apache-2.0
// Rows of a table that is split along them, looked up by indices that are split alike: the indices go to all positions,
// and each row is sent once, by its owner, to the position that asked for it.
#include "ops/collective/collectives.h"
#include "ops/collective/manual.h"
#include "ops/shape/dimension_parts.h"
#include "ops/shape/indexing_common.h"
#include "ops/shape/row_routes.h"

namespace tessera::ops {

namespace {

Value whole_number(Builder& b, std::int64_t value) { return scalar(b, static_cast<double>(value), DType::I32); }

// A table as [n, …] and numbers of its rows, both split along dimension 0 by the same axes; as many rows.
Value routed(Value table, Value numbers, const DimensionParts& rows, const Collective& c, ManualSpec spec) {
  Builder& b = *table.builder;
  std::int64_t parts = rows.parts;
  std::int64_t count = numbers.shape()[0];
  std::int64_t each = count / parts;
  std::int64_t width = table.shape()[1];
  spec.shape = {each};
  Value wanted = b.add1(def::manual_enter, {numbers}, attrs(spec));
  spec.dims.emplace_back();
  spec.shape = {rows.chunk(), width};
  Value mine = b.add1(def::manual_enter, {fill_up(table, rows, zeros(b, {table.dtype(), {}}))}, attrs(spec));

  Value me = axis_index(b, c);
  AllGather gathered;
  static_cast<Collective&>(gathered) = c;
  Value all = all_gather(wanted, gathered);
  Value owners = div(all, broadcast_to(whole_number(b, rows.chunk()), all.shape()));
  // By owner and position that asks: how many rows.
  Value asked = broadcast_in_dim(reshape(owners, {parts, each}), {parts, parts, each}, {1, 2});
  Value numbered = iota(b, DType::I32, asked.shape(), 0);
  Value sizes = reduce_sum(convert(eq(asked, numbered), DType::I32), {2});
  RowRoutes routes(cumsum(sizes, 1) - sizes, sizes, c);

  // Rows that are asked of this position, in the order of those that ask, come first.
  Value of_others = convert(ne(owners, broadcast_to(me, owners.shape())), DType::I32);
  Value first = broadcast_to(me * static_cast<double>(rows.chunk()), all.shape());
  Value got = routes.sent(rows_at(mine, rows_at(all, order_of(of_others)) - first), each);
  // They come by owner, and in the order of the numbers from each.
  Value from = div(wanted, broadcast_to(whole_number(b, rows.chunk()), wanted.shape()));
  Value out = rows_at(got, order_of(order_of(from)));
  spec.shape = {count, width};
  return b.add1(def::manual_exit, {out}, attrs(spec));
}

}  // namespace

std::optional<ir::Division> gather_by_routes(Builder& b, const ir::DivideArgs& a, const Gather& p) {
  const Shape& shape = a.in[0].shape();
  if (p.start_index_map.size() != 1 || p.collapsed_slice_dims != p.start_index_map ||
      !p.operand_batching_dims.empty()) {
    return std::nullopt;
  }
  std::int64_t d = p.start_index_map[0];
  DimensionParts rows(d, shape[at(d)], a.parts_of(0, d));
  const ir::AxisList& axes = a.operands[0].dims[at(d)];
  Shape asked = a.in[1].shape();
  asked.pop_back();
  if (rows.parts == 1 || asked.empty() || a.in[0].type().size() == 0 || a.out[0].size() == 0) return std::nullopt;
  for (std::size_t k = 0; k < shape.size(); ++k) {
    bool along = k == at(d);
    if (!along && (!a.operands[0].dims[k].empty() || p.slice_sizes[k] != shape[k])) return std::nullopt;
  }
  for (std::size_t k = 0; k < a.operands[1].dims.size(); ++k) {
    if (a.operands[1].dims[k] != (k == 0 ? axes : ir::AxisList{})) return std::nullopt;
  }
  // Whoever asks has as many numbers; their comparison with all positions stays small beside rows.
  std::int64_t count = size_of(asked);
  if (asked[0] % rows.parts != 0 || count * rows.parts > (1 << 24)) return std::nullopt;

  Collective c;
  ManualSpec spec;
  spec.dims.emplace_back();
  for (auto axis : axes) {
    c.names.list.push_back(a.mesh.names[axis]);
    c.sizes.push_back(a.mesh.sizes[axis]);
    spec.dims[0].push_back(axis);
  }
  c.axes = spec.manual = spec.dims[0];
  Value numbers = reshape(as_signed(a.in[1]), {count});
  Value none = scalar(b, 0, numbers.dtype());
  Value end = scalar(b, static_cast<double>(rows.extent), numbers.dtype());
  Value inside = and_(ge(numbers, none), lt(numbers, end));
  Value clamped = convert(clamp(none, numbers, end - 1.0), DType::I32);
  Shape rest = shape;
  rest.erase(rest.begin() + d);
  Value table = reshape(move_dim(a.in[0], d, 0), {rows.extent, size_of(rest)});
  Value out = routed(table, clamped, {0, rows.extent, rows.parts}, c, spec);
  if (p.mode == IndexMode::FillOrDrop) {
    Gather outside{{}, {0}, {0}, {}, {}, {1}, IndexMode::FillOrDrop, p.fill};
    Value fill = gather(zeros(b, {out.dtype(), {1}}), reshape(whole_number(b, 1), {1}), outside);
    out = where(broadcast_in_dim(inside, out.shape(), {0}), out, broadcast_to(fill, out.shape()));
  }
  Shape wide = asked;
  wide.insert(wide.end(), rest.begin(), rest.end());
  Dims order;  // of the result, in dimensions of `wide`
  auto window = static_cast<std::int64_t>(asked.size());
  std::int64_t batch = 0;
  for (std::int64_t k = 0; k < static_cast<std::int64_t>(wide.size()); ++k) {
    order.push_back(contains(p.offset_dims, k) ? window++ : batch++);
  }
  return ir::Division{{transpose(reshape(out, wide), order)}};
}

}  // namespace tessera::ops
