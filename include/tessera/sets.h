// SPDX-License-Identifier: Apache-2.0
// NumPy's searches, sets and conversions of indices. Results whose extent depends on the data take a `size`: results
// are then cut or filled up, which works inside traced functions; without one the data is read, which throws
// `ConcretizationError` there.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "tessera/array.h"
#include "tessera/operand.h"

namespace tessera {

struct SizeOptions {
  std::optional<std::int64_t> size = std::nullopt;
  std::optional<double> fill_value = std::nullopt;
};
/// Indices of elements that are not zero, one array a dimension, in row-major order.
std::vector<Array> nonzero(const Operand& x, const SizeOptions& options = {});
/// Of the flattened array.
Array flatnonzero(const Operand& x, const SizeOptions& options = {});
/// Rows are index vectors.
Array argwhere(const Operand& x, const SizeOptions& options = {});
/// Slices of x along `axis` (of the flattened array without one) where `condition`, a vector, holds.
Array compress(const Operand& condition, const Operand& x, std::optional<std::int64_t> axis = std::nullopt,
               const SizeOptions& options = {});
/// Elements where the condition holds.
Array extract(const Operand& condition, const Operand& x, const SizeOptions& options = {});

struct UniqueResult {
  Array values, indices, inverse, counts;
};
/// Distinct elements in ascending order, where each comes first, which each element is, and how often each comes.
/// With `size` and no fill value, the smallest is repeated.
UniqueResult unique_all(const Operand& x, const SizeOptions& options = {});
Array unique(const Operand& x, const SizeOptions& options = {});
/// Whether each element is one of `test`.
/// Parts of `unique_all`.
std::pair<Array, Array> unique_counts(const Operand& x, const SizeOptions& options = {});
std::pair<Array, Array> unique_inverse(const Operand& x, const SizeOptions& options = {});
inline Array unique_values(const Operand& x, const SizeOptions& options = {}) { return unique(x, options); }
Array isin(const Operand& x, const Operand& test, bool invert = false);
Array intersect1d(const Operand& x, const Operand& y, const SizeOptions& options = {});
Array union1d(const Operand& x, const Operand& y, const SizeOptions& options = {});
Array setdiff1d(const Operand& x, const Operand& y, const SizeOptions& options = {});
Array setxor1d(const Operand& x, const Operand& y, const SizeOptions& options = {});

/// Order by the last key first, by the others where it is equal.
Array lexsort(const std::vector<Array>& keys, std::int64_t axis = -1, const Loc& loc = Loc::current());
/// Smallest kth elements in front, in no promised order beyond that of element kth (here: sorted).
Array partition(const Operand& x, std::int64_t kth, std::int64_t axis = -1);
Array argpartition(const Operand& x, std::int64_t kth, std::int64_t axis = -1);
/// Complex numbers by real, then imaginary part.
Array sort_complex(const Operand& x);

/// From flat indices to one array a dimension; indices outside are moved inside.
std::vector<Array> unravel_index(const Operand& indices, const std::vector<std::int64_t>& shape);
enum class RavelMode { Clip, Wrap };
Array ravel_multi_index(const std::vector<Array>& indices, const std::vector<std::int64_t>& shape,
                        RavelMode mode = RavelMode::Clip, const Loc& loc = Loc::current());
/// Index arrays that open a mesh: array i has its elements along dimension i.
std::vector<Array> ix_(const std::vector<Array>& vectors, const Loc& loc = Loc::current());

}  // namespace tessera
