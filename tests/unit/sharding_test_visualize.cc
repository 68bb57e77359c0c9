// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "support/meshes.h"
#include "tessera/error.h"
#include "tessera/visualize.h"

namespace tessera {
namespace {

using test::EightDevices;

TEST(Visualize, DrawsShardsOfAMatrix) {
  EightDevices e;
  EXPECT_EQ(visualize_array_sharding(NamedSharding(e.A(), P("x", "y")), {8, 2}),
            "┌───────┬───────┐\n"
            "│ CPU 0 │ CPU 1 │\n"
            "├───────┼───────┤\n"
            "│ CPU 2 │ CPU 3 │\n"
            "├───────┼───────┤\n"
            "│ CPU 4 │ CPU 5 │\n"
            "├───────┼───────┤\n"
            "│ CPU 6 │ CPU 7 │\n"
            "└───────┴───────┘\n");
}

TEST(Visualize, ShowsAllHoldersOfAShard) {
  EightDevices e;
  EXPECT_EQ(visualize_array_sharding(NamedSharding(e.A(), P(none, "y")), {8, 2}, {.height = 3}),
            "┌─────────────┬─────────────┐\n"
            "│             │             │\n"
            "│ CPU 0,2,4,6 │ CPU 1,3,5,7 │\n"
            "│             │             │\n"
            "└─────────────┴─────────────┘\n");
  EXPECT_EQ(visualize_array_sharding(NamedSharding(e.A(), P()), {8}, {.max_width = 9}),
            "┌───────────┐\n"
            "│ CPU 0,1,… │\n"
            "└───────────┘\n");
}

TEST(Visualize, DrawsVectorsUnevenAndEmptyArrays) {
  EightDevices e;
  EXPECT_EQ(visualize_array_sharding(NamedSharding(e.A(), P("x"), {.uneven = true}), {5}),
            "┌─────────┬─────────┬─────────┐\n"
            "│ CPU 0,1 │ CPU 2,3 │ CPU 4,5 │\n"
            "└─────────┴─────────┴─────────┘\n");
  EXPECT_EQ(visualize_array_sharding(NamedSharding(e.A(), P("y")), {0}),
            "┌─────────────────────┐\n"
            "│ CPU 0,1,2,3,4,5,6,7 │\n"
            "└─────────────────────┘\n");
}

TEST(Visualize, LeavesOutTheMiddleOfLongDimensions) {
  Client c = Client::cpu({.devices = 32});
  Mesh m = make_mesh({32}, "x", c.devices());
  EXPECT_EQ(visualize_array_sharding(NamedSharding(m, P("x")), {32}, {.max_cells = 4}),
            "┌────────┬────────┬────────┬────────┐\n"
            "│ CPU 0  │ CPU 1  │   …    │ CPU 31 │\n"
            "└────────┴────────┴────────┴────────┘\n");
}

TEST(Visualize, RefusesOtherRanks) {
  EightDevices e;
  EXPECT_ERROR(ValueError, visualize_array_sharding(NamedSharding(e.A(), P()), {2, 2, 2}), "(2, 2, 2)", "1 or 2");
  EXPECT_ERROR(ValueError, visualize_array_sharding(NamedSharding(e.A(), P()), Shape{}), "rank 0");
  EXPECT_ERROR(IndivisibleError, visualize_array_sharding(NamedSharding(e.A(), P("x")), {7}), "7", "4");
  EXPECT_ERROR(ValueError, visualize_array_sharding(NamedSharding(e.A(), P()), {8}, {.height = 0}), "height = 0");
}

TEST(Visualize, DrawsMeshes) {
  EightDevices e;
  EXPECT_EQ(visualize_mesh(e.D()),
            "Mesh('x': 4, 'y': 2)\n"
            "       y=0     y=1\n"
            "    ┌───────┬───────┐\n"
            "x=0 │ CPU 3 │ CPU 1 │\n"
            "    ├───────┼───────┤\n"
            "x=1 │ CPU 0 │ CPU 2 │\n"
            "    ├───────┼───────┤\n"
            "x=2 │ CPU 7 │ CPU 6 │\n"
            "    ├───────┼───────┤\n"
            "x=3 │ CPU 5 │ CPU 4 │\n"
            "    └───────┴───────┘\n");
  std::string cube = visualize_mesh(e.B());
  EXPECT_TRUE(test::has(cube, {"x=0\n", "x=1\n", "y=1 │ CPU 2 │ CPU 3 │", "y=0 │ CPU 4 │ CPU 5 │"})) << cube;
  EXPECT_EQ(visualize_mesh(Mesh()), "Mesh()\n");
  auto cluster = test::cluster_clients(2, 2);
  EXPECT_TRUE(test::has(visualize_mesh(test::mesh_of(cluster[0], {0, 1, 2, 3}, {4}, "x")), {"CPU 0 p0", "CPU 2 p1"}));
}

}  // namespace
}  // namespace tessera
