// SPDX-License-Identifier: Apache-2.0
// Shardings as arithmetic: axes of a row-major grid over the device list, and which of them split which dimension.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/sharding.h"

namespace tessera::sharding {

struct MeshTiling {
  std::vector<std::int64_t> axis_sizes;    // of a row-major mesh over the order of the device list
  std::vector<std::vector<int>> dim_axes;  // per array dimension, slowest first
  std::vector<int> unreduced = {};         // over these the array is the sum of what devices hold; ascending
};

/// The sharding as axes per dimension for arrays of `ndim` dimensions, when it can be said so: always for named, pmap
/// and single-device shardings; for tiles when their assignment is a transposed iota; never for users' kinds. Throws
/// `ValueError` for a rank that the sharding does not fit.
std::optional<MeshTiling> mesh_tiling(const Sharding& s, std::int64_t ndim);

/// One factor of a position: `size` steps of `stride`.
struct Digit {
  std::int64_t size;
  std::int64_t stride;
  bool operator==(const Digit&) const = default;
};
/// Row-major strides of the axes.
std::vector<std::int64_t> axis_strides(const std::vector<std::int64_t>& axis_sizes);
/// Joins neighbours that step through positions as one and drops digits of size 1: equal exactly for equal placements.
std::vector<Digit> canonical(std::vector<Digit> digits);
/// The same in place; how many remain, the first ones.
std::size_t join_digits(std::span<Digit> digits);
/// Canonical digits of every dimension.
std::vector<std::vector<Digit>> dim_digits(const MeshTiling& t);
/// Canonical digits of the unreduced axes: the number of a device's addend.
std::vector<Digit> addend_digits(const MeshTiling& t);
/// Cuts `digits` into runs with these products, splitting a digit where needed; nothing when a cut does not divide.
std::optional<std::vector<std::vector<Digit>>> cut_digits(const std::vector<Digit>& digits, const Dims& products);

/// The coarsest row-major grid that has every given grid's axes as products of its own.
struct Refinement {
  std::vector<std::int64_t> sizes;
  std::vector<std::vector<std::vector<int>>> axes;  // [grid][axis] -> axes of `sizes`, slowest first; empty for size 1
};
/// Nothing when the totals differ or the cuts do not nest: 4x2 and 2x2x2 give 2x2x2, 2x3 and 3x2 give nothing.
std::optional<Refinement> common_refinement(const std::vector<std::vector<std::int64_t>>& grids);

}  // namespace tessera::sharding
