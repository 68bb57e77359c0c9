// SPDX-License-Identifier: Apache-2.0
// Programs that people build on collectives, each against the same computation on one device.
#include <gtest/gtest.h>

#include <cmath>

#include "tessera/tessera.h"
#include "tests/support/spec_report.h"

namespace tessera {
namespace {

class Patterns : public ::testing::Test {
 protected:
  Client client_ = Client::cpu({.devices = 8});
  ClientScope scope_{client_};
  Mesh ring_ = make_mesh({8}, {"x"});

  static Array numbers(const Shape& shape, int seed) { return random::normal(random::key(seed), shape); }
  static void near(const Array& got, const Array& want, double tolerance) {
    ASSERT_EQ(got.shape(), want.shape());
    auto a = got.to_vector<float>();
    auto b = want.to_vector<float>();
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance) << "element " << i;
  }
};

PermutationPairs ring(std::int64_t n, std::int64_t step = 1) {
  PermutationPairs out;
  for (std::int64_t i = 0; i < n; ++i) out.emplace_back(i, (i + step + n) % n);
  return out;
}

// softmax(q k^T) v where every device holds some rows; keys and values travel round the ring.
Array ring_attention(const Array& q, const Array& k, const Array& v) {
  std::int64_t n = axis_size("x");
  Array rows = matmul(q, transpose(k));
  Array top = max(rows, ReduceOptions{.axis = Dims{1}, .keepdims = true});
  Array weights = exp(rows - top);
  Array total = sum(weights, ReduceOptions{.axis = Dims{1}, .keepdims = true});
  Array out = matmul(weights, v);
  using Carry = std::tuple<Array, Array, Array, Array, Array>;
  auto step = [&](const Array&, const Carry& c) {
    auto [keys, values, high, amount, acc] = c;
    keys = ppermute(keys, "x", ring(n));
    values = ppermute(values, "x", ring(n));
    Array s = matmul(q, transpose(keys));
    Array next = maximum(high, max(s, ReduceOptions{.axis = Dims{1}, .keepdims = true}));
    Array scale = exp(high - next);
    Array w = exp(s - next);
    amount = amount * scale + sum(w, ReduceOptions{.axis = Dims{1}, .keepdims = true});
    acc = acc * scale + matmul(w, values);
    return Carry{keys, values, next, amount, acc};
  };
  Carry last = fori_loop(0, n - 1, step, Carry{k, v, top, total, out});
  return std::get<4>(last) / std::get<3>(last);
}

TEST_F(Patterns, RingAttention) {
  Array q = numbers({32, 8}, 1);
  Array k = numbers({32, 8}, 2);
  Array v = numbers({32, 8}, 3);
  auto dense = [](const Array& a, const Array& b, const Array& c) {
    return matmul(softmax(matmul(a, transpose(b))), c);
  };
  auto f = shard_map(ring_attention, ring_, P("x"), P("x"));
  near(f(q, k, v), dense(q, k, v), 1e-5);
  near(jit(f)(q, k, v), dense(q, k, v), 1e-5);
  auto loss = [](const auto& g) { return [g](Array a, Array b, Array c) { return sum(sin(g(a, b, c))); }; };
  near(grad<1>(loss(f))(q, k, v), grad<1>(loss(dense))(q, k, v), 1e-5);
}

// x (rows split) times w (rows split): while a block of w is multiplied the next one travels.
TEST_F(Patterns, CollectiveMatmul) {
  Array x = numbers({16, 32}, 1);
  Array w = numbers({32, 24}, 2);
  auto body = [](const Array& rows, const Array& own) {
    std::int64_t n = axis_size("x");
    std::int64_t width = own.shape(0);
    Array i = axis_index("x");
    Array block = own;
    Array acc = zeros({rows.shape(0), own.shape(1)});
    for (std::int64_t k = 0; k < n; ++k) {
      Array start = (i + static_cast<int>(n - k)) % static_cast<int>(n) * static_cast<int>(width);
      Array columns = lax::dynamic_slice_in_dim(rows, start, width, 1);
      acc = acc + matmul(columns, block);
      if (k + 1 < n) block = ppermute(block, "x", ring(n));
    }
    return acc;
  };
  auto f = shard_map(body, ring_, P("x"), P("x"));
  near(f(x, w), matmul(x, w), 1e-4);
  near(jit(f)(x, w), matmul(x, w), 1e-4);
}

// Stage s of a pipeline holds layer s; micro-batches move one stage on in every turn.
TEST_F(Patterns, Pipeline) {
  std::int64_t micro = 6;
  Array layers = numbers({8, 4, 4}, 1);
  Array batches = numbers({micro, 3, 4}, 2);
  auto body = [&](const Array& own, const Array& all) {
    std::int64_t n = axis_size("x");
    Array w = reshape(own, {4, 4});
    Array stage = axis_index("x");
    Array state = zeros({3, 4});
    std::vector<Array> done;
    for (std::int64_t t = 0; t < micro + n - 1; ++t) {
      Array in = t < micro ? squeeze(lax::slice_in_dim(all, t, t + 1), Dims{0}) : zeros({3, 4});
      state = tanh(matmul(where(stage == 0, in, state), w));
      if (t >= n - 1) done.push_back(where(stage == static_cast<int>(n - 1), state, zeros({3, 4})));
      state = ppermute(state, "x", ring(n));
    }
    return psum(stack(done), "x");
  };
  auto dense = [&](const Array& w, const Array& x) {
    Array y = x;
    for (std::int64_t s = 0; s < 8; ++s) y = tanh(matmul(y, reshape(lax::slice_in_dim(w, s, s + 1), {4, 4})));
    return y;
  };
  auto f = shard_map(body, ring_, SpecTree{P("x"), P()}, P());
  near(f(layers, batches), dense(layers, batches), 1e-5);
  auto loss = [](const auto& g) { return [g](Array w, Array x) { return sum(square(g(w, x))); }; };
  near(jit(grad(loss(f)))(layers, batches), grad(loss(dense))(layers, batches), 1e-4);
}

// Tokens go to the device of their expert and come back, as many to each as there are.
Array experts(const Array& tokens, const Array& expert, const Array& weights) {
  std::int64_t n = axis_size("x");
  std::int64_t count = tokens.shape(0);
  Array order = argsort(expert);
  Array sorted = take(tokens, order, 0);
  Array sizes = sum(astype(reshape(expert, {count, 1}) == reshape(arange(n), {1, n}), int32), 0);
  Array offsets = cumsum(sizes) - sizes;
  Array received = all_to_all(sizes, "x", 0, 0, {.tiled = true});
  Array landing = all_to_all(cumsum(received) - received, "x", 0, 0, {.tiled = true});
  Array room = zeros({n * count, tokens.shape(1)});
  Array mine = ragged_all_to_all(sorted, room, offsets, sizes, landing, received, "x");
  Array worked = tanh(matmul(mine, reshape(weights, {tokens.shape(1), tokens.shape(1)})));
  Array home = all_to_all(offsets, "x", 0, 0, {.tiled = true});
  Array back = ragged_all_to_all(worked, zeros({count, tokens.shape(1)}), cumsum(received) - received, received, home,
                                 sizes, "x");
  return take(back, argsort(order), 0);
}

TEST_F(Patterns, MixtureOfExperts) {
  std::int64_t count = 24;
  Array tokens = numbers({count, 4}, 1);
  Array weights = numbers({8, 4, 4}, 2);
  std::vector<std::int32_t> choice;
  for (int i = 0; i < count; ++i) choice.push_back((i * i + 3 * i) % 8);
  Array expert(HostArray::from(choice));
  auto dense = [&](const Array& x, const Array& w) {
    Array each = tanh(einsum("td,edf->tef", {x, w}));
    return sum(each * reshape(one_hot(expert, 8), {count, 8, 1}), 1);
  };
  auto f = shard_map(experts, ring_, P("x"), P("x"));
  near(f(tokens, expert, weights), dense(tokens, weights), 1e-5);
  near(jit(f)(tokens, expert, weights), dense(tokens, weights), 1e-5);
  auto loss = [&](Array x, Array w) { return sum(sin(f(x, expert, w))); };
  auto plain = [&](Array x, Array w) { return sum(sin(dense(x, w))); };
  auto [gx, gw] = grad<0, 1>(loss)(tokens, weights);
  auto [px, pw] = grad<0, 1>(plain)(tokens, weights);
  near(gx, px, 1e-5);
  near(gw, pw, 1e-5);
}

// The features of a row lie on several devices.
TEST_F(Patterns, LayerNormOverASplitDimension) {
  Array x = numbers({6, 32}, 1);
  auto body = [](const Array& block) {
    Array average = pmean(mean(block, ReduceOptions{.axis = Dims{1}, .keepdims = true}), "x");
    Array off = block - average;
    Array spread = pmean(mean(square(off), ReduceOptions{.axis = Dims{1}, .keepdims = true}), "x");
    return off * rsqrt(spread + 1e-5);
  };
  auto dense = [](const Array& v) {
    Array off = v - mean(v, ReduceOptions{.axis = Dims{1}, .keepdims = true});
    return off * rsqrt(mean(square(off), ReduceOptions{.axis = Dims{1}, .keepdims = true}) + 1e-5);
  };
  auto f = shard_map(body, ring_, P(none, "x"), P(none, "x"));
  near(f(x), dense(x), 1e-5);
  auto loss = [](const auto& g) { return [g](Array v) { return sum(sin(g(v))); }; };
  near(jit(grad(loss(f)))(x), grad(loss(dense))(x), 1e-5);
}

// Rows lie on devices: transform what is whole, exchange, transform the rest.
TEST_F(Patterns, FourierTransformAlongASplitDimension) {
  Array x = complex(numbers({16, 24}, 1), numbers({16, 24}, 2));
  auto body = [](const Array& rows) {
    Array half = all_to_all(fft::fft(rows, {.axis = 1}), "x", 1, 0, {.tiled = true});
    return all_to_all(fft::fft(half, {.axis = 0}), "x", 0, 1, {.tiled = true});
  };
  auto f = shard_map(body, ring_, P("x"), P("x"));
  Array want = fft::fft2(x);
  for (const Array& got : {f(x), jit(f)(x)}) {
    near(real(got), real(want), 1e-4);
    near(imag(got), imag(want), 1e-4);
  }
}

TEST_F(Patterns, HaloExchange) {
  Array x = numbers({16, 3}, 1);
  for (auto edge : {HaloEdge::periodic, HaloEdge::constant}) {
    auto body = [edge](const Array& block) {
      Array wide = halo_exchange(block, "x", 0, {.before = 2, .after = 1, .edge = edge, .value = 0.5});
      std::int64_t n = block.shape(0);
      return lax::slice_in_dim(wide, 0, n) + lax::slice_in_dim(wide, 3, 3 + n) * block;
    };
    auto dense = [edge](const Array& v) {
      std::int64_t n = v.shape(0);
      Array front = edge == HaloEdge::periodic ? lax::slice_in_dim(v, n - 2, n) : full({2, 3}, 0.5);
      Array behind = edge == HaloEdge::periodic ? lax::slice_in_dim(v, 0, 1) : full({1, 3}, 0.5);
      Array wide = concatenate({front, v, behind});
      return lax::slice_in_dim(wide, 0, n) + lax::slice_in_dim(wide, 3, 3 + n) * v;
    };
    auto f = shard_map(body, ring_, P("x"), P("x"));
    near(f(x), dense(x), 1e-6);
    auto loss = [](const auto& g) { return [g](Array v) { return sum(sin(g(v))); }; };
    near(jit(grad(loss(f)))(x), grad(loss(dense))(x), 1e-5);
  }
  auto bad = shard_map([](const Array& b) { return halo_exchange(b, "x", 0, {.before = 3}); }, ring_, P("x"), P("x"));
  EXPECT_THROW(bad(x), ValueError);
}

}  // namespace
}  // namespace tessera
