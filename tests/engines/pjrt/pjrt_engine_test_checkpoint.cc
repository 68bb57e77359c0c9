// SPDX-License-Identifier: Apache-2.0
// Checkpoints from and to the devices of a PJRT plugin, and what is told of plugins.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engines/pjrt/plugin_programs.h"
#include "support/checkpoint_files.h"
#include "tessera/checkpoint.h"
#include "tessera/tessera.h"

namespace tessera::test {

namespace {

struct Weights {
  Array w, b;
  std::vector<Array> more;
};

Weights weights_on(const Client& client, const Shape& mesh_shape) {
  ClientScope scope(client);
  const auto mesh = make_mesh(mesh_shape, {"x", "y"}, client.devices());
  auto put = [&](const HostArray& v, const P& spec) { return device_put(v, NamedSharding(mesh, spec)); };
  const auto n = [](std::int64_t size, float step) {
    HostArray out(float32, {size});
    for (std::int64_t i = 0; i < size; ++i)
      out.span<float>()[static_cast<std::size_t>(i)] = step * static_cast<float>(i);
    return out;
  };
  return {put(n(64, 0.5F).reshape({8, 8}), P("x", "y")),
          put(n(8, 2), P("y")),
          {put(n(16, -1).astype(bfloat16), P("x")), put(n(3, 1).astype(int32), P())}};
}

void expect_equal(const Weights& got, const Weights& want) {
  const auto a = tree_leaves(got);
  const auto b = tree_leaves(want);
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(identical(a[i].host(), b[i].host())) << "leaf " << i;
}

// Without data, so that what is read is not what was there.
Weights empty_like(const Weights& w) {
  return tree_map([](const Array& a) { return without_data({a.shape(), a.dtype(), a.weak_type(), a.sharding()}); }, w);
}

TEST(PjrtCheckpoint, RestoredOntoThePluginsDevices) {
  const TempFolder folder;
  const Weights saved = weights_on(Client::cpu({.devices = 8}), {4, 2});
  checkpoints::save(folder.path(), 1, saved).wait();

  const Client plugin = plugin_client();
  for (const Shape& shape : {Shape{4, 2}, Shape{2, 4}, Shape{1, 8}}) {
    const Weights like = weights_on(plugin, shape);
    const Weights got = checkpoints::restore(folder.path(), 1, empty_like(like));
    expect_equal(got, saved);
    EXPECT_EQ(*got.w.sharding(), *like.w.sharding());
    for (const Shard& s : got.w.addressable_shards()) EXPECT_EQ(s.device().client(), plugin);
    // They are arrays of the plugin as any others: its programs run on them.
    ClientScope scope(plugin);
    EXPECT_EQ(sum(got.b + 1.0).item<float>(), 64);
  }
}

TEST(PjrtCheckpoint, SavedFromThePluginsDevices) {
  const TempFolder folder;
  const Weights on_plugin = weights_on(plugin_client(), {2, 4});
  checkpoints::save(folder.path(), 2, on_plugin).wait();
  const Weights native = weights_on(Client::cpu({.devices = 8}), {4, 2});
  expect_equal(checkpoints::restore(folder.path(), 2, empty_like(native)), native);
}

TEST(PjrtCheckpoint, TheResultOfARunningProgramIsSaved) {
  const TempFolder folder;
  const Client plugin = plugin_client();
  ClientScope scope(plugin);
  const Weights w = weights_on(plugin, {4, 2});
  const Array product = jit([](Array x) { return matmul(x, x); })(w.w);
  checkpoints::save(folder.path(), 3, product).wait();
  EXPECT_TRUE(identical(checkpoints::load(folder.path(), 3).at("value"), product.host()));
}

TEST(PjrtLog, ALoadedPluginIsTold) {
  std::vector<std::string> lines;
  set_log_sink([&](LogLevel level, std::string_view line) {
    if (level == LogLevel::Info) lines.emplace_back(line);
  });
  Client::pjrt({.plugin = plugin_path_of_test()});
  set_log_sink(nullptr);
  ASSERT_EQ(lines.size(), 1U);
  for (const std::string& part :
       {"plugin " + plugin_path_of_test(), std::string("of the PJRT C API"), std::string(" devices")}) {
    EXPECT_NE(lines[0].find(part), std::string::npos) << lines[0];
  }
}

}  // namespace

}  // namespace tessera::test
