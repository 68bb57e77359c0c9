// SPDX-License-Identifier: Apache-2.0
// A placement that does not fit is refused in the caller's words: the function, its argument, and what would fit.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "support/meshes.h"
#include "tessera/tessera.h"

namespace tessera {
namespace {

struct PlacementErrors : ::testing::Test {
  test::EightDevices eight;
  Mesh mesh = eight.A();  // 'x': 4, 'y': 2
  Array a = ones({6, 3});
  HostArray h = HostArray(float32, {6, 3});
  NamedSharding four{mesh, P("x")};
  NamedSharding all{mesh, P(axes("x", "y"))};
  NamedSharding long_{mesh, P(none, none, "x")};

  template <class E>
  void expect(const std::function<void()>& f, const std::vector<std::string>& words) {
    std::string message = test::error_of<E>(f);
    for (const auto& w : words) EXPECT_NE(message.find(w), std::string::npos) << "\"" << w << "\" in: " << message;
    EXPECT_EQ(message.find("shard_shape"), std::string::npos) << message;
  }
};

TEST_F(PlacementErrors, NameTheFunctionAndTheArgument) {
  std::vector<std::string> reason{"dimension 0 has extent 6", "a multiple of 4", "'x' (4)"};
  auto with = [&](std::vector<std::string> words) {
    words.insert(words.end(), reason.begin(), reason.end());
    return words;
  };
  expect<IndivisibleError>([&] { device_put(a, four); }, with({"device_put: sharding = NamedSharding"}));
  expect<IndivisibleError>([&] { device_put(h, four); }, with({"device_put: sharding = NamedSharding"}));
  expect<IndivisibleError>([&] { reshard(a, four); }, with({"reshard: sharding"}));
  expect<IndivisibleError>([&] { with_sharding_constraint(a, four); }, with({"with_sharding_constraint: sharding"}));
  expect<IndivisibleError>([&] { jit([&](Array v) { return with_sharding_constraint(v, four); })(a); },
                           with({"with_sharding_constraint: sharding"}));
  expect<IndivisibleError>([&] { jit([&](Array v) { return device_put(v, four); })(a); },
                           with({"device_put: sharding"}));
  auto identity = [](Array v) { return v; };
  expect<IndivisibleError>([&] { jit(identity, {.name = "step", .in_shardings = {four}})(a); },
                           with({"step: in_shardings[0] (argument 0 (float32[6,3]))"}));
  expect<IndivisibleError>([&] { jit(identity, {.name = "step", .out_shardings = {four}})(a); },
                           with({"step: out_shardings[0]"}));
  auto data = [](const Index&) { return HostArray::scalar(1.0F); };
  expect<IndivisibleError>(
      [&] {
        make_array_from_callback({6, 3}, four, data);
      },
      with({"make_array_from_callback: sharding"}));
  expect<IndivisibleError>(
      [&] {
        make_array_from_single_device_arrays({6, 3}, four, std::vector<Array>{});
      },
      with({"make_array_from_single_device_arrays: sharding"}));
}

TEST_F(PlacementErrors, NameWhatWouldFit) {
  expect<IndivisibleError>([&] { device_put(a, all); },
                           {"a multiple of 8", "the size of 'x' (4), 'y' (2)", "An extent of 8",
                            "one of the axes 'y' (2)", "NamedOptions{.uneven = true}"});
  expect<IndivisibleError>([&] { device_put(a, NamedSharding(mesh, P(none, "y"))); },
                           {"dimension 1 has extent 3", "An extent of 2 or 4"});
}

TEST_F(PlacementErrors, RanksAxesAndOtherKinds) {
  expect<ValueError>([&] { device_put(a, long_); }, {"device_put: sharding", "has 3 entries", "shape (6, 3)"});
  expect<ValueError>([&] { jit([](Array v) { return v; }, {.in_shardings = {long_}})(a); }, {"in_shardings[0]"});
  MeshScope scope(mesh);
  expect<ValueError>([&] { device_put(a, P("z")); }, {"device_put: spec = P('z',)", "(x, y)"});
  expect<DuplicateAxisError>([&] { with_sharding_constraint(a, P("x", "x")); }, {"with_sharding_constraint: spec"});
  expect<ValueError>([&] { jit([](Array v) { return v; }, {.in_shardings = {P("z")}})(a); }, {"jit: in_shardings"});
  GspmdSharding tiles(std::vector<Device>(mesh.devices_flat().begin(), mesh.devices_flat().end()),
                      TileAssignment(Dims{8, 1}));
  std::string message = test::error_of<IndivisibleError>([&] { device_put(a, tiles); });
  EXPECT_EQ(message.find("device_put: sharding = GspmdSharding"), 0U) << message;
}

}  // namespace
}  // namespace tessera
