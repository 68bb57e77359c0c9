// SPDX-License-Identifier: Apache-2.0
// Public functions written as graph fragments: one program at once, or equations of the current trace.
#pragma once

#include <functional>
#include <vector>

#include "api/trace.h"

namespace tessera::api {

using Fragment = std::function<ir::Values(ir::Builder&, const ir::Values&)>;

/// Runs `fragment` on the operands' values. At once it is traced and run as one program (kept for equal graphs).
std::vector<Array> compose(const char* name, const Loc& loc, const std::vector<Array>& in, const Fragment& fragment);
/// For one result.
Array compose1(const char* name, const Loc& loc, const std::vector<Array>& in,
               const std::function<ir::Value(ir::Builder&, const ir::Values&)>& fragment);

}  // namespace tessera::api
