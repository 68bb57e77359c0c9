// SPDX-License-Identifier: Apache-2.0
// Memory that machine code runs in. It is written first and executable afterwards, never both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace tessera::kernels {

class CodeMemory {
 public:
  /// A copy of the code in pages that may be executed and no longer written; null where the system refuses them.
  static std::unique_ptr<const CodeMemory> make(std::span<const std::uint8_t> code);
  ~CodeMemory();
  CodeMemory(const CodeMemory&) = delete;
  CodeMemory& operator=(const CodeMemory&) = delete;

  const void* start() const { return start_; }

 private:
  CodeMemory(void* start, std::size_t size) : start_(start), size_(size) {}
  void* start_;
  std::size_t size_;
};

}  // namespace tessera::kernels
