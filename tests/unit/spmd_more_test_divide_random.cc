// SPDX-License-Identifier: Apache-2.0
// Random equations along split dimensions: divided or not, they compute the same, and divided ones move no more.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "base/strings.h"
#include "ops/linalg/conv.h"
#include "ops/linalg/linalg_ops.h"
#include "ops/ops.h"
#include "ops/reduce/sorting.h"
#include "ops/shape/indexing_ops.h"
#include "ops/shared_attrs.h"
#include "spmd/spmd.h"
#include "support/random_graphs.h"
#include "support/series.h"
#include "support/spmd_reducers.h"
#include "support/spmd_simulator.h"
#include "support/spmd_sketch.h"

namespace tessera {
namespace {

using ir::Builder;
using ir::Type;
using ir::Value;
using ir::Values;
using Rng = std::mt19937_64;

Type f32(Shape shape) { return {DType::F32, std::move(shape)}; }
Type i32(Shape shape) { return {DType::I32, std::move(shape)}; }

// ------------------------------------------------------------------------------

std::int64_t pick(Rng& rng, std::int64_t n) { return static_cast<std::int64_t>(rng() % static_cast<std::uint64_t>(n)); }

Shape random_shape(Rng& rng, std::int64_t most) {
  Shape s(static_cast<std::size_t>(1 + pick(rng, 3)));
  for (auto& n : s) n = 1 + pick(rng, most);
  return s;
}

// Indices of which some are outside.
HostArray random_indices(Rng& rng, const Shape& shape, std::int64_t extent) {
  HostArray out(DType::I32, shape);
  for (std::int64_t k = 0; k < out.size(); ++k) {
    static_cast<std::int32_t*>(out.data())[k] = static_cast<std::int32_t>(pick(rng, extent + 4) - 2);
  }
  return out;
}

struct Case {
  Builder b;
  std::vector<HostArray> args;
  Values out;
  std::vector<ir::Layout> layouts;  // of inputs, where they are not random
  Value input(Rng& rng, const Type& type) {
    args.push_back(test::random_array(rng, type));
    return b.input(type);
  }
  Value indices(Rng& rng, const Shape& shape, std::int64_t extent) {
    args.push_back(random_indices(rng, shape, extent));
    return b.input({DType::I32, shape});
  }
};

// Few different values, NaN and infinities among them, so that there are ties.
Value with_ties(Rng& rng, Case& c, const Shape& shape) {
  HostArray a(DType::F32, shape);
  static constexpr std::array<float, 8> values{0.0f,
                                               -0.0f,
                                               1.0f,
                                               2.0f,
                                               -1.0f,
                                               3.0f,
                                               std::numeric_limits<float>::infinity(),
                                               std::numeric_limits<float>::quiet_NaN()};
  for (std::int64_t k = 0; k < a.size(); ++k) {
    static_cast<float*>(a.data())[k] = values[static_cast<std::size_t>(pick(rng, pick(rng, 4) == 0 ? 8 : 6))];
  }
  c.args.push_back(a);
  return c.b.input({DType::F32, shape});
}

using Make = std::function<void(Rng&, Case&)>;

void arg_reduce(Rng& rng, Case& c) {
  Value x = with_ties(rng, c, random_shape(rng, 20));
  if (pick(rng, 3) == 0) x = ops::reshape(x, {x.type().size()});
  auto axis = pick(rng, x.rank());
  c.out = {pick(rng, 2) == 0 ? ops::argmax(x, axis) : ops::argmin(x, axis, DType::I64)};
}

void running(Rng& rng, Case& c) {
  Shape shape = random_shape(rng, 20);
  auto axis = pick(rng, static_cast<std::int64_t>(shape.size()));
  bool reverse = pick(rng, 2) == 0;
  switch (pick(rng, 5)) {
    case 0:
      c.out = {ops::cumsum(c.input(rng, {pick(rng, 2) == 0 ? DType::F32 : DType::I32, shape}), axis, reverse),
               ops::cumsum(c.input(rng, {DType::BF16, shape}), axis, reverse)};
      break;
    case 1:
      c.out = {ops::cumprod(c.input(rng, f32(shape)), axis, reverse)};
      break;
    case 2:
      c.out = {ops::cummax(with_ties(rng, c, shape), axis, reverse)};
      break;
    case 3:
      c.out = {ops::cummin(c.input(rng, i32(shape)), axis, reverse)};
      break;
    default:
      c.out = {ops::cumlogsumexp(c.input(rng, {pick(rng, 2) == 0 ? DType::F32 : DType::BF16, shape}), axis, reverse)};
  }
}

// Arrays of one shape for a reducer, and start values that are not neutral.
struct Reduced {
  Values arrays, starts;
  ir::GraphPtr body;
};
Reduced for_reducer(Rng& rng, Case& c, const Shape& shape) {
  switch (pick(rng, 3)) {
    case 0: {
      Reduced r{{}, {}, test::affine_maps()};
      for (int i = 0; i < 2; ++i) r.arrays.push_back(c.input(rng, i32(shape)));
      for (int i = 0; i < 2; ++i) r.starts.push_back(c.input(rng, i32({})));
      return r;
    }
    case 1: {
      Value x = with_ties(rng, c, shape);
      Value start = with_ties(rng, c, {});
      return {{x, c.input(rng, i32(shape))}, {start, c.input(rng, i32({}))}, test::greater_pair()};
    }
    default:
      return {{c.input(rng, f32(shape))}, {c.input(rng, f32({}))}, test::log_sums()};
  }
}

void reduced(Rng& rng, Case& c) {
  Reduced r = for_reducer(rng, c, random_shape(rng, 12));
  Dims axes;
  for (std::int64_t d = r.arrays[0].rank(); d-- > 0;) {
    if (pick(rng, 2) == 0) axes.push_back(d);
  }
  if (axes.empty()) axes = {pick(rng, r.arrays[0].rank())};
  if (pick(rng, 3) == 0) {
    for (auto& v : r.arrays) v = ops::reshape(v, {v.type().size()});
    axes = {0};
  }
  c.out = ops::reduce(r.arrays, r.starts, r.body, axes);
}

void running_windows(Rng& rng, Case& c) {
  Shape shape = random_shape(rng, 9);
  Reduced r = for_reducer(rng, c, shape);
  auto axis = pick(rng, static_cast<std::int64_t>(shape.size()));
  c.out = ops::reduce_window(r.arrays, r.starts, r.body, test::running_window(shape, axis, pick(rng, 2) == 0));
}

void top(Rng& rng, Case& c) {
  Value x = with_ties(rng, c, random_shape(rng, 40));
  auto d = pick(rng, x.rank());
  auto n = x.shape()[static_cast<std::size_t>(d)];
  c.out = ops::top_k(x, pick(rng, 2) == 0 ? std::min<std::int64_t>(n, 2) : pick(rng, n + 1), d);
}

void sorted(Rng& rng, Case& c) {
  Value x = with_ties(rng, c, random_shape(rng, 20));
  Values operands{x};
  if (pick(rng, 2) == 0) operands.push_back(c.input(rng, i32(x.shape())));
  c.out = ops::sort(operands, pick(rng, x.rank()), 1 + pick(rng, static_cast<std::int64_t>(operands.size())), true);
}

ops::IndexMode random_mode(Rng& rng) { return pick(rng, 2) == 0 ? ops::IndexMode::Clip : ops::IndexMode::FillOrDrop; }

// Rows, columns or elements of a matrix.
void gathered(Rng& rng, Case& c) {
  Shape shape{1 + pick(rng, 20), 1 + pick(rng, 20)};
  Value x = c.input(rng, {pick(rng, 4) == 0 ? DType::C64 : pick(rng, 2) == 0 ? DType::F32 : DType::I16, shape});
  auto n = 1 + pick(rng, 12);
  ops::Gather p;
  switch (pick(rng, 3)) {
    case 0:
      p = {{1}, {0}, {0}, {}, {}, {1, shape[1]}};
      break;
    case 1:
      p = {{0}, {1}, {1}, {}, {}, {shape[0], 1}};
      break;
    default:
      p = {{}, {0, 1}, {1, 0}, {}, {}, {1, 1}};
  }
  p.mode = random_mode(rng);
  auto components = static_cast<std::int64_t>(p.start_index_map.size());
  c.out = {ops::gather(x, c.indices(rng, {n, components}, shape[static_cast<std::size_t>(p.start_index_map[0])]), p)};
}

// Rows of a table, wherever they are, for indices that are split by the same axis.
void routed(Rng& rng, Case& c) {
  Shape table{8 + pick(rng, 20), 1 + pick(rng, 5)};
  if (pick(rng, 3) == 0) table.push_back(2);
  auto d = pick(rng, static_cast<std::int64_t>(table.size()));
  std::swap(table[0], table[static_cast<std::size_t>(d)]);
  table[static_cast<std::size_t>(d)] = 8 * (1 + pick(rng, 3));
  Shape asked{8 * (1 + pick(rng, 3))};
  if (pick(rng, 2) == 0) asked.push_back(1 + pick(rng, 3));
  Value x = c.input(rng, {pick(rng, 4) == 0 ? DType::C64 : pick(rng, 2) == 0 ? DType::BF16 : DType::I16, table});
  ops::Gather p{{}, {d}, {d}, {}, {}, table, random_mode(rng)};
  p.slice_sizes[static_cast<std::size_t>(d)] = 1;
  auto rank = static_cast<std::int64_t>(asked.size() + table.size()) - 1;
  for (std::int64_t k = 0; k < rank; ++k) p.offset_dims.push_back(k);
  for (std::size_t k = 0; k < asked.size(); ++k)
    p.offset_dims.erase(p.offset_dims.begin() + pick(rng, rank - static_cast<std::int64_t>(k)));
  Shape vectors = asked;
  vectors.push_back(1);
  c.out = {ops::gather(x, c.indices(rng, vectors, table[static_cast<std::size_t>(d)]), p)};
  c.layouts = {ir::Layout::replicated(x.rank()), ir::Layout::replicated(static_cast<std::int64_t>(vectors.size()))};
  c.layouts[0].dims[static_cast<std::size_t>(d)] = c.layouts[1].dims[0] = {0};
}

void scattered(Rng& rng, Case& c) {
  Shape shape{1 + pick(rng, 20), 1 + pick(rng, 20)};
  DType t = pick(rng, 2) == 0 ? DType::F32 : DType::I32;
  auto n = 1 + pick(rng, 12);
  ops::Scatter p;
  Shape updates{n};
  switch (pick(rng, 3)) {
    case 0:
      p = {{1}, {0}, {0}};
      updates = {n, shape[1]};
      break;
    case 1:
      p = {{0}, {1}, {1}};
      updates = {shape[0], n};
      break;
    default:
      p = {{}, {0, 1}, {1, 0}};
  }
  p.mode = random_mode(rng);
  Value x = c.input(rng, {t, shape});
  auto components = static_cast<std::int64_t>(p.scatter_dims_to_operand_dims.size());
  Value i = c.indices(rng, {n, components}, shape[static_cast<std::size_t>(p.scatter_dims_to_operand_dims[0])]);
  Value u = c.input(rng, {t, updates});
  if (pick(rng, 3) == 0) {  // one window at a known place
    p = {{0, 1}, {}, {0, 1}};
    p.mode = random_mode(rng);
    HostArray place = random_indices(rng, {2}, std::min(shape[0], shape[1]));
    i = ops::constant(c.b, place);
    u = c.input(rng, {t, {1 + pick(rng, shape[0]), 1 + pick(rng, shape[1])}});
  }
  switch (pick(rng, 4)) {
    case 0:
      c.out = {ops::scatter(x, i, u, p)};
      break;
    case 1:
      c.out = {ops::scatter_max(x, i, u, p)};
      break;
    default:
      c.out = {ops::scatter_add(x, i, u, p)};
  }
}

void windowed(Rng& rng, Case& c) {
  Shape shape = random_shape(rng, 20);
  Shape window;
  for (auto n : shape) window.push_back(pick(rng, 3) == 0 ? n : 1 + pick(rng, n));
  Value x = c.input(rng, f32(shape));
  bool update = pick(rng, 2) == 0;
  Value u = update ? c.input(rng, f32(window)) : Value{};
  Values starts;
  for (auto n : shape) starts.push_back(c.indices(rng, {}, n));
  c.out = {update ? ops::dynamic_update_slice(x, u, starts) : ops::dynamic_slice(x, starts, window)};
}

void transformed(Rng& rng, Case& c) {
  static constexpr std::array<std::int64_t, 6> extents{4, 8, 16, 32, 64, 12};
  Shape shape(static_cast<std::size_t>(1 + pick(rng, 3)));
  for (auto& n : shape) n = extents[static_cast<std::size_t>(pick(rng, 6))];
  if (shape.size() == 1 && pick(rng, 2) == 0) shape[0] = 64;
  auto n = 1 + pick(rng, static_cast<std::int64_t>(shape.size()));
  Dims lengths(shape.end() - n, shape.end());
  switch (pick(rng, 4)) {
    case 0:
      c.out = {ops::fft(c.input(rng, f32(shape)), ops::FftType::Rfft, lengths)};
      break;
    case 1:
      shape.back() = shape.back() / 2 + 1;
      c.out = {ops::fft(c.input(rng, {DType::C64, shape}), ops::FftType::Irfft, lengths)};
      break;
    default:
      c.out = {ops::fft(c.input(rng, {DType::C64, shape}), pick(rng, 2) == 0 ? ops::FftType::Fft : ops::FftType::Ifft,
                        lengths)};
  }
}

void convolved(Rng& rng, Case& c) {
  bool two = pick(rng, 2) == 0;
  std::size_t n = two ? 2 : 1;
  Shape x{1 + pick(rng, 3), 1 + pick(rng, 4)}, w{1 + pick(rng, 3), x[1]};
  ops::Conv p;
  for (std::size_t i = 0; i < n; ++i) {
    x.push_back(4 + pick(rng, 14));
    w.push_back(1 + pick(rng, x.back()));
    p.strides.push_back(1 + pick(rng, 2));
    p.rhs_dilation.push_back(1 + pick(rng, 2));
    p.lhs_dilation.push_back(1 + pick(rng, 2));
    std::int64_t reach = (w.back() - 1) * p.rhs_dilation.back() + 1;
    p.pad_low.push_back(pick(rng, 3) + reach / 2);
    p.pad_high.push_back(pick(rng, 3) + reach / 2);
  }
  p.lhs_spec = p.rhs_spec = p.out_spec = two ? Dims{0, 1, 2, 3} : Dims{0, 1, 2};
  Value lhs = c.input(rng, f32(x));
  c.out = {ops::conv_general_dilated(lhs, c.input(rng, f32(w)), p)};
}

// An array before it is padded to `shape`, or cut to it, with elements between, and padded.
Value padded_to(Rng& rng, Case& c, Shape shape, double value, bool ties) {
  Dims low, high, interior;
  for (auto& n : shape) {
    low.push_back(pick(rng, 5) - 1);
    high.push_back(pick(rng, 5) - 1);
    interior.push_back(pick(rng, 4) == 0 ? 1 : 0);
    std::int64_t room = n - low.back() - high.back();
    if (room < 1) {
      low.back() = high.back() = 0;
      room = n;
    }
    if (interior.back() == 1 && room % 2 == 0) interior.back() = 0;
    n = interior.back() == 1 ? (room + 1) / 2 : room;
  }
  Value x = ties ? with_ties(rng, c, shape) : c.input(rng, f32(shape));
  return ops::pad(x, ops::scalar(c.b, value, DType::F32), low, high, interior);
}

Value random_cut(Rng& rng, Value x) {
  Dims starts, limits;
  for (auto n : x.shape()) {
    starts.push_back(pick(rng, std::min<std::int64_t>(n, 4)));
    limits.push_back(std::max(n - pick(rng, 4), starts.back() + 1));
  }
  return ops::slice(x, starts, limits);
}

void window_gradient(Rng& rng, Case& c) {
  Shape shape = random_shape(rng, 24);
  ops::SelectWindow w;
  Shape windows = shape;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (pick(rng, 2) == 0) shape[d] = 8 * (1 + pick(rng, 3));
    w.dimensions.push_back(1 + pick(rng, std::min<std::int64_t>(shape[d], 4)));
    w.strides.push_back(1 + pick(rng, 3));
    w.low.push_back(pick(rng, w.dimensions[d]));
    w.high.push_back(pick(rng, w.dimensions[d]));
    w.base_dilation.push_back(1);
    w.window_dilation.push_back(1);
    windows[d] = (shape[d] + w.low[d] + w.high[d] - w.dimensions[d]) / w.strides[d] + 1;
  }
  Value source = pick(rng, 4) == 0 ? padded_to(rng, c, windows, pick(rng, 3), false) : c.input(rng, f32(windows));
  bool maximum = pick(rng, 2) == 0;
  double extreme = maximum ? -std::numeric_limits<double>::infinity() : 1;
  Value x = pick(rng, 2) == 0 ? padded_to(rng, c, shape, extreme, true) : with_ties(rng, c, shape);
  Value y = ops::select_and_scatter_add(source, x, w, maximum);
  c.out = {pick(rng, 2) == 0 ? random_cut(rng, y) : y};
}

void windows_of_padded(Rng& rng, Case& c) {
  Shape shape{8 + pick(rng, 24), 8 + pick(rng, 24)};
  const bool convolves = pick(rng, 2) == 0;
  Value x = padded_to(rng, c, shape, pick(rng, 2), false);
  Dims size, strides, low, high, spread, dilation;
  for (int d = 0; d < 2; ++d) {
    size.push_back(1 + pick(rng, 4));
    strides.push_back(1 + pick(rng, 2));
    low.push_back(std::max<std::int64_t>(0, pick(rng, 4) - 2));
    high.push_back(std::max<std::int64_t>(0, pick(rng, 4) - 2));
    spread.push_back(pick(rng, 4) == 0 ? 2 : 1);
    dilation.push_back(1 + pick(rng, 2));
  }
  if (convolves) {
    ops::Conv p{strides, low, high, spread, dilation, {0, 1, 2, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}};
    Value image = ops::reshape(x, {1, 1, shape[0], shape[1]});
    if (pick(rng, 3) > 0) {
      Value lhs = c.input(rng, f32({2, 3, shape[0], shape[1]}));
      image = ops::pad(lhs, ops::scalar(c.b, pick(rng, 2), DType::F32), {0, 0, 2, -1}, {0, 0, 1, 3});
    }
    c.out = {ops::conv_general_dilated(image, c.input(rng, f32({2, image.shape()[1], size[0], size[1]})), p)};
  } else {
    const ops::Window w{size, strides, low, high, spread, dilation};
    c.out = {pick(rng, 2) == 0 ? ops::reduce_window_max(x, w) : ops::reduce_window_sum(x, w)};
  }
}

// Two slices of an array that is padded, or cut, along one dimension.
Values padded_slices(Rng& rng, Case& c, Value x, std::int64_t d) {
  Dims low(x.shape().size(), 0), high = low;
  low[static_cast<std::size_t>(d)] = pick(rng, 5) - 1;
  high[static_cast<std::size_t>(d)] = 2 + pick(rng, 3);
  Value padded = ops::pad(x, ops::scalar(c.b, 3, DType::F32), low, high);
  auto n = padded.shape()[static_cast<std::size_t>(d)];
  auto from = pick(rng, n), to = pick(rng, n);
  return {ops::slice_in_dim(padded, from, from + 1 + pick(rng, n - from), d), ops::slice_in_dim(padded, 0, 1 + to, d)};
}

// Rotations, shifts and stencils: slices that are joined or padded again.
void joined(Rng& rng, Case& c) {
  Shape shape = random_shape(rng, 24);
  Value x = c.input(rng, f32(shape));
  auto d = pick(rng, x.rank());
  auto n = shape[static_cast<std::size_t>(d)];
  auto cut = [&] {
    auto from = pick(rng, n);
    return ops::slice_in_dim(x, from, from + 1 + pick(rng, n - from), d);
  };
  auto k = pick(rng, n);
  switch (pick(rng, 4)) {
    case 3:
      c.out = padded_slices(rng, c, x, d);
      break;
    case 0:
      if (k == 0) k = n;
      c.out = {k == n ? x : ops::concatenate(Values{ops::slice_in_dim(x, k, n, d), ops::slice_in_dim(x, 0, k, d)}, d)};
      break;
    case 1:
      c.out = {ops::concatenate(Values{cut(), cut(), cut()}, d)};
      break;
    default: {
      Dims low(shape.size(), 0), high = low;
      Value part = cut();
      low[static_cast<std::size_t>(d)] = pick(rng, 4);
      high[static_cast<std::size_t>(d)] = pick(rng, 4);
      c.out = {ops::pad(part, ops::scalar(c.b, 2, DType::F32), low, high)};
    }
  }
}

// A stencil of the inner part of an array, element by element of slices and of other values, that is put back.
void interiors(Rng& rng, Case& c) {
  const Shape whole = random_shape(rng, 20);
  const Type type{pick(rng, 3) == 0 ? DType::I32 : DType::F32, whole};
  Dims low, high;
  Shape window;
  for (auto n : whole) {
    low.push_back(std::min(pick(rng, 3), n - 1));
    high.push_back(std::min(pick(rng, 3), n - 1 - low.back()));
    window.push_back(n - low.back() - high.back());
  }
  Value x = c.input(rng, type);
  Value other = c.input(rng, {type.dtype, window});
  Value one = c.input(rng, {type.dtype, {}});
  auto cut = [&] {
    Dims starts, limits;
    for (std::size_t d = 0; d < whole.size(); ++d) {
      starts.push_back(pick(rng, low[d] + high[d] + 1));
      limits.push_back(starts.back() + window[d]);
    }
    return ops::slice(x, starts, limits);
  };
  Values known{cut(), cut()};
  for (std::int64_t i = 2 + pick(rng, 6); i > 0; --i) {
    auto any = [&] { return known[static_cast<std::size_t>(pick(rng, std::ssize(known)))]; };
    switch (pick(rng, 7)) {
      case 0:
        known.push_back(cut());
        break;
      case 1:
        known.push_back(any() * any());
        break;
      case 2:
        known.push_back(ops::where(ops::lt(any(), any()), any(), one));
        break;
      case 3:
        known.push_back(any() * ops::broadcast_in_dim(one, window, {}));
        break;
      case 4:
        known.push_back(pick(rng, 3) == 0 ? any() + other : ops::max(any(), any()));
        break;
      case 5: {
        auto d = pick(rng, std::ssize(window));
        Value line = ops::iota(c.b, type.dtype, {window[static_cast<std::size_t>(d)]}, 0);
        known.push_back(any() - ops::broadcast_in_dim(line, window, {d}));
        break;
      }
      default:
        known.push_back(any() + any());
    }
  }
  Value inner = known.back() - known[0];
  if (pick(rng, 5) == 0) c.out.push_back(inner);
  Values starts;
  for (auto n : low) starts.push_back(ops::scalar(c.b, static_cast<double>(n), DType::I32));
  c.out.push_back(pick(rng, 2) == 0 ? ops::pad(inner, one, low, high) : ops::dynamic_update_slice(x, inner, starts));
}

void line_sorted(Rng& rng, Case& c) {
  Shape shape{16 + pick(rng, 120)};
  if (pick(rng, 3) == 0) shape.push_back(1);
  Value x = pick(rng, 2) == 0 ? with_ties(rng, c, shape)
                              : c.input(rng, {std::array{DType::I32, DType::U8, DType::F64, DType::BF16,
                                                         DType::I64}[static_cast<std::size_t>(pick(rng, 5))],
                                              shape});
  Values operands{x};
  if (pick(rng, 2) == 0) operands.push_back(ops::iota(c.b, DType::I32, shape, 0));
  c.out = ops::sort(operands, 0);
}

void check(std::uint64_t seed, const ir::MeshAxes& mesh, const Make& make, bool uneven) {
  Rng rng(seed * 0x9E3779B97F4A7C15ull + 1);
  Case c;
  make(rng, c);
  ir::Module m = ir::module_over(c.b.finish_shared(c.out), mesh);
  m.uneven = uneven;
  auto lay = [&](std::vector<ir::Port>& ports, const std::vector<ir::ValueId>& values) {
    for (std::size_t i = 0; i < ports.size(); ++i) {
      if (pick(rng, 4) > 0) ports[i].layout = test::random_layout(rng, m.graph->type(values[i]).shape, mesh, uneven);
    }
  };
  lay(m.inputs, m.graph->inputs);
  for (std::size_t i = 0; i < c.layouts.size(); ++i) m.inputs[i].layout = c.layouts[i];
  lay(m.outputs, m.graph->outputs);
  std::vector<HostArray> expected = test::evaluate(*m.graph, c.args);
  auto layouts = spmd::propagate(m);
  ir::GraphPtr divided = spmd::partition(m, layouts);
  ir::verify(*divided);
  m.divides = false;
  ir::GraphPtr whole = spmd::partition(m, layouts);
  for (const auto& g : {divided, whole}) {
    auto got = test::run_partitioned(*g, c.args);
    for (std::size_t i = 0; i < got.size(); ++i) {
      // Rounded once, like the reference: half a place of bfloat16 would be more.
      double tolerance = expected[i].dtype() == DType::BF16 ? 0x1p-10 : 1e-5;
      ASSERT_EQ(test::difference(got[i], expected[i], tolerance), "") << "seed " << seed << "\n"
                                                                      << ir::to_string(*m.graph) << "\n"
                                                                      << ir::to_string(*g);
    }
  }
  EXPECT_LE(spmd::comm_plan(*divided).bytes_per_device(), spmd::comm_plan(*whole).bytes_per_device())
      << "seed " << seed << "\n"
      << ir::to_string(*divided) << "\n"
      << ir::to_string(*whole);
}

void check_many(std::uint64_t first, std::uint64_t count, const Make& make) {
  for (bool uneven : {false, true}) {
    for (const auto& mesh : test::test_meshes()) {
      for (std::uint64_t i = 0; i < count && !testing::Test::HasFailure(); i += test::case_stride(16)) {
        check(first + i, mesh, make, uneven);
      }
    }
  }
}

TEST(DivideRandom, ArgReductions) { check_many(1, 60, arg_reduce); }
TEST(DivideRandom, RoutedLookups) { check_many(50, 40, routed); }
TEST(DivideRandom, RunningReductions) { check_many(100, 30, running); }
TEST(DivideRandom, Reducers) { check_many(1100, 30, reduced); }
TEST(DivideRandom, RunningWindowsOfReducers) { check_many(1200, 24, running_windows); }
TEST(DivideRandom, TopK) { check_many(200, 16, top); }
TEST(DivideRandom, Sorts) { check_many(300, 16, sorted); }
TEST(DivideRandom, SortsOfOneLine) { check_many(350, 60, line_sorted); }
TEST(DivideRandom, Transforms) { check_many(800, 10, transformed); }
TEST(DivideRandom, Convolutions) { check_many(900, 20, convolved); }
TEST(DivideRandom, GradientsOfWindowMaxima) { check_many(1000, 30, window_gradient); }
TEST(DivideRandom, WindowsOfPaddedArrays) { check_many(1400, 16, windows_of_padded); }
TEST(DivideRandom, JoinedSlices) { check_many(1100, 24, joined); }
TEST(DivideRandom, InnerPartsOfStencils) { check_many(1300, 40, interiors); }
TEST(DivideRandom, Gathers) { check_many(400, 60, gathered); }
TEST(DivideRandom, Scatters) { check_many(500, 60, scattered); }
TEST(DivideRandom, DynamicSlicesAndUpdates) { check_many(600, 60, windowed); }

}  // namespace
}  // namespace tessera
