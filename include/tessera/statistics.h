// SPDX-License-Identifier: Apache-2.0
// NumPy's statistics: order statistics, averages, reductions that leave NaN out, histograms. Over all axes unless some
// are given.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/array.h"
#include "tessera/numpy.h"
#include "tessera/ops.h"

namespace tessera {

enum class QuantileMethod { Linear, Lower, Higher, Midpoint, Nearest, InvertedCdf };
struct QuantileOptions {
  MaybeDims axis = {};
  QuantileMethod method = QuantileMethod::Linear;
  bool keepdims = false;
};
/// Values below which a share q (0 … 1, rank 0 or 1) of the elements lies; rank-1 q adds a dimension in front. NaN
/// where an element is NaN. Throws `TypeError` for complex x.
Array quantile(const Operand& x, const Operand& q, const QuantileOptions& options = {});
Array percentile(const Operand& x, const Operand& q, const QuantileOptions& options = {});
struct MedianOptions {
  MaybeDims axis = {};
  bool keepdims = false;
};
Array median(const Operand& x, const MedianOptions& options = {});
/// The same without NaN elements.
Array nanquantile(const Operand& x, const Operand& q, const QuantileOptions& options = {});
Array nanpercentile(const Operand& x, const Operand& q, const QuantileOptions& options = {});
Array nanmedian(const Operand& x, const MedianOptions& options = {});

struct AverageOptions {
  MaybeDims axis = {};
  bool keepdims = false;
};
/// Mean weighted by `weights`, which have x's shape or the extents along the axes.
Array average(const Operand& x, const std::optional<Array>& weights = std::nullopt, const AverageOptions& options = {});
/// Largest minus smallest.
Array ptp(const Operand& x, const ReduceOptions& options = {});
/// How many are not zero (int32).
Array count_nonzero(const Operand& x, const ReduceOptions& options = {});

// --- NaN elements left out; NaN where nothing is left (sums and products: their identities) --------------------------
Array nansum(const Operand& x, const ReduceOptions& options = {});
Array nanprod(const Operand& x, const ReduceOptions& options = {});
Array nanmax(const Operand& x, const ReduceOptions& options = {});
Array nanmin(const Operand& x, const ReduceOptions& options = {});
Array nanmean(const Operand& x, const ReduceOptions& options = {});
Array nanvar(const Operand& x, const VarOptions& options = {});
Array nanstd(const Operand& x, const VarOptions& options = {});
/// -1 where all are NaN.
Array nanargmax(const Operand& x, std::optional<std::int64_t> axis = std::nullopt, bool keepdims = false);
Array nanargmin(const Operand& x, std::optional<std::int64_t> axis = std::nullopt, bool keepdims = false);
Array nancumsum(const Operand& x, std::optional<std::int64_t> axis = std::nullopt);
Array nancumprod(const Operand& x, std::optional<std::int64_t> axis = std::nullopt);

struct CumulativeOptions {
  std::optional<std::int64_t> axis = std::nullopt;  ///< may be left out for rank 1
  std::optional<DType> dtype = std::nullopt;
  bool include_initial = false;  ///< one more element in front: 0 or 1
};
Array cumulative_sum(const Operand& x, const CumulativeOptions& options = {});
Array cumulative_prod(const Operand& x, const CumulativeOptions& options = {});

struct CovOptions {
  bool rowvar = true;  ///< variables are rows
  bool bias = false;   ///< divide by n, not n - 1
  std::optional<std::int64_t> ddof = std::nullopt;
  std::optional<Array> y = std::nullopt;         ///< more variables
  std::optional<Array> fweights = std::nullopt;  ///< integer counts of observations
  std::optional<Array> aweights = std::nullopt;  ///< weights of observations
};
Array cov(const Operand& m, const CovOptions& options = {});
Array corrcoef(const Operand& x, const CovOptions& options = {});

struct HistogramOptions {
  std::optional<std::pair<double, double>> range = std::nullopt;  ///< smallest and largest element where not given
  std::optional<Array> weights = std::nullopt;
  bool density = false;
};
struct HistogramResult {
  Array counts, edges;
};
HistogramResult histogram(const Operand& x, std::int64_t bins = 10, const HistogramOptions& options = {});
/// Edges given: one more than bins, ascending.
HistogramResult histogram(const Operand& x, const Array& edges, const HistogramOptions& options = {});
Array histogram_bin_edges(const Operand& x, std::int64_t bins = 10,
                          const std::optional<std::pair<double, double>>& range = std::nullopt);
struct HistogramDdResult {
  Array counts;
  std::vector<Array> edges;
};
/// Rows of `sample` are points; `bins` along every dimension.
HistogramDdResult histogramdd(const Operand& sample, const Dims& bins,
                              const std::optional<std::vector<std::pair<double, double>>>& ranges = std::nullopt,
                              const std::optional<Array>& weights = std::nullopt, bool density = false);
HistogramDdResult histogram2d(const Operand& x, const Operand& y, std::int64_t bins = 10);

struct BincountOptions {
  std::optional<Array> weights = std::nullopt;
  std::int64_t minlength = 0;
  /// Extent of the result; needed under a trace. Larger numbers are left out.
  std::optional<std::int64_t> length = std::nullopt;
};
/// How often each of 0, 1, … occurs; negative numbers count as 0.
Array bincount(const Operand& x, const BincountOptions& options = {});
/// Number of the bin of each element: bins ascend or descend; `right`: an edge belongs to the bin in front of it.
Array digitize(const Operand& x, const Operand& bins, bool right = false);

}  // namespace tessera
