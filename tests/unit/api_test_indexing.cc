// SPDX-License-Identifier: Apache-2.0
// Against what NumPy gives for the same indices.
#include <gtest/gtest.h>

#include <numeric>

#include "tessera/tessera.h"

namespace tessera {
namespace {

using I32 = std::vector<std::int32_t>;

struct Indexing : ::testing::Test {
  Indexing() {
    I32 v(60);
    std::iota(v.begin(), v.end(), 0);
    x = Array(HostArray::from(v, {3, 4, 5}));
  }
  Array x;
  Array r{HostArray::from<std::int32_t>({2, 0})};
  Array c{HostArray::from(I32{1, 3}, {2, 1})};
};

TEST_F(Indexing, NumbersAndRanges) {
  EXPECT_EQ(index(x, {1, span(), -1}).to_vector<std::int32_t>(), (I32{24, 29, 34, 39}));
  Array back = index(x, {ellipsis, span({}, {}, -2)});
  EXPECT_EQ(back.shape(), (Shape{3, 4, 3}));
  EXPECT_EQ(back.to_vector<std::int32_t>()[3], 9);
  EXPECT_EQ(index(x, {span(5, 9)}).shape(), (Shape{0, 4, 5}));
  EXPECT_EQ(index(x, {newaxis, 0, ellipsis, newaxis}).shape(), (Shape{1, 4, 5, 1}));
  EXPECT_THROW(index(x, {3}), IndexError);
  EXPECT_THROW(index(x, {0, 0, 0, 0}), IndexError);
  EXPECT_THROW(index(x, {span(0, 2, 0)}), IndexError);
}

TEST_F(Indexing, Arrays) {
  EXPECT_EQ(index(x, {r}).shape(), (Shape{2, 4, 5}));
  Array a = index(x, {span(), r, c});
  EXPECT_EQ(a.shape(), (Shape{3, 2, 2}));
  EXPECT_EQ(a.to_vector<std::int32_t>(), (I32{11, 1, 13, 3, 31, 21, 33, 23, 51, 41, 53, 43}));
  EXPECT_EQ(index(x, {r, span(), r}).to_vector<std::int32_t>(), (I32{42, 47, 52, 57, 0, 5, 10, 15}));
  EXPECT_EQ(index(x, {0, span(), r}).to_vector<std::int32_t>(), (I32{2, 7, 12, 17, 0, 5, 10, 15}));
  EXPECT_EQ(index(x, {newaxis, 1, newaxis, r}).shape(), (Shape{2, 1, 1, 5}));
  EXPECT_EQ(index(x, {x > 56}).to_vector<std::int32_t>(), (I32{57, 58, 59}));
  EXPECT_THROW(jit([&](Array v) { return index(v, {v > 56}); })(x), ConcretizationError);
  EXPECT_THROW(index(x, {Array(HostArray::from<float>({1}))}), TypeError);
}

TEST_F(Indexing, Updates) {
  Array zero = zeros({4}, int32);
  Array twice(HostArray::from<std::int32_t>({1, 1, 3, 9}));
  EXPECT_EQ(at(zero, {twice}).add(1).to_vector<std::int32_t>(), (I32{0, 2, 0, 1}));
  EXPECT_EQ(at(x, {span(), 1, span(1, 3)}).set(-1).to_vector<std::int32_t>()[6], -1);
  EXPECT_EQ(at(x, {ellipsis, 0}).multiply(10).to_vector<std::int32_t>()[5], 50);
  EXPECT_EQ(at(zero, {0}).max(5).to_vector<std::int32_t>()[0], 5);
  Array f(HostArray::from<float>({1, 2, 3}));
  EXPECT_EQ(grad([](Array v) { return sum(square(at(v, {1}).set(10.0))); })(f).to_vector<float>(),
            (std::vector<float>{2, 0, 6}));
}

}  // namespace
}  // namespace tessera
