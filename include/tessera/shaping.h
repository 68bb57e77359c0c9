// SPDX-License-Identifier: Apache-2.0
// NumPy's functions that repeat, join, split, pad and turn arrays. Axes count from the end where negative; `ValueError`
// for axes and sizes that do not fit.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/array.h"
#include "tessera/operand.h"

namespace tessera {

/// Every element `repeats` times; of the flattened array without an axis.
Array repeat(const Operand& x, std::int64_t repeats, std::optional<std::int64_t> axis = std::nullopt);
/// Element i repeats[i] times. `total` is the extent of the result, which must be given under a trace: shorter results
/// are filled with the last element, longer ones cut.
Array repeat(const Operand& x, const Array& repeats, std::optional<std::int64_t> axis = std::nullopt,
             std::optional<std::int64_t> total = std::nullopt);
/// By several amounts along several axes.
Array roll(const Operand& x, const Dims& shift, const Dims& axis);
Array fliplr(const Operand& x);
Array flipud(const Operand& x);
/// k quarter turns from the first axis to the second.
Array rot90(const Operand& x, std::int64_t k = 1, std::pair<std::int64_t, std::int64_t> axes = {0, 1});
Array rollaxis(const Operand& x, std::int64_t axis, std::int64_t start = 0);
/// Swaps the last two dimensions.
Array matrix_transpose(const Operand& x);
Array permute_dims(const Operand& x, const Dims& axes);
Array atleast_1d(const Operand& x);
Array atleast_2d(const Operand& x);
Array atleast_3d(const Operand& x);
/// All to one shape.
std::vector<Array> broadcast_arrays(const std::vector<Array>& arrays, const Loc& loc = Loc::current());
/// Another shape, filled by repeating the flattened array.
Array resize(const Operand& x, const Shape& shape);

Array hstack(const std::vector<Array>& arrays, const Loc& loc = Loc::current());
Array vstack(const std::vector<Array>& arrays, const Loc& loc = Loc::current());
Array dstack(const std::vector<Array>& arrays, const Loc& loc = Loc::current());
Array column_stack(const std::vector<Array>& arrays, const Loc& loc = Loc::current());
/// Rows of blocks.
Array block(const std::vector<std::vector<Array>>& rows, const Loc& loc = Loc::current());
/// Behind x; both flattened without an axis.
Array append(const Operand& x, const Operand& values, std::optional<std::int64_t> axis = std::nullopt);
/// Without the indices (known now).
Array delete_(const Operand& x, const Dims& indices, std::optional<std::int64_t> axis = std::nullopt);
/// With values put in front of these indices (known now).
Array insert(const Operand& x, const Dims& indices, const Operand& values,
             std::optional<std::int64_t> axis = std::nullopt);
/// `sections` parts whose extents differ by at most 1.
std::vector<Array> array_split(const Operand& x, std::int64_t sections, std::int64_t axis = 0);
std::vector<Array> hsplit(const Operand& x, std::int64_t sections);
std::vector<Array> vsplit(const Operand& x, std::int64_t sections);
std::vector<Array> dsplit(const Operand& x, std::int64_t sections);
/// Slices along an axis, without it.
std::vector<Array> unstack(const Operand& x, std::int64_t axis = 0);

struct DiagonalOptions {
  std::int64_t offset = 0, axis1 = 0, axis2 = 1;
};
/// A diagonal as the last dimension.
Array diagonal(const Operand& x, const DiagonalOptions& options);
Array diagonal(const Operand& x, std::int64_t offset = 0);
/// Sum over a diagonal.
Array trace(const Operand& x, const DiagonalOptions& options = {}, std::optional<DType> dtype = std::nullopt);
/// With `value` on the main diagonal (of all dimensions).
Array fill_diagonal(const Operand& x, const Operand& value);

enum class PadMode { Constant, Edge, LinearRamp, Maximum, Mean, Median, Minimum, Reflect, Symmetric, Wrap, Empty };
struct PadOptions {
  double constant_value = 0;                               ///< `Constant`
  double end_value = 0;                                    ///< `LinearRamp`
  std::optional<std::int64_t> stat_length = std::nullopt;  ///< of `Maximum` … `Minimum`: elements at the edge
  bool odd_reflection = false;                             ///< `Reflect`, `Symmetric`: mirrored in value too
};
/// Elements before and behind each dimension: one pair for all, or one a dimension.
Array pad(const Operand& x, const std::vector<std::pair<std::int64_t, std::int64_t>>& widths,
          PadMode mode = PadMode::Constant, const PadOptions& options = {});
/// As many on every side.
Array pad(const Operand& x, std::int64_t width, PadMode mode = PadMode::Constant, const PadOptions& options = {});

/// x with values written at indices along one axis (of equal ranks).
Array put_along_axis(const Operand& x, const Operand& indices, const Operand& values, std::int64_t axis);

}  // namespace tessera
