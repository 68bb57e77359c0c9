// SPDX-License-Identifier: Apache-2.0
// HLO's shardings: tiles over device numbers, and where they are axes of a grid.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sharding/mesh_tiling.h"
#include "tessera/sharding.h"

namespace tessera::hlo {

/// The text without its last words: "{devices=[2,4]<=[8] last_tile_dims={manual}}" gives {"manual"} in `kinds`.
TileAssignment parse_tiles(const std::string& text, std::vector<std::string>& kinds);

/// By dimension the factors of the device's number that its tile is made of, most significant first.
struct GridTiles {
  std::vector<std::vector<sharding::Digit>> dims;
  std::vector<sharding::Digit> manual;  ///< that manual code tells apart
};
/// Nothing for tiles that are no axes of a grid over n devices, and for texts that are no shardings.
std::optional<GridTiles> grid_tiles(const std::string& text, std::int64_t n);
/// The coarsest grid over n devices of which all of these are axes.
std::optional<Dims> grid_of(const std::vector<GridTiles>& all, std::int64_t n);
/// Digits as axes of such a grid, first most significant.
Dims axes_of(const std::vector<sharding::Digit>& digits, const Dims& grid);

}  // namespace tessera::hlo
