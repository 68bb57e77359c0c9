// SPDX-License-Identifier: Apache-2.0
#include "core/with_type.h"
#include "engines/cpu/kernels/elementwise/ew_find.h"
#include "engines/cpu/kernels/simd.h"

#define HWY_TARGET_INCLUDE "engines/cpu/kernels/elementwise/ew_small_int.cc"
#include "hwy/foreach_target.h"
// After foreach_target, which compiles this file once per instruction set.
#include "engines/cpu/kernels/elementwise/ew_int-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {
EwFn find_small_int_here(EwOp op, DType t) {
  return core::with_type(t, [&]<class T>() -> EwFn {
    if constexpr (std::is_integral_v<T> && sizeof(T) <= 2) return find_int<T>(op);
    return nullptr;
  });
}
}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::kernels {
namespace {
HWY_EXPORT(find_small_int_here);
}
EwFn find_small_int(EwOp op, DType t) { return HWY_DYNAMIC_DISPATCH(find_small_int_here)(op, t); }
}  // namespace tessera::kernels
#endif
