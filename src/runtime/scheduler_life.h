// SPDX-License-Identifier: Apache-2.0
// What schedulers do when the process forks, and when the program ends.
#pragma once

#include <chrono>
#include <memory>

namespace tessera::runtime {

using Time = std::chrono::steady_clock::time_point;

class Resting {
 public:
  virtual ~Resting() = default;
  /// Waits until nothing is queued or running; from inside a task, until no other one is running.
  virtual void rest(Time deadline) = 0;
  /// Keeps the scheduler at rest until `release`, or `restart` in the child of a fork; false where it is not at rest.
  /// `whatever_runs`: a task that asks goes on though others are running.
  virtual bool hold(bool whatever_runs) = 0;
  virtual void release() = 0;
  /// In the child, where no thread is left but the one that forked.
  virtual void restart() = 0;
  /// In the child, once all are restarted: what was running on lost threads fails.
  virtual void fail_lost() = 0;
};

/// A fork waits for what was submitted, so that the child has all results, and the child computes with new threads. The
/// end of the program waits too, for a while.
void know(const std::shared_ptr<Resting>& scheduler);

/// To be called when something was submitted: tasks that are still queued when the program ends run first, as they may
/// call functions of the host that must not meet destroyed objects.
void finish_before_exit();

}  // namespace tessera::runtime
