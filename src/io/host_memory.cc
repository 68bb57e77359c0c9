// SPDX-License-Identifier: Apache-2.0
#include "io/host_memory.h"

#include <cstring>

#include "array/array_impl.h"
#include "base/strings.h"
#include "tessera/error.h"
#include "tessera/host_array.h"

namespace tessera::io {

HostMemory whole_on_host(const char* function, const char* argument, const Array& given, bool copy) {
  arrays::checked(given, function, argument);
  const Array x = arrays::without_digits(arrays::materialize(given));
  const arrays::StoragePtr storage = arrays::storage_of(x, function);
  const arrays::ArrayImpl& impl = *x.impl();
  if (impl.placement->num_tiles != 1) {
    throw ValueError(str(function, ": ", argument, " has shape ", x.shape(), " in ", impl.placement->num_tiles,
                         " shards; expected one that its devices hold whole: take addressable_shards()[i].value(), or "
                         "the gathered value, ",
                         argument, ".host()"));
  }
  storage->wait_for_values();
  const arrays::HostShards shards(*storage, impl.placement->devices->client);
  runtime::BufferPtr buffer;
  for (const auto& b : shards.list()) {
    if (b && !buffer) buffer = b;
  }
  if (!buffer) throw NotAddressableError(str(function, ": no device of this process holds ", argument));
  if (!copy) return {x.dtype(), x.shape(), buffer, buffer->data()};
  HostArray own(x.dtype(), x.shape());
  if (own.nbytes() > 0) std::memcpy(own.data(), buffer->data(), static_cast<std::size_t>(own.nbytes()));
  return {x.dtype(), x.shape(), own.storage(), own.data()};
}

}  // namespace tessera::io
