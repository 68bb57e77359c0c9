// SPDX-License-Identifier: Apache-2.0
// Partitioning through cond, while, scan and calls.
#include <gtest/gtest.h>

#include "base/strings.h"
#include "ir/op_def.h"
#include "ops/ops.h"
#include "ops/shared_attrs.h"
#include "support/random_graphs.h"
#include "support/spmd_simulator.h"
#include "support/spmd_sketch.h"

namespace tessera {
namespace {

using ir::Builder;
using ir::Value;
using ir::Values;
using test::layout;
using test::module;
using test::partitioned;
using test::sketch;

const ir::MeshAxes kMesh = test::mesh_of("data:4, model:2");

Value matmul(Value a, Value b) { return ops::dot_general(a, b, {{1}, {0}, {}, {}}); }
ir::Type f32(Shape shape) { return {DType::F32, std::move(shape)}; }

// The program as it is, and partitioned position by position, on the same random arguments.
void expect_same(const ir::Module& p, std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::vector<HostArray> args;
  for (auto v : p.graph->inputs) args.push_back(test::random_array(rng, p.graph->type(v)));
  auto want = test::evaluate(*p.graph, args);
  auto got = test::run_partitioned(*partitioned(p), args);
  for (std::size_t i = 0; i < want.size(); ++i)
    EXPECT_EQ(test::difference(got[i], want[i], 1e-4), "") << "output " << i;
}

// (w, h, x) -> (tanh(h @ w + x), sum over features of h)
ir::GraphPtr step_body() {
  Builder b;
  Value w = b.input(f32({8, 8}));
  Value h = b.input(f32({16, 8}));
  Value x = b.input(f32({16, 8}));
  Value next = ops::tanh(matmul(h, w) + x);
  return b.finish_shared(Values{next, ops::reduce_sum(h, {1})});
}

Values scan_steps(Builder& b, ir::GraphPtr body, std::int64_t length = 5) {
  Value w = b.input(f32({8, 8}));
  Value h = b.input(f32({16, 8}));
  Value xs = b.input(f32({length, 16, 8}));
  return b.add(ops::def::scan, {w, h, xs}, ir::make_attrs(ops::Scan{std::move(body), length, false, 1, 1}));
}

TEST(Control, ScanCarriesALayoutThroughItsBody) {
  Builder b;
  auto p = module(b, scan_steps(b, step_body()), kMesh, {"-, -", "data, -", "?"});
  EXPECT_EQ(sketch(*partitioned(p)),
            "(a@[-, -], b@[data, -], c@[-, data, -])\n"
            "d@[data, -], e@[-, data] = scan a b c\n"
            "  (a@[-, -], b@[data, -], c@[data, -])\n"
            "  d@[data, -] = dot_general b a\n"
            "  e@[data, -] = add d c\n"
            "  f@[data, -] = tanh e\n"
            "  g@[data] = reduce_sum b\n"
            "  -> f g\n"
            "-> d e\n");
  expect_same(p, 1);
}

TEST(Control, ScanGathersWhatDoesNotChangeBeforeTheLoop) {
  Builder b;
  auto p = module(b, scan_steps(b, step_body()), kMesh, {"data, -", "data, -", "-, data, -"});
  auto g = partitioned(p);
  EXPECT_EQ(sketch(*g),
            "(a@[data, -], b@[data, -], c@[-, data, -])\n"
            "d@[-, -] = all_gather(data) a\n"
            "e@[data, -], f@[-, data] = scan d b c\n"
            "  (a@[-, -], b@[data, -], c@[data, -])\n"
            "  d@[data, -] = dot_general b a\n"
            "  e@[data, -] = add d c\n"
            "  f@[data, -] = tanh e\n"
            "  g@[data] = reduce_sum b\n"
            "  -> f g\n"
            "-> e f\n");
  expect_same(p, 2);
}

// (sum, x) -> sum + x^T x, with x split along its rows: every round adds to what positions have so far.
TEST(Control, ASumCarriedThroughALoopIsTakenAfterIt) {
  Builder inner;
  Value sum = inner.input(f32({8, 8}));
  Value x = inner.input(f32({16, 8}));
  auto body = inner.finish_shared(Values{sum + matmul(ops::transpose(x, {1, 0}), x)});
  Builder b;
  Value start = b.input(f32({8, 8}));
  Value xs = b.input(f32({5, 16, 8}));
  auto p = module(b, b.add(ops::def::scan, {start, xs}, ir::make_attrs(ops::Scan{body, 5, false, 0, 1})), kMesh,
                  {"-, -", "-, data, -"});
  auto g = partitioned(p);
  auto plan = spmd::comm_plan(*g);
  ASSERT_EQ(plan.steps().size(), 1U) << sketch(*g);
  EXPECT_EQ(plan.steps()[0].op, "all_reduce");
  EXPECT_EQ(plan.steps()[0].times, 1);
  expect_same(p, 9);
}

TEST(Control, StackedInputsChangeDimensionBeforeTheLoop) {
  Builder b;
  auto p = module(b, scan_steps(b, step_body(), 8), kMesh, {"-, -", "data, -", "data, -, -"});
  EXPECT_EQ(sketch(*partitioned(p)),
            "(a@[-, -], b@[data, -], c@[data, -, -])\n"
            "d@[-, data, -] = all_to_all(data) c\n"
            "e@[data, -], f@[-, data] = scan a b d\n"
            "  (a@[-, -], b@[data, -], c@[data, -])\n"
            "  d@[data, -] = dot_general b a\n"
            "  e@[data, -] = add d c\n"
            "  f@[data, -] = tanh e\n"
            "  g@[data] = reduce_sum b\n"
            "  -> f g\n"
            "-> e f\n");
  expect_same(p, 6);
}

TEST(Control, UnequalReplicasStayApartInALoop) {
  Builder b;
  auto p = module(b, scan_steps(b, step_body()), kMesh, {"-, -", "data, -", "-, data, -"});
  p.inputs[0].layout->vary = 2;  // model
  ir::GraphPtr g = partitioned(p);
  EXPECT_EQ(to_string(g->layout(g->outputs[0]), kMesh), "[data, -] vary(model)");
  EXPECT_EQ(to_string(g->layout(g->outputs[1]), kMesh), "[-, data] vary(model)");
  std::mt19937_64 rng(8);
  std::vector<HostArray> args;
  for (auto v : p.graph->inputs) args.push_back(test::random_array(rng, p.graph->type(v)));
  HostArray other = test::random_array(rng, p.graph->type(p.graph->inputs[0]));
  std::vector<test::Held> held;
  for (std::size_t i = 0; i < args.size(); ++i) held.push_back(test::scatter(args[i], *p.inputs[i].layout, kMesh));
  for (std::size_t at = 1; at < 8; at += 2) held[0][at] = other;
  auto out = test::simulate(*g, held);
  for (std::size_t at = 0; at < 8; ++at) {
    std::vector<HostArray> mine = args;
    mine[0] = held[0][at];
    auto tile = test::tile_index({16, 8}, layout("data, -", kMesh), kMesh, static_cast<std::int64_t>(at));
    EXPECT_EQ(test::difference(out[0][at], test::evaluate(*p.graph, mine)[0].slice(tile), 1e-5), "") << at;
  }
}

// An op that keeps its body as one equation.
const ir::Op<ops::Call>& call_op() {
  static const ir::Op<ops::Call> op{ir::OpSpec<ops::Call>{
      .name = "call",
      .infer = [](ir::TypeSpan, const ops::Call& p) { return p.body->output_types(); },
      .factors = ir::Never{"the partitioner looks into the body"},
      .remap = ir::by_default,
      .batch = ir::Never{"for this test"},
      .jvp = ir::Never{"for this test"},
      .transpose = ir::Never{"for this test"},
      .reference = ir::Never{"for this test"},
      .samples = ir::Never{"for this test"},
  }};
  return op;
}

TEST(Control, CallsAreLookedInto) {
  Builder inner;
  Value u = inner.input(f32({16, 8}));
  Value w = inner.input(f32({8, 8}));
  auto body = inner.finish_shared(Values{ops::tanh(matmul(u, w))});
  Builder b;
  Value x = b.input(f32({16, 8}));
  Value v = b.input(f32({8, 8}));
  auto p =
      module(b, b.add(call_op(), {x, v}, ir::make_attrs(ops::Call{body, "layer"})), kMesh, {"data, -", "-, model"});
  EXPECT_EQ(sketch(*partitioned(p)),
            "(a@[data, -], b@[-, model])\n"
            "c@[data, model] = call a b\n"
            "  (a@[data, -], b@[-, model])\n"
            "  c@[data, model] = dot_general a b\n"
            "  d@[data, model] = tanh c\n"
            "  -> d\n"
            "-> c\n");
  expect_same(p, 7);
}

TEST(Control, PlansCountRounds) {
  Builder b;
  auto p = module(b, scan_steps(b, step_body()), kMesh, {"-, -", "-, model", "-, -, -"});
  CommPlan plan = spmd::comm_plan(*partitioned(p));
  EXPECT_EQ(to_string(plan),
            "collective  axes   value      bytes/device  times  where        why\n"
            "all_gather  model  f32[16,8]           256      5  dot_general  operand 0 of dot_general needs [-, -]\n"
            "all_reduce  model  f32[16]              64      5  reduce_sum   completes the sum of reduce_sum\n"
            "total: 1600 bytes per device in 2 steps\n");
  expect_same(p, 3);
}

// Every round takes one row of an array that is split into rows: all of them are as much as the array, and a few are
// less.
TEST(Control, SlicesOfAllRoundsAreGatheredBeforeTheLoop) {
  for (const std::int64_t rounds : {64, 4}) {
    Builder body;
    Value rows = body.input(f32({64, 32}));
    Value i = body.input({DType::I32, {}});
    Value sum = body.input(f32({32}));
    Value row = ops::dynamic_slice(rows, Values{i, ops::scalar(body, 0, DType::I32)}, {1, 32});
    Values next{i + ops::scalar(body, 1, DType::I32), ops::tanh(sum + ops::reshape(row, {32}))};
    ops::Scan loop{body.finish_shared(next), rounds, false, 1, 2};
    Builder b;
    Value x = b.input(f32({64, 32}));
    Value from = b.input({DType::I32, {}});
    Value start = b.input(f32({32}));
    Values out = b.add(ops::def::scan, {x, from, start}, ir::make_attrs(std::move(loop)));
    auto p = module(b, {out[1]}, kMesh, {"data, -", "", "-"}, {"-"});
    CommPlan plan = spmd::comm_plan(*partitioned(p));
    const std::int64_t row_bytes = 32 * 4;
    EXPECT_EQ(plan.bytes_per_device(), rounds == 64 ? 64 * row_bytes * 3 / 4 : rounds * 2 * row_bytes * 3 / 4)
        << to_string(plan);
    EXPECT_EQ(plan.count("all_gather"), rounds == 64 ? 1 : 0) << to_string(plan);
    expect_same(p, 5);
  }
}

ir::GraphPtr while_cond() {
  Builder b;
  Value limit = b.input({DType::I32, {}});
  Value i = b.input({DType::I32, {}});
  b.input(f32({16, 8}));
  return b.finish_shared(Values{ops::lt(i, limit)});
}
ir::GraphPtr while_body() {
  Builder b;
  Value w = b.input(f32({8, 8}));
  Value i = b.input({DType::I32, {}});
  Value h = b.input(f32({16, 8}));
  return b.finish_shared(Values{i + ops::scalar(b, 1, DType::I32), ops::tanh(matmul(h, w))});
}

TEST(Control, WhilePartitionsConditionAndBody) {
  Builder b;
  Value limit = b.input({DType::I32, {}});
  Value w = b.input(f32({8, 8}));
  Value i = b.input({DType::I32, {}});
  Value h = b.input(f32({16, 8}));
  Values out = b.add(ops::def::while_, {limit, w, i, h}, ir::make_attrs(ops::While{while_cond(), while_body(), 1, 1}));
  auto p = module(b, {out[1]}, kMesh, {"", "-, model", "", "data, model"});
  auto g = partitioned(p);
  EXPECT_EQ(sketch(*g),
            "(a@[], b@[-, model], c@[], d@[data, model])\n"
            "e@[], f@[data, model] = while a b c d\n"
            "  (a@[], b@[], c@[data, model])\n"
            "  d@[] = lt b a\n"
            "  -> d\n"
            "  (a@[-, model], b@[], c@[data, model])\n"
            "  d@[] = constant\n"
            "  e@[] = add b d\n"
            "  f@[data, -] = all_gather(model) c\n"
            "  g@[data, model] = dot_general f a\n"
            "  h@[data, model] = tanh g\n"
            "  -> e h\n"
            "-> f\n");
  CommPlan plan = spmd::comm_plan(*g);
  ASSERT_EQ(plan.steps().size(), 1u);
  EXPECT_EQ(plan.steps()[0].times, -1);
  expect_same(p, 4);
}

TEST(Control, BranchesShareTheirLayouts) {
  Builder b;
  Value which = b.input({DType::I32, {}});
  Value x = b.input(f32({16, 8}));
  auto branch = [](bool sums) {
    Builder c;
    Value y = c.input(f32({16, 8}));
    return c.finish_shared(Values{sums ? ops::broadcast_in_dim(ops::reduce_sum(y, {0}), {16, 8}, {1}) : ops::tanh(y)});
  };
  Values out = b.add(ops::def::cond, {which, x}, ir::make_attrs(ops::Cond{{branch(false), branch(true)}}));
  auto p = module(b, {out[0]}, kMesh, {"", "data, model"});
  EXPECT_EQ(sketch(*partitioned(p)),
            "(a@[], b@[data, model])\n"
            "c@[data, model] = cond a b\n"
            "  (a@[data, model])\n"
            "  b@[data, model] = tanh a\n"
            "  -> b\n"
            "  (a@[data, model])\n"
            "  b@[model] partial(data: sum) = reduce_sum a\n"
            "  c@[model] = all_reduce(data) b\n"
            "  d@[data, model] = broadcast_in_dim c\n"
            "  -> d\n"
            "-> c\n");
  expect_same(p, 5);
}

// Random layouts of everything that crosses the boundary of a loop.
TEST(Control, RandomLayoutsAroundAScan) {
  std::mt19937_64 rng(11);
  for (const auto& mesh : test::test_meshes()) {
    for (std::uint64_t i = 0; i < 20; ++i) {
      Builder b;
      Values out = scan_steps(b, step_body());
      auto p = module(b, {ops::tanh(out[0]), out[1]}, mesh, {});
      auto choose = [&](ir::ValueId v) -> std::optional<ir::Layout> {
        if (rng() % 4 == 0) return std::nullopt;
        return test::random_layout(rng, p.graph->type(v).shape, mesh, false);
      };
      for (std::size_t k = 0; k < p.inputs.size(); ++k) p.inputs[k].layout = choose(p.graph->inputs[k]);
      for (std::size_t k = 0; k < p.outputs.size(); ++k) p.outputs[k].layout = choose(p.graph->outputs[k]);
      SCOPED_TRACE(str("round ", i, " on ", mesh.sizes.size(), " axes"));
      expect_same(p, i);
    }
  }
}

}  // namespace
}  // namespace tessera
