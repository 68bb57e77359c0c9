// SPDX-License-Identifier: Apache-2.0
// Decompositions of batches of row-major matrices: f32, f64, c64 and c128, through LAPACK. Where one does not exist (a
// matrix that is not positive definite, no convergence, NaN in the input) its results are NaN, as in JAX.
// All throw `UnimplementedError` for other dtypes.
#pragma once

#include <cstdint>

#include "tessera/dtype.h"

namespace tessera::kernels {

/// a = l l^H (or u^H u) for batch matrices n x n; only the triangle named is read, the other is zero in `out`.
void cholesky(DType dtype, bool lower, std::int64_t batch, std::int64_t n, const void* a, void* out);

/// a = q r with a m x n. With k = min(m, n): q is m x k and r k x n; `full`: q m x m and r m x n.
void qr(DType dtype, bool full, std::int64_t batch, std::int64_t m, std::int64_t n, const void* a, void* q, void* r);

/// The same as LAPACK leaves it: `out` (m x n) holds r and, below its diagonal, min(m, n) reflectors, whose factors are
/// `taus`.
void packed_qr(DType dtype, std::int64_t batch, std::int64_t m, std::int64_t n, const void* a, void* out, void* taus);

/// a = q h q^H with h zero below its first subdiagonal: `out` holds h and, below, n - 1 reflectors, whose factors are
/// `taus`.
void hessenberg(DType dtype, std::int64_t batch, std::int64_t n, const void* a, void* out, void* taus);

/// The first n columns of the product of k reflectors, which stand below the diagonal of a (m x n, n <= m, k <= n).
void householder_product(DType dtype, std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k, const void* a,
                         const void* taus, void* q);

/// Partial pivoting of m x n: `out` holds u and the unit lower factor, `pivots` (min(m, n) a matrix) the row, from 0,
/// that each row was swapped with, `permutation` (m a matrix) the rows of a in their new order.
void lu(DType dtype, std::int64_t batch, std::int64_t m, std::int64_t n, const void* a, void* out, std::int32_t* pivots,
        std::int32_t* permutation);

/// a = u diag(s) vh with s descending and real. With k = min(m, n): u is m x k, vh k x n; `full`: m x m and n x n. Both
/// null: singular values alone.
void svd(DType dtype, bool full, std::int64_t batch, std::int64_t m, std::int64_t n, const void* a, void* s, void* u,
         void* vh);

/// Eigenvalues, ascending and real, and eigenvectors (columns of v) of a Hermitian matrix of which one triangle is
/// read.
void eigh(DType dtype, bool lower, std::int64_t batch, std::int64_t n, const void* a, void* w, void* v);

enum class Transform : std::uint8_t { None, Transpose, Adjoint };

/// op(a) x = b, or x op(a) = b when not `left`; a is triangular n x n with n = m or k, b and x are m x k.
void triangular_solve(DType dtype, bool left, bool lower, Transform transform, bool unit_diagonal, std::int64_t batch,
                      std::int64_t m, std::int64_t k, const void* a, const void* b, void* x);

}  // namespace tessera::kernels
