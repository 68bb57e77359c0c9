// SPDX-License-Identifier: Apache-2.0
// What JAX's own CPU kernels behind custom calls compute, on the host.
#pragma once

#include "ir/type.h"
#include "ops/control/calls.h"

namespace tessera::hlo {

/// Throws `ValueError` unless the operands are three diagonals [..., n] and right-hand sides [..., n, k] of one dtype
/// that LAPACK has, and the result is like the last.
void check_tridiagonal_perturbed(ir::TypeSpan in, ir::TypeSpan out);
/// Solves tridiagonal systems; pivots that are too small are moved away from zero as LAPACK's lagts does it.
ops::HostFunction tridiagonal_perturbed();

/// Throws `ValueError` unless the operands are values [nnz], columns [nnz], row starts [rows + 1] and a matrix or
/// vector.
void check_sparse_product(ir::TypeSpan in, ir::TypeSpan out);
/// A sparse matrix in compressed rows times a dense one. Throws `ValueError` for columns or starts out of range.
ops::HostFunction sparse_product();

}  // namespace tessera::hlo
