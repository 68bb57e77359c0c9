// SPDX-License-Identifier: Apache-2.0
// Devices and the memories that they have.
#include "entries.h"
#include "objects.h"

namespace xla_cpu {

namespace {
void* user_data(PJRT_Memory* memory, const void* key) {
  std::lock_guard lock(of(memory).mutex);
  auto found = of(memory).user_data.find(key);
  return found == of(memory).user_data.end() ? nullptr : found->second.data;
}
void set_user_data(PJRT_Memory* memory, const void* key, void* data, void (*destroy)(void*)) {
  Memory::UserData old;
  {
    std::lock_guard lock(of(memory).mutex);
    old = std::exchange(of(memory).user_data[key], {data, destroy});
  }
  if (old.destroy != nullptr) old.destroy(old.data);
}

const PJRT_Memory_FunctionTable kMemoryTable = {
    .struct_size = PJRT_Memory_FunctionTable_STRUCT_SIZE,
    .extension_start = nullptr,
    .instance_struct_size = PJRT_Memory_STRUCT_SIZE,
    .get_user_data = user_data,
    .set_user_data = set_user_data,
};

struct Value {
  PJRT_NamedValue& out;
  void operator()(const std::string& v) const {
    out.type = PJRT_NamedValue_kString;
    give(v, out.string_value, out.value_size);
  }
  void operator()(bool v) const {
    out.type = PJRT_NamedValue_kBool;
    out.bool_value = v;
  }
  void operator()(std::int64_t v) const {
    out.type = PJRT_NamedValue_kInt64;
    out.int64_value = v;
  }
  void operator()(const std::vector<std::int64_t>& v) const {
    out.type = PJRT_NamedValue_kInt64List;
    out.int64_array_value = v.data();
    out.value_size = v.size();
  }
  void operator()(float v) const {
    out.type = PJRT_NamedValue_kFloat;
    out.float_value = v;
  }
};

NamedValues& attributes_of(PJRT_DeviceDescription& d) { return *d.attributes; }
const xla::PjRtDeviceDescription& in(PJRT_DeviceDescription* d) { return *d->description; }
}  // namespace

void NamedValues::add(const std::string& name, const xla::PjRtValueType& value) {
  const auto& [kept_name, kept_value] = kept_.emplace_back(name, value);
  PJRT_NamedValue out{};
  out.struct_size = PJRT_NamedValue_STRUCT_SIZE;
  give(kept_name, out.name, out.name_size);
  out.value_size = 1;
  std::visit(Value{out}, kept_value);
  values_.push_back(out);
}

Memory::Memory() : PJRT_Memory{&kMemoryTable} {}
Memory::~Memory() {
  for (auto& [key, data] : user_data) {
    if (data.destroy != nullptr) data.destroy(data.data);
  }
}

// --- descriptions ----------------------------------------------------------------------------------------------------

void description_id(PJRT_DeviceDescription_Id_Args& args) { args.id = in(args.device_description).id(); }
void description_process_index(PJRT_DeviceDescription_ProcessIndex_Args& args) {
  args.process_index = in(args.device_description).process_index();
}
void description_attributes(PJRT_DeviceDescription_Attributes_Args& args) {
  args.attributes = attributes_of(*args.device_description).data();
  args.num_attributes = attributes_of(*args.device_description).size();
}
void description_kind(PJRT_DeviceDescription_Kind_Args& args) {
  give(in(args.device_description).device_kind(), args.device_kind, args.device_kind_size);
}
void description_debug_string(PJRT_DeviceDescription_DebugString_Args& args) {
  give(in(args.device_description).DebugString(), args.debug_string, args.debug_string_size);
}
void description_to_string(PJRT_DeviceDescription_ToString_Args& args) {
  give(in(args.device_description).ToString(), args.to_string, args.to_string_size);
}

// --- devices ---------------------------------------------------------------------------------------------------------

void device_get_description(PJRT_Device_GetDescription_Args& args) {
  args.device_description = &args.device->description;
}
void device_is_addressable(PJRT_Device_IsAddressable_Args& args) {
  args.is_addressable = args.device->device->IsAddressable();
}
void device_local_hardware_id(PJRT_Device_LocalHardwareId_Args& args) {
  args.local_hardware_id = args.device->device->local_hardware_id().value();
}
void device_addressable_memories(PJRT_Device_AddressableMemories_Args& args) {
  args.memories = args.device->memories.data();
  args.num_memories = args.device->memories.size();
}
void device_default_memory(PJRT_Device_DefaultMemory_Args& args) {
  if (args.device->default_memory == nullptr) check(args.device->device->default_memory_space().status());
  args.memory = args.device->default_memory;
}
// XLA:CPU keeps no account of its memory; the error says so.
void device_memory_stats(PJRT_Device_MemoryStats_Args& args) {
  tsl::AllocatorStats stats = value(args.device->device->GetAllocatorStats());
  args.bytes_in_use = stats.bytes_in_use;
}
void device_get_attributes(PJRT_Device_GetAttributes_Args& args) {
  NamedValues& attributes = attributes_of(args.device->description);
  args.attributes = attributes.data();
  args.num_attributes = attributes.size();
  args.device_attributes = nullptr;
  args.attributes_deleter = [](PJRT_Device_Attributes*) {};  // they live as long as the device
}

// --- memories --------------------------------------------------------------------------------------------------------

void memory_id(PJRT_Memory_Id_Args& args) { args.id = of(args.memory).space->id(); }
void memory_kind(PJRT_Memory_Kind_Args& args) { give(of(args.memory).space->kind(), args.kind, args.kind_size); }
void memory_kind_id(PJRT_Memory_Kind_Id_Args& args) { args.kind_id = of(args.memory).space->kind_id(); }
void memory_debug_string(PJRT_Memory_DebugString_Args& args) {
  give(of(args.memory).space->DebugString(), args.debug_string, args.debug_string_size);
}
void memory_to_string(PJRT_Memory_ToString_Args& args) {
  give(of(args.memory).space->ToString(), args.to_string, args.to_string_size);
}
void memory_addressable_by_devices(PJRT_Memory_AddressableByDevices_Args& args) {
  args.devices = of(args.memory).devices.data();
  args.num_devices = of(args.memory).devices.size();
}

}  // namespace xla_cpu
