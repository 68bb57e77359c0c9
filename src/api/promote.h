// SPDX-License-Identifier: Apache-2.0
// What public operations share: promotion, broadcasting, axes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/trace.h"
#include "base/strings.h"
#include "tessera/error.h"
#include "tessera/operand.h"

namespace tessera::api {

/// An operand that errors place at `loc`.
inline Operand on(const Array& a, const Loc& loc) { return Operand(a, loc); }

/// The array under another dtype; numbers written in the program are rewritten, others converted.
Array cast(const Array& a, DType dtype, bool weak, const Loc& loc);
/// Both operands under their common type.
std::vector<Array> promote(const char* name, const std::vector<Array>& in, const Loc& loc);
/// Common type of the operands.
PromotedType common_type(const char* name, const std::vector<Array>& in);
/// The dtype of floating results: float64 for 64-bit integers, float32 for other integers and bool; others stay.
DType inexact_dtype(DType t);
/// The operand under that dtype, weak where it was.
Array inexact(const char* name, const Array& a, const Loc& loc);

/// NumPy's broadcasting of shapes. Throws `ValueError` naming the operation and both shapes.
Shape broadcast_shapes(const char* name, const std::vector<Shape>& shapes);
/// Repeats to a larger shape; rank 0 stays, because element-wise ops take it as it is.
Array widen(const Array& a, const Shape& shape, const Loc& loc);

/// An axis counted from the end where negative. Throws `ValueError`.
std::int64_t axis_of(const char* name, std::int64_t axis, std::int64_t rank);
/// Distinct axes in ascending order; all of them when not given.
Dims axes_of(const char* name, const std::optional<Dims>& axes, std::int64_t rank);

/// Promotes, broadcasts and binds an element-wise op.
Array elementwise(const ir::OpDef& op, const char* name, const Operand& x, const Operand& y);
Array elementwise(const ir::OpDef& op, const char* name, const Operand& x);
/// The same for functions that give floats: integers are converted first.
Array elementwise_float(const ir::OpDef& op, const char* name, const Operand& x);

}  // namespace tessera::api
