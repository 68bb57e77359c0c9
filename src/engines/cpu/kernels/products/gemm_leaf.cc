// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/kernels/products/gemm_leaf.h"

#include <cblas.h>

#include <algorithm>
#include <array>
#include <complex>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "base/machine.h"
#include "base/strings.h"
#include "base/thread_own.h"
#include "base/verify_mode.h"
#include "dnnl.hpp"
#include "engines/cpu/kernels/products/library_threads.h"
#include "tessera/error.h"

namespace tessera::kernels {

namespace {

CBLAS_TRANSPOSE cblas_trans(bool t) { return t ? CblasTrans : CblasNoTrans; }

// BLAS wants a leading dimension of at least the row length even where a matrix has one row.
blasint narrow(std::int64_t v) { return static_cast<blasint>(v); }

// The vectors that the two libraries work with: of 32 bytes both; or oneDNN those of 64 bytes alone, as releases of
// OpenBLAS that are older than a processor take it for the last one that they know, and 0.3.21 takes AMD's with AVX-512
// for one without; or both.
enum class Vectors { Narrow, WideInOneDnn, Wide };
Vectors vectors() {
  static const Vectors found = [] {
    constexpr std::array<std::string_view, 3> kWide{"SkylakeX", "Cooperlake", "SapphireRapids"};
    constexpr auto kCore = static_cast<unsigned>(dnnl::cpu_isa::avx512_core);  // a set of bits
    if ((static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & kCore) != kCore) return Vectors::Narrow;
    const bool known = std::ranges::find(kWide, std::string_view(openblas_get_corename())) != kWide.end();
    return known ? Vectors::Wide : Vectors::WideInOneDnn;
  }();
  return found;
}

// Where OpenBLAS is the faster of the two, by measurement on one core: products that fit the first-level cache, those
// where oneDNN would first have to transpose much, and with narrow vectors those for which it steps through memory by
// long rows without copying, and large ones.
bool prefers_blas(const GemmShape& s) {
  if (s.m == 1 || s.n == 1) return false;
  double work = static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
  if (vectors() == Vectors::WideInOneDnn) {
    return work <= 24.0 * 24 * 24 || (s.trans_a && s.trans_b && s.m <= 32 && s.k >= 256);
  }
  if (vectors() == Vectors::Narrow) {
    constexpr std::int64_t kLongRow = 512, kManyRows = 512;
    const std::int64_t short_sum = s.trans_b ? 512 : 384;
    if (work <= 20.0 * 20 * 20) return true;
    // Of short sums much of the time goes into the result, which OpenBLAS clears first. oneDNN copies the operands of
    // large results, and has to step by long rows in others.
    constexpr double kLargeResult = 0.0038;
    const bool copies = 1.0 / static_cast<double>(s.m) + 1.0 / static_cast<double>(s.n) < kLargeResult;
    const bool steps = !s.trans_b && s.n >= kLongRow && !copies;
    if (!s.trans_a && s.k <= short_sum && s.m >= kManyRows && !steps) return false;
    if (work > 256.0 * 256 * 256) return true;
    return (!s.trans_b && s.n >= kLongRow) || (s.trans_a && s.m >= kLongRow);
  }
  if (work <= 64.0 * 64 * 64) return true;
  return s.trans_b && (s.trans_a ? work > 128.0 * 128 * 128 : s.k >= 512);
}

using dnnl::memory;

struct Matmul {
  memory::desc a, b, c, scratch;
  dnnl::matmul primitive;
};

memory::desc matrix(std::int64_t rows, std::int64_t cols, std::int64_t ld, bool transposed, memory::data_type t) {
  return {{rows, cols}, t, transposed ? memory::dims{1, ld} : memory::dims{ld, 1}};
}

std::shared_ptr<const Matmul> make_matmul(const GemmShape& s, DType out) {
  auto type = out == DType::F32 ? memory::data_type::f32 : memory::data_type::bf16;
  auto result = std::make_shared<Matmul>();
  result->a = matrix(s.m, s.k, s.lda, s.trans_a, memory::data_type::bf16);
  result->b = matrix(s.k, s.n, s.ldb, s.trans_b, memory::data_type::bf16);
  result->c = matrix(s.m, s.n, s.ldc, false, type);
  dnnl::primitive_attr attributes;
  // Scratch memory of the caller: the library's own would be shared between threads.
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::matmul::primitive_desc description(dnnl::matmul::desc(result->a, result->b, result->c), attributes,
                                           onednn_engine());
  result->scratch = description.scratchpad_desc();
  result->primitive = dnnl::matmul(description);
  return result;
}

// Making a primitive takes hundreds of microseconds; programs use few shapes.
std::shared_ptr<const Matmul> cached_matmul(const GemmShape& s, DType out) {
  using Key = std::array<std::int64_t, 8>;
  static std::shared_mutex mutex;
  static auto& cache = *new std::map<Key, std::shared_ptr<const Matmul>>;
  constexpr std::size_t kMost = 4096;
  Key key = {
      s.m, s.n, s.k, s.lda, s.ldb, s.ldc, (s.trans_a ? 1 : 0) + (s.trans_b ? 2 : 0), static_cast<std::int64_t>(out)};
  {
    std::shared_lock lock(mutex);
    auto it = cache.find(key);
    if (it != cache.end()) return it->second;
  }
  auto made = make_matmul(s, out);
  std::unique_lock lock(mutex);
  if (cache.size() >= kMost) cache.clear();
  return cache.emplace(key, std::move(made)).first->second;
}

}  // namespace

bool has_wide_vectors() { return vectors() != Vectors::Narrow; }

bool has_fast_bf16() {
  static const bool fast = [] {
    auto isa = dnnl::get_effective_cpu_isa();
    return isa == dnnl::cpu_isa::avx512_core_bf16 || isa == dnnl::cpu_isa::avx512_core_amx;
  }();
  return fast;
}

bool has_fast_int8() {
  static const bool fast = [] {
    auto isa = dnnl::get_effective_cpu_isa();
    return isa == dnnl::cpu_isa::avx512_core_vnni || isa == dnnl::cpu_isa::avx2_vnni || has_fast_bf16();
  }();
  return fast;
}

namespace {
void check_status(dnnl_status_t status, const GemmShape& s) {
  if (status == dnnl_out_of_memory) throw ResourceExhaustedError("gemm: oneDNN ran out of memory");
  if (status != dnnl_success) {
    throw StateError(str("gemm: oneDNN returned status ", static_cast<int>(status), " for m = ", s.m, ", n = ", s.n,
                         ", k = ", s.k, ", leading dimensions ", s.lda, ", ", s.ldb, ", ", s.ldc));
  }
}
}  // namespace

namespace {
// A column times a row: batches of them are element-wise products, each of which is shorter than a library's call.
void outer_product(const GemmShape& s, const float* a, const float* b, float* c) {
  const std::int64_t step_a = s.trans_a ? 1 : s.lda;
  if (s.n == 1 && step_a == 1 && s.ldc == 1) {
    for (std::int64_t i = 0; i < s.m; ++i) c[i] = 0.0F + a[i] * b[0];
    return;
  }
  for (std::int64_t i = 0; i < s.m; ++i, c += s.ldc) {
    const float x = a[i * step_a];
    if (s.trans_b) {
      for (std::int64_t j = 0; j < s.n; ++j) c[j] = 0.0F + x * b[j * s.ldb];
    } else {
      for (std::int64_t j = 0; j < s.n; ++j) c[j] = 0.0F + x * b[j];
    }
  }
}
}  // namespace

void gemm_f32(const GemmShape& s, const void* a, const void* b, void* c, bool add) {
  if (s.k == 1 && !add) {
    return outer_product(s, static_cast<const float*>(a), static_cast<const float*>(b), static_cast<float*>(c));
  }
  const float keep = add ? 1 : 0;
  SingleThreadedLibraries single;
  const auto* x = static_cast<const float*>(a);
  const auto* y = static_cast<const float*>(b);
  auto* z = static_cast<float*>(c);
  if (prefers_blas(s) || !single.has_onednn()) {
    base::BlasCall blas;
    cblas_sgemm(CblasRowMajor, cblas_trans(s.trans_a), cblas_trans(s.trans_b), narrow(s.m), narrow(s.n), narrow(s.k), 1,
                x, narrow(s.lda), y, narrow(s.ldb), keep, z, narrow(s.ldc));
    return;
  }
  check_status(
      dnnl_sgemm(s.trans_a ? 'T' : 'N', s.trans_b ? 'T' : 'N', s.m, s.n, s.k, 1, x, s.lda, y, s.ldb, keep, z, s.ldc),
      s);
}

void gemm_int8(const GemmShape& s, const void* a, const void* b, void* c) {
  SingleThreadedLibraries single;
  single.need_onednn();
  const std::int32_t nothing = 0;
  check_status(dnnl_gemm_s8s8s32(s.trans_a ? 'T' : 'N', s.trans_b ? 'T' : 'N', 'F', s.m, s.n, s.k, 1,
                                 static_cast<const std::int8_t*>(a), s.lda, 0, static_cast<const std::int8_t*>(b),
                                 s.ldb, 0, 0, static_cast<std::int32_t*>(c), s.ldc, &nothing),
               s);
}

void gemm_bf16(const GemmShape& s, DType out, const void* a, const void* b, void* c) {
  SingleThreadedLibraries single;
  single.need_onednn();
  try {
    auto matmul = cached_matmul(s, out);
    auto& scratch = base::thread_own<std::vector<std::byte>, struct ScratchTag>();
    std::size_t bytes = matmul->scratch.get_size();
    if (scratch.size() < bytes + 64) scratch.resize(bytes + 64);
    base::poison(scratch.data(), scratch.size());
    auto address = reinterpret_cast<std::uintptr_t>(scratch.data());
    dnnl::stream stream(onednn_engine());
    // oneDNN takes every memory as writable; operands are only read.
    matmul->primitive.execute(
        stream, {{DNNL_ARG_SRC, memory(matmul->a, onednn_engine(), const_cast<void*>(a))},
                 {DNNL_ARG_WEIGHTS, memory(matmul->b, onednn_engine(), const_cast<void*>(b))},
                 {DNNL_ARG_DST, memory(matmul->c, onednn_engine(), c)},
                 {DNNL_ARG_SCRATCHPAD, memory(matmul->scratch, onednn_engine(), scratch.data() + (-address & 63))}});
    stream.wait();
  } catch (const dnnl::error& e) {
    throw StateError(str("gemm: oneDNN failed for bf16 m = ", s.m, ", n = ", s.n, ", k = ", s.k, ": ", e.what()));
  }
}

void gemm_blas(DType t, const GemmShape& s, const void* a, const void* b, void* c) {
  SingleThreadedLibraries single;
  base::BlasCall blas;
  auto ta = cblas_trans(s.trans_a), tb = cblas_trans(s.trans_b);
  blasint m = narrow(s.m), n = narrow(s.n), k = narrow(s.k), lda = narrow(s.lda), ldb = narrow(s.ldb),
          ldc = narrow(s.ldc);
  if (t == DType::F64) {
    cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, 1, static_cast<const double*>(a), lda, static_cast<const double*>(b),
                ldb, 0, static_cast<double*>(c), ldc);
  } else if (t == DType::C64) {
    const std::complex<float> one(1), zero(0);
    cblas_cgemm(CblasRowMajor, ta, tb, m, n, k, &one, a, lda, b, ldb, &zero, c, ldc);
  } else {
    const std::complex<double> one(1), zero(0);
    cblas_zgemm(CblasRowMajor, ta, tb, m, n, k, &one, a, lda, b, ldb, &zero, c, ldc);
  }
}

}  // namespace tessera::kernels
