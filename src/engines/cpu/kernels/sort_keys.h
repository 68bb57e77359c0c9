// SPDX-License-Identifier: Apache-2.0
// Every dtype's order as the order of unsigned integers.
#pragma once

#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "tessera/dtype.h"

namespace tessera::kernels {

/// `Key<T>::of(v)`: unsigned, ordered as lax.sort orders `T`; equal exactly for elements that count as equal.
/// `kMerges`: whether elements of different bits may be equal (zeros, NaNs).
template <class T>
struct Key {
  static constexpr bool kMerges = false;
  using type = std::make_unsigned_t<T>;
  static type of(T v) {
    constexpr type top = std::is_signed_v<T> ? static_cast<type>(type{1} << (sizeof(T) * 8 - 1)) : type{0};
    return static_cast<type>(static_cast<type>(v) ^ top);
  }
};

/// Bits of a float with `kMantissa` explicit mantissa bits.
template <class U, int kMantissa>
struct FloatKey {
  static constexpr bool kMerges = true;
  using type = U;
  static constexpr U kTop = static_cast<U>(U{1} << (sizeof(U) * 8 - 1));
  static constexpr U kInfinity = static_cast<U>((kTop - (U{1} << kMantissa)));
  static U of_bits(U u) {
    auto magnitude = static_cast<U>(u & ~kTop);
    if (magnitude > kInfinity) return static_cast<U>(~U{0});
    if (magnitude == 0) return kTop;
    return static_cast<U>((u & kTop) ? ~u : (u | kTop));
  }
};
template <>
struct Key<float> : FloatKey<std::uint32_t, 23> {
  static type of(float v) { return of_bits(std::bit_cast<type>(v)); }
};
template <>
struct Key<double> : FloatKey<std::uint64_t, 52> {
  static type of(double v) { return of_bits(std::bit_cast<type>(v)); }
};
template <>
struct Key<float16_t> : FloatKey<std::uint16_t, 10> {
  static type of(float16_t v) { return of_bits(v.bits); }
};
template <>
struct Key<bfloat16_t> : FloatKey<std::uint16_t, 7> {
  static type of(bfloat16_t v) { return of_bits(v.bits); }
};
template <>
struct Key<complex64_t> {
  static constexpr bool kMerges = true;
  using type = std::uint64_t;
  static type of(complex64_t v) {
    return (static_cast<type>(Key<float>::of(v.real())) << 32) | Key<float>::of(v.imag());
  }
};
template <>
struct Key<complex128_t> {
  static constexpr bool kMerges = true;
  using type = unsigned __int128;
  static type of(complex128_t v) {
    return (static_cast<type>(Key<double>::of(v.real())) << 64) | Key<double>::of(v.imag());
  }
};

/// IEEE 754's total order, which is top_k's: -0 comes before 0, a NaN with a sign before everything and one without
/// behind. Signed, as vectors compare in any instruction set.
template <class T>
auto total_key(T v) {
  using U = typename Key<T>::type;
  using S = std::make_signed_t<U>;
  if constexpr (Key<T>::kMerges) {
    const auto bits = std::bit_cast<S>(v);
    return static_cast<S>(bits ^ ((bits >> (sizeof(S) * 8 - 1)) & std::numeric_limits<S>::max()));
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<S>(v);
  } else {
    return static_cast<S>(v ^ static_cast<U>(U{1} << (sizeof(U) * 8 - 1)));
  }
}

}  // namespace tessera::kernels
