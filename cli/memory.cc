// SPDX-License-Identifier: Apache-2.0
// The replaceable `operator new` and `operator delete`, and with mimalloc the C functions too, so that the workspaces
// of C libraries count. mimalloc's own `new` ends the process where memory is out; these throw.
#include "memory.h"

#include <errno.h>
#ifdef TESSERA_MIMALLOC
#include <mimalloc.h>
#include <sys/mman.h>
#include <unistd.h>
#else
#include <malloc.h>
#endif

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace {

#ifdef TESSERA_MIMALLOC
void* raw_allocate(std::size_t n) noexcept { return mi_malloc(n); }
void* raw_allocate(std::size_t n, std::size_t alignment) noexcept { return mi_malloc_aligned(n, alignment); }
void raw_free(void* p) noexcept { mi_free(p); }
std::size_t usable_size(void* p) noexcept { return mi_usable_size(p); }
#else
void* raw_allocate(std::size_t n) noexcept { return std::malloc(n); }
void* raw_allocate(std::size_t n, std::size_t alignment) noexcept {
  void* p = nullptr;
  return posix_memalign(&p, alignment, n) == 0 ? p : nullptr;
}
void raw_free(void* p) noexcept { std::free(p); }
std::size_t usable_size(void* p) noexcept { return malloc_usable_size(p); }
#endif

// Threads count by themselves and add their sums in steps of this size, so that counting costs no shared write.
constexpr std::int64_t kStep = 64 << 10;

std::atomic<std::int64_t> held{0};
std::atomic<std::int64_t> bound{INT64_MAX};
std::atomic<bool> counting{false};  // from the bound on: who sets none need not pay for the count
// Of the last request that failed: its bytes, and what was held then.
std::atomic<std::uint64_t> refused{0};
std::atomic<std::int64_t> held_then{0};
std::atomic<bool> bound_reached{false};  // or else the system gave no more
thread_local std::int64_t pending = 0;

bool counts() noexcept { return counting.load(std::memory_order_relaxed); }

// Adds a block; false where that is beyond the bound.
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

constexpr std::size_t kAny = alignof(std::max_align_t);

void* refuse(std::size_t n, bool by_bound) noexcept {
  bound_reached.store(by_bound, std::memory_order_relaxed);
  refused.store(n, std::memory_order_relaxed);
  held_then.store(held.load(std::memory_order_relaxed) + pending, std::memory_order_relaxed);
  errno = ENOMEM;
  return nullptr;
}

// A block that was given, once it is counted.
void* counted(void* p, std::size_t n) noexcept {
  if (p == nullptr) return refuse(n, false);
  if (!counts() || take(static_cast<std::int64_t>(usable_size(p)))) return p;
  raw_free(p);
  return refuse(n, true);
}

[[gnu::noinline]] void* allocate_counted(std::size_t n, std::size_t alignment) noexcept {
  if (!fits(n)) return refuse(n, true);
  std::size_t some = std::max<std::size_t>(n, 1);
  return counted(alignment <= kAny ? raw_allocate(some) : raw_allocate(some, alignment), n);
}

// Without a bound nothing stands between the caller and the allocator: a short call of the library allocates some
// sixteen times.
inline void* allocate(std::size_t n) noexcept {
  if (!counts()) {
    void* p = raw_allocate(n);
    if (p != nullptr) return p;
  }
  return allocate_counted(n, kAny);
}
void* allocate(std::size_t n, std::size_t alignment) noexcept { return allocate_counted(n, alignment); }

inline void* or_throw(void* p) {
  if (p == nullptr) throw std::bad_alloc();
  return p;
}

[[gnu::noinline]] void release_counted(void* p) noexcept {
  if (p != nullptr) give(static_cast<std::int64_t>(usable_size(p)));
  raw_free(p);
}

inline void release(void* p) noexcept {
  if (counts()) return release_counted(p);
  raw_free(p);
}

}  // namespace

#ifdef TESSERA_MIMALLOC
namespace {
// mimalloc crashes where its first segment of 32 MB finds no room, and libraries ask for memory before main. Whoever
// has no more than that could do nothing with it.
void check_room(int /*argc*/, char** /*argv*/, char** /*environment*/) {
  constexpr std::size_t kFirst = 36 << 20;
  void* p = mmap(nullptr, kFirst, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p != MAP_FAILED) {
    munmap(p, kFirst);
    return;
  }
  constexpr char kText[] =
      "tessera: out of memory: 36 MB to begin with; the machine, or a limit of the shell, gives no more\n";
  [[maybe_unused]] const auto written = write(STDERR_FILENO, kText, sizeof(kText) - 1);
  _exit(1);
}
// Before the constructors of libraries.
[[gnu::used, gnu::section(".preinit_array")]] void (*const room_is_checked)(int, char**, char**) = check_room;
}  // namespace

extern "C" {
void* malloc(std::size_t n) noexcept { return allocate(n); }
void free(void* p) noexcept { release(p); }
void* calloc(std::size_t count, std::size_t size) noexcept {
  std::size_t n = 0;
  if (__builtin_mul_overflow(count, size, &n) || !fits(n)) return refuse(n, true);
  return counted(mi_calloc(count, size), n);
}
void* realloc(void* p, std::size_t n) noexcept {
  if (p == nullptr) return allocate(n);
  auto before = counts() ? static_cast<std::int64_t>(usable_size(p)) : 0;
  if (!fits(n)) return refuse(n, true);
  void* q = mi_realloc(p, n);
  if (q == nullptr) return refuse(n, false);
  if (counts())
    pending += static_cast<std::int64_t>(usable_size(q)) - before;  // the next request is the one to be refused
  return q;
}
int posix_memalign(void** p, std::size_t alignment, std::size_t n) noexcept {
  if (alignment < sizeof(void*) || (alignment & (alignment - 1)) != 0) return EINVAL;
  int before = errno;
  void* q = allocate(n, alignment);
  errno = before;
  if (q == nullptr) return ENOMEM;
  *p = q;
  return 0;
}
void* aligned_alloc(std::size_t alignment, std::size_t n) noexcept { return allocate(n, alignment); }
void* memalign(std::size_t alignment, std::size_t n) noexcept { return allocate(n, alignment); }
}
#endif

void* operator new(std::size_t n) { return or_throw(allocate(n)); }
void* operator new[](std::size_t n) { return or_throw(allocate(n)); }
void* operator new(std::size_t n, const std::nothrow_t&) noexcept { return allocate(n); }
void* operator new[](std::size_t n, const std::nothrow_t&) noexcept { return allocate(n); }
void* operator new(std::size_t n, std::align_val_t a) { return or_throw(allocate(n, static_cast<std::size_t>(a))); }
void* operator new[](std::size_t n, std::align_val_t a) { return or_throw(allocate(n, static_cast<std::size_t>(a))); }
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

void bound_memory(std::int64_t bytes) {
  bound.store(bytes, std::memory_order_relaxed);
  counting.store(true, std::memory_order_relaxed);
}

std::string out_of_memory_message() {
  std::string text = "out of memory: " + std::to_string(refused.load()) + " bytes asked for";
  if (counts()) text += ", " + std::to_string(std::max<std::int64_t>(held_then.load(), 0)) + " bytes in use";
  if (!bound_reached.load()) return text + "; the machine, or a limit of the shell, gives no more";
  return text + "; the bound is " + std::to_string(bound.load()) + " bytes (--max-memory)";
}

}  // namespace tessera::cli
