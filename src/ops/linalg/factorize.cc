// SPDX-License-Identifier: Apache-2.0
// triangular_solve, cholesky, qr, lu. Derivatives as in jax.lax.linalg.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ir/derive_sharding.h"
#include "ops/linalg/linalg_common.h"
#include "ops/linalg/split_factors.h"
#include "ops/shape/indexing_ops.h"

namespace tessera::ops {

namespace {

// --- triangular_solve --------------------------------------------------------------------------------------------

Types infer_solve(TypeSpan in, const TriangularSolve& p) {
  check_count("triangular_solve", in, 2);
  check_matrix("triangular_solve", 0, in[0], true);
  check_matrix("triangular_solve", 1, in[1], false);
  const Shape& a = in[0].shape;
  const Shape& b = in[1].shape;
  if (in[1].dtype != in[0].dtype) {
    throw TypeError(str("[triangular_solve] operand 1 has dtype ", dtype_name(in[1].dtype), "; expected ",
                        dtype_name(in[0].dtype), " as operand 0"));
  }
  auto inner = b[b.size() - (p.left ? 2 : 1)];
  if (a.size() != b.size() || !std::equal(a.begin(), a.end() - 2, b.begin()) || inner != a.back()) {
    bad_operand("triangular_solve", 1,
                str("shape ", b, " beside ", a, "; expected the same leading dimensions and ", a.back(),
                    p.left ? " rows" : " columns"));
  }
  return {Type{in[1].dtype, b}};
}

FactorRule solve_factors(TypeSpan in, TypeSpan out, const TriangularSolve& p) {
  FactorRule r = batch_factors(in, out, in[0].rank() - 2);
  auto free = at(in[1].rank() - (p.left ? 1 : 2));
  int f = r.add(in[1].shape[free]);
  r.operands[1][free] = r.results[0][free] = {f};
  return r;
}

Values solve_jvp(Builder&, const JvpArgs& a, const TriangularSolve& p) {
  Value sum;
  if (a.tangents[1]) sum = triangular_solve(a.in[0], a.tangents[1], p);
  if (a.tangents[0]) {
    std::int64_t k = p.unit_diagonal ? 1 : 0;
    Value da = neg(p.lower ? lower_part(a.tangents[0], -k) : upper_part(a.tangents[0], k));
    if (p.transpose_a) da = transposed(da);
    if (p.conjugate_a && is_complex(da.dtype())) da = conj(da);
    Value x = a.out[0];
    sum = add_any(sum, triangular_solve(a.in[0], p.left ? matmul(da, x) : matmul(x, da), p));
  }
  return {sum};
}

Values solve_transpose(Builder&, const TransposeArgs& t, const TriangularSolve& p) {
  if (t.linear[0]) throw UnimplementedError("[triangular_solve] transpose: the op is not linear in the matrix");
  TriangularSolve q = p;
  q.transpose_a = !p.transpose_a;
  return {Value{}, triangular_solve(t.in[0], t.ct[0], q)};
}

void solve_reference(ViewSpan in, ViewSpan out, const TriangularSolve& p) {
  for (std::int64_t n = 0, count = matrix_count(in[0]); n < count; ++n) {
    Matrix stored = load_matrix(in[0], n);
    Matrix x = load_matrix(in[1], n);
    auto m = stored.rows;
    // op(a) as a matrix that stands on the left of x.
    bool turn = p.transpose_a != !p.left;
    bool lower = p.lower != turn;
    if (!p.left) {
      Matrix t(x.cols, x.rows);
      for (std::int64_t i = 0; i < x.rows; ++i) {
        for (std::int64_t j = 0; j < x.cols; ++j) t(j, i) = x(i, j);
      }
      x = t;
    }
    auto a = [&](std::int64_t i, std::int64_t j) {
      if (i == j && p.unit_diagonal) return complexd(1);
      complexd v = turn ? stored(j, i) : stored(i, j);
      return p.conjugate_a ? std::conj(v) : v;
    };
    for (std::int64_t c = 0; c < x.cols; ++c) {
      for (std::int64_t s = 0; s < m; ++s) {
        auto i = lower ? s : m - 1 - s;
        for (std::int64_t j = lower ? 0 : i + 1; j < (lower ? i : m); ++j) x(i, c) -= a(i, j) * x(j, c);
        x(i, c) /= a(i, i);
      }
    }
    auto rows = out[0].shape[out[0].shape.size() - 2];
    auto cols = out[0].shape.back();
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < cols; ++j) {
        store_number(out[0], (n * rows + i) * cols + j, p.left ? x(i, j) : x(j, i));
      }
    }
  }
}

// --- cholesky ----------------------------------------------------------------------------------------------------

Values cholesky_jvp(Builder&, const JvpArgs& a, const NoAttrs&) {
  Value l = a.out[0];
  Value t = triangular_solve(l, a.tangents[0], {.left = false, .transpose_a = true, .conjugate_a = true});
  t = lower_part(triangular_solve(l, t, {}));
  return {matmul(l, t / (identity_like(t) + 1.0))};
}

void cholesky_reference(ViewSpan in, ViewSpan out, const NoAttrs&) {
  for (std::int64_t n = 0, count = matrix_count(in[0]); n < count; ++n) {
    Matrix a = load_matrix(in[0], n);
    Matrix l(a.rows, a.rows);
    bool good = true;
    for (std::int64_t j = 0; j < a.rows && good; ++j) {
      for (std::int64_t i = j; i < a.rows; ++i) {
        complexd sum = a(i, j);
        for (std::int64_t k = 0; k < j; ++k) sum -= l(i, k) * std::conj(l(j, k));
        if (i == j) good = sum.real() > 0;
        l(i, j) = i == j ? complexd(std::sqrt(sum.real())) : sum / l(j, j);
      }
    }
    for (std::int64_t i = 0; i < a.rows && !good; ++i) {
      for (std::int64_t j = 0; j <= i; ++j) l(i, j) = std::numeric_limits<double>::quiet_NaN();
    }
    store_matrix(out[0], n, l);
  }
}

// --- qr ----------------------------------------------------------------------------------------------------------

Types infer_qr(TypeSpan in, const Qr& p) {
  check_count("qr", in, 1);
  check_matrix("qr", 0, in[0], false);
  Shape q = in[0].shape;
  Shape r = in[0].shape;
  auto d = q.size();
  auto k = p.full ? q[d - 2] : std::min(q[d - 2], q[d - 1]);
  if (p.packed) {
    Shape taus(q.begin(), q.end() - 1);
    taus.back() = std::min(q[d - 2], q[d - 1]);
    return {Type{in[0].dtype, q}, Type{in[0].dtype, taus}};
  }
  q[d - 1] = k;
  r[d - 2] = k;
  return {Type{in[0].dtype, q}, Type{in[0].dtype, r}};
}

Values qr_jvp(Builder&, const JvpArgs& a, const Qr& p) {
  Value q = a.out[0];
  Value r = a.out[1];
  const Shape& shape = a.in[0].shape();
  auto m = shape[shape.size() - 2];
  auto n = shape.back();
  if (p.packed) throw UnimplementedError("[qr] derivative of reflectors: use q and r");
  if (m < n || (p.full && m != n)) {
    throw UnimplementedError(str("[qr] derivative of ", m, " x ", n, " matrices", p.full ? " with full=true" : "",
                                 "; expected at least as many rows as columns, and full=false"));
  }
  Value dx = triangular_solve(r, a.tangents[0], {.left = false, .lower = false});
  Value s = matmul(adjoint(q), dx);
  Value low = lower_part(s, -1);
  Value skew = low - adjoint(low);
  if (is_complex(s.dtype())) skew = skew + identity_like(s) * (s - convert(real(s), s.dtype()));
  return {matmul(q, skew - s) + dx, matmul(s - skew, r)};
}

void packed_reference(ViewSpan in, ViewSpan out) {
  for (std::int64_t n = 0, count = matrix_count(in[0]); n < count; ++n) {
    Matrix a = load_matrix(in[0], n);
    std::int64_t k = out[1].shape.back();
    for (std::int64_t j = 0; j < k; ++j) {
      Reflector h = reflector(a, j, j);
      reflect_left(a, h, j);
      a(j, j) = h.beta;
      for (auto i = j + 1; i < a.rows; ++i) a(i, j) = h.v[at(i)];
      store_number(out[1], n * k + j, h.tau);
    }
    store_matrix(out[0], n, a);
  }
}

void qr_reference(ViewSpan in, ViewSpan out, const Qr& p) {
  if (p.packed) return packed_reference(in, out);
  for (std::int64_t n = 0, count = matrix_count(in[0]); n < count; ++n) {
    auto [q, r] = householder(load_matrix(in[0], n));
    store_matrix(out[0], n, q);
    store_matrix(out[1], n, r);
  }
}

// --- lu ----------------------------------------------------------------------------------------------------------

Types infer_lu(TypeSpan in, const NoAttrs&) {
  check_count("lu", in, 1);
  check_matrix("lu", 0, in[0], false);
  Shape permutation(in[0].shape.begin(), in[0].shape.end() - 1);
  Shape pivots = permutation;
  pivots.back() = std::min(in[0].shape.back(), pivots.back());
  return {Type{in[0].dtype, in[0].shape}, Type{DType::I32, pivots}, Type{DType::I32, permutation}};
}

// The rows of x in the order of `permutation`.
Value rows_in_order(Value x, Value permutation) {
  auto lead = x.rank() - 2;
  Gather p{{x.rank() - 1}, {lead}, {lead}};
  for (std::int64_t d = 0; d < lead; ++d) {
    p.operand_batching_dims.push_back(d);
    p.indices_batching_dims.push_back(d);
  }
  p.slice_sizes.assign(at(x.rank()), 1);
  p.slice_sizes.back() = x.shape().back();
  p.mode = IndexMode::PromiseInBounds;
  p.unique_indices = true;
  return gather(x, expand_dims(permutation, {permutation.rank()}), p);
}

// Grows the last two dimensions to n x n by the identity.
Value padded_square(Value x, std::int64_t n) {
  Dims low(at(x.rank()), 0);
  Dims high = low;
  high[high.size() - 2] = n - x.shape()[at(x.rank() - 2)];
  high.back() = n - x.shape().back();
  return pad(x, scalar(*x.builder, 0, x.dtype()), low, high);
}

Values lu_jvp(Builder&, const JvpArgs& a, const NoAttrs&) {
  Value both = a.out[0];
  auto m = both.shape()[at(both.rank() - 2)];
  auto n = both.shape().back();
  auto k = std::min(m, n);
  Value x = rows_in_order(a.tangents[0], a.out[2]);
  Value l = padded_square(lower_part(slice_in_dim(both, 0, k, both.rank() - 1), -1), m);
  l = l + identity_like(l);
  Value u = padded_square(upper_part(slice_in_dim(both, 0, k, both.rank() - 2)), n);
  if (n > k) {
    Value ones = identity_like(u);
    Value late = ge(iota(*u.builder, DType::I32, u.shape(), u.rank() - 1),
                    scalar(*u.builder, static_cast<double>(k), DType::I32));
    u = u + where(late, ones, scalar(*u.builder, 0, u.dtype()));
  }
  Value t = triangular_solve(l, x, {.unit_diagonal = true});
  t = triangular_solve(u, t, {.left = false, .lower = false});
  return {matmul(l, lower_part(t, -1)) + matmul(upper_part(t), u), Value{}, Value{}};
}

void lu_reference(ViewSpan in, ViewSpan out, const NoAttrs&) {
  auto size = [](complexd v) { return std::abs(v.real()) + std::abs(v.imag()); };
  for (std::int64_t n = 0, count = matrix_count(in[0]); n < count; ++n) {
    Matrix a = load_matrix(in[0], n);
    auto k = std::min(a.rows, a.cols);
    std::vector<std::int64_t> order(at(a.rows));
    std::iota(order.begin(), order.end(), 0);
    for (std::int64_t c = 0; c < k; ++c) {
      auto pivot = c;
      for (std::int64_t i = c + 1; i < a.rows; ++i) {
        if (size(a(i, c)) > size(a(pivot, c))) pivot = i;
      }
      store_int(out[1], n * k + c, pivot);
      std::swap(order[at(c)], order[at(pivot)]);
      for (std::int64_t j = 0; j < a.cols; ++j) std::swap(a(c, j), a(pivot, j));
      if (a(c, c) == complexd(0)) continue;
      for (std::int64_t i = c + 1; i < a.rows; ++i) {
        a(i, c) /= a(c, c);
        for (std::int64_t j = c + 1; j < a.cols; ++j) a(i, j) -= a(i, c) * a(c, j);
      }
    }
    store_matrix(out[0], n, a);
    for (std::int64_t i = 0; i < a.rows; ++i) store_int(out[2], n * a.rows + i, order[at(i)]);
  }
}

// As the product with the inverse.
void place_solve(const ir::PlaceArgs& args, Types& out, const TriangularSolve& p) {
  if (!args.strict()) return derive_by_factors(args, out, attrs(p));
  const ir::TypeSharding a = ir::sharding_of(args.in[0], args.mesh);
  const ir::TypeSharding b = ir::sharding_of(args.in[1], args.mesh);
  if (a.unreduced != 0 || b.unreduced != 0) return derive_by_factors(args, out, attrs(p));
  const std::size_t rows = b.dims.size() - 2;
  for (std::size_t d = 0; d < rows; ++d) {
    if (a.dims[d] == b.dims[d]) continue;
    ir::refuse_sharding(args, "batch dimensions are sharded differently", "Reshard an operand");
  }
  const std::size_t own = p.left ? rows : rows + 1;    // of the result, from a
  const std::size_t other = p.left ? rows + 1 : rows;  // from b
  if (!a.dims[other].empty() || !b.dims[own].empty()) {
    ir::refuse_sharding(args, "the contracting dimensions of the matrix and of the right-hand sides must be unsharded",
                        "Reshard the operands");
  }
  ir::TypeSharding s = b;
  s.dims[own] = a.dims[own];
  ir::set_sharding(args, out[0], std::move(s));
}

}  // namespace

TESSERA_DEFINE_OP(triangular_solve, TriangularSolve,
                  {
                      .name = "triangular_solve",
                      .infer = infer_solve,
                      .factors = solve_factors,
                      .remap = by_default,
                      .batch = [](Builder& b, const BatchArgs& a,
                                  const TriangularSolve& p) { return batch_in_front(def::triangular_solve, b, a, p); },
                      .jvp = solve_jvp,
                      .transpose = solve_transpose,
                      .divide = {solve_by_panels, solve_in_place},
                      .place = place_solve,
                      .reference = solve_reference,
                      .samples = Never{"needs matrices far from singular; tested on its own"},
                  });

TESSERA_DEFINE_OP(cholesky, NoAttrs,
                  {
                      .name = "cholesky",
                      .traits = {.activity = kBatches},
                      .infer =
                          [](TypeSpan in, const NoAttrs&) {
                            check_count("cholesky", in, 1);
                            check_matrix("cholesky", 0, in[0], true);
                            return Types{Type{in[0].dtype, in[0].shape}};
                          },
                      .factors = [](TypeSpan in, TypeSpan out,
                                    const NoAttrs&) { return batch_factors(in, out, in[0].rank() - 2); },
                      .remap = by_default,
                      .batch = [](Builder& b, const BatchArgs& a,
                                  const NoAttrs& p) { return batch_in_front(def::cholesky, b, a, p); },
                      .jvp = cholesky_jvp,
                      .transpose = Never{kNotLinear},
                      .divide = {cholesky_by_panels},
                      .place = [](const ir::PlaceArgs& args, Types& out, const NoAttrs&) { place_batches(args, out); },
                      .reference = cholesky_reference,
                      .samples = Never{"needs positive definite matrices; tested on its own"},
                  });

TESSERA_DEFINE_OP(qr, Qr,
                  {
                      .name = "qr",
                      .traits = {.composite = true, .activity = kBatches},
                      .infer = infer_qr,
                      .factors = [](TypeSpan in, TypeSpan out, const Qr&) { return tall_factors(in, out); },
                      .remap = by_default,
                      .batch = [](Builder& b, const BatchArgs& a,
                                  const Qr& p) { return batch_in_front(def::qr, b, a, p); },
                      .jvp = qr_jvp,
                      .transpose = Never{kNotLinear},
                      .divide = {qr_by_rows, qr_by_panels, reflectors_by_rows, reflectors_by_panels},
                      .place = [](const ir::PlaceArgs& args, Types& out, const Qr&) { place_batches(args, out); },
                      .reference = qr_reference,
                      .samples = Never{"needs matrices far from singular; tested on its own"},
                  });

TESSERA_DEFINE_OP(
    lu, NoAttrs,
    {
        .name = "lu",
        .traits = {.composite = true, .activity = kBatches},
        .infer = infer_lu,
        .factors = [](TypeSpan in, TypeSpan out, const NoAttrs&) { return batch_factors(in, out, in[0].rank() - 2); },
        .remap = by_default,
        .batch = [](Builder& b, const BatchArgs& a, const NoAttrs& p) { return batch_in_front(def::lu, b, a, p); },
        .jvp = lu_jvp,
        .transpose = Never{kNotLinear},
        .divide = {lu_by_panels},
        .place = [](const ir::PlaceArgs& args, Types& out, const NoAttrs&) { place_batches(args, out); },
        .reference = lu_reference,
        .samples = Never{"needs matrices far from singular; tested on its own"},
    });

Value triangular_solve(Value a, Value b, const TriangularSolve& p) {
  return a.builder->add1(def::triangular_solve, {a, b}, attrs(p));
}
Value cholesky(Value a) { return a.builder->add1(def::cholesky, {a}); }
Values qr(Value a, bool full) { return a.builder->add(def::qr, {a}, attrs(Qr{full})); }
Values packed_qr(Value a) { return a.builder->add(def::qr, {a}, attrs(Qr{false, true})); }
Values lu(Value a) { return a.builder->add(def::lu, {a}); }

}  // namespace tessera::ops
