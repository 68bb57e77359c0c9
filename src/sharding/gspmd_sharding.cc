// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/hash.h"
#include "base/strings.h"
#include "sharding/access.h"
#include "sharding/gspmd_state.h"
#include "tessera/error.h"

namespace tessera {

using sharding::Digit;
using sharding::GspmdState;
using sharding::MeshTiling;

GspmdSharding::GspmdSharding(std::vector<Device> devices, const TileAssignment& tiles, std::string memory_kind,
                             const Loc&) {
  auto count = static_cast<std::int64_t>(devices.size());
  if (tiles.kind() == TileAssignment::Kind::Manual) {
    throw ValueError("GspmdSharding: tiles = {manual}; expected tiles that say where an array lies");
  }
  if (tiles.is_tiled() && tiles.num_devices() != count) {
    throw ValueError(str("GspmdSharding: tiles = ", tiles, " speak of ", tiles.num_devices(), " devices; got ", count));
  }
  if (count == 0) throw ValueError("GspmdSharding: devices has 0 entries; expected at least 1");
  if (tiles.kind() == TileAssignment::Kind::Maximal && count != 1) {
    throw ValueError(str("GspmdSharding: tiles = ", tiles, " speak of 1 device; got ", count));
  }
  state_ = std::make_shared<GspmdState>(GspmdState{
      mesh::intern_device_list(std::move(devices), "GspmdSharding", "devices"), tiles, std::move(memory_kind)});
}

GspmdSharding GspmdSharding::replicated(std::vector<Device> devices, const Loc&) {
  return {std::move(devices), TileAssignment::replicated()};
}

GspmdSharding GspmdSharding::positional(std::vector<Device> devices, const Shape& shape, const Dims& replicated_dims,
                                        const Loc&) {
  if (size_of(shape) != static_cast<std::int64_t>(devices.size())) {
    throw ValueError(str("GspmdSharding::positional: ", devices.size(), " devices cannot have shape ", shape,
                         ", which needs ", size_of(shape)));
  }
  Dims dims = shape, perm, last;
  std::int64_t replicas = 1;
  for (std::int64_t d = 0; d < rank(shape); ++d) {
    if (std::ranges::find(replicated_dims, d) == replicated_dims.end()) {
      perm.push_back(d);
    } else {
      last.push_back(d);
      dims[static_cast<std::size_t>(d)] = 1;
      replicas *= shape[static_cast<std::size_t>(d)];
    }
  }
  if (last.size() != replicated_dims.size()) {
    throw ValueError(str("GspmdSharding::positional: replicated_dims = ", base::list_text(replicated_dims),
                         "; expected distinct dimensions below ", rank(shape)));
  }
  perm.insert(perm.end(), last.begin(), last.end());
  if (!last.empty()) dims.push_back(replicas);
  return {std::move(devices), TileAssignment(std::move(dims), shape, std::move(perm), !last.empty())};
}

const TileAssignment& GspmdSharding::tiles() const& { return state_->tiles; }
bool GspmdSharding::is_fully_replicated() const {
  if (!state_->tiles.is_tiled()) return true;
  return std::ranges::all_of(sharding::tiled_dims(state_->tiles, state_->tiles.tiled_rank()),
                             [](std::int64_t n) { return n == 1; });
}

Shape GspmdSharding::shard_shape(const Shape& global_shape) const {
  const TileAssignment& t = state_->tiles;
  if (t.is_tiled() && rank(global_shape) < t.tiled_rank()) {
    throw ValueError(str("shard_shape: tiles = ", t, " need an array of at least ", t.tiled_rank(),
                         " dimensions; global_shape ", global_shape, " has rank ", rank(global_shape)));
  }
  return sharding::split_shape(global_shape, sharding::tiled_dims(t, rank(global_shape)), false, "shard_shape");
}

std::string_view GspmdSharding::memory_kind() const { return state_->memory_kind; }
bool GspmdSharding::equals(const Sharding& other) const {
  const auto* o = dynamic_cast<const GspmdSharding*>(&other);
  return o != nullptr &&
         (state_ == o->state_ || (state_->list == o->state_->list && state_->tiles == o->state_->tiles &&
                                  state_->memory_kind == o->state_->memory_kind));
}
std::size_t GspmdSharding::hash() const {
  return base::hash_mix(base::hash_mix(state_->list->hash, state_->tiles.hash()),
                        std::hash<std::string>{}(state_->memory_kind));
}
std::string GspmdSharding::text() const {
  std::string out = str("GspmdSharding(", state_->tiles);
  if (!state_->memory_kind.empty()) out += str(", memory_kind=", state_->memory_kind);
  return out + ")";
}
ShardingPtr GspmdSharding::share() const { return std::make_shared<GspmdSharding>(*this); }
std::span<const Device> GspmdSharding::devices() const { return state_->list->devices; }
std::shared_ptr<const mesh::DeviceList> GspmdSharding::device_list() const { return state_->list; }

std::optional<MeshTiling> GspmdSharding::mesh_tiling(std::int64_t ndim) const {
  const TileAssignment& t = state_->tiles;
  MeshTiling out;
  out.dim_axes.resize(static_cast<std::size_t>(std::max<std::int64_t>(ndim, 0)));
  if (!t.is_tiled()) {
    out.axis_sizes = {static_cast<std::int64_t>(state_->list->size())};
    return out;
  }
  if (ndim < t.tiled_rank()) {
    throw ValueError(str("GspmdSharding: tiles = ", t, " need an array of at least ", t.tiled_rank(),
                         " dimensions; got rank ", ndim));
  }
  if (!t.is_iota()) return std::nullopt;
  auto cut = sharding::cut_digits(sharding::iota_digits(t.reshape_dims(), t.transpose_perm()), t.dims());
  if (!cut) return std::nullopt;
  std::vector<Digit> all;
  for (const auto& digits : *cut) all.insert(all.end(), digits.begin(), digits.end());
  std::ranges::sort(all, std::greater<>{}, &Digit::stride);
  for (const Digit& d : all) out.axis_sizes.push_back(d.size);
  for (std::size_t d = 0; d < static_cast<std::size_t>(t.tiled_rank()); ++d) {
    for (const Digit& digit : (*cut)[d]) {
      out.dim_axes[d].push_back(static_cast<int>(std::ranges::find(all, digit) - all.begin()));
    }
  }
  return out;
}

}  // namespace tessera
