// SPDX-License-Identifier: Apache-2.0
#include "runtime/shard_set.h"

#include "runtime/positions.h"

namespace tessera::runtime {

PortLayouts port_layouts(const ir::Graph& partitioned) {
  PortLayouts out;
  for (auto v : partitioned.inputs) out.in.push_back(partitioned.layout(v));
  for (auto v : partitioned.outputs) out.out.push_back(partitioned.layout(v));
  return out;
}

std::vector<std::int64_t> position_strides(const ir::MeshAxes& mesh) {
  std::vector<std::int64_t> strides(mesh.sizes.size());
  std::int64_t n = 1;
  for (std::size_t a = strides.size(); a-- > 0;) {
    strides[a] = n;
    n *= mesh.sizes[a];
  }
  return strides;
}

ShardStrides shard_strides(const ir::Layout& layout, const ir::MeshAxes& mesh) {
  ShardStrides out;
  out.of_axis.resize(mesh.sizes.size());
  out.of_dim.resize(layout.dims.size());
  // Built from the fastest axis to the slowest.
  for (std::size_t d = layout.dims.size(); d-- > 0;) {
    out.of_dim[d] = out.count;
    for (std::size_t i = layout.dims[d].size(); i-- > 0;) {
      auto a = layout.dims[d][i];
      out.of_axis[a] = out.count;
      out.count *= mesh.sizes[a];
    }
  }
  for (auto mask : {layout.partial, layout.vary}) {
    for (std::size_t a = mesh.sizes.size(); a-- > 0;) {
      if (!(mask >> a & 1)) continue;
      out.of_axis[a] = out.count;
      out.count *= mesh.sizes[a];
    }
  }
  return out;
}

ShardNumbering shard_numbering(const ir::Layout& layout, const ir::MeshAxes& mesh) {
  ShardStrides strides = shard_strides(layout, mesh);
  auto positions = static_cast<std::size_t>(mesh.num_positions());
  ShardNumbering map;
  map.count = strides.count;
  map.of_position.assign(positions, 0);
  map.first_position.assign(static_cast<std::size_t>(map.count), -1);
  // An odometer over the mesh coordinates keeps the shard number up to date.
  std::vector<std::int64_t> coordinate(mesh.sizes.size());
  std::int64_t shard = 0;
  for (std::size_t p = 0; p < positions; ++p) {
    map.of_position[p] = static_cast<std::int32_t>(shard);
    auto& first = map.first_position[static_cast<std::size_t>(shard)];
    if (first < 0) first = static_cast<std::int32_t>(p);
    for (std::size_t a = coordinate.size(); a-- > 0;) {
      shard += strides.of_axis[a];
      if (++coordinate[a] < mesh.sizes[a]) break;
      shard -= strides.of_axis[a] * mesh.sizes[a];
      coordinate[a] = 0;
    }
  }
  return map;
}

Tile tile_at(const Shape& global, const ir::Layout& layout, const ir::MeshAxes& mesh, std::int64_t p) {
  auto strides = position_strides(mesh);
  Tile tile;
  tile.offset.reserve(global.size());
  tile.shape.reserve(global.size());
  for (std::size_t d = 0; d < global.size(); ++d) {
    std::int64_t part = 0;
    std::int64_t count = 1;
    for (auto a : layout.dims[d]) {
      part = part * mesh.sizes[a] + p / strides[a] % mesh.sizes[a];
      count *= mesh.sizes[a];
    }
    auto [begin, end] = ir::part_range(global[d], count, part);
    tile.offset.push_back(begin);
    tile.shape.push_back(end - begin);
  }
  return tile;
}

}  // namespace tessera::runtime
