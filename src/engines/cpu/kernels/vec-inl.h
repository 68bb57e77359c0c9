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

#include <cstddef>
#include <type_traits>

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

// Highway's operations on the same lanes, for what the compiler's vectors have no operator for. Its scalar target,
// which stands for x86-64's baseline, takes them one by one.
namespace hn = hwy::HWY_NAMESPACE;
template <class V>
using LaneOf = std::remove_cvref_t<decltype(V{}[0])>;
template <class V>
using TagOf = hn::FixedTag<LaneOf<V>, HWY_TARGET == HWY_SCALAR ? 1 : kLanes<LaneOf<V>>>;

template <class V, class F, class... Vs>
HWY_INLINE V by_highway(F f, const V& first, const Vs&... more) {
  using T = LaneOf<V>;
  constexpr TagOf<V> tag;
  V result;
  for (std::size_t i = 0; i < kLanes<T>; i += hn::MaxLanes(tag)) {
    hn::StoreU(f(hn::LoadU(tag, reinterpret_cast<const T*>(&first) + i),
                 hn::LoadU(tag, reinterpret_cast<const T*>(&more) + i)...),
               tag, reinterpret_cast<T*>(&result) + i);
  }
  return result;
}

// Whether no lane is above the limit; NaN is not.
template <class V>
HWY_INLINE bool none_above(LaneOf<V> limit, const V& x) {
  using T = LaneOf<V>;
  constexpr TagOf<V> tag;
  bool none = true;
  for (std::size_t i = 0; i < kLanes<T>; i += hn::MaxLanes(tag)) {
    none &= hn::AllFalse(tag, hn::Gt(hn::LoadU(tag, reinterpret_cast<const T*>(&x) + i), hn::Set(tag, limit)));
  }
  return none;
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
