// SPDX-License-Identifier: Apache-2.0
// What a process lets the modules that it reads call.
#pragma once

#include <mutex>
#include <utility>

namespace tessera::hlo {

template <class Functions>
class ModuleFunctions {
 public:
  /// Never destroyed: modules may be read while the process ends.
  static ModuleFunctions& of_process() {
    static auto* it = new ModuleFunctions;
    return *it;
  }
  void set(Functions functions) {
    std::lock_guard lock(mutex_);
    functions_ = std::move(functions);
  }
  Functions get() {
    std::lock_guard lock(mutex_);
    return functions_;
  }

 private:
  std::mutex mutex_;
  Functions functions_;
};

}  // namespace tessera::hlo
