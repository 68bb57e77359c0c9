// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <limits>
#include <numbers>
#include <random>
#include <vector>

#include "engines/cpu/kernels/products/fft_kernels.h"
#include "engines/cpu/kernels/products/linalg_kernels.h"
#include "tessera/error.h"

namespace tessera::kernels {
namespace {

using Z = std::complex<double>;

template <class T>
struct Matrix {
  std::int64_t rows, cols;
  std::vector<T> v;
  Matrix(std::int64_t r, std::int64_t c) : rows(r), cols(c), v(static_cast<std::size_t>(r * c)) {}
  T& at(std::int64_t r, std::int64_t c) { return v[static_cast<std::size_t>(r * cols + c)]; }
  Z get(std::int64_t r, std::int64_t c) const { return Z(v[static_cast<std::size_t>(r * cols + c)]); }
};

template <class T>
T conjugate(T v) {
  if constexpr (std::is_floating_point_v<T>) {
    return v;
  } else {
    return std::conj(v);
  }
}

template <class T>
Matrix<T> noise(std::int64_t r, std::int64_t c, unsigned seed) {
  std::mt19937 rng(seed);
  Matrix<T> m(r, c);
  auto next = [&] { return static_cast<float>(rng() % 2001) / 1000.0f - 1.0f; };
  for (auto& x : m.v) {
    if constexpr (std::is_floating_point_v<T>) {
      x = next();
    } else {
      x = T(next(), next());
    }
  }
  return m;
}

template <class A, class B>
Matrix<Z> times(const Matrix<A>& a, const Matrix<B>& b, bool adjoint_b = false) {
  std::int64_t cols = adjoint_b ? b.rows : b.cols;
  Matrix<Z> c(a.rows, cols);
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t j = 0; j < cols; ++j) {
      for (std::int64_t k = 0; k < a.cols; ++k)
        c.at(i, j) += a.get(i, k) * (adjoint_b ? std::conj(b.get(j, k)) : b.get(k, j));
    }
  }
  return c;
}

template <class A, class B>
void near(const Matrix<A>& a, const Matrix<B>& b, double tolerance, const char* what) {
  ASSERT_EQ(a.rows, b.rows);
  ASSERT_EQ(a.cols, b.cols);
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t j = 0; j < a.cols; ++j)
      ASSERT_LE(std::abs(a.get(i, j) - b.get(i, j)), tolerance) << what << " " << i << ", " << j;
  }
}

template <class T>
constexpr DType kType = dtype_of<T>();

template <class T>
using RealT = decltype(std::abs(T()));

template <class T>
Matrix<T> identity(std::int64_t n) {
  Matrix<T> m(n, n);
  for (std::int64_t i = 0; i < n; ++i) m.at(i, i) = T(1);
  return m;
}

template <class T>
Matrix<T> positive(std::int64_t n) {
  auto b = noise<T>(n, n, 3);
  auto p = times(b, b, true);
  Matrix<T> a(n, n);
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      if constexpr (std::is_floating_point_v<T>) {
        a.at(i, j) = static_cast<T>(p.get(i, j).real());
      } else {
        a.at(i, j) = T(p.get(i, j));
      }
    }
    a.at(i, i) += T(static_cast<RealT<T>>(n));
  }
  return a;
}

template <class T>
void check_square(double eps) {
  for (std::int64_t n : {1, 2, 7, 40}) {
    auto a = positive<T>(n);
    Matrix<T> l(n, n), v(n, n);
    cholesky(kType<T>, true, 1, n, a.v.data(), l.v.data());
    near(times(l, l, true), a, eps * 1e2 * static_cast<double>(n), "l l^H");
    if (n > 1) {
      EXPECT_EQ(l.at(0, 1), T(0));
    }
    std::vector<RealT<T>> w(static_cast<std::size_t>(n));
    eigh(kType<T>, n % 2 == 0, 1, n, a.v.data(), w.data(), v.v.data());
    Matrix<T> scaled = v;
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j < n; ++j) scaled.at(i, j) *= w[static_cast<std::size_t>(j)];
    }
    near(times(scaled, v, true), a, eps * 1e2 * static_cast<double>(n), "v w v^H");
    near(times(v, v, true), identity<Z>(n), eps * 1e2, "v v^H");
    EXPECT_TRUE(std::is_sorted(w.begin(), w.end()));
    for (bool left : {true, false}) {
      for (bool lower : {true, false}) {
        for (Transform t : {Transform::None, Transform::Transpose, Transform::Adjoint}) {
          auto b = left ? noise<T>(n, 3, 5) : noise<T>(3, n, 5);
          Matrix<T> x = b, op(n, n);
          triangular_solve(kType<T>, left, lower, t, false, 1, b.rows, b.cols, a.v.data(), b.v.data(), x.v.data());
          for (std::int64_t i = 0; i < n; ++i) {
            for (std::int64_t j = 0; j < n; ++j) {
              T e = (lower ? j <= i : j >= i) ? a.at(i, j) : T(0);
              if (t == Transform::None) {
                op.at(i, j) = e;
              } else {
                op.at(j, i) = t == Transform::Adjoint ? conjugate(e) : e;
              }
            }
          }
          near(left ? times(op, x) : times(x, op), b, eps * 1e3, "triangular");
        }
      }
    }
  }
}

template <class T>
void check_hessenberg(double eps) {
  for (std::int64_t n : {1, 2, 5, 40, 150}) {
    auto a = noise<T>(n, n, 9);
    Matrix<T> packed(n, n), h(n, n), inner(n - 1, n - 1), q(n, n);
    std::vector<T> taus(static_cast<std::size_t>(n - 1));
    q.at(0, 0) = 1;
    hessenberg(kType<T>, 1, n, a.v.data(), packed.v.data(), taus.data());
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = std::max<std::int64_t>(i - 1, 0); j < n; ++j) h.at(i, j) = packed.at(i, j);
      for (std::int64_t j = 0; i > 0 && j < n - 1; ++j) inner.at(i - 1, j) = packed.at(i, j);
    }
    householder_product(kType<T>, 1, n - 1, n - 1, n - 1, inner.v.data(), taus.data(), inner.v.data());
    for (std::int64_t i = 1; i < n; ++i) {
      for (std::int64_t j = 1; j < n; ++j) q.at(i, j) = inner.at(i - 1, j - 1);
    }
    near(times(a, q), times(q, h), eps * 1e2, "a q = q h");
  }
}

template <class T>
void check_any(double eps) {
  for (auto [m, n] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {5, 5}, {9, 4}, {4, 9}, {33, 20}}) {
    auto a = noise<T>(m, n, 7);
    std::int64_t k = std::min(m, n);
    for (bool full : {false, true}) {
      std::int64_t c = full ? m : k;
      Matrix<T> q(m, c), r(c, n);
      qr(kType<T>, full, 1, m, n, a.v.data(), q.v.data(), r.v.data());
      near(times(q, r), a, eps * 1e2, "q r");
      Matrix<Z> qh(c, m);
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < c; ++j) qh.at(j, i) = std::conj(q.get(i, j));
      }
      near(times(qh, q), identity<Z>(c), eps * 1e2, "q^H q");
      Matrix<T> u(m, c), vh(full ? n : k, n), us(m, k), v_top(k, n);
      std::vector<RealT<T>> s(static_cast<std::size_t>(k)), alone(s.size());
      svd(kType<T>, full, 1, m, n, a.v.data(), s.data(), u.v.data(), vh.v.data());
      svd(kType<T>, full, 1, m, n, a.v.data(), alone.data(), nullptr, nullptr);
      for (std::int64_t j = 0; j < k; ++j) {
        EXPECT_NEAR(alone[static_cast<std::size_t>(j)], s[static_cast<std::size_t>(j)], eps * 1e2);
        for (std::int64_t i = 0; i < m; ++i) us.at(i, j) = u.at(i, j) * s[static_cast<std::size_t>(j)];
        for (std::int64_t i = 0; i < n; ++i) v_top.at(j, i) = vh.at(j, i);
      }
      near(times(us, v_top), a, eps * 1e2, "u s vh");
    }
    Matrix<T> f(m, n), low(m, k), up(k, n), permuted(m, n);
    std::vector<std::int32_t> pivots(static_cast<std::size_t>(k)), p(static_cast<std::size_t>(m));
    lu(kType<T>, 1, m, n, a.v.data(), f.v.data(), pivots.data(), p.data());
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        if (j < k) low.at(i, j) = i == j ? T(1) : i > j ? f.at(i, j) : T(0);
        if (i < k) up.at(i, j) = j >= i ? f.at(i, j) : T(0);
        permuted.at(i, j) = a.at(p[static_cast<std::size_t>(i)], j);
      }
    }
    near(times(low, up), permuted, eps * 1e2, "l u");
  }
}

TEST(Linalg, Float) { check_square<float>(1e-6), check_any<float>(1e-6), check_hessenberg<float>(1e-6); }
TEST(Linalg, Double) { check_square<double>(1e-14), check_any<double>(1e-14), check_hessenberg<double>(1e-14); }
TEST(Linalg, ComplexFloat) {
  check_square<complex64_t>(2e-6), check_any<complex64_t>(2e-6), check_hessenberg<complex64_t>(2e-6);
}
TEST(Linalg, ComplexDouble) {
  check_square<complex128_t>(2e-14), check_any<complex128_t>(2e-14), check_hessenberg<complex128_t>(2e-14);
}

TEST(Linalg, BatchesAndFailures) {
  std::vector<float> a = {4, 0, 0, 9, 1, 2, 2, 1, NAN, 0, 0, 1, 16, 0, 0, 25}, l(16);
  cholesky(DType::F32, true, 4, 2, a.data(), l.data());
  EXPECT_EQ(l[0], 2.0f);
  EXPECT_TRUE(std::isnan(l[4])) << "not positive definite";
  EXPECT_TRUE(std::isnan(l[8]));
  EXPECT_EQ(l[15], 5.0f);
  std::vector<float> s(8), u(16), vh(16);
  svd(DType::F32, true, 4, 2, 2, a.data(), s.data(), u.data(), vh.data());
  EXPECT_TRUE(std::isnan(s[4]));
  EXPECT_NEAR(s[6], 25, 1e-5);
  EXPECT_THROW(cholesky(DType::I32, true, 1, 1, a.data(), l.data()), UnimplementedError);
}

template <class T>
void check_fft(std::vector<std::int64_t> shape, std::int64_t axes, double tolerance) {
  using C = std::complex<T>;
  DType p = dtype_of<T>();
  std::int64_t n = 1;
  for (auto e : shape) n *= e;
  auto x = noise<C>(1, n, 9).v;
  std::vector<C> y(x.size()), back(x.size());
  fft(FftKind::Forward, p, shape, axes, x.data(), y.data());
  // Each axis by the definition.
  std::vector<Z> want(x.begin(), x.end());
  std::int64_t inner = 1;
  for (std::int64_t a = 0; a < axes; ++a) {
    std::int64_t len = shape[shape.size() - 1 - static_cast<std::size_t>(a)];
    std::vector<Z> next(want.size());
    for (std::int64_t i = 0; i < n; ++i) {
      std::int64_t f = i / inner % len, base = i - f * inner;
      for (std::int64_t t = 0; t < len; ++t) {
        next[static_cast<std::size_t>(i)] +=
            want[static_cast<std::size_t>(base + t * inner)] *
            std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(f * t % len) / static_cast<double>(len));
      }
    }
    want = next;
    inner *= len;
  }
  for (std::size_t i = 0; i < want.size(); ++i)
    ASSERT_LE(std::abs(Z(y[i]) - want[i]), tolerance * std::sqrt(static_cast<double>(n)))
        << shape.back() << " at " << i;
  fft(FftKind::Inverse, p, shape, axes, y.data(), back.data());
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_LE(std::abs(back[i] - x[i]), tolerance * 4);
  // Real input: the first half of the same spectrum, and back.
  std::vector<T> real(x.size()), again(x.size());
  std::vector<C> wide(x.size()), spectrum(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) wide[i] = real[i] = x[i].real();
  fft(FftKind::Forward, p, shape, axes, wide.data(), spectrum.data());
  std::int64_t last = shape.back(), half = last / 2 + 1;
  std::vector<C> halves(static_cast<std::size_t>(n / last * half));
  fft(FftKind::RealForward, p, shape, axes, real.data(), halves.data());
  for (std::int64_t i = 0; i < n; ++i) {
    if (i % last < half) {
      ASSERT_LE(std::abs(halves[static_cast<std::size_t>(i / last * half + i % last)] -
                         spectrum[static_cast<std::size_t>(i)]),
                tolerance * std::sqrt(static_cast<double>(n)));
    }
  }
  fft(FftKind::RealInverse, p, shape, axes, halves.data(), again.data());
  for (std::size_t i = 0; i < real.size(); ++i) ASSERT_NEAR(again[i], real[i], tolerance * 4);
}

// Lines that are transformed together keep their own digits.
TEST(Fft, SmallLinesBesideLargeOnes) {
  constexpr std::int64_t kLines = 7, kLength = 24;
  std::vector<float> x(kLines * kLength), alone(kLength);
  for (std::int64_t i = 0; i < kLines * kLength; ++i) {
    const float size = i / kLength % 2 == 0 ? 1e6F : 1e-6F;
    x[static_cast<std::size_t>(i)] = size * std::sin(static_cast<float>(i * i));
  }
  constexpr std::int64_t kHalf = kLength / 2 + 1;
  std::vector<std::complex<float>> all(kLines * kHalf), one(kHalf);
  fft(FftKind::RealForward, DType::F32, std::vector<std::int64_t>{kLines, kLength}, 1, x.data(), all.data());
  for (std::int64_t line = 0; line < kLines; ++line) {
    std::copy_n(x.begin() + line * kLength, kLength, alone.begin());
    fft(FftKind::RealForward, DType::F32, std::vector<std::int64_t>{1, kLength}, 1, alone.data(), one.data());
    EXPECT_TRUE(std::equal(one.begin(), one.end(), all.begin() + line * kHalf)) << "line " << line;
  }
}

TEST(Fft, AnyLengthAndUpToThreeAxes) {
  for (std::int64_t n : {1, 2, 3, 4, 6, 7, 12, 16, 30, 97, 101, 202, 210, 257}) {
    check_fft<float>({3, n}, 1, 3e-6);
    check_fft<double>({2, n}, 1, 1e-14);
    check_fft<float>({9, n}, 1, 3e-6);  // whole packs of lines, and one that is not
    check_fft<double>({5, n}, 1, 1e-14);
  }
  check_fft<float>({2, 6, 10}, 2, 3e-6);
  check_fft<double>({2, 4, 5, 6}, 3, 1e-14);
  check_fft<double>({131, 3}, 2, 1e-13);
  EXPECT_THROW(fft(FftKind::Forward, DType::F16, std::vector<std::int64_t>{2}, 1, nullptr, nullptr),
               UnimplementedError);
}

}  // namespace
}  // namespace tessera::kernels
