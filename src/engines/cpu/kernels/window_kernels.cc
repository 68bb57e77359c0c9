// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/kernels/window_kernels.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <type_traits>

#include "base/strings.h"
#include "base/thread_pool.h"
#include "core/with_type.h"
#include "engines/cpu/kernels/copy_kernels.h"
#include "engines/cpu/kernels/elementwise/elementwise_kernels.h"
#include "tessera/error.h"
#include "tessera/shape.h"

namespace tessera::kernels {

namespace {

using Dims = std::vector<std::int64_t>;

constexpr std::int64_t kWindowGrain = 16 << 10;

std::array<Dims*, 7> all_of(WindowSpec& s) {
  return {&s.in_shape, &s.window, &s.strides, &s.pad_low, &s.pad_high, &s.base_dilation, &s.window_dilation};
}

bool trivial(const WindowSpec& s, std::size_t d) {
  return s.window[d] == 1 && s.strides[d] == 1 && s.pad_low[d] == 0 && s.pad_high[d] == 0 && s.base_dilation[d] == 1;
}

// Trailing dims whose windows hold one element each: rows of elements that are chosen side by side.
std::int64_t take_rows(WindowSpec& s) {
  std::int64_t inner = 1;
  while (!s.in_shape.empty() && trivial(s, s.in_shape.size() - 1)) {
    inner *= s.in_shape.back();
    for (Dims* d : all_of(s)) d->pop_back();
  }
  return inner;
}

// Where the elements of each window are, as rows of the operand; in order of the elements.
class WindowRows {
 public:
  WindowRows(const WindowSpec& s, const Dims& out_shape)
      : s_(s), out_shape_(out_shape), at_(out_shape.size(), 0), found_(out_shape.size()) {
    for (std::size_t d = 0; d < out_shape.size(); ++d) find(d);
  }

  const Dims& rows() {
    rows_.assign(1, 0);
    for (std::size_t d = 0; d < at_.size(); ++d) {
      next_.clear();
      for (std::int64_t row : rows_) {
        for (std::int64_t x : found_[d]) next_.push_back(row * s_.in_shape[d] + x);
      }
      rows_.swap(next_);
    }
    return rows_;
  }
  void advance() {
    for (std::size_t d = at_.size(); d-- > 0;) {
      const bool within = ++at_[d] < out_shape_[d];
      if (!within) at_[d] = 0;
      find(d);
      if (within) return;
    }
  }

 private:
  void find(std::size_t d) {
    found_[d].clear();
    for (std::int64_t k = 0; k < s_.window[d]; ++k) {
      const std::int64_t x = window_position(s_, d, at_[d], k);
      if (x >= 0) found_[d].push_back(x);
    }
  }

  const WindowSpec& s_;
  const Dims& out_shape_;
  Dims at_, rows_, next_;
  std::vector<Dims> found_;  // by dim: positions in the current window
};

// Takes the place of the best where a comparison fails, so that a NaN gives way to whatever follows and takes over
// whatever precedes.
template <bool kLargest, class T, class Number>
void choose(const T* x, Number number, T* best, Number* chosen, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    const bool keeps = kLargest ? best[i] >= x[i] : best[i] <= x[i];
    best[i] = keeps ? best[i] : x[i];
    chosen[i] = keeps ? chosen[i] : number;
  }
}

template <class T>
void scatter_windows(bool largest, const WindowSpec& s, const Dims& out_shape, std::int64_t inner, const T* in,
                     const T* source, T* to) {
  constexpr std::int64_t kBlock = 256;
  using Number = std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>;
  T best[kBlock];
  Number chosen[kBlock];
  WindowRows windows(s, out_shape);
  for (std::int64_t w = size_of(out_shape); w > 0; --w, source += inner, windows.advance()) {
    const Dims& rows = windows.rows();
    if (rows.empty()) continue;
    for (std::int64_t c = 0; c < inner; c += kBlock) {
      const std::int64_t n = std::min(kBlock, inner - c);
      std::copy_n(in + rows[0] * inner + c, n, best);
      std::fill_n(chosen, n, Number{0});
      for (std::size_t k = 1; k < rows.size(); ++k) {
        const T* x = in + rows[k] * inner + c;
        const auto number = static_cast<Number>(k);
        largest ? choose<true>(x, number, best, chosen, n) : choose<false>(x, number, best, chosen, n);
      }
      for (std::int64_t i = 0; i < n; ++i) {
        T& r = to[rows[static_cast<std::size_t>(chosen[i])] * inner + c + i];
        r = static_cast<T>(r + source[c + i]);
      }
    }
  }
}

template <class T>
void scatter_typed(bool largest, const WindowSpec& s, const void* in, const void* source, const void* init, void* out) {
  Dims out_shape = window_out_shape(s);
  fill(out, init, sizeof(T), size_of(s.in_shape));
  // Leading dims whose windows do not reach across are independent: batches and features run side by side.
  std::int64_t outer = 1;
  WindowSpec rest = s;
  while (!rest.in_shape.empty() && trivial(rest, 0)) {
    outer *= rest.in_shape[0];
    for (Dims* d : all_of(rest)) d->erase(d->begin());
  }
  const std::int64_t inner = take_rows(rest);
  Dims rest_out = window_out_shape(rest);
  std::int64_t in_size = size_of(rest.in_shape) * inner, out_size = size_of(rest_out) * inner;
  base::parallel_for(
      outer, std::max<std::int64_t>(1, kWindowGrain / std::max<std::int64_t>(1, out_size * size_of(rest.window))),
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t u = begin; u < end; ++u) {
          scatter_windows(largest, rest, rest_out, inner, static_cast<const T*>(in) + u * in_size,
                          static_cast<const T*>(source) + u * out_size, static_cast<T*>(out) + u * in_size);
        }
      });
}

}  // namespace

std::int64_t window_position(const WindowSpec& s, std::size_t dim, std::int64_t o, std::int64_t k) {
  std::int64_t at = o * s.strides[dim] - s.pad_low[dim] + k * s.window_dilation[dim];
  if (at < 0 || at % s.base_dilation[dim] != 0) return -1;
  at /= s.base_dilation[dim];
  return at < s.in_shape[dim] ? at : -1;
}

Dims window_out_shape(const WindowSpec& s) {
  Dims out;
  for (std::size_t d = 0; d < s.in_shape.size(); ++d) {
    std::int64_t extent = s.in_shape[d] == 0 ? 0 : (s.in_shape[d] - 1) * s.base_dilation[d] + 1;
    std::int64_t reach = (s.window[d] - 1) * s.window_dilation[d] + 1;
    std::int64_t room = extent + s.pad_low[d] + s.pad_high[d] - reach;
    out.push_back(room < 0 ? 0 : room / s.strides[d] + 1);
  }
  return out;
}

void select_and_scatter_add(bool largest, DType dtype, const WindowSpec& spec, const void* in, const void* source,
                            const void* init, void* out) {
  if (size_of(spec.in_shape) == 0) return;
  core::with_type(dtype, [&]<class T>() {
    if constexpr (std::is_arithmetic_v<T>) {
      if (dtype != DType::Bool) return scatter_typed<T>(largest, spec, in, source, init, out);
    } else if constexpr (!is_complex(dtype_of<T>())) {
      std::int64_t n = size_of(spec.in_shape);
      auto x = widen_halves(dtype, in, n), y = widen_halves(dtype, source, size_of(window_out_shape(spec))),
           z = widen_halves(dtype, init, 1);
      std::vector<float> sums(x.size());
      scatter_typed<float>(largest, spec, x.data(), y.data(), z.data(), sums.data());
      return ew_find(EwOp::Convert, DType::F32, dtype)(sums.data(), nullptr, nullptr, out, n);
    }
    throw UnimplementedError(str("select_and_scatter_add: dtype = ", dtype_name(dtype), "; expected a real dtype"));
  });
}

}  // namespace tessera::kernels
