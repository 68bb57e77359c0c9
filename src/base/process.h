// SPDX-License-Identifier: Apache-2.0
// What happens to all threads at once: the process forks, and it ends.
#pragma once

namespace tessera::base {

/// In the order in which they come to rest: work that is queued, then the threads that compute it.
enum class ForkStage : unsigned char { Queues, Threads, Libraries };
/// Steps around a fork, on the thread that forks: `prepare` brings something to rest and holds it, `resume` lets it go
/// on in the parent, `restart` makes it work in the child, where no other thread is left. Each may be null.
struct ForkSteps {
  void (*prepare)() = nullptr;
  void (*resume)() = nullptr;
  void (*restart)() = nullptr;
};
/// One set of steps a stage; a later one replaces an earlier one.
void at_fork(ForkStage stage, const ForkSteps& steps);

/// Does not return once the program's static objects are destroyed, but on the thread that ends the process: libraries
/// that a computation needs are about to go too.
void stop_if_ended();

/// While one lives, a library is at work whose own static objects end with the program's: these wait for it, for a
/// while. Once they are about to go, no call may begin.
class LibraryCall {
 public:
  LibraryCall();
  ~LibraryCall();
  LibraryCall(const LibraryCall&) = delete;
  LibraryCall& operator=(const LibraryCall&) = delete;
  bool allowed() const { return allowed_; }

 private:
  bool allowed_;
};
/// The program is about to destroy static objects.
void stop_library_calls();

/// What the thread works for, which the workers of its `parallel_for` take over; opaque here.
const void* work_context();
class WorkContext {
 public:
  explicit WorkContext(const void* context);
  ~WorkContext();
  WorkContext(const WorkContext&) = delete;
  WorkContext& operator=(const WorkContext&) = delete;

 private:
  const void* before_;
};

}  // namespace tessera::base
