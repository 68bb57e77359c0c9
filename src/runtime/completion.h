// SPDX-License-Identifier: Apache-2.0
// The event that whoever does the work completes.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <vector>

#include "runtime/event.h"

namespace tessera::runtime {

class Completion final : public Event {
 public:
  bool ready() const override { return ready_.load(std::memory_order_acquire); }
  void wait() const override;
  std::exception_ptr error() const override { return ready() ? error_ : nullptr; }
  void on_ready(std::function<void()> callback) override;

  /// Once, by whoever did the work.
  void complete(std::exception_ptr error);

 private:
  std::atomic<bool> ready_{false};
  std::exception_ptr error_;  // written before ready_, never after
  mutable std::mutex mutex_;
  mutable std::condition_variable done_;
  std::vector<std::function<void()>> callbacks_;
};

/// What `task` throws, or null.
std::exception_ptr error_of(const std::function<void()>& task);
/// An event that is ready; without an error always the same one. Throws `std::bad_alloc` where that is the error and
/// there is no memory to keep it for later.
EventPtr ready_event(const std::exception_ptr& error);

}  // namespace tessera::runtime
