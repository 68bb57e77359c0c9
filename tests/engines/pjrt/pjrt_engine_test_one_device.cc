// SPDX-License-Identifier: Apache-2.0
// What one device is enough for, so that it runs where there is one GPU.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "bench/workloads/gpt.h"
#include "engines/pjrt/plugin_programs.h"
#include "support/checkpoint_files.h"
#include "tessera/checkpoint.h"
#include "tessera/tessera.h"

namespace tessera::test {

namespace {

Mesh mesh_of_one(const Client& client) {
  return make_mesh({1, 1}, {"x", "y"}, std::vector<Device>{client.devices()[0]});
}

TEST(PjrtOneDevice, TrainsAsTheNativeEngine) {
  std::vector<std::vector<float>> losses;
  for (const Client& client : {Client::cpu(), plugin_client()}) {
    ClientScope scope(client);
    auto [state, tokens] = gpt::state(mesh_of_one(client));
    auto step = jit([](const gpt::State& s, const Array& t) { return gpt::step(s, t); }, {.donate_argnums = {0}});
    auto& of_client = losses.emplace_back();
    for (int i = 0; i < 4; ++i) {
      auto [next, loss] = step(state, tokens);
      state = next;
      of_client.push_back(loss.item<float>());
    }
    EXPECT_LT(of_client.back(), of_client.front());
  }
  // Products of a GPU may round their factors to 10 bits.
  for (std::size_t i = 0; i < losses[0].size(); ++i) EXPECT_NEAR(losses[1][i], losses[0][i], 1e-3 * losses[0][i]);
}

TEST(PjrtOneDevice, ReadsNothingBackBetweenCalls) {
  const Client client = plugin_client();
  ClientScope scope(client);
  Array x = device_put(arange(1024.0F), client.devices()[0]);
  auto f = jit([](Array v) { return v * 0.5 + 1.0; });
  x = f(x);
  const std::int64_t moved = transfer_stats().bytes;
  for (int i = 0; i < 100; ++i) x = f(x);
  x.block_until_ready();
  EXPECT_EQ(transfer_stats().bytes, moved);
  EXPECT_NEAR(x.to_vector<float>()[1023], 2.0F, 1e-4);
}

TEST(PjrtOneDevice, TellsWhatAProgramCosts) {
  const Client client = plugin_client();
  ClientScope scope(client);
  const auto compiled = jit([](Array x) { return tanh(matmul(x, x) + 1.0); }).lower(ones({64, 64})).compile();
  // A library's product is one of unknown costs.
  for (const auto& [name, value] : compiled.cost_analysis()) EXPECT_GE(value, 0) << name;
  const auto sums = jit([](Array x) { return x * 2.0 + 1.0; }).lower(ones({64, 64})).compile().cost_analysis();
  EXPECT_GE(sums.at("flops"), 64 * 64);
  EXPECT_GE(sums.at("bytes accessed"), 2 * 4 * 64 * 64);
  EXPECT_EQ(compiled.memory_analysis().argument_size_in_bytes, 4 * 64 * 64);
  EXPECT_GE(compiled.memory_analysis().output_size_in_bytes, 4 * 64 * 64);
}

TEST(PjrtOneDevice, KeepsCheckpoints) {
  const TempFolder folder;
  const Client client = plugin_client();
  ClientScope scope(client);
  const NamedSharding there(mesh_of_one(client), P("x"));
  const Array saved = device_put(HostArray::from({1.5F, -2.0F, 0.25F}), there);
  checkpoints::save(folder.path(), 1, saved * 2.0).wait();
  const Array got = checkpoints::restore(
      folder.path(), 1, without_data({saved.shape(), saved.dtype(), saved.weak_type(), saved.sharding()}));
  EXPECT_EQ((got + 1.0).to_vector<float>(), (std::vector<float>{4, -3, 1.5F}));
}

// Every backend has XLA's loops for Householder's reflectors, and those of the host LAPACK.
TEST(PjrtOneDevice, FactorsByReflectors) {
  ClientScope scope(plugin_client());
  for (DType t : {float32, float64, complex64, complex128}) {
    const Array turn = is_complex(t) ? astype(Array(complex128_t(0.6, 0.8)), t) : ones({}, t);
    const Array tall = astype(cos(reshape(arange(2.0F * 15), {2, 5, 3})), t) * turn;
    for (const Array& a : {tall, swapaxes(tall, -1, -2)}) {
      for (bool full : {false, true}) {
        const auto [q, r] = jit([full](Array x) { return linalg::qr(x, full); })(a);
        const Array unit = matmul(conj(swapaxes(q, -1, -2)), q) - eye(q.shape(-1), std::nullopt, 0, t);
        EXPECT_LT(max(abs(matmul(q, r) - a)).item<double>(), 1e-5) << dtype_name(t);
        EXPECT_LT(max(abs(unit)).item<double>(), 1e-5) << dtype_name(t);
        EXPECT_EQ(max(abs(tril(r, -1))).item<double>(), 0) << dtype_name(t);
      }
    }
  }
  EXPECT_EQ(linalg::qr(zeros({3, 0})).q.shape(), (Shape{3, 0}));
  EXPECT_EQ(linalg::qr(zeros({0, 3, 2})).r.shape(), (Shape{0, 2, 2}));
  EXPECT_EQ(linalg::qr(zeros({2, 0}), true).q.to_vector<float>(), (std::vector<float>{1, 0, 0, 1}));
}

// Nothing else suffers.
TEST(PjrtOneDevice, SaysWhatItHasNoMemoryFor) {
  const Client client = plugin_client();
  if (client.platform() == "cpu") GTEST_SKIP() << "XLA:CPU takes what the host promises, which is more than it has";
  ClientScope scope(client);
  const Array kept = arange(4.0F) + 1.0;
  const auto much = [](std::int64_t rows) {
    return jit([rows](Array v) { return broadcast_to(v, {rows, v.shape(0)}) + 1.0; })(arange(1024.0F));
  };
  EXPECT_THROW(much(std::int64_t{1} << 32).block_until_ready(), ResourceExhaustedError);  // 16 TiB
  EXPECT_EQ((kept * 2.0).to_vector<float>(), (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(much(2).shape(), (Shape{2, 1024}));
}

TEST(PjrtOneDevice, HasTheExtremesOfFloats) {
  const Client client = plugin_client();
  ClientScope scope(client);
  const float nan = std::nanf(""), inf = std::numeric_limits<float>::infinity();
  for (DType t : {float16, bfloat16, float32, float64}) {
    const Array x = astype(Array(HostArray::from({3.0F, nan, -inf, 0.0F})), t);
    const Array y = astype(Array(HostArray::from({-0.0F, 0.0F, inf, 5.0F})), t);
    for (const Array& m : {max(x), min(x), maximum(x, 1.0), minimum(x, 1.0)}) {
      EXPECT_TRUE(any(isnan(m)).item<bool>()) << dtype_name(t);
    }
    EXPECT_EQ(argmax(x).item<int>(), 1) << dtype_name(t);
    EXPECT_EQ(astype(max(y), float32).item<float>(), inf) << dtype_name(t);
    EXPECT_EQ(astype(sort(y), float32).to_vector<float>().back(), inf) << dtype_name(t);
  }
}

}  // namespace

}  // namespace tessera::test
