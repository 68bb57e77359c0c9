// SPDX-License-Identifier: Apache-2.0
#include "engines/pjrt/ffi.h"

#include <algorithm>
#include <array>
#include <exception>
#include <map>
#include <mutex>

#include "base/strings.h"
#include "engines/pjrt/host_calls.h"
#include "tessera/error.h"
#include "xla/pjrt/c/pjrt_c_api_ffi_extension.h"

namespace tessera::pjrt_engine {

namespace {

struct FfiType {
  XLA_FFI_DataType ffi;
  DType dtype;
};
constexpr std::array kFfiTypes = {
    FfiType{XLA_FFI_DataType_PRED, DType::Bool}, FfiType{XLA_FFI_DataType_S8, DType::I8},
    FfiType{XLA_FFI_DataType_S16, DType::I16},   FfiType{XLA_FFI_DataType_S32, DType::I32},
    FfiType{XLA_FFI_DataType_S64, DType::I64},   FfiType{XLA_FFI_DataType_U8, DType::U8},
    FfiType{XLA_FFI_DataType_U16, DType::U16},   FfiType{XLA_FFI_DataType_U32, DType::U32},
    FfiType{XLA_FFI_DataType_U64, DType::U64},   FfiType{XLA_FFI_DataType_F16, DType::F16},
    FfiType{XLA_FFI_DataType_BF16, DType::BF16}, FfiType{XLA_FFI_DataType_F32, DType::F32},
    FfiType{XLA_FFI_DataType_F64, DType::F64},   FfiType{XLA_FFI_DataType_C64, DType::C64},
    FfiType{XLA_FFI_DataType_C128, DType::C128}};

DType dtype_of_ffi(XLA_FFI_DataType t) {
  auto row = std::ranges::find(kFfiTypes, t, &FfiType::ffi);
  if (row == kFfiTypes.end()) throw UnimplementedError(str("a call of the host with elements of XLA's type ", int{t}));
  return row->dtype;
}

FfiBuffer buffer_of(const void* pointer) {
  const auto& b = *static_cast<const XLA_FFI_Buffer*>(pointer);
  return {dtype_of_ffi(b.dtype), Shape(b.dims, b.dims + b.rank), b.data};
}

XLA_FFI_Error* ffi_error(const XLA_FFI_CallFrame& frame, const char* message) {
  XLA_FFI_Error_Create_Args args{};
  args.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
  args.message = message;
  args.errc = XLA_FFI_Error_Code_INTERNAL;
  return frame.api->XLA_FFI_Error_Create(&args);
}

// A handler is called without a program first, to tell for which version of the FFI it was built. What is read and
// written here is the same in all of major version 0, so it is that of the plugin.
bool told_version(const XLA_FFI_CallFrame& frame) {
  for (auto* at = frame.extension_start; at != nullptr; at = at->next) {
    if (at->type != XLA_FFI_Extension_Metadata) continue;
    auto& metadata = *reinterpret_cast<XLA_FFI_Metadata_Extension*>(at)->metadata;
    metadata.api_version.major_version = XLA_FFI_API_MAJOR;
    metadata.api_version.minor_version =
        frame.api != nullptr ? frame.api->api_version.minor_version : XLA_FFI_API_MINOR;
    metadata.traits = 0;
    return true;
  }
  return false;
}

const PJRT_FFI_Extension* extension_of(const Api& api) {
  const auto* base = api.extension(PJRT_Extension_Type_FFI);
  if (base == nullptr || base->struct_size < PJRT_STRUCT_SIZE(PJRT_FFI_Extension, register_handler)) return nullptr;
  const auto* ffi = reinterpret_cast<const PJRT_FFI_Extension*>(base);
  return ffi->register_handler == nullptr ? nullptr : ffi;
}

}  // namespace

FfiCall::FfiCall(const XLA_FFI_CallFrame& frame) : frame_(frame) {
  for (std::int64_t i = 0; i < frame.args.size; ++i) args_.push_back(buffer_of(frame.args.args[i]));
  for (std::int64_t i = 0; i < frame.rets.size; ++i) results_.push_back(buffer_of(frame.rets.rets[i]));
}

std::int64_t FfiCall::integer(const std::string& name, std::int64_t otherwise) const {
  const XLA_FFI_Attrs& attrs = frame_.attrs;
  for (std::int64_t i = 0; i < attrs.size; ++i) {
    const XLA_FFI_ByteSpan& key = *attrs.names[i];
    if (std::string_view(key.ptr, key.len) != name || attrs.types[i] != XLA_FFI_AttrType_SCALAR) continue;
    const auto& scalar = *static_cast<const XLA_FFI_Scalar*>(attrs.attrs[i]);
    if (scalar.dtype == XLA_FFI_DataType_S64) return *static_cast<const std::int64_t*>(scalar.value);
    if (scalar.dtype == XLA_FFI_DataType_S32) return *static_cast<const std::int32_t*>(scalar.value);
    if (scalar.dtype == XLA_FFI_DataType_U8) return *static_cast<const std::uint8_t*>(scalar.value);
  }
  return otherwise;
}

XLA_FFI_Error* answer(XLA_FFI_CallFrame* frame, void (*body)(const FfiCall& call)) {
  try {
    if (told_version(*frame) || frame->stage != XLA_FFI_ExecutionStage_EXECUTE) return nullptr;
    body(FfiCall(*frame));
    return nullptr;
  } catch (const std::exception& e) {
    return ffi_error(*frame, e.what());
  } catch (...) {
    return ffi_error(*frame, "a function of the host threw what is no std::exception");
  }
}

bool calls_host(const Api& api, const std::string& platform) {
  return platform == "cpu" && extension_of(api) != nullptr;
}

void register_handlers(const Api& api) {
  static auto* mutex = new std::mutex;
  static auto* registered = new std::map<const Api*, bool>;
  std::lock_guard lock(*mutex);
  if (std::exchange((*registered)[&api], true)) return;
  const PJRT_FFI_Extension* ffi = extension_of(api);
  auto handlers = lapack_handlers();
  handlers.push_back({std::string(kHostCallTarget), host_call_handler()});
  constexpr std::string_view kPlatform = "Host";  // XLA's name of it
  for (const auto& [name, handler] : handlers) {
    auto args = sized<PJRT_FFI_Register_Handler_Args>();
    args.target_name = name.data();
    args.target_name_size = name.size();
    args.handler = reinterpret_cast<void*>(handler);
    args.platform_name = kPlatform.data();
    args.platform_name_size = kPlatform.size();
    api.check(ffi->register_handler(&args), "register a function of the host");
  }
}

}  // namespace tessera::pjrt_engine
