// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "ops/control/calls.h"
#include "ops/control/control.h"
#include "tests/support/graphs.h"

namespace tessera::ops {
namespace {

using test::host;
using test::make_graph;

Type f64(Shape s) { return Type{DType::F64, std::move(s)}; }

// Cotangents of all inputs for cotangents `ct` of the active outputs, through linearize and transpose.
std::vector<HostArray> pull_back(const Graph& g, const std::vector<HostArray>& in, const std::vector<HostArray>& ct) {
  Linearized lin = linearize_graph(g, Flags(in.size(), true));
  auto known = interpret(*lin.known, in);
  Flags linear(lin.linear->inputs.size(), true);
  for (std::size_t i = 0; i < lin.num_residuals; ++i) linear[i] = false;
  Transposed back = transpose_graph(*lin.linear, linear, Flags(ct.size(), true), Flags(linear.size(), true));
  verify(*back.graph);
  std::vector<HostArray> args(known.begin() + static_cast<std::ptrdiff_t>(g.outputs.size()), known.end());
  append(args, ct);
  return interpret(*back.graph, args);
}

// x -> 2 x with a derivative that is 10, so that the rule shows.
CustomVjp ten() {
  return {[](Builder&, ValueSpan in) {
            return Values{in[0] + in[0], in[0]};
          },
          [](Builder&, ValueSpan, ValueSpan ct) { return Values{ct[0] * 10.0}; }};
}
GraphPtr doubled(const Shape& shape) {
  return make_graph({f64(shape)}, [](Builder&, const Values& v) { return Values{v[0] + v[0]}; });
}

TEST(CustomVjp, ItsRuleReplacesTheDerivative) {
  auto g = make_graph({f64({3})}, [](Builder& b, const Values& v) {
    return Values{custom_vjp_call(b, doubled({3}), ten(), v, "double")[0] * v[0]};
  });
  auto grad = pull_back(*g, {HostArray::from<double>({1, 2, 3})}, {HostArray::from<double>({1, 1, 1})});
  EXPECT_EQ(grad[0].to_vector<double>(), (std::vector<double>{12, 24, 36}));  // 10 x + 2 x
}

TEST(CustomVjp, BatchedItStillUsesItsRule) {
  auto g = make_graph({f64({})},
                      [](Builder& b, const Values& v) { return custom_vjp_call(b, doubled({}), ten(), v, "double"); });
  auto batched = batch_graph(*g, {true}, 3);
  auto grad = pull_back(*batched.graph, {HostArray::from<double>({1, 2, 3})}, {HostArray::from<double>({1, 2, 3})});
  EXPECT_EQ(grad[0].to_vector<double>(), (std::vector<double>{10, 20, 30}));
  // An input that all elements share gets the sum of their cotangents.
  auto body = make_graph({f64({}), f64({})}, [](Builder&, const Values& v) { return Values{v[0] * v[1]}; });
  CustomVjp rule{[](Builder&, ValueSpan in) {
                   return Values{in[0] * in[1], in[0], in[1]};
                 },
                 [](Builder&, ValueSpan kept, ValueSpan ct) {
                   return Values{ct[0] * kept[1], ct[0] * kept[0] * 10.0};
                 }};
  g = make_graph({f64({}), f64({})},
                 [&](Builder& b, const Values& v) { return custom_vjp_call(b, body, rule, v, "product"); });
  batched = batch_graph(*g, {true, false}, 3);
  grad = pull_back(*batched.graph, {HostArray::from<double>({1, 2, 3}), HostArray::scalar(5.0)},
                   {HostArray::from<double>({1, 1, 1})});
  EXPECT_EQ(grad[0].to_vector<double>(), (std::vector<double>{5, 5, 5}));
  EXPECT_EQ(grad[1].to_vector<double>(), (std::vector<double>{60}));
}

TEST(CustomVjp, ForwardModeSaysWhatToUse) {
  auto g = make_graph({f64({3})},
                      [](Builder& b, const Values& v) { return custom_vjp_call(b, doubled({3}), ten(), v, "double"); });
  try {
    jvp_graph(*g, {true});
    FAIL();
  } catch (const UnimplementedError& e) {
    EXPECT_NE(std::string(e.what()).find("forward mode of double"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("custom_jvp"), std::string::npos);
  }
}

TEST(CustomJvp, ItsRuleServesBothModesAndBatches) {
  CustomJvp rule{[](Builder&, ValueSpan in, ValueSpan t) { return ir::Duals{{in[0] + in[0]}, {t[0] * 10.0}}; }};
  auto g = make_graph({f64({})},
                      [&](Builder& b, const Values& v) { return custom_jvp_call(b, doubled({}), rule, v, "double"); });
  auto batched = batch_graph(*g, {true}, 2);
  auto x = HostArray::from<double>({1, 2});
  auto jvp = jvp_graph(*batched.graph, {true});
  auto out = interpret(*jvp.graph, std::vector<HostArray>{x, x});
  EXPECT_EQ(out[0].to_vector<double>(), (std::vector<double>{2, 4}));
  EXPECT_EQ(out[1].to_vector<double>(), (std::vector<double>{10, 20}));
  EXPECT_EQ(pull_back(*batched.graph, {x}, {x})[0].to_vector<double>(), (std::vector<double>{10, 20}));
}

TEST(Checkpoint, KeepsItsInputsAndComputesAgainBehindABarrier) {
  auto body = make_graph({f64({4})}, [](Builder&, const Values& v) { return Values{sin(exp(sin(v[0])))}; });
  auto g = make_graph({f64({4})}, [&](Builder& b, const Values& v) { return checkpoint(b, body, v); });
  Linearized lin = linearize_graph(*g, {true});
  EXPECT_EQ(lin.num_residuals, 1u);
  EXPECT_EQ(lin.known->outputs[1], lin.known->inputs[0]);
  Transposed back = transpose_graph(*lin.linear, {false, true}, {true});
  ASSERT_EQ(back.graph->eqns.size(), 1u);
  const auto& again = *ir::get<Call>(back.graph->eqns[0].attrs).body;
  EXPECT_EQ(again.eqns[0].op, &def::optimization_barrier);
  auto x = host(f64({4}), 1);
  auto ct = host(f64({4}), 2);
  test::expect_close(pull_back(*g, {x}, {ct})[0], pull_back(*body, {x}, {ct})[0], 1e-15);
}

TEST(Callbacks, EffectsStayAndRunOnceAnElementInOrder) {
  std::vector<double> seen;
  auto f = host_function(
      [&](const std::vector<HostArray>& in) {
        seen.push_back(in[0].span<double>()[0] + in[1].span<double>()[0]);
        return std::vector<HostArray>{};
      },
      "watch");
  auto g = make_graph({f64({}), f64({})}, [&](Builder& b, const Values& v) {
    b.add(def::debug_callback, v, ir::make_attrs(Callback{f, {}, "", false}));
    return Values{v[0] * v[1]};
  });
  ASSERT_EQ(g->eqns.size(), 2u);
  auto batched = batch_graph(*g, {true, false}, 3);
  interpret(*batched.graph, std::vector<HostArray>{HostArray::from<double>({1, 2, 3}), HostArray::scalar(10.0)});
  EXPECT_EQ(seen, (std::vector<double>{11, 12, 13}));
  seen.clear();
  auto jvp = jvp_graph(*g, {true, false});
  interpret(*jvp.graph, std::vector<HostArray>{HostArray::scalar(1.0), HostArray::scalar(2.0), HostArray::scalar(3.0)});
  EXPECT_EQ(seen, (std::vector<double>{3}));
}

TEST(Callbacks, AResultOfAnotherTypeIsAnError) {
  auto f = host_function([](const std::vector<HostArray>& in) { return in; }, "same");
  auto g = make_graph({f64({2})}, [&](Builder& b, const Values& v) {
    return b.add(def::pure_callback, v, ir::make_attrs(Callback{f, {Type{DType::F32, {2}}}, "sequential", false}));
  });
  try {
    interpret(*g, std::vector<HostArray>{host(f64({2}), 1)});
    FAIL();
  } catch (const TypeError& e) {
    EXPECT_NE(std::string(e.what()).find("[pure_callback] result 0 of same is f64[2]; expected f32[2]"),
              std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace tessera::ops
