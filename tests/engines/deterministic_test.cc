// SPDX-License-Identifier: Apache-2.0
// The deterministic mode (decision D13): a jitted program gives the same bits on 1, 2, 4 and 8 devices.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "tessera/tessera.h"

namespace tessera {
namespace {

HostArray numbers(const Shape& shape, double scale) {
  std::vector<float> v(static_cast<std::size_t>(size_of(shape)));
  for (std::size_t i = 0; i < v.size(); ++i) {
    v[i] = static_cast<float>(scale * std::sin(static_cast<double>(i) * 0.7 + 0.3) *
                              std::exp(std::cos(0.11 * static_cast<double>(i))));
  }
  return HostArray::from(v, shape);
}

using Arrays = std::vector<Array>;
using Function = std::function<Arrays(const Arrays&)>;

struct Operand {
  HostArray value;
  PartitionSpec spec;  // over the axis "x"
};

std::vector<std::vector<char>> run(const Function& f, const std::vector<Operand>& operands, std::int64_t devices,
                                   bool uneven) {
  ClientScope scope(Client::cpu({.devices = devices}));
  auto mesh = make_mesh({devices}, {"x"});
  Arrays args;
  for (const auto& o : operands) args.push_back(device_put(o.value, NamedSharding(mesh, o.spec, {.uneven = uneven})));
  std::vector<std::vector<char>> out;
  for (const Array& a : jit([&](Arrays v) { return f(v); })(args)) {
    HostArray h = a.host();
    std::vector<char> bytes(static_cast<std::size_t>(h.size() * dtype_size(h.dtype())));
    std::memcpy(bytes.data(), h.data(), bytes.size());
    out.push_back(std::move(bytes));
  }
  return out;
}

void check(const Function& f, const std::vector<Operand>& operands, bool uneven = false) {
  ConfigScope deterministic(&Config::deterministic, true);
  auto want = run(f, operands, 1, uneven);
  for (std::int64_t devices : {2, 4, 8}) {
    auto got = run(f, operands, devices, uneven);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got[i], want[i]) << "result " << i << " on " << devices;
  }
}

TEST(Deterministic, Sums) {
  Function f = [](const Arrays& in) {
    Array x = in[0];
    return Arrays{sum(x),
                  sum(x, 0),
                  sum(x, 1),
                  mean(x),
                  prod(x * 0.001 + 1.0, {.axis = Dims{0}}),
                  logsumexp(x, {.axis = Dims{0}}),
                  softmax(x, 1)};
  };
  check(f, {{numbers({64, 48}, 3), P("x")}});
  check(f, {{numbers({64, 48}, 3), P(none, "x")}});
  check(f, {{numbers({32768, 3}, 3), P("x")}});
}

TEST(Deterministic, SumsOfUnevenSizes) {
  Function f = [](const Arrays& in) { return Arrays{sum(in[0]), sum(in[0], 0), mean(in[0], 1), cumsum(in[0], 0)}; };
  check(f, {{numbers({1001, 5}, 3), P("x")}}, true);
  check(f, {{numbers({13, 7}, 3), P("x")}}, true);
  check(f, {{numbers({9, 70}, 3), P(none, "x")}}, true);
}

TEST(Deterministic, OtherDtypes) {
  for (DType t : {float64, bfloat16, float16, complex64}) {
    Function f = [t](const Arrays& in) {
      Array x = astype(in[0], t);
      return Arrays{sum(x, 0), matmul(transpose(x), x), sum(x)};
    };
    check(f, {{numbers({40, 24}, 0.25), P("x")}});
  }
}

TEST(Deterministic, Products) {
  Function f = [](const Arrays& in) { return Arrays{matmul(in[0], in[1])}; };
  check(f, {{numbers({24, 64}, 1), P(none, "x")}, {numbers({64, 40}, 1), P("x")}});
  check(f, {{numbers({24, 64}, 1), P("x")}, {numbers({64, 1}, 1), P()}});
  check(f, {{numbers({8, 2048}, 1), P("x")}, {numbers({2048, 17}, 1), P()}});
  check(f, {{numbers({17, 333}, 1), P(none, "x")}, {numbers({333, 9}, 1), P("x")}}, true);
}

Array loss(const Arrays& p, const Array& x, const Array& y) {
  Array h = nn::gelu(matmul(x, p[0]) + p[1]);
  h = (h - mean(h, {.axis = Dims{1}, .keepdims = true})) * rsqrt(var(h, {.axis = Dims{1}, .keepdims = true}) + 1e-5);
  return mean(square(matmul(h, p[2]) - y));
}

TEST(Deterministic, GradientOfASmallNetwork) {
  Function f = [](const Arrays& in) {
    Arrays parameters(in.begin(), in.begin() + 3);
    auto g = grad([&](const Arrays& p) { return loss(p, in[3], in[4]); })(parameters);
    g.push_back(loss(parameters, in[3], in[4]));
    return g;
  };
  HostArray w = numbers({12, 32}, 0.3), b = numbers({32}, 0.1), v = numbers({32, 8}, 0.3);
  // Data parallel, then model parallel.
  check(f, {{w, P()}, {b, P()}, {v, P()}, {numbers({64, 12}, 1), P("x")}, {numbers({64, 8}, 1), P("x")}});
  check(f, {{w, P(none, "x")}, {b, P("x")}, {v, P("x")}, {numbers({64, 12}, 1), P()}, {numbers({64, 8}, 1), P()}});
  check(f, {{w, P()}, {b, P()}, {v, P()}, {numbers({50, 12}, 1), P("x")}, {numbers({50, 8}, 1), P("x")}}, true);
}

TEST(Deterministic, ProductsAreSplit) {
  ConfigScope deterministic(&Config::deterministic, true);
  ClientScope scope(Client::cpu({.devices = 8}));
  auto mesh = make_mesh({8}, {"x"});
  Array a = device_put(numbers({64, 4096}, 1), NamedSharding(mesh, P(none, "x")));
  Array b = device_put(numbers({4096, 64}, 1), NamedSharding(mesh, P("x")));
  auto plan = jit([](Array x, Array y) { return matmul(x, y); }).lower(a, b).comm_plan();
  // Leaves are multiplied where they are; what moves is their results, not the operands.
  EXPECT_LE(plan.bytes_per_device(), 8 * 64 * 64 * 4) << to_string(plan);
}

}  // namespace
}  // namespace tessera
