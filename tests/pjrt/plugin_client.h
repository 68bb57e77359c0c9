// SPDX-License-Identifier: Apache-2.0
// A small client of the PJRT C API for tests: it loads the plugin as JAX does, and knows nothing else of Tessera.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "xla/pjrt/c/pjrt_c_api.h"
#include "xla/pjrt/c/pjrt_c_api_shardings_extension.h"

namespace plugin {

const PJRT_Api& api();

struct Failure : std::runtime_error {
  Failure(PJRT_Error_Code with_code, const std::string& message) : std::runtime_error(message), code(with_code) {}
  PJRT_Error_Code code;
};
/// Throws what an entry gives for an error.
void check(PJRT_Error* error);

/// Arguments of an entry, zeroed, with their size.
template <class Args>
Args sized() {
  Args args{};
  args.struct_size = sizeof(Args);
  return args;
}
#define PLUGIN_CALL(name, args) ::plugin::check(::plugin::api().name(&(args)))

using Bytes = std::vector<std::uint8_t>;
template <class T>
Bytes bytes_of(const std::vector<T>& v) {
  const auto* begin = reinterpret_cast<const std::uint8_t*>(v.data());
  return {begin, begin + v.size() * sizeof(T)};
}
template <class T>
std::vector<T> values_of(const Bytes& b) {
  const auto* begin = reinterpret_cast<const T*>(b.data());
  return {begin, begin + b.size() / sizeof(T)};
}

struct DestroyBuffer {
  void operator()(PJRT_Buffer* b) const;
};
using Buffer = std::unique_ptr<PJRT_Buffer, DestroyBuffer>;
struct DestroyExecutable {
  void operator()(PJRT_LoadedExecutable* e) const;
};
using Executable = std::unique_ptr<PJRT_LoadedExecutable, DestroyExecutable>;

class Client {
 public:
  explicit Client(std::int64_t devices);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  PJRT_Client* get() const { return client_; }
  std::vector<PJRT_Device*> devices() const;
  Buffer put(const void* data, PJRT_Buffer_Type type, const std::vector<std::int64_t>& dims, std::size_t device,
             const std::vector<std::int64_t>& byte_strides = {}) const;
  Executable compile(const std::string& program, const std::string& options, const std::string& format = "mlir") const;

 private:
  PJRT_Client* client_ = nullptr;
};

/// Waits for the buffer's data.
Bytes bytes_in(PJRT_Buffer* b);
void* address_of(PJRT_Buffer* b);
bool is_deleted(PJRT_Buffer* b);
void await(PJRT_Event* e);
/// Results by device, then by their order. `arguments` likewise.
std::vector<std::vector<Buffer>> execute(PJRT_LoadedExecutable* e,
                                         const std::vector<std::vector<PJRT_Buffer*>>& arguments, std::size_t results,
                                         const std::vector<std::int64_t>& not_donated = {});
/// xla.CompileOptionsProto with counts and, where ids are given, the device assignment of one replica.
std::string compile_options(int partitions, const std::vector<int>& device_ids = {});

}  // namespace plugin
