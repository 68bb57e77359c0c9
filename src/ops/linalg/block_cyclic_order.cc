// SPDX-License-Identifier: Apache-2.0
// Rows of a matrix in a block-cyclic distribution that are wanted in an order which is data.
#include "ops/linalg/block_cyclic.h"

namespace tessera::ops {

namespace {

// In two statements, as values that are added may move the types that `shape` refers to.
Value like(Value x, std::int64_t value) {
  Value one = number(*x.builder, value);
  return broadcast_to(one, x.shape());
}
Value divided(Value x, std::int64_t by) { return div(x, like(x, by)); }
Value remainder(Value x, std::int64_t by) { return rem(x, like(x, by)); }
// i32[n] in 0..bins-1, by bin: how many there are.
Value counted(Value x, std::int64_t bins) {
  std::int64_t n = x.shape()[0];
  Value bin = iota(*x.builder, DType::I32, {bins, n}, 0);
  return reduce_sum(convert(eq(broadcast_in_dim(x, {bins, n}, {1}), bin), DType::I32), {1});
}
// Those of `numbers` that `mine` picks come first.
Value picked_first(Value numbers, Value mine) { return rows_at(numbers, order_of(convert(not_(mine), DType::I32))); }

}  // namespace

Value BlockCyclic::owner_of_row(Value numbers) const { return remainder(divided(numbers, local_rows()), p()); }

Value BlockCyclic::place_of_row(Value numbers) const {
  return divided(numbers, width()) * static_cast<double>(local_rows()) + remainder(numbers, local_rows());
}

Value BlockCyclic::row_of_grid(Builder& b) const { return p() == 1 ? number(b, 0) : axis_index(b, rows_); }

Value BlockCyclic::numbers_of_rows(Builder& b) const {
  Shape shape{row_panels_, local_rows()};
  Value panel = iota(b, DType::I32, shape, 0) * static_cast<double>(width());
  Value first = broadcast_to(row_of_grid(b) * static_cast<double>(local_rows()), shape);
  return reshape(panel + first + iota(b, DType::I32, shape, 1), {row_panels_ * local_rows()});
}

Value BlockCyclic::rows_with(Value numbers, const Values& matrices) const {
  Builder& b = *numbers.builder;
  std::int64_t n = numbers.shape()[0];
  Value place = place_of_row(numbers);
  Value owner = owner_of_row(numbers);
  if (p() > 1) {
    Value row = row_of_grid(b);
    Value me = broadcast_to(row, owner.shape());
    place = picked_first(place, eq(owner, me));  // what stands behind those is not sent
  }
  Values rows;
  for (const auto& x : matrices) rows.push_back(rows_at(x, place));
  Value mine = rows.size() == 1 ? rows[0] : concatenate(rows, 1);
  if (p() == 1) return mine;
  Value size = broadcast_in_dim(counted(owner, p()), {p(), p()}, {0});
  Value got = RowRoutes(zeros_like(size), size, rows_).sent(mine, n);
  return rows_at(got, order_of(order_of(owner)));
}

// What is `sent` of these panels, one of every column of the grid; the rows that arrive, as `order` says, with all
// columns of the device's panel.
Value BlockCyclic::received_in_order(const RowRoutes& routes, const Values& panels, Value sent, Value order) const {
  Values rows;
  for (const auto& x : panels) rows.push_back(rows_at(x, sent));
  std::int64_t n = sent.shape()[0];
  Value got = rows_at(routes.sent(concatenate(rows, 0), q() * n), order);
  return reshape(transpose(reshape(got, {q(), n, p(), block_}), {1, 2, 0, 3}), {n, width()});
}

Value BlockCyclic::joined_in_order(const Type& whole, Value numbers,
                                   const std::function<Value(std::int64_t k)>& panel) const {
  Builder& b = *numbers.builder;
  std::int64_t wide = column_panels_ / q();
  std::int64_t tall = row_panels_ * local_rows();
  Value owner = owner_of_row(numbers);
  Value me = row_of_grid(b);
  Value mine = picked_first(numbers, eq(owner, broadcast_to(me, owner.shape())));
  Value sent = place_of_row(slice_in_dim(mine, 0, tall, 0));
  // By row of the grid, that which has them and that where they come: how many rows.
  Value by_place = reshape(owner, {p(), tall});
  Value bin = iota(b, DType::I32, {p(), p(), tall}, 0);
  Value rows = reduce_sum(convert(eq(broadcast_in_dim(by_place, {p(), p(), tall}, {1, 2}), bin), DType::I32), {2});
  // The same by device: to each column of the grid goes the panel there.
  std::int64_t devices = p() * q();
  auto by_device = [&](Value x) { return broadcast_in_dim(x, {p(), q(), p(), q()}, {0, 2}); };
  Value segment = iota(b, DType::I32, {p(), q(), p(), q()}, 3) * static_cast<double>(tall);
  Value first = reshape(by_device(cumsum(rows, 1) - rows) + segment, {devices, devices});
  RowRoutes routes(first, reshape(by_device(rows), {devices, devices}), grid_);
  // Rows come by source, in the order of their places from each: where each place's is, for each column of the grid.
  Value from = line_of(by_place, me);
  Value received = line_of(transpose(rows, {1, 0}), me);
  Value before = rows_at(cumsum(received, 0) - received, from) * static_cast<double>(q() - 1);
  Value place = order_of(order_of(from)) + before;
  Value step = broadcast_in_dim(rows_at(received, from), {q(), tall}, {1});
  Value order = broadcast_in_dim(place, {q(), tall}, {1}) + step * iota(b, DType::I32, {q(), tall}, 0);
  order = reshape(order, {q() * tall});
  Value x = zeros(b, {whole.dtype, {tall, columns() / q()}});
  for (std::int64_t w = 0; w < wide; ++w) {
    Values panels;
    for (std::int64_t j = 0; j < q(); ++j) panels.push_back(panel(j * wide + w));
    Value part = received_in_order(routes, panels, sent, order);
    x = dynamic_update_slice(x, part, Values{number(b, 0), number(b, w * width())});
  }
  return b.add1(def::manual_exit, {x}, attrs(boundary(x, {this->rows(), columns()})));
}

}  // namespace tessera::ops
