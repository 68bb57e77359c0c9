// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/kernels/compiled/code_memory.h"

#include <sys/mman.h>

#include <cstring>

namespace tessera::kernels {

std::unique_ptr<const CodeMemory> CodeMemory::make(std::span<const std::uint8_t> code) {
  void* start = mmap(nullptr, code.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) return nullptr;
  std::unique_ptr<const CodeMemory> memory(new CodeMemory(start, code.size()));
  std::memcpy(start, code.data(), code.size());
  if (mprotect(start, code.size(), PROT_READ | PROT_EXEC) != 0) return nullptr;
  return memory;
}

CodeMemory::~CodeMemory() { munmap(start_, size_); }

}  // namespace tessera::kernels
