// SPDX-License-Identifier: Apache-2.0
// LAPACK routines that JAX's programs for the CPU call by name and that no op of Tessera is.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/type.h"
#include "ops/control/calls.h"

namespace tessera::hlo {

/// "ormqr" and the like, without the letter of the dtype. Throws `UnimplementedError` for a routine that is not here.
/// Operands and results are batches of row-major matrices and vectors; `flags` are the letters and numbers of the
/// call. Results have `types`, but for their leading `batch_dims` dimensions, which are those of the operands.
ops::HostFunction lapack_function(const std::string& routine, DType dtype, std::map<std::string, std::int64_t> flags,
                                  ir::Types types, std::int64_t batch_dims);
/// How many leading dimensions of operands that `check_lapack` has passed are batches.
std::int64_t lapack_batch_dims(const std::string& routine, ir::TypeSpan in);

/// Throws `ValueError` unless these operands and results are what the routine reads and writes: the text that names
/// them is not trusted.
void check_lapack(const std::string& routine, const std::map<std::string, std::int64_t>& flags, ir::TypeSpan in,
                  ir::TypeSpan out);

}  // namespace tessera::hlo
