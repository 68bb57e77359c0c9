// SPDX-License-Identifier: Apache-2.0
// What propagation chooses; docs/propagation.md tells the same examples.
#include <gtest/gtest.h>

#include "ops/ops.h"
#include "ops/shared_attrs.h"
#include "support/spec_report.h"
#include "support/spmd_sketch.h"

namespace tessera {
namespace {

using ir::Builder;
using ir::Value;
using test::module;
using test::output_layouts;

const ir::MeshAxes kXY = test::mesh_of("x:4, y:2");

Value matmul(Value a, Value b) { return ops::dot_general(a, b, {{1}, {0}, {}, {}}); }
ir::Type f32(Shape shape) { return {DType::F32, std::move(shape)}; }

TEST(Propagate, PlacesResultsAsJaxDoes) {
  TESSERA_SPEC("A51");
  Builder b;
  Value a = b.input(f32({8, 2}));
  Value t = ops::transpose(a, {1, 0});
  Value one = ops::scalar(b, 1, DType::F32);
  ir::Values out{
      ops::tanh(a),
      ops::add(a, one),
      ops::lt(a, one),
      ops::convert(a, DType::I32),
      ops::where(ops::gt(a, one), a, one),
      t,
      ops::reduce_sum(a, {0}),
      ops::reduce_sum(a, {1}),
      ops::reduce_sum(a, {0, 1}),
      matmul(a, t),
      matmul(t, a),
      ops::add(a, a),
      ops::reshape(ops::slice(a, {0, 0}, {1, 2}), {2}),
      ops::slice(a, {2, 0}, {4, 2}),
  };
  EXPECT_EQ(output_layouts(module(b, out, kXY, {"x, y"})),
            "[x, y] [x, y] [x, y] [x, y] [x, y] [y, x] [y] [x] [] [x, -] [y, -] [x, y] [y] [-, y]");
}

TEST(Propagate, ReshapeKeepsWhatMajorFactorsTake) {
  TESSERA_SPEC("A51");
  Builder b;
  Value v = b.input(f32({8}));
  ir::Values out{ops::reshape(v, {4, 2}), ops::reshape(v, {2, 4}), ops::reshape(v, {8, 1}), ops::reshape(v, {1, 8})};
  EXPECT_EQ(output_layouts(module(b, out, kXY, {"x"})), "[x, -] [-, -] [x, -] [-, x]");
}

TEST(Propagate, ReshapeFillsMinorFactorsOnceMajorOnesAreUsedUp) {
  Builder b;
  Value v = b.input(f32({8, 6}));
  Value split = ops::reshape(v, {4, 2, 6});
  Value merged = ops::reshape(split, {4, 12});
  EXPECT_EQ(output_layouts(module(b, {split, merged}, kXY, {"x.y, -"})), "[x, y, -] [x, y]");
  Builder c;
  v = c.input(f32({4, 2}));
  EXPECT_EQ(output_layouts(module(c, {ops::reshape(v, {8})}, kXY, {"-, y"})), "[-]") << "shards would be strided";
}

TEST(Propagate, GoesBackToFreeInputsAndFreshValues) {
  Builder b;
  Value x = b.input(f32({8, 4}));
  Value y = b.input(f32({8, 4}));
  Value i = ops::iota(b, DType::F32, {8, 4}, 0);
  Value z = ops::full(b, 2, f32({8, 4}));
  Value out = ops::tanh(x) * (i + z) + y;
  auto p = module(b, {out}, kXY, {"?", "?"}, {"x, y"});
  for (const auto& l : spmd::propagate(p)) {
    if (l.dims.empty()) continue;  // a constant
    EXPECT_EQ(to_string(l, kXY), "[x, y]");
  }
}

TEST(Propagate, TakesTheLongestOfCompatibleAxes) {
  Builder b;
  Value x = b.input(f32({8, 4}));
  Value y = b.input(f32({8, 4}));
  EXPECT_EQ(output_layouts(module(b, {x + y}, kXY, {"x, -", "x.y, -"})), "[x.y, -]");
}

TEST(Propagate, LargerOperandWinsAConflictThenTheFirst) {
  Builder b;
  Value x = b.input(f32({8, 4}));
  Value y = b.input(f32({8, 4}));
  EXPECT_EQ(output_layouts(module(b, {x + y}, kXY, {"y, -", "x, -"})), "[y, -]");
  Builder c;
  x = c.input(f32({8, 4}));
  y = c.input(f32({8, 4, 16}));
  // The batch dimension is y's there and x's here; y is larger.
  Value z = ops::dot_general(x, y, {{1}, {1}, {0}, {0}});
  EXPECT_EQ(output_layouts(module(c, {z}, kXY, {"x, -", "y, -, -"})), "[y, -]");
}

TEST(Propagate, AnAxisSplitsAValueOnce) {
  Builder b;
  Value x = b.input(f32({8, 4}));
  Value y = b.input(f32({4, 8}));
  EXPECT_EQ(output_layouts(module(b, {matmul(x, y)}, kXY, {"x, -", "-, x"})), "[x, -]");
}

TEST(Propagate, ElementwiseOpsGoFirst) {
  // Through tanh, the output's wish reaches h before the product can spread w's axis over it.
  Builder b;
  Value x = b.input(f32({8, 8}));
  Value w = b.input(f32({8, 8}));
  Value h = matmul(x, w);
  auto p = module(b, {ops::tanh(h)}, kXY, {"-, -", "-, y"}, {"y, -"});
  auto layouts = spmd::propagate(p);
  EXPECT_EQ(to_string(layouts[static_cast<std::size_t>(p.graph->eqns[0].out[0])], kXY), "[y, -]");
}

TEST(Propagate, SplitsEvenlyUnlessToldOtherwise) {
  Builder b;
  Value x = b.input(f32({6}));
  Value y = ops::broadcast_in_dim(x, {6, 3}, {0});
  auto p = module(b, {y}, kXY, {"x"});
  EXPECT_EQ(output_layouts(p), "[-, -]");
  p.uneven = true;
  EXPECT_EQ(output_layouts(p), "[x, -]");
  Builder c;
  auto q = module(c, {ops::reshape(c.input(f32({6})), {2, 3})}, test::mesh_of("x:2, y:3"), {"y"});
  q.uneven = true;
  EXPECT_EQ(output_layouts(q), "[-, -]") << "a dimension of several factors is never uneven";
}

TEST(Propagate, ConstraintsHoldAndOpenDimensionsFollow) {
  Builder b;
  Value x = b.input(f32({8, 4}));
  Value y = test::constrain(ops::tanh(x), "-, ?", kXY);
  Value z = ops::tanh(y);
  EXPECT_EQ(output_layouts(module(b, {y, z}, kXY, {"x, y"})), "[-, y] [-, y]");
}

TEST(Propagate, ReducedAxesDoNotReturn) {
  Builder b;
  Value x = b.input(f32({8, 4}));
  Value s = ops::reduce_sum(x, {0});
  EXPECT_EQ(output_layouts(module(b, {ops::broadcast_in_dim(s, {8, 4}, {1})}, kXY, {"x, y"})), "[-, y]");
}

}  // namespace
}  // namespace tessera
