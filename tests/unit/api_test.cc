// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tessera/tessera.h"

namespace tessera {
namespace {

using Vec = std::vector<float>;

Client& eight() {
  static Client c = Client::cpu({.devices = 8});
  return c;
}

HostArray numbers(const Shape& shape, float scale = 1) {
  std::vector<float> v(static_cast<std::size_t>(size_of(shape)));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = scale * std::sin(static_cast<float>(i) * 0.7F + 0.3F);
  return HostArray::from(v, shape);
}

TEST(Eager, ArithmeticOnOneDevice) {
  Array x(HostArray::from<float>({1, 2, 3}));
  EXPECT_EQ((x * 2.0 + 1).to_vector<float>(), (Vec{3, 5, 7}));
  EXPECT_EQ((x + x).dtype(), float32);
  EXPECT_FALSE((x + 1).committed());
  EXPECT_EQ(sum(x).item<float>(), 6);
}

TEST(Eager, OpByOpKeepsSharding) {
  ClientScope scope(eight());
  auto mesh = make_mesh({4, 2}, {"x", "y"});
  NamedSharding s(mesh, P("x", "y"));
  Array a = device_put(
      HostArray::from(std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {8, 2}), s);
  Array b = a + 1;
  EXPECT_TRUE(*b.sharding() == s) << b.sharding()->text();
  EXPECT_EQ(b.addressable_data(3).to_vector<std::int32_t>(), (std::vector<std::int32_t>{6, 8}));
  Array t = transpose(a);
  EXPECT_TRUE(*t.sharding() == NamedSharding(mesh, P("y", "x"))) << t.sharding()->text();
  Array s0 = sum(a, 0);
  EXPECT_EQ(s0.to_vector<std::int32_t>(), (std::vector<std::int32_t>{56, 64}));
  EXPECT_TRUE(*s0.sharding() == NamedSharding(mesh, P("y"))) << s0.sharding()->text();
}

TEST(Jit, TracesOnceAndFollowsSharding) {
  ClientScope scope(eight());
  auto mesh = make_mesh({4, 2}, {"x", "y"});
  int runs = 0;
  auto f = jit([&](Array v) {
    ++runs;
    return v * 2;
  });
  Array x = device_put(HostArray::from<std::int32_t>({0, 1, 2, 3, 4, 5, 6, 7}), NamedSharding(mesh, P("x")));
  for (int i = 0; i < 3; ++i) {
    Array y = f(x);
    EXPECT_EQ(y.to_vector<std::int32_t>(), (std::vector<std::int32_t>{0, 2, 4, 6, 8, 10, 12, 14}));
    EXPECT_TRUE(*y.sharding() == *x.sharding());
  }
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(f.stats(), (CompileStats{1, 1, 1}));
}

TEST(Jit, TreesAndNumbers) {
  auto f = jit([](std::map<std::string, Array> p, std::pair<Array, Array> xy) {
    return std::pair{p["w"] * xy.first, p["b"] + xy.second};
  });
  std::map<std::string, Array> p{{"w", Array(2.0F)}, {"b", Array(1.0F)}};
  auto [u, v] = f(p, std::pair{Array(HostArray::from<float>({1, 2})), Array(3.0F)});
  EXPECT_EQ(u.to_vector<float>(), (Vec{2, 4}));
  EXPECT_EQ(v.item<float>(), 4);
}

TEST(Grad, MatchesFiniteDifferences) {
  auto f = [](Array x) { return sum(tanh(x) * x + exp(x * 0.5)); };
  Array x(numbers({4, 3}));
  Array g = grad(f)(x);
  Vec base = x.to_vector<float>();
  for (std::size_t i = 0; i < base.size(); ++i) {
    auto at = [&](float d) {
      Vec v = base;
      v[i] += d;
      return f(Array(HostArray::from(v, {4, 3}))).item<float>();
    };
    EXPECT_NEAR(g.to_vector<float>()[i], (at(1e-2F) - at(-1e-2F)) / 2e-2F, 2e-3);
  }
  auto [value, gradient] = jit(value_and_grad(f))(x);
  EXPECT_NEAR(value.item<float>(), f(x).item<float>(), 1e-5);
  EXPECT_EQ(gradient.to_vector<float>(), g.to_vector<float>());
}

TEST(Grad, JacobiansAndHessianOfAQuadratic) {
  Array m(numbers({3, 3}));
  auto quadratic = [&](Array x) { return sum(x * matmul(m, x)); };
  Array x(HostArray::from<float>({0.5F, -1, 2}));
  Array h = hessian(quadratic)(x);
  Vec mv = m.to_vector<float>();
  Vec hv = h.to_vector<float>();
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 3; ++j) EXPECT_NEAR(hv[3 * i + j], mv[3 * i + j] + mv[3 * j + i], 1e-5);
  }
  auto linear = [&](Array v) { return matmul(m, v); };
  EXPECT_EQ(jacfwd(linear)(x).to_vector<float>(), mv);
  EXPECT_EQ(jacrev(linear)(x).to_vector<float>(), mv);
}

// JAX's rule in place of the quotient's own, in both modes, of any order, batched and along a split axis.
TEST(Grad, SoftmaxOfFirstAndSecondOrder) {
  ClientScope scope(eight());
  Array x(HostArray::from<double>({0.5, -1, 2, 0.25}));
  const auto f = [](Array v) { return softmax(v, -1); };
  const auto y = f(x).to_vector<double>();
  const auto forward = jacfwd(f)(x).to_vector<double>(), reverse = jacrev(f)(x).to_vector<double>();
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t j = 0; j < 4; ++j) {
      EXPECT_NEAR(forward[4 * i + j], y[i] * ((i == j ? 1 : 0) - y[j]), 1e-14);
      EXPECT_NEAR(reverse[4 * i + j], y[i] * ((i == j ? 1 : 0) - y[j]), 1e-14);
    }
  }
  const auto weighed = [&](Array v) { return sum(softmax(v, -1) * Array(HostArray::from<double>({1, -2, 3, 0.5}))); };
  const auto h = hessian(weighed)(x).to_vector<double>();
  for (std::size_t j = 0; j < 4; ++j) {
    auto at = [&](double d) {
      auto v = x.to_vector<double>();
      v[j] += d;
      return grad(weighed)(Array(HostArray::from(v))).to_vector<double>();
    };
    const auto up = at(1e-5), down = at(-1e-5);
    for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(h[4 * i + j], (up[i] - down[i]) / 2e-5, 1e-9);
  }
  Mesh mesh = make_mesh({4}, "x");
  Array rows(numbers({3, 8}));
  const auto g = grad([](Array v) { return sum(square(softmax(v, -1))); });
  const auto want = g(rows).to_vector<float>();
  const auto split = jit(g)(device_put(rows, NamedSharding(mesh, P(none, "x")))).to_vector<float>();
  const auto batched = vmap(g)(rows).to_vector<float>();
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(split[i], want[i], 1e-6);
    EXPECT_NEAR(batched[i], want[i], 1e-6);
  }
}

TEST(Grad, DataParallelGradient) {
  ClientScope scope(eight());
  auto mesh = make_mesh({4, 2}, {"x", "y"});
  Array b = device_put(HostArray::from(Vec{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {8, 2}),
                       NamedSharding(mesh, P("x")));
  Array w = device_put(HostArray::from(Vec{0, 1, 2, 3}, {2, 2}), NamedSharding(mesh, P()));
  auto loss = [](Array v, Array u) {
    Array y = matmul(u, v);
    return mean(y * y);
  };
  Array g = jit(grad(loss))(w, b);
  EXPECT_EQ(g.to_vector<float>(), (Vec{154, 301, 170, 332}));
  EXPECT_TRUE(*g.sharding() == NamedSharding(mesh, P())) << g.sharding()->text();
}

TEST(Trace, ConcreteValuesAreRefused) {
  auto f = jit([](Array x) {
    if (x.item<float>() > 0) return x;
    return -x;
  });
  EXPECT_THROW(f(Array(1.0F)), ConcretizationError);
  EXPECT_EQ(jit([](Array x) { return x + 1; })(Array(1.0F)).item<float>(), 2);
}

}  // namespace
}  // namespace tessera
