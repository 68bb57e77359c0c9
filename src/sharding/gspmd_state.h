// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mesh/device_list.h"
#include "sharding/mesh_tiling.h"

namespace tessera::sharding {

struct GspmdState {
  std::shared_ptr<const mesh::DeviceList> list;
  TileAssignment tiles;
  std::string memory_kind;
};

/// Tile counts of an array of `ndim` dimensions, without the replica dimension; missing trailing ones are 1.
Dims tiled_dims(const TileAssignment& t, std::int64_t ndim);
/// Digits of an iota assignment in the order of its tiles.
std::vector<Digit> iota_digits(const Dims& reshape, const Dims& perm);
/// The digits of an explicit list, when it is a transposed iota.
std::optional<std::vector<Digit>> find_digits(const std::vector<std::int64_t>& list);

}  // namespace tessera::sharding
