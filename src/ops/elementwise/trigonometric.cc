// SPDX-License-Identifier: Apache-2.0
// Trigonometric and hyperbolic functions and their inverses. Branch cuts of the complex ones are those of C99's
// Annex G, which NumPy and XLA follow.
#include <cmath>

#include "ops/elementwise/elementwise.h"

namespace tessera::ops {

#define TESSERA_TRIG(op, dialect, derivative)                                                                        \
  TESSERA_ROW(                                                                                                       \
      op, unary_spec({.name = #op,                                                                                   \
                      .stablehlo = dialect "." #op,                                                                  \
                      .work = ir::Work::Special,                                                                     \
                      .fns = {.f = [](double x) { return std::op(x); }, .c = [](complexd x) { return std::op(x); }}, \
                      .jvp = [](Value x, Value y, Value t) { return derivative(x, y, t); }}))

namespace {
Value d_tan(Value, Value y, Value t) { return t * (1.0 + square(y)); }
Value d_asin(Value x, Value, Value t) { return t * rsqrt(1.0 - square(x)); }
Value d_acos(Value x, Value, Value t) { return neg(t * rsqrt(1.0 - square(x))); }
Value d_atan(Value x, Value, Value t) { return t / (1.0 + square(x)); }
Value d_sinh(Value x, Value, Value t) { return t * cosh(x); }
Value d_cosh(Value x, Value, Value t) { return t * sinh(x); }
Value d_asinh(Value x, Value, Value t) { return t * rsqrt(square(x) + 1.0); }
// Two roots: the root of the product has another branch cut.
Value d_acosh(Value x, Value, Value t) { return t * (rsqrt(x - 1.0) * rsqrt(x + 1.0)); }
Value d_atanh(Value x, Value, Value t) { return t / ((1.0 + x) * (1.0 - x)); }
}  // namespace

TESSERA_TRIG(tan, "stablehlo", d_tan);
TESSERA_TRIG(asin, "chlo", d_asin);
TESSERA_TRIG(acos, "chlo", d_acos);
TESSERA_TRIG(atan, "chlo", d_atan);
TESSERA_TRIG(sinh, "chlo", d_sinh);
TESSERA_TRIG(cosh, "chlo", d_cosh);
TESSERA_TRIG(asinh, "chlo", d_asinh);
TESSERA_TRIG(acosh, "chlo", d_acosh);
TESSERA_TRIG(atanh, "chlo", d_atanh);

TESSERA_ROW(atan2,
            binary_spec({.name = "atan2",
                         .stablehlo = "stablehlo.atan2",
                         .work = ir::Work::Special,
                         .fns = {.f = [](double x, double y) { return std::atan2(x, y); }},
                         .jvp_x = [](Value x, Value y, Value, Value t) { return t * (y / (square(x) + square(y))); },
                         .jvp_y = [](Value x, Value y, Value,
                                     Value t) { return t * neg(x / (square(x) + square(y))); }}));

}  // namespace tessera::ops
