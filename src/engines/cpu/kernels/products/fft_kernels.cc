// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/kernels/products/fft_kernels.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <map>
#include <numbers>
#include <unsupported/Eigen/FFT>
#include <vector>

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

// Transforms of one length, forward or inverse, not scaled. Plans are cached inside; one object a thread.
template <class T>
class Line {
 public:
  using C = std::complex<T>;
  Line() { fft_.SetFlag(Eigen::FFT<T>::Unscaled); }

  void run(bool inverse, C* line, std::int64_t n) {
    if (n == 1) return;
    if (largest_factor(n) > kLargestRadix) return chirp(inverse, line, n);
    direct(inverse, line, n);
  }

 private:
  void direct(bool inverse, C* line, std::int64_t n) {
    buffer_.assign(line, line + n);
    if (inverse) {
      fft_.inv(line, buffer_.data(), n);
    } else {
      fft_.fwd(line, buffer_.data(), n);
    }
  }

  // Bluestein: the transform as a convolution with a chirp, done by transforms of a power of two.
  struct Chirp {
    std::int64_t padded;
    std::vector<C> factors, spectrum;
  };
  const Chirp& plan(bool inverse, std::int64_t n) {
    auto [it, fresh] = chirps_.try_emplace({inverse, n});
    Chirp& c = it->second;
    if (!fresh) return c;
    c.padded = 1;
    while (c.padded < 2 * n - 1) c.padded *= 2;
    c.factors.resize(static_cast<std::size_t>(n));
    c.spectrum.assign(static_cast<std::size_t>(c.padded), C(0));
    for (std::int64_t i = 0; i < n; ++i) {
      // i^2 mod 2n first: the angle of a large square would have no digits left.
      auto square = static_cast<double>(static_cast<unsigned __int128>(i) * static_cast<unsigned __int128>(i) %
                                        static_cast<unsigned __int128>(2 * n));
      double angle = (inverse ? 1 : -1) * std::numbers::pi * square / static_cast<double>(n);
      auto at = static_cast<std::size_t>(i);
      c.factors[at] = C(static_cast<T>(std::cos(angle)), static_cast<T>(std::sin(angle)));
      c.spectrum[at] = std::conj(c.factors[at]);
      if (i) c.spectrum[static_cast<std::size_t>(c.padded - i)] = std::conj(c.factors[at]);
    }
    direct(false, c.spectrum.data(), c.padded);
    return c;
  }
  void chirp(bool inverse, C* line, std::int64_t n) {
    const Chirp& c = plan(inverse, n);
    std::vector<C> work(static_cast<std::size_t>(c.padded), C(0));
    auto count = static_cast<std::size_t>(n);
    for (std::size_t i = 0; i < count; ++i) work[i] = line[i] * c.factors[i];
    direct(false, work.data(), c.padded);
    for (std::size_t i = 0; i < work.size(); ++i) work[i] *= c.spectrum[i];
    direct(true, work.data(), c.padded);
    T scale = T{1} / static_cast<T>(c.padded);
    for (std::size_t i = 0; i < count; ++i) line[i] = work[i] * c.factors[i] * scale;
  }

  Eigen::FFT<T> fft_;
  std::vector<C> buffer_;
  std::map<std::pair<bool, std::int64_t>, Chirp> chirps_;
};

template <class T>
Line<T>& line_of_thread() {
  return base::thread_own<Line<T>, struct LineTag>();
}

std::int64_t grain(std::int64_t n) { return std::max<std::int64_t>(1, 4096 / std::max<std::int64_t>(n, 1)); }

// All lines along one axis of a complex array, in place.
template <class T>
void transform_axis(bool inverse, std::complex<T>* data, std::int64_t outer, std::int64_t n, std::int64_t inner) {
  base::parallel_for(outer * inner, grain(n), [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::complex<T>> line(static_cast<std::size_t>(n));
    for (std::int64_t u = begin; u < end; ++u) {
      std::complex<T>* at = data + u / inner * n * inner + u % inner;
      if (inner == 1) {
        line_of_thread<T>().run(inverse, at, n);
        continue;
      }
      for (std::int64_t i = 0; i < n; ++i) line[static_cast<std::size_t>(i)] = at[i * inner];
      line_of_thread<T>().run(inverse, line.data(), n);
      for (std::int64_t i = 0; i < n; ++i) at[i * inner] = line[static_cast<std::size_t>(i)];
    }
  });
}

template <class T>
void real_forward(const T* in, std::complex<T>* out, std::int64_t lines, std::int64_t n) {
  std::int64_t half = n / 2 + 1;
  base::parallel_for(lines, grain(n), [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::complex<T>> line(static_cast<std::size_t>(n));
    for (std::int64_t u = begin; u < end; ++u) {
      std::copy(in + u * n, in + (u + 1) * n, line.begin());
      line_of_thread<T>().run(false, line.data(), n);
      std::copy(line.begin(), line.begin() + half, out + u * half);
    }
  });
}

// The other half of the spectrum is the conjugate of the one that is there.
template <class T>
void real_inverse(const std::complex<T>* in, T* out, std::int64_t lines, std::int64_t n, T scale) {
  std::int64_t half = n / 2 + 1;
  base::parallel_for(lines, grain(n), [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::complex<T>> line(static_cast<std::size_t>(n));
    for (std::int64_t u = begin; u < end; ++u) {
      const std::complex<T>* from = in + u * half;
      for (std::int64_t i = 0; i < n; ++i) {
        line[static_cast<std::size_t>(i)] = i < half ? from[i] : std::conj(from[n - i]);
      }
      line[0] = from[0].real();
      if (n % 2 == 0 && n > 0) line[static_cast<std::size_t>(n / 2)] = from[n / 2].real();
      line_of_thread<T>().run(true, line.data(), n);
      for (std::int64_t i = 0; i < n; ++i) out[u * n + i] = line[static_cast<std::size_t>(i)].real() * scale;
    }
  });
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
  auto other_axes = [&](C* data) {
    std::int64_t inner = dims.back();
    for (std::int64_t a = 1; a < axes; ++a) {
      std::int64_t n = dims[dims.size() - 1 - static_cast<std::size_t>(a)];
      transform_axis(inverse, data, count / (n * inner), n, inner);
      inner *= n;
    }
  };
  if (kind == FftKind::RealForward) {
    real_forward(static_cast<const T*>(in), static_cast<C*>(out), lines, last);
    return other_axes(static_cast<C*>(out));
  }
  if (kind == FftKind::RealInverse) {
    std::vector<C> spectrum(static_cast<const C*>(in), static_cast<const C*>(in) + count);
    other_axes(spectrum.data());
    return real_inverse(spectrum.data(), static_cast<T*>(out), lines, last, T{1} / static_cast<T>(points));
  }
  C* data = static_cast<C*>(out);
  if (in != out) std::memcpy(out, in, static_cast<std::size_t>(count) * sizeof(C));
  transform_axis(inverse, data, lines, last, std::int64_t{1});
  other_axes(data);
  if (!inverse) return;
  T scale = T{1} / static_cast<T>(points);
  for (std::int64_t i = 0; i < count; ++i) data[i] *= scale;
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
