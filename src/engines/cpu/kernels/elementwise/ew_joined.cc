// SPDX-License-Identifier: Apache-2.0
// Kernels of fused programs for f32: two arithmetic ops in one pass, and ops with one value a row. Each op rounds by
// itself (this file is compiled without contraction), so a value does not depend on how its program was grouped.
#include "engines/cpu/kernels/elementwise/ew_joined.h"

#include "engines/cpu/kernels/simd.h"

#define HWY_TARGET_INCLUDE "engines/cpu/kernels/elementwise/ew_joined.cc"
#include "hwy/foreach_target.h"
// After foreach_target, which compiles this file once per instruction set.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

namespace joined {
struct Add {
  static float op(float a, float b) { return a + b; }
};
struct Sub {
  static float op(float a, float b) { return a - b; }
};
struct Mul {
  static float op(float a, float b) { return a * b; }
};
struct Div {
  static float op(float a, float b) { return a / b; }
};
}  // namespace joined

// Bit i of kScalars: operand i is one value for all elements.
template <class First, class Second, bool kLeft, int kScalars>
void both(const void* a, const void* b, const void* c, void* out, std::int64_t n) {
  const auto* x = static_cast<const float*>(a);
  const auto* y = static_cast<const float*>(b);
  const auto* z = static_cast<const float*>(c);
  auto* r = static_cast<float*>(out);
  const float x0 = kScalars & 1 ? *x : 0;
  const float y0 = kScalars & 2 ? *y : 0;
  const float z0 = kScalars & 4 ? *z : 0;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    float first = First::op(kScalars & 1 ? x0 : x[i], kScalars & 2 ? y0 : y[i]);
    float other = kScalars & 4 ? z0 : z[i];
    r[i] = kLeft ? Second::op(first, other) : Second::op(other, first);
  }
}

template <class Op, int kScalars>
void one(const void* a, const void* b, const void*, void* out, std::int64_t n) {
  const auto* x = static_cast<const float*>(a);
  const auto* y = static_cast<const float*>(b);
  auto* r = static_cast<float*>(out);
  const float x0 = kScalars & 1 ? *x : 0;
  const float y0 = kScalars & 2 ? *y : 0;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) r[i] = Op::op(kScalars & 1 ? x0 : x[i], kScalars & 2 ? y0 : y[i]);
}

template <class Op>
void with_rows(const void* a, const void* b, void* out, std::int64_t rows, std::int64_t cols) {
  const auto* x = static_cast<const float*>(a);
  const auto* y = static_cast<const float*>(b);
  auto* r = static_cast<float*>(out);
  for (std::int64_t i = 0; i < rows; ++i, x += cols, r += cols) {
    float value = y[i];
#pragma GCC ivdep
    for (std::int64_t j = 0; j < cols; ++j) r[j] = Op::op(x[j], value);
  }
}

template <class First, class Second, bool kLeft>
EwFn find_both(int scalars) {
  switch (scalars) {
    case 0:
      return both<First, Second, kLeft, 0>;
    case 1:
      return both<First, Second, kLeft, 1>;
    case 2:
      return both<First, Second, kLeft, 2>;
    case 4:
      return both<First, Second, kLeft, 4>;
    case 5:
      return both<First, Second, kLeft, 5>;
    case 6:
      return both<First, Second, kLeft, 6>;
    default:
      return nullptr;
  }
}

template <class First, class Second>
EwFn find_side(bool left, int scalars) {
  return left ? find_both<First, Second, true>(scalars) : find_both<First, Second, false>(scalars);
}

template <class First>
EwFn find_second(EwOp second, bool left, int scalars) {
  switch (second) {
    case EwOp::Add:
      return find_side<First, joined::Add>(left, scalars);
    case EwOp::Sub:
      return find_side<First, joined::Sub>(left, scalars);
    case EwOp::Mul:
      return find_side<First, joined::Mul>(left, scalars);
    default:
      return nullptr;
  }
}

EwFn find_joined_here(EwOp first, EwOp second, bool left, int scalars) {
  switch (first) {
    case EwOp::Add:
      return find_second<joined::Add>(second, left, scalars);
    case EwOp::Sub:
      return find_second<joined::Sub>(second, left, scalars);
    case EwOp::Mul:
      return find_second<joined::Mul>(second, left, scalars);
    default:
      return nullptr;
  }
}

template <class Op>
EwFn find_one(int scalars) {
  return scalars == 1 ? one<Op, 1> : scalars == 2 ? one<Op, 2> : nullptr;
}
EwFn find_scalar_operand_here(EwOp op, int scalars) {
  switch (op) {
    case EwOp::Add:
      return find_one<joined::Add>(scalars);
    case EwOp::Sub:
      return find_one<joined::Sub>(scalars);
    case EwOp::Mul:
      return find_one<joined::Mul>(scalars);
    case EwOp::Div:
      return find_one<joined::Div>(scalars);
    default:
      return nullptr;
  }
}

EwRowFn find_row_operand_here(EwOp op) {
  switch (op) {
    case EwOp::Add:
      return with_rows<joined::Add>;
    case EwOp::Sub:
      return with_rows<joined::Sub>;
    case EwOp::Mul:
      return with_rows<joined::Mul>;
    case EwOp::Div:
      return with_rows<joined::Div>;
    default:
      return nullptr;
  }
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::kernels {
namespace {
HWY_EXPORT(find_joined_here);
HWY_EXPORT(find_row_operand_here);
HWY_EXPORT(find_scalar_operand_here);
}  // namespace
EwFn find_joined(EwOp first, EwOp second, bool left, int scalars) {
  return HWY_DYNAMIC_DISPATCH(find_joined_here)(first, second, left, scalars);
}
EwFn find_scalar_operand(EwOp op, int scalars) { return HWY_DYNAMIC_DISPATCH(find_scalar_operand_here)(op, scalars); }
EwRowFn find_row_operand(EwOp op) { return HWY_DYNAMIC_DISPATCH(find_row_operand_here)(op); }
}  // namespace tessera::kernels
#endif
