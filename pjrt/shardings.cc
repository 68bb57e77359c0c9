// SPDX-License-Identifier: Apache-2.0
// Shardings as callers read them: XLA's, over a program's logical devices.
#include "hlo/sharding/hlo_sharding.h"
#include "objects.h"
#include "ops/shape/sharding_groups.h"
#include "python_api.h"
#include "sharding/placement.h"
#include "tessera/sharding.h"

namespace tessera::pjrt {

namespace {

using Port = Executable::Port;
using Last = hlo::HloSharding::Last;

// A value over a mesh: by dimension the axes that split it, and those over which it is a sum.
struct Split {
  ir::DimAxes dims;
  ir::AxisList addends;
};

Split split_of(const NamedSharding& s, std::size_t rank) {
  Split out;
  out.dims.resize(rank);
  for (std::size_t d = 0; d < std::min(rank, s.spec().size()); ++d) {
    for (auto a : s.dim_axes(d)) out.dims[d].push_back(static_cast<std::uint8_t>(a));
  }
  for (auto a : s.unreduced_axes()) out.addends.push_back(static_cast<std::uint8_t>(a));
  return out;
}

// Tiles of blocks, then of addends, then of replicas.
TileAssignment tiles_of(const Split& split, const Dims& sizes, std::vector<Last>& last) {
  Dims dims, permutation;
  std::vector<bool> used(sizes.size());
  auto take = [&](std::size_t a) {
    used[a] = true;
    permutation.push_back(static_cast<std::int64_t>(a));
    return sizes[a];
  };
  for (const auto& axes : split.dims) {
    dims.push_back(1);
    for (auto a : axes) dims.back() *= take(a);
  }
  if (!split.addends.empty()) {
    dims.push_back(1);
    for (auto a : split.addends) dims.back() *= take(a);
    last.push_back(Last::Unreduced);
  }
  std::int64_t rest = 1;
  for (std::size_t a = 0; a < sizes.size(); ++a) {
    if (!used[a]) rest *= take(a);
  }
  if (rest > 1) {
    dims.push_back(rest);
    last.push_back(Last::Replicated);
  }
  return TileAssignment(dims, Dims(sizes.begin(), sizes.end()), permutation);
}

// `position`: by logical id, the place among the tiles' devices.
std::string serialized(hlo::HloSharding s, TileAssignment tiles, const std::vector<std::int32_t>& position) {
  bool in_order = true;
  std::vector<std::int64_t> logical(position.size());
  for (std::size_t k = 0; k < position.size(); ++k) {
    logical[static_cast<std::size_t>(position[k])] = static_cast<std::int64_t>(k);
    in_order = in_order && position[k] == static_cast<std::int32_t>(k);
  }
  s.kind = hlo::HloSharding::Kind::Tiled;
  if (tiles.replicate_last()) s.last.push_back(Last::Replicated);
  if (!in_order) {
    std::vector<std::int64_t> list = tiles.to_list();
    for (auto& p : list) p = logical[static_cast<std::size_t>(p)];
    tiles = TileAssignment::from_list(tiles.dims(), std::move(list), tiles.replicate_last());
  }
  s.tiles = std::move(tiles);
  return hlo::serialized(s);
}

// Every equation that asks for its operand's sharding.
template <class F>
void each_inspected(const ir::Graph& g, const F& f) {
  for (const auto& e : g.eqns) {
    if (const auto* p = ir::get_if<ops::InspectSharding>(e.attrs)) f(p->number, g.layout(e.in[0]));
    for (const auto& body : e.op->subgraphs(e.attrs)) each_inspected(*body, f);
  }
}

}  // namespace

std::string op_sharding(const Port* p) {
  hlo::HloSharding s;
  if (p == nullptr) return hlo::serialized(s);
  std::optional<TileAssignment> tiles;
  const auto* named = dynamic_cast<const NamedSharding*>(p->sharding.get());
  if (named != nullptr && p->placement->addends > 1) {
    const auto rank = static_cast<std::size_t>(p->type.rank());
    tiles = tiles_of(split_of(*named, rank), named->mesh().abstract_mesh().axis_sizes(), s.last);
  } else if (named != nullptr) {
    tiles = named->to_tiles(p->type.rank());
  } else if (const auto* gspmd = dynamic_cast<const GspmdSharding*>(p->sharding.get())) {
    tiles = gspmd->tiles();
  }
  if (!tiles || !tiles->is_tiled()) return hlo::serialized(s);
  return serialized(std::move(s), std::move(*tiles), p->position);
}

void report_shardings(const Executable& exe) {
  auto* call = sharding_callback();
  const ir::Graph& g = *exe.compiled->lowered->partitioned();
  if (call == nullptr || !g.mesh) return;
  std::vector<std::int32_t> position;
  for (const auto* d : exe.devices) position.push_back(exe.placed->devices().position(d->device));
  each_inspected(g, [&](std::int64_t number, const ir::Layout& layout) {
    hlo::HloSharding s;
    std::string bytes = hlo::serialized(s);
    Split split{layout.dims, {}};
    for (std::uint8_t a = 0; a < g.mesh->sizes.size(); ++a) {
      if (layout.partial >> a & 1) split.addends.push_back(a);
    }
    if (layout.tiled() != 0 || layout.partial != 0) {
      auto tiles = tiles_of(split, Dims(g.mesh->sizes.begin(), g.mesh->sizes.end()), s.last);
      bytes = serialized(std::move(s), std::move(tiles), position);
    }
    std::string error(4096, '\0');
    if (call(number, bytes.data(), bytes.size(), error.data(), static_cast<std::int32_t>(error.size())) != 0) {
      throw StateError(str(exe.name, ": inspect_array_sharding: ", error.c_str()));
    }
  });
}

}  // namespace tessera::pjrt
