// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "core/stream_copy.h"
#include "engines/cpu/kernels/copy_kernels.h"

namespace tessera::kernels {
namespace {

using Dims = std::vector<std::int64_t>;

// Index by index, the definition.
void naive(unsigned char* dst, const Dims& ds, const unsigned char* src, const Dims& ss, const Dims& shape,
           std::int64_t item, std::size_t dim = 0) {
  if (dim == shape.size()) {
    std::memcpy(dst, src, static_cast<std::size_t>(item));
    return;
  }
  for (std::int64_t i = 0; i < shape[dim]; ++i) {
    naive(dst + i * ds[dim], ds, src + i * ss[dim], ss, shape, item, dim + 1);
  }
}

std::vector<unsigned char> noise(std::size_t n) {
  std::mt19937 rng(7);
  std::vector<unsigned char> v(n);
  for (auto& b : v) b = static_cast<unsigned char>(rng());
  return v;
}

// Packed strides for the order of dims `order` (slowest first), some of them walked backwards.
Dims packed(const Dims& shape, const std::vector<std::size_t>& order, std::int64_t item) {
  Dims strides(shape.size());
  std::int64_t step = item;
  for (std::size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = step;
    step *= shape[order[i]];
  }
  return strides;
}

void compare(const Dims& shape, const Dims& ds, const Dims& ss, std::int64_t item, const char* what) {
  // Offsets of the first elements, so that negative strides stay inside the buffers.
  auto extent = [&](const Dims& strides) {
    std::int64_t low = 0, high = item;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] == 0) return std::pair<std::int64_t, std::int64_t>{0, item};
      (strides[i] < 0 ? low : high) += strides[i] * (shape[i] - 1);
    }
    return std::pair{-low, high - low};
  };
  auto [d0, dn] = extent(ds);
  auto [s0, sn] = extent(ss);
  auto src = noise(static_cast<std::size_t>(sn));
  std::vector<unsigned char> want(static_cast<std::size_t>(dn), 1), got = want;
  naive(want.data() + d0, ds, src.data() + s0, ss, shape, item);
  copy_strided(got.data() + d0, ds, src.data() + s0, ss, shape, item);
  ASSERT_EQ(want, got) << what << " item " << item << " rank " << shape.size();
  std::fill(got.begin(), got.end(), static_cast<unsigned char>(1));
  copy_strided(got.data() + d0, ds, src.data() + s0, ss, shape, item, true);
  ASSERT_EQ(want, got) << what << " around the caches, item " << item << " rank " << shape.size();
}

TEST(Copy, RandomStridesOfAllItemSizes) {
  std::mt19937 rng(3);
  auto below = [&](int n) { return static_cast<std::int64_t>(rng() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 400; ++round) {
    std::int64_t item = std::vector<std::int64_t>{1, 2, 4, 8, 16, 3}[static_cast<std::size_t>(below(6))];
    std::size_t rank = static_cast<std::size_t>(below(5));
    Dims shape(rank);
    for (auto& s : shape) s = 1 + below(round % 7 == 0 ? 40 : 9);
    if (rank && below(30) == 0) shape[0] = 0;
    std::vector<std::size_t> order(rank), other(rank);
    std::iota(order.begin(), order.end(), 0);
    other = order;
    std::shuffle(order.begin(), order.end(), rng);
    std::shuffle(other.begin(), other.end(), rng);
    Dims ds = packed(shape, order, item), ss = packed(shape, other, item);
    for (std::size_t i = 0; i < rank; ++i) {
      if (below(6) == 0) ds[i] = -ds[i];
      if (below(5) == 0) ss[i] = -ss[i];
      if (below(5) == 0) ss[i] = 0;
      if (below(8) == 0) ss[i] *= 3;
    }
    compare(shape, ds, ss, item, "random");
  }
}

TEST(Copy, LargeEnoughToBeSplit) {
  compare({700, 513}, {513 * 4, 4}, {4, 700 * 4}, 4, "transpose");
  compare({640, 512}, {512 * 4, 4}, {4, 640 * 4}, 4, "transpose of whole blocks");
  compare({300, 257}, {257 * 8, 8}, {8, 300 * 8}, 8, "transpose");
  compare({8, 1 << 18}, {1 << 18, 1}, {1 << 18, 1}, 1, "contiguous");
  compare({1 << 20}, {4}, {8}, 4, "every other");
  compare({1 << 18}, {4}, {-4}, 4, "reversed");
  compare({100, 1000, 3}, {3000 * 2, 6, 2}, {2, 600, 200}, 2, "three dims");
  compare({1 << 19}, {4}, {0}, 4, "one value");
  compare({500, 1300}, {1301, 1}, {1500, 1}, 1, "rows that begin anywhere");
  compare({3, (1 << 20) + 5}, {(1 << 20) + 64, 1}, {(1 << 20) + 5, 1}, 1, "few long runs");
  compare({4, (1 << 22) + 5}, {(1 << 22) + 64, 1}, {(1 << 22) + 5, 1}, 1, "long runs past the caches");
}

TEST(Copy, TransposesOfAnyExtents) {
  std::mt19937 rng(21);
  auto below = [&](unsigned n) { return static_cast<std::int64_t>(rng() % n) + 1; };
  for (std::int64_t item : {1, 2, 4, 8, 16, 3}) {
    for (int round = 0; round < 40; ++round) {
      const std::int64_t batch = below(3), rows = below(150), columns = below(150), gap = below(3) - 1;
      compare({batch, rows, columns}, {rows * (columns + gap) * item, (columns + gap) * item, item},
              {columns * (rows + gap) * item, item, (rows + gap) * item}, item, "transpose");
    }
  }
}

// Elements that are picked, past the size from which on they are stored around the caches.
TEST(Copy, LargeResultsOfAnyStep) {
  for (std::int64_t item : {4, 8, 16}) {
    const std::int64_t rows = 70, n = (9 << 20) / item / rows / 64 * 64 + 64;
    compare({rows, n}, {n * item, item}, {n * item, -item}, item, "backwards");
    compare({rows, n - 3}, {n * item, item}, {n * item, 2 * item}, item, "every other, apart");
    for (std::int64_t times : {2, 3}) {
      compare({rows, n / 2, times}, {n / 2 * times * item, times * item, item}, {item, rows * item, 0}, item, "each");
    }
  }
}

TEST(Copy, ShortRowsOfAllLengths) {
  for (std::int64_t n = 1; n < 140; ++n) {
    compare({2, 11, n}, {12 * (n + 1), n + 1, 1}, {11 * (n + 3), n + 3, 1}, 1, "rows of bytes");
    compare({3, 10, n}, {10 * n * 8, n * 8, 8}, {n * 8, 3 * n * 8, 8}, 8, "turned rows");
    compare({3, 10, n}, {10 * n * 4, n * 4, 4}, {n * 4, 0, 4}, 4, "repeated rows");
  }
}

// Past the size from which on lines are stored around the caches, with and without a rest at the ends.
TEST(Copy, LargeTransposes) {
  for (std::int64_t item : {2, 4, 8, 16}) {
    const std::int64_t rows = 1024 + 40, columns = (9 << 20) / item / 1024 / 64 * 64;
    compare({rows, columns}, {columns * item, item}, {item, rows * item}, item, "whole lines");
    compare({rows, columns - 5}, {columns * item, item}, {item, rows * item}, item, "lines with a rest");
    if (item != 2) continue;
    compare({2, rows, columns / 2}, {rows * (columns / 2) * item, columns / 2 * item, item},
            {item * (columns / 2) * rows, item, rows * item}, item, "two");
  }
}

// Rows that are read backwards, every few elements or one element again and again, and written close or apart.
TEST(Copy, RowsOfAnyStep) {
  std::mt19937 rng(22);
  auto below = [&](unsigned n) { return static_cast<std::int64_t>(rng() % n); };
  for (std::int64_t item : {1, 2, 4, 8, 16, 3}) {
    for (std::int64_t step : {-2, -1, 0, 2, 3}) {
      for (int round = 0; round < 16; ++round) {
        const std::int64_t n = 1 + below(round % 8 == 0 ? 9000 : round % 2 == 0 ? 20 : 100);
        const std::int64_t rows = 1 + below(30), gap = below(2),
                           from = below(2) == 0 ? 1 : n * std::abs(step) + below(3);
        const std::int64_t outer = 1 + below(3), apart = round % 5 == 0 ? 2 : 1, row = (n + gap) * apart;
        compare({outer, rows, n}, {rows * row * item, row * item, apart * item},
                {rows * from * item, from * item, step * item}, item, "rows");
      }
    }
  }
}

TEST(Copy, ScalarAndEmpty) {
  std::int32_t a = 5, b = 0;
  copy_strided(&b, {}, &a, {}, {}, 4);
  EXPECT_EQ(b, 5);
  Dims zero{0, 3}, strides{12, 4};
  copy_strided(&b, strides, nullptr, strides, zero, 4);
  copy_bytes(nullptr, nullptr, 0);
  fill(nullptr, &a, 4, 0);
  EXPECT_EQ(b, 5);
}

TEST(Copy, BytesOfAllSizesAndOffsets) {
  for (std::int64_t n : {1, 63, 64, 65, 4097, 200000, 9000001}) {
    auto src = noise(static_cast<std::size_t>(n) + 8);
    for (std::int64_t offset : {0, 3}) {
      std::vector<unsigned char> dst(static_cast<std::size_t>(n) + 16, 9);
      copy_bytes(dst.data() + offset, src.data() + 5, n);
      EXPECT_EQ(0, std::memcmp(dst.data() + offset, src.data() + 5, static_cast<std::size_t>(n))) << n;
      EXPECT_EQ(dst[static_cast<std::size_t>(n + offset)], 9) << "one past the end";
      std::fill(dst.begin(), dst.end(), static_cast<unsigned char>(9));
      copy_bytes(dst.data() + offset, src.data() + 5, n, true);
      EXPECT_EQ(0, std::memcmp(dst.data() + offset, src.data() + 5, static_cast<std::size_t>(n))) << n;
      EXPECT_EQ(dst[static_cast<std::size_t>(n + offset)], 9) << "one past the end";
    }
  }
}

// Every way in which the target may stand to the source within a page, at sizes about those of the parts.
TEST(Copy, BlocksAFewBytesFurtherInTheirPage) {
  constexpr std::size_t kPage = 4096;
  const std::vector<unsigned char> src = noise((std::size_t{1} << 19) + kPage);
  std::vector<unsigned char> dst(src.size() + 2 * kPage);
  const auto place = reinterpret_cast<std::uintptr_t>(dst.data()) - reinterpret_cast<std::uintptr_t>(src.data());
  for (std::size_t ahead : {0, 1, 4, 31, 32, 63, 2048, 4092}) {
    unsigned char* to = dst.data() + (kPage - place % kPage) % kPage + ahead;
    for (std::size_t n : {0, 1, 2047, 2048, 2049, 4092, 6144, 65536, (1 << 19) - 1, 1 << 19}) {
      std::fill(dst.begin(), dst.end(), static_cast<unsigned char>(9));
      core::copy_block(to, src.data(), static_cast<std::int64_t>(n));
      EXPECT_EQ(0, std::memcmp(to, src.data(), n)) << ahead << " " << n;
      EXPECT_EQ(to[n], 9) << ahead << " " << n << ": one past the end";
    }
  }
}

TEST(Fill, EveryItemSize) {
  for (std::int64_t item : {1, 2, 3, 4, 8, 16}) {
    for (std::int64_t n : {1, 7, 1000, 300001}) {
      auto value = noise(static_cast<std::size_t>(item));
      std::vector<unsigned char> out(static_cast<std::size_t>(item * n + 1), 77);
      fill(out.data(), value.data(), item, n);
      for (std::int64_t i = 0; i < n; ++i) {
        ASSERT_EQ(0, std::memcmp(out.data() + i * item, value.data(), static_cast<std::size_t>(item)))
            << item << " " << i;
      }
      EXPECT_EQ(out.back(), 77);
    }
  }
}

}  // namespace
}  // namespace tessera::kernels
