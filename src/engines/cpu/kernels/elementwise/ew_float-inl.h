// SPDX-License-Identifier: Apache-2.0
// Float functions in vectors, for f32 and f64 alike, once per instruction set.
// NOLINTBEGIN(llvm-header-guard): Highway's toggle, the file is included once per target
#if defined(TESSERA_EW_FLOAT_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_EW_FLOAT_INL
#undef TESSERA_EW_FLOAT_INL
#else
#define TESSERA_EW_FLOAT_INL
#endif
// NOLINTEND

#include "engines/cpu/kernels/elementwise/ew_loops-inl.h"
#include "engines/cpu/kernels/elementwise/ew_sleef-inl.h"
#include "engines/cpu/kernels/elementwise/float_constants.h"
#include "engines/cpu/kernels/elementwise/special_kernels.h"
#include "engines/cpu/kernels/vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

// A partial last vector is padded with ones: no function here is slow or invalid there.
template <class T, class F>
void vmap1(const void* a, const void*, const void*, void* out, std::int64_t n) {
  const T* x = static_cast<const T*>(a);
  T* r = static_cast<T*>(out);
  Vec<T> v;
  std::int64_t i = 0;
  for (; i + kLanes<T> <= n; i += kLanes<T>) {
    __builtin_memcpy(&v, x + i, sizeof v);
    v = F::op(v);
    __builtin_memcpy(r + i, &v, sizeof v);
  }
  if (i == n) return;
  v = Vec<T>{} + T{1};
  __builtin_memcpy(&v, x + i, static_cast<std::size_t>(n - i) * sizeof(T));
  v = F::op(v);
  __builtin_memcpy(r + i, &v, static_cast<std::size_t>(n - i) * sizeof(T));
}

template <class T, class F>
void vmap2(const void* a, const void* b, const void*, void* out, std::int64_t n) {
  const T* x = static_cast<const T*>(a);
  const T* y = static_cast<const T*>(b);
  T* r = static_cast<T*>(out);
  Vec<T> v, w;
  std::int64_t i = 0;
  for (; i + kLanes<T> <= n; i += kLanes<T>) {
    __builtin_memcpy(&v, x + i, sizeof v);
    __builtin_memcpy(&w, y + i, sizeof w);
    v = F::op(v, w);
    __builtin_memcpy(r + i, &v, sizeof v);
  }
  if (i == n) return;
  v = w = Vec<T>{} + T{1};
  __builtin_memcpy(&v, x + i, static_cast<std::size_t>(n - i) * sizeof(T));
  __builtin_memcpy(&w, y + i, static_cast<std::size_t>(n - i) * sizeof(T));
  v = F::op(v, w);
  __builtin_memcpy(r + i, &v, static_cast<std::size_t>(n - i) * sizeof(T));
}

// Vectors through arrays, which the compiler vectorises where it would take lanes apart.
template <class V, class F>
HWY_INLINE V by_lanes(V x, F f) {
  using T = std::remove_cvref_t<decltype(x[0])>;
  T lanes[sizeof(V) / sizeof(T)];
  __builtin_memcpy(lanes, &x, sizeof x);
  for (auto& v : lanes) v = f(v);
  __builtin_memcpy(&x, lanes, sizeof x);
  return x;
}

using IntVec = VecOf<std::int32_t>::type;
using UintVec = VecOf<std::uint32_t>::type;
HWY_INLINE Vec<float> from_bits(IntVec bits) {
  Vec<float> x;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}

HWY_INLINE IntVec bits_of(Vec<float> x) {
  IntVec bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  return bits;
}

// One rounding where the instruction set has it.
HWY_INLINE Vec<float> fma(Vec<float> a, Vec<float> b, Vec<float> c) {
  return by_highway([](auto x, auto y, auto z) { return hn::MulAdd(x, y, z); }, a, b, c);
}
HWY_INLINE Vec<float> fma(Vec<float> a, Vec<float> b, float c) { return fma(a, b, Vec<float>{} + c); }
HWY_INLINE Vec<float> fma(Vec<float> a, float b, Vec<float> c) { return fma(a, Vec<float>{} + b, c); }

// NaN stays: x86's instructions give their second operand then, Arm's give NaN, and Highway's scalar target a number.
#if HWY_TARGET == HWY_SCALAR
HWY_INLINE Vec<float> at_least(float low, Vec<float> x) { return x < low ? Vec<float>{} + low : x; }
HWY_INLINE Vec<float> at_most(float high, Vec<float> x) { return x > high ? Vec<float>{} + high : x; }
#else
HWY_INLINE Vec<float> at_least(float low, Vec<float> x) {
  return by_highway([](auto a, auto b) { return hn::Max(a, b); }, Vec<float>{} + low, x);
}
HWY_INLINE Vec<float> at_most(float high, Vec<float> x) {
  return by_highway([](auto a, auto b) { return hn::Min(a, b); }, Vec<float>{} + high, x);
}
#endif

// Faster than the vector library's, tanh by five times at a unit and a half less exact. All lanes take one road.
template <std::size_t N>
HWY_INLINE Vec<float> horner(const std::array<float, N>& coefficients, Vec<float> x) {
  Vec<float> p = Vec<float>{} + coefficients[0];
  for (std::size_t i = 1; i < N; ++i) p = fma(p, x, coefficients[i]);
  return p;
}
HWY_INLINE Vec<float> exp_rest(Vec<float> r) { return horner(kExpRest, r); }
// p 2^n with n in the low bits of `shifted`. Results below the normal range round once: where no instruction does so,
// 2^n is two factors.
HWY_INLINE Vec<float> times_power(Vec<float> p, Vec<float> shifted) {
#if HWY_TARGET == HWY_AVX3
  return _mm512_scalef_ps(p, shifted - kExpRound);
#else
  IntVec power = bits_of(shifted) - 0x4B400000;  // the bits of kExpRound
  IntVec half = power >> 1;
  return p * from_bits((half + 127) << 23) * from_bits((power - half + 127) << 23);
#endif
}
HWY_INLINE Vec<float> fast_exp(Vec<float> x) {
  constexpr float kLowest = -176.0F;  // its smaller factor is zero: products below the normal range take long
  constexpr float kHighest = 89.0F;   // infinite
  x = at_most(kHighest, at_least(kLowest, x));
  Vec<float> shifted = fma(x, kLog2E, Vec<float>{} + kExpRound);  // n is in its low bits
  Vec<float> n = shifted - kExpRound;
  Vec<float> r = fma(n, kMinusLog2Parts[1], fma(n, kMinusLog2Parts[0], x));
  return times_power(fma(fma(exp_rest(r), r, 1.0F), r, 1.0F), shifted);
}

// t / (t + 2) with t = exp(2 |x|) - 1, which keeps its digits near zero. An error of n log 2 does not matter: it is
// smaller than a unit where n is small, and t where n is large.
HWY_INLINE Vec<float> fast_tanh(Vec<float> x) {
  IntVec x_bits = bits_of(x);
  IntVec sign = x_bits & INT32_MIN;
  constexpr float kOne = 10.0F;  // from here on the result rounds to one
  x = at_most(kOne, from_bits(x_bits & INT32_MAX));
  Vec<float> shifted = fma(x, 2 * kLog2E, Vec<float>{} + kExpRoundBiased);
  Vec<float> r = fma(shifted - kExpRoundBiased, kMinusLog2, x + x);
  Vec<float> power = from_bits((IntVec)((UintVec)bits_of(shifted) << 23));  // without signs, for NaN's bits wrap
  Vec<float> t = fma(power, fma(exp_rest(r), r * r, r), power - 1.0F);
  return from_bits(bits_of(t / (t + 2.0F)) | sign);
}

HWY_INLINE Vec<float> fast_erf(Vec<float> x) {
  IntVec sign = bits_of(x) & INT32_MIN;
  Vec<float> a = from_bits(bits_of(x) & INT32_MAX);
  Vec<float> near = fma(horner(kErfNear, a * a), a, a);
  Vec<float> p = horner(kErfFar, at_most(kErfOne, a));
  Vec<float> shifted = fma(p, kLog2E, Vec<float>{} + kExpRoundBiased);
  Vec<float> r = fma(shifted - kExpRoundBiased, kMinusLog2, p);
  Vec<float> power = from_bits((IntVec)((UintVec)bits_of(shifted) << 23));
  Vec<float> far = 1.0F - fma(fma(exp_rest(r), r * r, r), power, power);
  return from_bits(bits_of(a < kErfSplit ? near : far) | sign);
}

HWY_INLINE Vec<float> fast_erfc(Vec<float> x) {
  Vec<float> a = at_most(kErfcZero, from_bits(bits_of(x) & INT32_MAX));
  Vec<float> above = a + 1.0F;
  Vec<float> lost = a - (above - 1.0F);
  Vec<float> w = 1.0F / above;
  Vec<float> t = fma(w, -2.0F, Vec<float>{} + 1.0F);
  Vec<float> h = fma(-w, lost, fma(-w, above, 1.0F));
  Vec<float> square = a * a;
  Vec<float> more = fma(h, kErfcSlope, -fma(a, a, -square));
  Vec<float> shifted = fma(square, -kLog2E, Vec<float>{} + kExpRound);
  Vec<float> n = shifted - kExpRound;
  Vec<float> r = fma(n, kMinusLog2Parts[0], -square) + fma(n, kMinusLog2Parts[1], more);
  Vec<float> g = fma(horner(kErfcRest, t), w, w);
  Vec<float> y = times_power(fma(fma(exp_rest(r), r * r, r), g, g), shifted);
  return x < 0.0F ? fma(y, -1.0F, Vec<float>{} + 2.0F) : y;  // which the compiler joins with no product
}

struct Exp {
  static Vec<float> op(Vec<float> x) { return fast_exp(x); }
  static Vec<double> op(Vec<double> x) { return full_exp(x); }
};
struct Tanh {
  static Vec<float> op(Vec<float> x) { return fast_tanh(x); }
  static Vec<double> op(Vec<double> x) { return v_tanh(x); }
};
struct Erf {
  static Vec<float> op(Vec<float> x) { return fast_erf(x); }
  static Vec<double> op(Vec<double> x) { return v_erf(x); }
};
struct Erfc {
  static Vec<float> op(Vec<float> x) { return fast_erfc(x); }
  static Vec<double> op(Vec<double> x) { return v_erfc(x); }
};

// clang-format off
#define TESSERA_WRAP1(name, function) \
  struct name { template <class V> static V op(V x) { return function(x); } };
TESSERA_WRAP1(Exp2, v_exp2) TESSERA_WRAP1(Expm1, v_expm1) TESSERA_WRAP1(Log, v_log)
TESSERA_WRAP1(Log1p, full_log1p) TESSERA_WRAP1(Cbrt, v_cbrt) TESSERA_WRAP1(Sin, v_sin)
TESSERA_WRAP1(Cos, v_cos) TESSERA_WRAP1(Tan, v_tan) TESSERA_WRAP1(Asin, v_asin) TESSERA_WRAP1(Acos, v_acos)
TESSERA_WRAP1(Atan, v_atan) TESSERA_WRAP1(Sinh, full_sinh) TESSERA_WRAP1(Cosh, full_cosh)
TESSERA_WRAP1(Asinh, full_asinh) TESSERA_WRAP1(Acosh, full_acosh) TESSERA_WRAP1(Atanh, v_atanh)
#undef TESSERA_WRAP1
    // clang-format on
    struct Pow {
  template <class V>
  static V op(V x, V y) {
    return full_pow(x, y);
  }
};
struct Atan2 {
  template <class V>
  static V op(V x, V y) {
    return v_atan2(x, y);
  }
};
struct Logistic {
  template <class V>
  static V op(V x) {
    V e = Exp::op(x < 0 ? x : -x);  // of the negative side: small results keep their digits
    return (x < 0 ? e : e * 0 + 1) / (1 + e);
  }
};

// Giles' approximation ("Approximating the erfinv function"), the one that XLA uses, so that normal variates agree.
template <class V>
V horner(V x, std::initializer_list<std::remove_cvref_t<decltype(V{}[0])>> coefficients) {
  V p{};
  for (auto c : coefficients) p = p * x + c;
  return p;
}
template <class V>
HWY_INLINE V v_sqrt(V x) {
  return by_lanes(x, [](auto v) { return std::sqrt(v); });
}
struct ErfInv {
  static Vec<float> op(Vec<float> x) {
    Vec<float> w = -v_log1p(-x * x);
    Vec<float> p = horner(w - 2.5f, {2.81022636e-08f, 3.43273939e-07f, -3.5233877e-06f, -4.39150654e-06f,
                                     0.00021858087f, -0.00125372503f, -0.00417768164f, 0.246640727f, 1.50140941f});
    Vec<float> q = horner(v_sqrt(w) - 3.0f, {-0.000200214257f, 0.000100950558f, 0.00134934322f, -0.00367342844f,
                                             0.00573950773f, -0.0076224613f, 0.00943887047f, 1.00167406f, 2.83297682f});
    Vec<float> r = (w < 5.0f ? p : q) * x;
    Vec<float> magnitude = x < 0.0f ? -x : x;
    return magnitude == 1.0f ? x * std::numeric_limits<float>::infinity() : r;
  }
  static Vec<double> op(Vec<double> x) {
    Vec<double> w = -v_log1p(-x * x);
    Vec<double> s = v_sqrt(w);
    Vec<double> a = horner(
        w - 3.125,
        {-3.6444120640178196996e-21, -1.685059138182016589e-19,  1.2858480715256400167e-18,  1.115787767802518096e-17,
         -1.333171662854620906e-16,  2.0972767875968561637e-17,  6.6376381343583238325e-15,  -4.0545662729752068639e-14,
         -8.1519341976054721522e-14, 2.6335093153082322977e-12,  -1.2975133253453532498e-11, -5.4154120542946279317e-11,
         1.051212273321532285e-09,   -4.1126339803469836976e-09, -2.9070369957882005086e-08, 4.2347877827932403518e-07,
         -1.3654692000834678645e-06, -1.3882523362786468719e-05, 0.0001867342080340571352,   -0.00074070253416626697512,
         -0.0060336708714301490533,  0.24015818242558961693,     1.6536545626831027356});
    Vec<double> b = horner(
        s - 3.25,
        {2.2137376921775787049e-09, 9.0756561938885390979e-08, -2.7517406297064545428e-07, 1.8239629214389227755e-08,
         1.5027403968909827627e-06, -4.013867526981545969e-06, 2.9234449089955446044e-06, 1.2475304481671778723e-05,
         -4.7318229009055733981e-05, 6.8284851459573175448e-05, 2.4031110387097893999e-05, -0.0003550375203628474796,
         0.00095328937973738049703, -0.0016882755560235047313, 0.0024914420961078508066, -0.0037512085075692412107,
         0.005370914553590063617, 1.0052589676941592334, 3.0838856104922207635});
    Vec<double> c = horner(s - 5.0, {-2.7109920616438573243e-11, -2.5556418169965252055e-10, 1.5076572693500548083e-09,
                                     -3.7894654401267369937e-09, 7.6157012080783393804e-09, -1.4960026627149240478e-08,
                                     2.9147953450901080826e-08, -6.7711997758452339498e-08, 2.2900482228026654717e-07,
                                     -9.9298272942317002539e-07, 4.5260625972231537039e-06, -1.9681778105531670567e-05,
                                     7.5995277030017761139e-05, -0.00021503011930044477347, -0.00013871931833623122026,
                                     1.0103004648645343977, 4.8499064014085844221});
    Vec<double> r = (w < 6.25 ? a : w < 16.0 ? b : c) * x;
    Vec<double> magnitude = x < 0.0 ? -x : x;
    return magnitude == 1.0 ? x * std::numeric_limits<double>::infinity() : r;
  }
};

// clang-format off
#define TESSERA_FLOAT1(name, expression) \
  struct name { template <class T> static T op(T x) { return expression; } };
TESSERA_FLOAT1(Floor, std::floor(x))
TESSERA_FLOAT1(Ceil, std::ceil(x))
// The largest value below one half: adding a half itself would carry 0.49999997 up to one.
TESSERA_FLOAT1(RoundAfz, std::trunc(x + std::copysign(T{0.5} - std::numeric_limits<T>::epsilon() / 4, x)))
TESSERA_FLOAT1(RoundEven, std::nearbyint(x))
TESSERA_FLOAT1(Sqrt, std::sqrt(x))
TESSERA_FLOAT1(Rsqrt, T{1} / std::sqrt(x))
TESSERA_FLOAT1(Reciprocal, T{1} / x)
TESSERA_FLOAT1(Lgamma, lgamma_of(x))
TESSERA_FLOAT1(Digamma, digamma_of(x))
#undef TESSERA_FLOAT1
// clang-format on
struct Div {
  template <class T>
  static T op(T a, T b) {
    return a / b;
  }
};
struct Rem {
  template <class T>
  static T op(T a, T b) {
    return std::fmod(a, b);
  }
};
struct Nextafter {
  template <class T>
  static T op(T a, T b) {
    return std::nextafter(a, b);
  }
};

template <class T>
EwFn find_float(EwOp op) {
  switch (op) {
#define TESSERA_ROW(name, loop) \
  case EwOp::name:              \
    return loop<T, name>;
#define TESSERA_MAP1(name) \
  case EwOp::name:         \
    return map1<T, T, name>;
#define TESSERA_MAP2(name) \
  case EwOp::name:         \
    return map2<T, T, name>;
    // clang-format off
    TESSERA_ROW(Exp, vmap1) TESSERA_ROW(Exp2, vmap1) TESSERA_ROW(Expm1, vmap1) TESSERA_ROW(Log, vmap1)
    TESSERA_ROW(Log1p, vmap1) TESSERA_ROW(Cbrt, vmap1) TESSERA_ROW(Sin, vmap1)
    TESSERA_ROW(Cos, vmap1) TESSERA_ROW(Tan, vmap1) TESSERA_ROW(Asin, vmap1) TESSERA_ROW(Acos, vmap1)
    TESSERA_ROW(Atan, vmap1) TESSERA_ROW(Sinh, vmap1) TESSERA_ROW(Cosh, vmap1) TESSERA_ROW(Tanh, vmap1)
    TESSERA_ROW(Asinh, vmap1) TESSERA_ROW(Acosh, vmap1) TESSERA_ROW(Atanh, vmap1) TESSERA_ROW(Erf, vmap1)
    TESSERA_ROW(Erfc, vmap1) TESSERA_ROW(ErfInv, vmap1) TESSERA_ROW(Logistic, vmap1)
    TESSERA_ROW(Pow, vmap2) TESSERA_ROW(Atan2, vmap2) TESSERA_ROW(Clamp, map3) TESSERA_ROW(MulAdd, map3)
    TESSERA_MAP1(Neg) TESSERA_MAP1(Abs) TESSERA_MAP1(Sign) TESSERA_MAP1(Floor) TESSERA_MAP1(Ceil)
    TESSERA_MAP1(RoundAfz) TESSERA_MAP1(RoundEven) TESSERA_MAP1(Sqrt) TESSERA_MAP1(Rsqrt) TESSERA_MAP1(Square)
    TESSERA_MAP1(Reciprocal) TESSERA_MAP1(Lgamma) TESSERA_MAP1(Digamma)
    TESSERA_MAP2(Add) TESSERA_MAP2(Sub) TESSERA_MAP2(Mul) TESSERA_MAP2(Div) TESSERA_MAP2(Rem) TESSERA_MAP2(Max)
    TESSERA_MAP2(Min) TESSERA_MAP2(Nextafter)
    // clang-format on
#undef TESSERA_ROW
#undef TESSERA_MAP1
#undef TESSERA_MAP2
                                            default : return nullptr;
  }
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
