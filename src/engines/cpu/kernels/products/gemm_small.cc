// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/kernels/products/gemm_small.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

#include "engines/cpu/kernels/simd.h"

#define HWY_TARGET_INCLUDE "engines/cpu/kernels/products/gemm_small.cc"
#include "hwy/foreach_target.h"
// After foreach_target, which compiles this file once per instruction set.
#include "engines/cpu/kernels/vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

// What is brought in order on the way fits in the first-level cache.
constexpr std::int64_t kScratchBytes = 24 << 10;

template <class T>
HWY_INLINE Vec<T> load(const T* p) {
  Vec<T> v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
template <class T>
HWY_INLINE void store(const Vec<T>& v, T* p) {
  __builtin_memcpy(p, &v, sizeof v);
}

// One rounding where the instruction set has it, in all of a target's loops alike.
template <class V>
HWY_INLINE V plus_product(const V& a, const V& b, const V& c) {
  return by_highway([](auto x, auto y, auto z) { return hn::MulAdd(x, y, z); }, a, b, c);
}

std::int64_t whole_vectors(std::int64_t n, std::int64_t lanes) { return (n + lanes - 1) / lanes * lanes; }

// Small matrices: lanes are columns of one product.

template <class T>
struct Columns {
  const T* b;  // k rows of whole vectors
  std::int64_t step_b, k;
  std::int64_t row_a, step_a;  // between rows of a and along one
  std::int64_t ldc;
  bool add;
};

// Fewer elements than a vector has, in steps whose lengths are known.
template <class T>
HWY_INLINE void copy_some(const T* from, T* to, std::int64_t lanes) {
#pragma GCC unroll 4
  for (int width = kLanes<T> / 2; width > 0; width /= 2) {
    if ((lanes & width) == 0) continue;
    __builtin_memcpy(to, from, static_cast<std::size_t>(width) * sizeof(T));
    from += width;
    to += width;
  }
}

// Sums to where they belong, from where they take up whole vectors.
template <class T>
void finish(const Columns<T>& p, const T* sums, std::int64_t rows, std::int64_t columns, T* c) {
  const std::int64_t width = whole_vectors(columns, kLanes<T>);
  for (std::int64_t r = 0; r < rows; ++r, sums += width, c += p.ldc) {
    std::int64_t j = 0;
    for (; j + kLanes<T> <= columns; j += kLanes<T>) {
      store<T>(p.add ? load(c + j) + load(sums + j) : load(sums + j), c + j);
    }
    if (j == columns) continue;
    if (p.add) {
      for (; j < columns; ++j) c[j] += sums[j];
    } else {
      copy_some(sums + j, c + j, columns - j);
    }
  }
}

template <class T, int kRows, int kVectors>
HWY_INLINE void tile(const Columns<T>& p, const T* a, const T* b, T* c, std::int64_t last) {
  Vec<T> sum[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) sum[r][v] = Vec<T>{};
  }
  for (std::int64_t i = 0; i < p.k; ++i) {
    Vec<T> y[kVectors];
    for (int v = 0; v < kVectors; ++v) y[v] = load(b + i * p.step_b + v * kLanes<T>);
    for (int r = 0; r < kRows; ++r) {
      const Vec<T> x = a[r * p.row_a + i * p.step_a] - Vec<T>{};  // one value; plus 0 would turn -0 into 0
      for (int v = 0; v < kVectors; ++v) sum[r][v] = plus_product(x, y[v], sum[r][v]);
    }
  }
  if (last == kLanes<T> && !p.add) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) store<T>(sum[r][v], c + r * p.ldc + v * kLanes<T>);
    }
    return;
  }
  T sums[kRows * kVectors * kLanes<T>];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) store<T>(sum[r][v], sums + (r * kVectors + v) * kLanes<T>);
  }
  finish(p, sums, kRows, (kVectors - 1) * kLanes<T> + last, c);
}

template <class T, int kRows, int kVectors>
void strip(const Columns<T>& p, int rows, const T* a, const T* b, T* c, std::int64_t last) {
  if (rows == kRows) return tile<T, kRows, kVectors>(p, a, b, c, last);
  if constexpr (kRows > 1) strip<T, kRows - 1, kVectors>(p, rows, a, b, c, last);
}

// Strips of nearly the same height, of as many rows at most as the registers have room for.
template <class T, int kMost, int kVectors>
void strips(const Columns<T>& p, std::int64_t m, const T* a, const T* b, T* c, std::int64_t last) {
  if (m <= kMost) return strip<T, kMost, kVectors>(p, static_cast<int>(m), a, b, c, last);
  const std::int64_t count = (m + kMost - 1) / kMost, rows = m / count, taller = m % count;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t height = rows + (i < taller ? 1 : 0);
    strip<T, kMost, kVectors>(p, static_cast<int>(height), a, b, c, last);
    a += height * p.row_a;
    c += height * p.ldc;
  }
}

template <class T>
void by_columns(const Columns<T>& p, std::int64_t m, std::int64_t n, const T* a, T* c) {
  constexpr std::int64_t kPair = 2 * kLanes<T>;
  const T* b = p.b;
  for (; n > kLanes<T>; n -= kPair, b += kPair, c += kPair) {
    strips<T, 6, 2>(p, m, a, b, c, std::min(n, kPair) - kLanes<T>);
    if (n <= kPair) return;
  }
  strips<T, 8, 1>(p, m, a, b, c, n);
}

// b as k rows of whole vectors, with zeros beyond its columns.
template <class T>
void pack_rows(const GemmShape& s, const T* b, std::int64_t width, T* to) {
  for (std::int64_t r = 0; r < s.k; ++r, to += width) {
    std::int64_t j = 0;
    if (s.trans_b) {
      for (; j < s.n; ++j) to[j] = b[r + j * s.ldb];
      for (; j < width; ++j) to[j] = 0;
      continue;
    }
    const T* from = b + r * s.ldb;
    for (; j + kLanes<T> <= s.n; j += kLanes<T>) store<T>(load(from + j), to + j);
    if (j == s.n) continue;
    store<T>(Vec<T>{}, to + j);
    copy_some(from + j, to + j, s.n - j);
  }
}

template <class T>
void each_by_columns(const GemmShape& s, const GemmBatch& batch, const T* a, const T* b, T* c, bool add) {
  const std::int64_t width = whole_vectors(s.n, kLanes<T>);
  const bool packs = s.trans_b || width != s.n;
  alignas(64) T packed[kScratchBytes / sizeof(T)];
  Columns<T> p{b, s.ldb, s.k, s.trans_a ? 1 : s.lda, s.trans_a ? s.lda : 1, s.ldc, add};
  if (packs) {
    p.b = packed;
    p.step_b = width;
  }
  for (std::int64_t i = 0; i < batch.count; ++i, a += batch.stride_a, b += batch.stride_b, c += batch.stride_c) {
    if (!packs) {
      p.b = b;
    } else if (i == 0 || batch.stride_b != 0) {
      pack_rows(s, b, width, packed);
    }
    by_columns(p, s.m, s.n, a, c);
  }
}

// Tiny ones: lanes are products, and columns of the matrices follow each other as vectors of lanes.

struct Steps {
  std::int64_t row, column, item;
};

template <class T>
void gather_lanes(const T* from, Steps s, std::int64_t rows, std::int64_t columns, std::int64_t lanes, T* to) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t j = 0; j < columns; ++j, to += kLanes<T>) {
      const T* x = from + r * s.row + j * s.column;
      if (lanes == kLanes<T>) {
        for (int l = 0; l < kLanes<T>; ++l) to[l] = x[l * s.item];
      } else {
        for (int l = 0; l < kLanes<T>; ++l) to[l] = l < lanes ? x[l * s.item] : T{0};
      }
    }
  }
}

template <class T>
void scatter_lanes(const T* from, T* to, Steps s, std::int64_t rows, std::int64_t columns, std::int64_t lanes,
                   bool add) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t j = 0; j < columns; ++j, from += kLanes<T>) {
      T* x = to + r * s.row + j * s.column;
      if (lanes == kLanes<T> && !add) {
        for (int l = 0; l < kLanes<T>; ++l) x[l * s.item] = from[l];
      } else {
        for (std::int64_t l = 0; l < lanes; ++l) x[l * s.item] = add ? x[l * s.item] + from[l] : from[l];
      }
    }
  }
}

template <class T, int kColumns>
HWY_INLINE void lane_sums(const T* a, const T* b, std::int64_t n, std::int64_t k, T* c) {
  Vec<T> sum[kColumns] = {};
  for (std::int64_t p = 0; p < k; ++p) {
    const Vec<T> x = load(a + p * kLanes<T>);
    for (int j = 0; j < kColumns; ++j) {
      sum[j] = plus_product(x, load(b + (p * n + j) * kLanes<T>), sum[j]);
    }
  }
  for (int j = 0; j < kColumns; ++j) store<T>(sum[j], c + j * kLanes<T>);
}

template <class T>
void lane_products(std::int64_t m, std::int64_t n, std::int64_t k, const T* a, const T* b, T* c) {
  for (std::int64_t i = 0; i < m; ++i, a += k * kLanes<T>, c += n * kLanes<T>) {
    std::int64_t j = 0;
    for (; j + 4 <= n; j += 4) lane_sums<T, 4>(a, b + j * kLanes<T>, n, k, c + j * kLanes<T>);
    if (n - j == 1) lane_sums<T, 1>(a, b + j * kLanes<T>, n, k, c + j * kLanes<T>);
    if (n - j == 2) lane_sums<T, 2>(a, b + j * kLanes<T>, n, k, c + j * kLanes<T>);
    if (n - j == 3) lane_sums<T, 3>(a, b + j * kLanes<T>, n, k, c + j * kLanes<T>);
  }
}

template <class T>
void each_by_lanes(const GemmShape& s, const GemmBatch& batch, const T* a, const T* b, T* c, bool add) {
  alignas(64) T scratch[kScratchBytes / sizeof(T)];
  std::int64_t m = s.m, n = s.n;
  Steps sa{s.trans_a ? 1 : s.lda, s.trans_a ? s.lda : 1, batch.stride_a};
  Steps sb{s.trans_b ? 1 : s.ldb, s.trans_b ? s.ldb : 1, batch.stride_b};
  Steps sc{s.ldc, 1, batch.stride_c};
  if (m > n) {  // as many columns as can be: the same product, transposed
    std::swap(m, n);
    std::swap(a, b);
    std::swap(sa, sb);
    for (Steps* t : {&sa, &sb, &sc}) std::swap(t->row, t->column);
  }
  T* x = scratch;
  T* y = x + m * s.k * kLanes<T>;
  T* z = y + s.k * n * kLanes<T>;
  for (std::int64_t i = 0; i < batch.count; i += kLanes<T>) {
    const std::int64_t lanes = std::min<std::int64_t>(kLanes<T>, batch.count - i);
    if (i == 0 || sa.item != 0) gather_lanes(a + i * sa.item, sa, m, s.k, lanes, x);
    if (i == 0 || sb.item != 0) gather_lanes(b + i * sb.item, sb, s.k, n, lanes, y);
    lane_products(m, n, s.k, x, y, z);
    scatter_lanes(z, c + i * sc.item, sc, m, n, lanes, add);
  }
}

// Nanoseconds of one product, as measured on one core; infinite where what is brought in order has no room.
struct Costs {
  double by_columns, by_lanes;
};

template <class T>
Costs costs_of(const GemmShape& s) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(T));
  const std::int64_t width = whole_vectors(s.n, kLanes<T>), elements = s.m * s.k + s.k * s.n + s.m * s.n;
  const std::int64_t vectors = width / kLanes<T>, tiles = (s.m + 7) / 8 * ((vectors + 1) / 2);
  const double packing = s.trans_b ? 0.5 * static_cast<double>(s.k * width) : width != s.n ? 3.0 * s.k : 0;
  Costs costs{10 + 12 * static_cast<double>(tiles) + 0.22 * static_cast<double>(s.m * s.k * vectors) + packing,
              0.125 * kSize * static_cast<double>(elements)};
  if (s.k * width * kSize > kScratchBytes) costs.by_columns = kNever;
  if (elements * kVecBytes > kScratchBytes) costs.by_lanes = kNever;
  return costs;
}

double small_cost_here(DType t, const GemmShape& s) {
  const Costs costs = t == DType::F32 ? costs_of<float>(s) : costs_of<double>(s);
  return std::min(costs.by_columns, costs.by_lanes);
}

template <class T>
void small_of(const GemmShape& s, const GemmBatch& batch, const void* a, const void* b, void* c, bool add) {
  const auto* x = static_cast<const T*>(a);
  const auto* y = static_cast<const T*>(b);
  auto* z = static_cast<T*>(c);
  const Costs costs = costs_of<T>(s);
  const auto count = static_cast<double>(batch.count),
             lanes = static_cast<double>(whole_vectors(batch.count, kLanes<T>));
  if (costs.by_lanes * lanes < costs.by_columns * count) return each_by_lanes(s, batch, x, y, z, add);
  each_by_columns(s, batch, x, y, z, add);
}

void small_here(DType t, const GemmShape& s, const GemmBatch& batch, const void* a, const void* b, void* c, bool add) {
  if (t == DType::F32) return small_of<float>(s, batch, a, b, c, add);
  small_of<double>(s, batch, a, b, c, add);
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::kernels {

namespace {

HWY_EXPORT(small_cost_here);
HWY_EXPORT(small_here);

// Nanoseconds that the product takes without the loops here.
double library_cost(DType t, const GemmShape& s) {
  if (s.k == 1 && t == DType::F32) return 15 + 0.1 * static_cast<double>(s.m * s.n);
  const auto work = static_cast<double>(s.m * s.n * s.k);
  return t == DType::F32 ? 200 + work / 28 : 150 + work / 12;
}

}  // namespace

double small_cost(DType t, const GemmShape& s) { return HWY_DYNAMIC_DISPATCH(small_cost_here)(t, s); }

bool suits_small(DType t, const GemmShape& s) {
  constexpr std::int64_t kMost = 48;  // above, libraries make better use of the caches
  if (t != DType::F32 && t != DType::F64) return false;
  if (static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k) > kMost * kMost * kMost) {
    return false;
  }
  return small_cost(t, s) < library_cost(t, s);
}

void gemm_small(DType t, const GemmShape& s, const GemmBatch& batch, const void* a, const void* b, void* c, bool add) {
  HWY_DYNAMIC_DISPATCH(small_here)(t, s, batch, a, b, c, add);
}

}  // namespace tessera::kernels
#endif
