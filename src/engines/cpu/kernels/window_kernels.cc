// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/kernels/window_kernels.h"

#include <algorithm>
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

bool trivial(const WindowSpec& s, std::size_t d) {
  return s.window[d] == 1 && s.strides[d] == 1 && s.pad_low[d] == 0 && s.pad_high[d] == 0 && s.base_dilation[d] == 1;
}

template <class T>
void scatter_windows(bool largest, const WindowSpec& s, const Dims& out_shape, const T* in, const T* source, T* to) {
  std::size_t rank = s.in_shape.size();
  Dims o(rank, 0), k(rank, 0);
  std::int64_t windows = size_of(out_shape), elements = size_of(s.window);
  for (std::int64_t w = 0; w < windows; ++w) {
    std::int64_t chosen = -1;
    std::fill(k.begin(), k.end(), 0);
    for (std::int64_t e = 0; e < elements; ++e) {
      std::int64_t at = 0;
      for (std::size_t d = 0; d < rank && at >= 0; ++d) {
        std::int64_t x = window_position(s, d, o[d], k[d]);
        at = x < 0 ? -1 : at * s.in_shape[d] + x;
      }
      // Kept where the comparison holds, so that a NaN gives way to whatever follows and takes over whatever precedes.
      if (at >= 0 && (chosen < 0 || !(largest ? in[chosen] >= in[at] : in[chosen] <= in[at]))) chosen = at;
      for (std::size_t d = rank; d-- > 0;) {
        if (++k[d] < s.window[d]) break;
        k[d] = 0;
      }
    }
    if (chosen >= 0) to[chosen] = static_cast<T>(to[chosen] + source[w]);
    for (std::size_t d = rank; d-- > 0;) {
      if (++o[d] < out_shape[d]) break;
      o[d] = 0;
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
    for (Dims* d : {&rest.in_shape, &rest.window, &rest.strides, &rest.pad_low, &rest.pad_high, &rest.base_dilation,
                    &rest.window_dilation}) {
      d->erase(d->begin());
    }
  }
  Dims rest_out = window_out_shape(rest);
  std::int64_t in_size = size_of(rest.in_shape), out_size = size_of(rest_out);
  base::parallel_for(
      outer, std::max<std::int64_t>(1, kWindowGrain / std::max<std::int64_t>(1, out_size * size_of(rest.window))),
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t u = begin; u < end; ++u) {
          scatter_windows(largest, rest, rest_out, static_cast<const T*>(in) + u * in_size,
                          static_cast<const T*>(source) + u * out_size, static_cast<T*>(out) + u * in_size);
        }
      });
}

std::vector<float> widen(DType half, const void* in, std::int64_t n) {
  std::vector<float> wide(static_cast<std::size_t>(n));
  ew_find(EwOp::Convert, half, DType::F32)(in, nullptr, nullptr, wide.data(), n);
  return wide;
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
      auto x = widen(dtype, in, n), y = widen(dtype, source, size_of(window_out_shape(spec))),
           z = widen(dtype, init, 1);
      std::vector<float> sums(x.size());
      scatter_typed<float>(largest, spec, x.data(), y.data(), z.data(), sums.data());
      return ew_find(EwOp::Convert, DType::F32, dtype)(sums.data(), nullptr, nullptr, out, n);
    }
    throw UnimplementedError(str("select_and_scatter_add: dtype = ", dtype_name(dtype), "; expected a real dtype"));
  });
}

}  // namespace tessera::kernels
