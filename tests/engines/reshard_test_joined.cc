// SPDX-License-Identifier: Apache-2.0
// Exchanges of several values as one, inside a process and across several.
#include <gtest/gtest.h>

#include "base/strings.h"
#include "ops/ops.h"
#include "spmd/spmd.h"
#include "support/engine_programs.h"
#include "support/spmd_simulator.h"
#include "support/spmd_sketch.h"

namespace tessera::test {
namespace {

using ir::Builder;
using ir::Value;
using ir::Values;

const ir::MeshAxes kMesh = mesh_of("x:4, y:2");

// Checks values on 8 devices of one process, of two and of four, and that the plan has so many exchanges.
void check(Builder& b, const Values& out, const std::vector<std::string>& in, const std::vector<std::string>& results,
           const std::string& exchange, std::int64_t count, double tolerance = 1e-5) {
  RandomProgram p;
  p.module = module(b, out, kMesh, in, results);
  p.tolerance = tolerance;
  std::mt19937_64 rng(1);
  for (auto v : p.module.graph->inputs) p.args.push_back(random_array(rng, p.module.graph->type(v)));
  p.expected = evaluate(*p.module.graph, p.args);
  CommPlan plan = spmd::comm_plan(*spmd::partition(p.module, spmd::propagate(p.module)));
  EXPECT_EQ(plan.count(exchange), count) << to_string(plan);
  EXPECT_EQ(disagreement(p), "");
  for (int processes : {2, 4}) EXPECT_EQ(disagreement_across(p, processes), "") << processes << " processes";
}

TEST(Joined, SumsOfOneDtype) {
  for (DType t : {DType::F32, DType::BF16, DType::I32}) {
    SCOPED_TRACE(dtype_name(t));
    Builder b;
    Value x = b.input({t, {64, 32}});
    Value w = b.input({t, {64, 24}});
    Values out{ops::reduce_sum(x, {0}), ops::reduce_sum(w, {0, 1}), ops::reduce_sum(w, {0})};
    check(b, out, {"x, -", "x, -"}, {"-", "", "-"}, "all_reduce", 1, t == DType::BF16 ? 2e-2 : 1e-5);
  }
}

TEST(Joined, SumsOfDifferentTiles) {
  Builder b;
  Value x = b.input({DType::F32, {64, 32}});
  Value w = b.input({DType::F32, {64, 24}});
  Values out{ops::reduce_sum(x, {0}), ops::reduce_sum(w, {0}), ops::reduce_sum(x, {0, 1})};
  check(b, out, {"x, y", "x, -"}, {"y", "-", ""}, "all_reduce", 2);  // one of them over y, too
}

TEST(Joined, SlicesThatNeedTheSameEdges) {
  Builder b;
  Value x = b.input({DType::F32, {64, 64}});
  auto slice = [&](std::int64_t row, std::int64_t column) {
    return ops::slice(x, {row, column}, {row + 62, column + 62});
  };
  Value sum = slice(0, 1) + slice(2, 1) * 2.0 + slice(1, 0) * 3.0 + slice(1, 2) * 5.0 + slice(2, 2) * 7.0;
  Value y = ops::pad(sum, ops::scalar(b, 0, DType::F32), {1, 1}, {1, 1});
  check(b, {y}, {"x, y"}, {"x, y"}, "halo_exchange", 1);
}

TEST(Joined, Rotations) {
  Builder b;
  Value x = b.input({DType::F32, {48, 5}});
  auto rolled = [&](std::int64_t by) {
    return ops::concatenate(Values{ops::slice_in_dim(x, 48 - by, 48, 0), ops::slice_in_dim(x, 0, 48 - by, 0)}, 0);
  };
  check(b, {rolled(1) + rolled(47) * 2.0 + rolled(13) * 3.0}, {"x, -"}, {"x, -"}, "halo_exchange", 1);
}

}  // namespace
}  // namespace tessera::test
