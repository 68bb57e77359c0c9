// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/kernels/sort_kernels.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/strings.h"
#include "base/thread_own.h"
#include "base/thread_pool.h"
#include "base/verify_mode.h"
#include "core/with_type.h"
#include "engines/cpu/kernels/sort_keys.h"
#include "tessera/error.h"

namespace tessera::kernels {

namespace {

constexpr std::int64_t kSmall = 512;          // rows up to this length are sorted by comparison
constexpr std::int64_t kParallel = 64 << 10;  // rows from this length are sorted by all threads together
constexpr int kDigit = 8;
constexpr std::size_t kBuckets = std::size_t{1} << kDigit;

template <class K>
struct Item {
  K key;
  std::uint32_t at;
};
template <class K>
K key_of(const Item<K>& item) {
  return item.key;
}
template <class K>
K key_of(K key) {
  return key;
}

template <class K>
std::size_t digit(K key, int shift) {
  return static_cast<std::size_t>(key >> shift) & (kBuckets - 1);
}

using Counts = std::array<std::int64_t, kBuckets>;

// One pass: elements to the buckets of one digit, each task's share of a bucket after those of the tasks before it.
// Returns false, and moves nothing, when all elements are in one bucket.
template <class E>
bool radix_pass(const E* from, E* to, std::int64_t n, int shift, std::vector<Counts>& counts) {
  auto tasks = static_cast<std::int64_t>(counts.size());
  std::int64_t share = (n + tasks - 1) / tasks;
  auto each = [&](const auto& body) {
    if (tasks == 1) return body(0, 1);
    base::parallel_for(tasks, 1, body);
  };
  each([&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      Counts& c = counts[static_cast<std::size_t>(t)];
      c.fill(0);
      for (std::int64_t i = t * share; i < std::min(n, (t + 1) * share); ++i) ++c[digit(key_of(from[i]), shift)];
    }
  });
  std::int64_t total = 0;
  for (std::size_t b = 0; b < kBuckets; ++b) {
    std::int64_t start = total;
    for (Counts& c : counts) {
      std::int64_t here = c[b];
      c[b] = total;
      total += here;
    }
    if (total - start == n) return false;
  }
  each([&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      Counts next = counts[static_cast<std::size_t>(t)];
      for (std::int64_t i = t * share; i < std::min(n, (t + 1) * share); ++i)
        to[next[digit(key_of(from[i]), shift)]++] = from[i];
    }
  });
  return true;
}

// Sorts `a`; `b` is scratch of the same size. The sorted elements end in `a`.
template <class E>
void radix_sort(std::vector<E>& a, std::vector<E>& b, std::int64_t n, bool parallel) {
  std::vector<Counts> counts(parallel ? static_cast<std::size_t>(base::team_size()) * 2 : 1);
  constexpr int bits = static_cast<int>(sizeof(key_of(E{}))) * 8;
  for (int shift = 0; shift < bits; shift += kDigit) {
    if (radix_pass(a.data(), b.data(), n, shift, counts)) a.swap(b);
  }
}

template <class E>
void sort_elements(std::vector<E>& a, std::vector<E>& b, std::int64_t n, bool parallel) {
  constexpr bool wide = sizeof(key_of(E{})) > 8;
  if (n > kSmall && !wide) {
    b.resize(a.size());
    return radix_sort(a, b, n, parallel);
  }
  std::stable_sort(a.begin(), a.begin() + n, [](const E& x, const E& y) { return key_of(x) < key_of(y); });
}

// Scratch lives on with its thread, but not at any size.
template <class E>
void release_if_large(std::vector<E>& a, std::vector<E>& b) {
  constexpr std::size_t kMost = std::size_t{64} << 20;
  if (a.size() * sizeof(E) <= kMost) return;
  a = {};
  b = {};
}

// Runs `body(row, parallel)` for all rows: many rows side by side, or one after the other with all threads on each.
template <class Body>
void for_rows(std::int64_t rows, std::int64_t n, const Body& body) {
  const int threads = base::team_size();
  const bool together = n >= kParallel && rows < threads && threads > 1;
  if (together) {
    for (std::int64_t r = 0; r < rows; ++r) body(r, true);
    return;
  }
  base::parallel_for(rows, std::max<std::int64_t>(1, 4096 / std::max<std::int64_t>(n, 1)),
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t r = begin; r < end; ++r) body(r, false);
                     });
}

template <class F>
void for_range(std::int64_t n, bool parallel, const F& body) {
  if (!parallel) return body(0, n);
  base::parallel_for(n, 16 << 10, body);
}

template <class T>
void permutation_row(const T* in, std::int32_t* p, bool refine, std::int64_t n, bool parallel) {
  using K = typename Key<T>::type;
  auto& a = base::thread_own<std::vector<Item<K>>, struct ItemsTag>();
  auto& b = base::thread_own<std::vector<Item<K>>, struct OtherItemsTag>();
  if (static_cast<std::int64_t>(a.size()) < n) a.resize(static_cast<std::size_t>(n));
  base::poison(a.data(), a.size() * sizeof(a[0]));
  Item<K>* items = a.data();  // the vector's name means another one on another thread
  for_range(n, parallel, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      std::int64_t at = refine ? p[i] : i;
      items[i] = {Key<T>::of(in[at]), static_cast<std::uint32_t>(at)};
    }
  });
  sort_elements(a, b, n, parallel);
  items = a.data();
  for_range(n, parallel, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) p[i] = static_cast<std::int32_t>(items[i].at);
  });
  release_if_large(a, b);
}

// Elements whose bits their keys tell.
template <class T>
constexpr bool kInvertible = std::is_arithmetic_v<T> || std::is_same_v<T, float16_t> || std::is_same_v<T, bfloat16_t>;

template <class T, class K>
T from_key(K key) {
  if constexpr (!Key<T>::kMerges) {
    return static_cast<T>(Key<T>::of(static_cast<T>(key)));  // flipping the top bit is its own inverse
  } else {
    return std::bit_cast<T>(static_cast<K>((key & Key<T>::kTop) ? key ^ Key<T>::kTop : ~key));
  }
}

template <class T>
void sort_row(const T* in, T* out, std::int64_t n, bool parallel) {
  using K = typename Key<T>::type;
  auto& a = base::thread_own<std::vector<K>, struct KeysTag>();
  auto& b = base::thread_own<std::vector<K>, struct OtherKeysTag>();
  if (static_cast<std::int64_t>(a.size()) < n) a.resize(static_cast<std::size_t>(n));
  base::poison(a.data(), a.size() * sizeof(a[0]));
  K* keys = a.data();
  // Elements that share a key with other bits, in the order of the input: zeros and NaNs.
  std::vector<T> zeros, nans;
  for_range(n, parallel, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) keys[i] = Key<T>::of(in[i]);
  });
  if constexpr (Key<T>::kMerges) {
    for (std::int64_t i = 0; i < n; ++i) {
      if (keys[i] == Key<T>::kTop) zeros.push_back(in[i]);
      if (keys[i] == static_cast<K>(~K{0})) nans.push_back(in[i]);
    }
  }
  sort_elements(a, b, n, parallel);
  keys = a.data();
  for_range(n, parallel, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) out[i] = from_key<T>(keys[i]);
  });
  if constexpr (Key<T>::kMerges) {
    auto first = std::lower_bound(keys, keys + n, Key<T>::kTop) - keys;
    std::copy(zeros.begin(), zeros.end(), out + first);
    std::copy(nans.begin(), nans.end(), out + n - static_cast<std::int64_t>(nans.size()));
  }
  release_if_large(a, b);
}

template <class T>
void sort_typed(const void* in, void* out, std::int64_t rows, std::int64_t n) {
  for_rows(rows, n, [&](std::int64_t r, bool parallel) {
    const T* from = static_cast<const T*>(in) + r * n;
    T* to = static_cast<T*>(out) + r * n;
    if constexpr (kInvertible<T>) {
      sort_row(from, to, n, parallel);
    } else {
      std::vector<std::int32_t> p(static_cast<std::size_t>(n));
      permutation_row(from, p.data(), false, n, parallel);
      std::vector<T> sorted(p.size());
      for (std::size_t i = 0; i < p.size(); ++i) sorted[i] = from[p[i]];
      std::copy(sorted.begin(), sorted.end(), to);
    }
  });
}

template <class T>
bool any_greater(const T* in, std::int64_t n, decltype(total_key(T{})) least) {
  decltype(least) greater = 0;
  for (std::int64_t j = 0; j < n; ++j) greater |= static_cast<decltype(least)>(total_key(in[j]) > least);
  return greater != 0;
}

// The row goes by once. Elements that are greater than the last of the `k` largest so far are set aside, and those that
// are not among the largest are dropped when there are enough of them: few elements of most rows are touched twice.
// Elements come by in order, so that a later one that is no greater is behind the earlier ones.
template <class T>
void top_row(const T* in, std::int64_t n, std::int64_t k, T* values, std::int32_t* positions) {
  using S = decltype(total_key(T{}));
  struct Candidate {
    S key;
    std::int32_t at;
  };
  constexpr std::int64_t kBlock = 32, kLeastAside = 64;
  auto& memory = base::thread_own<std::vector<Candidate>, struct TopTag>();
  const std::int64_t most = k + std::max(k, kLeastAside);
  memory.resize(static_cast<std::size_t>(std::min(n, most) + kBlock));
  Candidate* kept = memory.data();
  std::int64_t have = 0;
  auto before = [](const Candidate& x, const Candidate& y) { return x.key != y.key ? x.key > y.key : x.at < y.at; };
  std::int64_t i = 0;
  for (const std::int64_t all = std::min(n, most); i < all; ++i) {
    kept[have++] = {total_key(in[i]), static_cast<std::int32_t>(i)};
  }
  while (i < n) {
    if (have >= most) {
      std::nth_element(kept, kept + k - 1, kept + have, before);
      have = k;
    }
    const S least = kept[k - 1].key;
    for (; i < n && have < most; i += kBlock) {
      const std::int64_t count = std::min(kBlock, n - i);
      if (count == kBlock ? !any_greater(in + i, kBlock, least) : !any_greater(in + i, count, least)) continue;
      for (std::int64_t j = 0; j < count; ++j) {
        kept[have] = {total_key(in[i + j]), static_cast<std::int32_t>(i + j)};
        have += kept[have].key > least;
      }
    }
  }
  if (k < have) std::nth_element(kept, kept + k - 1, kept + have, before);
  std::sort(kept, kept + k, before);
  for (std::int64_t j = 0; j < k; ++j) {
    values[j] = in[kept[j].at];
    positions[j] = kept[j].at;
  }
}

}  // namespace

void sort_rows(DType dtype, const void* in, void* out, std::int64_t rows, std::int64_t n) {
  if (rows * n == 0) return;
  core::with_type(dtype, [&]<class T>() { sort_typed<T>(in, out, rows, n); });
}

void sort_permutation(DType dtype, const void* in, std::int32_t* permutation, bool refine, std::int64_t rows,
                      std::int64_t n) {
  if (rows * n == 0) return;
  core::with_type(dtype, [&]<class T>() {
    for_rows(rows, n, [&](std::int64_t r, bool parallel) {
      permutation_row(static_cast<const T*>(in) + r * n, permutation + r * n, refine, n, parallel);
    });
  });
}

void top_k(DType dtype, const void* in, std::int64_t rows, std::int64_t n, std::int64_t k, void* values,
           std::int32_t* positions) {
  if (is_complex(dtype)) {
    throw UnimplementedError(str("top_k: dtype = ", dtype_name(dtype), "; expected a real dtype"));
  }
  if (rows * k == 0) return;
  core::with_type(dtype, [&]<class T>() {
    if constexpr (kInvertible<T>) {
      base::parallel_for(rows, std::max<std::int64_t>(1, 8192 / n), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r) {
          top_row(static_cast<const T*>(in) + r * n, n, k, static_cast<T*>(values) + r * k, positions + r * k);
        }
      });
    }
  });
}

}  // namespace tessera::kernels
