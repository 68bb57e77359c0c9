// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/kernels/sort_kernels.h"

#include <hwy/contrib/sort/vqsort.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <type_traits>
#include <utility>
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

constexpr std::int64_t kParallel = 64 << 10;  // rows from this length are sorted by all threads together

// Keys of elements with where these are in the row, so that all differ and equal ones keep their order: in one number
// that Highway sorts.
template <class K>
struct Placed {
  using type = std::uint64_t;
  static type of(K key, std::uint32_t at) { return static_cast<type>(key) << 32 | at; }
  static std::uint32_t at(type e) { return static_cast<std::uint32_t>(e); }
};
template <>
struct Placed<std::uint64_t> {
  using type = hwy::uint128_t;
  static type of(std::uint64_t key, std::uint32_t at) {
    type e{};
    e.hi = key;
    e.lo = at;
    return e;
  }
  static std::uint32_t at(type e) { return static_cast<std::uint32_t>(e.lo); }
};
// It has no keys of 128 bits with more behind them.
template <>
struct Placed<unsigned __int128> {
  struct type {
    unsigned __int128 key;
    std::uint32_t place;
    bool operator<(const type& other) const { return key != other.key ? key < other.key : place < other.place; }
  };
  static type of(unsigned __int128 key, std::uint32_t at) { return {key, at}; }
  static std::uint32_t at(const type& e) { return e.place; }
};

template <class E>
void sort_part(E* first, std::int64_t n) {
  if constexpr (std::is_same_v<E, Placed<unsigned __int128>::type>) {
    std::sort(first, first + n);
  } else {
    base::thread_own<hwy::Sorter, struct SorterTag>()(first, static_cast<std::size_t>(n), hwy::SortAscending());
  }
}

// A sorted range.
template <class E>
struct Sorted {
  const E* data;
  std::int64_t n;

  // How many of its elements are among the first `count` of it and `other` together.
  std::int64_t of_first(std::int64_t count, const Sorted& other) const {
    std::int64_t low = std::max<std::int64_t>(0, count - other.n);
    std::int64_t high = std::min(count, n);
    while (low < high) {
      const std::int64_t mine = low + (high - low) / 2;
      if (other.data[count - mine - 1] < data[mine]) {
        high = mine;
      } else {
        low = mine + 1;
      }
    }
    return low;
  }
};
// Elements [begin, end) of both together.
template <class E>
void merge_part(const Sorted<E>& a, const Sorted<E>& b, std::int64_t begin, std::int64_t end, E* out) {
  std::int64_t i = a.of_first(begin, b);
  std::int64_t j = begin - i;
  std::int64_t k = begin;
  for (; k < end && i < a.n && j < b.n; ++k) {  // without a branch on what is compared
    const bool second = b.data[j] < a.data[i];
    out[k] = second ? b.data[j] : a.data[i];
    j += static_cast<std::int64_t>(second);
    i += static_cast<std::int64_t>(!second);
  }
  for (; k < end && i < a.n; ++k) out[k] = a.data[i++];
  for (; k < end; ++k) out[k] = b.data[j++];
}

// Sorts by all threads: a part by each, and then parts are merged, each pair by several of them. Returns where the
// result is, in `from` or `other`.
template <class E>
E* sort_together(E* from, E* other, std::int64_t n) {
  const std::int64_t threads = base::team_size();
  std::int64_t part = (n + threads - 1) / threads;
  base::parallel_for(threads, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t t = first; t < last; ++t) {
      const std::int64_t begin = std::min(n, t * part);
      sort_part(from + begin, std::min(n, begin + part) - begin);
    }
  });
  for (; part < n; part *= 2) {
    constexpr std::int64_t kPiece = 16 << 10;
    const std::int64_t pairs = (n + 2 * part - 1) / (2 * part);
    const std::int64_t pieces = (2 * part + kPiece - 1) / kPiece;
    base::parallel_for(pairs * pieces, 1, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t u = first; u < last; ++u) {
        const std::int64_t at = u / pieces * 2 * part;
        const std::int64_t in_first = std::min(part, n - at);
        const std::int64_t both = std::min(2 * part, n - at);
        const std::int64_t begin = std::min(both, u % pieces * kPiece);
        merge_part<E>({from + at, in_first}, {from + at + in_first, both - in_first}, begin,
                      std::min(both, begin + kPiece), other + at);
      }
    });
    std::swap(from, other);
  }
  return from;
}

// Fills `n` elements by `fill(begin, end, to)` and sorts them, in memory that lives on with its thread, but not at any
// size. Then calls `take` with them.
template <class E, class Fill, class Take>
void sort_filled(std::int64_t n, bool parallel, const Fill& fill, const Take& take) {
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
  if (parallel) {
    constexpr std::int64_t kFill = 16 << 10;
    base::parallel_for(n, kFill, [&](std::int64_t begin, std::int64_t end) { fill(begin, end, from + begin); });
    from = sort_together(from, scratch(more), n);
  } else {
    fill(0, n, from);
    sort_part(from, n);
  }
  take(from);
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
  using K = Placed<typename Key<T>::type>;
  using E = typename K::type;
  const std::vector<std::int32_t> before(p, p + (refine ? n : 0));
  auto fill = [&](std::int64_t begin, std::int64_t end, E* to) {
    for (std::int64_t i = begin; i < end; ++i) {
      *to++ = K::of(Key<T>::of(in[refine ? before[static_cast<std::size_t>(i)] : i]), static_cast<std::uint32_t>(i));
    }
  };
  sort_filled<E>(n, parallel, fill, [&](const E* sorted) {
    for (std::int64_t i = 0; i < n; ++i) {
      const std::uint32_t at = K::at(sorted[i]);
      p[i] = refine ? before[at] : static_cast<std::int32_t>(at);
    }
  });
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
  using E = std::conditional_t<sizeof(K) == 1, std::uint16_t, K>;  // Highway sorts no bytes
  std::atomic<bool> any_merged{false};
  auto fill = [&](std::int64_t begin, std::int64_t end, E* keys) {
    K any = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      const K key = Key<T>::of(in[i]);
      keys[i - begin] = key;
      if constexpr (Key<T>::kMerges) any |= static_cast<K>((key == Key<T>::kTop) | (key == static_cast<K>(~K{0})));
    }
    if (any != 0) any_merged = true;
  };
  sort_filled<E>(n, parallel, fill, [&](const E* keys) {
    // Elements that share a key with other bits, in the order of the input, which the output may be.
    std::vector<T> zeros;
    std::vector<T> nans;
    if constexpr (Key<T>::kMerges) {
      for (std::int64_t i = 0; any_merged && i < n; ++i) {
        const K key = Key<T>::of(in[i]);
        if (key == Key<T>::kTop) zeros.push_back(in[i]);
        if (key == static_cast<K>(~K{0})) nans.push_back(in[i]);
      }
    }
    std::transform(keys, keys + n, out, [](E key) { return from_key<T, K>(static_cast<K>(key)); });
    if constexpr (Key<T>::kMerges) {
      std::ranges::copy(zeros, std::partition_point(out, out + n, [](T v) { return Key<T>::of(v) < Key<T>::kTop; }));
    }
    std::ranges::copy(nans, out + n - std::ssize(nans));
  });
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
