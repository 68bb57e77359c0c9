// SPDX-License-Identifier: Apache-2.0
#include "mesh/device_list.h"

#include <algorithm>
#include <atomic>

#include "base/hash.h"
#include "base/intern_table.h"
#include "base/strings.h"
#include "mesh/client_state.h"
#include "tessera/cache_stats.h"
#include "tessera/error.h"

namespace tessera {

namespace mesh {
namespace {

std::atomic<std::int64_t> sets_built{0};

base::InternTable<DeviceList>& table() {
  static auto* t = new base::InternTable<DeviceList>;
  return *t;
}

[[noreturn]] void throw_repeated(const std::vector<Device>& devices, std::size_t second, std::string_view function,
                                 std::string_view argument) {
  auto first = std::find(devices.begin(), devices.end(), devices[second]) - devices.begin();
  throw ValueError(str(function, ": ", argument, "[", second, "] = ", devices[second], " (id ", devices[second].id(),
                       ") is already at ", argument, "[", first, "]; every device may be listed once"));
}

void check_devices(const std::vector<Device>& devices, std::string_view function, std::string_view argument) {
  std::unordered_map<const ClientState*, std::vector<bool>> seen;
  const ClientState* last = nullptr;
  std::vector<bool>* marks = nullptr;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const DeviceState* s = DeviceState::of(devices[i]);
    if (s == nullptr) {
      throw ValueError(str(function, ": ", argument, "[", i, "] is a null device; expected a device of a client"));
    }
    if (s->client != last) {
      last = s->client;
      marks = &seen[last];
      marks->resize(last->devices.size());
    }
    auto mark = (*marks)[static_cast<std::size_t>(s->table_position)];
    if (mark) throw_repeated(devices, i, function, argument);
    mark = true;
  }
}

}  // namespace

std::int32_t DeviceList::position(const Device& d) const {
  const DeviceState* s = DeviceState::of(d);
  if (s == nullptr) return -1;
  const ClientState* home = client ? ClientState::of(client) : nullptr;
  std::call_once(lookup_once_, [&] {
    sets_built.fetch_add(1, std::memory_order_relaxed);
    if (home == nullptr) return;
    by_table_.assign(home->devices.size(), -1);
    for (std::size_t i = 0; i < devices.size(); ++i) {
      const DeviceState* e = DeviceState::of(devices[i]);
      if (e->client == home) {
        by_table_[static_cast<std::size_t>(e->table_position)] = static_cast<std::int32_t>(i);
      } else {
        foreign_.emplace(devices[i], static_cast<std::int32_t>(i));
      }
    }
  });
  if (s->client == home) return by_table_[static_cast<std::size_t>(s->table_position)];
  auto it = foreign_.find(d);
  return it == foreign_.end() ? -1 : it->second;
}

const std::vector<Device>& DeviceList::local_devices() const {
  std::call_once(local_once_, [&] {
    std::vector<Device> found;  // whole or not at all: after an error the next call tries again
    found.reserve(local_positions.size());
    for (auto p : local_positions) found.push_back(devices[static_cast<std::size_t>(p)]);
    local_ = std::move(found);
  });
  return local_;
}

std::shared_ptr<const DeviceList> intern_device_list(std::vector<Device> devices, std::string_view function,
                                                     std::string_view argument) {
  std::size_t hash = base::hash_range(0, devices);
  return table().get(
      hash, [&](const DeviceList& other) { return other.devices == devices; },
      [&]() -> std::shared_ptr<const DeviceList> {
        check_devices(devices, function, argument);
        // Not make_shared: the table's weak reference must not keep a large list's memory.
        std::shared_ptr<DeviceList> list(new DeviceList);
        list->devices = std::move(devices);
        list->hash = hash;
        for (std::size_t i = 0; i < list->devices.size(); ++i) {
          if (list->devices[i].is_local()) list->local_positions.push_back(static_cast<std::int32_t>(i));
        }
        if (!list->devices.empty()) list->client = list->devices[0].client();
        return list;
      });
}

}  // namespace mesh

std::int64_t device_sets_built() { return mesh::sets_built.load(std::memory_order_relaxed); }

}  // namespace tessera
