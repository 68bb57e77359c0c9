// SPDX-License-Identifier: Apache-2.0
// Public functions written with other public functions, as a user would write them.
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "program/promote.h"
#include "program/trace.h"
#include "tessera/error.h"
#include "tessera/operand.h"

namespace tessera::program {

using Arrays = std::vector<Array>;

/// f of the operands' arrays: one program at once, equations of the current trace inside one. Everything in it comes
/// from the line of the first operand. Numbers stay numbers.
Arrays composites(const char* name, const std::vector<Operand>& in, const std::function<Arrays(const Arrays&)>& f);
Array composite(const char* name, const std::vector<Operand>& in, const std::function<Array(const Arrays&)>& f);
/// The same for functions of a line and any number of arrays.
Arrays composites(const char* name, const Loc& loc, const Arrays& in, const std::function<Arrays(const Arrays&)>& f);
Array composite(const char* name, const Loc& loc, const Arrays& in, const std::function<Array(const Arrays&)>& f);

// --- inside composites
// ------------------------------------------------------------------------------------------------
/// Operands under their common type, as floats where `as_floats`; numbers stay numbers.
Arrays promoted(const char* name, const Arrays& in, bool as_floats = false);
/// A number of the dtype of `like` (strong where that is).
Array number_like(const Array& like, double v);
/// Bounds and missing values of doubles.
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
/// The array under a strong dtype.
Array as(const Array& a, DType dtype);
/// Elements from..to (to < 0 counts from the end, INT64_MAX is the end) along one axis.
Array cut(const Array& a, std::int64_t from, std::int64_t to, std::int64_t axis);
/// One index along an axis, without that axis; negative counts from the end.
Array pick(const Array& a, std::int64_t index, std::int64_t axis);
/// `count` new dimensions of extent 1 in front.
Array with_leading(const Array& a, std::int64_t count);

/// Facts about float dtypes (of the parts, for complex ones).
struct FloatInfo {
  double epsilon, tiny, max, smallest_subnormal;
  int mantissa_bits, exponent_bits;
};
FloatInfo float_info(DType t);

}  // namespace tessera::program
