// SPDX-License-Identifier: Apache-2.0
// Clients, their devices and memories, and topologies: devices that need not exist.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include "base/machine.h"
#include "entries.h"
#include "objects.h"
#include "runtime/buffer.h"
#include "tessera/version.h"

namespace tessera::pjrt {

namespace {
constexpr std::int64_t kMostDevices = 1 << 16;
constexpr std::array<const char*, 3> kMemoryKinds = {"device", "pinned_host", "unpinned_host"};

const PJRT_Memory_FunctionTable kMemoryTable = {
    .struct_size = PJRT_Memory_FunctionTable_STRUCT_SIZE,
    .extension_start = nullptr,
    .instance_struct_size = PJRT_Memory_STRUCT_SIZE,
    .get_user_data = [](PJRT_Memory* m, const void* key) -> void* {
      std::lock_guard lock(of(m).mutex);
      auto it = of(m).user_data.find(key);
      return it == of(m).user_data.end() ? nullptr : it->second.data;
    },
    .set_user_data =
        [](PJRT_Memory* m, const void* key, void* data, void (*destroy)(void*)) {
          Memory::UserData old;
          {
            std::lock_guard lock(of(m).mutex);
            old = std::exchange(of(m).user_data[key], {data, destroy});
          }
          if (old.destroy != nullptr) old.destroy(old.data);
        },
};

std::int64_t device_count(std::string_view text, const std::string& what) {
  std::int64_t n = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size() || n < 1 || n > kMostDevices) {
    throw InvalidArgument(str(what, " = \"", text, "\"; expected a number of devices, 1..", kMostDevices));
  }
  return n;
}

struct ClientOptions {
  std::int64_t devices = 0;
  std::string platform = "tessera";
  std::int64_t memory_limit = 0;
};

ClientOptions options_of(const PJRT_NamedValue* values, std::size_t n) {
  ClientOptions out;
  if (const char* text = std::getenv("TESSERA_CPU_DEVICES")) out.devices = device_count(text, "TESSERA_CPU_DEVICES");
  for (std::size_t i = 0; i < n; ++i) {
    const auto& v = values[i];
    std::string name(view(v.name, v.name_size));
    auto number = [&](std::int64_t most) {
      if (v.type != PJRT_NamedValue_kInt64 || v.int64_value < 0 || v.int64_value > most) {
        throw InvalidArgument(str("option ", name, " of the Tessera client: expected an integer, 0..", most));
      }
      return v.int64_value;
    };
    if (name == "num_devices") {
      out.devices = number(kMostDevices);
    } else if (name == "memory_limit") {
      out.memory_limit = number(std::numeric_limits<std::int64_t>::max());
    } else if (name == "platform_name" && v.type == PJRT_NamedValue_kString) {
      out.platform = view(v.string_value, v.value_size);
    } else {
      throw InvalidArgument(str("option ", name,
                                " of the Tessera client; expected num_devices, memory_limit (integers) or "
                                "platform_name (a string)"));
    }
  }
  out.devices = std::max<std::int64_t>(out.devices, 1);
  return out;
}

std::unique_ptr<PJRT_Client> new_client(const ClientOptions& options) {
  auto out = std::make_unique<PJRT_Client>();
  out->client = Client::cpu({.devices = options.devices, .memory_limit = options.memory_limit});
  out->platform_name = options.platform;
  out->platform_version = str("Tessera ", version());
  const bool cpu = options.platform == "cpu";
  const std::string name = cpu ? "CpuDevice" : "TesseraDevice";
  for (const auto& d : out->client.devices()) {
    PJRT_Device& device = out->devices.emplace_back();
    device.device = d;
    device.client = out.get();
    device.description = {static_cast<int>(d.id()), d.process_index(), "cpu", str(name, "(id=", d.id(), ")"),
                          str(options.platform, ":", d.id())};
    device.addressable = d.is_local();
    out->all.push_back(&device);
    if (device.addressable) out->addressable.push_back(&device);
    for (std::size_t k = 0; k < kMemoryKinds.size(); ++k) {
      Memory& m = out->memories.emplace_back();
      m.id = static_cast<int>(out->memories.size()) - 1;
      m.kind_id = static_cast<int>(k);
      m.kind = kMemoryKinds[k];
      m.text = str(name, "Memory(id=", m.id, ", kind=", m.kind, ")");
      m.debug_text = str(options.platform, ":", d.id(), ":", m.kind);
      m.device = &device;
      device.memories.push_back(&m);
      if (device.addressable) out->addressable_memories.push_back(&m);
    }
  }
  out->topology = std::make_unique<PJRT_TopologyDescription>();
  out->topology->client = out.get();
  for (auto* d : out->all) out->topology->descriptions.push_back(&d->description);
  return out;
}

template <class List>
PJRT_Device* at(const List& list, int id, const char* what) {
  for (auto* d : list) {
    if (d->description.id == id) return d;
  }
  throw InvalidArgument(str(what, " ", id, "; the client has ", list.size()));
}
}  // namespace

Memory::Memory() : PJRT_Memory{&kMemoryTable} {}
Memory::~Memory() {
  for (auto& [key, data] : user_data) {
    if (data.destroy != nullptr) data.destroy(data.data);
  }
}

// --- plugin ----------------------------------------------------------------------------------------------------------

void plugin_initialize(PJRT_Plugin_Initialize_Args&) {}

void plugin_attributes(PJRT_Plugin_Attributes_Args& args) {
  // What JAX may write: the newest StableHLO whose operations the reader knows, and the oldest.
  static const std::array<std::int64_t, 3> kCurrent = {1, 17, 0};
  static const std::array<std::int64_t, 3> kMinimum = {0, 9, 0};
  auto list = [](std::string_view name, const std::array<std::int64_t, 3>& value) {
    PJRT_NamedValue v{};
    v.struct_size = PJRT_NamedValue_STRUCT_SIZE;
    give(name, v.name, v.name_size);
    v.type = PJRT_NamedValue_kInt64List;
    v.int64_array_value = value.data();
    v.value_size = value.size();
    return v;
  };
  static const std::array<PJRT_NamedValue, 2> kAttributes = {list("stablehlo_current_version", kCurrent),
                                                             list("stablehlo_minimum_version", kMinimum)};
  args.attributes = kAttributes.data();
  args.num_attributes = kAttributes.size();
}

// --- clients ---------------------------------------------------------------------------------------------------------

void client_create(PJRT_Client_Create_Args& args) {
  args.client = new_client(options_of(args.create_options, args.num_options)).release();
}
void client_destroy(PJRT_Client_Destroy_Args& args) {
  if (args.client == nullptr) return;
  runtime::runtime_of(args.client->client).scheduler->drain();
  delete args.client;
}
void client_platform_name(PJRT_Client_PlatformName_Args& args) {
  give(args.client->platform_name, args.platform_name, args.platform_name_size);
}
void client_platform_version(PJRT_Client_PlatformVersion_Args& args) {
  give(args.client->platform_version, args.platform_version, args.platform_version_size);
}
void client_process_index(PJRT_Client_ProcessIndex_Args& args) {
  args.process_index = args.client->client.process_index();
}
void client_topology(PJRT_Client_TopologyDescription_Args& args) { args.topology = args.client->topology.get(); }
void client_devices(PJRT_Client_Devices_Args& args) {
  args.devices = args.client->all.data();
  args.num_devices = args.client->all.size();
}
void client_addressable_devices(PJRT_Client_AddressableDevices_Args& args) {
  args.addressable_devices = args.client->addressable.data();
  args.num_addressable_devices = args.client->addressable.size();
}
void client_lookup_device(PJRT_Client_LookupDevice_Args& args) {
  args.device = at(args.client->all, args.id, "device");
}
void client_lookup_addressable_device(PJRT_Client_LookupAddressableDevice_Args& args) {
  args.addressable_device = at(args.client->addressable, args.local_hardware_id, "local device");
}
void client_addressable_memories(PJRT_Client_AddressableMemories_Args& args) {
  args.addressable_memories = args.client->addressable_memories.data();
  args.num_addressable_memories = args.client->addressable_memories.size();
}
void client_default_device_assignment(PJRT_Client_DefaultDeviceAssignment_Args& args) {
  std::int64_t n = std::int64_t{args.num_replicas} * args.num_partitions;
  auto have = std::ssize(args.client->all);
  if (args.num_replicas < 1 || args.num_partitions < 1 || n > have) {
    throw InvalidArgument(str("a program of ", args.num_replicas, " replicas and ", args.num_partitions,
                              " partitions; the client has ", have, " devices"));
  }
  if (static_cast<std::size_t>(n) > args.default_assignment_size) {
    throw InvalidArgument(str("room for ", args.default_assignment_size, " device ids; expected ", n));
  }
  for (std::int64_t i = 0; i < n; ++i) args.default_assignment[i] = static_cast<int>(i);
}

// --- devices and memories --------------------------------------------------------------------------------------------

void description_id(PJRT_DeviceDescription_Id_Args& args) { args.id = args.device_description->id; }
void description_process_index(PJRT_DeviceDescription_ProcessIndex_Args& args) {
  args.process_index = args.device_description->process_index;
}
void description_attributes(PJRT_DeviceDescription_Attributes_Args& args) {
  args.attributes = nullptr;
  args.num_attributes = 0;
}
void description_kind(PJRT_DeviceDescription_Kind_Args& args) {
  give(args.device_description->kind, args.device_kind, args.device_kind_size);
}
void description_debug_string(PJRT_DeviceDescription_DebugString_Args& args) {
  give(args.device_description->debug_text, args.debug_string, args.debug_string_size);
}
void description_to_string(PJRT_DeviceDescription_ToString_Args& args) {
  give(args.device_description->text, args.to_string, args.to_string_size);
}

void device_get_description(PJRT_Device_GetDescription_Args& args) {
  args.device_description = &args.device->description;
}
void device_get_attributes(PJRT_Device_GetAttributes_Args& args) {
  args.attributes = nullptr;
  args.num_attributes = 0;
  args.device_attributes = nullptr;
  args.attributes_deleter = [](PJRT_Device_Attributes*) {};
}
void device_is_addressable(PJRT_Device_IsAddressable_Args& args) { args.is_addressable = args.device->addressable; }
void device_local_hardware_id(PJRT_Device_LocalHardwareId_Args& args) {
  args.local_hardware_id = args.device->description.id;
}
void device_addressable_memories(PJRT_Device_AddressableMemories_Args& args) {
  args.memories = args.device->memories.data();
  args.num_memories = args.device->memories.size();
}
void device_default_memory(PJRT_Device_DefaultMemory_Args& args) { args.memory = args.device->memories.front(); }

// Devices are virtual: the memory is that of the process, which all of them share. What can be reserved is a device's
// part of it, so that programs which fill every device by it fit.
void device_memory_stats(PJRT_Device_MemoryStats_Args& args) {
  auto stats = runtime::runtime_of(args.device->client->client).memory->stats();
  args.bytes_in_use = stats.bytes_in_use;
  args.peak_bytes_in_use = stats.peak_bytes;
  args.peak_bytes_in_use_is_set = true;
  args.num_allocs_is_set = false;
  args.largest_alloc_size_is_set = false;
  args.bytes_limit = args.device->client->client.memory_limit();
  args.bytes_limit_is_set = args.bytes_limit > 0;
  args.bytes_reserved_is_set = false;
  args.peak_bytes_reserved_is_set = false;
  args.bytes_reservable_limit = (args.bytes_limit > 0 ? args.bytes_limit : base::machine_memory()) /
                                static_cast<std::int64_t>(args.device->client->devices.size());
  args.bytes_reservable_limit_is_set = true;
  args.largest_free_block_bytes_is_set = false;
  args.pool_bytes = stats.bytes_in_use + stats.cached_bytes;
  args.pool_bytes_is_set = true;
  args.peak_pool_bytes_is_set = false;
  if (TESSERA_PJRT_HAS(args, peak_allocated_bytes_is_set)) args.peak_allocated_bytes_is_set = false;
}

void memory_id(PJRT_Memory_Id_Args& args) { args.id = of(args.memory).id; }
void memory_kind(PJRT_Memory_Kind_Args& args) { give(of(args.memory).kind, args.kind, args.kind_size); }
void memory_kind_id(PJRT_Memory_Kind_Id_Args& args) { args.kind_id = of(args.memory).kind_id; }
void memory_debug_string(PJRT_Memory_DebugString_Args& args) {
  give(of(args.memory).debug_text, args.debug_string, args.debug_string_size);
}
void memory_to_string(PJRT_Memory_ToString_Args& args) {
  give(of(args.memory).text, args.to_string, args.to_string_size);
}
void memory_addressable_by_devices(PJRT_Memory_AddressableByDevices_Args& args) {
  args.devices = &of(args.memory).device;
  args.num_devices = 1;
}

// --- topologies ------------------------------------------------------------------------------------------------------

void topology_create(PJRT_TopologyDescription_Create_Args& args) {
  ClientOptions options = options_of(args.create_options, args.num_options);
  // "8", "2x4": as many devices as the product says.
  std::string_view name = view(args.topology_name, args.topology_name_size);
  if (!name.empty()) {
    options.devices = 1;
    for (std::size_t at = 0; at <= name.size();) {
      std::size_t end = std::min(name.find('x', at), name.size());
      options.devices *= device_count(name.substr(at, end - at), "topology_name");
      if (options.devices > kMostDevices) throw InvalidArgument(str("topology_name = ", name, ": too many devices"));
      at = end + 1;
    }
  }
  auto client = new_client(options);
  auto topology = std::make_unique<PJRT_TopologyDescription>();
  topology->client = client.get();
  topology->descriptions = client->topology->descriptions;
  topology->own = std::move(client);
  args.topology = topology.release();
}
void topology_destroy(PJRT_TopologyDescription_Destroy_Args& args) { delete args.topology; }
void topology_platform_name(PJRT_TopologyDescription_PlatformName_Args& args) {
  give(args.topology->client->platform_name, args.platform_name, args.platform_name_size);
}
void topology_platform_version(PJRT_TopologyDescription_PlatformVersion_Args& args) {
  give(args.topology->client->platform_version, args.platform_version, args.platform_version_size);
}
void topology_descriptions(PJRT_TopologyDescription_GetDeviceDescriptions_Args& args) {
  args.descriptions = args.topology->descriptions.data();
  args.num_descriptions = args.topology->descriptions.size();
}
void topology_attributes(PJRT_TopologyDescription_Attributes_Args& args) {
  args.attributes = nullptr;
  args.num_attributes = 0;
}
void topology_fingerprint(PJRT_TopologyDescription_Fingerprint_Args& args) {
  args.fingerprint =
      std::hash<std::string>{}(str(args.topology->client->platform_version, " ", args.topology->descriptions.size()));
}

}  // namespace tessera::pjrt
