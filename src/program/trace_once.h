// SPDX-License-Identifier: Apache-2.0
// Making something once while user code runs: what `std::call_once` is, but for functions that may come back.
#pragma once

#include <atomic>
#include <functional>

namespace tessera::program {

struct OnceThread;

/// The first caller makes it while others wait; after an error the next one tries again. A thread that asks for what it
/// is making itself, directly or through a thread that waits for it, would wait for ever: it is told so instead.
class Once {
 public:
  /// `recursion` throws; it is called where waiting would never end.
  void run(const std::function<void()>& make, const std::function<void()>& recursion);
  bool done() const { return state_.load(std::memory_order_acquire) == State::Done; }

 private:
  enum class State : unsigned char { Idle, Running, Done };
  void await(const std::function<void()>& recursion);
  void leave(State state) noexcept;

  std::atomic<State> state_{State::Idle};
  OnceThread* owner_ = nullptr;  // while Running, under the common lock
};

}  // namespace tessera::program
