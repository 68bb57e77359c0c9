// SPDX-License-Identifier: Apache-2.0
// Arrays whose devices hold addends: made of a value, and summed to one.
#pragma once

#include <cstdint>

#include "tessera/array.h"
#include "tessera/host_array.h"
#include "tessera/sharding.h"

namespace tessera::test {

/// An array of a buffer for each device, as a caller has them that keeps buffers by device: of whole or split values
/// every device has its own copy, of an unreduced one it has an addend; addends are integers that depend on `seed` and
/// sum to `value`, whose elements are integers.
Array from_device_buffers(const HostArray& value, const ShardingPtr& sharding, std::int64_t seed);

/// The value of an array by its shards alone: addends are summed, and replicas of each must be equal, which is checked.
HostArray value_of_shards(const Array& a);

}  // namespace tessera::test
