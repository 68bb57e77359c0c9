// SPDX-License-Identifier: Apache-2.0
// What crosses processes. Everything inside a process is done by the engine in shared memory; this is all that a
// transport (threads in one program, MPI) must supply.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tessera::runtime {

class Collectives {
 public:
  virtual ~Collectives() = default;
  virtual int process_index() const = 0;
  virtual int process_count() const = 0;

  struct Message {
    int peer = 0;  ///< process
    const void* data = nullptr;
    std::int64_t nbytes = 0;
  };
  struct Receipt {
    int peer = 0;
    void* data = nullptr;
    std::int64_t nbytes = 0;  ///< expected size; another one is an error
  };
  /// Sends and receives; every process of the cluster that takes part calls it with the same `tag`, in the same order
  /// of tags. Between two processes messages keep their order. Returns when all receipts are filled. Throws
  /// `StateError` when a peer has ended or failed.
  virtual void exchange(std::int64_t tag, std::span<const Message> sends, std::span<const Receipt> receipts) = 0;
  /// Tells the peers that this process failed in the step `tag`, so that their waits throw instead of hanging.
  virtual void poison(std::int64_t tag, const char* why) noexcept = 0;
};

}  // namespace tessera::runtime
