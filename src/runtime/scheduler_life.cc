// SPDX-License-Identifier: Apache-2.0
#include "runtime/scheduler_life.h"

#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "base/process.h"

namespace tessera::runtime {

namespace {

// All schedulers of the process, and those that a fork holds.
struct Known {
  std::mutex mutex;
  std::vector<std::weak_ptr<Resting>> list;
  std::vector<std::shared_ptr<Resting>> held;
  static Known& get() {
    static auto* k = new Known;
    return *k;
  }
  std::vector<std::shared_ptr<Resting>> alive() const {
    std::vector<std::shared_ptr<Resting>> out;
    for (const auto& w : list) {
      if (auto scheduler = w.lock()) out.push_back(std::move(scheduler));
    }
    return out;
  }
};

// Without the common lock: a task that is waited for may make a client.
void rest_all(Time deadline) {
  std::vector<std::shared_ptr<Resting>> schedulers;
  {
    std::lock_guard lock(Known::get().mutex);
    schedulers = Known::get().alive();
  }
  for (const auto& s : schedulers) s->rest(deadline);
}

// Later than this the process ends without what is still queued, and a task that forks no longer waits for those beside
// it: they may be waiting for it.
constexpr std::chrono::seconds kLongestEnd{10};
constexpr std::chrono::seconds kLongestFork{10};

void finish_all() {
  static const Time deadline = std::chrono::steady_clock::now() + kLongestEnd;
  try {
    rest_all(deadline);
  } catch (const std::bad_alloc&) {
    static_cast<void>(deadline);  // without memory the program ends without waiting
  }
  base::stop_library_calls();
}
// Objects of the main thread are destroyed before static ones; where another thread calls exit, only handlers run.
struct MainThread {
  ~MainThread() {
    if (getpid() == gettid()) finish_all();
  }
};

void prepare_all() {
  Known& k = Known::get();
  const bool in_task = base::work_context() != nullptr;
  const Time longest = std::chrono::steady_clock::now() + kLongestFork;
  for (;;) {
    rest_all(in_task ? longest : Time::max());
    const bool late = in_task && std::chrono::steady_clock::now() >= longest;
    k.mutex.lock();
    k.held = k.alive();
    std::size_t count = 0;
    while (count < k.held.size() && k.held[count]->hold(late)) ++count;
    if (count == k.held.size()) return;
    while (count > 0) k.held[--count]->release();  // one got work meanwhile
    auto again = std::move(k.held);
    k.held.clear();
    k.mutex.unlock();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}
// Schedulers may wait for each other's events, so all are free before one is told.
void let_go(bool in_child) {
  Known& k = Known::get();
  for (const auto& scheduler : k.held) in_child ? scheduler->restart() : scheduler->release();
  auto held = std::move(k.held);
  k.held.clear();
  k.mutex.unlock();
  for (const auto& scheduler : held) {
    if (in_child) scheduler->fail_lost();
  }
}
void resume_all() { let_go(false); }
void restart_all() { let_go(true); }

}  // namespace

void know(const std::shared_ptr<Resting>& scheduler) {
  base::at_fork(base::ForkStage::Queues, {prepare_all, resume_all, restart_all});
  Known& k = Known::get();
  std::lock_guard lock(k.mutex);
  std::erase_if(k.list, [](const auto& w) { return w.expired(); });
  k.list.push_back(scheduler);
}

void finish_before_exit() {
  static const bool registered = std::atexit(finish_all) == 0;
  static thread_local const MainThread main_thread;
  static_cast<void>(registered);
  static_cast<void>(main_thread);
}

}  // namespace tessera::runtime
