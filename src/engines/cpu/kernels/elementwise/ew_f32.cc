// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include "engines/cpu/kernels/elementwise/ew_find.h"
#include "engines/cpu/kernels/elementwise/vector_functions.h"
#include "engines/cpu/kernels/simd.h"

#define HWY_TARGET_INCLUDE "engines/cpu/kernels/elementwise/ew_f32.cc"
#include "hwy/foreach_target.h"
// After foreach_target, which compiles this file once per instruction set.
#include "engines/cpu/kernels/elementwise/ew_float-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {
EwFn find_f32_here(EwOp op) { return find_float<float>(op); }

int vector_bytes_here() { return kVecBytes; }

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
template <class F>
const void* one() {
  return reinterpret_cast<const void*>(static_cast<Vec<float> (*)(Vec<float>)>(&F::op));
}
template <class F>
const void* two() {
  return reinterpret_cast<const void*>(static_cast<Vec<float> (*)(Vec<float>, Vec<float>)>(&F::op));
}
const void* vector_function_here(EwOp op) {
  switch (op) {
#define TESSERA_ROW(name, arity) \
  case EwOp::name:               \
    return arity<name>();
    // clang-format off
    TESSERA_ROW(Exp2, one) TESSERA_ROW(Expm1, one) TESSERA_ROW(Log, one) TESSERA_ROW(Log1p, one) TESSERA_ROW(Cbrt, one)
    TESSERA_ROW(Sin, one) TESSERA_ROW(Cos, one) TESSERA_ROW(Tan, one) TESSERA_ROW(Asin, one) TESSERA_ROW(Acos, one)
    TESSERA_ROW(Atan, one) TESSERA_ROW(Sinh, one) TESSERA_ROW(Cosh, one) TESSERA_ROW(Asinh, one) TESSERA_ROW(Acosh, one)
    TESSERA_ROW(Atanh, one) TESSERA_ROW(ErfInv, one) TESSERA_ROW(Pow, two) TESSERA_ROW(Atan2, two)
    // clang-format on
#undef TESSERA_ROW
                    default : return nullptr;
  }
}
#else
const void* vector_function_here(EwOp) { return nullptr; }
#endif
}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::kernels {
namespace {
HWY_EXPORT(find_f32_here);
HWY_EXPORT(vector_bytes_here);
HWY_EXPORT(vector_function_here);

// A machine with wide vectors runs what others run: kernels and machine code as there. Before `main`, for plans keep
// the kernels that they were made of.
[[maybe_unused]] const bool narrowed = [] {
  const char* most = std::getenv("TESSERA_VECTOR_BYTES");
  if (most == nullptr) return false;
  long bytes = std::strtol(most, nullptr, 10);
  constexpr std::int64_t kAbove32 = HWY_AVX2 - 1;  // better sets of instructions have lower bits
  hwy::DisableTargets(bytes >= 64 ? 0 : bytes >= 32 ? kAbove32 : kAbove32 | HWY_AVX2);
  return true;
}();
}  // namespace
EwFn find_f32(EwOp op) { return HWY_DYNAMIC_DISPATCH(find_f32_here)(op); }
int vector_bytes() { return HWY_DYNAMIC_DISPATCH(vector_bytes_here)(); }
const void* vector_function(EwOp op) { return HWY_DYNAMIC_DISPATCH(vector_function_here)(op); }
}  // namespace tessera::kernels
#endif
