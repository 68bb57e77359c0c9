// SPDX-License-Identifier: Apache-2.0
// The GPT-like training step of the workloads: data x tensor parallel on an (N/2, 2) mesh, (1, 1) of one device.
// Shapes, seeds and formulas are those of the peer, so that the losses of chained steps can be compared.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "inputs.h"
#include "tessera/tessera.h"

namespace gpt {

namespace ts = tessera;
using tessera::bench::fill;
using tessera::bench::fill_int;

constexpr std::int64_t kWidth = 256, kHeads = 4, kLayers = 4, kVocabulary = 512, kLength = 128;

struct Block {
  ts::Array qkv, proj, up, down;
};
struct Params {
  ts::Array embed, pos;
  std::vector<Block> blocks;
};
struct State {
  Params p, m, v;
  ts::Array t;
};

inline ts::Array norm(const ts::Array& x) {
  ts::Array mu = ts::mean(x, {.axis = ts::Dims{-1}, .keepdims = true});
  ts::Array c = x - mu;
  return c * ts::rsqrt(ts::mean(c * c, {.axis = ts::Dims{-1}, .keepdims = true}) + 1e-5);
}

/// tanh form.
inline ts::Array gelu(const ts::Array& x) {
  return 0.5 * x * (1.0 + ts::tanh(0.7978845608028654 * (x + 0.044715 * ts::integer_pow(x, 3))));
}

/// `placed`: of the activations, where products over what both operands are split over must say it (explicit axes).
inline ts::Array block(const ts::Array& input, const Block& b, const ts::ShardingArg& placed = {}) {
  ts::Array x = input;
  std::int64_t n = x.shape(0);
  auto qkv = ts::split(ts::matmul(norm(x), b.qkv), 3, -1);
  auto heads = [&](const ts::Array& t) {
    return ts::transpose(ts::reshape(t, {n, kLength, kHeads, kWidth / kHeads}), {0, 2, 1, 3});
  };
  ts::Array q = heads(qkv[0]);
  ts::Array k = heads(qkv[1]);
  ts::Array v = heads(qkv[2]);
  ts::Array mask = ts::tri(kLength, {}, 0, ts::bool_);
  ts::Array scores = ts::matmul(q, ts::transpose(k, {0, 1, 3, 2})) / std::sqrt(static_cast<double>(kWidth / kHeads));
  ts::Array w = ts::where(mask, scores, -1e9);
  ts::Array o = ts::reshape(ts::transpose(ts::matmul(ts::softmax(w, -1), v), {0, 2, 1, 3}), {n, kLength, kWidth});
  x = x + ts::matmul(o, b.proj, {.out_sharding = placed});
  return x + ts::matmul(gelu(ts::matmul(norm(x), b.up)), b.down, {.out_sharding = placed});
}

inline ts::Array loss(const Params& p, const ts::Array& tokens, bool remat, const ts::ShardingArg& placed = {}) {
  ts::Array rows =
      placed.given() ? ts::at(p.embed, {tokens}).get({.out_sharding = placed}) : ts::take(p.embed, tokens, 0);
  ts::Array x = rows + p.pos;
  auto layer = [&](const ts::Array& input, const Block& b) { return block(input, b, placed); };
  for (const auto& b : p.blocks) x = remat ? ts::checkpoint(layer)(x, b) : layer(x, b);
  ts::Array logp = ts::log_softmax(ts::matmul(norm(x), ts::transpose(p.embed)), -1);
  ts::Array target = ts::roll(tokens, -1, 1);
  return -ts::mean(ts::take_along_axis(logp, ts::expand_dims(target, {-1}), -1));
}

/// One step of Adam. With `remat` the activations inside a block are computed again for the backward pass.
inline std::pair<State, ts::Array> step(const State& s, const ts::Array& tokens, bool remat = false,
                                        const ts::ShardingArg& placed = {}) {
  auto [value, g] =
      ts::value_and_grad([&](const Params& p, const ts::Array& t) { return loss(p, t, remat, placed); })(s.p, tokens);
  State next;
  next.t = s.t + 1;
  next.m = ts::tree_map([](const ts::Array& a, const ts::Array& b) { return 0.9 * a + 0.1 * b; }, s.m, g);
  next.v = ts::tree_map([](const ts::Array& a, const ts::Array& b) { return 0.999 * a + 0.001 * b * b; }, s.v, g);
  next.p = ts::tree_map(
      [&](const ts::Array& w, const ts::Array& a, const ts::Array& b) {
        return w - 1e-3 * (a / (1 - ts::power(0.9, next.t))) / (ts::sqrt(b / (1 - ts::power(0.999, next.t))) + 1e-8);
      },
      s.p, next.m, next.v);
  return {next, value};
}

inline std::int64_t batch(std::int64_t devices) { return std::max<std::int64_t>(16, devices / 2); }

/// Parameters, zero moments and tokens, placed on a mesh with axes x and y.
inline std::pair<State, ts::Array> state(const ts::Mesh& mesh) {
  auto build = [&](bool zero) {
    auto put = [&](const ts::Shape& shape, std::uint64_t seed, const ts::P& spec) {
      return ts::device_put(fill(shape, seed, zero ? 0.0F : 0.07F), ts::NamedSharding(mesh, spec));
    };
    Params p;
    p.embed = put({kVocabulary, kWidth}, 1, ts::P());
    p.pos = put({kLength, kWidth}, 2, ts::P());
    for (std::int64_t l = 0; l < kLayers; ++l) {
      auto seed = static_cast<std::uint64_t>(3 + 4 * l);
      p.blocks.push_back({put({kWidth, 3 * kWidth}, seed, ts::P(ts::none, "y")),
                          put({kWidth, kWidth}, seed + 1, ts::P("y", ts::none)),
                          put({kWidth, 4 * kWidth}, seed + 2, ts::P(ts::none, "y")),
                          put({4 * kWidth, kWidth}, seed + 3, ts::P("y", ts::none))});
    }
    return p;
  };
  ts::Array tokens =
      ts::device_put(fill_int({batch(mesh.size()), kLength}, kVocabulary, 9), ts::NamedSharding(mesh, ts::P("x")));
  return {State{build(false), build(true), build(true), ts::Array(ts::HostArray::scalar(0.0F))}, tokens};
}

}  // namespace gpt
