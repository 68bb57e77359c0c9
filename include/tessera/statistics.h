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

/// The value between two elements.
enum class QuantileMethod { Linear, Lower, Higher, Midpoint, Nearest, InvertedCdf };
/// Axes and interpolation of quantiles.
struct QuantileOptions {
  MaybeDims axis = {};
  QuantileMethod method = QuantileMethod::Linear;
  bool keepdims = false;
};
/// Values below which a share q (0 … 1, rank 0 or 1) of the elements is found; rank-1 q adds a dimension in front. NaN
/// where an element is NaN; integers give floats. Throws `TypeError` for complex x, `ValueError` for a q of higher
/// rank. Sorts the axes as one: sharded ones are all-gathered.
Array quantile(const Operand& x, const Operand& q, const QuantileOptions& options = {});
/// `quantile` with q in percent.
Array percentile(const Operand& x, const Operand& q, const QuantileOptions& options = {});
/// The same placed as `place.out_sharding`: dimensions that are sorted may then be split over explicit axes.
Array percentile(const Operand& x, const Operand& q, const QuantileOptions& options, const PlaceOptions& place);
/// Axes of `median`.
struct MedianOptions {
  MaybeDims axis = {};
  bool keepdims = false;
};
/// The 0.5-quantile: the middle element, or the mean of the two middle ones.
Array median(const Operand& x, const MedianOptions& options = {});
/// `quantile` of the elements that are not NaN; NaN where all are.
Array nanquantile(const Operand& x, const Operand& q, const QuantileOptions& options = {});
/// `percentile` of the elements that are not NaN.
Array nanpercentile(const Operand& x, const Operand& q, const QuantileOptions& options = {});
/// `median` of the elements that are not NaN.
Array nanmedian(const Operand& x, const MedianOptions& options = {});

/// Axis and weights of `average`.
struct AverageOptions {
  MaybeDims axis = {};
  bool keepdims = false;
};
/// Mean weighted by `weights`, which have x's shape or the extents along the given axes. Throws `ValueError` for
/// another shape.
Array average(const Operand& x, const std::optional<Array>& weights = std::nullopt, const AverageOptions& options = {});
/// Largest minus smallest element over the axes.
Array ptp(const Operand& x, const ReduceOptions& options = {});
/// How many elements are not zero (int32).
Array count_nonzero(const Operand& x, const ReduceOptions& options = {});

// --- NaN elements left out; NaN where nothing is left (sums and products: their identities) --------------------------
/// `sum` with NaN as 0.
Array nansum(const Operand& x, const ReduceOptions& options = {});
/// `prod` with NaN as 1.
Array nanprod(const Operand& x, const ReduceOptions& options = {});
/// Largest element that is not NaN.
Array nanmax(const Operand& x, const ReduceOptions& options = {});
/// Smallest element that is not NaN.
Array nanmin(const Operand& x, const ReduceOptions& options = {});
/// Mean of the elements that are not NaN.
Array nanmean(const Operand& x, const ReduceOptions& options = {});
/// Variance of the elements that are not NaN; NaN where no more than `ddof` are left.
Array nanvar(const Operand& x, const VarOptions& options = {});
/// Square root of `nanvar`.
Array nanstd(const Operand& x, const VarOptions& options = {});
/// Index of the largest element that is not NaN; -1 where all are NaN.
Array nanargmax(const Operand& x, std::optional<std::int64_t> axis = std::nullopt, bool keepdims = false);
/// Index of the smallest element that is not NaN; -1 where all are NaN.
Array nanargmin(const Operand& x, std::optional<std::int64_t> axis = std::nullopt, bool keepdims = false);
/// `cumsum` with NaN as 0.
Array nancumsum(const Operand& x, std::optional<std::int64_t> axis = std::nullopt);
/// `cumprod` with NaN as 1.
Array nancumprod(const Operand& x, std::optional<std::int64_t> axis = std::nullopt);

/// Axis and form of cumulative sums and products.
struct CumulativeOptions {
  std::optional<std::int64_t> axis = std::nullopt;  ///< may be left out for rank 1
  std::optional<DType> dtype = std::nullopt;
  bool include_initial = false;  ///< one more element in front: 0 or 1
};
/// Cumulative sum of the array API standard; narrow integers are summed in 32 bits. Throws `ValueError` without an axis
/// for ranks other than 1.
Array cumulative_sum(const Operand& x, const CumulativeOptions& options = {});
/// Cumulative product of the array API standard, in x's dtype.
Array cumulative_prod(const Operand& x, const CumulativeOptions& options = {});

/// Form of `cov` and `corrcoef`: rows are variables unless `rowvar` is false.
struct CovOptions {
  bool rowvar = true;  ///< variables are rows
  bool bias = false;   ///< divide by n, not n - 1
  std::optional<std::int64_t> ddof = std::nullopt;
  std::optional<Array> y = std::nullopt;         ///< more variables
  std::optional<Array> fweights = std::nullopt;  ///< integer counts of observations
  std::optional<Array> aweights = std::nullopt;  ///< weights of observations
};
/// Covariance matrix of variables (rows of m, or columns without `rowvar`) over observations, as floats; a scalar for
/// one variable. Throws `ValueError` above rank 2 and for weights of another length, `TypeError` for fweights that are
/// no integers.
Array cov(const Operand& m, const CovOptions& options = {});
/// Correlation coefficients: `cov` divided by the standard deviations, clipped to [-1, 1].
Array corrcoef(const Operand& x, const CovOptions& options = {});

/// Range and weights of `histogram`.
struct HistogramOptions {
  std::optional<std::pair<double, double>> range = std::nullopt;  ///< smallest and largest element where not given
  std::optional<Array> weights = std::nullopt;
  bool density = false;
};
/// What `histogram` gives.
struct HistogramResult {
  Array counts, edges;
};
/// Counts (floats, or sums of weights) of the elements in `bins` bins of equal width, and the bins + 1 edges; the last
/// bin includes its upper edge, elements outside the range are left out. `density` normalizes the integral to 1. Throws
/// `ValueError` for bins < 1 and weights of another shape.
HistogramResult histogram(const Operand& x, std::int64_t bins = 10, const HistogramOptions& options = {});
/// Over given edges: one more than bins, ascending.
HistogramResult histogram(const Operand& x, const Array& edges, const HistogramOptions& options = {});
/// The edges of `histogram`.
Array histogram_bin_edges(const Operand& x, std::int64_t bins = 10,
                          const std::optional<std::pair<double, double>>& range = std::nullopt);
/// What `histogramdd` gives.
struct HistogramDdResult {
  Array counts;
  std::vector<Array> edges;
};
/// Histogram of points, the rows of `sample`, over a grid with bins[d] bins along dimension d; `ranges` has one range
/// per dimension. Counts are int32 without weights and density. Throws `ValueError` unless there is one count per
/// column.
HistogramDdResult histogramdd(const Operand& sample, const Dims& bins,
                              const std::optional<std::vector<std::pair<double, double>>>& ranges = std::nullopt,
                              const std::optional<Array>& weights = std::nullopt, bool density = false);
/// Histogram of the points (x[i], y[i]) over a square grid of bins.
HistogramDdResult histogram2d(const Operand& x, const Operand& y, std::int64_t bins = 10);

/// Weights and length of `bincount`.
struct BincountOptions {
  std::optional<Array> weights = std::nullopt;
  std::int64_t minlength = 0;
  /// Extent of the result; needed under a trace. Larger values are left out.
  std::optional<std::int64_t> length = std::nullopt;
};
/// How often each of 0, 1, … occurs in a vector of integers (int32), or the sum of its weights; negative values count
/// as 0. Without a length x is read, which throws `ConcretizationError` under a trace. Throws `TypeError` for other
/// dtypes, `ValueError` for other ranks.
Array bincount(const Operand& x, const BincountOptions& options = {});
/// Index of the bin of each element: bins ascend or descend; `right`: an edge belongs to the bin in front of it. Throws
/// `ValueError` unless the bins have rank 1.
Array digitize(const Operand& x, const Operand& bins, bool right = false);

}  // namespace tessera
