// SPDX-License-Identifier: Apache-2.0
// The primitive operations that move, pick and join elements, under the names and with the arguments of jax.lax.
// Axes count from the end where negative; start and limit numbers do not.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/array.h"
#include "tessera/indexing.h"
#include "tessera/operand.h"

namespace tessera::lax {

// --- shapes ----------------------------------------------------------------------------------------------------------
Array expand_dims(const Operand& x, const Dims& dimensions);
/// Removes dimensions of extent 1. Throws `ValueError` for another extent.
Array squeeze(const Operand& x, const Dims& dimensions);
Array rev(const Operand& x, const Dims& dimensions);
struct PadDim {
  std::int64_t low = 0, high = 0, interior = 0;
};
/// Elements before, behind and between; negative low and high cut.
Array pad(const Operand& x, const Operand& value, const std::vector<PadDim>& config);
Array slice(const Operand& x, const Dims& start_indices, const Dims& limit_indices, const Dims& strides = {});
Array slice_in_dim(const Operand& x, std::int64_t start, std::int64_t limit, std::int64_t stride = 1,
                   std::int64_t axis = 0);
Array index_in_dim(const Operand& x, std::int64_t index, std::int64_t axis = 0, bool keepdims = true);
Array concatenate(const std::vector<Array>& parts, std::int64_t dimension, const Loc& loc = Loc::current());
std::vector<Array> split(const Operand& x, const Dims& sizes, std::int64_t axis = 0);
/// Starts are integer scalars, clamped so that the slice lies inside.
Array dynamic_slice(const Operand& x, const std::vector<Array>& starts, const Dims& sizes);
Array dynamic_slice_in_dim(const Operand& x, const Operand& start, std::int64_t size, std::int64_t axis = 0);
Array dynamic_index_in_dim(const Operand& x, const Operand& index, std::int64_t axis = 0, bool keepdims = true);
Array dynamic_update_slice(const Operand& x, const Operand& update, const std::vector<Array>& starts);
Array dynamic_update_slice_in_dim(const Operand& x, const Operand& update, const Operand& start, std::int64_t axis);
Array dynamic_update_index_in_dim(const Operand& x, const Operand& update, const Operand& index, std::int64_t axis);

// --- picking and writing at computed places --------------------------------------------------------------------------
using tessera::IndexMode;
struct GatherDimensionNumbers {
  Dims offset_dims, collapsed_slice_dims, start_index_map;
  Dims operand_batching_dims = {}, start_indices_batching_dims = {};
};
struct GatherOptions {
  IndexMode mode = IndexMode::FillOrDrop;
  std::optional<double> fill_value = std::nullopt;
  bool unique_indices = false;
};
Array gather(const Operand& x, const Operand& start_indices, const GatherDimensionNumbers& numbers,
             const Dims& slice_sizes, const GatherOptions& options = {});
struct ScatterDimensionNumbers {
  Dims update_window_dims, inserted_window_dims, scatter_dims_to_operand_dims;
  Dims operand_batching_dims = {}, scatter_indices_batching_dims = {};
};
struct ScatterOptions {
  IndexMode mode = IndexMode::FillOrDrop;
  bool unique_indices = false;
};
Array scatter_sub(const Operand& x, const Operand& indices, const Operand& updates,
                  const ScatterDimensionNumbers& numbers, const ScatterOptions& options = {});
/// The last of several updates of one element stays.
Array scatter(const Operand& x, const Operand& indices, const Operand& updates, const ScatterDimensionNumbers& numbers,
              const ScatterOptions& options = {});
Array scatter_add(const Operand& x, const Operand& indices, const Operand& updates,
                  const ScatterDimensionNumbers& numbers, const ScatterOptions& options = {});
Array scatter_mul(const Operand& x, const Operand& indices, const Operand& updates,
                  const ScatterDimensionNumbers& numbers, const ScatterOptions& options = {});
Array scatter_min(const Operand& x, const Operand& indices, const Operand& updates,
                  const ScatterDimensionNumbers& numbers, const ScatterOptions& options = {});
Array scatter_max(const Operand& x, const Operand& indices, const Operand& updates,
                  const ScatterDimensionNumbers& numbers, const ScatterOptions& options = {});

// --- running, windowed and arg-reductions ----------------------------------------------------------------------------
Array argmax(const Operand& x, std::int64_t axis, DType index_dtype = int32);
Array argmin(const Operand& x, std::int64_t axis, DType index_dtype = int32);
Array cumsum(const Operand& x, std::int64_t axis = 0, bool reverse = false);
Array cumprod(const Operand& x, std::int64_t axis = 0, bool reverse = false);
Array cummax(const Operand& x, std::int64_t axis = 0, bool reverse = false);
Array cummin(const Operand& x, std::int64_t axis = 0, bool reverse = false);
Array cumlogsumexp(const Operand& x, std::int64_t axis = 0, bool reverse = false);

/// One entry a dimension; what is left out counts as 1 (strides, dilations) or 0 (padding).
struct WindowOptions {
  Dims strides = {};
  std::vector<PadDim> padding = {};  ///< low and high; no interior
  Dims base_dilation = {}, window_dilation = {};
  bool same = false;  ///< pads so that each result extent is ceil(extent / stride); `padding` must be empty
};
Array reduce_window_sum(const Operand& x, const Dims& window, const WindowOptions& options = {});
Array reduce_window_max(const Operand& x, const Dims& window, const WindowOptions& options = {});
Array reduce_window_min(const Operand& x, const Dims& window, const WindowOptions& options = {});

// --- order -----------------------------------------------------------------------------------------------------------
/// Sorts all operands by the first `num_keys` of them along one dimension; NaN comes last. Stable unless told
/// otherwise.
std::vector<Array> sort(const std::vector<Array>& operands, std::int64_t dimension = -1, std::int64_t num_keys = 1,
                        bool stable = true, const Loc& loc = Loc::current());
/// Values sorted by their keys.
std::pair<Array, Array> sort_key_val(const Operand& keys, const Operand& values, std::int64_t dimension = -1,
                                     bool stable = true);
/// The k largest along `axis`, and their positions (int32).
std::pair<Array, Array> top_k(const Operand& x, std::int64_t k, std::int64_t axis = -1);
/// The k largest or least and their positions: exact, which every recall target allows.
std::pair<Array, Array> approx_max_k(const Operand& x, std::int64_t k, std::int64_t axis = -1);
std::pair<Array, Array> approx_min_k(const Operand& x, std::int64_t k, std::int64_t axis = -1);

// --- convolution -----------------------------------------------------------------------------------------------------
struct ConvOptions {
  Dims strides = {};                 ///< one a spatial dimension; 1 where left out
  std::vector<PadDim> padding = {};  ///< low and high a spatial dimension; "SAME" and "VALID" through `pad_mode`
  std::string pad_mode = {};         ///< "SAME", "VALID" or empty: `padding` holds
  Dims lhs_dilation = {}, rhs_dilation = {};
  /// Letters of the three layouts: N, C and digits (or H, W, D), O, I: {"NHWC", "HWIO", "NHWC"}.
  std::vector<std::string> dimension_numbers = {"NCHW", "OIHW", "NCHW"};
  std::int64_t feature_group_count = 1;
  std::int64_t batch_group_count = 1;
  std::optional<DType> preferred_element_type = std::nullopt;
};
/// https://openxla.org/stablehlo/spec#convolution; lhs holds images, rhs kernels, both of one dtype. Throws
/// `ValueError` for layouts and sizes that do not fit.
Array conv_general_dilated(const Operand& lhs, const Operand& rhs, const ConvOptions& options = {});

/// Layouts batch, features, spatial dimensions; padding "SAME" or "VALID".
Array conv(const Operand& lhs, const Operand& rhs, const Dims& strides, const std::string& padding);
Array conv_with_general_padding(const Operand& lhs, const Operand& rhs, const Dims& strides,
                                const std::vector<PadDim>& padding, const Dims& lhs_dilation = {},
                                const Dims& rhs_dilation = {});
/// The windows that a convolution reads, as features: channel major, then the places of the window. `options` as for
/// `conv_general_dilated`, with the extents of the window in place of a kernel; `rhs` of `dimension_numbers` gives the
/// order of its places.
Array conv_general_dilated_patches(const Operand& lhs, const Dims& filter_shape, const ConvOptions& options = {});
struct ConvTransposeOptions {
  std::string pad_mode = "SAME";  ///< "SAME" or "VALID", or empty: `padding` holds, as that of a plain convolution
  std::vector<PadDim> padding = {};
  Dims rhs_dilation = {};
  /// By default channels last: {"NHWC", "HWIO", "NHWC"} for images, and alike for other ranks.
  std::vector<std::string> dimension_numbers = {};
  bool transpose_kernel = false;  ///< flips the kernel and swaps its features: the gradient of a convolution
};
/// Convolution that strides over its result.
Array conv_transpose(const Operand& lhs, const Operand& rhs, const Dims& strides,
                     const ConvTransposeOptions& options = {});

// --- element-wise primitives: operands of one dtype, no promotion ----------------------------------------------------
/// Integers are divided toward zero.
Array div(const Operand& x, const Operand& y);
/// Has the sign of x.
Array rem(const Operand& x, const Operand& y);
Array shift_left(const Operand& x, const Operand& y);
Array shift_right_arithmetic(const Operand& x, const Operand& y);
Array shift_right_logical(const Operand& x, const Operand& y);
/// Halves away from zero, or to the even neighbour.
Array round(const Operand& x, bool to_even = false);
/// Element by element the case that `which` (bool, or int32 numbers) names.
Array select_n(const Operand& which, const std::vector<Array>& cases);
Array select(const Operand& pred, const Operand& on_true, const Operand& on_false);
/// Upper half of the product of two integers of one dtype.
Array mulhi(const Operand& x, const Operand& y);
/// Derivatives of igamma and of gamma variates in their parameter.
Array igamma_grad_a(const Operand& a, const Operand& x);
Array random_gamma_grad(const Operand& a, const Operand& sample);

// --- shapes, products, reductions ------------------------------------------------------------------------------------
/// New dimensions in front.
Array broadcast(const Operand& x, const Dims& sizes);
/// Dimensions start … stop - 1 as one.
Array collapse(const Operand& x, std::int64_t start, std::int64_t stop);
Array batch_matmul(const Operand& lhs, const Operand& rhs);
/// Rows of lhs [m, k] in groups of `group_sizes` [g], each by its own matrix of rhs [g, k, n]; rows behind the groups
/// are zero.
Array ragged_dot(const Operand& lhs, const Operand& rhs, const Operand& group_sizes);
Array reduce_sum(const Operand& x, const Dims& axes);
Array reduce_prod(const Operand& x, const Dims& axes);
Array reduce_max(const Operand& x, const Dims& axes);
Array reduce_min(const Operand& x, const Dims& axes);
Array reduce_and(const Operand& x, const Dims& axes);
Array reduce_or(const Operand& x, const Dims& axes);
Array reduce_xor(const Operand& x, const Dims& axes);
/// (numbers so far, numbers of one element) -> numbers, associative; as many as there are operands. Arrays that it
/// captures throw `UnimplementedError`: pass them as operands.
using Reducer = std::function<std::vector<Array>(const std::vector<Array>&, const std::vector<Array>&)>;
std::vector<Array> reduce(const std::vector<Array>& operands, const std::vector<Array>& init, const Reducer& reducer,
                          const Dims& axes, const Loc& loc = Loc::current());
std::vector<Array> reduce_window(const std::vector<Array>& operands, const std::vector<Array>& init,
                                 const Reducer& reducer, const Dims& window, const WindowOptions& options = {},
                                 const Loc& loc = Loc::current());
/// Over the last dimensions.
enum class FftType { Fft, Ifft, Rfft, Irfft };
Array fft(const Operand& x, FftType type, const Dims& lengths);

}  // namespace tessera::lax
