// SPDX-License-Identifier: Apache-2.0
// What stands behind an Array.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "ir/builder.h"
#include "ir/type.h"
#include "ir/type_sharding.h"
#include "runtime/event.h"
#include "runtime/shard_set.h"
#include "sharding/placement.h"
#include "tessera/array.h"

namespace tessera::arrays {

/// Data of an array, filled by the computation that makes it. After `ready` the shards do not change.
struct Storage {
  runtime::ShardBuffers shard_buffers;  ///< by tile number when `replicas_equal`, else by device position
  runtime::EventPtr ready;              ///< null: ready from the start

  Storage() = default;
  ~Storage() { runtime::release(shard_buffers); }
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  /// For the list of shards, which is complete before all of them are computed where they are elsewhere.
  void wait() const {
    if (ready) ready->wait();
  }
  void wait_for_values() const {
    wait();
    for (const auto& shard : shard_buffers) {
      if (shard && shard->elsewhere() != nullptr) shard->elsewhere()->wait();
    }
  }
};
using StoragePtr = std::shared_ptr<Storage>;

/// The shards of a storage that is ready, for those who read them by address; copied where they are elsewhere.
class HostShards {
 public:
  HostShards(const Storage& storage, const Client& client);
  const runtime::ShardBuffers& list() const { return copied_.empty() ? own_ : copied_; }

 private:
  const runtime::ShardBuffers& own_;
  runtime::ShardBuffers copied_;
};

/// Whether a trace is still running, for those of its values that outlive it.
struct TraceLife {
  std::atomic<bool> running{true};
  std::thread::id thread = std::this_thread::get_id();
};
using TraceLifePtr = std::shared_ptr<const TraceLife>;
using ShardsPtr = std::shared_ptr<const std::vector<Shard>>;

struct ArrayImpl : std::enable_shared_from_this<ArrayImpl> {
  /// Weak floats have float64's digits (`has_digits`); what users see of them is `visible`.
  ir::Type type;

  // A concrete array.
  ShardingPtr sharding;
  std::shared_ptr<const sharding::Placement> placement;
  bool committed = false;
  bool replicas_equal = true;  ///< devices with the same tile share one buffer
  /// A scalar written in the program: no device yet.
  std::optional<HostArray> literal;
  StoragePtr storage;         ///< guarded by `mutex`; null once deleted
  bool without_data = false;  ///< made from a `ShapeDtype`; never has storage
  /// Guarded by `mutex`; of a donated array, where it went: "donated to step as argument 0".
  std::shared_ptr<const std::string> gone;

  // A value of a program that is being traced.
  std::uint64_t trace = 0;  ///< 0: not traced
  ir::ValueId value = -1;
  TraceLifePtr life;
  std::string_view op;  ///< that made it; empty for an argument
  Loc loc;

  // Made on first use, under `mutex`.
  mutable std::mutex mutex;
  mutable std::optional<HostArray> host;  ///< with all digits (`has_digits`)
  mutable ShardsPtr shards;
  mutable ShardsPtr all_shards;

  // Neighbours in the list of concrete arrays (`enlist`), under that list's lock.
  ArrayImpl* older = nullptr;
  ArrayImpl* newer = nullptr;
  bool enlisted = false;

  ArrayImpl();
  ~ArrayImpl();
  ArrayImpl(const ArrayImpl&) = delete;
  ArrayImpl& operator=(const ArrayImpl&) = delete;
};
using ImplPtr = std::shared_ptr<ArrayImpl>;

// A scalar of the program takes the dtype of the array that it meets, and float64 arrays meet all its digits, also
// where it passed through a traced function, a loop or a device before. So weak floats (and complex numbers) are
// computed and kept in 64 bits, as long as nothing with a dtype of its own takes part; users see them as float32.

/// Whether values of the type are computed wider than users see them.
inline bool has_digits(const ir::Type& t) { return t.weak && (t.dtype == DType::F64 || t.dtype == DType::C128); }
inline DType visible(DType dtype, bool weak) {
  return !weak ? dtype : dtype == DType::F64 ? DType::F32 : dtype == DType::C128 ? DType::C64 : dtype;
}
/// The type as users see it.
inline ir::Type visible(const ir::Type& t) { return {visible(t.dtype, t.weak), t.shape, t.weak, t.sharding}; }
inline DType with_digits(DType t) { return t == DType::F32 ? DType::F64 : t == DType::C64 ? DType::C128 : t; }

/// A literal under its dtype.
inline HostArray literal_value(const ArrayImpl& a) { return a.literal.value().astype(a.type.dtype); }

/// Throws `StateError` naming `function` and `argument` for an uninitialised array.
const ImplPtr& checked(const Array& a, const char* function, const char* argument = "array");
/// The data. Throws `DeletedArrayError`, and `ConcretizationError` for a traced array.
StoragePtr storage_of(const Array& a, const char* function);
/// Puts a literal on the default device (others stay); what runs and transfers work on.
Array materialize(const Array& a);
/// An array of the same type and placement without data (`tessera::without_data`); literals and tracers as they are.
Array like_without_data(const Array& a);
/// The same value in memory of the visible dtype, for those who read the memory themselves.
Array without_digits(const Array& a);

/// Throws `StateError` for an unreduced array: its devices hold addends, and nobody has the value.
void check_whole(const ArrayImpl& impl, const char* function);
/// Has a value and is not deleted; literals and traced values are always alive.
bool usable(const Array& a);
/// Null where there is none: of an uninitialised array, a literal, a traced value, and of one that was deleted.
StoragePtr data_of(const Array& a);
/// Throws `StateError` for an uninitialised array and `DeletedArrayError` for one that was deleted or donated, naming
/// `function`, the array as `who` ("operand 1") and, for a donated one, the call.
[[noreturn]] void throw_unusable(const Array& a, const char* function, const std::string& who);
/// Throws as `throw_unusable` unless the array is usable.
void check_live(const Array& a, const char* function);
/// Throws `UnexpectedTracerError` naming the op and the line that made a value of a trace that is over, or that runs on
/// another thread.
void check_trace(const Array& a, const char* function);
[[noreturn]] void throw_leaked(const Array& a, const char* function, const std::string& who);
/// Takes the data out of an array: from now on it is deleted, and `to` says why. Of several takers one gets it; the
/// others get null, as for an array that was deleted before.
StoragePtr donate(const Array& a, const std::shared_ptr<const std::string>& to) noexcept;
/// Gives back what `donate` took.
void undo_donation(const Array& a, StoragePtr storage) noexcept;
/// Makes arrays known to `live_arrays`.
void enlist(std::span<const Array> made);
/// A concrete array whose shards are (or will be, with `storage->ready`) there.
Array make(ir::Type type, ShardingPtr sharding, StoragePtr storage, bool committed, bool replicas_equal = true);
/// A value of the trace with this number, made by `op` at `loc`.
Array make_traced(ir::Type type, std::uint64_t trace, ir::ValueId value, TraceLifePtr life, std::string_view op,
                  const Loc& loc);

/// Places a host value: each process keeps its part; equal shards are one buffer. `adopt`: use the memory where one
/// shard is the whole (the caller gives it away).
Array place(const HostArray& value, const ShardingPtr& sharding, bool committed, bool adopt = false, bool weak = false);
/// A concrete array under another sharding of the same or other devices.
Array reshard(const Array& a, const ShardingPtr& sharding, bool committed);
/// The device that uncommitted values lie on.
ShardingPtr default_sharding();

void count_transfer(std::int64_t bytes);

}  // namespace tessera::arrays
