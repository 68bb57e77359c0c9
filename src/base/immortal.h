// SPDX-License-Identifier: Apache-2.0
// Objects of static duration that are never destroyed: threads may still use them while the program ends.
#pragma once

#include <utility>

namespace tessera::base {

/// Holds a value whose destructor does not run. The address of `value` is a constant, also before it is made.
template <class T>
union Immortal {
  T value;

  template <class... Args>
  explicit Immortal(Args&&... args) : value(std::forward<Args>(args)...) {}
  ~Immortal() { /* the value lives on */
  }
  Immortal(const Immortal&) = delete;
  Immortal& operator=(const Immortal&) = delete;
};

}  // namespace tessera::base
