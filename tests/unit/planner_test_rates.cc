// SPDX-License-Identifier: Apache-2.0
// Simulated programs on a machine that was measured: rates of operations, caches, and rows that are reduced in them.
#include <gtest/gtest.h>

#include <functional>

#include "ops/ops.h"
#include "planner/schedule.h"
#include "support/spmd_sketch.h"
#include "tessera/simulate.h"
#include "tessera/tessera.h"

namespace tessera {
namespace {

using Function = std::function<Array(const Array&)>;
constexpr double kElements = 8 * 16;  // of a device

// Eight devices of one process.
ClusterModel process() {
  ClusterModel c;
  c.name = "test";
  c.device = {"test", {{DType::F32, 1000}}, 100, 1e12, 1 << 30};
  c.levels = {{"memory", ClusterLevel::Kind::Memory, {8}, true, 0, 1e9}};
  return c;
}

double step(const ClusterModel& c, const Function& f, const Shape& shape = {64, 16}) {
  const AbstractMesh mesh{{"x", 8}};
  return jit(f, {.in_shardings = {NamedSharding(mesh, P("x"))}}).lower(ShapeDtype{shape, float32}).simulate(c).step;
}

TEST(Rates, FunctionsHaveThoseOfTheirClass) {
  auto exponential = [](const Array& v) { return exp(v); };
  auto tangent = [](const Array& v) { return tanh(v); };
  auto logarithm = [](const Array& v) { return log(v); };
  auto error = [](const Array& v) { return erf(v); };
  auto root = [](const Array& v) { return sqrt(v); };
  auto quotient = [](const Array& v) { return 1 / v; };
  ClusterModel c = process();
  EXPECT_NEAR(step(c, exponential), 10 * kElements / 100, 1e-6) << "ten element-wise operations";
  EXPECT_NEAR(step(c, root), 10 * kElements / 100, 1e-6);
  EXPECT_NEAR(step(c, quotient), kElements / 100, 1e-6) << "a division is one";
  c.device.operations = {{"transcendental", 50}};
  for (const Function& f :
       {Function(exponential), Function(tangent), Function(logarithm), Function(error), Function(root)}) {
    EXPECT_NEAR(step(c, f), kElements / 50, 1e-6) << "it stands for those that nobody measured";
  }
  EXPECT_NEAR(step(c, quotient), kElements / 100, 1e-6);
  c.device.operations = {{"transcendental", 50}, {"exp", 200}, {"tanh", 160}, {"special", 25}, {"root", 80}};
  EXPECT_NEAR(step(c, exponential), kElements / 200, 1e-6);
  EXPECT_NEAR(step(c, tangent), kElements / 160, 1e-6);
  EXPECT_NEAR(step(c, logarithm), kElements / 50, 1e-6);
  EXPECT_NEAR(step(c, error), kElements / 25, 1e-6);
  EXPECT_NEAR(step(c, root), kElements / 80, 1e-6);
  EXPECT_NEAR(step(c, quotient), kElements / 80, 1e-6);
}

TEST(Rates, OtherOperationsHaveTheirOwn) {
  auto sorted = [](const Array& v) { return sort(v, -1); };
  auto greatest = [](const Array& v) { return lax::top_k(v, 2).first; };
  auto sums = [](const Array& v) { return cumsum(v, 1); };
  ClusterModel c = process();
  for (const Function& f : {Function(sorted), Function(greatest), Function(sums)}) EXPECT_NEAR(step(c, f), 0, 1e-6);
  c.device.operations = {{"sort", 4}, {"top_k", 8}, {"scan", 16}};
  EXPECT_NEAR(step(c, sorted), kElements * 4 / 4, 1e-6) << "the binary logarithm of 16 is 4";
  EXPECT_NEAR(step(c, greatest), kElements / 8, 1e-6);
  EXPECT_NEAR(step(c, sums), kElements / 16, 1e-6);
}

TEST(Rates, ValuesComeFromTheCacheThatHoldsWhatWasUsedSince) {
  auto thrice = [](const Array& v) { return sort(cumsum(sort(v, -1), 1), -1); };
  constexpr double kBytes = 4 * kElements;
  ClusterModel c = process();
  c.device.memory_bandwidth = 10;
  // Six arrays are read or written in a step, four from when one is written until it has been read.
  c.device.caches = {{static_cast<std::int64_t>(4 * kBytes), 100}};
  EXPECT_NEAR(step(c, thrice), 1.5 * kBytes / 10 + 3.5 * kBytes / 100, 1e-6)
      << "the result and half of the argument, which was used six arrays before";
  c.device.caches = {{static_cast<std::int64_t>(3 * kBytes), 100}, {static_cast<std::int64_t>(6 * kBytes), 20}};
  const double hits = (1.0 / 10 - 1.0 / 20) / (1.0 / 10 - 1.0 / 100);  // of the larger cache, by its rate
  EXPECT_NEAR(step(c, thrice), kBytes * ((1 - hits) / 10 + hits / 100 + 2.0 / 100 + 3.0 / 20), 1e-6)
      << "the argument is read from it, what lies between from the smaller one, and all is written to it";
  c.device.caches = {{static_cast<std::int64_t>(6 * kBytes), 100}};
  EXPECT_NEAR(step(c, thrice), 6 * kBytes / 100, 1e-6) << "all of the step is in the cache";
  c.device.caches = {{static_cast<std::int64_t>(kBytes), 100}};
  EXPECT_NEAR(step(c, thrice), 6 * kBytes / 10, 1e-6);
}

TEST(Rates, MemoryIsReadBesideAllPassesOfRows) {
  auto shares = [](const Array& v) {
    const Array e = exp(v);
    return e / sum(e, {.axis = Dims{1}, .keepdims = true});
  };
  ClusterModel c = process();
  c.device.vector_flops = 1e12;
  c.device.operations = {{"exp", 1000}, {"root", 50}};
  c.device.memory_bandwidth = 400;
  EXPECT_NEAR(step(c, shares), kElements / 1000 + kElements / 50, 1e-6) << "the row before is computed meanwhile";
  c.device.memory_bandwidth = 100;
  EXPECT_NEAR(step(c, shares), 2 * 4 * kElements / 100, 1e-6);
  c.device.caches = {{1 << 20, 400}};
  EXPECT_NEAR(step(c, shares), 4 * kElements / 400 + kElements / 50, 1e-6) << "what a cache gives waits for its pass";
}

TEST(Rates, LargeResultsAreWrittenAroundTheCaches) {
  auto more = [](const Array& v) { return v + v; };
  ClusterModel c = process();
  c.device.vector_flops = 1e30;
  c.device.memory_bandwidth = 10;
  c.device.caches = {{static_cast<std::int64_t>(4 * kElements), 100}};
  EXPECT_NEAR(step(c, more), 2 * 4 * kElements / 10, 1e-6) << "the result takes the argument's place in the cache";
  constexpr std::int64_t kColumns = 1 << 18;
  constexpr double kBytes = 4 * 8 * kColumns;
  c.device.caches = {{static_cast<std::int64_t>(kBytes), 100}};
  EXPECT_NEAR(step(c, more, {64, kColumns}), kBytes / 10, 1e-3) << "the argument stays, and is read beside the writes";
}

TEST(Rates, ProductsMayReadCachesFasterThanOtherPasses) {
  auto product = [](const Array& v) { return matmul(v, ones({16, 16})); };
  ClusterModel c = process();
  c.device.memory_bandwidth = 1;
  c.device.caches = {{1 << 20, 10}};
  const double plain = step(c, product);
  c.device.operations = {{"product_reads", 40}};
  EXPECT_GT(plain - step(c, product), 4 * kElements * (1.0 / 10 - 1.0 / 40) - 1e-6) << "of the operand at least";
  c.device.operations = {{"product_reads", 5}};
  EXPECT_EQ(step(c, product), plain) << "the cache's own rate is more";
  c.device.caches = {};
  const double from_memory = step(c, product);
  c.device.operations = {};
  EXPECT_EQ(step(c, product), from_memory);
}

TEST(Rates, WhatSeveralDevicesReadTakesRoomInTheCacheOnce) {
  const AbstractMesh mesh{{"x", 8}};
  auto product = jit([](const Array& v, const Array& w) { return matmul(v, w); },
                     {.in_shardings = {NamedSharding(mesh, P("x")), NamedSharding(mesh, P())}});
  const auto lowered = product.lower(ShapeDtype{{64, 16}, float32}, ShapeDtype{{16, 16}, float32});
  constexpr double kBytes = 4 * kElements;
  constexpr double kWhole = 4 * 16 * 16;
  ClusterModel c = process();
  c.device.flops = {{DType::F32, 1e12}};
  c.device.memory_bandwidth = 1;
  c.device.caches = {{static_cast<std::int64_t>(2 * kBytes + kWhole / 8), 100}};
  EXPECT_NEAR(lowered.simulate(c).step, (2 * kBytes + kWhole) / 100, 1e-6);
  c.device.caches = {{static_cast<std::int64_t>(kWhole / 8), 100}};
  EXPECT_NEAR(lowered.simulate(c).step, 2 * kBytes + kWhole / 8 + kWhole / 8 + 7 * kWhole / 8 / 100, 1e-2)
      << "the first device brings it";
}

TEST(Rates, WindowsOfWhatAGroupReadsHaveARateOfTheirOwn) {
  auto around = [](const Array& v) {
    const std::vector<lax::PadDim> left{{0, 0}, {1, -1}};
    const std::vector<lax::PadDim> right{{0, 0}, {-1, 1}};
    return v + lax::pad(v, 0.0F, left) + lax::pad(v, 0.0F, right);
  };
  ClusterModel c = process();
  c.device.vector_flops = 1e12;
  c.device.memory_bandwidth = 10;
  EXPECT_NEAR(step(c, around), 4 * 4 * kElements / 10, 1e-6) << "three are read and one is written";
  c.device.operations = {{"window", 4}, {"window_row", 1}};
  c.device.memory_bandwidth = 100;
  EXPECT_NEAR(step(c, around), 2 * (kElements / 4 + 8), 1e-6) << "memory is read and written beside them";
  auto later = [](const Array& v) {
    const std::vector<lax::PadDim> left{{0, 0}, {1, -1}};
    const std::vector<lax::PadDim> right{{0, 0}, {-1, 1}};
    return lax::pad(v, 0.0F, left) + lax::pad(v, 0.0F, right) + v;
  };
  EXPECT_NEAR(step(c, later), step(c, around), 1e-9) << "whichever of the three brings it";
  c.device.memory_bandwidth = 1;
  EXPECT_NEAR(step(c, around), 2 * 4 * kElements, 1e-6);
}

TEST(Rates, ReductionsAloneReadMemoryAtTheirOwn) {
  ClusterModel c = process();
  c.device.vector_flops = 1e12;
  c.device.memory_bandwidth = 10;
  const Shape many{4096, 16};
  constexpr double kBytes = 4.0 * 4096 * 16 / 8;
  auto all = [](const Array& v) { return max(v); };
  auto joined = [](const Array& v) { return max(v * 2.0, {.axis = Dims{1}}); };
  EXPECT_NEAR(step(c, all, many), (kBytes + 4) / 10, 1e-3) << "and one number is written";
  const double row_by_row = step(c, joined, many);
  c.device.operations = {{"reduction_reads", 20}};
  EXPECT_NEAR(step(c, all, many), kBytes / 20 + 4.0 / 10, 1e-3);
  EXPECT_EQ(step(c, joined, many), row_by_row) << "that of fused groups";
}

TEST(Rates, RowsOfAMatrixTimesAVectorHaveTheirOwn) {
  auto product = [](const Array& v) { return matmul(v, ones({16})); };
  ClusterModel c = process();
  const double plain = step(c, product);
  c.device.operations = {{"product_row", 4}};
  EXPECT_NEAR(step(c, product) - plain, 8 / 4.0, 1e-6);
  EXPECT_EQ(step(c,
                 [](const Array& v) {
                   return matmul(v, ones({16, 16}));
                 }),
            step(process(), [](const Array& v) {
              return matmul(v, ones({16, 16}));
            }));
}

TEST(Rates, RowsOfTopKHaveTheirOwn) {
  auto largest = [](const Array& v) { return lax::top_k(v, 2).first; };
  ClusterModel c = process();
  c.device.operations = {{"top_k", 16}};
  const double plain = step(c, largest);
  c.device.operations["top_k_row"] = 2;
  EXPECT_NEAR(step(c, largest) - plain, 8 * 4 / 2.0, 1e-6) << "eight rows of 16";
}

TEST(Rates, ProductsAreSummedAsTheyAreMade) {
  auto square = [](const Array& v) { return matmul(transpose(v), v); };
  auto twice = [](const Array& v) {
    const Array product = matmul(transpose(exp(v)), v);
    return product + sum(v, {.axis = Dims{0}});
  };
  ClusterModel c = process();
  c.levels[0].bandwidth = 1;
  EXPECT_LT(step(c, square), 10);
  EXPECT_GT(step(c, twice), 4 * 16) << "other sums are exchanged";
}

TEST(Rates, WrittenBytesMayCostMoreOrLess) {
  auto sorted = [](const Array& v) { return sort(v, -1); };
  ClusterModel c = process();
  c.device.memory_bandwidth = 10;
  EXPECT_NEAR(step(c, sorted), 2 * 4 * kElements / 10, 1e-6);
  c.device.write_cost = 1.5;
  EXPECT_NEAR(step(c, sorted), 2.5 * 4 * kElements / 10, 1e-6);
  EXPECT_EQ(ClusterModel::parse(c.to_json(), "test").device.write_cost, 1.5);
  c.device.write_cost = 0.5;
  EXPECT_NEAR(step(c, sorted), 1.5 * 4 * kElements / 10, 1e-6);
  c.device.write_cost = 0;
  EXPECT_THROW(c.check("test"), ValueError);
}

TEST(Rates, GroupsThatMeetReadOnce) {
  auto both = [](const Array& v) { return (v + v) * (v * v); };
  ClusterModel c = process();
  c.device.memory_bandwidth = 10;
  c.device.vector_flops = 1e9;
  EXPECT_NEAR(step(c, both), 2 * 4 * kElements / 10, 1e-6);
}

TEST(Rates, ConvolutionsOfFewChannelsTakeWholeVectors) {
  auto seconds = [](std::int64_t channels, const ClusterModel& c) {
    const AbstractMesh mesh{{"x", 8}};
    auto f = [](const Array& x, const Array& w) { return lax::conv_general_dilated(x, w, {.strides = {1, 1}}); };
    return jit(f, {.in_shardings = {NamedSharding(mesh, P("x")), NamedSharding(mesh, P())}})
        .lower(ShapeDtype{{8, 4, 32, 32}, float32}, ShapeDtype{{channels, 4, 1, 1}, float32})
        .simulate(c)
        .step;
  };
  EXPECT_NEAR(seconds(4, process()), seconds(16, process()), 1e-6);
  EXPECT_NEAR(seconds(32, process()), 2 * seconds(16, process()), 1e-6);
  ClusterModel c = process();
  c.device.memory_bandwidth = 1e30;
  const double by_products = seconds(16, c);
  c.device.operations = {{"convolution", 500}};  // products have 1000
  EXPECT_NEAR(seconds(16, c), 2 * by_products, 1e-6 * by_products);
}

TEST(Rates, ProductsReadTheirOperandsBeforeTheyMultiply) {
  auto product = [](const Array& v) { return matmul(v, ones({16, 16})); };
  ClusterModel c = process();
  const double arithmetic = step(c, product);
  c.device.memory_bandwidth = 10;
  EXPECT_GT(step(c, product), arithmetic + 2 * 4 * kElements / 10 - 1e-6) << "operand and result";
}

TEST(Rates, TranspositionsAreCopiesButForProducts) {
  auto bytes = [](const Function& f) {
    ClusterModel c = process();
    c.device.memory_bandwidth = 1;
    c.device.vector_flops = 1e9;
    c.device.flops = {{DType::F32, 1e9}};
    return step(c, f);
  };
  auto transposed = [](const Array& v) { return transpose(reshape(v, {64, 4, 4}), {0, 2, 1}); };
  auto sorted = [&](const Array& v) { return sort(transposed(v), -1); };
  auto plain = [](const Array& v) { return sort(reshape(v, {64, 4, 4}), -1); };
  EXPECT_NEAR(bytes(sorted) - bytes(plain), 2 * 4 * kElements, 1e-3) << "read and written";
  auto product = [&](const Array& v) { return matmul(transposed(v), ones({4, 4})); };
  auto untransposed = [](const Array& v) { return matmul(reshape(v, {64, 4, 4}), ones({4, 4})); };
  EXPECT_NEAR(bytes(product), bytes(untransposed), 1e-3);
}

TEST(Rates, RowsAreReducedInTheCache) {
  auto bytes = [](std::int64_t row, planner::Rows rows) {
    ir::Builder b;
    ir::Value x = b.input({DType::F32, {8, row}});
    ir::Value sums = ops::reduce_sum(x, {{1}});
    ir::Value y = ops::div(x, ops::broadcast_in_dim(sums, {8, row}, {0}));
    const ir::Module m = test::module(b, {y}, test::mesh_of("x:2"), {"x, -"}, {"x, -"});
    std::int64_t unknown = 0;
    double sum = 0;
    for (const auto& t : planner::schedule_of(*spmd::partition(spmd::prepared(m)), unknown, rows).tasks) sum += t.bytes;
    return sum;
  };
  EXPECT_EQ(bytes(64, planner::Rows::Cached), 2 * 4 * 64 * 4) << "read once, written once";
  EXPECT_EQ(bytes(64, planner::Rows::Apart), 4 * 4 * 64 * 4 + 4 * 4) << "read twice, and the repeated sums";
  EXPECT_EQ(bytes(8192, planner::Rows::Cached), 3 * 4 * 8192 * 4 + 2 * 4 * 4) << "too long for a block";
}

}  // namespace
}  // namespace tessera
