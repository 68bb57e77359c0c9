// SPDX-License-Identifier: Apache-2.0
#include "sharding/pieces.h"

#include <algorithm>
#include <unordered_map>

#include "base/check.h"
#include "base/strings.h"
#include "sharding/gspmd_state.h"
#include "sharding/named_state.h"
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

std::int64_t Pieces::num_tiles() const {
  if (!grid) return static_cast<std::int64_t>(listed.size());
  std::int64_t n = 1;
  for (auto p : parts) n *= p;
  return n;
}

std::int64_t Pieces::part(std::int64_t position, std::size_t dim) const {
  if (by_digits) {
    std::int64_t p = 0;
    for (const Digit& d : digits[dim]) p = p * d.size + position / d.stride % d.size;
    return p;
  }
  std::int64_t t = tile_list[static_cast<std::size_t>(position)];
  for (std::size_t d = parts.size() - 1; d > dim; --d) t /= parts[d];
  return t % parts[dim];
}

std::int64_t Pieces::tile(std::int64_t position) const {
  if (!by_digits) return tile_list[static_cast<std::size_t>(position)];
  std::int64_t t = 0;
  for (std::size_t d = 0; d < parts.size(); ++d) t = t * parts[d] + part(position, d);
  return t;
}

Slice Pieces::slice(std::size_t dim, std::int64_t part) const {
  if (parts[dim] == 1) return {};
  std::int64_t start = std::min(part * shard[dim], global[dim]);
  return {start, std::min(start + shard[dim], global[dim])};
}

Index Pieces::index_at(std::int64_t position) const {
  Index out;
  read_index(position, out);
  return out;
}

void Pieces::read_index(std::int64_t position, Index& to) const {
  if (!grid) {
    to = listed[static_cast<std::size_t>(tile_list[static_cast<std::size_t>(position)])];
    return;
  }
  to.resize(parts.size());
  for (std::size_t d = 0; d < parts.size(); ++d) to[d] = slice(d, part(position, d));
}

Index Pieces::tile_index(std::int64_t tile) const {
  if (!grid) return listed[static_cast<std::size_t>(tile)];
  Index out(parts.size());
  for (std::size_t d = parts.size(); d-- > 0;) {
    out[d] = slice(d, tile % parts[d]);
    tile /= parts[d];
  }
  return out;
}

Shape Pieces::tile_shape(std::int64_t tile) const {
  Index index = tile_index(tile);
  Shape out;
  for (std::size_t d = 0; d < index.size(); ++d) {
    auto [start, stop] = index[d].resolve(global[d]);
    out.push_back(stop - start);
  }
  return out;
}

std::int64_t Pieces::distinct_parts(std::size_t dim) const {
  if (parts[dim] == 1 || shard[dim] == 0) return 1;
  std::int64_t filled = (global[dim] + shard[dim] - 1) / shard[dim];
  return std::min(parts[dim], filled + 1);
}

bool Pieces::replicas_by_digits() const {
  if (!grid || !by_digits) return false;
  for (std::size_t d = 0; d < parts.size(); ++d) {
    if (distinct_parts(d) != parts[d]) return false;
  }
  return true;
}

std::int32_t Pieces::replica_at(std::int64_t position) const {
  // Devices with equal pieces differ in the unused digits alone, and these grow with the position.
  std::int64_t r = 0;
  for (const Digit& d : unused) r = r * d.size + position / d.stride % d.size;
  return static_cast<std::int32_t>(r);
}

std::vector<std::int32_t> Pieces::count_replicas() const {
  auto n = static_cast<std::size_t>(num_devices);
  std::vector<std::int32_t> out(n);
  if (replicas_by_digits()) {
    for (std::size_t p = 0; p < n; ++p) out[p] = replica_at(static_cast<std::int64_t>(p));
    return out;
  }
  std::vector<std::int32_t> seen(static_cast<std::size_t>(num_tiles()));
  for (std::size_t p = 0; p < n; ++p) {
    std::int64_t t = grid ? 0 : tile_list[p];
    for (std::size_t d = 0; grid && d < parts.size(); ++d) {
      std::int64_t k = std::min(part(static_cast<std::int64_t>(p), d), distinct_parts(d) - 1);
      t = t * parts[d] + k;
    }
    out[p] = seen[static_cast<std::size_t>(t)]++;
  }
  return out;
}

namespace {

// The digits of all axes that split no dimension, slowest first.
std::vector<Digit> unused_digits(const MeshTiling& t) {
  auto strides = axis_strides(t.axis_sizes);
  std::vector<bool> used(t.axis_sizes.size());
  for (const auto& axes : t.dim_axes) {
    for (int a : axes) used[static_cast<std::size_t>(a)] = true;
  }
  std::vector<Digit> out;
  for (std::size_t a = 0; a < used.size(); ++a) {
    if (!used[a]) out.push_back({t.axis_sizes[a], strides[a]});
  }
  return canonical(std::move(out));
}

std::shared_ptr<Pieces> from_tile_list(const GspmdSharding& g, const Shape& global_shape) {
  auto p = std::make_shared<Pieces>();
  p->parts = tiled_dims(g.tiles(), rank(global_shape));
  p->by_digits = false;
  auto order = g.tiles().to_list();
  std::int64_t tiles = p->num_tiles();
  std::int64_t replicas = static_cast<std::int64_t>(order.size()) / tiles;
  p->tile_list.resize(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    p->tile_list[static_cast<std::size_t>(order[i])] =
        static_cast<std::int32_t>(static_cast<std::int64_t>(i) / replicas);
  }
  return p;
}

}  // namespace

std::shared_ptr<const Pieces> make_pieces(const Sharding& s, const Shape& global_shape) {
  Shape shard = s.shard_shape(global_shape);
  std::shared_ptr<Pieces> p;
  if (auto t = mesh_tiling(s, rank(global_shape))) {
    p = std::make_shared<Pieces>();
    p->parts.reserve(t->dim_axes.size());
    for (std::size_t d = 0; d < t->dim_axes.size(); ++d) p->parts.push_back(t->parts(d));
    p->digits = dim_digits(*t);
    if (p->num_tiles() != s.num_devices()) p->unused = unused_digits(*t);
  } else if (const auto* g = dynamic_cast<const GspmdSharding*>(&s)) {
    p = from_tile_list(*g, global_shape);
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
    return make_listed_pieces(std::move(*listed), global_shape);
  }
  p->global = global_shape;
  p->shard = std::move(shard);
  p->num_devices = s.num_devices();
  return p;
}

std::shared_ptr<const Pieces> make_listed_pieces(std::vector<Index> indices, const Shape& global_shape) {
  auto p = std::make_shared<Pieces>();
  p->grid = p->by_digits = false;
  p->global = global_shape;
  p->num_devices = static_cast<std::int64_t>(indices.size());
  std::unordered_map<Index, std::int32_t> tiles;
  for (auto& index : indices) {
    if (index.size() != global_shape.size()) {
      throw StateError(str("devices_indices_map: index ", index, " has ", index.size(), " slices; expected ",
                           global_shape.size(), ", the rank of global_shape ", global_shape));
    }
    Shape shape;
    for (std::size_t d = 0; d < index.size(); ++d) {
      auto [start, stop] = index[d].resolve(global_shape[d]);
      shape.push_back(stop - start);
    }
    auto [it, fresh] = tiles.emplace(index, static_cast<std::int32_t>(p->listed.size()));
    p->tile_list.push_back(it->second);
    if (!fresh) continue;
    if (p->shard.empty()) p->shard = shape;
    for (std::size_t d = 0; d < shape.size(); ++d) p->shard[d] = std::max(p->shard[d], shape[d]);
    p->listed.push_back(std::move(index));
  }
  return p;
}

}  // namespace tessera::sharding
