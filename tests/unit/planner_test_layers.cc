// SPDX-License-Identifier: Apache-2.0
// Programs of equal layers without most of these: beside programs that were written with fewer, and what whole ones
// cost beside what follows from two small ones.
#include <gtest/gtest.h>

#include <random>

#include "hlo/module.h"
#include "planner/few_layers.h"
#include "planner/plan_pricer.h"
#include "runtime/program_costs.h"
#include "spmd/spmd.h"
#include "support/spmd_sketch.h"
#include "tessera/tessera.h"

namespace tessera {
namespace {

constexpr std::int64_t kWidth = 64;

Array like(Shape shape) { return without_data({std::move(shape), float32}); }

struct Layer {
  Array gain, query, keys, up, down;
};
std::vector<Layer> layers(std::size_t count) {
  return {count,
          {like({kWidth}), like({kWidth, kWidth}), like({kWidth, kWidth}), like({kWidth, 256}), like({256, kWidth})}};
}
using Model = std::function<Array(const std::vector<Layer>&, const Array&)>;

// Attention over all rows, and a perceptron.
Array layer(const Array& x, const Layer& l) {
  const Array h = x * rsqrt(mean(x * x, {.axis = Dims{1}, .keepdims = true}) + 1e-5) * l.gain;
  const Array y = x + matmul(softmax(matmul(matmul(h, l.query), transpose(matmul(h, l.keys))), 1), h);
  return y + matmul(tanh(matmul(y, l.up)), l.down);
}
Array model(const std::vector<Layer>& p, const Array& x) {
  Array h = x;
  for (const auto& l : p) h = layer(h, l);
  return mean(h * h);
}

template <class F>
ir::Module program(const F& f, std::size_t count) {
  return hlo::import_module(jit(f).lower(layers(count), like({512, kWidth})).as_text());
}
// A training step of Adam's kind: moments, all of them after the gradients.
ir::Module training(std::size_t count) {
  auto step = [](const std::vector<Layer>& p, const Array& x) {
    auto [value, g] = value_and_grad(model)(p, x);
    auto next = tree_map([](const Array& w, const Array& d) { return w - 0.1 * d / (sqrt(d * d) + 1e-8); }, p, g);
    return std::pair{value, next};
  };
  return program(step, count);
}

TEST(FewLayers, IsTheProgramWrittenWithFewer) {
  auto few = planner::few_layers(*program(model, 20).graph);
  ASSERT_TRUE(few);
  EXPECT_TRUE(ir::equal(*few->fewer.graph, *program(model, 2).graph)) << to_string(*few->fewer.graph);
  EXPECT_TRUE(ir::equal(*few->more.graph, *program(model, 4).graph)) << to_string(*few->more.graph);
  EXPECT_EQ(few->times, 9);
  EXPECT_EQ(few->fewer.inputs, (std::vector<std::size_t>{0, 1, 2, 3, 4, 95, 96, 97, 98, 99, 100}));
  // Equal parts begin within the first layer, whose operand has no gradient, and end within the last one.
  few = planner::few_layers(*training(20).graph);
  ASSERT_TRUE(few);
  EXPECT_TRUE(ir::equal(*few->fewer.graph, *training(3).graph)) << to_string(*few->fewer.graph);
  EXPECT_TRUE(ir::equal(*few->more.graph, *training(5).graph)) << to_string(*few->more.graph);
  EXPECT_EQ(few->times, 8.5);
}

TEST(FewLayers, NoneWhereLayersAreNotEqualOrMeet) {
  auto none = [](const Model& f, std::size_t count = 20) {
    return !planner::few_layers(*program(f, count).graph).has_value();
  };
  EXPECT_FALSE(none(model));
  EXPECT_TRUE(none(model, 11)) << "few";
  EXPECT_TRUE(none([](const auto&, const Array& x) { return sin(x); })) << "no layers";
  EXPECT_TRUE(none([](const auto& p, const Array& x) {
    Array h = x;
    for (std::size_t l = 0; l < p.size(); ++l) h = layer(h, p[0]);
    return h;
  })) << "all of one layer's arguments";
  EXPECT_TRUE(none([](const auto& p, const Array& x) {
    Array h = x;
    for (std::size_t l = 0; l < p.size(); ++l) h = l % 10 == 5 ? sin(layer(h, p[l])) : layer(h, p[l]);
    return h;
  })) << "other ones between them";
  EXPECT_TRUE(none([](const auto& p, const Array& x) {
    std::vector<Array> all;
    Array h = x;
    for (const auto& l : p) all.push_back(h = layer(h, l));
    return concatenate(all, 0);
  })) << "one operation reads all of them";
}

TEST(FewLayers, SumsOverLayersAreParts) {
  const Model f = [](const std::vector<Layer>& p, const Array& x) {
    Array h = x;
    Array all = zeros({});
    for (const auto& l : p) all = all + sum(h = layer(h, l));
    return all;
  };
  const auto few = planner::few_layers(*program(f, 16).graph);
  ASSERT_TRUE(few);
  EXPECT_TRUE(ir::equal(*few->fewer.graph, *program(f, 2).graph)) << to_string(*few->fewer.graph);
}

// Random plans of a training step of 20 layers: prices from two and four of them beside those of the whole program.
TEST(FewLayers, PricesAreThoseOfTheWholeProgram) {
  const ir::Module m = training(20);
  const ClusterModel cluster = ClusterModel::preset("h100-dgx");
  const ir::MeshAxes mesh = test::mesh_of("x:4, y:2");
  const std::vector<planner::ValueGroup> groups = planner::argument_groups(*m.graph, m.inputs.size());
  std::atomic<std::int64_t> evaluated = 0;
  const planner::SearchOptions options{8, cluster.device.memory};
  planner::PlanPricer pricer(m, groups, mesh, cluster, options, planner::Effort::Rough, evaluated);
  std::mt19937 rng(7);
  for (int plan = 0; plan < 12; ++plan) {
    planner::Chosen chosen(groups.size());
    ir::Module whole = ir::module_over(m.graph, mesh);
    for (std::size_t g = 0; g < groups.size(); ++g) {
      auto& layout = chosen[g].emplace(ir::Layout::replicated(groups[g].type.rank()));
      for (std::uint8_t axis : {0, 1}) {
        const auto d = rng() % (layout.dims.size() + 1);
        if (d < layout.dims.size()) layout.dims[d].push_back(axis);
      }
      for (auto i : groups[g].arguments) whole.inputs[i].layout = layout;
    }
    whole = spmd::prepared(whole);
    const auto graph = spmd::partition_apart(whole, spmd::propagate(whole));
    const double step = pricer.timeline_of(*graph).seconds;
    const auto memory = static_cast<double>(
        runtime::memory_of(*graph, std::vector<bool>(m.inputs.size())).peak_memory_in_bytes.value_or(0));
    const planner::Price price = pricer.price(chosen);
    EXPECT_NEAR(price.step, step, 0.01 * step) << "plan " << plan;
    EXPECT_NEAR(static_cast<double>(price.memory), memory, 0.02 * memory) << "plan " << plan;
  }
  EXPECT_EQ(evaluated, 12);
}

}  // namespace
}  // namespace tessera
