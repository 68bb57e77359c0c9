// SPDX-License-Identifier: Apache-2.0
// Plain C functions through which tests/interop/check_dlpack.py gives tensors of Python libraries to Tessera and takes
// them back.
#include <exception>
#include <string>

#include "tessera/dlpack.h"
#include "tessera/tessera.h"

namespace {
thread_local std::string error;

template <class F>
auto guarded(const F& f) noexcept -> decltype(f()) {
  error.clear();
  try {
    return f();
  } catch (const std::exception& e) {
    error = e.what();
    return {};
  }
}
}  // namespace

extern "C" {
/// What the last call on this thread has thrown; empty where it has not.
const char* dlpack_error() { return error.c_str(); }

/// The same elements given back: shared where they can be, or always copied.
DLManagedTensor* dlpack_through(DLManagedTensor* tensor, int copy) {
  return guarded([&] {
    return tessera::to_dlpack(tessera::from_dlpack(tensor, copy != 0 ? std::optional<bool>(true) : std::nullopt));
  });
}

/// The same by the tensor of DLPack 1.x.
DLManagedTensorVersioned* dlpack_through_versioned(DLManagedTensorVersioned* tensor, int copy) {
  return guarded([&] {
    return tessera::to_dlpack_versioned(
        tessera::from_dlpack(tensor, copy != 0 ? std::optional<bool>(true) : std::nullopt));
  });
}

/// The sum of the elements, over eight devices where the first dimension divides by eight.
double dlpack_sum(DLManagedTensor* tensor, int split) {
  return guarded([&] {
    tessera::ClientScope eight(tessera::Client::cpu({.devices = 8}));
    auto mesh = tessera::make_mesh({8}, {"x"});
    const tessera::P spec = split != 0 ? tessera::P("x") : tessera::P();
    tessera::Array x = tessera::from_dlpack(tensor, tessera::NamedSharding(mesh, spec).share());
    return tessera::sum(tessera::astype(x, tessera::float64)).item<double>();
  });
}
}
