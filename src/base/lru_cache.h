// SPDX-License-Identifier: Apache-2.0
// A bounded cache that several threads may ask at once: a missing value is computed by one of them while the others
// wait.
#pragma once

#include <boost/intrusive/list.hpp>
#include <cstdint>
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

  /// `make()` returns the value and its weight. A key that is here is not copied.
  template <class Make, class K = Key>
  Value get(K&& key, Make&& make) {
    std::shared_ptr<Entry> entry = find_or_insert(std::forward<K>(key));
    std::unique_lock lock(entry->mutex);
    if (entry->ready) return entry->value;
    try {
      auto [value, weight] = make();
      entry->value = std::move(value);
      entry->ready = true;
      Value result = entry->value;
      lock.unlock();
      account(*entry, weight);
      return result;
    } catch (...) {
      lock.unlock();
      forget(*entry);
      throw;
    }
  }

  LruStats stats() const {
    std::lock_guard lock(mutex_);
    return {hits_, misses_, static_cast<std::int64_t>(map_.size())};
  }

  void clear() {
    std::lock_guard lock(mutex_);
    order_.clear();
    map_.clear();
    weight_ = hits_ = misses_ = 0;
  }

 private:
  // In the map as long as it is linked.
  struct Entry : boost::intrusive::list_base_hook<> {
    explicit Entry(Key k) : key(std::move(k)) {}
    const Key key;
    std::mutex mutex;
    bool ready = false;
    Value value{};
    std::int64_t weight = 0;
  };
  struct HashOf {
    std::size_t operator()(const Key* key) const { return Hash{}(*key); }
  };
  struct SameKey {
    bool operator()(const Key* a, const Key* b) const { return a == b || *a == *b; }
  };

  template <class K>
  std::shared_ptr<Entry> find_or_insert(K&& key) {
    std::lock_guard lock(mutex_);
    if (auto it = map_.find(&key); it != map_.end()) {
      ++hits_;
      order_.splice(order_.begin(), order_, order_.iterator_to(*it->second));
      return it->second;
    }
    ++misses_;
    auto entry = std::make_shared<Entry>(std::forward<K>(key));
    map_.emplace(&entry->key, entry);
    order_.push_front(*entry);
    return entry;
  }

  void account(Entry& entry, std::int64_t weight) {
    std::lock_guard lock(mutex_);
    if (!entry.is_linked()) return;
    entry.weight = weight;
    weight_ += weight;
    while (weight_ > capacity_ && &order_.front() != &order_.back()) {
      weight_ -= order_.back().weight;
      remove(order_.back());
    }
  }

  void forget(Entry& entry) {
    std::lock_guard lock(mutex_);
    if (entry.is_linked()) remove(entry);
  }

  void remove(Entry& entry) {
    order_.erase(order_.iterator_to(entry));
    map_.erase(&entry.key);
  }

  const std::int64_t capacity_;
  mutable std::mutex mutex_;
  std::unordered_map<const Key*, std::shared_ptr<Entry>, HashOf, SameKey> map_;  // by the entries' own keys
  boost::intrusive::list<Entry> order_;                                          // most recent first
  std::int64_t weight_ = 0;
  std::int64_t hits_ = 0;
  std::int64_t misses_ = 0;
};

}  // namespace tessera::base
