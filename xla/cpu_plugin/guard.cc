// SPDX-License-Identifier: Apache-2.0
#include "guard.h"

#include <new>

#include "absl/strings/str_cat.h"

namespace xla_cpu {

namespace {
const Error& in(const PJRT_Error* e) { return *static_cast<const Error*>(e); }

const PJRT_Error_FunctionTable kErrorTable = {
    .struct_size = PJRT_Error_FunctionTable_STRUCT_SIZE,
    .instance_size = sizeof(Error),
    .extension_start = nullptr,
    .destroy = [](PJRT_Error* e) { delete static_cast<Error*>(e); },
    .message = [](const PJRT_Error* e, const char** message,
                  std::size_t* size) { give(in(e).message, *message, *size); },
    .get_code = [](const PJRT_Error* e) { return in(e).code; },
    .for_each_payload = [](const PJRT_Error*, PJRT_Error_PayloadVisitor, void*) {},
};
}  // namespace

Error::Error(PJRT_Error_Code with_code, std::string with_message)
    : PJRT_Error{&kErrorTable}, code(with_code), message(std::move(with_message)) {}

// The API's codes are those of absl. Where there is no memory even for the message there is nothing that C could be
// told.
PJRT_Error* error_of(const absl::Status& status) noexcept {
  if (status.ok()) return nullptr;
  return new Error(static_cast<PJRT_Error_Code>(status.code()), std::string(status.message()));
}

PJRT_Error* error_of(const std::exception_ptr& e) noexcept {
  try {
    std::rethrow_exception(e);
  } catch (const Failure& x) {
    return error_of(x.status);
  } catch (const std::bad_alloc&) {
    return new Error(PJRT_Error_Code_RESOURCE_EXHAUSTED, "out of memory");
  } catch (const std::exception& x) {
    return new Error(PJRT_Error_Code_INTERNAL, x.what());
  } catch (...) {
    return new Error(PJRT_Error_Code_UNKNOWN, "an exception of an unknown type");
  }
}

PJRT_Error* missing(const char* entry) noexcept {
  return new Error(PJRT_Error_Code_UNIMPLEMENTED, absl::StrCat(entry, ": the plugin for XLA:CPU does not have it"));
}

void refuse(std::string why) { throw Failure(absl::InvalidArgumentError(why)); }
void unsupported(std::string what) { throw Failure(absl::UnimplementedError(what)); }

}  // namespace xla_cpu
