// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

#include "tessera/tessera.h"

namespace tessera {
namespace {

TEST(Custom, JvpRuleServesBothModes) {
  Array scale(HostArray::from<float>({2, 3}));
  auto f = custom_jvp([&](Array x) { return sin(x) * scale; },
                      [&](std::tuple<Array> p, std::tuple<Array> t) {
                        Array x = std::get<0>(p);
                        return std::pair{sin(x) * scale, std::get<0>(t) * 10.0 * scale};  // on purpose not the cosine
                      });
  Array x(HostArray::from<float>({0.5F, 1.0F}));
  EXPECT_NEAR(f(x).to_vector<float>()[0], 2 * std::sin(0.5F), 1e-6);
  EXPECT_EQ(grad([&](Array v) { return sum(f(v)); })(x).to_vector<float>(), (std::vector<float>{20, 30}));
  EXPECT_EQ(jit(grad([&](Array v) { return sum(f(v)); }))(x).to_vector<float>(), (std::vector<float>{20, 30}));
  auto [y, t] = jvp(f, std::tuple{x}, std::tuple{ones_like(x)});
  EXPECT_EQ(t.to_vector<float>(), (std::vector<float>{20, 30}));
}

TEST(Custom, VjpRuleClips) {
  auto f = custom_vjp([](Array x) { return x * x; },
                      [](Array x) {
                        return std::pair{x * x, x};
                      },
                      [](Array x, Array ct) { return std::tuple{minimum(2.0 * x * ct, 1.0)}; });
  Array x(HostArray::from<float>({0.25F, 4}));
  EXPECT_EQ(grad([&](Array v) { return sum(f(v)); })(x).to_vector<float>(), (std::vector<float>{0.5F, 1}));
  EXPECT_THROW(jvp(f, std::tuple{x}, std::tuple{x}), Error);
}

TEST(Callbacks, PureAndOrdered) {
  HostFunction twice = [](const std::vector<HostArray>& in) {
    HostArray out = in[0].astype(float32);
    HostArray fresh(float32, out.shape());
    for (std::int64_t i = 0; i < out.size(); ++i)
      fresh.span<float>()[static_cast<std::size_t>(i)] = 2 * out.span<float>()[static_cast<std::size_t>(i)];
    return std::vector<HostArray>{fresh};
  };
  auto f = jit([&](Array x) { return pure_callback(twice, {{.shape = {2}}}, {x + 1})[0] * 10; });
  EXPECT_EQ(f(Array(HostArray::from<float>({1, 2}))).to_vector<float>(), (std::vector<float>{40, 60}));
  std::vector<float> seen;
  auto g = jit([&](Array x) {
    for (int i = 0; i < 3; ++i) {
      debug_callback([&seen](const std::vector<HostArray>& in) { seen.push_back(in[0].span<float>()[0]); }, {x + i});
    }
    return x;
  });
  g(Array(1.0F)).block_until_ready();
  EXPECT_EQ(seen, (std::vector<float>{1, 2, 3}));
  auto bad = jit([](Array x) {
    return pure_callback(
        [](const std::vector<HostArray>&) -> std::vector<HostArray> { throw std::runtime_error("mine"); },
        {{.shape = {}}}, {x})[0];
  });
  Array failed = bad(Array(1.0F));
  EXPECT_THROW(failed.block_until_ready(), std::runtime_error);
  EXPECT_EQ((Array(1.0F) + 1).item<float>(), 2);
}

}  // namespace
}  // namespace tessera
