// SPDX-License-Identifier: Apache-2.0
#include "runtime/event.h"

#include <new>
#include <utility>
#include <vector>

#include "runtime/completion.h"

namespace tessera::runtime {

void Completion::wait() const {
  if (!ready()) {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return ready(); });
  }
  if (error_) std::rethrow_exception(error_);
}

void Completion::on_ready(std::function<void()> callback) {
  {
    std::lock_guard lock(mutex_);
    if (!ready()) {
      callbacks_.push_back(std::move(callback));
      return;
    }
  }
  callback();
}

void Completion::complete(std::exception_ptr error) {
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

std::exception_ptr error_of(const std::function<void()>& task) {
  try {
    task();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

namespace {
EventPtr completed(std::exception_ptr error) {
  auto event = std::make_shared<Completion>();
  event->complete(std::move(error));
  return event;
}
}  // namespace

EventPtr ready_event(const std::exception_ptr& error) {
  static const auto* success = new EventPtr(completed(nullptr));
  if (!error) return *success;
  try {
    return completed(error);
  } catch (const std::bad_alloc&) {
    std::rethrow_exception(error);
  }
}

namespace {
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
    if (!error && then) error = error_of(then);
    then = nullptr;
    events.clear();
    done->complete(std::move(error));
  }
};
}  // namespace

EventPtr when_all(std::span<const EventPtr> events, std::function<void()> then) {
  auto join = std::make_shared<Join>(events, std::move(then));
  EventPtr done = join->done;
  for (const auto& e : events) e->on_ready([join] { join->arrive(); });
  join->arrive();
  return done;
}

}  // namespace tessera::runtime
