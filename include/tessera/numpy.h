// SPDX-License-Identifier: Apache-2.0
// NumPy's functions on arrays, with JAX's dtypes. Axes count from the end where negative. Throws `ValueError` for axes
// and shapes that do not fit, `TypeError` for dtypes that a function lacks.
#pragma once

#include <concepts>
#include <optional>
#include <utility>
#include <vector>

#include "tessera/array.h"
#include "tessera/ops.h"

namespace tessera {

// --- shapes ----------------------------------------------------------------------------------------------------------
/// New dimensions of extent 1 at these positions of the result.
Array expand_dims(const Operand& x, const Dims& axis);
/// One new dimension. A template, so that a braced integer means the list.
template <std::integral I>
Array expand_dims(const Operand& x, I axis) {
  return expand_dims(x, Dims{static_cast<std::int64_t>(axis)});
}
/// Removes the given dimensions, or all of extent 1. Throws `ValueError` for a given dimension of another extent.
Array squeeze(const Operand& x, const MaybeDims& axis = {});
/// Exchanges two dimensions.
Array swapaxes(const Operand& x, std::int64_t axis1, std::int64_t axis2);
/// Dimensions `source` go to the positions `destination`; the others keep their order.
Array moveaxis(const Operand& x, const Dims& source, const Dims& destination);
/// Moves one dimension.
template <std::integral I, std::integral J>
Array moveaxis(const Operand& x, I source, J destination) {
  return moveaxis(x, Dims{static_cast<std::int64_t>(source)}, Dims{static_cast<std::int64_t>(destination)});
}
/// The elements as a vector, in row-major order.
Array ravel(const Operand& x);
/// The same, placed as `options.out_sharding`.
Array ravel(const Operand& x, const PlaceOptions& options);
/// Reverses the elements along the axes, or along all of them.
Array flip(const Operand& x, const MaybeDims& axis = {});
/// Elements that leave at one end come in at the other; without an axis the flattened array rolls.
Array roll(const Operand& x, std::int64_t shift, std::optional<std::int64_t> axis = std::nullopt);
/// Joins arrays, promoted to one dtype, along an existing axis. Throws `ValueError` for an empty list.
Array concatenate(const std::vector<Array>& arrays, std::int64_t axis = 0, const Loc& loc = Loc::current());
/// Joins arrays of one shape, promoted to one dtype, along a new axis. Throws `ValueError` for shapes that differ.
Array stack(const std::vector<Array>& arrays, std::int64_t axis = 0, const Loc& loc = Loc::current());
/// `sections` equal parts. Throws `ValueError` when the extent does not divide.
std::vector<Array> split(const Operand& x, std::int64_t sections, std::int64_t axis = 0);
/// Consecutive parts that end before these indices, and the rest; indices are clamped, negative ones count from the
/// end.
std::vector<Array> split_at(const Operand& x, const Dims& indices, std::int64_t axis = 0);
/// Repeats x as a block reps[d] times along dimension d; the shorter of shape and reps is extended by leading 1s.
Array tile(const Operand& x, const Dims& reps);
/// NumPy's broadcasting of shapes. Throws `ValueError` where extents differ and neither is 1.
Shape broadcast_shapes(const std::vector<Shape>& shapes, const Loc& loc = Loc::current());
/// Repeats along the last dimension.
template <std::integral I>
Array tile(const Operand& x, I reps) {
  return tile(x, Dims{static_cast<std::int64_t>(reps)});
}

// --- triangles -------------------------------------------------------------------------------------------------------
/// An n x m matrix (m = n unless given) of ones at and below diagonal k, zeros above.
Array tri(std::int64_t n, std::optional<std::int64_t> m = std::nullopt, std::int64_t k = 0, DType dtype = float32,
          const Loc& loc = Loc::current());
/// The last two dimensions' elements at and below diagonal k, zeros above. Throws `ValueError` below rank 2.
Array tril(const Operand& x, std::int64_t k = 0);
/// The last two dimensions' elements at and above diagonal k, zeros below. Throws `ValueError` below rank 2.
Array triu(const Operand& x, std::int64_t k = 0);
/// An n x m matrix (m = n unless given) of ones on diagonal k, zeros elsewhere.
Array eye(std::int64_t n, std::optional<std::int64_t> m = std::nullopt, std::int64_t k = 0, DType dtype = float32,
          const Loc& loc = Loc::current());

// --- statistics ------------------------------------------------------------------------------------------------------
/// Axes and degrees of freedom of `var` and `std`.
struct VarOptions {
  MaybeDims axis = {};
  double ddof = 0;  ///< subtracted from the count of elements, by which the sum of squares is divided
  bool keepdims = false;
  std::optional<DType> dtype = std::nullopt;    ///< of the computation and the result
  std::optional<Operand> where = std::nullopt;  ///< bools that broadcast to x: the elements that take part
  std::optional<Operand> mean = std::nullopt;   ///< known already, with the reduced dimensions kept
};
/// Variance over the axes: mean squared distance from the mean, divided by n - ddof. Real for complex x; integers give
/// floats; half-precision values are computed in float32.
/// NaN where the count of elements does not exceed `ddof`. Throws `TypeError` for a real dtype of complex x.
Array var(const Operand& x, const VarOptions& options = {});
/// Square root of `var`.
Array std_(const Operand& x, const VarOptions& options = {});
/// log(sum(exp(x))) over the axes without overflow; integers give floats. Takes `where`, not `initial` or `dtype`.
/// Throws `ValueError` over an empty axis.
Array logsumexp(const Operand& x, const ReduceOptions& options = {});
/// log(sum(b * exp(x))), NaN where a real sum is negative; b broadcasts with x.
Array logsumexp(const Operand& x, const Operand& b, const ReduceOptions& options);
/// (log(abs(sum(b * exp(x)))), the sum's sign).
std::pair<Array, Array> logsumexp_and_sign(const Operand& x, const Operand& b, const ReduceOptions& options = {});
/// exp(x) / sum(exp(x)) along one axis, without overflow; integers give floats.
Array softmax(const Operand& x, std::int64_t axis = -1);
/// log(softmax(x)) along one axis, computed without the quotient.
Array log_softmax(const Operand& x, std::int64_t axis = -1);
/// min(max(x, min), max) with broadcasting and promotion; `std::nullopt` leaves a side open.
Array clip(const Operand& x, const std::optional<Operand>& min, const std::optional<Operand>& max);

// --- taking elements by index ----------------------------------------------------------------------------------------
/// What an index outside reads: `Fill` gives NaN (the smallest signed or largest unsigned integer), `Clip` the nearest
/// element, `Wrap` counts around.
enum class TakeMode { Fill, Clip, Wrap };
/// Slices of `x` at `indices` (integers) along `axis`, or elements of the flattened array. The shape is x's with the
/// indices' shape in place of the axis. Negative indices count from the end with `Fill` and `Wrap`; with `Clip` they
/// read the first element. Throws `TypeError` for indices that are no integers.
Array take(const Operand& x, const Operand& indices, std::optional<std::int64_t> axis = std::nullopt,
           TakeMode mode = TakeMode::Fill);
/// x[…, indices[…, j, …], …] along one axis; indices have the rank of x, and the other dimensions broadcast. An index
/// outside reads as with `TakeMode::Fill`. Throws `ValueError` for another rank, `TypeError` for another dtype.
Array take_along_axis(const Operand& x, const Operand& indices, std::int64_t axis);
/// A new dimension of extent `num_classes` that is 1 at the element's value and 0 elsewhere; all 0 for values outside.
/// Throws `TypeError` unless x holds integers.
Array one_hot(const Operand& x, std::int64_t num_classes, DType dtype = float32, std::int64_t axis = -1);

// --- order -----------------------------------------------------------------------------------------------------------
/// Index (int32) of the largest element, the first of equals; of the flattened array without an axis. NaN counts as
/// largest. Throws `ValueError` for an empty axis.
Array argmax(const Operand& x, std::optional<std::int64_t> axis = std::nullopt, bool keepdims = false);
/// Index (int32) of the smallest element, the first of equals; NaN counts as smallest. Throws as `argmax`.
Array argmin(const Operand& x, std::optional<std::int64_t> axis = std::nullopt, bool keepdims = false);
/// Cumulative sum along an axis, or of the flattened array, in x's dtype (int32 for bool).
Array cumsum(const Operand& x, std::optional<std::int64_t> axis = std::nullopt);
/// Cumulative product along an axis, or of the flattened array, in x's dtype (int32 for bool).
Array cumprod(const Operand& x, std::optional<std::int64_t> axis = std::nullopt);
/// Sorted along one axis: ascending with NaN last, or the reverse of that. Sorting a sharded axis gathers it first.
Array sort(const Operand& x, std::int64_t axis = -1, bool descending = false);
/// Indices (int32) that sort x along one axis. Stable: equal elements keep their order, also when descending.
Array argsort(const Operand& x, std::int64_t axis = -1, bool descending = false);
/// Index (int32) at which each element of `v` keeps the ascending vector sorted: in front of equals, or behind
/// (`right`). Throws `ValueError` unless `sorted` has rank 1.
Array searchsorted(const Operand& sorted, const Operand& v, bool right = false);

// --- products --------------------------------------------------------------------------------------------------------
/// Any contraction in Einstein's notation: einsum("bij,bjk->bik", {x, y}), with ellipses, repeated and summed indices.
/// Communicates as `dot_general`. `options.out_sharding` is the placement of the result in the order of its subscripts.
/// Throws `ValueError` for subscripts that do not fit the operands.
Array einsum(const std::string& subscripts, const std::vector<Array>& operands, const DotOptions& options = {},
             const Loc& loc = Loc::current());

}  // namespace tessera
