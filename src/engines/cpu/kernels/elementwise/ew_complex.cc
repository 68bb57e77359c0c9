// SPDX-License-Identifier: Apache-2.0
// Complex arithmetic: scalar loops over std::complex.
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>

#include "engines/cpu/kernels/elementwise/ew_find.h"

namespace tessera::kernels {

namespace {

template <class A, class R, auto F>
void map1(const void* a, const void*, const void*, void* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) static_cast<R*>(out)[i] = F(static_cast<const A*>(a)[i]);
}
template <class A, class R, auto F>
void map2(const void* a, const void* b, const void*, void* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    static_cast<R*>(out)[i] = F(static_cast<const A*>(a)[i], static_cast<const A*>(b)[i]);
  }
}

// The product of the definition; the operator's recovery of infinities is not XLA's and costs a call.
template <class C>
C mul(const C& a, const C& b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}
// The operator's quotient, whose recovery of infinities is a call that few elements need.
template <class C>
C div(const C& a, const C& b) {
  if constexpr (sizeof(C) == 8) {
    const double c = b.real(), d = b.imag();
    const double size = c * c + d * d;
    const C quotient(static_cast<float>((a.real() * c + a.imag() * d) / size),
                     static_cast<float>((a.imag() * c - a.real() * d) / size));
    if (!std::isnan(quotient.real()) && !std::isnan(quotient.imag())) return quotient;
  }
  return a / b;
}
template <class C>
C pow(const C& a, const C& b) {
  using T = typename C::value_type;
  if (a == C{0}) return b == C{0} ? C{1} : b.real() > 0 ? C{0} : C{std::numeric_limits<T>::infinity()};
  return std::exp(mul(b, std::log(a)));
}
template <class C>
C sign(const C& a) {
  using T = typename C::value_type;
  T size = std::abs(a);
  return size == T{0} ? a : C{a.real() / size, a.imag() / size};
}
template <class C>
C expm1(const C& a) {
  using T = typename C::value_type;
  // e^x cos y - 1 without cancellation: expm1(x) cos y - 2 sin^2(y / 2).
  T s = std::sin(a.imag() / 2);
  return {std::expm1(a.real()) * std::cos(a.imag()) - 2 * s * s, std::exp(a.real()) * std::sin(a.imag())};
}
template <class C>
C log1p(const C& a) {
  using T = typename C::value_type;
  T x = a.real(), y = a.imag();
  T size = std::hypot(x + 1, y);
  // Near zero |1 + a|^2 - 1 = 2x + x^2 + y^2 keeps the digits that 1 + x loses.
  T real = size < T{2} && size > T{0.5} ? std::log1p(x * (2 + x) + y * y) / 2 : std::log(size);
  return {real, std::atan2(y, x + 1)};
}

template <class C>
EwFn two_operands(EwOp op) {
  switch (op) {
    case EwOp::Add:
      return map2<C, C, [](const C& a, const C& b) { return a + b; }>;
    case EwOp::Sub:
      return map2<C, C, [](const C& a, const C& b) { return a - b; }>;
    case EwOp::Mul:
      return map2<C, C, mul<C>>;
    case EwOp::Div:
      return map2<C, C, div<C>>;
    case EwOp::Pow:
      return map2<C, C, pow<C>>;
    default:
      return nullptr;
  }
}
template <class C>
EwFn same_type(EwOp op) {
  switch (op) {
    case EwOp::Neg:
      return map1<C, C, [](const C& a) { return -a; }>;
    case EwOp::Conj:
      return map1<C, C, [](const C& a) { return std::conj(a); }>;
    case EwOp::Sign:
      return map1<C, C, sign<C>>;
    case EwOp::Exp:
      return map1<C, C, [](const C& a) { return std::exp(a); }>;
    case EwOp::Exp2:
      return map1<C, C, [](const C& a) { return std::exp(a * std::log(typename C::value_type{2})); }>;
    case EwOp::Expm1:
      return map1<C, C, expm1<C>>;
    case EwOp::Log:
      return map1<C, C, [](const C& a) { return std::log(a); }>;
    case EwOp::Log1p:
      return map1<C, C, log1p<C>>;
    case EwOp::Sqrt:
      return map1<C, C, [](const C& a) { return std::sqrt(a); }>;
    case EwOp::Rsqrt:
      return map1<C, C, [](const C& a) { return C{1} / std::sqrt(a); }>;
    case EwOp::Cbrt:
      return map1<C, C, [](const C& a) { return pow(a, C{typename C::value_type{1} / 3}); }>;
    case EwOp::Sin:
      return map1<C, C, [](const C& a) { return std::sin(a); }>;
    case EwOp::Cos:
      return map1<C, C, [](const C& a) { return std::cos(a); }>;
    case EwOp::Tan:
      return map1<C, C, [](const C& a) { return std::tan(a); }>;
    case EwOp::Asin:
      return map1<C, C, [](const C& a) { return std::asin(a); }>;
    case EwOp::Acos:
      return map1<C, C, [](const C& a) { return std::acos(a); }>;
    case EwOp::Atan:
      return map1<C, C, [](const C& a) { return std::atan(a); }>;
    case EwOp::Sinh:
      return map1<C, C, [](const C& a) { return std::sinh(a); }>;
    case EwOp::Cosh:
      return map1<C, C, [](const C& a) { return std::cosh(a); }>;
    case EwOp::Tanh:
      return map1<C, C, [](const C& a) { return std::tanh(a); }>;
    case EwOp::Asinh:
      return map1<C, C, [](const C& a) { return std::asinh(a); }>;
    case EwOp::Acosh:
      return map1<C, C, [](const C& a) { return std::acosh(a); }>;
    case EwOp::Atanh:
      return map1<C, C, [](const C& a) { return std::atanh(a); }>;
    case EwOp::Logistic:
      return map1<C, C, [](const C& a) { return C{1} / (C{1} + std::exp(-a)); }>;
    case EwOp::Square:
      return map1<C, C, [](const C& a) { return mul(a, a); }>;
    case EwOp::Reciprocal:
      return map1<C, C, [](const C& a) { return C{1} / a; }>;
    default:
      return two_operands<C>(op);
  }
}

template <class C>
EwFn to_real(EwOp op) {
  using T = typename C::value_type;
  switch (op) {
    case EwOp::Real:
      return map1<C, T, [](const C& a) { return a.real(); }>;
    case EwOp::Imag:
      return map1<C, T, [](const C& a) { return a.imag(); }>;
    case EwOp::Abs:
      return map1<C, T, [](const C& a) { return std::abs(a); }>;
    default:
      return nullptr;
  }
}

template <class C>
EwFn to_bool(EwOp op) {
  using B = std::uint8_t;
  switch (op) {
    case EwOp::Eq:
      return map2<C, B, [](const C& a, const C& b) { return static_cast<B>(a == b); }>;
    case EwOp::Ne:
      return map2<C, B, [](const C& a, const C& b) { return static_cast<B>(a != b); }>;
    case EwOp::IsFinite:
      return map1<C, B, [](const C& a) { return static_cast<B>(std::isfinite(a.real()) && std::isfinite(a.imag())); }>;
    default:
      return nullptr;
  }
}

template <class T>
void make_complex(const void* a, const void* b, const void*, void* out, std::int64_t n) {
  auto* r = static_cast<std::complex<T>*>(out);
  for (std::int64_t i = 0; i < n; ++i) r[i] = {static_cast<const T*>(a)[i], static_cast<const T*>(b)[i]};
}

}  // namespace

EwFn find_complex(EwOp op, DType in, DType out) {
  if (op == EwOp::Complex) {
    if (in == DType::F32 && out == DType::C64) return make_complex<float>;
    if (in == DType::F64 && out == DType::C128) return make_complex<double>;
    return nullptr;
  }
  bool wide = in == DType::C128;
  if (out == in) return wide ? same_type<complex128_t>(op) : same_type<complex64_t>(op);
  if (out == real_dtype(in)) return wide ? to_real<complex128_t>(op) : to_real<complex64_t>(op);
  if (out == DType::Bool) return wide ? to_bool<complex128_t>(op) : to_bool<complex64_t>(op);
  return nullptr;
}

}  // namespace tessera::kernels
