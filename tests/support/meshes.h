// SPDX-License-Identifier: Apache-2.0
// The meshes that the specification's checks speak of, on devices of their own.
#pragma once

#include <string>
#include <vector>

#include "support/test_client.h"
#include "tessera/device.h"
#include "tessera/mesh.h"

namespace tessera::test {

/// One process with eight devices; its client is current while the object lives.
struct EightDevices {
  Client client = test_client(8);
  ClientScope scope{client};

  Device d(std::int64_t id) const { return client.device(id); }
  std::vector<Device> list(std::initializer_list<std::int64_t> ids) const {
    std::vector<Device> out;
    for (auto i : ids) out.push_back(d(i));
    return out;
  }
  Mesh A() const { return make_mesh({4, 2}, {"x", "y"}, client.devices()); }
  Mesh A24() const { return make_mesh({2, 4}, {"x", "y"}, client.devices()); }
  Mesh B() const { return make_mesh({2, 2, 2}, {"x", "y", "z"}, client.devices()); }
  Mesh C() const { return make_mesh({8, 1}, {"x", "y"}, client.devices()); }
  Mesh D() const { return Mesh(DeviceArray(list({3, 1, 0, 2, 7, 6, 5, 4}), {4, 2}), {"x", "y"}); }
  Mesh L8() const { return make_mesh({8}, "x", client.devices()); }
};

/// The clients of a simulated cluster, one a process.
inline std::vector<Client> cluster_clients(int processes, std::int64_t devices_each) {
  std::vector<Client> out;
  for (int p = 0; p < processes; ++p) {
    out.push_back(Client::cpu({.devices = devices_each, .process_index = p, .process_count = processes}));
  }
  return out;
}

/// A mesh over the devices of one process's client, from ids in row-major order.
inline Mesh mesh_of(const Client& c, std::initializer_list<std::int64_t> ids, const Shape& shape,
                    const AxisNames& names) {
  std::vector<Device> list;
  for (auto i : ids) list.push_back(c.device(i));
  return Mesh(DeviceArray(list, shape), names);
}

/// What `f` throws as an E; a failed test when it throws nothing of that class.
template <class E, class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  } catch (const std::exception& e) {
    return std::string("another exception: ") + e.what();
  }
  return "no exception";
}

inline bool has(const std::string& text, std::initializer_list<std::string> words) {
  for (const auto& w : words) {
    if (text.find(w) == std::string::npos) return false;
  }
  return true;
}

}  // namespace tessera::test

/// The statement throws an `Error` whose text has all the words.
#define EXPECT_ERROR(Error, statement, ...)                                                   \
  do {                                                                                        \
    std::string error_text_ = ::tessera::test::error_of<Error>([&] { statement; });           \
    EXPECT_TRUE(::tessera::test::has(error_text_, {__VA_ARGS__})) << "text: " << error_text_; \
    EXPECT_NE(error_text_, "no exception");                                                   \
    EXPECT_NE(error_text_.substr(0, 17), "another exception");                                \
  } while (false)
