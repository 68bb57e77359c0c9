// SPDX-License-Identifier: Apache-2.0
// The correctness test of the partitioner: random programs under random shardings, position by position.
#include <gtest/gtest.h>

#include "base/strings.h"
#include "ir/op_def.h"
#include "ops/ops.h"
#include "spmd/spmd.h"
#include "support/random_graphs.h"
#include "support/series.h"
#include "support/spec_report.h"
#include "support/spmd_simulator.h"

namespace tessera {
namespace {

void check_program(std::uint64_t seed, const ir::MeshAxes& mesh, const test::RandomOptions& options) {
  test::RandomProgram p = test::random_program(seed, mesh, options);
  ir::GraphPtr partitioned;
  std::string difference;
  try {
    ir::verify(*p.module.graph);
    partitioned = spmd::partition(p.module, spmd::propagate(p.module));
    ir::verify(*partitioned);
    auto got = test::run_partitioned(*partitioned, p.args);
    for (std::size_t i = 0; i < got.size() && difference.empty(); ++i) {
      std::string d = test::difference(got[i], p.expected[i], p.tolerance);
      if (!d.empty()) difference = str("output ", i, " ", d);
    }
    // Without the ops' ways along split dimensions: the values are those of the reference again, and no byte less
    // moves.
    ir::Module undivided = p.module;
    undivided.divides = false;
    ir::GraphPtr whole = spmd::partition(undivided, spmd::propagate(undivided));
    got = test::run_partitioned(*whole, p.args);
    for (std::size_t i = 0; i < got.size() && difference.empty(); ++i) {
      std::string d = test::difference(got[i], p.expected[i], p.tolerance);
      if (!d.empty()) difference = str("undivided: output ", i, " ", d);
    }
    auto bytes = [](const ir::Graph& g) { return spmd::comm_plan(g).bytes_per_device(); };
    ir::GraphPtr apart = spmd::partition_apart(p.module, spmd::propagate(p.module));
    if (bytes(*partitioned) > bytes(*apart)) difference = str(bytes(*partitioned), " bytes, apart ", bytes(*apart));
    ir::GraphPtr chosen = spmd::partition(p.module);
    ir::verify(*chosen);
    got = test::run_partitioned(*chosen, p.args);
    for (std::size_t i = 0; i < got.size() && difference.empty(); ++i) {
      std::string d = test::difference(got[i], p.expected[i], p.tolerance);
      if (!d.empty()) difference = str("chosen layouts: output ", i, " ", d);
      if (!(chosen->layout(chosen->outputs[i]) == partitioned->layout(partitioned->outputs[i]))) {
        difference = str("chosen layouts: output ", i, " has another layout");
      }
    }
    if (bytes(*chosen) > bytes(*partitioned)) difference = str(bytes(*chosen), " bytes, was ", bytes(*partitioned));
    if (bytes(*partitioned) > bytes(*whole)) difference = str(bytes(*partitioned), " bytes, undivided ", bytes(*whole));
  } catch (const Error& error) {
    difference = error.what();
  }
  ASSERT_EQ(difference, "") << "seed " << seed << ", " << mesh.sizes.size() << " axes\n"
                            << ir::to_string(*p.module.graph) << "\n"
                            << (partitioned ? ir::to_string(*partitioned) : "not partitioned");
  for (std::size_t i = 0; i < p.module.inputs.size(); ++i) {
    if (!p.module.inputs[i].layout) continue;
    ASSERT_EQ(partitioned->layout(partitioned->inputs[i]), *p.module.inputs[i].layout) << "seed " << seed;
  }
  for (std::size_t i = 0; i < p.module.outputs.size(); ++i) {
    if (!p.module.outputs[i].layout) continue;
    ASSERT_EQ(partitioned->layout(partitioned->outputs[i]), *p.module.outputs[i].layout) << "seed " << seed;
  }
}

void check_many(std::uint64_t first, int count, const test::RandomOptions& options) {
  for (const auto& mesh : test::test_meshes()) {
    for (int i = 0; i < count && !testing::Test::HasFatalFailure(); i += test::case_stride(16)) {
      check_program(first + static_cast<std::uint64_t>(i), mesh, options);
    }
  }
}

// What relates the values is found once: runs of it neither know of those before nor differ from a fresh one.
TEST(Propagation, RunsAgainFromTheBeginning) {
  for (const auto& mesh : test::test_meshes()) {
    for (std::uint64_t seed = 1; seed < 40; ++seed) {
      const test::RandomProgram p = test::random_program(seed, mesh, {.equations = 8});
      const ir::Graph& g = *p.module.graph;
      spmd::Propagation again(p.module);
      const auto free = again.run();
      ASSERT_EQ(free, spmd::propagate(p.module)) << "seed " << seed;
      for (const auto& e : g.eqns) {
        if (e.op->traits().collective || e.op == &ops::def::sharding_constraint) continue;
        const ir::Type& type = g.type(e.out[0]);
        const spmd::FixedLayout whole{e.out[0], ir::Layout::replicated(type.rank())};
        spmd::FixedLayout split = whole;
        if (type.rank() > 0 && type.shape[0] % mesh.sizes[0] == 0) split.layout.dims[0] = {0};
        for (const auto& fixed : {whole, split}) {
          ASSERT_EQ(again.run({&fixed, 1}), spmd::propagate(p.module, {&fixed, 1})) << "seed " << seed;
        }
      }
      ASSERT_EQ(again.run(), free) << "seed " << seed;
    }
  }
}

TEST(RandomPrograms, UsualOps) { check_many(1, 150, {.equations = 8, .samples = false}); }
TEST(RandomPrograms, EveryOp) { check_many(1000, 150, {.equations = 8}); }
TEST(RandomPrograms, Uneven) { check_many(2000, 150, {.equations = 6, .uneven = true}); }
TEST(RandomPrograms, Long) { check_many(3000, 30, {.equations = 40}); }

}  // namespace
}  // namespace tessera
