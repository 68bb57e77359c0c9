// SPDX-License-Identifier: Apache-2.0
// The compiler's vector types at the width of each instruction set.
// NOLINTBEGIN(llvm-header-guard): Highway's toggle, the file is included once per target
#if defined(TESSERA_VEC_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_VEC_INL
#undef TESSERA_VEC_INL
#else
#define TESSERA_VEC_INL
#endif
// NOLINTEND

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3
constexpr int kVecBytes = 64;
#elif HWY_TARGET == HWY_AVX2
constexpr int kVecBytes = 32;
#else
constexpr int kVecBytes = 16;
#endif

template <class T>
struct VecOf {
  typedef T type __attribute__((vector_size(kVecBytes)));
};
template <class T>
using Vec = typename VecOf<T>::type;
template <class T>
constexpr int kLanes = kVecBytes / static_cast<int>(sizeof(T));

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
