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
#include "engines/cpu/kernels/copy_rows.h"
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
  using Lanes = in_registers::Vector<T>;
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

// Where the lines of a pack are: element i of lane l is at start[l][i * step].
template <class C>
struct Places {
  std::array<C*, Pack<typename C::value_type>::kLanes> start;
  std::int64_t step = 1;
};

// Elements from memory, next to each other in it as whole registers.
template <class T>
void pack(const Places<const std::complex<T>>& from, std::int64_t n, std::complex<Pack<T>>* to) {
  constexpr std::int64_t kLanes = Pack<T>::kLanes, kTogether = kLanes / 2;  // complex elements of a register
  T* packed = reinterpret_cast<T*>(to);
  std::int64_t i = 0;
  for (; from.step == 1 && i + kTogether <= n; i += kTogether, packed += kLanes * kLanes) {
    std::array<typename Pack<T>::Lanes, kLanes> r;
    for (std::int64_t l = 0; l < kLanes; ++l) std::memcpy(&r[at(l)], from.start[at(l)] + i, sizeof(r[0]));
    transpose_vectors<T>(r.data());
    std::memcpy(packed, r.data(), sizeof(r));
  }
  for (; i < n; ++i, packed += 2 * kLanes) {
    for (std::int64_t l = 0; l < kLanes; ++l) {
      const std::complex<T> x = from.start[at(l)][i * from.step];
      packed[l] = x.real();
      packed[kLanes + l] = x.imag();
    }
  }
}

template <class T>
void unpack(const std::complex<Pack<T>>* from, std::int64_t n, T scale, const Places<std::complex<T>>& to) {
  constexpr std::int64_t kLanes = Pack<T>::kLanes, kTogether = kLanes / 2;
  const T* packed = reinterpret_cast<const T*>(from);
  std::int64_t i = 0;
  for (; to.step == 1 && i + kTogether <= n; i += kTogether, packed += kLanes * kLanes) {
    std::array<typename Pack<T>::Lanes, kLanes> r;
    std::memcpy(r.data(), packed, sizeof(r));
    transpose_vectors<T>(r.data());
    for (std::int64_t l = 0; l < kLanes; ++l) {
      r[at(l)] *= scale;
      std::memcpy(static_cast<void*>(to.start[at(l)] + i), &r[at(l)], sizeof(r[0]));
    }
  }
  for (; i < n; ++i, packed += 2 * kLanes) {
    for (std::int64_t l = 0; l < kLanes; ++l) {
      to.start[at(l)][i * to.step] = std::complex<T>(packed[l], packed[kLanes + l]) * scale;
    }
  }
}

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
  C* run(bool inverse, std::int64_t n) {
    if (n == 1) return lines_.data();
    if (largest_factor(n) > kLargestRadix) {
      chirp(inverse, n);
    } else {
      direct(inverse, lines_, results_);
    }
    return results_.data();
  }
  /// Elements of which nothing is kept.
  std::vector<C>& work(std::int64_t n) {
    work_.resize(static_cast<std::size_t>(n));
    return work_;
  }
  /// exp(-2 pi i k / n) for k of the first quarter of a circle.
  const std::vector<std::complex<T>>& roots(std::int64_t n) {
    auto [it, fresh] = roots_.try_emplace(n);
    for (std::int64_t k = 0; fresh && k <= n / 4; ++k) {
      const double angle = -2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
      it->second.emplace_back(static_cast<T>(std::cos(angle)), static_cast<T>(std::sin(angle)));
    }
    return it->second;
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
  std::vector<C> lines_, results_, work_;
  std::map<std::int64_t, std::vector<std::complex<T>>> roots_;
  std::map<std::pair<bool, std::int64_t>, Chirp> chirps_;
};

// `body(own, lines)` for packs of `count` lines; lanes without a line of their own repeat the last one.
template <class T, class Body>
void for_packs(std::int64_t count, std::int64_t n, const Body& body) {
  constexpr std::int64_t kLanes = Pack<T>::kLanes;
  const std::int64_t packs = (count + kLanes - 1) / kLanes;
  const std::int64_t grain = std::max<std::int64_t>(1, 4096 / kLanes / std::max<std::int64_t>(n, 1));
  base::parallel_for(packs, grain, [&](std::int64_t begin, std::int64_t end) {
    auto& own = base::thread_own<Lines<T>, struct LinesTag>();
    std::array<std::int64_t, kLanes> lines;
    for (std::int64_t u = begin; u < end; ++u) {
      for (std::int64_t l = 0; l < kLanes; ++l) lines[at(l)] = std::min(u * kLanes + l, count - 1);
      body(own, lines);
    }
  });
}

// The lines that begin at these elements of an array.
template <class C, class Start>
Places<C> places(C* array, const std::array<std::int64_t, Pack<typename C::value_type>::kLanes>& lines,
                 const Start& start, std::int64_t step = 1) {
  Places<C> p;
  p.step = step;
  for (std::size_t l = 0; l < lines.size(); ++l) p.start[l] = array + start(lines[l]);
  return p;
}

// All lines along one axis of a complex array.
template <class T>
void transform_axis(bool inverse, const std::complex<T>* in, std::complex<T>* out, std::int64_t outer, std::int64_t n,
                    std::int64_t inner, T scale) {
  auto start = [=](std::int64_t line) { return line / inner * n * inner + line % inner; };
  for_packs<T>(outer * inner, n, [=](Lines<T>& own, const auto& lines) {
    pack<T>(places(in, lines, start, inner), n, own.lines(n));
    unpack<T>(own.run(inverse, n), n, scale, places(out, lines, start, inner));
  });
}

template <class T>
std::complex<Pack<T>> conj(const std::complex<Pack<T>>& x) {
  return {x.real(), -x.imag()};
}
template <class T>
std::complex<Pack<T>> times(const std::complex<Pack<T>>& x, std::complex<T> y) {
  const Pack<T> re(y.real()), im(y.imag());
  return {x.real() * re - x.imag() * im, x.real() * im + x.imag() * re};
}

// An even number of reals as half as many complex elements: of their transform, the terms of even and odd elements
// are what is symmetric in it and what is not (Sorensen, Jones, Heideman and Burrus, Real-valued fast Fourier transform
// algorithms, 1987). Lines stay apart, as they would not where two of them are the parts of complex elements: a small
// line beside a large one would lose its digits.
template <class T>
void spectrum_of_reals(const std::complex<Pack<T>>* z, std::int64_t half, const std::vector<std::complex<T>>& roots,
                       std::complex<Pack<T>>* to) {
  using C = std::complex<Pack<T>>;
  to[0] = C(z[0].real() + z[0].imag(), Pack<T>());
  to[half] = C(z[0].real() - z[0].imag(), Pack<T>());
  const Pack<T> by_two(0.5);
  for (std::int64_t k = 1; 2 * k <= half; ++k) {
    const C mirrored = conj<T>(z[half - k]);
    const C even = (z[k] + mirrored) * by_two, odd = (z[k] - mirrored) * by_two;
    const std::complex<T> w = roots[at(k)];
    const C turned = times<T>(odd, {w.imag(), -w.real()});  // by -i w
    to[k] = even + turned;
    to[half - k] = conj<T>(even - turned);
  }
}
// The other way, not scaled.
template <class T>
void complex_of_spectrum(const std::complex<Pack<T>>* x, std::int64_t half, const std::vector<std::complex<T>>& roots,
                         std::complex<Pack<T>>* to) {
  using C = std::complex<Pack<T>>;
  to[0] = C(x[0].real() + x[half].real(), x[0].real() - x[half].real());
  for (std::int64_t k = 1; 2 * k <= half; ++k) {
    const C mirrored = conj<T>(x[half - k]);
    const C even = x[k] + mirrored;
    const std::complex<T> w = roots[at(k)];
    const C turned = times<T>(x[k] - mirrored, {w.imag(), w.real()});  // by i conj(w)
    to[k] = even + turned;
    to[half - k] = conj<T>(even - turned);
  }
}

template <class T>
void real_forward(const T* in, std::complex<T>* out, std::int64_t lines, std::int64_t n) {
  using C = std::complex<T>;
  const std::int64_t half = n / 2, results = half + 1;
  for_packs<T>(lines, n, [=](Lines<T>& own, const auto& numbers) {
    const auto to = places(out, numbers, [=](std::int64_t line) { return line * results; });
    if (n % 2 == 0) {
      // A complex element is two reals in memory, as the standard has it.
      pack<T>(places(reinterpret_cast<const C*>(in), numbers, [=](std::int64_t line) { return line * half; }), half,
              own.lines(half));
      auto& spectrum = own.work(results);
      spectrum_of_reals<T>(own.run(false, half), half, own.roots(n), spectrum.data());
      return unpack<T>(spectrum.data(), results, T{1}, to);
    }
    T* packed = reinterpret_cast<T*>(own.lines(n));
    for (std::int64_t i = 0; i < n; ++i, packed += 2 * Pack<T>::kLanes) {
      for (std::int64_t l = 0; l < Pack<T>::kLanes; ++l) {
        packed[l] = in[numbers[at(l)] * n + i];
        packed[Pack<T>::kLanes + l] = 0;
      }
    }
    unpack<T>(own.run(false, n), results, T{1}, to);
  });
}

// The other half of the spectrum is the conjugate of the one that is there; that of the mean, and of the highest
// frequency of an even number, is real.
template <class T>
void real_inverse(const std::complex<T>* in, T* out, std::int64_t lines, std::int64_t n, T scale) {
  using C = std::complex<T>;
  const std::int64_t half = n / 2, given = half + 1;
  for_packs<T>(lines, n, [=](Lines<T>& own, const auto& numbers) {
    auto& spectrum = own.work(given);
    pack<T>(places(in, numbers, [=](std::int64_t line) { return line * given; }), given, spectrum.data());
    if (n % 2 == 0) {
      complex_of_spectrum<T>(spectrum.data(), half, own.roots(n), own.lines(half));
      return unpack<T>(own.run(true, half), half, scale,
                       places(reinterpret_cast<C*>(out), numbers, [=](std::int64_t line) { return line * half; }));
    }
    auto* whole = own.lines(n);
    whole[0] = {spectrum[0].real(), Pack<T>()};
    for (std::int64_t k = 1; k <= half; ++k) {
      whole[k] = spectrum[at(k)];
      whole[n - k] = conj<T>(spectrum[at(k)]);
    }
    const T* result = reinterpret_cast<const T*>(own.run(true, n));
    for (std::int64_t i = 0; i < n; ++i, result += 2 * Pack<T>::kLanes) {
      for (std::int64_t l = 0; l < Pack<T>::kLanes; ++l) out[numbers[at(l)] * n + i] = result[l] * scale;
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
