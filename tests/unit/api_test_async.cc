// SPDX-License-Identifier: Apache-2.0
// What does not wait for the data of its arguments.
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <vector>

#include "tessera/tessera.h"

namespace tessera {

namespace {

// A loop of unknown length is too much for the calling thread.
Array long_work(const Array& v) {
  return fori_loop(
      Array(0), Array(1), [](const Array&, const Array& c) { return c; }, v);
}

// Arrays whose values come when `begin` is set; after ten seconds an error does.
Array later(const Array& x, const std::shared_future<void>& begin) {
  auto f = jit([begin](const Array& v) {
    return pure_callback(
        [begin](const std::vector<HostArray>& in) {
          if (begin.wait_for(std::chrono::seconds(10)) != std::future_status::ready) throw ValueError("never begun");
          return in;
        },
        {{v.shape(), v.dtype()}}, {long_work(v)})[0];
  });
  return f(x);
}

TEST(Async, ArraysAreMadeOfArraysThatAreNotReady) {
  Client client = Client::cpu({.devices = 2});
  ClientScope scope(client);
  std::promise<void> go;
  std::shared_future<void> begin = go.get_future().share();
  std::vector<Array> given;
  for (int d = 0; d < 2; ++d) {
    given.push_back(device_put(full({3}, d), client.devices()[static_cast<std::size_t>(d)]));
  }
  std::vector<Array> parts;
  parts.reserve(2);
  for (const Array& x : given) parts.push_back(later(x, begin));
  NamedSharding split(make_mesh({2}, {"x"}), P("x"));
  Array whole = make_array_from_single_device_arrays({6}, split.share(), parts);
  Array twice = whole * 2;
  parts.clear();
  go.set_value();
  EXPECT_EQ(whole.to_vector<std::int32_t>(), (std::vector<std::int32_t>{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(twice.to_vector<std::int32_t>(), (std::vector<std::int32_t>{0, 0, 0, 2, 2, 2}));
}

TEST(Async, AFailureIsThrownWhereTheResultIsWaitedFor) {
  Client client = Client::cpu({.devices = 1});
  ClientScope scope(client);
  std::promise<void> go;
  std::shared_future<void> begin = go.get_future().share();
  auto f = jit([begin](const Array& v) {
    return pure_callback(
        [begin](const std::vector<HostArray>&) -> std::vector<HostArray> {
          begin.wait_for(std::chrono::seconds(10));
          throw ValueError("the host gave up");
        },
        {{v.shape(), v.dtype()}}, {long_work(v)})[0];
  });
  std::vector<Array> parts{f(ones({3}))};
  Array whole = make_array_from_single_device_arrays({3}, parts[0].sharding(), parts);
  go.set_value();
  EXPECT_THROW(whole.to_vector<float>(), ValueError);
  EXPECT_THROW(whole.block_until_ready(), ValueError);
}

}  // namespace

}  // namespace tessera
