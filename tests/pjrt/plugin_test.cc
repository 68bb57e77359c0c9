// SPDX-License-Identifier: Apache-2.0
// The PJRT plugin as its callers see it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "plugin_client.h"

namespace plugin {
namespace {

using Floats = std::vector<float>;

// tensor<8x2> over eight devices, plus a number that all of them have.
const char* const kAdd = R"(module @add attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=8]>
  func.func public @main(%a: tensor<8x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>DONATED},
                         %b: tensor<f32> {sdy.sharding = #sdy.sharding<@mesh, []>})
      -> (tensor<8x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, tensor<2xf32>) {
    %0 = stablehlo.broadcast_in_dim %b, dims = [] : (tensor<f32>) -> tensor<8x2xf32>
    %1 = stablehlo.add %a, %0 : tensor<8x2xf32>
    %2 = stablehlo.constant dense<0.0> : tensor<f32>
    %3 = stablehlo.reduce(%1 init: %2) applies stablehlo.add across dimensions = [0]
        : (tensor<8x2xf32>, tensor<f32>) -> tensor<2xf32>
    return %1, %3 : tensor<8x2xf32>, tensor<2xf32>
  }
})";
std::string add_program(bool donated) {
  std::string text = kAdd;
  return text.replace(text.find("DONATED"), 7, donated ? ", jax.buffer_donor = true" : "");
}

struct Arguments {
  std::vector<Buffer> owned;
  std::vector<std::vector<PJRT_Buffer*>> lists;
};
// Row k on device k; the number one device at a time.
Arguments add_arguments(const Client& client, const Floats& numbers) {
  Arguments out;
  for (std::size_t k = 0; k < 8; ++k) {
    Floats row = {static_cast<float>(2 * k), static_cast<float>(2 * k + 1)};
    out.owned.push_back(client.put(row.data(), PJRT_Buffer_Type_F32, {1, 2}, k));
    out.owned.push_back(client.put(numbers.data() + (numbers.size() == 1 ? 0 : k), PJRT_Buffer_Type_F32, {}, k));
    out.lists.push_back({out.owned[2 * k].get(), out.owned[2 * k + 1].get()});
  }
  return out;
}
Floats floats(PJRT_Buffer* b) { return values_of<float>(bytes_in(b)); }

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
bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(PjrtPlugin, TableIsComplete) {
  EXPECT_EQ(api().struct_size, static_cast<std::size_t>(PJRT_Api_STRUCT_SIZE));
  const auto* begin = reinterpret_cast<const char*>(&api().PJRT_Error_Destroy);
  const auto* end = reinterpret_cast<const char*>(&api()) + api().struct_size;
  for (; begin < end; begin += sizeof(void*)) {
    void* entry = nullptr;
    std::memcpy(&entry, begin, sizeof entry);
    EXPECT_NE(entry, nullptr) << "entry " << (begin - reinterpret_cast<const char*>(&api())) / 8;
  }
}

TEST(PjrtPlugin, ClientsHaveDevicesAndMemories) {
  Client client(512);
  auto devices = client.devices();
  ASSERT_EQ(devices.size(), 512U);
  auto memories = sized<PJRT_Device_AddressableMemories_Args>();
  memories.device = devices[7];
  PLUGIN_CALL(PJRT_Device_AddressableMemories, memories);
  EXPECT_EQ(memories.num_memories, 3U);
  auto kind = sized<PJRT_Memory_Kind_Args>();
  kind.memory = memories.memories[0];
  PLUGIN_CALL(PJRT_Memory_Kind, kind);
  EXPECT_EQ(std::string(kind.kind, kind.kind_size), "device");
  auto lookup = sized<PJRT_Client_LookupDevice_Args>();
  lookup.client = client.get();
  lookup.id = 512;
  EXPECT_TRUE(has(error_of([&] { PLUGIN_CALL(PJRT_Client_LookupDevice, lookup); }), "device 512; the client has 512"));
  EXPECT_TRUE(has(error_of([] { Client none(-1); }), "num_devices"));
}

TEST(PjrtPlugin, BuffersGiveBackWhatWasPut) {
  Client client(2);
  const std::vector<std::pair<PJRT_Buffer_Type, std::size_t>> types = {
      {PJRT_Buffer_Type_PRED, 1},       {PJRT_Buffer_Type_S8, 1},         {PJRT_Buffer_Type_S16, 2},
      {PJRT_Buffer_Type_S32, 4},        {PJRT_Buffer_Type_S64, 8},        {PJRT_Buffer_Type_U8, 1},
      {PJRT_Buffer_Type_U16, 2},        {PJRT_Buffer_Type_U32, 4},        {PJRT_Buffer_Type_U64, 8},
      {PJRT_Buffer_Type_F16, 2},        {PJRT_Buffer_Type_BF16, 2},       {PJRT_Buffer_Type_F32, 4},
      {PJRT_Buffer_Type_F64, 8},        {PJRT_Buffer_Type_C64, 8},        {PJRT_Buffer_Type_C128, 16},
      {PJRT_Buffer_Type_F8E5M2, 1},     {PJRT_Buffer_Type_F8E4M3FN, 1},   {PJRT_Buffer_Type_F8E4M3B11FNUZ, 1},
      {PJRT_Buffer_Type_F8E5M2FNUZ, 1}, {PJRT_Buffer_Type_F8E4M3FNUZ, 1}, {PJRT_Buffer_Type_F8E4M3, 1},
      {PJRT_Buffer_Type_F8E3M4, 1},     {PJRT_Buffer_Type_F8E8M0FNU, 1},  {PJRT_Buffer_Type_F4E2M1FN, 1}};
  for (auto [type, size] : types) {
    Bytes data(16 * size);
    // Every number of a narrow type, its NaNs left out: their bits are not kept.
    for (std::size_t i = 0; i < data.size(); ++i)
      data[i] = static_cast<std::uint8_t>(type == PJRT_Buffer_Type_PRED ? i % 2 : i);
    Buffer b = client.put(data.data(), type, {2, 8}, 1);
    EXPECT_EQ(bytes_in(b.get()), data) << "type " << type;
    auto element = sized<PJRT_Buffer_ElementType_Args>();
    element.buffer = b.get();
    PLUGIN_CALL(PJRT_Buffer_ElementType, element);
    EXPECT_EQ(element.type, type);
  }
  for (auto type : {PJRT_Buffer_Type_S4, PJRT_Buffer_Type_S2}) {
    Bytes data = {0, 1, 0xff, 0xfe};  // 0, 1, -1, -2
    EXPECT_EQ(bytes_in(client.put(data.data(), type, {4}, 0).get()), data);
  }
  EXPECT_TRUE(has(error_of([&] { client.put("x", PJRT_Buffer_Type_TOKEN, {}, 0); }, PJRT_Error_Code_UNIMPLEMENTED),
                  "element type"));
}

TEST(PjrtPlugin, StridesOfTheHostAreFollowed) {
  Client client(1);
  std::vector<int> v(12);
  std::iota(v.begin(), v.end(), 0);
  Buffer transposed = client.put(v.data(), PJRT_Buffer_Type_S32, {4, 3}, 0, {4, 16});
  EXPECT_EQ(values_of<int>(bytes_in(transposed.get())), (std::vector<int>{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}));
  Buffer same = client.put(v.data(), PJRT_Buffer_Type_S32, {2, 3}, 0, {0, 4});
  EXPECT_EQ(values_of<int>(bytes_in(same.get())), (std::vector<int>{0, 1, 2, 0, 1, 2}));
}

TEST(PjrtPlugin, ReplicasThatArePutOneByOneShareMemory) {
  Client client(4);
  Floats v(1000, 1.5F);
  Buffer a = client.put(v.data(), PJRT_Buffer_Type_F32, {1000}, 0);
  Buffer b = client.put(v.data(), PJRT_Buffer_Type_F32, {1000}, 1);
  EXPECT_EQ(address_of(a.get()), address_of(b.get()));
  v[999] = 2;  // the same address, other elements
  Buffer c = client.put(v.data(), PJRT_Buffer_Type_F32, {1000}, 2);
  EXPECT_NE(address_of(a.get()), address_of(c.get()));
  EXPECT_EQ(floats(a.get())[999], 1.5F);
  EXPECT_EQ(floats(c.get())[999], 2);
}

TEST(PjrtPlugin, RunsAShardedProgram) {
  Client client(8);
  Executable exe = client.compile(add_program(false), compile_options(8));
  Arguments args = add_arguments(client, {10});
  for (int round = 0; round < 3; ++round) {
    auto out = execute(exe.get(), args.lists, 2);
    for (std::size_t k = 0; k < 8; ++k) {
      EXPECT_EQ(floats(out[k][0].get()), (Floats{static_cast<float>(2 * k + 10), static_cast<float>(2 * k + 11)}));
      EXPECT_EQ(floats(out[k][1].get()), (Floats{136, 144}));
    }
  }
}

TEST(PjrtPlugin, ReplicasMayHoldValuesOfTheirOwn) {
  Client client(8);
  Executable exe = client.compile(add_program(false), compile_options(8));
  Arguments args = add_arguments(client, {0, 10, 20, 30, 40, 50, 60, 70});
  auto out = execute(exe.get(), args.lists, 2);
  for (std::size_t k = 0; k < 8; ++k) EXPECT_EQ(floats(out[k][0].get())[0], static_cast<float>(12 * k));
}

TEST(PjrtPlugin, DevicesAreThoseOfTheAssignment) {
  Client client(16);
  Executable exe = client.compile(add_program(false), compile_options(8, {15, 3, 5, 1, 9, 0, 2, 4}));
  auto devices = sized<PJRT_LoadedExecutable_AddressableDevices_Args>();
  devices.executable = exe.get();
  PLUGIN_CALL(PJRT_LoadedExecutable_AddressableDevices, devices);
  ASSERT_EQ(devices.num_addressable_devices, 8U);
  EXPECT_EQ(devices.addressable_devices[0], client.devices()[15]);
  EXPECT_TRUE(has(error_of([&] {
                    client.compile(add_program(false), compile_options(8, {16, 3, 5, 1, 9, 0, 2, 4}));
                  }),
                  "device 16; the client has devices 0..15"));
}

TEST(PjrtPlugin, DonatedBuffersAreGone) {
  Client client(8);
  Executable exe = client.compile(add_program(true), compile_options(8));
  Arguments args = add_arguments(client, {1});
  auto out = execute(exe.get(), args.lists, 2, {0});
  EXPECT_FALSE(is_deleted(args.lists[3][0]));
  EXPECT_EQ(floats(args.lists[3][0]), (Floats{6, 7}));
  out = execute(exe.get(), args.lists, 2);
  for (std::size_t k = 0; k < 8; ++k) {
    EXPECT_TRUE(is_deleted(args.lists[k][0]));
    EXPECT_FALSE(is_deleted(args.lists[k][1]));
    EXPECT_EQ(floats(out[k][0].get())[0], static_cast<float>(2 * k + 1));
  }
  EXPECT_TRUE(has(error_of([&] { bytes_in(args.lists[0][0]); }, PJRT_Error_Code_FAILED_PRECONDITION), "donated"));
  EXPECT_TRUE(
      has(error_of([&] { execute(exe.get(), args.lists, 2); }, PJRT_Error_Code_FAILED_PRECONDITION), "donated"));
}

TEST(PjrtPlugin, WhatNoResultCouldTakeIsNotDonated) {
  Client client(8);
  std::string text = add_program(true);
  text.replace(text.find("-> (tensor<8x2xf32>"), std::string::npos, R"(-> tensor<f32> {
    return %b : tensor<f32>
  }
})");
  Executable exe = client.compile(text, compile_options(8));
  Arguments args = add_arguments(client, {1});
  for (int call = 0; call < 2; ++call) {
    auto out = execute(exe.get(), args.lists, 1);
    EXPECT_EQ(floats(out[2][0].get()), (Floats{1}));
  }
  EXPECT_FALSE(is_deleted(args.lists[3][0]));
}

// The devices' buffers of a result are made together, and each is its owner's alone.
TEST(PjrtPlugin, BuffersOfOneResultEndOnTheirOwn) {
  Client client(8);
  Executable exe = client.compile(add_program(false), compile_options(8));
  Arguments args = add_arguments(client, {1});
  auto out = execute(exe.get(), args.lists, 2);
  for (std::size_t k = 0; k < 8; ++k) {
    if (k != 5) out[k][0].reset();
  }
  auto remove = sized<PJRT_Buffer_Delete_Args>();
  remove.buffer = out[3][1].get();
  PLUGIN_CALL(PJRT_Buffer_Delete, remove);
  EXPECT_TRUE(is_deleted(out[3][1].get()));
  EXPECT_FALSE(is_deleted(out[4][1].get()));
  EXPECT_EQ(floats(out[5][0].get()), (Floats{11, 12}));
  exe.reset();
  args.owned.clear();
  EXPECT_EQ(floats(out[5][0].get()), (Floats{11, 12}));
}

TEST(PjrtPlugin, MemoryThatSomebodyPointsAtIsNotOverwritten) {
  Client client(8);
  Executable exe = client.compile(add_program(true), compile_options(8));
  Arguments args = add_arguments(client, {1});
  auto increase = sized<PJRT_Buffer_IncreaseExternalReferenceCount_Args>();
  increase.buffer = args.lists[0][0];
  PLUGIN_CALL(PJRT_Buffer_IncreaseExternalReferenceCount, increase);
  const auto* data = static_cast<const float*>(address_of(args.lists[0][0]));
  auto out = execute(exe.get(), args.lists, 2);
  EXPECT_EQ(data[0], 0);
  EXPECT_EQ(data[1], 1);
  auto decrease = sized<PJRT_Buffer_DecreaseExternalReferenceCount_Args>();
  decrease.buffer = args.lists[0][0];
  PLUGIN_CALL(PJRT_Buffer_DecreaseExternalReferenceCount, decrease);
  EXPECT_TRUE(has(error_of([&] { PLUGIN_CALL(PJRT_Buffer_DecreaseExternalReferenceCount, decrease); }), "more often"));
}

TEST(PjrtPlugin, CallsThatDoNotFitSayWhy) {
  Client client(8);
  Executable exe = client.compile(add_program(false), compile_options(8));
  Arguments args = add_arguments(client, {1});
  auto seven = args.lists;
  seven.pop_back();
  EXPECT_TRUE(
      has(error_of([&] { execute(exe.get(), seven, 2); }), "add: arguments for 7 devices; the program is for 8"));
  auto one = args.lists;
  for (auto& list : one) list.pop_back();
  EXPECT_TRUE(has(error_of([&] { execute(exe.get(), one, 2); }), "add: 1 arguments; the program takes 2"));
  auto swapped = args.lists;
  for (auto& list : swapped) std::swap(list[0], list[1]);
  EXPECT_TRUE(has(error_of([&] { execute(exe.get(), swapped, 2); }), "argument 0 on device 0 is f32[]"));
}

TEST(PjrtPlugin, ProgramsThatCannotBeReadSayWhy) {
  Client client(8);
  EXPECT_TRUE(has(error_of([&] { client.compile("module {", compile_options(1)); }), "program:1"));
  EXPECT_TRUE(has(error_of([&] { client.compile("", compile_options(1), "hlo"); }, PJRT_Error_Code_UNIMPLEMENTED),
                  "format \"hlo\""));
  EXPECT_TRUE(has(error_of([&] { client.compile(add_program(false), compile_options(4)); }), "8 partitions"));
  EXPECT_TRUE(has(error_of([&] { client.compile(add_program(false), "\x1a\x7f"); }), "compile options"));
  std::string unknown = R"(func.func public @main(%a: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.custom_call @nobody(%a) : (tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32> })";
  EXPECT_TRUE(
      has(error_of([&] { client.compile(unknown, compile_options(1)); }, PJRT_Error_Code_UNIMPLEMENTED), "@nobody"));
}

TEST(PjrtPlugin, StructsAreReadBySize) {
  Client client(1);
  PJRT_Device_MemoryStats_Args stats;
  std::memset(&stats, 0x5a, sizeof stats);
  stats.struct_size = offsetof(PJRT_Device_MemoryStats_Args, peak_allocated_bytes);  // of API 0.90
  stats.extension_start = nullptr;
  stats.device = client.devices()[0];
  PLUGIN_CALL(PJRT_Device_MemoryStats, stats);
  EXPECT_TRUE(stats.peak_bytes_in_use_is_set);
  EXPECT_EQ(stats.peak_allocated_bytes, 0x5a5a5a5a5a5a5a5a);
}

// A program that fills each device up to its limit must fit into the memory that all of them share.
TEST(PjrtPlugin, DevicesShareTheMemoryThatCanBeReserved) {
  auto reservable = [](int devices) {
    Client client(devices);
    PJRT_Device_MemoryStats_Args stats{};
    stats.struct_size = PJRT_Device_MemoryStats_Args_STRUCT_SIZE;
    stats.device = client.devices().back();
    PLUGIN_CALL(PJRT_Device_MemoryStats, stats);
    EXPECT_TRUE(stats.bytes_reservable_limit_is_set);
    return stats.bytes_reservable_limit;
  };
  std::int64_t all = reservable(1);
  EXPECT_GT(all, std::int64_t{1} << 28);
  EXPECT_EQ(reservable(8), all / 8);
}

TEST(PjrtPlugin, ShardingsAreXlas) {
  Client client(8);
  Executable exe = client.compile(add_program(false), compile_options(8));
  const PJRT_Shardings_Extension* shardings = nullptr;
  for (auto* e = api().extension_start; e != nullptr; e = e->next) {
    if (e->type == PJRT_Extension_Type_Shardings) shardings = reinterpret_cast<const PJRT_Shardings_Extension*>(e);
  }
  ASSERT_NE(shardings, nullptr);
  auto get = sized<PJRT_LoadedExecutable_GetExecutable_Args>();
  get.loaded_executable = exe.get();
  PLUGIN_CALL(PJRT_LoadedExecutable_GetExecutable, get);
  auto out = sized<PJRT_Shardings_PJRT_Executable_OutputShardings_Args>();
  out.executable = get.executable;
  check(shardings->PJRT_Shardings_PJRT_Executable_OutputShardings(&out));
  ASSERT_EQ(out.num_outputs, 2U);
  // type: OTHER, tile_assignment_dimensions: [8, 1], iota_reshape_dims: [8], iota_transpose_perm: [0]
  EXPECT_EQ(std::string(out.shardings[0], out.sharding_sizes[0]),
            std::string("\x08\x03\x1a\x02\x08\x01\x4a\x01\x08\x52\x01\x00", 12));
  EXPECT_EQ(std::string(out.shardings[1], out.sharding_sizes[1]), std::string("\x08\x00", 2));  // REPLICATED
  auto destroy = sized<PJRT_Executable_Destroy_Args>();
  destroy.executable = get.executable;
  PLUGIN_CALL(PJRT_Executable_Destroy, destroy);
}

TEST(PjrtPlugin, SerializedExecutablesRunAgain) {
  Client client(8);
  Executable exe = client.compile(add_program(false), compile_options(8));
  auto get = sized<PJRT_LoadedExecutable_GetExecutable_Args>();
  get.loaded_executable = exe.get();
  PLUGIN_CALL(PJRT_LoadedExecutable_GetExecutable, get);
  auto bytes = sized<PJRT_Executable_Serialize_Args>();
  bytes.executable = get.executable;
  PLUGIN_CALL(PJRT_Executable_Serialize, bytes);
  std::string kept(bytes.serialized_bytes, bytes.serialized_bytes_size);
  bytes.serialized_executable_deleter(bytes.serialized_executable);
  auto destroy = sized<PJRT_Executable_Destroy_Args>();
  destroy.executable = get.executable;
  PLUGIN_CALL(PJRT_Executable_Destroy, destroy);
  auto load = [&](const std::string& from) {
    auto args = sized<PJRT_Executable_DeserializeAndLoad_Args>();
    args.client = client.get();
    args.serialized_executable = from.data();
    args.serialized_executable_size = from.size();
    PLUGIN_CALL(PJRT_Executable_DeserializeAndLoad, args);
    return Executable(args.loaded_executable);
  };
  Executable again = load(kept);
  Arguments args = add_arguments(client, {10});
  EXPECT_EQ(floats(execute(again.get(), args.lists, 2)[7][1].get()), (Floats{136, 144}));
  for (std::size_t n = 0; n < kept.size(); n += 7) EXPECT_NE(error_of([&] { load(kept.substr(0, n)); }), "") << n;
}

// Options come from outside: no bytes may do more than be refused.
TEST(PjrtPlugin, AnyBytesAsCompileOptionsEnd) {
  Client client(8);
  std::mt19937 random(7);
  const std::string good = compile_options(8, {0, 1, 2, 3, 4, 5, 6, 7});
  int taken = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = good;
    for (unsigned n = random() % 4; n > 0; --n) bytes[random() % bytes.size()] = static_cast<char>(random());
    if (random() % 3 == 0) bytes.resize(random() % bytes.size());
    try {
      client.compile(add_program(false), bytes);
      ++taken;
    } catch (const Failure& e) {
      EXPECT_EQ(e.code, PJRT_Error_Code_INVALID_ARGUMENT) << e.what();
    }
  }
  EXPECT_GT(taken, 0);
}

TEST(PjrtPlugin, EventsOfCallersAreCompletedByThem) {
  auto create = sized<PJRT_Event_Create_Args>();
  PLUGIN_CALL(PJRT_Event_Create, create);
  int called = 0;
  auto ready = sized<PJRT_Event_OnReady_Args>();
  ready.event = create.event;
  ready.user_arg = &called;
  ready.callback = [](PJRT_Error* error, void* arg) {
    EXPECT_THROW(check(error), Failure);
    ++*static_cast<int*>(arg);
  };
  PLUGIN_CALL(PJRT_Event_OnReady, ready);
  EXPECT_EQ(called, 0);
  auto set = sized<PJRT_Event_Set_Args>();
  set.event = create.event;
  set.error_code = PJRT_Error_Code_ABORTED;
  set.error_message = "stopped";
  set.error_message_size = 7;
  PLUGIN_CALL(PJRT_Event_Set, set);
  EXPECT_EQ(called, 1);
  EXPECT_TRUE(has(error_of([&] { await(create.event); }, PJRT_Error_Code_FAILED_PRECONDITION), "stopped"));
}

}  // namespace
// Memory of others is given back once, whether it is used as it is or copied, and stays theirs where the call fails.
TEST(PjrtPlugin, ViewsGiveTheirMemoryBackOnce) {
  Client client(1);
  alignas(64) static const float memory[9] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  std::int64_t dims[] = {4};
  auto view = [&](const float* at, std::size_t rank, int& given_back) {
    auto args = sized<PJRT_Client_CreateViewOfDeviceBuffer_Args>();
    args.client = client.get();
    args.device_buffer_ptr = const_cast<float*>(at);
    args.dims = dims;
    args.num_dims = 1;
    args.element_type = PJRT_Buffer_Type_F32;
    args.device = client.devices()[0];
    std::int64_t minor_to_major[] = {0, 1};
    PJRT_Buffer_MemoryLayout layout{};
    layout.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE;
    layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
    layout.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
    layout.tiled.minor_to_major = minor_to_major;
    layout.tiled.minor_to_major_size = rank;
    args.layout = &layout;
    args.on_delete_callback = [](void*, void* count) { ++*static_cast<int*>(count); };
    args.on_delete_callback_arg = &given_back;
    PLUGIN_CALL(PJRT_Client_CreateViewOfDeviceBuffer, args);
    return Buffer(args.buffer);
  };
  for (const float* at : {memory, memory + 1}) {
    int given_back = 0;
    Buffer b = view(at, 1, given_back);
    EXPECT_EQ(floats(b.get()), Floats(at, at + 4));
    EXPECT_EQ(given_back, at == memory ? 0 : 1);
    b.reset();
    EXPECT_EQ(given_back, 1);
  }
  int given_back = 0;
  EXPECT_TRUE(has(error_of([&] { view(memory, 2, given_back); }), "another rank"));
  EXPECT_EQ(given_back, 0);
}

}  // namespace plugin
