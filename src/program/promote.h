// SPDX-License-Identifier: Apache-2.0
// What public operations share: promotion, broadcasting, axes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/strings.h"
#include "program/trace.h"
#include "tessera/error.h"
#include "tessera/operand.h"

namespace tessera::program {

/// An operand that errors place at `loc`.
inline Operand on(const Array& a, const Loc& loc) { return Operand(a, loc); }

/// The array under another dtype as users see dtypes; scalars written in the program are rewritten, others converted.
/// Weak floats keep float64's digits where they had them.
Array cast(const Array& a, DType dtype, bool weak, const Loc& loc);
/// The array under just this type inside (`arrays::has_digits`).
Array cast_exactly(const Array& a, DType dtype, bool weak, const Loc& loc);
/// Weak arrays of one visible dtype under one type inside: with digits where all have them.
std::vector<Array> under_one_type(std::vector<Array> in, const Loc& loc);
/// -1 or 1 for an integer written in the program that lies below or above what a strongly typed integer array holds,
/// else 0.
int outside(const Array& scalar, const Array& array);
/// Implicit conversion, of an operand to the dtype that it meets: throws `ValueError` for a weak integer that the dtype
/// does not hold.
Array meet(const char* name, const Array& a, DType dtype, bool weak, const Loc& loc);
/// Both operands under their common type.
std::vector<Array> promote(const char* name, const std::vector<Array>& in, const Loc& loc);
/// Common type of the operands, as users see it.
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

}  // namespace tessera::program
