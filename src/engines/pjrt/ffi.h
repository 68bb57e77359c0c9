// SPDX-License-Identifier: Apache-2.0
// Functions of this process that a plugin's programs call by name: the FFI extension of the PJRT C API.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engines/pjrt/api.h"
#include "tessera/dtype.h"
#include "tessera/shape.h"
#include "xla/ffi/api/c_api.h"

namespace tessera::pjrt_engine {

/// An operand or a result of a call, in the host's memory.
struct FfiBuffer {
  DType dtype;
  Shape shape;
  void* data;
  std::int64_t nbytes() const { return size_of(shape) * dtype_size(dtype); }
};

/// One call, as a function reads it.
class FfiCall {
 public:
  explicit FfiCall(const XLA_FFI_CallFrame& frame);
  const std::vector<FfiBuffer>& args() const { return args_; }
  const std::vector<FfiBuffer>& results() const { return results_; }
  /// An integer among the call's attributes, or what it is where there is none of this name.
  std::int64_t integer(const std::string& name, std::int64_t otherwise) const;

 private:
  const XLA_FFI_CallFrame& frame_;
  std::vector<FfiBuffer> args_, results_;
};

/// What every handler does: tells its version where the plugin asks for it, runs `body`, and gives what that throws as
/// an error of the plugin.
XLA_FFI_Error* answer(XLA_FFI_CallFrame* frame, void (*body)(const FfiCall& call));

/// Whether programs of this plugin can call functions of this process on the host's memory: it has the extension, and
/// its devices are the host.
bool calls_host(const Api& api, const std::string& platform);
/// Registers the handlers of LAPACK's routines, by the names under which JAX's programs call them, and of functions of
/// the host (`host_calls.h`); once for a plugin.
void register_handlers(const Api& api);

/// Name and handler of LAPACK's routines: "lapack_sgeqrf_ffi".
struct NamedHandler {
  std::string name;
  XLA_FFI_Handler* handler;
};
std::vector<NamedHandler> lapack_handlers();

}  // namespace tessera::pjrt_engine
