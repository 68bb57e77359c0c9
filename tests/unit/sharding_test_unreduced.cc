// SPDX-License-Identifier: Apache-2.0
// Unreduced and reduced axes of specs and shardings.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "tessera/error.h"
#include "tessera/sharding.h"
#include "tests/support/meshes.h"

namespace tessera {
namespace {

// What `f` throws, if it is a ValueError.
std::string refused(const std::function<void()>& f) {
  try {
    f();
  } catch (const ValueError& e) {
    return e.what();
  }
  return "nothing is thrown";
}
bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(UnreducedSpec, TextEqualityHash) {
  EXPECT_EQ(P("x").unreduced("y").text(), "P('x', unreduced={'y'})");
  EXPECT_EQ(P().unreduced("y", "x").text(), "P(unreduced={'x', 'y'})");
  EXPECT_EQ(P(none).reduced("x").text(), "P(None, reduced={'x'})");
  EXPECT_EQ(P("x").unreduced("y").reduced("z").text(), "P('x', unreduced={'y'}, reduced={'z'})");
  EXPECT_EQ(P("x").text(), "P('x',)");
  EXPECT_EQ(P().unreduced("x", "y"), P().unreduced("y").unreduced("x"));
  EXPECT_EQ(P().unreduced("x", "y").hash(), P().unreduced("y", "x").hash());
  EXPECT_FALSE(P().unreduced("x") == P());
  EXPECT_FALSE(P().unreduced("x") == P().reduced("x"));
  EXPECT_NE(P().unreduced("x").hash(), P().reduced("x").hash());
  EXPECT_EQ(P("x").unreduced("y").unreduced(), std::vector<AxisRef>{"y"});
  EXPECT_TRUE(P("x").unreduced("y").reduced().empty());
  EXPECT_EQ(P("x").unreduced("y") + P("z"), P("x", "z").unreduced("y"));
}

TEST(UnreducedSpec, SetsAreDisjoint) {
  std::string entry = refused([] { P("x").unreduced("x"); });
  EXPECT_TRUE(has(entry, "unreduced = {'x'} names the axis 'x'")) << entry;
  EXPECT_TRUE(has(refused([] { P(none, {"x", "y"}).reduced("y"); }), "reduced = {'y'}"));
  EXPECT_TRUE(has(refused([] { P().reduced("x").unreduced("x"); }), "unreduced = {'x'}"));
  test::EightDevices devices;
  Mesh mesh = devices.A();
  std::string unknown = refused([&] { NamedSharding(mesh, P().unreduced("z")); });
  EXPECT_TRUE(has(unknown, "'z'")) << unknown;
  // A number and a name for one axis.
  std::string twice = refused([&] { NamedSharding(mesh, P(0).unreduced("x")); });
  EXPECT_TRUE(has(twice, "unreduced") && has(twice, "`x`")) << twice;
}

TEST(UnreducedSharding, Placement) {
  test::EightDevices devices;
  Mesh mesh = devices.A();
  NamedSharding sum(mesh, P("y").unreduced("x")), split(mesh, P("y")), marked(mesh, P("y").reduced("x"));
  EXPECT_EQ(sum.shard_shape({8}), (Shape{4}));
  EXPECT_EQ(std::vector<int>(sum.unreduced_axes().begin(), sum.unreduced_axes().end()), std::vector<int>{0});
  EXPECT_FALSE(sum.is_equivalent_to(split, 1));
  EXPECT_FALSE(sum == split);
  EXPECT_TRUE(marked.is_equivalent_to(split, 1));
  EXPECT_FALSE(marked == split);
  EXPECT_FALSE(NamedSharding(mesh, P().unreduced("x")).is_fully_replicated());
  EXPECT_TRUE(NamedSharding(mesh, P().reduced("x")).is_fully_replicated());
  EXPECT_TRUE(NamedSharding(devices.C(), P().unreduced("y")).is_fully_replicated());
  EXPECT_EQ(sum.with_spec(P("y")), split);
  EXPECT_THROW(sum.to_tiles(1), UnimplementedError);
  EXPECT_EQ(NamedSharding(mesh, P(1).unreduced(0)).spec(), P("y").unreduced("x"));
  EXPECT_TRUE(has(sum.text(), "P('y', unreduced={'x'})"));
}

}  // namespace
}  // namespace tessera
