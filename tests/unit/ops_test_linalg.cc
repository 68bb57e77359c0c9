// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "ops/control/control.h"
#include "ops/linalg/linalg_common.h"
#include "tests/support/graphs.h"

namespace tessera::ops {
namespace {

using test::host;
using test::make_graph;

Type f64(Shape s) { return Type{DType::F64, std::move(s)}; }
Type c128(Shape s) { return Type{DType::C128, std::move(s)}; }

// Outputs must be zeros: each is a difference that an identity makes vanish.
void expect_zeros(const GraphPtr& g, const std::vector<HostArray>& in) {
  verify(*g);
  for (const auto& out : interpret(*g, in)) {
    HostArray zero(out.dtype(), out.shape());
    std::fill_n(static_cast<char*>(zero.data()), zero.nbytes(), 0);
    test::expect_close(out, zero, 1e-12);
  }
}

// The tangent against differences, and its adjoint against it.
void expect_derivative(const GraphPtr& g, const std::vector<HostArray>& in) {
  verify(*g);
  Flags active(in.size(), true);
  std::vector<HostArray> t;
  std::vector<std::size_t> which;
  for (std::size_t i = 0; i < in.size(); ++i) {
    which.push_back(i);
    t.push_back(host(Type{in[i].dtype(), in[i].shape()}, 50 + static_cast<unsigned>(i)));
  }
  auto want = test::difference(*g, in, which, t);
  Linearized lin = linearize_graph(*g, active);
  auto known = interpret(*lin.known, in);
  std::vector<HostArray> residuals(known.begin() + static_cast<std::ptrdiff_t>(want.size()), known.end());
  auto args = residuals;
  append(args, t);
  auto got = interpret(*lin.linear, args);
  for (std::size_t i = 0, k = 0; i < want.size(); ++i) {
    if (lin.active_out[i]) test::expect_close(got[k++], want[i], 1e-6);
  }
  Flags linear(lin.linear->inputs.size(), true);
  for (std::size_t i = 0; i < lin.num_residuals; ++i) linear[i] = false;
  Transposed back = transpose_graph(*lin.linear, linear, Flags(got.size(), true), linear);
  args = residuals;
  double left = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    args.push_back(host(Type{got[i].dtype(), got[i].shape()}, 80 + static_cast<unsigned>(i)));
    left += test::inner(args.back(), got[i]);
  }
  double right = 0;
  auto ct = interpret(*back.graph, args);
  for (std::size_t i = 0; i < ct.size(); ++i) right += test::inner(ct[i], t[i]);
  EXPECT_NEAR(left, right, 1e-9 * (1 + std::abs(left)));
}

// Signs of the first row, in every row: vectors are known up to their signs.
Value first_signs(Value x, const Shape& shape) {
  Dims dims;
  for (std::int64_t d = 0; d + 2 < x.rank(); ++d) dims.push_back(d);
  dims.push_back(x.rank() - 1);
  Value row = squeeze(slice_in_dim(x, 0, 1, x.rank() - 2), {x.rank() - 2});
  return broadcast_in_dim(sign(row), shape, dims);
}

Value positive(Value a) { return matmul(a, adjoint(a)) + identity_like(a); }

TEST(Cholesky, FactorsAndDifferentiates) {
  for (const auto& t : {f64({2, 4, 4}), c128({3, 3})}) {
    std::vector<HostArray> in{host(t, 1)};
    expect_zeros(make_graph({t},
                            [](Builder&, const Values& v) {
                              Value a = positive(v[0]);
                              Value l = cholesky(a);
                              return Values{matmul(l, adjoint(l)) - a, upper_part(l, 1)};
                            }),
                 in);
    expect_derivative(make_graph({t}, [](Builder&, const Values& v) { return Values{cholesky(positive(v[0]))}; }), in);
  }
  auto g = make_graph({f64({2, 2})}, [](Builder&, const Values& v) { return Values{cholesky(v[0])}; });
  auto bad = interpret(*g, std::vector<HostArray>{HostArray::from<double>({1, 2, 2, 1}, {2, 2})})[0];
  EXPECT_TRUE(std::isnan(bad.span<double>()[0]));
}

TEST(TriangularSolve, AllFormsSolveAndDifferentiate) {
  for (int form = 0; form < 32; ++form) {
    TriangularSolve p{(form & 1) != 0, (form & 2) != 0, (form & 4) != 0, (form & 8) != 0, (form & 16) != 0};
    Types types{c128({2, 3, 3}), p.left ? c128({2, 3, 4}) : c128({2, 4, 3})};
    std::vector<HostArray> in{host(types[0], 1), host(types[1], 2)};
    auto matrix = [&](Value v) { return v + identity_like(v) * 3.0; };
    expect_zeros(make_graph(types,
                            [&](Builder&, const Values& v) {
                              Value a = matrix(v[0]);
                              Value x = triangular_solve(a, v[1], p);
                              Value t = p.lower ? lower_part(a) : upper_part(a);
                              if (p.unit_diagonal) t = t - identity_like(t) * t + identity_like(t);
                              if (p.transpose_a) t = transposed(t);
                              if (p.conjugate_a) t = conj(t);
                              return Values{(p.left ? matmul(t, x) : matmul(x, t)) - v[1]};
                            }),
                 in);
    if (p.conjugate_a) continue;  // not differentiable as a complex function
    expect_derivative(
        make_graph(types, [&](Builder&, const Values& v) { return Values{triangular_solve(matrix(v[0]), v[1], p)}; }),
        in);
  }
}

TEST(Qr, FactorsAndDifferentiates) {
  for (const auto& t : {f64({2, 5, 3}), f64({3, 3}), c128({4, 2}), f64({3, 5})}) {
    for (bool full : {false, true}) {
      expect_zeros(
          make_graph({t},
                     [&](Builder&, const Values& v) {
                       Values r = qr(v[0], full);
                       Value unit = matmul(adjoint(r[0]), r[0]);
                       return Values{matmul(r[0], r[1]) - v[0], unit - identity_like(unit), lower_part(r[1], -1)};
                     }),
          {host(t, 1)});
    }
  }
  auto g = [](const Type& t) { return make_graph({t}, [](Builder&, const Values& v) { return qr(v[0]); }); };
  expect_derivative(g(f64({2, 5, 3})), {host(f64({2, 5, 3}), 1)});
  EXPECT_THROW(jvp_graph(*g(f64({3, 5})), {true}), UnimplementedError);
}

TEST(Hessenberg, IsSimilarToTheMatrixAndHasNoDerivative) {
  for (const auto& t : {f64({2, 5, 5}), f64({1, 1}), f64({2, 2}), c128({4, 4}), c128({2, 2})}) {
    auto n = t.shape.back();
    auto g = make_graph({t}, [&](Builder& b, const Values& v) {
      Values packed = b.add(def::hessenberg, {v[0]});
      Value h = upper_part(packed[0], -1);
      if (n < 2) return Values{h - v[0]};
      Dims low(at(t.rank()), 0), limits = t.shape, none = low;
      low[low.size() - 2] = 1;
      --limits.back();
      Value inner = b.add1(def::householder_product, {slice(packed[0], low, limits), packed[1]});
      low.back() = 1;
      Value q = pad(inner, scalar(b, 0, t.dtype), low, none);
      Value corner = eq(iota(b, DType::I32, t.shape, t.rank() - 1) + iota(b, DType::I32, t.shape, t.rank() - 2),
                        scalar(b, 0, DType::I32));
      q = where(corner, scalar(b, 1, t.dtype), q);
      return Values{matmul(v[0], q) - matmul(q, h), matmul(adjoint(q), q) - identity_like(q)};
    });
    expect_zeros(g, {host(t, 1)});
    EXPECT_THROW(jvp_graph(*g, {true}), UnimplementedError);
  }
}

TEST(HouseholderProduct, RefusesWhatDoesNotFit) {
  auto product = [](const Type& a, const Type& taus) {
    return make_graph({a, taus}, [](Builder& b, const Values& v) { return b.add(def::householder_product, v); });
  };
  EXPECT_NO_THROW(product(f64({4, 3}), f64({2})));
  EXPECT_NO_THROW(product(f64({4, 0}), f64({0})));
  EXPECT_THROW(product(f64({3, 4}), f64({2})), ValueError);
  EXPECT_THROW(product(f64({4, 3}), f64({4})), ValueError);
  EXPECT_THROW(product(f64({2, 4, 3}), f64({3})), ValueError);
  EXPECT_THROW(product(f64({4, 3}), c128({2})), TypeError);
}

TEST(Lu, FactorsAndDifferentiates) {
  for (const auto& t : {f64({2, 4, 4}), f64({5, 3}), f64({3, 5}), c128({3, 3})}) {
    auto g = make_graph({t}, [](Builder&, const Values& v) { return lu(v[0]); });
    auto out = interpret(*g, std::vector<HostArray>{host(t, 1)});
    expect_derivative(g, {host(t, 1)});
    if (t.shape != Shape{3, 3}) continue;
    HostArray a = host(t, 1);
    View v = view_of(out[0]);
    Matrix both = load_matrix(v, 0);
    Matrix l(3, 3);
    Matrix u(3, 3);
    for (int i = 0; i < 3; ++i) {
      for (int j = 0; j < 3; ++j) (i > j ? l : u)(i, j) = both(i, j);
      l(i, i) = 1;
    }
    Matrix product_lu = product(l, u);
    Matrix source = load_matrix(view_of(a), 0);
    for (int i = 0; i < 3; ++i) {
      for (int j = 0; j < 3; ++j) {
        EXPECT_NEAR(std::abs(product_lu(i, j) - source(out[2].span<std::int32_t>()[at(i)], j)), 0, 1e-12);
      }
    }
  }
}

TEST(Eigh, DecomposesAndDifferentiates) {
  for (const auto& t : {f64({2, 4, 4}), c128({3, 3})}) {
    std::vector<HostArray> in{host(t, 1)};
    expect_zeros(make_graph({t},
                            [](Builder&, const Values& v) {
                              Value a = v[0] + adjoint(v[0]);
                              Values r = eigh(a);
                              Value w = convert(as_rows(r[1]), a.dtype());
                              Value unit = matmul(adjoint(r[0]), r[0]);
                              return Values{matmul(a, r[0]) - r[0] * w, unit - identity_like(unit)};
                            }),
                 in);
  }
  expect_derivative(make_graph({f64({2, 4, 4})},
                               [](Builder&, const Values& v) {
                                 Values r = eigh(v[0] + adjoint(v[0]));
                                 return Values{r[0] * first_signs(r[0], r[0].shape()), r[1]};
                               }),
                    {host(f64({2, 4, 4}), 1)});
}

TEST(Svd, DecomposesAndDifferentiates) {
  for (const auto& t : {f64({2, 5, 3}), f64({3, 3}), f64({2, 4}), c128({3, 2})}) {
    for (bool full : {false, true}) {
      expect_zeros(make_graph({t},
                              [&](Builder&, const Values& v) {
                                Values r = svd(v[0], full);
                                Value u = matmul(adjoint(r[1]), r[1]);
                                Value w = matmul(r[2], adjoint(r[2]));
                                return Values{u - identity_like(u), w - identity_like(w)};
                              }),
                   {host(t, 1)});
    }
    expect_zeros(make_graph({t},
                            [&](Builder&, const Values& v) {
                              Values r = svd(v[0]);
                              Dims dims;
                              for (std::int64_t d = 0; d + 2 < t.rank(); ++d) dims.push_back(d);
                              dims.push_back(t.rank() - 1);
                              Value s = convert(broadcast_in_dim(r[0], r[1].shape(), dims), t.dtype);
                              return Values{matmul(r[1] * s, r[2]) - v[0], r[0] - svd(v[0], false, false)[0]};
                            }),
                 {host(t, 1)});
  }
  for (const auto& t : {f64({2, 5, 3}), f64({3, 3}), f64({2, 4})}) {
    expect_derivative(
        make_graph({t},
                   [](Builder&, const Values& v) {
                     Values r = svd(v[0]);
                     Value w = transposed(r[2]);
                     return Values{r[0], r[1] * first_signs(r[1], r[1].shape()), w * first_signs(r[1], w.shape())};
                   }),
        {host(t, 1)});
    expect_derivative(make_graph({t}, [](Builder&, const Values& v) { return svd(v[0], false, false); }), {host(t, 1)});
  }
}

TEST(Linalg, BatchesMoveTogetherAndMatricesStayWhole) {
  Types in{f64({6, 4, 3})};
  auto rule = def::svd.factors(in, def::svd.infer(in, ir::make_attrs(Svd{})), ir::make_attrs(Svd{}));
  EXPECT_EQ(rule.operands[0][0], rule.results[0][0]);
  EXPECT_EQ(rule.operands[0][0], rule.results[2][0]);
  EXPECT_EQ(rule.factors[static_cast<std::size_t>(rule.operands[0][0][0])].kind, ir::Factor::Kind::Pass);
  EXPECT_EQ(rule.factors[static_cast<std::size_t>(rule.operands[0][1][0])].kind, ir::Factor::Kind::Whole);
}

}  // namespace
}  // namespace tessera::ops
