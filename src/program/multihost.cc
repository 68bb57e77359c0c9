// SPDX-License-Identifier: Apache-2.0
#include "tessera/multihost.h"

#include <algorithm>
#include <set>

#include "array/array_impl.h"
#include "array/array_stats.h"
#include "array/noted.h"
#include "base/strings.h"

namespace tessera {

namespace {

const PartitionSpec& given(const std::optional<PartitionSpec>& spec, const char* function) {
  if (!spec) throw ValueError(str(function, ": no spec; give P() for data that is equal in every process"));
  return *spec;
}

// How often the global extent of every dimension holds the local one.
Dims growth(const NamedSharding& global, const NamedSharding& local, std::size_t rank) {
  Dims out(rank, 1);
  for (std::size_t d = 0; d < rank; ++d) {
    for (int axis : global.dim_axes(d)) {
      auto a = static_cast<std::size_t>(axis);
      out[d] *= global.mesh().mesh_shape()[a] / local.mesh().mesh_shape()[a];
    }
  }
  return out;
}

// The same local shards under another shape and sharding that has this process's devices in the same order.
Array same_shards(const Array& from, const Shape& shape, const NamedSharding& sharding, const char* function) {
  auto storage = arrays::storage_of(from, function);
  storage->wait();
  const auto& impl = *from.impl();
  auto to = arrays::look_up(sharding.share(), shape);
  auto out = std::make_shared<arrays::Storage>();
  bool by_tile = impl.replicas_equal;
  out->shard_buffers.resize(by_tile ? static_cast<std::size_t>(to->num_tiles) : to->devices->size());
  for (auto p : impl.placement->devices->local_positions) {
    auto here = static_cast<std::size_t>(p);
    auto there = static_cast<std::size_t>(to->devices->position(impl.placement->devices->devices[here]));
    out->shard_buffers[by_tile ? static_cast<std::size_t>(to->tile_of[there]) : there] =
        storage->shard_buffers[by_tile ? static_cast<std::size_t>(impl.placement->tile_of[here]) : here];
  }
  return arrays::make(ir::Type{impl.type.dtype, shape, impl.type.weak}, sharding.share(), std::move(out), true,
                      by_tile);
}

Array to_global(const Array& placed, const NamedSharding& global, const NamedSharding& local, const char* function) {
  Shape shape = placed.shape();
  Dims times = growth(global, local, shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) shape[d] *= times[d];
  return arrays::noted(same_shards(placed, shape, global, function), function);
}

}  // namespace

Array host_local_array_to_global_array(const Array& local, const Mesh& mesh, const std::optional<PartitionSpec>& spec,
                                       const Loc&) {
  const char* name = "host_local_array_to_global_array";
  arrays::check_live(local, name);
  const PartitionSpec& s = given(spec, name);
  if (!local.is_fully_addressable()) return local;
  NamedSharding global(mesh, s);
  NamedSharding here(mesh.local_mesh(), s);
  return to_global(device_put(local, here), global, here, name);
}

Array host_local_array_to_global_array(const HostArray& local, const Mesh& mesh,
                                       const std::optional<PartitionSpec>& spec, const Loc&) {
  const char* name = "host_local_array_to_global_array";
  const PartitionSpec& s = given(spec, name);
  NamedSharding global(mesh, s);
  NamedSharding here(mesh.local_mesh(), s);
  return to_global(device_put(local, here), global, here, name);
}

Array global_array_to_host_local_array(const Array& global, const Mesh& mesh, const std::optional<PartitionSpec>& spec,
                                       const Loc&) {
  const char* name = "global_array_to_host_local_array";
  arrays::check_live(global, name);
  const PartitionSpec& s = given(spec, name);
  if (global.is_fully_addressable()) return global;
  NamedSharding wanted(mesh, s);
  NamedSharding here(mesh.local_mesh(), s);
  Array placed = global.sharding()->is_equivalent_to(wanted, global.ndim()) ? global : device_put(global, wanted);
  Shape shape = placed.shape();
  Dims times = growth(wanted, here, shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) shape[d] /= times[d];
  return same_shards(placed, shape, here, name);
}

namespace {

// Which parts of every dimension this process has.
struct LocalParts {
  Dims parts;                               // per dimension, in the whole
  std::vector<std::set<std::int64_t>> own;  // per dimension, here
  bool grid = true;                         // this process has every combination of its parts
};

LocalParts local_parts(const ShardingPtr& sharding, std::size_t rank) {
  // A shape that every sharding of so many devices can cut.
  Shape probe(rank, std::max<std::int64_t>(1, sharding->num_devices()));
  Shape shard_buffer = sharding->shard_shape(probe);
  LocalParts out;
  out.own.resize(rank);
  for (std::size_t d = 0; d < rank; ++d) out.parts.push_back(probe[d] / shard_buffer[d]);
  std::set<Dims> seen;
  IndexMap map = sharding->addressable_devices_indices_map(probe);
  for (std::size_t i = 0; i < map.size(); ++i) {
    Dims at;
    Index index = map.index(i);
    for (std::size_t d = 0; d < rank; ++d) {
      at.push_back(index[d].start.value_or(0) / shard_buffer[d]);
      out.own[d].insert(at.back());
    }
    seen.insert(at);
  }
  std::size_t product = 1;
  for (const auto& own : out.own) product *= own.size();
  out.grid = seen.size() == product;
  return out;
}

}  // namespace

Array make_array_from_process_local_data(const ShardingPtr& sharding, const HostArray& local,
                                         const MaybeDims& global_shape, const Loc&) {
  const char* name = "make_array_from_process_local_data";
  if (!sharding) throw ValueError(str(name, ": sharding is null; expected a Sharding"));
  std::size_t rank = local.shape().size();
  LocalParts parts = local_parts(sharding, rank);
  Shape deduced = local.shape();
  for (std::size_t d = 0; d < rank; ++d) {
    auto own = static_cast<std::int64_t>(parts.own[d].size());
    bool fits = own > 0 && deduced[d] % own == 0;
    if (fits) deduced[d] = deduced[d] / own * parts.parts[d];
    if ((!fits || !parts.grid) && !global_shape) {
      throw ValueError(str(name, ": the shards of this process do not say how local data of shape ", local.shape(),
                           " extends under ", sharding->text(), "; give global_shape"));
    }
  }
  Shape shape = global_shape.value_or(deduced);
  // A dimension that is given whole needs no deduction.
  bool fits = shape.size() == rank;
  std::vector<bool> whole(rank, false);
  for (std::size_t d = 0; d < rank && fits; ++d) {
    whole[d] = shape[d] == local.shape()[d];
    fits = whole[d] || (parts.grid && shape[d] == deduced[d]);
  }
  if (!fits) {
    throw ValueError(str(name, ": global_shape = ", shape, " does not fit local data of shape ", local.shape(),
                         "; expected ", deduced));
  }
  Shape shard_buffer = sharding->shard_shape(shape);
  return make_array_from_callback(shape, sharding, [&](const Index& index) {
    Index mine = index;
    for (std::size_t d = 0; d < rank; ++d) {
      if (whole[d] || index[d].is_full()) continue;
      const auto& own = parts.own[d];
      auto at = std::distance(own.begin(), own.find(*index[d].start / shard_buffer[d])) * shard_buffer[d];
      mine[d] = Slice{at, at + shard_buffer[d]};
    }
    return local.slice(mine);
  });
}

namespace {

// One device a process: where gathered data meets.
Mesh meeting_mesh(const Client& client) {
  std::vector<Device> first(static_cast<std::size_t>(client.process_count()));
  for (const auto& d : client.devices()) {
    auto& slot = first[static_cast<std::size_t>(d.process_index())];
    if (!slot) slot = d;
  }
  return Mesh(DeviceArray(first), "processes");
}

HostArray gather(const HostArray& x, const Client& client, bool tiled) {
  if (tiled && x.ndim() == 0) throw ValueError("process_allgather: a scalar cannot be tiled; leave tiled out");
  Shape row = x.shape();
  row.insert(row.begin(), 1);
  Mesh mesh = meeting_mesh(client);
  Array all = make_array_from_process_local_data(NamedSharding(mesh, P("processes")).share(), x.reshape(row));
  HostArray stacked = device_put(all, NamedSharding(mesh, P())).host();
  if (!tiled) return stacked;
  Shape joined = x.shape();
  joined[0] *= client.process_count();
  return stacked.reshape(joined);
}

}  // namespace

HostArray process_allgather(const HostArray& x, const AllgatherOptions& options, const Loc&) {
  return gather(x, Client::current(), options.tiled);
}

HostArray process_allgather(const Array& x, const AllgatherOptions& options, const Loc&) {
  arrays::check_live(x, "process_allgather");
  const auto& impl = *x.impl();
  if (impl.literal) return gather(x.host(), Client::current(), options.tiled);
  if (x.is_fully_addressable()) return gather(x.host(), impl.placement->devices->client, options.tiled);
  if (!options.tiled) {
    throw ValueError(str("process_allgather: the array of type ", dtype_name(x.dtype()), "[", join(x.shape(), ","),
                         "] is global; expected tiled = true"));
  }
  auto devices = x.devices();
  Mesh line(DeviceArray(std::vector<Device>(devices.begin(), devices.end())), "all");
  return device_put(x, NamedSharding(line, P())).host();
}

}  // namespace tessera
