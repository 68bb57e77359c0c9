// SPDX-License-Identifier: Apache-2.0
// Declarations of glibc's vector math functions, which no header gives: x86-64 vector function ABI names.
#pragma once

#include "engines/cpu/kernels/simd.h"

#define TESSERA_MVEC_LIST(one, two)                                                                                    \
  one(exp) one(exp2) one(expm1) one(log) one(log1p) one(cbrt) one(sin) one(cos) one(tan) one(asin) one(acos) one(atan) \
      one(sinh) one(cosh) one(tanh) one(asinh) one(acosh) one(atanh) one(erf) one(erfc) two(pow) two(atan2)

#if TESSERA_LIBMVEC
#include <immintrin.h>

extern "C" {
#define TESSERA_DECLARE1(name)        \
  __m128 _ZGVbN4v_##name##f(__m128);  \
  __m256 _ZGVdN8v_##name##f(__m256);  \
  __m512 _ZGVeN16v_##name##f(__m512); \
  __m128d _ZGVbN2v_##name(__m128d);   \
  __m256d _ZGVdN4v_##name(__m256d);   \
  __m512d _ZGVeN8v_##name(__m512d);
#define TESSERA_DECLARE2(name)                 \
  __m128 _ZGVbN4vv_##name##f(__m128, __m128);  \
  __m256 _ZGVdN8vv_##name##f(__m256, __m256);  \
  __m512 _ZGVeN16vv_##name##f(__m512, __m512); \
  __m128d _ZGVbN2vv_##name(__m128d, __m128d);  \
  __m256d _ZGVdN4vv_##name(__m256d, __m256d);  \
  __m512d _ZGVeN8vv_##name(__m512d, __m512d);
TESSERA_MVEC_LIST(TESSERA_DECLARE1, TESSERA_DECLARE2)
#undef TESSERA_DECLARE1
#undef TESSERA_DECLARE2
}
#endif
