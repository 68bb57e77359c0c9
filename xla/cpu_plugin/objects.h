// SPDX-License-Identifier: Apache-2.0
// What the opaque handles of the PJRT C API are here: XLA's objects and what has to live as long as they do.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "guard.h"
#include "xla/pjrt/c/pjrt_c_api_layouts_extension.h"
#include "xla/pjrt/pjrt_client.h"
#include "xla/pjrt/plugin/xla_cpu/cpu_execute_options.h"

struct PJRT_Layouts_MemoryLayout {
  std::string text;
};

namespace xla_cpu {

/// Named values and the strings and lists that they point to.
class NamedValues {
 public:
  template <class Map>
  explicit NamedValues(const Map& map) {
    for (const auto& [name, value] : map) add(name, value);
  }
  NamedValues(const NamedValues&) = delete;
  NamedValues& operator=(const NamedValues&) = delete;
  const PJRT_NamedValue* data() const { return values_.data(); }
  std::size_t size() const { return values_.size(); }

 private:
  void add(const std::string& name, const xla::PjRtValueType& value);
  std::deque<std::pair<std::string, xla::PjRtValueType>> kept_;
  std::vector<PJRT_NamedValue> values_;
};

struct Memory final : PJRT_Memory {
  struct UserData {
    void* data = nullptr;
    void (*destroy)(void*) = nullptr;
  };
  xla::PjRtMemorySpace* space = nullptr;
  std::vector<PJRT_Device*> devices;
  std::mutex mutex;
  std::map<const void*, UserData> user_data;

  Memory();
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
};
inline Memory& of(PJRT_Memory* m) { return *static_cast<Memory*>(m); }

/// Strings as lists of the C API.
struct Strings {
  std::vector<std::string> list;
  std::vector<const char*> data;
  std::vector<std::size_t> sizes;
  bool given = false;
  explicit Strings(std::optional<std::vector<std::string>> strings);
};
/// Memory layouts of parameters or results.
struct Layouts {
  std::deque<PJRT_Layouts_MemoryLayout> list;
  std::vector<PJRT_Layouts_MemoryLayout*> pointers;
  explicit Layouts(const std::vector<std::shared_ptr<const xla::PjRtLayout>>& layouts);
};

/// A compiled program; its handles share it. What its entries give is made when it is asked for and lives as long.
struct Executable {
  std::shared_ptr<xla::PjRtLoadedExecutable> loaded;
  std::mutex mutex;
  std::optional<std::string> fingerprint, optimized;
  std::optional<std::vector<PJRT_Buffer_Type>> types;
  std::optional<std::vector<std::vector<std::int64_t>>> dims;
  std::vector<std::int64_t> flat_dims;
  std::vector<std::size_t> ranks;
  std::optional<Strings> memory_kinds, parameter_shardings, output_shardings;
  std::optional<Layouts> parameter_layouts, output_layouts;
  std::optional<NamedValues> costs;
};
using ExecutablePtr = std::shared_ptr<Executable>;

PJRT_Event* new_event(xla::Future<> ready);
PJRT_Buffer* new_buffer(PJRT_Client* client, std::unique_ptr<xla::PjRtBuffer> buffer);
PJRT_LoadedExecutable* new_loaded(PJRT_Client* client, std::unique_ptr<xla::PjRtLoadedExecutable> loaded);

}  // namespace xla_cpu

struct PJRT_Event {
  xla::Future<> future;
  std::optional<xla::Promise<>> promise;  ///< of one that the caller completes
};

struct PJRT_DeviceDescription {
  const xla::PjRtDeviceDescription* description = nullptr;
  std::optional<xla_cpu::NamedValues> attributes;
};

struct PJRT_Device {
  xla::PjRtDevice* device = nullptr;
  PJRT_DeviceDescription description;
  std::vector<PJRT_Memory*> memories;
  PJRT_Memory* default_memory = nullptr;
};

struct PJRT_TopologyDescription {
  const xla::PjRtTopologyDescription* topology = nullptr;
  std::vector<std::unique_ptr<const xla::PjRtDeviceDescription>> owned;
  std::deque<PJRT_DeviceDescription> descriptions;
  std::vector<PJRT_DeviceDescription*> pointers;
};

struct PJRT_Client {
  std::unique_ptr<xla::PjRtClient> client;
  std::deque<PJRT_Device> devices;
  std::deque<xla_cpu::Memory> memories;
  std::vector<PJRT_Device*> all, addressable;
  std::vector<PJRT_Memory*> all_memories;
  std::unordered_map<const xla::PjRtDevice*, PJRT_Device*> by_device;
  std::unordered_map<const xla::PjRtMemorySpace*, PJRT_Memory*> by_space;
  std::mutex mutex;
  std::unique_ptr<PJRT_TopologyDescription> topology;  ///< made when asked for
};

struct PJRT_Buffer {
  PJRT_Client* client = nullptr;
  std::unique_ptr<xla::PjRtBuffer> buffer;

  // What entries give lives as long as the buffer.
  struct Described {
    std::vector<std::int64_t> unpadded;
    std::vector<std::size_t> dynamic;
    std::vector<std::int64_t> minor_to_major, tile_dims;
    std::vector<std::size_t> tile_sizes;
    std::vector<std::unique_ptr<xla::PjRtBuffer::ExternalReference>> references;
  };
  std::mutex mutex;
  std::unique_ptr<Described> described;  ///< made when asked for, under the mutex
};

struct PJRT_ExecuteContext {
  xla::CpuExecuteContext context;
};

struct PJRT_Executable {
  xla_cpu::ExecutablePtr executable;
};

struct PJRT_LoadedExecutable {
  PJRT_Client* client = nullptr;
  xla_cpu::ExecutablePtr executable;
  std::vector<PJRT_Device*> devices;
  std::vector<PJRT_LogicalDeviceIds> logical_ids;
  std::vector<xla::Shape> parameters;  ///< of one device
};

/// What backs bytes that an entry gives away.
struct PJRT_SerializedExecutable {
  std::string bytes;
};
struct PJRT_SerializedCompileOptions {
  std::string bytes;
};
struct PJRT_DeviceAssignmentSerialized {
  std::string bytes;
};
struct PJRT_SerializedTopology {
  std::string bytes;
};
struct PJRT_Layouts_SerializedLayout {
  std::string text;
};
