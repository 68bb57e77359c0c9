// SPDX-License-Identifier: Apache-2.0
// Counts of collectives that others published for partitioned models, from their architectures through the partitioner
// here. Meshes are abstract: nothing runs.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "tessera/simulate.h"
#include "tessera/tessera.h"

namespace tessera {
namespace {

namespace ts = tessera;

constexpr std::int64_t kLayers = 32, kWidth = 8192, kHeads = 64, kHidden = 32768, kVocabulary = 32768, kLength = 256;
constexpr std::int64_t kBatch = 16, kModel = 4, kHeadSize = kWidth / kHeads;

// Four matrices and five vectors: with the embedding 289 parameters in 32 layers.
struct Block {
  Array qkv, out, up, down;
  Array scale1, shift1, scale2, shift2, bias;
};
struct Params {
  Array embedding;
  std::vector<Block> blocks;
};

Array norm(const Array& x, const Array& scale, const Array& shift) {
  Array c = x - mean(x, {.axis = Dims{-1}, .keepdims = true});
  return c * rsqrt(mean(c * c, {.axis = Dims{-1}, .keepdims = true}) + 1e-5) * scale + shift;
}

Array block(const Array& input, const Block& b) {
  Array h = norm(input, b.scale1, b.shift1);
  Array qkv = einsum("btd,dhe->bhte", {h, b.qkv});
  auto parts = split(qkv, 3, -1);
  Array scores = einsum("bhqe,bhke->bhqk", {parts[0], parts[1]}) / std::sqrt(static_cast<double>(kHeadSize));
  Array mixed = einsum("bhqk,bhke->bqhe", {softmax(scores, -1), parts[2]});
  Array x = input + einsum("bqhe,hed->bqd", {mixed, b.out});
  h = norm(x, b.scale2, b.shift2);
  return x + matmul(nn::relu(matmul(h, b.up)), b.down) + b.bias;
}

Array loss(const Params& p, const Array& tokens) {
  Array x = take(p.embedding, tokens, 0);
  for (const auto& b : p.blocks) x = block(x, b);
  Array logp = log_softmax(matmul(x, transpose(p.embedding)), -1);
  return -mean(take_along_axis(logp, expand_dims(roll(tokens, -1, 1), {-1}), -1));
}

struct State {
  Params p, m;
};

// Where the axes split the four matrices and the embedding, and the optimizer's moments of these.
struct Shardings {
  bool batch = false, model = false;
  std::int64_t sequences = 64 * kBatch;
  int zero = 0;  // 2: moments are split over the batch's axis; 3: parameters too
};

// Types of arguments, and their shardings in the order of the tree's leaves.
struct Placed {
  AbstractMesh mesh;
  std::vector<ShardingArg> shardings = {};
  Array operator()(Shape shape, const P& spec, DType dtype = float32) {
    shardings.emplace_back(NamedSharding(mesh, spec));
    return without_data({std::move(shape), dtype});
  }
};

Params params(Placed& put, const Shardings& s, bool split_over_batch) {
  const SpecEntry zero = split_over_batch ? SpecEntry("batch") : SpecEntry(none);
  const SpecEntry model = s.model ? SpecEntry("model") : SpecEntry(none);
  Params p;
  p.embedding = put({kVocabulary, kWidth}, P(zero, none));
  for (std::int64_t l = 0; l < kLayers; ++l) {
    Block b;
    b.qkv = put({kWidth, kHeads, 3 * kHeadSize}, P(zero, model, none));
    b.out = put({kHeads, kHeadSize, kWidth}, P(model, none, zero));
    b.up = put({kWidth, kHidden}, P(zero, model));
    b.down = put({kHidden, kWidth}, P(model, zero));
    for (Array* v : {&b.scale1, &b.shift1, &b.scale2, &b.shift2, &b.bias}) *v = put({kWidth}, P(none));
    p.blocks.push_back(b);
  }
  return p;
}

Simulation simulated(const Shardings& s) {
  Placed put{AbstractMesh{{"batch", kBatch}, {"model", kModel}}};
  State state;
  state.p = params(put, s, s.zero == 3);
  state.m = params(put, s, s.zero >= 2);
  std::vector<ShardingArg> out = put.shardings;
  out.emplace_back(NamedSharding(put.mesh, P()));
  Array tokens = put({s.sequences, kLength}, s.batch ? P("batch") : P(), int32);
  auto step = jit(
      [&](const State& now, const Array& batch) {
        auto [value, g] = value_and_grad(loss)(now.p, batch);
        State next;
        next.m = tree_map([](const Array& m, const Array& d) { return 0.9 * m + d; }, now.m, g);
        next.p = tree_map([](const Array& w, const Array& m) { return w - 0.01 * m; }, now.p, next.m);
        return std::pair(next, value);
      },
      {.name = "step", .in_shardings = put.shardings, .out_shardings = out});
  return ts::simulate(step.lower(state, tokens), ClusterModel::preset("h100-dgx", kBatch * kModel / 8));
}

struct Counts {
  std::int64_t all_gather, all_reduce, reduce_scatter, all_to_all;
  bool operator==(const Counts&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Counts& c) {
  return out << c.all_gather << "/" << c.all_reduce << "/" << c.reduce_scatter << "/" << c.all_to_all;
}
Counts counts(const Simulation& s) {
  const CommPlan& p = s.comm_plan;
  return {p.count("all_gather"), p.count("all_reduce"), p.count("reduce_scatter"), p.count("all_to_all")};
}

// Published: 0/290/0/0, 0/128/0/0, 0/418/0/0, 129/289/129/0 and 259/289/129/0. With optimizer states split there is one
// reduce-scatter more here; with parameters split each is gathered once, where the published program gathers it again
// for the backward pass.
TEST(PublishedCounts, TransformerOver32Layers) {
  EXPECT_EQ(counts(simulated({.batch = true})), (Counts{0, 290, 0, 0}));
  EXPECT_EQ(counts(simulated({.model = true, .sequences = 2 * kBatch})), (Counts{0, 128, 0, 0}));
  EXPECT_EQ(counts(simulated({.batch = true, .model = true})), (Counts{0, 418, 0, 0}));
  EXPECT_EQ(counts(simulated({.batch = true, .model = true, .zero = 2})), (Counts{129, 289, 130, 0}));
  EXPECT_EQ(counts(simulated({.batch = true, .model = true, .zero = 3})), (Counts{130, 289, 130, 0}));
}

// Alpa, tests/shard_parallel: products split over one axis, by columns and rows in turn.
TEST(PublishedCounts, LayersOverATensorParallelAxis) {
  Placed put{AbstractMesh{{"model", 4}}};
  constexpr std::size_t kMlp = 6;
  std::vector<Array> matrices;
  for (std::size_t l = 0; l < kMlp; ++l) {
    matrices.push_back(put({1024, 1024}, l % 2 == 0 ? P(none, "model") : P("model", none)));
  }
  Array rows = put({256, 1024}, P());
  auto mlp = jit(
      [](const std::vector<Array>& p, const Array& x) {
        return grad([](const std::vector<Array>& q, const Array& b) {
          Array h = b;
          for (const auto& w : q) h = nn::relu(matmul(h, w));
          return mean(h * h);
        })(p, x);
      },
      {.in_shardings = put.shardings});
  const ClusterModel node = ClusterModel::preset("h100-dgx");
  EXPECT_EQ(counts(ts::simulate(mlp.lower(matrices, rows), node)), (Counts{0, kMlp - 1, 0, 0}));
}

}  // namespace
}  // namespace tessera
