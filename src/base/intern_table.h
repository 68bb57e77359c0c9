// SPDX-License-Identifier: Apache-2.0
// Equal values as one shared object.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace tessera::base {

/// Holds weak references: an object that nobody uses any more goes away.
template <class T>
class InternTable {
 public:
  /// The object with this hash for which `same` holds, or the one that `make` returns.
  template <class Same, class Make>
  std::shared_ptr<const T> get(std::size_t hash, Same&& same, Make&& make) {
    std::lock_guard lock(mutex_);
    auto [first, last] = map_.equal_range(hash);
    for (auto it = first; it != last;) {
      if (auto found = it->second.lock()) {
        if (same(*found)) return found;
        ++it;
      } else {
        it = map_.erase(it);
      }
    }
    std::shared_ptr<const T> made = make();
    if (map_.size() >= sweep_at_) sweep();
    map_.emplace(hash, made);
    return made;
  }

 private:
  void sweep() {
    std::erase_if(map_, [](const auto& e) { return e.second.expired(); });
    sweep_at_ = 2 * map_.size() + 64;
  }

  std::mutex mutex_;
  std::unordered_multimap<std::size_t, std::weak_ptr<const T>> map_;
  std::size_t sweep_at_ = 64;
};

}  // namespace tessera::base
