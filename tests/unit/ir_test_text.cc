// SPDX-License-Identifier: Apache-2.0
// Graphs as text that is read again: every op's attributes, constants to the bit, random and partitioned programs.
#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "base/strings.h"
#include "ir/graph_text.h"
#include "ops/collective/collectives.h"
#include "ops/collective/shard_map_op.h"
#include "ops/control/calls.h"
#include "ops/control/control.h"
#include "ops/define_op.h"
#include "tests/support/graphs.h"
#include "tests/support/random_graphs.h"
#include "tests/support/spmd_sketch.h"

namespace tessera::ir {
namespace {

using test::make_graph;

const Type kFour{DType::F32, {4}};

// The graph that its text gives.
Graph again(const Graph& g) { return ops::parse_graph(full_text(g)); }
void expect_same(const Graph& g) {
  Graph back = again(g);
  EXPECT_TRUE(equal(back, g)) << full_text(g) << "\n" << full_text(back);
  EXPECT_EQ(full_text(back), full_text(g));
}
// Callbacks and rules of custom derivatives.
bool holds_functions(const Graph& g) { return full_text(g).find("=<") != std::string::npos; }
std::string refusal(const std::string& text) {
  try {
    ops::parse_graph(text);
  } catch (const ValueError& e) {
    return e.what();
  }
  return "";
}

TEST(GraphText, EverySampleOfEveryOp) {
  int graphs = 0;
  for (const OpDef* op : ops::all()) {
    for (const auto& s : op->samples()) {
      SCOPED_TRACE(str(op->name(), " ", s.attrs ? s.attrs->text() : ""));
      Builder b;
      Values in;
      for (const auto& t : s.in) in.push_back(b.input(t));
      Graph g = b.finish(b.add(*op, in, s.attrs));
      if (holds_functions(g)) {
        EXPECT_THROW(again(g), ValueError);
      } else {
        expect_same(g);
        ++graphs;
      }
    }
  }
  EXPECT_GT(graphs, 400);
}

TEST(GraphText, RandomPrograms) {
  int graphs = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    for (const auto& mesh : test::test_meshes()) {
      SCOPED_TRACE(seed);
      auto p = test::random_program(seed, mesh, {.uneven = seed % 2 == 1});
      if (holds_functions(*p.module.graph)) continue;
      expect_same(*p.module.graph);
      ++graphs;
    }
  }
  EXPECT_GT(graphs, 400);
}

TEST(GraphText, ControlFlowAndMaps) {
  GraphPtr body = make_graph({kFour, kFour}, [](Builder&, const Values& v) {
    return Values{ops::sin(v[0]) + v[1], ops::reduce_sum(v[0], {0})};
  });
  GraphPtr test = make_graph({{DType::I32, {}}}, [](Builder& b, const Values& v) {
    return Values{ops::lt(v[0], ops::scalar(b, 3, DType::I32))};
  });
  GraphPtr next = make_graph({{DType::I32, {}}},
                             [](Builder& b, const Values& v) { return Values{v[0] + ops::scalar(b, 1, DType::I32)}; });
  expect_same(*make_graph({kFour, {DType::F32, {5, 4}}, {DType::I32, {}}}, [&](Builder& b, const Values& v) {
    Values out = ops::scan(b, {body, 5, true, {}, {v[0]}, {v[1]}});
    Value n = b.add1(ops::def::while_, {v[2]}, make_attrs(ops::While{test, next}));
    Values pick = b.add(ops::def::cond, {n, v[0], out[0]}, make_attrs(ops::Cond{{body, body}}));
    out.insert(out.end(), pick.begin(), pick.end());
    return out;
  }));
  GraphPtr mapped = make_graph({{DType::F32, {2}}}, [](Builder&, const Values& v) {
    ops::Collective p{{{"x y", ops::vmapped_name("x", 1)}}, {2, 3}, std::vector<Dims>{{0, 1}, {2, 3, 4, 5}}, true};
    return Values{ops::psum(v[0], p)};
  });
  // Inner graphs are read as what they are; their names need not be bound for that.
  Graph g = again(*mapped);
  EXPECT_TRUE(equal(g, *mapped)) << full_text(*mapped);
}

TEST(GraphText, PartitionedGraphsHaveTheirMeshAndLayouts) {
  Builder b;
  Value x = b.input({DType::F32, {8, 6}}), y = b.input({DType::F32, {6, 4}});
  Values out{ops::dot_general(ops::exp(x), y, {{1}, {0}, {}, {}})};
  auto p = test::module(b, out, test::mesh_of("data:4, model:2"), {"data, model", "model, -"});
  Graph g = *test::partitioned(p);
  Graph back = again(g);
  EXPECT_NE(full_text(g).find(" mesh(data=4, model=2) {"), std::string::npos) << full_text(g);
  EXPECT_NE(full_text(g).find(" partial(model: sum)"), std::string::npos) << full_text(g);
  EXPECT_EQ(full_text(back), full_text(g));
  EXPECT_EQ(*back.mesh, *g.mesh);
  for (std::size_t i = 0; i < g.eqns.size(); ++i) {
    for (std::size_t k = 0; k < g.eqns[i].out.size(); ++k) {
      EXPECT_EQ(back.layout(back.eqns[i].out[k]), g.layout(g.eqns[i].out[k])) << i;
    }
  }
}

TEST(GraphText, AxesOfAnyName) {
  Graph g = *make_graph({kFour}, [](Builder&, const Values& v) { return Values{ops::neg(v[0])}; });
  g.mesh = std::make_shared<const MeshAxes>(MeshAxes{{2, 2, 2}, {"x:0", "a, \"b\"\n", "y."}});
  Layout l = Layout::replicated(1);
  l.dims[0] = {2, 0};
  l.vary = 2;
  g.layouts = {l, l};
  g.layouts[1].vary = 0;
  g.layouts[1].partial = 3;
  g.layouts[1].reduction = Reduction::Max;
  g.layouts[1].dims[0] = {2};
  expect_same(g);
}

template <class T>
void expect_constant(const std::vector<T>& values) {
  expect_same(
      *make_graph({}, [&](Builder& b, const Values&) { return Values{ops::constant(b, HostArray::from(values))}; }));
}
TEST(GraphText, ConstantsToTheBit) {
  using F = std::numeric_limits<float>;
  using D = std::numeric_limits<double>;
  expect_constant<float>({0.1F, -0.0F, F::infinity(), -F::infinity(), F::denorm_min(), F::max(), F::quiet_NaN(),
                          -F::quiet_NaN(), std::bit_cast<float>(0x7fc00123U), 1.0F / 3});
  expect_constant<double>({0.1, -0.0, D::infinity(), D::denorm_min(), D::max(), std::bit_cast<double>(~0ULL)});
  expect_constant<float16_t>({float16_t(0.1F), float16_t(65504.0F), float16_t(F::quiet_NaN()), float16_t(6e-8F)});
  expect_constant<bfloat16_t>({bfloat16_t(0.1F), bfloat16_t(3e38F), bfloat16_t(-F::infinity())});
  expect_constant<complex64_t>({{0.1F, -0.0F}, {F::quiet_NaN(), -F::infinity()}});
  expect_constant<complex128_t>({{0.1, -1.5}, {D::max(), 0}});
  expect_constant<std::int8_t>({-128, 127});
  expect_constant<std::uint8_t>({0, 255});
  expect_constant<std::int64_t>({std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()});
  expect_constant<std::uint64_t>({std::numeric_limits<std::uint64_t>::max()});
  expect_constant<bool>({true, false});
  expect_constant<float>({});
}

TEST(GraphText, ElidedConstantsAreRefused) {
  Graph g = *make_graph({}, [](Builder& b, const Values&) {
    return Values{ops::constant(b, HostArray::from(std::vector<float>(17, 0.5F)))};
  });
  EXPECT_NE(to_string(g).find("value=f32[17]{...}"), std::string::npos) << to_string(g);
  EXPECT_EQ(refusal(to_string(g)),
            "graph text, line 2: expected 17 elements, which are elided in this text: print the graph by `full_text`, "
            "found '...}, weak=false]'");
  expect_same(g);
}

TEST(GraphText, FunctionsOfTheProcessAreRefused) {
  Graph g = *make_graph({kFour}, [](Builder& b, const Values& v) {
    ops::Callback p;
    p.function = ops::host_function([](const std::vector<HostArray>& in) { return in; }, "twice");
    p.results = {kFour};
    return b.add(ops::def::pure_callback, {v[0]}, make_attrs(p));
  });
  std::string message = refusal(full_text(g));
  EXPECT_NE(message.find("a function or rule of the process that printed the text"), std::string::npos) << message;
}

TEST(GraphText, FieldsComeInAnyOrder) {
  Graph g = ops::parse_graph("g(a:f32[4]) {\n  b:f32[4] = cumsum[reverse=true, axis=0] a\n  return b }");
  EXPECT_EQ(to_string(g, "g"), "g(a:f32[4]) {\n  b:f32[4] = cumsum[axis=0, reverse=true] a\n  return b }");
}

TEST(GraphText, ErrorsNameTheLineAndWhatWasExpected) {
  auto with = [](const std::string& line) { return refusal("g(a:f32[4]) {\n  " + line + "\n  return a }"); };
  EXPECT_EQ(with("b:f32[4] = cosine a"), "graph text, line 2: expected the name of an op, got 'cosine', found ' a'");
  EXPECT_EQ(with("b:f32[4] = exp c"),
            "graph text, line 2: expected a value defined above before this, got 'c', found the end of the line");
  EXPECT_EQ(with("a:f32[4] = exp a"),
            "graph text, line 2: expected a new name before this, got 'a', found 'f32[4] = exp a'");
  EXPECT_EQ(with("b:f31[4] = exp a"), "graph text, line 2: expected a dtype (got 'f31'), found '[4] = exp a'");
  EXPECT_EQ(with("b:f32[4] = cumsum[axis=0] a"), "graph text, line 2: expected reverse, found '] a'");
  EXPECT_EQ(with("b:f32[4] = cumsum[axes=0] a"),
            "graph text, line 2: expected one of axis, reverse (got axes), found '=0] a'");
  EXPECT_EQ(with("b:f32[4] = round[method=up] a"),
            "graph text, line 2: expected one of away_from_zero, to_nearest_even (got up), found '] a'");
  EXPECT_EQ(with("b:f32[4] = constant[value=f32[4]{1, 2}, weak=false]"),
            "graph text, line 2: expected 4 elements, found '1, 2}, weak=false]'");
  EXPECT_EQ(with("b:f32[4] = cumsum[axis=99999999999999999999, reverse=true] a"),
            "graph text, line 2: expected an integer of 64 bits, found '99999999999999999999, reverse=true] a'");
  EXPECT_NE(with("b:f32[5] = exp a").find("verify: result 0 is f32[5], expected f32[4]"), std::string::npos);
  EXPECT_EQ(refusal("g(a:f32[4]) {\n"), "graph text, line 2: expected the name of an op, got '', found the end");
  EXPECT_EQ(refusal("g(a:f32[-4]) { return a }"),
            "graph text, line 1: expected a length that is not negative before, found ']) { return a }'");
  EXPECT_EQ(refusal("g(a:f32[4]@[x]) mesh(y=2) { return a }"),
            "graph text, line 1: expected an axis of the mesh before this, got 'x', found ']) mesh(y=2) { return a }'");
}

}  // namespace
}  // namespace tessera::ir
