// SPDX-License-Identifier: Apache-2.0
// Element-wise ops of one operand.
#include <cmath>

#include "ops/elementwise/elementwise.h"

namespace tessera::ops {

TESSERA_ROW(neg,
            unary_spec({.name = "neg",
                        .stablehlo = "stablehlo.negate",
                        .cheap = true,
                        .exact = true,
                        .by_parts = true,
                        .fns = {.f = [](double x) { return -x; },
                                .i = [](std::int64_t x,
                                        int) { return static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(x)); },
                                .u = [](std::uint64_t x, int) { return 0 - x; },
                                .c = [](complexd x) { return -x; }},
                        .jvp = [](Value, Value, Value t) { return neg(t); },
                        .transpose = [](Value ct, const Type&) { return neg(ct); }}));
TESSERA_ROW(exp,
            unary_spec({.name = "exp",
                        .stablehlo = "stablehlo.exponential",
                        .cheap = true,
                        .work = ir::Work::Exp,
                        .fns = {.f = [](double x) { return std::exp(x); }, .c = [](complexd x) { return std::exp(x); }},
                        .jvp = [](Value, Value y, Value t) { return t * y; }}));
TESSERA_ROW(log,
            unary_spec({.name = "log",
                        .stablehlo = "stablehlo.log",
                        .work = ir::Work::Function,
                        .fns = {.f = [](double x) { return std::log(x); }, .c = [](complexd x) { return std::log(x); }},
                        .jvp = [](Value x, Value, Value t) { return t / x; }}));
TESSERA_ROW(sqrt, unary_spec({.name = "sqrt",
                              .stablehlo = "stablehlo.sqrt",
                              .cheap = true,
                              .exact = true,
                              .work = ir::Work::Root,
                              .fns = {.f = [](double x) { return std::sqrt(x); },
                                      .c = [](complexd x) { return std::sqrt(x); }},
                              .jvp = [](Value, Value y, Value t) { return t * (0.5 / y); }}));
TESSERA_ROW(rsqrt, unary_spec({.name = "rsqrt",
                               .stablehlo = "stablehlo.rsqrt",
                               .cheap = true,
                               .work = ir::Work::Root,
                               .fns = {.f = [](double x) { return 1 / std::sqrt(x); },
                                       .c = [](complexd x) { return 1.0 / std::sqrt(x); }},
                               .jvp = [](Value x, Value y, Value t) { return t * (-0.5 * (y / x)); }}));
TESSERA_ROW(sin,
            unary_spec({.name = "sin",
                        .stablehlo = "stablehlo.sine",
                        .work = ir::Work::Function,
                        .fns = {.f = [](double x) { return std::sin(x); }, .c = [](complexd x) { return std::sin(x); }},
                        .jvp = [](Value x, Value, Value t) { return t * cos(x); }}));
TESSERA_ROW(cos,
            unary_spec({.name = "cos",
                        .stablehlo = "stablehlo.cosine",
                        .work = ir::Work::Function,
                        .fns = {.f = [](double x) { return std::cos(x); }, .c = [](complexd x) { return std::cos(x); }},
                        .jvp = [](Value x, Value, Value t) { return neg(t * sin(x)); }}));
TESSERA_ROW(tanh, unary_spec({.name = "tanh",
                              .stablehlo = "stablehlo.tanh",
                              .cheap = true,
                              .work = ir::Work::Tanh,
                              .fns = {.f = [](double x) { return std::tanh(x); },
                                      .c = [](complexd x) { return std::tanh(x); }},
                              .jvp = [](Value, Value y, Value t) { return t * (1.0 - y * y); }}));
TESSERA_ROW(not_, unary_spec({.name = "not",
                              .stablehlo = "stablehlo.not",
                              .cheap = true,
                              .fns = {.i = [](std::int64_t x, int) { return ~x; },
                                      .u = [](std::uint64_t x, int) { return ~x; },
                                      .b = [](bool x) { return !x; }}}));
TESSERA_ROW(copy, unary_spec({.name = "copy",
                              .exact = true,
                              .fns = {.f = [](double x) { return x; },
                                      .i = [](std::int64_t x, int) { return x; },
                                      .u = [](std::uint64_t x, int) { return x; },
                                      .c = [](complexd x) { return x; },
                                      .b = [](bool x) { return x; }},
                              .jvp = [](Value, Value, Value t) { return t; },
                              .transpose = [](Value ct, const Type&) { return ct; }}));

}  // namespace tessera::ops
