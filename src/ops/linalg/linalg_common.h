// SPDX-License-Identifier: Apache-2.0
// What the ops on matrices share: checks, factors, and small matrices for references.
#pragma once

#include "ir/derive_sharding.h"
#include "ops/define_op.h"
#include "ops/linalg/linalg_ops.h"

namespace tessera::ops {

/// Why decompositions have no transpose rule.
inline constexpr const char* kNotLinear = "the op is not linear";

/// Throws unless operand `i` is an inexact array of at least two dimensions (square where asked).
void check_matrix(const char* op, std::size_t i, const Type& t, bool square);
/// The dimensions before the last `inner` ones move together; `results` have as many inner dimensions as they have
/// more.
FactorRule batch_factors(TypeSpan in, TypeSpan out, std::int64_t lead);
/// The same for an operand 0 and a result 0 with the same rows, which are as the other's where matrices are so tall
/// that their rows are divided.
FactorRule tall_factors(TypeSpan in, TypeSpan out);
/// Batching for an op of one operand: one more leading dimension.
template <class P>
Batched batch_in_front(const ir::OpDef& op, Builder& b, const BatchArgs& a, const P& p) {
  Values in;
  for (std::size_t i = 0; i < a.in.size(); ++i) in.push_back(with_batch(a, i));
  Values out = b.add(op, in, attrs(p));
  return {out, std::vector<bool>(out.size(), true)};
}

// --- values: matrices in the last two dimensions ---------------------------------------------------------------
Value transposed(Value x);
Value adjoint(Value x);
Value matmul(Value x, Value y);
/// Elements below (`offset` < 0: further below) or on the diagonal, resp. above or on; zeros elsewhere.
Value lower_part(Value x, std::int64_t offset = 0);
Value upper_part(Value x, std::int64_t offset = 0);
/// Ones on the diagonal of […, n, n], in the type of x.
Value identity_like(Value x);
/// The diagonal of square matrices.
Value diagonal(Value x);
/// A vector per matrix as a row […, 1, n] repeated to […, n, n].
Value as_rows(Value v);

// --- references ------------------------------------------------------------------------------------------------
struct Matrix {
  std::int64_t rows = 0, cols = 0;
  std::vector<complexd> data;
  Matrix(std::int64_t m, std::int64_t n) : rows(m), cols(n), data(at(m * n)) {}
  complexd& operator()(std::int64_t i, std::int64_t j) { return data[at(i * cols + j)]; }
  complexd operator()(std::int64_t i, std::int64_t j) const { return data[at(i * cols + j)]; }
};
/// Matrix number n of a stack, and back (to the first `cols` columns where the stack's matrices are narrower).
Matrix load_matrix(const View& v, std::int64_t n);
void store_matrix(const View& v, std::int64_t n, const Matrix& m);
void store_number(const View& v, std::int64_t i, complexd x);
std::int64_t matrix_count(const View& v);
Matrix adjoint(const Matrix& a);
Matrix product(const Matrix& a, const Matrix& b);
/// 1 - tau v v^H, with v zero above `row` and 1 there.
struct Reflector {
  std::int64_t row = 0;
  complexd tau = 0;
  complexd beta = 0;  ///< what the adjoint makes of the element at `row`; the elements below become 0
  std::vector<complexd> v;
};
/// The reflector whose adjoint annihilates the elements of `column` below `row`, as LAPACK chooses it.
Reflector reflector(const Matrix& a, std::int64_t row, std::int64_t column);
/// h^H a, in the columns from `from` on; a h, in the rows from `from` on.
void reflect_left(Matrix& a, const Reflector& h, std::int64_t from);
void reflect_right(Matrix& a, const Reflector& h, std::int64_t from);
/// Householder's q (square) and r with a = q r.
std::pair<Matrix, Matrix> householder(const Matrix& a);

/// What errors call a decomposition whose matrices are split.
inline constexpr const char* kBatches = "a decomposition of a batch of matrices";

/// The rule for types of decompositions: matrices are unsplit, and batches pass.
void place_batches(const ir::PlaceArgs& args, Types& out);

}  // namespace tessera::ops
