// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/context.h"

#include <algorithm>

#include "base/hash.h"

namespace tessera::cpu {

bool Owners::distributed() const {
  return std::any_of(process_of.begin(), process_of.end(), [&](std::int32_t p) { return p != self; });
}

Context::Context(ir::MeshAxesPtr mesh, Owners owners, std::shared_ptr<runtime::MemoryPool> memory, bool plain)
    : mesh_(std::move(mesh)),
      owners_(std::move(owners)),
      memory_(std::move(memory)),
      distributed_(owners_.distributed()),
      plain_(plain),
      strides_(runtime::position_strides(*mesh_)) {}

namespace {
std::size_t hash_of(const ir::Layout& l) {
  std::size_t h = base::hash_mix(base::hash_mix(l.partial, l.vary), static_cast<std::size_t>(l.reduction));
  for (const auto& d : l.dims) h = base::hash_range(h, d);
  return h;
}
}  // namespace

const std::shared_ptr<const LayoutTable>& Context::table(const ir::Layout& layout) {
  auto& bucket = tables_[hash_of(layout)];
  for (const auto& t : bucket) {
    if (t->layout == layout) return t;
  }
  auto t = std::make_shared<LayoutTable>();
  t->layout = layout;
  t->strides = runtime::shard_strides(layout, *mesh_);
  t->map = runtime::shard_numbering(layout, *mesh_);
  t->first_local.assign(at(t->map.count), -1);
  if (distributed_) t->holders.resize(at(t->map.count));
  for (std::size_t p = 0; p < t->map.of_position.size(); ++p) {
    auto shard = static_cast<std::size_t>(t->map.of_position[p]);
    auto process = owners_.process_of[p];
    if (process == owners_.self && t->first_local[shard] < 0) t->first_local[shard] = static_cast<std::int32_t>(p);
    if (!distributed_) continue;
    auto& holders = t->holders[shard];
    auto where = std::lower_bound(holders.begin(), holders.end(), process);
    if (where == holders.end() || *where != process) holders.insert(where, process);
  }
  bucket.push_back(std::move(t));
  return bucket.back();
}

const std::shared_ptr<const LayoutTable>& Context::combinations(ir::AxisMask mask) {
  ir::Layout l;
  l.vary = mask;
  return table(l);
}

bool even(const Shape& global, const ir::Layout& layout, const ir::MeshAxes& mesh) {
  for (std::size_t d = 0; d < global.size(); ++d) {
    if (global[d] % ir::parts(layout.dims[d], mesh) != 0) return false;
  }
  return true;
}

ir::Type local_type(const ir::Type& global, const ir::Layout& layout, const ir::MeshAxes& mesh, std::int64_t position) {
  return ir::Type{global.dtype, runtime::tile_at(global.shape, layout, mesh, position).shape, global.weak};
}

}  // namespace tessera::cpu
