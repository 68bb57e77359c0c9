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
/// With the matrix where it is: the right-hand sides and the result are sent.
std::optional<ir::Division> solve_in_place(Builder& b, const ir::DivideArgs& a, const TriangularSolve& p);

/// Panel by panel with partial pivoting, rows in their places until the end: large square matrices, no stacks of them.
/// And the same for those of any size that panels have.
std::optional<ir::Division> lu_by_panels(Builder& b, const ir::DivideArgs& a, const NoAttrs&);
std::optional<ir::Division> lu_in_panels(Builder& b, const ir::DivideArgs& a);

/// Q and R by reflectors panel by panel, each panel by TSQR (blocked Householder in compact WY form), and their
/// product.
std::optional<ir::Division> qr_by_panels(Builder& b, const ir::DivideArgs& a, const Qr& p);
/// The same in two: the reflectors, and their product.
std::optional<ir::Division> reflectors_by_panels(Builder& b, const ir::DivideArgs& a, const Qr& p);
std::optional<ir::Division> product_by_panels(Builder& b, const ir::DivideArgs& a, const NoAttrs&);
/// Tall matrices: each device reduces its rows to a triangle, and the triangles are reduced in pairs (TSQR).
std::optional<ir::Division> qr_by_rows(Builder& b, const ir::DivideArgs& a, const Qr& p);
std::optional<ir::Division> reflectors_by_rows(Builder& b, const ir::DivideArgs& a, const Qr& p);
std::optional<ir::Division> product_by_rows(Builder& b, const ir::DivideArgs& a, const NoAttrs&);
/// The decomposition of a tall matrix by that of its triangle.
std::optional<ir::Division> svd_by_qr(Builder& b, const ir::DivideArgs& a, const Svd& p);

/// Columns of packed reflectors: ones on the diagonal, zeros above.
Value reflectors_of(Value packed);
/// v, zero in those rows in which `rows` is zero: reflectors are so, but what is computed in another order has rounding
/// errors there, and LAPACK's factors depend on whether the rest of a column is zero.
Value zero_where_zero(Value v, Value rows);
/// t with 1 - v t v^H the product of the reflectors, from v^H v and their factors.
Value compact_factor(Value gram, Value taus);

}  // namespace tessera::ops
