// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/kernels/fixed_order.h"

#include <algorithm>
#include <array>
#include <complex>
#include <vector>

#include "base/strings.h"
#include "base/thread_pool.h"
#include "engines/cpu/kernels/elementwise/elementwise_kernels.h"
#include "tessera/error.h"

namespace tessera::kernels {

namespace {

constexpr std::int64_t kLanes = 16;
constexpr std::int64_t kSummedBlock = 2048;
constexpr std::int64_t kSummedColumns = 256;

template <class T>
struct Complex {  // std::complex multiplies with care for infinities that costs a call
  T re, im;
};
template <class T>
T plus(T a, T b) {
  return a + b;
}
template <class T>
Complex<T> plus(Complex<T> a, Complex<T> b) {
  return {a.re + b.re, a.im + b.im};
}
template <class T>
T times(T a, T b) {
  return a * b;
}
template <class T>
Complex<T> times(Complex<T> a, Complex<T> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
template <class T>
T number(double x) {
  return static_cast<T>(x);
}
template <>
Complex<float> number(double x) {
  return {static_cast<float>(x), 0};
}
template <>
Complex<double> number(double x) {
  return {x, 0};
}

template <class T, bool kProduct>
T combine(T a, T b) {
  if constexpr (kProduct) return times(a, b);
  return plus(a, b);
}

// Some columns of one stack of rows. Blocks wait in `levels` until their neighbour is there, as the bits of a counter.
template <class T, bool kProduct>
class Columns {
 public:
  Columns(const T* in, std::int64_t red, std::int64_t stride, std::int64_t columns)
      : in_(in), red_(red), stride_(stride), columns_(columns), lanes_(at(kLanes * columns)) {}

  void run(T* out) {
    for (std::int64_t r = 0; r < red_; r += kSummedBlock) push(block(r, std::min(red_, r + kSummedBlock)));
    std::vector<T> total;
    for (auto& level : levels_) {
      if (level.empty()) continue;
      if (total.empty()) {
        total = std::move(level);
      } else {
        for (std::size_t c = 0; c < total.size(); ++c) total[c] = combine<T, kProduct>(level[c], total[c]);
      }
    }
    std::copy(total.begin(), total.end(), out);
  }

 private:
  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

  std::vector<T> block(std::int64_t begin, std::int64_t end) {
    std::fill(lanes_.begin(), lanes_.end(), number<T>(kProduct ? 1 : 0));
    std::int64_t r = begin;
    if (columns_ == 1 && stride_ == 1) {
      for (; r + kLanes <= end; r += kLanes) {
        for (std::int64_t l = 0; l < kLanes; ++l) {
          lanes_[at(l)] = combine<T, kProduct>(lanes_[at(l)], in_[r + l]);
        }
      }
    }
    for (; r < end; ++r) {
      const T* from = in_ + r * stride_;
      T* lane = lanes_.data() + (r - begin) % kLanes * columns_;
      for (std::int64_t c = 0; c < columns_; ++c) lane[c] = combine<T, kProduct>(lane[c], from[c]);
    }
    for (std::int64_t width = kLanes / 2; width > 0; width /= 2) {
      for (std::int64_t i = 0; i < width * columns_; ++i) {
        lanes_[at(i)] = combine<T, kProduct>(lanes_[at(i)], lanes_[at(i + width * columns_)]);
      }
    }
    return {lanes_.begin(), lanes_.begin() + columns_};
  }

  void push(std::vector<T> sum) {
    for (auto& level : levels_) {
      if (level.empty()) {
        level = std::move(sum);
        return;
      }
      for (std::size_t c = 0; c < sum.size(); ++c) sum[c] = combine<T, kProduct>(level[c], sum[c]);
      level.clear();
    }
    levels_.push_back(std::move(sum));
  }

  const T* in_;
  std::int64_t red_, stride_, columns_;
  std::vector<T> lanes_;
  std::vector<std::vector<T>> levels_;
};

template <class T, bool kProduct>
void reduce_typed(const void* in, void* out, std::int64_t outer, std::int64_t red, std::int64_t inner) {
  std::int64_t strips = (inner + kSummedColumns - 1) / kSummedColumns;
  std::int64_t grain = std::max<std::int64_t>(1, 16384 / (red * std::min(inner, kSummedColumns)));
  base::parallel_for(outer * strips, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t u = begin; u < end; ++u) {
      std::int64_t o = u / strips;
      std::int64_t column = u % strips * kSummedColumns;
      Columns<T, kProduct>(static_cast<const T*>(in) + o * red * inner + column, red, inner,
                           std::min(kSummedColumns, inner - column))
          .run(static_cast<T*>(out) + o * inner + column);
    }
  });
}

template <class T>
void reduce_typed(ReduceOp op, const void* in, void* out, std::int64_t outer, std::int64_t red, std::int64_t inner) {
  if (op == ReduceOp::Prod) return reduce_typed<T, true>(in, out, outer, red, inner);
  reduce_typed<T, false>(in, out, outer, red, inner);
}

constexpr std::int64_t kRows = 4;
constexpr std::int64_t kCols = 16;
constexpr std::int64_t kDepth = 256;

template <class T>
using ProductTile = std::array<std::array<T, kCols>, kRows>;

// `a` is [depth, kRows], `b` [depth, kCols], both packed with zeros beyond the matrix: every tile runs the same code.
template <class T>
void multiply_tile(const T* a, const T* b, std::int64_t depth, ProductTile<T>& total) {
  for (std::int64_t k0 = 0; k0 < depth; k0 += kDepth) {
    ProductTile<T> sum{};
    for (std::int64_t k = k0; k < std::min(depth, k0 + kDepth); ++k) {
      for (std::size_t i = 0; i < kRows; ++i) {
        for (std::size_t j = 0; j < kCols; ++j) {
          sum[i][j] = plus(sum[i][j], times(a[k * kRows + static_cast<std::int64_t>(i)],
                                            b[k * kCols + static_cast<std::int64_t>(j)]));
        }
      }
    }
    for (std::size_t i = 0; i < kRows; ++i) {
      for (std::size_t j = 0; j < kCols; ++j) total[i][j] = plus(total[i][j], sum[i][j]);
    }
  }
}

template <class T>
void gemm_typed(const GemmShape& s, const T* a, const T* b, T* c) {
  std::vector<T> rows(static_cast<std::size_t>(s.k * kRows));
  std::int64_t strips = (s.n + kCols - 1) / kCols;
  std::vector<T> columns(static_cast<std::size_t>(strips * s.k * kCols));
  T* packed = columns.data();
  for (std::int64_t j = 0; j < s.n; ++j) {
    T* to = packed + j / kCols * s.k * kCols + j % kCols;
    for (std::int64_t k = 0; k < s.k; ++k) to[k * kCols] = s.trans_b ? b[j * s.ldb + k] : b[k * s.ldb + j];
  }
  for (std::int64_t i0 = 0; i0 < s.m; i0 += kRows) {
    std::int64_t height = std::min(kRows, s.m - i0);
    std::fill(rows.begin(), rows.end(), T{});
    for (std::int64_t i = 0; i < height; ++i) {
      for (std::int64_t k = 0; k < s.k; ++k) {
        rows[static_cast<std::size_t>(k * kRows + i)] = s.trans_a ? a[k * s.lda + i0 + i] : a[(i0 + i) * s.lda + k];
      }
    }
    for (std::int64_t j0 = 0; j0 < s.n; j0 += kCols) {
      ProductTile<T> total{};
      multiply_tile(rows.data(), packed + j0 * s.k, s.k, total);
      for (std::int64_t i = 0; i < height; ++i) {
        for (std::int64_t j = 0; j < std::min(kCols, s.n - j0); ++j) {
          c[(i0 + i) * s.ldc + j0 + j] = total[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)];
        }
      }
    }
  }
}

template <class T>
void gemm_typed(const GemmShape& s, const void* a, const void* b, void* c) {
  gemm_typed(s, static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(c));
}

[[noreturn]] void refuse(const char* function, DType t) {
  throw UnimplementedError(str(function, ": dtype = ", dtype_name(t), "; expected an inexact dtype"));
}

}  // namespace

void reduce_fixed(ReduceOp op, DType dtype, const void* in, void* out, std::int64_t outer, std::int64_t red,
                  std::int64_t inner) {
  if (outer * inner == 0 || red == 0) return reduce(op, dtype, in, out, outer, red, inner);
  switch (dtype) {
    case DType::F32:
      return reduce_typed<float>(op, in, out, outer, red, inner);
    case DType::F64:
      return reduce_typed<double>(op, in, out, outer, red, inner);
    case DType::C64:
      return reduce_typed<Complex<float>>(op, in, out, outer, red, inner);
    case DType::C128:
      return reduce_typed<Complex<double>>(op, in, out, outer, red, inner);
    case DType::F16:
    case DType::BF16: {
      std::vector<float> wide(static_cast<std::size_t>(outer * red * inner));
      std::vector<float> sums(static_cast<std::size_t>(outer * inner));
      ew_find(EwOp::Convert, dtype, DType::F32)(in, nullptr, nullptr, wide.data(), outer * red * inner);
      reduce_typed<float>(op, wide.data(), sums.data(), outer, red, inner);
      return ew_find(EwOp::Convert, DType::F32, dtype)(sums.data(), nullptr, nullptr, out, outer * inner);
    }
    default:
      refuse("reduce_fixed", dtype);
  }
}

void gemm_fixed(DType t, const GemmShape& s, const void* a, const void* b, void* c) {
  switch (t) {
    case DType::F32:
      return gemm_typed<float>(s, a, b, c);
    case DType::F64:
      return gemm_typed<double>(s, a, b, c);
    case DType::C64:
      return gemm_typed<Complex<float>>(s, a, b, c);
    case DType::C128:
      return gemm_typed<Complex<double>>(s, a, b, c);
    default:
      refuse("gemm_fixed", t);
  }
}

}  // namespace tessera::kernels
