// SPDX-License-Identifier: Apache-2.0
// Special functions against Boost.Math's, which are computed here in long double: another author, other methods.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/math/special_functions/bessel.hpp>
#include <boost/math/special_functions/beta.hpp>
#include <boost/math/special_functions/digamma.hpp>
#include <boost/math/special_functions/erf.hpp>
#include <boost/math/special_functions/gamma.hpp>
#include <boost/math/special_functions/polygamma.hpp>
#include <boost/math/special_functions/zeta.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "core/special_values.h"

namespace tessera::core {
namespace {

namespace bm = boost::math;
using Exact = long double;

/// Units in the last place of `want`; of one where it is smaller and the function crosses zero.
double ulps(double got, Exact want, bool near_zero) {
  auto rounded = static_cast<double>(want);
  if (got == rounded || (std::isnan(got) && std::isnan(rounded))) return 0;
  int power = 0;
  std::frexp(near_zero ? std::max(std::abs(rounded), 1.0) : std::abs(rounded), &power);
  double off = static_cast<double>(std::abs(got - want) / std::ldexp(Exact{1}, std::max(power - 53, -1074)));
  return std::isnan(off) ? std::numeric_limits<double>::infinity() : off;
}

class AgainstBoost : public ::testing::Test {
 protected:
  double between(double low, double high) { return std::uniform_real_distribution<double>(low, high)(random_); }
  /// Of all magnitudes between.
  double scaled(double low, double high) { return std::exp(between(std::log(low), std::log(high))); }

  struct Point {
    double a = 0, b = 0, c = 0;
  };
  /// The error of `got` at random points, at most `most` units.
  void agree(const char* what, double most, const std::function<Point()>& point,
             const std::function<double(const Point&)>& got, const std::function<Exact(const Point&)>& want,
             bool near_zero = false) {
    constexpr int kPoints = 2000;
    double worst = 0;
    Point at;
    for (int i = 0; i < kPoints; ++i) {
      Point p = point();
      double off = ulps(got(p), want(p), near_zero);
      if (off > worst) worst = off, at = p;
    }
    EXPECT_LE(worst, most) << what << " at " << ::testing::PrintToString(at.a) << ", " << ::testing::PrintToString(at.b)
                           << ", " << ::testing::PrintToString(at.c);
  }

 private:
  std::mt19937_64 random_{20};
};

TEST_F(AgainstBoost, Gamma) {
  auto lgamma_here = [](const Point& p) { return log_gamma(p.a); };
  auto lgamma_boost = [](const Point& p) { return bm::lgamma(Exact{p.a}); };
  auto digamma_here = [](const Point& p) { return digamma(p.a); };
  auto digamma_boost = [](const Point& p) { return bm::digamma(Exact{p.a}); };
  auto positive = [&] { return Point{scaled(1e-8, 1e8)}; };
  auto negative = [&] { return Point{-scaled(1e-3, 100)}; };
  agree("log_gamma", 4, positive, lgamma_here, lgamma_boost);
  agree("log_gamma of negative numbers", 8, negative, lgamma_here, lgamma_boost, true);
  agree("digamma", 8, positive, digamma_here, digamma_boost, true);
  agree("digamma of negative numbers", 64, negative, digamma_here, digamma_boost, true);
}

TEST_F(AgainstBoost, PolygammaAndZeta) {
  auto order = [&] { return std::floor(between(1, 13)); };
  agree(
      "polygamma", 24,
      [&] {
        return Point{order(), scaled(1e-2, 1e3)};
      },
      [](const Point& p) { return polygamma(p.a, p.b); },
      [](const Point& p) { return bm::polygamma(static_cast<int>(p.a), Exact{p.b}); });
  agree(
      "zeta", 16, [&] { return Point{1 + scaled(1e-6, 60)}; }, [](const Point& p) { return zeta(p.a, 1); },
      [](const Point& p) { return bm::zeta(Exact{p.a}); });
  // Hurwitz's zeta at integers is a polygamma; gamma(s) of an integer is exact enough.
  agree(
      "zeta of two numbers", 24,
      [&] {
        return Point{order() + 1, scaled(1e-2, 1e3)};
      },
      [](const Point& p) { return zeta(p.a, p.b); },
      [](const Point& p) {
        int n = static_cast<int>(p.a) - 1;
        return (n % 2 == 0 ? -1 : 1) * bm::polygamma(n, Exact{p.b}) / bm::tgamma(Exact{p.a});
      });
}

TEST_F(AgainstBoost, InverseOfErf) {
  auto here = [](const Point& p) { return erf_inv(p.a); };
  auto boost = [](const Point& p) { return bm::erf_inv(Exact{p.a}); };
  agree(
      "erf_inv", 3, [&] { return Point{between(-1, 1)}; }, here, boost);
  agree(
      "erf_inv near one", 3, [&] { return Point{1 - scaled(1e-15, 0.1)}; }, here, boost);
  agree(
      "erf_inv near zero", 3, [&] { return Point{scaled(1e-300, 0.1)}; }, here, boost);
}

TEST_F(AgainstBoost, Bessel) {
  auto scale = [](const Point& p) { return std::exp(-std::abs(Exact{p.a})); };
  auto everyday = [&] { return Point{between(-50, 50)}; };
  auto far = [&] { return Point{scaled(1e-8, 5000)}; };  // where I0 itself is infinite in double
  auto i0e = [](const Point& p) { return bessel_i0e(p.a); };
  auto i1e = [](const Point& p) { return bessel_i1e(p.a); };
  auto i0 = [&](const Point& p) { return bm::cyl_bessel_i(0, Exact{p.a}) * scale(p); };
  auto i1 = [&](const Point& p) { return bm::cyl_bessel_i(1, Exact{p.a}) * scale(p); };
  agree("bessel_i0e", 32, everyday, i0e, i0);
  agree("bessel_i1e", 32, everyday, i1e, i1);
  agree("bessel_i0e", 32, far, i0e, i0);
  agree("bessel_i1e", 32, far, i1e, i1);
}

// Both halves are small somewhere; there their logarithm is large, and its rounding is most of the error.
TEST_F(AgainstBoost, IncompleteGamma) {
  auto lower = [](const Point& p) { return igamma(p.a, p.b); };
  auto upper = [](const Point& p) { return igammac(p.a, p.b); };
  auto lower_boost = [](const Point& p) { return bm::gamma_p(Exact{p.a}, Exact{p.b}); };
  auto upper_boost = [](const Point& p) { return bm::gamma_q(Exact{p.a}, Exact{p.b}); };
  auto everyday = [&] {
    double a = scaled(1e-2, 100);
    return Point{a, a * scaled(0.05, 10)};
  };
  auto large = [&] {
    double a = scaled(100, 1e6);
    return Point{a, a + std::sqrt(a) * between(-5, 5)};
  };
  agree("igamma", 1000, everyday, lower, lower_boost);
  agree("igammac", 4000, everyday, upper, upper_boost);
  agree("igamma of large numbers", 1000, large, lower, lower_boost);
  agree("igammac of large numbers", 1000, large, upper, upper_boost);
}

TEST_F(AgainstBoost, IncompleteBeta) {
  auto here = [](const Point& p) { return betainc(p.a, p.b, p.c); };
  auto boost = [](const Point& p) { return bm::ibeta(Exact{p.a}, Exact{p.b}, Exact{p.c}); };
  auto everyday = [&] { return Point{scaled(0.05, 100), scaled(0.05, 100), between(0.001, 0.999)}; };
  auto large = [&] {
    double a = scaled(100, 1e5), b = scaled(100, 1e5), mean = a / (a + b);
    return Point{a, b, mean + between(-3, 3) * std::sqrt(mean * (1 - mean) / (a + b + 1))};
  };
  agree("betainc", 20'000, everyday, here, boost);
  agree("betainc of large numbers", 40'000, large, here, boost);
}

TEST_F(AgainstBoost, Edges) {
  constexpr double kLeast = std::numeric_limits<double>::denorm_min();
  constexpr double kMin = std::numeric_limits<double>::min();
  for (double x : {kMin, 1e-300, 1e-20, 0.5, 1.0, 2.0, 3.0, 170.5, 1e15, 1e300}) {
    EXPECT_LE(ulps(log_gamma(x), bm::lgamma(Exact{x}), true), 4) << "log_gamma(" << x << ")";
    EXPECT_LE(ulps(digamma(x), bm::digamma(Exact{x}), true), 4) << "digamma(" << x << ")";
  }
  for (double x : {0.0, kLeast, kMin, 1e-8, 0.5, std::nextafter(1.0, 0.0)}) {
    EXPECT_LE(ulps(erf_inv(x), bm::erf_inv(Exact{x}), false), 3) << "erf_inv(" << x << ")";
  }
  for (double x : {kMin, 1e-8, 1.0, 8.0, 30.0, 11000.0}) {
    Exact scale = std::exp(-Exact{x});
    EXPECT_LE(ulps(bessel_i0e(x), bm::cyl_bessel_i(0, Exact{x}) * scale, false), 32) << "bessel_i0e(" << x << ")";
    EXPECT_LE(ulps(bessel_i1e(x), bm::cyl_bessel_i(1, Exact{x}) * scale, false), 32) << "bessel_i1e(" << x << ")";
  }
  for (double a : {1e-3, 0.5, 1.0, 2.0, 1e3}) {
    EXPECT_LE(ulps(igamma(a, kMin), bm::gamma_p(Exact{a}, Exact{kMin}), false), 2000) << "igamma(" << a << ", tiny)";
    EXPECT_LE(ulps(igamma(a, a), bm::gamma_p(Exact{a}, Exact{a}), false), 1000) << "igamma(" << a << ", itself)";
    EXPECT_LE(ulps(betainc(a, a, 0.5), 0.5L, false), 1000) << "betainc(" << a << ", itself, 0.5)";
  }
  for (double s : {std::nextafter(1.0, 2.0), 1.5, 2.0, 52.0, 1000.0}) {
    EXPECT_LE(ulps(zeta(s, 1), bm::zeta(Exact{s}), false), 16) << "zeta(" << s << ")";
  }
}

}  // namespace
}  // namespace tessera::core
