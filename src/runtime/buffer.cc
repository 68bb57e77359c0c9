// SPDX-License-Identifier: Apache-2.0
#include "runtime/buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <exception>
#include <map>
#include <mutex>
#include <new>
#include <utility>

#include "base/machine.h"
#include "base/strings.h"
#include "base/verify_mode.h"
#include "tessera/error.h"

namespace tessera::runtime {

Buffer::Buffer(std::shared_ptr<void> storage, std::int64_t nbytes)
    : storage_(std::move(storage)), data_(storage_.get()), nbytes_(nbytes) {}

Buffer::Buffer(MemoryPool& pool, void* data, std::int64_t nbytes, std::int64_t capacity)
    : pool_(&pool), data_(data), nbytes_(nbytes), capacity_(capacity) {}

Buffer::Buffer(Elsewhere elsewhere, std::int64_t nbytes) : elsewhere_(std::move(elsewhere.memory)), nbytes_(nbytes) {}

Buffer::~Buffer() {
  MemoryPool::Block block{data_, nbytes_, capacity_};
  if (pool_) pool_->release({&block, 1});
}

bool all_on_host(std::span<const BufferPtr> shards) {
  return std::none_of(shards.begin(), shards.end(), [](const BufferPtr& b) { return b && b->elsewhere() != nullptr; });
}

std::vector<BufferPtr> on_host(std::span<const BufferPtr> shards, MemoryPool& pool) {
  std::vector<BufferPtr> out(shards.begin(), shards.end());
  std::vector<EventPtr> copies;
  copies.reserve(shards.size());
  std::exception_ptr error;
  auto keep = [&](const auto& step) {
    try {
      step();
    } catch (...) {
      if (!error) error = std::current_exception();
    }
  };
  std::map<const DeviceMemory*, BufferPtr> known;  // devices may share memory as they share the host's
  for (std::size_t i = 0; i < out.size() && !error; ++i) {
    const DeviceMemory* from = out[i] ? out[i]->elsewhere() : nullptr;
    if (from == nullptr) continue;
    keep([&] {
      BufferPtr& copy = known[from];
      if (!copy) {
        copy = pool.allocate(out[i]->nbytes());
        copies.push_back(from->copy_to_host(copy->data()));
      }
      out[i] = copy;
    });
  }
  // Also after an error: memory that is being written must not go back to the pool.
  for (const auto& c : copies) keep([&] { c->wait(); });
  if (error) std::rethrow_exception(error);
  return out;
}

void release(std::span<BufferPtr> shards) noexcept {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): `count` of them are set
  std::array<MemoryPool::Block, MemoryPool::kAtOnce> blocks;
  std::size_t count = 0;
  MemoryPool* pool = nullptr;
  auto flush = [&] {
    if (count > 0) pool->release({blocks.data(), count});
    count = 0;
  };
  for (auto& shard : shards) {
    // The only handle is here, so that nobody can make another. Its end orders what others did with the memory before
    // what the next owner does.
    if (shard.use_count() == 1 && shard->pool_ != nullptr) {
      if (shard->pool_ != pool || count == blocks.size()) flush();
      pool = std::exchange(shard->pool_, nullptr);
      blocks[count++] = {shard->data_, shard->nbytes_, shard->capacity_};
    }
    shard.reset();
  }
  flush();
}

namespace {

constexpr std::int64_t kAlignment = 64;
constexpr std::int64_t kHugePage = std::int64_t{2} << 20;
// Sizes near the end of the address space would be rounded to nonsense, and their sums too.
constexpr std::int64_t kMostBytes = std::int64_t{1} << 46;

// Four classes an octave: at most a quarter of a block is waste, and a freed block fits requests of nearly its size.
struct SizeClass {
  std::size_t number;
  std::int64_t capacity;
};
SizeClass size_class(std::int64_t nbytes) {
  auto units = static_cast<std::uint64_t>((std::max<std::int64_t>(nbytes, 1) + kAlignment - 1) / kAlignment);
  if (units <= 4) return {static_cast<std::size_t>(units), static_cast<std::int64_t>(units) * kAlignment};
  int octave = std::bit_width(units - 1) - 1;  // 2^octave < units <= 2^(octave + 1)
  std::uint64_t quarter = (std::uint64_t{1} << octave) / 4;
  std::uint64_t step = (units - (std::uint64_t{1} << octave) + quarter - 1) / quarter;  // 1..4
  return {static_cast<std::size_t>(octave) * 4 + step, static_cast<std::int64_t>((4 + step) * quarter) * kAlignment};
}

std::int64_t capacity_of(std::size_t number) {
  auto n = static_cast<std::int64_t>(number);
  if (n <= 4) return n * kAlignment;
  return (4 + (n - 1) % 4 + 1) * ((std::int64_t{1} << (n - 1) / 4) / 4) * kAlignment;
}

// Blocks come through `new`, so that a program that counts or bounds its memory there sees them too.
std::align_val_t alignment_of(std::int64_t capacity) {
  return std::align_val_t{static_cast<std::size_t>(capacity >= kHugePage ? kHugePage : kAlignment)};
}
void* new_block(std::int64_t capacity) noexcept {
  return ::operator new(static_cast<std::size_t>(capacity), alignment_of(capacity), std::nothrow);
}
void free_block(void* block, std::int64_t capacity) noexcept { ::operator delete(block, alignment_of(capacity)); }

// A bound on buffers is mostly a bound on the whole program: what lies idle must leave room for the rest.
std::int64_t default_cache_bound(std::int64_t limit) {
  auto bound = std::max<std::int64_t>(base::machine_memory() / 4, std::int64_t{64} << 20);
  return limit > 0 ? std::min(bound, limit / 8) : bound;
}

// Memory of Buffer objects themselves: kept by each thread, for the C library slows down after a handful of equal
// sizes.
struct FreeNodes {
  static constexpr std::size_t kMost = 4096;
  std::array<void*, kMost> nodes;
  std::size_t count = 0;
  ~FreeNodes() {
    while (count > 0) ::operator delete(nodes[--count]);
    gone = true;
  }
  static thread_local bool gone;  // objects may outlive this thread's list
};
thread_local bool FreeNodes::gone = false;

template <class T>
struct NodeAllocator {
  using value_type = T;
  NodeAllocator() = default;
  template <class U>
  explicit NodeAllocator(const NodeAllocator<U>&) {}
  static FreeNodes& list() {
    static thread_local FreeNodes free;
    return free;
  }
  T* allocate(std::size_t n) {
    if (n == 1 && !FreeNodes::gone) {
      FreeNodes& free = list();
      if (free.count > 0) return static_cast<T*>(free.nodes[--free.count]);
    }
    return static_cast<T*>(::operator new(n * sizeof(T)));
  }
  void deallocate(T* p, std::size_t n) noexcept {
    if (n == 1 && !FreeNodes::gone) {
      FreeNodes& free = list();
      if (free.count < FreeNodes::kMost) {
        free.nodes[free.count++] = p;
        return;
      }
    }
    ::operator delete(p);
  }
  template <class U>
  bool operator==(const NodeAllocator<U>&) const {
    return true;
  }
};

class Pool final : public MemoryPool {
 public:
  Pool(std::int64_t limit, std::int64_t cache_bound)
      : limit_(limit), cache_bound_(cache_bound < 0 ? default_cache_bound(limit) : cache_bound) {}
  ~Pool() override { trim(); }

  void allocate(std::int64_t nbytes, std::span<BufferPtr> into) override {
    // More than there is may be promised all the same, and ends the process where it is used.
    static const std::int64_t most = std::min(kMostBytes - 1, base::machine_memory());
    if (nbytes < 0 || nbytes > most) exhausted(nbytes, stats().bytes_in_use);
    SizeClass c = size_class(nbytes);
    for (std::size_t from = 0; from < into.size(); from += kAtOnce) {
      allocate_some(nbytes, c, into.subspan(from, std::min(kAtOnce, into.size() - from)));
    }
  }

  Stats stats() const override {
    std::lock_guard lock(mutex_);
    return stats_;
  }

 private:
  // Blocks that are counted and not yet in a buffer's hands.
  struct Taken {
    Pool& pool;
    std::int64_t nbytes;
    std::array<void*, kAtOnce> blocks;  // NOLINT(cppcoreguidelines-pro-type-member-init): `count` of them are set
    int count = 0;
    Taken(Pool& p, std::int64_t n) : pool(p), nbytes(n) {}
    Taken(const Taken&) = delete;
    Taken& operator=(const Taken&) = delete;
    ~Taken() {
      if (count == 0) return;
      auto capacity = size_class(nbytes).capacity;
      for (int i = 0; i < count; ++i) free_block(blocks[static_cast<std::size_t>(i)], capacity);
      std::shared_ptr<MemoryPool> last;  // may end the pool
      std::lock_guard lock(pool.mutex_);
      pool.account(-nbytes * count, -count);
      if (pool.stats_.live_buffers == 0) last = std::move(pool.self_);
    }
  };

  void allocate_some(std::int64_t nbytes, const SizeClass& c, std::span<BufferPtr> into) {
    Taken taken(*this, nbytes);
    const bool verifying = base::verifying();
    {
      std::lock_guard lock(mutex_);
      auto& free = free_[c.number];
      for (const auto& b : into) {
        if (b) continue;
        if (limit_ > 0 && stats_.bytes_in_use + nbytes > limit_) exhausted(nbytes, stats_.bytes_in_use);
        if (stats_.live_buffers == 0) self_ = shared_from_this();
        account(nbytes, 1);
        void*& block = taken.blocks[static_cast<std::size_t>(taken.count++)];
        block = nullptr;
        if (free.empty()) continue;
        block = free.back();
        free.pop_back();
        stats_.cached_bytes -= c.capacity;
      }
    }
    for (auto& b : into) {
      if (b) continue;
      void*& block = taken.blocks[static_cast<std::size_t>(taken.count - 1)];
      if (block == nullptr) block = system_block(c.capacity, nbytes);
      if (verifying) base::poison(block, static_cast<std::size_t>(c.capacity));
      b = std::allocate_shared<Buffer>(NodeAllocator<Buffer>(), *this, block, nbytes, c.capacity);
      --taken.count;
    }
  }

  void account(std::int64_t nbytes, int buffers) {
    stats_.bytes_in_use += nbytes;
    stats_.live_buffers += buffers;
    stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.bytes_in_use);
  }

  [[noreturn]] void exhausted(std::int64_t nbytes, std::int64_t in_use) const {
    throw ResourceExhaustedError(str("allocate: ", nbytes, " bytes asked for, ", in_use, " bytes in use; the limit is ",
                                     limit_ > 0 ? str(limit_, " bytes") : std::string("the machine's memory")));
  }

  void* system_block(std::int64_t capacity, std::int64_t nbytes) {
    void* block = new_block(capacity);
    if (block == nullptr) {
      trim();
      block = new_block(capacity);
    }
    if (block == nullptr) {
      throw ResourceExhaustedError(
          str("allocate: ", nbytes, " bytes asked for, ", stats().bytes_in_use - nbytes,
              " bytes of buffers in use; the machine, or a bound of the process, gives no more"));
    }
    if (capacity >= kHugePage) madvise(block, static_cast<std::size_t>(capacity), MADV_HUGEPAGE);
    return block;
  }

  void trim() {
    std::lock_guard lock(mutex_);
    for (std::size_t number = 0; number < free_.size(); ++number) {
      for (void* b : free_[number]) free_block(b, capacity_of(number));
      free_[number].clear();
    }
    stats_.cached_bytes = 0;
  }

  void release(std::span<const Block> blocks) noexcept override {
    std::array<Block, kAtOnce> surplus;  // NOLINT(cppcoreguidelines-pro-type-member-init): `count` of them are set
    std::size_t count = 0;
    // Handles that are still used would read this.
    if (base::verifying()) {
      for (const Block& b : blocks) base::poison(b.data, static_cast<std::size_t>(b.capacity));
    }
    {
      std::shared_ptr<MemoryPool> last;  // may end this object
      std::lock_guard lock(mutex_);
      for (const Block& b : blocks) {
        account(-b.nbytes, -1);
        if (stats_.cached_bytes + b.capacity <= cache_bound_ && keep(size_class(b.capacity).number, b.data)) {
          stats_.cached_bytes += b.capacity;
        } else {
          surplus[count++] = b;
        }
      }
      if (stats_.live_buffers == 0) last = std::move(self_);
    }
    while (count > 0) {
      const Block& b = surplus[--count];
      free_block(b.data, b.capacity);
    }
  }
  bool keep(std::size_t number, void* data) noexcept {
    try {
      free_[number].push_back(data);
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

  const std::int64_t limit_;
  const std::int64_t cache_bound_;
  mutable std::mutex mutex_;
  Stats stats_;
  std::shared_ptr<MemoryPool> self_;  // while blocks are in use: buffers do not count references one by one
  std::array<std::vector<void*>, 256> free_;
};

}  // namespace

std::shared_ptr<MemoryPool> MemoryPool::create(std::int64_t limit, std::int64_t cache_bound) {
  return std::make_shared<Pool>(limit, cache_bound);
}

}  // namespace tessera::runtime
