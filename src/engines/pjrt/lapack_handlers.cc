// SPDX-License-Identifier: Apache-2.0
// LAPACK's routines as JAX's programs for the CPU call them: matrices column by column, batches before them, the
// letters and numbers of a call as attributes, `info` as the last result.
#include <algorithm>
#include <complex>
#include <cstring>
#include <limits>
#include <type_traits>

// The complex types of LAPACKE's header, before it chooses C's.
#define lapack_complex_float std::complex<float>
#define lapack_complex_double std::complex<double>
#include <lapacke.h>

#include "base/machine.h"
#include "base/strings.h"
#include "engines/pjrt/ffi.h"
#include "tessera/error.h"

namespace tessera::pjrt_engine {

namespace {

template <class T>
using RealPart = decltype(std::abs(T{}));

constexpr int kColumns = LAPACK_COL_MAJOR;

// Out of memory is no answer, as NaN for a matrix without one would be.
lapack_int with_memory(lapack_int info) {
  if (info == LAPACK_WORK_MEMORY_ERROR || info == LAPACK_TRANSPOSE_MEMORY_ERROR) {
    throw ResourceExhaustedError("memory is out: a decomposition's workspace cannot be had");
  }
  return info;
}
lapack_int to_lapack(std::int64_t n) {
  if (n > std::numeric_limits<lapack_int>::max()) throw ValueError(str("LAPACK takes no dimension of ", n));
  return static_cast<lapack_int>(n);
}
lapack_int leading(std::int64_t n) { return std::max<lapack_int>(to_lapack(n), 1); }

// One name for LAPACK's four.
#define TESSERA_COLUMNS(T, p, gqr, evd)                                                                               \
  lapack_int qr_columns(std::int64_t m, std::int64_t n, T* a, T* tau) {                                               \
    return with_memory(LAPACKE_##p##geqrf(kColumns, to_lapack(m), to_lapack(n), a, leading(m), tau));                 \
  }                                                                                                                   \
  lapack_int q_columns(std::int64_t m, std::int64_t n, std::int64_t k, T* a, const T* tau) {                          \
    return with_memory(LAPACKE_##p##gqr(kColumns, to_lapack(m), to_lapack(n), to_lapack(k), a, leading(m), tau));     \
  }                                                                                                                   \
  lapack_int lu_columns(std::int64_t m, std::int64_t n, T* a, lapack_int* pivots) {                                   \
    return with_memory(LAPACKE_##p##getrf(kColumns, to_lapack(m), to_lapack(n), a, leading(m), pivots));              \
  }                                                                                                                   \
  lapack_int hermitian_columns(char job, char uplo, std::int64_t n, T* a, RealPart<T>* w) {                           \
    return with_memory(LAPACKE_##p##evd(kColumns, job, uplo, to_lapack(n), a, leading(n), w));                        \
  }                                                                                                                   \
  lapack_int svd_columns(char job, std::int64_t m, std::int64_t n, T* a, RealPart<T>* s, T* u, T* v,                  \
                         std::int64_t rows_of_v) {                                                                    \
    return with_memory(LAPACKE_##p##gesdd(kColumns, job, to_lapack(m), to_lapack(n), a, leading(m), s, u, leading(m), \
                                          v, leading(rows_of_v)));                                                    \
  }                                                                                                                   \
  lapack_int hessenberg_columns(std::int64_t n, std::int64_t low, std::int64_t high, T* a, T* tau) {                  \
    return with_memory(                                                                                               \
        LAPACKE_##p##gehrd(kColumns, to_lapack(n), to_lapack(low), to_lapack(high), a, leading(n), tau));             \
  }
TESSERA_COLUMNS(float, s, orgqr, syevd)
TESSERA_COLUMNS(double, d, orgqr, syevd)
TESSERA_COLUMNS(std::complex<float>, c, ungqr, heevd)
TESSERA_COLUMNS(std::complex<double>, z, ungqr, heevd)
#undef TESSERA_COLUMNS

// A call on batches of matrices.
struct Matrices {
  explicit Matrices(const FfiCall& c) : call(c) {
    const FfiBuffer& a = c.args()[0];
    const std::size_t rank = a.shape.size();
    if (rank < 2) throw ValueError(str("a LAPACK call whose operand is of rank ", rank));
    m = a.shape[rank - 2];
    n = a.shape[rank - 1];
    for (std::size_t d = 0; d + 2 < rank; ++d) batch *= a.shape[d];
    // The first result begins as the first operand, whose memory it may have.
    const FfiBuffer& out = c.results()[0];
    if (out.nbytes() != a.nbytes()) throw ValueError("a LAPACK call whose result differs in size from its operand");
    if (out.data != a.data && a.nbytes() > 0) std::memcpy(out.data, a.data, static_cast<std::size_t>(a.nbytes()));
  }
  std::int64_t min() const { return std::min(m, n); }
  bool empty() const { return batch == 0 || m == 0 || n == 0; }
  // Of batch member i, the result's elements.
  template <class T>
  T* result(std::size_t which, std::int64_t i) const {
    const FfiBuffer& b = call.results()[which];
    return static_cast<T*>(b.data) + (batch == 0 ? 0 : i * (size_of(b.shape) / batch));
  }
  void set_info(std::size_t which, std::int64_t i, lapack_int info) const { *result<std::int32_t>(which, i) = info; }
  char letter(const char* name, char otherwise) const { return static_cast<char>(call.integer(name, otherwise)); }

  const FfiCall& call;
  std::int64_t m = 0, n = 0, batch = 1;
};

// Routines without `info` among their results.
template <class T>
void spoil_if(lapack_int info, T* x, std::int64_t size) {
  if (info != 0) std::fill(x, x + size, T(std::numeric_limits<RealPart<T>>::quiet_NaN()));
}

template <class T>
struct Geqrf {
  static void run(const Matrices& a) {
    if (a.empty()) return;
    for (std::int64_t i = 0; i < a.batch; ++i) {
      T* x = a.result<T>(0, i);
      T* tau = a.result<T>(1, i);
      spoil_if(qr_columns(a.m, a.n, x, tau), x, a.m * a.n);
    }
  }
};
template <class T>
struct Orgqr {
  static void run(const Matrices& a) {
    if (a.empty()) return;
    const FfiBuffer& factors = a.call.args().at(1);
    const std::int64_t k = factors.shape.back();
    for (std::int64_t i = 0; i < a.batch; ++i) {
      T* x = a.result<T>(0, i);
      spoil_if(q_columns(a.m, a.n, k, x, static_cast<const T*>(factors.data) + i * k), x, a.m * a.n);
    }
  }
};
template <class T>
struct Getrf {
  static void run(const Matrices& a) {
    for (std::int64_t i = 0; i < a.batch; ++i) {
      a.set_info(2, i, a.empty() ? 0 : lu_columns(a.m, a.n, a.result<T>(0, i), a.result<lapack_int>(1, i)));
    }
  }
};
template <class T>
struct Syevd {
  static void run(const Matrices& a) {
    const char job = a.letter("mode", 'V'), uplo = a.letter("uplo", 'L');
    for (std::int64_t i = 0; i < a.batch; ++i) {
      lapack_int info = 0;
      if (!a.empty()) info = hermitian_columns(job, uplo, a.n, a.result<T>(0, i), a.result<RealPart<T>>(1, i));
      a.set_info(2, i, info);
    }
  }
};
template <class T>
struct Gesdd {
  static void run(const Matrices& a) {
    const char job = a.letter("mode", 'S');
    for (std::int64_t i = 0; i < a.batch; ++i) {
      T* u = a.result<T>(2, i);
      T* v = a.result<T>(3, i);
      if (a.empty()) {  // of the full vectors any basis is one
        if (job == 'A') identity(u, a.m), identity(v, a.n);
        a.set_info(4, i, 0);
        continue;
      }
      a.set_info(
          4, i,
          svd_columns(job, a.m, a.n, a.result<T>(0, i), a.result<RealPart<T>>(1, i), u, v, job == 'S' ? a.min() : a.n));
    }
  }
  static void identity(T* x, std::int64_t n) {
    std::fill(x, x + n * n, T(0));
    for (std::int64_t i = 0; i < n; ++i) x[i * n + i] = T(1);
  }
};
template <class T>
struct Gehrd {
  static void run(const Matrices& a) {
    const std::int64_t low = a.call.integer("low", 1), high = a.call.integer("high", a.n);
    for (std::int64_t i = 0; i < a.batch; ++i) {
      a.set_info(2, i, a.empty() ? 0 : hessenberg_columns(a.n, low, high, a.result<T>(0, i), a.result<T>(1, i)));
    }
  }
};

template <template <class> class Routine, std::size_t kArgs, std::size_t kResults>
void by_dtype(const FfiCall& call) {
  if (call.args().size() != kArgs || call.results().size() != kResults) {
    throw ValueError(str("a LAPACK call of ", call.args().size(), " operands and ", call.results().size(),
                         " results; expected ", kArgs, " and ", kResults));
  }
  const base::BlasCall blas;
  const Matrices a(call);
  switch (call.args()[0].dtype) {
    case DType::F32:
      return Routine<float>::run(a);
    case DType::F64:
      return Routine<double>::run(a);
    case DType::C64:
      return Routine<std::complex<float>>::run(a);
    case DType::C128:
      return Routine<std::complex<double>>::run(a);
    default:
      throw UnimplementedError(str("a LAPACK call on ", dtype_name(call.args()[0].dtype)));
  }
}

template <template <class> class Routine, std::size_t kArgs, std::size_t kResults>
XLA_FFI_Error* handle(XLA_FFI_CallFrame* frame) {
  return answer(frame, &by_dtype<Routine, kArgs, kResults>);
}

}  // namespace

std::vector<NamedHandler> lapack_handlers() {
  struct Row {
    const char* real;
    const char* complex;
    XLA_FFI_Handler* handler;
  };
  std::vector<NamedHandler> out;
  for (const Row& row : {Row{"geqrf", "geqrf", handle<Geqrf, 1, 2>}, Row{"orgqr", "ungqr", handle<Orgqr, 2, 1>},
                         Row{"getrf", "getrf", handle<Getrf, 1, 3>}, Row{"syevd", "heevd", handle<Syevd, 1, 3>},
                         Row{"gesdd", "gesdd", handle<Gesdd, 1, 5>}, Row{"gehrd", "gehrd", handle<Gehrd, 1, 3>}}) {
    for (const char* letter : {"s", "d"}) out.push_back({str("lapack_", letter, row.real, "_ffi"), row.handler});
    for (const char* letter : {"c", "z"}) out.push_back({str("lapack_", letter, row.complex, "_ffi"), row.handler});
  }
  return out;
}

}  // namespace tessera::pjrt_engine
