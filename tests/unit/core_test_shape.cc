// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <unordered_map>

#include "support/meshes.h"
#include "support/spec_report.h"
#include "tessera/error.h"
#include "tessera/shape.h"

namespace tessera {
namespace {

TEST(Shape, SizeCountsElementsAndRefusesNegativeExtents) {
  TESSERA_SPEC("G1");
  EXPECT_EQ(size_of({8, 2}), 16);
  EXPECT_EQ(size_of({}), 1);
  EXPECT_EQ(size_of({0, 2}), 0);
  EXPECT_EQ(rank(Shape{8, 2}), 2);
  EXPECT_ERROR(ValueError, size_of({8, -1}), "global_shape[1] = -1");
}

TEST(Shape, SizeFindsOverflow) {
  std::int64_t big = std::int64_t{1} << 40;
  EXPECT_ERROR(ValueError, size_of({big, big}), "2^63");
  EXPECT_EQ(size_of({big, big, 0}), 0);
  EXPECT_EQ(size_of({0, big, big}), 0);
  EXPECT_ERROR(ValueError, size_of({0, big, big, -2}), "global_shape[3] = -2");
}

TEST(Shape, PrintsAsPythonTuple) {
  EXPECT_EQ(to_string(Shape{8, 2}), "(8, 2)");
  EXPECT_EQ(to_string(Shape{8}), "(8,)");
  EXPECT_EQ(to_string(Shape{}), "()");
}

TEST(Slice, ResolvesAgainstAnExtent) {
  TESSERA_SPEC("G2");
  EXPECT_EQ(to_string(Index{{0, 2}, {0, 1}}), "(slice(0, 2, None), slice(0, 1, None))");
  EXPECT_EQ(to_string(Index{{0, 2}, {}}), "(slice(0, 2, None), slice(None, None, None))");
  EXPECT_TRUE(Slice{}.is_full());
  EXPECT_FALSE((Slice{0, 2}.is_full()));
  EXPECT_EQ(Slice{}.resolve(7), std::pair(std::int64_t{0}, std::int64_t{7}));
  EXPECT_EQ((Slice{2, 4}.resolve(4)), std::pair(std::int64_t{2}, std::int64_t{4}));
  EXPECT_ERROR(IndexError, (Slice{3, 2}.resolve(8)), "3", "2");
  EXPECT_ERROR(IndexError, (Slice{0, 9}.resolve(8)), "9", "8");
}

TEST(Index, EqualIndicesAreOneKey) {
  Index a{{0, 2}, {}};
  EXPECT_EQ(a, (Index{{0, 2}, {}}));
  EXPECT_NE(a, (Index{{0, 2}, {0, 2}}));
  std::unordered_map<Index, int> groups;
  ++groups[a];
  ++groups[Index{{0, 2}, {}}];
  ++groups[Index{{2, 4}, {}}];
  EXPECT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[a], 2);
}

}  // namespace
}  // namespace tessera
