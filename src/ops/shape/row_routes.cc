// SPDX-License-Identifier: Apache-2.0
#include "ops/shape/row_routes.h"

#include "ops/reduce/sorting.h"
#include "ops/shape/indexing_ops.h"

namespace tessera::ops {

Value number(Builder& b, std::int64_t value) { return scalar(b, static_cast<double>(value), DType::I32); }
Value rows_at(Value x, Value numbers) {
  Gather p;
  for (std::int64_t d = 1; d < x.rank(); ++d) p.offset_dims.push_back(d);
  p.collapsed_slice_dims = p.start_index_map = {0};
  p.slice_sizes = x.shape();
  p.slice_sizes[0] = 1;
  p.mode = IndexMode::PromiseInBounds;
  return gather(x, expand_dims(numbers, {1}), p);
}

Value line_of(Value matrix, Value number) {
  std::int64_t n = matrix.shape()[1];
  return reshape(dynamic_slice(matrix, Values{number, scalar(*matrix.builder, 0, DType::I32)}, {1, n}), {n});
}

Value order_of(Value keys) { return sort(Values{keys, iota(*keys.builder, DType::I32, keys.shape(), 0)}, 0)[1]; }

RowRoutes::RowRoutes(Value first, Value size, const Collective& c) : c_(c) {
  Value me = axis_index(*size.builder, c);
  first_ = line_of(first, me);
  size_ = line_of(size, me);
  to_ = line_of(cumsum(size, 0) - size, me);
  received_ = line_of(transpose(size, {1, 0}), me);
}

Value RowRoutes::sent(Value rows, std::int64_t count) const {
  Shape shape = rows.shape();
  shape[0] = count;
  Value blank = zeros(*rows.builder, {rows.dtype(), shape});
  return ragged_all_to_all(Values{rows, blank, first_, size_, to_, received_}, c_);
}

}  // namespace tessera::ops
