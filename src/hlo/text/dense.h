// SPDX-License-Identifier: Apache-2.0
// Elements of constants: lists, one value for all, hexadecimal digits, resources.
#pragma once

#include "hlo/text/ast.h"

namespace tessera::hlo {

/// Elements of a Dense or Resource attribute in their storage dtype. One value for all comes with rank 0.
HostArray dense_elements(const Source& source, const AstModule& module, const AstAttr& a);
/// A rank-0 array repeated over `shape`; any other as it is.
HostArray spread(const HostArray& a, const Shape& shape);

/// Element `i` of an array of integers or bools, of its low bits.
void store_integer(HostArray& a, std::int64_t i, std::int64_t v);
/// Element `i` of an array of floats, of a number that it can hold.
void store_float(HostArray& a, std::int64_t i, double v);

}  // namespace tessera::hlo
