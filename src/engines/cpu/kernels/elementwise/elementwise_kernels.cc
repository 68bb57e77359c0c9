// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/kernels/elementwise/elementwise_kernels.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <utility>

#include "engines/cpu/kernels/elementwise/ew_find.h"

namespace tessera::kernels {

namespace {

constexpr std::int64_t kConvertBlock = 256;

// f64 to f32 so that a second rounding, to a half, gives what one rounding would: inexact results become odd.
float round_to_odd(double v) {
  auto f = static_cast<float>(v);
  double back = f;
  if (back == v || std::isnan(f)) return f;
  auto bits = std::bit_cast<std::uint32_t>(f);
  if (std::fabs(back) > std::fabs(v)) --bits;
  return std::bit_cast<float>(bits | 1u);
}

// Between real dtypes, halves through f32; complex values by their real part.
void to_real_block(DType in, DType out, const std::byte* from, std::byte* to, std::int64_t n) {
  alignas(64) float middle[kConvertBlock];
  const void* source = from;
  if (is_half(in)) {
    half_to_f32(in, from, middle, n);
    source = middle;
    in = DType::F32;
  }
  if (!is_half(out)) {
    find_convert(in, out)(source, nullptr, nullptr, to, n);
    return;
  }
  if (in == DType::F64) {
    for (std::int64_t i = 0; i < n; ++i) middle[i] = round_to_odd(static_cast<const double*>(source)[i]);
  } else if (source != middle) {
    find_convert(in, DType::F32)(source, nullptr, nullptr, middle, n);
  }
  f32_to_half(out, middle, to, n);
}

template <class T>
void split_complex(const std::byte* from, T* real, std::uint8_t* nonzero, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    std::complex<T> v;
    std::memcpy(&v, from + i * static_cast<std::int64_t>(sizeof v), sizeof v);
    real[i] = v.real();
    nonzero[i] = v != std::complex<T>{0};
  }
}

template <class T>
void join_complex(const double* real, const double* imag, std::byte* to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    std::complex<T> v(static_cast<T>(real[i]), static_cast<T>(imag[i]));
    std::memcpy(to + i * static_cast<std::int64_t>(sizeof v), &v, sizeof v);
  }
}

// Of the complex dtype's own real parts.
template <class T>
void from_real_parts(const std::byte* from, std::byte* to, std::int64_t n) {
  const auto* real = reinterpret_cast<const T*>(from);
  auto* parts = reinterpret_cast<T*>(to);
  for (std::int64_t i = 0; i < n; ++i) {
    parts[2 * i] = real[i];
    parts[2 * i + 1] = 0;
  }
}

void convert_block(DType in, DType out, const std::byte* from, std::byte* to, std::int64_t n) {
  if (in == DType::F32 && out == DType::C64) return from_real_parts<float>(from, to, n);
  if (in == DType::F64 && out == DType::C128) return from_real_parts<double>(from, to, n);
  alignas(64) double real[kConvertBlock];
  if (is_complex(out)) {  // every dtype passes through f64 exactly but 64-bit integers, which complex rounds anyway
    alignas(64) double imag[kConvertBlock] = {};
    if (is_complex(in)) {
      bool wide = in == DType::C128;
      for (std::int64_t i = 0; i < n; ++i) {
        const std::byte* at = from + i * (wide ? 16 : 8);
        complex128_t v = wide ? *reinterpret_cast<const complex128_t*>(at) : *reinterpret_cast<const complex64_t*>(at);
        real[i] = v.real();
        imag[i] = v.imag();
      }
    } else {
      to_real_block(in, DType::F64, from, reinterpret_cast<std::byte*>(real), n);
    }
    out == DType::C64 ? join_complex<float>(real, imag, to, n) : join_complex<double>(real, imag, to, n);
    return;
  }
  if (!is_complex(in)) return to_real_block(in, out, from, to, n);
  std::uint8_t nonzero[kConvertBlock];
  if (in == DType::C64) {
    split_complex(from, reinterpret_cast<float*>(real), nonzero, n);
  } else {
    split_complex(from, real, nonzero, n);
  }
  if (out == DType::Bool) {
    std::memcpy(to, nonzero, static_cast<std::size_t>(n));
  } else {
    to_real_block(real_dtype(in), out, reinterpret_cast<const std::byte*>(real), to, n);
  }
}

template <int In, int Out>
void convert(const void* a, const void*, const void*, void* out, std::int64_t n) {
  constexpr auto kIn = static_cast<DType>(In);
  constexpr auto kOut = static_cast<DType>(Out);
  const auto* from = static_cast<const std::byte*>(a);
  auto* to = static_cast<std::byte*>(out);
  std::int64_t in_size = dtype_size(kIn), out_size = dtype_size(kOut);
  for (std::int64_t at = 0; at < n; at += kConvertBlock) {
    convert_block(kIn, kOut, from + at * in_size, to + at * out_size, std::min(kConvertBlock, n - at));
  }
}
template <int Size>
void same(const void* a, const void*, const void*, void* out, std::int64_t n) {
  if (a != out && n > 0) std::memcpy(out, a, static_cast<std::size_t>(n * Size));
}

template <std::size_t... I>
constexpr std::array<EwFn, sizeof...(I)> convert_table(std::index_sequence<I...>) {
  return {convert<static_cast<int>(I) / kNumDTypes, static_cast<int>(I) % kNumDTypes>...};
}

EwFn find_any_convert(DType in, DType out) {
  if (in == out) {
    switch (dtype_size(in)) {
      case 1:
        return same<1>;
      case 2:
        return same<2>;
      case 4:
        return same<4>;
      case 8:
        return same<8>;
      default:
        return same<16>;
    }
  }
  if (EwFn direct = find_convert(in, out)) return direct;
  static constexpr auto kTable = convert_table(std::make_index_sequence<kNumDTypes * kNumDTypes>());
  return kTable[static_cast<std::size_t>(in) * kNumDTypes + static_cast<std::size_t>(out)];
}

}  // namespace

EwFn ew_find(EwOp op, DType in_dtype, DType out_dtype) {
  if (op == EwOp::Convert) return find_any_convert(in_dtype, out_dtype);
  if (op == EwOp::Select) return in_dtype == out_dtype ? find_select(dtype_size(in_dtype)) : nullptr;
  if (is_complex(in_dtype) || op == EwOp::Complex) return find_complex(op, in_dtype, out_dtype);
  if (is_half(in_dtype)) return find_half(op, in_dtype, out_dtype);
  if (in_dtype == DType::Bool) {
    EwFn logic = out_dtype == DType::Bool ? find_bool(op) : nullptr;
    if (logic) return logic;
  }
  if (out_dtype == DType::Bool) return find_compare(op, in_dtype);
  if (in_dtype != out_dtype) return nullptr;
  switch (in_dtype) {
    case DType::F32:
      return find_f32(op);
    case DType::F64:
      return find_f64(op);
    case DType::I8:
    case DType::U8:
    case DType::I16:
    case DType::U16:
      return find_small_int(op, in_dtype);
    default:
      return find_wide_int(op, in_dtype);
  }
}

std::vector<float> widen_halves(DType half, const void* in, std::int64_t n) {
  std::vector<float> wide(static_cast<std::size_t>(n));
  ew_find(EwOp::Convert, half, DType::F32)(in, nullptr, nullptr, wide.data(), n);
  return wide;
}

}  // namespace tessera::kernels
