// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "engines/cpu/kernels/gather_rows.h"
#include "engines/cpu/kernels/threefry.h"
#include "tessera/error.h"

namespace tessera::kernels {
namespace {

// One index for each row of a table.
RowNumbers one_index(std::int64_t n, std::int64_t table_rows, DType index_dtype, bool drop) {
  RowNumbers rows{{{n, 1, 0}}, {{0, table_rows - 1, 1}}, drop, index_dtype};
  rows.simplify();
  return rows;
}

template <class I>
void check_gather(std::int64_t rows, std::int64_t row_size, std::int64_t n) {
  std::vector<float> table(static_cast<std::size_t>(rows * row_size));
  std::iota(table.begin(), table.end(), 0.0f);
  std::mt19937 rng(3);
  std::vector<I> index(static_cast<std::size_t>(n));
  for (auto& i : index) i = static_cast<I>(static_cast<std::int64_t>(rng() % static_cast<unsigned>(rows + 6)) - 3);
  std::vector<float> filler(static_cast<std::size_t>(row_size), -5.0f);
  for (bool drop : {false, true}) {
    std::vector<float> got(static_cast<std::size_t>(n * row_size), 9.0f);
    gather_rows(table.data(), row_size * 4, one_index(n, rows, dtype_of<I>(), drop), index.data(), filler.data(),
                got.data());
    for (std::int64_t i = 0; i < n; ++i) {
      bool low = index[static_cast<std::size_t>(i)] < I(0);
      auto wide = static_cast<std::uint64_t>(index[static_cast<std::size_t>(i)]);
      bool outside = low || wide >= static_cast<std::uint64_t>(rows);
      std::int64_t row = !outside ? static_cast<std::int64_t>(wide) : low ? 0 : rows - 1;
      for (std::int64_t j = 0; j < row_size; ++j) {
        float want = outside && drop ? -5.0f : static_cast<float>(row * row_size + j);
        ASSERT_EQ(got[static_cast<std::size_t>(i * row_size + j)], want);
      }
    }
  }
}

TEST(Gather, RowsOfAllIndexTypes) {
  check_gather<std::int32_t>(100, 7, 555);
  check_gather<std::int64_t>(100, 1, 5000);
  check_gather<std::uint32_t>(10, 33, 100);
  check_gather<std::uint64_t>(10, 33, 100);
  check_gather<std::int32_t>(3000, 300, 9000);
  check_gather<std::int32_t>(500, 64, 33000);  // stored around the caches, whole lines
  check_gather<std::int64_t>(90, 5000, 440);   // the same, a row ends within a line and is not asked for as a whole
  check_gather<std::int32_t>(5, 3, 0);
}

TEST(Gather, NothingToFillWithIsZeros) {
  std::int32_t i = 5;
  float table = 1, out = 3;
  gather_rows(&table, 4, one_index(1, 1, DType::I32, true), &i, nullptr, &out);
  EXPECT_EQ(out, 0.0f);
  EXPECT_THROW(one_index(1, 1, DType::F32, true), TypeError);
}

// Any number of dimensions and of indices to a window, with steps of their own, against what the definition gives for
// each position by itself.
TEST(RowNumbers, AreSumsOfStepsAndIndices) {
  std::mt19937 rng(11);
  auto draw = [&](int low, int high) {
    return low + static_cast<std::int64_t>(rng() % static_cast<unsigned>(high - low + 1));
  };
  for (int round = 0; round < 400; ++round) {
    RowNumbers rows;
    std::int64_t total = 1, indices = 1;
    for (std::int64_t d = draw(0, 4); d-- > 0;) {
      rows.dims.push_back({draw(1, 7), draw(0, 3) * draw(0, 1), draw(0, 5) * draw(0, 1)});
      total *= rows.dims.back().size;
      indices += rows.dims.back().size * rows.dims.back().index_step;
    }
    if (rows.dims.size() >= 2 && round % 3 == 0) {  // two that are one
      RowNumbers::Dim& outer = rows.dims[rows.dims.size() - 2];
      const RowNumbers::Dim& inner = rows.dims.back();
      indices += outer.size * inner.size * inner.index_step;
      outer.index_step = inner.size * inner.index_step;
      outer.row_step = inner.size * inner.row_step;
    }
    for (std::int64_t c = draw(0, 3); c-- > 0;) rows.components.push_back({draw(0, 4), draw(0, 6), draw(1, 9)});
    rows.drop = round % 2 == 0;
    std::vector<std::int16_t> index(static_cast<std::size_t>(indices + 5));
    for (auto& i : index) i = static_cast<std::int16_t>(draw(-1, 7));
    std::vector<std::int64_t> want;
    std::vector<std::int64_t> position(rows.dims.size());
    for (std::int64_t r = 0; r < total; ++r) {
      std::int64_t first = 0, row = 0;
      for (std::size_t d = 0; d < position.size(); ++d) {
        first += position[d] * rows.dims[d].index_step;
        row += position[d] * rows.dims[d].row_step;
      }
      for (const auto& c : rows.components) {
        std::int64_t i = index[static_cast<std::size_t>(first + c.offset)];
        if (rows.drop && (i < 0 || i > c.last)) row = std::numeric_limits<std::int32_t>::min();
        row += std::clamp<std::int64_t>(i, 0, c.last) * c.row_step;
      }
      want.push_back(row < 0 ? -1 : row);
      for (std::size_t d = position.size(); d-- > 0;) {
        if (++position[d] < rows.dims[d].size) break;
        position[d] = 0;
      }
    }
    rows.index_dtype = DType::I16;
    rows.simplify();
    ASSERT_EQ(rows.size(), total);
    std::int64_t begin = draw(0, static_cast<int>(total)), end = draw(static_cast<int>(begin), static_cast<int>(total));
    std::vector<std::int64_t> got(static_cast<std::size_t>(end - begin));
    rows.find(index.data(), begin, end, got.data());
    ASSERT_EQ(got, std::vector<std::int64_t>(want.begin() + begin, want.begin() + end)) << "round " << round;
  }
}

template <class T, class I = std::int32_t>
void check_scatter(ScatterOp op, std::int64_t rows, std::int64_t row_size, std::int64_t n) {
  std::mt19937 rng(4);
  std::vector<T> table(static_cast<std::size_t>(rows * row_size)), update(static_cast<std::size_t>(n * row_size));
  for (auto& v : table) v = static_cast<T>(static_cast<float>(rng() % 1000) / 7.0f);
  for (auto& v : update) v = static_cast<T>(static_cast<float>(rng() % 1000) / 7.0f);
  std::vector<I> index(static_cast<std::size_t>(n));
  for (auto& i : index) i = static_cast<I>(static_cast<std::int64_t>(rng() % static_cast<unsigned>(rows + 4)) - 2);
  for (bool drop : {true, false}) {
    auto want = table, got = table;
    for (std::int64_t i = 0; i < n; ++i) {
      auto r = static_cast<std::int64_t>(index[static_cast<std::size_t>(i)]);
      if (!drop) r = std::clamp<std::int64_t>(r, 0, rows - 1);
      if (r < 0 || r >= rows) continue;
      for (std::int64_t j = 0; j < row_size; ++j) {
        T& t = want[static_cast<std::size_t>(r * row_size + j)];
        T u = update[static_cast<std::size_t>(i * row_size + j)];
        t = op == ScatterOp::Set   ? u
            : op == ScatterOp::Add ? static_cast<T>(t + u)
            : op == ScatterOp::Max ? std::max(t, u)
                                   : std::min(t, u);
      }
    }
    scatter_rows(op, dtype_of<T>(), got.data(), rows, row_size, one_index(n, rows, dtype_of<I>(), drop), index.data(),
                 update.data());
    ASSERT_EQ(got, want) << "same order of additions, so bit for bit";
  }
}

TEST(Scatter, InOrderWhateverTheSplit) {
  check_scatter<float>(ScatterOp::Add, 50, 3, 1000);
  check_scatter<float>(ScatterOp::Add, 500, 256, 2000);
  check_scatter<float>(ScatterOp::Add, 2, 5000, 100);
  check_scatter<float>(ScatterOp::Set, 40, 300, 900);
  check_scatter<double>(ScatterOp::Max, 40, 3, 900);
  check_scatter<std::int32_t>(ScatterOp::Min, 40, 3, 900);
  check_scatter<std::int32_t>(ScatterOp::Add, 1, 1, 10);
  // Elements, by themselves and by several threads.
  check_scatter<float>(ScatterOp::Add, 1000, 1, 200000);
  check_scatter<double>(ScatterOp::Set, 3, 1, 100000);
  check_scatter<std::int8_t>(ScatterOp::Add, 70, 2, 90000);
  check_scatter<std::uint16_t>(ScatterOp::Set, 70, 1, 900);
  check_scatter<std::int64_t>(ScatterOp::Max, 700, 1, 50000);
  check_scatter<double, std::int64_t>(ScatterOp::Add, 1000, 1, 200000);
  check_scatter<float, std::int8_t>(ScatterOp::Add, 100, 1, 200000);
  // Whole numbers into small tables: into one for each thread.
  check_scatter<std::int32_t>(ScatterOp::Add, 100, 1, 300000);
  check_scatter<std::uint8_t, std::int64_t>(ScatterOp::Add, 1, 1, 300001);
  check_scatter<std::int64_t>(ScatterOp::Add, 2000, 1, 150000);
  check_scatter<std::int32_t>(ScatterOp::Set, 100, 1, 300000);
  check_scatter<float>(ScatterOp::Add, 300, 64, 9000);
  check_scatter<float>(ScatterOp::Add, 300, 65, 9000);
  EXPECT_THROW(
      scatter_rows(ScatterOp::Max, DType::C64, nullptr, 1, 1, one_index(0, 1, DType::I32, true), nullptr, nullptr),
      UnimplementedError);
}

// Recorded from JAX 0.10.2: jax.random.bits of the key (0x12345678, 0x9abcdef0), elements 0, 1, 7 and 999.
TEST(Threefry, BitsEqualJax) {
  std::vector<std::uint8_t> b8(1000);
  std::vector<std::uint16_t> b16(1000);
  std::vector<std::uint32_t> b32(1000);
  std::vector<std::uint64_t> b64(1000);
  threefry_bits(0x12345678, 0x9abcdef0, 0, 1000, 8, b8.data());
  threefry_bits(0x12345678, 0x9abcdef0, 0, 1000, 16, b16.data());
  threefry_bits(0x12345678, 0x9abcdef0, 0, 1000, 32, b32.data());
  threefry_bits(0x12345678, 0x9abcdef0, 0, 1000, 64, b64.data());
  auto pick = [](const auto& v) { return std::vector<std::uint64_t>{v[0], v[1], v[7], v[999]}; };
  EXPECT_EQ(pick(b8), (std::vector<std::uint64_t>{0xba, 0x9e, 0x80, 0xfd}));
  EXPECT_EQ(pick(b16), (std::vector<std::uint64_t>{0x70ba, 0xc99e, 0x1e80, 0x47fd}));
  EXPECT_EQ(pick(b32), (std::vector<std::uint64_t>{0x4d9370ba, 0x2510c99e, 0x295a1e80, 0xa8bf47fd}));
  EXPECT_EQ(pick(b64), (std::vector<std::uint64_t>{0xed280379a0bb73c3, 0x7c4d1fd5595dd64b, 0x3ab29d8e13e8830e,
                                                   0x2c5fc72884e080d5}));
  EXPECT_THROW(threefry_bits(0, 0, 0, 1, 24, b8.data()), ValueError);
}

TEST(Threefry, CounterCrossesTheLowWord) {
  std::uint64_t got[4];
  threefry_bits(0x12345678, 0x9abcdef0, 0xfffffffe, 4, 64, got);
  EXPECT_EQ(got[0], 0x835c16fefc3cd7dfu);
  EXPECT_EQ(got[1], 0x90ba5556a9112a39u);
  EXPECT_EQ(got[2], 0x19101b6562326731u);
  EXPECT_EQ(got[3], 0x678e319a0a5b3058u);
  auto block = threefry2x32(0x12345678, 0x9abcdef0, 1, 1);
  EXPECT_EQ(block[0], 0x678e319au);
  EXPECT_EQ(block[1], 0x0a5b3058u);
}

TEST(Threefry, PartsMakeTheWhole) {
  std::vector<std::uint32_t> whole(100001), part(50000);
  threefry_bits(1, 2, 0, 100001, 32, whole.data());
  threefry_bits(1, 2, 12345, 50000, 32, part.data());
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 12345));
}

}  // namespace
}  // namespace tessera::kernels
