// SPDX-License-Identifier: Apache-2.0
// The verification mode: what it finds, and what it leaves alone.
#include <gtest/gtest.h>

#include "engines/cpu/passes/fuse.h"
#include "engines/cpu/verify_steps.h"
#include "engines/engine_support.h"
#include "ops/ops.h"
#include "runtime/verify_executable.h"
#include "support/graphs.h"
#include "tessera/config.h"
#include "tessera/error.h"

namespace tessera::test {
namespace {

using cpu::FusionGroup;
using cpu::Role;
using ir::Value;
using ir::Values;

// Runs one step of a graph of f32 inputs on one device; the results are dropped.
struct OneStep {
  explicit OneStep(ir::Graph made)
      : graph(on_one_device(std::move(made))),
        memory(runtime::MemoryPool::create()),
        context(graph->mesh, {{0}, 0}, memory) {}
  void run(const cpu::Step& step) {
    cpu::Run run{*memory};
    cpu::Frame frame{run, cpu::Slots(graph->num_values()), {}};
    for (std::size_t i = 0; i < graph->inputs.size(); ++i) {
      HostArray a = host(graph->type(graph->inputs[i]), static_cast<unsigned>(i + 1));
      auto b = memory->allocate(a.nbytes());
      std::memcpy(b->data(), a.data(), at(a.nbytes()));
      frame.slots.own(at(graph->inputs[i])) = {b};
    }
    step.run(frame);
  }
  ir::GraphPtr graph;
  std::shared_ptr<runtime::MemoryPool> memory;
  cpu::Context context;
};

// A group of all equations but constants, as a planner with a fault would make it: the transposing repetition counts as
// the same rows.
FusionGroup faulty_group(const ir::Graph& g) {
  FusionGroup group;
  group.space = {3, 3, 7};
  group.dims.resize(3);
  group.split = 2;
  for (std::size_t i = 0; i < g.eqns.size(); ++i) {
    if (g.eqns[i].in.empty()) continue;
    group.eqns.push_back(i);
    group.produced[g.eqns[i].out[0]] = Role::Row;
  }
  group.results = g.outputs;
  return group;
}

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const VerificationError& e) {
    return e.what();
  }
  return "";
}

TEST(Verify, NamesTheEquationThatAFusedBlockGetsWrong) {
  ir::Builder b;
  Value x = b.input({DType::F32, {3, 3, 7}});
  Value s = ops::reduce_sum(x, {2});
  b.set_loc({"model.cc", 7, nullptr});
  OneStep one(b.finish(Values{ops::neg(ops::broadcast_in_dim(s, {3, 3, 1}, {1, 0}))}));
  FusionGroup group = faulty_group(*one.graph);
  auto step =
      cpu::make_checked_step(*one.graph, group, cpu::make_fused_step(*one.graph, group, one.context), one.context);
  std::string message = message_of([&] { one.run(*step); });
  EXPECT_NE(message.find("broadcast_in_dim at model.cc:7"), std::string::npos) << message;
  EXPECT_NE(message.find("element [0,1,0]"), std::string::npos) << message;
}

TEST(Verify, ComparesWhatTheStepItselfStores) {
  ir::Builder b;
  ir::Builder c;
  Value x = b.input({DType::F32, {5, 4}});
  Value y = c.input({DType::F32, {5, 4}});
  OneStep right(b.finish(Values{ops::neg(ops::exp(x))}));
  OneStep wrong(c.finish(Values{ops::abs(ops::exp(y))}));
  auto groups = cpu::fusion_groups(*right.graph, true);
  ASSERT_EQ(groups.size(), 1U);
  auto other = cpu::fusion_groups(*wrong.graph, true);
  auto step = cpu::make_checked_step(*right.graph, groups[0],
                                     cpu::make_fused_step(*wrong.graph, other[0], wrong.context), right.context);
  std::string message = message_of([&] { right.run(*step); });
  EXPECT_NE(message.find("neg"), std::string::npos) << message;
}

TEST(Verify, LeavesRightBlocksAlone) {
  ConfigScope scope(&Config::verify, true);
  auto g = make_graph({{DType::F32, {9, 4100}}}, [](ir::Builder&, const Values& in) {
    Value e = ops::exp(in[0] - ops::broadcast_in_dim(ops::reduce_max(in[0], {1}), in[0].shape(), {0}));
    Value p = e / ops::broadcast_in_dim(ops::reduce_sum(e, {1}), in[0].shape(), {0});
    return Values{ops::convert(ops::lt(p, ops::full(*p.builder, 1e-4, p.type())), DType::I32), p};
  });
  auto exe = compile(client_of(1), on_one_device(*g));
  auto& memory = *runtime::runtime_of(client_of(1)).memory;
  HostArray a = host(g->type(g->inputs[0]), 1);
  auto b = memory.allocate(a.nbytes());
  std::memcpy(b->data(), a.data(), at(a.nbytes()));
  std::vector<ShardBuffers> args;
  args.push_back({std::move(b)});
  EXPECT_EQ(exe->run(std::move(args)).size(), 2U);
}

TEST(Verify, FreshMemoryIsNotANumber) {
  auto memory = runtime::MemoryPool::create();
  ConfigScope scope(&Config::verify, true);
  auto b = memory->allocate(64);
  EXPECT_TRUE(std::isnan(static_cast<float*>(b->data())[5]));
  EXPECT_TRUE(std::isnan(static_cast<double*>(b->data())[7]));
}

TEST(Verify, PlainRunsShakeLastPlacesOnly) {
  auto g = make_graph({{DType::F32, {40, 30}}}, [](ir::Builder&, const Values& in) {
    return Values{ops::reduce_sum(in[0], {1}), ops::neg(in[0])};
  });
  Client client = client_of(1);
  auto& engine = *runtime::runtime_of(client).engine;
  auto plain = dynamic_cast<runtime::PlainCompiler&>(engine).compile_plainly(on_one_device(*g), devices_of(client));
  HostArray a = host(g->type(g->inputs[0]), 1);
  auto run = [&](std::uint64_t shake) {
    auto b = runtime::runtime_of(client).memory->allocate(a.nbytes());
    std::memcpy(b->data(), a.data(), at(a.nbytes()));
    return plain->run({{b}}, shake);
  };
  auto still = run(0);
  auto moved = run(5);
  int changed = 0;
  for (std::int64_t i = 0; i < 40; ++i) {
    double x = get_element(DType::F32, still[0][0]->data(), i);
    double y = get_element(DType::F32, moved[0][0]->data(), i);
    changed += x != y;
    EXPECT_NEAR(x, y, 1e-5);
  }
  EXPECT_GT(changed, 20);
  EXPECT_EQ(std::memcmp(still[1][0]->data(), moved[1][0]->data(), 40 * 30 * 4), 0);
}

}  // namespace
}  // namespace tessera::test
