// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <thread>

#include "support/meshes.h"
#include "support/spec_report.h"
#include "tessera/config.h"
#include "tessera/error.h"
#include "tessera/mesh.h"

namespace tessera {
namespace {

using test::EightDevices;

TEST(MeshScope, MakesAMeshCurrent) {
  TESSERA_SPEC("M34", "M50");
  EightDevices e;
  EXPECT_EQ(mesh_scope_depth(), 1u);
  EXPECT_TRUE(current_env().physical_mesh.empty());
  {
    MeshScope scope(e.A());
    EXPECT_EQ(current_mesh(), e.A());
    EXPECT_EQ(mesh_scope_depth(), 2u);
    EXPECT_EQ(scope.mesh(), e.A());
  }
  EXPECT_EQ(current_mesh(), Mesh());
  EXPECT_EQ(mesh_scope_depth(), 1u);
  static_assert(!std::is_copy_constructible_v<MeshScope> && !std::is_move_constructible_v<MeshScope>);
}

TEST(MeshScope, WithMeshReturnsTheResult) {
  EightDevices e;
  auto depth = with_mesh(e.A(), [&](const Mesh& m) {
    EXPECT_EQ(m, e.A());
    EXPECT_EQ(current_mesh(), m);
    return mesh_scope_depth();
  });
  EXPECT_EQ(depth, 2u);
}

TEST(MeshScope, Nests) {
  TESSERA_SPEC("M36", "M37");
  EightDevices e;
  MeshScope outer(e.A());
  {
    MeshScope inner(e.A24());
    EXPECT_EQ(mesh_scope_depth(), 3u);
    EXPECT_EQ(current_mesh(), e.A24());
    EXPECT_EQ(mesh_scope_stack(), (std::vector<Mesh>{e.A(), e.A24()}));
  }
  EXPECT_EQ(current_mesh(), e.A());
  EXPECT_EQ(mesh_scope_depth(), 2u);
  {
    MeshScope again(e.A());
    EXPECT_EQ(mesh_scope_depth(), 3u);
  }
  EXPECT_EQ(mesh_scope_depth(), 2u);
}

TEST(MeshScope, ExceptionsRestore) {
  TESSERA_SPEC("M38");
  EightDevices e;
  MeshScope outer(e.A());
  struct Mine {};
  EXPECT_THROW(
      {
        MeshScope inner(e.A24());
        throw Mine{};
      },
      Mine);
  EXPECT_EQ(mesh_scope_depth(), 2u);
  EXPECT_EQ(current_mesh(), e.A());
}

TEST(MeshScope, BelongsToOneThread) {
  TESSERA_SPEC("M39");
  EightDevices e;
  MeshScope scope(e.A());
  std::thread([] {
    EXPECT_EQ(mesh_scope_depth(), 1u);
    EXPECT_TRUE(current_mesh().empty());
  }).join();
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([i, a = e.A(), b = e.A24()] {
      for (int k = 0; k < 50; ++k) {
        const Mesh& mine = (i + k) % 2 == 0 ? a : b;
        MeshScope inner(mine);
        EXPECT_EQ(current_mesh(), mine);
        EXPECT_EQ(mesh_scope_depth(), 2u);
      }
    });
  }
  for (auto& t : threads) t.join();
}

TEST(MeshScope, CanBeDisabled) {
  TESSERA_SPEC("M40");
  EightDevices e;
  ConfigScope off(&Config::disallow_mesh_scope, true);
  EXPECT_ERROR(StateError, MeshScope scope(e.A()), "mesh scopes are disabled");
  EXPECT_EQ(mesh_scope_depth(), 1u);
}

TEST(MeshScope, EmptyMeshAddsALevelButNoKey) {
  EightDevices e;
  MeshScope scope{Mesh()};
  EXPECT_EQ(mesh_scope_depth(), 2u);
  EXPECT_TRUE(current_mesh().empty());
  EXPECT_TRUE(mesh_scope_stack().empty());
}

TEST(MeshScope, WrapsCallables) {
  TESSERA_SPEC("M45");
  EightDevices e;
  auto g = e.A().wrap([&](int n) {
    EXPECT_EQ(current_mesh(), e.A());
    return n + static_cast<int>(mesh_scope_depth());
  });
  EXPECT_EQ(g(40), 42);
  EXPECT_EQ(mesh_scope_depth(), 1u);
}

TEST(ResourceEnv, DescribesOneLevel) {
  TESSERA_SPEC("M46", "M49");
  EightDevices e;
  ResourceEnv env = ResourceEnv{}.with_mesh(e.A());
  EXPECT_EQ(env.physical_resource_axes(), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(env.resource_axes(), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(env.shape(), (OrderedMap<std::string, std::int64_t>{{"x", 4}, {"y", 2}}));
  EXPECT_EQ(env.local_shape(), env.shape());
  EXPECT_EQ(to_string(env), "ResourceEnv(mesh=Mesh('x': 4, 'y': 2))");
  EXPECT_EQ(to_string(current_env()), "ResourceEnv(mesh=Mesh())");
  auto c = test::cluster_clients(2, 4);
  ResourceEnv part{test::mesh_of(c[1], {0, 1, 2, 3, 4, 5, 6, 7}, {4, 2}, {"x", "y"}), {}};
  EXPECT_EQ(part.local_shape(), (OrderedMap<std::string, std::int64_t>{{"x", 2}, {"y", 2}}));
}

TEST(ResourceEnv, RefusesToShadowOtherAxes) {
  TESSERA_SPEC("M47", "M48");
  EightDevices e;
  ResourceEnv env = ResourceEnv{}.with_mesh(e.A());
  EXPECT_EQ(env.with_mesh(e.A24()).physical_mesh, e.A24());
  env.other_axes = {"x"};
  EXPECT_ERROR(ValueError, env.with_mesh(e.A24()), "`x`");
  EXPECT_EQ(show_axes({"z", "a", "m"}), "`a`, `m`, `z`");
}

}  // namespace
}  // namespace tessera
