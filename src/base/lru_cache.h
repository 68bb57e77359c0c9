// SPDX-License-Identifier: Apache-2.0
// A bounded cache that several threads may ask at once: a missing value is computed by one of them while the others
// wait.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace tessera::base {

struct LruStats {
  std::int64_t hits = 0;
  std::int64_t misses = 0;
  std::int64_t entries = 0;
};

/// Keys need `==` and `Hash`; values are cheap handles. Entries have weights, and the least recently used ones go when
/// the sum exceeds the capacity. A computation that throws leaves no entry behind.
template <class Key, class Value, class Hash>
class LruCache {
 public:
  explicit LruCache(std::int64_t capacity) : capacity_(capacity) {}

  /// `make()` returns the value and its weight.
  template <class Make>
  Value get(const Key& key, Make&& make) {
    std::shared_ptr<Entry> entry = find_or_insert(key);
    std::unique_lock lock(entry->mutex);
    if (entry->ready) return entry->value;
    try {
      auto [value, weight] = make();
      entry->value = std::move(value);
      entry->ready = true;
      Value result = entry->value;
      lock.unlock();
      account(key, entry, weight);
      return result;
    } catch (...) {
      lock.unlock();
      forget(key, entry);
      throw;
    }
  }

  LruStats stats() const {
    std::lock_guard lock(mutex_);
    return {hits_, misses_, static_cast<std::int64_t>(map_.size())};
  }

  void clear() {
    std::lock_guard lock(mutex_);
    map_.clear();
    order_.clear();
    weight_ = hits_ = misses_ = 0;
  }

 private:
  struct Entry {
    std::mutex mutex;
    bool ready = false;
    Value value{};
    std::int64_t weight = 0;
  };
  using Order = std::list<Key>;  // most recent first
  struct HashOf {
    std::size_t operator()(const Key* key) const { return Hash{}(*key); }
  };
  struct SameKey {
    bool operator()(const Key* a, const Key* b) const { return a == b || *a == *b; }
  };
  struct Slot {
    std::shared_ptr<Entry> entry;
    typename Order::iterator place;
  };

  std::shared_ptr<Entry> find_or_insert(const Key& key) {
    std::lock_guard lock(mutex_);
    if (auto it = map_.find(&key); it != map_.end()) {
      ++hits_;
      order_.splice(order_.begin(), order_, it->second.place);
      return it->second.entry;
    }
    ++misses_;
    auto entry = std::make_shared<Entry>();
    order_.push_front(key);
    try {
      map_.emplace(&order_.front(), Slot{entry, order_.begin()});
    } catch (...) {
      order_.pop_front();
      throw;
    }
    return entry;
  }

  void account(const Key& key, const std::shared_ptr<Entry>& entry, std::int64_t weight) {
    std::lock_guard lock(mutex_);
    auto it = map_.find(&key);
    if (it == map_.end() || it->second.entry != entry) return;
    entry->weight = weight;
    weight_ += weight;
    while (weight_ > capacity_ && order_.size() > 1) {
      auto last = map_.find(&order_.back());
      weight_ -= last->second.entry->weight;
      map_.erase(last);
      order_.pop_back();
    }
  }

  void forget(const Key& key, const std::shared_ptr<Entry>& entry) {
    std::lock_guard lock(mutex_);
    auto it = map_.find(&key);
    if (it == map_.end() || it->second.entry != entry) return;
    auto place = it->second.place;
    map_.erase(it);
    order_.erase(place);
  }

  const std::int64_t capacity_;
  mutable std::mutex mutex_;
  std::unordered_map<const Key*, Slot, HashOf, SameKey> map_;  // keys lie in `order_`
  Order order_;
  std::int64_t weight_ = 0;
  std::int64_t hits_ = 0;
  std::int64_t misses_ = 0;
};

}  // namespace tessera::base
