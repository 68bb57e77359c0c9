// SPDX-License-Identifier: Apache-2.0
// SLEEF's functions on vectors of each instruction set: v_exp and its like. What they get wrong near the ends of their
// domains is mended here.
// NOLINTBEGIN(llvm-header-guard): Highway's toggle, the file is included once per target
#if defined(TESSERA_EW_SLEEF_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_EW_SLEEF_INL
#undef TESSERA_EW_SLEEF_INL
#else
#define TESSERA_EW_SLEEF_INL
#endif
// NOLINTEND

#include <cmath>
#include <cstddef>
#include <limits>

#include "engines/cpu/kernels/vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

// With the accuracy in SLEEF's names: u10 is one unit in the last place.
#define TESSERA_SLEEF_LIST(one, two)                                                                                \
  one(exp, u10) one(exp2, u10) one(expm1, u10) one(log, u10) one(log1p, u10) one(cbrt, u10) one(sin, u10)           \
      one(cos, u10) one(tan, u10) one(asin, u10) one(acos, u10) one(atan, u10) one(sinh, u10) one(cosh, u10)        \
          one(tanh, u10) one(asinh, u10) one(acosh, u10) one(atanh, u10) one(erf, u10) one(erfc, u15) two(pow, u10) \
              two(atan2, u10)

// clang passes vectors of more than 16 bytes in registers only where the flags of the whole file name the instruction
// set, whatever the function's own name: there SLEEF's functions get 16 bytes at a time.
#if defined(__clang__) && HWY_ARCH_X86_64
#define TESSERA_SLEEF_PARTS
#define TESSERA_SLEEF_F32(name, accuracy) Sleef_cinz_##name##f4_##accuracy##sse2
#define TESSERA_SLEEF_F64(name, accuracy) Sleef_cinz_##name##d2_##accuracy##sse2
#elif HWY_TARGET == HWY_AVX3
#define TESSERA_SLEEF_F32(name, accuracy) Sleef_finz_##name##f16_##accuracy##avx512f
#define TESSERA_SLEEF_F64(name, accuracy) Sleef_finz_##name##d8_##accuracy##avx512f
#elif HWY_TARGET == HWY_AVX2
#define TESSERA_SLEEF_F32(name, accuracy) Sleef_finz_##name##f8_##accuracy##avx2
#define TESSERA_SLEEF_F64(name, accuracy) Sleef_finz_##name##d4_##accuracy##avx2
#elif HWY_ARCH_X86_64
#define TESSERA_SLEEF_F32(name, accuracy) Sleef_cinz_##name##f4_##accuracy##sse2
#define TESSERA_SLEEF_F64(name, accuracy) Sleef_cinz_##name##d2_##accuracy##sse2
#elif HWY_ARCH_ARM_A64
#define TESSERA_SLEEF_F32(name, accuracy) Sleef_finz_##name##f4_##accuracy##advsimd
#define TESSERA_SLEEF_F64(name, accuracy) Sleef_finz_##name##d2_##accuracy##advsimd
#endif

#ifdef TESSERA_SLEEF_PARTS
using FloatPart = float __attribute__((vector_size(16)));
using DoublePart = double __attribute__((vector_size(16)));
template <class Part, class V, class F, class... More>
HWY_INLINE V by_parts(F f, V x, More... more) {
  for (std::size_t at = 0; at < sizeof x; at += sizeof(Part)) {
    auto part = [at](const V& v) {
      Part p;
      __builtin_memcpy(&p, reinterpret_cast<const char*>(&v) + at, sizeof p);
      return p;
    };
    const Part r = f(part(x), part(more)...);
    __builtin_memcpy(reinterpret_cast<char*>(&x) + at, &r, sizeof r);
  }
  return x;
}
#define TESSERA_MATH1(name, accuracy)                                                                                \
  extern "C" FloatPart TESSERA_SLEEF_F32(name, accuracy)(FloatPart);                                                 \
  extern "C" DoublePart TESSERA_SLEEF_F64(name, accuracy)(DoublePart);                                               \
  HWY_INLINE Vec<float> v_##name(Vec<float> x) { return by_parts<FloatPart>(TESSERA_SLEEF_F32(name, accuracy), x); } \
  HWY_INLINE Vec<double> v_##name(Vec<double> x) { return by_parts<DoublePart>(TESSERA_SLEEF_F64(name, accuracy), x); }
#define TESSERA_MATH2(name, accuracy)                                              \
  extern "C" FloatPart TESSERA_SLEEF_F32(name, accuracy)(FloatPart, FloatPart);    \
  extern "C" DoublePart TESSERA_SLEEF_F64(name, accuracy)(DoublePart, DoublePart); \
  HWY_INLINE Vec<float> v_##name(Vec<float> x, Vec<float> y) {                     \
    return by_parts<FloatPart>(TESSERA_SLEEF_F32(name, accuracy), x, y);           \
  }                                                                                \
  HWY_INLINE Vec<double> v_##name(Vec<double> x, Vec<double> y) {                  \
    return by_parts<DoublePart>(TESSERA_SLEEF_F64(name, accuracy), x, y);          \
  }
#elif defined(TESSERA_SLEEF_F32)
// Declared here: sleef.h leaves out the functions of instruction sets that the flags of the whole file do not name.
#define TESSERA_MATH1(name, accuracy)                                                           \
  extern "C" Vec<float> TESSERA_SLEEF_F32(name, accuracy)(Vec<float>);                          \
  extern "C" Vec<double> TESSERA_SLEEF_F64(name, accuracy)(Vec<double>);                        \
  HWY_INLINE Vec<float> v_##name(Vec<float> x) { return TESSERA_SLEEF_F32(name, accuracy)(x); } \
  HWY_INLINE Vec<double> v_##name(Vec<double> x) { return TESSERA_SLEEF_F64(name, accuracy)(x); }
#define TESSERA_MATH2(name, accuracy)                                                                            \
  extern "C" Vec<float> TESSERA_SLEEF_F32(name, accuracy)(Vec<float>, Vec<float>);                               \
  extern "C" Vec<double> TESSERA_SLEEF_F64(name, accuracy)(Vec<double>, Vec<double>);                            \
  HWY_INLINE Vec<float> v_##name(Vec<float> x, Vec<float> y) { return TESSERA_SLEEF_F32(name, accuracy)(x, y); } \
  HWY_INLINE Vec<double> v_##name(Vec<double> x, Vec<double> y) { return TESSERA_SLEEF_F64(name, accuracy)(x, y); }
#else  // one lane after the other
#define TESSERA_MATH1(name, accuracy)                                                \
  template <class V>                                                                 \
  HWY_INLINE V v_##name(V x) {                                                       \
    for (std::size_t i = 0; i < sizeof x / sizeof x[0]; ++i) x[i] = std::name(x[i]); \
    return x;                                                                        \
  }
#define TESSERA_MATH2(name, accuracy)                                                      \
  template <class V>                                                                       \
  HWY_INLINE V v_##name(V x, V y) {                                                        \
    for (std::size_t i = 0; i < sizeof x / sizeof x[0]; ++i) x[i] = std::name(x[i], y[i]); \
    return x;                                                                              \
  }
#endif
TESSERA_SLEEF_LIST(TESSERA_MATH1, TESSERA_MATH2)
#undef TESSERA_SLEEF_PARTS
#undef TESSERA_SLEEF_F32
#undef TESSERA_SLEEF_F64
#undef TESSERA_SLEEF_LIST
#undef TESSERA_MATH1
#undef TESSERA_MATH2

// From where on functions of SLEEF are infinite too early, and what replaces them.
template <class T>
struct Far;
template <>
struct Far<float> {
  static constexpr float log1p = 1e37F, area = 1e18F, exp = 88.0F;
  static constexpr float exp_shift = 207.0F / 128, exp_scale = 2.519449234008789F;
};
template <>
struct Far<double> {
  static constexpr double log1p = 1e306, area = 1e153, exp = 709.0;
  static constexpr double exp_shift = 1530.0 / 1024, exp_scale = 2.2277529783463783;
};

// `near`, but far() where `size` is above `limit`: rare, so not computed where no lane is.
template <class V, class F>
HWY_INLINE V beyond(LaneOf<V> limit, V size, V near, F far) {
  if (HWY_LIKELY(none_above(limit, size))) return near;
  return size > limit ? far() : near;
}
template <class V>
HWY_INLINE V magnitude(V x) {
  return x < 0 ? -x : x;
}

// exp(x) / 2 where exp(x) may be infinite. The shift is exact, and so nearly is the factor: half its exponential.
template <class V>
HWY_INLINE V half_exp(V x) {
  using R = Far<LaneOf<V>>;
  return v_exp(x - R::exp_shift) * R::exp_scale;
}
template <class V>
HWY_INLINE V log_of_twice(V x) {
  return v_log(x) + static_cast<LaneOf<V>>(0.69314718055994530942);
}

template <class V>
HWY_INLINE V full_exp(V x) {
  return beyond(Far<LaneOf<V>>::exp, x, v_exp(x), [&] { return half_exp(x) * 2; });
}
template <class V>
HWY_INLINE V full_log1p(V x) {
  return beyond(Far<LaneOf<V>>::log1p, x, v_log1p(x), [&] { return v_log(x); });
}
template <class V>
HWY_INLINE V full_sinh(V x) {
  V size = magnitude(x);
  return beyond(Far<LaneOf<V>>::exp, size, v_sinh(x), [&] { return x < 0 ? -half_exp(size) : half_exp(size); });
}
template <class V>
HWY_INLINE V full_cosh(V x) {
  V size = magnitude(x);
  return beyond(Far<LaneOf<V>>::exp, size, v_cosh(x), [&] { return half_exp(size); });
}
template <class V>
HWY_INLINE V full_asinh(V x) {
  V size = magnitude(x);
  return beyond(Far<LaneOf<V>>::area, size, v_asinh(x),
                [&] { return x < 0 ? -log_of_twice(size) : log_of_twice(size); });
}
template <class V>
HWY_INLINE V full_acosh(V x) {
  return beyond(Far<LaneOf<V>>::area, x, v_acosh(x), [&] { return log_of_twice(x); });
}

// Infinite results near the largest number again by the C library, lane by lane: max ** 1 is exact there.
template <class V>
HWY_INLINE V full_pow(V x, V y) {
  using T = LaneOf<V>;
  constexpr T kMost = std::numeric_limits<T>::max();
  V r = v_pow(x, y);
  if (HWY_LIKELY(none_above(kMost, magnitude(r)))) return r;
  constexpr T kAbove = std::numeric_limits<T>::max_exponent * T(0.6931471806) + T(0.01);  // the logarithm of kMost
  V power = y * v_log(magnitude(x));
  for (std::size_t i = 0; i < kLanes<T>; ++i) {
    if (std::abs(r[i]) > kMost && power[i] < kAbove) r[i] = std::pow(x[i], y[i]);
  }
  return r;
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
