// SPDX-License-Identifier: Apache-2.0
// NumPy's functions on arrays, with JAX's dtypes. Axes count from the end where negative.
#pragma once

#include <concepts>
#include <optional>
#include <vector>

#include "tessera/array.h"
#include "tessera/ops.h"

namespace tessera {

// --- shapes ----------------------------------------------------------------------------------------------------------
Array expand_dims(const Operand& x, const Dims& axis);
// Templates: a braced number is a list.
template <std::integral I>
Array expand_dims(const Operand& x, I axis) {
  return expand_dims(x, Dims{static_cast<std::int64_t>(axis)});
}
/// Removes the given dimensions, or all of extent 1.
Array squeeze(const Operand& x, const MaybeDims& axis = {});
Array swapaxes(const Operand& x, std::int64_t axis1, std::int64_t axis2);
Array moveaxis(const Operand& x, const Dims& source, const Dims& destination);
template <std::integral I, std::integral J>
Array moveaxis(const Operand& x, I source, J destination) {
  return moveaxis(x, Dims{static_cast<std::int64_t>(source)}, Dims{static_cast<std::int64_t>(destination)});
}
Array ravel(const Operand& x);
/// All axes unless some are given.
Array flip(const Operand& x, const MaybeDims& axis = {});
/// Elements that leave at one end come in at the other; without an axis the flattened array rolls.
Array roll(const Operand& x, std::int64_t shift, std::optional<std::int64_t> axis = std::nullopt);
Array concatenate(const std::vector<Array>& arrays, std::int64_t axis = 0, const Loc& loc = Loc::current());
Array stack(const std::vector<Array>& arrays, std::int64_t axis = 0, const Loc& loc = Loc::current());
/// `sections` equal parts. Throws `ValueError` when the extent does not divide.
std::vector<Array> split(const Operand& x, std::int64_t sections, std::int64_t axis = 0);
/// Parts that end at these indices, and the rest.
std::vector<Array> split_at(const Operand& x, const Dims& indices, std::int64_t axis = 0);
Array tile(const Operand& x, const Dims& reps);
/// NumPy's broadcasting of shapes. Throws `ValueError`.
Shape broadcast_shapes(const std::vector<Shape>& shapes);
template <std::integral I>
Array tile(const Operand& x, I reps) {
  return tile(x, Dims{static_cast<std::int64_t>(reps)});
}

// --- triangles -------------------------------------------------------------------------------------------------------
/// Ones at and below diagonal k.
Array tri(std::int64_t n, std::optional<std::int64_t> m = std::nullopt, std::int64_t k = 0, DType dtype = float32,
          const Loc& loc = Loc::current());
Array tril(const Operand& x, std::int64_t k = 0);
Array triu(const Operand& x, std::int64_t k = 0);
Array eye(std::int64_t n, std::optional<std::int64_t> m = std::nullopt, std::int64_t k = 0, DType dtype = float32,
          const Loc& loc = Loc::current());

// --- statistics ------------------------------------------------------------------------------------------------------
struct VarOptions {
  MaybeDims axis = {};
  double ddof = 0;
  bool keepdims = false;
};
Array var(const Operand& x, const VarOptions& options = {});
Array std_(const Operand& x, const VarOptions& options = {});
/// log(sum(exp(x))) without overflow.
Array logsumexp(const Operand& x, const ReduceOptions& options = {});
Array softmax(const Operand& x, std::int64_t axis = -1);
Array log_softmax(const Operand& x, std::int64_t axis = -1);
Array clip(const Operand& x, const std::optional<Operand>& min, const std::optional<Operand>& max);

// --- picking ---------------------------------------------------------------------------------------------------------
/// What an index outside does: `Fill` gives NaN (or the least integer), `Clip` the nearest element, `Wrap` counts
/// around.
enum class TakeMode { Fill, Clip, Wrap };
/// Elements of `x` at `indices` along `axis` (of the flattened array when not given). Negative indices count from the
/// end.
Array take(const Operand& x, const Operand& indices, std::optional<std::int64_t> axis = std::nullopt,
           TakeMode mode = TakeMode::Fill);
/// Element by element along one axis: indices have the rank of x.
Array take_along_axis(const Operand& x, const Operand& indices, std::int64_t axis);
/// 1 where the new last (or `axis`) dimension's number equals the element.
Array one_hot(const Operand& x, std::int64_t num_classes, DType dtype = float32, std::int64_t axis = -1);

// --- order -----------------------------------------------------------------------------------------------------------
/// Position of the largest element, the first of equals; of the flattened array without an axis. NaN wins.
Array argmax(const Operand& x, std::optional<std::int64_t> axis = std::nullopt, bool keepdims = false);
Array argmin(const Operand& x, std::optional<std::int64_t> axis = std::nullopt, bool keepdims = false);
Array cumsum(const Operand& x, std::optional<std::int64_t> axis = std::nullopt);
Array cumprod(const Operand& x, std::optional<std::int64_t> axis = std::nullopt);
/// Ascending, NaN last, equal elements in their order; `descending` turns the order round and stays stable.
Array sort(const Operand& x, std::int64_t axis = -1, bool descending = false);
Array argsort(const Operand& x, std::int64_t axis = -1, bool descending = false);
/// Where each of `v` would be put into the sorted vector: in front of equals, or behind (`right`).
Array searchsorted(const Operand& sorted, const Operand& v, bool right = false);

// --- products --------------------------------------------------------------------------------------------------------
/// Any contraction in Einstein's notation: einsum("bij,bjk->bik", {x, y}). Ellipses, repeated and summed indices
/// included.
Array einsum(const std::string& subscripts, const std::vector<Array>& operands, const DotOptions& options = {},
             const Loc& loc = Loc::current());

}  // namespace tessera
