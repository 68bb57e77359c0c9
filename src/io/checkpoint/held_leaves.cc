// SPDX-License-Identifier: Apache-2.0
#include "base/check.h"
#include "base/strings.h"
#include "io/checkpoint/save.h"
#include "runtime/engine.h"
#include "tessera/error.h"

namespace tessera::io {

HeldLeaf hold(const std::string& name, const Array& leaf) {
  const std::string who = str("checkpoints::save: leaf \"", name, "\"");
  const auto& impl = *arrays::checked(leaf, who.c_str());
  HeldLeaf out;
  out.type.name = name;
  out.type.stored = impl.type.dtype;
  out.type.dtype = arrays::visible(impl.type.dtype, impl.type.weak);
  out.type.weak = impl.type.weak;
  out.type.shape = impl.type.shape;
  if (impl.literal) {
    out.literal = arrays::literal_value(impl);
    return out;
  }
  arrays::check_whole(impl, who.c_str());
  out.storage = arrays::storage_of(leaf, who.c_str());
  out.placement = impl.placement;
  out.replicas_equal = impl.replicas_equal;
  return out;
}

std::vector<OwnedShard> owned_shards(const std::vector<HeldLeaf>& leaves) {
  std::vector<OwnedShard> out;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const HeldLeaf& leaf = leaves[i];
    const Dims zeros(leaf.type.shape.size(), 0);
    if (!leaf.placement) {
      out.push_back({i, 0, zeros, leaf.type.shape});
      continue;
    }
    const auto& place = *leaf.placement;
    const auto mine = [&](std::size_t tile) {
      return place.devices->devices[static_cast<std::size_t>(place.first_position[tile])].is_local();
    };
    if (size_of(leaf.type.shape) == 0) {
      if (mine(0)) out.push_back({i, 0, zeros, leaf.type.shape});
      continue;
    }
    for (std::size_t t = 0; t < static_cast<std::size_t>(place.num_tiles); ++t) {
      if (!mine(t)) continue;
      OwnedShard s{i, t, {}, place.tile_shape[t]};
      if (size_of(s.shape) == 0) continue;
      for (const Slice& slice : place.tile_index[t]) s.start.push_back(slice.start.value_or(0));
      out.push_back(std::move(s));
    }
  }
  return out;
}

std::shared_ptr<const void> elements_of(const HeldLeaf& leaf, const OwnedShard& shard) {
  if (!leaf.placement) return leaf.literal.storage();
  leaf.storage->wait();
  const std::size_t slot =
      leaf.replicas_equal ? shard.tile : static_cast<std::size_t>(leaf.placement->first_position[shard.tile]);
  const runtime::BufferPtr& buffer = leaf.storage->shard_buffers.at(slot);
  TESSERA_CHECK(buffer != nullptr, "this process has the shard");
  // An accelerator's memory is copied, one shard at a time.
  const auto& memory = runtime::runtime_of(leaf.placement->devices->client).memory;
  const runtime::BufferPtr here = runtime::on_host({&buffer, 1}, *memory)[0];
  return {here, here->data()};
}

std::string tensor_name(const StoredLeaf& leaf, const Dims& start, const Shape& shape) {
  if (shape == leaf.shape) return leaf.name;
  std::string place;
  for (std::size_t d = 0; d < start.size(); ++d) {
    place += str(d > 0 ? "," : "@", start[d], ":", start[d] + shape[d]);
  }
  return leaf.name + place;
}

Client client_of(const std::optional<Client>& given, const std::vector<Array>& leaves) {
  if (given) return *given;
  for (const Array& a : leaves) {
    if (a.defined() && a.impl()->placement) return a.impl()->placement->devices->client;
  }
  return Client::current();
}

}  // namespace tessera::io
