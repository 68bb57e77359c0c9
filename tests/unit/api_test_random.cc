// SPDX-License-Identifier: Apache-2.0
// Against numbers that jax.random (0.10.2) gave for the same keys.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tessera/tessera.h"

namespace tessera {
namespace {

using U32 = std::vector<std::uint32_t>;
using I32 = std::vector<std::int32_t>;

TEST(Random, BitsEqualJax) {
  Array k = random::key(7);
  EXPECT_EQ(random::split(k, 3).to_vector<std::uint32_t>(),
            (U32{3625411723, 1954958720, 195045567, 4062205631, 966301609, 1948237315}));
  EXPECT_EQ(random::fold_in(k, 5).to_vector<std::uint32_t>(), (U32{3583082021, 1947592014}));
  EXPECT_EQ(random::bits(k, {2, 3}).to_vector<std::uint32_t>(),
            (U32{2895194379, 4185947648, 1300703658, 1906787632, 3139134342, 2709822315}));
  EXPECT_EQ(random::bits(k, {5}, uint8).to_vector<std::uint8_t>(), (std::vector<std::uint8_t>{11, 0, 170, 48, 134}));
  EXPECT_EQ(random::uniform(k, {4}, float32, -2.0, 3.0).to_vector<float>(),
            (std::vector<float>{0x1.5ed5c80000000p+0F, 0x1.6fc13c0000000p+1F, -0x1.f170e00000000p-2F,
                                0x1.c222a00000000p-3F}));
  EXPECT_EQ(random::randint(k, {6}, -3, 10).to_vector<std::int32_t>(), (I32{7, 9, 1, -2, 7, 0}));
  EXPECT_EQ(random::randint(k, {6}, 0, 256, uint8).to_vector<std::uint8_t>(),
            (std::vector<std::uint8_t>{31, 102, 124, 237, 222, 102}));
  EXPECT_EQ(random::bernoulli(k, 0.3, Shape{8}).to_vector<bool>(), std::vector<bool>(8, false));
}

TEST(Random, FloatsCloseToJax) {
  Array k = random::key(7);
  auto near = [](const Array& a, const std::vector<float>& want, float ulps) {
    std::vector<float> got = a.to_vector<float>();
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], ulps * std::abs(want[i]) * 1.2e-7F);
  };
  near(random::normal(k, {4}), {0.4512351453304291F, 1.9534509181976318F, -0.5162394642829895F, -0.14094029366970062F},
       4);
  near(random::truncated_normal(k, -1.0, 0.5, {4}),
       {0.04467101767659187F, 0.4619410037994385F, -0.4676639139652252F, -0.2657923698425293F}, 4);
  near(random::gumbel(k, {3}), {0.9304105043411255F, 3.6608431339263916F, -0.17776018381118774F}, 8);  // two logarithms
}

TEST(Random, ShardingDoesNotMatter) {
  Client client = Client::cpu({.devices = 8});
  ClientScope scope(client);
  auto mesh = make_mesh({4, 2}, {"x", "y"});
  Array k = random::key(3);
  std::vector<float> whole = random::normal(k, {16, 6}).to_vector<float>();
  for (const P& spec : {P("x"), P("x", "y"), P(none, "y"), P({"x", "y"})}) {
    auto f = jit(
        [](Array key) {
          return random::normal(key, {16, 6});
        },
        {.out_shardings = {NamedSharding(mesh, spec)}});
    Array y = f(k);
    EXPECT_TRUE(*y.sharding() == NamedSharding(mesh, spec));
    EXPECT_EQ(y.to_vector<float>(), whole);
    EXPECT_TRUE(f.comm_plan(k).empty());
  }
}

TEST(Random, OrdersEqualJax) {
  Array k = random::key(7);
  EXPECT_EQ(random::permutation(k, 8).to_vector<std::int32_t>(), (I32{4, 2, 3, 5, 0, 7, 6, 1}));
  EXPECT_EQ(random::permutation(k, reshape(arange(6), {3, 2})).to_vector<std::int32_t>(), (I32{4, 5, 0, 1, 2, 3}));
  EXPECT_EQ(random::choice(k, 10, {4}).to_vector<std::int32_t>(), (I32{9, 2, 0, 7}));
  EXPECT_EQ(random::choice(k, 10, {4}, false).to_vector<std::int32_t>(), (I32{9, 4, 2, 3}));
  Array p(HostArray::from(std::vector<float>{.1F, .2F, .7F, .5F, .25F, .25F}, {2, 3}));
  EXPECT_EQ(random::categorical(k, log(p)).to_vector<std::int32_t>(), (I32{1, 1}));
}

TEST(Ordering, SortsAndSearches) {
  Array x(HostArray::from<float>({3, 1, NAN, 2, 1}));
  EXPECT_EQ(argsort(x).to_vector<std::int32_t>(), (I32{1, 4, 3, 0, 2}));
  EXPECT_EQ(argsort(x, -1, true).to_vector<std::int32_t>(), (I32{2, 0, 3, 1, 4}));
  EXPECT_EQ(sort(x).to_vector<float>()[3], 3);
  Array sorted(HostArray::from<std::int32_t>({1, 3, 3, 5}));
  Array v(HostArray::from<std::int32_t>({3, 0, 6, 3, 5}));
  EXPECT_EQ(searchsorted(sorted, v).to_vector<std::int32_t>(), (I32{1, 0, 4, 1, 3}));
  EXPECT_EQ(searchsorted(sorted, v, true).to_vector<std::int32_t>(), (I32{3, 0, 4, 3, 4}));
  auto [values, places] = lax::top_k(Array(HostArray::from<std::int32_t>({4, 9, 1, 9})), 2);
  EXPECT_EQ(values.to_vector<std::int32_t>(), (I32{9, 9}));
  EXPECT_EQ(places.to_vector<std::int32_t>(), (I32{1, 3}));
  EXPECT_EQ(argmax(Array(HostArray::from<std::int32_t>({4, 9, 1, 9}))).item<std::int32_t>(), 1);
  EXPECT_EQ(cumsum(Array(HostArray::from<std::int32_t>({1, 2, 3}))).to_vector<std::int32_t>(), (I32{1, 3, 6}));
  Array image(HostArray::from(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9}, {3, 3}));
  EXPECT_EQ(lax::reduce_window_max(image, {2, 2}).to_vector<float>(), (std::vector<float>{5, 6, 8, 9}));
  EXPECT_EQ(lax::reduce_window_sum(image, {2, 2}, {.strides = {2, 2}, .same = true}).to_vector<float>(),
            (std::vector<float>{12, 9, 15, 9}));
}

TEST(Ordering, LeastIntegersReachTheEndsOfTheirRange) {
  constexpr std::int32_t kLeast = std::numeric_limits<std::int32_t>::min();
  auto [values, places] = lax::approx_min_k(Array(HostArray::from<std::int32_t>({4, kLeast, -1, 0})), 2);
  EXPECT_EQ(values.to_vector<std::int32_t>(), (I32{kLeast, -1}));
  EXPECT_EQ(places.to_vector<std::int32_t>(), (I32{1, 2}));
  auto [bytes, where_least] = lax::approx_min_k(Array(HostArray::from<std::uint8_t>({7, 0, 255, 3})), 3);
  EXPECT_EQ(bytes.to_vector<std::uint8_t>(), (std::vector<std::uint8_t>{0, 3, 7}));
  EXPECT_EQ(where_least.to_vector<std::int32_t>(), (I32{1, 3, 0}));
}

TEST(Random, BadArguments) {
  EXPECT_THROW(random::normal(Array(1.0F)), TypeError);
  EXPECT_THROW(random::bits(random::key(0), {2}, int32), TypeError);
  EXPECT_THROW(random::uniform(random::key(0), {-1}), ValueError);
}

}  // namespace
}  // namespace tessera
