// SPDX-License-Identifier: Apache-2.0
// Products that read and write sections of arrays where they lie: which do, and the values beside the references.
#include <gtest/gtest.h>

#include <algorithm>

#include "engines/cpu/passes/engine_products.h"
#include "engines/cpu/passes/fold_sections.h"
#include "engines/cpu/passes/fold_transposes.h"
#include "engines/engine_support.h"
#include "ops/ops.h"
#include "support/engine_programs.h"
#include "support/graphs.h"
#include "support/section_programs.h"
#include "support/series.h"
#include "support/spmd_simulator.h"

namespace tessera::test {
namespace {

using ir::Value;
using ir::Values;

std::int64_t count(const ir::Graph& g, std::string_view op) {
  return std::ranges::count_if(g.eqns, [&](const ir::Eqn& e) { return e.op->name() == op; });
}
ir::GraphPtr folded(const ir::GraphPtr& g) { return cpu::fold_sections(cpu::fold_transposes(on_one_device(*g))); }

// `body` of an array [4, 6, 12] and a matrix [4, 5], folded, and by the engine.
ir::GraphPtr check(const std::function<Value(Value array, Value matrix)>& body, DType dtype = DType::F32) {
  ir::GraphPtr g = make_graph({{dtype, {4, 6, 12}}, {dtype, {4, 5}}},
                              [&](ir::Builder&, const Values& v) { return Values{body(v[0], v[1])}; });
  std::vector<HostArray> args{host(g->type(g->inputs[0]), 1), host(g->type(g->inputs[1]), 2)};
  const HostArray want = evaluate(*g, args)[0];
  ir::GraphPtr f = folded(g);
  expect_close(evaluate(*f, args)[0], want, 1e-5);
  expect_close(run_on_one(g, args)[0], want, 1e-5);
  return f;
}

TEST(SectionsInPlace, AreReadByProducts) {
  for (DType t : {DType::F32, DType::F64, DType::I32, DType::C64}) {
    for (std::int64_t i = 0; i < 3; ++i) {
      // Of the last dimension, of the middle one and of the first; rows or columns of the product; under another shape.
      auto last = check(
          [&](Value x, Value m) {
            return ops::dot_general(ops::slice_in_dim(x, 4 * i, 4 * i + 4, 2), m, {{2}, {0}, {}, {}});
          },
          t);
      EXPECT_EQ(count(*last, "slice"), 0);
      auto heads = check(
          [&](Value x, Value m) {
            Value s = ops::reshape(ops::slice_in_dim(x, 4 * i, 4 * i + 4, 2), {4, 6, 2, 2});
            Value y = ops::dot_general(ops::transpose(s, {0, 2, 1, 3}), ops::transpose(s, {0, 2, 3, 1}),
                                       {{3}, {2}, {0, 1}, {0, 1}});
            return ops::dot_general(y, m, {{0}, {0}, {}, {}});
          },
          t);
      EXPECT_EQ(count(*heads, "slice"), 0);
      auto middle = check(
          [&](Value x, Value m) {
            return ops::dot_general(m, ops::slice_in_dim(x, 2 * i, 2 * i + 2, 1), {{0}, {0}, {}, {}});
          },
          t);
      EXPECT_EQ(count(*middle, "slice"), 0);
      auto between = check(
          [&](Value x, Value m) {
            Value s = ops::slice_in_dim(x, 2 * i, 2 * i + 2, 1);
            return ops::dot_general(ops::dot_general(s, s, {{2}, {2}, {}, {}}), m, {{0}, {0}, {}, {}});
          },
          t);
      EXPECT_EQ(count(*between, "slice"), 1) << "its rows would not step evenly";
      auto first = check(
          [&](Value x, Value m) {
            Value s = ops::reshape(ops::slice_in_dim(x, i, i + 1, 0), {6, 3, 4});
            return ops::dot_general(s, m, {{2}, {0}, {}, {}});
          },
          t);
      EXPECT_EQ(count(*first, "slice"), 0);
    }
  }
}

TEST(SectionsInPlace, AreWrittenByProducts) {
  for (DType t : {DType::F32, DType::F64, DType::I32, DType::C64}) {
    // Three products of [4, 6, 5] each, one of them of a section.
    for (std::int64_t d = 0; d < 3; ++d) {
      auto g = check(
          [&](Value x, Value m) {
            Values parts;
            for (std::int64_t i = 0; i < 3; ++i) {
              Value s = ops::slice_in_dim(x, 4 * i, 4 * i + 4, 2);
              parts.push_back(ops::dot_general(i == 1 ? s : ops::neg(s), m, {{2}, {0}, {}, {}}));
            }
            return ops::concatenate(parts, d);
          },
          t);
      // Along the first two dimensions, sections between rows would leave these without an even step.
      EXPECT_EQ(count(*g, "concatenate"), d == 1 ? 1 : 0) << d;
      EXPECT_EQ(count(*g, cpu::joined_products().name()), d == 1 ? 0 : 1) << d;
    }
  }
}

TEST(SectionsInPlace, OtherReadersKeepTheSlice) {
  auto g = check([&](Value x, Value m) {
    Value s = ops::slice_in_dim(x, 4, 8, 2);
    return ops::dot_general(s, m, {{2}, {0}, {}, {}}) +
           ops::broadcast_in_dim(ops::reduce_sum(ops::sin(s), {2}), {4, 6, 5}, {0, 1});
  });
  EXPECT_EQ(count(*g, "slice"), 1);
  auto uneven = check([&](Value x, Value m) {
    return ops::dot_general(ops::slice_in_dim(x, 1, 5, 2), m, {{2}, {0}, {}, {}});
  });
  EXPECT_EQ(count(*uneven, "slice"), 1);
}

TEST(SectionsInPlace, RandomProgramsAndTheirDerivatives) {
  std::int64_t joined = 0;
  std::int64_t cuts = 0;
  std::int64_t left = 0;
  for (std::uint64_t seed = 1000; seed < 1120; seed += static_cast<std::uint64_t>(case_stride(6))) {
    RandomProgram p = section_program(seed, {{1}, {"x"}});
    for (const RandomProgram& one : {p, gradient_of(p)}) {
      const ir::GraphPtr& g = one.module.graph;
      const std::vector<HostArray> want = evaluate(*g, one.args);
      const ir::GraphPtr f = folded(g);
      const auto by_references = evaluate(*f, one.args);
      const auto got = run_on_one(g, one.args);
      for (std::size_t i = 0; i < want.size(); ++i) {
        ASSERT_EQ(difference(by_references[i], want[i], one.tolerance), "") << seed << to_string(*f);
        ASSERT_EQ(difference(got[i], want[i], one.tolerance), "") << seed << to_string(*f);
      }
      joined += count(*f, cpu::joined_products().name());
      cuts += count(*g, "slice");
      left += count(*f, "slice");
    }
  }
  EXPECT_GE(joined, 5);
  EXPECT_LT(left, cuts - 20);
}

}  // namespace
}  // namespace tessera::test
