// SPDX-License-Identifier: Apache-2.0
// Axes as the second argument of reductions: a number, a braced list or a `Dims`, negative ones counted from the end,
// and whether the reduced dimensions stay with extent 1.
//   sum(x, 1)    max(x, {0, -1})    mean(x, axes, true)
// An empty `Dims` is no axis, as NumPy's ().
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>

#include "tessera/nn.h"
#include "tessera/numpy.h"
#include "tessera/ops.h"
#include "tessera/statistics.h"

namespace tessera {

namespace detail {
template <class Options, class Axes>
Options along(const Axes& axes, bool keepdims) {
  Options o;
  o.axis = Dims(axes.begin(), axes.end());
  o.keepdims = keepdims;
  return o;
}
}  // namespace detail

// The overloads of one reduction; templates, which leave `{.axis = 1}` and `{}` to the options.
#define TESSERA_AXES_OF(function, Options)                                                       \
  template <std::integral I>                                                                     \
  Array function(const Operand& x, I axis, bool keepdims = false) {                              \
    return function(x, detail::along<Options>(Dims{static_cast<std::int64_t>(axis)}, keepdims)); \
  }                                                                                              \
  template <std::integral I>                                                                     \
  Array function(const Operand& x, std::initializer_list<I> axes, bool keepdims = false) {       \
    return function(x, detail::along<Options>(axes, keepdims));                                  \
  }                                                                                              \
  template <std::same_as<Dims> D>                                                                \
  Array function(const Operand& x, const D& axes, bool keepdims = false) {                       \
    return function(x, detail::along<Options>(axes, keepdims));                                  \
  }

TESSERA_AXES_OF(sum, ReduceOptions)
TESSERA_AXES_OF(prod, ReduceOptions)
TESSERA_AXES_OF(mean, ReduceOptions)
TESSERA_AXES_OF(max, ReduceOptions)
TESSERA_AXES_OF(min, ReduceOptions)
TESSERA_AXES_OF(all, ReduceOptions)
TESSERA_AXES_OF(any, ReduceOptions)
TESSERA_AXES_OF(logsumexp, ReduceOptions)
TESSERA_AXES_OF(ptp, ReduceOptions)
TESSERA_AXES_OF(count_nonzero, ReduceOptions)
TESSERA_AXES_OF(nansum, ReduceOptions)
TESSERA_AXES_OF(nanprod, ReduceOptions)
TESSERA_AXES_OF(nanmax, ReduceOptions)
TESSERA_AXES_OF(nanmin, ReduceOptions)
TESSERA_AXES_OF(nanmean, ReduceOptions)
TESSERA_AXES_OF(var, VarOptions)
TESSERA_AXES_OF(std_, VarOptions)
TESSERA_AXES_OF(nanvar, VarOptions)
TESSERA_AXES_OF(nanstd, VarOptions)
TESSERA_AXES_OF(median, MedianOptions)
TESSERA_AXES_OF(nanmedian, MedianOptions)

namespace nn {
TESSERA_AXES_OF(logmeanexp, ReduceOptions)
}  // namespace nn

#undef TESSERA_AXES_OF

// Order statistics take the share first.
#define TESSERA_AXES_OF(function)                                                                            \
  template <std::integral I>                                                                                 \
  Array function(const Operand& x, const Operand& q, I axis, bool keepdims = false) {                        \
    return function(x, q, detail::along<QuantileOptions>(Dims{static_cast<std::int64_t>(axis)}, keepdims));  \
  }                                                                                                          \
  template <std::integral I>                                                                                 \
  Array function(const Operand& x, const Operand& q, std::initializer_list<I> axes, bool keepdims = false) { \
    return function(x, q, detail::along<QuantileOptions>(axes, keepdims));                                   \
  }                                                                                                          \
  template <std::same_as<Dims> D>                                                                            \
  Array function(const Operand& x, const Operand& q, const D& axes, bool keepdims = false) {                 \
    return function(x, q, detail::along<QuantileOptions>(axes, keepdims));                                   \
  }

TESSERA_AXES_OF(quantile)
TESSERA_AXES_OF(percentile)
TESSERA_AXES_OF(nanquantile)
TESSERA_AXES_OF(nanpercentile)

#undef TESSERA_AXES_OF

/// The mean along one axis.
template <std::integral I>
Array average(const Operand& x, I axis, bool keepdims = false) {
  return average(x, std::nullopt, detail::along<AverageOptions>(Dims{static_cast<std::int64_t>(axis)}, keepdims));
}
/// The mean along these axes.
template <std::same_as<Dims> D>
Array average(const Operand& x, const D& axes, bool keepdims = false) {
  return average(x, std::nullopt, detail::along<AverageOptions>(axes, keepdims));
}

}  // namespace tessera
