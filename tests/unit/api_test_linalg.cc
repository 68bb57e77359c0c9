// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "tessera/tessera.h"

namespace tessera {
namespace {

using Vec = std::vector<float>;

void near(const Array& a, const Array& b, float tolerance) {
  ASSERT_EQ(a.shape(), b.shape());
  Vec x = a.to_vector<float>();
  Vec y = b.to_vector<float>();
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], y[i], tolerance) << i;
}

TEST(Linalg, FactorsGiveTheMatrixBack) {
  Array a = random::normal(random::key(1), {2, 4, 4});
  Array spd = matmul(a, swapaxes(a, -1, -2)) + 4.0 * eye(4);
  Array l = linalg::cholesky(spd);
  near(matmul(l, swapaxes(l, -1, -2)), spd, 1e-4F);
  auto [q, r] = linalg::qr(a);
  near(matmul(q, r), a, 1e-5F);
  auto [values, vectors] = linalg::eigh(spd);
  near(matmul(vectors * expand_dims(values, {1}), swapaxes(vectors, -1, -2)), spd, 1e-4F);
  auto [u, s, vh] = linalg::svd(a, false);
  near(matmul(u * expand_dims(s, {1}), vh), a, 1e-5F);
  near(matmul(a, linalg::inv(a)), broadcast_to(eye(4), {2, 4, 4}), 1e-4F);
  Array d = linalg::det(a);
  auto [sign, size] = linalg::slogdet(a);
  near(sign * exp(size), d, 1e-4F);
}

TEST(Linalg, HessenbergFormIsUnitarilySimilar) {
  Array a = random::normal(random::key(5), {8, 4, 4});
  auto similar = [](const Array& m) {
    auto r = linalg::hessenberg(m, true);
    return std::pair(matmul(matmul(*r.q, r.h), swapaxes(*r.q, -1, -2)), matmul(*r.q, swapaxes(*r.q, -1, -2)));
  };
  auto [back, unit] = similar(a);
  near(back, a, 1e-5F);
  near(unit, broadcast_to(eye(4), {8, 4, 4}), 1e-5F);
  EXPECT_FALSE(linalg::hessenberg(a).q);
  near(triu(linalg::hessenberg(a).h, -1), linalg::hessenberg(a).h, 0);
  near(vmap([](Array m) { return linalg::hessenberg(m).h; })(a), linalg::hessenberg(a).h, 0);

  EXPECT_THROW(grad([](Array m) { return sum(linalg::hessenberg(m).h); })(a), UnimplementedError);
  EXPECT_THROW(linalg::hessenberg(ones({3, 4})), ValueError);
  EXPECT_THROW(linalg::householder_product(ones({3, 4}), ones({2})), ValueError);
}

TEST(Linalg, HessenbergFormsOfASplitBatchCommunicateNothing) {
  Client client = Client::cpu({.devices = 8});
  ClientScope scope(client);
  Array a = random::normal(random::key(5), {8, 4, 4});
  Mesh mesh = make_mesh({8}, {"x"});
  Array split = device_put(a, NamedSharding(mesh, P("x")));
  auto f = jit([](Array m) { return *linalg::hessenberg(m, true).q; });
  near(f(split), *linalg::hessenberg(a, true).q, 1e-6F);
  EXPECT_TRUE(f(split).sharding()->is_equivalent_to(*split.sharding(), 3));
  EXPECT_TRUE(f.comm_plan(split).empty()) << to_string(f.comm_plan(split));
}

TEST(Linalg, SolveAndItsGradient) {
  Array a(HostArray::from(Vec{4, 1, 2, 3}, {2, 2}));
  Array b(HostArray::from(Vec{1, 2}));
  Array x = linalg::solve(a, b);
  near(matmul(a, x), b, 1e-6F);
  // d sum(x) / d b = inverse(a)^T 1.
  near(grad([&](Array v) { return sum(linalg::solve(a, v)); })(b), sum(linalg::inv(a), 0), 1e-6F);
}

TEST(Fft, AgreesWithTheDefinition) {
  Array x(HostArray::from(Vec{1, 2, 3, 4, 5, 6}));
  Array y = fft::fft(x);
  EXPECT_EQ(y.dtype(), complex64);
  for (int k = 0; k < 6; ++k) {
    std::complex<double> want = 0;
    for (int n = 0; n < 6; ++n) want += static_cast<double>(n + 1) * std::polar(1.0, -2 * M_PI * k * n / 6);
    EXPECT_LT(std::abs(std::complex<double>(y.to_vector<complex64_t>()[static_cast<std::size_t>(k)]) - want), 1e-4);
  }
  near(real(fft::ifft(y)), x, 1e-5F);
  near(fft::irfft(fft::rfft(x)), x, 1e-5F);
}

TEST(Conv, SameAsShiftedProducts) {
  Array x = random::normal(random::key(2), {2, 5, 6, 3});
  Array w = random::normal(random::key(3), {3, 3, 3, 4});
  Array y =
      lax::conv_general_dilated(x, w, {.pad_mode = lax::PadMode::Same, .dimension_numbers = {"NHWC", "HWIO", "NHWC"}});
  Array padded = lax::pad(x, 0.0, {{}, {1, 1}, {1, 1}, {}});
  Array sum_of = zeros({2, 5, 6, 4});
  for (std::int64_t i = 0; i < 3; ++i) {
    for (std::int64_t j = 0; j < 3; ++j) {
      sum_of = sum_of + matmul(lax::slice(padded, {0, i, j, 0}, {2, i + 5, j + 6, 3}),
                               index(w, {static_cast<int>(i), static_cast<int>(j)}));
    }
  }
  near(y, sum_of, 1e-4F);
  EXPECT_THROW(lax::conv_general_dilated(x, w, {.dimension_numbers = {"NHWC", "HWIO", "NHWX"}}), ValueError);
}

}  // namespace
}  // namespace tessera
