// SPDX-License-Identifier: Apache-2.0
// Element-wise ops of two operands.
#include <cmath>
#include <limits>

#include "ops/elementwise/elementwise.h"
#include "ops/reduce/total_order.h"

namespace tessera::ops {

namespace {
using i64 = std::int64_t;
using u64 = std::uint64_t;

i64 wrap(u64 x) { return static_cast<i64>(x); }
// XLA's integer division: x / 0 is -1 (all ones), and the one overflow wraps.
i64 divide(i64 x, i64 y) { return y == 0 ? -1 : y == -1 ? wrap(0 - static_cast<u64>(x)) : x / y; }
u64 divide(u64 x, u64 y) { return y == 0 ? ~u64{0} : x / y; }
bool lex_less(complexd x, complexd y) { return x.real() != y.real() ? x.real() < y.real() : x.imag() < y.imag(); }
i64 int_pow(i64 x, i64 y) {
  if (y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 == 0 ? 1 : -1) : x == 0 ? -1 : 0;
  u64 r = 1;
  for (u64 b = static_cast<u64>(x); y > 0; y >>= 1, b *= b) r *= y & 1 ? b : 1;
  return wrap(r);
}
u64 uint_pow(u64 x, u64 y) {
  u64 r = 1;
  for (; y > 0; y >>= 1, x *= x) r *= y & 1 ? x : 1;
  return r;
}

// Half of the tangent where both operands are the extreme one, as JAX.
Value balanced(Value mine, Value other, Value result, Value t) {
  Value one = scalar(*t.builder, 1, t.dtype());
  Value half = scalar(*t.builder, 0.5, t.dtype());
  Value zero = scalar(*t.builder, 0, t.dtype());
  Value hit = eq(mine, result);
  Value weight = where(hit, where(eq(other, result), half, one), zero);
  return t * weight;
}
}  // namespace

TESSERA_ROW(add,
            binary_spec({.name = "add",
                         .stablehlo = "stablehlo.add",
                         .cheap = true,
                         .exact = true,
                         .by_parts = true,
                         .fns = {.f = [](double x, double y) { return x + y; },
                                 .i = [](i64 x, i64 y, int) { return wrap(static_cast<u64>(x) + static_cast<u64>(y)); },
                                 .u = [](u64 x, u64 y, int) { return x + y; },
                                 .c = [](complexd x, complexd y) { return x + y; },
                                 .b = [](bool x, bool y) { return x || y; }},
                         .jvp_x = [](Value, Value, Value, Value t) { return t; },
                         .jvp_y = [](Value, Value, Value, Value t) { return t; },
                         .linearity = Linearity::Joint,
                         .takes_sums = true,
                         .transpose_x = [](Value ct, Value) { return ct; },
                         .transpose_y = [](Value ct, Value) { return ct; }}));
TESSERA_ROW(sub,
            binary_spec({.name = "sub",
                         .stablehlo = "stablehlo.subtract",
                         .cheap = true,
                         .exact = true,
                         .by_parts = true,
                         .fns = {.f = [](double x, double y) { return x - y; },
                                 .i = [](i64 x, i64 y, int) { return wrap(static_cast<u64>(x) - static_cast<u64>(y)); },
                                 .u = [](u64 x, u64 y, int) { return x - y; },
                                 .c = [](complexd x, complexd y) { return x - y; }},
                         .jvp_x = [](Value, Value, Value, Value t) { return t; },
                         .jvp_y = [](Value, Value, Value, Value t) { return neg(t); },
                         .linearity = Linearity::Joint,
                         .transpose_x = [](Value ct, Value) { return ct; },
                         .transpose_y = [](Value ct, Value) { return neg(ct); }}));
TESSERA_ROW(mul,
            binary_spec({.name = "mul",
                         .stablehlo = "stablehlo.multiply",
                         .cheap = true,
                         .exact = true,
                         .by_parts = true,
                         .fns = {.f = [](double x, double y) { return x * y; },
                                 .i = [](i64 x, i64 y, int) { return wrap(static_cast<u64>(x) * static_cast<u64>(y)); },
                                 .u = [](u64 x, u64 y, int) { return x * y; },
                                 .c = [](complexd x, complexd y) { return x * y; },
                                 .b = [](bool x, bool y) { return x && y; }},
                         .jvp_x = [](Value, Value y, Value, Value t) { return t * y; },
                         .jvp_y = [](Value x, Value, Value, Value t) { return x * t; },
                         .linearity = Linearity::Multi,
                         .takes_sums = true,
                         .transpose_x = [](Value ct, Value y) { return ct * y; },
                         .transpose_y = [](Value ct, Value x) { return x * ct; }}));
TESSERA_ROW(div, binary_spec({.name = "div",
                              .stablehlo = "stablehlo.divide",
                              .cheap = true,
                              .exact = true,
                              .work = ir::Work::Root,
                              .fns = {.f = [](double x, double y) { return x / y; },
                                      .i = [](i64 x, i64 y, int) { return divide(x, y); },
                                      .u = [](u64 x, u64 y, int) { return divide(x, y); },
                                      .c = [](complexd x, complexd y) { return x / y; }},
                              .jvp_x = [](Value, Value y, Value, Value t) { return t / y; },
                              .jvp_y = [](Value, Value y, Value z, Value t) { return neg(t * (z / y)); },
                              .linearity = Linearity::Multi,
                              .transpose_x = [](Value ct, Value y) { return ct / y; }}));
TESSERA_ROW(max, binary_spec({.name = "max",
                              .stablehlo = "stablehlo.maximum",
                              .cheap = true,
                              .exact = true,
                              .fns = {.f = maximum_of,
                                      .i = [](i64 x, i64 y, int) { return std::max(x, y); },
                                      .u = [](u64 x, u64 y, int) { return std::max(x, y); },
                                      .c = [](complexd x, complexd y) { return lex_less(x, y) ? y : x; },
                                      .b = [](bool x, bool y) { return x || y; }},
                              .jvp_x = [](Value x, Value y, Value z, Value t) { return balanced(x, y, z, t); },
                              .jvp_y = [](Value x, Value y, Value z, Value t) { return balanced(y, x, z, t); }}));
TESSERA_ROW(min, binary_spec({.name = "min",
                              .stablehlo = "stablehlo.minimum",
                              .cheap = true,
                              .exact = true,
                              .fns = {.f = minimum_of,
                                      .i = [](i64 x, i64 y, int) { return std::min(x, y); },
                                      .u = [](u64 x, u64 y, int) { return std::min(x, y); },
                                      .c = [](complexd x, complexd y) { return lex_less(y, x) ? y : x; },
                                      .b = [](bool x, bool y) { return x && y; }},
                              .jvp_x = [](Value x, Value y, Value z, Value t) { return balanced(x, y, z, t); },
                              .jvp_y = [](Value x, Value y, Value z, Value t) { return balanced(y, x, z, t); }}));
TESSERA_ROW(pow, binary_spec({.name = "pow",
                              .stablehlo = "stablehlo.power",
                              .work = ir::Work::Special,
                              .fns = {.f = [](double x, double y) { return std::pow(x, y); },
                                      .i = [](i64 x, i64 y, int) { return int_pow(x, y); },
                                      .u = [](u64 x, u64 y, int) { return uint_pow(x, y); },
                                      .c = [](complexd x, complexd y) { return std::pow(x, y); }},
                              // y * x^(y-1), and 0 where y is 0 (also at x = 0).
                              .jvp_x =
                                  [](Value x, Value y, Value, Value t) {
                                    Value zero = scalar(*t.builder, 0, t.dtype());
                                    Value one = scalar(*t.builder, 1, t.dtype());
                                    Value less = where(eq(y, zero), one, y - 1.0);
                                    return t * where(eq(y, zero), zero, y * pow(x, less));
                                  },
                              // x^y * log(x), and 0 where x is 0 and y is positive.
                              .jvp_y =
                                  [](Value x, Value y, Value z, Value t) {
                                    Value zero = scalar(*t.builder, 0, t.dtype());
                                    Value one = scalar(*t.builder, 1, t.dtype());
                                    Value base = where(eq(x, zero), one, x);
                                    Value at_zero = is_complex(x.dtype()) ? zero : where(gt(y, zero), zero, log(x));
                                    return t * where(eq(x, zero), at_zero, log(base) * z);
                                  }}));
TESSERA_ROW(and_, binary_spec({.name = "and",
                               .stablehlo = "stablehlo.and",
                               .cheap = true,
                               .fns = {.i = [](i64 x, i64 y, int) { return x & y; },
                                       .u = [](u64 x, u64 y, int) { return x & y; },
                                       .b = [](bool x, bool y) { return x && y; }}}));
TESSERA_ROW(or_, binary_spec({.name = "or",
                              .stablehlo = "stablehlo.or",
                              .cheap = true,
                              .fns = {.i = [](i64 x, i64 y, int) { return x | y; },
                                      .u = [](u64 x, u64 y, int) { return x | y; },
                                      .b = [](bool x, bool y) { return x || y; }}}));

TESSERA_ROW(eq, compare_spec("eq", "stablehlo.compare EQ",
                             {.f = [](double x, double y) { return x == y; },
                              .i = [](i64 x, i64 y) { return x == y; },
                              .u = [](u64 x, u64 y) { return x == y; },
                              .c = [](complexd x, complexd y) { return x == y; },
                              .b = [](bool x, bool y) { return x == y; }}));
TESSERA_ROW(ne, compare_spec("ne", "stablehlo.compare NE",
                             {.f = [](double x, double y) { return x != y; },
                              .i = [](i64 x, i64 y) { return x != y; },
                              .u = [](u64 x, u64 y) { return x != y; },
                              .c = [](complexd x, complexd y) { return x != y; },
                              .b = [](bool x, bool y) { return x != y; }}));
TESSERA_ROW(lt, compare_spec("lt", "stablehlo.compare LT",
                             {.f = [](double x, double y) { return x < y; },
                              .i = [](i64 x, i64 y) { return x < y; },
                              .u = [](u64 x, u64 y) { return x < y; },
                              .c = nullptr,
                              .b = [](bool x, bool y) { return !x && y; }}));
TESSERA_ROW(le, compare_spec("le", "stablehlo.compare LE",
                             {.f = [](double x, double y) { return x <= y; },
                              .i = [](i64 x, i64 y) { return x <= y; },
                              .u = [](u64 x, u64 y) { return x <= y; },
                              .c = nullptr,
                              .b = [](bool x, bool y) { return !x || y; }}));
TESSERA_ROW(gt, compare_spec("gt", "stablehlo.compare GT",
                             {.f = [](double x, double y) { return x > y; },
                              .i = [](i64 x, i64 y) { return x > y; },
                              .u = [](u64 x, u64 y) { return x > y; },
                              .c = nullptr,
                              .b = [](bool x, bool y) { return x && !y; }}));
TESSERA_ROW(ge, compare_spec("ge", "stablehlo.compare GE",
                             {.f = [](double x, double y) { return x >= y; },
                              .i = [](i64 x, i64 y) { return x >= y; },
                              .u = [](u64 x, u64 y) { return x >= y; },
                              .c = nullptr,
                              .b = [](bool x, bool y) { return x || !y; }}));

}  // namespace tessera::ops
