// SPDX-License-Identifier: Apache-2.0
#include "runtime/task_scheduler.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "base/process.h"
#include "runtime/completion.h"
#include "runtime/scheduler_life.h"
#include "tessera/error.h"
#include "tessera/loc.h"

namespace tessera::runtime {

namespace {

class Scheduler;

// The schedulers whose tasks this thread is running, innermost first: what `base::work_context` points to, so that
// workers of a task's loops know them too.
struct Inside {
  const Scheduler* scheduler;
  const Inside* outer;
  const std::vector<const Scheduler*>* submitted_in;  // those whose tasks submitted this one to another thread

  static const Inside* current() { return static_cast<const Inside*>(base::work_context()); }
  static bool has(const Scheduler* scheduler) {
    for (const Inside* i = current(); i != nullptr; i = i->outer) {
      if (i->scheduler == scheduler) return true;
      const auto& more = *i->submitted_in;
      if (std::find(more.begin(), more.end(), scheduler) != more.end()) return true;
    }
    return false;
  }
  static std::vector<const Scheduler*> all() {
    std::vector<const Scheduler*> out;
    for (const Inside* i = current(); i != nullptr; i = i->outer) {
      out.push_back(i->scheduler);
      out.insert(out.end(), i->submitted_in->begin(), i->submitted_in->end());
    }
    return out;
  }
};

void wait_for(const std::vector<EventPtr>& events) {
  for (const auto& e : events) {
    static_cast<void>(error_of([&] { e->wait(); }));
  }
}

class Scheduler final : public TaskScheduler, public Resting {
 public:
  explicit Scheduler(int at_once) : at_once_(at_once > 0 ? at_once : default_threads()) {}
  ~Scheduler() override {
    {
      std::unique_lock lock(mutex_);
      ++waiters_;
      changed_.wait(lock, [&] { return oldest_ == nullptr && inline_ == 0; });
      --waiters_;
      stop_ = true;
      for (const auto& r : runners_) r->wake.notify_one();
    }
    for (const auto& r : runners_) r->thread.join();
  }

  EventPtr submit(Task given) override {
    base::stop_if_ended();
    if (Inside::has(this)) return ready_event(error_of(given.body));
    std::erase_if(given.after, [](const EventPtr& e) { return e->ready(); });
    if (given.small && given.after.empty()) {
      std::unique_lock lock(mutex_);
      if (given.order == TaskOrder::None) return ready_event(run_here(lock, given.body));
      if (!must_wait(given.order)) {
        auto event = std::make_shared<Completion>();
        take_turn(given.order, event);
        event->complete(run_here(lock, given.body));
        return event;
      }
    }
    return submit_to_runner(std::move(given));
  }

  void drain() override {
    if (Inside::has(this)) return;
    std::unique_lock lock(mutex_);
    ++waiters_;
    changed_.wait(lock, [&, target = submitted_] { return oldest_ == nullptr || oldest_->number >= target; });
    --waiters_;
  }

 private:
  struct Job {
    std::function<void()> body;
    std::shared_ptr<Completion> event = std::make_shared<Completion>();
    std::vector<const Scheduler*> within;
    Loc site;  ///< of the call that submitted it: what the task throws was asked for there
    std::uint64_t number = 0;
    std::atomic<std::size_t> missing{1};  ///< events that are not ready, and the submission itself
    Job* older = nullptr;
    Job* newer = nullptr;
    std::shared_ptr<Job> self;  ///< while it is unfinished
  };
  // A thread. What it runs next is given to it, so that the one that was busy last is chosen: its caches are warm, and
  // OpenMP keeps workers for every thread that calls it.
  struct Runner {
    explicit Runner(Scheduler* s) : scheduler(s) {}
    Scheduler* scheduler;
    std::thread thread;
    std::condition_variable wake;
    Job* job = nullptr;  ///< running, or telling that it has ended
    bool completing = false;
    Job* next = nullptr;
  };

  static int default_threads() { return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 2, 4); }

  // --- submission, with the lock held unless said otherwise
  // -----------------------------------------------------------

  static constexpr std::size_t kOrders = 2;
  static bool has(TaskOrder order, std::size_t k) { return (static_cast<unsigned>(order) >> k & 1) != 0; }
  bool must_wait(TaskOrder order) const {
    for (std::size_t k = 0; k < kOrders; ++k) {
      if (has(order, k) && last_[k] && !last_[k]->ready()) return true;
    }
    return false;
  }
  void take_turn(TaskOrder order, const EventPtr& event) {
    for (std::size_t k = 0; k < kOrders; ++k) {
      if (has(order, k)) last_[k] = event;
    }
  }

  // Without the lock.
  EventPtr submit_to_runner(Task given) {
    auto job = std::make_shared<Job>();
    EventPtr event = job->event;
    job->body = std::move(given.body);
    job->within = Inside::all();
    if (const Loc* site = CallSite::innermost()) job->site = *site;
    // Whatever may fail comes before the job is known: one that is not keeps its own count, and never begins.
    for (const auto& e : given.after) arrives_with(job, *e);
    std::unique_lock lock(mutex_);
    if (runners_.empty() && new_runner(nullptr) == nullptr) return run_without_threads(lock, *job, given);
    for (std::size_t k = 0; k < kOrders; ++k) {
      if (has(given.order, k) && last_[k]) arrives_with(job, *last_[k]);
    }
    ready_.reserve(unfinished_ + 1);
    take_turn(given.order, event);
    link(job);
    if (job->missing.fetch_sub(1) == 1) make_ready(job.get());
    lock.unlock();
    finish_before_exit();
    return event;
  }

  void arrives_with(const std::shared_ptr<Job>& job, Event& event) {
    job->missing.fetch_add(1);
    event.on_ready([this, job] {
      if (job->missing.fetch_sub(1) != 1) return;
      std::lock_guard lock(mutex_);
      make_ready(job.get());
    });
  }

  // The machine has no thread for us.
  EventPtr run_without_threads(std::unique_lock<std::mutex>& lock, Job& job, const Task& given) {
    std::vector<EventPtr> before = given.after;
    for (std::size_t k = 0; k < kOrders; ++k) {
      if (has(given.order, k) && last_[k]) before.push_back(last_[k]);
    }
    take_turn(given.order, job.event);
    lock.unlock();
    wait_for(before);
    lock.lock();
    job.event->complete(run_here(lock, job.body));
    return job.event;
  }

  void link(const std::shared_ptr<Job>& job) {
    job->number = submitted_++;
    job->self = job;
    job->older = newest_;
    (newest_ != nullptr ? newest_->newer : oldest_) = job.get();
    newest_ = job.get();
    ++unfinished_;
  }
  // The caller drops what it returns without the lock.
  std::shared_ptr<Job> unlink(Job* job) {
    (job->older != nullptr ? job->older->newer : oldest_) = job->newer;
    (job->newer != nullptr ? job->newer->older : newest_) = job->older;
    --unfinished_;
    return std::move(job->self);
  }

  // --- what runs, with the lock held
  // ------------------------------------------------------------------------------------

  static bool later(const Job* a, const Job* b) { return a->number > b->number; }

  void make_ready(Job* job) {
    ready_.push_back(job);  // there is room for all
    std::push_heap(ready_.begin(), ready_.end(), later);
    // A runner that is about to be free goes on with what its own job has made ready.
    Runner* here = current();
    bool free = here != nullptr && here->scheduler == this && here->completing && here->next == nullptr;
    if (free && busy_ <= at_once_) here->next = next_ready();
    dispatch();
  }
  Job* next_ready() {
    std::pop_heap(ready_.begin(), ready_.end(), later);
    Job* job = ready_.back();
    ready_.pop_back();
    return job;
  }
  bool may_begin() const { return !ready_.empty() && (busy_ < at_once_ || ready_.front() == oldest_); }

  void dispatch() {
    while (may_begin()) {
      if (!idle_.empty()) {
        Runner* r = idle_.back();
        idle_.pop_back();
        r->next = next_ready();
        r->wake.notify_one();
      } else if (new_runner(ready_.front()) != nullptr) {
        next_ready();
      } else {
        return;  // those that run go on with it
      }
      ++busy_;
    }
  }

  // Null where the machine has no thread or no memory left.
  Runner* new_runner(Job* job) {
    try {
      idle_.reserve(runners_.size() + 1);
      runners_.reserve(runners_.size() + 1);
      auto made = std::make_unique<Runner>(this);
      made->next = job;
      made->thread = std::thread([this, r = made.get()] { serve(*r); });
      if (job == nullptr) idle_.push_back(made.get());
      runners_.push_back(std::move(made));
      return runners_.back().get();
    } catch (const std::system_error&) {
      return nullptr;
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }

  static Runner*& current() {
    static thread_local Runner* runner = nullptr;
    return runner;
  }

  std::exception_ptr run_inside(const std::function<void()>& body, const std::vector<const Scheduler*>& within) {
    Inside here{this, Inside::current(), &within};
    base::WorkContext scope(&here);
    return error_of(body);
  }

  std::exception_ptr run_here(std::unique_lock<std::mutex>& lock, const std::function<void()>& body) {
    static const auto* none = new std::vector<const Scheduler*>;
    ++inline_;
    lock.unlock();
    auto error = run_inside(body, *none);
    lock.lock();
    --inline_;
    if (waiters_ > 0) changed_.notify_all();
    if (!ready_.empty()) dispatch();  // a forked child has no threads yet
    lock.unlock();
    return error;
  }

  void serve(Runner& me) {
    current() = &me;
    std::unique_lock lock(mutex_);
    for (;;) {
      me.wake.wait(lock, [&] { return me.next != nullptr || stop_; });
      if (me.next == nullptr) return;
      while (me.next != nullptr) run_next(me, lock);
      idle_.push_back(&me);  // there is room for all
    }
  }

  void run_next(Runner& me, std::unique_lock<std::mutex>& lock) {
    Job* job = me.job = std::exchange(me.next, nullptr);
    lock.unlock();
    base::stop_if_ended();
    std::exception_ptr error;
    {
      CallSite from(job->site);
      error = run_inside(job->body, job->within);
    }
    job->body = nullptr;  // what the task holds is free before anyone learns that it has ended
    me.completing = true;
    job->event->complete(std::move(error));
    lock.lock();
    me.completing = false;
    me.job = nullptr;
    auto ended = unlink(job);
    if (waiters_ > 0) changed_.notify_all();
    if (me.next == nullptr) {
      --busy_;
      if (may_begin()) {
        me.next = next_ready();
        ++busy_;
      }
    }
    dispatch();
    lock.unlock();
    ended.reset();
    lock.lock();
  }

  // --- forks and the end of the program
  // -----------------------------------------------------------------------------------

  // Nothing is at work but the task that asks.
  bool others_rest(bool asks_inside) const {
    return asks_inside ? busy_ + inline_ <= 1 : oldest_ == nullptr && inline_ == 0;
  }
  void rest(Time deadline) override {
    const bool inside = Inside::has(this);
    std::unique_lock lock(mutex_);
    ++waiters_;
    changed_.wait_until(lock, deadline, [&] { return others_rest(inside); });
    --waiters_;
  }
  bool hold(bool whatever_runs) override {
    mutex_.lock();
    const bool inside = Inside::has(this);
    if (others_rest(inside) || (inside && whatever_runs)) return true;
    mutex_.unlock();
    return false;
  }
  void release() override { mutex_.unlock(); }
  void restart() override {
    Runner* here = nullptr;
    for (auto& r : runners_) {
      if (r.get() == current()) {
        here = r.get();
        continue;
      }
      for (Job* job : {r->job, r->next}) {
        if (job != nullptr) lost_.push_back(unlink(job));
      }
      const Runner* gone = r.release();  // neither its thread nor its condition can be asked to end
      static_cast<void>(gone);
    }
    std::erase(runners_, nullptr);
    idle_.clear();
    new (&changed_) std::condition_variable;
    waiters_ = 0;
    busy_ = here != nullptr ? 1 : 0;
    inline_ = here == nullptr && runs_inline() ? 1 : 0;
    mutex_.unlock();
  }
  void fail_lost() override {
    auto lost = std::move(lost_);
    lost_.clear();
    for (const auto& job : lost) {
      job->event->complete(std::make_exception_ptr(
          StateError("fork: a task was running on another thread when a task forked; the parent process alone has its "
                     "result")));
    }
  }
  bool runs_inline() const {
    for (const Inside* i = Inside::current(); i != nullptr; i = i->outer) {
      if (i->scheduler == this) return true;
    }
    return false;
  }

  const int at_once_;
  std::mutex mutex_;
  std::condition_variable changed_;  // something has ended; for those counted in waiters_
  std::vector<std::unique_ptr<Runner>> runners_;
  std::vector<Runner*> idle_;  // the last one rests the shortest
  std::vector<Job*> ready_;    // a heap: the oldest is first
  Job* oldest_ = nullptr;      // of those that are unfinished
  Job* newest_ = nullptr;
  std::size_t unfinished_ = 0;
  std::uint64_t submitted_ = 0;
  std::array<EventPtr, kOrders> last_;      // task of each order
  std::vector<std::shared_ptr<Job>> lost_;  // in a forked child
  int busy_ = 0;                            // runners with a job
  int inline_ = 0;                          // tasks on callers' threads
  int waiters_ = 0;
  bool stop_ = false;
};

}  // namespace

std::shared_ptr<TaskScheduler> TaskScheduler::create(int at_once) {
  auto made = std::make_shared<Scheduler>(at_once);
  know(made);
  return made;
}

}  // namespace tessera::runtime
