// SPDX-License-Identifier: Apache-2.0
#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "base/machine.h"
#include "base/process.h"
#include "tessera/loc.h"
#include "tessera/threads.h"

namespace tessera::base {

namespace {

thread_local bool inside = false;
thread_local int team_inside = 1;  // threads for a loop that a body starts

int wanted_threads() {
  static const int asked = [] {
    const char* text = std::getenv("TESSERA_THREADS");
    return text != nullptr ? std::clamp(std::atoi(text), 1, 1024) : 0;
  }();
  return asked > 0 ? asked : std::max(1, own_cores() / processes_on_cores());
}

// One loop in flight: workers and the caller take chunks until none is left.
struct Loop {
  std::int64_t n;
  std::int64_t chunk;
  int team;  ///< of the loops inside
  const std::function<void(std::int64_t, std::int64_t)>* body;
  Loc site;  ///< of the caller, for errors that a worker's part throws
  const void* context = work_context();
  std::atomic<std::int64_t> next{0};
  std::atomic<std::int64_t> left;
  std::mutex mutex;
  std::condition_variable done;
  std::exception_ptr error;

  void work() {
    const bool inside_before = std::exchange(inside, true);
    const int team_before = std::exchange(team_inside, team);
    CallSite from(site);
    WorkContext scope(context);
    for (;;) {
      stop_if_ended();
      std::int64_t begin = next.fetch_add(chunk);
      if (begin >= n) break;
      std::int64_t end = std::min(n, begin + chunk);
      try {
        (*body)(begin, end);
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
      }
      if (left.fetch_sub(end - begin) == end - begin) {
        std::lock_guard lock(mutex);
        done.notify_all();
      }
    }
    inside = inside_before;
    team_inside = team_before;
  }
};

class Pool {
 public:
  // Never destroyed: detached work may outlive main. A forked child makes one of its own.
  static Pool& get() {
    Instance& i = instance();
    Pool* pool = i.pool.load(std::memory_order_acquire);
    if (pool != nullptr) return *pool;
    at_fork(ForkStage::Threads, {[] { instance().making.lock(); }, [] { instance().making.unlock(); },
                                 [] {
                                   instance().pool = nullptr;
                                   instance().making.unlock();
                                 }});
    std::lock_guard lock(i.making);
    pool = i.pool.load(std::memory_order_relaxed);
    if (pool != nullptr) return *pool;
    pool = new Pool;
    pool->start();
    i.pool.store(pool, std::memory_order_release);
    return *pool;
  }
  int threads() const { return workers_ + 1; }

  // Throws `std::bad_alloc` before any worker knows of the loop.
  void run(const std::shared_ptr<Loop>& loop, int helpers) {
    {
      std::lock_guard lock(mutex_);
      queue_.reserve(queue_.size() + static_cast<std::size_t>(helpers));  // all or none: the caller may leave
      for (int i = 0; i < helpers; ++i) queue_.push_back(loop);
      unclaimed_.fetch_add(helpers);
    }
    if (helpers == 1) {
      wake_.notify_one();
    } else {
      wake_.notify_all();
    }
  }

 private:
  struct Instance {
    std::mutex making;
    std::atomic<Pool*> pool{nullptr};
  };
  static Instance& instance() {
    static auto* i = new Instance;
    return *i;
  }

  Pool() = default;
  // As many threads as the machine lets us have: with fewer, or none, loops take longer.
  void start() noexcept {
    const int n = wanted_threads();
    try {
      for (; workers_ < n - 1; ++workers_) std::thread([this] { serve(); }).detach();
    } catch (const std::exception&) {
      return;
    }
  }
  [[noreturn]] void serve() {
    for (;;) {
      std::shared_ptr<Loop> loop;
      {
        const bool claimed = spin_until([&] { return claim(); });
        std::unique_lock lock(mutex_);
        if (!claimed) wake_.wait(lock, [&] { return claim(); });
        loop = std::move(queue_.back());
        queue_.pop_back();
      }
      loop->work();
    }
  }
  // One place in the queue for the calling thread: the others go on looking, and do not wait for the mutex in vain.
  bool claim() {
    int n = unclaimed_.load();
    while (n > 0 && !unclaimed_.compare_exchange_weak(n, n - 1)) {
    }
    return n > 0;
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::shared_ptr<Loop>> queue_;
  std::atomic<int> unclaimed_{0};  // of the queue
  int workers_ = 0;                // threads, written before anyone else sees the pool
};

}  // namespace

int num_threads() { return std::min(Pool::get().threads(), wanted_threads()); }
bool in_parallel_region() { return inside; }
int team_size() { return inside ? team_inside : num_threads(); }

void parallel_for(std::int64_t n, std::int64_t grain, const std::function<void(std::int64_t, std::int64_t)>& body) {
  if (n <= 0) return;
  stop_if_ended();
  grain = std::max<std::int64_t>(grain, 1);
  const int threads = team_size();
  if (threads == 1 || n <= grain) {
    body(0, n);
    return;
  }
  auto loop = std::make_shared<Loop>();
  loop->n = n;
  // A few chunks a thread even out unequal speeds; never below the grain.
  loop->chunk = std::max(grain, (n + threads * 4 - 1) / (threads * 4));
  loop->body = &body;
  if (const Loc* site = CallSite::innermost()) loop->site = *site;
  loop->left = n;
  const auto chunks = (n + loop->chunk - 1) / loop->chunk;
  const int takers = static_cast<int>(std::min<std::int64_t>(threads, chunks));
  loop->team = inside ? 1 : threads / takers;
  auto call_helpers = [&] {
    try {
      Pool::get().run(loop, takers - 1);
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  };
  call_helpers();  // without memory for them this thread takes every chunk
  loop->work();
  auto all_done = [&] { return loop->left.load() == 0; };
  spin_until(all_done);
  std::unique_lock lock(loop->mutex);
  loop->done.wait(lock, all_done);
  if (loop->error) std::rethrow_exception(loop->error);
}

}  // namespace tessera::base

int tessera::num_threads() { return base::num_threads(); }
