// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/kernels/elementwise/ew_find.h"
#include "engines/cpu/kernels/simd.h"

#define HWY_TARGET_INCLUDE "engines/cpu/kernels/elementwise/ew_f32.cc"
#include "hwy/foreach_target.h"
// After foreach_target, which compiles this file once per instruction set.
#include "engines/cpu/kernels/elementwise/ew_float-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {
EwFn find_f32_here(EwOp op) { return find_float<float>(op); }
}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::kernels {
namespace {
HWY_EXPORT(find_f32_here);
}
EwFn find_f32(EwOp op) { return HWY_DYNAMIC_DISPATCH(find_f32_here)(op); }
}  // namespace tessera::kernels
#endif
