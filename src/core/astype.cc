// SPDX-License-Identifier: Apache-2.0
// Conversion between any two dtypes goes through one of four wide types, block by block: fifteen readers and four times
// fifteen writers in place of 225 loops.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <type_traits>

#include "tessera/host_array.h"

namespace tessera {

namespace {

constexpr std::int64_t kBlock = 1024;

// Two roundings (f64 to f32 to 16 bits) may differ from one; rounding the first step to odd repairs that.
float narrow_to_odd(double v) {
  auto f = static_cast<float>(v);
  if (!std::isfinite(f) || static_cast<double>(f) == v) return f;
  auto bits = std::bit_cast<std::uint32_t>(f);
  if ((bits & 1u) == 0) {
    bool away = std::abs(static_cast<double>(f)) > std::abs(v);
    bits = away ? bits - 1 : bits + 1;
  }
  return std::bit_cast<float>(bits);
}

template <class To, class From>
To convert(From v) {
  if constexpr (std::is_same_v<From, std::complex<double>>) {
    if constexpr (std::is_same_v<To, bool>) {
      return v != From{};
    } else if constexpr (std::is_same_v<To, complex64_t> || std::is_same_v<To, complex128_t>) {
      return To(v);
    } else {
      return convert<To>(v.real());
    }
  } else if constexpr (std::is_same_v<To, complex64_t>) {
    return {static_cast<float>(v), 0.0f};
  } else if constexpr (std::is_same_v<To, complex128_t>) {
    return {static_cast<double>(v), 0.0};
  } else if constexpr (std::is_same_v<To, bool>) {
    return v != From{};
  } else if constexpr (std::is_same_v<To, float16_t> || std::is_same_v<To, bfloat16_t>) {
    if constexpr (std::is_same_v<From, double>) {
      return To(narrow_to_odd(v));
    } else {
      return To(narrow_to_odd(static_cast<double>(v)));
    }
  } else if constexpr (std::is_integral_v<To> && std::is_same_v<From, double>) {
    // Out of range is undefined in C++ and NumPy alike; saturate, and NaN gives 0, as compiled programs do.
    if (std::isnan(v)) return 0;
    constexpr auto lo = static_cast<double>(std::numeric_limits<To>::min());
    constexpr auto hi = static_cast<double>(std::numeric_limits<To>::max());
    if (v <= lo) return std::numeric_limits<To>::min();
    if (v >= hi) return std::numeric_limits<To>::max();
    return static_cast<To>(v);
  } else {
    return static_cast<To>(v);
  }
}

template <class T>
using Wide = std::conditional_t<
    std::is_same_v<T, complex64_t> || std::is_same_v<T, complex128_t>, std::complex<double>,
    std::conditional_t<!std::is_integral_v<T>, double,
                       std::conditional_t<std::is_same_v<T, std::uint64_t>, std::uint64_t, std::int64_t>>>;

using Reader = void (*)(const void* src, std::int64_t n, void* wide);
using Writer = void (*)(const void* wide, std::int64_t n, void* dst);

template <class T>
void read(const void* src, std::int64_t n, void* wide) {
  const T* in = static_cast<const T*>(src);
  auto* out = static_cast<Wide<T>*>(wide);
  for (std::int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_same_v<T, float16_t> || std::is_same_v<T, bfloat16_t>) {
      out[i] = static_cast<double>(static_cast<float>(in[i]));
    } else {
      out[i] = Wide<T>(in[i]);
    }
  }
}

template <class T, class From>
void write(const void* wide, std::int64_t n, void* dst) {
  const From* in = static_cast<const From*>(wide);
  T* out = static_cast<T*>(dst);
  for (std::int64_t i = 0; i < n; ++i) out[i] = convert<T>(in[i]);
}

enum WideKind { kSigned, kUnsigned, kDouble, kComplex };
struct Row {
  Reader reader;
  WideKind wide;
  std::array<Writer, 4> writers;
};
template <class T>
constexpr Row row() {
  WideKind k = std::is_same_v<Wide<T>, std::int64_t>    ? kSigned
               : std::is_same_v<Wide<T>, std::uint64_t> ? kUnsigned
               : std::is_same_v<Wide<T>, double>        ? kDouble
                                                        : kComplex;
  return {
      read<T>, k, {write<T, std::int64_t>, write<T, std::uint64_t>, write<T, double>, write<T, std::complex<double>>}};
}
// In the order of DType.
constexpr std::array<Row, kNumDTypes> kRows = {
    row<bool>(),         row<std::int8_t>(),   row<std::int16_t>(),  row<std::int32_t>(),  row<std::int64_t>(),
    row<std::uint8_t>(), row<std::uint16_t>(), row<std::uint32_t>(), row<std::uint64_t>(), row<float16_t>(),
    row<bfloat16_t>(),   row<float>(),         row<double>(),        row<complex64_t>(),   row<complex128_t>()};

}  // namespace

HostArray HostArray::astype(DType dtype, const Loc&) const {
  if (dtype == dtype_) return *this;
  HostArray out(dtype, shape_);
  const Row& from = kRows.at(static_cast<std::size_t>(dtype_));
  Writer write_to = kRows.at(static_cast<std::size_t>(dtype)).writers[from.wide];
  alignas(16) std::array<char, kBlock * sizeof(std::complex<double>)> wide;
  const char* src = static_cast<const char*>(data());
  char* dst = static_cast<char*>(out.data());
  for (std::int64_t i = 0; i < size_; i += kBlock) {
    std::int64_t n = std::min(kBlock, size_ - i);
    from.reader(src + i * dtype_size(dtype_), n, wide.data());
    write_to(wide.data(), n, dst + i * dtype_size(dtype));
  }
  return out;
}

}  // namespace tessera
