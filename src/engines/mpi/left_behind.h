// SPDX-License-Identifier: Apache-2.0
// Messages of programs, and what becomes of those that a step has left under way when it failed.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <list>
#include <vector>

#include "engines/mpi/module/mpi_module.h"
#include "runtime/process_collectives.h"

namespace tessera::mpi {

/// A message of a program. Its request is MPI's until it is done, and so is the memory, which `owner` keeps.
struct Part {
  void* request;
  int peer;
  std::int64_t nbytes;
  bool receives;
  bool done;
  runtime::Collectives::Owner owner;
};
using Parts = std::vector<Part>;

/// MPI still reads and writes the memory of messages whose step has failed: it stays until they are done. A receipt
/// that no message has met is taken back. What was sent is done when the peer takes it: in its own step or, where that
/// fails too, as a stray of that step. All calls with the lock of MPI held.
class LeftBehind {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit LeftBehind(const tessera_mpi_module& mpi) : mpi_(mpi) {}

  /// Nothing of MPI's tag `tag` is asked for any more; for this long its messages are received for nobody.
  void give_up(int tag, std::chrono::duration<double> how_long);
  /// The one element of the list. Takes no memory.
  void add(std::list<Parts>& one) noexcept;
  /// Those that are done. Their owners may run code of others, and so are to be released without the lock.
  std::list<Parts> take_ended();
  /// Receives what has come and nobody has asked for, of this tag, or of any where it is negative.
  void take_strays(int tag);
  bool empty() const { return parts_.empty(); }
  /// Before MPI ends: the memory stays, as nobody knows who reads it.
  void abandon();

 private:
  static constexpr std::size_t kRemembered = 4096;
  struct GivenUp {
    int tag;
    Time until;
  };

  const tessera_mpi_module& mpi_;
  std::list<Parts> parts_;
  std::deque<GivenUp> given_up_;
};

}  // namespace tessera::mpi
