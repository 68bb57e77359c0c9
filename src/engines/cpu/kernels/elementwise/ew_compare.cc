// SPDX-License-Identifier: Apache-2.0
// What gives or takes bools: comparisons, IsFinite, logic, Select.
#include "core/with_type.h"
#include "engines/cpu/kernels/elementwise/ew_find.h"
#include "engines/cpu/kernels/simd.h"

#define HWY_TARGET_INCLUDE "engines/cpu/kernels/elementwise/ew_compare.cc"
#include "hwy/foreach_target.h"
// After foreach_target, which compiles this file once per instruction set.
#include "engines/cpu/kernels/elementwise/ew_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

struct IsFinite {
  template <class T>
  static bool op(T a) {
    return std::fabs(a) <= std::numeric_limits<T>::max();
  }
};

template <class T>
EwFn find_comparison(EwOp op) {
  switch (op) {
    case EwOp::Eq:
      return map2<T, Bool8, Eq>;
    case EwOp::Ne:
      return map2<T, Bool8, Ne>;
    case EwOp::Lt:
      return map2<T, Bool8, Lt>;
    case EwOp::Le:
      return map2<T, Bool8, Le>;
    case EwOp::Gt:
      return map2<T, Bool8, Gt>;
    case EwOp::Ge:
      return map2<T, Bool8, Ge>;
    default:
      break;
  }
  if constexpr (std::is_floating_point_v<T>) {
    if (op == EwOp::IsFinite) return map1<T, Bool8, IsFinite>;
  }
  return nullptr;
}

EwFn find_compare_here(EwOp op, DType t) {
  return core::with_type(t, [&]<class T>() -> EwFn {
    if constexpr (std::is_arithmetic_v<T>) return find_comparison<T>(op);
    return nullptr;
  });
}

struct LogicAnd {
  static Bool8 op(Bool8 a, Bool8 b) { return a & b; }
};
struct LogicOr {
  static Bool8 op(Bool8 a, Bool8 b) { return a | b; }
};
struct LogicXor {
  static Bool8 op(Bool8 a, Bool8 b) { return a ^ b; }
};
struct LogicNot {
  static Bool8 op(Bool8 a) { return a ^ 1; }
};
EwFn find_bool_here(EwOp op) {
  switch (op) {
    case EwOp::And:
    case EwOp::Min:
    case EwOp::Mul:
      return map2<Bool8, Bool8, LogicAnd>;
    case EwOp::Or:
    case EwOp::Max:
    case EwOp::Add:
      return map2<Bool8, Bool8, LogicOr>;
    case EwOp::Xor:
      return map2<Bool8, Bool8, LogicXor>;
    case EwOp::Not:
      return map1<Bool8, Bool8, LogicNot>;
    case EwOp::Clamp:
      return map3<Bool8, Clamp>;
    default:
      return nullptr;
  }
}

template <class T>
void select(const void* a, const void* b, const void* c, void* out, std::int64_t n) {
  const auto* p = static_cast<const Bool8*>(a);
  const T* x = static_cast<const T*>(b);
  const T* y = static_cast<const T*>(c);
  T* r = static_cast<T*>(out);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    T u = x[i], v = y[i];
    r[i] = p[i] ? u : v;
  }
}
struct Pair {
  std::uint64_t words[2];
};
EwFn find_select_here(std::int64_t itemsize) {
  switch (itemsize) {
    case 1:
      return select<std::uint8_t>;
    case 2:
      return select<std::uint16_t>;
    case 4:
      return select<std::uint32_t>;
    case 8:
      return select<std::uint64_t>;
    default:
      return select<Pair>;
  }
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::kernels {
namespace {
HWY_EXPORT(find_compare_here);
HWY_EXPORT(find_bool_here);
HWY_EXPORT(find_select_here);
}  // namespace
EwFn find_compare(EwOp op, DType t) { return HWY_DYNAMIC_DISPATCH(find_compare_here)(op, t); }
EwFn find_bool(EwOp op) { return HWY_DYNAMIC_DISPATCH(find_bool_here)(op); }
EwFn find_select(std::int64_t itemsize) { return HWY_DYNAMIC_DISPATCH(find_select_here)(itemsize); }
}  // namespace tessera::kernels
#endif
