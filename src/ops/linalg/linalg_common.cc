// SPDX-License-Identifier: Apache-2.0
#include "ops/linalg/linalg_common.h"

#include <cmath>
#include <numeric>

namespace tessera::ops {

void check_matrix(const char* op, std::size_t i, const Type& t, bool square) {
  if (!is_inexact(t.dtype) || dtype_size(t.dtype) < 4) {
    throw TypeError(str("[", op, "] operand ", i, " has dtype ", dtype_name(t.dtype),
                        "; expected float32, float64, complex64 or complex128"));
  }
  if (t.rank() < 2 || (square && t.shape[at(t.rank() - 1)] != t.shape[at(t.rank() - 2)])) {
    bad_operand(op, i,
                str("shape ", t.shape, "; expected ", square ? "square " : "", "matrices in the last two dimensions"));
  }
}

FactorRule batch_factors(TypeSpan in, TypeSpan out, std::int64_t lead) {
  FactorRule r;
  std::vector<int> shared;
  for (std::int64_t d = 0; d < lead; ++d) shared.push_back(r.add(in[0].shape[at(d)]));
  auto tensor = [&](const Type& t) {
    FactorRule::Tensor dims;
    for (std::int64_t d = 0; d < t.rank(); ++d) {
      dims.push_back({d < lead ? shared[at(d)] : r.add(t.shape[at(d)], Factor::Kind::Whole)});
    }
    return dims;
  };
  for (const auto& t : in) r.operands.push_back(tensor(t));
  for (const auto& t : out) r.results.push_back(tensor(t));
  return r;
}

FactorRule tall_factors(TypeSpan in, TypeSpan out) {
  std::int64_t lead = in[0].rank() - 2;
  FactorRule r = batch_factors(in, out, lead);
  constexpr std::int64_t kTall = 16;
  std::int64_t rows = in[0].shape[at(lead)];
  if (rows < kTall * in[0].shape.back() || out[0].shape[at(lead)] != rows) return r;
  r.operands[0][at(lead)] = r.results[0][at(lead)] = {r.add(rows, Factor::Kind::Whole)};
  return r;
}

Value transposed(Value x) {
  Dims order(at(x.rank()));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return transpose(x, order);
}
Value adjoint(Value x) {
  Value t = transposed(x);
  return is_complex(x.dtype()) ? conj(t) : t;
}
Value matmul(Value x, Value y) {
  DotDims d;
  for (std::int64_t i = 0; i + 2 < x.rank(); ++i) {
    d.lhs_batch.push_back(i);
    d.rhs_batch.push_back(i);
  }
  d.lhs_contracting = {x.rank() - 1};
  d.rhs_contracting = {y.rank() - 2};
  return dot_general(x, y, d);
}

namespace {
Value rows_of(Value x) { return iota(*x.builder, DType::I32, x.shape(), x.rank() - 2); }
Value cols_of(Value x) { return iota(*x.builder, DType::I32, x.shape(), x.rank() - 1); }
Value shift(Value i, std::int64_t by) {
  return by == 0 ? i : add(i, scalar(*i.builder, static_cast<double>(by), DType::I32));
}
}  // namespace

Value lower_part(Value x, std::int64_t offset) {
  return where(le(cols_of(x), shift(rows_of(x), offset)), x, scalar(*x.builder, 0, x.dtype()));
}
Value upper_part(Value x, std::int64_t offset) {
  return where(ge(cols_of(x), shift(rows_of(x), offset)), x, scalar(*x.builder, 0, x.dtype()));
}
Value identity_like(Value x) { return convert(eq(rows_of(x), cols_of(x)), x.dtype()); }
Value diagonal(Value x) { return reduce_sum(x * identity_like(x), {x.rank() - 1}); }
Value as_rows(Value v) {
  Shape shape = v.shape();
  shape.push_back(shape.back());
  Dims dims(at(v.rank()));
  std::iota(dims.begin(), dims.end(), 0);
  ++dims.back();
  return broadcast_in_dim(v, shape, dims);
}

void store_number(const View& v, std::int64_t i, complexd x) {
  is_complex(v.dtype) ? store_complex(v, i, x) : store_float(v, i, x.real());
}
std::int64_t matrix_count(const View& v) {
  std::int64_t n = 1;
  for (std::size_t d = 0; d + 2 < v.shape.size(); ++d) n *= v.shape[d];
  return n;
}
Matrix load_matrix(const View& v, std::int64_t n) {
  Matrix m(v.shape[v.shape.size() - 2], v.shape.back());
  auto size = m.rows * m.cols;
  for (std::int64_t i = 0; i < size; ++i) m.data[at(i)] = load_complex(v, n * size + i);
  return m;
}
void store_matrix(const View& v, std::int64_t n, const Matrix& m) {
  auto rows = v.shape[v.shape.size() - 2];
  auto cols = v.shape.back();
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < cols; ++j) store_number(v, (n * rows + i) * cols + j, m(i, j));
  }
}
Matrix adjoint(const Matrix& a) {
  Matrix out(a.cols, a.rows);
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t j = 0; j < a.cols; ++j) out(j, i) = std::conj(a(i, j));
  }
  return out;
}
Matrix product(const Matrix& a, const Matrix& b) {
  Matrix out(a.rows, b.cols);
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t k = 0; k < a.cols; ++k) {
      for (std::int64_t j = 0; j < b.cols; ++j) out(i, j) += a(i, k) * b(k, j);
    }
  }
  return out;
}

// LAPACK's choice of signs: beta is real, of the sign opposite to what was there.
Reflector reflector(const Matrix& a, std::int64_t row, std::int64_t column) {
  Reflector h{row, 0, a(row, column), std::vector<complexd>(at(a.rows))};
  h.v[at(row)] = 1;
  double tail = 0;
  for (auto i = row + 1; i < a.rows; ++i) tail += std::norm(a(i, column));
  complexd alpha = h.beta;
  if (tail == 0 && alpha.imag() == 0) return h;
  double beta = -std::copysign(std::sqrt(std::norm(alpha) + tail), alpha.real());
  h.beta = beta;
  h.tau = {(beta - alpha.real()) / beta, -alpha.imag() / beta};
  for (auto i = row + 1; i < a.rows; ++i) h.v[at(i)] = a(i, column) / (alpha - beta);
  return h;
}
void reflect_left(Matrix& a, const Reflector& h, std::int64_t from) {
  for (auto j = from; j < a.cols; ++j) {
    complexd dot = 0;
    for (auto i = h.row; i < a.rows; ++i) dot += std::conj(h.v[at(i)]) * a(i, j);
    for (auto i = h.row; i < a.rows; ++i) a(i, j) -= std::conj(h.tau) * h.v[at(i)] * dot;
  }
}
void reflect_right(Matrix& a, const Reflector& h, std::int64_t from) {
  for (auto i = from; i < a.rows; ++i) {
    complexd dot = 0;
    for (auto j = h.row; j < a.cols; ++j) dot += a(i, j) * h.v[at(j)];
    for (auto j = h.row; j < a.cols; ++j) a(i, j) -= h.tau * dot * std::conj(h.v[at(j)]);
  }
}

std::pair<Matrix, Matrix> householder(const Matrix& a) {
  Matrix r = a;
  Matrix q(a.rows, a.rows);
  for (std::int64_t i = 0; i < a.rows; ++i) q(i, i) = 1;
  for (std::int64_t k = 0; k < std::min(a.rows, a.cols); ++k) {
    Reflector h = reflector(r, k, k);
    reflect_left(r, h, k);
    reflect_right(q, h, 0);
    for (auto i = k + 1; i < a.rows; ++i) r(i, k) = 0;
  }
  return {q, r};
}

void place_batches(const ir::PlaceArgs& args, Types& out) {
  const ir::TypeSharding x = ir::sharding_of(args.in[0], args.mesh);
  const std::size_t batch = x.dims.size() - 2;
  if (args.strict() && x.unreduced != 0) {
    throw UnimplementedError(
        str(args.op.name(), ": the operand ", args.in[0],
            " is unreduced, a sum not yet done; reshard it to a spec without unreduced axes first"));
  }
  for (std::size_t d = batch; args.strict() && d < x.dims.size(); ++d) {
    if (x.dims[d].empty()) continue;
    ir::refuse_sharding(args,
                        str(kBatches, " needs unsharded matrices: dimension ", d, " is sharded over ",
                            ir::axes_text(x.dims[d], args.mesh)),
                        "Reshard the operand, or call inside auto_axes");
  }
  for (auto& t : out) {
    ir::TypeSharding s{args.mesh, ir::DimAxes(t.shape.size()), 0, x.reduced};
    std::copy_n(x.dims.begin(), std::min(batch, t.shape.size()), s.dims.begin());
    ir::set_sharding(args, t, std::move(s));
  }
}

}  // namespace tessera::ops
