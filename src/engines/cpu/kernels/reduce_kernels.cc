// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/kernels/reduce_kernels.h"

#include <algorithm>
#include <complex>
#include <cstdint>
#include <utility>

#include "core/with_type.h"
#include "engines/cpu/kernels/elementwise/ew_find.h"
#include "engines/cpu/kernels/simd.h"

#define HWY_TARGET_INCLUDE "engines/cpu/kernels/reduce_kernels.cc"
#include "hwy/foreach_target.h"
// After foreach_target, which compiles this file once per instruction set.
#include "engines/cpu/kernels/elementwise/ew_loops-inl.h"
#include "engines/cpu/kernels/vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

// Sums up to this many elements with two vectors of accumulators; longer ranges are halved. Fixed, for reproducibility.
constexpr std::int64_t kLeaf = 4096;

struct SumOf {
  template <class V>
  static V op(V a, V b) {
    return a + b;
  }
  template <class T>
  static constexpr T identity = T(0);
};
struct ProdOf {
  template <class V>
  static V op(V a, V b) {
    // Numbers of 16 bits would be multiplied as int, which has no room for all products.
    if constexpr (std::is_integral_v<V> && sizeof(V) < sizeof(int)) {
      return static_cast<V>(static_cast<unsigned>(a) * static_cast<unsigned>(b));
    } else {
      return a * b;
    }
  }
  template <class T>
  static constexpr T identity = T(1);
};
// The bits that two floats have in common (`kAll`), or that either has; of vectors too.
template <bool kAll, class V>
HWY_INLINE V joined(V a, V b) {
  if constexpr (std::is_floating_point_v<V>) {
    using U = std::conditional_t<sizeof(V) == 4, std::uint32_t, std::uint64_t>;
    const U x = __builtin_bit_cast(U, a), y = __builtin_bit_cast(U, b);
    return __builtin_bit_cast(V, kAll ? static_cast<U>(x & y) : static_cast<U>(x | y));
  } else {
    using Bits = decltype(a > b);
    const Bits x = __builtin_bit_cast(Bits, a), y = __builtin_bit_cast(Bits, b);
    return __builtin_bit_cast(V, kAll ? x & y : x | y);
  }
}
template <class V>
inline constexpr bool holds_floats = std::is_floating_point_v<V>;
template <class V>
requires(!std::is_arithmetic_v<V>) inline constexpr bool holds_floats<V> =
    std::is_floating_point_v<std::remove_cvref_t<decltype(V{}[0])>>;

struct MaxOf {
  template <class V>
  static V op(V a, V b) {
    V m = a > b ? a : b;  // b when either is NaN
    if constexpr (!holds_floats<V>) {
      return m;
    } else {
      // Zeros of different signs are equal: of those the bits in common are 0's.
      V n = b > a ? b : a;
      V both = joined<true>(m, n);
      V y = b != b ? b : both;
      return a != a ? a : y;
    }
  }
  template <class T>
  static constexpr T identity = std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                                     : std::numeric_limits<T>::lowest();
};
struct MinOf {
  template <class V>
  static V op(V a, V b) {
    V m = a < b ? a : b;
    if constexpr (!holds_floats<V>) {
      return m;
    } else {
      V n = b < a ? b : a;
      V either = joined<false>(m, n);
      V y = b != b ? b : either;
      return a != a ? a : y;
    }
  }
  template <class T>
  static constexpr T identity = std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity()
                                                                     : std::numeric_limits<T>::max();
};
struct AndOf {
  template <class V>
  static V op(V a, V b) {
    return a & b;
  }
  template <class T>
  static constexpr T identity = static_cast<T>(~T(0));
};
struct OrOf {
  template <class V>
  static V op(V a, V b) {
    return a | b;
  }
  template <class T>
  static constexpr T identity = T(0);
};

// The accumulators of a leaf: vectors join them in pairs, by turns. So compiled code needs two registers, and waits for
// one addition where it has four vectors.
template <class T, class Op>
struct Fold {
  Vec<T> a = Vec<T>{} + Op::template identity<T>, b = a;
  HWY_INLINE void add(Vec<T> v, Vec<T> w, Vec<T> x, Vec<T> y) {
    a = Op::op(a, Op::op(v, w));
    b = Op::op(b, Op::op(x, y));
  }
  HWY_INLINE void add(Vec<T> v) { a = Op::op(a, v); }
  HWY_INLINE Vec<T> result() const { return Op::op(a, b); }
};

#if HWY_TARGET == HWY_AVX3
HWY_INLINE unsigned unordered(Vec<float> a, Vec<float> b) { return _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q); }
HWY_INLINE unsigned unordered(Vec<double> a, Vec<double> b) { return _mm512_cmp_pd_mask(a, b, _CMP_UNORD_Q); }
// Unlike the older instructions these order zeros by their signs.
constexpr int kLargest = 0b0101, kSmallest = 0b0100;
HWY_INLINE Vec<float> extremum(MaxOf, Vec<float> a, Vec<float> b) { return _mm512_range_ps(a, b, kLargest); }
HWY_INLINE Vec<float> extremum(MinOf, Vec<float> a, Vec<float> b) { return _mm512_range_ps(a, b, kSmallest); }
HWY_INLINE Vec<double> extremum(MaxOf, Vec<double> a, Vec<double> b) { return _mm512_range_pd(a, b, kLargest); }
HWY_INLINE Vec<double> extremum(MinOf, Vec<double> a, Vec<double> b) { return _mm512_range_pd(a, b, kSmallest); }

// The instructions for extrema forget a NaN with the next number: whether there was one is kept apart.
template <class T, class Op>
requires(std::is_floating_point_v<T> && (std::is_same_v<Op, MaxOf> || std::is_same_v<Op, MinOf>)) struct Fold<T, Op> {
  Vec<T> a = Vec<T>{} + Op::template identity<T>, b = a;
  unsigned nan = 0;
  HWY_INLINE void add(Vec<T> v, Vec<T> w, Vec<T> x, Vec<T> y) {
    nan |= unordered(v, w) | unordered(x, y);
    a = extremum(Op{}, a, extremum(Op{}, v, w));
    b = extremum(Op{}, b, extremum(Op{}, x, y));
  }
  HWY_INLINE void add(Vec<T> v) {
    nan |= unordered(v, v);
    a = extremum(Op{}, a, v);
  }
  HWY_INLINE Vec<T> result() const {
    if (nan != 0) return Vec<T>{} + std::numeric_limits<T>::quiet_NaN();
    return extremum(Op{}, a, b);
  }
};
#endif

template <class T>
HWY_INLINE Vec<T> load(const T* x) {
  Vec<T> v;
  __builtin_memcpy(&v, x, sizeof v);
  return v;
}

template <std::int64_t kBy, class V, std::size_t... kLane>
HWY_INLINE V rotate(V v, std::index_sequence<kLane...>) {
  return __builtin_shufflevector(v, v, static_cast<int>((kLane + kBy) % sizeof...(kLane))...);
}
// The fold of all lanes, the two halves against each other first.
template <class Op, std::int64_t kHalf, class T>
HWY_INLINE T across(Vec<T> v) {
  if constexpr (kHalf == 0) {
    return v[0];
  } else {
    return across<Op, kHalf / 2, T>(Op::op(v, rotate<kHalf>(v, std::make_index_sequence<kLanes<T>>())));
  }
}

template <class T, class Op>
T leaf(const T* x, std::int64_t n) {
  constexpr std::int64_t w = kLanes<T>;
  T total = Op::template identity<T>;
  std::int64_t i = 0;
  if (n >= 2 * w) {
    Fold<T, Op> acc;
    for (; i + 4 * w <= n; i += 4 * w) acc.add(load(x + i), load(x + i + w), load(x + i + 2 * w), load(x + i + 3 * w));
    for (; i + w <= n; i += w) acc.add(load(x + i));
    total = across<Op, w / 2, T>(acc.result());
  }
  for (; i < n; ++i) total = static_cast<T>(Op::op(total, x[i]));
  return total;
}

// As many whole leaves side by side, with the bits of each alone. Reading alone waits for memory, which gives more
// where it is asked in several places: two threads of a Zen 3 read 64 MB in 0.8 of the time with two, in 0.75 with
// four.
template <class T, class Op, std::int64_t kLeaves>
void leaves(const T* x, T* out) {
  constexpr std::int64_t w = kLanes<T>;
  Fold<T, Op> acc[kLeaves];
  for (std::int64_t i = 0; i < kLeaf; i += 4 * w) {
    for (std::int64_t k = 0; k < kLeaves; ++k) {
      const T* at = x + k * kLeaf + i;
      acc[k].add(load(at), load(at + w), load(at + 2 * w), load(at + 3 * w));
    }
  }
  for (std::int64_t k = 0; k < kLeaves; ++k) out[k] = across<Op, w / 2, T>(acc[k].result());
}

template <class T, class Op>
T pairwise(const T* x, std::int64_t n) {
  if (n <= kLeaf) return leaf<T, Op>(x, n);
  if (n == 4 * kLeaf) {
    T of[4];
    leaves<T, Op, 4>(x, of);
    return static_cast<T>(Op::op(static_cast<T>(Op::op(of[0], of[1])), static_cast<T>(Op::op(of[2], of[3]))));
  }
  std::int64_t half = (n / 2 + kLeaf - 1) / kLeaf * kLeaf;
  return static_cast<T>(Op::op(pairwise<T, Op>(x, half), pairwise<T, Op>(x + half, n - half)));
}

template <class T, class Op>
void rows(const void* in, void* out, std::int64_t rows, std::int64_t cols) {
  const T* x = static_cast<const T*>(in);
  for (std::int64_t r = 0; r < rows; ++r) static_cast<T*>(out)[r] = pairwise<T, Op>(x + r * cols, cols);
}

template <class T, class Op>
void columns(void* acc, const void* in, std::int64_t rows, std::int64_t cols, std::int64_t stride) {
  T* a = static_cast<T*>(acc);
  const T* x = static_cast<const T*>(in);
  std::int64_t r = 0;
  for (; r + 4 <= rows; r += 4, x += 4 * stride) {
    const T *x1 = x + stride, *x2 = x1 + stride, *x3 = x2 + stride;
#pragma GCC ivdep
    for (std::int64_t j = 0; j < cols; ++j) {
      a[j] = static_cast<T>(Op::op(
          a[j], static_cast<T>(Op::op(static_cast<T>(Op::op(x[j], x1[j])), static_cast<T>(Op::op(x2[j], x3[j]))))));
    }
  }
  for (; r < rows; ++r, x += stride) {
#pragma GCC ivdep
    for (std::int64_t j = 0; j < cols; ++j) a[j] = static_cast<T>(Op::op(a[j], x[j]));
  }
}

template <class T, class Op>
ReduceFns fns() {
  return {rows<T, Op>, columns<T, Op>};
}

// Sums and products wrap, so they are those of the unsigned type.
template <class T>
ReduceFns integer(ReduceOp op) {
  using U = std::make_unsigned_t<T>;
  switch (op) {
    case ReduceOp::Sum:
      return fns<U, SumOf>();
    case ReduceOp::Prod:
      return fns<U, ProdOf>();
    case ReduceOp::Max:
      return fns<T, MaxOf>();
    case ReduceOp::Min:
      return fns<T, MinOf>();
    case ReduceOp::And:
      return fns<U, AndOf>();
    default:
      return fns<U, OrOf>();
  }
}
template <class T>
ReduceFns floating(ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum:
      return fns<T, SumOf>();
    case ReduceOp::Prod:
      return fns<T, ProdOf>();
    case ReduceOp::Max:
      return fns<T, MaxOf>();
    case ReduceOp::Min:
      return fns<T, MinOf>();
    default:
      return {};
  }
}

ReduceFns find_reduce_here(ReduceOp op, DType t) {
  if (t == DType::Bool) {
    bool any = op == ReduceOp::Sum || op == ReduceOp::Max || op == ReduceOp::Or;
    return any ? fns<std::uint8_t, OrOf>() : fns<std::uint8_t, AndOf>();
  }
  return core::with_type(t, [&]<class T>() -> ReduceFns {
    if constexpr (std::is_integral_v<T>) return integer<T>(op);
    if constexpr (std::is_floating_point_v<T>) return floating<T>(op);
    return {};
  });
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::kernels {
namespace {
HWY_EXPORT(find_reduce_here);

constexpr std::int64_t kBlock = 1024;

// Halves: blocks widened to f32. `Op` and `H` are template arguments because kernels carry no state.
template <ReduceOp Op, DType H>
void half_rows(const void* in, void* out, std::int64_t rows, std::int64_t cols) {
  ReduceFns fns = HWY_DYNAMIC_DISPATCH(find_reduce_here)(Op, DType::F32);
  const auto* x = static_cast<const std::uint16_t*>(in);
  alignas(64) float wide[kBlock];
  float partial[64];
  for (std::int64_t r = 0; r < rows; ++r, x += cols) {
    float total = 0;
    reduce_identity(Op, DType::F32, &total);
    std::int64_t have = 0;
    for (std::int64_t at = 0; at < cols; at += kBlock) {
      std::int64_t n = std::min(kBlock, cols - at);
      half_to_f32(H, x + at, wide, n);
      fns.row(wide, partial + have, 1, n);
      if (++have == 64 || at + n == cols) {  // two levels of adding
        fns.col(&total, partial, have, 1, 1);
        have = 0;
      }
    }
    static_cast<float*>(out)[r] = total;
  }
}
template <ReduceOp Op, DType H>
void half_columns(void* acc, const void* in, std::int64_t rows, std::int64_t cols, std::int64_t stride) {
  ReduceFns fns = HWY_DYNAMIC_DISPATCH(find_reduce_here)(Op, DType::F32);
  const auto* x = static_cast<const std::uint16_t*>(in);
  alignas(64) float wide[4 * kBlock];
  for (std::int64_t at = 0; at < cols; at += kBlock) {
    std::int64_t n = std::min(kBlock, cols - at);
    for (std::int64_t r = 0; r < rows; r += 4) {
      std::int64_t m = std::min<std::int64_t>(4, rows - r);
      for (std::int64_t i = 0; i < m; ++i) half_to_f32(H, x + (r + i) * stride + at, wide + i * n, n);
      fns.col(static_cast<float*>(acc) + at, wide, m, n, n);
    }
  }
}
template <DType H>
ReduceFns half(ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum:
      return {half_rows<ReduceOp::Sum, H>, half_columns<ReduceOp::Sum, H>};
    case ReduceOp::Prod:
      return {half_rows<ReduceOp::Prod, H>, half_columns<ReduceOp::Prod, H>};
    case ReduceOp::Max:
      return {half_rows<ReduceOp::Max, H>, half_columns<ReduceOp::Max, H>};
    case ReduceOp::Min:
      return {half_rows<ReduceOp::Min, H>, half_columns<ReduceOp::Min, H>};
    default:
      return {};
  }
}

template <class C, bool Product>
C combine(const C& a, const C& b) {
  if constexpr (!Product) return a + b;
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}
template <class C, bool Product>
C complex_pairwise(const C* x, std::int64_t n) {
  if (n > 32) {
    return combine<C, Product>(complex_pairwise<C, Product>(x, n / 2),
                               complex_pairwise<C, Product>(x + n / 2, n - n / 2));
  }
  C total{Product ? 1 : 0};
  for (std::int64_t i = 0; i < n; ++i) total = combine<C, Product>(total, x[i]);
  return total;
}
template <class C, bool Product>
void complex_rows(const void* in, void* out, std::int64_t rows, std::int64_t cols) {
  for (std::int64_t r = 0; r < rows; ++r) {
    static_cast<C*>(out)[r] = complex_pairwise<C, Product>(static_cast<const C*>(in) + r * cols, cols);
  }
}
template <class C, bool Product>
void complex_columns(void* acc, const void* in, std::int64_t rows, std::int64_t cols, std::int64_t stride) {
  C* a = static_cast<C*>(acc);
  for (std::int64_t r = 0; r < rows; ++r) {
    const C* x = static_cast<const C*>(in) + r * stride;
    for (std::int64_t j = 0; j < cols; ++j) a[j] = combine<C, Product>(a[j], x[j]);
  }
}
template <class C>
ReduceFns complex(ReduceOp op) {
  if (op == ReduceOp::Sum) return {complex_rows<C, false>, complex_columns<C, false>};
  if (op == ReduceOp::Prod) return {complex_rows<C, true>, complex_columns<C, true>};
  return {};
}

}  // namespace

ReduceFns find_reduce(ReduceOp op, DType t) {
  if (t == DType::F16) return half<DType::F16>(op);
  if (t == DType::BF16) return half<DType::BF16>(op);
  if (t == DType::C64) return complex<complex64_t>(op);
  if (t == DType::C128) return complex<complex128_t>(op);
  return HWY_DYNAMIC_DISPATCH(find_reduce_here)(op, t);
}

}  // namespace tessera::kernels
#endif
