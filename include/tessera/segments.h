// SPDX-License-Identifier: Apache-2.0
// Reductions over segments: rows of an array that a vector of ids puts together, as jax.ops has them.
#pragma once

#include <cstdint>
#include <optional>

#include "tessera/array.h"
#include "tessera/indexing.h"
#include "tessera/operand.h"

namespace tessera {

/// Count of segments, and what the program promises of ids.
struct SegmentOptions {
  /// Segments of the result. Where it is left out the largest id decides, which is read now: needed inside a traced
  /// function.
  std::optional<std::int64_t> num_segments = std::nullopt;
  bool indices_are_sorted = false;  ///< the program vouches that ids never fall
  bool unique_indices = false;      ///< the program vouches that no id comes twice
  /// So many rows are reduced first, then their results: large sums and products lose fewer digits.
  std::optional<std::int64_t> bucket_size = std::nullopt;
  /// What ids outside of 0 ... num_segments - 1 do; left out: their rows take no part. Negative ids never count from
  /// the end.
  std::optional<IndexMode> mode = std::nullopt;
};

/// Row k of the result is the sum of the rows of `data` whose id is k, 0 where there is none: shape (num_segments, ...)
/// with data's other dimensions, and data's dtype. Throws `TypeError` for ids that are not integers, `ValueError` for
/// ids of a shape other than (data.shape(0),), for a negative count of segments and for a bucket size below 1,
/// `ConcretizationError` for traced ids without `num_segments`.
Array segment_sum(const Operand& data, const Operand& segment_ids, const SegmentOptions& options = {});
/// The product; 1 where there is none.
Array segment_prod(const Operand& data, const Operand& segment_ids, const SegmentOptions& options = {});
/// The largest; the dtype's least value (-inf for floats) where there is none.
Array segment_max(const Operand& data, const Operand& segment_ids, const SegmentOptions& options = {});
/// The smallest; the dtype's largest value (inf for floats) where there is none.
Array segment_min(const Operand& data, const Operand& segment_ids, const SegmentOptions& options = {});

/// Sums, with the count of segments as in JAX.
inline Array segment_sum(const Operand& data, const Operand& segment_ids, std::int64_t num_segments) {
  return segment_sum(data, segment_ids, SegmentOptions{.num_segments = num_segments});
}
/// Products, with the count of segments.
inline Array segment_prod(const Operand& data, const Operand& segment_ids, std::int64_t num_segments) {
  return segment_prod(data, segment_ids, SegmentOptions{.num_segments = num_segments});
}
/// Largest elements, with the count of segments.
inline Array segment_max(const Operand& data, const Operand& segment_ids, std::int64_t num_segments) {
  return segment_max(data, segment_ids, SegmentOptions{.num_segments = num_segments});
}
/// Smallest elements, with the count of segments.
inline Array segment_min(const Operand& data, const Operand& segment_ids, std::int64_t num_segments) {
  return segment_min(data, segment_ids, SegmentOptions{.num_segments = num_segments});
}

}  // namespace tessera
