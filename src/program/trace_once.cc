// SPDX-License-Identifier: Apache-2.0
#include "program/trace_once.h"

#include <condition_variable>
#include <mutex>

namespace tessera::program {

struct OnceThread {
  const Once* waits_for = nullptr;  // under the common lock
};

namespace {
// One lock for all: it is taken when something is made, not when it is used, and circles are looked for over all.
struct Common {
  std::mutex mutex;
  std::condition_variable changed;
};
Common& common() {
  static auto* c = new Common;
  return *c;
}
thread_local OnceThread self;
}  // namespace

void Once::leave(State state) noexcept {
  {
    std::lock_guard lock(common().mutex);
    owner_ = nullptr;
    state_.store(state, std::memory_order_release);
  }
  common().changed.notify_all();
}

// Takes the place of the maker, or returns once it is done.
void Once::await(const std::function<void()>& recursion) {
  std::unique_lock lock(common().mutex);
  while (state_.load() == State::Running) {
    for (const Once* o = this; o != nullptr && o->owner_ != nullptr; o = o->owner_->waits_for) {
      if (o->owner_ != &self) continue;
      lock.unlock();
      recursion();
      return;
    }
    self.waits_for = this;
    common().changed.wait(lock);
    self.waits_for = nullptr;
  }
  if (state_.load() == State::Done) return;
  state_.store(State::Running);
  owner_ = &self;
}

void Once::run(const std::function<void()>& make, const std::function<void()>& recursion) {
  if (done()) return;
  await(recursion);
  if (done()) return;
  try {
    make();
  } catch (...) {
    leave(State::Idle);
    throw;
  }
  leave(State::Done);
}

}  // namespace tessera::program
