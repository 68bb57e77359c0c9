// SPDX-License-Identifier: Apache-2.0
// Dense linear algebra and Fourier transforms. The last dimensions hold one problem, those before them a batch; dtypes
// are f32, f64, c64 and c128.
#pragma once

#include <utility>

#include "tessera/array.h"
#include "tessera/operand.h"

namespace tessera::linalg {

/// Lower factor of a positive definite matrix; NaN where it is not positive definite. The matrix is made symmetric
/// first.
Array cholesky(const Operand& a);
struct QrResult {
  Array q, r;
};
/// a = q r with k = min(m, n) columns of q, or all m with `complete`.
QrResult qr(const Operand& a, bool complete = false);
struct LuResult {
  Array lu, pivots, permutation;
};
LuResult lu(const Operand& a);
struct EighResult {
  Array eigenvalues, eigenvectors;
};
/// Ascending values and the vectors (columns) of a symmetric or Hermitian matrix, made so first.
EighResult eigh(const Operand& a);
struct SvdResult {
  Array u, s, vh;
};
/// a = u diag(s) vh, s descending.
SvdResult svd(const Operand& a, bool full_matrices = true);
struct TriangularOptions {
  bool left_side = true, lower = false, transpose_a = false, conjugate_a = false, unit_diagonal = false;
};
/// x with op(a) x = b, or x op(a) = b unless `left_side`.
Array triangular_solve(const Operand& a, const Operand& b, const TriangularOptions& options = {});
/// x with a x = b; b is a matrix, or a vector of rank 1.
Array solve(const Operand& a, const Operand& b);
Array inv(const Operand& a);
Array det(const Operand& a);
/// Sign and logarithm of the magnitude of the determinant.
std::pair<Array, Array> slogdet(const Operand& a);

}  // namespace tessera::linalg

namespace tessera::fft {

/// Along one axis; real operands become complex. No scaling forward, 1/n backward.
Array fft(const Operand& x, std::int64_t axis = -1);
Array ifft(const Operand& x, std::int64_t axis = -1);
/// Real to the first n / 2 + 1 terms.
Array rfft(const Operand& x, std::int64_t axis = -1);
/// The way back to n real points (2 (terms - 1) unless given).
Array irfft(const Operand& x, std::int64_t n = -1, std::int64_t axis = -1);
/// Over the last two axes.
Array fft2(const Operand& x);
Array ifft2(const Operand& x);

}  // namespace tessera::fft
