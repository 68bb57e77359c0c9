// SPDX-License-Identifier: Apache-2.0
// Stages of a jitted function: traced, lowered and compiled from arrays with and without data.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "tessera/tessera.h"

namespace tessera {

namespace {

class Stages : public ::testing::Test {
 protected:
  Client client = Client::cpu({.devices = 8});
  ClientScope scope{client};
  Mesh mesh = make_mesh({8}, {"x"});
  NamedSharding split{mesh, P("x")}, whole{mesh, P()};
  Array a = device_put(reshape(arange(32), {8, 4}), split);
};

TEST_F(Stages, CompiledNeverCompilesAgain) {
  auto f = jit([](const Array& x, const Array& y) { return std::pair{x + y, sum(x)}; });
  auto compiled = f.lower(a, a).compile();
  EXPECT_EQ(f.stats(), (CompileStats{1, 1, 1}));
  for (int i = 0; i < 3; ++i) {
    auto [s, total] = compiled(a, a * 2);
    EXPECT_EQ(s.to_vector<std::int32_t>(), (a * 3).to_vector<std::int32_t>());
    EXPECT_EQ(total.item<std::int32_t>(), 496);
  }
  EXPECT_EQ(f.stats(), (CompileStats{1, 1, 1}));
  // What has no place of its own moves; what has one that differs is refused.
  Array free = reshape(arange(32), {8, 4});
  EXPECT_EQ(compiled(free, a).first.to_vector<std::int32_t>(), (a * 2).to_vector<std::int32_t>());
  EXPECT_THROW(compiled(device_put(free, whole), a), ValueError);
  EXPECT_EQ(f.stats(), (CompileStats{1, 1, 1}));
}

// Of one device, which has an eighth of the rows.
TEST_F(Stages, CompiledTellsWhatItCosts) {
  Array x = device_put(ones({64, 32}), split), w = device_put(ones({32, 16}), whole);
  auto f = jit(
      [](const Array& l, const Array& r) {
        return std::pair{exp(matmul(l, r)), l * 2.0};
      },
      {.donate_argnums = {0, 1}});
  auto compiled = f.lower(x, w).compile();
  const CostAnalysis costs = compiled.cost_analysis();
  EXPECT_EQ(costs.at("flops"), 2.0 * 8 * 32 * 16 + 8 * 32);
  EXPECT_EQ(costs.at("transcendentals"), 8 * 16);
  const double of_product = 8 * 32 + 32 * 16 + 8 * 16;
  EXPECT_GE(costs.at("bytes accessed"), 4 * (of_product + 2 * 8 * 16 + 2 * 8 * 32));
  const CompiledMemoryStats memory = compiled.memory_analysis();
  EXPECT_EQ(memory.argument_size_in_bytes, 4 * (8 * 32 + 32 * 16));
  EXPECT_EQ(memory.output_size_in_bytes, 4 * (8 * 16 + 8 * 32));
  EXPECT_EQ(memory.alias_size_in_bytes, 4 * 8 * 32);  // no result has the size of the second argument
  EXPECT_EQ(memory.temp_size_in_bytes, 4 * 8 * 16);   // the product
  EXPECT_EQ(memory.peak_memory_in_bytes, memory.argument_size_in_bytes + memory.output_size_in_bytes -
                                             memory.alias_size_in_bytes + memory.temp_size_in_bytes);
  // What a loop's body makes counts while the loop runs.
  auto loop = jit([](const Array& v) {
    return fori_loop(
        0, 3, [](Array, Array c) { return sin(cos(c)); }, v);
  });
  EXPECT_GE(loop.lower(x).compile().memory_analysis().temp_size_in_bytes, 4 * 8 * 32);
  EXPECT_EQ(f.stats(), (CompileStats{1, 1, 1}));
}

TEST_F(Stages, CompiledChecksItsArguments) {
  auto f = jit([](const std::vector<Array>& x, int n) { return x[0] * n; }, {.name = "scale"});
  auto compiled = f.lower(std::vector{a}, 3).compile();
  EXPECT_EQ(compiled(std::vector{a}, 3).to_vector<std::int32_t>(), (a * 3).to_vector<std::int32_t>());
  EXPECT_THROW(compiled(std::vector{a}, 4), ValueError);
  EXPECT_THROW((compiled(std::vector{a, a}, 3)), TypeError);
  EXPECT_THROW((compiled(std::vector{astype(a, float32)}, 3)), TypeError);
  try {
    compiled(std::vector{ones({4, 4}, int32)}, 3);
    FAIL();
  } catch (const TypeError& e) {
    std::string message = e.what();
    EXPECT_NE(message.find("scale"), std::string::npos) << message;
    EXPECT_NE(message.find("i32[4,4]"), std::string::npos) << message;
    EXPECT_NE(message.find("i32[8,4]"), std::string::npos) << message;
  }
  EXPECT_THROW(jit([&](const Array& x) { return compiled(std::vector{x}, 3); })(a), StateError);
  Array gone = copy(a);
  gone.delete_();
  EXPECT_THROW(compiled(std::vector{gone}, 3), DeletedArrayError);
}

TEST_F(Stages, CompiledDonates) {
  auto compiled = jit([](const Array& x) { return x + 1; }, {.donate_argnums = {0}}).lower(a).compile();
  Array b = copy(a);
  EXPECT_EQ(compiled(b).to_vector<std::int32_t>()[0], 1);
  EXPECT_TRUE(b.is_deleted());
  EXPECT_FALSE(a.is_deleted());
}

TEST_F(Stages, LowersWithoutData) {
  auto f = jit([](const Array& x, const Array& y) { return matmul(x, y); });
  // 8 TiB each: only types and shardings are used.
  std::int64_t n = std::int64_t{1} << 20;
  ShapeDtype x{{n, n}, float64, false, split.share()}, y{{n, n}, float64, false, whole.share()};
  auto lowered = f.lower(x, y);
  EXPECT_NE(lowered.as_text().find("tensor<1048576x1048576xf64>"), std::string::npos);
  EXPECT_EQ(lowered.comm_plan().bytes_per_device(), 0);
  EXPECT_EQ(eval_shape([](const Array& v) { return sum(v, {.axis = 0}); }, x),
            (std::vector<ShapeDtype>{{{n}, float64}}));
  // Compiled before there is data, run when there is.
  auto step = jit([](const Array& v) { return v * 2; });
  auto compiled = step.lower(ShapeDtype{{8, 4}, int32, false, split.share()}).compile();
  EXPECT_EQ(compiled(a).to_vector<std::int32_t>(), (a * 2).to_vector<std::int32_t>());
  EXPECT_TRUE(*compiled(a).sharding() == split);
  EXPECT_EQ(step(a).shape(), a.shape());
  EXPECT_EQ(step.stats(), (CompileStats{1, 1, 1}));
}

TEST_F(Stages, WithoutDataThereIsNothingToRead) {
  Array none = without_data({{8, 4}, float32, false, split.share()});
  EXPECT_EQ(none.shape(), (Shape{8, 4}));
  EXPECT_EQ(none.dtype(), float32);
  EXPECT_TRUE(*none.sharding() == split);
  EXPECT_THROW(none.to_vector<float>(), StateError);
  EXPECT_THROW(none + 1, StateError);
  EXPECT_THROW(jit([](const Array& v) { return v; })(none), StateError);
  EXPECT_THROW(none.addressable_shards(), StateError);
  EXPECT_THROW(device_put(none, whole), StateError);
  EXPECT_THROW(without_data({{7}, float32, false, split.share()}), IndivisibleError);
  // Trees of them.
  std::pair<Array, std::vector<Array>> tree{none, {none}};
  auto lowered = jit([](const std::pair<Array, std::vector<Array>>& t) { return t.first + t.second[0]; }).lower(tree);
  EXPECT_FALSE(lowered.text().empty());
}

TEST_F(Stages, PmapIsTracedOnceForAllItsCalls) {
  int traces = 0;
  auto f = pmap(
      [&](const Array& x) {
        ++traces;
        return psum(x, "i");
      },
      {.axis_name = "i"});
  Array x = ones({8, 3});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(f(x).to_vector<float>()[0], 8);
  EXPECT_EQ(traces, 1);
  EXPECT_EQ(f(ones({4, 3})).to_vector<float>()[0], 4);  // on four of the devices
  EXPECT_EQ(f(ones({8, 2})).to_vector<float>()[0], 8);
  EXPECT_EQ(traces, 3);
}

}  // namespace

}  // namespace tessera
