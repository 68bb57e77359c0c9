// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "base/strings.h"
#include "ops/transform/graph_rules.h"
#include "tests/support/graphs.h"

namespace tessera::ops {
namespace {

using test::host;
using test::make_graph;

Type f64(Shape s) { return Type{DType::F64, std::move(s)}; }

// Two layers, a maximum, a comparison, an integer input and a value used twice.
ir::GraphPtr network() {
  return make_graph({f64({3, 4}), f64({4, 5}), f64({5}), Type{DType::I32, {3}}}, [](Builder& b, const Values& in) {
    Value h = tanh(dot_general(in[0], in[1], {{1}, {0}, {}, {}}));
    Value z = h * broadcast_in_dim(exp(in[2]), {3, 5}, {1}) + h;
    Value scale = broadcast_in_dim(convert(in[3], DType::F64), {3, 5}, {0});
    Value m = max(z * scale, scalar(b, 0.1, DType::F64));
    return Values{reduce_sum(m, {0, 1}), gt(m, z), m};
  });
}
std::vector<HostArray> network_inputs() {
  return {host(f64({3, 4}), 1), host(f64({4, 5}), 2), host(f64({5}), 3), HostArray::from<std::int32_t>({2, 1, 3})};
}

TEST(GraphRules, TangentsAgreeWithDifferences) {
  auto g = network();
  auto in = network_inputs();
  JvpGraph jvp = jvp_graph(*g, {true, true, false, true});
  EXPECT_EQ(jvp.active_out, (Flags{true, false, true}));
  verify(*jvp.graph);
  std::vector<HostArray> t{host(f64({3, 4}), 7), host(f64({4, 5}), 8)};
  std::vector<HostArray> args = in;
  args.insert(args.end(), t.begin(), t.end());
  auto got = interpret(*jvp.graph, args);
  ASSERT_EQ(got.size(), 5u);
  auto plain = interpret(*g, in);
  EXPECT_TRUE(identical(got[2], plain[2]));
  test::expect_close(got[3], test::difference(*g, in, {0, 1}, t)[0], 1e-6);
  test::expect_close(got[4], test::difference(*g, in, {0, 1}, t)[2], 1e-6);
}

TEST(GraphRules, LinearizedPartsComposeToTheTangent) {
  auto g = network();
  auto in = network_inputs();
  Linearized lin = linearize_graph(*g, {true, true, true, false});
  verify(*lin.known);
  verify(*lin.linear);
  auto known = interpret(*lin.known, in);
  auto plain = interpret(*g, in);
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(identical(known[i], plain[i])) << i;
  std::vector<HostArray> args(known.begin() + 3, known.end());
  ASSERT_EQ(args.size(), lin.num_residuals);
  std::vector<HostArray> t{host(f64({3, 4}), 7), host(f64({4, 5}), 8), host(f64({5}), 9)};
  args.insert(args.end(), t.begin(), t.end());
  auto tangents = interpret(*lin.linear, args);
  auto want = test::difference(*g, in, {0, 1, 2}, t);
  ASSERT_EQ(tangents.size(), 2u);
  test::expect_close(tangents[0], want[0], 1e-6);
  test::expect_close(tangents[1], want[2], 1e-6);
}

TEST(GraphRules, ResidualsLeaveOutRepetitionsAndConstants) {
  auto g = make_graph({f64({64, 8}), f64({8})}, [](Builder& b, const Values& in) {
    Value row = broadcast_in_dim(in[1], {64, 8}, {1});
    Value ramp = convert(iota(b, DType::I32, {64, 8}, 0), DType::F64);
    return Values{in[0] * row * ramp};
  });
  Linearized lin = linearize_graph(*g, {true, false});
  ASSERT_EQ(lin.num_residuals, 1u);
  EXPECT_EQ(lin.linear->type(lin.linear->inputs[0]).shape, (Shape{8}));
}

TEST(GraphRules, TransposedGraphIsTheAdjoint) {
  auto g = network();
  auto in = network_inputs();
  Linearized lin = linearize_graph(*g, {true, true, true, false});
  auto known = interpret(*lin.known, in);
  Flags linear(lin.linear->inputs.size(), true);
  for (std::size_t i = 0; i < lin.num_residuals; ++i) linear[i] = false;
  Transposed back = transpose_graph(*lin.linear, linear, {true, true});
  verify(*back.graph);
  std::vector<HostArray> residuals(known.begin() + 3, known.end());
  std::vector<HostArray> t{host(f64({3, 4}), 7), host(f64({4, 5}), 8), host(f64({5}), 9)};
  std::vector<HostArray> ct{host(f64({}), 4), host(f64({3, 5}), 5)};
  auto args = residuals;
  args.insert(args.end(), t.begin(), t.end());
  auto forward = interpret(*lin.linear, args);
  args = residuals;
  args.insert(args.end(), ct.begin(), ct.end());
  auto cotangents = interpret(*back.graph, args);
  ASSERT_EQ(cotangents.size(), 3u);
  double left = 0;
  double right = 0;
  for (std::size_t i = 0; i < 2; ++i) left += test::inner(ct[i], forward[i]);
  for (std::size_t i = 0; i < 3; ++i) right += test::inner(cotangents[i], t[i]);
  EXPECT_NEAR(left, right, 1e-10 * std::abs(left));
}

TEST(GraphRules, CotangentsOfASplitAreJoined) {
  struct Case {
    std::vector<std::array<std::int64_t, 2>> parts;
    bool joined;
  };
  for (const Case& c : {Case{{{0, 2}, {2, 5}, {5, 8}}, true}, Case{{{5, 8}, {0, 5}}, true},
                        Case{{{1, 4}, {4, 6}}, true}, Case{{{0, 5}, {4, 8}}, false}, Case{{{0, 2}, {4, 8}}, false}}) {
    auto g = make_graph({f64({3, 8})}, [&](Builder&, const Values& in) {
      Values out;
      for (auto [from, to] : c.parts) out.push_back(slice_in_dim(in[0], from, to, 1) * (1.0 + static_cast<double>(to)));
      return out;
    });
    Transposed back = transpose_graph(*g, {true}, Flags(c.parts.size(), true));
    verify(*back.graph);
    EXPECT_EQ(to_string(*back.graph).find("concatenate") != std::string::npos, c.joined) << to_string(*back.graph);
    HostArray x = test::host(f64({3, 8}), 1);
    auto forward = interpret(*g, std::vector<HostArray>{x});
    std::vector<HostArray> ct;
    double left = 0;
    for (std::size_t i = 0; i < forward.size(); ++i) {
      ct.push_back(test::host(back.graph->type(back.graph->inputs[i]), static_cast<unsigned>(i + 2)));
      left += test::inner(ct[i], forward[i]);
    }
    EXPECT_NEAR(left, test::inner(interpret(*back.graph, ct)[0], x), 1e-10);
  }
}

TEST(GraphRules, ForcedOutputsGetZeros) {
  auto g = make_graph({f64({3}), f64({3})}, [](Builder&, const Values& in) { return Values{in[0], exp(in[1])}; });
  JvpGraph jvp = jvp_graph(*g, {true, false}, {true, true});
  EXPECT_EQ(jvp.active_out, (Flags{true, true}));
  Linearized lin = linearize_graph(*g, {true, false}, {true, true});
  EXPECT_EQ(lin.active_out, (Flags{true, true}));
  EXPECT_EQ(lin.num_residuals, 0u);
  auto out = interpret(*lin.linear, std::vector<HostArray>{host(f64({3}), 1)});
  EXPECT_EQ(out[1].to_vector<double>(), (std::vector<double>{0, 0, 0}));
  Transposed back = transpose_graph(*lin.linear, {true}, {false, false}, {true});
  EXPECT_EQ(back.nonzero, (Flags{true}));
}

TEST(GraphRules, BatchedGraphIsALoopOverTheBatch) {
  auto g = network();
  BatchedGraph batched = batch_graph(*g, {true, false, true, true}, 4);
  verify(*batched.graph);
  EXPECT_EQ(batched.batched_out, (Flags{true, true, true}));
  std::vector<HostArray> in{host(f64({4, 3, 4}), 1), host(f64({4, 5}), 2), host(f64({4, 5}), 3),
                            HostArray::from<std::int32_t>({2, 1, 3, 1, 1, 1, 0, 2, 4, 3, 2, 1}).reshape({4, 3})};
  auto got = interpret(*batched.graph, in);
  for (std::int64_t n = 0; n < 4; ++n) {
    auto one =
        interpret(*g, std::vector<HostArray>{test::row(in[0], n), in[1], test::row(in[2], n), test::row(in[3], n)});
    for (std::size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(identical(test::row(got[i], n), one[i])) << n << " " << i;
  }
}

TEST(GraphRules, DerivedEquationsKeepTheirLines) {
  Builder b;
  Value x = b.input(f64({3}));
  b.set_loc(Loc{"model.cc", 42, nullptr});
  Value y = sin(x);
  auto g = b.finish_shared(Values{y});
  auto forward = jvp_graph(*g, {true}).graph;
  for (const auto& e : forward->eqns) EXPECT_EQ(to_string(e.loc), "model.cc:42");
  Linearized lin = linearize_graph(*g, {true});
  Transposed back = transpose_graph(*lin.linear, {false, true}, {true});
  ASSERT_FALSE(back.graph->eqns.empty());
  for (const auto& e : back.graph->eqns) EXPECT_EQ(to_string(e.loc), "model.cc:42");
}

}  // namespace
}  // namespace tessera::ops
