// SPDX-License-Identifier: Apache-2.0
// Types of axes, and the scopes that make them those by which types are derived (E1 to E8).
#include "support/meshes.h"

#include <gtest/gtest.h>

#include "support/spec_report.h"
#include "tessera/tessera.h"

namespace tessera::test {
namespace {

struct ExplicitMeshes : ::testing::Test {
  EightDevices eight;
  Mesh m2 = make_explicit_mesh({2, 2}, {"x", "y"});
  DeviceArray grid{eight.list({0, 1, 2, 3}), {2, 2}};
  Mesh of_types(std::vector<AxisType> types) const { return Mesh(grid, {"x", "y"}, {.axis_types = std::move(types)}); }
};

TEST_F(ExplicitMeshes, AxisTypesHaveNames) {
  TESSERA_SPEC("E1");
  EXPECT_EQ(to_string(AxisType::Auto), "Auto");
  EXPECT_EQ(to_string(AxisType::Explicit), "Explicit");
  EXPECT_EQ(to_string(AxisType::Manual), "Manual");
}

TEST_F(ExplicitMeshes, OneTypeAnAxis) {
  TESSERA_SPEC("E2");
  const Mesh m = of_types({AxisType::Explicit, AxisType::Auto});
  EXPECT_EQ(std::vector(m.axis_types().begin(), m.axis_types().end()),
            (std::vector{AxisType::Explicit, AxisType::Auto}));
  const AbstractMesh a({2, 2}, {"x", "y"}, {.axis_types = {AxisType::Auto, AxisType::Explicit}});
  EXPECT_EQ(a.axis_types()[1], AxisType::Explicit);
  EXPECT_EQ(make_mesh({2, 2}, {"x", "y"}, {.axis_types = {AxisType::Explicit, AxisType::Auto}}), m);
  EXPECT_ERROR(ValueError, of_types({AxisType::Explicit}), "1", "2");
  EXPECT_ERROR(ValueError, of_types({AxisType::Auto, AxisType::Auto, AxisType::Auto}), "3", "2");
  EXPECT_ERROR(ValueError, AbstractMesh({2, 2}, {"x", "y"}, {.axis_types = {AxisType::Auto}}), "1", "2");
  EXPECT_ERROR(ValueError, make_mesh({2, 2}, {"x", "y"}, {.axis_types = {AxisType::Auto}}), "1", "2");
  EXPECT_NO_THROW(of_types({AxisType::Manual, AxisType::Auto}));
}

TEST_F(ExplicitMeshes, AxesAreAutomaticUnlessAskedFor) {
  TESSERA_SPEC("E3");
  EXPECT_TRUE(Mesh(grid, {"x", "y"}).are_all_axes_auto());
  EXPECT_TRUE(AbstractMesh({2, 2}, {"x", "y"}).are_all_axes_auto());
  EXPECT_TRUE(make_mesh({2, 2}, {"x", "y"}).are_all_axes_auto());
  EXPECT_TRUE(m2.are_all_axes_explicit());
}

TEST_F(ExplicitMeshes, TypesAreOfTheIdentity) {
  TESSERA_SPEC("E4");
  const Mesh plain = make_mesh({2, 2}, {"x", "y"});
  EXPECT_NE(m2, plain);
  EXPECT_NE(m2.hash(), plain.hash());
  EXPECT_NE(m2.abstract_mesh(), plain.abstract_mesh());
  EXPECT_NE(m2.abstract_mesh().hash(), plain.abstract_mesh().hash());
  EXPECT_EQ(m2, of_types({AxisType::Explicit, AxisType::Explicit}));

  EXPECT_EQ(to_string(of_types({AxisType::Explicit, AxisType::Auto})),
            "Mesh('x': 2, 'y': 2, axis_types=(Explicit, Auto))");
  EXPECT_EQ(to_string(plain), "Mesh('x': 2, 'y': 2)");
}

TEST_F(ExplicitMeshes, AxesByType) {
  TESSERA_SPEC("E5");
  const Mesh m = of_types({AxisType::Explicit, AxisType::Auto});
  using Names = std::vector<std::string>;
  EXPECT_EQ(m.explicit_axes(), Names{"x"});
  EXPECT_EQ(m.auto_axes(), Names{"y"});
  EXPECT_EQ(m.manual_axes(), Names{});
  EXPECT_EQ(m2.explicit_axes(), (Names{"x", "y"}));
  EXPECT_FALSE(m.are_all_axes_explicit());
  EXPECT_FALSE(m.are_all_axes_auto());
  EXPECT_FALSE(m.are_all_axes_manual());
  EXPECT_EQ(m2.update_axis_types({{"y", AxisType::Auto}}), m);
  EXPECT_EQ(m2.abstract_mesh().update_axis_types({{"y", AxisType::Auto}}), m.abstract_mesh());
  EXPECT_ERROR(ValueError, m2.update_axis_types({{"q", AxisType::Auto}}), "q");
  EXPECT_ERROR(ValueError, m2.abstract_mesh().update_axis_types({{"q", AxisType::Auto}}), "q");
}

TEST_F(ExplicitMeshes, ScopesSetTheMesh) {
  TESSERA_SPEC("E6");
  EXPECT_TRUE(get_mesh().empty());
  {
    const SetMesh scope(m2);
    EXPECT_EQ(get_mesh(), m2);
    EXPECT_EQ(get_abstract_mesh(), m2.abstract_mesh());
    EXPECT_EQ(type_of(zeros({8, 4}, {.out_sharding = P("x", "y")})).text(), "float32[8@x,4@y]");
    const Mesh other = make_explicit_mesh({4}, "z");
    {
      const SetMesh inner(other);
      EXPECT_EQ(type_of(zeros({8, 4}, {.out_sharding = P("z")})).text(), "float32[8@z,4]");
    }
    EXPECT_EQ(get_mesh(), m2);
    auto f = jit([&](const Array& a) {
      const SetMesh inside(other);
      return a;
    });
    EXPECT_ERROR(ValueError, f(zeros({2})), "set_mesh");
    auto g = jit([&](const Array& a) {
      set_mesh(other);
      return a;
    });
    EXPECT_ERROR(ValueError, g(zeros({2})), "set_mesh");
  }
  EXPECT_TRUE(get_mesh().empty());
  set_mesh(m2);
  EXPECT_EQ(get_mesh(), m2);
  EXPECT_EQ(type_of(zeros({8, 4}, {.out_sharding = P("x")})).text(), "float32[8@x,4]");
  set_mesh(Mesh());
  EXPECT_TRUE(get_mesh().empty());
}

TEST_F(ExplicitMeshes, AbstractScopesChangeTypesOnly) {
  TESSERA_SPEC("E7");
  const SetMesh scope(m2);
  {
    const UseAbstractMesh types(of_types({AxisType::Explicit, AxisType::Auto}).abstract_mesh());
    EXPECT_EQ(get_abstract_mesh().auto_axes(), std::vector<std::string>{"y"});
    EXPECT_EQ(get_mesh(), m2);
  }
  EXPECT_EQ(get_abstract_mesh(), m2.abstract_mesh());
  EXPECT_ERROR(ValueError, UseAbstractMesh(AbstractMesh({8}, "x")), "8", "4");
}

TEST_F(ExplicitMeshes, OperandsShareTheMesh) {
  TESSERA_SPEC("E8");
  const Mesh half = of_types({AxisType::Explicit, AxisType::Auto});
  const Array a = device_put(HostArray(float32, {8, 4}), NamedSharding(m2, P("x")).share());
  const Array b = device_put(HostArray(float32, {8, 4}), NamedSharding(half, P("x")).share());
  const SetMesh scope(m2);
  EXPECT_ERROR(ValueError, a + b, "add", "f32[8@x,4]", "Auto");
  EXPECT_ERROR(ValueError, sin(b), "sin", "f32[8@x,4]");
  EXPECT_EQ(type_of(a + a).text(), "float32[8@x,4]");
  const Mesh reversed = Mesh(DeviceArray(eight.list({3, 2, 1, 0}), {2, 2}), {"x", "y"},
                             {.axis_types = {AxisType::Explicit, AxisType::Explicit}});
  const Array c = device_put(HostArray(float32, {8, 4}), NamedSharding(reversed, P("x")).share());
  EXPECT_ERROR(DeviceMismatchError, a + c, "add");
}

}  // namespace
}  // namespace tessera::test
