// SPDX-License-Identifier: Apache-2.0
#include "runtime/event.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "tessera/loc.h"

namespace tessera::runtime {

namespace {

class Completion final : public Event {
 public:
  bool ready() const override { return ready_.load(std::memory_order_acquire); }
  void wait() const override {
    if (!ready()) {
      std::unique_lock lock(mutex_);
      done_.wait(lock, [&] { return ready(); });
    }
    if (error_) std::rethrow_exception(error_);
  }
  std::exception_ptr error() const override { return ready() ? error_ : nullptr; }

  void complete(std::exception_ptr error) {
    std::lock_guard lock(mutex_);
    error_ = std::move(error);
    ready_.store(true, std::memory_order_release);
    done_.notify_all();
  }

 private:
  std::atomic<bool> ready_{false};
  std::exception_ptr error_;  // written before ready_, never after
  mutable std::mutex mutex_;
  mutable std::condition_variable done_;
};

std::exception_ptr run(const std::function<void()>& task) {
  try {
    task();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

EventPtr completed(std::exception_ptr error) {
  auto event = std::make_shared<Completion>();
  event->complete(std::move(error));
  return event;
}

EventPtr finished(std::exception_ptr error) {
  static const EventPtr success = completed(nullptr);
  return error ? completed(std::move(error)) : success;
}

class Queue;
thread_local const Queue* inside = nullptr;  // queue whose task this thread is running

class Queue final : public TaskQueue {
 public:
  ~Queue() override {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    if (worker_.joinable()) worker_.join();
  }

  EventPtr submit(std::function<void()> task, bool small) override {
    // A task that submits another one and waits for it would wait for itself.
    if (inside == this) return finished(run(task));
    std::unique_lock lock(mutex_);
    if (small && !running_ && tasks_.empty()) {
      running_ = true;
      lock.unlock();
      auto error = run_inside(task);
      lock.lock();
      running_ = false;
      if (!tasks_.empty() || waiters_ > 0) wake_.notify_all();
      lock.unlock();
      return finished(std::move(error));
    }
    if (!worker_.joinable()) worker_ = std::thread([this] { serve(); });
    auto event = std::make_shared<Completion>();
    const Loc* site = CallSite::innermost();
    tasks_.push_back({std::move(task), event, site ? *site : Loc{}});
    ++submitted_;
    wake_.notify_all();
    return event;
  }

  void drain() override {
    if (inside == this) return;
    std::unique_lock lock(mutex_);
    ++waiters_;
    auto target = submitted_;
    wake_.wait(lock, [&] { return ended_ >= target && (!running_ || ended_ > target); });
    --waiters_;
  }

 private:
  struct Task {
    std::function<void()> body;
    std::shared_ptr<Completion> event;
    Loc site;  ///< of the call that submitted it: what the task throws was asked for there
  };

  std::exception_ptr run_inside(const std::function<void()>& task) {
    const Queue* before = std::exchange(inside, this);
    auto error = run(task);
    inside = before;
    return error;
  }

  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return !running_ && (stop_ || !tasks_.empty()); });
      if (tasks_.empty()) return;
      Task task = std::move(tasks_.front());
      tasks_.pop_front();
      running_ = true;
      lock.unlock();
      std::exception_ptr error;
      {
        CallSite from(task.site);
        error = run_inside(task.body);
      }
      task.body = nullptr;  // what the task holds is free before anyone learns that it has ended
      task.event->complete(std::move(error));
      task.event.reset();
      lock.lock();
      running_ = false;
      ++ended_;
      if (waiters_ > 0) wake_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Task> tasks_;
  std::uint64_t submitted_ = 0;  // to the thread
  std::uint64_t ended_ = 0;
  int waiters_ = 0;
  bool running_ = false;
  bool stop_ = false;
  std::thread worker_;
};

}  // namespace

std::shared_ptr<TaskQueue> TaskQueue::create() { return std::make_shared<Queue>(); }

}  // namespace tessera::runtime
