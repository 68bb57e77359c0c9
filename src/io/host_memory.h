// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "tessera/array.h"
#include "tessera/dtype.h"
#include "tessera/shape.h"

namespace tessera::io {

/// Elements on the host, row-major.
struct HostMemory {
  DType dtype;
  Shape shape;
  std::shared_ptr<void> owner;
  void* data = nullptr;
};

/// The one shard of an array in the host's memory: the array's own where that is the host's, or with `copy` memory that
/// nobody else has. Waits for the values. Throws `ValueError` naming `function` and `argument` for an array of several
/// shards, `ConcretizationError`, `DeletedArrayError` and `NotAddressableError`.
HostMemory whole_on_host(const char* function, const char* argument, const Array& x, bool copy);

}  // namespace tessera::io
