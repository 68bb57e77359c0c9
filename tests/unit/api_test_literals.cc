// SPDX-License-Identifier: Apache-2.0
// Array literals and the call operator, against what NumPy and JAX give.
#include <gtest/gtest.h>

#include <vector>

#include "support/meshes.h"
#include "tessera/tessera.h"

namespace tessera {
namespace {

using Ints = std::vector<std::int32_t>;
using Floats = std::vector<float>;

TEST(Literals, ShapesAndDtypes) {
  EXPECT_EQ(array({{1, 2}, {3, 4}}).to_vector<std::int32_t>(), (Ints{1, 2, 3, 4}));
  EXPECT_EQ(array({{1, 2}, {3, 4}}).shape(), (Shape{2, 2}));
  EXPECT_EQ(array({1.0, 2.5}).to_vector<float>(), (Floats{1, 2.5}));
  EXPECT_EQ(array({1, 2.5}).dtype(), float32);
  EXPECT_EQ(array({true, false}).dtype(), bool_);
  EXPECT_EQ(array({true, 2}).to_vector<std::int32_t>(), (Ints{1, 2}));
  EXPECT_EQ(array(3).shape(), Shape{});
  EXPECT_EQ(array(3.0).dtype(), float32);
  EXPECT_FALSE(array(3.0).weak_type());
  EXPECT_EQ(array({{{{1}, {2}}, {{3}, {4}}}}).shape(), (Shape{1, 2, 2, 1}));
  EXPECT_EQ(array({{{{{1, 2}}}}}).shape(), (Shape{1, 1, 1, 1, 2}));
  EXPECT_EQ(array({1}).shape(), Shape{1});
  EXPECT_EQ(array({{1}}).shape(), (Shape{1, 1}));
  EXPECT_EQ(array({}).shape(), Shape{0});
  EXPECT_EQ(array({{1, 2}, {3, 4}}, float64).to_vector<double>(), (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(array({0.1}, float64).item<double>(), 0.1);
  EXPECT_EQ(array({3000000000}).dtype(), int64);
  EXPECT_EQ(array({std::uint8_t{1}, std::uint8_t{2}}).dtype(), uint8);
  EXPECT_EQ(array({bfloat16_t(1)}).dtype(), bfloat16);
  EXPECT_EQ(array({complex64_t(1, 2), complex64_t(3)}).dtype(), complex64);
}

TEST(Literals, VectorsAndArrays) {
  EXPECT_EQ(array(std::vector<double>{1, 2}).dtype(), float32);
  EXPECT_EQ(array(std::vector<Ints>{{1, 2}, {3, 4}}).shape(), (Shape{2, 2}));
  EXPECT_EQ(array({Ints{1, 2}, Ints{3, 4}}).to_vector<std::int32_t>(), (Ints{1, 2, 3, 4}));
  Array a = ones({2});
  EXPECT_EQ(array({a, a * 2}).to_vector<float>(), (Floats{1, 1, 2, 2}));
  EXPECT_EQ(jit([](Array v) { return array({v, v + 1}); })(Array(1)).to_vector<std::int32_t>(), (Ints{1, 2}));
}

TEST(Literals, RaggedListsAreRefused) {
  std::string message = test::error_of<ValueError>([] { array({{1, 2}, {3}}); });
  EXPECT_NE(message.find("element [1] has shape (1,); expected that of element [0], (2,)"), std::string::npos)
      << message;
  message = test::error_of<ValueError>([] { array({{{1}, {2}}, {{3}, {4, 5}}}); });
  EXPECT_NE(message.find("element [1][1]"), std::string::npos) << message;
  EXPECT_THROW(array({1, {2}}), ValueError);
}

TEST(CallOperator, IsNumpysIndexing) {
  Array x = reshape(arange(60), {3, 4, 5});
  EXPECT_EQ(x(0, span(1, 3)).shape(), (Shape{2, 5}));
  EXPECT_EQ(x(0, span(1, 3)).to_vector<std::int32_t>(), index(x, {0, span(1, 3)}).to_vector<std::int32_t>());
  EXPECT_EQ(x(-1, -1, -1).item<int>(), 59);
  EXPECT_EQ(x(ellipsis, 0).shape(), (Shape{3, 4}));
  EXPECT_EQ(x(span(), newaxis, 2).shape(), (Shape{3, 1, 5}));
  EXPECT_EQ(x(none, 0).shape(), (Shape{1, 4, 5}));
  EXPECT_EQ(x(0, 0, span({}, {}, -2)).to_vector<std::int32_t>(), (Ints{4, 2, 0}));
  EXPECT_EQ(x(array({2, 0}), 0, 0).to_vector<std::int32_t>(), (Ints{40, 0}));
  EXPECT_EQ(x({2, 0}, 0, 0).to_vector<std::int32_t>(), (Ints{40, 0}));
  EXPECT_EQ(x(x > 57).to_vector<std::int32_t>(), (Ints{58, 59}));
  std::size_t i = 1;
  EXPECT_EQ(x(i).shape(), (Shape{4, 5}));
  for (int k = 0; k < 3; ++k) EXPECT_EQ(x(k, 0, 0).item<int>(), 20 * k);
  EXPECT_THROW(x(3), IndexError);
  EXPECT_THROW(x(0, 0, 0, 0), IndexError);
  EXPECT_EQ(jit([](Array v) { return v(1, span(2, 4)); })(x).shape(), (Shape{2, 5}));
  EXPECT_EQ(grad([](Array v) { return v(1) * v(2); })(array({2.0, 3.0, 4.0})).to_vector<float>(), (Floats{0, 4, 3}));
}

// An array can be called, and yet it is no function where one is expected.
static_assert(!std::is_constructible_v<Piece, Array>);

}  // namespace
}  // namespace tessera
