// SPDX-License-Identifier: Apache-2.0
// Loops over contiguous elements that the compiler vectorises, once per instruction set.
// NOLINTBEGIN(llvm-header-guard): Highway's toggle, the file is included once per target
#if defined(TESSERA_EW_LOOPS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_EW_LOOPS_INL
#undef TESSERA_EW_LOOPS_INL
#else
#define TESSERA_EW_LOOPS_INL
#endif
// NOLINTEND

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

using Bool8 = std::uint8_t;

template <class A, class R, class F>
void map1(const void* a, const void*, const void*, void* out, std::int64_t n) {
  const A* x = static_cast<const A*>(a);
  R* r = static_cast<R*>(out);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) r[i] = static_cast<R>(F::op(x[i]));
}

template <class A, class R, class F>
void map2(const void* a, const void* b, const void*, void* out, std::int64_t n) {
  const A* x = static_cast<const A*>(a);
  const A* y = static_cast<const A*>(b);
  R* r = static_cast<R*>(out);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) r[i] = static_cast<R>(F::op(x[i], y[i]));
}

template <class A, class F>
void map3(const void* a, const void* b, const void* c, void* out, std::int64_t n) {
  const A* x = static_cast<const A*>(a);
  const A* y = static_cast<const A*>(b);
  const A* z = static_cast<const A*>(c);
  A* r = static_cast<A*>(out);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) r[i] = F::op(x[i], y[i], z[i]);
}

// Integer arithmetic wraps: done in the unsigned type, wide enough that small types do not promote to int.
template <class T>
using Wrap = std::conditional_t<(sizeof(T) < 4), std::uint32_t,
                                std::make_unsigned_t<std::conditional_t<std::is_floating_point_v<T>, int, T>>>;

#define TESSERA_EW_ARITH(name, symbol)                                                 \
  struct name {                                                                        \
    template <class T>                                                                 \
    static T op(T a, T b) {                                                            \
      if constexpr (std::is_floating_point_v<T>) {                                     \
        return a symbol b;                                                             \
      } else {                                                                         \
        return static_cast<T>(static_cast<Wrap<T>>(a) symbol static_cast<Wrap<T>>(b)); \
      }                                                                                \
    }                                                                                  \
  };
TESSERA_EW_ARITH(Add, +)
TESSERA_EW_ARITH(Sub, -)
TESSERA_EW_ARITH(Mul, *)
#undef TESSERA_EW_ARITH

#define TESSERA_EW_COMPARE(name, symbol) \
  struct name {                          \
    template <class T>                   \
    static bool op(T a, T b) {           \
      return a symbol b;                 \
    }                                    \
  };
TESSERA_EW_COMPARE(Eq, ==)
TESSERA_EW_COMPARE(Ne, !=)
TESSERA_EW_COMPARE(Lt, <)
TESSERA_EW_COMPARE(Le, <=)
TESSERA_EW_COMPARE(Gt, >)
TESSERA_EW_COMPARE(Ge, >=)
#undef TESSERA_EW_COMPARE

// The bits that two floats have in common (`kAll`), or that either has.
template <bool kAll, class T>
HWY_INLINE T joined_bits(T a, T b) {
  using U = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  const U x = __builtin_bit_cast(U, a), y = __builtin_bit_cast(U, b);
  return __builtin_bit_cast(T, kAll ? static_cast<U>(x & y) : static_cast<U>(x | y));
}
struct Max {
  template <class T>
  static T op(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      // The comparisons agree, but for zeros of different signs: of those the bits in common are 0's.
      T m = a > b ? a : b;
      T n = b > a ? b : a;
      T both = joined_bits<true>(m, n);
      return a != a || b != b ? a + b : both;
    } else {
      return a > b ? a : b;
    }
  }
};
struct Min {
  template <class T>
  static T op(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      T m = a < b ? a : b;
      T n = b < a ? b : a;
      T either = joined_bits<false>(m, n);
      return a != a || b != b ? a + b : either;
    } else {
      return a < b ? a : b;
    }
  }
};
struct Clamp {
  template <class T>
  static T op(T low, T x, T high) {
    return Min::op(Max::op(low, x), high);
  }
};
struct MulAdd {
  template <class T>
  static T op(T a, T b, T c) {
#if HWY_NATIVE_FMA  // one rounding, whatever the optimiser contracts
    if constexpr (std::is_same_v<T, float>) return __builtin_fmaf(a, b, c);
    if constexpr (std::is_same_v<T, double>) return __builtin_fma(a, b, c);
#endif
    return Add::op(Mul::op(a, b), c);
  }
};
struct Neg {
  template <class T>
  static T op(T a) {
    if constexpr (std::is_floating_point_v<T>) {
      return -a;
    } else {
      return static_cast<T>(Wrap<T>{0} - static_cast<Wrap<T>>(a));
    }
  }
};
struct Abs {
  template <class T>
  static T op(T a) {
    if constexpr (std::is_floating_point_v<T>) {
      return std::fabs(a);
    } else if constexpr (std::is_signed_v<T>) {
      return a < 0 ? Neg::op(a) : a;
    } else {
      return a;
    }
  }
};
struct Sign {
  template <class T>
  static T op(T a) {
    if constexpr (std::is_floating_point_v<T>) {
      T one = std::copysign(T{1}, a);
      return a > T{0} || a < T{0} ? one : a;  // zeros keep their sign, NaN stays
    } else {
      return static_cast<T>((a > T{0}) - (a < T{0}));
    }
  }
};
struct Square {
  template <class T>
  static T op(T a) {
    return Mul::op(a, a);
  }
};

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
