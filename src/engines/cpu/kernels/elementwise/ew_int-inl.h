// SPDX-License-Identifier: Apache-2.0
// Integer functions, once per instruction set.
// NOLINTBEGIN(llvm-header-guard): Highway's toggle, the file is included once per target
#if defined(TESSERA_EW_INT_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_EW_INT_INL
#undef TESSERA_EW_INT_INL
#else
#define TESSERA_EW_INT_INL
#endif
// NOLINTEND

#include <bit>
#include <cmath>
#include <cstdint>

#include "engines/cpu/kernels/elementwise/ew_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

template <class T>
constexpr int kBits = static_cast<int>(sizeof(T)) * 8;

// Towards zero, of a divisor that is not 0, or -1 of the smallest value. No instruction divides vectors of integers; a
// float's quotient has the right integer part: where it is no integer, it is 1 / |b| or more from the next one, and
// rounding moves it by less than 2^-8 / |b| in f32 for operands of 16 bits, 2^-21 / |b| in f64 for those of 32.
template <class T>
HWY_INLINE T quotient(T a, T b) {
  if constexpr (kBits<T> == 64) {
    return a / b;
  } else if constexpr (kBits<T> < 32) {
    return static_cast<T>(static_cast<std::int32_t>(static_cast<float>(a) / static_cast<float>(b)));
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<T>(static_cast<double>(a) / static_cast<double>(b));
  } else {
    // Conversions of vectors are from and to signed integers.
    constexpr double kHalf = 2147483648.0;
    constexpr T kTop = 0x80000000U;
    auto wide = [](T x) { return static_cast<double>(static_cast<std::int32_t>(x ^ kTop)) + kHalf; };
    return static_cast<T>(static_cast<std::int32_t>(std::trunc(wide(a) / wide(b)) - kHalf)) ^ kTop;
  }
}
struct IntDiv {
  template <class T>
  static T op(T a, T b) {
    // The smallest value has no positive twin: it wraps.
    const bool negates = std::is_signed_v<T> && b == static_cast<T>(-1);
    const T q = quotient<T>(a, b == 0 || negates ? T{1} : b);
    const T n = negates ? Neg::op(a) : q;
    return b == 0 ? static_cast<T>(-1) : n;
  }
};
struct IntRem {
  template <class T>
  static T op(T a, T b) {
    return Sub::op(a, Mul::op(IntDiv::op(a, b), b));
  }
};
struct IntPow {
  template <class T>
  static T op(T base, T exponent) {
    if constexpr (std::is_signed_v<T>) {
      // 1 / base^n truncates to zero but for base 1 and -1 (and 0, where XLA gives all ones: 1 / 0).
      if (exponent < 0) {
        if (base == 0) return static_cast<T>(-1);
        return base == 1 ? T{1} : base == -1 ? ((exponent & 1) ? T{-1} : T{1}) : T{0};
      }
    }
    T result = 1;
    for (auto e = static_cast<std::make_unsigned_t<T>>(exponent); e; e = static_cast<decltype(e)>(e >> 1)) {
      if (e & 1) result = Mul::op(result, base);
      base = Mul::op(base, base);
    }
    return result;
  }
};
struct And {
  template <class T>
  static T op(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  static T op(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <class T>
  static T op(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};
struct Not {
  template <class T>
  static T op(T a) {
    return static_cast<T>(~a);
  }
};
// A negative amount is a huge one: compared without sign.
template <class T>
bool in_width(T amount) {
  return static_cast<std::make_unsigned_t<T>>(amount) < kBits<T>;
}
struct Shl {
  template <class T>
  static T op(T a, T b) {
    return in_width(b) ? static_cast<T>(static_cast<Wrap<T>>(a) << (b & (kBits<T> - 1))) : T{0};
  }
};
struct ShrLogical {
  template <class T>
  static T op(T a, T b) {
    return in_width(b) ? static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) >> (b & (kBits<T> - 1))) : T{0};
  }
};
struct ShrArith {
  template <class T>
  static T op(T a, T b) {
    auto s = static_cast<std::make_signed_t<T>>(a);
    return static_cast<T>(s >> (in_width(b) ? static_cast<int>(b) : kBits<T> - 1));
  }
};
// The upper half of the product; of factors below 64 bits in a number that vectors multiply.
struct MulHi {
  template <class T>
  static T op(T a, T b) {
    constexpr bool narrow = kBits<T> < 64, has_sign = std::is_signed_v<T>;
    using Narrow = std::conditional_t<has_sign, std::int64_t, std::uint64_t>;
    using Wide = std::conditional_t<has_sign, __int128, unsigned __int128>;
    using Product = std::conditional_t<narrow, Narrow, Wide>;
    return static_cast<T>((static_cast<Product>(a) * static_cast<Product>(b)) >> kBits<T>);
  }
};
struct PopulationCount {
  template <class T>
  static T op(T a) {
    return static_cast<T>(std::popcount(static_cast<std::make_unsigned_t<T>>(a)));
  }
};
struct Clz {
  template <class T>
  static T op(T a) {
    return static_cast<T>(std::countl_zero(static_cast<std::make_unsigned_t<T>>(a)));
  }
};

template <class T>
EwFn find_int(EwOp op) {
  switch (op) {
    // clang-format off
    case EwOp::Neg: return map1<T, T, Neg>;
    case EwOp::Abs: return map1<T, T, Abs>;
    case EwOp::Sign: return map1<T, T, Sign>;
    case EwOp::Square: return map1<T, T, Square>;
    case EwOp::Not: return map1<T, T, Not>;
    case EwOp::PopulationCount: return map1<T, T, PopulationCount>;
    case EwOp::Clz: return map1<T, T, Clz>;
    case EwOp::Add: return map2<T, T, Add>;
    case EwOp::Sub: return map2<T, T, Sub>;
    case EwOp::Mul: return map2<T, T, Mul>;
    case EwOp::Div: return map2<T, T, IntDiv>;
    case EwOp::Rem: return map2<T, T, IntRem>;
    case EwOp::Pow: return map2<T, T, IntPow>;
    case EwOp::Max: return map2<T, T, Max>;
    case EwOp::Min: return map2<T, T, Min>;
    case EwOp::And: return map2<T, T, And>;
    case EwOp::Or: return map2<T, T, Or>;
    case EwOp::Xor: return map2<T, T, Xor>;
    case EwOp::Shl: return map2<T, T, Shl>;
    case EwOp::ShrLogical: return map2<T, T, ShrLogical>;
    case EwOp::ShrArith: return map2<T, T, ShrArith>;
    case EwOp::MulHi: return map2<T, T, MulHi>;
    case EwOp::Clamp: return map3<T, Clamp>;
    case EwOp::MulAdd: return map3<T, MulAdd>;
    // clang-format on
    default:
      return nullptr;
  }
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
