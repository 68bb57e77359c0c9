// SPDX-License-Identifier: Apache-2.0
// A PJRT plugin that fails as it is told: by its own file's name, "fake_<how>.so", as a plugin stays loaded for good.
// It has two devices; its programs have one result, a number of 4 bytes a device, and compute nothing.
#include <dlfcn.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "xla/pjrt/c/pjrt_c_api.h"

struct PJRT_Event {
  PJRT_Error* error;
};
struct PJRT_DeviceDescription {
  int id;
};
struct PJRT_Device {
  PJRT_DeviceDescription description;
};
struct PJRT_Client {
  PJRT_Device devices[2] = {{{0}}, {{1}}};
  PJRT_Device* list[2] = {&devices[0], &devices[1]};
};
struct PJRT_Executable {};
struct PJRT_LoadedExecutable {
  std::size_t results;
};
struct PJRT_Buffer {
  std::size_t results;
};

namespace {

struct Failure final : PJRT_Error {
  Failure(PJRT_Error_Code with_code, std::string with_message)
      : PJRT_Error{nullptr}, code(with_code), message(std::move(with_message)) {}
  PJRT_Error_Code code;
  std::string message;
};
const Failure& of(const PJRT_Error* e) { return *static_cast<const Failure*>(e); }

// "compile" of ".../fake_compile.so".
const std::string& how() {
  static const auto* name = [] {
    Dl_info info{};
    ::dladdr(reinterpret_cast<void*>(&how), &info);
    const std::string path = info.dli_fname;
    const std::size_t begin = path.rfind("fake_") + 5;
    return new std::string(path, begin, path.rfind('.') - begin);
  }();
  return *name;
}

PJRT_Error* fails(const char* when, PJRT_Error_Code code, const char* message) {
  return how() == when ? new Failure(code, message) : nullptr;
}

constexpr char kPlatform[] = "fake";

template <class Args>
void set(PJRT_Api& api, PJRT_Error* (*PJRT_Api::*field)(Args*), PJRT_Error* (*entry)(Args*)) {
  api.*field = entry;
}

void errors_and_events(PJRT_Api& api) {
  api.PJRT_Error_Destroy = [](PJRT_Error_Destroy_Args* a) { delete static_cast<Failure*>(a->error); };
  api.PJRT_Error_Message = [](PJRT_Error_Message_Args* a) {
    a->message = of(a->error).message.c_str();
    a->message_size = of(a->error).message.size();
  };
  set<PJRT_Error_GetCode_Args>(api, &PJRT_Api::PJRT_Error_GetCode, [](auto* a) -> PJRT_Error* {
    a->code = of(a->error).code;
    return nullptr;
  });
  set<PJRT_Plugin_Initialize_Args>(api, &PJRT_Api::PJRT_Plugin_Initialize, [](auto*) {
    return fails("initialize", PJRT_Error_Code_FAILED_PRECONDITION, "the driver is too old");
  });
  set<PJRT_Event_IsReady_Args>(api, &PJRT_Api::PJRT_Event_IsReady, [](auto* a) -> PJRT_Error* {
    a->is_ready = true;
    return nullptr;
  });
  set<PJRT_Event_Error_Args>(api, &PJRT_Api::PJRT_Event_Error, [](auto* a) -> PJRT_Error* {
    return a->event->error == nullptr ? nullptr : new Failure(of(a->event->error));
  });
  set<PJRT_Event_Destroy_Args>(api, &PJRT_Api::PJRT_Event_Destroy, [](auto* a) -> PJRT_Error* {
    delete static_cast<Failure*>(a->event->error);
    delete a->event;
    return nullptr;
  });
}

void client(PJRT_Api& api) {
  static const std::map<int, std::string> kTypes{{PJRT_NamedValue_kString, "a text"},
                                                 {PJRT_NamedValue_kInt64, "an integer"},
                                                 {PJRT_NamedValue_kInt64List, "a list of integers"},
                                                 {PJRT_NamedValue_kFloat, "a float"},
                                                 {PJRT_NamedValue_kBool, "a bool"}};
  set<PJRT_Client_Create_Args>(api, &PJRT_Api::PJRT_Client_Create, [](auto* a) -> PJRT_Error* {
    if (a->num_options > 0) {
      return new Failure(PJRT_Error_Code_INVALID_ARGUMENT,
                         "unknown option " + std::string(a->create_options[0].name, a->create_options[0].name_size) +
                             ", " + kTypes.at(a->create_options[0].type));
    }
    if (auto* e = fails("create", PJRT_Error_Code_UNAVAILABLE, "no device is plugged in")) return e;
    a->client = new PJRT_Client;
    return nullptr;
  });
  set<PJRT_Client_Destroy_Args>(api, &PJRT_Api::PJRT_Client_Destroy, [](auto* a) -> PJRT_Error* {
    delete a->client;
    return nullptr;
  });
  set<PJRT_Client_PlatformName_Args>(api, &PJRT_Api::PJRT_Client_PlatformName, [](auto* a) -> PJRT_Error* {
    a->platform_name = kPlatform;
    a->platform_name_size = std::strlen(kPlatform);
    return nullptr;
  });
  set<PJRT_Client_ProcessIndex_Args>(api, &PJRT_Api::PJRT_Client_ProcessIndex, [](auto* a) -> PJRT_Error* {
    a->process_index = 0;
    return nullptr;
  });
  set<PJRT_Client_Devices_Args>(api, &PJRT_Api::PJRT_Client_Devices, [](auto* a) -> PJRT_Error* {
    a->devices = a->client->list;
    a->num_devices = how() == "empty" ? 0 : 2;
    return nullptr;
  });
  set<PJRT_Device_GetDescription_Args>(api, &PJRT_Api::PJRT_Device_GetDescription, [](auto* a) -> PJRT_Error* {
    a->device_description = &a->device->description;
    return nullptr;
  });
  set<PJRT_DeviceDescription_Id_Args>(api, &PJRT_Api::PJRT_DeviceDescription_Id, [](auto* a) -> PJRT_Error* {
    a->id = a->device_description->id;
    return nullptr;
  });
  set<PJRT_DeviceDescription_ProcessIndex_Args>(api, &PJRT_Api::PJRT_DeviceDescription_ProcessIndex,
                                                [](auto* a) -> PJRT_Error* {
                                                  a->process_index = 0;
                                                  return nullptr;
                                                });
}

void buffers(PJRT_Api& api) {
  set<PJRT_Client_BufferFromHostBuffer_Args>(
      api, &PJRT_Api::PJRT_Client_BufferFromHostBuffer, [](auto* a) -> PJRT_Error* {
        if (auto* e = fails("memory", PJRT_Error_Code_RESOURCE_EXHAUSTED, "out of memory: 4 bytes")) return e;
        a->buffer = new PJRT_Buffer{};
        a->done_with_host_buffer = new PJRT_Event{};
        return nullptr;
      });
  set<PJRT_Buffer_Destroy_Args>(api, &PJRT_Api::PJRT_Buffer_Destroy, [](auto* a) -> PJRT_Error* {
    delete a->buffer;
    return nullptr;
  });
  set<PJRT_Buffer_ReadyEvent_Args>(api, &PJRT_Api::PJRT_Buffer_ReadyEvent, [](auto* a) -> PJRT_Error* {
    a->event = new PJRT_Event{fails("later", PJRT_Error_Code_INTERNAL, "the device has fallen off the bus")};
    return nullptr;
  });
  set<PJRT_Buffer_CopyToDevice_Args>(api, &PJRT_Api::PJRT_Buffer_CopyToDevice, [](auto* a) -> PJRT_Error* {
    a->dst_buffer = new PJRT_Buffer{};
    return nullptr;
  });
  set<PJRT_Buffer_ToHostBuffer_Args>(api, &PJRT_Api::PJRT_Buffer_ToHostBuffer, [](auto* a) -> PJRT_Error* {
    if (auto* e = fails("read", PJRT_Error_Code_INTERNAL, "the copy engine is lost")) return e;
    std::memset(a->dst, 0, a->dst_size);
    a->event = new PJRT_Event{fails("later", PJRT_Error_Code_INTERNAL, "the device has fallen off the bus")};
    return nullptr;
  });
}

void programs(PJRT_Api& api) {
  set<PJRT_Client_Compile_Args>(api, &PJRT_Api::PJRT_Client_Compile, [](auto* a) -> PJRT_Error* {
    if (auto* e = fails("compile", PJRT_Error_Code_UNIMPLEMENTED, "stablehlo.add is not implemented")) return e;
    a->executable = new PJRT_LoadedExecutable{how() == "results" ? std::size_t{7} : std::size_t{1}};
    return nullptr;
  });
  set<PJRT_LoadedExecutable_GetExecutable_Args>(api, &PJRT_Api::PJRT_LoadedExecutable_GetExecutable,
                                                [](auto* a) -> PJRT_Error* {
                                                  a->executable = new PJRT_Executable;
                                                  return nullptr;
                                                });
  set<PJRT_Executable_NumOutputs_Args>(api, &PJRT_Api::PJRT_Executable_NumOutputs, [](auto* a) -> PJRT_Error* {
    a->num_outputs = how() == "results" ? 7 : 1;
    return nullptr;
  });
  set<PJRT_Executable_Destroy_Args>(api, &PJRT_Api::PJRT_Executable_Destroy, [](auto* a) -> PJRT_Error* {
    delete a->executable;
    return nullptr;
  });
  set<PJRT_LoadedExecutable_Destroy_Args>(api, &PJRT_Api::PJRT_LoadedExecutable_Destroy, [](auto* a) -> PJRT_Error* {
    delete a->executable;
    return nullptr;
  });
  set<PJRT_LoadedExecutable_Execute_Args>(api, &PJRT_Api::PJRT_LoadedExecutable_Execute, [](auto* a) -> PJRT_Error* {
    if (auto* e = fails("execute", PJRT_Error_Code_INTERNAL, "the kernel was not launched")) return e;
    if (auto* e = fails("exhaust", PJRT_Error_Code_RESOURCE_EXHAUSTED, "out of memory: 17 GiB")) return e;
    for (std::size_t d = 0; d < a->num_devices; ++d) a->output_lists[d][0] = new PJRT_Buffer{};
    return nullptr;
  });
}

// Entries that a plugin need not have: only "fake_analysis.so" and "fake_unknowing.so" do.
void analysis(PJRT_Api& api) {
  set<PJRT_Executable_GetCostAnalysis_Args>(
      api, &PJRT_Api::PJRT_Executable_GetCostAnalysis, [](auto* a) -> PJRT_Error* {
        if (auto* e = fails("unknowing", PJRT_Error_Code_INTERNAL, "the compiler kept no account")) return e;
        static PJRT_NamedValue values[3];
        const char* names[] = {"flops", "bytes accessed", "unit"};
        for (int i = 0; i < 3; ++i) {
          values[i] = {};
          values[i].struct_size = PJRT_NamedValue_STRUCT_SIZE;
          values[i].name = names[i];
          values[i].name_size = std::strlen(names[i]);
          values[i].value_size = 1;
        }
        values[0].type = PJRT_NamedValue_kFloat;
        values[0].float_value = 1.5F;
        values[1].type = PJRT_NamedValue_kInt64;
        values[1].int64_value = 12;
        values[2].type = PJRT_NamedValue_kString;
        values[2].string_value = "x";
        a->properties = values;
        a->num_properties = 3;
        return nullptr;
      });
  set<PJRT_Executable_GetCompiledMemoryStats_Args>(
      api, &PJRT_Api::PJRT_Executable_GetCompiledMemoryStats, [](auto* a) -> PJRT_Error* {
        if (auto* e = fails("unknowing", PJRT_Error_Code_INTERNAL, "the compiler kept no account")) return e;
        a->generated_code_size_in_bytes = 1;
        a->argument_size_in_bytes = 2;
        a->output_size_in_bytes = 3;
        a->alias_size_in_bytes = 4;
        a->temp_size_in_bytes = 5;
        a->host_generated_code_size_in_bytes = 6;
        a->host_argument_size_in_bytes = 7;
        a->host_output_size_in_bytes = 8;
        a->host_alias_size_in_bytes = 9;
        a->host_temp_size_in_bytes = 10;
        return nullptr;
      });
}

}  // namespace

extern "C" const PJRT_Api* GetPjrtApi() {
  static PJRT_Api api = [] {
    PJRT_Api a{};
    a.struct_size = sizeof(PJRT_Api);
    a.pjrt_api_version.struct_size = sizeof(PJRT_Api_Version);
    a.pjrt_api_version.major_version = how() == "major" ? PJRT_API_MAJOR + 1 : PJRT_API_MAJOR;
    a.pjrt_api_version.minor_version = how() == "minor" ? 1 : PJRT_API_MINOR;
    errors_and_events(a);
    client(a);
    buffers(a);
    programs(a);
    if (how() == "analysis" || how() == "unknowing") analysis(a);
    if (how() == "lacking") a.PJRT_Client_Compile = nullptr;
    return a;
  }();
  return how() == "nothing" ? nullptr : &api;
}
