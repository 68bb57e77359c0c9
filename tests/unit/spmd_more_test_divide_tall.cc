// SPDX-License-Identifier: Apache-2.0
// Decompositions of tall matrices whose rows are split: what they move, and reflectors that are written as factors.
#include <gtest/gtest.h>

#include "base/strings.h"
#include "ops/linalg/linalg_common.h"
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

constexpr std::int64_t kTriangle = 64 * 65 / 2 * 4;  // of float32, without its zeros

TEST(DivideTall, EveryDeviceIsSentTriangles) {
  for (const char* layout : {"x.y, -", "y.x, -"}) {
    // Three rounds, and which rows to turn. Every device knows r then.
    for (const char* r : {"-, -", "x, y"}) {
      Builder b;
      Values f = ops::qr(b.input(f32({8192, 64})));
      EXPECT_EQ(bytes(test::module(b, f, kMesh, {layout}, {layout, r})), 3 * kTriangle + 64) << layout << " " << r;
    }
    Builder b;
    Values f = ops::svd(b.input(f32({8192, 64})));
    EXPECT_EQ(bytes(test::module(b, f, kMesh, {layout}, {"-", layout, "-, -"})), 3 * kTriangle + 64) << layout;
  }
}

TEST(DivideTall, RoundsOfOtherNumbersOfDevices) {
  const std::vector<std::pair<std::string, std::int64_t>> meshes = {{"x:2", 1}, {"x:3", 2}, {"x:4", 2},
                                                                    {"x:5", 4}, {"x:6", 3}, {"x:8", 3}};
  for (const auto& [mesh, triangles] : meshes) {
    for (std::int64_t n : {16, 17}) {
      Builder b;
      Values f = ops::qr(b.input({DType::F64, {3600, n}}));
      EXPECT_EQ(bytes(test::module(b, f, test::mesh_of(mesh), {"x, -"}, {"x, -", "-, -"})),
                triangles * n * (n + 1) / 2 * 8 + n)
          << mesh << " " << n;
    }
  }
}

TEST(DivideTall, ReflectorsAreSentAsTriangles) {
  Builder b;
  Values f = ops::packed_qr(b.input(f32({8192, 64})));
  // Three rounds, what the reflectors have in the place of the last triangle, and their factors.
  EXPECT_EQ(bytes(test::module(b, f, kMesh, {"x.y, -"}, {"x.y, -", "-"})), 4 * kTriangle + 64 * 4);
  Builder c;
  Value packed = c.input(f32({8192, 64}));
  Value q = ops::householder_product(packed, c.input(f32({64})));
  // A sum of triangles, and the first rows.
  EXPECT_EQ(bytes(test::module(c, {q}, kMesh, {"x.y, -", "-"}, {"x.y, -"})), 2 * kTriangle * 7 / 8 + kTriangle);
}

// JAX's qr: reflectors, their product, and the triangle by a mask of rows and columns.
Values by_reflectors(Value x, bool lower_too = false) {
  Builder& b = *x.builder;
  Values f = ops::packed_qr(x);
  Value q = ops::householder_product(f[0], f[1]);
  Value top = ops::slice_in_dim(f[0], 0, x.shape().back(), x.rank() - 2);
  Value rows = ops::iota(b, DType::I32, {x.shape().back(), x.shape().back()}, 0);
  Value columns = ops::iota(b, DType::I32, rows.shape(), 1);
  Value before = rows + ops::broadcast_to(ops::scalar(b, lower_too ? -2 : -1, DType::I32), rows.shape());
  Value below = ops::broadcast_in_dim(ops::ge(before, columns), top.shape(), {x.rank() - 2, x.rank() - 1});
  return {q, ops::where(below, ops::zeros_like(top), top)};
}

TEST(DivideTall, ReflectorsThatAreOnlyMultipliedBecomeFactors) {
  auto ops_of = [](const ir::Module& m) {
    std::string names;
    const ir::Module prepared = spmd::prepared(m);
    for (const auto& e : prepared.graph->eqns) names += str(e.op->name(), " ");
    return names;
  };
  for (const Shape& shape : {Shape{8192, 64}, Shape{2, 8192, 64}, Shape{64, 64}}) {
    Builder b;
    const std::vector<std::string> any(2, shape.size() == 3 ? "-, -, -" : "-, -");
    auto m = test::module(b, by_reflectors(b.input(f32(shape))), kMesh, {any[0]}, any);
    EXPECT_EQ(ops_of(m).find("householder_product"), std::string::npos) << str(shape);
  }
  Builder b;
  auto m = test::module(b, by_reflectors(b.input(f32({8192, 64}))), kMesh, {"x.y, -"}, {"x.y, -", "-, -"});
  EXPECT_EQ(bytes(spmd::prepared(m)), 3 * kTriangle + 64);
  // On one device, where a part of the reflectors is read, or where all of them are.
  Builder a;
  m = test::module(a, by_reflectors(a.input(f32({8192, 64}))), test::mesh_of("x:1"), {"-, -"}, {"-, -", "-, -"});
  EXPECT_NE(ops_of(m).find("householder_product"), std::string::npos);
  Builder c;
  m = test::module(c, by_reflectors(c.input(f32({8192, 64})), true), kMesh, {"-, -"}, {"-, -", "-, -"});
  EXPECT_NE(ops_of(m).find("householder_product"), std::string::npos);
  Builder d;
  Values f = ops::packed_qr(d.input(f32({8192, 64})));
  m = test::module(d, {ops::householder_product(f[0], f[1]), f[0]}, kMesh, {"-, -"}, {"-, -", "-, -"});
  EXPECT_NE(ops_of(m).find("householder_product"), std::string::npos);
}

TEST(DivideTall, FactorsInPlaceOfReflectorsAreTheSame) {
  std::mt19937_64 rng(3);
  for (DType t : {DType::F32, DType::F64, DType::C64}) {
    for (const Shape& shape : {Shape{163, 7}, Shape{2, 128, 6}}) {
      Builder b;
      const std::string stack = shape.size() == 3 ? "-, " : "";
      auto m = test::module(b, by_reflectors(b.input({t, shape})), kMesh, {stack + "x.y, -"},
                            {stack + "x.y, -", stack + "-, -"}, {.uneven = true});
      const std::vector<HostArray> args{test::random_array(rng, {t, shape})};
      const auto expected = test::run_on_one(m.graph, args);
      const auto got = test::run_on_mesh(spmd::prepared(m), args, test::client_with(8));
      for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(test::difference(got[i], expected[i], 1e-4), "") << str(shape);
    }
  }
}

// A column of zeros and one that is another's double; few rows, so that the last devices have less than a triangle.
TEST(DivideTall, DependentColumnsHaveOrthonormalVectors) {
  std::mt19937_64 rng(5);
  for (const char* mesh : {"x:8", "x:6", "x:3", "x:2"}) {
    const ir::MeshAxes axes = test::mesh_of(mesh);
    const std::int64_t m = 5 * axes.num_positions() + 1;
    Builder b;
    Values f = ops::qr(b.input({DType::F64, {m, 5}}));
    auto program = test::module(b, f, axes, {"x, -"}, {"x, -", "-, -"}, {.uneven = true});
    HostArray a = test::random_array(rng, {DType::F64, {m, 5}});
    auto* x = static_cast<double*>(a.data());
    for (std::int64_t i = 0; i < m; ++i) {
      x[i * 5 + 1] = 0;
      x[i * 5 + 3] = 2 * x[i * 5];
    }
    const auto got = test::run_on_mesh(program, {a}, test::client_with(axes.num_positions()));
    Builder c;
    Value q = c.input({DType::F64, {m, 5}});
    Value r = c.input({DType::F64, {5, 5}});
    const Values products{ops::matmul(q, r), ops::matmul(ops::adjoint(q), q), ops::identity_like(r)};
    const auto found = test::run_on_one(c.finish_shared(products), got);
    EXPECT_EQ(test::difference(found[0], a, 1e-12), "") << mesh;
    EXPECT_EQ(test::difference(found[1], found[2], 1e-12), "") << mesh;
  }
}

// Columns that elimination finds in order: LAPACK turns nothing.
TEST(DivideTall, TrianglesStayAsTheyAre) {
  for (double diagonal : {2.0, -2.0}) {
    Builder b;
    Values f = ops::qr(b.input({DType::F64, {160, 5}}));
    test::RandomProgram p{test::module(b, f, kMesh, {"x.y, -"}, {"x.y, -", "-, -"}), {}, {}, 1e-12};
    p.args.emplace_back(HostArray(DType::F64, {160, 5}));
    auto* x = static_cast<double*>(p.args[0].data());
    for (int i = 0; i < 160; ++i) {
      for (int j = 0; j < 5; ++j) x[i * 5 + j] = i == j ? diagonal : i < j ? 1 + i : 0;
    }
    p.expected = test::run_on_one(p.module.graph, p.args);
    EXPECT_EQ(test::disagreement(p), "");
    EXPECT_EQ(test::disagreement_across(p, 4), "");
  }
}

}  // namespace
}  // namespace tessera
