// SPDX-License-Identifier: Apache-2.0
// Conversion of any real dtype to any other. Half and complex types are composed from these by the callers.
#include "core/with_type.h"
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
  if (out == DType::Bool) return map1<From, Bool8, Cast<bool>>;
  return core::with_type(out, []<class To>() -> EwFn {
    if constexpr (std::is_arithmetic_v<To>) return map1<From, To, Cast<To>>;
    return nullptr;
  });
}

EwFn find_convert_here(DType in, DType out) {
  return core::with_type(in, [&]<class From>() -> EwFn {
    if constexpr (std::is_arithmetic_v<From>) return convert_from<From>(out);
    return nullptr;
  });
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
