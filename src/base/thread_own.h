// SPDX-License-Identifier: Apache-2.0
// Objects that belong to a thread, for code that may run after the thread's objects were destroyed: destructors of
// static objects do, on the main thread.
#pragma once

namespace tessera::base {

/// The thread's T for this Tag. Once it was destroyed there is another one, which lives on.
template <class T, class Tag>
T& thread_own() {
  struct Own {
    T value{};
    ~Own() { gone() = true; }
    static bool& gone() {
      static thread_local bool is = false;
      return is;
    }
  };
  if (Own::gone()) [[unlikely]] {
    static thread_local T* late = new T{};
    return *late;
  }
  static thread_local Own own;
  return own.value;
}

}  // namespace tessera::base
