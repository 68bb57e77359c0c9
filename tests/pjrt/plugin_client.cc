// SPDX-License-Identifier: Apache-2.0
#include "plugin_client.h"

#include <dlfcn.h>

#include <cstring>

// What the plugin calls the number of its devices.
#ifndef TESSERA_PJRT_DEVICES_OPTION
#define TESSERA_PJRT_DEVICES_OPTION "num_devices"
#endif

namespace plugin {

const PJRT_Api& api() {
  static const PJRT_Api* table = [] {
    void* library = dlopen(TESSERA_PJRT_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(dlerror());
    auto get = reinterpret_cast<const PJRT_Api* (*)()>(dlsym(library, "GetPjrtApi"));
    if (get == nullptr) throw std::runtime_error(dlerror());
    return get();
  }();
  return *table;
}

void check(PJRT_Error* error) {
  if (error == nullptr) return;
  auto message = sized<PJRT_Error_Message_Args>();
  message.error = error;
  api().PJRT_Error_Message(&message);
  auto code = sized<PJRT_Error_GetCode_Args>();
  code.error = error;
  api().PJRT_Error_GetCode(&code);
  Failure failure(code.code, std::string(message.message, message.message_size));
  auto destroy = sized<PJRT_Error_Destroy_Args>();
  destroy.error = error;
  api().PJRT_Error_Destroy(&destroy);
  throw failure;
}

void DestroyBuffer::operator()(PJRT_Buffer* b) const {
  auto args = sized<PJRT_Buffer_Destroy_Args>();
  args.buffer = b;
  api().PJRT_Buffer_Destroy(&args);
}
void DestroyExecutable::operator()(PJRT_LoadedExecutable* e) const {
  auto args = sized<PJRT_LoadedExecutable_Destroy_Args>();
  args.executable = e;
  api().PJRT_LoadedExecutable_Destroy(&args);
}

Client::Client(std::int64_t devices) {
  PJRT_NamedValue option{};
  option.struct_size = sizeof(option);
  option.name = TESSERA_PJRT_DEVICES_OPTION;
  option.name_size = std::strlen(option.name);
  option.type = PJRT_NamedValue_kInt64;
  option.int64_value = devices;
  option.value_size = 1;
  auto args = sized<PJRT_Client_Create_Args>();
  args.create_options = &option;
  args.num_options = 1;
  PLUGIN_CALL(PJRT_Client_Create, args);
  client_ = args.client;
}
Client::~Client() {
  auto args = sized<PJRT_Client_Destroy_Args>();
  args.client = client_;
  api().PJRT_Client_Destroy(&args);
}

std::vector<PJRT_Device*> Client::devices() const {
  auto args = sized<PJRT_Client_Devices_Args>();
  args.client = client_;
  PLUGIN_CALL(PJRT_Client_Devices, args);
  return {args.devices, args.devices + args.num_devices};
}

Buffer Client::put(const void* data, PJRT_Buffer_Type type, const std::vector<std::int64_t>& dims, std::size_t device,
                   const std::vector<std::int64_t>& byte_strides) const {
  auto args = sized<PJRT_Client_BufferFromHostBuffer_Args>();
  args.client = client_;
  args.data = data;
  args.type = type;
  args.dims = dims.data();
  args.num_dims = dims.size();
  args.byte_strides = byte_strides.data();
  args.num_byte_strides = byte_strides.size();
  args.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
  args.device = devices().at(device);
  PLUGIN_CALL(PJRT_Client_BufferFromHostBuffer, args);
  Buffer out(args.buffer);
  await(args.done_with_host_buffer);
  return out;
}

Executable Client::compile(const std::string& program, const std::string& options, const std::string& format) const {
  auto code = sized<PJRT_Program>();
  code.code = const_cast<char*>(program.data());
  code.code_size = program.size();
  code.format = format.data();
  code.format_size = format.size();
  auto args = sized<PJRT_Client_Compile_Args>();
  args.client = client_;
  args.program = &code;
  args.compile_options = options.data();
  args.compile_options_size = options.size();
  PLUGIN_CALL(PJRT_Client_Compile, args);
  return Executable(args.executable);
}

void await(PJRT_Event* e) {
  auto args = sized<PJRT_Event_Await_Args>();
  args.event = e;
  auto* error = api().PJRT_Event_Await(&args);
  auto destroy = sized<PJRT_Event_Destroy_Args>();
  destroy.event = e;
  api().PJRT_Event_Destroy(&destroy);
  check(error);
}

Bytes bytes_in(PJRT_Buffer* b) {
  auto args = sized<PJRT_Buffer_ToHostBuffer_Args>();
  args.src = b;
  PLUGIN_CALL(PJRT_Buffer_ToHostBuffer, args);
  Bytes out(args.dst_size + 1);  // an address for no bytes, too
  args.dst = out.data();
  PLUGIN_CALL(PJRT_Buffer_ToHostBuffer, args);
  await(args.event);
  out.pop_back();
  return out;
}

void* address_of(PJRT_Buffer* b) {
  auto args = sized<PJRT_Buffer_UnsafePointer_Args>();
  args.buffer = b;
  PLUGIN_CALL(PJRT_Buffer_UnsafePointer, args);
  return reinterpret_cast<void*>(args.buffer_pointer);
}

bool is_deleted(PJRT_Buffer* b) {
  auto args = sized<PJRT_Buffer_IsDeleted_Args>();
  args.buffer = b;
  PLUGIN_CALL(PJRT_Buffer_IsDeleted, args);
  return args.is_deleted;
}

std::vector<std::vector<Buffer>> execute(PJRT_LoadedExecutable* e,
                                         const std::vector<std::vector<PJRT_Buffer*>>& arguments, std::size_t results,
                                         const std::vector<std::int64_t>& not_donated) {
  std::vector<PJRT_Buffer* const*> lists;
  for (const auto& list : arguments) lists.push_back(list.data());
  std::vector<std::vector<PJRT_Buffer*>> out(arguments.size(), std::vector<PJRT_Buffer*>(results));
  std::vector<PJRT_Buffer**> out_lists;
  for (auto& list : out) out_lists.push_back(list.data());
  std::vector<PJRT_Event*> events(arguments.size());
  auto options = sized<PJRT_ExecuteOptions>();
  options.non_donatable_input_indices = not_donated.data();
  options.num_non_donatable_input_indices = not_donated.size();
  auto args = sized<PJRT_LoadedExecutable_Execute_Args>();
  args.executable = e;
  args.options = &options;
  args.argument_lists = lists.data();
  args.num_devices = arguments.size();
  args.num_args = arguments.empty() ? 0 : arguments[0].size();
  args.output_lists = out_lists.data();
  args.device_complete_events = events.data();
  PLUGIN_CALL(PJRT_LoadedExecutable_Execute, args);
  std::vector<std::vector<Buffer>> owned(out.size());
  for (std::size_t k = 0; k < out.size(); ++k) {
    for (auto* b : out[k]) owned[k].emplace_back(b);
  }
  for (auto* event : events) await(event);
  return owned;
}

namespace {
std::string field(int number, const std::string& message) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(message.size())} + message;
}
std::string field(int number, int value) { return {static_cast<char>(number << 3), static_cast<char>(value)}; }
}  // namespace

std::string compile_options(int partitions, const std::vector<int>& device_ids) {
  std::string build = field(4, 1) + field(5, partitions);
  if (!device_ids.empty()) {
    std::string assignment = field(1, 1) + field(2, partitions);
    for (int id : device_ids) assignment += field(3, field(1, std::string(1, static_cast<char>(id))));
    build += field(9, assignment);
  }
  return field(3, build);
}

}  // namespace plugin
