// SPDX-License-Identifier: Apache-2.0
// Partitioned graphs as texts: which collectives stand where.
#include <gtest/gtest.h>

#include <random>

#include "ops/ops.h"
#include "ops/shape/indexing_ops.h"
#include "ops/shared_attrs.h"
#include "support/random_graphs.h"
#include "support/spec_report.h"
#include "support/spmd_simulator.h"
#include "support/spmd_sketch.h"

namespace tessera {
namespace {

using ir::Builder;
using ir::Value;
using test::module;
using test::partitioned;
using test::sketch;

const ir::MeshAxes kMesh = test::mesh_of("data:4, model:2");

Value matmul(Value a, Value b) { return ops::dot_general(a, b, {{1}, {0}, {}, {}}); }
ir::Type f32(Shape shape) { return {DType::F32, std::move(shape)}; }

void expect_equal_to_one_device(const ir::Module& m, const ir::Graph& g) {
  std::mt19937_64 rng(5);
  std::vector<HostArray> args;
  for (auto v : m.graph->inputs) args.push_back(test::random_array(rng, m.graph->type(v)));
  EXPECT_EQ(test::difference(test::run_partitioned(g, args)[0], test::evaluate(*m.graph, args)[0], 1e-5), "");
}

TEST(Partition, SplitContractionLeavesAPartialSum) {
  Builder b;
  Value x = b.input(f32({64, 32}));
  Value w = b.input(f32({32, 16}));
  EXPECT_EQ(sketch(*partitioned(module(b, {matmul(x, w)}, kMesh, {"-, model", "model, -"}))),
            "(a@[-, model], b@[model, -])\n"
            "c@[-, -] partial(model: sum) = dot_general a b\n"
            "d@[-, -] = all_reduce(model) c\n"
            "-> d\n");
}

TEST(Partition, MegatronLayerHasOneAllReduce) {
  Builder b;
  Value x = b.input(f32({64, 32}));
  Value up = b.input(f32({32, 128}));
  Value down = b.input(f32({128, 32}));
  Value y = x + matmul(ops::tanh(matmul(x, up)), down);
  EXPECT_EQ(sketch(*partitioned(module(b, {y}, kMesh, {"data, -", "-, model", "model, -"}))),
            "(a@[data, -], b@[-, model], c@[model, -])\n"
            "d@[data, model] = dot_general a b\n"
            "e@[data, model] = tanh d\n"
            "f@[data, -] partial(model: sum) = dot_general e c\n"
            "g@[data, -] = all_reduce(model) f\n"
            "h@[data, -] = add a g\n"
            "-> h\n");
}

Value gradient_step(Builder& b) {
  Value x = b.input(f32({64, 32}));
  Value dy = b.input(f32({64, 16}));
  Value w = b.input(f32({32, 16}));
  Value g = ops::dot_general(x, dy, {{0}, {0}, {}, {}});
  return w - g * 0.1;
}

TEST(Partition, DataParallelGradientIsReducedOnceAndLate) {
  TESSERA_SPEC("A53");
  Builder b;
  Value w = gradient_step(b);
  EXPECT_EQ(sketch(*partitioned(module(b, {w}, kMesh, {"data, -", "data, -", "-, -"}))),
            "(a@[data, -], b@[data, -], c@[-, -])\n"
            "d@[-, -] partial(data: sum) = dot_general a b\n"
            "e@[] = constant\n"
            "f@[-, -] partial(data: sum) = mul d e\n"
            "g@[-, -] = all_reduce(data) f\n"
            "h@[-, -] = sub c g\n"
            "-> h\n");
}

TEST(Partition, GradientOfSplitWeightsIsScattered) {
  Builder b;
  Value w = gradient_step(b);
  EXPECT_EQ(sketch(*partitioned(module(b, {w}, kMesh, {"data, -", "data, -", "data, -"}))),
            "(a@[data, -], b@[data, -], c@[data, -])\n"
            "d@[-, -] partial(data: sum) = dot_general a b\n"
            "e@[] = constant\n"
            "f@[data, -] = reduce_scatter(data) d\n"
            "g@[data, -] = mul f e\n"
            "h@[data, -] = sub c g\n"
            "-> h\n");
}

TEST(Partition, SplitWeightsAreGatheredOverTheirOwnAxisAlone) {
  Builder b;
  Value x = b.input(f32({64, 32}));
  Value w = b.input(f32({32, 128}));
  EXPECT_EQ(sketch(*partitioned(module(b, {matmul(x, w)}, kMesh, {"data, -", "data, model"}))),
            "(a@[data, -], b@[data, model])\n"
            "c@[-, model] = all_gather(data) b\n"
            "d@[data, model] = dot_general a c\n"
            "-> d\n");
}

TEST(Partition, TwoPartialSumsBecomeOneAllReduce) {
  Builder b;
  Value x = b.input(f32({64, 32}));
  Value y = b.input(f32({64, 16}));
  Value z = b.input(f32({64, 16}));
  auto dot = [](Value p, Value q) { return ops::dot_general(p, q, {{0}, {0}, {}, {}}); };
  Value g = dot(x, y);
  Value h = dot(x, z);
  EXPECT_EQ(sketch(*partitioned(module(b, {g + h}, kMesh, {"data, -", "data, -", "data, -"}))),
            "(a@[data, -], b@[data, -], c@[data, -])\n"
            "d@[-, -] partial(data: sum) = dot_general a b\n"
            "e@[-, -] partial(data: sum) = dot_general a c\n"
            "f@[-, -] partial(data: sum) = add d e\n"
            "g@[-, -] = all_reduce(data) f\n"
            "-> g\n");
}

// The gradient of a table that is read by a lookup and by a product.
TEST(Partition, TheGradientOfALookupJoinsASumThatIsStillToBeCompleted) {
  const ir::MeshAxes mesh = test::mesh_of("x:4, y:2");
  Builder b;
  Value h = b.input(f32({8, 16, 64}));
  Value logits = b.input(f32({8, 16, 96}));
  Value tokens = b.input({DType::I32, {8, 16, 1}});
  Value updates = b.input(f32({8, 16, 64}));
  Value product = ops::dot_general(logits, h, {{0, 1}, {0, 1}, {}, {}});
  Value zeros = ops::full(b, 0, f32({96, 64}));
  Value y = product + ops::scatter_add(zeros, tokens, updates, {{2}, {0}, {0}});
  ir::Module m = test::module(b, {y}, mesh, {"x, -, -", "x, -, y", "x, -, -", "x, -, -"}, {"y, x"});
  auto g = partitioned(m);
  EXPECT_EQ(spmd::comm_plan(*g).bytes_per_device(), 48 * 64 * 4 * 3 / 4) << sketch(*g);
  expect_equal_to_one_device(m, *g);
}

TEST(Partition, ConstrainedAddendsAreCompletedAsOneSum) {
  Builder b;
  Value x = b.input(f32({64, 32}));
  Value y = b.input(f32({64, 16}));
  auto dot = [](Value p, Value q) { return ops::dot_general(p, q, {{0}, {0}, {}, {}}); };
  const auto placed = [](Value v) { return test::constrain(v, "-, -", kMesh); };
  Value g = placed(dot(x, y));
  Value h = placed(ops::transpose(placed(dot(y, x)), {1, 0}));
  EXPECT_EQ(sketch(*partitioned(module(b, {placed(g + h)}, kMesh, {"data, -", "data, -"}))),
            "(a@[data, -], b@[data, -])\n"
            "c@[-, -] partial(data: sum) = dot_general a b\n"
            "d@[-, -] partial(data: sum) = dot_general b a\n"
            "e@[-, -] partial(data: sum) = transpose d\n"
            "f@[-, -] partial(data: sum) = add c e\n"
            "g@[-, -] = all_reduce(data) f\n"
            "-> g\n");
}

TEST(Partition, WhatIsMadeOfShiftedSlicesOfASumIsCompletedInPlaceOfTheSum) {
  Builder b;
  Value x = b.input(f32({64, 32}));
  Value w = b.input(f32({32, 30}));
  Value joined = matmul(x, w);
  Value sum;
  for (std::int64_t k = 0; k < 3; ++k) {
    Value part = ops::slice_in_dim(joined, 10 * k, 10 * k + 10, 1);
    part = ops::pad(part, ops::scalar(b, 0, DType::F32), {k, 0}, {2 - k, 0});
    sum = ops::add_any(sum, part);
  }
  Value y = ops::tanh(ops::slice_in_dim(sum, 1, 65, 0));
  auto g = partitioned(module(b, {y}, kMesh, {"-, model", "model, -"}));
  CommPlan plan = spmd::comm_plan(*g);
  EXPECT_EQ(plan.count("all_reduce"), 1) << sketch(*g);
  EXPECT_EQ(plan.bytes_per_device(), 64 * 10 * 4) << sketch(*g);
}

TEST(Partition, ASumThatIsNeededStaysCompletedAtOnePlace) {
  Builder b;
  Value x = b.input(f32({64, 32}));
  Value w = b.input(f32({32, 30}));
  Value joined = matmul(x, w);
  Value small = ops::slice_in_dim(joined, 0, 10, 1) + 1.0;
  auto g = partitioned(module(b, {small, ops::tanh(joined)}, kMesh, {"-, model", "model, -"}));
  EXPECT_EQ(spmd::comm_plan(*g).bytes_per_device(), 64 * 30 * 4) << sketch(*g);
}

TEST(Partition, APartialSumWithAReaderThatNeedsItIsCompletedForAll) {
  Builder b;
  Value x = b.input(f32({64, 32}));
  Value s = ops::reduce_sum(x, {0});
  EXPECT_EQ(sketch(*partitioned(module(b, {ops::neg(s), ops::tanh(s)}, kMesh, {"data, -"}))),
            "(a@[data, -])\n"
            "b@[-] partial(data: sum) = reduce_sum a\n"
            "c@[-] = all_reduce(data) b\n"
            "d@[-] = neg c\n"
            "e@[-] = tanh c\n"
            "-> d e\n");
}

TEST(Partition, APartialSumWithSeveralReadersIsCompletedOnce) {
  // Adam reads a gradient twice; were both products to pass, two sums would be completed.
  Builder b;
  Value x = b.input(f32({64, 32}));
  Value g = ops::reduce_sum(x, {0});
  Value m = g * 0.1;
  Value v = (g * 0.001) * g;
  auto p = partitioned(module(b, {m, v}, kMesh, {"data, -"}));
  EXPECT_EQ(spmd::comm_plan(*p).count("all_reduce"), 1) << sketch(*p);
  Builder c;
  x = c.input(f32({64, 4, 8}));
  g = ops::reduce_sum(x, {0});
  p = partitioned(module(c, {ops::reduce_sum(g, {0}), ops::reduce_sum(g, {1})}, kMesh, {"data, -, -"}));
  EXPECT_EQ(spmd::comm_plan(*p).bytes_per_device(), (8 + 4) * 4 * 2 * 3 / 4)
      << "two small ones are less than " << sketch(*p);
}

TEST(Partition, ASumPassesWhatMakesItSmaller) {
  Builder b;
  Value x = b.input(f32({64, 32}));
  Value s = ops::reduce_sum(ops::reshape(ops::neg(ops::reduce_sum(x, {0})), {4, 8}), {1});
  Value grown = ops::broadcast_in_dim(s, {4, 8}, {0});
  EXPECT_EQ(sketch(*partitioned(module(b, {grown}, kMesh, {"data, -"}))),
            "(a@[data, -])\n"
            "b@[-] partial(data: sum) = reduce_sum a\n"
            "c@[-] partial(data: sum) = neg b\n"
            "d@[-, -] partial(data: sum) = reshape c\n"
            "e@[-] partial(data: sum) = reduce_sum d\n"
            "f@[-] = all_reduce(data) e\n"
            "g@[-, -] = broadcast_in_dim f\n"
            "-> g\n");
}

TEST(Partition, ASumThatPassesAProductIsCompletedBeforeItAsShardsWhereThatMovesLess) {
  constexpr std::int64_t kRows = 64, kColumns = 16;
  // Of a large middle the sum would be more than of the result.
  for (std::int64_t middle : {128, 1024}) {
    Builder b;
    Value x = b.input(f32({middle, 32}));
    Value w = b.input(f32({32, kColumns}));
    Value of = b.input(f32({kRows, middle}));
    Value y = matmul(of, matmul(x, w));
    auto m = module(b, {y}, kMesh, {"data, model", "model, -", "-, data"}, {"data, -"});
    auto g = partitioned(m);
    const std::int64_t shards = middle / 4 * kColumns / 2 * 4;                // before, over model
    const std::int64_t apart = 3 * kRows / 4 * kColumns / 2 * 4;              // of half of the columns, over data
    const std::int64_t together = kRows / 4 * kColumns / 2 * 4;               // and of all columns
    const std::int64_t behind = 3 * kRows / 4 * kColumns * 4 + 2 * together;  // both sums of the result
    EXPECT_EQ(spmd::comm_plan(*g).bytes_per_device(), std::min(shards + apart + together, behind)) << sketch(*g);
    expect_equal_to_one_device(m, *g);
  }
}

TEST(Partition, OtherReductionsCompleteWithTheirOwn) {
  Builder b;
  Value x = b.input(f32({64, 32}));
  EXPECT_EQ(sketch(*partitioned(module(b, {ops::neg(ops::reduce_max(x, {0}))}, kMesh, {"data, -"}))),
            "(a@[data, -])\n"
            "b@[-] partial(data: max) = reduce_max a\n"
            "c@[-] = all_reduce(data) b\n"
            "d@[-] = neg c\n"
            "-> d\n");
}

TEST(Partition, DivisionPassesASumOnlyAboveTheLine) {
  Builder b;
  Value s = ops::reduce_sum(b.input(f32({64, 32})), {0});
  Value two = ops::scalar(b, 2, DType::F32);
  EXPECT_EQ(sketch(*partitioned(module(b, {ops::div(s, two)}, kMesh, {"data, -"}))),
            "(a@[data, -])\n"
            "b@[-] partial(data: sum) = reduce_sum a\n"
            "c@[] = constant\n"
            "d@[-] partial(data: sum) = div b c\n"
            "e@[-] = all_reduce(data) d\n"
            "-> e\n");
  Builder c;
  s = ops::reduce_sum(c.input(f32({64, 32})), {0});
  two = ops::scalar(c, 2, DType::F32);
  EXPECT_EQ(sketch(*partitioned(module(c, {ops::div(two, s)}, kMesh, {"data, -"}))),
            "(a@[data, -])\n"
            "b@[-] partial(data: sum) = reduce_sum a\n"
            "c@[] = constant\n"
            "d@[-] = all_reduce(data) b\n"
            "e@[-] = div c d\n"
            "-> e\n");
}

TEST(Partition, WholeDimensionsAreGatheredAndNoOthers) {
  Builder b;
  Value x = b.input(f32({8, 6}));
  Value y = ops::reshape(x, {48});
  EXPECT_EQ(sketch(*partitioned(module(b, {y}, kMesh, {"data, model"}))),
            "(a@[data, model])\n"
            "b@[data, -] = all_gather(model) a\n"
            "c@[data] = reshape b\n"
            "-> c\n");
}

TEST(Partition, AConflictMovesTheSmallerOperandDirectly) {
  Builder b;
  Value x = b.input(f32({64, 32}));
  Value y = b.input(f32({64, 32}));
  EXPECT_EQ(sketch(*partitioned(module(b, {x + y}, kMesh, {"data, -", "-, data"}))),
            "(a@[data, -], b@[-, data])\n"
            "c@[data, -] = all_to_all(data) b\n"
            "d@[data, -] = add a c\n"
            "-> d\n");
}

TEST(Partition, ReshardsOfOneValueAreShared) {
  Builder b;
  Value x = b.input(f32({64, 32}));
  Value y = b.input(f32({64, 32}));
  Value z = b.input(f32({64, 32}));
  auto text = sketch(*partitioned(module(b, {x + z, y * z}, kMesh, {"data, -", "data, -", "-, data"})));
  EXPECT_EQ(text,
            "(a@[data, -], b@[data, -], c@[-, data])\n"
            "d@[data, -] = all_to_all(data) c\n"
            "e@[data, -] = add a d\n"
            "f@[data, -] = mul b d\n"
            "-> e f\n");
}

TEST(Partition, FreshValuesAreMadeAgainNotMoved) {
  Builder b;
  Value x = b.input(f32({8, 8}));
  Value y = b.input(f32({8, 8}));
  Value mask = ops::ge(ops::iota(b, DType::I32, {8, 8}, 0), ops::iota(b, DType::I32, {8, 8}, 1));
  Value zero = ops::scalar(b, 0, DType::F32);
  auto p = module(b, {ops::where(mask, x, zero), ops::where(mask, y, zero)}, kMesh, {"data, -", "-, data"});
  auto g = partitioned(p);
  EXPECT_TRUE(spmd::comm_plan(*g).empty()) << sketch(*g);
}

TEST(Partition, OutputsGetTheLayoutAskedFor) {
  Builder b;
  Value x = b.input(f32({8, 8}));
  EXPECT_EQ(sketch(*partitioned(module(b, {ops::tanh(x), x, x}, kMesh, {"data, model"}, {"-, -", "data, -", "?"}))),
            "(a@[data, model])\n"
            "b@[data, model] = tanh a\n"
            "c@[-, -] = all_gather(data,model) b\n"
            "d@[data, -] = all_gather(model) a\n"
            "-> c d a\n");
}

TEST(Partition, UnequalReplicasAreComputedApart) {
  Builder b;
  Value x = b.input(f32({8, 4}));
  Value y = b.input(f32({8, 4}));
  Value s = ops::reduce_sum(x * y, {0});
  auto p = module(b, {s}, kMesh, {"data, -", "-, -"});
  p.inputs[1].layout->vary = 2;  // model
  EXPECT_EQ(sketch(*partitioned(p)),
            "(a@[data, -], b@[-, -] vary(model))\n"
            "c@[data, -] vary(model) = slice b\n"
            "d@[data, -] vary(model) = mul a c\n"
            "e@[-] partial(data: sum) vary(model) = reduce_sum d\n"
            "f@[-] vary(model) = all_reduce(data) e\n"
            "-> f\n");
}

TEST(Partition, ConstraintsMoveData) {
  Builder b;
  Value x = b.input(f32({8, 8}));
  Value y = ops::tanh(test::constrain(x, "-, data", kMesh));
  EXPECT_EQ(sketch(*partitioned(module(b, {y}, kMesh, {"data, -"}))),
            "(a@[data, -])\n"
            "b@[-, data] = all_to_all(data) a\n"
            "c@[-, data] = tanh b\n"
            "-> c\n");
}

TEST(Partition, UnevenShards) {
  Builder b;
  Value x = b.input(f32({5, 3}));
  Value y = b.input(f32({3, 7}));
  EXPECT_EQ(sketch(*partitioned(module(b, {matmul(x, y)}, kMesh, {"data, model", "-, -"}, {}, {.uneven = true}))),
            "(a@[data, model], b@[-, -])\n"
            "c@[model, -] = slice b\n"
            "d@[data, -] partial(model: sum) = dot_general a c\n"
            "e@[data, -] = all_reduce(model) d\n"
            "-> e\n");
}

TEST(Partition, DeterministicSumsAreNotTakenInShards) {
  Builder b;
  Value x = b.input(f32({8, 8}));
  auto p = module(b, {ops::reduce_sum(x, {0}), ops::reduce_max(x, {0})}, kMesh, {"data, model"}, {},
                  {.deterministic = true});
  EXPECT_EQ(sketch(*partitioned(p)),
            "(a@[data, model])\n"
            "b@[-, model.data] = all_to_all(data) a\n"
            "c@[model.data] = reduce_sum b\n"
            "d@[model] partial(data: max) = reduce_max a\n"
            "e@[model] = all_gather(data) c\n"
            "f@[model] = all_reduce(data) d\n"
            "-> e f\n");
}

TEST(Partition, ReshapeAndTransposeKeepShards) {
  ir::MeshAxes mesh = test::mesh_of("p:2, q:4");
  Builder b;
  Value x = b.input(f32({8, 8}));
  Value y = ops::transpose(ops::reshape(ops::tanh(x), {2, 4, 8}), {2, 0, 1});
  EXPECT_EQ(sketch(*partitioned(module(b, {y}, mesh, {"p.q, -"}))),
            "(a@[p.q, -])\n"
            "b@[p.q, -] = tanh a\n"
            "c@[p, q, -] = reshape b\n"
            "d@[-, p, q] = transpose c\n"
            "-> d\n");
}

}  // namespace
}  // namespace tessera
