// SPDX-License-Identifier: Apache-2.0
// What stands behind Client and Device handles.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tessera/device.h"

namespace tessera::mesh {

/// One device as an engine describes it.
struct DeviceDescription {
  std::int64_t id = 0;
  int process_index = 0;
  std::vector<std::int64_t> coords;
  std::int64_t core_on_chip = 0;
  std::optional<std::int64_t> slice_index;
};

struct DeviceState {
  ClientState* client = nullptr;
  std::int64_t id = 0;
  std::int32_t process_index = 0;
  std::int32_t table_position = 0;  // in ClientState::devices
  std::int32_t physical = -1;       // in ClientState::physical; most platforms have none
  Device handle() const {
    Device d;
    d.state_ = this;
    return d;
  }
  static const DeviceState* of(const Device& d) { return d.state_; }
};

struct ClientState {
  std::string platform;
  std::string device_kind;  // the word in a device's text: "CpuDevice"
  int process_index = 0;
  int process_count = 1;
  std::int64_t memory_limit = 0;
  std::shared_ptr<Cluster> cluster;
  std::vector<DeviceState> table;
  std::vector<DeviceDescription> physical;
  std::vector<Device> devices;
  std::vector<Device> local_devices;
  std::unordered_map<std::int64_t, std::int32_t> by_id;  // only where ids are not positions
  Extensions extensions;

  Client handle() {
    Client c;
    c.state_ = this;
    return c;
  }
  static ClientState* of(const Client& c) { return c.state_; }
};

/// A client over devices that some other engine describes; lives until the program ends.
Client make_client(std::string platform, std::string device_kind, int process_index, int process_count,
                   const std::vector<DeviceDescription>& devices);

}  // namespace tessera::mesh
