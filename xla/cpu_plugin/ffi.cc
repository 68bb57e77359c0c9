// SPDX-License-Identifier: Apache-2.0
// The extension with functions that programs call, and what an execution hands to them.
#include "entries.h"
#include "objects.h"
#include "xla/ffi/api/c_api.h"
#include "xla/ffi/type_registry.h"

namespace xla::ffi {
// Declared in a header that needs MLIR's.
const XLA_FFI_Api* GetXlaFfiApi();
absl::Status TakeStatus(XLA_FFI_Error* error);
}  // namespace xla::ffi

namespace xla_cpu {

namespace {
using Types = xla::ffi::TypeRegistry;

XLA_FFI_ByteSpan span(const char* data, std::size_t size) { return {data, size}; }
}  // namespace

void context_create(PJRT_ExecuteContext_Create_Args& args) { args.context = new PJRT_ExecuteContext(); }
void context_destroy(PJRT_ExecuteContext_Destroy_Args& args) { delete args.context; }

void ffi_register_type(PJRT_FFI_Type_Register_Args& args) {
  absl::string_view name = view(args.type_name, args.type_name_size);
  Types::TypeInfo info;
  if (args.type_info != nullptr) info.deleter = args.type_info->deleter;
  if (args.type_id == Types::kUnknownTypeId.value()) {
    args.type_id = value(Types::AssignExternalTypeId(name, info)).value();
  } else {
    check(Types::RegisterExternalTypeId(name, Types::TypeId(args.type_id), info));
  }
}

void ffi_add_user_data(PJRT_FFI_UserData_Add_Args& args) {
  if (args.context == nullptr) refuse("PJRT_FFI_UserData_Add: no execution context");
  check(args.context->context.ffi_context().Insert(Types::TypeId(args.user_data.type_id), args.user_data.data));
}

void ffi_register_handler(PJRT_FFI_Register_Handler_Args& args) {
  XLA_FFI_Handler_Register_Args call{};
  call.struct_size = XLA_FFI_Handler_Register_Args_STRUCT_SIZE;
  call.name = span(args.target_name, args.target_name_size);
  call.platform = span(args.platform_name, args.platform_name_size);
  call.bundle.execute = reinterpret_cast<XLA_FFI_Handler*>(args.handler);
  call.traits = static_cast<XLA_FFI_Handler_Traits>(args.traits);
  XLA_FFI_Error* error = xla::ffi::GetXlaFfiApi()->XLA_FFI_Handler_Register(&call);
  if (error != nullptr) check(xla::ffi::TakeStatus(error));
}

}  // namespace xla_cpu
