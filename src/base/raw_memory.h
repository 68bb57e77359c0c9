// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace tessera::base {

using RawMemory = std::unique_ptr<std::byte[]>;

/// `n` bytes that are not set to zeros, as a vector's are.
inline RawMemory raw_memory(std::int64_t n) { return RawMemory(new std::byte[static_cast<std::size_t>(n)]); }

}  // namespace tessera::base
