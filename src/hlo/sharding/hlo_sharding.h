// SPDX-License-Identifier: Apache-2.0
// HLO's shardings: tiles over device numbers, and where they are axes of a grid.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sharding/mesh_tiling.h"
#include "tessera/sharding.h"

namespace tessera::hlo {

/// One sharding of an `mhlo.sharding` string.
struct HloSharding {
  enum class Kind : unsigned char {
    Replicated,
    Manual,
    Unreduced,  ///< every device holds an addend of the whole value
    Unknown,    ///< left to the compiler
    Maximal,    ///< on one device
    Tiled
  };
  /// What a trailing dimension of the tiles counts.
  enum class Last : unsigned char { Replicated, Manual, Unreduced };

  Kind kind = Kind::Replicated;
  std::int64_t device = 0;              ///< of Maximal
  std::optional<TileAssignment> tiles;  ///< of Tiled, the trailing dimensions included
  std::vector<Last> last;
  /// Dimensions of a value that the tiles speak of.
  std::size_t tiled_rank() const { return tiles ? tiles->dims().size() - last.size() : 0; }
};
/// A sharding, or a tuple's.
struct HloShardings {
  bool tuple = false;
  std::vector<HloSharding> parts;  ///< one where it is no tuple
};
/// Everything that HloSharding's printer writes, metadata and shard groups (which are dropped) included, and serialized
/// messages. Throws `FormatError` with the column and what was expected.
HloShardings parse_hlo_shardings(std::string_view text);
HloShardings parse_serialized_hlo_shardings(std::string_view bytes);
/// The message of one sharding.
std::string serialized(const HloSharding& s);
/// The same where no tuple may stand.
HloSharding parse_hlo_sharding(std::string_view text);

/// By dimension the factors of the device's number that its tile is made of, most significant first.
struct GridTiles {
  std::vector<std::vector<sharding::Digit>> dims;
  std::vector<sharding::Digit> manual;     ///< that manual code tells apart
  std::vector<sharding::Digit> unreduced;  ///< along which the value is a sum of what the devices hold
};
/// Nothing for tiles that are no axes of a grid over n devices, and for tuples.
std::optional<GridTiles> grid_tiles(std::string_view text, std::int64_t n);
/// The coarsest grid over n devices of which all of these are axes.
std::optional<Dims> grid_of(const std::vector<GridTiles>& all, std::int64_t n);
/// Digits as axes of such a grid, first most significant.
Dims axes_of(const std::vector<sharding::Digit>& digits, const Dims& grid);

}  // namespace tessera::hlo
