// SPDX-License-Identifier: Apache-2.0
// NumPy's functions that repeat, join, split, pad and rotate arrays. Axes count from the end where negative;
// `ValueError` for axes and sizes that do not fit.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/array.h"
#include "tessera/operand.h"
#include "tessera/sharding_arg.h"

namespace tessera {

/// Every element `repeats` times; of the flattened array without an axis.
Array repeat(const Operand& x, std::int64_t repeats, std::optional<std::int64_t> axis = std::nullopt);
/// Element i repeats[i] times. `total` is the extent of the result, which must be given under a trace: shorter results
/// are filled with the last element, longer ones truncated.
Array repeat(const Operand& x, const Array& repeats, std::optional<std::int64_t> axis = std::nullopt,
             std::optional<std::int64_t> total = std::nullopt);
/// The same, placed as `options.out_sharding`, which a repeated dimension that is split needs.
Array repeat(const Operand& x, std::int64_t repeats, std::optional<std::int64_t> axis, const PlaceOptions& options);
/// Element i repeats[i] times, placed as `options.out_sharding`.
Array repeat(const Operand& x, const Array& repeats, std::optional<std::int64_t> axis,
             std::optional<std::int64_t> total, const PlaceOptions& options);
/// Rolls by shift[i] along axis[i]; one shift serves all axes.
Array roll(const Operand& x, const Dims& shift, const Dims& axis);
/// Reverses dimension 1.
Array fliplr(const Operand& x);
/// Reverses dimension 0.
Array flipud(const Operand& x);
/// Rotates by k quarter turns from the first axis toward the second.
Array rot90(const Operand& x, std::int64_t k = 1, std::pair<std::int64_t, std::int64_t> axes = {0, 1});
/// Moves `axis` in front of the dimension that is at position `start`. `moveaxis` is the clearer form.
Array rollaxis(const Operand& x, std::int64_t axis, std::int64_t start = 0);
/// Exchanges the last two dimensions. Throws `ValueError` below rank 2.
Array matrix_transpose(const Operand& x);
/// `transpose` with a permutation.
Array permute_dims(const Operand& x, const Dims& axes);
/// The array with rank 1 at least: a scalar becomes a vector of one element.
Array atleast_1d(const Operand& x);
/// With rank 2 at least: a vector becomes one row.
Array atleast_2d(const Operand& x);
/// With rank 3 at least: (n,) becomes (1, n, 1), (m, n) becomes (m, n, 1).
Array atleast_3d(const Operand& x);
/// Every array broadcast to the common shape. Throws `ValueError` where there is none.
std::vector<Array> broadcast_arrays(const std::vector<Array>& arrays, const Loc& loc = Loc::current());
/// Another shape, filled by repeating the flattened array.
Array resize(const Operand& x, const Shape& shape);

/// Joins along dimension 1, vectors along dimension 0; scalars count as vectors. Throws `ValueError` for an empty list.
Array hstack(const std::vector<Array>& arrays, const Loc& loc = Loc::current());
/// Joins along dimension 0; vectors count as rows.
Array vstack(const std::vector<Array>& arrays, const Loc& loc = Loc::current());
/// Joins along dimension 2, after `atleast_3d`.
Array dstack(const std::vector<Array>& arrays, const Loc& loc = Loc::current());
/// Joins vectors as the columns of a matrix; matrices join along dimension 1.
Array column_stack(const std::vector<Array>& arrays, const Loc& loc = Loc::current());
/// A matrix of blocks: the arrays of a row join along the last dimension, the rows along the one before it.
Array block(const std::vector<std::vector<Array>>& rows, const Loc& loc = Loc::current());
/// x followed by `values` along the axis; both flattened without one.
Array append(const Operand& x, const Operand& values, std::optional<std::int64_t> axis = std::nullopt);
/// x without the elements at these indices (known while tracing) of the axis, or of the flattened array. Throws
/// `IndexError` for an index outside.
Array delete_(const Operand& x, const Dims& indices, std::optional<std::int64_t> axis = std::nullopt);
/// x with `values` inserted in front of these indices (known while tracing) of the axis, or of the flattened array; one
/// index may take several values. Throws `IndexError` for an index outside.
Array insert(const Operand& x, const Dims& indices, const Operand& values,
             std::optional<std::int64_t> axis = std::nullopt);
/// `sections` parts whose extents differ by at most 1.
std::vector<Array> array_split(const Operand& x, std::int64_t sections, std::int64_t axis = 0);
/// `split` along dimension 1, of a vector along dimension 0.
std::vector<Array> hsplit(const Operand& x, std::int64_t sections);
/// `split` along dimension 0.
std::vector<Array> vsplit(const Operand& x, std::int64_t sections);
/// `split` along dimension 2.
std::vector<Array> dsplit(const Operand& x, std::int64_t sections);
/// Slices along an axis, without it.
std::vector<Array> unstack(const Operand& x, std::int64_t axis = 0);

/// Which diagonal.
struct DiagonalOptions {
  std::int64_t offset = 0, axis1 = 0, axis2 = 1;
};
/// The diagonal of dimensions axis1 and axis2, shifted by `offset` columns, as the last dimension of the result. Throws
/// `ValueError` below rank 2 and for equal axes.
Array diagonal(const Operand& x, const DiagonalOptions& options);
/// A diagonal of dimensions 0 and 1.
Array diagonal(const Operand& x, std::int64_t offset = 0);
/// Sum over a diagonal, with the dtypes of `sum`.
Array trace(const Operand& x, const DiagonalOptions& options = {}, std::optional<DType> dtype = std::nullopt);
/// x with `value` (a scalar, or a vector that repeats) on the main diagonal of all dimensions; a new array. Throws
/// `ValueError` below rank 2, and above it for extents that differ.
Array fill_diagonal(const Operand& x, const Operand& value);

/// What `pad` fills with, as in NumPy.
enum class PadMode { Constant, Edge, LinearRamp, Maximum, Mean, Median, Minimum, Reflect, Symmetric, Wrap, Empty };
/// Values of the modes of `pad`.
struct PadOptions {
  double constant_value = 0;                               ///< `Constant`
  double end_value = 0;                                    ///< `LinearRamp`
  std::optional<std::int64_t> stat_length = std::nullopt;  ///< of `Maximum` … `Minimum`: elements at the edge
  bool odd_reflection = false;                             ///< `Reflect`, `Symmetric`: mirrored in value too
};
/// numpy.pad: elements before and behind each dimension, one pair of counts for all dimensions or one per dimension.
/// Throws `ValueError` for negative counts, and for an empty dimension in modes that read x.
Array pad(const Operand& x, const std::vector<std::pair<std::int64_t, std::int64_t>>& widths,
          PadMode mode = PadMode::Constant, const PadOptions& options = {});
/// The same count on every side.
Array pad(const Operand& x, std::int64_t width, PadMode mode = PadMode::Constant, const PadOptions& options = {});

/// x with `values` written at `indices` along one axis: the inverse of `take_along_axis`, a new array. Values broadcast
/// to the indices; negative indices count from the end, indices outside write nothing. Throws `ValueError` where the
/// ranks of x and indices differ.
Array put_along_axis(const Operand& x, const Operand& indices, const Operand& values, std::int64_t axis);

}  // namespace tessera
