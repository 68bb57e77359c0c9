// SPDX-License-Identifier: Apache-2.0
// Rules of `divide` for decompositions of matrices whose rows or columns are split.
#pragma once

#include <optional>

#include "ops/linalg/linalg_common.h"

namespace tessera::ops {

/// Panel by panel, the rest of the matrix updated after each (right-looking), in a block-cyclic distribution.
std::optional<ir::Division> cholesky_by_panels(Builder& b, const ir::DivideArgs& a, const NoAttrs&);

/// The same for the right-hand sides: a panel of the result, then the rows that depend on it.
std::optional<ir::Division> solve_by_panels(Builder& b, const ir::DivideArgs& a, const TriangularSolve& p);

/// Tall matrices: each device reduces its rows to a triangle, and the triangles are reduced in pairs (TSQR).
std::optional<ir::Division> qr_by_rows(Builder& b, const ir::DivideArgs& a, const Qr& p);
/// The decomposition of a tall matrix by that of its triangle.
std::optional<ir::Division> svd_by_qr(Builder& b, const ir::DivideArgs& a, const Svd& p);

}  // namespace tessera::ops
