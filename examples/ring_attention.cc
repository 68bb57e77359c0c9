// SPDX-License-Identifier: Apache-2.0
// Causal attention over a sequence that is split over eight devices. Keys and values travel round the ring of devices
// (Liu et al., 2023) while every device keeps its own queries and adds up what each block contributes, so no device
// ever holds all keys or a row of scores as long as the sequence. Values and gradients are compared with attention
// written the usual way, and the memory that both take is printed and drawn.
//
//   ring_attention [PICTURE.svg]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <iostream>
#include <string>
#include <tuple>
#include <vector>

#include "plot.h"
#include "tessera/tessera.h"

namespace ts = tessera;
using ts::Array;
using ts::P;

namespace {

constexpr std::int64_t kDevices = 8, kLength = 2048, kHeads = 2, kSize = 32;

// What a device has added up: for every query the largest score so far, the sum of exp(score - largest), and the sum
// of the values with those weights.
struct Partial {
  Array largest, weight, values;
};

// Scores of a block of keys for the own queries: (heads, queries, keys). Keys that come later in the sequence take no
// part.
Array scores(const Array& q, const Array& k, const Array& first_query, const Array& first_key) {
  Array s = ts::einsum("qhd,khd->hqk", {q, k}) / std::sqrt(static_cast<double>(kSize));
  Array query = first_query + ts::arange(q.shape(0));
  Array key = first_key + ts::arange(k.shape(0));
  return ts::where(ts::expand_dims(query, 1) >= ts::expand_dims(key, 0), s, -1e30);
}

Partial add_block(const Partial& p, const Array& s, const Array& v) {
  Partial next;
  next.largest = ts::maximum(p.largest, ts::max(s, {.axis = {-1}, .keepdims = true}));
  Array rescale = ts::exp(p.largest - next.largest);
  Array w = ts::exp(s - next.largest);
  next.weight = p.weight * rescale + ts::sum(w, {.axis = {-1}, .keepdims = true});
  next.values = p.values * rescale + ts::einsum("hqk,khd->hqd", {w, v});
  return next;
}

// Attention of the own block of queries, inside shard_map. The body of the loop is rematerialised in the backward pass:
// its scores would be kept for every turn.
Array ring_attention(const Array& q, const Array& k, const Array& v) {
  const std::int64_t block = q.shape(0);
  ts::PermutationPairs next_device;
  for (std::int64_t i = 0; i < kDevices; ++i) next_device.emplace_back(i, (i + 1) % kDevices);
  const Array own = ts::axis_index("x");

  using Turn = std::tuple<Array, Array, Partial>;
  auto turn = ts::checkpoint([=](Array i, Array queries, Turn t) {
    const auto& [keys, values, partial] = t;
    const Array from = (own - i + kDevices) % kDevices;  // whose keys these are
    const Partial sum = add_block(partial, scores(queries, keys, own * block, from * block), values);
    return Turn{ts::ppermute(keys, "x", next_device), ts::ppermute(values, "x", next_device), sum};
  });
  const Partial nothing{ts::full({kHeads, block, 1}, -1e30), ts::zeros({kHeads, block, 1}),
                        ts::zeros({kHeads, block, kSize})};
  const Turn start{k, v, ts::pvary(nothing, "x")};
  const auto [keys, values, sum] = ts::fori_loop(
      0, kDevices, [&](const Array& i, const Turn& t) { return turn(i, q, t); }, start);
  return ts::transpose(sum.values / sum.weight, {1, 0, 2});
}

// The usual way: all scores at once.
Array dense_attention(const Array& q, const Array& k, const Array& v) {
  return ts::nn::dot_product_attention(q, k, v, {.is_causal = true});
}

double largest_difference(const Array& a, const Array& b) {
  const std::vector<float> x = a.to_vector<float>();
  const std::vector<float> y = b.to_vector<float>();
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) worst = std::max(worst, static_cast<double>(std::abs(x[i] - y[i])));
  return worst;
}

using Attention = std::function<Array(Array, Array, Array)>;

// Attention and the gradients of a loss of it with respect to queries, keys and values.
auto with_gradients(const Attention& f) {
  return ts::jit([f](const Array& q, const Array& k, const Array& v) {
    auto loss = [&](const Array& a, const Array& b, const Array& c) { return ts::sum(ts::sin(f(a, b, c))); };
    return std::pair{f(q, k, v), ts::grad<0, 1, 2>(loss)(q, k, v)};
  });
}

double megabytes(const ts::CompiledMemoryStats& m) {
  return static_cast<double>(m.peak_memory_in_bytes.value_or(m.argument_size_in_bytes + m.temp_size_in_bytes)) / 1e6;
}

// What both take as sequences grow: programs are compiled for arrays that are never made.
void draw_memory(const std::string& picture, const Attention& ring, const ts::Mesh& mesh) {
  constexpr std::int64_t most = 16384;
  plot::Curve split{"ring of 8 devices", {}, kLength, kLength};
  plot::Curve whole{"dense, one device", {}, kLength, kLength};
  for (std::int64_t n = kLength; n <= most; n += kLength) {
    const ts::ShapeDtype block{{n, kHeads, kSize}, ts::float32, false, ts::NamedSharding(mesh, P("x"))};
    const ts::ShapeDtype all{{n, kHeads, kSize}};
    split.y.push_back(
        static_cast<float>(megabytes(with_gradients(ring).lower(block, block, block).compile().memory_analysis())));
    whole.y.push_back(static_cast<float>(
        megabytes(with_gradients(dense_attention).lower(all, all, all).compile().memory_analysis())));
  }
  plot::curves(picture, "Memory of a device for attention and its gradients", "length of the sequence", "MB",
               {whole, split}, true);
}

int run(const std::string& picture) {
  const ts::Mesh mesh = ts::make_mesh({kDevices}, {"x"});
  std::vector<Array> split;
  std::vector<Array> whole;
  for (int seed = 0; seed < 3; ++seed) {
    whole.push_back(
        ts::device_put(ts::random::normal(ts::random::key(seed), {kLength, kHeads, kSize}), ts::devices()[0]));
    split.push_back(ts::device_put(whole.back(), ts::NamedSharding(mesh, P("x"))));
  }
  const Attention ring = ts::shard_map(ring_attention, mesh, P("x"), P("x"));
  const auto ring_program = with_gradients(ring).lower(split[0], split[1], split[2]).compile();
  const auto dense_program = with_gradients(dense_attention).lower(whole[0], whole[1], whole[2]).compile();

  const auto forward = ts::jit(ring);
  std::cout << "what attention sends:\n" << to_string(forward.comm_plan(split[0], split[1], split[2])) << '\n';

  const auto [out, gradients] = ring_program(split[0], split[1], split[2]);
  const auto [dense_out, dense_gradients] = dense_program(whole[0], whole[1], whole[2]);
  const double apart = largest_difference(out, dense_out);
  const std::vector<Array> g = ts::tree_leaves(gradients);
  const std::vector<Array> dense_g = ts::tree_leaves(dense_gradients);
  double gradients_apart = 0;
  for (std::size_t i = 0; i < g.size(); ++i) {
    gradients_apart = std::max(gradients_apart, largest_difference(g[i], dense_g[i]));
  }
  const double of_ring = megabytes(ring_program.memory_analysis());
  const double of_dense = megabytes(dense_program.memory_analysis());
  std::printf("%lld positions, %lld heads of %lld: outputs differ by %.1e, gradients by %.1e\n",
              static_cast<long long>(kLength), static_cast<long long>(kHeads), static_cast<long long>(kSize), apart,
              gradients_apart);
  std::printf("most memory of a device, values and gradients: %.2f MB in the ring, %.2f MB dense, 1/%.0f\n", of_ring,
              of_dense, of_dense / of_ring);
  draw_memory(picture, ring, mesh);
  std::printf("memory by length of the sequence: %s\n", picture.c_str());
  return apart < 1e-5 && gradients_apart < 1e-4 && of_ring * 16 < of_dense ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    ts::ClientScope eight(ts::Client::cpu({.devices = kDevices}));
    return run(argc > 1 ? argv[1] : "ring_attention.svg");
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
