// SPDX-License-Identifier: Apache-2.0
// Programs compiled and run by the plugin, as its callers see them.
#include "programs.h"

#include <atomic>
#include <cstdint>
#include <fstream>
#include <memory>
#include <thread>

#include "xla/ffi/api/c_api.h"
#include "xla/pjrt/c/pjrt_c_api_ffi_extension.h"
#include "xla/pjrt/c/pjrt_c_api_layouts_extension.h"

namespace plugin {
namespace {

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
  auto fingerprint = sized<PJRT_LoadedExecutable_Fingerprint_Args>();
  fingerprint.executable = exe.get();
  PLUGIN_CALL(PJRT_LoadedExecutable_Fingerprint, fingerprint);
  EXPECT_GT(fingerprint.executable_fingerprint_size, 0U);
  auto compile = sized<PJRT_Executable_GetCompileOptions_Args>();
  compile.executable = handle.get();
  PLUGIN_CALL(PJRT_Executable_GetCompileOptions, compile);
  EXPECT_GT(compile.serialized_bytes_size, 0U);
  compile.serialized_compile_options_deleter(compile.serialized_compile_options);
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

Buffer error_buffer(const Client& client, std::vector<std::int64_t> dims, std::size_t device) {
  auto memory = sized<PJRT_Device_DefaultMemory_Args>();
  memory.device = client.devices()[device];
  PLUGIN_CALL(PJRT_Device_DefaultMemory, memory);
  auto args = sized<PJRT_Client_CreateErrorBuffer_Args>();
  args.client = client.get();
  args.error_code = PJRT_Error_Code_ABORTED;
  args.error_message = "lost";
  args.error_message_size = 4;
  args.shape_dims = dims.data();
  args.shape_num_dims = dims.size();
  args.shape_element_type = PJRT_Buffer_Type_F32;
  args.memory = memory.memory;
  PLUGIN_CALL(PJRT_Client_CreateErrorBuffer, args);
  return Buffer(args.buffer);
}

// Results of a buffer in error are errors, and nothing else is lost.
TEST(XlaCpu, ErrorsTravelWithTheData) {
  Client client(8);
  Executable exe = client.compile(kSum, compile_options(1));
  Buffer bad = error_buffer(client, {4}, 0), good = four(client, 1);
  has(error_of([&] { execute(exe.get(), {{bad.get(), good.get()}}, 1); }, PJRT_Error_Code_INTERNAL), "lost");
  EXPECT_EQ(floats(execute(exe.get(), {{good.get(), good.get()}}, 1)[0][0].get())[3], 8);
  Executable all = client.compile(shardy_program(false), shardy_options(8));
  Arguments args = shardy_arguments(client, 10);
  Buffer bad_row = error_buffer(client, {1, 2}, 5);
  auto lists = args.lists;
  lists[5][0] = bad_row.get();
  has(error_of([&] { execute(all.get(), lists, 2); }),
      "argument 0 on device 5 is an error: Buffer Definition Event: lost");
  EXPECT_EQ(floats(execute(all.get(), args.lists, 2)[5][1].get())[1], 144);
}

TEST(XlaCpu, RunsOnTheDeviceThatTheCallerNames) {
  Client client(3);
  Executable exe = client.compile(kSum, compile_options(1) + std::string{4 << 3, 1});
  auto devices = sized<PJRT_LoadedExecutable_AddressableDevices_Args>();
  devices.executable = exe.get();
  PLUGIN_CALL(PJRT_LoadedExecutable_AddressableDevices, devices);
  EXPECT_EQ(devices.num_addressable_devices, 0U) << "it is for any device";
  Floats v = {1, 2, 3, 4};
  Buffer a = client.put(v.data(), PJRT_Buffer_Type_F32, {4}, 2);
  PJRT_Buffer* list[] = {a.get(), a.get()};
  PJRT_Buffer* const* lists[] = {list};
  PJRT_Buffer* out = nullptr;
  PJRT_Buffer** outs[] = {&out};
  auto options = sized<PJRT_ExecuteOptions>();
  auto args = sized<PJRT_LoadedExecutable_Execute_Args>();
  args.executable = exe.get();
  args.options = &options;
  args.argument_lists = lists;
  args.num_devices = 1;
  args.num_args = 2;
  args.output_lists = outs;
  args.execute_device = client.devices()[2];
  PLUGIN_CALL(PJRT_LoadedExecutable_Execute, args);
  Buffer result(out);
  EXPECT_EQ(floats(result.get()), (Floats{2, 4, 6, 8}));
  auto device = sized<PJRT_Buffer_Device_Args>();
  device.buffer = result.get();
  PLUGIN_CALL(PJRT_Buffer_Device, device);
  EXPECT_EQ(device.device, client.devices()[2]);
  has(error_of([&] { execute(exe.get(), {{a.get(), a.get()}}, 1); }), "compiled for any device");
}

constexpr char kCall[] = R"(module @call {
  func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.custom_call @tessera_test_scale(%a) {api_version = 4 : i32, backend_config = {}}
        : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
})";

std::int64_t factor_type = 0;

// Registered, it is asked for its version; called, it multiplies by the factor in the execution's context.
XLA_FFI_Error* scale(XLA_FFI_CallFrame* frame) {
  if (frame->extension_start != nullptr && frame->extension_start->type == XLA_FFI_Extension_Metadata) {
    auto* metadata = reinterpret_cast<XLA_FFI_Metadata_Extension*>(frame->extension_start)->metadata;
    metadata->api_version.major_version = XLA_FFI_API_MAJOR;
    metadata->api_version.minor_version = XLA_FFI_API_MINOR;
    return nullptr;
  }
  XLA_FFI_TypeId type{factor_type};
  XLA_FFI_ExecutionContext_Get_Args get{};
  get.struct_size = XLA_FFI_ExecutionContext_Get_Args_STRUCT_SIZE;
  get.ctx = frame->ctx;
  get.type_id = &type;
  if (auto* error = frame->api->XLA_FFI_ExecutionContext_Get(&get)) return error;
  const auto* in = static_cast<const float*>(static_cast<XLA_FFI_Buffer*>(frame->args.args[0])->data);
  auto* out = static_cast<float*>(static_cast<XLA_FFI_Buffer*>(frame->rets.rets[0])->data);
  for (int i = 0; i < 4; ++i) out[i] = *static_cast<const float*>(get.data) * in[i];
  return nullptr;
}

TEST(XlaCpu, ProgramsCallFunctionsOfTheCaller) {
  const auto* ffi = extension<PJRT_FFI_Extension>(PJRT_Extension_Type_FFI);
  ASSERT_NE(ffi, nullptr);
  auto handler = sized<PJRT_FFI_Register_Handler_Args>();
  const std::string name = "tessera_test_scale", platform = "Host";
  handler.target_name = name.data();
  handler.target_name_size = name.size();
  handler.platform_name = platform.data();
  handler.platform_name_size = platform.size();
  handler.handler = reinterpret_cast<void*>(scale);
  check(ffi->register_handler(&handler));
  PJRT_FFI_Type_Info info{};
  auto type = sized<PJRT_FFI_Type_Register_Args>();
  type.type_name = "tessera_test_factor";
  type.type_name_size = 19;
  type.type_info = &info;
  check(ffi->type_register(&type));
  factor_type = type.type_id;
  auto context = sized<PJRT_ExecuteContext_Create_Args>();
  PLUGIN_CALL(PJRT_ExecuteContext_Create, context);
  float factor = 3;
  auto add = sized<PJRT_FFI_UserData_Add_Args>();
  add.context = context.context;
  add.user_data = {factor_type, &factor};
  check(ffi->user_data_add(&add));

  Client client(1);
  Executable exe = client.compile(kCall, compile_options(1));
  Buffer a = four(client, 1);
  PJRT_Buffer* list[] = {a.get()};
  PJRT_Buffer* const* lists[] = {list};
  PJRT_Buffer* out = nullptr;
  PJRT_Buffer** outs[] = {&out};
  auto options = sized<PJRT_ExecuteOptions>();
  options.context = context.context;
  auto args = sized<PJRT_LoadedExecutable_Execute_Args>();
  args.executable = exe.get();
  args.options = &options;
  args.argument_lists = lists;
  args.num_devices = 1;
  args.num_args = 1;
  args.output_lists = outs;
  PLUGIN_CALL(PJRT_LoadedExecutable_Execute, args);
  Buffer result(out);
  EXPECT_EQ(floats(result.get()), (Floats{3, 6, 9, 12}));
  auto destroy = sized<PJRT_ExecuteContext_Destroy_Args>();
  destroy.context = context.context;
  PLUGIN_CALL(PJRT_ExecuteContext_Destroy, destroy);
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
