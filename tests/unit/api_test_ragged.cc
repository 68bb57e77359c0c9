// SPDX-License-Identifier: Apache-2.0
// Products with a ragged dimension beside sums over a table of groups. Values are compared with JAX's by the oracle
// tests, which has no gradients where the ragged dimension is contracted or a batch dimension.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tessera/tessera.h"
#include "tests/support/meshes.h"

namespace tessera {
namespace {

using lax::RaggedDotDimensionNumbers;
using Floats = std::vector<float>;

Array numbers(const Shape& shape, double step) { return sin(reshape(arange(size_of(shape), float32), shape) * step); }
const RaggedDotDimensionNumbers kRows{{.lhs_contracting = {1}, .rhs_contracting = {1}}, {0}, {0}};
const RaggedDotDimensionNumbers kSums{{.lhs_contracting = {0}, .rhs_contracting = {0}}, {0}, {}};

// 1 where a position is of a group: [positions, groups].
Array table(const std::vector<int>& sizes, std::int64_t positions) {
  Floats out(static_cast<std::size_t>(positions) * sizes.size());
  std::size_t at = 0;
  for (std::size_t g = 0; g < sizes.size(); ++g) {
    for (int i = 0; i < sizes[g]; ++i) out[at++ * sizes.size() + g] = 1;
  }
  return Array(HostArray::from(out, {positions, static_cast<std::int64_t>(sizes.size())}));
}

void expect_close(const Array& a, const Array& b) {
  ASSERT_EQ(a.shape(), b.shape());
  EXPECT_TRUE(allclose(a, b, {.rtol = 1e-5, .atol = 1e-5}).item<bool>()) << a << "\n" << b;
}

TEST(RaggedDot, GradientsAreThoseOfSumsOverATableOfGroups) {
  struct Case {
    RaggedDotDimensionNumbers dims;
    Shape lhs, rhs;
    const char* sum;
  };
  const std::vector<Case> cases = {{kRows, {6, 3}, {3, 3, 4}, "mk,gkn,mg->mn"},
                                   {kSums, {6, 3}, {6, 4}, "km,kn,kg->gmn"},
                                   {{{{1}, {1}, {0}, {0}}, {1}, {}}, {2, 6, 3}, {2, 6, 4}, "bkm,bkn,kg->gbmn"}};
  const std::vector<int> sizes{2, 0, 3};  // the last position is of no group
  const Array groups = array({2, 0, 3});
  const Array of = table(sizes, 6);
  for (const Case& c : cases) {
    const Array x = numbers(c.lhs, 0.3), y = numbers(c.rhs, 0.7);
    auto f = [&](Array a, Array b) { return lax::ragged_dot_general(a, b, groups, c.dims); };
    auto g = [&](Array a, Array b) { return einsum(c.sum, {a, b, of}); };
    expect_close(f(x, y), g(x, y));
    auto loss = [](auto h) { return [h](Array a, Array b) { return sum(sin(h(a, b))); }; };
    expect_close(grad<0>(loss(f))(x, y), grad<0>(loss(g))(x, y));
    expect_close(grad<1>(loss(f))(x, y), grad<1>(loss(g))(x, y));
  }
}

TEST(RaggedDot, MapsOverItsOperands) {
  const Array x = numbers({4, 6, 3}, 0.3), y = numbers({4, 3, 3, 2}, 0.7);
  const Array sizes = array({{1, 2, 3}, {6, 0, 0}, {0, 2, 1}, {2, 2, 2}});
  const Array all = vmap([](Array a, Array b, Array n) { return lax::ragged_dot(a, b, n); })(x, y, sizes);
  for (std::int64_t i = 0; i < 4; ++i) {
    expect_close(at(all, {i}).get(), lax::ragged_dot(at(x, {i}).get(), at(y, {i}).get(), at(sizes, {i}).get()));
  }
}

TEST(RaggedDot, SplitRowsMoveNothingAndSplitSumsAreReduced) {
  test::EightDevices devices;
  const Mesh mesh = devices.A();
  auto put = [&](const Array& a, const PartitionSpec& spec) { return device_put(a, NamedSharding(mesh, spec)); };
  const Array x = numbers({8, 8}, 0.3), y = numbers({3, 8, 4}, 0.7), z = numbers({8, 4}, 0.7);
  const Array sizes = array({2, 1, 4});
  auto rows = jit([](Array a, Array b, Array n) { return lax::ragged_dot_general(a, b, n, kRows); });
  auto sums = jit([](Array a, Array b, Array n) { return lax::ragged_dot_general(a, b, n, kSums); });
  EXPECT_EQ(rows.lower(put(x, P("x")), y, sizes).comm_plan().steps().size(), 0U);
  EXPECT_EQ(rows.lower(put(x, P({}, "x")), put(y, P({}, "x")), sizes).comm_plan().steps().size(), 1U);
  EXPECT_EQ(sums.lower(put(x, P("x")), put(z, P("x")), sizes).comm_plan().steps().size(), 1U);
  expect_close(rows(put(x, P("x")), y, sizes), rows(x, y, sizes));
  expect_close(rows(put(x, P({}, "x")), put(y, P({}, "x")), sizes), rows(x, y, sizes));
  expect_close(sums(put(x, P("x")), put(z, P("x")), sizes), sums(x, z, sizes));
}

TEST(RaggedDot, OverExplicitAxes) {
  test::EightDevices devices;
  const Array x = numbers({8, 3}, 0.3), y = numbers({3, 3, 4}, 0.7), sizes = array({2, 1, 4});
  const Array whole = lax::ragged_dot_general(x, y, sizes, kRows);
  const Mesh mesh = make_explicit_mesh({8}, {"x"});
  MeshScope scope(mesh);
  const Array rows = device_put(x, P("x"));
  EXPECT_ERROR(UnimplementedError, lax::ragged_dot_general(rows, y, sizes, kRows), "ragged_dot_general",
               "out_sharding");
  const Array out = lax::ragged_dot_general(rows, y, sizes, kRows, {.out_sharding = P("x")});
  EXPECT_TRUE(out.sharding()->is_equivalent_to(NamedSharding(mesh, P("x")), 2));
  EXPECT_EQ(out.host().to_vector<float>(), whole.to_vector<float>());
}

TEST(RaggedDot, Errors) {
  const Array x = zeros({6, 3}), y = zeros({2, 3, 4}), sizes = array({2, 4});
  const DotDimensionNumbers dot{.lhs_contracting = {1}, .rhs_contracting = {1}};
  auto call = [&](const RaggedDotDimensionNumbers& d) { return lax::ragged_dot_general(x, y, sizes, d); };
  EXPECT_ERROR(ValueError, call({dot, {}, {0}}), "lhs_ragged_dimensions = ()", "one dimension");
  EXPECT_ERROR(ValueError, call({dot, {2}, {0}}), "lhs_ragged_dimensions = 2", "(6, 3)", "0 to 1");
  EXPECT_ERROR(ValueError, call({dot, {0}, {}}), "rhs_group_dimensions = ()", "free");
  EXPECT_ERROR(ValueError, call({dot, {1}, {0}}), "rhs_group_dimensions = (0,)", "contracted", "none");
  EXPECT_ERROR(ValueError, call({dot, {0}, {1}}), "rhs_group_dimensions = (1,)", "contracted dimension");
  EXPECT_ERROR(ValueError, call({dot, {0}, {2}}), "4", "2", "as many");
  EXPECT_ERROR(ValueError, call({dot, {0}, {3}}), "rhs_group_dimensions = 3");
  EXPECT_ERROR(ValueError, call({{{5}, {1}}, {0}, {0}}), "lhs_contracting = 5");
  EXPECT_ERROR(ValueError, call({{{1}, {}}, {0}, {0}}), "rhs_contracting = ()");
  EXPECT_ERROR(ValueError, lax::ragged_dot_general(x, y, array({{2, 4}}), kRows), "(1, 2)", "[g]");
  EXPECT_ERROR(ValueError, lax::ragged_dot_general(x, y, array(2), kRows), "group_sizes", "[g]");
  EXPECT_ERROR(TypeError, lax::ragged_dot_general(x, y, zeros({2}), kRows), "group_sizes", "float32", "integers");
}

TEST(RaggedDot, IsReadFromStableHlo) {
  const std::string text = R"(
module @m {
  func.func public @main(%a: tensor<2x6x3xf32>, %b: tensor<3x2x3x4xf32>, %n: tensor<2x3xi32>, %c: tensor<6x3xf32>,
                         %d: tensor<6x4xf32>, %k: tensor<3xi32>) -> (tensor<2x6x4xf32>, tensor<3x3x4xf32>) {
    %0 = "chlo.ragged_dot"(%a, %b, %n) <{precision_config = [#chlo<precision DEFAULT>, #chlo<precision DEFAULT>], ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [1], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [2], lhs_ragged_dimensions = [1], rhs_group_dimensions = [0]>}> : (tensor<2x6x3xf32>, tensor<3x2x3x4xf32>, tensor<2x3xi32>) -> tensor<2x6x4xf32>
    %1 = "chlo.ragged_dot"(%c, %d, %k) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0], lhs_ragged_dimensions = [0]>}> : (tensor<6x3xf32>, tensor<6x4xf32>, tensor<3xi32>) -> tensor<3x3x4xf32>
    return %0, %1 : tensor<2x6x4xf32>, tensor<3x3x4xf32>
  }
})";
  const Array a = numbers({2, 6, 3}, 0.3), b = numbers({3, 2, 3, 4}, 0.7), c = numbers({6, 3}, 0.2);
  const Array d = numbers({6, 4}, 0.5), n = array({{1, 2, 3}, {0, 4, 1}}), k = array({3, 1, 1});
  const auto out = StablehloProgram::parse(text)({a, b, n, c, d, k});
  expect_close(out[0], lax::ragged_dot_general(a, b, n, {{{2}, {2}, {0}, {1}}, {1}, {0}}));
  expect_close(out[1], lax::ragged_dot_general(c, d, k, kSums));
}

}  // namespace
}  // namespace tessera
