// SPDX-License-Identifier: Apache-2.0
// Dense linear algebra as jax.numpy.linalg and jax.scipy.linalg. The last dimensions hold one problem, those before
// them a batch; dtypes are f32, f64, c64 and c128.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

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

/// Ascending; of a symmetric or Hermitian matrix.
Array eigvalsh(const Operand& a);
/// Descending.
Array svdvals(const Operand& a);

// --- norms -----------------------------------------------------------------------------------------------------------
/// What a norm measures. For vectors a power p, `infinity`, `-infinity` or 0 (how many are not zero); for matrices
/// "fro", "nuc", 1, -1, 2, -2 and the infinities.
class NormOrder {
 public:
  // NOLINTBEGIN(google-explicit-constructor): orders are written as numbers or names
  NormOrder() = default;
  template <class T>
  requires std::is_arithmetic_v<T> NormOrder(T p) : power_(static_cast<double>(p)) {}
  NormOrder(const char* name) : name_(name) {}
  // NOLINTEND(google-explicit-constructor)
  const std::optional<double>& power() const { return power_; }
  const std::string& name() const { return name_; }

 private:
  std::optional<double> power_;
  std::string name_;
};
inline constexpr double infinity = std::numeric_limits<double>::infinity();
struct NormOptions {
  NormOrder order = {};  ///< 2 for vectors, "fro" for matrices
  MaybeDims axis = {};   ///< one: of vectors; two: of matrices; all elements of rank 1 or 2
  bool keepdims = false;
};
/// Throws `ValueError` for an order that vectors or matrices lack.
Array norm(const Operand& x, const NormOptions& options = {});
/// Over the axes, or all, as one vector.
Array vector_norm(const Operand& x, const NormOptions& options = {});
/// Over the last two dimensions.
Array matrix_norm(const Operand& x, const NormOptions& options = {});
/// norm(a) norm(inv(a)); by default the largest over the smallest singular value.
Array cond(const Operand& x, const NormOrder& order = {});

// --- powers and inverses ---------------------------------------------------------------------------------------------
/// Moore-Penrose inverse: singular values below `rtol` times the largest count as zero.
Array pinv(const Operand& a, std::optional<double> rtol = std::nullopt);
/// Number of singular values above `tol` (by default size times epsilon times the largest), int32.
Array matrix_rank(const Operand& a, std::optional<double> tol = std::nullopt);
/// Negative powers are those of the inverse.
Array matrix_power(const Operand& a, std::int64_t n);
/// Matrix exponential.
Array expm(const Operand& a);
/// Product of several matrices (the first and last may be vectors), in the cheapest order.
Array multi_dot(const std::vector<Array>& arrays, const Loc& loc = Loc::current());
struct LstsqResult {
  Array x, residuals, rank, s;
};
/// Least squares of a x = b by singular values; those below `rcond` times the largest count as zero.
LstsqResult lstsq(const Operand& a, const Operand& b, std::optional<double> rcond = std::nullopt);
/// Inverse over the first `ind` dimensions.
Array tensorinv(const Operand& a, std::int64_t ind = 2);
Array tensorsolve(const Operand& a, const Operand& b);

// --- solving from factors --------------------------------------------------------------------------------------------
/// x with a x = b from cholesky(a).
Array cho_solve(const Operand& lower_factor, const Operand& b);
/// x with a x = b from lu(a).
Array lu_solve(const LuResult& factors, const Operand& b);
struct PolarResult {
  Array unitary, positive;
};
/// a = unitary positive.
PolarResult polar(const Operand& a);

// --- matrices of a form ----------------------------------------------------------------------------------------------
Array block_diag(const std::vector<Array>& blocks, const Loc& loc = Loc::current());
/// Constant along diagonals: first column c and first row r (the conjugate of c unless given).
Array toeplitz(const Operand& c, const std::optional<Array>& r = std::nullopt);
/// Constant along anti-diagonals: first column c and last row r (zeros unless given).
Array hankel(const Operand& c, const std::optional<Array>& r = std::nullopt);
Array circulant(const Operand& c);
/// Companion matrix of a polynomial, highest power first.
Array companion(const Operand& a);
Array hilbert(std::int64_t n, const Loc& loc = Loc::current());
/// Matrix of the Fourier transform of n points.
Array dft(std::int64_t n, const Loc& loc = Loc::current());

}  // namespace tessera::linalg
