// SPDX-License-Identifier: Apache-2.0
#include "ops/collective/transfer_bytes.h"

#include <algorithm>
#include <map>

#include "ir/axis_sets.h"
#include "ir/type_sharding.h"
#include "ops/collective/manual.h"
#include "ops/control/subgraph_structure.h"
#include "ops/shared_attrs.h"

namespace tessera::ops {

namespace {
using ir::AxisList;
using ir::AxisMask;
// Sizes beyond any memory only have to stay too large: the allocation refuses them.
std::int64_t times(std::int64_t bytes, std::int64_t count) {
  constexpr std::int64_t kTooLarge = std::int64_t{1} << 50;  // leaves room for sums
  std::int64_t product = 0;
  return __builtin_mul_overflow(bytes, count, &product) ? kTooLarge : std::min(product, kTooLarge);
}

ir::Types types_of(const ir::Graph& g, const std::vector<ir::ValueId>& values) {
  ir::Types out;
  for (auto v : values) out.push_back(g.type(v));
  return out;
}
}  // namespace

bool nested(std::int64_t extent, const ir::AxisList& coarse, const ir::AxisList& fine, const ir::MeshAxes& mesh) {
  bool even = extent % ir::parts(fine, mesh) == 0;
  return ir::is_prefix(coarse, fine) && (coarse.empty() || coarse.size() == fine.size() || even);
}

namespace {
// Fewest elements of one dimension that a position with a full new tile has already.
std::int64_t least_overlap(std::int64_t extent, const ir::AxisList& from, const ir::AxisList& to,
                           const ir::MeshAxes& mesh) {
  std::int64_t n = ir::parts(from, mesh);
  std::int64_t m = ir::parts(to, mesh);
  auto chunk = [&](std::int64_t count) { return (extent + count - 1) / count; };
  if (from == to || nested(extent, from, to, mesh)) return chunk(m);
  if (nested(extent, to, from, mesh)) {
    auto [begin, end] = ir::part_range(extent, n, n - 1);
    return end - begin;
  }
  if (!ir::is_prefix(from, to) && !ir::is_prefix(to, from)) return 0;
  std::int64_t least = extent;
  for (std::int64_t i = 0; i < std::max(n, m); ++i) {
    auto a = ir::part_range(extent, n, n < m ? i / (m / n) : i);
    auto b = ir::part_range(extent, m, n < m ? i : i / (n / m));
    least = std::min(least, std::max<std::int64_t>(0, std::min(a.second, b.second) - std::max(a.first, b.first)));
  }
  return least;
}

std::pair<std::int64_t, std::int64_t> part_at(std::int64_t extent, const ir::AxisList& axes, const ir::MeshAxes& mesh,
                                              const Dims& coordinates) {
  std::int64_t tile = 0;
  for (auto a : axes) tile = tile * mesh.sizes[a] + coordinates[a];
  return ir::part_range(extent, ir::parts(axes, mesh), tile);
}

// Elements of operand k that the position needs and does not have.
std::int64_t missing(const Halo& h, std::size_t k, const Shape& shape, const Shape& result, const ir::Layout& from,
                     const ir::Layout& to, const ir::MeshAxes& mesh, const Dims& c) {
  std::size_t lead = h.windows > 0 ? 1 : 0;
  auto [first, last] = lead ? part_at(h.windows, to.dims[0], mesh, c) : std::pair<std::int64_t, std::int64_t>{0, 1};
  std::int64_t sum = 0;
  for (std::int64_t w = first; w < last; ++w) {
    std::int64_t need = 1;
    std::int64_t have = 1;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      auto [begin, end] = part_at(result[d + lead], to.dims[d + lead], mesh, c);
      auto [mine, mine_end] = part_at(shape[d], from.dims[d], mesh, c);
      need *= halo_line(h, k, d, w, begin, end, 0, shape[d]).count;
      have *= halo_line(h, k, d, w, begin, end, mine, mine_end).count;
    }
    sum += need - have;
  }
  return sum;
}

// The same of several results, of which each shard sends boxes that hold what all of them need.
std::int64_t missing_of_all(const Halo& h, std::size_t k, const Shape& shape, const Shape& result,
                            const ir::Layout& from, const ir::Layout& to, const ir::MeshAxes& mesh, const Dims& c) {
  std::size_t rank = shape.size();
  Dims own(rank), chunk(rank);
  for (std::size_t d = 0; d < rank; ++d) {
    for (auto a : from.dims[d]) own[d] = own[d] * mesh.sizes[a] + c[a];
    std::int64_t parts = ir::parts(from.dims[d], mesh);
    chunk[d] = (shape[d] + parts - 1) / parts;
  }
  std::map<Dims, std::vector<HaloBox>> boxes;  // by shard of the operand
  for (std::size_t r = 0; r < static_cast<std::size_t>(h.results); ++r) {
    HaloBox need{Dims(rank), Shape(rank)};
    for (std::size_t d = 0; d < rank; ++d) {
      auto [begin, end] = part_at(result[d], to.dims[d], mesh, c);
      HaloLine line = halo_line(h, r * h.operands() + k, d, 0, begin, end, 0, shape[d]);
      need.low[d] = line.element;
      need.extent[d] = line.count;
    }
    if (need.size() == 0) continue;
    Dims first(rank), last(rank);
    for (std::size_t d = 0; d < rank; ++d) {
      first[d] = need.low[d] / chunk[d];
      last[d] = (need.low[d] + need.extent[d] - 1) / chunk[d];
    }
    for (Dims tile = first;;) {
      HaloBox part = need;
      for (std::size_t d = 0; d < rank; ++d) {
        part.low[d] = std::max(need.low[d], tile[d] * chunk[d]);
        part.extent[d] = std::min(need.low[d] + need.extent[d], (tile[d] + 1) * chunk[d]) - part.low[d];
      }
      if (tile != own) add_box(boxes[tile], std::move(part));
      std::size_t d = rank;
      while (d > 0 && ++tile[d - 1] > last[d - 1]) {
        tile[d - 1] = first[d - 1];
        --d;
      }
      if (d == 0) break;
    }
  }
  std::int64_t sum = 0;
  for (const auto& [tile, list] : boxes) {
    for (const HaloBox& box : list) sum += box.size();
  }
  return sum;
}
}  // namespace

std::int64_t local_bytes(const ir::Type& type, const ir::Layout& layout, const ir::MeshAxes& mesh) {
  std::int64_t n = dtype_size(type.dtype);
  for (std::size_t d = 0; d < type.shape.size(); ++d) {
    std::int64_t count = ir::parts(layout.dims[d], mesh);
    n = times(n, (type.shape[d] + count - 1) / count);
  }
  return n;
}

std::int64_t received(const ir::Type& type, const ir::Layout& from, const ir::Layout& to, const ir::MeshAxes& mesh) {
  AxisMask done = from.partial & ~to.partial;
  std::int64_t mine = local_bytes(type, to, mesh);
  if (done != 0) {
    std::int64_t n = ir::axes_size(done, mesh);
    if (done & to.tiled()) return times(mine, n - 1);
    return 2 * mine - 2 * mine / n;  // a scatter, then a gather
  }
  std::int64_t kept = dtype_size(type.dtype);
  for (std::size_t d = 0; d < type.shape.size(); ++d) {
    kept = times(kept, least_overlap(type.shape[d], from.dims[d], to.dims[d], mesh));
  }
  return std::max<std::int64_t>(0, mine - kept);
}

std::int64_t halo_received(const Halo& h, ir::TypeSpan in, const ir::Type& out, const std::vector<ir::Layout>& from,
                           const ir::Layout& to, const ir::MeshAxes& mesh) {
  AxisMask matter = to.tiled();
  for (std::size_t k = 0; k < h.operands(); ++k) matter |= from[k].tiled();
  auto one = h.results > 1 ? missing_of_all : missing;
  std::int64_t most = 0;
  Dims c(mesh.sizes.size());
  for (;;) {
    std::int64_t sum = 0;
    for (std::size_t k = 0; k < h.operands(); ++k) {
      sum += one(h, k, in[k].shape, out.shape, from[k], to, mesh, c);
    }
    most = std::max(most, sum);
    std::size_t a = 0;
    for (; a < c.size(); ++a) {  // positions that differ in other axes need the same
      if (!(matter & ir::bit(a))) continue;
      if (++c[a] < mesh.sizes[a]) break;
      c[a] = 0;
    }
    if (a == c.size()) break;
  }
  return most * dtype_size(out.dtype);
}

std::int64_t received(const ir::Graph& g, const ir::Eqn& e) {
  if (e.op == &def::halo) {
    std::vector<ir::Layout> from;
    for (auto v : e.in) from.push_back(g.layout(v));
    return halo_received(ir::get<Halo>(e.attrs), types_of(g, e.in), g.type(e.out[0]), from, g.layout(e.out[0]),
                         *g.mesh);
  }
  if (e.op == &def::reinterpret) {
    bool moves = !ir::get<Reinterpret>(e.attrs).source.empty();
    return moves ? local_bytes(g.type(e.in[0]), g.layout(e.in[0]), *g.mesh) : 0;
  }
  if (e.op == &def::group_exchange) {
    const auto& p = ir::get<GroupExchange>(e.attrs);
    auto members = static_cast<std::int64_t>(p.groups.front().size());
    std::int64_t all = local_bytes(g.type(e.in[0]), g.layout(e.in[0]), *g.mesh) * (members - 1);
    if (p.kind != GroupExchange::Kind::Ragged) return all;
    // How many rows come is known when they do: no more than the result holds. Their numbers go to all members.
    std::int64_t numbers = 0;
    for (std::size_t i = 2; i < 5; ++i) {
      numbers += local_bytes(g.type(e.in[i]), g.layout(e.in[i]), *g.mesh) * (members - 1);
    }
    return std::min(all, local_bytes(g.type(e.out[0]), g.layout(e.out[0]), *g.mesh)) + numbers;
  }
  if (e.op != &def::reshard || ir::get<Reshard>(e.attrs).kind == Reshard::Kind::Slice) return 0;
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < e.in.size(); ++i) {
    sum += received(g.type(e.in[i]), g.layout(e.in[i]), g.layout(e.out[i]), *g.mesh);
  }
  return sum;
}

namespace {
Dims halo_axes(const ir::Graph& g, const ir::Eqn& e) {
  const auto& h = ir::get<Halo>(e.attrs);
  const ir::Layout& to = g.layout(e.out[0]);
  const std::size_t lead = h.windows > 0 ? 1 : 0;
  AxisMask moved = 0;
  for (std::size_t k = 0; k < h.starts.size(); ++k) {
    const auto& have = g.layout(e.in[k % h.operands()]).dims;
    for (std::size_t d = 0; d < have.size(); ++d) {
      bool still = h.strides[d] == 1 && h.spacing[d] == 1 && h.starts[k][d] == 0 && have[d] == to.dims[d + lead];
      if (!still) moved |= ir::mask_of(have[d]);
    }
  }
  const AxisList axes = ir::axes_of(moved);
  return {axes.begin(), axes.end()};
}
}  // namespace

Dims exchange_axes(const ir::Graph& g, const ir::Eqn& e) {
  if (e.op == &def::halo) return halo_axes(g, e);
  if (const auto* p = ir::get_if<Reinterpret>(e.attrs)) return p->source.empty() ? Dims() : p->axes;
  if (const auto* p = ir::get_if<GroupExchange>(e.attrs)) return p->axes;
  if (const auto* p = ir::get_if<Reshard>(e.attrs)) return p->kind == Reshard::Kind::Slice ? Dims() : p->axes;
  return {};
}

}  // namespace tessera::ops
