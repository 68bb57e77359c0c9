// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "ops/control/control.h"
#include "tests/support/graphs.h"

namespace tessera::ops {
namespace {

using test::host;
using test::make_graph;

Type f64(Shape s) { return Type{DType::F64, std::move(s)}; }
const Type kCounter{DType::I32, {}};

const ir::Eqn* find_eqn(const Graph& g, const ir::OpDef& op) {
  for (const auto& e : g.eqns) {
    if (e.op == &op) return &e;
  }
  return nullptr;
}

void expect_error(const std::function<void()>& call, const std::string& text) {
  try {
    call();
    FAIL() << "no error; expected " << text;
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
  }
}

// A scan whose body holds a cond and a scan: h' = cond(even i, tanh(W h) + x, inner loop).
GraphPtr nested() {
  auto dense = make_graph({f64({3, 3}), f64({3})}, [](Builder&, const Values& v) {
    return Values{tanh(dot_general(v[0], v[1], {{1}, {0}, {}, {}}))};
  });
  auto twice = make_graph({f64({3, 3}), f64({3})}, [](Builder& b, const Values& v) {
    auto step = make_graph({f64({3, 3}), f64({3})}, [](Builder&, const Values& w) {
      return Values{sin(dot_general(w[0], w[1], {{1}, {0}, {}, {}})) * w[1]};
    });
    return scan(b, ScanArgs{step, 2, false, {v[0]}, {v[1]}, {}});
  });
  auto body = make_graph({f64({3, 3}), kCounter, f64({3}), f64({3})}, [&](Builder& b, const Values& v) {
    Value even =
        eq(sub(v[1], mul(div(v[1], scalar(b, 2, DType::I32)), scalar(b, 2, DType::I32))), scalar(b, 0, DType::I32));
    Value h = cond(even, {twice, dense}, Values{v[0], v[2]})[0] + v[3];
    return Values{v[1] + 1.0, h, h * h};
  });
  return make_graph({f64({3, 3}), f64({3}), f64({5, 3})}, [&](Builder& b, const Values& v) {
    return scan(b, ScanArgs{body, 5, false, {v[0]}, {scalar(b, 0, DType::I32), v[1]}, {v[2]}});
  });
}

TEST(Control, NestedLoopsAndBranchesDifferentiate) {
  auto g = nested();
  std::vector<HostArray> in{host(f64({3, 3}), 1), host(f64({3}), 2), host(f64({5, 3}), 3)};
  std::vector<HostArray> t{host(f64({3, 3}), 4), host(f64({3}), 5), host(f64({5, 3}), 6)};
  auto want = test::difference(*g, in, {0, 1, 2}, t);
  Linearized lin = linearize_graph(*g, {true, true, true});
  EXPECT_EQ(lin.active_out, (Flags{false, true, true}));
  verify(*lin.known);
  verify(*lin.linear);
  auto known = interpret(*lin.known, in);
  std::vector<HostArray> residuals(known.begin() + 3, known.end());
  auto args = residuals;
  append(args, t);
  auto forward = interpret(*lin.linear, args);
  test::expect_close(forward[0], want[1], 1e-7);
  test::expect_close(forward[1], want[2], 1e-7);
  Flags linear(lin.linear->inputs.size(), true);
  for (std::size_t i = 0; i < lin.num_residuals; ++i) linear[i] = false;
  Transposed back = transpose_graph(*lin.linear, linear, {true, true});
  verify(*back.graph);
  std::vector<HostArray> ct{host(f64({3}), 7), host(f64({5, 3}), 8)};
  args = residuals;
  append(args, ct);
  auto grads = interpret(*back.graph, args);
  double left = test::inner(ct[0], forward[0]) + test::inner(ct[1], forward[1]);
  double right = 0;
  for (std::size_t i = 0; i < 3; ++i) right += test::inner(grads[i], t[i]);
  EXPECT_NEAR(left, right, 1e-11);
}

TEST(Control, BatchedNestedLoopsAreALoopOverTheBatch) {
  auto g = nested();
  BatchedGraph batched = batch_graph(*g, {false, true, false}, 4);
  verify(*batched.graph);
  std::vector<HostArray> in{host(f64({3, 3}), 1), host(f64({4, 3}), 2), host(f64({5, 3}), 3)};
  auto got = interpret(*batched.graph, in);
  EXPECT_EQ(batched.batched_out, (Flags{false, true, true}));
  for (std::int64_t n = 0; n < 4; ++n) {
    auto one = interpret(*g, std::vector<HostArray>{in[0], test::row(in[1], n), in[2]});
    test::expect_close(test::row(got[1], n), one[1], 1e-14);
    test::expect_close(test::row(got[2], n), one[2], 1e-14);
  }
}

// The weights' square root is the same in every step: it is a constant of the linear loop, not stacked; the stacked
// input is read again, not copied.
TEST(Control, ResidualsOfAScanAreNotStackedWhereTheyNeedNot) {
  auto body = make_graph({f64({3}), f64({3}), f64({3})}, [](Builder&, const Values& v) {
    return Values{v[1] * sqrt(v[0]) * v[2], v[1]};
  });
  auto g = make_graph({f64({3}), f64({3}), f64({7, 3})}, [&](Builder& b, const Values& v) {
    return scan(b, ScanArgs{body, 7, false, {v[0]}, {v[1]}, {v[2]}});
  });
  Linearized lin = linearize_graph(*g, {false, true, false});
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < lin.num_residuals; ++i) shapes.push_back(lin.linear->type(lin.linear->inputs[i]).shape);
  std::sort(shapes.begin(), shapes.end());
  EXPECT_EQ(shapes, (std::vector<Shape>{{3}, {7, 3}}));
  const auto* loop = find_eqn(*lin.known, def::scan);
  ASSERT_NE(loop, nullptr);
  EXPECT_EQ(loop->out.size(), 2u);  // no residual among its results
}

// Operands that a branch's linear part reads go to it as they are.
TEST(Control, ResidualsOfACondShareSlots) {
  auto times = make_graph({f64({3}), f64({3})}, [](Builder&, const Values& v) { return Values{v[0] * v[1]}; });
  auto sine = make_graph({f64({3}), f64({3})}, [](Builder&, const Values& v) { return Values{sin(v[0]) + v[1]}; });
  auto expo = make_graph({f64({3}), f64({3})}, [](Builder&, const Values& v) { return Values{exp(v[0])}; });
  auto g = make_graph({kCounter, f64({3}), f64({3})}, [&](Builder&, const Values& v) {
    return cond(v[0], {times, sine, expo}, Values{v[1], v[2]});
  });
  Linearized lin = linearize_graph(*g, {false, true, false});
  EXPECT_EQ(lin.num_residuals, 3u);  // which branch, the second operand, and one slot of sine and exp
}

TEST(Control, LanesOfAWhileEndOnTheirOwn) {
  // x doubles until it reaches the limit.
  auto test_graph = make_graph({f64({}), f64({})}, [](Builder&, const Values& v) { return Values{lt(v[1], v[0])}; });
  auto body = make_graph({f64({})}, [](Builder&, const Values& v) { return Values{v[0] + v[0]}; });
  auto g = make_graph({f64({}), f64({})}, [&](Builder& b, const Values& v) {
    return while_loop(b, WhileArgs{test_graph, body, {v[0]}, {}, {v[1]}});
  });
  auto batched = batch_graph(*g, {true, false}, 3);
  verify(*batched.graph);
  auto out =
      interpret(*batched.graph, std::vector<HostArray>{HostArray::from<double>({5, 0.5, 100}), HostArray::scalar(1.0)});
  EXPECT_EQ(out[0].to_vector<double>(), (std::vector<double>{8, 1, 128}));
}

TEST(Control, ReverseModeOfAWhileSaysWhatToUse) {
  auto test_graph =
      make_graph({f64({})}, [](Builder& b, const Values& v) { return Values{lt(v[0], scalar(b, 9, DType::F64))}; });
  auto body = make_graph({f64({})}, [](Builder&, const Values& v) { return Values{v[0] * v[0]}; });
  auto g = make_graph({f64({})}, [&](Builder& b, const Values& v) {
    return while_loop(b, WhileArgs{test_graph, body, {}, {}, {v[0]}});
  });
  expect_error([&] { linearize_graph(*g, {true}); }, "use scan, or fori_loop");
  auto jvp = jvp_graph(*g, {true});
  auto out = interpret(*jvp.graph, std::vector<HostArray>{HostArray::scalar(3.0), HostArray::scalar(1.0)});
  EXPECT_EQ(out[0].to_vector<double>()[0], 9);
  EXPECT_EQ(out[1].to_vector<double>()[0], 6);
}

TEST(Control, ErrorsNameTheSubgraph) {
  auto one = make_graph({f64({3})}, [](Builder&, const Values& v) { return v; });
  auto sum = make_graph({f64({3})}, [](Builder&, const Values& v) { return Values{reduce_sum(v[0], {0})}; });
  Builder b;
  Value x = b.input(f64({3}));
  Value xs = b.input(f64({4, 3}));
  Value which = b.input(kCounter);
  expect_error([&] { cond(which, {one, sum}, Values{x}); }, "[cond] output 0 of branch 1 is f64[]; expected f64[3]");
  expect_error([&] { cond(x, {one}, Values{x}); },
               "[cond] operand 0 (which branch) is f64[3]; expected i32[] or bool[]");
  expect_error(
      [&] {
        scan(b, ScanArgs{one, 5, false, {}, {}, {xs}});
      },
      "[scan] operand 0: shape (4, 3); expected 5 elements along dimension 0");
  expect_error(
      [&] {
        scan(b, ScanArgs{sum, 4, false, {}, {x}, {}});
      },
      "[scan] output 0 of body (carry) is f64[]; expected f64[3]");
  expect_error(
      [&] {
        while_loop(b, WhileArgs{one, one, {}, {}, {x}});
      },
      "[while] output of cond is f64[3]; expected bool[]");
}

}  // namespace
}  // namespace tessera::ops
