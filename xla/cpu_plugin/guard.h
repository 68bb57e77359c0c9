// SPDX-License-Identifier: Apache-2.0
// What stands between C and C++: statuses and exceptions become errors of PJRT, structs are read by the size that their
// writer knew.
#pragma once

#include <cstddef>
#include <exception>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "xla/pjrt/c/pjrt_c_api.h"

namespace xla_cpu {

struct Error final : PJRT_Error {
  Error(PJRT_Error_Code with_code, std::string with_message);
  PJRT_Error_Code code;
  std::string message;
};
/// Null for a status that is ok.
PJRT_Error* error_of(const absl::Status& status) noexcept;
PJRT_Error* error_of(const std::exception_ptr& e) noexcept;
/// Says that the plugin lacks an entry of the API.
PJRT_Error* missing(const char* entry) noexcept;

/// A status that is not ok, on its way to the caller.
struct Failure : std::exception {
  explicit Failure(absl::Status with_status) : status(std::move(with_status)) {}
  const char* what() const noexcept override { return "an operation of XLA failed"; }
  absl::Status status;
};
inline void check(absl::Status status) {
  if (!status.ok()) throw Failure(std::move(status));
}
template <class T>
T value(absl::StatusOr<T> v) {
  check(v.status());
  return *std::move(v);
}
[[noreturn]] void refuse(std::string why);        ///< an invalid argument
[[noreturn]] void unsupported(std::string what);  ///< what is not implemented

/// Whether the struct's writer knew a field; a caller built against another version of the API may have shorter ones.
#define XLA_CPU_HAS(args, field) \
  ((args).struct_size >= offsetof(std::decay_t<decltype(args)>, field) + sizeof(decltype((args).field)))

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
inline void give(absl::string_view s, const char*& data, std::size_t& size) {
  data = s.data();
  size = s.size();
}
inline absl::string_view view(const char* data, std::size_t size) {
  return size == 0 ? absl::string_view() : absl::string_view(data, size);
}

}  // namespace xla_cpu
