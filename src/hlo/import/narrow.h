// SPDX-License-Identifier: Apache-2.0
// Element types that Tessera has no dtype for: floats of 4, 6 and 8 bits live in f32, integers of 2 and 4 bits in i8
// and u8. What computes is followed by a rounding to the values that the narrow type has.
#pragma once

#include "hlo/import/import.h"
#include "ops/ops.h"

namespace tessera::hlo {

/// The number that a bit pattern of a narrow float stands for.
float decode_narrow(Elem e, std::uint32_t bits);
/// `v` rounded once to a value of a float type, to nearest even; beyond the largest to what the type has there.
double nearest(Elem e, double v);
/// `x` (a float, or of the storage dtype) as the nearest value of `e`, in the storage dtype of `e`; wraps integers.
/// Types that are not narrow: `x` itself.
ir::Value round_to(ir::Value x, Elem e);
/// What the writer adds to a conversion of values that the narrow type has: reading it does not round again.
inline constexpr const char* kExact = "{mhlo.frontend_attributes = {tessera = \"exact\"}}";
/// Bit patterns (u8) of values that `e` has, and back.
ir::Value narrow_to_bits(ir::Value x, Elem e);
ir::Value narrow_from_bits(ir::Value bits, Elem e);

/// Rules of element-wise operations: narrow results are rounded after each, as hardware with these types would.
/// `direction` is "EQ", "LT", …; any other is an error.
ir::Value compared(OpCall& c, const std::string& direction, ir::Value x, ir::Value y);
using Unary = ir::Value (*)(ir::Value);
using Binary = ir::Value (*)(ir::Value, ir::Value);
inline Items rounded(OpCall& c, ir::Value v) { return c.one(round_to(v, c.elem())); }
template <Unary f>
Items unary(OpCall& c) {
  c.check_operands(1);
  return rounded(c, f(c.v(0)));
}
template <Binary f>
Items binary(OpCall& c) {
  c.check_operands(2);
  return rounded(c, f(c.v(0), c.v(1)));
}

}  // namespace tessera::hlo
