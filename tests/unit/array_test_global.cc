// SPDX-License-Identifier: Apache-2.0
// GlobalArray, the older names over arrays (global_array.md G30-G71).
#include <gtest/gtest.h>

#include <algorithm>
#include <concepts>
#include <numeric>

#include "array/array_impl.h"
#include "array/array_stats.h"
#include "array/global_build.h"
#include "runtime/engine.h"
#include "support/golden_rows.h"
#include "support/meshes.h"
#include "support/spec_report.h"
#include "tessera/tessera.h"

namespace tessera::test {
namespace {

using Ints = std::vector<std::int32_t>;

HostArray iota(const Shape& shape) {
  Ints v(static_cast<std::size_t>(size_of(shape)));
  std::iota(v.begin(), v.end(), 0);
  return HostArray::from(v, shape);
}
Ints values(const Array& a) { return a.to_vector<std::int32_t>(); }
// "0[0:2,:].0", as the golden table writes a shard.
std::string cell(const Device& device, const Index& index, int replica) {
  std::string out = std::to_string(device.id()) + "[";
  for (std::size_t d = 0; d < index.size(); ++d) {
    if (d > 0) out += ",";
    out += index[d].is_full() ? ":" : std::to_string(*index[d].start) + ":" + std::to_string(*index[d].stop);
  }
  return out + "]." + std::to_string(replica);
}
std::string cells(std::span<const Shard> shards) {
  std::string out;
  for (const auto& s : shards) out += (out.empty() ? "" : " ") + cell(s.device(), s.index(), s.replica_id());
  return out;
}

class GlobalArrayTest : public ::testing::Test, protected EightDevices {
 protected:
  Mesh mesh_named(char name) const { return name == 'A' ? A() : name == 'B' ? B() : name == 'C' ? C() : D(); }
  // One buffer a device, in the order of the mesh.
  std::vector<Array> buffers(const Mesh& m, const P& spec, const HostArray& value) const {
    NamedSharding s(m, spec);
    auto map = s.devices_indices_map(value.shape());
    std::vector<Array> out;
    for (const auto& device : m.local_devices()) out.push_back(device_put(value.slice(map.at(device)), device));
    return out;
  }
  GlobalArray make(const Mesh& m, const P& spec, const HostArray& value) const {
    return GlobalArray::from_callback(value.shape(), m, spec, [&](const Index& i) { return value.slice(i); });
  }
  HostArray X = iota({8, 2});
};

TEST_F(GlobalArrayTest, GoldenRowsOnBuiltArrays) {
  TESSERA_SPEC("A5");
  for (const auto& row : golden_rows()) {
    HostArray value = iota(row.shape);
    Mesh m = mesh_named(row.mesh);
    GlobalArray g = make(m, row.spec, value);
    EXPECT_EQ(cells(g.local_shards()), row.places) << row.name;
    EXPECT_TRUE(identical(g.array().host(), value)) << row.name;
    Array modern =
        make_array_from_callback(row.shape, NamedSharding(m, row.spec), [&](const Index& i) { return value.slice(i); });
    EXPECT_EQ(cells(modern.addressable_shards()), row.places) << row.name;
    EXPECT_TRUE(*modern.sharding() == *g.sharding());
    for (std::size_t i = 0; i < 8; ++i) {
      EXPECT_EQ(g.local_data(i).shape(), row.shard) << row.name;
      EXPECT_TRUE(identical(g.local_data(i).host(), modern.addressable_shards()[i].value().host())) << row.name;
    }
  }
}

TEST_F(GlobalArrayTest, FromBuffers) {
  TESSERA_SPEC("G34", "G35", "G30");
  auto parts = buffers(A(), P("x", "y"), X);
  GlobalArray g({8, 2}, A(), P("x", "y"), parts);
  EXPECT_TRUE(identical(g.array().host(), X));
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(g.local_data(i).host().data(), parts[i].host().data());
  GlobalArray permuted({8, 2}, D(), P("x", "y"), buffers(D(), P("x", "y"), X));
  std::vector<std::int64_t> order;
  for (const auto& s : permuted.local_shards()) order.push_back(s.device().id());
  EXPECT_EQ(order, (std::vector<std::int64_t>{3, 1, 0, 2, 7, 6, 5, 4}));
  EXPECT_TRUE(identical(permuted.array().host(), X));
  const Shard& third = g.local_shards().at(3);
  EXPECT_EQ(cell(third.device(), third.index(), third.replica_id()), "3[2:4,1:2].0");
  EXPECT_EQ(values(*third.data()), (Ints{5, 7}));
  static_assert(!std::is_assignable_v<decltype(third.device()), Device>);
  static_assert(!std::is_assignable_v<decltype(third.data()), std::optional<Array>>);
  EXPECT_THROW(GlobalArray({8, 2}, A(), P("q"), parts), ValueError);
  EXPECT_THROW(GlobalArray({7, 2}, A(), P("x"), parts), IndivisibleError);
}

TEST_F(GlobalArrayTest, BadBuffers) {
  TESSERA_SPEC("G36", "G37", "G38", "G39");
  P spec("x", "y");
  auto parts = buffers(A(), spec, X);
  EXPECT_ERROR(DeviceMismatchError, GlobalArray({8, 2}, D(), spec, parts), "[0]", "device 0", "expected device 3",
               "local_devices");
  std::vector<Array> seven(parts.begin(), parts.end() - 1);
  EXPECT_ERROR(ValueError, GlobalArray({8, 2}, A(), spec, seven),
               "device_buffers has 7 elements; expected 8 (local devices of global_mesh)");
  auto long_one = parts;
  long_one[7] = device_put(iota({4, 2}), d(7));
  EXPECT_ERROR(ValueError, GlobalArray({8, 2}, A(), spec, long_one), "expected (2, 1)",
               "(2, 1), (2, 1), (2, 1), (2, 1), (2, 1), (2, 1), (2, 1), (4, 2)");
  auto mixed = parts;
  mixed[4] = device_put(HostArray::from(std::vector<float>{1, 2}, {2, 1}), d(4));
  EXPECT_ERROR(ValueError, GlobalArray({8, 2}, A(), spec, mixed), "int32", "float32");
}

TEST_F(GlobalArrayTest, TrustedCallersSkipChecks) {
  TESSERA_SPEC("G41");
  auto f = jit([](Array v) { return v * 2; });
  GlobalArray g = make(A(), P("x", "y"), X);
  auto before = array_stats().validations;
  f(g.array()).block_until_ready();
  EXPECT_EQ(array_stats().validations, before);
  NamedSharding s(A(), P("x", "y"));
  Mesh mesh = A();
  arrays::FastPath path{arrays::look_up(s.share(), {8, 2}), mesh.local_devices()};
  auto parts = buffers(A(), P("x", "y"), X);
  arrays::build_global(arrays::unchecked, {8, 2}, s, path, parts, std::nullopt);
  EXPECT_EQ(array_stats().validations, before);
  set_enable_checks(true);
  f(g.array()).block_until_ready();
  EXPECT_EQ(array_stats().validations, before + 1);
  std::swap(parts[0], parts[1]);
  EXPECT_THROW(arrays::build_global(arrays::unchecked, {8, 2}, s, path, parts, std::nullopt), DeviceMismatchError);
  set_enable_checks(false);
}

TEST_F(GlobalArrayTest, OnePlaceLookUp) {
  TESSERA_SPEC("G42", "G50");
  auto before = array_stats();
  GlobalArray g = make(A(), P("x", "y"), X);
  EXPECT_EQ(array_stats().place_lookups, before.place_lookups + 1);
  EXPECT_EQ(array_stats().shards_made, before.shards_made);
  EXPECT_EQ(g.global_shards().size(), 8U);
  EXPECT_EQ(array_stats().shards_made, before.shards_made + 8);
  g.global_shards();
  g.local_shards();
  EXPECT_EQ(array_stats().shards_made, before.shards_made + 8);
  EXPECT_EQ(array_stats().place_lookups, before.place_lookups + 1);
}

TEST_F(GlobalArrayTest, Attributes) {
  TESSERA_SPEC("G44", "G45", "G46", "G51", "G52");
  GlobalArray g = make(A(), P("x", "y"), X);
  EXPECT_EQ(g.shape(), (Shape{8, 2}));
  EXPECT_EQ(g.dtype(), int32);
  EXPECT_EQ(g.ndim(), 2);
  EXPECT_EQ(g.size(), 16);
  EXPECT_EQ(make(A(), P(), iota({})).size(), 1);
  EXPECT_EQ(make(A(), P(), iota({})).ndim(), 0);
  EXPECT_EQ(make(A(), P("x"), iota({0, 2})).size(), 0);
  EXPECT_EQ(g.mesh().identity(), A().identity());
  EXPECT_TRUE(g.mesh_axes() == P("x", "y"));
  EXPECT_TRUE(make(A(), P(), X).is_fully_replicated());
  EXPECT_TRUE(make(A(), P(), iota({})).is_fully_replicated());
  EXPECT_TRUE(make(C(), P("y"), X).is_fully_replicated());
  GlobalArray nothing = make(A(), P("x"), iota({0, 2}));
  EXPECT_TRUE(nothing.is_fully_replicated());
  EXPECT_FALSE(nothing.array().is_fully_replicated());
  EXPECT_FALSE(make(A(), P("x"), X).is_fully_replicated());
  EXPECT_EQ(values(g.local_data(0U)), (Ints{0, 2}));
  EXPECT_ERROR(IndexError, g.local_data(8U), "local_data: index = 8; expected 0..7");
  static_assert(!std::invocable<decltype([](auto i) -> decltype(std::declval<GlobalArray>().local_data(i)) {
                                  return std::declval<GlobalArray>().local_data(i);
                                }),
                                int>);
  EXPECT_EQ(&g.block_until_ready(), &g);
  EXPECT_EQ(&g.block_until_ready(), &g);
  Array freed = make(A(), P("x"), X);
  GlobalArray handle = freed;
  freed.delete_();
  EXPECT_THROW(handle.block_until_ready(), StateError);
}

TEST_F(GlobalArrayTest, EqualityIsRefused) {
  TESSERA_SPEC("G53");
  static_assert(!std::equality_comparable<GlobalArray>);
  static_assert(!std::is_default_constructible_v<std::hash<GlobalArray>>);
  GlobalArray g = make(A(), P("x", "y"), X);
  EXPECT_ERROR(StateError, equal(AnyValue(g), AnyValue(g)), "shards", "elementwise");
  EXPECT_TRUE(equal(AnyValue(X), AnyValue(X)));
  EXPECT_FALSE(equal(AnyValue(X), AnyValue(Shape{8, 2})));
  Array same = jit([](Array a, Array b) { return a == b; })(g.array(), g.array());
  auto all = same.to_vector<bool>();
  EXPECT_EQ(std::count(all.begin(), all.end(), true), 16);
}

TEST_F(GlobalArrayTest, Texts) {
  TESSERA_SPEC("G54", "G55");
  GlobalArray g = make(A(), P("x", "y"), X);
  EXPECT_EQ(to_string(g), "GlobalArray(shape=(8, 2), dtype=int32)");
  EXPECT_EQ(repr(g),
            "GlobalArray(shape=(8, 2), dtype=int32, global_mesh_shape={'x': 4, 'y': 2}, "
            "mesh_axes=PartitionSpec('x', 'y'))");
}

TEST_F(GlobalArrayTest, FromCallback) {
  TESSERA_SPEC("G56", "G57", "G59", "G4");
  std::vector<Index> calls;
  auto record = [&](const Shape& shape, const P& spec) {
    calls.clear();
    HostArray value = iota(shape);
    return GlobalArray::from_callback(shape, A(), spec, [&](const Index& i) {
      calls.push_back(i);
      return value.slice(i);
    });
  };
  GlobalArray g = record({8, 2}, P("x", "y"));
  ASSERT_EQ(calls.size(), 8U);
  auto map = get_shard_indices({8, 2}, A(), P("x", "y"));
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(calls[i], map.index(i));
  EXPECT_EQ(values(g.local_data(0U)), (Ints{0, 2}));
  EXPECT_EQ(g.local_data(0U).shape(), (Shape{2, 1}));
  record({8, 2}, P("x"));
  ASSERT_EQ(calls.size(), 8U);
  for (std::size_t i = 0; i < 8; i += 2) EXPECT_EQ(calls[i], calls[i + 1]);
  EXPECT_NE(calls[0], calls[2]);
  record({8, 2}, P());
  EXPECT_EQ(calls.size(), 8U);
  record({0, 2}, P("x"));
  EXPECT_EQ(calls.size(), 8U);

  HostArray numbers = iota({8, 8});
  GlobalArray documented =
      GlobalArray::from_callback({8, 8}, A24(), P("x", "y"), [&](const Index& i) { return numbers.slice(i); });
  EXPECT_EQ(documented.local_data(0U).shape(), (Shape{4, 2}));
  EXPECT_EQ(values(documented.local_data(5U)), (Ints{34, 35, 42, 43, 50, 51, 58, 59}));

  auto bad_shape = [&](const Index& i) { return i[1].start == 0 ? X.slice(i) : X; };
  EXPECT_ERROR(ValueError, GlobalArray::from_callback({8, 2}, A(), P("x", "y"), bad_shape), "(2, 1)", "(8, 2)", "id=1");
  auto bad_dtype = [&](const Index& i) { return i[0].start == 6 ? X.slice(i).astype(float32) : X.slice(i); };
  EXPECT_ERROR(ValueError, GlobalArray::from_callback({8, 2}, A(), P("x", "y"), bad_dtype), "int32", "float32", "id=6");

  // Strided views, numbers and arrays on devices are data too.
  GlobalArray views = GlobalArray::from_callback({8, 2}, A(), P("x", "y"), [&](const Index& i) {
    auto first = static_cast<std::size_t>(*i[0].start * 2 + *i[1].start);
    return HostArrayView{int32, {2, 1}, {8, 4}, X.span<std::int32_t>().data() + first};
  });
  EXPECT_EQ(values(views.local_data(0U)), (Ints{0, 2}));
  EXPECT_TRUE(identical(views.array().host(), X));
  EXPECT_EQ(GlobalArray::from_callback({}, A(), P(), [](const Index&) { return 7; }).array().item<std::int32_t>(), 7);
  EXPECT_EQ(
      values(GlobalArray::from_callback({2}, A(), P(), [&](const Index&) { return device_put(iota({2}), d(3)); })),
      (Ints{0, 1}));
}

TEST_F(GlobalArrayTest, FromBatchedCallback) {
  TESSERA_SPEC("G60");
  int calls = 0;
  std::vector<Index> seen;
  auto data = [&](std::span<const Index> indices) {
    ++calls;
    seen.assign(indices.begin(), indices.end());
    std::vector<HostArray> out;
    for (const auto& i : indices) out.push_back(X.slice(i));
    return out;
  };
  GlobalArray g = GlobalArray::from_batched_callback({8, 2}, A(), P("x"), data);
  EXPECT_EQ(calls, 1);
  ASSERT_EQ(seen.size(), 8U);
  for (std::size_t i = 0; i < 8; i += 2) EXPECT_EQ(seen[i], seen[i + 1]);
  EXPECT_EQ(g.local_data(0U).shape(), (Shape{2, 2}));
  EXPECT_TRUE(identical(g.array().host(), X));
  auto short_list = [&](std::span<const Index> indices) { return data(indices.subspan(1)); };
  EXPECT_ERROR(ValueError, GlobalArray::from_batched_callback({8, 2}, A(), P("x"), short_list),
               "data_callback returned 7 arrays; expected 8");
}

TEST_F(GlobalArrayTest, FromGroupsOfDevices) {
  TESSERA_SPEC("G61", "G62");
  std::vector<std::vector<std::int64_t>> groups;
  auto data = [&](std::span<const IndexedDevices> list) {
    groups.clear();
    std::vector<Array> out;
    for (const auto& g : list) {
      groups.emplace_back();
      for (const auto& device : g.devices) {
        groups.back().push_back(device.id());
        out.push_back(device_put(X.slice(g.index), device));
      }
    }
    return out;
  };
  using Groups = std::vector<std::vector<std::int64_t>>;
  auto build = [&](const P& spec) {
    GlobalArray g = GlobalArray::from_batched_callback_with_devices({8, 2}, A(), spec, data);
    EXPECT_TRUE(identical(g.array().host(), X));
    return g;
  };
  EXPECT_EQ(build(P(axes("x", "y"))).local_data(0U).shape(), (Shape{1, 2}));
  EXPECT_EQ(groups.size(), 8U);
  build(P("x"));
  EXPECT_EQ(groups, (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  build(P());
  EXPECT_EQ(groups, (Groups{{0, 1, 2, 3, 4, 5, 6, 7}}));
  build(P("y"));
  EXPECT_EQ(groups, (Groups{{0, 2, 4, 6}, {1, 3, 5, 7}}));
  X = iota({8, 4});
  GlobalArray g = GlobalArray::from_batched_callback_with_devices({8, 4}, B(), P("z", "x"), data);
  EXPECT_EQ(groups, (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_TRUE(identical(g.array().host(), X));

  auto from = [&](std::vector<Array> arrays) {
    GlobalArray::from_batched_callback_with_devices({8, 4}, A(), P(),
                                                    [&](std::span<const IndexedDevices>) { return arrays; });
  };
  EXPECT_ERROR(DeviceMismatchError, from({device_put(X, NamedSharding(A(), P()))}), "8 devices");
  Client other = Client::cpu({.devices = 1});
  EXPECT_ERROR(DeviceMismatchError, from({device_put(X, other.device(0))}), "no local device");
  EXPECT_ERROR(DeviceMismatchError, from({device_put(X, d(2)), device_put(X, d(2))}), "device 2");
  EXPECT_ERROR(DeviceMismatchError, from({device_put(X, d(2))}), "0, 1, 3, 4, 5, 6, 7");
}

TEST_F(GlobalArrayTest, CallbackFailuresPassThrough) {
  TESSERA_SPEC("G64");
  struct Failure : std::exception {};
  auto& memory = *runtime::runtime_of(client).memory;
  auto live = memory.stats().live_buffers;
  auto arrays = live_arrays().size();
  int calls = 0;
  EXPECT_THROW(GlobalArray::from_callback({8, 2}, A(), P("x", "y"),
                                          [&](const Index& i) {
                                            if (++calls == 3) throw Failure();
                                            return X.slice(i);
                                          }),
               Failure);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(memory.stats().live_buffers, live);
  EXPECT_EQ(live_arrays().size(), arrays);
}

TEST_F(GlobalArrayTest, InPrograms) {
  TESSERA_SPEC("G66", "G67", "G68", "G69", "G70", "G71", "G28");
  GlobalArray g = make(A(), P("x", "y"), X);
  EXPECT_EQ(to_string(abstract_value(g)), "ShapedArray((8, 2), int32)");
  EXPECT_EQ(to_string(abstract_value(g.local_data(0U))), "ShapedArray((2, 1), int32)");
  EXPECT_EQ(&canonicalize(g), &g);

  ShardingPtr spec = NamedSharding(A(), P("x", "y")).share();
  auto identity = jit([](GlobalArray v) { return v; });
  auto moved = transfer_stats();
  GlobalArray same = identity(g);
  same.block_until_ready();
  EXPECT_EQ(transfer_stats().bytes, moved.bytes);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(same.local_data(i).host().data(), g.local_data(i).host().data());
  EXPECT_THROW(jit([](Array v) { return v; }, {.in_shardings = {NamedSharding(A(), P("x")).share()}})(g.array()),
               ValueError);

  auto gram = jit([](Array x) { return matmul(x, transpose(x)); }, {.in_shardings = {spec}, .out_shardings = {spec}});
  auto lookups = array_stats().place_lookups;
  GlobalArray out;
  for (int i = 0; i < 3; ++i) out = gram(g.array());
  EXPECT_EQ(array_stats().place_lookups, lookups + 1);
  EXPECT_EQ(out.shape(), (Shape{8, 8}));
  EXPECT_TRUE(out.mesh() == A());
  EXPECT_TRUE(out.mesh_axes() == P("x", "y"));
  EXPECT_EQ(values(out.local_data(0U)), (Ints{1, 3, 5, 7, 3, 13, 23, 33}));
  EXPECT_EQ(values(out.local_data(7U)), (Ints{213, 263, 313, 363, 247, 305, 363, 421}));
  moved = transfer_stats();
  identity(out).block_until_ready();
  EXPECT_EQ(transfer_stats().bytes, moved.bytes);

  // dtype plays no part in where shards lie.
  HostArray tall = iota({16, 2});
  GlobalArray bytes = make(A(), P("x", "y"), tall.astype(int8));
  auto entries = cache_stats(CacheId::Placement).entries;
  GlobalArray doubles = make(A(), P("x", "y"), tall.astype(float64));
  EXPECT_EQ(cache_stats(CacheId::Placement).entries, entries);
  EXPECT_EQ(cells(bytes.local_shards()), cells(doubles.local_shards()));
}

}  // namespace
}  // namespace tessera::test
