// SPDX-License-Identifier: Apache-2.0
// Blocks of arrays in files, as shards.
#pragma once

#include <cstdint>
#include <functional>

#include "io/stored_array.h"
#include "tessera/array.h"

namespace tessera::io {

/// Gives `n` bytes from `offset` on.
using ReadBytes = std::function<void(std::uint64_t offset, std::uint64_t n, char* to)>;

/// The array under a sharding, committed: reads the runs of bytes of the shards that this process's devices hold, each
/// distinct one once. Throws as `device_put` for a sharding that does not fit.
Array read_shards(const char* function, const StoredArray& stored, const ShardingPtr& sharding, const ReadBytes& read);
/// The same of an array that had to be read whole.
Array placed(const char* function, const HostArray& value, const ShardingPtr& sharding);

}  // namespace tessera::io
