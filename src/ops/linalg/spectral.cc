// SPDX-License-Identifier: Apache-2.0
// eigh and svd. Derivatives as in jax.lax.linalg; references by Jacobi rotations.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/linalg/linalg_common.h"
#include "ops/linalg/split_factors.h"

namespace tessera::ops {

namespace {

Shape lead_of(const Shape& s) { return Shape(s.begin(), s.end() - 2); }
Type with_inner(const Type& t, DType dtype, const Dims& inner) {
  Shape s = lead_of(t.shape);
  s.insert(s.end(), inner.begin(), inner.end());
  return Type{dtype, s};
}
// The reciprocal with zero in place of infinity, for x that is zero where `zero` is one.
Value safe_reciprocal(Value x, Value zero) { return 1.0 / (x + zero) - zero; }
Value as(Value x, Value like) { return convert(x, like.dtype()); }
Value times(Value x, double y) { return x * scalar(*x.builder, y, x.dtype()); }
Value real_part(Value x) { return is_complex(x.dtype()) ? real(x) : x; }

// The rotation that makes columns p and q orthogonal, for inner products app, aqq (real) and apq: p' = c p - s f q,
// q' = s p + c f q.
struct Rotation {
  double c = 1, s = 0;
  complexd f = 1;
  Rotation(double app, double aqq, complexd apq) {
    double size = std::abs(apq);
    f = std::conj(apq) / size;
    double theta = (aqq - app) / (2 * size);
    double t = std::copysign(1 / (std::abs(theta) + std::sqrt(theta * theta + 1)), theta);
    c = 1 / std::sqrt(t * t + 1);
    s = t * c;
  }
  void columns(Matrix& a, std::int64_t p, std::int64_t q) const {
    for (std::int64_t i = 0; i < a.rows; ++i) {
      complexd x = a(i, p);
      complexd y = f * a(i, q);
      a(i, p) = c * x - s * y;
      a(i, q) = s * x + c * y;
    }
  }
};
constexpr int kSweeps = 60;

// Columns of `a` in another order.
Matrix columns_in_order(const Matrix& a, const std::vector<std::int64_t>& order) {
  Matrix out(a.rows, a.cols);
  for (std::int64_t j = 0; j < a.cols; ++j) {
    for (std::int64_t i = 0; i < a.rows; ++i) out(i, j) = a(i, order[at(j)]);
  }
  return out;
}
std::vector<std::int64_t> order_of(const std::vector<double>& v, bool descending) {
  std::vector<std::int64_t> order(v.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](auto i, auto j) { return descending ? v[at(i)] > v[at(j)] : v[at(i)] < v[at(j)]; });
  return order;
}

// --- eigh --------------------------------------------------------------------------------------------------------

Values eigh_jvp(Builder&, const JvpArgs& a, const NoAttrs&) {
  Value v = a.out[0];
  Value w = as_rows(a.out[1]);
  Value dot = matmul(matmul(adjoint(v), a.tangents[0]), v);
  Value eye = identity_like(w);
  Value f = safe_reciprocal(w - transposed(w), eye);
  return {matmul(v, as(f, v) * dot), real_part(diagonal(dot))};
}

void eigh_reference(ViewSpan in, ViewSpan out, const NoAttrs&) {
  for (std::int64_t n = 0, count = matrix_count(in[0]); n < count; ++n) {
    Matrix a = load_matrix(in[0], n);
    auto m = a.rows;
    Matrix v(m, m);
    double scale = 0;
    for (std::int64_t i = 0; i < m; ++i) {
      v(i, i) = 1;
      a(i, i) = a(i, i).real();
      for (std::int64_t j = 0; j < i; ++j) a(j, i) = std::conj(a(i, j));
      for (std::int64_t j = 0; j <= i; ++j) scale = std::max(scale, std::abs(a(i, j)));
    }
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      for (std::int64_t p = 0; p < m; ++p) {
        for (std::int64_t q = p + 1; q < m; ++q) {
          if (std::abs(a(p, q)) <= 1e-18 * scale) continue;
          Rotation r(a(p, p).real(), a(q, q).real(), a(p, q));
          r.columns(v, p, q);
          r.columns(a, p, q);
          a = adjoint(a);
          r.columns(a, p, q);
        }
      }
    }
    std::vector<double> w(at(m));
    for (std::int64_t i = 0; i < m; ++i) w[at(i)] = a(i, i).real();
    auto order = order_of(w, false);
    store_matrix(out[0], n, columns_in_order(v, order));
    for (std::int64_t i = 0; i < m; ++i) store_float(out[1], n * m + i, w[at(order[at(i)])]);
  }
}

// --- svd ---------------------------------------------------------------------------------------------------------

Types infer_svd(TypeSpan in, const Svd& p) {
  check_count("svd", in, 1);
  check_matrix("svd", 0, in[0], false);
  auto m = in[0].shape[in[0].shape.size() - 2];
  auto n = in[0].shape.back();
  auto k = std::min(m, n);
  Types out{with_inner(in[0], real_dtype(in[0].dtype), {k})};
  if (!p.vectors) return out;
  out.push_back(with_inner(in[0], in[0].dtype, {m, p.full ? m : k}));
  out.push_back(with_inner(in[0], in[0].dtype, {p.full ? n : k, n}));
  return out;
}

Values svd_jvp(Builder&, const JvpArgs& a, const Svd& p) {
  if (p.vectors && p.full) {
    throw UnimplementedError("[svd] derivative of the vectors with full=true; use full=false");
  }
  Value da = a.tangents[0];
  Values r = p.vectors ? Values(a.out.begin(), a.out.end()) : svd(a.in[0]);
  Value u = r[1];
  Value v = adjoint(r[2]);
  Value ut = adjoint(u);
  Value d = matmul(matmul(ut, da), v);
  Value ds = real_part(diagonal(d));
  if (!p.vectors) return {ds};
  Value s = as_rows(r[0]);
  Value st = transposed(s);
  Value eye = identity_like(s);
  Value f = as(safe_reciprocal((s + st) * (s - st), eye), d);
  Value dss = as(s, d) * d;
  Value sds = as(st, d) * d;
  Value zero = convert(eq(s, scalar(*s.builder, 0, s.dtype())), s.dtype());
  Value inverse = as(safe_reciprocal(s, zero) * eye, d);
  Value du = matmul(u, f * (dss + adjoint(dss)) + times(d - adjoint(d), 0.5) * inverse);
  Value dv = matmul(v, f * (sds + adjoint(sds)));
  auto m = a.in[0].shape()[at(a.in[0].rank() - 2)];
  auto n = a.in[0].shape().back();
  // What leaves the span of the vectors: divided by the value of each column.
  auto by_value = [&](Value x) {
    Dims dims(at(r[0].rank()));
    std::iota(dims.begin(), dims.end(), 0);
    ++dims.back();
    return x / as(broadcast_in_dim(r[0], x.shape(), dims), x);
  };
  if (m > n) {
    Value dav = matmul(da, v);
    du = du + by_value(dav - matmul(u, matmul(ut, dav)));
  } else if (n > m) {
    Value dau = matmul(adjoint(da), u);
    dv = dv + by_value(dau - matmul(v, matmul(adjoint(v), dau)));
  }
  return {ds, du, adjoint(dv)};
}

// Grows `a`, whose first `good` columns are orthonormal, to `cols` of them by unit vectors made orthogonal.
Matrix completed(const Matrix& a, std::int64_t good, std::int64_t cols) {
  Matrix out(a.rows, cols);
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t j = 0; j < std::min(good, cols); ++j) out(i, j) = a(i, j);
  }
  for (std::int64_t j = good; j < cols; ++j) {
    double best = -1;
    for (std::int64_t e = 0; e < a.rows; ++e) {
      std::vector<complexd> v(at(a.rows));
      v[at(e)] = 1;
      for (int twice = 0; twice < 2; ++twice) {
        for (std::int64_t c = 0; c < j; ++c) {
          complexd dot = 0;
          for (std::int64_t i = 0; i < a.rows; ++i) dot += std::conj(out(i, c)) * v[at(i)];
          for (std::int64_t i = 0; i < a.rows; ++i) v[at(i)] -= dot * out(i, c);
        }
      }
      double size = 0;
      for (auto x : v) size += std::norm(x);
      if (size <= best + 1e-9) continue;
      best = size;
      for (std::int64_t i = 0; i < a.rows; ++i) out(i, j) = v[at(i)] / std::sqrt(size);
    }
  }
  return out;
}

// One-sided rotations of the columns of a tall matrix: a v = u s.
void svd_tall(Matrix a, std::vector<double>& s, Matrix& u, Matrix& v, std::int64_t u_cols) {
  auto n = a.cols;
  Matrix turn(n, n);
  for (std::int64_t i = 0; i < n; ++i) turn(i, i) = 1;
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (std::int64_t p = 0; p < n; ++p) {
      for (std::int64_t q = p + 1; q < n; ++q) {
        double pp = 0;
        double qq = 0;
        complexd pq = 0;
        for (std::int64_t i = 0; i < a.rows; ++i) {
          pp += std::norm(a(i, p));
          qq += std::norm(a(i, q));
          pq += std::conj(a(i, p)) * a(i, q);
        }
        if (std::abs(pq) <= 1e-17 * std::sqrt(pp * qq) || std::abs(pq) == 0) continue;
        Rotation r(pp, qq, pq);
        r.columns(a, p, q);
        r.columns(turn, p, q);
      }
    }
  }
  std::vector<double> size(at(n));
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < a.rows; ++i) size[at(j)] += std::norm(a(i, j));
    size[at(j)] = std::sqrt(size[at(j)]);
  }
  auto order = order_of(size, true);
  a = columns_in_order(a, order);
  v = columns_in_order(turn, order);
  s.clear();
  std::int64_t good = 0;
  for (std::int64_t j = 0; j < n; ++j) {
    s.push_back(size[at(order[at(j)])]);
    if (s.back() > 1e-300) good = j + 1;
    for (std::int64_t i = 0; i < a.rows && s.back() > 1e-300; ++i) a(i, j) /= s.back();
  }
  u = completed(a, good, u_cols);
}

void svd_reference(ViewSpan in, ViewSpan out, const Svd& p) {
  for (std::int64_t n = 0, count = matrix_count(in[0]); n < count; ++n) {
    Matrix a = load_matrix(in[0], n);
    bool tall = a.rows >= a.cols;
    auto k = std::min(a.rows, a.cols);
    std::vector<double> s;
    Matrix big(0, 0);
    Matrix small(0, 0);
    svd_tall(tall ? a : adjoint(a), s, big, small, p.full ? std::max(a.rows, a.cols) : k);
    for (std::int64_t i = 0; i < k; ++i) store_float(out[0], n * k + i, s[at(i)]);
    if (!p.vectors) continue;
    store_matrix(out[1], n, tall ? big : small);
    store_matrix(out[2], n, adjoint(tall ? small : big));
  }
}

}  // namespace

TESSERA_DEFINE_OP(
    eigh, NoAttrs,
    {
        .name = "eigh",
        .traits = {.composite = true, .activity = kBatches},
        .infer =
            [](TypeSpan in, const NoAttrs&) {
              check_count("eigh", in, 1);
              check_matrix("eigh", 0, in[0], true);
              return Types{Type{in[0].dtype, in[0].shape},
                           with_inner(in[0], real_dtype(in[0].dtype), {in[0].shape.back()})};
            },
        .factors = [](TypeSpan in, TypeSpan out, const NoAttrs&) { return batch_factors(in, out, in[0].rank() - 2); },
        .remap = by_default,
        .batch = [](Builder& b, const BatchArgs& a, const NoAttrs& p) { return batch_in_front(def::eigh, b, a, p); },
        .jvp = eigh_jvp,
        .transpose = Never{kNotLinear},
        .place = [](const ir::PlaceArgs& args, Types& out, const NoAttrs&) { place_batches(args, out); },
        .reference = eigh_reference,
        .samples = Never{"needs Hermitian matrices; tested on its own"},
    });

TESSERA_DEFINE_OP(
    svd, Svd,
    {
        .name = "svd",
        .traits = {.composite = true, .activity = kBatches},
        .infer = infer_svd,
        .factors = [](TypeSpan in, TypeSpan out, const Svd&) { return batch_factors(in, out, in[0].rank() - 2); },
        .remap = by_default,
        .batch = [](Builder& b, const BatchArgs& a, const Svd& p) { return batch_in_front(def::svd, b, a, p); },
        .jvp = svd_jvp,
        .transpose = Never{kNotLinear},
        .divide = {svd_by_qr},
        .place = [](const ir::PlaceArgs& args, Types& out, const Svd&) { place_batches(args, out); },
        .reference = svd_reference,
        .samples = Never{"needs distinct singular values; tested on its own"},
    });

Values eigh(Value a) { return a.builder->add(def::eigh, {a}); }
Values svd(Value a, bool full, bool vectors) { return a.builder->add(def::svd, {a}, attrs(Svd{full, vectors})); }

}  // namespace tessera::ops
