// SPDX-License-Identifier: Apache-2.0
// Dense linear algebra as jax.numpy.linalg and jax.scipy.linalg. The last dimensions hold one problem, those before
// them a batch; dtypes are f32, f64, c64 and c128, integers become floats. A sharded batch
// communicates nothing. Sharded matrices: Cholesky, QR and triangular solves are blocked where that moves fewer bytes
// or a device has no room for the matrix, others all-gather it (docs/communication.md). Throws `ValueError` for shapes
// that do not fit.
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

/// Lower Cholesky factor of a positive definite matrix (…, n, n), which is made symmetric (Hermitian) first; NaN where
/// it is not positive definite.
Array cholesky(const Operand& a);
/// The factors of `qr`.
struct QrResult {
  Array q, r;
};
/// QR factorization a = q r of (…, m, n), with k = min(m, n) columns of q, or all m with `complete`.
QrResult qr(const Operand& a, bool complete = false);
/// What `lu` gives.
struct LuResult {
  Array lu, pivots, permutation;
};
/// LU factorization with partial pivoting of (…, m, n): both factors in one matrix, the row exchanges (int32), and the
/// permutation of rows that they amount to (int32).
LuResult lu(const Operand& a);
/// What `eigh` gives.
struct EighResult {
  Array eigenvalues, eigenvectors;
};
/// Eigenvalues in ascending order and eigenvectors (columns) of a symmetric or Hermitian matrix, which is made so
/// first.
EighResult eigh(const Operand& a);
/// The factors of `svd`.
struct SvdResult {
  Array u, s, vh;
};
/// Singular value decomposition a = u diag(s) vh with s descending; `full_matrices` gives square u and vh.
SvdResult svd(const Operand& a, bool full_matrices = true);
/// What `hessenberg` gives; `q` where it was asked for.
struct HessenbergResult {
  Array h;
  std::optional<Array> q;
};
/// Hessenberg form of a square matrix (…, n, n): a = q h q^H with h zero below its first subdiagonal and q unitary,
/// which is computed when `calc_q`. It has no derivative.
HessenbergResult hessenberg(const Operand& a, bool calc_q = false);
/// What LAPACK's gehrd gives.
struct PackedHessenberg {
  Array a, taus;
};
/// The Hessenberg form as LAPACK's gehrd packs it: h (…, n, n), below its first subdiagonal the reflectors whose
/// product is q, and their factors (…, n - 1).
PackedHessenberg hessenberg_packed(const Operand& a);
/// The first n columns (…, m, n) of the product of k reflectors: column i of a (…, m, n), n <= m, holds reflector i
/// below its diagonal, `taus` (…, k), k <= n, their factors. It has no derivative.
Array householder_product(const Operand& a, const Operand& taus);
/// Which triangle, side and form `triangular_solve` takes.
struct TriangularOptions {
  bool left_side = true, lower = false, transpose_a = false, conjugate_a = false, unit_diagonal = false;
};
/// x with op(a) x = b, or x op(a) = b unless `left_side`.
Array triangular_solve(const Operand& a, const Operand& b, const TriangularOptions& options = {});
/// x with a x = b by LU factorization; b is a matrix, or a vector of rank 1. Batches broadcast.
Array solve(const Operand& a, const Operand& b);
/// Inverse of a square matrix; infinite or NaN where it is singular.
Array inv(const Operand& a);
/// Determinant by LU factorization.
Array det(const Operand& a);
/// Sign and logarithm of the magnitude of the determinant.
std::pair<Array, Array> slogdet(const Operand& a);

/// Eigenvalues of a symmetric or Hermitian matrix, ascending.
Array eigvalsh(const Operand& a);
/// Singular values, descending.
Array svdvals(const Operand& a);

// --- norms -----------------------------------------------------------------------------------------------------------
/// The order of a norm. For vectors a power p, `infinity`, `-infinity` or 0 (how many are not zero); for matrices
/// "fro", "nuc", 1, -1, 2, -2 and the infinities.
class NormOrder {
 public:
  // NOLINTBEGIN(google-explicit-constructor): orders are written as scalars or names
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
/// For `norm`: the largest absolute value.
inline constexpr double infinity = std::numeric_limits<double>::infinity();
/// Order and axes of `norm`.
struct NormOptions {
  NormOrder order = {};  ///< 2 for vectors, "fro" for matrices
  MaybeDims axis = {};   ///< one: of vectors; two: of matrices; all elements of rank 1 or 2
  bool keepdims = false;
};
/// Norm of vectors (one axis) or matrices (two axes), real. A sum over a sharded axis needs an all-reduce; "nuc", 2 and
/// -2 of matrices need singular values. Throws `ValueError` for an order that vectors or matrices lack.
Array norm(const Operand& x, const NormOptions& options = {});
/// Norm over the axes, or over all, as of one vector.
Array vector_norm(const Operand& x, const NormOptions& options = {});
/// Norm of the matrices in the last two dimensions.
Array matrix_norm(const Operand& x, const NormOptions& options = {});
/// Condition number norm(a) norm(inv(a)); by default the largest over the smallest singular value. Infinity for
/// singular matrices.
Array cond(const Operand& x, const NormOrder& order = {});

// --- powers and inverses ---------------------------------------------------------------------------------------------
/// Moore-Penrose inverse: singular values below `rtol` times the largest count as zero.
Array pinv(const Operand& a, std::optional<double> rtol = std::nullopt);
/// Number of singular values above `tol` (by default size times epsilon times the largest), int32.
Array matrix_rank(const Operand& a, std::optional<double> tol = std::nullopt);
/// a multiplied n times by itself; negative powers are those of the inverse, power 0 is the identity.
Array matrix_power(const Operand& a, std::int64_t n);
/// Matrix exponential, by scaling and squaring of Pade approximants (Higham, 2005); NaN beyond 16 squarings.
Array expm(const Operand& a);
/// Product of several matrices (the first and last may be vectors), in the cheapest order.
Array multi_dot(const std::vector<Array>& arrays, const Loc& loc = Loc::current());
/// What `lstsq` gives: the solution, the sums of squared residuals, the rank and the singular values.
struct LstsqResult {
  Array x, residuals, rank, s;
};
/// Least squares of a x = b by singular values; those below `rcond` times the largest count as zero.
LstsqResult lstsq(const Operand& a, const Operand& b, std::optional<double> rcond = std::nullopt);
/// Inverse of the linear map from the last dimensions to the first `ind`, whose products of extents are equal: shape is
/// that of the last dimensions, then that of the first.
Array tensorinv(const Operand& a, std::int64_t ind = 2);
/// x with tensordot(a, x, x.ndim()) = b: a has b's shape followed by x's.
Array tensorsolve(const Operand& a, const Operand& b);

// --- solving from factors --------------------------------------------------------------------------------------------
/// x with a x = b, given cholesky(a); b is a matrix or a vector.
Array cho_solve(const Operand& lower_factor, const Operand& b);
/// x with a x = b, given lu(a); b is a matrix or a vector.
Array lu_solve(const LuResult& factors, const Operand& b);
/// The factors of `polar`.
struct PolarResult {
  Array unitary, positive;
};
/// Polar decomposition a = unitary positive, with a positive semidefinite right factor.
PolarResult polar(const Operand& a);

// --- structured matrices ---------------------------------------------------------------------------------------------
/// Matrices (vectors and scalars count as rows) on the block diagonal, zeros elsewhere.
Array block_diag(const std::vector<Array>& blocks, const Loc& loc = Loc::current());
/// Constant along diagonals: first column c and first row r (the conjugate of c unless given).
Array toeplitz(const Operand& c, const std::optional<Array>& r = std::nullopt);
/// Constant along anti-diagonals: first column c and last row r (zeros unless given).
Array hankel(const Operand& c, const std::optional<Array>& r = std::nullopt);
/// The square matrix whose first column is c and whose columns are rotations of it.
Array circulant(const Operand& c);
/// Companion matrix of a polynomial, highest power first.
Array companion(const Operand& a);
/// The n x n Hilbert matrix 1 / (i + j + 1), float32.
Array hilbert(std::int64_t n, const Loc& loc = Loc::current());
/// The n x n matrix of the discrete Fourier transform, complex64.
Array dft(std::int64_t n, const Loc& loc = Loc::current());

}  // namespace tessera::linalg
