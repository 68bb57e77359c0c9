// SPDX-License-Identifier: Apache-2.0
// The planner of layout changes.
#include <gtest/gtest.h>

#include "base/strings.h"
#include "spmd/layout_change.h"
#include "support/random_graphs.h"
#include "support/spmd_simulator.h"
#include "support/spmd_sketch.h"

namespace tessera {
namespace {

using test::layout;

const ir::MeshAxes kMesh = test::mesh_of("x:4, y:2");
const ir::Type kType{DType::F32, {16, 16}};

std::string planned(const ir::Layout& from, const ir::Layout& to, const ir::Type& type = kType) {
  std::vector<std::string> out;
  ir::Layout now = from;
  for (const auto& s : spmd::plan(type, now, to, kMesh)) {
    out.push_back(
        str(ops::to_string(s.kind), to_string(s.layout, kMesh), ":", spmd::received(type, now, s.layout, kMesh)));
    now = s.layout;
  }
  return join(out, " ");
}
std::string planned(const std::string& from, const std::string& to) {
  return planned(layout(from, kMesh), layout(to, kMesh));
}

// By counting: elements of its new tile that a position did not have, of the position that lacks most.
std::int64_t most_missing(const Shape& shape, const ir::Layout& from, const ir::Layout& to, const ir::MeshAxes& mesh) {
  std::int64_t most = 0;
  for (std::int64_t p = 0; p < mesh.num_positions(); ++p) {
    Index a = test::tile_index(shape, from, mesh, p);
    Index b = test::tile_index(shape, to, mesh, p);
    std::int64_t all = 1;
    std::int64_t had = 1;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      all *= *b[d].stop - *b[d].start;
      had *= std::max<std::int64_t>(0, std::min(*a[d].stop, *b[d].stop) - std::max(*a[d].start, *b[d].start));
    }
    most = std::max(most, all - had);
  }
  return most;
}

TEST(ReshardPlan, DirectAndNoMoreThanNeeded) {
  EXPECT_EQ(planned("x, y", "x, y"), "");
  EXPECT_EQ(planned("-, -", "x, y"), "slice[x, y]:0");
  EXPECT_EQ(planned("x, -", "x.y, -"), "slice[x.y, -]:0");
  EXPECT_EQ(planned("x, y", "x, -"), "all_gather[x, -]:128");
  EXPECT_EQ(planned("x.y, -", "x, -"), "all_gather[x, -]:128");
  EXPECT_EQ(planned("x, -", "-, x"), "all_to_all[-, x]:192");
  EXPECT_EQ(planned("x, -", "-, y"), "slice[x, y]:0 all_gather[-, y]:384");
  EXPECT_EQ(planned("x.y, -", "x, y"), "all_to_all[x, y]:64");
  EXPECT_EQ(planned("x.y, -", "y.x, -"), "collective_permute[y.x, -]:128");
  EXPECT_EQ(planned("x, y", "y, x"), "all_to_all[y, x]:128");
  EXPECT_EQ(planned("x.y, -", "-, y"), "all_to_all[x, y]:64 all_gather[-, y]:384");
}

TEST(ReshardPlan, CompletesOnTheSmallestShard) {
  ir::Layout partial = layout("-, -", kMesh);
  partial.partial = 1;  // x
  EXPECT_EQ(planned(partial, layout("-, -", kMesh)), "all_reduce[-, -]:1536");
  EXPECT_EQ(planned(partial, layout("x, -", kMesh)), "reduce_scatter[x, -]:768");
  EXPECT_EQ(planned(partial, layout("-, y", kMesh)), "slice[-, y] partial(x: sum):0 all_reduce[-, y]:768");
  EXPECT_EQ(planned(partial, layout("y.x, -", kMesh)), "slice[y, -] partial(x: sum):0 reduce_scatter[y.x, -]:384");
  partial.partial = 3;
  EXPECT_EQ(planned(partial, layout("x, -", kMesh)), "reduce_scatter[x, -] partial(y: sum):768 all_reduce[x, -]:256");
  EXPECT_EQ(planned(partial, layout("x, y", kMesh)), "reduce_scatter[x, y]:896");
}

TEST(ReshardPlan, UnevenTilesDoNotNest) {
  ir::Type type{DType::F32, {5}};
  EXPECT_EQ(planned(layout("-", kMesh), layout("x", kMesh), type), "slice[x]:0");
  EXPECT_EQ(planned(layout("y", kMesh), layout("y.x", kMesh), type), "all_to_all[y.x]:4");
  EXPECT_EQ(planned(layout("x", kMesh), layout("-", kMesh), type), "all_gather[-]:20") << "one device has nothing";
}

// Random pairs of layouts: every step is one that engines know, and the value survives.
TEST(ReshardPlan, KeepsTheValue) {
  std::mt19937_64 rng(7);
  for (const auto& mesh : test::test_meshes()) {
    for (int i = 0; i < 150; ++i) {
      bool uneven = i % 3 == 0;
      Shape shape = uneven ? Shape{5, 7} : Shape{16, 8};
      ir::Type type{DType::F32, shape};
      ir::Builder b;
      b.set_mesh(std::make_shared<const ir::MeshAxes>(mesh));
      ir::Layout from = test::random_layout(rng, shape, mesh, uneven);
      ir::Layout to = test::random_layout(rng, shape, mesh, uneven);
      if (i % 2 == 0) {
        for (std::uint8_t a = 0; a < mesh.sizes.size(); ++a) {
          if (!(from.tiled() >> a & 1) && rng() % 2 == 0) from.partial |= 1u << a;
        }
      }
      ir::Value v = b.input(type);
      b.set_layout(v, from);
      std::int64_t bytes = 0;
      ir::Layout now = from;
      for (const auto& s : spmd::plan(type, from, to, mesh)) {
        std::int64_t step = spmd::received(type, now, s.layout, mesh);
        bytes += step;
        if (now.partial == s.layout.partial) {
          std::int64_t counted = 4 * most_missing(shape, now, s.layout, mesh);
          ASSERT_TRUE(uneven ? step >= counted : step == counted) << to_string(now, mesh) << to_string(s.layout, mesh);
        }
        v = b.add1(ops::def::reshard, {v}, ir::make_attrs(ops::Reshard{s.kind, {}, {}}));
        b.set_layout(v, s.layout);
        now = s.layout;
      }
      std::string what = str(to_string(from, mesh), " to ", to_string(to, mesh));
      ASSERT_EQ(now, to) << what;
      ASSERT_EQ(bytes, spmd::cost(type, from, to, mesh)) << what;
      HostArray x = test::random_array(rng, type);
      ir::Graph g = b.finish(ir::Values{v});
      auto got = test::simulate(g, {test::scatter(x, from, mesh)});
      HostArray want(x.view());
      for (auto& e : want.span<float>()) e *= static_cast<float>(ir::axes_size(from.partial, mesh));
      ASSERT_EQ(test::difference(test::gather(got[0], shape, to, mesh), want, 1e-6), "") << what;
    }
  }
}

}  // namespace
}  // namespace tessera
