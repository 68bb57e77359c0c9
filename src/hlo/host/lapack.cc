// SPDX-License-Identifier: Apache-2.0
#include "hlo/host/lapack.h"

#include <complex>
#include <cstring>

#define lapack_complex_float std::complex<float>
#define lapack_complex_double std::complex<double>
#include <lapacke.h>

#include "base/machine.h"
#include "base/strings.h"
#include "tessera/error.h"

namespace tessera::hlo {

namespace {
using Flags = std::map<std::string, std::int64_t>;
using Hosts = std::vector<HostArray>;
using c32 = std::complex<float>;
using c64 = std::complex<double>;
template <class T>
using Real = decltype(std::abs(T{}));

constexpr int kRow = LAPACK_ROW_MAJOR;

// Out of memory is no answer, as NaN for a matrix without one would be.
lapack_int done(lapack_int info) {
  if (info == LAPACK_WORK_MEMORY_ERROR || info == LAPACK_TRANSPOSE_MEMORY_ERROR) {
    throw ResourceExhaustedError("memory is out: a decomposition's workspace cannot be had");
  }
  return info;
}
lapack_int narrow(std::int64_t n) { return static_cast<lapack_int>(n); }

#define TESSERA_COMMON(T, p, ormqr_, sytrd_, syevd_)                                                            \
  lapack_int ormqr(char side, char trans, lapack_int m, lapack_int n, lapack_int k, const T* a, lapack_int lda, \
                   const T* tau, T* c) {                                                                        \
    return done(LAPACKE_##p##ormqr_(kRow, side, trans, m, n, k, a, lda, tau, c, n));                            \
  }                                                                                                             \
  lapack_int gehrd(lapack_int n, lapack_int low, lapack_int high, T* a, T* tau) {                               \
    return done(LAPACKE_##p##gehrd(kRow, n, low, high, a, n, tau));                                             \
  }                                                                                                             \
  lapack_int sytrd(char uplo, lapack_int n, T* a, Real<T>* d, Real<T>* e, T* tau) {                             \
    return done(LAPACKE_##p##sytrd_(kRow, uplo, n, a, n, d, e, tau));                                           \
  }                                                                                                             \
  lapack_int syevd(char uplo, lapack_int n, T* a, Real<T>* w) {                                                 \
    return done(LAPACKE_##p##syevd_(kRow, 'V', uplo, n, a, n, w));                                              \
  }                                                                                                             \
  lapack_int gtsv(lapack_int n, lapack_int k, T* low, T* d, T* up, T* b) {                                      \
    return done(LAPACKE_##p##gtsv(kRow, n, k, low, d, up, b, k));                                               \
  }                                                                                                             \
  lapack_int geqp3(lapack_int m, lapack_int n, T* a, lapack_int* p_, T* tau) {                                  \
    return done(LAPACKE_##p##geqp3(kRow, m, n, a, n, p_, tau));                                                 \
  }                                                                                                             \
  lapack_int gesvd(char job, lapack_int m, lapack_int n, T* a, Real<T>* s, T* u, lapack_int ldu, T* v) {        \
    std::vector<Real<T>> rest(static_cast<std::size_t>(std::max(m, n)) + 1);                                    \
    return done(LAPACKE_##p##gesvd(kRow, job, job, m, n, a, n, s, u, ldu, v, n, rest.data()));                  \
  }
TESSERA_COMMON(float, s, ormqr, sytrd, syevd)
TESSERA_COMMON(double, d, ormqr, sytrd, syevd)
TESSERA_COMMON(c32, c, unmqr, hetrd, heevd)
TESSERA_COMMON(c64, z, unmqr, hetrd, heevd)
#undef TESSERA_COMMON

// General eigenvalues come as two lists of real numbers from real matrices, as one of complex ones from complex ones.
#define TESSERA_REAL(T, p)                                                                    \
  lapack_int geev(char l, char r, lapack_int n, T* a, T* wr, T* wi, T* vl, T* vr) {           \
    return done(LAPACKE_##p##geev(kRow, l, r, n, a, n, wr, wi, vl, n, vr, n));                \
  }                                                                                           \
  lapack_int gees(char v, lapack_int n, T* a, T* wr, T* wi, T* vs) {                          \
    lapack_int selected = 0;                                                                  \
    return done(LAPACKE_##p##gees(kRow, v, 'N', nullptr, n, a, n, &selected, wr, wi, vs, n)); \
  }
TESSERA_REAL(float, s)
TESSERA_REAL(double, d)
#undef TESSERA_REAL
#define TESSERA_COMPLEX(T, p)                                                            \
  lapack_int geev(char l, char r, lapack_int n, T* a, T* w, T*, T* vl, T* vr) {          \
    return done(LAPACKE_##p##geev(kRow, l, r, n, a, n, w, vl, n, vr, n));                \
  }                                                                                      \
  lapack_int gees(char v, lapack_int n, T* a, T* w, T*, T* vs) {                         \
    lapack_int selected = 0;                                                             \
    return done(LAPACKE_##p##gees(kRow, v, 'N', nullptr, n, a, n, &selected, w, vs, n)); \
  }
TESSERA_COMPLEX(c32, c)
TESSERA_COMPLEX(c64, z)
#undef TESSERA_COMPLEX

// The matrices of one call.
struct Job {
  const Hosts& in;
  Hosts& out;
  const Flags& flags;
  std::int64_t batch = 1;
  std::int64_t flag(const char* name, std::int64_t otherwise) const {
    auto it = flags.find(name);
    return it == flags.end() ? otherwise : it->second;
  }
  char letter(const char* name, char otherwise) const { return static_cast<char>(flag(name, otherwise)); }
};
std::int64_t last(const HostArray& a, std::size_t from_end) {
  return a.shape().size() < from_end ? 1 : a.shape()[a.shape().size() - from_end];
}
std::int64_t batches(const HostArray& a, std::size_t rank) {
  std::int64_t n = 1;
  for (std::size_t i = 0; i + rank < a.shape().size(); ++i) n *= a.shape()[i];
  return n;
}
// Elements of batch member i, of `size` elements each.
template <class T>
T* batch_item(HostArray& a, std::int64_t i, std::int64_t size) {
  return static_cast<T*>(a.data()) + i * size;
}
template <class T>
const T* batch_item(const HostArray& a, std::int64_t i, std::int64_t size) {
  return static_cast<const T*>(a.data()) + i * size;
}
void copy_into(HostArray& to, const HostArray& from) {
  if (to.nbytes() != from.nbytes()) throw ValueError("a LAPACK call whose result differs in size from its operand");
  if (to.nbytes() > 0) std::memcpy(to.data(), from.data(), static_cast<std::size_t>(to.nbytes()));
}
void set_info(HostArray& info, std::int64_t i, lapack_int v) { static_cast<std::int32_t*>(info.data())[i] = v; }

template <class T>
void run_ormqr(Job& j) {
  auto rows = last(j.in[0], 2), cols = last(j.in[0], 1), k = last(j.in[1], 1);
  auto m = last(j.in[2], 2), n = last(j.in[2], 1);
  copy_into(j.out[0], j.in[2]);
  char trans = j.flag("transpose", 0) == 0 ? 'N' : std::is_same_v<T, Real<T>> ? 'T' : 'C';
  for (std::int64_t i = 0; i < batches(j.in[0], 2); ++i) {
    ormqr(j.flag("left", 1) != 0 ? 'L' : 'R', trans, narrow(m), narrow(n), narrow(k),
          batch_item<T>(j.in[0], i, rows * cols), narrow(cols), batch_item<T>(j.in[1], i, k),
          batch_item<T>(j.out[0], i, m * n));
  }
}
template <class T>
void run_gehrd(Job& j) {
  auto n = last(j.in[0], 1);
  copy_into(j.out[0], j.in[0]);
  for (std::int64_t i = 0; i < batches(j.in[0], 2); ++i) {
    set_info(j.out[2], i,
             gehrd(narrow(n), narrow(j.flag("low", 1)), narrow(j.flag("high", n)), batch_item<T>(j.out[0], i, n * n),
                   batch_item<T>(j.out[1], i, n - 1)));
  }
}
template <class T>
void run_sytrd(Job& j) {
  auto n = last(j.in[0], 1);
  copy_into(j.out[0], j.in[0]);
  for (std::int64_t i = 0; i < batches(j.in[0], 2); ++i) {
    set_info(
        j.out[4], i,
        sytrd(j.letter("uplo", 'L'), narrow(n), batch_item<T>(j.out[0], i, n * n), batch_item<Real<T>>(j.out[1], i, n),
              batch_item<Real<T>>(j.out[2], i, n - 1), batch_item<T>(j.out[3], i, n - 1)));
  }
}
template <class T>
void run_syevd(Job& j) {
  auto n = last(j.in[0], 1);
  if (n == 0) return;  // no eigenvalues
  copy_into(j.out[0], j.in[0]);
  for (std::int64_t i = 0; i < batches(j.in[0], 2); ++i) {
    set_info(j.out[2], i,
             syevd(j.letter("uplo", 'L'), narrow(n), batch_item<T>(j.out[0], i, n * n),
                   batch_item<Real<T>>(j.out[1], i, n)));
  }
}
template <class T>
void run_gtsv(Job& j) {
  auto n = last(j.in[1], 1), k = last(j.in[3], 1);
  std::vector<T> low(static_cast<std::size_t>(n)), up(static_cast<std::size_t>(n));
  for (std::size_t r = 0; r < 4; ++r) copy_into(j.out[r], j.in[r]);
  for (std::int64_t i = 0; i < batches(j.in[1], 1); ++i) {
    // JAX's lower diagonal begins with an element outside the matrix, LAPACK's does not.
    T* lower = batch_item<T>(j.out[0], i, n);
    set_info(j.out[4], i,
             gtsv(narrow(n), narrow(k), lower + (n > 1 ? 1 : 0), batch_item<T>(j.out[1], i, n),
                  batch_item<T>(j.out[2], i, n), batch_item<T>(j.out[3], i, n * k)));
  }
}
template <class T>
void run_geqp3(Job& j) {
  auto m = last(j.in[0], 2), n = last(j.in[0], 1);
  copy_into(j.out[0], j.in[0]);
  copy_into(j.out[1], j.in[1]);
  for (std::int64_t i = 0; i < batches(j.in[0], 2); ++i) {
    geqp3(narrow(m), narrow(n), batch_item<T>(j.out[0], i, m * n), batch_item<lapack_int>(j.out[1], i, n),
          batch_item<T>(j.out[2], i, std::min(m, n)));
  }
}
template <class T>
void run_gesvd(Job& j) {
  auto m = last(j.in[0], 2), n = last(j.in[0], 1), k = std::min(m, n);
  char job = j.letter("mode", 'S');
  std::int64_t ldu = job == 'A' ? m : k, rows = job == 'A' ? n : k;
  copy_into(j.out[0], j.in[0]);
  std::vector<T> unused(1);
  for (std::int64_t i = 0; i < batches(j.in[0], 2); ++i) {
    bool vectors = job != 'N';
    set_info(j.out[4], i,
             gesvd(job, narrow(m), narrow(n), batch_item<T>(j.out[0], i, m * n), batch_item<Real<T>>(j.out[1], i, k),
                   vectors ? batch_item<T>(j.out[2], i, m * ldu) : unused.data(), narrow(ldu),
                   vectors ? batch_item<T>(j.out[3], i, rows * n) : unused.data()));
  }
}

// A pair of real columns holds the parts of two conjugate vectors.
template <class T>
void unpack(const T* packed, const T* imaginary, std::int64_t n, std::complex<T>* out) {
  for (std::int64_t c = 0; c < n; ++c) {
    bool pair = imaginary[c] != 0 && c + 1 < n;
    for (std::int64_t r = 0; r < n; ++r) {
      T re = packed[r * n + c], im = pair ? packed[r * n + c + 1] : T{0};
      out[r * n + c] = {re, im};
      if (pair) out[r * n + c + 1] = {re, -im};
    }
    if (pair) ++c;
  }
}

template <class T>
void run_geev(Job& j) {
  auto n = last(j.in[0], 1);
  if (n == 0) return;  // no eigenvalues
  auto size = static_cast<std::size_t>(n * n);
  char l = j.letter("compute_left", 'N'), r = j.letter("compute_right", 'V');
  constexpr bool kReal = std::is_same_v<T, Real<T>>;
  std::size_t w = kReal ? 2 : 1;  // lists of eigenvalues
  for (std::int64_t i = 0; i < batches(j.in[0], 2); ++i) {
    const T* from = batch_item<T>(j.in[0], i, n * n);
    std::vector<T> a(from, from + size), left(size), right(size);
    T* re = batch_item<T>(j.out[0], i, n);
    T* im = kReal ? batch_item<T>(j.out[1], i, n) : nullptr;
    lapack_int info = geev(l, r, narrow(n), a.data(), re, im, left.data(), right.data());
    if constexpr (kReal) {
      if (l == 'V') unpack(left.data(), im, n, batch_item<std::complex<T>>(j.out[2], i, n * n));
      if (r == 'V') unpack(right.data(), im, n, batch_item<std::complex<T>>(j.out[3], i, n * n));
    } else {
      if (l == 'V') std::copy(left.begin(), left.end(), batch_item<T>(j.out[1], i, n * n));
      if (r == 'V') std::copy(right.begin(), right.end(), batch_item<T>(j.out[2], i, n * n));
    }
    set_info(j.out[w + 2], i, info);
  }
}

template <class T>
void run_gees(Job& j) {
  auto n = last(j.in[0], 1);
  if (n == 0) return;  // no eigenvalues
  constexpr bool kReal = std::is_same_v<T, Real<T>>;
  std::size_t selected = kReal ? 4 : 3;
  copy_into(j.out[0], j.in[0]);
  for (std::int64_t i = 0; i < batches(j.in[0], 2); ++i) {
    T* im = kReal ? batch_item<T>(j.out[3], i, n) : nullptr;
    lapack_int info = gees(j.letter("mode", 'V'), narrow(n), batch_item<T>(j.out[0], i, n * n),
                           batch_item<T>(j.out[2], i, n), im, batch_item<T>(j.out[1], i, n * n));
    set_info(j.out[selected], i, 0);
    set_info(j.out[selected + 1], i, info);
  }
}

struct Routine {
  const char* name;
  std::size_t operands;
  void (*run[4])(Job&);  // f32, f64, c64, c128
};
#define TESSERA_ROUTINE(name, operands)                                                          \
  {                                                                                              \
#name, operands, { run_##name<float>, run_##name<double>, run_##name<c32>, run_##name<c64> } \
  }
const Routine kRoutines[] = {TESSERA_ROUTINE(ormqr, 3), TESSERA_ROUTINE(gehrd, 1), TESSERA_ROUTINE(sytrd, 1),
                             TESSERA_ROUTINE(gtsv, 4),  TESSERA_ROUTINE(geqp3, 2), TESSERA_ROUTINE(gesvd, 1),
                             TESSERA_ROUTINE(geev, 1),  TESSERA_ROUTINE(gees, 1),  TESSERA_ROUTINE(syevd, 1)};
#undef TESSERA_ROUTINE
}  // namespace

ops::HostFunction lapack_function(const std::string& routine, DType dtype, Flags flags, ir::Types types,
                                  std::int64_t batch_dims) {
  for (const auto& r : kRoutines) {
    if (routine != r.name) continue;
    int which = dtype == DType::F32 ? 0 : dtype == DType::F64 ? 1 : dtype == DType::C64 ? 2 : 3;
    auto run = r.run[which];
    std::size_t operands = r.operands;
    return [run, operands, flags = std::move(flags), types = std::move(types), batch_dims](const Hosts& in) {
      if (in.size() != operands) throw ValueError("a LAPACK call with a wrong number of operands");
      Hosts out;
      for (const auto& t : types) {
        Shape shape = t.shape;
        std::copy_n(in[0].shape().begin(), batch_dims, shape.begin());
        out.emplace_back(t.dtype, shape);
        if (out.back().nbytes() > 0) std::memset(out.back().data(), 0, static_cast<std::size_t>(out.back().nbytes()));
      }
      base::BlasCall blas;
      Job job{in, out, flags};
      run(job);
      return out;
    };
  }
  throw UnimplementedError(str("the custom call lapack_*", routine, " is not known here"));
}

}  // namespace tessera::hlo
