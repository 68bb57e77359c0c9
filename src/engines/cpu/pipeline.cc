// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/pipeline.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

#include "base/process.h"
#include "base/thread_pool.h"
#include "base/verify_mode.h"

namespace tessera::cpu {

namespace {

// Steps that are open at a time: each has the memory of its results.
constexpr std::size_t kMostOpen = 4;
// Works shorter than this are worth no lock each, and where there are more than so many for a thread, no thread waits
// long for the last of them.
constexpr double kLeastWork = 5000;
constexpr std::size_t kMostWorks = 32;

enum class Share { Alone, Light, Wide };

Share share_of(const Works& works) {
  const auto n = static_cast<std::int64_t>(works.list.size());
  if (base::verifying()) return n > 1 ? Share::Wide : Share::Light;  // whatever they cost
  if (!worth_threads(works.cost * static_cast<double>(n))) return Share::Light;
  return works.cost >= kLeastWork && worth_spreading(n, works.cost) && divides_fairly(n) ? Share::Wide : Share::Alone;
}

// By value and shard the work that writes it, by numbers that count on through the program.
class Writers {
 public:
  explicit Writers(std::size_t values) : of_(values) {}
  /// -1: none.
  std::int64_t find(ShardOf s) const {
    const auto& shards = of_[at(s.value)];
    return at(s.shard) < shards.size() ? shards[at(s.shard)] : kNone;
  }
  void set(ShardOf s, std::int64_t work) {
    auto& shards = of_[at(s.value)];
    if (shards.size() <= at(s.shard)) shards.resize(at(s.shard) + 1, kNone);
    shards[at(s.shard)] = work;
  }

 private:
  static constexpr std::int64_t kNone = -1;
  std::vector<std::vector<std::int64_t>> of_;
};

}  // namespace

std::vector<Pipeline> Pipeline::find(const std::vector<StepPtr>& steps, const ir::Graph& g) {
  const int threads = base::num_threads();
  std::vector<Pipeline> out;
  if (threads == 1) return out;
  Pipeline now;
  int wide = 0;  // its steps that are worth more than one thread
  Writers writers(g.num_values());
  std::int64_t before = 0;  // works of earlier pipelines
  auto end = [&](std::size_t next) {
    before += static_cast<std::int64_t>(now.works_.back());
    if (wide > 1) out.push_back(std::move(now));
    now = Pipeline();
    now.first_ = next;
    wide = 0;
  };
  for (std::size_t s = 0; s < steps.size(); ++s) {
    const std::optional<Works> works = steps[s]->works(kMostWorks * at(threads));
    const Share share = works ? share_of(*works) : Share::Alone;
    if (share == Share::Alone) {
      end(s + 1);
      continue;
    }
    if (share == Share::Wide) {
      const int takers = static_cast<int>(std::min(at(threads), works->list.size()));
      if (now.takers_ != 0 && now.takers_ != takers) end(s);
      now.takers_ = takers;
      ++wide;
    }
    now.steps_.push_back(steps[s].get());
    for (const auto& [to, from] : works->shared) writers.set(to, writers.find(from));
    for (const auto& work : works->list) {
      std::vector<std::size_t> after;
      for (auto r : work.reads) {
        if (auto w = writers.find(r); w >= before) after.push_back(at(w - before));
      }
      std::sort(after.begin(), after.end());
      after.erase(std::unique(after.begin(), after.end()), after.end());
      now.after_.push_back(std::move(after));
      std::vector<ShardOf> touches = work.reads;
      touches.insert(touches.end(), work.writes.begin(), work.writes.end());
      now.touches_.push_back(std::move(touches));
    }
    // After all: works of one step do not wait for each other.
    for (std::size_t k = 0; k < works->list.size(); ++k) {
      for (auto w : works->list[k].writes) writers.set(w, before + static_cast<std::int64_t>(now.works_.back() + k));
    }
    now.works_.push_back(now.works_.back() + works->list.size());
  }
  end(steps.size());
  return out;
}

/// One run, by all threads that take part in it.
class PipelineRun {
 public:
  PipelineRun(const Pipeline& pipeline, Frame& frame)
      : p_(pipeline),
        frame_(frame),
        open_(pipeline.steps_.size()),
        left_(pipeline.steps_.size()),
        claimed_(pipeline.after_.size()),
        done_(pipeline.after_.size()),
        held_(pipeline.after_.size()) {}

  /// On each thread.
  void take_part() {
    std::unique_lock lock(mutex_);
    try {
      for (;;) {
        const std::uint64_t seen = changes_;
        if (failed_) return;
        const Next next = claim();
        if (next.all_claimed) return;
        if (next.step == kNone) {
          wait(lock, seen);
          continue;
        }
        lock.unlock();
        base::stop_if_ended();
        open_[next.step]->work(static_cast<std::int64_t>(next.work - p_.works_[next.step]));
        lock.lock();
        finish(next);
      }
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      failed_ = true;
      changed();
      throw;
    }
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  struct Next {
    std::size_t step = kNone, work = 0;
    bool all_claimed = false;
  };

  // The first work that waits for none, of the first open step that has one. Opens the next step if there is none.
  Next claim() {
    for (std::size_t s = oldest_;; ++s) {
      if (s == opened_) {
        if (s == p_.steps_.size()) return {.all_claimed = oldest_ == s};
        if (unfinished_ == kMostOpen) return {};
        open();
      }
      bool unclaimed = false;
      for (std::size_t w = p_.works_[s]; w < p_.works_[s + 1]; ++w) {
        if (claimed_[w]) continue;
        if (ready(w)) {
          claimed_[w] = true;
          return {.step = s, .work = w};
        }
        unclaimed = true;
      }
      if (s == oldest_ && !unclaimed) ++oldest_;
    }
  }

  bool ready(std::size_t work) const {
    return std::ranges::all_of(p_.after_[work], [&](std::size_t w) { return done_[w]; });
  }

  void open() {
    const std::size_t s = opened_;
    const Step& step = *p_.steps_[s];
    open_[s] = step.open(frame_);
    ++opened_;
    left_[s] = p_.works_[s + 1] - p_.works_[s];
    if (left_[s] > 0) ++unfinished_;
    // Until a work is done nobody gives its memory back or writes there, whatever becomes of the values.
    for (std::size_t w = p_.works_[s]; w < p_.works_[s + 1]; ++w) {
      for (auto [v, shard] : p_.touches_[w]) {
        if (!frame_.slots.borrowed(at(v))) held_[w].push_back(frame_.slots[at(v)][at(shard)]);
      }
    }
    for (auto v : step.frees) frame_.slots.drop(at(v));
  }

  void finish(const Next& work) {
    done_[work.work] = true;
    runtime::release(held_[work.work]);
    if (--left_[work.step] == 0) {
      open_[work.step].reset();
      --unfinished_;
    }
    changed();
  }

  void changed() {
    changes_.fetch_add(1);
    if (sleeping_ > 0) wake_.notify_all();
  }

  // Waits for a change.
  void wait(std::unique_lock<std::mutex>& lock, std::uint64_t seen) {
    auto changed = [&] { return changes_.load() != seen; };
    lock.unlock();
    base::spin_until(changed);
    lock.lock();
    ++sleeping_;
    wake_.wait(lock, changed);
    --sleeping_;
  }

  const Pipeline& p_;
  Frame& frame_;
  std::mutex mutex_;  // of all that follows; works run without it
  std::condition_variable wake_;
  std::atomic<std::uint64_t> changes_{0};
  int sleeping_ = 0;
  bool failed_ = false;
  std::size_t opened_ = 0;      // steps
  std::size_t oldest_ = 0;      // all works of the steps before it are claimed
  std::size_t unfinished_ = 0;  // open steps
  std::vector<std::unique_ptr<OpenStep>> open_;
  std::vector<std::size_t> left_;  // works by step, those that run included
  std::vector<bool> claimed_, done_;
  std::vector<ShardBuffers> held_;  // by work
};

void Pipeline::run(Frame& frame) const {
  PipelineRun run(*this, frame);
  base::parallel_for(takers_, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t k = begin; k < end; ++k) run.take_part();
  });
}

}  // namespace tessera::cpu
