// SPDX-License-Identifier: Apache-2.0
// Clients, devices, buffers and events of the plugin as its callers see them.
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "programs.h"

namespace plugin {
namespace {

TEST(XlaCpu, TableIsComplete) {
  EXPECT_EQ(api().struct_size, static_cast<std::size_t>(PJRT_Api_STRUCT_SIZE));
  const auto* begin = reinterpret_cast<const char*>(&api().PJRT_Error_Destroy);
  const auto* end = reinterpret_cast<const char*>(&api()) + api().struct_size;
  for (; begin < end; begin += sizeof(void*)) {
    void* entry = nullptr;
    std::memcpy(&entry, begin, sizeof entry);
    EXPECT_NE(entry, nullptr) << "entry " << (begin - reinterpret_cast<const char*>(&api())) / 8;
  }
  auto load = sized<PJRT_Client_Load_Args>();
  has(error_of([&] { PLUGIN_CALL(PJRT_Client_Load, load); }, PJRT_Error_Code_UNIMPLEMENTED), "PJRT_Client_Load");
}

TEST(XlaCpu, ClientsHaveDevicesAndMemories) {
  Client client(8);
  auto devices = client.devices();
  ASSERT_EQ(devices.size(), 8U);
  auto name = sized<PJRT_Client_PlatformName_Args>();
  name.client = client.get();
  PLUGIN_CALL(PJRT_Client_PlatformName, name);
  EXPECT_EQ(std::string(name.platform_name, name.platform_name_size), "cpu");
  for (std::size_t k = 0; k < 8; ++k) {
    auto description = sized<PJRT_Device_GetDescription_Args>();
    description.device = devices[k];
    PLUGIN_CALL(PJRT_Device_GetDescription, description);
    auto id = sized<PJRT_DeviceDescription_Id_Args>();
    id.device_description = description.device_description;
    PLUGIN_CALL(PJRT_DeviceDescription_Id, id);
    EXPECT_EQ(id.id, static_cast<int>(k));
  }
  auto memory = sized<PJRT_Device_DefaultMemory_Args>();
  memory.device = devices[7];
  PLUGIN_CALL(PJRT_Device_DefaultMemory, memory);
  auto of_memory = sized<PJRT_Memory_AddressableByDevices_Args>();
  of_memory.memory = memory.memory;
  PLUGIN_CALL(PJRT_Memory_AddressableByDevices, of_memory);
  EXPECT_EQ(of_memory.devices[0], devices[7]);
  auto lookup = sized<PJRT_Client_LookupDevice_Args>();
  lookup.client = client.get();
  lookup.id = 3;
  PLUGIN_CALL(PJRT_Client_LookupDevice, lookup);
  EXPECT_EQ(lookup.device, devices[3]);
  lookup.id = 8;
  has(error_of([&] { PLUGIN_CALL(PJRT_Client_LookupDevice, lookup); }), "8");
  auto assignment = sized<PJRT_Client_DefaultDeviceAssignment_Args>();
  std::vector<int> ids(8, -1);
  assignment.client = client.get();
  assignment.num_replicas = 2;
  assignment.num_partitions = 4;
  assignment.default_assignment = ids.data();
  assignment.default_assignment_size = ids.size();
  PLUGIN_CALL(PJRT_Client_DefaultDeviceAssignment, assignment);
  EXPECT_EQ(ids, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
}

PJRT_Client* created(std::vector<PJRT_NamedValue> options) {
  auto args = sized<PJRT_Client_Create_Args>();
  args.create_options = options.data();
  args.num_options = options.size();
  PLUGIN_CALL(PJRT_Client_Create, args);
  return args.client;
}
PJRT_NamedValue number(const char* name, std::int64_t v) {
  PJRT_NamedValue option{};
  option.struct_size = sizeof option;
  option.name = name;
  option.name_size = std::strlen(name);
  option.type = PJRT_NamedValue_kInt64;
  option.int64_value = v;
  option.value_size = 1;
  return option;
}

TEST(XlaCpu, OptionsAreChecked) {
  has(error_of([] { created({number("devices", 2)}); }), "no option 'devices'");
  has(error_of([] { created({number("cpu_device_count", 0)}); }), "cpu_device_count is 0");
  auto wrong = number("cpu_device_count", 1);
  wrong.type = PJRT_NamedValue_kBool;
  has(error_of([&] { created({wrong}); }), "cpu_device_count is an integer");
  ::setenv("TESSERA_CPU_DEVICES", "many", 1);
  has(error_of([] { created({}); }), "TESSERA_CPU_DEVICES is 'many'");
  ::setenv("TESSERA_CPU_DEVICES", "3", 1);
  auto destroy = sized<PJRT_Client_Destroy_Args>();
  destroy.client = created({});
  auto devices = sized<PJRT_Client_AddressableDevices_Args>();
  devices.client = destroy.client;
  PLUGIN_CALL(PJRT_Client_AddressableDevices, devices);
  EXPECT_EQ(devices.num_addressable_devices, 3U);
  PLUGIN_CALL(PJRT_Client_Destroy, destroy);
  ::unsetenv("TESSERA_CPU_DEVICES");
}

TEST(XlaCpu, BuffersGiveBackWhatWasPut) {
  Client client(2);
  const std::vector<std::pair<PJRT_Buffer_Type, std::size_t>> types = {
      {PJRT_Buffer_Type_PRED, 1},       {PJRT_Buffer_Type_S8, 1},         {PJRT_Buffer_Type_S16, 2},
      {PJRT_Buffer_Type_S32, 4},        {PJRT_Buffer_Type_S64, 8},        {PJRT_Buffer_Type_U8, 1},
      {PJRT_Buffer_Type_U16, 2},        {PJRT_Buffer_Type_U32, 4},        {PJRT_Buffer_Type_U64, 8},
      {PJRT_Buffer_Type_F16, 2},        {PJRT_Buffer_Type_BF16, 2},       {PJRT_Buffer_Type_F32, 4},
      {PJRT_Buffer_Type_F64, 8},        {PJRT_Buffer_Type_C64, 8},        {PJRT_Buffer_Type_C128, 16},
      {PJRT_Buffer_Type_F8E5M2, 1},     {PJRT_Buffer_Type_F8E4M3FN, 1},   {PJRT_Buffer_Type_F8E4M3B11FNUZ, 1},
      {PJRT_Buffer_Type_F8E5M2FNUZ, 1}, {PJRT_Buffer_Type_F8E4M3FNUZ, 1}, {PJRT_Buffer_Type_F8E4M3, 1},
      {PJRT_Buffer_Type_F8E3M4, 1},     {PJRT_Buffer_Type_F8E8M0FNU, 1}};
  for (auto [type, size] : types) {
    Bytes data(16 * size);
    for (std::size_t i = 0; i < data.size(); ++i)
      data[i] = static_cast<std::uint8_t>(type == PJRT_Buffer_Type_PRED ? i % 2 : i);
    Buffer b = client.put(data.data(), type, {2, 8}, 1);
    EXPECT_EQ(bytes_in(b.get()), data) << "type " << type;
    auto element = sized<PJRT_Buffer_ElementType_Args>();
    element.buffer = b.get();
    PLUGIN_CALL(PJRT_Buffer_ElementType, element);
    EXPECT_EQ(element.type, type);
    auto device = sized<PJRT_Buffer_Device_Args>();
    device.buffer = b.get();
    PLUGIN_CALL(PJRT_Buffer_Device, device);
    EXPECT_EQ(device.device, client.devices()[1]);
  }
  for (auto type : {PJRT_Buffer_Type_S4, PJRT_Buffer_Type_U4, PJRT_Buffer_Type_S2}) {
    Bytes data = {0, 1, 1, 0};
    EXPECT_EQ(bytes_in(client.put(data.data(), type, {4}, 0).get()), data);
  }
}

TEST(XlaCpu, StridesAndLayouts) {
  Client client(2);
  std::vector<int> v(12);
  std::iota(v.begin(), v.end(), 0);
  Buffer b = client.put(v.data(), PJRT_Buffer_Type_S32, {4, 3}, 0, {4, 16});
  EXPECT_EQ(values_of<int>(bytes_in(b.get())), (std::vector<int>{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}));
  auto layout = sized<PJRT_Buffer_GetMemoryLayout_Args>();
  layout.buffer = b.get();
  PLUGIN_CALL(PJRT_Buffer_GetMemoryLayout, layout);
  ASSERT_EQ(layout.layout.tiled.minor_to_major_size, 2U);
  EXPECT_EQ(layout.layout.tiled.minor_to_major[0], 1);
  const std::vector<std::int64_t> columns = {4, 16};
  PJRT_Buffer_MemoryLayout asked{};
  asked.struct_size = sizeof asked;
  asked.type = PJRT_Buffer_MemoryLayout_Type_Strides;
  asked.strides.byte_strides = columns.data();
  asked.strides.num_byte_strides = 2;
  auto to = sized<PJRT_Buffer_ToHostBuffer_Args>();
  std::vector<int> out(12);
  to.src = b.get();
  to.host_layout = &asked;
  to.dst = out.data();
  to.dst_size = 48;
  PLUGIN_CALL(PJRT_Buffer_ToHostBuffer, to);
  await(to.event);
  EXPECT_EQ(out, v);
  to.dst_size = 47;
  has(error_of([&] { PLUGIN_CALL(PJRT_Buffer_ToHostBuffer, to); }), "room for 47 bytes of 48");
}

TEST(XlaCpu, EverySemanticsOfAHostBuffer) {
  Client client(1);
  alignas(64) float data[1024];
  std::iota(std::begin(data), std::end(data), 0.0F);
  for (int semantics = 0; semantics < 4; ++semantics) {
    std::int64_t dims[] = {1024};
    auto args = sized<PJRT_Client_BufferFromHostBuffer_Args>();
    args.client = client.get();
    args.data = data;
    args.type = PJRT_Buffer_Type_F32;
    args.dims = dims;
    args.num_dims = 1;
    args.host_buffer_semantics = static_cast<PJRT_HostBufferSemantics>(semantics);
    args.device = client.devices()[0];
    PLUGIN_CALL(PJRT_Client_BufferFromHostBuffer, args);
    Buffer b(args.buffer);
    EXPECT_EQ(floats(b.get())[1000], 1000) << semantics;
    bool zero_copy = semantics >= PJRT_HostBufferSemantics_kImmutableZeroCopy;
    EXPECT_EQ(address_of(b.get()) == data, zero_copy) << semantics;
    b.reset();
    await(args.done_with_host_buffer);
  }
}

TEST(XlaCpu, CopiesBetweenDevices) {
  Client client(2);
  Buffer a = four(client, 1);
  auto copy = sized<PJRT_Buffer_CopyToDevice_Args>();
  copy.buffer = a.get();
  copy.dst_device = client.devices()[1];
  PLUGIN_CALL(PJRT_Buffer_CopyToDevice, copy);
  Buffer b(copy.dst_buffer);
  EXPECT_EQ(floats(b.get()), (Floats{1, 2, 3, 4}));
  auto memory = sized<PJRT_Buffer_Memory_Args>();
  memory.buffer = b.get();
  PLUGIN_CALL(PJRT_Buffer_Memory, memory);
  auto back = sized<PJRT_Buffer_CopyToMemory_Args>();
  back.buffer = a.get();
  back.dst_memory = memory.memory;
  PLUGIN_CALL(PJRT_Buffer_CopyToMemory, back);
  Buffer c(back.dst_buffer);
  EXPECT_EQ(floats(c.get()), (Floats{1, 2, 3, 4}));
  auto raw = sized<PJRT_Buffer_CopyRawToHost_Args>();
  float middle[2];
  raw.buffer = c.get();
  raw.dst = middle;
  raw.offset = 4;
  raw.transfer_size = 8;
  PLUGIN_CALL(PJRT_Buffer_CopyRawToHost, raw);
  await(raw.event);
  EXPECT_EQ(middle[1], 3);
  raw.offset = 12;
  has(error_of([&] { PLUGIN_CALL(PJRT_Buffer_CopyRawToHost, raw); }), "8 bytes from byte 12 of 16");
}

TEST(XlaCpu, Events) {
  auto create = sized<PJRT_Event_Create_Args>();
  PLUGIN_CALL(PJRT_Event_Create, create);
  auto ready = sized<PJRT_Event_IsReady_Args>();
  ready.event = create.event;
  PLUGIN_CALL(PJRT_Event_IsReady, ready);
  EXPECT_FALSE(ready.is_ready);
  std::string said;
  auto on_ready = sized<PJRT_Event_OnReady_Args>();
  on_ready.event = create.event;
  on_ready.user_arg = &said;
  on_ready.callback = [](PJRT_Error* error, void* arg) {
    try {
      check(error);
    } catch (const Failure& e) {
      *static_cast<std::string*>(arg) = e.what();
    }
  };
  PLUGIN_CALL(PJRT_Event_OnReady, on_ready);
  auto set = sized<PJRT_Event_Set_Args>();
  set.event = create.event;
  set.error_code = PJRT_Error_Code_DATA_LOSS;
  set.error_message = "gone";
  set.error_message_size = 4;
  PLUGIN_CALL(PJRT_Event_Set, set);
  EXPECT_EQ(said, "gone");
  EXPECT_NE(error_of([&] { PLUGIN_CALL(PJRT_Event_Set, set); }), "");
  has(error_of([&] { await(create.event); }, PJRT_Error_Code_DATA_LOSS), "gone");
}

TEST(XlaCpu, ViewsOfTheHostsMemory) {
  Client client(1);
  alignas(64) float data[16] = {1, 2, 3, 4};
  bool gone = false;
  std::int64_t dims[] = {16};
  auto args = sized<PJRT_Client_CreateViewOfDeviceBuffer_Args>();
  args.client = client.get();
  args.device_buffer_ptr = data;
  args.dims = dims;
  args.num_dims = 1;
  args.element_type = PJRT_Buffer_Type_F32;
  args.device = client.devices()[0];
  args.on_delete_callback = [](void*, void* arg) { *static_cast<bool*>(arg) = true; };
  args.on_delete_callback_arg = &gone;
  PLUGIN_CALL(PJRT_Client_CreateViewOfDeviceBuffer, args);
  Buffer b(args.buffer);
  EXPECT_EQ(address_of(b.get()), data);
  EXPECT_EQ(floats(b.get())[3], 4);
  auto references = sized<PJRT_Buffer_IncreaseExternalReferenceCount_Args>();
  references.buffer = b.get();
  PLUGIN_CALL(PJRT_Buffer_IncreaseExternalReferenceCount, references);
  auto fewer = sized<PJRT_Buffer_DecreaseExternalReferenceCount_Args>();
  fewer.buffer = b.get();
  PLUGIN_CALL(PJRT_Buffer_DecreaseExternalReferenceCount, fewer);
  has(error_of([&] { PLUGIN_CALL(PJRT_Buffer_DecreaseExternalReferenceCount, fewer); }), "no external reference");
  EXPECT_FALSE(gone);
  auto remove = sized<PJRT_Buffer_Delete_Args>();
  remove.buffer = b.get();
  PLUGIN_CALL(PJRT_Buffer_Delete, remove);
  EXPECT_TRUE(gone);
  EXPECT_TRUE(is_deleted(b.get()));
}

}  // namespace
}  // namespace plugin
