// SPDX-License-Identifier: Apache-2.0
// Completion of asynchronous work.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <span>

namespace tessera::runtime {

/// Becomes ready once, with or without an error. Thread-safe.
class Event {
 public:
  virtual ~Event() = default;
  virtual bool ready() const = 0;
  /// Blocks until ready; rethrows the error, every time.
  virtual void wait() const = 0;
  /// Null while not ready or without an error.
  virtual std::exception_ptr error() const = 0;
  /// Calls back once: here where it is ready already, else on the thread that completes it. The callback neither throws
  /// nor blocks.
  virtual void on_ready(std::function<void()> callback) = 0;
};
using EventPtr = std::shared_ptr<Event>;

/// Runs `then` once all of these are ready, without an error: here where they are already, else on the thread that
/// completes the last one, so it must not block. The result is ready after it; it has the first error in their order,
/// else what `then` throws.
EventPtr when_all(std::span<const EventPtr> events, std::function<void()> then = nullptr);

}  // namespace tessera::runtime
