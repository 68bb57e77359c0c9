// SPDX-License-Identifier: Apache-2.0
// Numbers of a module in the element types that they are meant for, as MLIR reads them.
#pragma once

#include "hlo/text/parse.h"

namespace tessera::hlo {

/// The integer in two's complement of `e`, its sign extended (bits of `ui64`). Types without a sign take what fits them
/// with or without one: `255 : i8` is -1. Throws `FormatError` for numbers beyond that and for floats.
std::int64_t to_integer(const Source& source, const Literal& n, Elem e);

/// The number rounded once, to nearest even, from double precision. A hexadecimal literal is the bits of `e`. Numbers
/// beyond the largest become what the type has there: an infinity, NaN, or the largest. Throws `FormatError` for bits
/// wider than the type, and for what `f8E8M0FNU` lacks: zero and negative numbers.
double to_float(const Source& source, const Literal& n, Elem e);

/// A rank-0 array of the storage dtype from a number, "true" or "false"; `e` is no complex type.
HostArray to_scalar(const Source& source, const AstAttr& a, Elem e);

}  // namespace tessera::hlo
