// SPDX-License-Identifier: Apache-2.0
// A dimension as equal parts along a dimension of their own: what a split dimension is to ops that compute with each
// shard by itself.
#pragma once

#include "ops/ops.h"

namespace tessera::ops {

struct DimensionParts {
  std::int64_t dimension;
  std::int64_t extent;
  std::int64_t parts;

  DimensionParts(std::int64_t d, std::int64_t n, std::int64_t count) : dimension(d), extent(n), parts(count) {}
  /// Elements of a part; the last ones may have fewer, and are filled up.
  std::int64_t chunk() const { return (extent + parts - 1) / parts; }
  std::int64_t filled_extent() const { return parts * chunk(); }
  /// Number of parts that are not fillings alone.
  std::int64_t occupied() const { return (extent + chunk() - 1) / chunk(); }
};

/// The dimension filled up behind with a rank-0 value, to as many elements as the parts have.
Value fill_up(Value x, const DimensionParts& p, Value fill);
/// […, extent, …] as […, parts, chunk, …], and back.
Value cut_in_parts(Value x, const DimensionParts& p, Value fill);
Value join_parts(Value x, const DimensionParts& p);

}  // namespace tessera::ops
