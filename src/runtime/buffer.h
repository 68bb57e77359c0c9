// SPDX-License-Identifier: Apache-2.0
// Memory of shards of arrays, on the host or elsewhere, and the pool that the host's comes from.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/event.h"

namespace tessera::runtime {

class MemoryPool;

/// Memory that the host has no address of: an accelerator's. An engine that computes there makes buffers of it.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  /// For messages: "cuda:0".
  virtual std::string place() const = 0;
  /// Waits until the computation that fills it has ended; throws its error.
  virtual void wait() const = 0;
  /// Copies all bytes to `to`; the copy is complete when the event is ready. Until then the caller keeps `to`, and
  /// somebody this memory.
  virtual EventPtr copy_to_host(void* to) const = 0;
};

/// One shard's memory, 64-byte aligned where it is the host's. Immutable once the computation that fills it has ended;
/// shared between all devices that hold equal values.
class Buffer {
 public:
  /// Memory that something else owns (host data given away, a constant).
  Buffer(std::shared_ptr<void> storage, std::int64_t nbytes);
  /// A block of a pool, which stays alive as long as its blocks are in use.
  Buffer(MemoryPool& pool, void* data, std::int64_t nbytes, std::int64_t capacity);
  struct Elsewhere {
    std::shared_ptr<DeviceMemory> memory;
  };
  Buffer(Elsewhere elsewhere, std::int64_t nbytes);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  /// The host's address; null where the memory is elsewhere (`on_host` copies it).
  void* data() const { return data_; }
  /// Null where the memory is the host's.
  DeviceMemory* elsewhere() const { return elsewhere_.get(); }
  std::int64_t nbytes() const { return nbytes_; }
  /// True when the memory belongs to this buffer alone: no view into another one, nobody else's data. Whoever holds the
  /// only handle to such a buffer may overwrite it.
  bool exclusive() const { return pool_ != nullptr; }

 private:
  friend void release(std::span<std::shared_ptr<Buffer>> shards) noexcept;
  std::shared_ptr<void> storage_;
  std::shared_ptr<DeviceMemory> elsewhere_;
  MemoryPool* pool_ = nullptr;
  void* data_ = nullptr;
  std::int64_t nbytes_ = 0;
  std::int64_t capacity_ = 0;
};
using BufferPtr = std::shared_ptr<Buffer>;

/// Shards for those who read them by address: the same handles where the memory is the host's, else copies in blocks of
/// `pool`, all of which are under way before the first is waited for. Throws what a copy throws.
std::vector<BufferPtr> on_host(std::span<const BufferPtr> shards, MemoryPool& pool);
/// Whether `on_host` has nothing to copy.
bool all_on_host(std::span<const BufferPtr> shards);

/// Empties the handles; blocks that nobody else holds go back to their pools in groups.
void release(std::span<BufferPtr> shards) noexcept;

/// Caches freed blocks for reuse; bounded; thread-safe.
class MemoryPool : public std::enable_shared_from_this<MemoryPool> {
 public:
  /// `limit` bytes in use at most; 0 = no bound of our own. `cache_bound` bytes of freed blocks are kept at most; -1 =
  /// a quarter of the machine's memory.
  static std::shared_ptr<MemoryPool> create(std::int64_t limit = 0, std::int64_t cache_bound = -1);
  virtual ~MemoryPool() = default;
  /// Uninitialised. Throws `ResourceExhaustedError` with the bytes asked for, in use, and the limit; frees cached
  /// blocks and tries again before it does.
  BufferPtr allocate(std::int64_t nbytes) {
    BufferPtr b;
    allocate(nbytes, {&b, 1});
    return b;
  }
  /// The same for every empty handle of `into`, at once.
  virtual void allocate(std::int64_t nbytes, std::span<BufferPtr> into) = 0;
  struct Stats {
    std::int64_t bytes_in_use = 0;
    std::int64_t peak_bytes = 0;
    std::int64_t cached_bytes = 0;
    std::int64_t live_buffers = 0;
  };
  virtual Stats stats() const = 0;

 protected:
  friend class Buffer;
  friend void release(std::span<BufferPtr> shards) noexcept;
  static constexpr std::size_t kAtOnce = 64;
  struct Block {
    void* data;
    std::int64_t nbytes, capacity;
  };
  /// At most `kAtOnce` blocks.
  virtual void release(std::span<const Block> blocks) noexcept = 0;
};

}  // namespace tessera::runtime
