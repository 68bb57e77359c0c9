// SPDX-License-Identifier: Apache-2.0
#include "guard.h"

#include <new>

#include "base/report/log.h"

namespace tessera::pjrt {

namespace {
const Error& of(const PJRT_Error* e) { return *static_cast<const Error*>(e); }

const PJRT_Error_FunctionTable kErrorTable = {
    .struct_size = PJRT_Error_FunctionTable_STRUCT_SIZE,
    .instance_size = sizeof(Error),
    .extension_start = nullptr,
    .destroy = [](PJRT_Error* e) { delete static_cast<Error*>(e); },
    .message = [](const PJRT_Error* e, const char** message,
                  std::size_t* size) { give(of(e).message, *message, *size); },
    .get_code = [](const PJRT_Error* e) { return of(e).code; },
    .for_each_payload = [](const PJRT_Error*, PJRT_Error_PayloadVisitor, void*) {},
};

PJRT_Error* make(PJRT_Error_Code code, const char* what) { return new Error(code, what); }
}  // namespace

Error::Error(PJRT_Error_Code with_code, std::string with_message)
    : PJRT_Error{&kErrorTable}, code(with_code), message(std::move(with_message)) {}

// Where there is no memory even for the message there is nothing that C could be told.
PJRT_Error* error_of(const std::exception_ptr& e) noexcept {
  if (!e) return nullptr;
  try {
    std::rethrow_exception(e);
  } catch (const ResourceExhaustedError& x) {
    return make(PJRT_Error_Code_RESOURCE_EXHAUSTED, x.what());
  } catch (const UnimplementedError& x) {
    return make(PJRT_Error_Code_UNIMPLEMENTED, x.what());
  } catch (const InternalError& x) {
    return make(PJRT_Error_Code_INTERNAL, x.what());
  } catch (const StateError& x) {
    return make(PJRT_Error_Code_FAILED_PRECONDITION, x.what());
  } catch (const tessera::Error& x) {
    return make(PJRT_Error_Code_INVALID_ARGUMENT, x.what());
  } catch (const std::bad_alloc&) {
    return make(PJRT_Error_Code_RESOURCE_EXHAUSTED, "out of memory");
  } catch (const std::exception& x) {
    return make(PJRT_Error_Code_INTERNAL, x.what());
  } catch (...) {
    return make(PJRT_Error_Code_UNKNOWN, "an exception of an unknown type");
  }
}

PJRT_Error* missing(const char* entry) {
  base::log(LogLevel::Debug, entry, " is not there");
  return new Error(PJRT_Error_Code_UNIMPLEMENTED, str(entry, ": Tessera's PJRT plugin does not have it"));
}

}  // namespace tessera::pjrt
