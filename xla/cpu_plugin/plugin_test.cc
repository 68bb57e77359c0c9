// SPDX-License-Identifier: Apache-2.0
// The plugin for XLA:CPU as its callers see it.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <numeric>
#include <thread>

#include "plugin_client.h"
#include "xla/pjrt/c/pjrt_c_api_layouts_extension.h"

namespace plugin {
namespace {

using Floats = std::vector<float>;

constexpr char kSum[] = R"(module @sum {
  func.func public @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %a, %b : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
})";

// tensor<8x2> over eight devices, plus a number that all of them have, and the sum of its rows: an all-reduce.
constexpr char kShardy[] = R"(module @shardy {
  sdy.mesh @mesh = <["x"=8]>
  func.func public @main(%a: tensor<8x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>DONATED},
                         %b: tensor<f32> {sdy.sharding = #sdy.sharding<@mesh, []>})
      -> (tensor<8x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
          tensor<2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {
    %0 = stablehlo.broadcast_in_dim %b, dims = [] : (tensor<f32>) -> tensor<8x2xf32>
    %1 = stablehlo.add %a, %0 : tensor<8x2xf32>
    %2 = stablehlo.constant dense<0.0> : tensor<f32>
    %3 = stablehlo.reduce(%1 init: %2) applies stablehlo.add across dimensions = [0]
        : (tensor<8x2xf32>, tensor<f32>) -> tensor<2xf32>
    return %1, %3 : tensor<8x2xf32>, tensor<2xf32>
  }
})";
std::string shardy_program(bool donated) {
  std::string text = kShardy;
  return text.replace(text.find("DONATED"), 7, donated ? ", tf.aliasing_output = 0 : i32" : "");
}
constexpr char kPsum[] = R"(module @psum {
  sdy.mesh @mesh = <["x"=8]>
  func.func public @main(%a: tensor<8xf32>) -> tensor<1xf32> {
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{}]>]
        manual_axes={"x"} (%s: tensor<1xf32>) {
      %1 = "stablehlo.all_reduce"(%s) ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %2 = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %2 : tensor<f32>
      }) {replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>,
          channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}
          : (tensor<1xf32>) -> tensor<1xf32>
      sdy.return %1 : tensor<1xf32>
    } : (tensor<8xf32>) -> tensor<1xf32>
    return %0 : tensor<1xf32>
  }
})";

// xla.CompileOptionsProto for Shardy's partitioner, one replica.
std::string shardy_options(int partitions) {
  auto number = [](int field, int v) {
    std::string out;
    for (int tag = field << 3; tag >= 128 || (out.push_back(static_cast<char>(tag)), false); tag >>= 7) {
      out.push_back(static_cast<char>(tag | 0x80));
    }
    return out + static_cast<char>(v);
  };
  std::string build = number(4, 1) + number(5, partitions) + number(6, 1) + number(19, 1);
  return std::string{3 << 3 | 2, static_cast<char>(build.size())} + build;
}

struct Arguments {
  std::vector<Buffer> owned;
  std::vector<std::vector<PJRT_Buffer*>> lists;
};
// Row k and the number on device k.
Arguments shardy_arguments(const Client& client, float number) {
  Arguments out;
  for (std::size_t k = 0; k < 8; ++k) {
    Floats row = {static_cast<float>(2 * k), static_cast<float>(2 * k + 1)};
    out.owned.push_back(client.put(row.data(), PJRT_Buffer_Type_F32, {1, 2}, k));
    out.owned.push_back(client.put(&number, PJRT_Buffer_Type_F32, {}, k));
    out.lists.push_back({out.owned[2 * k].get(), out.owned[2 * k + 1].get()});
  }
  return out;
}
Floats floats(PJRT_Buffer* b) { return values_of<float>(bytes_in(b)); }
Buffer four(const Client& client, float first) {
  Floats v = {first, first + 1, first + 2, first + 3};
  return client.put(v.data(), PJRT_Buffer_Type_F32, {4}, 0);
}

// What the error says; "" where there is none.
template <class F>
std::string error_of(const F& f, PJRT_Error_Code code = PJRT_Error_Code_INVALID_ARGUMENT) {
  try {
    f();
  } catch (const Failure& e) {
    EXPECT_EQ(e.code, code) << e.what();
    return e.what();
  }
  return "";
}
bool has(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
  return true;
}
template <class Extension>
const Extension* extension(PJRT_Extension_Type type) {
  for (auto* e = api().extension_start; e != nullptr; e = e->next) {
    if (e->type == type) return reinterpret_cast<const Extension*>(e);
  }
  return nullptr;
}
struct DestroyHandle {
  void operator()(PJRT_Executable* e) const {
    auto args = sized<PJRT_Executable_Destroy_Args>();
    args.executable = e;
    api().PJRT_Executable_Destroy(&args);
  }
};
std::unique_ptr<PJRT_Executable, DestroyHandle> handle_of(const Executable& e) {
  auto args = sized<PJRT_LoadedExecutable_GetExecutable_Args>();
  args.loaded_executable = e.get();
  PLUGIN_CALL(PJRT_LoadedExecutable_GetExecutable, args);
  return std::unique_ptr<PJRT_Executable, DestroyHandle>(args.executable);
}

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

TEST(XlaCpu, RunsOnOneDevice) {
  Client client(2);
  Executable exe = client.compile(kSum, compile_options(1));
  Buffer a = four(client, 1), b = four(client, 10);
  auto out = execute(exe.get(), {{a.get(), b.get()}}, 1);
  EXPECT_EQ(floats(out[0][0].get()), (Floats{11, 13, 15, 17}));
}

TEST(XlaCpu, RunsAShardedProgram) {
  Client client(8);
  Executable exe = client.compile(shardy_program(false), shardy_options(8));
  for (int round = 0; round < 3; ++round) {
    Arguments args = shardy_arguments(client, 10);
    auto out = execute(exe.get(), args.lists, 2);
    for (std::size_t k = 0; k < 8; ++k) {
      EXPECT_EQ(floats(out[k][0].get()), (Floats{static_cast<float>(2 * k + 10), static_cast<float>(2 * k + 11)}));
      EXPECT_EQ(floats(out[k][1].get()), (Floats{136, 144}));
    }
  }
}

TEST(XlaCpu, RunsAManualComputation) {
  Client client(8);
  Executable exe = client.compile(kPsum, shardy_options(8));
  std::vector<Buffer> owned;
  std::vector<std::vector<PJRT_Buffer*>> lists;
  for (std::size_t k = 0; k < 8; ++k) {
    auto v = static_cast<float>(k);
    owned.push_back(client.put(&v, PJRT_Buffer_Type_F32, {1}, k));
    lists.push_back({owned.back().get()});
  }
  auto out = execute(exe.get(), lists, 1);
  for (std::size_t k = 0; k < 8; ++k) EXPECT_EQ(floats(out[k][0].get()), (Floats{28}));
}

TEST(XlaCpu, DonatedBuffersAreGone) {
  Client client(8);
  Executable exe = client.compile(shardy_program(true), shardy_options(8));
  Arguments args = shardy_arguments(client, 1);
  auto out = execute(exe.get(), args.lists, 2, {0});
  EXPECT_FALSE(is_deleted(args.lists[3][0]));
  EXPECT_EQ(floats(args.lists[3][0]), (Floats{6, 7}));
  void* address = address_of(args.lists[3][0]);
  out = execute(exe.get(), args.lists, 2);
  EXPECT_EQ(address_of(out[3][0].get()), address);
  for (std::size_t k = 0; k < 8; ++k) {
    EXPECT_TRUE(is_deleted(args.lists[k][0]));
    EXPECT_FALSE(is_deleted(args.lists[k][1]));
    EXPECT_EQ(floats(out[k][0].get())[0], static_cast<float>(2 * k + 1));
  }
  has(error_of([&] { bytes_in(args.lists[0][0]); }), "donated");
  EXPECT_NE(error_of([&] { execute(exe.get(), args.lists, 2); }), "");
}

TEST(XlaCpu, WhatExecutablesSay) {
  Client client(8);
  Executable exe = client.compile(shardy_program(false), shardy_options(8));
  auto handle = handle_of(exe);
  auto outputs = sized<PJRT_Executable_NumOutputs_Args>();
  outputs.executable = handle.get();
  PLUGIN_CALL(PJRT_Executable_NumOutputs, outputs);
  EXPECT_EQ(outputs.num_outputs, 2U);
  auto partitions = sized<PJRT_Executable_NumPartitions_Args>();
  partitions.executable = handle.get();
  PLUGIN_CALL(PJRT_Executable_NumPartitions, partitions);
  EXPECT_EQ(partitions.num_partitions, 8U);
  auto dims = sized<PJRT_Executable_OutputDimensions_Args>();
  dims.executable = handle.get();
  PLUGIN_CALL(PJRT_Executable_OutputDimensions, dims);
  EXPECT_EQ(dims.dim_sizes[0], 2U);
  EXPECT_EQ(dims.dims[0], 1) << "of one device's shard";
  auto kinds = sized<PJRT_Executable_OutputMemoryKinds_Args>();
  kinds.executable = handle.get();
  PLUGIN_CALL(PJRT_Executable_OutputMemoryKinds, kinds);
  EXPECT_EQ(kinds.num_outputs, 2U);
  auto costs = sized<PJRT_Executable_GetCostAnalysis_Args>();
  costs.executable = handle.get();
  PLUGIN_CALL(PJRT_Executable_GetCostAnalysis, costs);
  EXPECT_GT(costs.num_properties, 0U);
  auto stats = sized<PJRT_Executable_GetCompiledMemoryStats_Args>();
  stats.executable = handle.get();
  PLUGIN_CALL(PJRT_Executable_GetCompiledMemoryStats, stats);
  EXPECT_EQ(stats.argument_size_in_bytes, 12);
  auto shardings = sized<PJRT_Shardings_PJRT_Executable_OutputShardings_Args>();
  shardings.executable = handle.get();
  const auto* e = extension<PJRT_Shardings_Extension>(PJRT_Extension_Type_Shardings);
  check(e->PJRT_Shardings_PJRT_Executable_OutputShardings(&shardings));
  ASSERT_EQ(shardings.num_outputs, 2U);
  EXPECT_GT(shardings.sharding_sizes[0], shardings.sharding_sizes[1]);
  auto parameters = sized<PJRT_Shardings_PJRT_Executable_ParameterShardings_Args>();
  parameters.executable = handle.get();
  check(e->PJRT_Shardings_PJRT_Executable_ParameterShardings(&parameters));
  EXPECT_EQ(parameters.num_parameters, 2U);
  auto layouts = sized<PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args>();
  layouts.executable = handle.get();
  check(extension<PJRT_Layouts_Extension>(PJRT_Extension_Type_Layouts)
            ->PJRT_Layouts_PJRT_Executable_GetOutputLayouts(&layouts));
  EXPECT_EQ(layouts.num_outputs, 2U);
  PJRT_Program program{};
  program.struct_size = sizeof program;
  auto optimized = sized<PJRT_Executable_OptimizedProgram_Args>();
  optimized.executable = handle.get();
  optimized.program = &program;
  PLUGIN_CALL(PJRT_Executable_OptimizedProgram, optimized);
  std::string code(program.code_size, '\0');
  program.code = code.data();
  PLUGIN_CALL(PJRT_Executable_OptimizedProgram, optimized);
  EXPECT_EQ(std::string(program.format, program.format_size), "hlo_with_config");
  has(code, "all-reduce");
}

TEST(XlaCpu, ExecutablesAreWrittenAndRead) {
  Client client(8);
  Executable exe = client.compile(shardy_program(false), shardy_options(8));
  auto handle = handle_of(exe);
  auto args = sized<PJRT_Executable_Serialize_Args>();
  args.executable = handle.get();
  PLUGIN_CALL(PJRT_Executable_Serialize, args);
  auto load = sized<PJRT_Executable_DeserializeAndLoad_Args>();
  load.client = client.get();
  load.serialized_executable = args.serialized_bytes;
  load.serialized_executable_size = args.serialized_bytes_size;
  PLUGIN_CALL(PJRT_Executable_DeserializeAndLoad, load);
  args.serialized_executable_deleter(args.serialized_executable);
  Executable again(load.loaded_executable);
  Arguments arguments = shardy_arguments(client, 10);
  auto out = execute(again.get(), arguments.lists, 2);
  EXPECT_EQ(floats(out[7][1].get()), (Floats{136, 144}));
  load.serialized_executable = "no executable";
  load.serialized_executable_size = 13;
  EXPECT_NE(error_of([&] { PLUGIN_CALL(PJRT_Executable_DeserializeAndLoad, load); }, PJRT_Error_Code_INTERNAL), "");
}

TEST(XlaCpu, ProgramsThatCannotBeReadSayWhy) {
  Client client(2);
  has(error_of([&] { client.compile("module {", compile_options(1)); }, PJRT_Error_Code_UNKNOWN), "expected");
  has(error_of([&] { client.compile("", compile_options(1), "text"); }, PJRT_Error_Code_UNIMPLEMENTED), "'text'");
  has(error_of([&] { client.compile("\xff", compile_options(1), "hlo"); }), "xla.HloModuleProto");
  has(error_of([&] { client.compile(kSum, "\x1a\x7f"); }), "compile options");
  EXPECT_NE(error_of([&] { client.compile(shardy_program(false), shardy_options(8)); }), "") << "of two devices";
  std::string unknown = R"(func.func public @main(%a: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.custom_call @nobody(%a) {api_version = 4 : i32} : (tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32> })";
  has(error_of([&] { client.compile(unknown, compile_options(1)); }, PJRT_Error_Code_NOT_FOUND), "nobody");
}

TEST(XlaCpu, CallsThatDoNotFitSayWhy) {
  Client client(8);
  Executable exe = client.compile(shardy_program(false), shardy_options(8));
  Arguments args = shardy_arguments(client, 1);
  auto seven = args.lists;
  seven.pop_back();
  has(error_of([&] { execute(exe.get(), seven, 2); }), "arguments of 7 devices; the program runs on 8");
  auto one = args.lists;
  for (auto& list : one) list.pop_back();
  has(error_of([&] { execute(exe.get(), one, 2); }), "1 arguments; the program takes 2");
  auto swapped = args.lists;
  std::swap(swapped[3][0], swapped[3][1]);
  has(error_of([&] { execute(exe.get(), swapped, 2); }), "argument 0 on device 3 is f32[]");
  auto other_device = args.lists;
  std::swap(other_device[0], other_device[1]);
  has(error_of([&] { execute(exe.get(), other_device, 2); }), "argument 0 on device 0 is on ");
  Executable single = client.compile(kSum, compile_options(1));
  Buffer a = four(client, 1);
  EXPECT_NE(error_of([&] { execute(single.get(), {{a.get()}}, 1); }), "");
  EXPECT_NE(error_of([&] { execute(single.get(), {{a.get(), args.lists[0][0]}}, 1); }), "");
  Floats v(4);
  Buffer elsewhere = client.put(v.data(), PJRT_Buffer_Type_F32, {4}, 1);
  EXPECT_NE(error_of([&] { execute(single.get(), {{a.get(), elsewhere.get()}}, 1); }), "");
  EXPECT_EQ(floats(execute(exe.get(), args.lists, 2)[0][1].get()), (Floats{64, 72})) << "the program still runs";
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

// Results of a buffer in error are errors, and nothing else is lost.
TEST(XlaCpu, ErrorsTravelWithTheData) {
  Client client(1);
  Executable exe = client.compile(kSum, compile_options(1));
  auto memory = sized<PJRT_Device_DefaultMemory_Args>();
  memory.device = client.devices()[0];
  PLUGIN_CALL(PJRT_Device_DefaultMemory, memory);
  std::int64_t dims[] = {4};
  auto args = sized<PJRT_Client_CreateErrorBuffer_Args>();
  args.client = client.get();
  args.error_code = PJRT_Error_Code_ABORTED;
  args.error_message = "lost";
  args.error_message_size = 4;
  args.shape_dims = dims;
  args.shape_num_dims = 1;
  args.shape_element_type = PJRT_Buffer_Type_F32;
  args.memory = memory.memory;
  PLUGIN_CALL(PJRT_Client_CreateErrorBuffer, args);
  Buffer bad(args.buffer);
  Buffer good = four(client, 1);
  has(error_of([&] { execute(exe.get(), {{bad.get(), good.get()}}, 1); }, PJRT_Error_Code_INTERNAL), "lost");
  EXPECT_EQ(floats(execute(exe.get(), {{good.get(), good.get()}}, 1)[0][0].get())[3], 8);
}

std::size_t resident_kilobytes() {
  std::ifstream in("/proc/self/statm");
  std::size_t size = 0, resident = 0;
  in >> size >> resident;
  return resident * 4;
}

TEST(XlaCpu, ManyExecutionsDoNotLeak) {
  Client client(1);
  Executable exe = client.compile(kSum, compile_options(1));
  Buffer a = four(client, 1), b = four(client, 10);
  auto run = [&](int times) {
    for (int i = 0; i < times; ++i) execute(exe.get(), {{a.get(), b.get()}}, 1);
  };
  run(5000);
  std::size_t before = resident_kilobytes();
  run(20000);
  EXPECT_LT(resident_kilobytes(), before + 1000);
}

TEST(XlaCpu, ThreadsShareAClient) {
  Client client(8);
  Executable one = client.compile(kSum, compile_options(1));
  Executable all = client.compile(shardy_program(false), shardy_options(8));
  std::atomic<int> right{0};
  auto small = [&] {
    Buffer a = four(client, 1), b = four(client, 10);
    for (int i = 0; i < 300; ++i) right += floats(execute(one.get(), {{a.get(), b.get()}}, 1)[0][0].get())[3] == 17;
  };
  auto large = [&] {
    Arguments args = shardy_arguments(client, 10);
    for (int i = 0; i < 300; ++i) right += floats(execute(all.get(), args.lists, 2)[5][1].get())[1] == 144;
  };
  std::vector<std::thread> threads;
  for (int k = 0; k < 2; ++k) {
    threads.emplace_back(small);
    threads.emplace_back(large);
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(right, 1200);
}

}  // namespace
}  // namespace plugin
