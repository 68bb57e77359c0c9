// SPDX-License-Identifier: Apache-2.0
// Equations along split dimensions that are written as others: what they move.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "base/strings.h"
#include "ops/linalg/conv.h"
#include "ops/linalg/linalg_ops.h"
#include "ops/ops.h"
#include "ops/reduce/sorting.h"
#include "ops/shape/indexing_ops.h"
#include "ops/shared_attrs.h"
#include "spmd/spmd.h"
#include "support/random_graphs.h"
#include "support/series.h"
#include "support/spmd_reducers.h"
#include "support/spmd_simulator.h"
#include "support/spmd_sketch.h"

namespace tessera {
namespace {

using ir::Builder;
using ir::Type;
using ir::Value;
using ir::Values;
using test::bytes;
using Rng = std::mt19937_64;

const ir::MeshAxes kMesh = test::mesh_of("x:4, y:2");

Type f32(Shape shape) { return {DType::F32, std::move(shape)}; }
Type i32(Shape shape) { return {DType::I32, std::move(shape)}; }

// --- what is moved
// ----------------------------------------------------------------------------------------------------

TEST(Divide, ArgmaxReducesAValueAndAnIndexForEachLine) {
  Builder b;
  Value x = b.input(f32({1024, 1024}));
  EXPECT_EQ(bytes(test::module(b, {ops::argmax(x, 0)}, kMesh, {"x, y"})), 2 * 3 * 512 * (4 + 4) / 4);
}

TEST(Divide, ArgmaxOfAllElementsReducesOneValueAndOneIndex) {
  Builder b;
  Value x = b.input(f32({1024, 1024}));
  Value y = ops::argmax(ops::reshape(x, {1024 * 1024}), 0);
  EXPECT_LE(bytes(test::module(b, {y}, kMesh, {"x, y"})), 2 * 7 * (4 + 4) / 8 + 2);
}

TEST(Divide, ArgminSharesTheMinimumWithTheProgram) {
  for (bool before : {false, true}) {
    Builder b;
    Value x = b.input(f32({1024, 1024}));
    Value least = before ? ops::reduce_min(x, {0}) : Value{};
    Value place = ops::argmin(x, 0);
    if (!before) least = ops::reduce_min(x, {0});
    EXPECT_EQ(bytes(test::module(b, {place, least}, kMesh, {"x, y"}, {"y", "y"})), 2 * 3 * 512 * (4 + 4) / 4);
  }
}

TEST(Divide, ARunningSumExchangesOneNumberForEachLineAndShard) {
  for (bool reverse : {false, true}) {
    Builder b;
    Value x = b.input(f32({1024, 1024}));
    EXPECT_EQ(bytes(test::module(b, {ops::cumsum(x, 0, reverse)}, kMesh, {"x, y"}, {"x, y"})), 2 * 3 * 512 * 4 / 4);
  }
}

TEST(Divide, AReducerOfPairsMovesAPairForEachLineAndShard) {
  for (bool deterministic : {false, true}) {
    Builder b;
    Value x = b.input(f32({1024, 1024}));
    Values starts{b.input(f32({})), b.input(i32({}))};
    Values y = ops::reduce(Values{x, ops::iota(b, DType::I32, x.shape(), 0)}, starts, test::greater_pair(), {0});
    test::ModuleOptions options{false, deterministic};
    EXPECT_LE(bytes(test::module(b, y, kMesh, {"x, y", "", ""}, {"y", "y"}, options)), 3 * 512 * (4 + 4));
  }
}

TEST(Divide, ReducersThatRoundKeepTheirOrderInDeterministicPrograms) {
  for (bool running : {false, true}) {
    for (bool deterministic : {false, true}) {
      Builder b;
      Value x = b.input(f32({1024, 1024}));
      Values start{b.input(f32({}))};
      Values y = running
                     ? ops::reduce_window(Values{x}, start, test::log_sums(), test::running_window(x.shape(), 0, false))
                     : ops::reduce(Values{x}, start, test::log_sums(), {0});
      test::ModuleOptions options{false, deterministic};
      auto moved = bytes(test::module(b, y, kMesh, {"x, y", ""}, {running ? "x, y" : "y"}, options));
      EXPECT_EQ(deterministic, moved > 3 * 512 * 4) << moved;
    }
  }
}

TEST(Divide, NarrowRunningSumsAreRoundedOnce) {
  std::mt19937_64 rng(1);
  Type narrow{DType::BF16, {64, 8}};
  HostArray x = test::random_array(rng, narrow);
  for (bool logs : {false, true}) {
    Builder b;
    Value v = b.input(narrow);
    auto m = test::module(b, {logs ? ops::cumlogsumexp(v, 0) : ops::cumsum(v, 0)}, kMesh, {"x, -"}, {"x, -"});
    auto g = test::partitioned(m);
    ASSERT_LT(spmd::comm_plan(*g).bytes_per_device(), 3 * 16 * 8 * 2);  // it is divided
    EXPECT_EQ(test::difference(test::run_partitioned(*g, {x})[0], test::evaluate(*m.graph, {x})[0], 0x1p-10), "");
  }
}

TEST(Divide, TopKMovesTheGreatestOfEachShard) {
  Builder b;
  Value x = b.input(f32({1024, 1024}));
  EXPECT_EQ(bytes(test::module(b, ops::top_k(x, 16, 1), kMesh, {"x, y"})), 256 * 16 * (4 + 4));
}

TEST(Divide, SortingRowsThatAreSplitExchangesThemTwice) {
  Builder b;
  Value x = b.input(f32({1024, 1024}));
  std::int64_t shard = 1024 * 1024 / 8 * 4;
  EXPECT_EQ(bytes(test::module(b, ops::sort(Values{x}, 0), kMesh, {"x, y"}, {"x, y"})), 2 * shard * 3 / 4);
}

TEST(Divide, AGatherFromASplitTableSumsWhatShardsHave) {
  Builder b;
  Value table = b.input(f32({4096, 64}));
  Value rows = b.input(i32({32}));
  ops::Gather p{{1}, {0}, {0}, {}, {}, {1, 64}, ops::IndexMode::Clip};
  Value y = ops::gather(table, ops::reshape(rows, {32, 1}), p);
  EXPECT_EQ(bytes(test::module(b, {y}, kMesh, {"x, -", "-"}, {"-, -"})), 2 * 3 * 32 * 64 * 4 / 4);
}

TEST(Divide, RowsGoFromTheirOwnersToThoseThatAskForThem) {
  Builder b;
  Value table = b.input(f32({4096, 64}));
  Value rows = b.input(i32({32}));
  ops::Gather p{{1}, {0}, {0}, {}, {}, {1, 64}, ops::IndexMode::Clip};
  Value y = ops::gather(table, ops::reshape(rows, {32, 1}), p);
  // The other positions' numbers, rows, and from each position three tables of how many rows go where.
  EXPECT_EQ(bytes(test::module(b, {y}, kMesh, {"x, -", "x"}, {"x, -"})), 3 * 8 * 4 + 8 * 64 * 4 + 3 * 3 * 4 * 4);
}

TEST(Divide, AScatterIntoASplitArrayMovesNothingWhenAllHaveTheUpdates) {
  Builder b;
  Value table = b.input(f32({4096, 64}));
  Value rows = b.input(i32({32}));
  Value updates = b.input(f32({32, 64}));
  ops::Scatter p{{1}, {0}, {0}};
  Value y = ops::scatter(table, ops::reshape(rows, {32, 1}), updates, p);
  EXPECT_EQ(bytes(test::module(b, {y}, kMesh, {"x, -", "-", "-, -"})), 0);
}

TEST(Divide, DynamicSlicesAndUpdatesLeaveTheArrayWhereItIs) {
  Builder b;
  Value x = b.input(f32({4096, 64}));
  Value i = b.input(i32({}));
  Value y = ops::dynamic_slice(x, Values{i, ops::scalar(b, 0, DType::I32)}, {16, 64});
  EXPECT_EQ(bytes(test::module(b, {y}, kMesh, {"x, -", ""})), 2 * 3 * 16 * 64 * 4 / 4);
  Builder c;
  x = c.input(f32({4096, 64}));
  Value update = c.input(f32({16, 64}));
  i = c.input(i32({}));
  y = ops::dynamic_update_slice(x, update, Values{i, ops::scalar(c, 0, DType::I32)});
  EXPECT_EQ(bytes(test::module(c, {y}, kMesh, {"x, -", "-, -", ""}, {"x, -"})), 0);
}

TEST(Divide, ASliceThatIsSplitAsItsArrayIsTakesItsRowsFromTheirOwners) {
  for (bool columns : {false, true}) {
    Builder b;
    Value x = b.input(f32({4096, 64}));
    Value i = b.input(i32({}));
    Value y = ops::dynamic_slice(x, Values{i, ops::scalar(b, 0, DType::I32)}, {512, 64});
    const char* layout = columns ? "x, y" : "x, -";
    // Its rows, and from each position three tables of how many rows go where.
    std::int64_t rows = 512 / 4 * 64 / (columns ? 2 : 1) * 4;
    EXPECT_EQ(bytes(test::module(b, {y}, kMesh, {layout, ""}, {layout})), rows + 3 * 3 * 4 * 4);
  }
}

TEST(Divide, AnEvenSortOfOneLineSendsEachElementOnce) {
  Builder b;
  Value x = b.input(f32({1 << 16}));
  std::int64_t shard = (1 << 14) * 4;
  std::int64_t moved = bytes(test::module(b, ops::sort(Values{x}, 0), kMesh, {"x"}, {"x"}));
  EXPECT_GE(moved, shard);
  EXPECT_LE(moved, shard * 5 / 4);
}

TEST(Divide, TransformsAreExchangedBetweenDimensions) {
  Type complex{DType::C64, {1024, 1024}};
  std::int64_t shard = 1024 * 1024 / 8 * 8;
  Builder b;
  Value y = ops::fft(b.input(complex), ops::FftType::Fft, {1024, 1024});
  EXPECT_EQ(bytes(test::module(b, {y}, kMesh, {"x, y"}, {"x, y"})), shard / 2 + shard * 7 / 8 + shard * 3 / 4);
  Builder c;
  y = ops::fft(c.input({DType::C64, {1 << 16}}), ops::FftType::Ifft, {1 << 16});
  shard = (1 << 14) * 8;
  EXPECT_EQ(bytes(test::module(c, {y}, kMesh, {"x"}, {"x"})), 3 * shard * 3 / 4);
}

TEST(Divide, AKernelsGradientMovesEdgesAndTheSum) {
  Builder b;
  Value x = b.input(f32({8, 16, 64, 64}));
  Value ct = b.input(f32({8, 32, 64, 64}));
  // As in the rule for a kernel of 3x3: batch and features trade places, and the cotangent is the kernel.
  ops::Conv p{{1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 0, 2, 3}, {1, 0, 2, 3}, {1, 0, 2, 3}};
  Value y = ops::conv_general_dilated(x, ct, p);
  ASSERT_EQ(y.shape(), (Shape{32, 16, 3, 3}));
  std::int64_t edges = 8 * 16 * (2 * 32 + 16 + 2) * 4;  // rows above and below, a column, corners
  std::int64_t sum = 2 * 7 * 32 * 16 * 9 * 4 / 8;
  EXPECT_LE(bytes(test::module(b, {y}, kMesh, {"-, -, x, y", "-, -, x, y"})), 2 * edges + sum);
}

TEST(Divide, ARotationMovesItsRowsOnce) {
  Builder b;
  Value x = b.input(f32({1024, 64}));
  Value y = ops::concatenate(Values{ops::slice_in_dim(x, 1021, 1024, 0), ops::slice_in_dim(x, 0, 1021, 0)}, 0);
  EXPECT_EQ(bytes(test::module(b, {y}, kMesh, {"x, -"}, {"x, -"})), 3 * 64 * 4);
}

TEST(Divide, NeighboursCutOutOfAPaddedArrayAreOneExchangeOfEdges) {
  Builder b;
  Value x = b.input(f32({1024, 1024}));
  Value padded = ops::pad(x, ops::scalar(b, 0, DType::F32), {1, 1}, {1, 1});
  auto from = [&](std::int64_t i, std::int64_t j) { return ops::slice(padded, {i, j}, {i + 1024, j + 1024}); };
  Value y = from(0, 1) + from(2, 1) + from(1, 0) + from(1, 2);
  auto plan = spmd::comm_plan(*test::partitioned(test::module(b, {y}, kMesh, {"x, y"}, {"x, y"})));
  EXPECT_EQ(plan.bytes_per_device(), 4 * (2 * 512 + 256)) << to_string(plan);
  EXPECT_EQ(plan.steps().size(), 1u);
}

TEST(Divide, ABlockThatIsAddedAtAKnownPlaceMovesEdges) {
  Builder b;
  Value x = b.input(f32({1024, 1024}));
  Value inner = b.input(f32({1022, 1022}));
  Value one = ops::full(b, 1, i32({2}));
  Value y = ops::scatter_add(x, one, inner, {{0, 1}, {}, {0, 1}});
  ir::Module m = test::module(b, {y}, kMesh, {"x, y", "x, y"}, {"x, y"}, {.uneven = true});
  EXPECT_LE(bytes(m), 4 * (2 * 512 + 2 * 256 + 4));
}

// A stencil of the inner part of an array, put back in one of these ways: edges come from the neighbours, once.
TEST(Divide, AStencilOfTheInnerPartMovesEdgesOnce) {
  for (const std::string way : {"pad", "update", "scatter", "add"}) {
    Builder b;
    Value x = b.input(f32({1024, 1024}));
    Value c = b.input(f32({}));
    auto from = [&](std::int64_t i, std::int64_t j) { return ops::slice(x, {i, j}, {i + 1022, j + 1022}); };
    Value scale = ops::broadcast_in_dim(c, {1022, 1022}, {});
    Value inner = from(0, 1) + from(2, 1) + from(1, 0) + ops::tanh(from(1, 2)) - scale * from(1, 1);
    Value one = ops::scalar(b, 1, DType::I32);
    Value y;
    if (way == "pad") y = ops::pad(inner, c, {1, 1}, {1, 1});
    if (way == "update") y = ops::dynamic_update_slice(x, inner, Values{one, one});
    if (way == "scatter") y = ops::scatter(x, ops::full(b, 1, i32({2})), inner, {{0, 1}, {}, {0, 1}});
    if (way == "add") y = ops::scatter_add(x, ops::full(b, 1, i32({2})), inner, {{0, 1}, {}, {0, 1}});
    ir::Module m = test::module(b, {y}, kMesh, {"x, y", ""}, {"x, y"}, {.uneven = true});
    auto plan = spmd::comm_plan(*spmd::partition(m, spmd::propagate(m)));
    EXPECT_EQ(plan.bytes_per_device(), 4 * (2 * 512 + 256)) << way << "\n" << to_string(plan);
    EXPECT_EQ(plan.steps().size(), 1u) << way;
    m.divides = false;
    EXPECT_GT(bytes(m), plan.bytes_per_device()) << way;
  }
}

// What else reads the inner part has it as it is.
TEST(Divide, AnInnerPartThatIsReadTwiceIsComputedOnce) {
  Builder b;
  Value x = b.input(f32({1024}));
  Value inner = ops::slice_in_dim(x, 0, 1022, 0) + ops::slice_in_dim(x, 2, 1024, 0);
  Value y = ops::pad(inner, ops::scalar(b, 0, DType::F32), {1}, {1});
  ir::Module m = test::module(b, {y, inner}, kMesh, {"x"}, {"x", "x"}, {.uneven = true});
  ir::GraphPtr g = spmd::partition(m, spmd::propagate(m));
  EXPECT_EQ(std::ranges::count_if(g->eqns, [](const ir::Eqn& e) { return e.op == &ops::def::add; }), 1);
}

TEST(Divide, SlicesAndUpdatesAtKnownPlacesMoveEdges) {
  Builder b;
  Value x = b.input(f32({1024, 8}));
  Value update = b.input(f32({1000, 8}));
  Values starts{ops::scalar(b, 3, DType::I32), ops::scalar(b, 0, DType::I32)};
  Value part = ops::dynamic_slice(x, starts, {1000, 8});
  Value whole = ops::dynamic_update_slice(x, update, starts);
  ir::Module m = test::module(b, {part, whole}, kMesh, {"x, -", "x, -"}, {"x, -", "x, -"}, {.uneven = true});
  // Of shards of 250 and 256 rows the last begins 15 to 18 rows apart.
  EXPECT_LE(bytes(m), 2 * 18 * 8 * 4);
}

TEST(Divide, AWindowThatIsWrittenAtAKnownPlaceStaysSplit) {
  for (DType t : {DType::Bool, DType::F32}) {
    Builder b;
    Value x = b.input({t, {1023}});
    Value place = ops::broadcast_to(ops::scalar(b, 1, DType::I32), {1});
    Value all = ops::scatter(ops::full(b, 1, {t, {1024}}), place, x, ops::Scatter{{0}, {}, {0}});
    Value y = ops::cumsum(ops::convert(all, DType::I32), 0);
    // An element of the window for each shard, and a sum of each.
    EXPECT_LE(bytes(test::module(b, {y}, kMesh, {"x.y"}, {"x.y"}, {.uneven = true})), 8 * 4 + 7 * 4);
  }
}

TEST(Divide, TheGradientOfAWindowMaximumMovesEdges) {
  for (std::int64_t padding : {0, 1}) {
    Builder b;
    ops::Window w{{1, 3}, {1, 2}, {0, padding}, {0, padding}, {1, 1}, {1, 1}};
    Value x = b.input(f32({16, 1024}));
    Value source = b.input(f32({16, padding == 0 ? 511 : 512}));
    Value y = ops::select_and_scatter_add(source, x, w, true);
    ir::Module m = test::module(b, {y}, kMesh, {"-, x", "-, x"}, {"-, x"}, {.uneven = true});
    EXPECT_LE(bytes(m), 16 * (3 * 4 + 2 * 4)) << padding;
  }
}

// What JAX writes for the gradient of a window's maximum: of a padded array, of which the padding is cut off again.
ir::Module padded_gradient(Builder& b, Shape image, const ops::Window& w, const Dims& low, const Dims& high,
                           const char* split) {
  Value x = b.input(f32(image));
  Value padded = ops::pad(x, ops::scalar(b, -std::numeric_limits<double>::infinity(), DType::F32), low, high);
  Shape windows;
  for (std::size_t d = 0; d < image.size(); ++d) {
    windows.push_back((image[d] + low[d] + high[d] - w.dimensions[d]) / w.strides[d] + 1);
  }
  Value y = ops::select_and_scatter_add(b.input(f32(windows)), padded, w, true);
  Dims limits;
  for (std::size_t d = 0; d < image.size(); ++d) limits.push_back(low[d] + image[d]);
  return test::module(b, {ops::slice(y, low, limits)}, kMesh, {split, split}, {split}, {.uneven = true});
}

void expect_equal_to_one_device(const ir::Module& m) {
  Rng rng(3);
  std::vector<HostArray> args;
  for (auto v : m.graph->inputs) args.push_back(test::random_array(rng, m.graph->type(v)));
  auto g = test::partitioned(m);
  EXPECT_EQ(test::difference(test::run_partitioned(*g, args)[0], test::evaluate(*m.graph, args)[0], 1e-6), "");
}

TEST(Divide, TheGradientOfAPaddedWindowMaximumMovesEdgesOfTheImage) {
  Builder b;
  ops::Window w{{1, 3, 3, 1}, {1, 1, 1, 1}, {0, 0, 0, 0}, {0, 0, 0, 0}, {1, 1, 1, 1}, {1, 1, 1, 1}};
  ir::Module m = padded_gradient(b, {2, 64, 40, 3}, w, {0, 1, 1, 0}, {0, 1, 1, 0}, "-, x, y, -");
  // Of the image two rows above and below and two columns, of the windows one of each.
  EXPECT_EQ(bytes(m), (4 * 20 + 2 * (16 + 4) + 2 * 20 + (16 + 2)) * 2 * 3 * 4);
  expect_equal_to_one_device(m);
}

TEST(Divide, TheGradientOfAPaddedWindowMaximumMovesEdgesOfUnevenImages) {
  Builder b;
  ops::Window w{{3, 2}, {1, 1}, {0, 0}, {0, 0}, {1, 1}, {1, 1}};
  ir::Module m = padded_gradient(b, {61, 37}, w, {2, 0}, {0, 1}, "x, y");
  // Rows of 16, 16, 16 and 13, columns of 19 and 18: windows end with their row, and begin with their column.
  EXPECT_LE(bytes(m), (4 * 19 + 2 * (16 + 4) + 4 * 19 + 2 * (16 + 4)) * 4);
  expect_equal_to_one_device(m);
}

TEST(Divide, TheGradientOfAWindowMaximumThatPadsBothDimensionsMovesEdges) {
  Builder b;
  ops::Window w{{3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
  Value x = b.input(f32({64, 64}));
  Value y = ops::select_and_scatter_add(b.input(f32({32, 32})), x, w, true);
  ir::Module m = test::module(b, {y}, kMesh, {"x, y", "x, y"}, {"x, y"});
  // Shards of 16 rows and 32 columns; of windows 8 rows and 16 columns.
  EXPECT_LE(bytes(m), (3 * 32 + 3 * (16 + 3) + 2 * 16 + 2 * (8 + 2)) * 4);
  expect_equal_to_one_device(m);
}

TEST(Divide, WindowsOfAPaddedArrayMoveEdgesOfTheArray) {
  for (bool convolves : {false, true}) {
    Builder b;
    Value x = b.input(f32({1, 1, 64, 64}));
    Value padded = ops::pad(x, ops::scalar(b, 2, DType::F32), {0, 0, 1, 1}, {0, 0, 1, 1});
    Value y;
    if (convolves) {
      ops::Conv p{{1, 1}, {0, 0}, {0, 0}, {1, 1}, {1, 1}, {0, 1, 2, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}};
      y = ops::conv_general_dilated(padded, ops::full(b, 1, f32({1, 1, 3, 3})), p);
    } else {
      y = ops::reduce_window_max(padded, {{1, 1, 3, 3}, Dims(4, 1), Dims(4, 0), Dims(4, 0), Dims(4, 1), Dims(4, 1)});
    }
    ir::Module m = test::module(b, {y}, kMesh, {"-, -, x, y"}, {"-, -, x, y"});
    EXPECT_EQ(bytes(m), (2 * 32 + 16 + 2) * 4) << convolves;
    expect_equal_to_one_device(m);
  }
}

}  // namespace
}  // namespace tessera
