// SPDX-License-Identifier: Apache-2.0
// The tensor of DLPack 1.x, which Debian's header (0.6) lacks. Its fields are fixed by the protocol.
#pragma once

#include <dlpack/dlpack.h>

#include <cstdint>

// DLPACK_VERSION counts 0.6 as 60; from 1.0 on there is DLPACK_MAJOR_VERSION.
#ifndef DLPACK_MAJOR_VERSION
struct DLPackVersion {
  std::uint32_t major;
  std::uint32_t minor;
};
struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);
  std::uint64_t flags;
  DLTensor dl_tensor;
};
#endif

namespace tessera::io {

inline constexpr std::uint32_t kDlpackMajor = 1;
inline constexpr std::uint32_t kDlpackMinor = 0;
inline constexpr std::uint64_t kDlpackReadOnly = 1U << 0U;
inline constexpr std::uint64_t kDlpackIsCopied = 1U << 1U;
/// Of a bool of one byte, since DLPack 0.8.
inline constexpr std::uint8_t kDlpackBool = 6;

}  // namespace tessera::io
