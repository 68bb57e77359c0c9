// SPDX-License-Identifier: Apache-2.0
// Sliding windows over arrays: sizes, and which elements each window holds.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "ops/define_op.h"
#include "ops/shared_attrs.h"

namespace tessera::ops {

/// Extent of `n` elements with `by - 1` holes between neighbours. Throws `ValueError` beyond 64 bits.
std::int64_t dilated(std::string_view op, std::int64_t n, std::int64_t by);
/// An extent with padding, negative padding too. Throws `ValueError` beyond 64 bits.
std::int64_t padded(std::string_view op, std::int64_t n, std::int64_t low, std::int64_t high);
/// Shape of the windows' results. Throws `ValueError` naming the attribute that does not fit.
Shape windowed_shape(std::string_view op, const Shape& in, const Window& w);
/// Dimensions that windows leave as they are may be split; the others may not. `rank0` further operands are scalars.
FactorRule window_factors(std::size_t operands, std::size_t rank0, std::size_t results, const Shape& in,
                          const Shape& out, const Window& w);
/// With a dimension in front over which windows do not reach.
template <class P>
P with_batch_window(P w) {
  for (Dims* v : {&w.dimensions, &w.strides, &w.base_dilation, &w.window_dilation}) v->insert(v->begin(), 1);
  for (Dims* v : {&w.low, &w.high}) v->insert(v->begin(), 0);
  return w;
}

/// For each window (result element k, in order) `open(k)`, then `element(k, i)` for each element i of the array inside
/// it, in order; padding and holes are left out.
void for_each_window(const Shape& in, const Shape& out, const Window& w, const std::function<void(std::int64_t)>& open,
                     const std::function<void(std::int64_t, std::int64_t)>& element);

/// Windows that each hold an element and all before it along one dimension (`reverse`: all behind it): a running
/// reduction. Empty for other windows.
std::optional<Cumulative> running_window(const Shape& in, const Window& w);

/// Windows of every kind, for samples.
std::vector<Window> sample_windows();

/// A block of an array.
struct Block {
  Dims starts;
  Shape shape;
};
/// Shards of the array that select_and_scatter_add makes, each from the windows that reach into it; with `kept`, of
/// that block of it, which the division then gives alone.
std::optional<ir::Division> scatter_by_shards_of(const std::optional<Block>& kept, Builder& b, const ir::DivideArgs& a,
                                                 const SelectWindow& w);

}  // namespace tessera::ops
