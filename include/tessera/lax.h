// SPDX-License-Identifier: Apache-2.0
// The primitive operations that move, gather and join elements, under the names and with the arguments of jax.lax.
// Axes count from the end where negative. Operands have one dtype: nothing is promoted. Throws `ValueError` for axes
// and extents that do not fit.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/array.h"
#include "tessera/indexing.h"
#include "tessera/operand.h"
#include "tessera/ops.h"
#include "tessera/sharding_arg.h"

namespace tessera::lax {

// --- shapes ----------------------------------------------------------------------------------------------------------
/// New dimensions of extent 1 at these positions of the result.
Array expand_dims(const Operand& x, const Dims& dimensions);
/// Removes dimensions of extent 1. Throws `ValueError` for another extent.
Array squeeze(const Operand& x, const Dims& dimensions);
/// Reverses the order of the elements along the dimensions.
Array rev(const Operand& x, const Dims& dimensions);
/// Padding of one dimension: elements before, behind, and between neighbors.
struct PadDim {
  std::int64_t low = 0, high = 0, interior = 0;
};
/// StableHLO's pad: `value` (of rank 0, converted to x's dtype) before, behind and between the elements of each
/// dimension; negative low and high drop elements. Throws `ValueError` unless there is one entry per dimension.
Array pad(const Operand& x, const Operand& value, const std::vector<PadDim>& config);
/// Elements start, start + stride, … below limit of every dimension; strides default to 1. Negative indices do not
/// count from the end. Throws `ValueError` where a range is not inside x.
Array slice(const Operand& x, const Dims& start_indices, const Dims& limit_indices, const Dims& strides = {});
/// `slice` of one dimension; here negative start and limit count from the end.
Array slice_in_dim(const Operand& x, std::int64_t start, std::int64_t limit, std::int64_t stride = 1,
                   std::int64_t axis = 0);
/// One index of one dimension, which stays with extent 1 unless `keepdims` is false; a negative index counts from the
/// end. Throws `IndexError` where it is out of range.
Array index_in_dim(const Operand& x, std::int64_t index, std::int64_t axis = 0, bool keepdims = true);
/// Joins arrays of one dtype along a dimension; the other extents are equal. Throws `ValueError` for an empty list.
Array concatenate(const std::vector<Array>& parts, std::int64_t dimension, const Loc& loc = Loc::current());
/// Consecutive parts of these extents along the axis. Throws `ValueError` unless they add up to its extent.
std::vector<Array> split(const Operand& x, const Dims& sizes, std::int64_t axis = 0);
/// A slice of extents `sizes` whose starts, integer scalars, are computed by the program. Negative starts count from
/// the end; starts are then clamped so that the slice is inside x. Throws `TypeError` for a start that is no integer.
Array dynamic_slice(const Operand& x, const std::vector<Array>& starts, const Dims& sizes);
/// `dynamic_slice` of one dimension.
Array dynamic_slice_in_dim(const Operand& x, const Operand& start, std::int64_t size, std::int64_t axis = 0);
/// `dynamic_slice` of extent 1, whose dimension is removed unless `keepdims`.
Array dynamic_index_in_dim(const Operand& x, const Operand& index, std::int64_t axis = 0, bool keepdims = true);
/// x with `update` (converted to x's dtype) written at these starts, which count and clamp as in `dynamic_slice`.
Array dynamic_update_slice(const Operand& x, const Operand& update, const std::vector<Array>& starts);
/// `dynamic_update_slice` with one start; the others are 0.
Array dynamic_update_slice_in_dim(const Operand& x, const Operand& update, const Operand& start, std::int64_t axis);
/// Writes one index of one dimension; `update` may lack that dimension.
Array dynamic_update_index_in_dim(const Operand& x, const Operand& update, const Operand& index, std::int64_t axis);

// --- gather and scatter ----------------------------------------------------------------------------------------------
using tessera::IndexMode;
/// How `gather` maps dimensions, as https://openxla.org/stablehlo/spec#gather; the index vector is the last dimension
/// of the start indices.
struct GatherDimensionNumbers {
  Dims offset_dims, collapsed_slice_dims, start_index_map;
  Dims operand_batching_dims = {}, start_indices_batching_dims = {};
};
/// What `gather` does outside, and what the program promises of its indices.
struct GatherOptions {
  IndexMode mode = IndexMode::FillOrDrop;
  std::optional<double> fill_value = std::nullopt;
  bool unique_indices = false;
};
/// Slices of x, of extents `slice_sizes`, at computed start indices (integers): StableHLO's gather. `options.mode`
/// decides what indices outside read. Dimensions that are gathered from must be replicated: sharded ones are
/// all-gathered.
Array gather(const Operand& x, const Operand& start_indices, const GatherDimensionNumbers& dimension_numbers,
             const Dims& slice_sizes, const GatherOptions& options = {});
/// How the scatters map dimensions, as https://openxla.org/stablehlo/spec#scatter.
struct ScatterDimensionNumbers {
  Dims update_window_dims, inserted_window_dims, scatter_dims_to_operand_dims;
  Dims operand_batching_dims = {}, scatter_indices_batching_dims = {};
};
/// What scatters do outside, and what the program promises of its indices.
struct ScatterOptions {
  IndexMode mode = IndexMode::FillOrDrop;
  bool unique_indices = false;
};
/// x with `updates` subtracted at computed indices; several updates of one element accumulate.
Array scatter_sub(const Operand& x, const Operand& indices, const Operand& updates,
                  const ScatterDimensionNumbers& dimension_numbers, const ScatterOptions& options = {});
/// x with `updates` written at computed indices (integers): StableHLO's scatter; of several updates of one element the
/// last stays. Indices outside are handled as `options.mode` specifies. Throws `TypeError` for updates of another
/// dtype.
Array scatter(const Operand& x, const Operand& indices, const Operand& updates,
              const ScatterDimensionNumbers& dimension_numbers, const ScatterOptions& options = {});
/// x with `updates` added; several updates of one element accumulate.
Array scatter_add(const Operand& x, const Operand& indices, const Operand& updates,
                  const ScatterDimensionNumbers& dimension_numbers, const ScatterOptions& options = {});
/// x multiplied by `updates` at the indices; several updates of one element accumulate.
Array scatter_mul(const Operand& x, const Operand& indices, const Operand& updates,
                  const ScatterDimensionNumbers& dimension_numbers, const ScatterOptions& options = {});
/// The minimum of x and all updates of each element.
Array scatter_min(const Operand& x, const Operand& indices, const Operand& updates,
                  const ScatterDimensionNumbers& dimension_numbers, const ScatterOptions& options = {});
/// The maximum of x and all updates of each element.
Array scatter_max(const Operand& x, const Operand& indices, const Operand& updates,
                  const ScatterDimensionNumbers& dimension_numbers, const ScatterOptions& options = {});

// --- arg-reductions, cumulative and windowed reductions --------------------------------------------------------------
/// Index of the largest element along the axis, the first of equals; NaN counts as largest. Throws `TypeError` for
/// complex operands and an index dtype that is no integer, `ValueError` for an empty axis.
Array argmax(const Operand& x, std::int64_t axis, DType index_dtype = int32);
/// Index of the smallest element along the axis, the first of equals; NaN counts as smallest. Throws as `argmax`.
Array argmin(const Operand& x, std::int64_t axis, DType index_dtype = int32);
/// Cumulative sum along the axis in x's dtype, from the end where `reverse`. Throws `TypeError` for bool.
Array cumsum(const Operand& x, std::int64_t axis = 0, bool reverse = false);
/// Cumulative product along the axis in x's dtype. Throws `TypeError` for bool.
Array cumprod(const Operand& x, std::int64_t axis = 0, bool reverse = false);
/// Cumulative maximum along the axis; NaN stays once it occurs.
Array cummax(const Operand& x, std::int64_t axis = 0, bool reverse = false);
/// Cumulative minimum along the axis; NaN stays once it occurs.
Array cummin(const Operand& x, std::int64_t axis = 0, bool reverse = false);
/// log of the cumulative sum of exp(x) along the axis, without overflow. Throws `TypeError` unless x is a float.
Array cumlogsumexp(const Operand& x, std::int64_t axis = 0, bool reverse = false);

/// Strides, padding and dilations of a window, one entry per dimension; what is left out counts as 1 (strides,
/// dilations) or 0 (padding).
struct WindowOptions {
  Dims strides = {};
  std::vector<PadDim> padding = {};  ///< low and high; no interior
  Dims base_dilation = {}, window_dilation = {};
  bool same = false;  ///< pads so that each result extent is ceil(extent / stride); `padding` must be empty
};
/// Sum over a window of these extents at every position: StableHLO's reduce_window, padded with 0. Over a sharded
/// dimension the neighbors' edges are exchanged (halo_exchange). Throws `ValueError` unless every list has one
/// entry per dimension.
Array reduce_window_sum(const Operand& x, const Dims& window, const WindowOptions& options = {});
/// Maximum over a window, padded with the smallest value of the dtype.
Array reduce_window_max(const Operand& x, const Dims& window, const WindowOptions& options = {});
/// Minimum over a window, padded with the largest value of the dtype.
Array reduce_window_min(const Operand& x, const Dims& window, const WindowOptions& options = {});

// --- order -----------------------------------------------------------------------------------------------------------
/// Sorts all operands, of one shape, by the first `num_keys` of them along one dimension, ascending; NaN comes last,
/// complex keys compare by real, then imaginary part. `stable` keeps equal elements in their order.
std::vector<Array> sort(const std::vector<Array>& operands, std::int64_t dimension = -1, std::int64_t num_keys = 1,
                        bool stable = true, const Loc& loc = Loc::current());
/// Sorted keys, and values in the order of their keys.
std::pair<Array, Array> sort_key_val(const Operand& keys, const Operand& values, std::int64_t dimension = -1,
                                     bool stable = true);
/// The k largest along `axis` in descending order, and their indices (int32). Throws `ValueError` unless 0 <= k <= the
/// extent, `TypeError` for complex operands.
std::pair<Array, Array> top_k(const Operand& x, std::int64_t k, std::int64_t axis = -1);
/// The k largest and their indices: exact, which every recall target allows.
std::pair<Array, Array> approx_max_k(const Operand& x, std::int64_t k, std::int64_t axis = -1);
/// The k smallest in ascending order and their indices, exact.
std::pair<Array, Array> approx_min_k(const Operand& x, std::int64_t k, std::int64_t axis = -1);

// --- convolution -----------------------------------------------------------------------------------------------------
/// Where the padding of a convolution comes from: as given, none, or as much as keeps ceil(extent / stride) positions,
/// the odd element after (Same) or before (SameLower).
enum class PadMode : std::uint8_t { Explicit, Valid, Same, SameLower };
/// Strides, padding, dilation and groups of convolutions.
struct ConvOptions {
  Dims strides = {};                 ///< one per spatial dimension; 1 where left out
  std::vector<PadDim> padding = {};  ///< low and high per spatial dimension
  PadMode pad_mode = PadMode::Explicit;
  Dims lhs_dilation = {}, rhs_dilation = {};
  /// Letters of the three layouts: N, C and digits (or H, W, D), O, I: {"NHWC", "HWIO", "NHWC"}.
  std::vector<std::string> dimension_numbers = {"NCHW", "OIHW", "NCHW"};
  std::int64_t feature_group_count = 1;
  std::int64_t batch_group_count = 1;
  std::optional<DType> preferred_element_type = std::nullopt;
  /// As in `PlaceOptions`; it needs to be given where the kernel or the input's features are split. Unreduced axes
  /// throw `UnimplementedError`.
  ShardingArg out_sharding = {};
};
/// https://openxla.org/stablehlo/spec#convolution; lhs holds images, rhs kernels, both of one dtype. A sharded spatial
/// dimension exchanges halos with its neighbors, a sharded input-feature dimension needs an all-reduce. Throws
/// `ValueError` for layouts and sizes that do not fit.
Array conv_general_dilated(const Operand& lhs, const Operand& rhs, const ConvOptions& options = {});

/// `conv_general_dilated` in the layouts (batch, features, spatial dimensions) and (out, in, spatial dimensions), with
/// padding `mode`.
Array conv(const Operand& lhs, const Operand& rhs, const Dims& strides, PadMode mode);
/// The same with explicit padding and dilations.
Array conv_with_general_padding(const Operand& lhs, const Operand& rhs, const Dims& strides,
                                const std::vector<PadDim>& padding, const Dims& lhs_dilation = {},
                                const Dims& rhs_dilation = {});
/// The windows that a convolution reads, as features: channel major, then the positions inside the window. `options` as
/// for `conv_general_dilated`, with the extents of the window in place of a kernel; `rhs` of `dimension_numbers` gives
/// the order of its positions.
Array conv_general_dilated_patches(const Operand& lhs, const Dims& filter_shape, const ConvOptions& options = {});
/// Padding, dilation and form of `conv_transpose`.
struct ConvTransposeOptions {
  PadMode pad_mode = PadMode::Same;  ///< Explicit: `padding` holds, as that of a plain convolution
  std::vector<PadDim> padding = {};
  Dims rhs_dilation = {};
  /// By default channels last: {"NHWC", "HWIO", "NHWC"} for images, and alike for other ranks.
  std::vector<std::string> dimension_numbers = {};
  bool transpose_kernel = false;  ///< flips the kernel and swaps its features: the gradient of a convolution
};
/// Transposed convolution: the strides dilate lhs, as in jax.lax.conv_transpose. Throws `ValueError` for strides that
/// do not fit the spatial dimensions and for ranks beyond 5 without `dimension_numbers`.
Array conv_transpose(const Operand& lhs, const Operand& rhs, const Dims& strides,
                     const ConvTransposeOptions& options = {});

// --- element-wise primitives: operands of one dtype, no promotion ----------------------------------------------------
/// Quotient; of integers toward zero, and -1 for a zero divisor.
Array div(const Operand& x, const Operand& y);
/// Remainder with the sign of x; x itself for a zero divisor of integers.
Array rem(const Operand& x, const Operand& y);
/// x shifted left by y bits, integers; 0 where y is negative or not below the width.
Array shift_left(const Operand& x, const Operand& y);
/// x shifted right by y bits, filled with its sign bit.
Array shift_right_arithmetic(const Operand& x, const Operand& y);
/// x shifted right by y bits, filled with zeros; 0 where y is negative or not below the width.
Array shift_right_logical(const Operand& x, const Operand& y);
/// Nearest integral value of a float; ties away from zero, or `to_even`.
Array round(const Operand& x, bool to_even = false);
/// Element-wise cases[which]; `which` is a bool (two cases) or int32 that is clamped, of the cases' shape or of rank 0.
/// Throws `TypeError` for another dtype or cases whose dtypes differ.
Array select_n(const Operand& which, const std::vector<Array>& cases);
/// Element-wise on_true where `pred` (bool) is true, else on_false.
Array select(const Operand& pred, const Operand& on_true, const Operand& on_false);
/// Upper half of the double-width product of two integers of one dtype. Throws `TypeError` otherwise.
Array mulhi(const Operand& x, const Operand& y);
/// Derivative of igamma(a, x) in a.
Array igamma_grad_a(const Operand& a, const Operand& x);
/// Derivative of a gamma variate in its parameter a (implicit reparametrisation, Figurnov et al., 2018).
Array random_gamma_grad(const Operand& a, const Operand& sample);

// --- shapes, products, reductions ------------------------------------------------------------------------------------
/// Repeats x along new leading dimensions of these sizes.
Array broadcast(const Operand& x, const Dims& sizes);
/// The same, placed as `options.out_sharding`.
Array broadcast(const Operand& x, const Dims& sizes, const PlaceOptions& options);
/// 0, 1, … along `dimension`, constant along the others, placed as `options.out_sharding`.
Array broadcasted_iota(DType dtype, const Shape& shape, std::int64_t dimension, const PlaceOptions& options = {},
                       const Loc& loc = Loc::current());
/// Dimensions start … stop - 1 as one; negative ones count from the end. Throws `ValueError` for an empty range.
Array collapse(const Operand& x, std::int64_t start, std::int64_t stop);
/// Matrix products over equal leading dimensions, without broadcasting. Throws `ValueError` unless both ranks are equal
/// and at least 2.
Array batch_matmul(const Operand& lhs, const Operand& rhs);
/// Rows of lhs [m, k] in consecutive groups of `group_sizes` [g], each multiplied by its own matrix of rhs [g, k, n];
/// the result is [m, n], and rows behind the groups are zero. Throws `ValueError` for other shapes. Where a placement
/// is in the operands' types, `UnimplementedError` unless `options` has `out_sharding`.
Array ragged_dot(const Operand& lhs, const Operand& rhs, const Operand& group_sizes, const DotOptions& options = {});
/// Dimensions of `ragged_dot_general`: `dot_general`'s, the one of lhs that consists of groups, and that of rhs along
/// which they are counted, where the ragged dimension is neither contracted nor a batch dimension.
struct RaggedDotDimensionNumbers : DotDimensionNumbers {
  Dims lhs_ragged_dimensions = {}, rhs_group_dimensions = {};
};
/// `dot_general` in which one dimension of lhs consists of consecutive groups; positions behind the groups count for
/// nothing. With g groups, b batch, m and n free and k contracted dimensions, by the kind of the ragged dimension:
///   - free: [b…, m…, k…] and rhs with a dimension g give [b…, m…, n…]; each position is multiplied by its group's rhs;
///   - contracted: [b…, m…, k…] and [b…, k…, n…] give [g, b…, m…, n…]: a sum for each group;
///   - batch: as `dot_general`; group sizes change nothing.
/// `group_sizes` is [g], or has sizes of its own for every batch dimension and the free (contracted) ones outside the
/// ragged one: [b…, x…, g]. Communicates as `dot_general`. Throws `TypeError` for sizes that are no integers and dtypes
/// that differ, `ValueError` for dimensions and extents that do not fit, `UnimplementedError` as `ragged_dot` does.
Array ragged_dot_general(const Operand& lhs, const Operand& rhs, const Operand& group_sizes,
                         const RaggedDotDimensionNumbers& dims, const DotOptions& options = {});
/// Sum over the axes in x's dtype. Throws `TypeError` for bool.
Array reduce_sum(const Operand& x, const Dims& axes);
/// The same, placed as `options.out_sharding`. Unreduced axes must be those of summed dimensions, or be unreduced in x,
/// else `ShardingTypeError`.
Array reduce_sum(const Operand& x, const Dims& axes, const PlaceOptions& options);
/// Product over the axes in x's dtype. Throws `TypeError` for bool.
Array reduce_prod(const Operand& x, const Dims& axes);
/// Maximum over the axes; the smallest value of the dtype for no elements.
Array reduce_max(const Operand& x, const Dims& axes);
/// Minimum over the axes; the largest value of the dtype for no elements.
Array reduce_min(const Operand& x, const Dims& axes);
/// Bitwise and over the axes, for bools and integers.
Array reduce_and(const Operand& x, const Dims& axes);
/// Bitwise or over the axes, for bools and integers.
Array reduce_or(const Operand& x, const Dims& axes);
/// Bitwise exclusive or over the axes, for bools and integers.
Array reduce_xor(const Operand& x, const Dims& axes);
/// (accumulated scalars, scalars of one element) -> scalars, one per operand; it must be associative. Arrays that it
/// captures throw `UnimplementedError`: pass them as operands.
using Reducer = std::function<std::vector<Array>(const std::vector<Array>&, const std::vector<Array>&)>;
/// StableHLO's reduce of several operands of one shape by a traced function, from the scalars `init` (converted to the
/// operands' dtypes). Throws `ValueError` unless there is one init per operand.
std::vector<Array> reduce(const std::vector<Array>& operands, const std::vector<Array>& init, const Reducer& reducer,
                          const Dims& axes, const Loc& loc = Loc::current());
/// The same with every result placed as `options.out_sharding`.
std::vector<Array> reduce(const std::vector<Array>& operands, const std::vector<Array>& init, const Reducer& reducer,
                          const Dims& axes, const PlaceOptions& options, const Loc& loc = Loc::current());
/// StableHLO's reduce_window with a traced function. Throws as `reduce` and `reduce_window_sum`.
std::vector<Array> reduce_window(const std::vector<Array>& operands, const std::vector<Array>& init,
                                 const Reducer& reducer, const Dims& window, const WindowOptions& options = {},
                                 const Loc& loc = Loc::current());
/// Generators of `rng_bit_generator`; the default one is Philox.
enum class RngAlgorithm : std::uint8_t { Default, ThreeFry, Philox };
/// Dtype, generator and placement of `rng_bit_generator`.
struct RngBitOptions {
  DType dtype = uint32;  ///< an unsigned integer
  RngAlgorithm algorithm = RngAlgorithm::Default;
  ShardingArg out_sharding = {};  ///< of the bits, as in `PlaceOptions`; the key stays unsplit
};
/// StableHLO's rng_bit_generator: the key for the next call, and uniform bits of `shape`. The key is uint32[4] or
/// uint64[2]; Philox takes uint64[3] too. Throws `TypeError` for another key or dtype.
std::pair<Array, Array> rng_bit_generator(const Operand& key, const Shape& shape, const RngBitOptions& options = {});
/// Kinds of StableHLO's fft: complex forward and inverse, real forward and inverse.
enum class FftType { Fft, Ifft, Rfft, Irfft };
/// Fourier transform over as many last dimensions as `lengths` has (https://openxla.org/stablehlo/spec#fft); the
/// inverse divides by their product. Throws `TypeError` for a complex operand of Rfft or a real one of the others.
Array fft(const Operand& x, FftType type, const Dims& lengths);

}  // namespace tessera::lax
