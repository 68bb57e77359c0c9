// SPDX-License-Identifier: Apache-2.0
// Special functions. Their numbers come from core/special_values.h; here are their derivatives.
#include <cmath>
#include <numbers>

#include "core/special_values.h"
#include "ops/elementwise/elementwise.h"

namespace tessera::ops {

namespace {
constexpr double kTwoOverSqrtPi = 2 * std::numbers::inv_sqrtpi;

[[noreturn]] Value no_derivative(const char* op, const char* operand) {
  throw UnimplementedError(str("[", op, "] the derivative by ", operand, " is not known; stop the gradient there"));
}

Value bessel_i1e_jvp(Value x, Value y, Value t) {
  double eps = is_bool(x.dtype()) ? 0 : x.dtype() == DType::F64 ? 2.2e-16 : x.dtype() == DType::F32 ? 1.2e-7 : 1e-3;
  Value far = gt(abs(x), scalar(*x.builder, eps, x.dtype()));
  Value safe = where(far, x, scalar(*x.builder, eps, x.dtype()));
  Value slope = bessel_i0e(safe) - y * (sign(safe) + 1.0 / safe);
  return t * where(far, slope, scalar(*x.builder, 0.5, x.dtype()));
}
// x^(a-1) exp(-x) / gamma(a)
Value gamma_density(Value a, Value x) { return exp((a - 1.0) * log(x) - x - lgamma(a)); }
}  // namespace

TESSERA_ROW(erf,
            unary_spec({.name = "erf",
                        .stablehlo = "chlo.erf",
                        .work = ir::Work::Special,
                        .fns = {.f = [](double x) { return std::erf(x); }},
                        .jvp = [](Value x, Value, Value t) { return kTwoOverSqrtPi * (t * exp(neg(square(x)))); }}));
TESSERA_ROW(erfc,
            unary_spec({.name = "erfc",
                        .stablehlo = "chlo.erfc",
                        .work = ir::Work::Special,
                        .fns = {.f = [](double x) { return std::erfc(x); }},
                        .jvp = [](Value x, Value, Value t) { return -kTwoOverSqrtPi * (t * exp(neg(square(x)))); }}));
TESSERA_ROW(erf_inv,
            unary_spec({.name = "erf_inv",
                        .stablehlo = "chlo.erf_inv",
                        .work = ir::Work::Special,
                        .fns = {.f = core::erf_inv},
                        .jvp = [](Value, Value y, Value t) { return (1 / kTwoOverSqrtPi) * (t * exp(square(y))); }}));
TESSERA_ROW(lgamma, unary_spec({.name = "lgamma",
                                .stablehlo = "chlo.lgamma",
                                .work = ir::Work::Special,
                                .fns = {.f = core::log_gamma},
                                .jvp = [](Value x, Value, Value t) { return t * digamma(x); }}));
TESSERA_ROW(digamma, unary_spec({.name = "digamma",
                                 .stablehlo = "chlo.digamma",
                                 .work = ir::Work::Special,
                                 .fns = {.f = core::digamma},
                                 .jvp = [](Value x, Value, Value t) {
                                   return t * polygamma(scalar(*x.builder, 1, x.dtype()), x);
                                 }}));
TESSERA_ROW(bessel_i0e,
            unary_spec({.name = "bessel_i0e",
                        .composite = true,
                        .work = ir::Work::Special,
                        .fns = {.f = core::bessel_i0e},
                        .jvp = [](Value x, Value y, Value t) { return t * (bessel_i1e(x) - sign(x) * y); }}));
TESSERA_ROW(bessel_i1e, unary_spec({.name = "bessel_i1e",
                                    .stablehlo = "chlo.bessel_i1e",
                                    .work = ir::Work::Special,
                                    .fns = {.f = core::bessel_i1e},
                                    .jvp = bessel_i1e_jvp}));

TESSERA_ROW(polygamma,
            binary_spec({.name = "polygamma",
                         .stablehlo = "chlo.polygamma",
                         .work = ir::Work::Special,
                         .fns = {.f = core::polygamma},
                         .jvp_x = [](Value, Value, Value, Value) { return no_derivative("polygamma", "the order"); },
                         .jvp_y = [](Value n, Value x, Value, Value t) { return t * polygamma(n + 1.0, x); }}));
TESSERA_ROW(zeta,
            binary_spec({.name = "zeta",
                         .stablehlo = "chlo.zeta",
                         .work = ir::Work::Special,
                         .fns = {.f = core::zeta},
                         .jvp_x = [](Value, Value, Value, Value) { return no_derivative("zeta", "operand 0"); },
                         .jvp_y = [](Value x, Value q, Value, Value t) { return t * neg(x * zeta(x + 1.0, q)); }}));
TESSERA_ROW(igamma, binary_spec({.name = "igamma",
                                 .composite = true,
                                 .work = ir::Work::Special,
                                 .fns = {.f = core::igamma},
                                 .jvp_x = [](Value a, Value x, Value, Value t) { return t * igamma_grad_a(a, x); },
                                 .jvp_y = [](Value a, Value x, Value, Value t) { return t * gamma_density(a, x); }}));
TESSERA_ROW(igammac,
            binary_spec({.name = "igammac",
                         .composite = true,
                         .work = ir::Work::Special,
                         .fns = {.f = core::igammac},
                         .jvp_x = [](Value a, Value x, Value, Value t) { return neg(t * igamma_grad_a(a, x)); },
                         .jvp_y = [](Value a, Value x, Value, Value t) { return neg(t * gamma_density(a, x)); }}));
TESSERA_ROW(igamma_grad_a,
            binary_spec({.name = "igamma_grad_a",
                         .composite = true,
                         .work = ir::Work::Special,
                         .fns = {.f = core::igamma_grad_a},
                         .jvp_x = [](Value, Value, Value,
                                     Value) { return no_derivative("igamma_grad_a", "operand 0"); },
                         .jvp_y = [](Value a, Value x, Value,
                                     Value t) { return t * (gamma_density(a, x) * (log(x) - digamma(a))); }}));
TESSERA_ROW(random_gamma_grad, [] {
  auto spec = binary_spec({.name = "random_gamma_grad",
                           .composite = true,
                           .work = ir::Work::Special,
                           .fns = {.f = core::random_gamma_grad}});
  spec.jvp = Never{"the second derivative of a sample by its parameter is not known"};
  return spec;
}());

TESSERA_DEFINE_OP(regularized_incomplete_beta, NoAttrs,
                  {
                      .name = "regularized_incomplete_beta",
                      .traits = {.elementwise = true, .composite = true, .work = ir::Work::Special},
                      .infer =
                          [](TypeSpan in, const NoAttrs&) {
                            const char* name = "regularized_incomplete_beta";
                            check_count(name, in, 3);
                            check_kind(name, in, 0, is_float(in[0].dtype), "float");
                            check_same_dtype(name, in);
                            return Types{Type{in[0].dtype, elementwise_shape(name, in)}};
                          },
                      .factors = by_default,
                      .remap = by_default,
                      .batch = by_default,
                      .jvp =
                          [](Builder&, const JvpArgs& args, const NoAttrs&) {
                            if (args.tangents[0] || args.tangents[1]) {
                              no_derivative("regularized_incomplete_beta", "operands 0 and 1");
                            }
                            Value a = args.in[0];
                            Value b = args.in[1];
                            Value x = args.in[2];
                            Value log_beta = lgamma(a) + lgamma(b) - lgamma(a + b);
                            Value density = exp((b - 1.0) * log1p(neg(x)) + (a - 1.0) * log(x) - log_beta);
                            return Values{density * args.tangents[2]};
                          },
                      .transpose = Never{"the op is not linear"},
                      .reference =
                          [](ViewSpan in, ViewSpan out, const NoAttrs&) {
                            for (std::int64_t k = 0, n = out[0].size(); k < n; ++k) {
                              auto operand = [&](std::size_t i) {
                                return load_float(in[i], element(in[i], out[0], k));
                              };
                              store_float(out[0], k, core::betainc(operand(0), operand(1), operand(2)));
                            }
                          },
                      .samples =
                          [] {
                            Type x{DType::F32, {4, 6}};
                            Type s{DType::F32, {}};
                            Type h{DType::BF16, {5}};
                            return std::vector<Sample<NoAttrs>>{{{x, x, x}}, {{s, x, x}}, {{h, h, h}}};
                          },
                  });

Value betainc(Value a, Value b, Value x) { return x.builder->add1(def::regularized_incomplete_beta, {a, b, x}); }

}  // namespace tessera::ops
