// SPDX-License-Identifier: Apache-2.0
// Second names mean the same, and axes are written as in NumPy.
#include <gtest/gtest.h>

#include <set>

#include "tessera/tessera.h"

namespace tessera {
namespace {

Array floats(const std::vector<float>& v) { return Array(HostArray::from(v)); }
void same(const Array& a, const Array& b, const char* what) {
  EXPECT_EQ(a.dtype(), b.dtype()) << what;
  EXPECT_TRUE(bool(array_equal(a, b, true))) << what << ": " << a << " and " << b;
}

TEST(Names, MeanWhatTheFirstOnesMean) {
  Array x = floats({-0.75, 0.25, 0.5});
  Array y = floats({0.5, 0.25, -1});
  Array i = Array(HostArray::from(std::vector<std::int32_t>{1, 6, 3}));
  same(absolute(x), abs(x), "absolute");
  same(acos(x), arccos(x), "acos");
  same(asin(x), arcsin(x), "asin");
  same(atan(x), arctan(x), "atan");
  same(acosh(x + 3), arccosh(x + 3), "acosh");
  same(asinh(x), arcsinh(x), "asinh");
  same(atanh(x), arctanh(x), "atanh");
  same(atan2(y, x), arctan2(y, x), "atan2");
  same(amax(x), max(x), "amax");
  same(amin(x), min(x), "amin");
  same(around(x, 1), round(x, 1), "around");
  same(invert(i), ~i, "invert");
  same(bitwise_invert(i), ~i, "bitwise_invert");
  same(bitwise_left_shift(i, i), left_shift(i, i), "bitwise_left_shift");
  same(bitwise_right_shift(i, i), right_shift(i, i), "bitwise_right_shift");
  same(concat({x, y}), concatenate({x, y}), "concat");
  same(conjugate(x), conj(x), "conjugate");
  same(equal(x, y), x == y, "equal");
  same(not_equal(x, y), x != y, "not_equal");
  same(less(x, y), x < y, "less");
  same(less_equal(x, y), x <= y, "less_equal");
  same(greater(x, y), x > y, "greater");
  same(greater_equal(x, y), x >= y, "greater_equal");
  same(mod(x, y), remainder(x, y), "mod");
  same(pow(y, 2), power(y, 2), "pow");
  same(true_divide(i, i), divide(i, i), "true_divide");
  same(lax::eq(x, y), x == y, "lax::eq");
  same(lax::ne(x, y), x != y, "lax::ne");
  same(lax::lt(x, y), x < y, "lax::lt");
  same(lax::le(x, y), x <= y, "lax::le");
  same(lax::gt(x, y), x > y, "lax::gt");
  same(lax::ge(x, y), x >= y, "lax::ge");
  same(lax::sub(x, y), x - y, "lax::sub");
  same(lax::mul(x, y), x * y, "lax::mul");
  same(lax::neg(x), -x, "lax::neg");
  same(lax::max(x, y), maximum(x, y), "lax::max");
  same(lax::min(x, y), minimum(x, y), "lax::min");
  same(lax::is_finite(x), isfinite(x), "lax::is_finite");
  same(lax::convert_element_type(x, int32), astype(x, int32), "lax::convert_element_type");
  same(special::erfinv(x), erf_inv(x), "special::erfinv");
  same(random::PRNGKey(3), random::key(3), "PRNGKey");
  same(random::wrap_key_data(random::key_data(random::key(3))), random::key(3), "key_data");
  same(unique_values(i), unique(i), "unique_values");
  same(unique_counts(i).second, unique_all(i).counts, "unique_counts");
  same(unique_inverse(i).second, unique_all(i).inverse, "unique_inverse");
  EXPECT_EQ(broadcast_shapes({{3, 1}, {4}, {}}), (Shape{3, 4}));
  EXPECT_THROW(broadcast_shapes({{3}, {4}}), ValueError);
}

TEST(Names, AxesAreNumbersOrLists) {
  Array x = reshape(arange(24.0), {2, 3, 4});
  EXPECT_EQ(sum(x, {.axis = 1}).shape(), (Shape{2, 4}));
  EXPECT_EQ(sum(x, {.axis = {0, -1}}).shape(), (Shape{3}));
  EXPECT_EQ(sum(x, {.axis = {}}).shape(), Shape{});
  EXPECT_EQ(sum(x, {.axis = Dims{}}).shape(), x.shape());
  EXPECT_EQ(sum(x).shape(), Shape{});
  same(sum(x, 1), sum(x, {.axis = 1}), "sum");
  same(mean(x, -1), mean(x, {.axis = 2}), "mean");
  same(max(x, 0), max(x, {.axis = 0}), "max");
  same(var(x, 0), var(x, {.axis = 0}), "var");
  same(any(x > 3, 0), any(x > 3, {.axis = 0}), "any");
  same(nn::logsumexp(x, 0), logsumexp(x, {.axis = 0}), "logsumexp");
  same(flip(x, 0), flip(x, {0}), "flip");
  EXPECT_EQ(squeeze(sum(x, {.axis = 2, .keepdims = true}), {2}).shape(), (Shape{2, 3}));
  EXPECT_EQ(squeeze(zeros({1, 2, 1})).shape(), (Shape{2}));
  EXPECT_EQ(expand_dims(x, 0).shape(), (Shape{1, 2, 3, 4}));
  EXPECT_EQ(expand_dims(x, {0, 2}).shape(), (Shape{1, 2, 1, 3, 4}));
  EXPECT_EQ(moveaxis(x, 0, -1).shape(), (Shape{3, 4, 2}));
  EXPECT_EQ(tile(x, 2).shape(), (Shape{2, 3, 8}));
  EXPECT_EQ(random::beta(random::key(0), 2.0, 3.0, {4}).shape(), (Shape{4}));
  EXPECT_EQ(random::bernoulli(random::key(0), 0.5, {2, 2}).shape(), (Shape{2, 2}));
  same(index(x, {0, Slice{1, 3}}), index(x, {0, span(1, 3)}), "a slice as an index");
}

TEST(Names, MovesBetweenHostAndDevices) {
  ClientScope scope(Client::cpu({.devices = 4}));
  EXPECT_EQ(device_count(), 4);
  EXPECT_EQ(local_device_count(), 4);
  std::vector<Device> two(devices().begin(), devices().begin() + 2);
  Array stacked = device_put_sharded({ones({3}), zeros({3})}, two);
  EXPECT_EQ(stacked.shape(), (Shape{2, 3}));
  EXPECT_EQ(stacked.sharding()->kind(), "PmapSharding");
  EXPECT_EQ(stacked.to_vector<float>(), (std::vector<float>{1, 1, 1, 0, 0, 0}));
  EXPECT_EQ(device_put_replicated(ones({3}), two).to_vector<float>(), std::vector<float>(6, 1));
  EXPECT_THROW(device_put_sharded({ones({3})}, two), ValueError);
  EXPECT_THROW(device_put_sharded({ones({3}), ones({2})}, two), ValueError);

  std::pair<Array, std::vector<Array>> tree{ones({2}), {arange(2.0), zeros({})}};
  EXPECT_EQ(&block_until_ready(tree), &tree);
  EXPECT_EQ(device_get(tree.second)[0].to_vector<float>(), (std::vector<float>{0, 1}));
  EXPECT_EQ(tree_reduce([](std::int64_t n, const Array& a) { return n + a.size(); }, tree, std::int64_t{0}), 5);
  EXPECT_TRUE(tree_all(std::pair(Array(1), Array(2))));
  EXPECT_FALSE(tree_all(std::pair(Array(1), Array(0))));

  ShardingPtr split = NamedSharding(make_mesh({4}, {"x"}), P("x")).share();
  Array x = arange(8.0);
  EXPECT_TRUE(reshard(x, split).sharding()->is_equivalent_to(*split, 1));
  EXPECT_TRUE(jit([&](const Array& v) { return reshard(v + 1, split); })(x).sharding()->is_equivalent_to(*split, 1));

  auto doubled = linear_transpose([](const Array& v) { return 2 * sum(v); }, ones({3}));
  same(std::get<0>(doubled(Array(HostArray::scalar(1.5F)))), full({3}, 3.0F), "linear_transpose");
  same(grad(remat([](const Array& v) { return sum(sin(v)); }))(x), cos(x), "remat");
}

TEST(Names, InitializersSayWhatIsWrong) {
  Array key = random::key(0);
  EXPECT_THROW(nn::initializers::he_normal()(key, {3}), IndexError);
  EXPECT_THROW(nn::initializers::orthogonal()(key, {3}), ValueError);
  EXPECT_THROW(nn::initializers::delta_orthogonal()(key, {3, 3}), ValueError);
  EXPECT_THROW(nn::initializers::delta_orthogonal()(key, {3, 4, 2}), ValueError);
  same(nn::initializers::zeros()(key, {2}), zeros({2}), "zeros");
  same(nn::initializers::ones()(key, {2}), ones({2}), "ones");
  same(nn::initializers::constant(2)(key, {2}, bfloat16), full({2}, 2, bfloat16), "constant");
}

}  // namespace
}  // namespace tessera
