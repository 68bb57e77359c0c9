// SPDX-License-Identifier: Apache-2.0
// What crosses processes. Everything inside a process is done by the engine in shared memory; this is all that a
// transport (threads in one program, MPI) must supply.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "ir/layout.h"
#include "runtime/buffer.h"
#include "runtime/process_journal.h"
#include "tessera/dtype.h"
#include "tessera/loc.h"

namespace tessera::runtime {

/// A communication under way. Its memory belongs to it until it has ended. Where a step fails it may be destroyed
/// before that: what others still read and write then stays as long as they do, kept by the owners that came with it.
class Communication {
 public:
  virtual ~Communication() = default;
  /// Returns when this process's part is complete. Once. Throws `StateError`, naming the collective, its source line
  /// and the processes, when one has ended, has failed in this step, or does not arrive in time.
  virtual void wait() = 0;
};
using CommunicationPtr = std::unique_ptr<Communication>;

/// Communication between the processes of a cluster. A transport supplies messages; the operations over groups are made
/// of them unless it has better ones. Every `start_` returns at once, so that a process can compute until it needs the
/// result. Members of a group start their common operations in one order, and wait for them in one order, which may be
/// another one. Sizes are 64-bit throughout.
class Collectives {
 public:
  virtual ~Collectives() = default;
  virtual int process_index() const = 0;
  virtual int process_count() const = 0;

  /// Of a program's tag these are the run's, those above the program's fingerprint.
  static constexpr int kRunBits = 24;
  /// What an operation is, equal in all processes that take part.
  struct Call {
    std::int64_t tag = 0;  ///< of the program and its run
    std::string_view name = "exchange";
    Loc loc = {};
    std::int64_t run = -1;      ///< of the program, from 0; negative: no program's
    bool aside = false;         ///< beside the programs: processes may come to it in another order than to these
    std::size_t processes = 0;  ///< a number for those whose programs the tag counts, equal in all of them; 0: unknown
  };
  /// The processes that take part, ascending. Blocks are in their order.
  using Group = std::span<const std::int32_t>;

  /// Who keeps memory that a communication moves. Without an owner the caller does, until the communication has ended,
  /// and for one that is destroyed before, as long as the transport lives.
  using Owner = std::shared_ptr<const void>;
  struct Message {
    int peer = 0;  ///< process
    const void* data = nullptr;
    std::int64_t nbytes = 0;
    Owner owner = nullptr;
  };
  struct Receipt {
    int peer = 0;
    void* data = nullptr;
    std::int64_t nbytes = 0;  ///< expected size; another one is an error
    Owner owner = nullptr;
  };
  /// What a group's operation reads, and where it writes.
  struct Source {
    Source(const void* memory, Owner owns = nullptr) : data(memory), owner(std::move(owns)) {}
    const void* data;
    Owner owner;
  };
  struct Target {
    Target(void* memory, Owner owns = nullptr) : data(memory), owner(std::move(owns)) {}
    void* data;
    Owner owner;
  };
  /// Sends and receives. Between two processes messages of one tag keep their order.
  virtual CommunicationPtr start_exchange(const Call& call, std::span<const Message> sends,
                                          std::span<const Receipt> receipts) = 0;
  void exchange(const Call& call, std::span<const Message> sends, std::span<const Receipt> receipts) {
    start_exchange(call, sends, receipts)->wait();
  }

  /// How elements are reduced. `combine` reduces blocks element by element in an order that their number alone
  /// determines, with the roundings that one process would make; a transport that reduces by itself knows `kind` over
  /// `dtype`.
  struct Reducer {
    DType dtype = DType::F32;
    ir::Reduction kind = ir::Reduction::Sum;
    std::function<void(std::span<const void* const> blocks, void* out, std::int64_t count)> combine;
  };
  /// `out` = the reduction of all `in`, in every member. They do not overlap.
  virtual CommunicationPtr start_all_reduce(const Call& call, Group group, const Source& in, const Target& out,
                                            std::int64_t count, const Reducer& reducer);
  /// `in` has a block for each member, of `counts` elements; `out` = the reduction of this member's blocks.
  virtual CommunicationPtr start_reduce_scatter(const Call& call, Group group, const Source& in, const Target& out,
                                                std::span<const std::int64_t> counts, const Reducer& reducer);
  /// `out` = the blocks of all members, of `nbytes` each; this one's is `in`.
  virtual CommunicationPtr start_all_gather(const Call& call, Group group, const Source& in, const Target& out,
                                            std::span<const std::int64_t> nbytes);
  /// Block i of `in` goes to member i, whose block comes to place i of `out`.
  virtual CommunicationPtr start_all_to_all(const Call& call, Group group, const Source& in,
                                            std::span<const std::int64_t> sent, const Target& out,
                                            std::span<const std::int64_t> received);
  /// `data` of the process `root` (a member) comes to all.
  virtual CommunicationPtr start_broadcast(const Call& call, Group group, int root, const Target& data,
                                           std::int64_t nbytes);
  /// `in` goes to process `to` and `out` comes from process `from`; negative: nothing does.
  virtual CommunicationPtr start_permute(const Call& call, int to, const Source& in, std::int64_t sent, int from,
                                         const Target& out, std::int64_t received);
  /// Complete when every member has begun it.
  virtual CommunicationPtr start_barrier(const Call& call, Group group);

  /// Memory for what arrives before it is reduced, kept from one operation to the next: fresh pages would cost as much
  /// as the sum.
  MemoryPool& scratch() { return *scratch_; }

  /// Of this process. Processes that wait for each other in operations that the other has not begun differ, and tell in
  /// what.
  ProcessJournal& journal() { return journal_; }
  /// Whether the processes are programs of their own: no thread of this one that waits keeps another from arriving.
  virtual bool separate_programs() const { return false; }

  /// Called while a program computes beside communications under way: transports that move data only when asked may.
  virtual void progress() noexcept {}
  /// Bytes that this process has sent to others for programs, so far; 0 where the transport does not count.
  virtual std::int64_t bytes_sent() const { return 0; }
  /// Tells the others that this process failed in the step `tag`, so that their waits throw instead of hanging.
  virtual void poison(std::int64_t tag, const char* why) noexcept = 0;

 private:
  static constexpr std::int64_t kScratchKept = 256 << 20;  // bytes
  ProcessJournal journal_;
  std::shared_ptr<MemoryPool> scratch_ = MemoryPool::create(0, kScratchKept);
};

/// For messages.
inline std::string described(const Collectives::Call& call) { return described(call.name, call.loc, call.run); }
/// The same with the fingerprint of the program.
std::string described_wholly(const Collectives::Call& call);
/// Why two processes do not meet: this one, of `journal`, waits in `here` for `peer`, which waits for it in another
/// operation, `there` (`described_wholly`), and neither has begun the other's. `arrays` is the peer's `arrays_with`.
std::string different_programs(const ProcessJournal& journal, int self, const Collectives::Call& here, int peer,
                               const std::string& there, const std::string& arrays);
/// Which of two programs the same processes come to first: negative where `a`, positive where `b`; 0 where they are in
/// the same place, or of different processes, so that no order is known. Where one process waits for another that is in
/// a later program, it alone has to leave its own: the other one is where all will meet.
std::int64_t order_of_programs(const Collectives::Call& a, const Collectives::Call& b);
/// A call that outlives its caller's text.
struct OwnCall {
  explicit OwnCall(const Collectives::Call& c) : name(c.name), call(c) { call.name = name; }
  OwnCall(const OwnCall&) = delete;
  OwnCall& operator=(const OwnCall&) = delete;
  std::string name;
  Collectives::Call call;
};
/// The place of a process in a group. Throws `StateError` where it is no member.
std::size_t member_of(Collectives::Group group, int process);

}  // namespace tessera::runtime
