// SPDX-License-Identifier: Apache-2.0
// Ways to make a global array that skip what the caller already knows.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "sharding/placement.h"
#include "tessera/array.h"
#include "tessera/sharding.h"

namespace tessera::arrays {

/// Says that the caller vouches for the buffers.
struct unchecked_t {};
inline constexpr unchecked_t unchecked;

/// What a caller that made the buffers holds already.
struct FastPath {
  std::shared_ptr<const sharding::Placement> places;
  std::span<const Device> local_devices;
};

/// One buffer a local device, in mesh order; checked.
Array build_global(const Shape& shape, const NamedSharding& sharding, const FastPath& path,
                   std::span<const Array> buffers, std::optional<DType> dtype);
/// Checked only while `enable_checks()`.
Array build_global(unchecked_t, const Shape& shape, const NamedSharding& sharding, const FastPath& path,
                   std::span<const Array> buffers, std::optional<DType> dtype);

}  // namespace tessera::arrays
