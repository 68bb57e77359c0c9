// SPDX-License-Identifier: Apache-2.0
// A loaded PJRT plugin: its table of entries, and its errors as exceptions.
#pragma once

#include <cstddef>
#include <exception>
#include <memory>
#include <string>

#include "runtime/event.h"
#include "xla/pjrt/c/pjrt_c_api.h"

namespace tessera::pjrt_engine {

/// Arguments of an entry, zeroed, with their size.
template <class Args>
Args sized() {
  Args args{};
  args.struct_size = sizeof(Args);
  return args;
}

class Api {
 public:
  /// The plugin at this path, initialized; one object for a path, which stays until the program ends. Throws
  /// `StateError` where there is no such library, it is no plugin, or its API has another version.
  static const Api& load(const std::string& path);

  const std::string& path() const { return path_; }
  /// "0.115".
  std::string version() const;

  /// An entry's function. Throws `UnimplementedError` naming an entry that the plugin lacks.
  template <class F>
  F entry(F PJRT_Api::*field, const char* name) const {
    if (!has(field)) lacks(name);
    return table_->*field;
  }
  template <class F>
  bool has(F PJRT_Api::*field) const {
    const auto* at = reinterpret_cast<const char*>(&(table_->*field));
    const auto offset = static_cast<std::size_t>(at - reinterpret_cast<const char*>(table_));
    return offset + sizeof(F) <= table_->struct_size && table_->*field != nullptr;
  }

  /// The extension of this type, null where the plugin has none; it begins with a `PJRT_Extension_Base`.
  const PJRT_Extension_Base* extension(PJRT_Extension_Type type) const;

  /// Throws what an entry gives for an error: `ResourceExhaustedError` for memory, `UnimplementedError`, `ValueError`
  /// for arguments that it refuses, else `StateError`; `doing` says what it was to do.
  void check(PJRT_Error* error, const char* doing) const;
  /// The same as an exception to be kept; null for none.
  std::exception_ptr exception(PJRT_Error* error, const char* doing) const noexcept;
  /// An event of the plugin, which is given away: ready when that is, with its error.
  runtime::EventPtr event(PJRT_Event* event, const char* doing) const;

 private:
  Api(std::string path, const PJRT_Api* table) : path_(std::move(path)), table_(table) {}
  [[noreturn]] void lacks(const char* name) const;
  [[noreturn]] void raise(PJRT_Error* error, const char* doing) const;

  std::string path_;
  const PJRT_Api* table_;
};

/// Calls an entry: `PJRT_CALL(api, PJRT_Client_Devices, args, "list devices")`.
#define PJRT_CALL(api, name, args, doing) (api).check((api).entry(&PJRT_Api::name, #name)(&(args)), doing)

/// The path that a name means: of plugins that are installed as Python packages, "cuda" and the like; a path is itself.
/// Throws `StateError` naming the places where it was looked for.
std::string plugin_path(const std::string& plugin);

}  // namespace tessera::pjrt_engine
