// SPDX-License-Identifier: Apache-2.0
// What stands between C and C++: exceptions become errors of PJRT, structs are read by the size that their writer knew.
#pragma once

#include <cstddef>
#include <exception>
#include <string>
#include <string_view>

#include "base/strings.h"
#include "tessera/error.h"
#include "xla/pjrt/c/pjrt_c_api.h"

namespace tessera::pjrt {

struct Error final : PJRT_Error {
  Error(PJRT_Error_Code with_code, std::string with_message);
  PJRT_Error_Code code;
  std::string message;
};
/// Of the exception in flight.
PJRT_Error* error_of(const std::exception_ptr& e) noexcept;
/// Says that the plugin lacks an entry of the API, and logs it.
PJRT_Error* missing(const char* entry);

/// A request that is against the API's rules.
class InvalidArgument : public ValueError {
 public:
  using ValueError::ValueError;
};

/// Whether the struct's writer knew a field; a caller built against another version of the API may have shorter ones.
#define TESSERA_PJRT_HAS(args, field) \
  ((args).struct_size >= offsetof(std::remove_cvref_t<decltype(args)>, field) + sizeof(decltype((args).field)))

template <auto F>
struct EntryOf;
template <class Args, void (*F)(Args&)>
struct EntryOf<F> {
  static PJRT_Error* call(Args* args) noexcept {
    try {
      F(*args);
      return nullptr;
    } catch (...) {
      return error_of(std::current_exception());
    }
  }
};
/// The C function of a C++ one that may throw.
template <auto F>
inline constexpr auto entry = &EntryOf<F>::call;

/// Strings of the API: not terminated.
inline void give(std::string_view s, const char*& data, std::size_t& size) {
  data = s.data();
  size = s.size();
}
inline std::string_view view(const char* data, std::size_t size) {
  return size == 0 ? std::string_view() : std::string_view(data, size);
}

}  // namespace tessera::pjrt
