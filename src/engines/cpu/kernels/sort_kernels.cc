// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/kernels/sort_kernels.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <span>
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
constexpr std::int64_t kLong = 8 << 10;       // rows from this length have digits of 11 bits, others of 8
constexpr std::int64_t kParallel = 64 << 10;  // rows from this length are sorted by all threads together

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

// A row in equal parts, one for each task.
class RowParts {
 public:
  RowParts(std::int64_t n, bool parallel)
      : n_(n), tasks_(parallel ? std::int64_t{2} * base::team_size() : 1), part_((n + tasks_ - 1) / tasks_) {}
  std::size_t tasks() const { return static_cast<std::size_t>(tasks_); }
  // `body(task, begin, end)`
  template <class Body>
  void each(const Body& body) const {
    auto some = [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t t = first; t < last; ++t) {
        body(static_cast<std::size_t>(t), std::min(n_, t * part_), std::min(n_, (t + 1) * part_));
      }
    };
    if (tasks_ == 1) return some(0, 1);
    base::parallel_for(tasks_, 1, some);
  }

 private:
  std::int64_t n_, tasks_, part_;
};

// Sorts by digits of `kDigit` bits, the least significant first: wide ones are fewer passes over memory, and more
// counts.
template <int kDigit>
class Radix {
 public:
  explicit Radix(const RowParts& parts) : parts_(parts), counts_(parts.tasks()) {}

  // Before a pass each element is counted once, with the task that has it.
  template <class E>
  void count(std::size_t task, const E* from, std::int64_t n, int shift) {
    Counts& c = counts_[task];
    for (std::int64_t i = 0; i < n; ++i) ++c[digit(from[i], shift)];
  }

  // Elements to the buckets of one digit, each task's share of a bucket after those of the tasks before it. Returns
  // false, and moves nothing, when all elements are in one bucket.
  template <class E, class O, class Convert>
  bool pass(const E* from, O* to, int shift, const Convert& convert) {
    std::int64_t total = 0;
    std::int64_t largest = 0;
    for (std::size_t b = 0; b < kBuckets; ++b) {
      const std::int64_t start = total;
      for (Counts& c : counts_) {
        const std::int64_t here = c[b];
        c[b] = total;
        total += here;
      }
      largest = std::max(largest, total - start);
    }
    const bool moves = largest < total;
    parts_.each([&](std::size_t task, std::int64_t begin, std::int64_t end) {
      Counts& next = counts_[task];
      for (std::int64_t i = begin; moves && i < end; ++i) to[next[digit(from[i], shift)]++] = convert(from[i]);
      next.fill(0);
    });
    return moves;
  }

 private:
  static constexpr std::size_t kBuckets = std::size_t{1} << kDigit;
  using Counts = std::array<std::int64_t, kBuckets>;

  template <class E>
  static std::size_t digit(const E& element, int shift) {
    return static_cast<std::size_t>(key_of(element) >> shift) & (kBuckets - 1);
  }

  const RowParts& parts_;
  std::vector<Counts> counts_;
};

template <int kDigit, class E, class O, class Fill, class Convert>
void radix_sort(const RowParts& parts, E* from, E* other, O* out, const Fill& fill, const Convert& convert) {
  constexpr int bits = static_cast<int>(sizeof(key_of(E{}))) * 8;
  constexpr std::int64_t kBlock = 1024;  // elements are counted while they are in the cache
  Radix<kDigit> radix(parts);
  parts.each([&](std::size_t task, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; i += kBlock) {
      const std::int64_t stop = std::min(end, i + kBlock);
      fill(task, i, stop, from + i);
      radix.count(task, from + i, stop - i, 0);
    }
  });
  for (int shift = 0; shift < bits; shift += kDigit) {
    if (shift > 0) {
      parts.each([&](std::size_t task, std::int64_t begin, std::int64_t end) {
        radix.count(task, from + begin, end - begin, shift);
      });
    }
    if (shift + kDigit >= bits) {
      if (radix.pass(from, out, shift, convert)) return;
    } else if (radix.pass(from, other, shift, [](const E& e) { return e; })) {
      std::swap(from, other);
    }
  }
  parts.each([&](std::size_t, std::int64_t begin, std::int64_t end) {
    std::transform(from + begin, from + end, out + begin, convert);
  });
}

// Sorts elements of type `E` by their keys, keeping the order of equal ones. `fill(task, begin, end, to)` makes those
// of a part of the row, `convert` makes of each what `out` gets.
template <class E, class O, class Fill, class Convert>
void sort_elements(std::int64_t n, const RowParts& parts, O* out, const Fill& fill, const Convert& convert) {
  using K = decltype(key_of(E{}));
  // Scratch lives on with its thread, but not at any size.
  constexpr std::size_t kMost = std::size_t{64} << 20;
  const auto size = static_cast<std::size_t>(n);
  auto scratch = [&](std::vector<E>& memory) {
    if (memory.size() < size) memory.resize(size);
    base::poison(memory.data(), memory.size() * sizeof(E));
    return memory.data();
  };
  auto& memory = base::thread_own<std::vector<E>, struct SortTag>();
  auto& more = base::thread_own<std::vector<E>, struct SortMoreTag>();
  E* from = scratch(memory);
  if (n <= kSmall || sizeof(K) > sizeof(std::uint64_t)) {
    parts.each([&](std::size_t task, std::int64_t begin, std::int64_t end) { fill(task, begin, end, from + begin); });
    std::stable_sort(from, from + n, [](const E& x, const E& y) { return key_of(x) < key_of(y); });
    std::transform(from, from + n, out, convert);
  } else if (n < kLong || sizeof(K) <= sizeof(std::uint16_t)) {
    radix_sort<8>(parts, from, scratch(more), out, fill, convert);
  } else {
    radix_sort<11>(parts, from, scratch(more), out, fill, convert);
  }
  for (auto* m : {&memory, &more}) {
    if (m->size() * sizeof(E) > kMost) *m = {};
  }
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

template <class T>
void permutation_row(const T* in, std::int32_t* p, bool refine, std::int64_t n, bool parallel) {
  using E = Item<typename Key<T>::type>;
  auto fill = [&](std::size_t, std::int64_t begin, std::int64_t end, E* to) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t at = refine ? p[i] : i;
      *to++ = {Key<T>::of(in[at]), static_cast<std::uint32_t>(at)};
    }
  };
  sort_elements<E>(n, RowParts(n, parallel), p, fill, [](const E& e) { return static_cast<std::int32_t>(e.at); });
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

// Elements that share a key with other bits, in the order of the input.
template <class T>
struct Merged {
  std::vector<T> zeros, nans;
};

template <class T>
void sort_row(const T* in, T* out, std::int64_t n, bool parallel) {
  using K = typename Key<T>::type;
  const RowParts parts(n, parallel);
  // Short rows are many: theirs takes no memory.
  Merged<T> alone;
  std::vector<Merged<T>> several(parallel ? parts.tasks() : 0);
  const std::span<Merged<T>> merged = parallel ? std::span(several) : std::span(&alone, 1);
  auto fill = [&](std::size_t task, std::int64_t begin, std::int64_t end, K* keys) {
    if constexpr (!Key<T>::kMerges) {
      std::transform(in + begin, in + end, keys, Key<T>::of);
    } else {
      K any = 0;
      for (std::int64_t i = begin; i < end; ++i) {
        const K key = keys[i - begin] = Key<T>::of(in[i]);
        any |= static_cast<K>((key == Key<T>::kTop) | (key == static_cast<K>(~K{0})));
      }
      for (std::int64_t i = begin; any != 0 && i < end; ++i) {
        const K key = keys[i - begin];
        if (key == Key<T>::kTop) merged[task].zeros.push_back(in[i]);
        if (key == static_cast<K>(~K{0})) merged[task].nans.push_back(in[i]);
      }
    }
  };
  sort_elements<K>(n, parts, out, fill, from_key<T, K>);
  if constexpr (Key<T>::kMerges) {
    T* zeros = std::partition_point(out, out + n, [](T v) { return Key<T>::of(v) < Key<T>::kTop; });
    T* nans = out + n;
    for (const Merged<T>& m : merged) {
      zeros = std::copy(m.zeros.begin(), m.zeros.end(), zeros);
      nans -= m.nans.size();
    }
    for (const Merged<T>& m : merged) nans = std::copy(m.nans.begin(), m.nans.end(), nans);
  }
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
