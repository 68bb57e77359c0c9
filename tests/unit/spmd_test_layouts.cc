// SPDX-License-Identifier: Apache-2.0
// Layouts that are chosen by what the whole program moves.
#include <gtest/gtest.h>

#include "ops/linalg/linalg_ops.h"
#include "ops/ops.h"
#include "spmd/spmd.h"
#include "support/spmd_sketch.h"

namespace tessera {
namespace {

using ir::Builder;
using ir::Value;

const ir::MeshAxes kMesh = test::mesh_of("x:4, y:2");

ir::Type f32(Shape shape) { return {DType::F32, std::move(shape)}; }

CommPlan by_propagation(const ir::Module& m) { return spmd::comm_plan(*spmd::partition(m, spmd::propagate(m))); }
CommPlan chosen(const ir::Module& m) { return spmd::comm_plan(*spmd::partition(m)); }

// Queries, keys and values [batch, heads, sequence, features].
Value attention(const Value& q, const Value& k, const Value& v) {
  Value scores = ops::exp(ops::dot_general(q, k, {{3}, {3}, {0, 1}, {0, 1}}));
  const Shape shape = scores.type().shape;
  Value sums = ops::broadcast_in_dim(ops::reduce_sum(scores, {3}), shape, {0, 1, 2});
  return ops::dot_general(ops::div(scores, sums), v, {{3}, {2}, {0, 1}, {0, 1}});
}

TEST(ChosenLayouts, AttentionOverASplitSequenceExchangesItForHeads) {
  Builder b;
  const Shape shape{4, 8, 1024, 64};
  Value q = b.input(f32(shape)), k = b.input(f32(shape)), v = b.input(f32(shape));
  const std::string split = "-, -, x, -";
  ir::Module m = test::module(b, {attention(q, k, v)}, kMesh, {split, split, split}, {split});
  const std::int64_t shard = 4 * 8 * 1024 / 4 * 64 * 4;
  EXPECT_EQ(by_propagation(m).bytes_per_device(), 2 * 3 * shard) << "keys and values are gathered";
  const CommPlan plan = chosen(m);
  EXPECT_EQ(plan.bytes_per_device(), 4 * shard * 3 / 4) << to_string(plan);
  EXPECT_EQ(plan.count("all_to_all"), 4);
}

TEST(ChosenLayouts, LayersThatAreAlikeChangeTogether) {
  Builder b;
  const Shape shape{4, 8, 1024, 64};
  Value x = b.input(f32(shape));
  Value y = x;
  for (int layer = 0; layer < 3; ++layer) y = attention(y, ops::neg(x), ops::tanh(x));
  const std::string split = "-, -, x, -";
  ir::Module m = test::module(b, {y}, kMesh, {split}, {split});
  const std::int64_t shard = 4 * 8 * 1024 / 4 * 64 * 4;
  EXPECT_EQ(by_propagation(m).bytes_per_device(), 3 * 2 * 3 * shard);
  const CommPlan plan = chosen(m);
  EXPECT_EQ(plan.bytes_per_device(), (1 + 3 * 2 + 1) * shard * 3 / 4) << to_string(plan);
}

// What a transform leaves is where its inverse begins.
TEST(ChosenLayouts, SpectraStayWhereTheLastTransformLeavesThem) {
  const ir::Type type{DType::C64, {1024, 1024}};
  const std::int64_t shard = 1024 * 1024 / 8 * 8;
  auto filtered = [&](Builder& b, const Value& x) {
    Value spectrum = ops::fft(x, ops::FftType::Fft, {1024, 1024});
    return ops::fft(spectrum * ops::iota(b, DType::C64, type.shape, 1), ops::FftType::Ifft, {1024, 1024});
  };
  Builder b;
  ir::Module blocks = test::module(b, {filtered(b, b.input(type))}, kMesh, {"x, y"}, {"x, y"});
  CommPlan plan = chosen(blocks);
  EXPECT_EQ(plan.bytes_per_device(), 2 * (shard / 2 + shard * 7 / 8)) << to_string(plan);
  Builder c;
  ir::Module rows = test::module(c, {filtered(c, c.input(type))}, kMesh, {"x.y, -"}, {"x.y, -"});
  plan = chosen(rows);
  EXPECT_EQ(plan.bytes_per_device(), 2 * shard * 7 / 8) << to_string(plan);
  EXPECT_EQ(by_propagation(rows).bytes_per_device(), 4 * shard * 7 / 8);
}

// Three exchanges of fewer bytes would take longer.
TEST(ChosenLayouts, ASmallSumStaysOneExchange) {
  for (std::int64_t n : {1, 64}) {
    Builder b;
    Value x = b.input(f32({8, 6 * n, 12 * n}));
    Value w = b.input(f32({12 * n, 16 * n}));
    Value y = ops::dot_general(x, w, {{2}, {0}, {}, {}});
    const ir::MeshAxes mesh = test::mesh_of("x:2, y:4");
    ir::Module m = test::module(b, {y}, mesh, {"x, -, y", "y, -"}, {"x, -, -"});
    const CommPlan before = by_propagation(m), after = chosen(m);
    ASSERT_EQ(before.steps().size(), 1u);
    EXPECT_EQ(before.steps()[0].op, "all_reduce");
    EXPECT_LE(after.bytes_per_device(), before.bytes_per_device());
    if (n == 1) {
      EXPECT_EQ(to_string(after), to_string(before));
    }
  }
}

TEST(ChosenLayouts, InputsAndOutputsKeepWhatPropagationGaveThem) {
  Builder b;
  const Shape shape{4, 8, 1024, 64};
  Value q = b.input(f32(shape)), k = b.input(f32(shape)), v = b.input(f32(shape));
  const std::string split = "-, -, x, -";
  ir::Module m = test::module(b, {attention(q, k, v)}, kMesh, {split, "?", "?"}, {"?"});
  ir::GraphPtr first = spmd::partition(m, spmd::propagate(m)), second = spmd::partition(m);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(first->layout(first->inputs[i]), second->layout(second->inputs[i]));
  EXPECT_EQ(first->layout(first->outputs[0]), second->layout(second->outputs[0]));
}

}  // namespace
}  // namespace tessera
