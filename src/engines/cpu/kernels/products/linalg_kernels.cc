// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/kernels/products/linalg_kernels.h"

#include <cblas.h>

#include <algorithm>
#include <array>
#include <complex>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <type_traits>
#include <vector>

// The complex types of LAPACKE's header, before it chooses C's.
#define lapack_complex_float std::complex<float>
#define lapack_complex_double std::complex<double>
#include <lapacke.h>

#include "base/machine.h"
#include "base/strings.h"
#include "base/thread_pool.h"
#include "engines/cpu/kernels/copy_kernels.h"
#include "engines/cpu/kernels/products/library_threads.h"
#include "tessera/error.h"

namespace tessera::kernels {

namespace {

template <class T>
struct RealOf {
  using type = T;
};
template <class T>
struct RealOf<std::complex<T>> {
  using type = T;
};
template <class T>
using Real = typename RealOf<T>::type;

// Out of memory is no answer, as NaN for a matrix without one would be.
lapack_int checked(lapack_int info) {
  if (info == LAPACK_WORK_MEMORY_ERROR || info == LAPACK_TRANSPOSE_MEMORY_ERROR) {
    throw ResourceExhaustedError("memory is out: a decomposition's workspace cannot be had");
  }
  return info;
}

// One name for LAPACK's four. Those of `potrf` and `getrf` take matrices by columns: LAPACKE would turn rows into
// columns and back an element at a time, and look for NaN likewise, which takes as long as the decomposition.
#define TESSERA_LAPACK(T, p, gqr, syevd)                                                                               \
  lapack_int potrf(char uplo, lapack_int n, T* a) { return LAPACKE_##p##potrf_work(LAPACK_COL_MAJOR, uplo, n, a, n); } \
  lapack_int geqrf(lapack_int m, lapack_int n, T* a, T* tau) {                                                         \
    return checked(LAPACKE_##p##geqrf(LAPACK_ROW_MAJOR, m, n, a, n, tau));                                             \
  }                                                                                                                    \
  lapack_int make_q(lapack_int m, lapack_int n, lapack_int k, T* a, const T* tau) {                                    \
    return checked(LAPACKE_##p##gqr(LAPACK_ROW_MAJOR, m, n, k, a, n, tau));                                            \
  }                                                                                                                    \
  lapack_int gehrd(lapack_int n, T* a, T* tau) {                                                                       \
    return checked(LAPACKE_##p##gehrd(LAPACK_ROW_MAJOR, n, 1, n, a, n, tau));                                          \
  }                                                                                                                    \
  lapack_int getrf(lapack_int m, lapack_int n, T* a, lapack_int* pivots) {                                             \
    return LAPACKE_##p##getrf_work(LAPACK_COL_MAJOR, m, n, a, m, pivots);                                              \
  }                                                                                                                    \
  lapack_int gesdd(char job, lapack_int m, lapack_int n, T* a, Real<T>* s, T* u, lapack_int ldu, T* vh) {              \
    return checked(LAPACKE_##p##gesdd(LAPACK_ROW_MAJOR, job, m, n, a, n, s, u, ldu, vh, n));                           \
  }                                                                                                                    \
  lapack_int hermitian(char uplo, lapack_int n, T* a, Real<T>* w) {                                                    \
    return checked(LAPACKE_##p##syevd(LAPACK_ROW_MAJOR, 'V', uplo, n, a, n, w));                                       \
  }
TESSERA_LAPACK(float, s, orgqr, syevd)
TESSERA_LAPACK(double, d, orgqr, syevd)
TESSERA_LAPACK(std::complex<float>, c, ungqr, heevd)
TESSERA_LAPACK(std::complex<double>, z, ungqr, heevd)
#undef TESSERA_LAPACK

lapack_int to_lapack(std::int64_t v) { return static_cast<lapack_int>(v); }

template <class T>
void spoil(T* out, std::int64_t n) {
  std::fill(out, out + n, T(std::numeric_limits<Real<T>>::quiet_NaN()));
}

// Calls `f(T*, begin, end)` for parts of the batch; LAPACK runs on the calling thread.
template <class F>
void for_batch(const char* function, DType dtype, std::int64_t batch, double work, const F& f) {
  auto grain = static_cast<std::int64_t>(100000.0 / (work + 1)) + 1;
  base::parallel_for(batch, grain, [&](std::int64_t begin, std::int64_t end) {
    SingleThreadedLibraries single;
    base::BlasCall blas;
    for (std::int64_t i = begin; i < end; ++i) {
      switch (dtype) {
        case DType::F32:
          f(static_cast<float*>(nullptr), i);
          break;
        case DType::F64:
          f(static_cast<double*>(nullptr), i);
          break;
        case DType::C64:
          f(static_cast<std::complex<float>*>(nullptr), i);
          break;
        case DType::C128:
          f(static_cast<std::complex<double>*>(nullptr), i);
          break;
        default:
          throw UnimplementedError(
              str(function, ": dtype = ", dtype_name(dtype), "; expected float32, float64, complex64 or complex128"));
      }
    }
  });
}

double cube(std::int64_t n) { return static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n); }

template <class T>
std::vector<T> matrix(const void* a, std::int64_t i, std::int64_t size) {
  const T* from = static_cast<const T*>(a) + i * size;
  return std::vector<T>(from, from + size);
}

// Row-major [rows, cols] to [cols, rows].
template <class T>
void transpose(const T* from, std::int64_t rows, std::int64_t cols, T* to) {
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(T));
  constexpr std::int64_t kFewElements = 48 * 48;  // that take less time than a plan of the copy
  if (rows * cols <= kFewElements) {
    for (std::int64_t c = 0; c < cols; ++c, to += rows) {
      for (std::int64_t r = 0; r < rows; ++r) to[r] = from[r * cols + c];
    }
    return;
  }
  const std::array<std::int64_t, 2> shape = {cols, rows}, out = {rows * kSize, kSize}, in = {kSize, cols * kSize};
  copy_strided(to, out, from, in, shape, kSize);
}

template <class T>
bool has_nan(const T* x, std::int64_t n) {
  int found = 0;
  for (std::int64_t i = 0; i < n; ++i) found |= x[i] != x[i] ? 1 : 0;
  return found != 0;
}

template <class T>
void qr_one(bool full, std::int64_t m, std::int64_t n, std::vector<T> a, T* q, T* r) {
  std::int64_t k = std::min(m, n), columns = full ? m : k;
  std::vector<T> tau(static_cast<std::size_t>(std::max<std::int64_t>(k, 1)));
  lapack_int info = geqrf(to_lapack(m), to_lapack(n), a.data(), tau.data());
  for (std::int64_t i = 0; i < columns; ++i) {
    for (std::int64_t j = 0; j < n; ++j) r[i * n + j] = j >= i ? a[static_cast<std::size_t>(i * n + j)] : T(0);
  }
  std::fill(q, q + m * columns, T(0));
  for (std::int64_t i = 0; i < m; ++i) std::copy_n(a.begin() + i * n, std::min(n, columns), q + i * columns);
  if (info == 0) info = make_q(to_lapack(m), to_lapack(columns), to_lapack(k), q, tau.data());
  if (info == 0) return;
  spoil(q, m * columns);
  spoil(r, columns * n);
}

template <class T>
void solve_one(bool left, bool lower, Transform transform, bool unit, std::int64_t m, std::int64_t k, const T* a,
               T* x) {
  auto side = left ? CblasLeft : CblasRight;
  auto uplo = lower ? CblasLower : CblasUpper;
  auto trans = transform == Transform::None        ? CblasNoTrans
               : transform == Transform::Transpose ? CblasTrans
                                                   : CblasConjTrans;
  auto diag = unit ? CblasUnit : CblasNonUnit;
  auto rows = static_cast<blasint>(m), cols = static_cast<blasint>(k), n = left ? rows : cols;
  const T one(1);
  if constexpr (std::is_same_v<T, float>) {
    cblas_strsm(CblasRowMajor, side, uplo, trans, diag, rows, cols, one, a, n, x, cols);
  } else if constexpr (std::is_same_v<T, double>) {
    cblas_dtrsm(CblasRowMajor, side, uplo, trans, diag, rows, cols, one, a, n, x, cols);
  } else if constexpr (std::is_same_v<T, std::complex<float>>) {
    cblas_ctrsm(CblasRowMajor, side, uplo, trans, diag, rows, cols, &one, a, n, x, cols);
  } else {
    cblas_ztrsm(CblasRowMajor, side, uplo, trans, diag, rows, cols, &one, a, n, x, cols);
  }
}

}  // namespace

void cholesky(DType dtype, bool lower, std::int64_t batch, std::int64_t n, const void* a, void* out) {
  if (n == 0) return;
  for_batch("cholesky", dtype, batch, cube(n), [&]<class T>(T*, std::int64_t i) {
    T* to = static_cast<T*>(out) + i * n * n;
    const std::unique_ptr<T[]> columns(new T[static_cast<std::size_t>(n * n)]);
    transpose(static_cast<const T*>(a) + i * n * n, n, n, columns.get());
    // The other triangle may hold anything, NaN included.
    bool exists = true;
    for (std::int64_t c = 0; c < n; ++c) {
      exists &= !has_nan(columns.get() + c * n + (lower ? c : 0), lower ? n - c : c + 1);
    }
    exists = exists && potrf(lower ? 'L' : 'U', to_lapack(n), columns.get()) == 0;
    if (exists) {
      transpose(columns.get(), n, n, to);
    } else {
      spoil(to, n * n);
    }
    for (std::int64_t r = 0; r < n; ++r) {
      lower ? std::fill(to + r * n + r + 1, to + (r + 1) * n, T(0)) : std::fill(to + r * n, to + r * n + r, T(0));
    }
  });
}

void qr(DType dtype, bool full, std::int64_t batch, std::int64_t m, std::int64_t n, const void* a, void* q, void* r) {
  std::int64_t columns = full ? m : std::min(m, n);
  if (m == 0) return;
  for_batch("qr", dtype, batch, cube(std::max(m, n)), [&]<class T>(T*, std::int64_t i) {
    T* to = static_cast<T*>(q) + i * m * columns;
    if (n == 0) {  // nothing to decompose: the identity
      for (std::int64_t e = 0; e < m * columns; ++e) to[e] = T(e / columns == e % columns ? 1 : 0);
      return;
    }
    qr_one(full, m, n, matrix<T>(a, i, m * n), to, static_cast<T*>(r) + i * columns * n);
  });
}

void packed_qr(DType dtype, std::int64_t batch, std::int64_t m, std::int64_t n, const void* a, void* out, void* taus) {
  std::int64_t k = std::min(m, n);
  for_batch("packed_qr", dtype, batch, cube(std::max(m, n)), [&]<class T>(T*, std::int64_t i) {
    const T* from = static_cast<const T*>(a) + i * m * n;
    T* to = std::copy(from, from + m * n, static_cast<T*>(out) + i * m * n) - m * n;
    T* tau = static_cast<T*>(taus) + i * k;
    if (k == 0 || geqrf(to_lapack(m), to_lapack(n), to, tau) == 0) return;
    spoil(to, m * n);
    spoil(tau, k);
  });
}

void hessenberg(DType dtype, std::int64_t batch, std::int64_t n, const void* a, void* out, void* taus) {
  for_batch("hessenberg", dtype, batch, 4 * cube(n), [&]<class T>(T*, std::int64_t i) {
    const T* from = static_cast<const T*>(a) + i * n * n;
    T* to = std::copy(from, from + n * n, static_cast<T*>(out) + i * n * n) - n * n;
    T* tau = static_cast<T*>(taus) + i * (n - 1);
    if (n < 2 || gehrd(to_lapack(n), to, tau) == 0) return;
    spoil(to, n * n);
    spoil(tau, n - 1);
  });
}

void householder_product(DType dtype, std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k, const void* a,
                         const void* taus, void* q) {
  if (n == 0) return;
  for_batch("householder_product", dtype, batch, cube(m), [&]<class T>(T*, std::int64_t i) {
    const T* from = static_cast<const T*>(a) + i * m * n;
    T* to = std::copy(from, from + m * n, static_cast<T*>(q) + i * m * n) - m * n;
    if (make_q(to_lapack(m), to_lapack(n), to_lapack(k), to, static_cast<const T*>(taus) + i * k) != 0)
      spoil(to, m * n);
  });
}

void lu(DType dtype, std::int64_t batch, std::int64_t m, std::int64_t n, const void* a, void* out, std::int32_t* pivots,
        std::int32_t* permutation) {
  std::int64_t k = std::min(m, n);
  for_batch("lu", dtype, batch, cube(std::max(m, n)), [&]<class T>(T*, std::int64_t i) {
    std::int32_t* p = permutation + i * m;
    std::iota(p, p + m, 0);
    if (k == 0) return;
    const std::unique_ptr<T[]> f(new T[static_cast<std::size_t>(m * n)]);
    transpose(static_cast<const T*>(a) + i * m * n, m, n, f.get());
    std::vector<lapack_int> swaps(static_cast<std::size_t>(k), 1);
    // A positive info only tells that u is singular: the factors stand.
    const lapack_int info = has_nan(f.get(), m * n) ? -1 : getrf(to_lapack(m), to_lapack(n), f.get(), swaps.data());
    T* to = static_cast<T*>(out) + i * m * n;
    if (info >= 0) {
      transpose(f.get(), n, m, to);
    } else {
      spoil(to, m * n);
    }
    for (std::int64_t r = 0; r < k; ++r) {
      auto with =
          info >= 0 ? static_cast<std::int32_t>(swaps[static_cast<std::size_t>(r)] - 1) : static_cast<std::int32_t>(r);
      pivots[i * k + r] = with;
      std::swap(p[r], p[with]);
    }
  });
}

void svd(DType dtype, bool full, std::int64_t batch, std::int64_t m, std::int64_t n, const void* a, void* s, void* u,
         void* vh) {
  std::int64_t k = std::min(m, n), columns = full ? m : k, rows = full ? n : k;
  if (k == 0) return;
  for_batch("svd", dtype, batch, 8 * cube(std::max(m, n)), [&]<class T>(T*, std::int64_t i) {
    auto f = matrix<T>(a, i, m * n);
    Real<T>* values = static_cast<Real<T>*>(s) + i * k;
    T* left = u ? static_cast<T*>(u) + i * m * columns : nullptr;
    T* right = vh ? static_cast<T*>(vh) + i * rows * n : nullptr;
    T unused;
    lapack_int info =
        gesdd(u ? (full ? 'A' : 'S') : 'N', to_lapack(m), to_lapack(n), f.data(), values, u ? left : &unused,
              to_lapack(std::max<std::int64_t>(u ? columns : m, 1)), u ? right : &unused);
    if (info == 0) return;
    spoil(values, k);
    if (u) spoil(left, m * columns);
    if (u) spoil(right, rows * n);
  });
}

void eigh(DType dtype, bool lower, std::int64_t batch, std::int64_t n, const void* a, void* w, void* v) {
  if (n == 0) return;
  for_batch("eigh", dtype, batch, 8 * cube(n), [&]<class T>(T*, std::int64_t i) {
    T* vectors = static_cast<T*>(v) + i * n * n;
    Real<T>* values = static_cast<Real<T>*>(w) + i * n;
    std::memcpy(static_cast<void*>(vectors), static_cast<const T*>(a) + i * n * n,
                static_cast<std::size_t>(n * n) * sizeof(T));
    if (hermitian(lower ? 'L' : 'U', to_lapack(n), vectors, values) == 0) return;
    spoil(values, n);
    spoil(vectors, n * n);
  });
}

void triangular_solve(DType dtype, bool left, bool lower, Transform transform, bool unit_diagonal, std::int64_t batch,
                      std::int64_t m, std::int64_t k, const void* a, const void* b, void* x) {
  if (m * k == 0) return;
  std::int64_t n = left ? m : k;
  for_batch("triangular_solve", dtype, batch, cube(n), [&]<class T>(T*, std::int64_t i) {
    T* to = static_cast<T*>(x) + i * m * k;
    const T* from = static_cast<const T*>(b) + i * m * k;
    if (to != from) std::copy(from, from + m * k, to);
    solve_one(left, lower, transform, unit_diagonal, m, k, static_cast<const T*>(a) + i * n * n, to);
  });
}

}  // namespace tessera::kernels
