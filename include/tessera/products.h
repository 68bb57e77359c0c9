// SPDX-License-Identifier: Apache-2.0
// NumPy's products of vectors, matrices and tensors. They promote dtypes, throw `ValueError` for extents that differ,
// and communicate as `dot_general` (tessera/ops.h): an all-reduce or a reduce-scatter where a summed dimension is
// sharded.
#pragma once

#include <optional>
#include <utility>

#include "tessera/array.h"
#include "tessera/ops.h"

namespace tessera {

/// Sum over the last dimension of x and the one before the last of y (the last of a vector); a product for rank 0.
Array dot(const Operand& x, const Operand& y, const DotOptions& options = {});
/// Sum of products of the flattened arrays, the first conjugated: a scalar.
Array vdot(const Operand& x, const Operand& y, const DotOptions& options = {});
/// Sum of products over the last dimension of both; a product for rank 0.
Array inner(const Operand& x, const Operand& y, const DotOptions& options = {});
/// The matrix of products of all pairs of elements of the flattened arrays.
Array outer(const Operand& x, const Operand& y);
/// Sum over the last `axes` dimensions of x and the first of y.
Array tensordot(const Operand& x, const Operand& y, std::int64_t axes = 2, const DotOptions& options = {});
/// Sum over dimension x_axes[i] of x with y_axes[i] of y. Throws `ValueError` for lists of different lengths.
Array tensordot(const Operand& x, const Operand& y, const Dims& x_axes, const Dims& y_axes,
                const DotOptions& options = {});
/// Kronecker product: blocks x[i, …] * y.
Array kron(const Operand& x, const Operand& y);
/// Axes of the vectors of `cross`.
struct CrossOptions {
  std::int64_t axis_x = -1, axis_y = -1, axis_result = -1;
};
/// Cross product of vectors with 2 or 3 components along the given axes; for 2 and 2 its third component alone.
Array cross(const Operand& x, const Operand& y, const CrossOptions& options = {});
/// Sum of products along one axis after broadcasting, the first conjugated.
Array vecdot(const Operand& x, const Operand& y, std::int64_t axis = -1);
/// Matrix (last two dimensions of x) times vector (last of y); leading dimensions broadcast.
Array matvec(const Operand& x, const Operand& y);
/// Vector (last dimension of x, conjugated) times matrix (last two of y); leading dimensions broadcast.
Array vecmat(const Operand& x, const Operand& y);

}  // namespace tessera
