// SPDX-License-Identifier: Apache-2.0
// Decompositions of matrices whose rows or columns are split: what they move, and their values.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "base/strings.h"
#include "ops/collective/transfer_bytes.h"
#include "ops/linalg/linalg_common.h"
#include "ops/linalg/split_factors.h"
#include "spmd/spmd.h"
#include "support/engine_programs.h"
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

const ir::MeshAxes kMesh = test::mesh_of("x:4, y:2");

Type f32(Shape shape) { return {DType::F32, std::move(shape)}; }

using Rng = std::mt19937_64;

// --- what is moved

TEST(DivideLinalg, CholeskyMovesPanels) {
  for (const char* layout : {"x, y", "x.y, -", "-, x.y", "y, x", "-, y.x"}) {
    Builder b;
    Value x = b.input(f32({512, 512}));
    // To panels and back, half of what the rows and columns of a device are, and the diagonal.
    std::int64_t bound = 2 * 512 * 512 / 8 * 4 + 512 * 512 * 4 / 4 + 512 * 512 * 4 / 8;
    EXPECT_LE(bytes(test::module(b, {ops::cholesky(x)}, kMesh, {layout}, {"x, y"})), bound + 512 * 512 * 4 / 4)
        << layout;
  }
  for (const char* layout : {"x, -", "-, x"}) {
    Builder b;
    Value x = b.input(f32({512, 512}));
    std::int64_t bound = 2 * 512 * 512 / 8 * 4 + 512 * 512 * 4 / 2 + 512 * 512 * 4 / 8;
    EXPECT_LE(bytes(test::module(b, {ops::cholesky(x)}, test::mesh_of("x:8"), {layout}, {layout})), bound) << layout;
  }
}

TEST(DivideLinalg, LuMovesPanelsAndSendsRowsOnce) {
  // To the distribution, panels to the devices of a row, rows of pivots to those of a column and within panels, all to
  // their places: less than 0.8 of the matrix, of which 7 / 8 would be gathered.
  for (std::int64_t size : {1024, 4096}) {
    Builder b;
    Value x = b.input(f32({size, size}));
    auto m = test::module(b, ops::lu(x), kMesh, {"x, y"}, {"x, y", "-", "-"});
    std::int64_t whole = size * size * 4;
    if (size < 4096) {
      EXPECT_EQ(bytes(m), whole * 7 / 8);
    } else {
      EXPECT_LT(bytes(m), whole / 4 * 3);
    }
  }
}

TEST(DivideLinalg, QrMovesLessThanItsReflectorsAndTheirProduct) {
  Builder b;
  auto together = test::module(b, ops::qr(b.input(f32({16384, 16384}))), kMesh, {"x, y"}, {"x, y", "x, y"});
  Builder c;
  Values f = ops::packed_qr(c.input(f32({16384, 16384})));
  Values apart{ops::householder_product(f[0], f[1]), ops::upper_part(f[0])};
  EXPECT_LT(bytes(together), bytes(test::module(c, apart, kMesh, {"x, y"}, {"x, y", "x, y"})) / 10 * 9);
}

TEST(DivideLinalg, FewRightHandSidesAreSentInPlaceOfTheMatrix) {
  constexpr std::int64_t kSize = 1024, kSides = 64, kElement = 4;
  auto moved = [](const char* matrix, const char* sides, std::int64_t columns) {
    Builder b;
    Value a = b.input(f32({kSize, kSize}));
    return bytes(test::module(b, {ops::triangular_solve(a, b.input(f32({kSize, columns})), {})}, kMesh, {matrix, sides},
                              {sides}));
  };
  // All panels of the result but the last one to the devices of a column of the grid; the sides' columns together, to
  // the grid's next column, and apart again.
  const std::int64_t rows = kSize / 4 * kSides * kElement;
  EXPECT_EQ(moved("x, y", "x, y", kSides), 3 * rows + rows / 2 + rows + rows / 2);
  // Rows alone: the result of all devices but the last one.
  EXPECT_EQ(moved("x.y, -", "x.y, -", kSides), (kSize - kSize / 8) * kSides * kElement);
  // More sides are not sent, for devices would wait for each other too long.
  EXPECT_GT(moved("x, y", "x, y", kSides + 2), 2 * moved("x, y", "x, y", kSides));
}

// --- what is held

// Bytes that a device holds at most while the equations run in their order, arguments all the time.
std::int64_t most_held(const ir::Graph& g) {
  std::vector<ir::ValueId> storage(g.num_values());
  std::vector<std::int64_t> bytes(g.num_values());
  auto at = [](ir::ValueId v) { return static_cast<std::size_t>(v); };
  for (std::size_t v = 0; v < g.num_values(); ++v) {
    auto id = static_cast<ir::ValueId>(v);
    storage[v] = id;
    // Numbers of rows and columns, and what is compared with them, are made where they are used.
    bool made = g.type(id).dtype == DType::I32 || g.type(id).dtype == DType::Bool;
    bytes[v] = made ? 0 : ops::local_bytes(g.type(id), g.layout(id), *g.mesh);
  }
  auto is_view = [](const ir::Eqn& e) {
    return e.op == &ops::def::reinterpret || e.op == &ops::def::reshape || e.op == &ops::def::broadcast_in_dim ||
           e.op == &ops::def::optimization_barrier;
  };
  std::vector<std::size_t> last(g.num_values());
  for (std::size_t i = 0; i < g.eqns.size(); ++i) {
    const auto& e = g.eqns[i];
    if (is_view(e)) {
      for (std::size_t k = 0; k < e.out.size(); ++k) storage[at(e.out[k])] = storage[at(e.in[k])];
    }
    for (auto v : e.in) last[at(storage[at(v)])] = i;
    for (auto v : e.out) last[at(storage[at(v)])] = std::max(last[at(storage[at(v)])], i);
  }
  for (const auto* ports : {&g.inputs, &g.outputs}) {
    for (auto v : *ports) last[at(storage[at(v)])] = g.eqns.size();
  }
  std::int64_t now = 0, most = 0;
  std::vector<std::vector<ir::ValueId>> dies(g.eqns.size() + 1);
  for (std::size_t v = 0; v < g.num_values(); ++v) dies[last[v]].push_back(static_cast<ir::ValueId>(v));
  for (auto v : g.inputs) now += bytes[at(v)];
  for (std::size_t i = 0; i < g.eqns.size(); ++i) {
    const auto& e = g.eqns[i];
    // Element by element, a result takes the place of an operand that is not needed any more.
    bool in_place = false;
    if (e.op->traits().elementwise || e.op == &ops::def::dynamic_update_slice) {
      for (auto v : e.in)
        in_place = in_place || (last[at(storage[at(v)])] == i && bytes[at(storage[at(v)])] == bytes[at(e.out[0])]);
    }
    for (auto v : e.out) {
      if (storage[at(v)] == v) now += bytes[at(v)];
    }
    std::int64_t held = now - (in_place ? bytes[at(e.out[0])] : 0);
    most = std::max(most, held);
    for (auto v : dies[i]) {
      if (storage[at(v)] == v) now -= bytes[at(v)];
    }
  }
  return most;
}

TEST(DivideLinalg, LargeMatricesAreNeverWholeOnADevice) {
  constexpr std::int64_t kShare = std::int64_t{16384} * 16384 * 4 / 8;
  auto held = [&](const std::function<Values(Value)>& f, const std::vector<std::string>& out) {
    Builder b;
    Values results = f(b.input(f32({16384, 16384})));
    auto m = test::module(b, results, kMesh, {"x, y"}, out);
    return static_cast<double>(most_held(*spmd::partition(m, spmd::propagate(m)))) / kShare;
  };
  EXPECT_LE(held([](Value x) { return Values{ops::cholesky(x)}; }, {"x, y"}), 3);
  EXPECT_LE(held([](Value x) { return ops::packed_qr(x); }, {"x, y", "-"}), 3.1);
  EXPECT_LE(held([](Value x) { return ops::lu(x); }, {"x, y", "-", "-"}), 3.1);
  // Beside the argument q twice, in both orders, and r without its zeros.
  EXPECT_LE(held([](Value x) { return ops::qr(x); }, {"x, y", "x, y"}), 3.7);
}

// --- values

struct Case {
  Builder b;
  std::vector<HostArray> args;
  Values out;
  double tolerance = 1e-4;
  std::function<std::vector<HostArray>(std::vector<HostArray>)> canonical = {};  // of results that are not unique
};

std::int64_t pick(Rng& rng, std::int64_t n) { return static_cast<std::int64_t>(rng() % static_cast<std::uint64_t>(n)); }

DType random_dtype(Rng& rng) {
  return std::array{DType::F32, DType::F64, DType::C64}[static_cast<std::size_t>(pick(rng, 3))];
}

// One matrix, or a few.
Shape stack_of(Rng& rng, std::int64_t m, std::int64_t n) {
  if (pick(rng, 3) > 0) return {m, n};
  return {1 + pick(rng, 2), m, n};
}

// Far from singular: random numbers, `diagonal` more on the diagonal.
HostArray matrices(Rng& rng, DType t, const Shape& shape, double diagonal) {
  HostArray a = test::random_array(rng, {t, shape});
  ops::View v{t, shape, a.data()};
  for (std::int64_t i = 0; i < ops::matrix_count(v); ++i) {
    for (std::int64_t k = 0; k < std::min(shape.back(), shape[shape.size() - 2]); ++k) {
      std::int64_t at = (i * shape[shape.size() - 2] + k) * shape.back() + k;
      ops::store_number(v, at, ops::load_complex(v, at) + diagonal);
    }
  }
  return a;
}

void cholesky_of(Rng& rng, Case& c) {
  std::int64_t n = 128 + pick(rng, 60);
  DType t = random_dtype(rng);
  Shape shape = stack_of(rng, n, n);
  bool none = pick(rng, 8) == 0;
  // Only the lower triangle is read: a diagonal that dominates makes the matrix definite.
  c.args.push_back(matrices(rng, t, shape, 2.5 * static_cast<double>(n)));
  if (none) {
    ops::View v{t, shape, c.args[0].data()};
    std::int64_t k = pick(rng, n);
    ops::store_number(v, k * n + k, -1.0);
  }
  c.out = {ops::cholesky(c.b.input({t, shape}))};
}

void solve_of(Rng& rng, Case& c) {
  std::int64_t n = 128 + pick(rng, 60);
  DType t = random_dtype(rng);
  Shape shape = stack_of(rng, n, n);
  auto flag = [&] { return pick(rng, 2) == 0; };
  ops::TriangularSolve p{flag(), flag(), flag(), flag(), false};
  c.args.push_back(matrices(rng, t, shape, 2.0 * static_cast<double>(n)));
  Shape sides = shape;
  sides[shape.size() - (p.left ? 1 : 2)] = 1 + pick(rng, 40);
  c.args.push_back(test::random_array(rng, {t, sides}));
  Value a = c.b.input({t, shape});
  c.out = {ops::triangular_solve(a, c.b.input({t, sides}), p)};
}

// A unit diagonal, and few other elements, that the result does not grow with the size.
void unit_solve_of(Rng& rng, Case& c) {
  std::int64_t n = 128 + pick(rng, 60);
  Type t{DType::F64, {n, n}};
  auto flag = [&] { return pick(rng, 2) == 0; };
  ops::TriangularSolve p{flag(), flag(), flag(), flag(), true};
  c.args.push_back(matrices(rng, t.dtype, t.shape, 0));
  for (std::int64_t i = 0; i < c.args[0].size(); ++i) {
    if (i % 29 != 0) static_cast<double*>(c.args[0].data())[i] = 0;
  }
  Shape sides{n, n};
  sides[p.left ? 1 : 0] = 1 + pick(rng, 40);
  c.args.push_back(test::random_array(rng, {t.dtype, sides}));
  Value a = c.b.input(t);
  c.out = {ops::triangular_solve(a, c.b.input({t.dtype, sides}), p)};
}

void tall_qr_of(Rng& rng, Case& c) {
  std::int64_t n = 1 + pick(rng, 12);
  std::int64_t m = 8 * n + pick(rng, 40);
  DType t = random_dtype(rng);
  Shape shape = stack_of(rng, m, n);
  c.args.push_back(test::random_array(rng, {t, shape}));
  c.out = ops::qr(c.b.input({t, shape}));
}

// A matrix whose columns need no reflector, now and then.
Value input_of_qr(Rng& rng, Case& c, std::int64_t m, std::int64_t n) {
  DType t = random_dtype(rng);
  Shape shape = stack_of(rng, m, n);
  c.args.push_back(test::random_array(rng, {t, shape}));
  if (pick(rng, 4) == 0) {
    ops::View v{t, shape, c.args[0].data()};
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; j += 3) {
        if (i > j / 2) ops::store_number(v, i * n + j, 0.0);
      }
    }
  }
  return c.b.input({t, shape});
}

void tall_reflectors_of(Rng& rng, Case& c) {
  std::int64_t n = 1 + pick(rng, 12);
  c.out = ops::packed_qr(input_of_qr(rng, c, 8 * n + pick(rng, 40), n));
}
void packed_qr_of(Rng& rng, Case& c) {
  if (pick(rng, 2) == 0) return tall_reflectors_of(rng, c);
  std::int64_t n = 128 + pick(rng, 30);
  c.out = ops::packed_qr(input_of_qr(rng, c, n + pick(rng, 2) * pick(rng, 90), n));
}

// Square, or up to twice as tall.
void qr_of(Rng& rng, Case& c) {
  std::int64_t n = 128 + pick(rng, 30);
  std::int64_t m = n + pick(rng, 2) * pick(rng, n);
  c.out = ops::qr(input_of_qr(rng, c, m, n), m == n && pick(rng, 2) == 0);
}

void product_of(Rng& rng, Case& c, void (*reflectors)(Rng&, Case&)) {
  Case factors;
  reflectors(rng, factors);
  c.args = test::run_on_one(factors.b.finish_shared(factors.out), factors.args);
  Value packed = c.b.input({c.args[0].dtype(), c.args[0].shape()});
  c.out = {ops::householder_product(packed, c.b.input({c.args[1].dtype(), c.args[1].shape()}))};
}

void reflectors_of(Rng& rng, Case& c) { product_of(rng, c, packed_qr_of); }
void tall_product_of(Rng& rng, Case& c) { product_of(rng, c, tall_reflectors_of); }

// A network's incidence matrix, of which elimination makes nothing but -1, 0 and 1: equal elements in all columns, and
// none to divide by in the last ones.
HostArray network(Rng& rng, DType t, std::int64_t n) {
  HostArray a(t, {n, n});
  ops::View v{t, a.shape(), a.data()};
  for (std::int64_t i = 0; i < n * n; ++i) ops::store_number(v, i, 0.0);
  for (std::int64_t j = 0; j < n; ++j) {
    std::int64_t from = pick(rng, n);
    ops::store_number(v, from * n + j, 1.0);
    ops::store_number(v, (from + 1 + pick(rng, n - 1)) % n * n + j, -1.0);
  }
  return a;
}

void lu_of(Rng& rng, Case& c) {
  std::int64_t n = 128 + pick(rng, 60);
  DType t = random_dtype(rng);
  bool ties = pick(rng, 3) == 0;
  c.tolerance = t == DType::F64 ? 1e-8 : 1e-3;
  c.args.push_back(ties ? network(rng, t, n) : test::random_array(rng, {t, {n, n}}));
  c.out = ops::lu(c.b.input({t, {n, n}}));
}

// Singular vectors of either sign are right, and rounding errors decide which LAPACK finds: here those whose greatest
// element in vh is positive.
std::vector<HostArray> with_known_signs(std::vector<HostArray> f) {
  auto* u = static_cast<double*>(f[1].data());
  auto* vh = static_cast<double*>(f[2].data());
  const std::int64_t n = f[2].shape().back(), m = f[1].shape()[f[1].shape().size() - 2];
  for (std::int64_t i = 0; i < f[0].size(); ++i) {
    double* row = vh + i * n;
    auto greatest = *std::max_element(row, row + n, [](double x, double y) { return std::abs(x) < std::abs(y); });
    if (greatest > 0) continue;
    for (std::int64_t j = 0; j < n; ++j) row[j] = -row[j];
    double* column = u + i / n * m * n + i % n;
    for (std::int64_t j = 0; j < m; ++j) column[j * n] = -column[j * n];
  }
  return f;
}

void tall_svd_of(Rng& rng, Case& c) {
  std::int64_t n = 1 + pick(rng, 12);
  std::int64_t m = 8 * n + pick(rng, 40);
  Shape shape = stack_of(rng, m, n);
  c.args.push_back(test::random_array(rng, {DType::F64, shape}));
  c.out = ops::svd(c.b.input({DType::F64, shape}));
  c.canonical = with_known_signs;
}

using Make = std::function<void(Rng&, Case&)>;

// A matrix's rows and columns split by some of the axes, what is before them by others.
ir::Layout split_matrices(Rng& rng, const Shape& shape, const ir::MeshAxes& mesh) {
  ir::Layout l = ir::Layout::replicated(static_cast<std::int64_t>(shape.size()));
  for (std::uint8_t axis = 0; axis < mesh.sizes.size(); ++axis) {
    auto d = static_cast<std::size_t>(pick(rng, static_cast<std::int64_t>(shape.size()) + 1));
    if (d == shape.size()) continue;
    if (d + 2 < shape.size() && shape[d] % ir::parts(l.dims[d], mesh) * mesh.sizes[axis] != 0) continue;
    l.dims[d].insert(l.dims[d].begin() + pick(rng, static_cast<std::int64_t>(l.dims[d].size()) + 1), axis);
  }
  return l;
}

// What the rule writes in the place of the program's one equation, whatever it moves.
using Rule = std::function<std::optional<ir::Division>(Builder&, const ir::DivideArgs&, const ir::Attrs&)>;
bool check(std::uint64_t seed, const ir::MeshAxes& mesh, const Make& make, const Rule& rule) {
  Rng rng(seed * 0x9E3779B97F4A7C15ull + 1);
  Case c;
  make(rng, c);
  auto g = c.b.finish_shared(c.out);
  const ir::Eqn& e = g->eqns.at(0);
  std::vector<ir::Layout> operands, results;
  Builder b;
  Values in;
  ir::Types out;
  for (auto v : e.in) {
    in.push_back(b.input(g->type(v)));
    operands.push_back(split_matrices(rng, g->type(v).shape, mesh));
  }
  for (auto v : e.out) {
    out.push_back(g->type(v));
    results.push_back(split_matrices(rng, g->type(v).shape, mesh));
  }
  ir::DivideArgs args{in, out, operands, results, mesh, false, {}, nullptr};
  std::optional<ir::Division> division = rule ? rule(b, args, e.attrs) : std::nullopt;
  for (std::size_t way = 0; way < e.op->divisions() && !division; ++way) division = e.op->divide(way, b, args, e.attrs);
  if (!division) return false;
  ir::Module m = ir::module_over(b.finish_shared(division->out), mesh);
  m.uneven = true;
  for (std::size_t i = 0; i < operands.size(); ++i) m.inputs[i].layout = operands[i];
  for (std::size_t i = 0; i < results.size(); ++i) m.outputs[i].layout = results[i];
  std::vector<HostArray> expected = test::run_on_one(g, c.args);
  std::vector<HostArray> got = test::run_on_mesh(m, c.args, test::client_with(mesh.num_positions()));
  if (c.canonical) {
    expected = c.canonical(std::move(expected));
    got = c.canonical(std::move(got));
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(test::difference(got[i], expected[i], c.tolerance), "") << "seed " << seed << ", result " << i << "\n"
                                                                      << ir::to_string(*g);
  }
  return true;
}

void check_many(std::uint64_t first, std::uint64_t count, const Make& make, const Rule& rule = {},
                const std::vector<ir::MeshAxes>& meshes = test::test_meshes()) {
  std::uint64_t divided = 0, cases = 0;
  for (const auto& mesh : meshes) {
    for (std::uint64_t i = 0; i < count && !testing::Test::HasFailure(); i += test::case_stride()) {
      ++cases;
      divided += check(first + i, mesh, make, rule);
    }
  }
  EXPECT_GE(2 * divided, cases);
}

TEST(DivideLinalg, GradientsOfSplitFactors) {
  Rng rng(7);
  constexpr std::int64_t kSize = 256;
  for (const char* layout : {"x, y", "x.y, -", "-, y"}) {
    Builder b;
    Value x = b.input({DType::F64, {kSize, kSize}});
    Value l = test::constrain(ops::cholesky(x), layout, kMesh);
    Value y = ops::triangular_solve(l, x, {});
    test::RandomProgram p{test::module(b, {ops::sin(y)}, kMesh, {layout}, {layout}), {}, {}, 1e-6};
    p.args = {matrices(rng, DType::F64, {kSize, kSize}, 2.5 * kSize)};
    test::RandomProgram gradient = test::gradient_of(p);
    EXPECT_EQ(test::disagreement(gradient), "") << layout;
  }
}

TEST(DivideLinalg, RandomLu) {
  check_many(700, 3, lu_of,
             [](Builder& b, const ir::DivideArgs& a, const ir::Attrs&) { return ops::lu_in_panels(b, a); });
}
TEST(DivideLinalg, RandomCholesky) { check_many(1, 6, cholesky_of); }
TEST(DivideLinalg, RandomTallQr) { check_many(300, 40, tall_qr_of); }
TEST(DivideLinalg, TallMatricesOnAnyNumberOfDevices) {
  std::vector<ir::MeshAxes> meshes;
  for (const char* mesh : {"x:2", "x:3", "x:4", "x:5", "x:6", "x:8", "x:4, y:2", "x:3, y:2"}) {
    meshes.push_back(test::mesh_of(mesh));
  }
  check_many(900, 12, tall_qr_of, {}, meshes);
  check_many(1000, 12, tall_svd_of, {}, meshes);
  check_many(1100, 12, tall_reflectors_of, {}, meshes);
  check_many(1200, 12, tall_product_of, {}, meshes);
}
TEST(DivideLinalg, GradientsOfTallFactors) {
  Rng rng(9);
  for (const char* layout : {"x.y, -", "x, -", "y, -"}) {
    Builder b;
    Values f = ops::qr(b.input({DType::F64, {128, 6}}));
    Values s = ops::svd(f[0] * 3.0 + ops::sin(f[0]));
    Values out{ops::sin(f[1]), ops::reduce_sum(s[0], {0}), ops::sin(f[0])};
    test::RandomProgram p{test::module(b, out, kMesh, {layout}, {"-, -", "", layout}), {}, {}, 1e-6};
    p.args = {test::random_array(rng, {DType::F64, {128, 6}})};
    EXPECT_EQ(test::disagreement(test::gradient_of(p)), "") << layout;
  }
}
TEST(DivideLinalg, RandomQr) {
  check_many(800, 4, qr_of,
             [](Builder& b, const ir::DivideArgs& a, const ir::Attrs&) { return ops::qr_by_panels(b, a, {}); });
}
TEST(DivideLinalg, RandomReflectors) { check_many(500, 16, packed_qr_of); }
TEST(DivideLinalg, RandomProductsOfReflectors) { check_many(600, 12, reflectors_of); }
TEST(DivideLinalg, RandomTallSvd) { check_many(400, 20, tall_svd_of); }
TEST(DivideLinalg, RandomTriangularSolves) { check_many(100, 24, solve_of); }
TEST(DivideLinalg, RandomTriangularSolvesInPlace) {
  auto in_place = [](Builder& b, const ir::DivideArgs& a, const ir::Attrs& p) {
    return ops::solve_in_place(b, a, ir::get<ops::TriangularSolve>(p));
  };
  check_many(100, 24, solve_of, in_place);
  check_many(200, 24, unit_solve_of, in_place);
}
TEST(DivideLinalg, RandomTriangularSolvesWithAUnitDiagonal) { check_many(200, 24, unit_solve_of); }

}  // namespace
}  // namespace tessera
