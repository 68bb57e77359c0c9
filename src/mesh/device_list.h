// SPDX-License-Identifier: Apache-2.0
// The ordered devices of a mesh or a sharding: one object for equal lists, so that comparing lists is comparing
// pointers.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tessera/device.h"

namespace tessera::mesh {

struct DeviceList {
  std::vector<Device> devices;
  std::size_t hash = 0;
  std::vector<std::int32_t> local_positions;  // of devices that their own client's process owns, ascending
  Client client;                              // of the first device; null for the empty list

  std::size_t size() const { return devices.size(); }
  bool all_local() const { return local_positions.size() == devices.size(); }
  /// Position of a device in the list, or -1. The first call builds a table.
  std::int32_t position(const Device& d) const;
  /// The devices at `local_positions`.
  const std::vector<Device>& local_devices() const;

 private:
  mutable std::once_flag lookup_once_;
  mutable std::vector<std::int32_t> by_table_;                // of `client`
  mutable std::unordered_map<Device, std::int32_t> foreign_;  // devices of other clients
  mutable std::once_flag local_once_;
  mutable std::vector<Device> local_;
};

/// The one list with these devices. Throws `ValueError` naming `function` and `argument` for a null device or one that
/// is listed twice.
std::shared_ptr<const DeviceList> intern_device_list(std::vector<Device> devices, std::string_view function,
                                                     std::string_view argument);

}  // namespace tessera::mesh
