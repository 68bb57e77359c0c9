// SPDX-License-Identifier: Apache-2.0
// Types with shardings: what shows them, what refuses them, and how programs are traced by them.
#include <gtest/gtest.h>

#include "support/meshes.h"
#include "support/spec_report.h"
#include "tessera/tessera.h"

namespace tessera::test {
namespace {

static_assert(std::is_base_of_v<TypeError, ShardingTypeError>);

struct ExplicitTypes : ::testing::Test {
  EightDevices eight;
  Mesh m2 = make_explicit_mesh({2, 2}, {"x", "y"});
  SetMesh scope{m2};
  Array put(const P& spec, const Shape& shape = {8, 4}) const {
    std::vector<float> v(static_cast<std::size_t>(size_of(shape)));
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i);
    return device_put(HostArray::from(v, shape), NamedSharding(m2, spec).share());
  }
};

TEST_F(ExplicitTypes, TypesOfArraysAndTracedValues) {
  TESSERA_SPEC("E9", "E10", "E11");
  const Array a = put(P("x", "y"));
  const ArrayType t = type_of(a);
  EXPECT_EQ(t.shape, (Shape{8, 4}));
  EXPECT_EQ(t.dtype, float32);
  EXPECT_FALSE(t.weak);
  EXPECT_EQ(t.mesh, m2.abstract_mesh());
  EXPECT_EQ(t.spec, P("x", "y"));
  EXPECT_EQ(t.text(), "float32[8@x,4@y]");
  EXPECT_EQ(to_string(t), "f32[8@x,4@y]");
  std::string inside;
  const auto f = jit([&](const Array& x) {
    inside = type_of(x * 2).text();
    return sin(x);
  });
  EXPECT_EQ(type_of(f(a)).text(), "float32[8@x,4@y]");
  EXPECT_EQ(inside, "float32[8@x,4@y]");
  EXPECT_NE(f.trace(a).text().find("f32[8@x,4@y]"), std::string::npos);
  EXPECT_EQ(type_of(put(P(axes("x", "y")))).text(), "float32[8@(x,y),4]");
  EXPECT_EQ(type_of(put(P(axes("y", "x")))).text(), "float32[8@(y,x),4]");
  EXPECT_EQ(type_of(put(P("x"))), type_of(put(P("x", none))));
  EXPECT_EQ(type_of(reshard(a, P("x").unreduced("y"))).text(), "float32[8@x,4]{U:y}");
  EXPECT_EQ(type_of(reshard(a, P("x").reduced("y"))).text(), "float32[8@x,4]{R:y}");
  EXPECT_EQ(type_of(Operand(2.0)).text(), "~float32[]");
  const auto shapes = eval_types([](const std::vector<Array>& in) { return std::vector<Array>{sum(in[0], 0)}; }, {a});
  EXPECT_EQ(shapes.at(0).text(), "float32[4@y]");
}

// What was derived before is found again for the same placements only.
TEST_F(ExplicitTypes, EqualOperationsOverOtherPlacementsAreDerivedApart) {
  const Mesh longer = make_explicit_mesh({4, 2}, {"x", "y"});
  const auto folded = [](const Array& x) { return type_of(transpose(reshape(sum(x, 0), {2, 2}))).text(); };
  const auto traced = [&](const Array& x) {
    std::string inside;
    jit([&](const Array& v) {
      inside = folded(v);
      return v;
    }).trace(x);
    return inside;
  };
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(traced(put(P("x", "y"))), "float32[2,2@y]");
    EXPECT_EQ(traced(put(P("y", "x"))), "float32[2,2@x]");
    EXPECT_EQ(traced(put(P("x"))), "float32[2,2]");
    EXPECT_EQ(traced(put(P(none, axes("x", "y")))), "float32[2@y,2@x]");
    const SetMesh other(longer);
    const Array a = device_put(HostArray(float32, {8, 4}), NamedSharding(longer, P(none, "x")).share());
    EXPECT_THROW(traced(a), ShardingTypeError);
    const Array b = device_put(HostArray(float32, {8, 4}), NamedSharding(longer, P(none, "y")).share());
    EXPECT_EQ(traced(b), "float32[2,2@y]");
  }
}

TEST_F(ExplicitTypes, HostValuesAreUnsplit) {
  TESSERA_SPEC("E14");
  const Array host(HostArray::from(std::vector<float>(4, 1.0F)));
  EXPECT_EQ(type_of(host + put(P("x", "y"))).text(), "float32[8@x,4@y]");
  EXPECT_EQ(type_of(2 * put(P("x", "y"))).text(), "float32[8@x,4@y]");
  EXPECT_EQ(type_of(sin(host)).text(), "float32[4]");
  const Array elsewhere = device_put(HostArray(float32, {8, 4}), eight.d(5));
  EXPECT_ERROR(DeviceMismatchError, elsewhere + put(P("x")), "add");
}

TEST_F(ExplicitTypes, PlacementIsTheType) {
  TESSERA_SPEC("E15");
  const Array b = put(P("x")) + put(P(none, "y"));
  EXPECT_EQ(type_of(b).text(), "float32[8@x,4@y]");
  EXPECT_TRUE(b.sharding()->is_equivalent_to(NamedSharding(m2, P("x", "y")), 2));
  const Mesh mixed = make_mesh({2, 2}, {"x", "y"}, {.axis_types = {AxisType::Explicit, AxisType::Auto}});
  const SetMesh inner(mixed);
  const Array c = device_put(HostArray(float32, {8, 4}), NamedSharding(mixed, P("x", "y")).share());
  EXPECT_EQ(type_of(c).text(), "float32[8@x,4]");
  EXPECT_TRUE(c.sharding()->is_equivalent_to(NamedSharding(mixed, P("x", "y")), 2));
}

TEST_F(ExplicitTypes, ErrorsSayWhatToDo) {
  TESSERA_SPEC("E16", "E17", "E18");
  const Array by_rows = put(P("x"));
  const Array by_columns = put(P(none, "x"));
  EXPECT_ERROR(ShardingTypeError, by_rows * by_columns, "mul", "f32[8@x,4]", "f32[8,4@x]", "f32[8@x,4@x]");
  EXPECT_ERROR(TypeError, by_rows * by_columns, "mul");
  EXPECT_ERROR(ShardingTypeError, by_rows + put(P("y")), "add", "broadcasting", "'x'", "'y'");
  EXPECT_ERROR(ShardingTypeError, reshape(put(P(none, "y")), {32}), "out_sharding");
  EXPECT_ERROR(ShardingTypeError, matmul(put(P(none, "x")), put(P("x"), {4, 8})), "out_sharding", "contracting");
  EXPECT_ERROR(ShardingTypeError, take(by_rows, arange(4), 0), "out_sharding");
  EXPECT_ERROR(ValueError, repeat(by_rows, 2, 0), "repeat", "out_sharding");
  EXPECT_ERROR(ShardingTypeError, reshard(by_rows, P("x").unreduced("y")) + by_rows, "reshard");
}

TEST_F(ExplicitTypes, WhatIsAskedForIsTheResult) {
  TESSERA_SPEC("E19", "E63");
  const Array a = put(P(none, "x"));
  const Array b = put(P("x"), {4, 8});
  const Array plain = matmul(put(P()), put(P(), {4, 8}));
  for (const P& spec : {P("x", "y"), P(none, axes("x", "y")), P(none, none), P("y").reduced("x")}) {
    const Array c = matmul(a, b, {.out_sharding = spec});
    EXPECT_EQ(type_of(c), type_of(reshard(plain, spec)));
    EXPECT_EQ(c.to_vector<float>(), plain.to_vector<float>());
  }
  const Array flat = reshape(put(P("x", "y")), {4, 8}, {.out_sharding = P("y", "x")});
  EXPECT_EQ(type_of(flat).text(), "float32[4@y,8@x]");
  EXPECT_EQ(flat.to_vector<float>(), put(P()).to_vector<float>());
  EXPECT_EQ(type_of(sum(put(P("x", "y")), {.axis = 0, .out_sharding = P("x")})).text(), "float32[4@x]");
  EXPECT_ERROR(ValueError, max(a, {.out_sharding = P()}), "out_sharding");
}

TEST_F(ExplicitTypes, EveryFunctionPlacesItsResult) {
  TESSERA_SPEC("E63");
  const Array a = put(P("x"));
  const Array rows(HostArray::from(std::vector<std::int32_t>{0, 3, 5, 6}));
  const Array key = random::key(1);
  const P want(none, "y");
  const PlaceOptions o{.out_sharding = want};
  const IndexOptions at_rows{.out_sharding = want};
  const std::vector<std::pair<const char*, Array>> made = {
      {"zeros", zeros({8, 4}, o)},
      {"ones", ones({8, 4}, o)},
      {"full", full({8, 4}, 2.0, o)},
      {"empty", empty({8, 4}, o)},
      {"zeros_like", zeros_like(a, {.out_sharding = want})},
      {"ones_like", ones_like(a, {.out_sharding = want})},
      {"full_like", full_like(a, 2, {.out_sharding = want})},
      {"array", array({{1, 2}, {3, 4}}, o)},
      {"asarray", asarray(a, o)},
      {"broadcast_to", broadcast_to(put(P("x"), {4}), {8, 4}, o)},
      {"broadcast_in_dim", broadcast_in_dim(put(P("x"), {8}), {8, 4}, {0}, o)},
      {"broadcast", lax::broadcast(put(P("x"), {4}), {8}, o)},
      {"broadcasted_iota", lax::broadcasted_iota(int32, {8, 4}, 0, o)},
      {"repeat", repeat(a, 2, 0, o)},
      {"reshape", lax::reshape(a, {4, 8}, {.dimensions = {1, 0}, .out_sharding = want})},
      {"at.get", at(a, {rows}).get(at_rows)},
      {"at.set", at(a, {rows}).set(1, at_rows)},
      {"at.add", at(a, {rows}).add(1, at_rows)},
      {"at.subtract", at(a, {rows}).subtract(1, at_rows)},
      {"at.multiply", at(a, {rows}).multiply(2, at_rows)},
      {"at.divide", at(a, {rows}).divide(2, at_rows)},
      {"at.power", at(a, {rows}).power(2, at_rows)},
      {"at.min", at(a, {rows}).min(2, at_rows)},
      {"at.max", at(a, {rows}).max(2, at_rows)},
      {"dot", dot(a, put(P(), {4, 4}), {.out_sharding = want})},
      {"tensordot", tensordot(a, put(P(), {4, 4}), 1, {.out_sharding = want})},
      {"einsum", einsum("ij,jk->ik", {a, put(P(), {4, 4})}, {.out_sharding = want})},
      {"percentile", percentile(put(P("x", "y")), array({25.0, 50.0}), {.axis = Dims{1}}, o)},
      {"ragged_dot", lax::ragged_dot(a, put(P(), {2, 4, 4}), array({4, 4}), {.out_sharding = want})},
      {"ragged_dot_general",
       lax::ragged_dot_general(a, put(P(), {2, 4, 4}), array({4, 4}), {{{1}, {1}}, {0}, {0}}, {.out_sharding = want})},
      {"uniform", random::uniform(key, {8, 4}, o)},
      {"normal", random::normal(key, {8, 4}, o)},
      {"bits", random::bits(key, {8, 4}, o)},
      {"randint", random::randint(key, {8, 4}, 0, 9, int32, o)},
      {"bernoulli", random::bernoulli(key, 0.5, Shape{8, 4}, o)},
      {"gumbel", random::gumbel(key, {8, 4}, float32, o)},
      {"exponential", random::exponential(key, {8, 4}, float32, o)},
      {"permutation", random::permutation(key, a, 0, o)},
      {"gamma", random::gamma(key, 2.0, Shape{8, 4}, float32, o)},
      {"initializer", nn::initializers::he_normal()(key, {8, 4}, float32, o)},
      {"rng_bit_generator", lax::rng_bit_generator(array({1, 2, 3, 4}, uint32), {8, 4}, {.out_sharding = want}).second},
  };
  for (const auto& [name, x] : made) {
    EXPECT_EQ(type_of(x).spec, want) << name;
    EXPECT_TRUE(x.sharding()->is_equivalent_to(NamedSharding(m2, want), 2)) << name;
  }
  EXPECT_EQ(type_of(ravel(a, {.out_sharding = P("y")})).text(), "float32[32@y]");
  EXPECT_EQ(type_of(arange(8, {.out_sharding = P("y")})).text(), "int32[8@y]");
  EXPECT_EQ(type_of(arange(0.0, 8.0, 1.0, float32, {.out_sharding = P("y")})).text(), "float32[8@y]");
  EXPECT_EQ(type_of(random::categorical(key, a, -1, {}, {.out_sharding = P("y")})).text(), "int32[8@y]");
  EXPECT_EQ(type_of(lax::reduce_sum(a, {0}, {.out_sharding = P("y")})).text(), "float32[4@y]");
}

TEST_F(ExplicitTypes, PercentilesOverSplitDimensions) {
  const Array x = put(P("x", "y"));
  const Array q = array({25.0, 50.0});
  const QuantileOptions rows{.axis = Dims{1}};
  EXPECT_THROW(percentile(x, q, rows), ShardingTypeError);
  const Array want = percentile(put(P()), q, rows);
  const Array eager = percentile(x, q, rows, {.out_sharding = P(none, "x")});
  const Array traced = jit([&](const Array& v) { return percentile(v, q, rows, {.out_sharding = P(none, "x")}); })(x);
  for (const Array& got : {eager, traced}) {
    EXPECT_EQ(type_of(got).text(), "float32[2,8@x]");
    EXPECT_EQ(got.to_vector<float>(), want.to_vector<float>());
  }
}

TEST_F(ExplicitTypes, NumbersDoNotDependOnPlacement) {
  TESSERA_SPEC("E60", "E62");
  const Array key = random::key(3);
  const Array plain = random::normal(key, {8, 4});
  for (const P& spec : {P("x"), P("x", "y"), P(axes("y", "x"))}) {
    EXPECT_EQ(random::normal(key, {8, 4}, {.out_sharding = spec}).to_vector<float>(), plain.to_vector<float>());
  }
  EXPECT_EQ(type_of(plain).text(), "float32[8,4]");
  const Array open = ones({8, 4}, {.out_sharding = P("x").unreduced("y")});
  EXPECT_EQ(type_of(open).text(), "float32[8@x,4]{U:y}");
  EXPECT_EQ(reshard(open, P("x")).to_vector<float>(), std::vector<float>(32, 1.0F));
}

TEST_F(ExplicitTypes, Reshard) {
  TESSERA_SPEC("E64", "E65", "E78");
  const Array a = put(P("x"));
  for (const P& spec : {P("x", "y"), P(none, "x"), P(), P(none, axes("y", "x")), P("x").reduced("y")}) {
    const Array b = reshard(a, spec);
    EXPECT_EQ(type_of(b).text(), type_of(reshard(put(P()), spec)).text());
    EXPECT_EQ(b.to_vector<float>(), a.to_vector<float>());
  }
  const std::string traced = jit([](const Array& x) { return reshard(x, P(none, "y")); }).trace(a).text();
  EXPECT_NE(traced.find("f32[8,4@y]"), std::string::npos) << traced;
  EXPECT_ERROR(ValueError, reshard(a, P(unconstrained)), "UNCONSTRAINED");
  EXPECT_ERROR(ValueError, reshard(a, ShardingPtr()), "sharding is null");
  const Array g = grad([](const Array& x) { return sum(sin(reshard(x, P(none, "y")))); })(a);
  EXPECT_EQ(type_of(g).text(), "float32[8@x,4]");
  const auto both = reshard(std::pair{a, put(P())}, P("y"));
  EXPECT_EQ(type_of(both.first).text(), "float32[8@y,4]");
  EXPECT_EQ(type_of(both.second).text(), "float32[8@y,4]");
  const auto apart = reshard(std::pair{a, a}, {P("y"), P(none, "x")});
  EXPECT_EQ(type_of(apart.first).text(), "float32[8@y,4]");
  EXPECT_EQ(type_of(apart.second).text(), "float32[8,4@x]");
}

TEST_F(ExplicitTypes, ReadingUnreducedArrays) {
  TESSERA_SPEC("E75", "E76", "E85");
  const Array open = reshard(put(P("x")), P("x").unreduced("y"));
  EXPECT_ERROR(StateError, open.host(), "unreduced", "reshard");
  EXPECT_ERROR(StateError, open.to_vector<float>(), "unreduced", "reshard");
  EXPECT_ERROR(StateError, reshard(sum(put(P())), P().unreduced("x")).item<float>(), "unreduced", "reshard");
  EXPECT_NE(to_string(open).find("unreduced"), std::string::npos) << to_string(open);
  ASSERT_EQ(open.addressable_shards().size(), 4U);
  std::vector<float> total(32, 0.0F);
  for (const Shard& s : open.addressable_shards()) {
    EXPECT_EQ(s.value().shape(), (Shape{4, 4}));
    const auto block = s.value().to_vector<float>();
    const auto first = static_cast<std::size_t>(s.index()[0].resolve(8).first) * 4;
    for (std::size_t i = 0; i < block.size(); ++i) total[first + i] += block[i];
  }
  EXPECT_EQ(total, put(P()).to_vector<float>());
  const Array marked = reshard(put(P("x")), P("x").reduced("y"));
  EXPECT_EQ(marked.to_vector<float>(), put(P()).to_vector<float>());
}

TEST_F(ExplicitTypes, PlacementsGiveTraces) {
  TESSERA_SPEC("E98");
  const auto f = jit([](const Array& x) { return sin(x); });
  for (const P& spec : {P(), P("x"), P(none, "y"), P("x", "y")}) f(put(spec));
  EXPECT_EQ(f.stats().traces, 4);
  f(put(P("x")));
  f(put(P("x", none)));
  EXPECT_EQ(f.stats().traces, 4);
}

TEST_F(ExplicitTypes, ShardingsOfArgumentsAndResults) {
  TESSERA_SPEC("E99");
  const auto f = jit([](const Array& x) { return x; }, {.in_shardings = {P("x")}});
  EXPECT_EQ(type_of(f(put(P("x")))).text(), "float32[8@x,4]");
  EXPECT_ERROR(ValueError, f(put(P(none, "y"))), "in_shardings", "x", "y");
  EXPECT_EQ(type_of(f(Array(HostArray(float32, {8, 4})))).text(), "float32[8@x,4]");
  const auto g = jit([](const Array& x) { return sin(x); }, {.out_shardings = {P(none, "y")}});
  EXPECT_EQ(type_of(g(put(P("x")))).text(), "float32[8,4@y]");
  std::string nested;
  jit([&](const Array& x) {
    const Array y = g(x);
    nested = type_of(y).text();
    return y;
  })(put(P("x")));
  EXPECT_EQ(nested, "float32[8,4@y]");
}

TEST_F(ExplicitTypes, EagerOperationsDeriveTheSame) {
  TESSERA_SPEC("E100");
  const Array a = put(P("x"));
  EXPECT_EQ(type_of(a + put(P(none, "y"))).text(), "float32[8@x,4@y]");
  EXPECT_EQ(type_of(sum(a, 0)).text(), "float32[4]");
  auto refused = [](auto f, auto... in) {
    const std::string at_once = error_of<ShardingTypeError>([&] { f(in...); });
    const std::string traced = error_of<ShardingTypeError>([&] { jit(f)(in...); });
    EXPECT_EQ(at_once.substr(0, at_once.find('\n')), traced.substr(0, traced.find('\n')));
    EXPECT_NE(at_once, "no exception");
  };
  refused([](const Array& x, const Array& y) { return x + y; }, a, put(P("y")));
  refused([](const Array& x) { return sort(x, 0); }, a);
  refused([](const Array& x) { return cumsum(x, 0); }, a);
}

TEST(ExplicitTypesAlone, MeshesOfOperandsDecide) {
  TESSERA_SPEC("E101");
  EightDevices eight;
  const Mesh m2 = make_explicit_mesh({2, 2}, {"x", "y"});
  const NamedSharding rows(m2, P("x", none));
  const Array a = device_put(HostArray(float32, {8, 4}), rows.share());
  EXPECT_EQ(type_of(a + a).text(), "float32[8@x,4]");
  EXPECT_EQ(type_of(reshard(a, NamedSharding(m2, P(none, "y")).share())).text(), "float32[8,4@y]");
  EXPECT_ERROR(ValueError, reshard(a, P("y")), "reshard", "mesh");
  EXPECT_ERROR(ValueError, matmul(a, transpose(a), {.out_sharding = P("x")}), "matmul", "mesh");
  EXPECT_EQ(type_of(zeros({8, 4}, {.out_sharding = rows})).text(), "float32[8@x,4]");
}

TEST_F(ExplicitTypes, LoweredText) {
  TESSERA_SPEC("E102", "E103", "E104", "E106");
  auto text = [&](auto f, auto... in) { return jit(f).lower(in...).as_text({.shardy = true}); };
  const Array a = put(P("x"));
  const std::string same = text([](const Array& x) { return x; }, a);
  EXPECT_EQ(same.find("sharding_constraint"), std::string::npos);
  EXPECT_NE(same.find(R"(sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>)"), std::string::npos);
  EXPECT_NE(same.find(R"(sdy.mesh @mesh = <["x"=2, "y"=2]>)"), std::string::npos);
  const std::string one = text([](const Array& x) { return sin(x); }, a);
  EXPECT_NE(one.find(R"(<@mesh, [{"x"}, {}]> : tensor<8x4xf32>)"), std::string::npos);
  const std::string unsplit = text([](const Array& x) { return sin(x); }, put(P()));
  EXPECT_NE(unsplit.find(R"(<@mesh, [{}, {}]> : tensor<8x4xf32>)"), std::string::npos);
  EXPECT_NE(unsplit.find(R"(sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>)"), std::string::npos);
  const std::string moved = text([](const Array& x) { return reshard(x, P("x")); }, a);
  EXPECT_NE(moved.find("sharding_constraint %arg0"), std::string::npos);
  const std::string open = text([](const Array& x) { return reshard(x, P("x").unreduced("y")); }, a);
  EXPECT_NE(open.find(R"(<@mesh, [{"x"}, {}], unreduced={"y"}> : tensor<8x4xf32>)"), std::string::npos);
  EXPECT_NE(open.find(R"(#sdy.sharding<@mesh, [{"x"}, {}], unreduced={"y"}>)"), std::string::npos);
  const std::string marked = text([](const Array& x) { return reshard(x, P("x").reduced("y")); }, a);
  EXPECT_EQ(marked.find("reduced"), std::string::npos);
  const std::string map = text(shard_map([](const Array& x) { return psum(x, "x"); }, Infer, P()), a);
  EXPECT_NE(map.find("sdy.manual_computation"), std::string::npos);
  EXPECT_NE(map.find("manual_axes={\"x\""), std::string::npos);
}

TEST_F(ExplicitTypes, LoweredTextOverAutomaticAxes) {
  TESSERA_SPEC("E105", "E107");
  const Mesh mixed = make_mesh({2, 2}, {"x", "y"}, {.axis_types = {AxisType::Explicit, AxisType::Auto}});
  {
    const SetMesh inner(mixed);
    const Array a = device_put(HostArray(float32, {8, 4}), NamedSharding(mixed, P("x")).share());
    const std::string open = jit([](const Array& x) { return sin(x); }).lower(a).as_text({.shardy = true});
    EXPECT_NE(open.find(R"(<@mesh, [{"x", ?}, {?}]> : tensor<8x4xf32>)"), std::string::npos);
  }
  const Array b = put(P("x", "y"));
  auto inside = auto_axes([](const Array& x) { return sin(x); }, {.out_sharding = {P("x", "y")}});
  const std::string text = jit([&](const Array& x) { return inside(x); }).lower(b).as_text({.shardy = true});
  const std::string line = "sharding_constraint";
  std::size_t count = 0;
  for (std::size_t at = text.find(line); at != std::string::npos; at = text.find(line, at + 1)) ++count;
  EXPECT_EQ(count, 1U);
  const std::string loop = jit([](const Array& x) {
                             return fori_loop(
                                 0, 3, [](const Array&, const Array& c) { return c + c; }, x);
                           })
                               .lower(b)
                               .as_text({.shardy = true});
  EXPECT_NE(loop.find("stablehlo.while"), std::string::npos);
  EXPECT_NE(loop.find(R"(<@mesh, [{"x"}, {"y"}]> : tensor<8x4xf32>)"), std::string::npos);
}

}  // namespace
}  // namespace tessera::test
