// SPDX-License-Identifier: Apache-2.0
// Runs of programs, in the order that their data asks for.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/event.h"

namespace tessera::runtime {

/// Orders beside that of the data. Tasks that share one run one at a time, in the order of submission.
enum class TaskOrder : std::uint8_t {
  None = 0,
  Effects = 1,    ///< effects on the host happen in the order of the calls
  Processes = 2,  ///< all processes enter their common programs in one order
  EffectsAndProcesses = 3,
};
constexpr TaskOrder task_order(bool effects, bool processes) {
  return static_cast<TaskOrder>((effects ? 1 : 0) | (processes ? 2 : 0));
}

struct Task {
  std::function<void()> body;
  std::vector<EventPtr> after;  ///< what it waits for; an error of theirs is the body's to find
  bool small = false;           ///< so short that it should not leave the caller's thread
  TaskOrder order = TaskOrder::None;
};

/// Runs each task once what it waits for is ready: at once on the caller's thread when that is so and the task is
/// small, else on threads of its own, which are started when first needed. Of the tasks that could begin, the one that
/// was submitted first does. A few run at the same time, so that those that wait hold no memory; the oldest unfinished
/// task may always run, so that a task may wait for any that was submitted before it. A task's exception becomes its
/// event's error. Destroying the scheduler waits for what was submitted. Thread-safe.
class TaskScheduler {
 public:
  /// `at_once` tasks run at the same time; 0: as many as there are cores, two at least and four at most.
  static std::shared_ptr<TaskScheduler> create(int at_once = 0);
  virtual ~TaskScheduler() = default;
  /// From inside one of this scheduler's tasks the new one runs before the call returns: who waited for it there would
  /// hold up the very thread that it needs. Where it throws (memory is out), the task will not run.
  virtual EventPtr submit(Task task) = 0;
  /// Waits until everything submitted so far has ended; errors stay with their events.
  virtual void drain() = 0;
};

}  // namespace tessera::runtime
