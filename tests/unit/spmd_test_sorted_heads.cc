// SPDX-License-Identifier: Apache-2.0
// Sorts of which only the beginning is read become top_k, and give the same bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "ir/op_def.h"
#include "ops/ops.h"
#include "ops/reduce/sorting.h"
#include "spmd/equations/sorted_heads.h"
#include "support/random_graphs.h"
#include "support/spmd_simulator.h"
#include "support/spmd_sketch.h"

namespace tessera {
namespace {

using ir::Builder;
using ir::Value;
using ir::Values;

std::int64_t count(const ir::Graph& g, const char* op) {
  return std::ranges::count_if(g.eqns, [&](const ir::Eqn& e) { return e.op->name() == op; });
}

// Sorts by the first operand, of `keys`, and gives the first `k` of each operand; the first `other` of the last one.
ir::GraphPtr heads(Shape shape, DType key, std::int64_t d, std::int64_t k, std::int64_t other, std::int64_t keys = 1) {
  Builder b;
  Value x = b.input({key, shape}), y = b.input({DType::F32, shape});
  Values sorted = ops::sort(Values{x, ops::iota(b, DType::I32, shape, d), y}, d, keys);
  Values out;
  for (std::size_t i = 0; i < sorted.size(); ++i) out.push_back(ops::slice_in_dim(sorted[i], 0, i == 2 ? other : k, d));
  return b.finish_shared(out);
}

TEST(SortedHeads, AreTheSameBits) {
  std::mt19937_64 rng(5);
  auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(rng() % static_cast<std::uint64_t>(n)); };
  for (DType key : {DType::I32, DType::U32, DType::I8, DType::U8, DType::I64, DType::U64, DType::I16}) {
    for (int round = 0; round < 12; ++round) {
      Shape shape;
      for (std::int64_t r = 1 + below(3); r-- > 0;) shape.push_back(1 + below(5));
      const std::int64_t d = below(static_cast<std::int64_t>(shape.size())), k = 1 + below(4);
      shape[static_cast<std::size_t>(d)] = 4 * k + below(40);
      const ir::GraphPtr before = heads(shape, key, d, k, k);
      const ir::GraphPtr after = spmd::with_sorted_heads(before);
      ASSERT_EQ(count(*after, "sort"), 0);
      ASSERT_EQ(count(*after, "top_k"), 1);
      std::vector<HostArray> args;
      for (auto v : before->inputs) args.push_back(test::random_array(rng, before->type(v)));
      // Equal keys, and both ends of their range.
      auto* bytes = static_cast<std::uint8_t*>(args[0].data());
      for (std::int64_t i = 0; i < args[0].nbytes(); ++i) {
        if (round % 3 == 1) bytes[i] = static_cast<std::uint8_t>(below(2) * 255);
      }
      const auto want = test::evaluate(*before, args), got = test::evaluate(*after, args);
      for (std::size_t i = 0; i < want.size(); ++i) ASSERT_EQ(test::difference(got[i], want[i], 0), "") << i;
    }
  }
}

TEST(SortedHeads, OtherSortsStay) {
  auto stays = [](const ir::GraphPtr& g) { return count(*spmd::with_sorted_heads(g), "sort") == 1; };
  EXPECT_FALSE(stays(heads({3, 32}, DType::I32, 1, 8, 8)));
  EXPECT_TRUE(stays(heads({3, 32}, DType::I32, 1, 9, 9))) << "more than a quarter";
  EXPECT_TRUE(stays(heads({3, 32}, DType::I32, 1, 8, 7))) << "another part of one result";
  EXPECT_TRUE(stays(heads({3, 32}, DType::I32, 1, 8, 8, 2))) << "two keys";
  EXPECT_TRUE(stays(heads({3, 32}, DType::F32, 1, 8, 8))) << "zeros of either sign are equal, and not to top_k";
  Builder b;
  Value x = b.input({DType::I32, {32}});
  Value sorted = ops::sort(Values{x}, 0)[0];
  EXPECT_TRUE(stays(b.finish_shared(Values{ops::slice(sorted, {1}, {3})}))) << "not the first ones";
  Builder c;
  Value y = c.input({DType::I32, {32}});
  Value all = ops::sort(Values{y}, 0)[0];
  EXPECT_TRUE(stays(c.finish_shared(Values{ops::slice(all, {0}, {2}), all}))) << "all are read, too";
}

}  // namespace
}  // namespace tessera
