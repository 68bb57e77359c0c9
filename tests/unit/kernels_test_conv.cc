// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <random>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "engines/cpu/kernels/products/conv_loops.h"

namespace tessera::kernels {
namespace {

using Dims = std::vector<std::int64_t>;

std::int64_t product(const Dims& d) {
  std::int64_t n = 1;
  for (auto e : d) n *= e;
  return n;
}

template <class T>
std::vector<T> values(std::int64_t n, unsigned seed) {
  std::mt19937 rng(seed);
  std::vector<T> v(static_cast<std::size_t>(n));
  for (auto& x : v) x = T(static_cast<float>(static_cast<int>(rng() % 17) - 8) / (std::is_integral_v<T> ? 1.0f : 8.0f));
  return v;
}

// What the output extents must be.
void complete(ConvSpec& s, std::int64_t features) {
  std::size_t rank = s.lhs.spatial.size();
  s.out_shape.assign(rank + 2, 0);
  s.out_shape[static_cast<std::size_t>(s.out.batch)] =
      s.lhs_shape[static_cast<std::size_t>(s.lhs.batch)] / s.batch_groups;
  s.out_shape[static_cast<std::size_t>(s.out.feature)] = features;
  for (std::size_t d = 0; d < rank; ++d) {
    std::int64_t in = s.lhs_shape[static_cast<std::size_t>(s.lhs.spatial[d])];
    std::int64_t wide = in == 0 ? 0 : (in - 1) * s.lhs_dilation[d] + 1;
    std::int64_t reach = (s.rhs_shape[static_cast<std::size_t>(s.rhs.spatial[d])] - 1) * s.rhs_dilation[d] + 1;
    s.out_shape[static_cast<std::size_t>(s.out.spatial[d])] =
        std::max<std::int64_t>(0, (wide + s.pad_low[d] + s.pad_high[d] - reach) / s.strides[d] + 1);
  }
}

struct Walk {
  Dims shape, index;
  explicit Walk(Dims s) : shape(std::move(s)), index(shape.size(), 0) {}
  bool next() {
    for (std::size_t i = shape.size(); i-- > 0;) {
      if (++index[i] < shape[i]) return true;
      index[i] = 0;
    }
    return false;
  }
};

std::size_t offset(const Dims& shape, const Dims& index) {
  std::int64_t o = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) o = o * shape[i] + index[i];
  return static_cast<std::size_t>(o);
}

// The definition, term by term.
template <class T, class Sum>
void check(ConvSpec s, double tolerance) {
  s.dtype = dtype_of<T>();
  auto lhs = values<T>(product(s.lhs_shape), 1), rhs = values<T>(product(s.rhs_shape), 2);
  std::vector<T> got(static_cast<std::size_t>(product(s.out_shape)), T(99.0f));
  conv(s, lhs.data(), rhs.data(), got.data());
  std::int64_t features = s.out_shape[static_cast<std::size_t>(s.out.feature)];
  std::int64_t per_group = s.rhs_shape[static_cast<std::size_t>(s.rhs.feature)];
  std::size_t rank = s.lhs.spatial.size();
  Dims kernel;
  for (auto d : s.rhs.spatial) kernel.push_back(s.rhs_shape[static_cast<std::size_t>(d)]);
  Walk o(s.out_shape);
  if (got.empty()) return;
  do {
    std::int64_t f = o.index[static_cast<std::size_t>(s.out.feature)],
                 b = o.index[static_cast<std::size_t>(s.out.batch)];
    std::int64_t group = f / (features / std::max(s.feature_groups, s.batch_groups));
    Sum want{};
    Walk k(kernel);
    do {
      Dims l(rank + 2), r(rank + 2);
      bool inside = true;
      for (std::size_t d = 0; d < rank; ++d) {
        std::int64_t at = o.index[static_cast<std::size_t>(s.out.spatial[d])] * s.strides[d] - s.pad_low[d] +
                          k.index[d] * s.rhs_dilation[d];
        inside &= at >= 0 && at % s.lhs_dilation[d] == 0 &&
                  at / s.lhs_dilation[d] < s.lhs_shape[static_cast<std::size_t>(s.lhs.spatial[d])];
        l[static_cast<std::size_t>(s.lhs.spatial[d])] = at / s.lhs_dilation[d];
        r[static_cast<std::size_t>(s.rhs.spatial[d])] = k.index[d];
      }
      if (!inside) continue;
      l[static_cast<std::size_t>(s.lhs.batch)] =
          s.batch_groups > 1 ? group * s.out_shape[static_cast<std::size_t>(s.out.batch)] + b : b;
      r[static_cast<std::size_t>(s.rhs.batch)] = f;
      for (std::int64_t c = 0; c < per_group; ++c) {
        l[static_cast<std::size_t>(s.lhs.feature)] = s.feature_groups > 1 ? group * per_group + c : c;
        r[static_cast<std::size_t>(s.rhs.feature)] = c;
        want += static_cast<Sum>(lhs[offset(s.lhs_shape, l)]) * static_cast<Sum>(rhs[offset(s.rhs_shape, r)]);
      }
    } while (k.next());
    T g = got[offset(s.out_shape, o.index)];
    ASSERT_LE(std::abs(static_cast<Sum>(g) - want), tolerance * (1 + std::abs(want)))
        << dtype_name(s.dtype) << " rank " << rank << " groups " << s.feature_groups << "/" << s.batch_groups;
  } while (o.next());
}

ConvSpec nhwc(Dims lhs, Dims kernel, std::int64_t features, std::int64_t groups = 1) {
  ConvSpec s;
  auto rank = static_cast<std::int64_t>(lhs.size()) - 2;
  s.lhs_shape = lhs;
  s.rhs_shape = kernel;
  s.rhs_shape.insert(s.rhs_shape.end(), {lhs.back() / groups, features});
  s.lhs.batch = s.out.batch = 0;
  s.lhs.feature = s.out.feature = rank + 1;
  s.rhs.feature = rank;
  s.rhs.batch = rank + 1;
  for (std::int64_t d = 0; d < rank; ++d) {
    s.lhs.spatial.push_back(d + 1);
    s.out.spatial.push_back(d + 1);
    s.rhs.spatial.push_back(d);
  }
  auto n = static_cast<std::size_t>(rank);
  s.strides = s.lhs_dilation = s.rhs_dilation = Dims(n, 1);
  s.pad_low = s.pad_high = Dims(n, 0);
  s.feature_groups = groups;
  complete(s, features);
  return s;
}

template <class T, class Sum>
void check_kinds(double tolerance) {
  auto padded = [](ConvSpec s, Dims low, Dims high) {
    s.pad_low = low;
    s.pad_high = high;
    complete(s, s.rhs_shape[static_cast<std::size_t>(s.rhs.batch)]);
    return s;
  };
  check<T, Sum>(padded(nhwc({3, 9, 8, 5}, {3, 3}, 7), {1, 1}, {1, 1}), tolerance);
  check<T, Sum>(padded(nhwc({1, 12, 6, 4}, {4, 2}, 3), {2, 0}, {0, 1}), tolerance);
  check<T, Sum>(nhwc({2, 20, 6}, {5}, 4), tolerance);
  check<T, Sum>(nhwc({2, 5, 6, 4, 3}, {2, 3, 2}, 4), tolerance);
  check<T, Sum>(nhwc({2, 6}, {}, 4), tolerance);  // no spatial dim: a matrix product
  auto strided = padded(nhwc({2, 11, 13, 4}, {3, 2}, 6), {2, 1}, {0, 2});
  strided.strides = {2, 3};
  strided.rhs_dilation = {2, 1};
  complete(strided, 6);
  check<T, Sum>(strided, tolerance);
  auto transposed = padded(nhwc({2, 5, 4, 3}, {3, 3}, 4), {2, 1}, {1, 2});
  transposed.lhs_dilation = {2, 3};
  complete(transposed, 4);
  check<T, Sum>(transposed, tolerance);
  auto negative = padded(nhwc({1, 8, 9, 2}, {3, 3}, 2), {-1, 1}, {1, -2});
  check<T, Sum>(negative, tolerance);
  check<T, Sum>(padded(nhwc({2, 7, 6, 8}, {3, 3}, 12, 4), {1, 0}, {1, 2}), tolerance);  // grouped
  check<T, Sum>(nhwc({2, 6, 6, 8}, {3, 3}, 8, 8), tolerance);                           // depthwise
  auto batch = nhwc({6, 5, 5, 4}, {2, 2}, 9);
  batch.batch_groups = 3;
  complete(batch, 9);
  check<T, Sum>(batch, tolerance);
  check<T, Sum>(nhwc({4, 18, 17, 3}, {17, 16}, 5), tolerance);  // a kernel as large as the image
  ConvSpec nchw = nhwc({2, 6, 9, 10}, {1, 1}, 4);
  nchw.lhs_shape = {2, 6, 9, 10};
  nchw.rhs_shape = {4, 6, 3, 2};
  nchw.lhs = nchw.out = {0, 1, {2, 3}};
  nchw.rhs = {0, 1, {2, 3}};
  nchw.pad_low = {1, 0};
  complete(nchw, 4);
  check<T, Sum>(nchw, tolerance);
  ConvSpec odd = nchw;  // dims in an order of no name
  odd.lhs_shape = {9, 2, 10, 6};
  odd.lhs = {1, 3, {0, 2}};
  odd.rhs_shape = {6, 3, 4, 2};
  odd.rhs = {2, 0, {1, 3}};
  odd.out = {3, 0, {2, 1}};
  complete(odd, 4);
  check<T, Sum>(odd, tolerance);
}

TEST(Conv, Float32) { check_kinds<float, double>(1e-6); }
TEST(Conv, BFloat16) { check_kinds<bfloat16_t, float>(5e-3); }
TEST(Conv, Float64) { check_kinds<double, double>(1e-14); }
TEST(Conv, Float16AndIntegers) {
  check_kinds<float16_t, float>(1e-3);
  check_kinds<std::int32_t, std::int64_t>(0);
}
TEST(Conv, LargeEnoughToBeSplit) {
  auto s = nhwc({8, 24, 24, 16}, {3, 3}, 32);
  s.pad_low = s.pad_high = {1, 1};
  complete(s, 32);
  check<float, double>(s, 1e-5);
  auto one = nhwc({1, 64, 40, 16}, {5, 3}, 16);  // one image: rows are shared out
  one.pad_low = {2, 1};
  one.pad_high = {2, 1};
  one.strides = {2, 1};
  complete(one, 16);
  check<float, double>(one, 1e-5);
  one.allow_winograd = true;
  check<float, double>(one, 1e-4);
}
// One image's rows shared out among threads meet the same code as all of them on one thread: oneDNN has none for some
// strides but a reference, whose sums have another order, and which takes a hundred times as long.
TEST(Conv, GivesTheSameBitsToAnyTeam) {
  for (std::int64_t channels : {16, 64}) {
    auto s = nhwc({2, 32, 32, channels}, {3, 3}, channels);
    s.pad_low = s.pad_high = {1, 1};
    complete(s, channels);
    auto lhs = values<float>(product(s.lhs_shape), 1);
    auto rhs = values<float>(product(s.rhs_shape), 2);
    for (float& v : lhs) v *= 0.1F;
    for (float& v : rhs) v *= 0.3F;
    std::vector<float> shared_out(static_cast<std::size_t>(product(s.out_shape)));
    conv(s, lhs.data(), rhs.data(), shared_out.data());
    std::vector<float> alone(shared_out.size());
    base::parallel_for(4L * base::num_threads(), 1, [&](std::int64_t begin, std::int64_t) {
      if (begin == 0) conv(s, lhs.data(), rhs.data(), alone.data());
    });
    EXPECT_EQ(shared_out, alone) << channels;
  }
}

TEST(Conv, EmptyInputGivesZeros) {
  auto s = nhwc({1, 0, 3}, {1}, 2);
  s.pad_low = {2};
  complete(s, 2);
  std::vector<float> out(static_cast<std::size_t>(product(s.out_shape)), 5.0f);
  ASSERT_FALSE(out.empty());
  conv(s, nullptr, nullptr, out.data());
  for (float v : out) EXPECT_EQ(v, 0.0f);
}

}  // namespace
}  // namespace tessera::kernels
