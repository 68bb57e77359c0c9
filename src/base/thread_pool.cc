// SPDX-License-Identifier: Apache-2.0
#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "hwy/cache_control.h"
#include "tessera/loc.h"

namespace tessera::base {

namespace {

thread_local bool inside = false;

// How long a thread looks for what it waits for before it sleeps: the loops of one program follow each other within
// this time, and waking a thread takes as long.
constexpr std::chrono::microseconds kSpin{100};

template <class Ready>
bool spin_until(const Ready& ready) {
  auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 16; ++i) {
      if (ready()) return true;
      hwy::Pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

// One loop in flight: workers and the caller take chunks until none is left.
struct Loop {
  std::int64_t n;
  std::int64_t chunk;
  const std::function<void(std::int64_t, std::int64_t)>* body;
  Loc site;  ///< of the caller, for errors that a worker's part throws
  std::atomic<std::int64_t> next{0};
  std::atomic<std::int64_t> left;
  std::mutex mutex;
  std::condition_variable done;
  std::exception_ptr error;

  void work() {
    bool before = std::exchange(inside, true);
    CallSite from(site);
    for (;;) {
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
    inside = before;
  }
};

class Pool {
 public:
  static Pool& get() {
    static Pool* pool = new Pool;  // never destroyed: detached work may outlive main
    return *pool;
  }
  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  void run(const std::shared_ptr<Loop>& loop, int helpers) {
    {
      std::lock_guard lock(mutex_);
      queue_.reserve(queue_.size() + static_cast<std::size_t>(helpers));  // all or none: the caller may leave
      for (int i = 0; i < helpers; ++i) queue_.push_back(loop);
      queued_.store(static_cast<int>(queue_.size()));
    }
    if (helpers == 1) {
      wake_.notify_one();
    } else {
      wake_.notify_all();
    }
  }

 private:
  Pool() {
    int n = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    if (const char* text = std::getenv("TESSERA_THREADS")) n = std::clamp(std::atoi(text), 1, 1024);
    workers_.reserve(static_cast<std::size_t>(n));
    try {
      for (int i = 1; i < n; ++i) {
        workers_.emplace_back([this] { serve(); });
        workers_.back().detach();
      }
    } catch (const std::exception&) {
      // The machine gives no more threads, or no memory for them: those that run already use this object.
    }
  }
  void serve() {
    for (;;) {
      std::shared_ptr<Loop> loop;
      {
        spin_until([&] { return queued_.load() > 0; });
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] { return !queue_.empty(); });
        loop = std::move(queue_.back());
        queue_.pop_back();
        queued_.store(static_cast<int>(queue_.size()));
      }
      loop->work();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::shared_ptr<Loop>> queue_;
  std::atomic<int> queued_{0};  // the queue's size, to be looked at without the mutex
  std::vector<std::thread> workers_;
};

}  // namespace

int num_threads() { return Pool::get().threads(); }
bool in_parallel_region() { return inside; }

void parallel_for(std::int64_t n, std::int64_t grain, const std::function<void(std::int64_t, std::int64_t)>& body) {
  if (n <= 0) return;
  grain = std::max<std::int64_t>(grain, 1);
  int threads = inside ? 1 : num_threads();
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
  auto chunks = (n + loop->chunk - 1) / loop->chunk;
  Pool::get().run(loop, static_cast<int>(std::min<std::int64_t>(threads, chunks)) - 1);
  loop->work();
  auto all_done = [&] { return loop->left.load() == 0; };
  spin_until(all_done);
  std::unique_lock lock(loop->mutex);
  loop->done.wait(lock, all_done);
  if (loop->error) std::rethrow_exception(loop->error);
}

}  // namespace tessera::base
