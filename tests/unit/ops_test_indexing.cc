// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "ops/shape/indexing_ops.h"
#include "ops/transform/graph_rules.h"
#include "tests/support/graphs.h"

namespace tessera::ops {
namespace {

using ir::Factor;
using ir::Types;
using test::make_graph;

Type f32(Shape s) { return Type{DType::F32, std::move(s)}; }
Type i32(Shape s) { return Type{DType::I32, std::move(s)}; }
const Gather kRows{{2}, {0}, {0}, {}, {}, {1, 4}, IndexMode::Clip};

ir::GraphPtr lookup(IndexMode mode) {
  return make_graph({f32({6, 4}), i32({2, 3, 1})}, [&](Builder&, const Values& in) {
    Gather p = kRows;
    p.mode = mode;
    return Values{gather(in[0], in[1], p)};
  });
}

TEST(Gather, ModesTreatIndicesOutside) {
  HostArray table = test::host(f32({6, 4}), 1);
  auto tokens = HostArray::from<std::int32_t>({0, 5, 6, -1, 2, 2}).reshape({2, 3, 1});
  std::vector<HostArray> in{table, tokens};
  HostArray kept = interpret(*lookup(IndexMode::Clip), in)[0];
  auto clipped = kept.span<float>();
  auto filled = interpret(*lookup(IndexMode::FillOrDrop), in)[0];
  for (std::size_t c = 0; c < 4; ++c) {
    EXPECT_EQ(clipped[2 * 4 + c], table.span<float>()[5 * 4 + c]);
    EXPECT_EQ(clipped[3 * 4 + c], table.span<float>()[c]);
    EXPECT_TRUE(std::isnan(filled.span<float>()[2 * 4 + c]));
    EXPECT_TRUE(std::isnan(filled.span<float>()[3 * 4 + c]));
    EXPECT_EQ(filled.span<float>()[4 * 4 + c], table.span<float>()[2 * 4 + c]);
  }
}

TEST(Gather, EmbeddingMovesWithItsTokensAndItsColumns) {
  Types in{f32({6, 4}), i32({2, 3, 1})};
  auto rule = def::gather.factors(in, def::gather.infer(in, ir::make_attrs(kRows)), ir::make_attrs(kRows));
  EXPECT_EQ(rule.operands[1][0], rule.results[0][0]);
  EXPECT_EQ(rule.operands[1][1], rule.results[0][1]);
  EXPECT_EQ(rule.operands[0][1], rule.results[0][2]);
  for (auto d : {0, 1, 2}) {
    EXPECT_EQ(rule.factors[static_cast<std::size_t>(rule.results[0][static_cast<std::size_t>(d)][0])].kind,
              Factor::Kind::Pass);
  }
  EXPECT_EQ(rule.factors[static_cast<std::size_t>(rule.operands[0][0][0])].kind, Factor::Kind::Whole);
}

TEST(Gather, GradientOfALookupIsASumOverItsTokens) {
  auto g = lookup(IndexMode::Clip);
  Linearized lin = linearize_graph(*g, {true, false});
  Transposed back = transpose_graph(*lin.linear, {false, true}, {true});
  const ir::Eqn* add = nullptr;
  for (const auto& e : back.graph->eqns) {
    if (e.op == &def::scatter_add) add = &e;
  }
  ASSERT_NE(add, nullptr);
  Types in;
  for (auto v : add->in) in.push_back(back.graph->type(v));
  auto rule = def::scatter_add.factors(in, def::scatter_add.infer(in, add->attrs), add->attrs);
  const Factor& tokens = rule.factors[static_cast<std::size_t>(rule.operands[2][0][0])];
  EXPECT_EQ(tokens.kind, Factor::Kind::Reduce);
  EXPECT_EQ(tokens.reduction, ir::Reduction::Sum);
  EXPECT_EQ(rule.operands[1][0], rule.operands[2][0]);
}

TEST(Scatter, TheLastOfSeveralUpdatesStaysAndAloneHasATangent) {
  auto g = make_graph({f32({4}), i32({3, 1}), f32({3})}, [](Builder&, const Values& in) {
    return Values{scatter(in[0], in[1], in[2], Scatter{{}, {0}, {0}})};
  });
  std::vector<HostArray> in{HostArray::from<float>({1, 2, 3, 4}),
                            HostArray::from<std::int32_t>({2, 2, 9}).reshape({3, 1}),
                            HostArray::from<float>({10, 20, 30})};
  EXPECT_EQ(interpret(*g, in)[0].to_vector<float>(), (std::vector<float>{1, 2, 20, 4}));
  JvpGraph jvp = jvp_graph(*g, {true, false, true});
  in.push_back(HostArray::from<float>({.1F, .2F, .3F, .4F}));
  in.push_back(HostArray::from<float>({.5F, .6F, .7F}));
  EXPECT_EQ(interpret(*jvp.graph, in)[1].to_vector<float>(), (std::vector<float>{.1F, .2F, .6F, .4F}));
}

TEST(Scatter, AddWithoutKnownZerosKeepsItsUpdatesTogether) {
  Types in{f32({6, 4}), i32({8, 1}), f32({8, 4})};
  auto attrs = ir::make_attrs(Scatter{{1}, {0}, {0}});
  auto rule = def::scatter_add.factors(in, def::scatter_add.infer(in, attrs), attrs);
  EXPECT_EQ(rule.factors[static_cast<std::size_t>(rule.operands[2][0][0])].kind, Factor::Kind::Whole);
  rule = def::scatter_max.factors(in, def::scatter_max.infer(in, attrs), attrs);
  EXPECT_EQ(rule.factors[static_cast<std::size_t>(rule.operands[2][0][0])].reduction, ir::Reduction::Max);
}

void expect_error(const ir::OpDef& op, const Types& in, const ir::Attrs& attrs, const std::string& text) {
  try {
    op.infer(in, attrs);
    FAIL() << "no error; expected " << text;
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
  }
}

TEST(Gather, ErrorsNameWhatIsWrong) {
  auto attrs = [](Gather p) { return ir::make_attrs(std::move(p)); };
  Types in{f32({6, 4}), i32({3, 1})};
  expect_error(def::gather, {in[0], f32({3, 1})}, attrs({{1}, {0}, {0}, {}, {}, {1, 4}}),
               "[gather] operand 1 (indices) has dtype float32; expected an integer dtype");
  expect_error(def::gather, in, attrs({{1}, {0}, {0, 1}, {}, {}, {1, 4}}), "[gather] start_index_map: 2 entries");
  expect_error(def::gather, in, attrs({{1}, {0}, {0}, {}, {}, {2, 4}}),
               "[gather] slice_sizes: entry 0 is 2; expected 1 for a collapsed dimension");
  expect_error(def::gather, in, attrs({{1}, {0}, {0}, {}, {}, {1, 5}}),
               "[gather] slice_sizes: entry 1 is 5; expected 0..4");
  expect_error(def::scatter, {in[0], in[1], f32({2, 4})}, ir::make_attrs(Scatter{{1}, {0}, {0}}),
               "[scatter] operand 2: dimension 0 of updates (2, 4) is 2; expected 3");
}

}  // namespace
}  // namespace tessera::ops
