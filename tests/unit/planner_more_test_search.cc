// SPDX-License-Identifier: Apache-2.0
// Shardings that the search finds, beside those that people write, and with the values of one device.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "hlo/module.h"
#include "planner/search.h"
#include "planner/simulate.h"
#include "support/spmd_sketch.h"
#include "tessera/tessera.h"

namespace tessera {
namespace {

Array like(Shape shape, DType dtype = float32) { return without_data({std::move(shape), dtype}); }

struct Mlp {
  Array up, down;
};
std::string mlp_step(std::int64_t rows, std::int64_t width, std::int64_t hidden, std::size_t layers) {
  auto step = jit([](const std::vector<Mlp>& p, const Array& x) {
    auto loss = [](const std::vector<Mlp>& q, const Array& b) {
      Array h = b;
      for (const auto& l : q) h = h + matmul(tanh(matmul(h, l.up)), l.down);
      return mean(h * h);
    };
    auto g = grad(loss)(p, x);
    return tree_map([](const Array& w, const Array& d) { return w - 0.1 * d; }, p, g);
  });
  return step.lower(std::vector<Mlp>(layers, {like({width, hidden}), like({hidden, width})}), like({rows, width}))
      .as_text();
}

// The step of a program whose arguments have these layouts.
Simulation written(const ir::Module& m, const ir::MeshAxes& mesh, const std::vector<std::string>& arguments,
                   const ClusterModel& cluster) {
  ir::Module over = ir::module_over(m.graph, mesh);
  for (std::size_t i = 0; i < over.inputs.size(); ++i) {
    over.inputs[i].layout = test::layout(arguments[i % arguments.size()], mesh);
  }
  return planner::simulate(over, cluster);
}

TEST(Search, FindsDataParallelismForManyRows) {
  const ir::Module m = hlo::import_module(mlp_step(65536, 512, 1024, 2));
  const ClusterModel cluster = ClusterModel::preset("h100-dgx");
  const planner::SearchResult r = planner::search(m, cluster, {});
  const planner::MeshPlan& best = r.plans.front();
  ASSERT_FALSE(best.decisions.empty()) << planner::explain(r);
  EXPECT_EQ(best.arguments.back().dims[0].size(), best.mesh.sizes.size()) << planner::explain(r);
  EXPECT_LT(best.price.step, r.replicated.step / 4) << planner::explain(r);
  EXPECT_NE(planner::explain(r).find("sdy.sharding"), std::string::npos);
}

TEST(Search, RepeatedLayersAreOneGroup) {
  const ir::Module m = hlo::import_module(mlp_step(1024, 256, 1024, 12));
  const planner::SearchResult r = planner::search(m, ClusterModel::preset("h100-dgx"), {});
  EXPECT_EQ(m.inputs.size(), 25U);
  EXPECT_LE(std::ranges::count_if(r.groups, [](const auto& g) { return !g.inside(); }), 9) << planner::explain(r);
}

// Candidates of a program with so many equal layers are priced by a few of them.
TEST(Search, ManyLayersAsFastAsHandWrittenPlans) {
  const ClusterModel cluster = ClusterModel::preset("h100-dgx");
  const ir::Module m = hlo::import_module(mlp_step(4096, 4096, 16384, 40));
  ASSERT_GT(m.graph->eqns.size(), 400U) << "a large program";
  const planner::SearchResult r = planner::search(m, cluster, {});
  const planner::MeshPlan& best = r.plans.front();
  const Simulation found = planner::simulate(
      [&] {
        ir::Module over = ir::module_over(m.graph, best.mesh);
        for (std::size_t i = 0; i < over.inputs.size(); ++i) over.inputs[i].layout = best.arguments[i];
        return over;
      }(),
      cluster);
  EXPECT_NEAR(best.price.step, found.step, 0.01 * found.step) << "priced as a whole in the end";
  double written_best = found.step;
  for (const char* rows : {"-, -", "x, -", "y, -", "x.y, -"}) {
    for (const auto& [up, down] :
         {std::pair{"-, -", "-, -"}, std::pair{"-, y", "y, -"}, std::pair{"-, x.y", "x.y, -"}}) {
      ir::Module over = ir::module_over(m.graph, test::mesh_of("x:4, y:2"));
      for (std::size_t i = 0; i < over.inputs.size(); ++i) {
        const char* text = i + 1 == over.inputs.size() ? rows : i % 2 == 0 ? up : down;
        over.inputs[i].layout = test::layout(text, *over.mesh);
      }
      written_best = std::min(written_best, planner::simulate(over, cluster).step);
    }
  }
  EXPECT_LE(best.price.step, 1.01 * written_best) << planner::explain(r);
}

// Candidates are priced without the trials of other layouts that a program which will run gets: a hundredth is left to
// these.
TEST(Search, AsFastAsHandWrittenPlans) {
  const ClusterModel cluster = ClusterModel::preset("h100-dgx");
  const ir::MeshAxes line = test::mesh_of("x:8");
  const ir::MeshAxes grid = test::mesh_of("x:4, y:2");
  for (auto [rows, width, hidden] :
       {std::tuple{32768, 1024, 4096}, std::tuple{256, 8192, 32768}, std::tuple{8192, 4096, 4096}}) {
    const ir::Module m = hlo::import_module(mlp_step(rows, width, hidden, 2));
    const planner::SearchResult r = planner::search(m, cluster, {});
    const double best = r.plans.front().price.step;
    const std::vector<std::pair<ir::MeshAxes, std::vector<std::string>>> plans{
        {line, {"-, -", "-, -", "-, -", "-, -", "x, -"}},  // data parallel
        {line, {"-, x", "x, -", "-, x", "x, -", "-, -"}},  // tensor parallel
        {line, {"x, -", "-, x", "x, -", "-, x", "x, -"}},  // parameters sharded
        {grid, {"-, y", "y, -", "-, y", "y, -", "x, -"}},  // both
    };
    for (const auto& [mesh, arguments] : plans) {
      EXPECT_LE(best, written(m, mesh, arguments, cluster).step * 1.01) << rows << "\n" << planner::explain(r);
    }
  }
}

TEST(Search, ShardsParametersWhereMemoryIsShort) {
  const ir::Module m = hlo::import_module(mlp_step(4096, 2048, 8192, 4));
  const ClusterModel cluster = ClusterModel::preset("h100-dgx");
  const planner::SearchResult roomy = planner::search(m, cluster, {});
  const std::int64_t limit = roomy.replicated.memory / 4;
  const planner::SearchResult tight = planner::search(m, cluster, {.memory_limit = limit});
  EXPECT_TRUE(tight.plans.front().fits) << planner::explain(tight);
  EXPECT_LE(tight.plans.front().price.memory, limit);
  EXPECT_GE(tight.plans.front().price.step, roomy.plans.front().price.step * 0.999)
      << planner::explain(tight) << planner::explain(roomy);
}

TEST(Search, ProgramsThatPlaceValuesThemselves) {
  const AbstractMesh mesh{{"x", 2}};
  auto f = jit([&](const Array& x) { return with_sharding_constraint(x * 2, NamedSharding(mesh, P("x"))); },
               {.in_shardings = {NamedSharding(mesh, P("x"))}});
  const Array x = without_data({{8}, float32});
  const ir::Module m = hlo::import_module(f.lower(x).as_text({.shardy = true}));
  EXPECT_THROW(planner::search(m, ClusterModel::preset("h100-dgx"), {}), UnimplementedError);
  EXPECT_THROW(
      planner::search(hlo::import_module(mlp_step(8, 8, 8, 1)), ClusterModel::preset("h100-dgx"), {.devices = 9}),
      ValueError);
}

}  // namespace
}  // namespace tessera
