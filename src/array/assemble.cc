// SPDX-License-Identifier: Apache-2.0
// Putting values on devices and moving them between shardings.
#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "array/array_impl.h"
#include "array/noted.h"
#include "base/machine.h"
#include "base/strings.h"
#include "base/thread_pool.h"
#include "core/strided_copy.h"
#include "runtime/engine.h"
#include "sharding/fits.h"
#include "tessera/array.h"
#include "tessera/mesh.h"

namespace tessera {

namespace arrays {

ShardingPtr default_sharding() {
  Client client = Client::current();
  struct Default {
    ShardingPtr sharding;
  };
  static const char key = 0;
  auto held = client.extensions().get(&key, [&]() -> std::shared_ptr<void> {
    auto d = std::make_shared<Default>();
    d->sharding = SingleDeviceSharding(client.local_devices()[0]).share();
    return d;
  });
  return std::static_pointer_cast<Default>(held)->sharding;
}

namespace {

runtime::BufferPtr allocate(const sharding::Placement& place, std::int64_t nbytes) {
  return runtime::runtime_of(place.devices->client).memory->allocate(nbytes);
}

bool any_local(const sharding::Placement& place, const std::vector<bool>& local_tile, std::size_t tile) {
  return place.devices->all_local() || local_tile[tile];
}
std::vector<bool> local_tiles(const sharding::Placement& place) {
  std::vector<bool> out(static_cast<std::size_t>(place.num_tiles));
  for (auto p : place.devices->local_positions) {
    out[static_cast<std::size_t>(place.tile_of[static_cast<std::size_t>(p)])] = true;
  }
  return out;
}

// First element of a tile.
Dims offset_of(const Index& index) {
  Dims out;
  for (const auto& s : index) out.push_back(s.start.value_or(0));
  return out;
}

}  // namespace

Array place(const HostArray& value, const ShardingPtr& sharding, bool committed, bool adopt, bool weak) {
  auto placed = sharding::placement(sharding, value.shape());
  const auto& place = *placed;
  auto storage = std::make_shared<Storage>();
  auto tiles = static_cast<std::size_t>(place.num_tiles);
  storage->shard_buffers.resize(tiles);
  auto local = local_tiles(place);
  auto item = dtype_size(value.dtype());
  Dims strides = core::contiguous_strides(value.shape(), item);
  for (std::size_t t = 0; t < tiles; ++t) {
    if (!any_local(place, local, t)) continue;
    if (tiles == 1 && adopt) {
      storage->shard_buffers[t] = std::make_shared<runtime::Buffer>(value.storage(), value.nbytes());
    } else {
      storage->shard_buffers[t] = allocate(place, size_of(place.tile_shape[t]) * item);
    }
  }
  if (!adopt || tiles > 1) {
    // The first addend of a block is the value, the others are zeros.
    const auto blocks = tiles / static_cast<std::size_t>(place.addends);
    base::parallel_for(static_cast<std::int64_t>(tiles),
                       std::max<std::int64_t>(
                           1, (1 << 16) * static_cast<std::int64_t>(tiles) / std::max<std::int64_t>(1, value.nbytes())),
                       [&](std::int64_t begin, std::int64_t end) {
                         for (auto i = begin; i < end; ++i) {
                           auto t = static_cast<std::size_t>(i);
                           if (!storage->shard_buffers[t]) continue;
                           Shape shape = place.tile_shape[t];
                           if (t >= blocks) {
                             const auto& zeros = *storage->shard_buffers[t];
                             if (zeros.nbytes() > 0)
                               std::memset(zeros.data(), 0, static_cast<std::size_t>(zeros.nbytes()));
                             continue;
                           }
                           Dims offset = offset_of(place.tile_index[t]);
                           std::int64_t from = 0;
                           for (std::size_t d = 0; d < shape.size(); ++d) from += offset[d] * strides[d];
                           core::copy_strided(storage->shard_buffers[t]->data(), core::contiguous_strides(shape, item),
                                              static_cast<const char*>(value.data()) + from, strides, shape, item,
                                              value.nbytes() > base::cache_bytes());
                         }
                       });
    count_transfer(value.nbytes());
  }
  return make(ir::Type{value.dtype(), value.shape(), weak}, sharding, std::move(storage), committed);
}

HostShards::HostShards(const Storage& storage, const Client& client) : own_(storage.shard_buffers) {
  if (!runtime::all_on_host(own_)) copied_ = runtime::on_host(own_, *runtime::runtime_of(client).memory);
}

namespace {

struct Source {
  const sharding::Placement& place;
  const runtime::ShardBuffers& shards;
  bool by_tile;
  // The local buffer of a tile, or null.
  runtime::BufferPtr shard_buffer(std::size_t tile) const {
    if (by_tile) return shards[tile];
    for (auto p : place.devices->local_positions) {
      if (place.tile_of[static_cast<std::size_t>(p)] == static_cast<std::int32_t>(tile)) {
        return shards[static_cast<std::size_t>(p)];
      }
    }
    return nullptr;
  }
};

// Fills one destination tile from the source tiles that overlap it; shares the buffer where one covers it exactly.
runtime::BufferPtr assemble(const Source& from, const sharding::Placement& to, std::size_t tile, std::int64_t item) {
  Shape shape = to.tile_shape[tile];
  Dims offset = offset_of(to.tile_index[tile]);
  auto tiles = static_cast<std::size_t>(from.place.num_tiles);
  runtime::BufferPtr out;
  Dims out_strides = core::contiguous_strides(shape, item);
  std::int64_t filled = 0;
  std::int64_t wanted = size_of(shape);
  for (std::size_t s = 0; s < tiles && (filled < wanted || !out); ++s) {
    Shape source_shape = from.place.tile_shape[s];
    Dims source_offset = offset_of(from.place.tile_index[s]);
    if (source_shape == shape && source_offset == offset) {
      if (auto shard_buffer = from.shard_buffer(s)) return shard_buffer;
    }
    Shape common(shape.size());
    std::int64_t to_bytes = 0;
    std::int64_t from_bytes = 0;
    Dims source_strides = core::contiguous_strides(source_shape, item);
    std::int64_t n = 1;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      std::int64_t begin = std::max(offset[d], source_offset[d]);
      std::int64_t end = std::min(offset[d] + shape[d], source_offset[d] + source_shape[d]);
      common[d] = std::max<std::int64_t>(0, end - begin);
      n *= common[d];
      to_bytes += (begin - offset[d]) * out_strides[d];
      from_bytes += (begin - source_offset[d]) * source_strides[d];
    }
    if (!out) out = allocate(to, wanted * item);
    if (n == 0) continue;
    auto shard_buffer = from.shard_buffer(s);
    if (!shard_buffer) {
      throw NotAddressableError(
          str("device_put: a shard of the array of shape ", to.global_shape,
              " that the new sharding needs here lies in another process; reshard inside a jitted function"));
    }
    core::copy_strided(static_cast<char*>(out->data()) + to_bytes, out_strides,
                       static_cast<const char*>(shard_buffer->data()) + from_bytes, source_strides, common, item);
    count_transfer(n * item);
    filled += n;
  }
  return out;
}

}  // namespace

namespace {

// Whether each tile of `to` is a tile of `from`, on other devices of the same client, whose engine has memory of its
// own: then that needs no way through the host.
bool moves_whole_tiles(const sharding::Placement& from, const sharding::Placement& to) {
  if (from.devices->client != to.devices->client || from.addends > 1 || to.addends > 1) return false;
  if (!runtime::runtime_of(to.devices->client).engine->partitions()) return false;
  auto is_tile = [&](const Shape& shape, const Index& index) {
    for (std::size_t s = 0; s < static_cast<std::size_t>(from.num_tiles); ++s) {
      if (from.tile_shape[s] == shape && offset_of(from.tile_index[s]) == offset_of(index)) return true;
    }
    return false;
  };
  for (std::size_t t = 0; t < static_cast<std::size_t>(to.num_tiles); ++t) {
    if (!is_tile(to.tile_shape[t], to.tile_index[t])) return false;
  }
  return true;
}

// The shards of `to` that are wanted here, of those of an array that is ready.
void fill(const Storage& storage, const sharding::Placement& place, bool by_tile, const sharding::Placement& to,
          std::int64_t item, Storage& out) {
  std::optional<HostShards> shards;
  if (!runtime::all_on_host(storage.shard_buffers) && !moves_whole_tiles(place, to)) {
    shards.emplace(storage, place.devices->client);
  }
  Source from{place, shards ? shards->list() : storage.shard_buffers, by_tile};
  out.shard_buffers.resize(static_cast<std::size_t>(to.num_tiles));
  auto local = local_tiles(to);
  const auto blocks = out.shard_buffers.size() / static_cast<std::size_t>(to.addends);
  for (std::size_t t = 0; t < out.shard_buffers.size(); ++t) {
    if (!any_local(to, local, t)) continue;
    if (place.addends > 1) {
      out.shard_buffers[t] = from.shard_buffer(t);  // the same addends
    } else if (t < blocks) {
      out.shard_buffers[t] = assemble(from, to, t, item);
    } else {
      const std::int64_t bytes = size_of(to.tile_shape[t]) * item;
      out.shard_buffers[t] = allocate(to, bytes);
      if (bytes > 0) std::memset(out.shard_buffers[t]->data(), 0, static_cast<std::size_t>(bytes));
    }
  }
}

}  // namespace

Array reshard(const Array& a, const ShardingPtr& sharding, bool committed) {
  auto storage = storage_of(a, "device_put");
  const auto& impl = *a.impl();
  auto placed = sharding::placement(sharding, impl.type.shape);
  const auto item = dtype_size(impl.type.dtype);
  const bool same =
      placed->devices == impl.placement->devices && sharding->is_equivalent_to(*impl.sharding, impl.type.rank());
  if (impl.placement->addends > 1 && !same) {
    throw UnimplementedError(str("device_put: the array is unreduced (", impl.sharding->text(), ") and cannot go to ",
                                 sharding->text(), " as it is; reshard it on its own devices first"));
  }
  // Where all shards are here none can be missing, which is said at the call. An error is thrown where the result is
  // waited for, whenever it came.
  const bool all_here = impl.placement->devices->all_local() && placed->devices->all_local();
  if (!all_here) storage->wait();
  const bool pending = all_here && storage->ready && (!storage->ready->ready() || storage->ready->error());
  if (same && impl.replicas_equal) {
    return make(impl.type, sharding, storage, committed, true);
  }
  auto out = std::make_shared<Storage>();
  if (!pending) {
    fill(*storage, *impl.placement, impl.replicas_equal, *placed, item, *out);
  } else {
    auto move = [from = impl.placement, by_tile = impl.replicas_equal, storage, placed, item, out] {
      storage->wait();  // for its error
      fill(*storage, *from, by_tile, *placed, item, *out);
    };
    out->ready = runtime::runtime_of(placed->devices->client).scheduler->submit({std::move(move), {storage->ready}});
  }
  return make(impl.type, sharding, std::move(out), committed, true);
}

}  // namespace arrays

Array device_put(const HostArray& value, const Loc&) { return arrays::place(value, arrays::default_sharding(), false); }
Array device_put(const Array& value, const Loc&) { return arrays::materialize(value); }
Array device_put(const HostArray& value, const Device& device, const Loc&) {
  return device_put(value, SingleDeviceSharding(device).share());
}
Array device_put(const HostArray& value, const ShardingPtr& sharding, const Loc&) {
  if (!sharding) throw ValueError("device_put: sharding is null; expected a Sharding");
  sharding::check_fits("device_put", "sharding", *sharding, value.shape());
  return arrays::noted(arrays::place(value, sharding, true), "device_put");
}

Array make_array_from_callback(const Shape& shape, const ShardingPtr& sharding,
                               const std::function<HostArray(const Index&)>& data, std::optional<DType> dtype,
                               const Loc&) {
  if (!sharding) throw ValueError("make_array_from_callback: sharding is null; expected a Sharding");
  sharding::check_fits("make_array_from_callback", "sharding", *sharding, shape);
  auto placed = sharding::placement(sharding, shape);
  const auto& place = *placed;
  const auto& positions = place.devices->local_positions;
  bool once = sharding->is_fully_replicated();
  auto storage = std::make_shared<arrays::Storage>();
  storage->shard_buffers.resize(static_cast<std::size_t>(place.num_tiles));
  std::optional<DType> seen = dtype;
  for (auto p : positions) {
    auto position = static_cast<std::size_t>(p);
    auto tile = static_cast<std::size_t>(place.tile_of[position]);
    const Device& device = place.devices->devices[position];
    HostArray value = data(place.tile_index[tile]);
    if (value.shape() != place.tile_shape[tile]) {
      throw ValueError(str("make_array_from_callback: data returned shape ", value.shape(), " for device ", device,
                           "; expected ", place.tile_shape[tile]));
    }
    if (!seen) seen = value.dtype();
    if (value.dtype() != *seen) {
      throw ValueError(str("make_array_from_callback: data returned dtype ", dtype_name(value.dtype()), " for device ",
                           device, "; expected ", dtype_name(*seen),
                           dtype ? " (the dtype argument)" : " as for the devices before"));
    }
    if (!storage->shard_buffers[tile]) {
      auto buffer = arrays::allocate(place, value.nbytes());
      if (value.nbytes() > 0) std::memcpy(buffer->data(), value.data(), static_cast<std::size_t>(value.nbytes()));
      arrays::count_transfer(value.nbytes());
      storage->shard_buffers[tile] = std::move(buffer);
    }
    if (once) break;
  }
  if (!seen) {
    throw ValueError(str("make_array_from_callback: this process has no device of ", sharding->text(), "; give dtype"));
  }
  return arrays::noted(arrays::make(ir::Type{*seen, shape}, sharding, std::move(storage), true),
                       "make_array_from_callback");
}

namespace {
constexpr const char* kFromSingle = "make_array_from_single_device_arrays";

std::string ids(const std::vector<std::int64_t>& list) { return str("{", join(list), "}"); }

const Device& only_device(const Array& a, std::size_t i) {
  arrays::check_live(a, kFromSingle);
  const auto& placement = a.impl()->placement;
  if (!placement || placement->devices->size() != 1) {
    throw ValueError(str(kFromSingle, ": arrays[", i, "] has ", placement ? placement->devices->size() : 0,
                         " shards; expected one shard each"));
  }
  return placement->devices->devices[0];
}

// Which array holds the shard of each local position of the sharding: exactly one each.
std::map<std::int32_t, std::size_t> arrays_by_position(const sharding::Placement& place,
                                                       std::span<const Array> arrays) {
  std::map<std::int32_t, std::size_t> by_position;
  std::vector<std::int64_t> given, extra, missing;
  for (std::size_t i = 0; i < arrays.size(); ++i) given.push_back(only_device(arrays[i], i).id());
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    auto position = place.devices->position(only_device(arrays[i], i));
    if (position < 0) {
      extra.push_back(given[i]);
    } else if (!by_position.emplace(position, i).second) {
      throw ValueError(
          str(kFromSingle, ": device ", given[i], " appears twice among the arrays' devices ", base::list_text(given)));
    }
  }
  const auto& local = place.devices->local_positions;
  for (auto p : local) {
    if (!by_position.contains(p)) missing.push_back(place.devices->devices[static_cast<std::size_t>(p)].id());
  }
  if (extra.empty() && arrays.size() != local.size()) {
    throw ValueError(str(kFromSingle, ": arrays has ", arrays.size(), " elements; expected ", local.size(),
                         ", one for each local device (missing ", ids(missing), ")"));
  }
  if (!extra.empty() || !missing.empty()) {
    throw DeviceMismatchError(str(kFromSingle, ": the arrays' devices do not match the sharding: missing ",
                                  ids(missing), ", extra ", ids(extra)));
  }
  return by_position;
}

DType common_dtype(std::span<const Array> arrays, std::optional<DType> dtype) {
  if (!dtype && !arrays.empty()) dtype = arrays[0].dtype();
  for (const auto& a : arrays) {
    if (a.dtype() == *dtype) continue;
    std::string all;
    for (const auto& b : arrays) all += str(all.empty() ? "" : ", ", dtype_name(b.dtype()));
    throw ValueError(str(kFromSingle, ": arrays have dtypes ", all, "; expected ", dtype_name(*dtype), " for each"));
  }
  if (!dtype) {
    throw ValueError(str(kFromSingle, ": arrays is empty (this process has no device of the sharding); give dtype"));
  }
  return *dtype;
}
}  // namespace

Array make_array_from_single_device_arrays(const Shape& shape, const ShardingPtr& sharding,
                                           std::span<const Array> arrays, std::optional<DType> dtype, const Loc&) {
  if (!sharding) throw ValueError(str(kFromSingle, ": sharding is null; expected a Sharding"));
  sharding::check_fits(kFromSingle, "sharding", *sharding, shape);
  auto placed = sharding::placement(sharding, shape);
  const auto& place = *placed;
  auto by_position = arrays_by_position(place, arrays);
  DType type = common_dtype(arrays, dtype);
  auto storage = std::make_shared<arrays::Storage>();
  // Equal replicas are promised, not proved: each device keeps its own buffer unless they are the same one.
  bool own = static_cast<std::size_t>(place.num_tiles) != place.devices->size();
  storage->shard_buffers.resize(own ? place.devices->size() : static_cast<std::size_t>(place.num_tiles));
  std::vector<std::pair<std::size_t, arrays::StoragePtr>> shards;
  for (auto& [position, i] : by_position) {
    auto p = static_cast<std::size_t>(position);
    auto tile = static_cast<std::size_t>(place.tile_of[p]);
    if (arrays[i].shape() != place.tile_shape[tile]) {
      throw ValueError(str(kFromSingle, ": arrays[", i, "] has shape ", arrays[i].shape(), "; expected ",
                           place.tile_shape[tile], ", the shard shape of ", shape));
    }
    shards.emplace_back(own ? p : tile, arrays::storage_of(arrays::without_digits(arrays[i]), kFromSingle));
  }
  std::vector<runtime::EventPtr> pending;
  for (const auto& [slot, shard] : shards) {
    if (shard->ready) pending.push_back(shard->ready);
  }
  auto adopt = [to = storage.get(), shards = std::move(shards)] {
    for (const auto& [slot, shard] : shards) to->shard_buffers[slot] = shard->shard_buffers[0];
  };
  if (std::all_of(pending.begin(), pending.end(), [](const auto& e) { return e->ready() && !e->error(); })) {
    adopt();
  } else {
    storage->ready = runtime::when_all(pending, [storage, adopt] { adopt(); });
  }
  return arrays::noted(arrays::make(ir::Type{type, shape}, sharding, std::move(storage), true, !own), kFromSingle);
}

}  // namespace tessera
