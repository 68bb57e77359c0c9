// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstring>

#include "engines/cpu/kernels/products/gemm_leaf.h"
#include "engines/cpu/kernels/simd.h"

#define HWY_TARGET_INCLUDE "engines/cpu/kernels/products/gemm_integer.cc"
#include "hwy/foreach_target.h"
// After foreach_target, which compiles this file once per instruction set.
#include "engines/cpu/kernels/elementwise/ew_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

// Rows of c as sums of rows of b; a block of columns stays in L1 while k runs. Sums wrap, so they are unsigned.
template <class T>
void integer_product(const GemmShape& s, const void* a, const void* b, void* c) {
  constexpr std::int64_t kColumns = 2048 / static_cast<std::int64_t>(sizeof(T));
  const T* x = static_cast<const T*>(a);
  const T* y = static_cast<const T*>(b);
  T* z = static_cast<T*>(c);
  for (std::int64_t j0 = 0; j0 < s.n; j0 += kColumns) {
    std::int64_t cols = s.n - j0 < kColumns ? s.n - j0 : kColumns;
    for (std::int64_t i = 0; i < s.m; ++i) {
      T* r = z + i * s.ldc + j0;
      std::memset(r, 0, static_cast<std::size_t>(cols) * sizeof(T));
      const T* w = x + i * s.lda;
      std::int64_t p = 0;
      for (; p + 4 <= s.k; p += 4) {
        const T *y0 = y + p * s.ldb + j0, *y1 = y0 + s.ldb, *y2 = y1 + s.ldb, *y3 = y2 + s.ldb;
        T w0 = w[p], w1 = w[p + 1], w2 = w[p + 2], w3 = w[p + 3];
#pragma GCC ivdep
        for (std::int64_t j = 0; j < cols; ++j) {
          r[j] =
              static_cast<T>(r[j] + Mul::op(w0, y0[j]) + Mul::op(w1, y1[j]) + Mul::op(w2, y2[j]) + Mul::op(w3, y3[j]));
        }
      }
      for (; p < s.k; ++p) {
        const T* y0 = y + p * s.ldb + j0;
#pragma GCC ivdep
        for (std::int64_t j = 0; j < cols; ++j) r[j] = static_cast<T>(r[j] + Mul::op(w[p], y0[j]));
      }
    }
  }
}

void integer_here(std::int64_t size, const GemmShape& s, const void* a, const void* b, void* c) {
  switch (size) {
    case 1:
      return integer_product<std::uint8_t>(s, a, b, c);
    case 2:
      return integer_product<std::uint16_t>(s, a, b, c);
    case 4:
      return integer_product<std::uint32_t>(s, a, b, c);
    default:
      return integer_product<std::uint64_t>(s, a, b, c);
  }
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::kernels {
namespace {
HWY_EXPORT(integer_here);
}
void gemm_integer(DType t, const GemmShape& s, const void* a, const void* b, void* c) {
  HWY_DYNAMIC_DISPATCH(integer_here)(dtype_size(t), s, a, b, c);
}
}  // namespace tessera::kernels
#endif
