// SPDX-License-Identifier: Apache-2.0
// NumPy's searches, sets and conversions of indices. Results whose extent depends on the data take a `size`: results
// are then truncated or filled up, which works inside traced functions; without one the data is read, which throws
// `ConcretizationError` there. They sort or count over the flattened array: a sharded one is all-gathered.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "tessera/array.h"
#include "tessera/operand.h"

namespace tessera {

/// The size of a result that depends on values: needed inside a traced function. Shorter results are filled.
struct SizeOptions {
  std::optional<std::int64_t> size = std::nullopt;
  std::optional<double> fill_value = std::nullopt;
};
/// Indices (int32) of the elements that are not zero, one array per dimension, in row-major order. Throws `ValueError`
/// for rank 0.
std::vector<Array> nonzero(const Operand& x, const SizeOptions& options = {});
/// The same indices into the flattened array.
Array flatnonzero(const Operand& x, const SizeOptions& options = {});
/// The same indices as the rows of a matrix.
Array argwhere(const Operand& x, const SizeOptions& options = {});
/// Slices of x along `axis` (of the flattened array without one) where `condition`, a vector, holds. Throws
/// `ValueError` for a longer condition.
Array compress(const Operand& condition, const Operand& x, std::optional<std::int64_t> axis = std::nullopt,
               const SizeOptions& options = {});
/// Elements of the flattened array where the condition holds.
Array extract(const Operand& condition, const Operand& x, const SizeOptions& options = {});

/// What `unique_all` gives.
struct UniqueResult {
  Array values, indices, inverse, counts;
};
/// Distinct elements in ascending order, the index of each one's first occurrence, the position of every element among
/// them (in x's shape), and how often each occurs. NaNs count as one value. With `size` and no fill value, the smallest
/// is repeated.
UniqueResult unique_all(const Operand& x, const SizeOptions& options = {});
/// Distinct elements in ascending order.
Array unique(const Operand& x, const SizeOptions& options = {});
/// Values and counts of `unique_all`.
std::pair<Array, Array> unique_counts(const Operand& x, const SizeOptions& options = {});
/// Values and inverse of `unique_all`.
std::pair<Array, Array> unique_inverse(const Operand& x, const SizeOptions& options = {});
/// `unique`.
inline Array unique_values(const Operand& x, const SizeOptions& options = {}) { return unique(x, options); }
/// Bool: the element equals one of `test`, or none where `invert`. NaN equals nothing.
Array isin(const Operand& x, const Operand& test, bool invert = false);
/// Distinct elements that are in both arrays, ascending.
Array intersect1d(const Operand& x, const Operand& y, const SizeOptions& options = {});
/// Distinct elements of both arrays, ascending.
Array union1d(const Operand& x, const Operand& y, const SizeOptions& options = {});
/// Distinct elements of x that are not in y, ascending; with a `size`, filled with 0 unless a fill value is given.
Array setdiff1d(const Operand& x, const Operand& y, const SizeOptions& options = {});
/// Distinct elements that are in one of the arrays alone, ascending.
Array setxor1d(const Operand& x, const Operand& y, const SizeOptions& options = {});

/// Indices (int32) that sort by the last key, then by the ones before it where it is equal. Throws `ValueError` without
/// keys.
Array lexsort(const std::vector<Array>& keys, std::int64_t axis = -1, const Loc& loc = Loc::current());
/// x with element kth at its sorted position, smaller ones in front of it and larger ones behind; here fully sorted.
/// Throws `ValueError` for a kth out of range.
Array partition(const Operand& x, std::int64_t kth, std::int64_t axis = -1);
/// Indices (int32) of that order.
Array argpartition(const Operand& x, std::int64_t kth, std::int64_t axis = -1);
/// Sorted along dimension 0 by real, then imaginary part, as a complex dtype.
Array sort_complex(const Operand& x);

/// From flat indices to one index array per dimension; indices outside are clamped. Throws `TypeError` for indices that
/// are no integers.
std::vector<Array> unravel_index(const Operand& indices, const std::vector<std::int64_t>& shape);
/// What an index outside means: the nearest inside, or counted around.
enum class RavelMode { Clip, Wrap };
/// From one index array per dimension to flat row-major indices; the arrays broadcast. Throws `ValueError` unless there
/// is one per dimension.
Array ravel_multi_index(const std::vector<Array>& indices, const std::vector<std::int64_t>& shape,
                        RavelMode mode = RavelMode::Clip, const Loc& loc = Loc::current());
/// Index arrays of an open grid: array i has its elements along dimension i, extent 1 along the others.
std::vector<Array> ix_(const std::vector<Array>& vectors, const Loc& loc = Loc::current());

}  // namespace tessera
