// SPDX-License-Identifier: Apache-2.0
// What a mesh axis is to the types of arrays.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tessera {

/// As `jax.sharding.AxisType`.
enum class AxisType : std::uint8_t {
  Auto,      ///< the compiler places values along the axis
  Explicit,  ///< placement along the axis is part of every array's type, and operations derive it
  Manual,    ///< inside a `shard_map`: values are blocks along the axis
};
/// JAX's names, in order.
constexpr auto enum_names(AxisType) { return std::array{"Auto", "Explicit", "Manual"}; }
/// "Auto".
inline std::string to_string(AxisType t) { return enum_names(t)[static_cast<std::size_t>(t)]; }

/// What constructors of meshes take besides axes.
struct MeshOptions {
  std::vector<AxisType> axis_types = {};  ///< one an axis, in their order; none: all `Auto`
};

/// Axes and the types that they are to have.
using AxisTypes = std::vector<std::pair<std::string, AxisType>>;

}  // namespace tessera
