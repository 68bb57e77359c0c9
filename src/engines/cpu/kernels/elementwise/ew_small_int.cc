// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/kernels/elementwise/ew_find.h"
#include "engines/cpu/kernels/simd.h"

#define HWY_TARGET_INCLUDE "engines/cpu/kernels/elementwise/ew_small_int.cc"
#include "hwy/foreach_target.h"
// After foreach_target, which compiles this file once per instruction set.
#include "engines/cpu/kernels/elementwise/ew_int-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {
EwFn find_small_int_here(EwOp op, DType t) {
  switch (t) {
    case DType::I8:
      return find_int<std::int8_t>(op);
    case DType::U8:
      return find_int<std::uint8_t>(op);
    case DType::I16:
      return find_int<std::int16_t>(op);
    case DType::U16:
      return find_int<std::uint16_t>(op);
    default:
      return nullptr;
  }
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
