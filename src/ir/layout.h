// SPDX-License-Identifier: Apache-2.0
// How the values of a partitioned graph lie on the axes of its mesh.
//
// A partitioned graph keeps global shapes; each value carries a Layout. Position p of the mesh holds the tile whose
// number along dimension d is the mixed-radix number of p's coordinates on `dims[d]`, major axis first. Tiles have
// ceil(extent / parts) elements, trailing ones fewer or none, so uneven sizes need no padding. Positions that differ
// only in axes that a layout does not mention hold the same value, and engines store it once.
#pragma once

#include <array>
#include <boost/container/small_vector.hpp>
#include <boost/container/static_vector.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/shape.h"

namespace tessera::ir {

/// Axes of a program's mesh, device-free. At most 32 axes.
struct MeshAxes {
  std::vector<std::int64_t> sizes;
  std::vector<std::string> names;  ///< one a size; sub-axes of a refined mesh are "x:0", "x:1"
  std::int64_t num_positions() const;
  bool operator==(const MeshAxes&) const = default;
};
using MeshAxesPtr = std::shared_ptr<const MeshAxes>;

using AxisMask = std::uint32_t;
/// Axis numbers, major first. In place: partitioning copies some hundred thousand of them.
using AxisList = boost::container::static_vector<std::uint8_t, 32>;
/// The axes of each dimension of a value, in place too for up to four dimensions.
using DimAxes = boost::container::small_vector<AxisList, 4>;

/// What combines the shards of a partial value.
enum class Reduction : std::uint8_t { Sum, Prod, Max, Min, And, Or };
constexpr auto enum_names(Reduction) { return std::array{"sum", "prod", "max", "min", "and", "or"}; }
inline const char* to_string(Reduction r) { return enum_names(r)[static_cast<std::size_t>(r)]; }

struct Layout {
  DimAxes dims;          ///< one a dimension of the value
  AxisMask partial = 0;  ///< axes over which the true value is the reduction of what positions hold
  Reduction reduction = Reduction::Sum;
  AxisMask vary = 0;  ///< further axes over which positions hold unrelated values (manual regions, unequal replicas)

  static Layout replicated(std::int64_t rank) { return Layout{DimAxes(static_cast<std::size_t>(rank))}; }
  /// Axes that split dimensions.
  AxisMask tiled() const;
  /// All axes over which positions may hold different bytes.
  AxisMask distinct() const { return tiled() | partial | vary; }
  bool operator==(const Layout&) const = default;
};
/// "[x, -, y.z]", with " partial(x: sum)" and " vary(x)" where they apply.
std::string to_string(const Layout& l, const MeshAxes& mesh);

/// Number of parts that `axes` make.
std::int64_t parts(const AxisList& axes, const MeshAxes& mesh);
/// Elements [begin, end) of part `i` when `extent` elements are cut in `count` parts.
inline std::pair<std::int64_t, std::int64_t> part_range(std::int64_t extent, std::int64_t count, std::int64_t i) {
  std::int64_t chunk = (extent + count - 1) / count;
  std::int64_t begin = i * chunk < extent ? i * chunk : extent;
  std::int64_t end = begin + chunk < extent ? begin + chunk : extent;
  return {begin, end};
}
/// Shape of the largest tile (that of position 0).
Shape tile_shape(const Shape& global, const Layout& l, const MeshAxes& mesh);
/// Bytes that the axes of `mask` multiply: the product of their sizes.
std::int64_t axes_size(AxisMask mask, const MeshAxes& mesh);

}  // namespace tessera::ir
