// SPDX-License-Identifier: Apache-2.0
// Structs as trees: static members, names of members, and classes that list their members.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "support/meshes.h"
#include "tessera/tessera.h"

namespace tessera {
namespace {

using Floats = std::vector<float>;

enum class Activation { identity, relu };
struct Layer {
  Array w, b;
  Activation activation = Activation::identity;
};
struct Model {
  std::vector<Layer> layers;
  std::map<std::string, Array> norms;
  int depth = 0;
  std::string name;
  double rate = 0.5;
  bool train = true;
};
Array apply(const Model& m, Array x) {
  for (const Layer& l : m.layers) {
    x = matmul(x, l.w) + l.b;
    if (l.activation == Activation::relu) x = maximum(x, 0);
  }
  return m.train ? x * m.rate : x;
}
Model model(Activation activation = Activation::relu) {
  return {{{ones({2, 2}), zeros({2}), activation}}, {{"scale", ones({})}}, 1, "small", 0.5, true};
}

struct Settings {  // no operator==: compared member by member
  int heads = 2;
  std::vector<std::string> names;
};
struct Attention {
  Settings settings;
  Array q;
  std::optional<Array> mask;
  std::array<int, 2> window{1, 2};
};

class Cell {
 public:
  explicit Cell(int width) : w(ones({width})), width(width) {}
  Array w;
  int width;
};
TESSERA_TREE(Cell, w, width);

TEST(StructTrees, StaticMembersAreStructure) {
  Model m = model();
  EXPECT_EQ(tree_leaves(m).size(), 3U);
  EXPECT_EQ(tree_structure(m), tree_structure(model()));
  Model other = model();
  other.layers[0].activation = Activation::identity;
  EXPECT_NE(tree_structure(m), tree_structure(other));
  other = model();
  other.name = "large";
  EXPECT_NE(tree_structure(m), tree_structure(other));
  EXPECT_THROW(tree_map([](const Array& a, const Array&) { return a; }, m, other), ValueError);
  Model twice = tree_map([](const Array& a) { return 2 * a; }, m);
  EXPECT_EQ(twice.name, "small");
  EXPECT_EQ(twice.layers[0].activation, Activation::relu);
  EXPECT_EQ(twice.norms.at("scale").item<float>(), 2);
}

TEST(StructTrees, StaticMembersAreNotLeavesOfAnything) {
  Attention a{{4, {"q"}}, ones({2}), std::nullopt};
  EXPECT_EQ(tree_leaves(a).size(), 1U);
  Attention b = a;
  b.settings.names.emplace_back("k");
  EXPECT_NE(tree_structure(a), tree_structure(b));
  b = a;
  b.window[1] = 7;
  EXPECT_NE(tree_structure(a), tree_structure(b));
  static_assert(!is_tree_v<Settings>);
  static_assert(!is_tree_v<std::pair<int, std::string>>);
  static_assert(is_tree_v<std::pair<Array, int>>);
  static_assert(!is_tree_v<std::unordered_map<int, Array>>);
  struct Hidden {
    Array a;
    std::unordered_map<int, Array> b;  // arrays that nobody would see
  };
  static_assert(!is_tree_v<Hidden>);
}

TEST(StructTrees, JitTracesOncePerStaticValue) {
  auto f = jit(apply);
  Array x = -1 * ones({1, 2});
  EXPECT_EQ(f(model(), x).to_vector<float>(), (Floats{0, 0}));
  EXPECT_EQ(f(model(), x).to_vector<float>(), (Floats{0, 0}));
  EXPECT_EQ(f.stats().traces, 1);
  EXPECT_EQ(f(model(Activation::identity), x).to_vector<float>(), (Floats{-1, -1}));
  EXPECT_EQ(f.stats().traces, 2);
  Model eval = model(Activation::identity);
  eval.train = false;
  EXPECT_EQ(f(eval, x).to_vector<float>(), (Floats{-2, -2}));
  EXPECT_EQ(f.stats().traces, 3);
  auto step = jit([](Model m) {
    m.depth += 1;
    return tree_map([](const Array& a) { return a + 1; }, m);
  });
  Model next = step(step(model()));
  EXPECT_EQ(next.depth, 3);
  EXPECT_EQ(next.name, "small");
  EXPECT_EQ(next.layers[0].b.to_vector<float>(), (Floats{2, 2}));
}

TEST(StructTrees, StaticMembersPassThroughTransformations) {
  Array x = ones({1, 2});
  Model g = grad([&](Model m) { return sum(apply(m, x)); })(model());
  EXPECT_EQ(g.name, "small");
  EXPECT_EQ(g.layers[0].activation, Activation::relu);
  EXPECT_EQ(g.layers[0].b.to_vector<float>(), (Floats{0.5, 0.5}));
  auto [params, velocity] = optim::sgd(model(), g, optim::sgd_init(model()));
  EXPECT_EQ(params.depth, 1);
  auto mapped = vmap([](Cell c) {
    c.w = c.w * c.width;
    return c;
  })(Cell(3));
  EXPECT_EQ(mapped.w.to_vector<float>(), (Floats{3, 3, 3}));
  EXPECT_EQ(mapped.width, 3);
  auto [carry, ys] = scan([](Cell c, Array y) { return std::pair(Cell(c), y * c.width); }, Cell(2), ones({3}));
  EXPECT_EQ(carry.width, 2);
  EXPECT_EQ(ys.to_vector<float>(), (Floats{2, 2, 2}));
  EXPECT_THROW(scan(
                   [](Cell c, Array y) {
                     c.width += 1;
                     return std::pair(c, y);
                   },
                   Cell(2), ones({3})),
               TypeError);
  auto wider = [](Cell c) {
    c.width += 1;
    return c;
  };
  EXPECT_THROW(cond(
                   Array(true), wider, [](Cell c) { return c; }, Cell(2)),
               TypeError);
  EXPECT_EQ(jit([](Array a, const std::string& how) { return how == "twice" ? 2 * a : a; })(x, "twice").size(), 2);
}

TEST(StructTrees, LeavesHaveTheNamesOfMembers) {
  EXPECT_EQ(tree_paths(model()), (std::vector<std::string>{"layers[0].w", "layers[0].b", "norms.scale"}));
  EXPECT_EQ(tree_paths(std::map<std::string, Model>{{"encoder", model()}})[0], "encoder.layers[0].w");
  EXPECT_EQ(tree_paths(std::tuple(Cell(2), 3, ones({}))), (std::vector<std::string>{"[0].w", "[2]"}));
  struct Local {
    Array first_of_two;
    std::vector<int> static_one;
    Array Second2;
  };
  EXPECT_EQ(tree_paths(Local{}), (std::vector<std::string>{"first_of_two", "Second2"}));
}

TEST(StructTrees, CheckpointsHaveTheNamesToo) {
  HostArrays named = named_leaves(model());
  EXPECT_TRUE(named.contains("layers[0].w"));
  named.at("layers[0].b") = HostArray::from(Floats{7, 8});
  EXPECT_EQ(with_named_leaves(model(), named).layers[0].b.to_vector<float>(), (Floats{7, 8}));
  HostArrays old;  // as they were before members had names
  for (const auto& [name, value] : HostArrays{{".0[0].0", named.at("layers[0].w")},
                                              {".0[0].1", named.at("layers[0].b")},
                                              {".1.scale", named.at("norms.scale")}}) {
    old[name] = value;
  }
  EXPECT_EQ(with_named_leaves(model(), old).layers[0].b.to_vector<float>(), (Floats{7, 8}));
}

TEST(StructTrees, MessagesNameTheLeaf) {
  test::EightDevices eight;
  auto s = NamedSharding(eight.A(), P("x"));
  Model m = model();
  std::string message = test::error_of<ValueError>([&] {
    jit(apply, {.in_shardings = {s, s, s, s}})(m, ones({4, 2}));
  });
  EXPECT_NE(message.find("leaf layers[0].w of argument 0"), std::string::npos) << message;
}

}  // namespace
}  // namespace tessera
