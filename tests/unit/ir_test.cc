// SPDX-License-Identifier: Apache-2.0
// Copying graphs, and what is said of a pass that makes a broken one.
#include <gtest/gtest.h>

#include "engines/cpu/passes/recompute_cheap.h"
#include "ir/pass.h"
#include "ir/rewriter.h"
#include "ops/control/control.h"
#include "tests/support/graphs.h"

namespace tessera::ir {
namespace {

using test::make_graph;

const Type kFour{DType::F32, {4}};

Eqn eqn_of(const Graph& g, std::size_t i) { return g.eqns.at(i); }

// exp, then neg: out = -exp(x).
GraphPtr example() {
  return make_graph({kFour}, [](Builder& b, const Values& v) {
    b.set_loc({"model.cc", 7, nullptr});
    Value y = ops::exp(v[0]);
    b.set_loc({});
    return Values{ops::neg(y)};
  });
}

// A pass that halves the result of `exp` without saying so in its type.
GraphPtr halve(const Graph& g) {
  Builder b;
  Rewriter r(b, g);
  r.add_inputs();
  r.walk([&](const Eqn& e, const Values& in) {
    if (e.op != &ops::def::exp) return r.copy(e, in);
    return b.add_typed(*e.op, in, e.attrs, {Type{DType::F32, {2}}});
  });
  return r.finish("halve");
}

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const InternalError& e) {
    return e.what();
  }
  return "";
}

TEST(Pass, ABrokenGraphIsCaughtWithTheNameOfThePass) {
  ConfigScope verify(&Config::verify, true);
  std::string message = message_of([] { halve(*example()); });
  EXPECT_NE(message.find("after halve: verify: result 0 is f32[2], expected f32[4]"), std::string::npos) << message;
  EXPECT_NE(message.find("> b:f32[2] = exp a"), std::string::npos) << message;
}

TEST(Pass, AnOpThatRefusesItsOperandsIsTheFaultOfThePass) {
  ConfigScope verify(&Config::verify, true);
  Builder b;
  Value x = b.input(kFour);
  Value y = b.input({DType::F32, {3}});
  Value sum = b.add_typed(ops::def::add, Values{x, y}, nullptr, {kFour})[0];
  auto graph = std::make_shared<const Graph>(b.finish(Values{sum}));
  std::string message = message_of([&] { after_pass("mix", graph); });
  EXPECT_NE(message.find("after mix: verify: the operands are refused"), std::string::npos) << message;
}

TEST(Pass, GraphsInsideEquationsAreVerifiedToo) {
  ConfigScope verify(&Config::verify, true);
  Builder inner;
  Value v = inner.input(kFour);
  Value wrong = inner.add_typed(ops::def::exp, Values{v}, nullptr, {Type{DType::F32, {2}}})[0];
  Value right =
      inner.add_typed(ops::def::broadcast_in_dim, Values{v}, make_attrs(ops::BroadcastInDim{{4}, {0}}), {kFour})[0];
  auto branch = std::make_shared<const Graph>(inner.finish(Values{right}));
  ASSERT_EQ(branch->type(wrong.id).shape, (Shape{2}));
  auto graph = make_graph({{DType::I32, {}}, kFour}, [&](Builder&, const Values& in) {
    return ops::cond(in[0], {branch, branch}, Values{in[1]});
  });
  std::string message = message_of([&] { after_pass("branch", graph); });
  EXPECT_NE(message.find("after branch: verify: result 0 is f32[2]"), std::string::npos) << message;
}

TEST(Rewriter, CopiesWhatTheRuleLeavesAlone) {
  GraphPtr g = example();
  Builder b;
  Rewriter r(b, *g);
  r.add_inputs();
  r.walk(
      [&](const Eqn& e, const Values& in) { return e.op == &ops::def::neg ? Values{ops::abs(in[0])} : r.copy(e, in); });
  GraphPtr changed = r.finish("abs");
  EXPECT_EQ(to_string(*changed), "main(a:f32[4]) {\n  b:f32[4] = exp a\n  c:f32[4] = abs b\n  return c }");
  EXPECT_EQ(eqn_of(*changed, 0).loc.line, 7U);
}

TEST(Rewriter, ALineThatIsMissingIsThatOfTheCaller) {
  GraphPtr g = example();
  Builder b;
  Value x = b.input(kFour);
  b.set_loc({"caller.cc", 3, nullptr});
  b.inline_graph(*g, Values{x});
  EXPECT_EQ(eqn_of(b.graph(), 0).loc.line, 7U);
  EXPECT_EQ(eqn_of(b.graph(), 1).loc.line, 3U);
  EXPECT_EQ(b.loc().line, 3U);
}

TEST(Rewriter, KeepsMeshAndLayouts) {
  Builder b;
  b.set_mesh(std::make_shared<const MeshAxes>(MeshAxes{{2}, {"x"}}));
  Layout split{{{0}}};
  Value x = b.input(kFour);
  b.set_layout(x, split);
  Value y = ops::exp(x);
  b.set_layout(y, split);
  Graph g = b.finish(Values{y});

  Builder to;
  Rewriter r(to, g);
  r.add_inputs();
  r.walk();
  EXPECT_TRUE(equal(*r.finish("copy"), g));
}

TEST(Rewriter, AnOperandWithoutAValueIsRefused) {
  GraphPtr g = example();
  Builder b;
  Rewriter r(b, *g);
  EXPECT_THROW(r.copy(g->eqns[0]), InternalError);
}

TEST(Rewriter, PartOfAGraph) {
  GraphPtr g = example();
  std::vector<bool> second{false, true};
  GraphPtr part = part_of(*g, g->eqns[1].in, second, g->outputs);
  EXPECT_EQ(to_string(*part), "main(a:f32[4]) {\n  b:f32[4] = neg a\n  return b }");
}

TEST(Prune, TakesOutWhatNobodyNeedsAndNumbersInOrder) {
  Builder b;
  Value x = b.input(kFour);
  ops::sin(x);
  Value y = ops::exp(x);
  Value late = b.input(kFour);
  Graph g = b.finish(Values{ops::neg(y), late});
  prune(g);
  EXPECT_EQ(g.inputs, (std::vector<ValueId>{0, 1}));
  EXPECT_EQ(to_string(g), "main(a:f32[4], b:f32[4]) {\n  c:f32[4] = exp a\n  d:f32[4] = neg c\n  return d b }");
  Graph again = g;
  prune(again);
  EXPECT_TRUE(equal(again, g));
}

TEST(Recompute, TheGroupsAreThoseOfTheGraph) {
  Builder b;
  b.set_mesh(std::make_shared<const MeshAxes>(MeshAxes{{1}, {"x"}}));
  Layout whole = Layout::replicated(2);
  Type square{DType::F32, {64, 64}};
  Values made{b.input(square), b.input(square)};
  auto note = [&](Value v) {
    made.push_back(v);
    return v;
  };
  Value gelu = note(ops::tanh(note(made[0] * made[0])));
  Value product =
      note(b.add1(ops::def::dot_general, {gelu, made[1]}, make_attrs(ops::DotGeneral{{1}, {0}, {}, {}, {}, {}})));
  Value out = note(note(product * gelu) + made[0]);
  for (auto v : made) b.set_layout(v, whole);
  GraphPtr graph = b.finish_shared(Values{out});
  cpu::FusedGraph fused = cpu::recompute_cheap(graph);
  auto groups = cpu::fusion_groups(*fused.graph, true);
  ASSERT_EQ(groups.size(), fused.groups.size());
  for (std::size_t i = 0; i < groups.size(); ++i) EXPECT_EQ(groups[i].eqns, fused.groups[i].eqns);
}

}  // namespace
}  // namespace tessera::ir
