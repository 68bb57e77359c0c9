// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera {

/// A place in a shape, as the index of its vector.
inline std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace tessera
