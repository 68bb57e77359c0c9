// SPDX-License-Identifier: Apache-2.0
// Computation follows sharding (array_and_sharding.md A47-A61, A63, A77; mesh.md M35, M42-M44, M59-M63, M66-M70, M78).
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "support/meshes.h"
#include "support/spec_report.h"
#include "tessera/tessera.h"

namespace tessera::test {
namespace {

using Ints = std::vector<std::int32_t>;
using Floats = std::vector<float>;

HostArray iota(const Shape& shape) {
  Ints v(static_cast<std::size_t>(size_of(shape)));
  std::iota(v.begin(), v.end(), 0);
  return HostArray::from(v, shape);
}
Ints values(const Array& a) { return a.to_vector<std::int32_t>(); }
std::vector<std::int64_t> ids(const Array& a) {
  std::vector<std::int64_t> out;
  for (const auto& d : a.devices()) out.push_back(d.id());
  return out;
}

class FollowTest : public ::testing::Test, protected EightDevices {
 protected:
  Array put(const HostArray& v, const Mesh& m, const P& spec) const { return device_put(v, NamedSharding(m, spec)); }
  ShardingPtr on(const Mesh& m, const P& spec) const { return NamedSharding(m, spec).share(); }
  Mesh line(std::initializer_list<std::int64_t> ids, const char* name = "x") const {
    return Mesh(DeviceArray(list(ids)), name);
  }
  // The T of the specification: a 2x4 block transposed.
  Mesh T() const { return Mesh(DeviceArray(list({0, 4, 1, 5, 2, 6, 3, 7}), {4, 2}), {"x", "y"}); }
  Ints shard(const Array& a, std::size_t i) const { return values(a.addressable_shards()[i].value()); }
  // Value and placement of a result.
  void is(const Array& got, const Ints& value, const P& spec, const char* what) const {
    EXPECT_EQ(values(got), value) << what;
    EXPECT_TRUE(got.sharding()->is_equivalent_to(NamedSharding(A(), spec), got.ndim()))
        << what << ": " << got.sharding()->text();
  }

  HostArray X = iota({8, 2});
  HostArray v8 = iota({8});
  Array a = put(X, A(), P("x", "y"));
  Array b = put(X, A(), P("x"));
};

TEST_F(FollowTest, JitWorksInPlace) {
  TESSERA_SPEC("A47", "A48");
  Array v = put(v8, A(), P("x"));
  auto twice = jit([](Array z) { return z * 2; });
  auto before = transfer_stats();
  Array y = twice(v);
  y.block_until_ready();
  EXPECT_EQ(transfer_stats().bytes, before.bytes);
  for (std::size_t i = 0; i < 8; ++i) {
    auto k = static_cast<std::int32_t>(i / 2 * 4);
    EXPECT_EQ(shard(y, i), (Ints{k, k + 2}));
  }
  EXPECT_TRUE(*y.sharding() == *v.sharding());
  EXPECT_EQ(values(pjit([](Array z) { return z * 2; })(v)), values(y));
  EXPECT_TRUE(*(a + 1).sharding() == *a.sharding());
}

TEST_F(FollowTest, DocumentedExample) {
  TESSERA_SPEC("A49");
  Array v = put(v8, A(), P("x"));
  Array s = sin(v);
  EXPECT_EQ(s.dtype(), float32);
  EXPECT_TRUE(*s.sharding() == *v.sharding());
  Floats wanted{0, 0.84147096F, 0.90929741F, 0.14112F, -0.7568025F, -0.9589243F, -0.2794155F, 0.6569866F};
  Floats got = s.to_vector<float>();
  for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(got[i], wanted[i], 1e-6);
  Array c = copy(v);
  EXPECT_TRUE(*c.sharding() == *v.sharding());
  for (std::int64_t i = 0; i < 8; ++i)
    EXPECT_NE(c.addressable_data(i).host().data(), v.addressable_data(i).host().data());
  Array product = matmul(v, transpose(v));
  EXPECT_EQ(product.item<std::int32_t>(), 140);
  EXPECT_EQ(product.ndim(), 0);
  EXPECT_TRUE(product.is_fully_replicated());
  EXPECT_EQ(product.devices().size(), 8U);
}

TEST_F(FollowTest, PlacementByOperation) {
  TESSERA_SPEC("A51");
  Ints x = values(a);
  auto each = [&](auto f) {
    Ints out;
    for (auto v : x) out.push_back(f(v));
    return out;
  };
  is(-a, each([](int v) { return -v; }), P("x", "y"), "unary");
  is(a + 3, each([](int v) { return v + 3; }), P("x", "y"), "plus a scalar");
  is(astype(a > 4, int32), each([](int v) { return v > 4 ? 1 : 0; }), P("x", "y"), "compare and cast");
  is(where(a > 4, a, 0), each([](int v) { return v > 4 ? v : 0; }), P("x", "y"), "where");
  is(zeros_like(a), Ints(16, 0), P("x", "y"), "zeros_like");
  is(a + b, each([](int v) { return 2 * v; }), P("x", "y"), "a + b");
  is(sum(a, 0), {56, 64}, P("y"), "sum(0)");
  is(sum(a, 1), {1, 5, 9, 13, 17, 21, 25, 29}, P("x"), "sum(1)");
  is(sum(a), {120}, P(), "sum");
  is(matmul(transpose(a), a), {560, 616, 616, 680}, P("y"), "transpose(a) @ a");
  Array gram = matmul(a, transpose(a));
  is(squeeze(lax::slice(gram, {1, 0}, {2, 8}), Dims{0}), {3, 13, 23, 33, 43, 53, 63, 73}, P(),
     "row 1 of a @ transpose(a)");
  EXPECT_TRUE(*gram.sharding() == NamedSharding(A(), P("x"))) << gram.sharding()->text();
  EXPECT_TRUE(*transpose(a).sharding() == NamedSharding(A(), P("y", "x")));
  is(squeeze(lax::slice(a, {0, 0}, {1, 2}), Dims{0}), {0, 1}, P("y"), "row 0");
  is(lax::slice(a, {2, 0}, {4, 2}), {4, 5, 6, 7}, P(none, "y"), "rows 2..3");
  Array v = put(v8, A(), P("x"));
  is(reshape(v, {4, 2}), values(v), P("x"), "to (4,2)");
  EXPECT_EQ(values(reshape(v, {2, 4})), values(v));
}

TEST_F(FollowTest, ChosenOutputs) {
  TESSERA_SPEC("A52");
  auto plus = [](Array v) { return v + 1; };
  Array r = jit(plus, {.out_shardings = {on(A(), P())}})(device_put(X));
  EXPECT_TRUE(r.committed());
  EXPECT_EQ(r.devices().size(), 8U);
  EXPECT_TRUE(r.is_fully_replicated());
  auto two = [](Array u, Array h) { return std::pair{u * 2, h + 1}; };
  auto [y, z] = jit(two, {.out_shardings = {on(A(), P("x", "y")), nullptr}})(a, device_put(v8));
  is(y, values(a * 2), P("x", "y"), "first");
  is(z, {1, 2, 3, 4, 5, 6, 7, 8}, P(), "second");
  EXPECT_ERROR(ValueError, jit(plus, {.out_shardings = {on(A(), P("x", "y"))}})(device_put(v8)), "out_shardings[0]");
  EXPECT_THROW(jit(plus, {.out_shardings = {on(A(), P("x"))}})(device_put(iota({7}))), IndivisibleError);
  EXPECT_ERROR(ValueError, jit(two, {.out_shardings = {nullptr, nullptr, nullptr}})(a, a), "3", "2");
}

TEST_F(FollowTest, DataParallelism) {
  TESSERA_SPEC("A53");
  Array batch = put(X.astype(float32), A(), P("x"));
  Array w = put(HostArray::from(Floats{0, 1, 2, 3}, {2, 2}), A(), P());
  Array y = jit([](Array u, Array v) { return maximum(matmul(u, v), 0); })(batch, w);
  EXPECT_TRUE(*y.sharding() == NamedSharding(A(), P("x"))) << y.sharding()->text();
  EXPECT_EQ(y.addressable_data(0).shape(), (Shape{2, 2}));
  Floats all = y.to_vector<float>();
  EXPECT_EQ(all[14], 30);
  EXPECT_EQ(all[15], 59);
  auto loss = [](Array v, Array u) {
    Array p = matmul(u, v);
    return mean(p * p);
  };
  Array g = jit(grad(loss))(w, batch);
  EXPECT_EQ(g.to_vector<float>(), (Floats{154, 301, 170, 332}));
  EXPECT_TRUE(g.is_fully_replicated());
}

TEST_F(FollowTest, AnyDeviceOrder) {
  TESSERA_SPEC("A54");
  Array t = put(X, T(), P("x", "y"));
  std::vector<std::int64_t> order{0, 4, 1, 5, 2, 6, 3, 7};
  Array twice = jit([](Array v) { return v * 2; })(t);
  EXPECT_TRUE(*twice.sharding() == *t.sharding());
  for (std::size_t i = 0; i < 8; ++i) {
    auto first = static_cast<std::int32_t>(i / 2 * 4 + i % 2);
    EXPECT_EQ(t.addressable_shards()[i].device().id(), order[i]);
    EXPECT_EQ(shard(t, i), (Ints{first, first + 2}));
    EXPECT_EQ(shard(twice, i), (Ints{2 * first, 2 * first + 4}));
  }
}

TEST_F(FollowTest, OneDeviceList) {
  TESSERA_SPEC("A55", "M67");
  auto plus = jit([](Array u, Array v) { return u + v; });
  auto text = error_of<DeviceMismatchError>([&] { plus(device_put(X, d(0)), device_put(X, d(3))); });
  EXPECT_TRUE(has(text, {"argument 0", "argument 1", "int32[8,2]", "[0]", "[3]"})) << text;
  EXPECT_THROW(a + device_put(X, d(3)), DeviceMismatchError);
  EXPECT_THROW(plus(a, device_put(X, d(0))), DeviceMismatchError);
  EXPECT_THROW(plus(a, put(X, line({0, 1, 2, 3}), P("x"))), DeviceMismatchError);
  Mesh reversed(DeviceArray(list({7, 6, 5, 4, 3, 2, 1, 0}), {4, 2}), {"x", "y"});
  EXPECT_THROW(plus(a, put(X, reversed, P("x", "y"))), DeviceMismatchError);
  EXPECT_THROW(plus(a, put(X, T(), P("x", "y"))), DeviceMismatchError);
  EXPECT_THROW(jit([](Array v) { return v; }, {.out_shardings = {on(T(), P("x"))}})(a), DeviceMismatchError);
  EXPECT_EQ(values(plus(a, put(X, B(), P("x", "y")))), values(a * 2));

  Array m1 = put(v8, line({0, 1}), P("x"));
  Array m1r = put(v8, line({1, 0}), P("x"));
  EXPECT_ERROR(DeviceMismatchError, plus(m1, m1r), "[0, 1]", "[1, 0]");
  ShardingPtr c = on(line({1, 0}), P("x"));
  EXPECT_ERROR(DeviceMismatchError, jit([&](Array v) { return with_sharding_constraint(v, c); })(m1), "[0, 1]",
               "[1, 0]");
}

TEST_F(FollowTest, RepeatedCallsDoNothingTwice) {
  TESSERA_SPEC("A56", "A57", "M62");
  int runs = 0;
  auto f = jit([&](Array v) {
    ++runs;
    return v * 2;
  });
  Mesh m1 = line({0, 1});
  struct Step {
    Mesh mesh;
    P spec;
    CompileStats most;  // upper bounds: doing less is no mistake
  };
  std::vector<Step> steps{{m1, P("x"), {1, 1, 1}},
                          {line({2, 3}), P("x"), {0, 0, 1}},
                          {m1, P(), {0, 1, 1}},
                          {line({0, 1}, "q"), P("q"), {1, 1, 1}},
                          {line({0, 1, 2, 3}), P("x"), {1, 1, 1}},
                          {m1, P("x"), {0, 0, 0}},
                          {line({1, 0}), P("x"), {0, 0, 1}}};
  for (std::size_t i = 0; i < steps.size(); ++i) {
    CompileStats before = f.stats();
    EXPECT_EQ(values(f(put(v8, steps[i].mesh, steps[i].spec))), (Ints{0, 2, 4, 6, 8, 10, 12, 14}));
    CompileStats after = f.stats();
    EXPECT_LE(after.traces - before.traces, steps[i].most.traces) << i;
    EXPECT_LE(after.lowerings - before.lowerings, steps[i].most.lowerings) << i;
    EXPECT_LE(after.compiles - before.compiles, steps[i].most.compiles) << i;
  }
  int before = runs;
  f(put(iota({4, 2}), m1, P("x")));
  EXPECT_EQ(runs, before + 1);
}

TEST_F(FollowTest, CommittedAndNot) {
  TESSERA_SPEC("A58");
  Array u = device_put(X);
  EXPECT_TRUE(*(a + u).sharding() == *a.sharding());
  EXPECT_TRUE(*(a + Array(X)).sharding() == *a.sharding());
  Array free = u + u;
  EXPECT_EQ(ids(free), (std::vector<std::int64_t>{0}));
  EXPECT_FALSE(free.committed());
  Array at3 = device_put(X, d(3));
  for (const Array& r : {at3 + u, at3 + Array(X)}) {
    EXPECT_EQ(ids(r), (std::vector<std::int64_t>{3}));
    EXPECT_TRUE(r.committed());
  }
}

TEST_F(FollowTest, GivenInputs) {
  TESSERA_SPEC("A59", "A60", "A61", "M81");
  auto twice = [](Array v) { return v * 2; };
  auto f = jit(twice, {.in_shardings = {on(A(), P("x", "y"))}});
  for (const Array& v : {a, Array(X), device_put(X)}) is(f(v), values(a * 2), P("x", "y"), "accepted");
  auto text = error_of<ValueError>([&] { f(b); });
  EXPECT_TRUE(has(text, {"argument 0", "P('x', 'y')", "P('x',)", "int32[8,2]"})) << text;
  EXPECT_THROW(f(device_put(X, d(3))), ValueError);
  auto rows = jit(twice, {.in_shardings = {on(A(), P("x"))}});
  EXPECT_EQ(values(rows(put(X, A(), P("x", none)))), values(a * 2));
  EXPECT_EQ(values(rows(put(X, B(), P(axes("x", "y"))))), values(a * 2));
  EXPECT_ERROR(ValueError, jit(twice, {.in_shardings = {on(A(), P()), on(A(), P())}})(a), "2", "1");

  auto plain = jit(twice);
  is(plain(b), values(a * 2), P("x"), "as it lies");
  EXPECT_EQ(ids(plain(device_put(X, d(3)))), (std::vector<std::int64_t>{3}));
  Array host = plain(device_put(X));
  EXPECT_EQ(ids(host), (std::vector<std::int64_t>{0}));
  EXPECT_FALSE(host.committed());
}

TEST_F(FollowTest, DivisibilityIsAskedEverywhere) {
  TESSERA_SPEC("A63");
  Mesh chips = make_mesh({2, 2, 2}, {"x", "y", "chips"}, client.devices());
  ShardingPtr s = on(chips, P(axes("x", "y", "chips")));
  HostArray four = iota({4});
  auto id = [](Array v) { return v * 1; };
  EXPECT_ERROR(IndivisibleError, device_put(four, s), "4", "8");
  EXPECT_THROW(jit(id, {.in_shardings = {s}})(device_put(four)), IndivisibleError);
  EXPECT_THROW(jit(id, {.out_shardings = {s}})(device_put(four)), IndivisibleError);
}

TEST_F(FollowTest, Donation) {
  TESSERA_SPEC("A77");
  Array given = put(X, A(), P("x", "y"));
  Array r = jit([](Array v) { return v + 1; }, {.donate_argnums = {0}})(given);
  EXPECT_TRUE(given.is_deleted());
  EXPECT_THROW(given + 1, DeletedArrayError);
  is(r, values(a + 1), P("x", "y"), "result");
}

TEST_F(FollowTest, NewKindsOfSharding) {
  TESSERA_SPEC("A9", "A4");
  // A user's own kind: the shards of a line in reverse order.
  class Reversed : public Sharding {
   public:
    explicit Reversed(std::vector<Device> devices) : devices_(std::move(devices)) {}
    std::span<const Device> devices() const override { return devices_; }
    bool is_fully_replicated() const override { return false; }
    Shape shard_shape(const Shape&) const override { return {1}; }
    std::optional<std::vector<Index>> shard_indices(const Shape& shape) const override {
      std::vector<Index> out;
      for (std::int64_t i = shape[0] - 1; i >= 0; --i) out.push_back({Slice{i, i + 1}});
      return out;
    }
    bool equals(const Sharding& other) const override { return this == &other; }
    std::size_t hash() const override { return 7; }
    std::string text() const override { return "Reversed"; }
    std::string_view kind() const override { return "Reversed"; }
    ShardingPtr share() const override { return std::make_shared<Reversed>(*this); }

   private:
    std::vector<Device> devices_;
  };
  std::vector<Index> calls;
  Array r =
      make_array_from_callback({8}, std::make_shared<Reversed>(list({0, 1, 2, 3, 4, 5, 6, 7})), [&](const Index& i) {
        calls.push_back(i);
        return v8.slice(i);
      });
  EXPECT_EQ(calls[0], (Index{Slice{7, 8}}));
  EXPECT_EQ(shard(r, 0), (Ints{7}));
}

TEST_F(FollowTest, ScopesGivePlaces) {
  TESSERA_SPEC("M35", "M42");
  auto id = jit([](Array v) { return v; });
  auto check = [&](const Mesh& m) {
    Array r = id(Array(X));
    EXPECT_TRUE(identical(r.host(), X));
    EXPECT_EQ(r.devices().size(), 8U);
    EXPECT_TRUE(*r.sharding() == NamedSharding(m, P())) << r.sharding()->text();
    EXPECT_TRUE(r.committed());
    EXPECT_TRUE(r.is_fully_replicated());
  };
  Mesh existing = A();
  {
    MeshScope scope(existing);
    check(existing);
  }
  {
    MeshScope scope(A24());
    check(scope.mesh());
  }
  with_mesh(existing, [&](const Mesh& m) { check(m); });
  with_mesh(B(), [&](const Mesh&) { check(current_mesh()); });
}

TEST_F(FollowTest, BareSpecsMeanTheCurrentMesh) {
  TESSERA_SPEC("M41");
  auto twice = [](Array v) { return v * 2; };
  auto f = jit(twice, {.in_shardings = {P("x")}, .out_shardings = {P("x", "y")}});
  EXPECT_ERROR(StateError, f(Array(X)), "in_shardings", "MeshScope");
  EXPECT_ERROR(StateError, jit(twice, {.out_shardings = {P("x")}})(Array(X)), "out_shardings", "MeshScope");
  MeshScope scope(A());
  Array y = f(Array(X));
  EXPECT_TRUE(*y.sharding() == NamedSharding(A(), P("x", "y"))) << y.sharding()->text();
  for (std::size_t i = 0; i < 8; ++i) {
    auto first = static_cast<std::int32_t>(i / 2 * 8 + i % 2 * 2);
    EXPECT_EQ(shard(y, i), (Ints{first, first + 4}));
  }
  Array c = jit([](Array v) { return with_sharding_constraint(v, P("x")); })(Array(X));
  EXPECT_TRUE(*c.sharding() == NamedSharding(A(), P("x"))) << c.sharding()->text();
  EXPECT_ERROR(ValueError, jit(twice, {.in_shardings = {P("q")}})(Array(X)), "q", "(x, y)");
}

TEST_F(FollowTest, ScopesArePartOfTheKey) {
  TESSERA_SPEC("M43", "M44");
  int runs = 0;
  auto f = jit([&](Array v) {
    ++runs;
    return v * 2;
  });
  Array x(X);
  f(x);
  f(x);
  EXPECT_EQ(runs, 1);
  for (int i = 0; i < 2; ++i) {
    MeshScope scope(A());
    f(x);
    EXPECT_EQ(runs, 2);
  }
  {
    MeshScope scope(A24());
    f(x);
    EXPECT_EQ(runs, 3);
  }
  {
    MeshScope outer(A());
    MeshScope inner(A24());
    f(x);
    EXPECT_EQ(runs, 4);
  }
  f(x);
  MeshScope empty{Mesh()};
  EXPECT_EQ(mesh_scope_depth(), 2U);
  EXPECT_TRUE(current_mesh().empty());
  f(x);
  EXPECT_EQ(runs, 4);
}

TEST_F(FollowTest, AbstractMeshesNeedDevicesSomewhere) {
  TESSERA_SPEC("M59");
  NamedSharding s(AbstractMesh{{"x", 4}, {"y", 2}}, P("x", "y"));
  EXPECT_FALSE(s.is_concrete());
  EXPECT_ERROR(ValueError, s.device_set(), "device_set", "bstract");
  EXPECT_ERROR(ValueError, s.addressable_devices(), "addressable_devices", "bstract");
  EXPECT_ERROR(ValueError, s.is_fully_addressable(), "is_fully_addressable", "bstract");
  EXPECT_ERROR(ValueError, s.devices(), "devices", "bstract");
  EXPECT_ERROR(ValueError, s.devices_indices_map({8, 2}), "devices_indices_map", "bstract");
  EXPECT_ERROR(ValueError, device_put(X, s), "device", "bstract");
  EXPECT_ERROR(ValueError, make_array_from_callback({8, 2}, s, [&](const Index& i) { return X.slice(i); }), "device",
               "bstract");
}

TEST_F(FollowTest, AbstractConstraints) {
  TESSERA_SPEC("M60", "M61", "M63", "M66");
  int runs = 0;
  AbstractMesh abs2{{"x", 2}};
  auto f = jit([&](Array v) {
    ++runs;
    return with_sharding_constraint(v * 2, NamedSharding(abs2, P("x")));
  });
  Mesh m1 = line({0, 1});
  Mesh m2 = line({2, 3});
  Array y = f(put(v8, m2, P()));
  EXPECT_EQ(values(y), (Ints{0, 2, 4, 6, 8, 10, 12, 14}));
  EXPECT_EQ(ids(y), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(shard(y, 0), (Ints{0, 2, 4, 6}));
  EXPECT_EQ(shard(y, 1), (Ints{8, 10, 12, 14}));
  EXPECT_TRUE(*y.sharding() == NamedSharding(m2, P("x"))) << y.sharding()->text();
  for (const Mesh& m : {m1, line({1, 0}), m1}) f(put(v8, m, P()));
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(f.stats(), (CompileStats{1, 1, 3}));

  // A concrete mesh ties the program to its devices.
  ShardingPtr tied = on(m1, P("x"));
  auto concrete = jit([&](Array v) { return with_sharding_constraint(v * 2, tied); });
  EXPECT_EQ(values(concrete(put(v8, m1, P()))), values(y));
  EXPECT_ERROR(DeviceMismatchError, concrete(put(v8, m2, P())), "argument 0", "int32[8]", "[2, 3]",
               "sharding_constraint", "[0, 1]");

  auto over = [&](const AbstractMesh& m, const P& p) {
    return jit([=](Array v) { return with_sharding_constraint(v, NamedSharding(m, p)); });
  };
  EXPECT_ERROR(ValueError, over({{"x", 4}}, P("x"))(put(v8, m1, P())), "4", "2", "argument 0");
  EXPECT_EQ(values(over({{"q", 2}}, P("q"))(put(v8, m1, P()))), values(Array(v8)));
  auto both = jit([&](Array v) {
    Array u = with_sharding_constraint(v, NamedSharding(abs2, P("x")));
    return with_sharding_constraint(u, NamedSharding(AbstractMesh{{"x", 4}}, P("x")));
  });
  EXPECT_THROW(both(put(v8, m1, P())), ValueError);
}

TEST_F(FollowTest, AbstractMeshAtOnce) {
  TESSERA_SPEC("M68", "M70");
  AbstractMesh abs2{{"x", 2}};
  NamedSharding s(abs2, P("x"));
  Mesh m1 = line({0, 1});
  Array r = with_sharding_constraint(put(v8, m1, P()), s);
  EXPECT_TRUE(*r.sharding() == NamedSharding(m1, P("x")));
  EXPECT_THROW(with_sharding_constraint(Array(3), s), ValueError);
  EXPECT_ERROR(TypeError, with_sharding_constraint(device_put(v8, d(1)), s), "SingleDeviceSharding");
  EXPECT_THROW(with_sharding_constraint(put(v8, line({0, 1, 2, 3}), P("x")), s), ValueError);
  EXPECT_THROW(with_sharding_constraint(put(v8, line({0, 1}, "q"), P("q")), s), ValueError);

  auto f = jit([&](Array v) { return with_sharding_constraint(v * 2, s); });
  Array free = f(Array(v8));
  EXPECT_EQ(values(free), (Ints{0, 2, 4, 6, 8, 10, 12, 14}));
  EXPECT_EQ(ids(free), (std::vector<std::int64_t>{0}));
  EXPECT_FALSE(free.committed());
  MeshScope scope(line({0, 1, 2, 3}));
  Array four = jit([&](Array v) {
    return with_sharding_constraint(v * 2, NamedSharding(AbstractMesh{{"x", 4}}, P("x")));
  })(Array(v8));
  EXPECT_TRUE(*four.sharding() == NamedSharding(current_mesh(), P("x"))) << four.sharding()->text();
}

TEST_F(FollowTest, Stages) {
  TESSERA_SPEC("M79");
  EXPECT_TRUE(config().use_shardy);
  auto f = jit([](Array v) { return v * 2; });
  auto lowered = f.lower(a);
  EXPECT_EQ(f.stats().compiles, 0);
  EXPECT_FALSE(lowered.text().empty());
  EXPECT_EQ(values(lowered.compile()(a)), values(a * 2));
  EXPECT_EQ(f.stats(), (CompileStats{1, 1, 1}));
}

}  // namespace
}  // namespace tessera::test
