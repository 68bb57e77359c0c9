// SPDX-License-Identifier: Apache-2.0
#include "base/process.h"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <thread>

namespace tessera::base {

namespace {

constexpr std::size_t kStages = 3;
struct ForkTable {
  std::mutex mutex;
  std::array<ForkSteps, kStages> steps;
  bool registered = false;
};
ForkTable& fork_table() {
  static auto* t = new ForkTable;
  return *t;
}

void prepare() {
  ForkTable& t = fork_table();
  t.mutex.lock();
  for (const auto& s : t.steps) {
    if (s.prepare) s.prepare();
  }
}
void resume() {
  ForkTable& t = fork_table();
  for (std::size_t i = kStages; i-- > 0;) {
    if (t.steps[i].resume) t.steps[i].resume();
  }
  t.mutex.unlock();
}
void restart() {
  ForkTable& t = fork_table();
  for (std::size_t i = kStages; i-- > 0;) {
    if (t.steps[i].restart) t.steps[i].restart();
  }
  t.mutex.unlock();
}

std::atomic<bool> ended{false};
std::thread::id ending_thread;  // written before `ended`

std::atomic<bool> ending{false};
std::atomic<int> library_calls{0};
std::atomic<int> late_calls{0};  // of libraries that the process still has while it ends

void wait_for_calls(const std::atomic<int>& calls) {
  constexpr std::chrono::seconds kLongest{2};
  auto deadline = std::chrono::steady_clock::now() + kLongest;
  while (calls.load() > 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

// Objects of the main thread go before static ones.
struct EndOfMainThread {
  bool made = true;
  ~EndOfMainThread() {
    if (getpid() == gettid()) stop_library_calls();
  }
};

// Made before all other static objects of the program, and so destroyed after them.
struct End {
  End() {
    static thread_local EndOfMainThread end_of_main_thread;
    static_cast<void>(end_of_main_thread.made);
  }
  ~End() {
    ending_thread = std::this_thread::get_id();
    ended.store(true);
    wait_for_calls(late_calls);  // next, libraries free their memory
  }
};
__attribute__((init_priority(101))) const End end;

thread_local const void* context = nullptr;

}  // namespace

void at_fork(ForkStage stage, const ForkSteps& steps) {
  ForkTable& t = fork_table();
  std::lock_guard lock(t.mutex);
  t.steps[static_cast<std::size_t>(stage)] = steps;
  if (!t.registered) t.registered = pthread_atfork(prepare, resume, restart) == 0;
}

void stop_if_ended() {
  if (!ended.load(std::memory_order_acquire) || ending_thread == std::this_thread::get_id()) [[likely]]
    return;
  for (;;) pause();
}

LibraryCall::LibraryCall() {
  library_calls.fetch_add(1);
  allowed_ = !ending.load();
  if (allowed_) return;
  library_calls.fetch_sub(1);
  late_calls.fetch_add(1);
  if (ended.load() && ending_thread != std::this_thread::get_id()) {
    late_calls.fetch_sub(1);
    stop_if_ended();
  }
}
LibraryCall::~LibraryCall() { (allowed_ ? library_calls : late_calls).fetch_sub(1); }
void stop_library_calls() {
  ending.store(true);
  wait_for_calls(library_calls);
}

const void* work_context() { return context; }
WorkContext::WorkContext(const void* c) : before_(context) { context = c; }
WorkContext::~WorkContext() { context = before_; }

}  // namespace tessera::base
