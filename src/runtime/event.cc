// SPDX-License-Identifier: Apache-2.0
#include "runtime/event.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/process.h"
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

  void on_ready(std::function<void()> callback) override {
    {
      std::lock_guard lock(mutex_);
      if (!ready()) {
        callbacks_.push_back(std::move(callback));
        return;
      }
    }
    callback();
  }

  void complete(std::exception_ptr error) {
    std::vector<std::function<void()>> callbacks;
    {
      std::lock_guard lock(mutex_);
      error_ = std::move(error);
      ready_.store(true, std::memory_order_release);
      done_.notify_all();
      callbacks.swap(callbacks_);
    }
    for (const auto& callback : callbacks) callback();
  }

 private:
  std::atomic<bool> ready_{false};
  std::exception_ptr error_;  // written before ready_, never after
  mutable std::mutex mutex_;
  mutable std::condition_variable done_;
  std::vector<std::function<void()>> callbacks_;
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

EventPtr finished(const std::exception_ptr& error) {
  static const auto* success = new EventPtr(completed(nullptr));
  if (!error) return *success;
  try {
    return completed(error);
  } catch (const std::bad_alloc&) {
    std::rethrow_exception(error);  // no memory to keep it for later
  }
}

// What `when_all` waits for.
struct Join {
  std::vector<EventPtr> events;
  std::function<void()> then;
  std::shared_ptr<Completion> done = std::make_shared<Completion>();
  std::atomic<std::size_t> missing;

  Join(std::span<const EventPtr> all, std::function<void()> after)
      : events(all.begin(), all.end()), then(std::move(after)), missing(events.size() + 1) {}
  void arrive() {
    if (missing.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    std::exception_ptr error;
    for (const auto& e : events) {
      if (!error) error = e->error();
    }
    if (!error && then) error = run(then);
    then = nullptr;
    events.clear();
    done->complete(std::move(error));
  }
};

class Queue;

// The queues whose tasks this thread is running, innermost first: what `base::work_context` points to, so that workers
// of a task's loops know them too.
struct Inside {
  const Queue* queue;
  const Inside* outer;
  const std::vector<const Queue*>* submitted_in;  // those whose tasks submitted this one to another thread

  static const Inside* current() { return static_cast<const Inside*>(base::work_context()); }
  static bool has(const Queue* queue) {
    for (const Inside* i = current(); i != nullptr; i = i->outer) {
      if (i->queue == queue) return true;
      const auto& more = *i->submitted_in;
      if (std::find(more.begin(), more.end(), queue) != more.end()) return true;
    }
    return false;
  }
  static std::vector<const Queue*> all() {
    std::vector<const Queue*> out;
    for (const Inside* i = current(); i != nullptr; i = i->outer) {
      out.push_back(i->queue);
      out.insert(out.end(), i->submitted_in->begin(), i->submitted_in->end());
    }
    return out;
  }
};

class Queue final : public TaskQueue {
 public:
  static std::shared_ptr<Queue> create() {
    base::at_fork(base::ForkStage::Queues, {prepare_all, resume_all, restart_all});
    auto made = std::make_shared<Queue>();
    Queues& q = Queues::get();
    std::lock_guard lock(q.mutex);
    std::erase_if(q.list, [](const auto& w) { return w.expired(); });
    q.list.push_back(made);
    return made;
  }
  ~Queue() override {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    if (worker_.joinable()) worker_.join();
  }

  EventPtr submit(std::function<void()> task, bool small) override {
    base::stop_if_ended();
    // A task that submits another one and waits for it would wait for itself.
    if (Inside::has(this)) return finished(run(task));
    std::unique_lock lock(mutex_);
    if (small && !running_ && tasks_.empty()) return finished(run_here(lock, task));
    auto event = std::make_shared<Completion>();
    std::vector<const Queue*> within = Inside::all();
    if (!start()) {
      ++waiters_;
      wake_.wait(lock, [&] { return !running_; });
      --waiters_;
      return finished(run_here(lock, task));
    }
    const Loc* site = CallSite::innermost();
    tasks_.push_back({std::move(task), event, std::move(within), site ? *site : Loc{}});
    ++submitted_;
    wake_.notify_all();
    lock.unlock();
    finish_before_exit();
    return event;
  }

  void drain() override {
    if (Inside::has(this)) return;
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
    std::vector<const Queue*> within;
    Loc site;  ///< of the call that submitted it: what the task throws was asked for there
  };
  using Time = std::chrono::steady_clock::time_point;

  // All queues of the process, and those that a fork holds.
  struct Queues {
    std::mutex mutex;
    std::vector<std::weak_ptr<Queue>> list;
    std::vector<std::shared_ptr<Queue>> held;
    static Queues& get() {
      static auto* q = new Queues;
      return *q;
    }
    std::vector<std::shared_ptr<Queue>> alive() const {
      std::vector<std::shared_ptr<Queue>> out;
      for (const auto& w : list) {
        if (auto queue = w.lock()) out.push_back(std::move(queue));
      }
      return out;
    }
  };
  // Without the common lock: a task that waits may make a client.
  static void rest_all(Time deadline) {
    std::vector<std::shared_ptr<Queue>> queues;
    {
      std::lock_guard lock(Queues::get().mutex);
      queues = Queues::get().alive();
    }
    for (const auto& queue : queues) queue->rest(deadline);
  }

  bool start() {
    if (worker_.joinable()) return true;
    try {
      worker_ = std::thread([this] { serve(); });
    } catch (const std::system_error&) {
      return false;  // the machine has no thread left
    }
    return true;
  }

  std::exception_ptr run_inside(const std::function<void()>& task, const std::vector<const Queue*>& within) {
    Inside here{this, Inside::current(), &within};
    base::WorkContext scope(&here);
    return run(task);
  }

  std::exception_ptr run_here(std::unique_lock<std::mutex>& lock, const std::function<void()>& task) {
    static const auto* none = new std::vector<const Queue*>;
    running_ = true;
    lock.unlock();
    auto error = run_inside(task, *none);
    lock.lock();
    running_ = false;
    if (!tasks_.empty() || waiters_ > 0) wake_.notify_all();
    lock.unlock();
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
      base::stop_if_ended();
      std::exception_ptr error;
      {
        CallSite from(task.site);
        error = run_inside(task.body, task.within);
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

  // Waits until nothing is queued or running.
  void rest(Time deadline) {
    if (Inside::has(this)) return;  // the task that asks goes on afterwards
    std::unique_lock lock(mutex_);
    ++waiters_;
    wake_.wait_until(lock, deadline, [&] { return tasks_.empty() && !running_; });
    --waiters_;
  }

  // Tasks that are still queued when the program ends run first: they may call functions of the host, and must not
  // meet destroyed objects. Later than this the process ends without them.
  static constexpr std::chrono::seconds kLongestEnd{10};
  static void finish_all() {
    static const Time deadline = std::chrono::steady_clock::now() + kLongestEnd;
    auto rest = [] {
      try {
        rest_all(deadline);
        return true;
      } catch (const std::bad_alloc&) {
        return false;
      }
    };
    rest();  // without memory the program ends without waiting
    base::stop_library_calls();
  }
  // Objects of the main thread are destroyed before static ones; where another thread calls exit, only handlers run.
  struct MainThread {
    ~MainThread() {
      if (getpid() == gettid()) finish_all();
    }
  };
  static void finish_before_exit() {
    static const bool registered = std::atexit(finish_all) == 0;
    static thread_local const MainThread main_thread;
    (void)registered;
    (void)main_thread;
  }

  // A fork: everything that was submitted ends first, so that the child has all results, and it starts threads anew.
  static void prepare_all() {
    Queues& q = Queues::get();
    for (;;) {
      rest_all(Time::max());
      q.mutex.lock();
      q.held = q.alive();
      std::size_t count = 0;
      while (count < q.held.size() && q.held[count]->hold()) ++count;
      if (count == q.held.size()) return;
      while (count > 0) q.held[--count]->mutex_.unlock();  // one got work meanwhile
      auto again = std::move(q.held);
      q.held.clear();
      q.mutex.unlock();
    }
  }
  bool hold() {
    mutex_.lock();
    if (Inside::has(this) || (tasks_.empty() && !running_)) return true;
    mutex_.unlock();
    return false;
  }
  static void release() {
    Queues& q = Queues::get();
    for (const auto& queue : q.held) queue->mutex_.unlock();
    auto held = std::move(q.held);
    q.held.clear();
    q.mutex.unlock();
  }
  static void resume_all() { release(); }
  static void restart_all() {
    for (const auto& queue : Queues::get().held) {
      // Neither can be asked to end: what they knew of are threads of the parent.
      new (&queue->wake_) std::condition_variable;
      if (queue->worker_.get_id() != std::this_thread::get_id()) new (&queue->worker_) std::thread;
      queue->waiters_ = 0;
    }
    release();
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

std::shared_ptr<TaskQueue> TaskQueue::create() { return Queue::create(); }

EventPtr when_all(std::span<const EventPtr> events, std::function<void()> then) {
  auto join = std::make_shared<Join>(events, std::move(then));
  EventPtr done = join->done;
  for (const auto& e : events) e->on_ready([join] { join->arrive(); });
  join->arrive();
  return done;
}

}  // namespace tessera::runtime
