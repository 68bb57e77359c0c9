// SPDX-License-Identifier: Apache-2.0
// The linear layer, barriers, and a transformer block under tensor parallelism.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "support/meshes.h"
#include "support/spec_report.h"
#include "tessera/tessera.h"

namespace tessera::test {
namespace {

Array wave(const Shape& shape, double step = 0.37) {
  std::vector<float> v(static_cast<std::size_t>(size_of(shape)));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(std::sin(step * static_cast<double>(i) + 0.1));
  return device_put(HostArray::from(v, shape));
}
int count(const std::string& text, const std::string& word) {
  int n = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + word.size())) ++n;
  return n;
}
void expect_close(const Array& a, const Array& b, double tolerance) {
  ASSERT_EQ(a.shape(), b.shape());
  auto x = a.to_vector<float>();
  auto y = b.to_vector<float>();
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], tolerance * (1 + std::abs(y[i]))) << i;
}

TEST(Linear, IsOneContraction) {
  TESSERA_SPEC("T98");
  EightDevices e;
  Array x = wave({2, 3, 5});
  Array w = wave({4, 5});
  Array b = wave({4});
  auto f = jit([](Array a, Array c, Array d) { return linear(a, c, d); });
  std::string text = f.trace(x, w, b).text();
  EXPECT_EQ(count(text, "dot_general["), 1) << text;
  EXPECT_EQ(count(text, "reshape"), 0) << text;
  EXPECT_EQ(count(text, "broadcast_in_dim["), 1) << text;
  EXPECT_EQ(count(text, "= add "), 1) << text;
  expect_close(f(x, w, b), einsum("...n,mn->...m", {x, w}) + b, 1e-6);
  EXPECT_EQ(linear(wave({5}), w).shape(), (Shape{4}));
  EXPECT_EQ(linear(zeros({0, 3, 5}), w, b).shape(), (Shape{0, 3, 4}));
  EXPECT_ERROR(ValueError, linear(x, wave({4, 6})), "weight", "(4, 6)", "(2, 3, 5)");
  EXPECT_ERROR(ValueError, linear(x, w, wave({5})), "bias", "(5,)", "(4,)");
  EXPECT_ERROR(ValueError, linear(Array(1.0), w), "x", "()");
}

TEST(Linear, GradientsAreOneContractionEach) {
  TESSERA_SPEC("T99", "T100", "T101", "T102");
  EightDevices e;
  Array x = wave({2, 3, 5});
  Array w = wave({4, 5});
  Array b = wave({4});
  auto by = [&](auto which) {
    return jit([=](Array a, Array c, Array d) {
      return grad<decltype(which)::value>([](Array p, Array q, Array r) { return sum(linear(p, q, r)); })(a, c, d);
    });
  };
  auto gx = by(std::integral_constant<std::size_t, 0>{});
  auto gw = by(std::integral_constant<std::size_t, 1>{});
  auto gb = by(std::integral_constant<std::size_t, 2>{});
  // Asked for x alone, no product for the weight is there (nor the forward one, which nobody reads).
  EXPECT_EQ(count(gx.trace(x, w, b).text(), "dot_general["), 1) << gx.trace(x, w, b).text();
  EXPECT_EQ(count(gw.trace(x, w, b).text(), "dot_general["), 1);
  EXPECT_EQ(count(gb.trace(x, w, b).text(), "dot_general["), 0);
  EXPECT_EQ(count(gx.trace(x, w, b).text(), "reshape"), 0);
  EXPECT_EQ(gx(x, w, b).shape(), x.shape());
  EXPECT_EQ(gw(x, w, b).shape(), w.shape());
  expect_close(gb(x, w, b), full({4}, 6.0F), 1e-6);
  auto plain = [](Array p, Array q) { return sum(einsum("...n,mn->...m", {p, q})); };
  expect_close(gx(x, w, b), grad<0>(plain)(x, w), 1e-5);
  expect_close(gw(x, w, b), grad<1>(plain)(x, w), 1e-5);
  Array none_there = zeros({0, 5});
  auto empty = grad<1>([](Array p, Array q) { return sum(linear(p, q)); })(none_there, w);
  expect_close(empty, zeros({4, 5}), 0);
}

struct Module {
  Array weight;
  std::optional<Array> bias;
};
struct PlainModule {
  Array weight;
};
struct NoWeight {
  Array bias;
};

TEST(Linear, ModuleForm) {
  TESSERA_SPEC("T104");
  static_assert(LinearModule<Module> && LinearModule<PlainModule> && !LinearModule<NoWeight>);
  EightDevices e;
  Array x = wave({2, 3, 5});
  Module m{wave({4, 5}), std::nullopt};
  EXPECT_EQ(xla_patched_nn_linear_forward(m, x).shape(), (Shape{2, 3, 4}));
  m.bias = wave({4});
  expect_close(xla_patched_nn_linear_forward(m, x), linear(x, m.weight, m.bias), 0);
  expect_close(xla_patched_nn_linear_forward(PlainModule{m.weight}, x), linear(x, m.weight), 0);
}

TEST(Barrier, NothingCrossesIt) {
  TESSERA_SPEC("T105");
  EightDevices e;
  auto f = [](Array x) {
    auto both = optimization_barrier(std::pair(2.0 * x, 3.0 * x));
    return sum(both.first + both.second);
  };
  auto g = jit([&](Array x) { return grad(f)(x); });
  Array x = wave({6});
  std::string text = g.trace(x).text();
  // The forward barrier of a linear function is not needed for its gradient; the one of the cotangents is.
  EXPECT_GE(count(text, "optimization_barrier"), 1) << text;
  auto both = jit([&](Array v) { return value_and_grad(f)(v); });
  EXPECT_EQ(count(both.trace(x).text(), "optimization_barrier"), 2) << both.trace(x).text();
  expect_close(g(x), full({6}, 5.0F), 0);
  expect_close(both(x).second, full({6}, 5.0F), 0);
  EXPECT_TRUE(optimization_barrier(std::vector<Array>{}).empty());
  auto none_in = jit([](Array v) {
    optimization_barrier(std::vector<Array>{});
    return v + 1;
  });
  EXPECT_EQ(count(none_in.trace(x).text(), "optimization_barrier"), 0);
  // Equal computations on both sides stay two.
  auto twice = jit([](Array v) { return exp(v) + exp(optimization_barrier(v)); });
  EXPECT_EQ(count(twice.trace(x).text(), "exp"), 2);
  expect_close(twice(x), 2.0 * exp(x), 1e-6);
}

struct Layer {
  Array weight, bias;
};

TEST(Barrier, OfTheGradientsOfALayer) {
  TESSERA_SPEC("T106");
  EightDevices e;
  Layer one{wave({64, 128}), wave({64})};
  Layer two{wave({1, 64}), wave({1})};
  auto layer = [](const Layer& p, const Array& x) { return linear(x, p.weight, p.bias); };
  auto last = backward_optimization_barrier(layer);
  auto loss = [&](const Layer& a, const Layer& b, const Array& x) { return sum(last(b, tanh(layer(a, x)))); };
  auto plain = [&](const Layer& a, const Layer& b, const Array& x) { return sum(layer(b, tanh(layer(a, x)))); };
  Array x = wave({2, 128});
  auto g = jit([&](Layer a, Layer b, Array v) { return value_and_grad<0, 1>(loss)(a, b, v); });
  std::string text = g.trace(one, two, x).text();
  EXPECT_EQ(count(text, "optimization_barrier"), 1) << text;
  EXPECT_EQ(count(text, "backward_barrier"), 0) << text;
  std::size_t at = text.find("optimization_barrier");
  std::size_t line = text.rfind('\n', at);
  std::string results = text.substr(line, at - line);
  EXPECT_NE(results.find("f32[1,64]"), std::string::npos) << text;
  EXPECT_NE(results.find("f32[1]"), std::string::npos) << text;
  EXPECT_NE(results.find("f32[2,64]"), std::string::npos) << text;
  EXPECT_LT(results.find("f32[1,64]"), results.find("f32[1],"));
  EXPECT_LT(results.find("f32[1],"), results.find("f32[2,64]"));
  // The first layer's gradients come after it.
  EXPECT_NE(text.find("f32[64,128] = dot_general", at), std::string::npos) << text;
  EXPECT_EQ(text.substr(0, at).find("f32[64,128] = dot_general"), std::string::npos) << text;
  auto [value, grads] = g(one, two, x);
  auto [want, want_grads] = value_and_grad<0, 1>(plain)(one, two, x);
  expect_close(value, want, 1e-6);
  expect_close(std::get<0>(grads).weight, std::get<0>(want_grads).weight, 1e-5);
  expect_close(std::get<1>(grads).bias, std::get<1>(want_grads).bias, 1e-6);
  // With a constant input two gradients pass.
  auto only = jit([&](Layer b, Array v) { return grad([&](const Layer& p) { return sum(last(p, v)); })(b); });
  std::string two_text = only.trace(two, wave({2, 64})).text();
  at = two_text.find("optimization_barrier");
  ASSERT_NE(at, std::string::npos) << two_text;
  line = two_text.rfind('\n', at);
  EXPECT_EQ(two_text.substr(line, at - line).find("f32[2,64]"), std::string::npos) << two_text;
  // Forward alone nothing changes.
  expect_close(jit(last)(two, wave({2, 64})), layer(two, wave({2, 64})), 1e-6);
  expect_close(last(two, wave({2, 64})), layer(two, wave({2, 64})), 0);
}

// --- a transformer block under tensor parallelism -----------------------------------------------------------------

using Part = std::map<std::string, Array>;
using Block = std::map<std::string, Part>;

Block block_parameters() {
  auto small = [](const Shape& s, double step) { return 0.2 * wave(s, step); };
  return {{"attn",
           {{"wq", small({32, 4, 8}, 0.11)},
            {"wk", small({32, 4, 8}, 0.13)},
            {"wv", small({32, 4, 8}, 0.17)},
            {"wo", small({4, 8, 32}, 0.19)}}},
          {"ln1", {{"scale", ones({32})}, {"bias", small({32}, 0.3)}}},
          {"ln2", {{"scale", ones({32})}, {"bias", small({32}, 0.4)}}},
          {"mlp",
           {{"w1", small({32, 64}, 0.23)},
            {"b1", small({64}, 0.5)},
            {"w2", small({64, 32}, 0.29)},
            {"b2", small({32}, 0.6)}}}};
}

Array block(Block p, const Array& x) {
  Array h = nn::layer_norm(x, p["ln1"]["scale"], p["ln1"]["bias"]);
  Array q = einsum("bsd,dhk->bshk", {h, p["attn"]["wq"]});
  Array k = einsum("bsd,dhk->bshk", {h, p["attn"]["wk"]});
  Array v = einsum("bsd,dhk->bshk", {h, p["attn"]["wv"]});
  Array weights = softmax(einsum("bshk,bthk->bhst", {q, k}) / std::sqrt(8.0), -1);
  Array mixed = einsum("bhst,bthk->bshk", {weights, v});
  Array y = x + einsum("bshk,hkd->bsd", {mixed, p["attn"]["wo"]});
  h = nn::layer_norm(y, p["ln2"]["scale"], p["ln2"]["bias"]);
  h = nn::gelu(matmul(h, p["mlp"]["w1"]) + p["mlp"]["b1"]);
  return y + matmul(h, p["mlp"]["w2"]) + p["mlp"]["b2"];
}

// "all_reduce tensor" for each step of a plan, sorted.
std::vector<std::string> steps_of(const CommPlan& plan) {
  std::vector<std::string> out;
  for (const auto& s : plan.steps()) {
    std::string line = s.op;
    for (const auto& a : s.axes) line += " " + a;
    out.push_back(line + " " + s.value);
  }
  std::sort(out.begin(), out.end());
  return out;
}

const PathRules& tensor_parallel() {
  static const PathRules rules = {{R"(attn\.w[qkv])", P(none, "tensor", none)},
                                  {R"(attn\.wo)", P("tensor", none, none)},
                                  {R"(mlp\.w1)", P(none, "tensor")},
                                  {R"(mlp\.b1)", P("tensor")},
                                  {R"(mlp\.w2)", P("tensor", none)}};
  return rules;
}

TEST(TransformerBlock, PathPatternsGiveTensorParallelism) {
  EightDevices e;
  Mesh mesh = make_mesh({2, 2, 2}, {"data", "fsdp", "tensor"});
  Block plain = block_parameters();
  Array x = wave({8, 16, 32}, 0.7);
  Array want = jit(block)(plain, x);

  auto marked = annotate_by_path(plain, mesh, tensor_parallel());
  EXPECT_EQ(marked.unmatched, (std::vector<std::string>{"ln1.bias", "ln1.scale", "ln2.bias", "ln2.scale", "mlp.b2"}));
  EXPECT_TRUE(marked.unused.empty());
  Array xs = mark_sharding(x, mesh, P(axes("data", "fsdp"), none, none));
  auto step = jit([&](Block p, Array v) {
    return mark_sharding(block(std::move(p), v), mesh, P(axes("data", "fsdp"), none, none));
  });
  expect_close(step(marked.tree, xs), want, 1e-5);
  // Each half ends in a product over the split dimension: one sum over the tensor axis for attention, one for the MLP.
  EXPECT_EQ(steps_of(step.comm_plan(marked.tree, xs)),
            (std::vector<std::string>{"all_reduce tensor f32[8,16,32]", "all_reduce tensor f32[8,16,32]"}));
}

TEST(TransformerBlock, ItsGradients) {
  EightDevices e;
  Mesh mesh = make_mesh({2, 2, 2}, {"data", "fsdp", "tensor"});
  Block plain = block_parameters();
  Array x = wave({8, 16, 32}, 0.7);
  auto loss = [](const Block& p, const Array& v) {
    Array y = block(p, v);
    return mean(y * y);
  };
  auto gradients = jit([&](Block p, Array v) { return grad(loss)(p, v); });
  Block want = gradients(plain, x);

  auto marked = annotate_by_path(plain, mesh, tensor_parallel());
  Array xs = mark_sharding(x, mesh, P(axes("data", "fsdp"), none, none));
  auto sharded =
      jit([&](Block p, Array v) { return annotate_by_path(grad(loss)(p, v), mesh, tensor_parallel()).tree; });
  Block got = sharded(marked.tree, xs);
  auto a = tree_leaves(got);
  auto b = tree_leaves(want);
  for (std::size_t i = 0; i < a.size(); ++i) expect_close(a[i], b[i], 1e-5);
  std::map<std::string, int> counts;
  CommPlan plan = sharded.comm_plan(marked.tree, xs);
  for (const auto& s : plan.steps()) {
    std::string key = s.op;
    for (const auto& axis : s.axes) key += " " + axis;
    ++counts[key];
  }
  // Forward: the two sums over the tensor axis; backward: one more before the second half. Every one of the twelve
  // parameters sums its gradient over the axes that split the batch, and those of the first normalization also over the
  // tensor axis, which is less than completing the cotangent that they are made of. All are small: ten of the sums are
  // one exchange, and two.
  EXPECT_EQ(counts, (std::map<std::string, int>{
                        {"all_reduce data fsdp", 1}, {"all_reduce data fsdp tensor", 1}, {"all_reduce tensor", 3}}));
}

}  // namespace
}  // namespace tessera::test
