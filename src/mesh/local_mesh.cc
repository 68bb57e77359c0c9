// SPDX-License-Identifier: Apache-2.0
// The part of a mesh that one process owns.
#include <algorithm>

#include "base/hash.h"
#include "base/strings.h"
#include "mesh/local_mesh_cache.h"
#include "mesh/mesh_state.h"
#include "tessera/error.h"

namespace tessera {

namespace mesh {

namespace {

struct Key {
  Mesh mesh;
  int process;
  bool operator==(const Key&) const = default;
};
struct KeyHash {
  std::size_t operator()(const Key& k) const {
    return base::hash_mix(k.mesh.hash(), static_cast<std::size_t>(k.process));
  }
};
using Cache = base::LruCache<Key, Mesh, KeyHash>;
Cache& cache() {
  static auto* c = new Cache(128);
  return *c;
}

struct Box {
  Dims low;
  Dims high;  // inclusive
};

// Coordinates of a flat position.
Dims unravel(std::int64_t position, const Shape& shape) {
  Dims at(shape.size());
  for (std::size_t i = shape.size(); i-- > 0;) {
    at[i] = position % shape[i];
    position /= shape[i];
  }
  return at;
}

Box bounding_box(const Mesh& m, int process) {
  const auto& shape = m.mesh_shape();
  Box box{shape, Dims(shape.size(), -1)};
  bool found = false;
  auto devices = m.devices_flat();
  for (std::size_t p = 0; p < devices.size(); ++p) {
    if (devices[p].process_index() != process) continue;
    found = true;
    Dims at = unravel(static_cast<std::int64_t>(p), shape);
    for (std::size_t i = 0; i < at.size(); ++i) {
      box.low[i] = std::min(box.low[i], at[i]);
      box.high[i] = std::max(box.high[i], at[i]);
    }
  }
  if (!found) {
    throw ValueError(str("local_mesh: process ", process, " owns no device of this mesh, ", m));
  }
  return box;
}

}  // namespace

Mesh compute_local_mesh(const Mesh& m, int process) {
  Box box = bounding_box(m, process);
  Shape shape;
  for (std::size_t i = 0; i < box.low.size(); ++i) shape.push_back(box.high[i] - box.low[i] + 1);
  std::vector<Device> devices;
  auto all = m.devices_flat();
  std::int64_t count = size_of(shape);
  for (std::int64_t p = 0; p < count; ++p) {
    Dims at = unravel(p, shape);
    std::int64_t source = 0;
    for (std::size_t i = 0; i < at.size(); ++i) {
      at[i] += box.low[i];
      source = source * m.mesh_shape()[i] + at[i];
    }
    const Device& d = all[static_cast<std::size_t>(source)];
    if (d.process_index() != process) {
      throw ValueError(str("local_mesh: devices of process ", process,
                           " must form a contiguous sub-block of the mesh; in ", m, " position ", base::list_text(at),
                           " inside their block holds ", d, " of process ", d.process_index()));
    }
    devices.push_back(d);
  }
  return MeshState::intern(intern_device_list(std::move(devices), "local_mesh", "devices"),
                           AbstractMeshState::make({m.axis_names().begin(), m.axis_names().end()}, std::move(shape),
                                                   m.has_names(), {m.axis_types().begin(), m.axis_types().end()}));
}

base::LruStats local_mesh_cache_stats() { return cache().stats(); }
void clear_local_mesh_cache() { cache().clear(); }

}  // namespace mesh

Mesh Mesh::local_mesh(const Loc&) const {
  if (empty()) return *this;
  return local_mesh(state_->list->client.process_index());
}

Mesh Mesh::local_mesh(int process_index, const Loc&) const {
  if (empty()) return *this;
  return mesh::cache().get({*this, process_index},
                           [&] { return std::pair(mesh::compute_local_mesh(*this, process_index), std::int64_t{1}); });
}

}  // namespace tessera
