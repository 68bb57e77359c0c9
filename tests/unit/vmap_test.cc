// SPDX-License-Identifier: Apache-2.0
// vmap against plain loops, with names, and among other transformations.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>

#include "tessera/tessera.h"
#include "tests/support/meshes.h"
#include "tests/support/spec_report.h"

namespace tessera {
namespace {

using test::EightDevices;
using test::error_of;
using Fn = std::function<Array(const Array&)>;

Array numbers(const Shape& shape, double scale = 0.1) {
  std::int64_t n = 1;
  for (auto d : shape) n *= d;
  std::vector<float> v(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(std::sin(1.0 + 2.3 * static_cast<double>(i)));
  return Array(HostArray::from(v, shape)) * (10 * scale);
}

void expect_near(const Array& a, const Array& b, const std::string& what, double tolerance = 1e-5) {
  ASSERT_EQ(a.shape(), b.shape()) << what;
  ASSERT_EQ(a.dtype(), b.dtype()) << what;
  auto x = astype(a, float32).to_vector<float>();
  auto y = astype(b, float32).to_vector<float>();
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], tolerance) << what << " at " << i;
}

// f for every index of dimension `axis`, stacked.
Array loop(const Fn& f, const Array& x, std::int64_t axis) {
  std::vector<Array> out;
  for (std::int64_t i = 0; i < x.shape(axis); ++i) {
    out.push_back(f(lax::squeeze(lax::slice_in_dim(x, i, i + 1, 1, axis), {axis})));
  }
  return stack(out);
}

struct Named {
  const char* name;
  Fn f;
};

// Functions of a 4 x 4 block.
std::vector<Named> functions() {
  auto square = [](const Array& x) { return matmul(x, transpose(x)) + 4 * eye(4); };
  return {
      {"element-wise", [](const Array& x) { return tanh(x) * x + exp(-x); }},
      {"reductions", [](const Array& x) { return sum(x, 0) / max(x) + mean(x, 1); }},
      {"product", [](const Array& x) { return matmul(x, sin(x)); }},
      {"sort", [](const Array& x) { return sort(x, 0) + cumsum(x, 1); }},
      {"argmax", [](const Array& x) { return argmax(x, 1); }},
      {"dynamic slice",
       [](const Array& x) {
         Array start = argmax(x, 1);
         return lax::dynamic_slice(x, {take(start, 0), take(start, 1)}, {2, 2});
       }},
      {"dynamic update",
       [](const Array& x) {
         return lax::dynamic_update_slice(x, sum(x, {.axis = Dims{0}, .keepdims = true}),
                                          {take(argmax(x, 0), 2), Array(0)});
       }},
      {"gather", [](const Array& x) { return take(x, argmax(x, 0), 0); }},
      {"scatter", [](const Array& x) { return at(x, {argmax(x, 0)}).add(x * 2); }},
      {"cholesky", [=](const Array& x) { return linalg::cholesky(square(x)); }},
      {"solve", [=](const Array& x) { return linalg::solve(square(x), x); }},
      {"fft", [](const Array& x) { return abs(fft::fft(x)); }},
      {"scan",
       [](const Array& x) {
         return scan([](Array c, Array row) { return std::pair{c * 0.5 + row, c * row}; }, zeros({4}), x).second;
       }},
      {"cond",
       [](const Array& x) {
         return cond(
             sum(x) > 0, [](Array v) { return v * 2; }, [](Array v) { return -v; }, x);
       }},
      {"while",
       [](const Array& x) {
         return while_loop([](Array v) { return max(abs(v)) < 20; }, [](Array v) { return v * 1.7; }, x);
       }},
      {"jit", [](const Array& x) { return jit([](Array v) { return cos(v) + 1; })(x); }},
      {"grad", [](const Array& x) { return grad([](Array v) { return sum(sin(v) * v); })(x); }},
      {"jacobian", [](const Array& x) { return jacrev([](Array v) { return sum(sin(v) * v, 1); })(x); }},
      {"inner vmap",
       [](const Array& x) {
         return vmap([](Array a, Array b) { return sum(a * b); }, {.in_axes = {0, 1}})(x, x);
       }},
      {"checkpoint",
       [](const Array& x) {
         return grad([](Array v) { return sum(checkpoint([](Array u) { return sin(u) * u; })(v)); })(x);
       }},
  };
}

class Vmap : public ::testing::Test {
 protected:
  EightDevices e_;
};

TEST_F(Vmap, AgreesWithALoop) {
  Array x = numbers({3, 4, 4});
  Array turned = transpose(x, {1, 2, 0});
  for (const auto& [name, f] : functions()) {
    Array want = loop(f, x, 0);
    expect_near(vmap(f)(x), want, name);
    expect_near(jit(vmap(f, {.in_axes = 2}))(turned), want, std::string(name) + " under jit, axis 2");
  }
}

TEST_F(Vmap, DerivativesAgreeWithALoop) {
  Array x = numbers({3, 4, 4});
  for (const auto& [name, f] : functions()) {
    if (std::string(name) == "argmax" || std::string(name) == "while") continue;  // none in reverse mode
    const Fn& g = f;
    auto mapped = grad([&](Array v) { return sum(sin(vmap(g)(v))); });
    Fn one = grad([&](Array v) { return sum(sin(g(v))); });
    expect_near(mapped(x), loop(one, x, 0), name, 1e-3);
    expect_near(vmap(one)(x), loop(one, x, 0), std::string("gradient of one: ") + name, 1e-3);
  }
}

TEST_F(Vmap, RandomNumbersAreThoseOfTheirKeys) {
  Array keys = random::split(Operand(random::key(7)), 5);
  Fn draw = [](const Array& key) { return random::normal(key, {3}) + random::uniform(random::fold_in(key, 2), {3}); };
  expect_near(vmap(draw)(keys), loop(draw, keys, 0), "normal");
}

TEST_F(Vmap, AxesOfTreesNegativeAxesAndNone) {
  TESSERA_SPEC("C29");
  struct Layer {
    Array w, b;
  };
  Layer layer{numbers({2, 3}), numbers({3})};
  auto f = [](const Layer& l, Array x) { return std::pair{matmul(x, l.w) + l.b, l.b * 2}; };
  Array x = numbers({2, 5});
  auto [y, b] = vmap(f, {.in_axes = {none, -1}, .out_axes = {1, none}})(layer, x);
  expect_near(y, transpose(matmul(transpose(x), layer.w) + layer.b), "result along axis 1");
  expect_near(b, layer.b * 2, "unmapped result");
  Layer many{numbers({3, 2, 4}), numbers({4, 3})};
  auto per_leaf = vmap([](const Layer& l) { return matmul(l.b, l.w); }, {.in_axes = {{2, 0}}});
  expect_near(per_leaf(many),
              loop([&](const Array& i) { return matmul(take(many.b, i, 0), take(many.w, i, 2)); }, arange(4), 0),
              "an axis a leaf");
  // A result that no instance changes is repeated.
  expect_near(vmap([](Array) { return numbers({2}); })(x), stack({numbers({2}), numbers({2})}), "repeated");
  expect_near(vmap([] { return axis_index("i"); }, {.axis_name = "i", .axis_size = 3})(), arange(3), "no argument");
  EXPECT_EQ(vmap([](Array v) { return sum(v); })(zeros({0, 3})).shape(), Shape{0});
}

TEST_F(Vmap, WrongCallsSayWhatIsWrong) {
  TESSERA_SPEC("C29");
  auto f = vmap([](Array a, Array b) { return a + b; });
  EXPECT_NE(error_of<ValueError>([&] { f(zeros({2}), zeros({3})); }).find("inconsistent"), std::string::npos);
  auto unmapped = vmap([](Array a) { return a; }, {.in_axes = none});
  EXPECT_NE(error_of<ValueError>([&] { unmapped(zeros({2})); }).find("axis_size"), std::string::npos);
  auto out = vmap([](Array a) { return a; }, {.out_axes = none});
  EXPECT_NE(error_of<ValueError>([&] { out(zeros({2})); }).find("out_axes"), std::string::npos);
  auto far = vmap([](Array a) { return a; }, {.in_axes = 1});
  EXPECT_NE(error_of<IndexError>([&] { far(zeros({2})); }).find("out of range"), std::string::npos);
  auto unbound = vmap([](Array a) { return psum(a, "j"); }, {.axis_name = "i"});
  EXPECT_NE(error_of<UnboundAxisError>([&] { unbound(zeros({2})); }).find("unbound"), std::string::npos);
}

TEST_F(Vmap, CapturedTracedArraysAreShared) {
  auto f =
      jit([](Array w, Array x) { return vmap([&](Array row) { return psum(row * w, "i"); }, {.axis_name = "i"})(x); });
  Array w = numbers({4});
  Array x = numbers({3, 4});
  expect_near(f(w, x), stack({sum(x * w, 0), sum(x * w, 0), sum(x * w, 0)}), "captured");
  auto g = grad([&](Array v) { return sum(vmap([&](Array row) { return sin(row * v); })(x)); });
  expect_near(g(w), grad([&](Array v) { return sum(sin(x * v)); })(w), "gradient of what is captured");
}

// Every operation over a mesh axis and over a vmapped one.
TEST_F(Vmap, NamesOfMeshesAndOfVmapsAgree) {
  TESSERA_SPEC("C112", "C25", "C65", "C58", "C73", "C99", "C105", "C50");
  Mesh mesh = make_mesh({4}, "i", e_.client.devices().first(4));
  std::vector<Named> ops{
      {"psum", [](const Array& x) { return psum(x, "i"); }},
      {"pmean", [](const Array& x) { return pmean(x, "i"); }},
      {"pmax", [](const Array& x) { return pmax(x, "i"); }},
      {"pmin", [](const Array& x) { return pmin(x, "i"); }},
      {"pargmax", [](const Array& x) { return pargmax(x, "i"); }},
      {"pbroadcast", [](const Array& x) { return pbroadcast(x, "i", 2); }},
      {"ppermute",
       [](const Array& x) {
         return ppermute(x, "i", {{0, 2}, {2, 3}, {3, 0}});
       }},
      {"pshuffle",
       [](const Array& x) {
         return pshuffle(x, "i", {2, 0, 3, 1});
       }},
      {"all_to_all", [](const Array& x) { return all_to_all(x, "i", 0, 1, {.tiled = true}); }},
      {"all_to_all untiled", [](const Array& x) { return all_to_all(x, "i", 0, 1); }},
      {"pswapaxes", [](const Array& x) { return pswapaxes(x, "i", 0); }},
      {"all_gather", [](const Array& x) { return all_gather(x, "i", {.axis = 1}); }},
      {"all_gather tiled", [](const Array& x) { return all_gather(x, "i", {.axis = 1, .tiled = true}); }},
      {"psum_scatter", [](const Array& x) { return psum_scatter(x, "i"); }},
      {"psum_scatter tiled", [](const Array& x) { return psum_scatter(x, "i", {.tiled = true}); }},
      {"axis_index", [](const Array& x) { return x * astype(axis_index("i"), float32); }},
  };
  Array x = numbers({4, 4, 3});
  for (const auto& [name, op] : ops) {
    const Fn& f = op;
    auto block = [&](Array b) { return lax::expand_dims(f(lax::squeeze(b, {0})), {0}); };
    auto over_mesh = shard_map(block, mesh, P("i"), P("i"), {.check_vma = false});
    auto over_vmap = vmap(f, {.axis_name = "i"});
    expect_near(over_vmap(x), over_mesh(x), name);
    if (std::string(name).find("max") != std::string::npos || std::string(name) == "pmin") continue;  // no derivative
    auto loss = [](const auto& g) { return [&g](Array v) { return sum(sin(g(v))); }; };
    expect_near(grad(loss(over_vmap))(x), grad(loss(over_mesh))(x), std::string("gradient of ") + name);
  }
}

TEST_F(Vmap, LoopsAndBranchesWithNames) {
  Array x = numbers({3, 4});
  auto f = [](Array v) {
    return scan([](Array c, Array e) { return std::pair{psum(c, "i") * 0.1 + e, c}; }, Array(1.0F), v).second;
  };
  Array got = vmap(f, {.axis_name = "i"})(x);
  auto values = x.to_vector<float>();
  float carry[3] = {1, 1, 1};
  std::vector<float> columns(12);
  for (std::size_t k = 0; k < 4; ++k) {
    float all = carry[0] + carry[1] + carry[2];
    for (std::size_t i = 0; i < 3; ++i) {
      columns[i * 4 + k] = carry[i];
      carry[i] = all * 0.1F + values[i * 4 + k];
    }
  }
  expect_near(got, Array(HostArray::from(columns, {3, 4})), "scan with psum");
}

TEST_F(Vmap, AroundMapsLaysTheBatchOverAnAxis) {
  TESSERA_SPEC("C30");
  Mesh mesh = make_mesh({2, 4}, {"b", "x"}, e_.client.devices());
  auto f = [&](Array v) {
    return shard_map([](Array b) { return b / psum(sum(b * b), "x"); }, mesh, P("x"), P("x"))(v);
  };
  Array x = numbers({6, 8});
  Array want = loop(f, x, 0);
  expect_near(vmap(f)(x), want, "whole batch");
  auto spread = jit(vmap(f, {.spmd_axis_name = "b"}));
  expect_near(spread(x), want, "spread batch");
  EXPECT_EQ(spread(x).sharding()->shard_shape({6, 8}), (Shape{3, 2}));
}

}  // namespace
}  // namespace tessera
