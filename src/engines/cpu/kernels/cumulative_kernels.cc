// SPDX-License-Identifier: Apache-2.0
// Positions of extremes and running totals.
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "base/strings.h"
#include "base/thread_pool.h"
#include "core/with_type.h"
#include "engines/cpu/kernels/elementwise/elementwise_kernels.h"
#include "engines/cpu/kernels/reduce_axes.h"
#include "engines/cpu/kernels/reduce_kernels.h"
#include "tessera/error.h"

namespace tessera::kernels {

namespace {

constexpr std::int64_t kCumulativeGrain = 16 << 10;

template <class T>
bool is_nan(T v) {
  return v != v;
}

// A row: its extreme first, by the vector kernel, then where that stands.
template <class T, class I>
void arg_rows(RowReduceFn extreme, const T* in, I* out, std::int64_t rows, std::int64_t red) {
  for (std::int64_t r = 0; r < rows; ++r, in += red) {
    T best;
    extreme(in, &best, 1, red);
    std::int64_t at = 0;
    if (is_nan(best)) {
      while (!is_nan(in[at])) ++at;
    } else {
      while (in[at] != best) ++at;
    }
    out[r] = static_cast<I>(at);
  }
}

template <class T, class I>
void arg_columns(bool largest, const T* in, I* out, std::int64_t red, std::int64_t inner) {
  std::vector<T> best(in, in + inner);
  std::fill(out, out + inner, I{0});
  for (std::int64_t r = 1; r < red; ++r) {
    const T* x = in + r * inner;
    for (std::int64_t j = 0; j < inner; ++j) {
      bool better = (largest ? x[j] > best[static_cast<std::size_t>(j)] : x[j] < best[static_cast<std::size_t>(j)]) ||
                    (is_nan(x[j]) && !is_nan(best[static_cast<std::size_t>(j)]));
      best[static_cast<std::size_t>(j)] = better ? x[j] : best[static_cast<std::size_t>(j)];
      out[j] = better ? static_cast<I>(r) : out[j];
    }
  }
}

template <class T, class I>
void arg_typed(bool largest, const void* in, void* out, std::int64_t outer, std::int64_t red, std::int64_t inner) {
  RowReduceFn extreme = find_reduce(largest ? ReduceOp::Max : ReduceOp::Min, dtype_of<T>()).row;
  base::parallel_for(outer, std::max<std::int64_t>(1, kCumulativeGrain / (red * inner)),
                     [&](std::int64_t begin, std::int64_t end) {
                       const T* x = static_cast<const T*>(in) + begin * red * inner;
                       I* r = static_cast<I*>(out) + begin * inner;
                       if (inner == 1) return arg_rows(extreme, x, r, end - begin, red);
                       for (std::int64_t o = begin; o < end; ++o, x += red * inner, r += inner)
                         arg_columns(largest, x, r, red, inner);
                     });
}

template <class T>
void arg_index(bool largest, DType index, const void* in, void* out, std::int64_t outer, std::int64_t red,
               std::int64_t inner) {
  if (index == DType::I64) return arg_typed<T, std::int64_t>(largest, in, out, outer, red, inner);
  arg_typed<T, std::int32_t>(largest, in, out, outer, red, inner);
}

template <class T>
T log_add_exp(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return a + b;
  T high = std::max(a, b), low = std::min(a, b);
  if (std::isinf(high)) return high;
  return high + std::log1p(std::exp(low - high));
}

template <class T, ScanOp Op>
T step(T a, T b) {
  if constexpr (Op == ScanOp::Sum) {
    return static_cast<T>(a + b);
  } else if constexpr (Op == ScanOp::Prod) {
    if constexpr (std::is_integral_v<T> && sizeof(T) == 2) return static_cast<T>(1u * a * b);  // int would overflow
    return static_cast<T>(a * b);
  } else if constexpr (Op == ScanOp::LogSumExp) {
    return log_add_exp(a, b);
  } else {
    bool first = Op == ScanOp::Max ? a > b : a < b;
    if constexpr (std::is_floating_point_v<T>) first = first || (a == b && std::signbit(a) == (Op == ScanOp::Min));
    return first || is_nan(a) ? a : b;
  }
}

// The first of a line: what 0 (and log 0) is combined with is 0, also where it was -0.
template <class T, ScanOp Op>
T first(T a) {
  if constexpr (std::is_floating_point_v<T> && (Op == ScanOp::Sum || Op == ScanOp::LogSumExp)) {
    return a + T{0};
  } else {
    return a;
  }
}

template <class T, ScanOp Op>
void scan_typed(bool reverse, const void* in, void* out, std::int64_t outer, std::int64_t red, std::int64_t inner) {
  base::parallel_for(outer, std::max<std::int64_t>(1, kCumulativeGrain / (red * inner)),
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t o = begin; o < end; ++o) {
                         const T* x = static_cast<const T*>(in) + o * red * inner;
                         T* r = static_cast<T*>(out) + o * red * inner;
                         std::int64_t by = reverse ? -inner : inner;
                         std::int64_t at = reverse ? (red - 1) * inner : 0;
                         if (inner == 1) {
                           T total = r[at] = first<T, Op>(x[at]);
                           for (std::int64_t i = 1; i < red; ++i) {
                             at += by;
                             r[at] = total = step<T, Op>(total, x[at]);
                           }
                           continue;
                         }
                         std::transform(x + at, x + at + inner, r + at, first<T, Op>);
                         for (std::int64_t i = 1; i < red; ++i, at += by) {
                           for (std::int64_t j = 0; j < inner; ++j)
                             r[at + by + j] = step<T, Op>(r[at + j], x[at + by + j]);
                         }
                       }
                     });
}

using ScanFn = void (*)(bool, const void*, void*, std::int64_t, std::int64_t, std::int64_t);

template <class T>
ScanFn find_scan(ScanOp op) {
  using U = std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;
  switch (op) {
    case ScanOp::Sum:
      return scan_typed<U, ScanOp::Sum>;
    case ScanOp::Prod:
      return scan_typed<U, ScanOp::Prod>;
    case ScanOp::Max:
      if constexpr (std::is_arithmetic_v<T>) return scan_typed<T, ScanOp::Max>;
      return nullptr;
    case ScanOp::Min:
      if constexpr (std::is_arithmetic_v<T>) return scan_typed<T, ScanOp::Min>;
      return nullptr;
    default:
      if constexpr (std::is_floating_point_v<T>) return scan_typed<T, ScanOp::LogSumExp>;
      return nullptr;
  }
}

ScanFn find_scan(ScanOp op, DType t) {
  return core::with_type(t, [&]<class T>() -> ScanFn {
    if constexpr (std::is_same_v<T, float16_t> || std::is_same_v<T, bfloat16_t>) {
      return nullptr;
    } else {
      return t == DType::Bool ? nullptr : find_scan<T>(op);
    }
  });
}

}  // namespace

void arg_reduce(bool largest, DType dtype, DType index_dtype, const void* in, void* out, std::int64_t outer,
                std::int64_t red, std::int64_t inner) {
  if (outer * inner == 0) return;
  if (is_half(dtype)) {
    auto wide = widen_halves(dtype, in, outer * red * inner);
    return arg_reduce(largest, DType::F32, index_dtype, wide.data(), out, outer, red, inner);
  }
  core::with_type(dtype, [&]<class T>() {
    if constexpr (std::is_arithmetic_v<T>) {
      arg_index<T>(largest, index_dtype, in, out, outer, red, inner);
    } else {
      throw UnimplementedError(str("arg_reduce: dtype = ", dtype_name(dtype), "; expected a real dtype or bool"));
    }
  });
}

void cumulative(ScanOp op, DType dtype, bool reverse, const void* in, void* out, std::int64_t outer, std::int64_t red,
                std::int64_t inner) {
  DType compute = accumulator_dtype(dtype);
  ScanFn fn = find_scan(op, compute);
  if (!fn) {
    throw UnimplementedError(str("cumulative: dtype = ", dtype_name(dtype), " with operation ", static_cast<int>(op),
                                 "; expected a dtype that has it"));
  }
  std::int64_t n = outer * red * inner;
  if (n == 0) return;
  if (!is_half(dtype)) return fn(reverse, in, out, outer, red, inner);
  auto wide = widen_halves(dtype, in, n);
  std::vector<float> totals(wide.size());
  fn(reverse, wide.data(), totals.data(), outer, red, inner);
  ew_find(EwOp::Convert, DType::F32, dtype)(totals.data(), nullptr, nullptr, out, n);
}

}  // namespace tessera::kernels
