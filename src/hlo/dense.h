// SPDX-License-Identifier: Apache-2.0
// Elements of constants: lists, one value for all, hexadecimal digits, resources.
#pragma once

#include "hlo/ast.h"

namespace tessera::hlo {

/// Elements of a Dense or Resource attribute in their storage dtype. One value for all comes with rank 0.
HostArray dense_elements(const Source& source, const AstModule& module, const AstAttr& a);
/// A rank-0 array repeated over `shape`; any other as it is.
HostArray spread(const HostArray& a, const Shape& shape);

}  // namespace tessera::hlo
