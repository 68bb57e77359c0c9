// SPDX-License-Identifier: Apache-2.0
// The plugin and its clients.
#include <array>
#include <cstdlib>
#include <limits>

#include "absl/log/globals.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "entries.h"
#include "objects.h"
#include "xla/pjrt/plugin/xla_cpu/xla_cpu_pjrt_client.h"

namespace xla {
// Declared in a header that needs MLIR's.
std::string GetDefaultStablehloVersion();
}  // namespace xla

namespace xla_cpu {

namespace {
constexpr char kDevices[] = "cpu_device_count";
constexpr char kAsynchronous[] = "asynchronous";
constexpr char kDevicesVariable[] = "TESSERA_CPU_DEVICES";

int device_count(std::int64_t n, absl::string_view what) {
  if (n < 1 || n > xla::kMaxCpuDevicesPerProcess) {
    refuse(absl::StrCat(what, " is ", n, "; it is from 1 to ", xla::kMaxCpuDevicesPerProcess));
  }
  return static_cast<int>(n);
}

int default_device_count() {
  const char* text = std::getenv(kDevicesVariable);
  if (text == nullptr || *text == '\0') return 1;
  std::int64_t n = 0;
  if (!absl::SimpleAtoi(text, &n)) refuse(absl::StrCat(kDevicesVariable, " is '", text, "', which is no number"));
  return device_count(n, kDevicesVariable);
}

xla::CpuClientOptions options_of(const PJRT_NamedValue* options, std::size_t count) {
  xla::CpuClientOptions out;
  for (std::size_t i = 0; i < count; ++i) {
    const PJRT_NamedValue& option = options[i];
    absl::string_view name = view(option.name, option.name_size);
    if (name == kDevices) {
      if (option.type != PJRT_NamedValue_kInt64) refuse(absl::StrCat("the option ", name, " is an integer"));
      out.cpu_device_count = device_count(option.int64_value, kDevices);
    } else if (name == kAsynchronous) {
      if (option.type != PJRT_NamedValue_kBool) refuse(absl::StrCat("the option ", name, " is true or false"));
      out.asynchronous = option.bool_value;
    } else {
      refuse(absl::StrCat("XLA:CPU has no option '", name, "'; it has ", kDevices, " and ", kAsynchronous));
    }
  }
  if (!out.cpu_device_count) out.cpu_device_count = default_device_count();
  return out;
}

void add_memories(PJRT_Client& c) {
  for (xla::PjRtMemorySpace* space : c.client->memory_spaces()) {
    Memory& memory = c.memories.emplace_back();
    memory.space = space;
    c.by_space[space] = &memory;
    c.all_memories.push_back(&memory);
  }
}

void add_devices(PJRT_Client& c) {
  for (xla::PjRtDevice* device : c.client->devices()) {
    PJRT_Device& d = c.devices.emplace_back();
    d.device = device;
    d.description.description = &device->description();
    d.description.attributes.emplace(device->Attributes());
    for (xla::PjRtMemorySpace* space : device->memory_spaces()) {
      d.memories.push_back(c.by_space.at(space));
      of(d.memories.back()).devices.push_back(&d);
    }
    if (auto space = device->default_memory_space(); space.ok()) d.default_memory = c.by_space.at(*space);
    c.by_device[device] = &d;
    c.all.push_back(&d);
  }
  for (xla::PjRtDevice* device : c.client->addressable_devices()) c.addressable.push_back(c.by_device.at(device));
}

// XLA tells of every program that it partitions; what is no warning is for those who ask.
void quieten() {
  if (std::getenv("TF_CPP_MIN_LOG_LEVEL") == nullptr) absl::SetMinLogLevel(absl::LogSeverityAtLeast::kWarning);
}

// "1.2.3" as numbers.
std::array<std::int64_t, 3> version_of(const std::string& text) {
  std::array<std::int64_t, 3> out{};
  std::size_t i = 0;
  for (absl::string_view part : absl::StrSplit(text, '.')) {
    if (i == out.size() || !absl::SimpleAtoi(part, &out[i++])) return {};
  }
  return out;
}

PJRT_NamedValue list_value(absl::string_view name, const std::array<std::int64_t, 3>& list) {
  PJRT_NamedValue v{};
  v.struct_size = PJRT_NamedValue_STRUCT_SIZE;
  give(name, v.name, v.name_size);
  v.type = PJRT_NamedValue_kInt64List;
  v.int64_array_value = list.data();
  v.value_size = list.size();
  return v;
}
}  // namespace

// --- plugin ----------------------------------------------------------------------------------------------------------

void plugin_initialize(PJRT_Plugin_Initialize_Args&) {}

// The version that XLA writes for others is some weeks older than the newest that it reads: a safe one to write for it.
void plugin_attributes(PJRT_Plugin_Attributes_Args& args) {
  static const std::array<std::int64_t, 3> kCurrent = version_of(xla::GetDefaultStablehloVersion());
  static const std::array<std::int64_t, 3> kMinimum = {0, 9, 0};
  static const std::array<PJRT_NamedValue, 2> kAttributes = {list_value("stablehlo_current_version", kCurrent),
                                                             list_value("stablehlo_minimum_version", kMinimum)};
  args.attributes = kAttributes.data();
  args.num_attributes = kAttributes.size();
}

// --- clients ---------------------------------------------------------------------------------------------------------

void client_create(PJRT_Client_Create_Args& args) {
  quieten();
  auto c = std::make_unique<PJRT_Client>();
  c->client = value(xla::GetXlaPjrtCpuClient(options_of(args.create_options, args.num_options)));
  add_memories(*c);
  add_devices(*c);
  args.client = c.release();
}
void client_destroy(PJRT_Client_Destroy_Args& args) { delete args.client; }

void client_platform_name(PJRT_Client_PlatformName_Args& args) {
  give(args.client->client->platform_name(), args.platform_name, args.platform_name_size);
}
void client_platform_version(PJRT_Client_PlatformVersion_Args& args) {
  give(args.client->client->platform_version(), args.platform_version, args.platform_version_size);
}
void client_process_index(PJRT_Client_ProcessIndex_Args& args) {
  args.process_index = args.client->client->process_index();
}
void client_devices(PJRT_Client_Devices_Args& args) {
  args.devices = args.client->all.data();
  args.num_devices = args.client->all.size();
}
void client_addressable_devices(PJRT_Client_AddressableDevices_Args& args) {
  args.addressable_devices = args.client->addressable.data();
  args.num_addressable_devices = args.client->addressable.size();
}
void client_lookup_device(PJRT_Client_LookupDevice_Args& args) {
  args.device = args.client->by_device.at(value(args.client->client->LookupDevice(xla::PjRtGlobalDeviceId(args.id))));
}
void client_lookup_addressable_device(PJRT_Client_LookupAddressableDevice_Args& args) {
  xla::PjRtLocalDeviceId id(args.local_hardware_id);
  args.addressable_device = args.client->by_device.at(value(args.client->client->LookupAddressableDevice(id)));
}
void client_addressable_memories(PJRT_Client_AddressableMemories_Args& args) {
  args.addressable_memories = args.client->all_memories.data();
  args.num_addressable_memories = args.client->all_memories.size();
}

void client_default_device_assignment(PJRT_Client_DefaultDeviceAssignment_Args& args) {
  if (args.num_replicas < 1 || args.num_partitions < 1) refuse("a device assignment has replicas and partitions");
  auto assignment = value(args.client->client->GetDefaultDeviceAssignment(args.num_replicas, args.num_partitions));
  if (args.default_assignment_size < static_cast<std::size_t>(assignment.num_elements())) {
    refuse(absl::StrCat("PJRT_Client_DefaultDeviceAssignment: room for ", args.default_assignment_size, " devices of ",
                        assignment.num_elements()));
  }
  int* out = args.default_assignment;
  for (int r = 0; r < args.num_replicas; ++r) {
    for (int p = 0; p < args.num_partitions; ++p) *out++ = static_cast<int>(assignment(r, p));
  }
}

}  // namespace xla_cpu
