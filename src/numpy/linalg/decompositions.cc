// SPDX-License-Identifier: Apache-2.0
#include "ops/linalg/linalg_common.h"
#include "ops/linalg/linalg_ops.h"
#include "program/graph_fragment.h"
#include "program/promote.h"
#include "tessera/lax.h"
#include "tessera/linalg.h"
#include "tessera/numpy.h"
#include "tessera/ops.h"

namespace tessera {

using ir::Builder;
using ir::Value;
using ir::Values;
using program::graph_fragment;
using program::graph_fragment1;
using program::on;

namespace {

Array matrix(const char* name, const Operand& a, bool square) {
  Array m = program::inexact(name, a.array(), a.loc());
  if (m.ndim() < 2 || (square && m.shape(-1) != m.shape(-2))) {
    throw ValueError(str("linalg::", name, ": shape ", m.shape(), "; expected ",
                         square ? "a square matrix" : "a matrix", " in the last two dimensions"));
  }
  return m;
}

Value adjoint(Value x) {
  Value t = ops::move_dim(x, x.rank() - 1, x.rank() - 2);
  return is_complex(t.dtype()) ? ops::conj(t) : t;
}

}  // namespace

namespace linalg {

Array cholesky(const Operand& a) {
  return graph_fragment1("cholesky", a.loc(), {matrix("cholesky", a, true)},
                         [](Builder&, const Values& v) { return ops::cholesky((v[0] + adjoint(v[0])) / 2.0); });
}
QrResult qr(const Operand& a, bool complete) {
  auto out = graph_fragment("qr", a.loc(), {matrix("qr", a, false)},
                            [&](Builder&, const Values& v) { return ops::qr(v[0], complete); });
  return {out[0], out[1]};
}
LuResult lu(const Operand& a) {
  auto out =
      graph_fragment("lu", a.loc(), {matrix("lu", a, false)}, [](Builder&, const Values& v) { return ops::lu(v[0]); });
  return {out[0], out[1], out[2]};
}
EighResult eigh(const Operand& a) {
  auto out = graph_fragment("eigh", a.loc(), {matrix("eigh", a, true)},
                            [](Builder&, const Values& v) { return ops::eigh((v[0] + adjoint(v[0])) / 2.0); });
  return {out[1], out[0]};
}
SvdResult svd(const Operand& a, bool full_matrices) {
  auto out = graph_fragment("svd", a.loc(), {matrix("svd", a, false)},
                            [&](Builder&, const Values& v) { return ops::svd(v[0], full_matrices, true); });
  return {out[1], out[0], out[2]};
}
PackedHessenberg hessenberg_packed(const Operand& a) {
  auto out = graph_fragment("hessenberg", a.loc(), {matrix("hessenberg", a, true)},
                            [](Builder& b, const Values& v) { return b.add(ops::def::hessenberg, {v[0]}); });
  return {out[0], out[1]};
}
Array householder_product(const Operand& a, const Operand& taus) {
  std::vector<Array> in = program::promote(
      "householder_product",
      {matrix("householder_product", a, false), program::inexact("householder_product", taus.array(), a.loc())},
      a.loc());
  return graph_fragment1("householder_product", a.loc(), in, [](Builder& b, const Values& v) {
    return b.add1(ops::def::householder_product, {v[0], v[1]});
  });
}
HessenbergResult hessenberg(const Operand& a, bool calc_q) {
  const Loc& loc = a.loc();
  PackedHessenberg packed = hessenberg_packed(a);
  HessenbergResult out{triu(on(packed.a, loc), -1), std::nullopt};
  if (!calc_q) return out;
  out.q = graph_fragment1("hessenberg", loc, {packed.a, packed.taus}, [](Builder& b, const Values& v) {
    Dims low(v[0].shape().size(), 0), limits = v[0].shape();
    std::int64_t n = limits.back();
    if (n < 2) return ops::identity_like(v[0]);
    // The reflectors leave the first row and column alone.
    low[low.size() - 2] = 1;
    --limits.back();
    Value q = b.add1(ops::def::householder_product, {ops::slice(v[0], low, limits), v[1]});
    low.back() = 1;
    q = ops::pad(q, ops::scalar(b, 0, q.dtype()), low, Dims(low.size(), 0));
    auto index = [&](std::int64_t from_end) { return ops::iota(b, DType::I32, q.shape(), q.rank() - from_end); };
    Value corner = ops::eq(ops::add(index(1), index(2)), ops::scalar(b, 0, DType::I32));
    return ops::where(corner, ops::scalar(b, 1, q.dtype()), q);
  });
  return out;
}
Array triangular_solve(const Operand& a, const Operand& b, const TriangularOptions& o) {
  ops::TriangularSolve p{o.left_side, o.lower, o.transpose_a, o.conjugate_a, o.unit_diagonal};
  return graph_fragment1("triangular_solve", a.loc(),
                         {matrix("triangular_solve", a, true), matrix("triangular_solve", b, false)},
                         [&](Builder&, const Values& v) { return ops::triangular_solve(v[0], v[1], p); });
}

Array solve(const Operand& a, const Operand& b) {
  const Loc& loc = a.loc();
  Array m = matrix("solve", a, true);
  Array rhs = program::inexact("solve", b.array(), loc);
  bool vector = rhs.ndim() == 1;
  if (vector) rhs = expand_dims(on(rhs, loc), {-1});
  std::vector<Array> in = program::promote("solve", {m, rhs}, loc);
  if (in[1].shape(-2) != in[0].shape(-1)) {
    throw ValueError(
        str("linalg::solve: shapes ", a.array().shape(), " and ", b.array().shape(), "; expected equal row counts"));
  }
  Shape batch_a(in[0].shape().begin(), in[0].shape().end() - 2);
  Shape batch_b(in[1].shape().begin(), in[1].shape().end() - 2);
  Shape batch = program::broadcast_shapes("solve", {batch_a, batch_b});
  auto fit = [&](const Array& v) {
    Shape s = batch;
    s.insert(s.end(), v.shape().end() - 2, v.shape().end());
    return broadcast_to(on(v, loc), s);
  };
  LuResult f = lu(on(fit(in[0]), loc));
  Array index = broadcast_to(on(expand_dims(on(f.permutation, loc), {-1}), loc), fit(in[1]).shape());
  Array x = take_along_axis(on(fit(in[1]), loc), on(index, loc), -2);
  x = triangular_solve(on(f.lu, loc), on(x, loc), {.lower = true, .unit_diagonal = true});
  x = triangular_solve(on(f.lu, loc), on(x, loc), {});
  return vector ? lax::squeeze(on(x, loc), {-1}) : x;
}
Array inv(const Operand& a) {
  Array m = matrix("inv", a, true);
  return solve(on(m, a.loc()),
               on(broadcast_to(on(eye(m.shape(-1), {}, 0, m.dtype(), a.loc()), a.loc()), m.shape()), a.loc()));
}

namespace {
// Diagonal of the factor u, and the sign of the permutation as a float.
std::pair<Array, Array> factor_diagonal(const char* name, const Operand& a) {
  const Loc& loc = a.loc();
  Array m = matrix(name, a, true);
  LuResult f = lu(on(m, loc));
  std::int64_t n = m.shape(-1);
  Array diagonal =
      sum(on(where(on(eye(n, {}, 0, bool_, loc), loc), on(f.lu, loc), on(zeros({}, m.dtype(), loc), loc)), loc), -1);
  Array swaps = sum(on(astype(on(on(f.pivots, loc) != on(arange(n, loc), loc), loc), int32), loc), -1);
  Array sign = 1.0 - 2.0 * astype(on(swaps % Operand(2, loc), loc), real_dtype(m.dtype()));
  return {diagonal, sign};
}
}  // namespace

Array det(const Operand& a) {
  auto [diagonal, sign] = factor_diagonal("det", a);
  return multiply(on(prod(on(diagonal, a.loc()), {.axis = Dims{-1}}), a.loc()), on(sign, a.loc()));
}
std::pair<Array, Array> slogdet(const Operand& a) {
  const Loc& loc = a.loc();
  auto [diagonal, sign] = factor_diagonal("slogdet", a);
  Array size = abs(on(diagonal, loc));
  Array unit = divide(on(diagonal, loc), on(size, loc));
  return {multiply(on(prod(on(unit, loc), {.axis = Dims{-1}}), loc), on(sign, loc)),
          sum(on(log(on(size, loc)), loc), -1)};
}

}  // namespace linalg

}  // namespace tessera
