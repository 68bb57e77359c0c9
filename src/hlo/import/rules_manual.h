// SPDX-License-Identifier: Apache-2.0
// What the rules of manual computations and of collectives share.
#pragma once

#include <string>
#include <vector>

#include "hlo/import/import.h"

namespace tessera::hlo {

/// The custom call of this name.
Items ragged_all_to_all(OpCall& c);

/// The operand of GSPMD's mark "Sharding", held to what it says of its layout.
Value marked(OpCall& c, Value v);

/// A manual computation as a map; axes are numbers of parts of the cut mesh.
struct MapPlan {
  const ir::NamedMesh* mesh = nullptr;
  ir::CutMesh cut;
  Dims manual;                        ///< from here on
  std::vector<std::vector<Dims>> in;  ///< by tensor and dimension
  std::vector<std::vector<Dims>> out;
  std::vector<Dims> in_unreduced;  ///< by tensor: axes over which blocks are addends
  std::vector<Dims> out_unreduced;
};
Items manual_map(OpCall& c, MapPlan plan);
/// `x` where `number` (i32[]) is 0, else zeros: addends that sum to `x` over numbers that count from 0.
Value first_addend(Value number, Value x);

// Inside a map over all devices (devices.h).
/// This device's entry of a table, i32[].
Value device_entry(OpCall& c, const Dims& table);
/// Sums among groups of devices.
Value sum_among(OpCall& c, Value x, ops::Groups groups);

/// A sharding as tiles.
struct Tiles {
  Dims dims;        ///< parts of each dimension
  Dims tile_of;     ///< by device, row-major; -1 for a device that has none
  Dims addend;      ///< of an operand, by device: its number among those that hold addends; empty: all hold the value
  ops::Groups sum;  ///< of a result: devices that hold addends of one tile
};
/// A manual computation whose devices are no axes of a grid, or not those of the program: all devices run it, taking
/// their tiles from whole values and gathering all tiles of results. `manual_id`: by device, equal for those that the
/// body does not tell apart.
Items manual_among_devices(OpCall& c, const std::vector<Tiles>& in, const std::vector<Tiles>& out,
                           const Dims& manual_id);

}  // namespace tessera::hlo
