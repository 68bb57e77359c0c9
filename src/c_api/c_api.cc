// SPDX-License-Identifier: Apache-2.0
// Errors, text, element types and the log.
#include "tessera/c_api.h"

#include <exception>
#include <new>
#include <string_view>

#include "c_api/handles.h"
#include "tessera/logging.h"
#include "tessera/version.h"

namespace tessera::c_api {

namespace {

static_assert(TESSERA_C128 == static_cast<int>(DType::C128) && TESSERA_F16 == static_cast<int>(DType::F16) &&
                  TESSERA_BOOL == static_cast<int>(DType::Bool) && kNumDTypes == TESSERA_C128 + 1,
              "the values of tessera_dtype are those of DType");
static_assert(TESSERA_LOG_OFF == static_cast<int>(LogLevel::Off), "the values of tessera_log_level are LogLevel's");

// For want of memory; `tessera_error_free` leaves it alone.
tessera_error no_memory{TESSERA_ERROR_RESOURCE_EXHAUSTED, "out of memory"};

tessera_error* error(tessera_error_kind kind, const char* message) noexcept {
  try {
    return new tessera_error{kind, message};
  } catch (const std::bad_alloc&) {
    return &no_memory;
  }
}

tessera_error_kind kind_of(const ValueError& e) {
  if (dynamic_cast<const IndexError*>(&e) != nullptr) return TESSERA_ERROR_INDEX;
  if (dynamic_cast<const IndivisibleError*>(&e) != nullptr) return TESSERA_ERROR_INDIVISIBLE;
  if (dynamic_cast<const DuplicateAxisError*>(&e) != nullptr) return TESSERA_ERROR_DUPLICATE_AXIS;
  if (dynamic_cast<const DeviceMismatchError*>(&e) != nullptr) return TESSERA_ERROR_DEVICE_MISMATCH;
  if (dynamic_cast<const FormatError*>(&e) != nullptr) return TESSERA_ERROR_FORMAT;
  return TESSERA_ERROR_VALUE;
}
tessera_error_kind kind_of(const StateError& e) {
  if (dynamic_cast<const DeletedArrayError*>(&e) != nullptr) return TESSERA_ERROR_DELETED_ARRAY;
  if (dynamic_cast<const NotAddressableError*>(&e) != nullptr) return TESSERA_ERROR_NOT_ADDRESSABLE;
  return TESSERA_ERROR_STATE;
}

}  // namespace

tessera_error* current_error() noexcept {
  try {
    throw;
  } catch (const ValueError& e) {
    return error(kind_of(e), e.what());
  } catch (const TypeError& e) {
    return error(TESSERA_ERROR_TYPE, e.what());
  } catch (const StateError& e) {
    return error(kind_of(e), e.what());
  } catch (const ResourceExhaustedError& e) {
    return error(TESSERA_ERROR_RESOURCE_EXHAUSTED, e.what());
  } catch (const UnimplementedError& e) {
    return error(TESSERA_ERROR_UNIMPLEMENTED, e.what());
  } catch (const VerificationError& e) {
    return error(TESSERA_ERROR_VERIFICATION, e.what());
  } catch (const std::bad_alloc&) {
    return &no_memory;
  } catch (const std::exception& e) {
    return error(TESSERA_ERROR_INTERNAL, e.what());
  } catch (...) {
    return error(TESSERA_ERROR_INTERNAL, "an exception of an unknown type");
  }
}

void check_room(const char* function, const char* name, const void* out, std::size_t capacity, std::size_t size) {
  if (capacity < size) {
    throw ValueError(str(function, ": ", name, " has room for capacity = ", capacity, " elements; expected ", size,
                         " or more, or 0 to ask for the number"));
  }
  if (out == nullptr && size > 0) {
    throw ValueError(str(function, ": ", name, " is null; expected memory for capacity = ", capacity, " elements"));
  }
}

std::vector<std::string> names_in(const char* text) {
  std::vector<std::string> out;
  if (text == nullptr || *text == '\0') return out;
  std::string_view rest(text);
  for (std::size_t comma = 0; comma != std::string_view::npos;) {
    comma = rest.find(',');
    out.emplace_back(rest.substr(0, comma));
    if (comma != std::string_view::npos) rest.remove_prefix(comma + 1);
  }
  return out;
}

DType dtype_of(const char* function, tessera_dtype dtype) {
  if (dtype >= 0 && dtype < kNumDTypes) return static_cast<DType>(dtype);
  throw TypeError(str(function, ": dtype = ", dtype, "; expected a value of tessera_dtype, 0 to ", kNumDTypes - 1));
}

}  // namespace tessera::c_api

using namespace tessera;         // NOLINT(google-build-using-namespace): what follows is the library's border
using namespace tessera::c_api;  // NOLINT(google-build-using-namespace)

const char* tessera_version_text() { return version(); }
int32_t tessera_c_api_version() { return TESSERA_C_API_VERSION; }

tessera_error_kind tessera_error_get_kind(const tessera_error* error) {
  return error == nullptr ? TESSERA_ERROR_NONE : error->kind;
}
const char* tessera_error_message(const tessera_error* error) { return error == nullptr ? "" : error->message.c_str(); }
void tessera_error_free(tessera_error* error) {
  if (error != &c_api::no_memory) delete error;
}

const char* tessera_string_data(const tessera_string* string) { return string == nullptr ? "" : string->text.c_str(); }
size_t tessera_string_size(const tessera_string* string) { return string == nullptr ? 0 : string->text.size(); }
void tessera_string_free(tessera_string* string) { delete string; }

const char* tessera_dtype_name(tessera_dtype dtype) {
  return dtype < 0 || dtype >= kNumDTypes ? nullptr : dtype_name(static_cast<DType>(dtype)).data();
}
size_t tessera_dtype_size(tessera_dtype dtype) {
  return dtype < 0 || dtype >= kNumDTypes ? 0 : static_cast<size_t>(dtype_size(static_cast<DType>(dtype)));
}

tessera_error* tessera_set_log_sink(tessera_log_sink sink, void* context, tessera_log_level from) {
  return guarded([&] {
    if (from < TESSERA_LOG_DEBUG || from > TESSERA_LOG_OFF) {
      throw ValueError(str("tessera_set_log_sink: from = ", from, "; expected a value of tessera_log_level, 0 to 4"));
    }
    if (sink == nullptr) {
      set_log_sink(nullptr);
      return;
    }
    set_log_sink(
        [sink, context](LogLevel level, std::string_view line) {
          sink(context, static_cast<tessera_log_level>(level), std::string(line).c_str());
        },
        static_cast<LogLevel>(from));
  });
}
