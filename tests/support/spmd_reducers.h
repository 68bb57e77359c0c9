// SPDX-License-Identifier: Apache-2.0
// Reducers of programs and windows of running reductions, for tests of reductions along split dimensions.
#pragma once

#include "ops/ops.h"
#include "ops/shared_attrs.h"

namespace tessera::test {

/// (u, v) of x -> u x + v: maps of i32 in the order in which they are applied, which do not commute.
inline ir::GraphPtr affine_maps() {
  ir::Builder b;
  ir::Values in;
  for (int i = 0; i < 4; ++i) in.push_back(b.input({DType::I32, {}}));
  return b.finish_shared(ir::Values{in[0] * in[2], in[1] * in[2] + in[3]});
}

/// The greater f32 number, and what i32 stands beside it; the first of equal ones.
inline ir::GraphPtr greater_pair() {
  ir::Builder b;
  const ir::Type number{DType::F32, {}}, place{DType::I32, {}};
  ir::Value x = b.input(number), i = b.input(place), y = b.input(number), k = b.input(place);
  ir::Value first = ops::or_(ops::ge(x, y), ops::ne(x, x));
  return b.finish_shared(ir::Values{ops::where(first, x, y), ops::where(first, i, k)});
}

/// log(exp x + exp y) of f32.
inline ir::GraphPtr log_sums() {
  ir::Builder b;
  ir::Value x = b.input({DType::F32, {}}), y = b.input({DType::F32, {}});
  return b.finish_shared(ir::Values{ops::max(x, y) + ops::log1p(ops::exp(ops::neg(ops::abs(x - y))))});
}

/// The window of a running reduction along `axis`.
inline ops::Window running_window(const Shape& shape, std::int64_t axis, bool reverse) {
  auto d = static_cast<std::size_t>(axis);
  ops::Window w;
  w.dimensions = w.strides = w.base_dilation = w.window_dilation = Dims(shape.size(), 1);
  w.low = w.high = Dims(shape.size(), 0);
  w.dimensions[d] = shape[d];
  (reverse ? w.high : w.low)[d] = shape[d] - 1;
  return w;
}

}  // namespace tessera::test
