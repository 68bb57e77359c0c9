// SPDX-License-Identifier: Apache-2.0
// Dimensions that are cut into sections become two where that moves less: what then moves, what stays, and the values.
#include <gtest/gtest.h>

#include "ops/ops.h"
#include "spmd/equations/sections_apart.h"
#include "support/engine_programs.h"
#include "support/graphs.h"
#include "support/section_programs.h"
#include "support/series.h"
#include "support/spmd_simulator.h"
#include "support/spmd_sketch.h"

namespace tessera {
namespace {

using ir::Builder;
using ir::Value;
using ir::Values;

Value matmul(Value a, Value b) { return ops::dot_general(a, b, {{a.rank() - 1}, {0}, {}, {}}); }

// Three sections of 8 columns, element by element, times a matrix whose rows are split.
ir::Module gated(Builder& b, std::int64_t rows, test::ModuleOptions options = {}) {
  Value x = b.input({DType::F32, {rows, 16}});
  Value w = b.input({DType::F32, {16, 24}});
  Value down = b.input({DType::F32, {8, 16}});
  Values s = ops::split(matmul(x, w), {8, 8, 8}, 1);
  Value out = matmul(s[0] * ops::tanh(s[1]) + s[2], down);
  return test::module(b, {out}, test::mesh_of("x:4, y:2"), {"x, -", "-, y", "y, -"}, {"x, -"}, options);
}
std::int64_t sum_over_y(std::int64_t rows) { return rows / 4 * 16 * 4; }  // what a device receives of the others' sum

TEST(Sections, WeightsMoveInTheirPlace) {
  Builder b;
  ir::Module m = gated(b, 256);
  // A device has 12 columns of `w`, which are 4 of two sections that it needs and 4 that the other one needs.
  EXPECT_EQ(test::bytes(m), 16 * 4 * 4 + sum_over_y(256));
  m.divides = false;
  EXPECT_EQ(test::bytes(m), 64 * 4 * 4 + sum_over_y(256));
}

TEST(Sections, RowsMoveWhereTheyAreFew) {
  Builder b;
  ir::Module m = gated(b, 4);
  const std::int64_t moved = test::bytes(m);
  EXPECT_EQ(moved, 1 * 4 * 4 + sum_over_y(4));
  m.divides = false;
  EXPECT_EQ(test::bytes(m), moved);
}

TEST(Sections, DeterministicProgramsStay) {
  for (bool deterministic : {false, true}) {
    Builder b;
    ir::Module m = gated(b, 256, {.deterministic = deterministic});
    EXPECT_EQ(spmd::with_sections_apart(m, spmd::propagate(m)).has_value(), !deterministic);
  }
}

// Grouped queries: 16 columns of q, 4 of k, 4 of v.
TEST(Sections, OfSeveralSizes) {
  auto grouped = [](Builder& b) {
    Value x = b.input({DType::F32, {256, 16}});
    Value w = b.input({DType::F32, {16, 24}});
    Values out = ops::split(matmul(x, w), {16, 4, 4}, 1);
    for (auto& v : out) v = ops::tanh(v);
    return test::module(b, out, test::mesh_of("x:4, y:2"), {"x, -", "-, y"}, {"x, y", "x, y", "x, y"});
  };
  Builder b;
  ir::Module m = grouped(b);
  // In one exchange the second device gets 4 of its columns of q, in another the first one those of k and v.
  EXPECT_EQ(test::bytes(m), 16 * (4 + 4) * 4);
  m.divides = false;
  EXPECT_EQ(test::bytes(m), 64 * (4 + 4) * 4);
}

// Sections that are split unevenly, or not at all.
TEST(Sections, OthersStay) {
  auto written = [](const Dims& sizes, const std::string& w) {
    Builder b;
    Value x = b.input({DType::F32, {64, 16}});
    Value y = matmul(x, b.input({DType::F32, {16, 24}}));
    Values out = ops::split(y, sizes, 1);
    ir::Module m = test::module(b, out, test::mesh_of("x:4, y:2"), {"x, -", w}, {}, {.uneven = true});
    return spmd::with_sections_apart(m, spmd::propagate(m)).has_value();
  };
  EXPECT_TRUE(written({12, 12}, "-, y"));
  EXPECT_TRUE(written({4, 8, 4, 4, 4}, "-, y"));
  EXPECT_TRUE(written({10, 14}, "-, y"));
  EXPECT_FALSE(written({9, 15}, "-, y"));
  EXPECT_FALSE(written({3, 3, 3, 3, 3, 3, 3, 3}, "-, y"));
  EXPECT_FALSE(written({12, 12}, "-, -"));
  EXPECT_FALSE(written({12, 12}, "y, -"));
}

std::string disagreement(const test::RandomProgram& p, int& rewritten) {
  std::vector<ir::Layout> layouts = spmd::propagate(p.module);
  const auto apart = spmd::with_sections_apart(p.module, layouts);
  if (apart) {
    ir::Module other = p.module.with_graph(apart->graph);
    other.inputs = p.module.inputs;
    other.divides = false;  // also where it moves more
    ++rewritten;
    auto got = test::run_partitioned(*spmd::partition(other, apart->layouts), p.args);
    for (std::size_t i = 0; i < got.size(); ++i) {
      std::string d = test::difference(got[i], p.expected[i], p.tolerance);
      if (!d.empty()) return str("output ", i, ": ", d, "\n", to_string(*apart->graph));
    }
  }
  return test::disagreement(p);
}

TEST(Sections, RandomProgramsAndTheirDerivatives) {
  int rewritten = 0;
  for (const auto& mesh : test::test_meshes()) {
    for (std::uint64_t seed = 0; seed < 80; seed += static_cast<std::uint64_t>(test::case_stride(12))) {
      test::RandomProgram p = test::section_program(seed, mesh);
      ASSERT_EQ(disagreement(p, rewritten), "") << seed << "\n" << to_string(*p.module.graph);
      test::RandomProgram back = test::gradient_of(p);
      back.expected = test::evaluate(*back.module.graph, back.args);
      ASSERT_EQ(disagreement(back, rewritten), "") << "derivative of " << seed << "\n" << to_string(*back.module.graph);
    }
  }
  EXPECT_GE(rewritten, 20) << "what this is about";
}

}  // namespace
}  // namespace tessera
