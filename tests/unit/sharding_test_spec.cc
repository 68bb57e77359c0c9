// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <type_traits>

#include "support/meshes.h"
#include "support/spec_report.h"
#include "tessera/error.h"
#include "tessera/partition_spec.h"
#include "tessera/sharding.h"

namespace tessera {
namespace {

TEST(PartitionSpec, ListsOneEntryADimension) {
  TESSERA_SPEC("A7");
  EXPECT_EQ(P("x", none).size(), 2u);
  EXPECT_EQ(P(axes("x", "y"), none).text(), "P(('x', 'y'), None)");
  EXPECT_EQ(P("x") + P("y"), P("x", "y"));
  EXPECT_EQ(P("x", "y").index("y"), 1);
  EXPECT_ERROR(ValueError, P("x", "y").index("q"), "q", "P('x', 'y')");
  EXPECT_ERROR(ValueError, axes("x", axes("y", "z")), "entry 1", "('y', 'z')", "nested");
  EXPECT_ERROR(ValueError, axes("x", none), "entry 1", "None");
  EXPECT_TRUE(P("x", unconstrained)[1].is_unconstrained());
  EXPECT_EQ(P("x", unconstrained).text(), "P('x', UNCONSTRAINED)");
}

TEST(PartitionSpec, EqualityIsByEntries) {
  TESSERA_SPEC("A8");
  EXPECT_EQ(P("x"), P(axes("x")));
  EXPECT_EQ(P("x").hash(), P(axes("x")).hash());
  EXPECT_NE(P("x"), P("x", none));
  EXPECT_NE(P(none), P());
  EXPECT_NE(P(axes()), P(none));
}

TEST(PartitionSpec, IsWrittenInManyWays) {
  std::string name = "x";
  EXPECT_EQ(P("x", none, {"y", "z"}), P("x", None, axes("y", "z")));
  EXPECT_EQ(P({"x", "y"}), P(axes("x", "y")));
  EXPECT_EQ(P({name, name}).size(), 1u);
  EXPECT_EQ(P({"x"}), P("x"));
  EXPECT_EQ((P{"x", "y"}), P("x", "y"));
  EXPECT_EQ(P(name, std::nullopt), P("x", none));
  EXPECT_EQ(P({0, 1}).text(), "P((0, 1),)");
  EXPECT_EQ(P(0, "y").text(), "P(0, 'y')");
  EXPECT_EQ(P({0, "x"}, none).text(), "P((0, 'x'), None)");
  EXPECT_EQ(P("x").text("PartitionSpec"), "PartitionSpec('x',)");
  EXPECT_EQ(P("x", {}), P("x", axes()));
  EXPECT_EQ(P(std::vector<SpecEntry>(10, none)).size(), 10u);
  static_assert(!std::is_constructible_v<P, bool> && !std::is_constructible_v<P, double>);
  static_assert(!std::is_constructible_v<P, float> && !std::is_constructible_v<P, std::nullptr_t>);
}

TEST(PartitionSpec, ReducesToAxisMapping) {
  TESSERA_SPEC("G29");
  EXPECT_EQ(to_axis_mapping(P(axes("z", "x"), "y")), (AxisMapping{{"z", 0}, {"x", 0}, {"y", 1}}));
  EXPECT_EQ(to_axis_mapping(P(none, "y")), (AxisMapping{{"y", 1}}));
  EXPECT_TRUE(to_axis_mapping(P()).empty());
  EXPECT_ERROR(DuplicateAxisError, to_axis_mapping(P("x", "x"), "my_argument"), "my_argument", "`x`");
}

TEST(TileAssignment, ComesFromSpecs) {
  TESSERA_SPEC("A13");
  test::EightDevices e;
  auto on = [](const Mesh& m, const PartitionSpec& s, std::int64_t ndim = 2) {
    return NamedSharding(m, s).to_tiles(ndim).text();
  };
  EXPECT_EQ(on(e.A(), P("x", "y")), "{devices=[4,2]<=[8]}");
  EXPECT_EQ(on(e.A(), P("x", "y"), 3), "{devices=[4,2,1]<=[8]}");
  EXPECT_EQ(on(e.A(), P("y")), "{devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}");
  EXPECT_EQ(on(e.A(), P(none, axes("y", "x"))), "{devices=[1,8]<=[4,2]T(1,0)}");
  EXPECT_EQ(on(e.A(), P()), "{replicated}");
  EXPECT_EQ(on(e.B(), P("x", "y")), "{devices=[2,2,2]<=[8] last_tile_dim_replicate}");
  EXPECT_EQ(on(e.B(), P("y", "x")), "{devices=[2,2,2]<=[2,2,2]T(1,0,2) last_tile_dim_replicate}");
  EXPECT_EQ(on(e.B(), P(axes("z", "x"), "y")), "{devices=[4,2]<=[4,2]T(1,0)}");
  EXPECT_ERROR(ValueError, on(e.A(), P("x", "y"), 1), "2 entries", "rank 1");
  EXPECT_EQ(NamedSharding(Mesh({0, 1, 2, 3, 4, 5, 6, 7}, {2, 4}), P(1, none)).to_tiles(2).text(),
            "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}");
}

TEST(TileAssignment, GoesBackToSpecs) {
  TESSERA_SPEC("A14");
  test::EightDevices e;
  auto back = [](const Mesh& m, const PartitionSpec& s) { return to_spec(NamedSharding(m, s).to_tiles(2), m); };
  for (const auto& s : {P("x", "y"), P(axes("y", "x")), P()}) EXPECT_EQ(back(e.A(), s), s);
  for (const auto& s : {P(axes("z", "x"), "y"), P("y", "x")}) EXPECT_EQ(back(e.B(), s), s);
  auto odd = TileAssignment::from_list({8}, {0, 3, 1, 2, 7, 6, 5, 4});
  EXPECT_EQ(to_spec(odd, e.L8()), std::nullopt);
  EXPECT_ERROR(IndivisibleError, to_spec(TileAssignment({2, 4}), e.L8()), "2", "'x': 8");
  EXPECT_EQ(to_spec(TileAssignment({8, 1}, {2, 4}, {1, 0}), e.A()), std::nullopt);
}

TEST(TileAssignment, TextsParse) {
  for (const char* text : {"{replicated}", "{manual}", "{maximal device=3}", "{devices=[4,2]<=[8]}",
                           "{devices=[1,8]<=[4,2]T(1,0)}", "{devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}",
                           "{devices=[8]0,3,1,2,7,6,5,4}", "{devices=[1]<=[1]}"}) {
    EXPECT_EQ(TileAssignment::parse(text).text(), text);
  }
  auto t = TileAssignment::parse("{devices=[4,2]0,1,2,3,4,5,6,7}");
  EXPECT_EQ(t, TileAssignment({4, 2}));
  EXPECT_EQ(t.explicit_text(), "{devices=[4,2]0,1,2,3,4,5,6,7}");
  EXPECT_EQ(TileAssignment::parse("{devices=[8]0,4,1,5,2,6,3,7}").text(), "{devices=[8]<=[2,4]T(1,0)}");
  EXPECT_EQ(TileAssignment::parse("{devices=[2,4]<=[2,2,2]T(0,1,2)}"), TileAssignment({2, 4}));
  for (const char* text : {"", "{", "{replicated", "{replicated}x", "{devices=[4,2]}", "{devices=[4,2]<=[7]}",
                           "{devices=[2]0,0}", "{devices=[2]0,2}", "{devices=[0]<=[0]}", "{devices=[2]<=[2]T(0,1)}",
                           "{maximal device=-1}", "{devices=[4,2]<=[8] last}"}) {
    EXPECT_THROW(TileAssignment::parse(text), FormatError) << text;
  }
}

TEST(TileAssignment, HugeMeshesStayArithmetic) {
  std::int64_t k = 1024;
  TileAssignment t({k, k}, {k, k}, {1, 0});
  EXPECT_EQ(t.text(), "{devices=[1024,1024]<=[1024,1024]T(1,0)}");
  TileAssignment huge({std::int64_t{1} << 31, std::int64_t{1} << 31});
  EXPECT_EQ(huge.num_devices(), std::int64_t{1} << 62);
}

}  // namespace
}  // namespace tessera
