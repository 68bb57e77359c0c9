// SPDX-License-Identifier: Apache-2.0
// Arrays that are gathered in the order of a sort, which are operands of the sort in programs of several positions.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/strings.h"
#include "ops/control/control.h"
#include "ops/ops.h"
#include "ops/reduce/sorting.h"
#include "ops/shape/indexing_ops.h"
#include "ops/shared_attrs.h"
#include "spmd/spmd.h"
#include "support/random_graphs.h"
#include "support/series.h"
#include "support/spmd_simulator.h"
#include "support/spmd_sketch.h"

namespace tessera {
namespace {

using ir::Builder;
using ir::Type;
using ir::Value;
using ir::Values;
using test::bytes;
using Rng = std::mt19937_64;

const ir::MeshAxes kMesh = test::mesh_of("x:4, y:2");

Type f32(Shape shape) { return {DType::F32, std::move(shape)}; }
std::int64_t pick(Rng& rng, std::int64_t n) { return static_cast<std::int64_t>(rng() % static_cast<std::uint64_t>(n)); }

// take_along_axis(y, places, d) of arrays of one shape.
Value along(Value y, Value places, std::int64_t d, ops::IndexMode mode = ops::IndexMode::Clip) {
  Shape indices(places.shape().begin(), places.shape().end());
  indices.push_back(1);
  ops::Gather p{{}, {d}, {d}};
  p.slice_sizes.assign(static_cast<std::size_t>(y.rank()), 1);
  p.mode = mode;
  for (std::int64_t i = 0; i < y.rank(); ++i) {
    if (i != d) p.operand_batching_dims.push_back(i);
  }
  p.indices_batching_dims = p.operand_batching_dims;
  return ops::gather(y, ops::reshape(places, indices), p);
}

// Places as NumPy's indexing reads them: those below zero are counted from the end.
Value wrapped(Value places, std::int64_t n) {
  Value none = ops::scalar(*places.builder, 0, places.dtype());
  return ops::where(ops::lt(places, ops::broadcast_to(none, places.shape())), places + static_cast<double>(n), places);
}

Value places_of_sort(Value x, std::int64_t d, std::int64_t start = 0) {
  Value places = ops::iota(*x.builder, DType::I32, x.shape(), d);
  if (start != 0) places = places + static_cast<double>(start);
  return ops::sort(Values{x, places}, d)[1];
}

std::int64_t count(const ir::Module& m, const ir::OpDef& op) {
  const ir::Module prepared = spmd::prepared(m);
  return std::ranges::count_if(prepared.graph->eqns, [&](const ir::Eqn& e) { return e.op == &op; });
}

std::size_t sort_operands(const ir::Module& m) {
  const ir::Module prepared = spmd::prepared(m);
  auto it = std::ranges::find_if(prepared.graph->eqns, [](const ir::Eqn& e) { return e.op == &ops::def::sort; });
  return it == prepared.graph->eqns.end() ? 0 : it->in.size();
}

TEST(Order, AnArrayInItsOwnOrderIsTheSortOfIt) {
  constexpr std::int64_t kSize = 1 << 16;
  Builder b;
  Value x = b.input(f32({kSize}));
  auto m = test::module(b, {along(x, wrapped(places_of_sort(x, 0), kSize), 0)}, kMesh, {"x.y"}, {"x.y"});
  EXPECT_EQ(count(m, ops::def::gather), 0);
  EXPECT_EQ(sort_operands(m), 1u);
  Builder c;
  Value y = c.input(f32({kSize}));
  auto sorted = test::module(c, ops::sort(Values{y}, 0), kMesh, {"x.y"}, {"x.y"});
  EXPECT_EQ(bytes(spmd::prepared(m)), bytes(sorted));
}

TEST(Order, AnotherArrayIsAnOperandOfTheSort) {
  Builder b;
  Value x = b.input(f32({512, 64}));
  Value y = b.input({DType::F16, {512, 64}});
  Value places = places_of_sort(x, 0);
  auto m = test::module(b, {along(y, places, 0), along(x, places, 0), places}, kMesh, {"x, -", "x, -"});
  EXPECT_EQ(count(m, ops::def::gather), 0);
  EXPECT_EQ(sort_operands(m), 3u);
}

TEST(Order, MasksOfPlacesInsideOfALineAreDecided) {
  Builder b;
  Value x = b.input(f32({512}));
  Value places = wrapped(places_of_sort(x, 0), 512);
  auto number = [&](double v) { return ops::broadcast_to(ops::scalar(b, v, DType::I32), {512}); };
  Value inside = ops::and_(ops::ge(places, number(0)), ops::le(places, number(511)));
  Value y = ops::where(inside, along(x, places, 0), ops::full(b, -1, f32({512})));
  EXPECT_EQ(sort_operands(test::module(b, {y}, kMesh, {"x"})), 1u);
  // A limit within the line decides nothing.
  for (bool below : {false, true}) {
    Builder c;
    x = c.input(f32({512}));
    places = places_of_sort(x, 0);
    Value limit = ops::broadcast_to(ops::scalar(c, below ? 1 : 510, DType::I32), {512});
    Value some = below ? ops::ge(places, limit) : ops::le(places, limit);
    y = ops::where(some, along(x, places, 0), ops::full(c, -1, f32({512})));
    EXPECT_EQ(sort_operands(test::module(c, {y}, kMesh, {"x"})), 2u);
  }
}

TEST(Order, WhatIsNoPermutationIsGathered) {
  auto gathers = [](const std::function<Value(Builder&, Value)>& f, const ir::MeshAxes& mesh = kMesh) {
    Builder b;
    Value x = b.input(f32({64, 64}));
    Value y = f(b, x);
    return count(test::module(b, {y}, mesh, {"-, -"}), ops::def::gather);
  };
  // Places that begin at 1, places along the other dimension, an array that is made of the places, a sort along the
  // other dimension, places that were changed, and one position.
  EXPECT_EQ(gathers([](Builder&, Value x) { return along(x, places_of_sort(x, 0, 1), 0); }), 1);
  EXPECT_EQ(gathers([](Builder& b, Value x) {
              Value places = ops::iota(b, DType::I32, x.shape(), 1);
              return along(x, ops::sort(Values{x, places}, 0)[1], 0);
            }),
            1);
  EXPECT_EQ(gathers([](Builder&, Value x) {
              Value places = places_of_sort(x, 0);
              return along(ops::convert(places, DType::F32), places, 0);
            }),
            1);
  EXPECT_EQ(gathers([](Builder&, Value x) { return along(x, places_of_sort(x, 1), 0); }), 1);
  EXPECT_EQ(gathers([](Builder&, Value x) { return along(x, ops::rev(places_of_sort(x, 0), {0}), 0); }), 1);
  EXPECT_EQ(gathers([](Builder&, Value x) { return along(x, ops::transpose(places_of_sort(x, 0), {1, 0}), 0); }), 1);
  EXPECT_EQ(gathers([](Builder&, Value x) { return along(x, places_of_sort(x, 0), 0); }, test::mesh_of("x:1")), 1);
  EXPECT_EQ(gathers([](Builder&, Value x) { return along(x, places_of_sort(x, 0), 0); }), 0);
}

TEST(Order, BodiesOfLoopsAreLookedAt) {
  Builder inner;
  Value x = inner.input(f32({64}));
  ops::ScanArgs args;
  args.body = inner.finish_shared(Values{along(x, places_of_sort(x, 0), 0) + 1.0});
  args.length = 3;
  Builder b;
  args.carry = {b.input(f32({64}))};
  auto m = test::module(b, ops::scan(b, args), kMesh, {"x"});
  const ir::Module prepared = spmd::prepared(m);
  EXPECT_EQ(ir::to_string(*prepared.graph).find("gather"), std::string::npos) << ir::to_string(*prepared.graph);
}

struct Case {
  Builder b;
  std::vector<HostArray> args;
  Values out;
  Value input(Rng& rng, const Type& type) {
    args.push_back(test::random_array(rng, type));
    return b.input(type);
  }
};

DType random_dtype(Rng& rng) {
  constexpr std::array kTypes{DType::F32, DType::I32, DType::U8, DType::BF16, DType::F64};
  return kTypes[static_cast<std::size_t>(pick(rng, kTypes.size()))];
}

// Arrays in the order of one or two keys, which may have equal elements, in what is written before an index is one.
void random_case(Rng& rng, Case& c) {
  Shape shape(static_cast<std::size_t>(1 + pick(rng, 3)));
  for (auto& n : shape) n = 1 + pick(rng, 24);
  const auto rank = static_cast<std::int64_t>(shape.size());
  const std::int64_t d = pick(rng, rank);
  const std::int64_t n = shape[static_cast<std::size_t>(d)];
  Values operands;
  for (std::int64_t k = 0; k < 1 + pick(rng, 2); ++k) {
    Value key = c.input(rng, {random_dtype(rng), shape});
    operands.push_back(pick(rng, 2) == 0 ? key : ops::convert(ops::convert(key, DType::I8), key.dtype()));
  }
  const auto keys = static_cast<std::int64_t>(operands.size());
  const Value other = c.input(rng, {random_dtype(rng), shape});
  const DType index = pick(rng, 4) == 0 ? DType::U8 : DType::I32;
  if (pick(rng, 2) == 0) {
    operands.push_back(ops::iota(c.b, index, shape, d));
  } else {
    operands.push_back(ops::broadcast_in_dim(ops::iota(c.b, index, {n}, 0), shape, {d}));
  }
  const Values sorted = ops::sort(operands, d, 1 + pick(rng, keys));
  Value places = sorted.back();
  if (pick(rng, 2) == 0) places = ops::convert(places, DType::I32);
  if (pick(rng, 2) == 0 && places.dtype() == DType::I32) places = wrapped(places, n);
  const auto mode = pick(rng, 2) == 0 ? ops::IndexMode::Clip : ops::IndexMode::FillOrDrop;
  c.out = {along(other, places, d, mode)};
  if (pick(rng, 2) == 0) c.out.push_back(along(operands[0], places, d, mode));
  if (pick(rng, 2) == 0) c.out.push_back(along(other, places, d, mode));
  if (pick(rng, 3) == 0) c.out.push_back(sorted.back());
  if (pick(rng, 3) == 0) c.out.push_back(sorted[0]);
}

TEST(Order, RandomProgramsAreTheSame) {
  for (bool uneven : {false, true}) {
    for (const auto& mesh : test::test_meshes()) {
      for (std::uint64_t seed = 0; seed < 60 && !HasFailure(); seed += test::case_stride(16)) {
        Rng rng(seed * 0x9E3779B97F4A7C15ull + 5);
        Case c;
        random_case(rng, c);
        ir::Module m = ir::module_over(c.b.finish_shared(c.out), mesh);
        m.uneven = uneven;
        for (std::size_t i = 0; i < m.inputs.size(); ++i) {
          if (pick(rng, 4) > 0)
            m.inputs[i].layout = test::random_layout(rng, m.graph->type(m.graph->inputs[i]).shape, mesh, uneven);
        }
        const std::vector<HostArray> expected = test::evaluate(*m.graph, c.args);
        const ir::Module prepared = spmd::prepared(m);
        EXPECT_EQ(ir::to_string(*prepared.graph).find("gather"), std::string::npos);
        const ir::GraphPtr g = spmd::partition(prepared);
        const auto got = test::run_partitioned(*g, c.args);
        for (std::size_t i = 0; i < got.size(); ++i) {
          EXPECT_EQ(test::difference(got[i], expected[i], 0), "") << "seed " << seed << "\n"
                                                                  << ir::to_string(*m.graph) << "\n"
                                                                  << ir::to_string(*g);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tessera
