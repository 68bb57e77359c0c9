// SPDX-License-Identifier: Apache-2.0
// Conversion of any real dtype to any other. Half and complex types are composed from these by the callers.
#include "engines/cpu/kernels/elementwise/ew_find.h"
#include "engines/cpu/kernels/simd.h"

#define HWY_TARGET_INCLUDE "engines/cpu/kernels/elementwise/ew_convert.cc"
#include "hwy/foreach_target.h"
// After foreach_target, which compiles this file once per instruction set.
#include "engines/cpu/kernels/elementwise/ew_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class To>
struct Cast {
  template <class From>
  static To op(From v) {
    if constexpr (std::is_same_v<To, bool>) {
      return v != From{0};
    } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
      // Powers of two, exact in any float type: the first value too large and the smallest that fits.
      constexpr From kTop = static_cast<From>(std::numeric_limits<To>::max() / 2 + 1) * From{2};
      constexpr From kLow = static_cast<From>(std::numeric_limits<To>::min());
      To inside = static_cast<To>(v >= kTop || !(v >= kLow) ? From{0} : v);
      To r = v >= kTop ? std::numeric_limits<To>::max() : inside;
      return v < kLow ? std::numeric_limits<To>::min() : r;
    } else {
      return static_cast<To>(v);
    }
  }
};

template <class From>
EwFn convert_from(DType out) {
  switch (out) {
    case DType::Bool:
      return map1<From, Bool8, Cast<bool>>;
    case DType::I8:
      return map1<From, std::int8_t, Cast<std::int8_t>>;
    case DType::I16:
      return map1<From, std::int16_t, Cast<std::int16_t>>;
    case DType::I32:
      return map1<From, std::int32_t, Cast<std::int32_t>>;
    case DType::I64:
      return map1<From, std::int64_t, Cast<std::int64_t>>;
    case DType::U8:
      return map1<From, std::uint8_t, Cast<std::uint8_t>>;
    case DType::U16:
      return map1<From, std::uint16_t, Cast<std::uint16_t>>;
    case DType::U32:
      return map1<From, std::uint32_t, Cast<std::uint32_t>>;
    case DType::U64:
      return map1<From, std::uint64_t, Cast<std::uint64_t>>;
    case DType::F32:
      return map1<From, float, Cast<float>>;
    case DType::F64:
      return map1<From, double, Cast<double>>;
    default:
      return nullptr;
  }
}

EwFn find_convert_here(DType in, DType out) {
  switch (in) {
    case DType::I8:
      return convert_from<std::int8_t>(out);
    case DType::I16:
      return convert_from<std::int16_t>(out);
    case DType::I32:
      return convert_from<std::int32_t>(out);
    case DType::I64:
      return convert_from<std::int64_t>(out);
    case DType::Bool:
    case DType::U8:
      return convert_from<std::uint8_t>(out);
    case DType::U16:
      return convert_from<std::uint16_t>(out);
    case DType::U32:
      return convert_from<std::uint32_t>(out);
    case DType::U64:
      return convert_from<std::uint64_t>(out);
    case DType::F32:
      return convert_from<float>(out);
    case DType::F64:
      return convert_from<double>(out);
    default:
      return nullptr;
  }
}

void bf16_to_f32_here(const void* in, float* out, std::int64_t n) {
  const auto* x = static_cast<const std::uint16_t*>(in);
  auto* r = reinterpret_cast<std::uint32_t*>(out);
  for (std::int64_t i = 0; i < n; ++i) r[i] = static_cast<std::uint32_t>(x[i]) << 16;
}
void f32_to_bf16_here(const float* in, void* out, std::int64_t n) {
  auto* r = static_cast<std::uint16_t*>(out);
  for (std::int64_t i = 0; i < n; ++i) {
    std::uint32_t u;
    __builtin_memcpy(&u, in + i, sizeof u);
    std::uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    std::uint32_t nan = (u >> 16) | 0x40u;
    r[i] = static_cast<std::uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
  }
}
void f16_to_f32_here(const void* in, float* out, std::int64_t n) {
  const auto* x = static_cast<const std::uint16_t*>(in);
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> dh;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(hn::PromoteTo(d, hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(x + i))), d, out + i);
  }
#endif
  for (; i < n; ++i) out[i] = detail::half_to_float(x[i]);
}
void f32_to_f16_here(const float* in, void* out, std::int64_t n) {
  auto* r = static_cast<std::uint16_t*>(out);
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> dh;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(hn::DemoteTo(dh, hn::LoadU(d, in + i)), dh, reinterpret_cast<hwy::float16_t*>(r + i));
  }
#endif
  for (; i < n; ++i) r[i] = detail::float_to_half(in[i]);
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::kernels {
namespace {
HWY_EXPORT(find_convert_here);
HWY_EXPORT(bf16_to_f32_here);
HWY_EXPORT(f32_to_bf16_here);
HWY_EXPORT(f16_to_f32_here);
HWY_EXPORT(f32_to_f16_here);
}  // namespace
EwFn find_convert(DType in, DType out) { return HWY_DYNAMIC_DISPATCH(find_convert_here)(in, out); }
void half_to_f32(DType half, const void* in, float* out, std::int64_t n) {
  if (half == DType::BF16) return HWY_DYNAMIC_DISPATCH(bf16_to_f32_here)(in, out, n);
  HWY_DYNAMIC_DISPATCH(f16_to_f32_here)(in, out, n);
}
void f32_to_half(DType half, const float* in, void* out, std::int64_t n) {
  if (half == DType::BF16) return HWY_DYNAMIC_DISPATCH(f32_to_bf16_here)(in, out, n);
  HWY_DYNAMIC_DISPATCH(f32_to_f16_here)(in, out, n);
}
}  // namespace tessera::kernels
#endif
