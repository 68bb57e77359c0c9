// SPDX-License-Identifier: Apache-2.0
// Sign, rounding, remainder and the neighbours of a float.
#include <cmath>

#include "ops/elementwise/elementwise.h"
#include "ops/shared_attrs.h"

namespace tessera::ops {

namespace {
using i64 = std::int64_t;
using u64 = std::uint64_t;

// The sign of NaN is NaN and that of a zero keeps its own sign.
double sign_of(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
complexd sign_of(complexd x) {
  double size = std::abs(x);
  return size == 0 ? x : x / size;
}
// XLA: x rem 0 is x, and the overflowing quotient leaves 0.
i64 remainder_of(i64 x, i64 y) { return y == 0 ? x : y == -1 ? 0 : x % y; }
u64 remainder_of(u64 x, u64 y) { return y == 0 ? x : x % y; }
double floor_of(double x) { return std::floor(x); }
double ceil_of(double x) { return std::ceil(x); }
}  // namespace

// The derivative is 0 for complex numbers too, as in JAX, though there it is not.
TESSERA_ROW(sign, unary_spec({.name = "sign",
                              .stablehlo = "stablehlo.sign",
                              .cheap = true,
                              .exact = true,
                              .fns = {.f = [](double x) { return sign_of(x); },
                                      .i = [](i64 x, int) { return static_cast<i64>(x > 0) - (x < 0); },
                                      .u = [](u64 x, int) { return static_cast<u64>(x > 0); },
                                      .c = [](complexd x) { return sign_of(x); }}}));
TESSERA_ROW(floor,
            unary_spec({.name = "floor", .stablehlo = "stablehlo.floor", .exact = true, .fns = {.f = floor_of}}));
TESSERA_ROW(ceil, unary_spec({.name = "ceil", .stablehlo = "stablehlo.ceil", .exact = true, .fns = {.f = ceil_of}}));
TESSERA_ROW(rem, binary_spec({.name = "rem",
                              .stablehlo = "stablehlo.remainder",
                              .exact = true,
                              .work = ir::Work::Special,
                              .fns = {.f = [](double x, double y) { return std::fmod(x, y); },
                                      .i = [](i64 x, i64 y, int) { return remainder_of(x, y); },
                                      .u = [](u64 x, u64 y, int) { return remainder_of(x, y); }},
                              .jvp_x = [](Value, Value, Value, Value t) { return t; },
                              .jvp_y =
                                  [](Value x, Value y, Value, Value t) {
                                    Value quotient = x / y;
                                    return neg(t) * (sign(quotient) * floor(abs(quotient)));
                                  }}));

TESSERA_DEFINE_OP(round, Round,
                  {
                      .name = "round",
                      .traits = {.elementwise = true, .exact = true},
                      .infer =
                          [](TypeSpan in, const Round&) {
                            check_count("round", in, 1);
                            check_kind("round", in, 0, is_float(in[0].dtype), "float");
                            return Types{in[0]};
                          },
                      .factors = by_default,
                      .remap = by_default,
                      .batch = by_default,
                      .jvp = [](Builder&, const JvpArgs&, const Round&) { return Values(1); },
                      .transpose = Never{"the op is not linear"},
                      .reference =
                          [](ViewSpan in, ViewSpan out, const Round& p) {
                            for (i64 i = 0, n = out[0].size(); i < n; ++i) {
                              double x = load_float(in[0], i);
                              store_float(out[0], i,
                                          p.method == Round::Method::AwayFromZero ? std::round(x) : std::nearbyint(x));
                            }
                          },
                      .samples =
                          [] {
                            std::vector<Sample<Round>> out;
                            for (auto t : {DType::F32, DType::F64, DType::BF16}) {
                              out.push_back({{Type{t, {4, 6}}}, {Round::Method::AwayFromZero}});
                              out.push_back({{Type{t, {4, 6}}}, {Round::Method::ToNearestEven}});
                            }
                            return out;
                          },
                  });

TESSERA_DEFINE_OP(
    is_finite, NoAttrs,
    {
        .name = "is_finite",
        .traits = {.elementwise = true, .arity = 1, .stablehlo = "stablehlo.is_finite"},
        .infer =
            [](TypeSpan in, const NoAttrs&) {
              check_count("is_finite", in, 1);
              check_kind("is_finite", in, 0, is_float(in[0].dtype), "float");
              return Types{Type{DType::Bool, in[0].shape}};
            },
        .factors = by_default,
        .remap = by_default,
        .batch = by_default,
        .jvp = Never{"bool has no tangent"},
        .transpose = Never{"the op is not linear"},
        .reference =
            [](ViewSpan in, ViewSpan out, const NoAttrs&) {
              for (i64 i = 0, n = out[0].size(); i < n; ++i) {
                store_bool(out[0], i, std::isfinite(load_float(in[0], i)));
              }
            },
        .samples =
            [] {
              return std::vector<Sample<NoAttrs>>{{{Type{DType::F32, {4, 6}}}}, {{Type{DType::BF16, {5}}}}};
            },
    });

namespace {
// The bits of a float in magnitude order count its neighbours.
void next_after(const View& to, i64 k, const View& from, i64 i, const View& toward, i64 j) {
  double x = load_float(from, i);
  double y = load_float(toward, j);
  if (std::isnan(x) || std::isnan(y)) return store_float(to, k, x + y);
  if (x == y) return store_float(to, k, y);
  u64 top = u64{1} << (dtype_size(to.dtype) * 8 - 1);
  if (x == 0) return store_bits(to, k, y > 0 ? 1 : top | 1);
  u64 bits = load_bits(from, i);
  store_bits(to, k, (x < y) == (x > 0) ? bits + 1 : bits - 1);
}
}  // namespace

TESSERA_DEFINE_OP(
    nextafter, NoAttrs,
    {
        .name = "nextafter",
        .traits = {.elementwise = true, .arity = 2, .stablehlo = "chlo.next_after", .exact = true},
        .infer =
            [](TypeSpan in, const NoAttrs&) {
              check_count("nextafter", in, 2);
              check_kind("nextafter", in, 0, is_float(in[0].dtype), "float");
              check_same_dtype("nextafter", in);
              return Types{Type{in[0].dtype, elementwise_shape("nextafter", in), in[0].weak && in[1].weak}};
            },
        .factors = by_default,
        .remap = by_default,
        .batch = by_default,
        .jvp = Never{"the distance to the next float is no smooth function"},
        .transpose = Never{"the op is not linear"},
        .reference =
            [](ViewSpan in, ViewSpan out, const NoAttrs&) {
              for (i64 k = 0, n = out[0].size(); k < n; ++k) {
                next_after(out[0], k, in[0], element(in[0], out[0], k), in[1], element(in[1], out[0], k));
              }
            },
        .samples =
            [] {
              std::vector<Sample<NoAttrs>> out;
              for (auto t : {DType::F32, DType::F64, DType::BF16, DType::F16}) {
                out.push_back({{Type{t, {4, 6}}, Type{t, {4, 6}}}});
              }
              out.push_back({{Type{DType::F32, {5}}, Type{DType::F32, {}}}});
              return out;
            },
    });

Value round(Value x, bool to_even) {
  auto method = to_even ? Round::Method::ToNearestEven : Round::Method::AwayFromZero;
  return x.builder->add1(def::round, {x}, attrs(Round{method}));
}

}  // namespace tessera::ops
