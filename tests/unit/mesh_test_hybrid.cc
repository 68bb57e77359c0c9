// SPDX-License-Identifier: Apache-2.0
// Hybrid meshes: pods of mock devices against plain loops, splitting, and what is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "mesh/client_state.h"
#include "support/meshes.h"
#include "support/spec_report.h"
#include "tessera/error.h"
#include "tessera/hybrid_mesh.h"

namespace tessera::test {
namespace {

// Slices that are boxes of chips, x fastest.
std::vector<DeviceAttributes> pods(std::int64_t slices, const Shape& box) {
  std::vector<DeviceAttributes> out;
  for (std::int64_t s = 0; s < slices; ++s) {
    for (std::int64_t z = 0; z < box[2]; ++z) {
      for (std::int64_t y = 0; y < box[1]; ++y) {
        for (std::int64_t x = 0; x < box[0]; ++x) {
          DeviceAttributes d;
          d.ordinal = static_cast<std::int64_t>(out.size());
          d.coords = {x, y, z};
          if (slices > 1) d.slice_index = s;
          out.push_back(d);
        }
      }
    }
  }
  return out;
}

double milliseconds(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - since).count();
}

// The id of the chip at (x, y, z) of a slice, as `pods` numbers them.
std::int64_t chip(const Shape& box, std::int64_t slice, std::int64_t x, std::int64_t y, std::int64_t z) {
  return slice * box[0] * box[1] * box[2] + (z * box[1] + y) * box[0] + x;
}

TEST(HybridMesh, FourSlicesOfA4x4x4Box) {
  TESSERA_SPEC("T21", "T23", "T32", "T34", "T36");
  Shape box{4, 4, 4};
  auto devices = pods(4, box);
  ClientScope scope(Client::cpu({.devices = 256}));
  auto begin = std::chrono::steady_clock::now();
  HybridMesh mesh = make_hybrid_mesh({.ici_mesh_shape = {4, 16, 1},
                                      .dcn_mesh_shape = {4, 1, 1},
                                      .axis_names = {"data", "fsdp", "tensor"},
                                      .devices = devices});
  std::printf("4 slices of 4x4x4: %.2f ms\n", milliseconds(begin));
  EXPECT_EQ(mesh.shape(), (OrderedMap<std::string, std::int64_t>{{"data", 16}, {"fsdp", 16}, {"tensor", 1}}));
  EXPECT_EQ(mesh.ici_mesh_shape(), (Shape{4, 16, 1}));
  EXPECT_EQ(mesh.dcn_mesh_shape(), (Shape{4, 1, 1}));
  // 16 takes the physical axes x and y, so 4 takes z; slices are the slow part of the first axis.
  std::vector<std::int64_t> want;
  for (std::int64_t slice = 0; slice < 4; ++slice) {
    for (std::int64_t z = 0; z < 4; ++z) {
      for (std::int64_t x = 0; x < 4; ++x) {
        for (std::int64_t y = 0; y < 4; ++y) want.push_back(chip(box, slice, x, y, z));
      }
    }
  }
  EXPECT_EQ(mesh.flat_ids(), want);
  ASSERT_EQ(mesh.info().per_slice.size(), 4U);
  EXPECT_EQ(mesh.info().per_slice[3].assignment, (std::vector<Dims>{{2}, {0, 1}, {}}));
}

TEST(HybridMesh, EightSlicesOfA4x8x8Box) {
  TESSERA_SPEC("T21", "T23", "T32", "T34", "T36");
  Shape box{4, 8, 8};
  auto devices = pods(8, box);
  ClientScope scope(Client::cpu({.devices = 2048}));
  auto begin = std::chrono::steady_clock::now();
  Mesh mesh = make_hybrid_mesh({.ici_mesh_shape = {4, 64, 1}, .dcn_mesh_shape = {1, 1, 8}, .devices = devices});
  std::printf("8 slices of 4x8x8: %.2f ms\n", milliseconds(begin));
  EXPECT_EQ(mesh.mesh_shape(), (Shape{4, 64, 8}));
  // 64 takes y and z, 4 takes x; slices are the last axis.
  std::vector<std::int64_t> want;
  for (std::int64_t x = 0; x < 4; ++x) {
    for (std::int64_t y = 0; y < 8; ++y) {
      for (std::int64_t z = 0; z < 8; ++z) {
        for (std::int64_t slice = 0; slice < 8; ++slice) want.push_back(chip(box, slice, x, y, z));
      }
    }
  }
  EXPECT_EQ(mesh.flat_ids(), want);
}

TEST(HybridMesh, TwoDimensionalTorus) {
  TESSERA_SPEC("T29", "T32");
  std::vector<DeviceAttributes> devices;
  for (std::int64_t y = 0; y < 4; ++y) {
    for (std::int64_t x = 0; x < 2; ++x) devices.push_back({.ordinal = y * 2 + x, .coords = {x + 5, y - 1}});
  }
  auto info = assign_hybrid_mesh({.ici_mesh_shape = {4, 2}, .devices = devices});
  EXPECT_EQ(info.logical_mesh.flat(), (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(info.per_slice[0].physical_shape, (Shape{2, 4}));
  EXPECT_EQ(info.per_slice[0].assignment, (std::vector<Dims>{{1}, {0}}));
  EXPECT_EQ(assign_hybrid_mesh({.ici_mesh_shape = {8}, .devices = devices}).logical_mesh.flat(),
            (std::vector<std::int64_t>{0, 2, 4, 6, 1, 3, 5, 7}));
}

TEST(HybridMesh, AxesAreSplitOnlyOnDemand) {
  TESSERA_SPEC("T33");
  auto devices = pods(1, {4, 4, 4});
  EXPECT_ERROR(ValueError, assign_hybrid_mesh({.ici_mesh_shape = {8, 8}, .devices = devices}), "axis 1", "8",
               "[4, 4, 4]", "allow_split_physical_axes");
  auto info = assign_hybrid_mesh({.ici_mesh_shape = {8, 8}, .devices = devices, .allow_split_physical_axes = true});
  // 8 = x whole (4) times half of y, 8 = the other half of y times z whole.
  ASSERT_EQ(info.per_slice[0].split, (std::vector<Dims>{{1, 4}, {2, 2}, {4, 1}}));
  std::vector<std::int64_t> want;
  for (std::int64_t i = 0; i < 8; ++i) {
    for (std::int64_t j = 0; j < 8; ++j) {
      std::int64_t y = i / 4 * 2 + j % 2;
      want.push_back(chip({4, 4, 4}, 0, j / 2, y, i % 4));
    }
  }
  EXPECT_EQ(info.logical_mesh.flat(), want);
  // Where whole axes fit, the option changes nothing.
  auto whole = assign_hybrid_mesh({.ici_mesh_shape = {16, 4}, .devices = devices});
  auto allowed = assign_hybrid_mesh({.ici_mesh_shape = {16, 4}, .devices = devices, .allow_split_physical_axes = true});
  EXPECT_EQ(whole.logical_mesh, allowed.logical_mesh);
  EXPECT_ERROR(ValueError, assign_hybrid_mesh({.ici_mesh_shape = {2, 4, 8}, .devices = pods(1, {2, 4, 8})}), "axis 1",
               "[0, 0, 8]");
  auto greedy = assign_hybrid_mesh(
      {.ici_mesh_shape = {2, 4, 8}, .devices = pods(1, {2, 4, 8}), .allow_split_physical_axes = true});
  std::vector<bool> seen(64);
  for (auto id : greedy.logical_mesh.flat()) seen[static_cast<std::size_t>(id)] = true;
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), 64);
  // 3 x 3 has no factor 2.
  EXPECT_ERROR(ValueError,
               assign_hybrid_mesh(
                   {.ici_mesh_shape = {3, 3, 1}, .devices = pods(1, {9, 1, 1}), .allow_split_physical_axes = false}),
               "axis 1", "3");
}

// Assignments of JAX 0.10.2 (mesh_utils with allow_split_physical_axes) over boxes whose ids run x fastest: factors,
// and the sum over i of (i + 1) times the id at place i.
struct Recorded {
  Shape box, mesh_shape;
  std::vector<Dims> split;
  std::int64_t sum;
};

TEST(HybridMesh, SplitsAsJaxDoes) {
  TESSERA_SPEC("T33");
  const std::vector<Recorded> rows = {
      {{4, 4, 4}, {8, 8}, {{1, 4}, {2, 2}, {4, 1}}, 80080},
      {{2, 4, 8}, {2, 4, 8}, {{1, 1, 2}, {1, 1, 4}, {2, 4, 1}}, 87248},
      {{4, 8, 8}, {16, 16}, {{2, 2}, {1, 8}, {8, 1}}, 4904640},
      {{4, 4, 8}, {2, 8, 8}, {{1, 4, 1}, {2, 2, 1}, {1, 1, 8}}, 554976},
      {{4, 4, 1}, {2, 8}, {{1, 4}, {2, 2}}, 1332},
      {{8, 8, 1}, {4, 4, 4}, {{1, 2, 4}, {4, 2, 1}}, 87104},
      {{4, 4, 4}, {2, 2, 16}, {{1, 1, 4}, {1, 1, 4}, {2, 2, 1}}, 86640},
  };
  for (const auto& row : rows) {
    auto devices = pods(1, row.box);
    if (row.split.size() == 2) {
      for (auto& d : devices) d.coords.pop_back();
    }
    auto info =
        assign_hybrid_mesh({.ici_mesh_shape = row.mesh_shape, .devices = devices, .allow_split_physical_axes = true});
    EXPECT_EQ(info.per_slice[0].split, row.split);
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < info.logical_mesh.flat().size(); ++i) {
      sum += static_cast<std::int64_t>(i + 1) * info.logical_mesh.flat()[i];
    }
    EXPECT_EQ(sum, row.sum);
  }
}

TEST(HybridMesh, DevicesOfTheClient) {
  TESSERA_SPEC("T24", "T27", "T38", "T108");
  std::vector<mesh::DeviceDescription> boxes;
  for (std::int64_t i = 0; i < 4; ++i) {
    boxes.push_back({.id = i, .process_index = 0, .coords = {i % 2, i / 2, 0}, .core_on_chip = 0, .slice_index = {}});
  }
  {
    ClientScope scope(mesh::make_client("mock", "MockDevice", 0, 1, boxes));
    EXPECT_EQ(make_hybrid_mesh({.ici_mesh_shape = {4}}).flat_ids(), (std::vector<std::int64_t>{0, 2, 1, 3}));
  }
  for (const Client& c : cluster_clients(2, 4)) {
    ClientScope scope(c);
    Mesh m = make_hybrid_mesh({.ici_mesh_shape = {2, 2}, .dcn_mesh_shape = {1, 2}, .process_is_slice = true});
    EXPECT_EQ(m.flat_ids(), (std::vector<std::int64_t>{0, 1, 4, 5, 2, 3, 6, 7}));
  }
  EXPECT_EQ(device_ordinal("TPU:10"), 10);
  for (const char* name : {"TPU", "TPU:", ":3", "TPU:x", "TPU:-1", "TPU3:1"}) {
    EXPECT_ERROR(ValueError, device_ordinal(name), name);
  }
  std::vector<DeviceAttributes> named(4);
  for (std::int64_t i = 0; i < 4; ++i) {
    named[static_cast<std::size_t>(i)].name = "TPU:" + std::to_string(11 - i);
    named[static_cast<std::size_t>(i)].process_index = i < 2 ? 0 : 1;
  }
  // TPU:8 and TPU:9 are listed last and come first.
  auto info = assign_hybrid_mesh(
      {.ici_mesh_shape = {2, 1}, .dcn_mesh_shape = {1, 2}, .devices = named, .process_is_slice = true});
  EXPECT_EQ(info.logical_mesh.flat(), (std::vector<std::int64_t>{2, 0, 3, 1}));
  named[1].name = named[0].name;
  EXPECT_ERROR(ValueError, assign_hybrid_mesh({.ici_mesh_shape = {4}, .devices = named}), "devices", "11");
  named[1].name = "TPU-8";
  EXPECT_ERROR(ValueError, assign_hybrid_mesh({.ici_mesh_shape = {4}, .devices = named}), "TPU-8");
  auto mixed = pods(1, {2, 2, 1});
  mixed[2].coords.clear();
  EXPECT_ERROR(ValueError, assign_hybrid_mesh({.ici_mesh_shape = {4}, .devices = mixed}), "coords", "3", "4");
  std::int64_t far = std::int64_t{1} << 62;
  mixed[2].coords = {far, -far, far};
  EXPECT_ERROR(ValueError, assign_hybrid_mesh({.ici_mesh_shape = {4}, .devices = mixed}), "coords", "hole");
}

}  // namespace
}  // namespace tessera::test
