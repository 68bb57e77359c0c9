// SPDX-License-Identifier: Apache-2.0
// Between real and complex numbers. Cotangents pair with tangents without conjugation, as in JAX: the cotangent u of a
// complex operand counts Re(u t).
#include <cmath>

#include "ops/elementwise/elementwise.h"

namespace tessera::ops {

namespace {
using i64 = std::int64_t;

Types part_type(const char* name, TypeSpan in) {
  check_count(name, in, 1);
  check_kind(name, in, 0, is_complex(in[0].dtype), "complex");
  return {Type{real_dtype(in[0].dtype), in[0].shape, in[0].weak}};
}
std::vector<Sample<NoAttrs>> complex_samples() { return {{{Type{DType::C64, {4, 6}}}}, {{Type{DType::C128, {5}}}}}; }
Value zero_like(Value x) { return scalar(*x.builder, 0, x.dtype()); }
ir::Traits size_traits() {
  return {.elementwise = true, .arity = 1, .stablehlo = "stablehlo.abs", .cheap = true, .exact = true};
}
// Numbers taken apart or put together.
ir::Traits parts(int arity, const char* stablehlo) {
  return {.elementwise = true,
          .linearity = Linearity::Joint,
          .arity = arity,
          .stablehlo = stablehlo,
          .exact = true,
          .by_parts = arity == 1};
}
}  // namespace

TESSERA_DEFINE_OP(real, NoAttrs,
                  {
                      .name = "real",
                      .traits = parts(1, "stablehlo.real"),
                      .infer = [](TypeSpan in, const NoAttrs&) { return part_type("real", in); },
                      .factors = by_default,
                      .remap = by_default,
                      .batch = by_default,
                      .jvp = linear,
                      .transpose = [](Builder&, const TransposeArgs& t,
                                      const NoAttrs&) { return Values{complex(t.ct[0], zero_like(t.ct[0]))}; },
                      .reference =
                          [](ViewSpan in, ViewSpan out, const NoAttrs&) {
                            for (i64 k = 0, n = out[0].size(); k < n; ++k) {
                              store_float(out[0], k, load_complex(in[0], k).real());
                            }
                          },
                      .samples = complex_samples,
                  });

TESSERA_DEFINE_OP(imag, NoAttrs,
                  {
                      .name = "imag",
                      .traits = parts(1, "stablehlo.imag"),
                      .infer = [](TypeSpan in, const NoAttrs&) { return part_type("imag", in); },
                      .factors = by_default,
                      .remap = by_default,
                      .batch = by_default,
                      .jvp = linear,
                      .transpose = [](Builder&, const TransposeArgs& t,
                                      const NoAttrs&) { return Values{complex(zero_like(t.ct[0]), neg(t.ct[0]))}; },
                      .reference =
                          [](ViewSpan in, ViewSpan out, const NoAttrs&) {
                            for (i64 k = 0, n = out[0].size(); k < n; ++k) {
                              store_float(out[0], k, load_complex(in[0], k).imag());
                            }
                          },
                      .samples = complex_samples,
                  });

TESSERA_ROW(conj, unary_spec({.name = "conj",
                              .stablehlo = "chlo.conj",
                              .exact = true,
                              .fns = {.c = [](complexd x) { return std::conj(x); }},
                              .jvp = [](Value, Value, Value t) { return conj(t); },
                              .transpose = [](Value ct, const Type&) { return conj(ct); }}));

TESSERA_DEFINE_OP(complex, NoAttrs,
                  {
                      .name = "complex",
                      .traits = parts(2, "stablehlo.complex"),
                      .infer =
                          [](TypeSpan in, const NoAttrs&) {
                            check_count("complex", in, 2);
                            bool legal = in[0].dtype == DType::F32 || in[0].dtype == DType::F64;
                            check_kind("complex", in, 0, legal, "float32 or float64");
                            check_same_dtype("complex", in);
                            Shape shape = elementwise_shape("complex", in);
                            return Types{Type{complex_dtype(in[0].dtype), shape, in[0].weak && in[1].weak}};
                          },
                      .factors = by_default,
                      .remap = by_default,
                      .batch = by_default,
                      .jvp = linear,
                      .transpose =
                          [](Builder&, const TransposeArgs& t, const NoAttrs&) {
                            Values out(2);
                            if (t.linear[0]) out[0] = real(t.ct[0]);
                            if (t.linear[1]) out[1] = neg(imag(t.ct[0]));
                            return out;
                          },
                      .reference =
                          [](ViewSpan in, ViewSpan out, const NoAttrs&) {
                            for (i64 k = 0, n = out[0].size(); k < n; ++k) {
                              store_complex(out[0], k,
                                            {load_float(in[0], element(in[0], out[0], k)),
                                             load_float(in[1], element(in[1], out[0], k))});
                            }
                          },
                      .samples =
                          [] {
                            Type f{DType::F32, {4, 6}};
                            Type d{DType::F64, {5}};
                            return std::vector<Sample<NoAttrs>>{{{f, f}}, {{d, d}}, {{f, Type{DType::F32, {}}}}};
                          },
                  });

namespace {
Values abs_jvp(Builder& b, const JvpArgs& a, const NoAttrs&) {
  Value x = a.in[0];
  Value t = a.tangents[0];
  if (!is_complex(x.dtype())) return {where(ge(x, zero_like(x)), t, neg(t))};
  Value size = a.out[0];
  Value divisor = where(eq(size, zero_like(size)), scalar(b, 1, size.dtype()), size);
  return {real(t * conj(x)) / divisor};
}
}  // namespace

TESSERA_DEFINE_OP(abs, NoAttrs,
                  {
                      .name = "abs",
                      .traits = size_traits(),
                      .infer =
                          [](TypeSpan in, const NoAttrs&) {
                            check_count("abs", in, 1);
                            bool legal = is_signed_int(in[0].dtype) || is_inexact(in[0].dtype);
                            check_kind("abs", in, 0, legal, "signed integer, float or complex");
                            return Types{Type{real_dtype(in[0].dtype), in[0].shape, in[0].weak}};
                          },
                      .factors = by_default,
                      .remap = by_default,
                      .batch = by_default,
                      .jvp = abs_jvp,
                      .transpose = Never{"the op is not linear"},
                      .reference =
                          [](ViewSpan in, ViewSpan out, const NoAttrs&) {
                            for (i64 k = 0, n = out[0].size(); k < n; ++k) {
                              if (is_complex(in[0].dtype)) {
                                store_float(out[0], k, std::abs(load_complex(in[0], k)));
                              } else if (is_float(in[0].dtype)) {
                                store_float(out[0], k, std::abs(load_float(in[0], k)));
                              } else {
                                auto x = load_uint(in[0], k);
                                store_uint(out[0], k, static_cast<i64>(x) < 0 ? 0 - x : x);
                              }
                            }
                          },
                      .samples =
                          [] {
                            std::vector<Sample<NoAttrs>> out;
                            for (auto t : {DType::F32, DType::BF16, DType::I32, DType::I8, DType::C64, DType::C128}) {
                              out.push_back({{Type{t, {4, 6}}}});
                            }
                            return out;
                          },
                  });

Value conj(Value x) { return is_complex(x.dtype()) ? x.builder->add1(def::conj, {x}) : x; }
Value abs(Value x) { return is_unsigned_int(x.dtype()) ? x : x.builder->add1(def::abs, {x}); }

}  // namespace tessera::ops
