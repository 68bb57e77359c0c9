// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/kernels/products/fft_kernels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstring>
#include <map>
#include <numbers>
#include <unsupported/Eigen/FFT>
#include <vector>

#include "base/index.h"
#include "base/strings.h"
#include "base/thread_own.h"
#include "base/thread_pool.h"
#include "tessera/error.h"

namespace tessera::kernels {

namespace {

// Above this, a length's largest prime factor makes mixed radices slower than three transforms of a power of two.
constexpr std::int64_t kLargestRadix = 64;

std::int64_t largest_factor(std::int64_t n) {
  std::int64_t largest = 1;
  for (std::int64_t p = 2; p * p <= n; ++p) {
    while (n % p == 0) {
      largest = p;
      n /= p;
    }
  }
  return std::max(largest, n);
}

// One element of each of several lines, which are transformed together: of a register's size on every machine.
template <class T>
struct Pack {
  static constexpr std::int64_t kLanes = 16 / sizeof(T);
  using Lanes __attribute__((vector_size(16))) = T;
  Lanes v;

  Pack() : v{} {}
  explicit Pack(double x) : v(Lanes{} + static_cast<T>(x)) {}
  explicit Pack(Lanes lanes) : v(lanes) {}
  Pack& operator+=(const Pack& x) { return *this = *this + x; }
  Pack& operator-=(const Pack& x) { return *this = *this - x; }
  Pack& operator*=(const Pack& x) { return *this = *this * x; }
  friend Pack operator+(const Pack& x, const Pack& y) { return Pack(x.v + y.v); }
  friend Pack operator-(const Pack& x, const Pack& y) { return Pack(x.v - y.v); }
  friend Pack operator*(const Pack& x, const Pack& y) { return Pack(x.v * y.v); }
  friend Pack operator*(const Pack& x, int sign) { return Pack(x.v * static_cast<T>(sign)); }
  friend Pack operator-(const Pack& x) { return Pack(-x.v); }
};

// Transforms of one length, forward or inverse, not scaled. Plans are cached inside; one object a thread.
template <class T>
class Lines {
 public:
  using C = std::complex<Pack<T>>;

  /// Memory for lines of `n` elements; what nobody wrote is small numbers.
  C* lines(std::int64_t n) {
    if (std::ssize(lines_) != n) {
      lines_.assign(static_cast<std::size_t>(n), C());
      results_ = lines_;
    }
    return lines_.data();
  }
  /// The transforms of `lines(n)`, good until the next call.
  const C* run(bool inverse, std::int64_t n) {
    if (n == 1) return lines_.data();
    if (largest_factor(n) > kLargestRadix) {
      chirp(inverse, n);
    } else {
      direct(inverse, lines_, results_);
    }
    return results_.data();
  }

 private:
  void direct(bool inverse, const std::vector<C>& from, std::vector<C>& to) {
    const auto n = static_cast<int>(from.size());
    inverse ? fft_.inv(to.data(), from.data(), n) : fft_.fwd(to.data(), from.data(), n);
  }

  // Bluestein: the transform as a convolution with a chirp, done by transforms of a power of two.
  struct Chirp {
    std::int64_t padded;
    std::vector<C> factors, spectrum;
  };
  static C conj(const C& x) { return {x.real(), -x.imag()}; }
  const Chirp& plan(bool inverse, std::int64_t n) {
    auto [it, fresh] = chirps_.try_emplace({inverse, n});
    Chirp& c = it->second;
    if (!fresh) return c;
    c.padded = 1;
    while (c.padded < 2 * n - 1) c.padded *= 2;
    c.factors.resize(static_cast<std::size_t>(n));
    c.spectrum.assign(static_cast<std::size_t>(c.padded), C());
    for (std::int64_t i = 0; i < n; ++i) {
      // i^2 mod 2n first: the angle of a large square would have no digits left.
      auto square = static_cast<double>(static_cast<unsigned __int128>(i) * static_cast<unsigned __int128>(i) %
                                        static_cast<unsigned __int128>(2 * n));
      double angle = (inverse ? 1 : -1) * std::numbers::pi * square / static_cast<double>(n);
      auto at = static_cast<std::size_t>(i);
      c.factors[at] = C(Pack<T>(std::cos(angle)), Pack<T>(std::sin(angle)));
      c.spectrum[at] = conj(c.factors[at]);
      if (i) c.spectrum[static_cast<std::size_t>(c.padded - i)] = conj(c.factors[at]);
    }
    const std::vector<C> chirp = c.spectrum;
    direct(false, chirp, c.spectrum);
    return c;
  }
  void chirp(bool inverse, std::int64_t n) {
    const Chirp& c = plan(inverse, n);
    std::vector<C> work(static_cast<std::size_t>(c.padded), C());
    std::vector<C> spectrum(work.size());
    auto count = static_cast<std::size_t>(n);
    for (std::size_t i = 0; i < count; ++i) work[i] = lines_[i] * c.factors[i];
    direct(false, work, spectrum);
    for (std::size_t i = 0; i < work.size(); ++i) spectrum[i] *= c.spectrum[i];
    direct(true, spectrum, work);
    const Pack<T> scale(1.0 / static_cast<double>(c.padded));
    for (std::size_t i = 0; i < count; ++i) results_[i] = work[i] * c.factors[i] * scale;
  }

  Eigen::internal::kissfft_impl<Pack<T>> fft_;
  std::vector<C> lines_, results_;
  std::map<std::pair<bool, std::int64_t>, Chirp> chirps_;
};

// Transforms `count` lines of n elements, some at a time. `from(line)` and `to(line)` say where one begins, `read(at,
// i)` gives its element i, and `write(at, i, x)` takes that of the result.
template <class T, class From, class Read, class To, class Write>
void transform_lines(bool inverse, std::int64_t count, std::int64_t n, const From& from, const Read& read, const To& to,
                     const Write& write) {
  constexpr std::int64_t kLanes = Pack<T>::kLanes;
  const std::int64_t packs = (count + kLanes - 1) / kLanes;
  const std::int64_t grain = std::max<std::int64_t>(1, 4096 / kLanes / std::max<std::int64_t>(n, 1));
  base::parallel_for(packs, grain, [&](std::int64_t begin, std::int64_t end) {
    auto& own = base::thread_own<Lines<T>, struct LinesTag>();
    std::array<decltype(from(0)), kLanes> starts;
    std::array<decltype(to(0)), kLanes> ends;
    for (std::int64_t u = begin; u < end; ++u) {
      // Lanes without a line of their own repeat the last one.
      for (std::int64_t l = 0; l < kLanes; ++l) starts[at(l)] = from(std::min(u * kLanes + l, count - 1));
      for (std::int64_t l = 0; l < kLanes; ++l) ends[at(l)] = to(std::min(u * kLanes + l, count - 1));
      T* packed = reinterpret_cast<T*>(own.lines(n));
      for (std::int64_t i = 0; i < n; ++i, packed += 2 * kLanes) {
        for (std::int64_t l = 0; l < kLanes; ++l) {
          const std::complex<T> x = read(starts[at(l)], i);
          packed[l] = x.real();
          packed[kLanes + l] = x.imag();
        }
      }
      const T* result = reinterpret_cast<const T*>(own.run(inverse, n));
      for (std::int64_t i = 0; i < n; ++i, result += 2 * kLanes) {
        for (std::int64_t l = 0; l < kLanes; ++l) write(ends[at(l)], i, std::complex<T>(result[l], result[kLanes + l]));
      }
    }
  });
}

// All lines along one axis of a complex array.
template <class T>
void transform_axis(bool inverse, const std::complex<T>* in, std::complex<T>* out, std::int64_t outer, std::int64_t n,
                    std::int64_t inner, T scale) {
  auto start = [=](std::int64_t line) { return line / inner * n * inner + line % inner; };
  transform_lines<T>(
      inverse, outer * inner, n, [=](std::int64_t line) { return in + start(line); },
      [=](const std::complex<T>* at, std::int64_t i) { return at[i * inner]; },
      [=](std::int64_t line) { return out + start(line); },
      [=](std::complex<T>* at, std::int64_t i, std::complex<T> x) { at[i * inner] = x * scale; });
}

template <class T>
void real_forward(const T* in, std::complex<T>* out, std::int64_t lines, std::int64_t n) {
  const std::int64_t half = n / 2 + 1;
  transform_lines<T>(
      false, lines, n, [=](std::int64_t line) { return in + line * n; },
      [](const T* at, std::int64_t i) { return std::complex<T>(at[i]); },
      [=](std::int64_t line) { return out + line * half; },
      [=](std::complex<T>* at, std::int64_t i, std::complex<T> x) {
        if (i < half) at[i] = x;
      });
}

// The other half of the spectrum is the conjugate of the one that is there.
template <class T>
void real_inverse(const std::complex<T>* in, T* out, std::int64_t lines, std::int64_t n, T scale) {
  const std::int64_t half = n / 2 + 1;
  transform_lines<T>(
      true, lines, n, [=](std::int64_t line) { return in + line * half; },
      [=](const std::complex<T>* at, std::int64_t i) {
        if (i == 0 || 2 * i == n) return std::complex<T>(at[i].real());
        return i < half ? at[i] : std::conj(at[n - i]);
      },
      [=](std::int64_t line) { return out + line * n; },
      [=](T* at, std::int64_t i, std::complex<T> x) { at[i] = x.real() * scale; });
}

template <class T>
void fft_typed(FftKind kind, std::span<const std::int64_t> shape, std::int64_t axes, const void* in, void* out) {
  using C = std::complex<T>;
  bool real = kind == FftKind::RealForward || kind == FftKind::RealInverse;
  bool inverse = kind == FftKind::Inverse || kind == FftKind::RealInverse;
  std::vector<std::int64_t> dims(shape.begin(), shape.end());
  std::int64_t last = dims.back(), points = 1, lines = 1;
  for (std::size_t d = dims.size() - static_cast<std::size_t>(axes); d < dims.size(); ++d) points *= dims[d];
  for (std::size_t d = 0; d + 1 < dims.size(); ++d) lines *= dims[d];
  if (real) dims.back() = last / 2 + 1;
  std::int64_t count = lines * dims.back();
  // The last of them scales.
  auto other_axes = [&](C* data, T scale) {
    std::int64_t inner = dims.back();
    for (std::int64_t a = 1; a < axes; ++a) {
      std::int64_t n = dims[dims.size() - 1 - static_cast<std::size_t>(a)];
      transform_axis(inverse, data, data, count / (n * inner), n, inner, a + 1 == axes ? scale : T{1});
      inner *= n;
    }
  };
  if (kind == FftKind::RealForward) {
    real_forward(static_cast<const T*>(in), static_cast<C*>(out), lines, last);
    return other_axes(static_cast<C*>(out), T{1});
  }
  if (kind == FftKind::RealInverse) {
    std::vector<C> spectrum(static_cast<const C*>(in), static_cast<const C*>(in) + count);
    other_axes(spectrum.data(), T{1});
    return real_inverse(spectrum.data(), static_cast<T*>(out), lines, last, T{1} / static_cast<T>(points));
  }
  C* data = static_cast<C*>(out);
  const T scale = inverse ? T{1} / static_cast<T>(points) : T{1};
  transform_axis(inverse, static_cast<const C*>(in), data, lines, last, std::int64_t{1}, axes == 1 ? scale : T{1});
  other_axes(data, scale);
}

}  // namespace

void fft(FftKind kind, DType precision, std::span<const std::int64_t> shape, std::int64_t axes, const void* in,
         void* out) {
  for (std::int64_t e : shape) {
    if (e == 0) return;
  }
  if (precision == DType::F32) return fft_typed<float>(kind, shape, axes, in, out);
  if (precision == DType::F64) return fft_typed<double>(kind, shape, axes, in, out);
  throw UnimplementedError(str("fft: precision = ", dtype_name(precision), "; expected float32 or float64"));
}

}  // namespace tessera::kernels
