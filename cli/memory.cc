// SPDX-License-Identifier: Apache-2.0
// The replaceable `operator new` and `operator delete`. mimalloc's end the process where memory is out; these throw.
#include "memory.h"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace {

// Threads count by themselves and add their sums in steps of this size, so that counting costs no shared write.
constexpr std::int64_t kStep = 64 << 10;

std::atomic<std::int64_t> held{0};
std::atomic<std::int64_t> bound{INT64_MAX};
// Of the last request that failed: its bytes, and what was held then.
std::atomic<std::uint64_t> refused{0};
std::atomic<std::int64_t> held_then{0};
thread_local std::int64_t pending = 0;

bool take(std::int64_t n) noexcept {
  pending += n;
  if (pending < kStep) return true;
  std::int64_t before = held.fetch_add(pending, std::memory_order_relaxed);
  if (before + pending <= bound.load(std::memory_order_relaxed)) {
    pending = 0;
    return true;
  }
  held.fetch_sub(pending, std::memory_order_relaxed);
  pending -= n;
  return false;
}

void give(std::int64_t n) noexcept {
  pending -= n;
  if (pending > -kStep) return;
  held.fetch_add(pending, std::memory_order_relaxed);
  pending = 0;
}

bool fits(std::size_t n) noexcept {
  std::int64_t most = bound.load(std::memory_order_relaxed);
  return n < static_cast<std::size_t>(kStep) ||
         (n <= static_cast<std::size_t>(most) &&
          held.load(std::memory_order_relaxed) <= most - static_cast<std::int64_t>(n));
}

void* allocate(std::size_t n, std::size_t alignment) noexcept {
  void* p = nullptr;
  if (fits(n)) {
    if (alignment <= alignof(std::max_align_t)) {
      p = std::malloc(std::max<std::size_t>(n, 1));
    } else if (posix_memalign(&p, alignment, n) != 0) {
      p = nullptr;
    }
  }
  if (p != nullptr && take(static_cast<std::int64_t>(malloc_usable_size(p)))) return p;
  std::free(p);
  refused.store(n, std::memory_order_relaxed);
  held_then.store(held.load(std::memory_order_relaxed) + pending, std::memory_order_relaxed);
  return nullptr;
}

void* allocate_or_throw(std::size_t n, std::size_t alignment) {
  void* p = allocate(n, alignment);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}

void release(void* p) noexcept {
  if (p == nullptr) return;
  give(static_cast<std::int64_t>(malloc_usable_size(p)));
  std::free(p);
}

constexpr std::size_t kAny = alignof(std::max_align_t);

}  // namespace

void* operator new(std::size_t n) { return allocate_or_throw(n, kAny); }
void* operator new[](std::size_t n) { return allocate_or_throw(n, kAny); }
void* operator new(std::size_t n, const std::nothrow_t&) noexcept { return allocate(n, kAny); }
void* operator new[](std::size_t n, const std::nothrow_t&) noexcept { return allocate(n, kAny); }
void* operator new(std::size_t n, std::align_val_t a) { return allocate_or_throw(n, static_cast<std::size_t>(a)); }
void* operator new[](std::size_t n, std::align_val_t a) { return allocate_or_throw(n, static_cast<std::size_t>(a)); }
void* operator new(std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return allocate(n, static_cast<std::size_t>(a));
}
void* operator new[](std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return allocate(n, static_cast<std::size_t>(a));
}
void operator delete(void* p) noexcept { release(p); }
void operator delete[](void* p) noexcept { release(p); }
void operator delete(void* p, std::size_t) noexcept { release(p); }
void operator delete[](void* p, std::size_t) noexcept { release(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { release(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { release(p); }
void operator delete(void* p, std::align_val_t) noexcept { release(p); }
void operator delete[](void* p, std::align_val_t) noexcept { release(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { release(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { release(p); }
void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept { release(p); }
void operator delete[](void* p, std::align_val_t, const std::nothrow_t&) noexcept { release(p); }

namespace tessera::cli {

void bound_memory(std::int64_t bytes) { bound.store(bytes, std::memory_order_relaxed); }

std::string out_of_memory_message() {
  std::string text = "out of memory: " + std::to_string(refused.load()) + " bytes asked for, " +
                     std::to_string(std::max<std::int64_t>(held_then.load(), 0)) + " bytes in use";
  std::int64_t most = bound.load();
  if (most != INT64_MAX) text += "; the bound is " + std::to_string(most) + " bytes (--max-memory)";
  return text;
}

}  // namespace tessera::cli
