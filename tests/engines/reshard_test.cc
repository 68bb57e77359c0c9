// SPDX-License-Identifier: Apache-2.0
// Resharding between layouts of every kind, against what each position must hold.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "engines/engine_support.h"
#include "ops/ops.h"
#include "ops/shared_attrs.h"

namespace tessera::test {
namespace {

using ir::Layout;
using ir::MeshAxes;

struct Coordinates {
  const MeshAxes& mesh;
  std::vector<std::int64_t> operator()(std::int64_t p) const {
    std::vector<std::int64_t> c(mesh.sizes.size());
    for (std::size_t a = c.size(); a-- > 0; p /= mesh.sizes[a]) c[a] = p % mesh.sizes[a];
    return c;
  }
};

// What a position contributes to an element: depends on its coordinates on the axes of `mask` only. Small integers, so
// that sums are exact in every dtype.
std::int64_t contribution(const std::vector<std::int64_t>& c, ir::AxisMask mask, const Dims& index) {
  std::uint64_t h = 12345;
  for (auto i : index) h = h * 1000003 + static_cast<std::uint64_t>(i);
  for (std::size_t a = 0; a < c.size(); ++a) {
    if (mask >> a & 1) h = (h ^ (a + 1)) * 0x9E3779B97F4A7C15ULL + static_cast<std::uint64_t>(c[a]);
  }
  h ^= h >> 29;
  return static_cast<std::int64_t>(h % 5) - 1;
}

// What position p holds of the value under `to`: the reduction of contributions over the axes that `to` completes.
std::int64_t expected(const MeshAxes& mesh, std::int64_t p, const Layout& from, const Layout& to, const Dims& index) {
  auto c = Coordinates{mesh}(p);
  ir::AxisMask own = from.partial | from.vary;
  ir::AxisMask reduced = from.partial & ~(to.partial | to.vary);
  bool first = true;
  std::int64_t total = 0;
  for (std::int64_t q = 0; q < mesh.num_positions(); ++q) {
    auto d = Coordinates{mesh}(q);
    bool member = true;
    for (std::size_t a = 0; a < c.size(); ++a) member = member && ((reduced >> a & 1) || c[a] == d[a]);
    if (!member) continue;
    auto x = contribution(d, own, index);
    total = first ? x : from.reduction == ir::Reduction::Max ? std::max(total, x) : total + x;
    first = false;
  }
  return total;
}

ir::GraphPtr reshard_graph(const ir::Type& type, const MeshAxes& mesh, const Layout& from, const Layout& to) {
  ir::Builder b;
  ir::Value x = b.input(type);
  ops::Reshard attrs{ops::Reshard::Kind::AllToAll, {}, "test"};
  ir::Value y = b.add1(ops::def::reshard, {x}, ir::make_attrs(attrs));
  return partitioned(b.finish(ir::Values{y}), mesh, [&](ir::ValueId v) { return v == 0 ? from : to; });
}

ShardBuffers source_shards(const Client& client, const ir::Type& type, const MeshAxes& mesh, const Layout& from) {
  return make_shards(client, type, from, mesh, [&](std::int64_t p, const runtime::Tile& tile, const ir::View& view) {
    auto c = Coordinates{mesh}(p);
    for_tile(tile, [&](std::int64_t i, const Dims& index) {
      set_element(view, i, contribution(c, from.partial | from.vary, index));
    });
  });
}

void check_result(const Client& client, const ir::Type& type, const MeshAxes& mesh, const Layout& from,
                  const Layout& to, const ShardBuffers& got) {
  auto map = runtime::shard_numbering(to, mesh);
  auto devices = client.devices();
  for (std::int64_t p = 0; p < mesh.num_positions(); ++p) {
    if (!devices[at(p)].is_local()) continue;
    const auto& b = got[at(map.of_position[at(p)])];
    ASSERT_NE(b, nullptr) << "position " << p;
    auto tile = runtime::tile_at(type.shape, to, mesh, p);
    ir::View view{type.dtype, tile.shape, b->data()};
    ASSERT_EQ(b->nbytes(), view.size() * dtype_size(type.dtype));
    for_tile(tile, [&](std::int64_t i, const Dims& index) {
      ASSERT_EQ(get_element(type.dtype, b->data(), i), static_cast<double>(expected(mesh, p, from, to, index)))
          << "position " << p << ", element " << i;
    });
  }
}

void check(const Client& client, const ir::Type& type, const MeshAxes& mesh, const Layout& from, const Layout& to) {
  SCOPED_TRACE(ir::to_string(type) + " " + ir::to_string(from, mesh) + " -> " + ir::to_string(to, mesh));
  auto exe = compile(client, reshard_graph(type, mesh, from, to));
  auto got = exe->run({source_shards(client, type, mesh, from)});
  check_result(client, type, mesh, from, to, got[0]);
}

Layout random_layout(const MeshAxes& mesh, std::int64_t rank, std::mt19937& random, ir::AxisMask may_be_partial,
                     ir::AxisMask vary) {
  Layout l = Layout::replicated(rank);
  std::vector<std::uint8_t> axes;
  for (std::size_t a = 0; a < mesh.sizes.size(); ++a) axes.push_back(static_cast<std::uint8_t>(a));
  std::shuffle(axes.begin(), axes.end(), random);
  for (auto a : axes) {
    if (vary >> a & 1) {
      l.vary |= ir::AxisMask{1} << a;
      continue;
    }
    auto role = random() % 4;
    if (role < 2 && rank > 0) {
      l.dims[random() % static_cast<std::uint64_t>(rank)].push_back(a);
    } else if (role == 2 && (may_be_partial >> a & 1)) {
      l.partial |= ir::AxisMask{1} << a;
    }
  }
  return l;
}

const std::vector<MeshAxes>& meshes() {
  static const std::vector<MeshAxes> all{
      {{8}, {"x"}}, {{4, 2}, {"x", "y"}}, {{2, 2, 2}, {"x", "y", "z"}}, {{1, 8}, {"x", "y"}}};
  return all;
}
const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all{{8, 8}, {16, 3, 4}, {5, 7}, {3}, {}, {0, 4}, {9, 2}};
  return all;
}

TEST(Reshard, RandomLayoutsHoldWhatEveryPositionMustHold) {
  std::mt19937 random(1);
  DType dtypes[] = {DType::F32, DType::I32, DType::BF16, DType::F64, DType::C64, DType::I8};
  for (int i = 0; i < 300; ++i) {
    const MeshAxes& mesh = meshes()[random() % meshes().size()];
    const Shape& shape = shapes()[random() % shapes().size()];
    ir::Type type{dtypes[random() % 6], shape};
    ir::AxisMask all = (ir::AxisMask{1} << mesh.sizes.size()) - 1;
    ir::AxisMask vary = random() % 4 == 0 ? random() & all : 0;
    Layout from = random_layout(mesh, type.rank(), random, all, vary);
    Layout to = random_layout(mesh, type.rank(), random, from.partial, vary);
    if (random() % 3 == 0 && !is_complex(type.dtype)) from.reduction = to.reduction = ir::Reduction::Max;
    check(client_of(8), type, mesh, from, to);
  }
}

TEST(Reshard, EqualShardsShareTheirBuffers) {
  MeshAxes mesh{{4, 2}, {"x", "y"}};
  Client client = client_of(8);
  ir::Type type{DType::F32, {8, 8}};
  Layout rows{{{0}, {}}};
  Layout turned{{{}, {0}}};
  Layout tiles{{{0}, {1}}};
  Layout swapped{{{0, 1}, {}}};
  Layout other{{{1, 0}, {}}};
  auto run = [&](const Layout& from, const Layout& to) {
    ShardBuffers in = source_shards(client, type, mesh, from);
    auto out = compile(client, reshard_graph(type, mesh, from, to))->run({in})[0];
    std::int64_t shared = 0;
    for (const auto& b : out) shared += std::count(in.begin(), in.end(), b);
    return shared;
  };
  EXPECT_EQ(run(swapped, other), 8);  // only owners change
  EXPECT_EQ(run(rows, rows), 4);
  EXPECT_EQ(run(rows, turned), 0);
  EXPECT_EQ(run(rows, tiles), 0);
}

TEST(Reshard, PartialFromWholeSumsToTheWhole) {
  MeshAxes mesh{{4, 2}, {"x", "y"}};
  Client client = client_of(8);
  ir::Type type{DType::F32, {6, 4}};
  Layout from{{{0}, {}}};
  Layout to{{{}, {}}};
  to.partial = 3;
  auto exe = compile(client, reshard_graph(type, mesh, from, to));
  auto got = exe->run({source_shards(client, type, mesh, from)})[0];
  ASSERT_EQ(got.size(), 8U);
  std::int64_t i = 0;
  ops::for_each_position(type.shape, [&](const Dims& index) {
    double sum = 0;
    for (const auto& b : got) sum += get_element(type.dtype, b->data(), i);
    ++i;
    EXPECT_EQ(sum, static_cast<double>(contribution({0, 0}, 0, index)));
  });
}

TEST(Reshard, HalfPrecisionSumsAreCarriedInSinglePrecision) {
  MeshAxes mesh{{8}, {"x"}};
  Client client = client_of(8);
  ir::Type type{DType::BF16, {4}};
  Layout from{{{}}, 1};
  auto exe = compile(client, reshard_graph(type, mesh, from, Layout::replicated(1)));
  ShardBuffers in = make_shards(client, type, from, mesh, [](std::int64_t p, const runtime::Tile&, const ir::View& v) {
    // 256 + 7 x 1: every single addition in bf16 would give 256 again.
    for (std::int64_t i = 0; i < 4; ++i) set_element(v, i, p == 0 ? 256 : 1);
  });
  auto got = exe->run({in})[0];
  EXPECT_EQ(get_element(DType::BF16, got[0]->data(), 0), 264);  // 263 rounded once
}

TEST(Reshard, FourThousandPositionsAreCheap) {
  constexpr std::int64_t kPositions = 4096;
  MeshAxes mesh{{kPositions}, {"x"}};
  Client client = client_of(kPositions);
  ir::Type type{DType::F32, {256}};
  Layout from{{{}}, 1};
  auto exe = compile(client, reshard_graph(type, mesh, from, Layout::replicated(1)));
  ShardBuffers in = make_shards(client, type, from, mesh, [](std::int64_t p, const runtime::Tile&, const ir::View& v) {
    for (std::int64_t i = 0; i < 256; ++i) v.as<float>()[i] = static_cast<float>(p);
  });
  auto got = exe->run({in})[0];
  EXPECT_EQ(got[0]->data() != nullptr, true);
  EXPECT_EQ(static_cast<float*>(got[0]->data())[255], 4095.0F * 4096.0F / 2);
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 10; ++i) exe->run({in});
  double us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / 10;
  RecordProperty("all_reduce_us", std::to_string(us));
  std::printf("all_reduce of 1 KB over 4,096 shards: %.0f us\n", us);
}

// --- several processes -----------------------------------------------------------------------------------------

TEST(ReshardProcesses, RandomLayoutsOverTwoAndFourProcesses) {
  for (int processes : {2, 4}) {
    on_cluster(processes, 8 / processes, [](const Client& client) {
      std::mt19937 random(3);  // the same programs in every process
      for (int i = 0; i < 60; ++i) {
        const MeshAxes& mesh = meshes()[random() % meshes().size()];
        const Shape& shape = shapes()[random() % shapes().size()];
        ir::Type type{random() % 2 ? DType::F32 : DType::I32, shape};
        ir::AxisMask all = (ir::AxisMask{1} << mesh.sizes.size()) - 1;
        ir::AxisMask vary = random() % 4 == 0 ? random() & all : 0;
        Layout from = random_layout(mesh, type.rank(), random, all, vary);
        Layout to = random_layout(mesh, type.rank(), random, from.partial, vary);
        check(client, type, mesh, from, to);
      }
    });
  }
}

TEST(ReshardProcesses, ReplicasInDifferentProcessesAreEqualToTheBit) {
  MeshAxes mesh{{8}, {"x"}};
  ir::Type type{DType::F32, {1000}};
  Layout from{{{}}, 1};
  std::vector<std::vector<float>> results(4);
  on_cluster(4, 2, [&](const Client& client) {
    auto exe = compile(client, reshard_graph(type, mesh, from, Layout::replicated(1)));
    ShardBuffers in =
        make_shards(client, type, from, mesh, [](std::int64_t p, const runtime::Tile&, const ir::View& v) {
          std::mt19937 random(static_cast<unsigned>(p));
          std::uniform_real_distribution<float> real(-1, 1);
          for (std::int64_t i = 0; i < 1000; ++i) v.as<float>()[i] = real(random);
        });
    auto got = exe->run({in})[0];
    auto* data = static_cast<float*>(got[0]->data());
    results[at(client.process_index())].assign(data, data + 1000);
  });
  for (int p = 1; p < 4; ++p) EXPECT_EQ(results[0], results[at(p)]) << p;
}

TEST(ReshardProcesses, FailureOfOneProcessReachesTheOthers) {
  MeshAxes mesh{{4}, {"x"}};
  ir::Type type{DType::F32, {4}};
  Layout from{{{0}}};
  std::atomic<int> others_errors = 0;
  std::atomic<int> own_errors = 0;
  on_cluster(4, 1, [&](const Client& client) {
    auto exe = compile(client, reshard_graph(type, mesh, from, Layout::replicated(1)));
    ShardBuffers in = source_shards(client, type, mesh, from);
    if (client.process_index() == 2) in[2] = nullptr;  // its step throws
    try {
      exe->run({in});
    } catch (const Error& e) {
      ++(std::string(e.what()).find("process 2 failed") != std::string::npos ? others_errors : own_errors);
    }
    // The next run is a new meeting.
    auto again = exe->run({source_shards(client, type, mesh, from)})[0];
    check_result(client, type, mesh, from, Layout::replicated(1), again);
  });
  EXPECT_EQ(own_errors, 1);
  EXPECT_EQ(others_errors, 3);
}

}  // namespace
}  // namespace tessera::test
