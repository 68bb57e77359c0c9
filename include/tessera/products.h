// SPDX-License-Identifier: Apache-2.0
// NumPy's products of vectors, matrices and tensors.
#pragma once

#include <optional>
#include <utility>

#include "tessera/array.h"
#include "tessera/ops.h"

namespace tessera {

/// Sum over the last dimension of x and the one before the last of y (the last of a vector); a product for rank 0.
Array dot(const Operand& x, const Operand& y, const DotOptions& options = {});
/// Of the flattened arrays, the first conjugated.
Array vdot(const Operand& x, const Operand& y, const DotOptions& options = {});
/// Sum over the last dimension of both.
Array inner(const Operand& x, const Operand& y, const DotOptions& options = {});
/// Products of all elements of both flattened arrays.
Array outer(const Operand& x, const Operand& y);
/// Sum over the last `axes` dimensions of x and the first of y.
Array tensordot(const Operand& x, const Operand& y, std::int64_t axes = 2, const DotOptions& options = {});
/// Over the named dimensions of both.
Array tensordot(const Operand& x, const Operand& y, const Dims& x_axes, const Dims& y_axes,
                const DotOptions& options = {});
/// Blocks x[i, …] * y.
Array kron(const Operand& x, const Operand& y);
struct CrossOptions {
  std::int64_t axis_x = -1, axis_y = -1, axis_result = -1;
};
/// Of vectors with 2 or 3 components; a number for 2 and 2.
Array cross(const Operand& x, const Operand& y, const CrossOptions& options = {});
/// Sum of products along one axis after broadcasting, the first conjugated.
Array vecdot(const Operand& x, const Operand& y, std::int64_t axis = -1);
/// Matrix times vector, and vector (conjugated) times matrix, over leading dimensions that broadcast.
Array matvec(const Operand& x, const Operand& y);
Array vecmat(const Operand& x, const Operand& y);

}  // namespace tessera
