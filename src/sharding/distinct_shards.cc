// SPDX-License-Identifier: Apache-2.0
#include "sharding/distinct_shards.h"

#include <algorithm>
#include <span>
#include <unordered_map>

#include "base/check.h"
#include "base/strings.h"
#include "sharding/gspmd_state.h"
#include "tessera/error.h"

namespace tessera::sharding {

Shape split_shape(const Shape& global_shape, const Dims& parts, bool uneven, std::string_view function) {
  size_of(global_shape);  // refuses negative extents
  Shape out;
  out.reserve(global_shape.size());
  for (std::size_t d = 0; d < global_shape.size(); ++d) {
    std::int64_t n = d < parts.size() ? parts[d] : 1;
    if (!uneven && global_shape[d] % n != 0) {
      Dims all = parts;
      all.resize(global_shape.size(), 1);
      throw IndivisibleError(str(function, ": dimension ", d, " of global_shape ", global_shape, " has extent ",
                                 global_shape[d], "; expected a multiple of ", n,
                                 ", the number of its parts (parts per dimension ", base::list_text(all), ")"));
    }
    out.push_back((global_shape[d] + n - 1) / n);
  }
  return out;
}

std::int64_t ShardGrid::num_tiles() const {
  if (!grid) return static_cast<std::int64_t>(listed.size());
  std::int64_t n = 1;
  for (const Dim& d : dims) n *= d.parts;
  return n;
}

Shape ShardGrid::shard_shape() const {
  Shape out;
  out.reserve(dims.size());
  for (const Dim& d : dims) out.push_back(d.shard);
  return out;
}

std::int64_t ShardGrid::number(std::int64_t position, std::uint32_t first, std::uint32_t last) const {
  std::int64_t n = 0;
  for (std::uint32_t i = first; i < last; ++i) {
    const Digit& d = digits[i];
    n = n * d.size + position / d.stride % d.size;
  }
  return n;
}

std::int64_t ShardGrid::part(std::int64_t position, std::size_t dim) const {
  if (by_digits) return number(position, dims[dim].first, dims[dim].last);
  std::int64_t t = tile_list[static_cast<std::size_t>(position)];
  for (std::size_t d = dims.size() - 1; d > dim; --d) t /= dims[d].parts;
  return t % dims[dim].parts;
}

std::int64_t ShardGrid::tile(std::int64_t position) const {
  if (!by_digits) return tile_list[static_cast<std::size_t>(position)];
  std::int64_t t = 0;
  for (std::size_t d = 0; d < dims.size(); ++d) t = t * dims[d].parts + part(position, d);
  return t;
}

// In place: a slice that is built and then copied waits for its bytes, which go out one by one and come back as a
// whole.
void ShardGrid::Dim::read_slice(std::int64_t part, Slice& to) const {
  if (parts == 1) {
    to.start.reset();
    to.stop.reset();
    return;
  }
  std::int64_t start = std::min(part * shard, extent);
  to.start = start;
  to.stop = std::min(start + shard, extent);
}

Index ShardGrid::index_at(std::int64_t position) const {
  Index out;
  read_index(position, out);
  return out;
}

void ShardGrid::read_index(std::int64_t position, Index& to) const {
  if (!grid) {
    to = listed[static_cast<std::size_t>(tile_list[static_cast<std::size_t>(position)])];
    return;
  }
  to.resize(dims.size());
  for (std::size_t d = 0; d < dims.size(); ++d) dims[d].read_slice(part(position, d), to[d]);
}

Index ShardGrid::tile_index(std::int64_t tile) const {
  if (!grid) return listed[static_cast<std::size_t>(tile)];
  Index out(dims.size());
  for (std::size_t d = dims.size(); d-- > 0;) {
    dims[d].read_slice(tile % dims[d].parts, out[d]);
    tile /= dims[d].parts;
  }
  return out;
}

Shape ShardGrid::tile_shape(std::int64_t tile) const {
  Index index = tile_index(tile);
  Shape out;
  for (std::size_t d = 0; d < index.size(); ++d) {
    auto [start, stop] = index[d].resolve(dims[d].extent);
    out.push_back(stop - start);
  }
  return out;
}

std::int64_t ShardGrid::distinct_parts(std::size_t dim) const {
  const Dim& d = dims[dim];
  if (d.parts == 1 || d.shard == 0) return 1;
  std::int64_t filled = (d.extent + d.shard - 1) / d.shard;
  return std::min(d.parts, filled + 1);
}

bool ShardGrid::replicas_by_digits() const {
  if (!grid || !by_digits) return false;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (distinct_parts(d) != dims[d].parts) return false;
  }
  return true;
}

std::int32_t ShardGrid::replica_at(std::int64_t position) const {
  // Devices with equal shards differ in the unused digits alone, and these grow with the position.
  return static_cast<std::int32_t>(number(position, first_unused, static_cast<std::uint32_t>(digits.size())));
}

std::vector<std::int32_t> ShardGrid::count_replicas() const {
  auto n = static_cast<std::size_t>(num_devices);
  std::vector<std::int32_t> out(n);
  if (replicas_by_digits()) {
    for (std::size_t p = 0; p < n; ++p) out[p] = replica_at(static_cast<std::int64_t>(p));
    return out;
  }
  std::vector<std::int32_t> seen(static_cast<std::size_t>(num_tiles()));
  for (std::size_t p = 0; p < n; ++p) {
    std::int64_t t = grid ? 0 : tile_list[p];
    for (std::size_t d = 0; grid && d < dims.size(); ++d) {
      std::int64_t k = std::min(part(static_cast<std::int64_t>(p), d), distinct_parts(d) - 1);
      t = t * dims[d].parts + k;
    }
    out[p] = seen[static_cast<std::size_t>(t)]++;
  }
  return out;
}

namespace {

void set_dims(ShardGrid& p, const Shape& global_shape, const Shape& shard) {
  p.dims.reserve(global_shape.size());
  for (std::size_t d = 0; d < global_shape.size(); ++d) p.dims.push_back({global_shape[d], shard[d]});
}

void join_digits_from(ShardGrid& p, std::size_t first) {
  p.digits.resize(first + join_digits(std::span<Digit>(p.digits.data(), p.digits.size()).subspan(first)));
}

// `axes_of(d)`: axes of a row-major mesh of `axis_sizes` that split dimension d, slowest first.
template <class AxesOf>
void split_by_axes(ShardGrid& p, const Dims& axis_sizes, const AxesOf& axes_of) {
  auto digit = [&](std::size_t axis) {
    std::int64_t stride = 1;
    for (std::size_t a = axis + 1; a < axis_sizes.size(); ++a) stride *= axis_sizes[a];
    return Digit{axis_sizes[axis], stride};
  };
  p.digits.reserve(axis_sizes.size());
  std::int64_t tiles = 1;
  for (std::size_t d = 0; d < p.dims.size(); ++d) {
    ShardGrid::Dim& dim = p.dims[d];
    dim.first = static_cast<std::uint32_t>(p.digits.size());
    for (int a : axes_of(d)) {
      p.digits.push_back(digit(static_cast<std::size_t>(a)));
      dim.parts *= p.digits.back().size;
    }
    join_digits_from(p, dim.first);
    dim.last = static_cast<std::uint32_t>(p.digits.size());
    tiles *= dim.parts;
  }
  p.first_unused = static_cast<std::uint32_t>(p.digits.size());
  if (tiles == p.num_devices) return;
  // The axes that split no dimension, slowest first.
  std::vector<bool> used(axis_sizes.size());
  for (std::size_t d = 0; d < p.dims.size(); ++d) {
    for (int a : axes_of(d)) used[static_cast<std::size_t>(a)] = true;
  }
  for (std::size_t a = 0; a < used.size(); ++a) {
    if (!used[a]) p.digits.push_back(digit(a));
  }
  join_digits_from(p, p.first_unused);
}

void split_by_list(ShardGrid& p, const TileAssignment& tiles) {
  Dims parts = tiled_dims(tiles, static_cast<std::int64_t>(p.dims.size()));
  for (std::size_t d = 0; d < parts.size(); ++d) p.dims[d].parts = parts[d];
  p.by_digits = false;
  auto order = tiles.to_list();
  std::int64_t replicas = static_cast<std::int64_t>(order.size()) / p.num_tiles();
  p.tile_list.resize(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    p.tile_list[static_cast<std::size_t>(order[i])] =
        static_cast<std::int32_t>(static_cast<std::int64_t>(i) / replicas);
  }
}

}  // namespace

ShardGrid make_shard_grid(const Sharding& s, const Shape& global_shape) {
  ShardGrid p;
  set_dims(p, global_shape, s.shard_shape(global_shape));
  p.num_devices = s.num_devices();
  if (const auto* named = dynamic_cast<const NamedSharding*>(&s)) {  // its axes are read where they lie: no copies
    split_by_axes(p, named->mesh().mesh_shape(), [&](std::size_t d) { return named->dim_axes(d); });
  } else if (auto t = mesh_tiling(s, rank(global_shape))) {
    split_by_axes(p, t->axis_sizes, [&](std::size_t d) { return std::span<const int>(t->dim_axes[d]); });
  } else if (const auto* g = dynamic_cast<const GspmdSharding*>(&s)) {
    split_by_list(p, g->tiles());
  } else {
    auto listed = s.shard_indices(global_shape);
    if (!listed) {
      throw StateError(
          str("devices_indices_map: a sharding of kind ", s.kind(), " has no index map; override shard_indices"));
    }
    if (listed->size() != s.devices().size()) {
      throw StateError(str("devices_indices_map: shard_indices of ", s.kind(), " gave ", listed->size(),
                           " indices; expected one for each of ", s.devices().size(), " devices"));
    }
    p = make_listed_shard_grid(std::move(*listed), global_shape);
  }
  return p;
}

ShardGrid make_listed_shard_grid(std::vector<Index> indices, const Shape& global_shape) {
  ShardGrid p;
  p.grid = p.by_digits = false;
  set_dims(p, global_shape, Shape(global_shape.size()));
  p.num_devices = static_cast<std::int64_t>(indices.size());
  std::unordered_map<Index, std::int32_t> tiles;
  for (auto& index : indices) {
    if (index.size() != global_shape.size()) {
      throw StateError(str("devices_indices_map: index ", index, " has ", index.size(), " slices; expected ",
                           global_shape.size(), ", the rank of global_shape ", global_shape));
    }
    for (std::size_t d = 0; d < index.size(); ++d) {
      auto [start, stop] = index[d].resolve(global_shape[d]);
      p.dims[d].shard = std::max(p.dims[d].shard, stop - start);
    }
    auto [it, fresh] = tiles.emplace(index, static_cast<std::int32_t>(p.listed.size()));
    p.tile_list.push_back(it->second);
    if (fresh) p.listed.push_back(std::move(index));
  }
  return p;
}

}  // namespace tessera::sharding
