// SPDX-License-Identifier: Apache-2.0
// Reductions over sliding windows, and the gradient of choosing one element of each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engines/cpu/kernels/reduce_axes.h"

namespace tessera::kernels {

/// One entry a dim of the operand. A window at output index o covers positions
/// o * stride - pad_low + k * window_dilation of the operand spread by base_dilation, k < window.
struct WindowSpec {
  std::vector<std::int64_t> in_shape, window, strides, pad_low, pad_high, base_dilation, window_dilation;
};

/// Extents of the result.
std::vector<std::int64_t> window_out_shape(const WindowSpec& spec);

/// The operand's index of window element k at output index o along a dim, or -1 where it has none there.
std::int64_t window_position(const WindowSpec& spec, std::size_t dim, std::int64_t o, std::int64_t k);

/// out[o] = op over the elements that the window at o covers, `init` (one element) included once; positions outside
/// contribute nothing. Operations and dtypes as for `reduce`; f16 and bf16 accumulate in f32.
/// Throws `UnimplementedError` for other combinations.
void reduce_window(ReduceOp op, DType dtype, const WindowSpec& spec, const void* in, const void* init, void* out);

/// For each window the first largest (or smallest) element receives the source element of that window, added to what
/// it already received: out starts as `init` (one element) everywhere and has the shape of `in`. As in XLA, a chosen
/// element is kept while it is >= (<=) the next one, so a NaN is taken and then given up for what follows it. Real
/// dtypes; throws `UnimplementedError` for others.
void select_and_scatter_add(bool largest, DType dtype, const WindowSpec& spec, const void* in, const void* source,
                            const void* init, void* out);

}  // namespace tessera::kernels
