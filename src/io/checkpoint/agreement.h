// SPDX-License-Identifier: Apache-2.0
// Rounds in which the processes of a client agree on what is saved, and on whether it succeeded.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/process_collectives.h"
#include "runtime/task_scheduler.h"
#include "tessera/device.h"

namespace tessera::io {

/// What checkpoints keep for a client, made on first use.
struct CheckpointState {
  /// Saves of this process run one after another, in the order in which they were asked for.
  std::shared_ptr<runtime::TaskScheduler> writer;
  /// A tag for the messages of one save or restore. Every process asks for its tags in the same order. Tags of programs
  /// are never negative and those of what processes do together outside programs even, these are negative and odd, so
  /// that a save may exchange messages beside all of them.
  std::int64_t next_tag() { return -1 - 2 * tags.fetch_add(1); }

  std::atomic<std::int64_t> tags{0};
};
CheckpointState& checkpoint_state(const Client& client);

class Agreement {
 public:
  /// `what` begins messages: "checkpoints::save: step 3 of \"run7\"".
  Agreement(const Client& client, std::int64_t tag, std::string what);
  int process_index() const { return process_index_; }
  int process_count() const { return process_count_; }

  /// Every process makes a report. Process 0 decides with the reports of all, in order of process, and every process
  /// gets its answer. Where a report or the decision throws, or a process is gone, this throws in every process: what
  /// was thrown in those where it was, `StateError` with the first reason and its process in the others. Process 0
  /// knows then that no other process is still at work on its report.
  std::string round(const std::function<std::string()>& report,
                    const std::function<std::vector<std::string>(const std::vector<std::string>&)>& decide) const;

 private:
  void send(int to, const std::string& text) const;
  std::string receive(int from) const;
  std::string decide_for_all(std::string mine, std::exception_ptr own,
                             const std::function<std::vector<std::string>(const std::vector<std::string>&)>& d) const;

  std::shared_ptr<runtime::Collectives> collectives_;  // null for a single process
  int process_index_ = 0;
  int process_count_ = 1;
  runtime::Collectives::Call call_;
  std::string what_;
};

}  // namespace tessera::io
