// SPDX-License-Identifier: Apache-2.0
// Exponentials, logarithms, powers and roots beyond exp, log, sqrt and pow.
#include <cmath>
#include <numbers>

#include "ops/elementwise/elementwise.h"
#include "ops/shared_attrs.h"

namespace tessera::ops {

namespace {
using i64 = std::int64_t;
using u64 = std::uint64_t;

// exp(z) - 1 without cancellation near 0: cos y - 1 = -2 sin^2(y/2).
complexd expm1_of(complexd z) {
  double half = std::sin(z.imag() / 2);
  double re = std::expm1(z.real()) * std::cos(z.imag()) - 2 * half * half;
  return {re, std::exp(z.real()) * std::sin(z.imag())};
}
// |1 + z|^2 - 1 = x (2 + x) + y^2; the wider format keeps what cancels where the circle is near.
complexd log1p_of(complexd z) {
  long double x = z.real();
  long double y = z.imag();
  double size = std::hypot(z.real(), z.imag());
  double re = size < 1e3 ? static_cast<double>(std::log1p(x * (2 + x) + y * y) / 2) : std::log(std::abs(1.0 + z));
  return {re, std::atan2(z.imag(), 1 + z.real())};
}
double logistic_of(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }

template <class T>
T repeated(T x, u64 y) {
  T r = 1;
  for (; y > 0; y >>= 1) {
    if (y & 1) r *= x;
    if (y > 1) x *= x;
  }
  return r;
}
}  // namespace

TESSERA_ROW(exp2, unary_spec({.name = "exp2",
                              .work = ir::Work::Function,
                              .fns = {.f = [](double x) { return std::exp2(x); },
                                      .c = [](complexd x) { return std::exp(x * std::numbers::ln2); }},
                              .jvp = [](Value, Value y, Value t) { return std::numbers::ln2 * (t * y); }}));
TESSERA_ROW(expm1, unary_spec({.name = "expm1",
                               .stablehlo = "stablehlo.exponential_minus_one",
                               .work = ir::Work::Special,
                               .fns = {.f = [](double x) { return std::expm1(x); }, .c = expm1_of},
                               .jvp = [](Value, Value y, Value t) { return t * (y + 1.0); }}));
TESSERA_ROW(log1p, unary_spec({.name = "log1p",
                               .stablehlo = "stablehlo.log_plus_one",
                               .work = ir::Work::Special,
                               .fns = {.f = [](double x) { return std::log1p(x); }, .c = log1p_of},
                               .jvp = [](Value x, Value, Value t) { return t / (x + 1.0); }}));
TESSERA_ROW(logistic, unary_spec({.name = "logistic",
                                  .stablehlo = "stablehlo.logistic",
                                  .cheap = true,
                                  .work = ir::Work::Tanh,
                                  .fns = {.f = logistic_of, .c = [](complexd x) { return 1.0 / (1.0 + std::exp(-x)); }},
                                  .jvp = [](Value, Value y, Value t) { return t * (y * (1.0 - y)); }}));
TESSERA_ROW(cbrt, unary_spec({.name = "cbrt",
                              .stablehlo = "stablehlo.cbrt",
                              .work = ir::Work::Special,
                              .fns = {.f = [](double x) { return std::cbrt(x); }},
                              .jvp = [](Value, Value y, Value t) { return t * (1.0 / 3 * integer_pow(y, -2)); }}));
TESSERA_ROW(square, unary_spec({.name = "square",
                                .stablehlo = "chlo.square",
                                .cheap = true,
                                .exact = true,
                                .fns = {.f = [](double x) { return x * x; },
                                        .i = [](i64 x, int) { return repeated(x, 2); },
                                        .u = [](u64 x, int) { return x * x; },
                                        .c = [](complexd x) { return x * x; }},
                                .jvp = [](Value x, Value, Value t) { return t * (2.0 * x); }}));

namespace {
void integer_pow_element(const View& to, const View& from, i64 k, i64 y) {
  u64 steps = y < 0 ? 0 - static_cast<u64>(y) : static_cast<u64>(y);
  switch (wide_kind(to.dtype)) {
    case Wide::Float:
      return store_float(to, k, std::pow(load_float(from, k), static_cast<double>(y)));
    case Wide::Complex: {
      complexd r = repeated(load_complex(from, k), steps);
      return store_complex(to, k, y < 0 ? 1.0 / r : r);
    }
    default:
      return store_uint(to, k, repeated(load_uint(from, k), steps));
  }
}
}  // namespace

TESSERA_DEFINE_OP(integer_pow, IntegerPow,
                  {
                      .name = "integer_pow",
                      .traits = {.elementwise = true, .cheap = true},
                      .infer =
                          [](TypeSpan in, const IntegerPow& p) {
                            check_count("integer_pow", in, 1);
                            check_kind("integer_pow", in, 0, !is_bool(in[0].dtype), "integer, float or complex");
                            if (p.y < 0 && is_integer(in[0].dtype)) {
                              throw TypeError(str("[integer_pow] y: ", p.y, " with dtype ", dtype_name(in[0].dtype),
                                                  "; expected y >= 0 for integers"));
                            }
                            return Types{in[0]};
                          },
                      .factors = by_default,
                      .remap = by_default,
                      .batch = by_default,
                      .jvp =
                          [](Builder&, const JvpArgs& a, const IntegerPow& p) {
                            if (p.y == 0) return Values(1);
                            Value slope = static_cast<double>(p.y) * integer_pow(a.in[0], p.y - 1);
                            return Values{a.tangents[0] * slope};
                          },
                      .transpose = Never{"the op is not linear"},
                      .reference =
                          [](ViewSpan in, ViewSpan out, const IntegerPow& p) {
                            for (i64 k = 0, n = out[0].size(); k < n; ++k) integer_pow_element(out[0], in[0], k, p.y);
                          },
                      .samples =
                          [] {
                            std::vector<Sample<IntegerPow>> out;
                            for (i64 y : {0, 1, 2, 3, 7, -1, -2}) out.push_back({{Type{DType::F32, {4, 6}}}, {y}});
                            out.push_back({{Type{DType::I32, {4, 6}}}, {5}});
                            out.push_back({{Type{DType::U8, {4, 6}}}, {3}});
                            out.push_back({{Type{DType::C64, {4, 6}}}, {3}});
                            out.push_back({{Type{DType::C64, {4, 6}}}, {-2}});
                            return out;
                          },
                  });

Value integer_pow(Value x, i64 y) { return y == 1 ? x : x.builder->add1(def::integer_pow, {x}, attrs(IntegerPow{y})); }

}  // namespace tessera::ops
