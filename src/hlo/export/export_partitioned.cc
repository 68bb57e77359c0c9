// SPDX-License-Identifier: Apache-2.0
// Partitioned graphs: every equation on the shards of one position, reshards as collectives between positions.
#include <algorithm>
#include <map>

#include "base/check.h"
#include "base/strings.h"
#include "hlo/export/collective_text.h"
#include "hlo/export/partitioned.h"
#include "ir/axis_sets.h"
#include "ir/op_def.h"
#include "ir/type_sharding.h"
#include "ops/collective/manual.h"
#include "ops/ops.h"
#include "ops/shape/sharding_groups.h"
#include "ops/shared_attrs.h"
#include "tessera/error.h"

namespace tessera::hlo {

namespace {
namespace def = ops::def;
using ir::axes_of;
using ir::AxisList;
using ir::common_prefix;
using ir::Eqn;
using ir::is_prefix;
using ir::Layout;
using ir::mask_of;
using ir::Type;
using ir::Types;

ManualText all_manual(const ir::MeshAxes& mesh) {
  return {mesh.names, Dims(mesh.sizes.begin(), mesh.sizes.end()), std::vector<bool>(mesh.sizes.size(), true)};
}
AxisList behind(const AxisList& list, std::size_t n) { return {list.begin() + std::min(n, list.size()), list.end()}; }

Type shard_type(const ir::Graph& g, ir::ValueId v) {
  const Type& t = g.type(v);
  const Layout& l = g.layout(v);
  for (std::size_t d = 0; d < l.dims.size(); ++d) {
    if (t.shape[d] % ir::parts(l.dims[d], *g.mesh) != 0) {
      throw UnimplementedError(str("StableHLO text of one device: dimension ", d, " of a value of shape ", t.shape,
                                   " is cut in ", ir::parts(l.dims[d], *g.mesh),
                                   " shards that differ in size; use extents that divide"));
    }
  }
  return {t.dtype, ir::tile_shape(t.shape, l, *g.mesh), false};
}

Dims coordinates_of(std::int64_t position, const ir::MeshAxes& mesh) {
  Dims out(mesh.sizes.size());
  for (std::size_t a = out.size(); a-- > 0;) {
    out[a] = position % mesh.sizes[a];
    position /= mesh.sizes[a];
  }
  return out;
}
// The tile that a position holds: its number along each dimension.
Dims tile_at(const Layout& layout, const ir::MeshAxes& mesh, std::int64_t position) {
  Dims coordinates = coordinates_of(position, mesh);
  Dims out(layout.dims.size());
  for (std::size_t d = 0; d < out.size(); ++d) {
    for (auto a : layout.dims[d]) out[d] = out[d] * mesh.sizes[a] + coordinates[a];
  }
  return out;
}
// First element of the shard that a position holds.
Dims offsets_at(const ir::Graph& g, ir::ValueId v, const Shape& shard, std::int64_t position) {
  Dims out = tile_at(g.layout(v), *g.mesh, position);
  for (std::size_t d = 0; d < out.size(); ++d) out[d] *= shard[d];
  return out;
}

// An equation's attributes as each position needs them; equal ones once.
struct Variants {
  std::vector<ir::Attrs> attrs;
  std::vector<std::int64_t> of_position;
};
Variants variants_of(const ir::Graph& g, const Eqn& e, const Types& in, const Types& out) {
  Variants v;
  std::int64_t n = g.mesh->num_positions();
  if (!e.op->remaps()) return {{e.attrs}, std::vector<std::int64_t>(static_cast<std::size_t>(n), 0)};
  Types whole_in, whole_out;
  for (auto x : e.in) whole_in.push_back(g.type(x));
  for (auto x : e.out) whole_out.push_back(g.type(x));
  for (std::int64_t p = 0; p < n; ++p) {
    std::vector<Dims> from, to;
    for (std::size_t i = 0; i < in.size(); ++i) from.push_back(offsets_at(g, e.in[i], in[i].shape, p));
    for (std::size_t i = 0; i < out.size(); ++i) to.push_back(offsets_at(g, e.out[i], out[i].shape, p));
    ir::Attrs a = e.op->remap({whole_in, whole_out, in, out, from, to}, e.attrs);
    auto same = std::find_if(v.attrs.begin(), v.attrs.end(), [&](const auto& b) { return ir::equal(a, b); });
    v.of_position.push_back(same - v.attrs.begin());
    if (same == v.attrs.end()) v.attrs.push_back(std::move(a));
  }
  return v;
}

// The entry of the position, i32[].
Text by_position(Writer& w, const std::vector<std::int64_t>& entries) {
  Text table = w.convert(w.constant(HostArray::from(entries)), DType::I32);
  Texts in{table, w.convert(position_number(w), DType::I32)};
  Type one{DType::I32, {1}, false};
  Text entry = w.line(str("stablehlo.dynamic_slice ", names_of(in), ", sizes = [1] : ", signature(in, {one})), one);
  return w.reshape(entry, {});
}

Texts on_shards(Writer& w, const ir::Graph& g, const Eqn& e, const Texts& in, const Types& out) {
  Types from;
  for (const auto& x : in) from.push_back(x.type);
  Variants v = variants_of(g, e, from, out);
  auto with = [&](const ir::Attrs& attrs) {
    Eqn local = e;
    local.attrs = attrs;
    return write_equation(w, local, in, out);
  };
  if (v.attrs.size() == 1) return with(v.attrs[0]);
  Text which = by_position(w, v.of_position);
  std::vector<std::string> branches;
  for (const auto& a : v.attrs) branches.push_back(w.region({}, [&](const Texts&) { return with(a); }));
  return w.generic("stablehlo.case", {which}, out, "", join(branches));
}

// --- what moves ------------------------------------------------------------------------------------------------------

// Every position's operand from the position that `source` names, or zeros where that is -1. What several positions
// want is sent in as many rounds.
Text sent(Writer& w, const Text& x, const Dims& source) {
  std::vector<std::int64_t> waiting;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] >= 0) waiting.push_back(static_cast<std::int64_t>(i));
  }
  Text sum;
  while (!waiting.empty() || sum.name.empty()) {
    std::vector<Dims> pairs;
    std::vector<std::int64_t> later, mine(source.size(), 0);
    for (auto to : waiting) {
      std::int64_t from = source[static_cast<std::size_t>(to)];
      if (std::ranges::any_of(pairs, [&](const Dims& pair) { return pair[0] == from; })) {
        later.push_back(to);
      } else {
        pairs.push_back({from, to});
        mine[static_cast<std::size_t>(to)] = 1;
      }
    }
    Text moved = write_permute(w, {x}, {x.type}, pairs)[0];
    if (sum.name.empty()) {
      sum = moved;
    } else {
      Text which = w.convert(by_position(w, mine), DType::Bool);
      sum = w.select(w.wide(which, x.type.shape), moved, sum);
    }
    waiting = std::move(later);
  }
  return sum;
}

// One step of a layout change, as `reshard` equations are: the partitioner chose its kind. Where StableHLO has no
// collective for an exchange, dimensions are gathered as far as they have to be, and cut again.
class Step {
 public:
  Step(Writer& w, const ir::MeshAxes& mesh, Text x, Layout from, const Layout& to)
      : w_(w), mesh_(mesh), x_(std::move(x)), at_(std::move(from)), to_(to) {
    if ((at_.vary & ~to_.vary & ~to_.partial) == 0) return;
    throw UnimplementedError(
        str("StableHLO text of one device: from ", ir::to_string(at_, mesh_), " to ", ir::to_string(to_, mesh_)));
  }

  Text write(ops::Reshard::Kind kind) {
    using Kind = ops::Reshard::Kind;
    ir::AxisMask done = at_.partial & ~to_.partial, made = to_.partial & ~at_.partial;
    if (kind == Kind::CollectivePermute) return sent(w_, x_, sources());
    if (kind == Kind::AllReduce) {
      x_ = write_all_reduce(w_, {x_}, {x_.type}, groups(axes_of(done)), at_.reduction)[0];
    } else {
      TESSERA_CHECK(done == 0 || done == (to_.tiled() & ~at_.tiled()),
                    "a sum is completed and its shards go elsewhere");
    }
    std::size_t rank = at_.dims.size();
    for (std::size_t n = 0; kind == Kind::AllToAll && n < rank * rank; ++n) exchange(n % rank);
    for (std::size_t d = 0; d < rank; ++d) {
      AxisList more = behind(at_.dims[d], common_prefix(at_.dims[d], to_.dims[d]));
      if (kind == Kind::ReduceScatter) scatter(d, behind(to_.dims[d], at_.dims[d].size()));
      if (!more.empty() && (mask_of(more) & ~made) == 0) {
        keep_tile(d, more);
        made &= ~mask_of(more);
      }
    }
    for (std::size_t d = 0; d < rank; ++d) gather(d, common_prefix(at_.dims[d], to_.dims[d]));
    for (std::size_t d = 0; d < rank; ++d) cut(d, behind(to_.dims[d], at_.dims[d].size()));
    if (made != 0) keep_first(axes_of(made));
    return x_;
  }

 private:
  std::vector<Dims> groups(const AxisList& axes) const {
    return position_groups(*w_.manual(), {axes.begin(), axes.end()});
  }
  Types resized(std::size_t d, std::int64_t extent) const {
    Type t = x_.type;
    t.shape[d] = extent;
    return {t};
  }
  std::int64_t extent(std::size_t d) const { return x_.type.shape[d]; }

  void scatter(std::size_t d, const AxisList& axes) {
    if (axes.empty()) return;
    if (at_.reduction != ir::Reduction::Sum ||
        is_bool(x_.type.dtype)) {  // reduced whole, as readers do it, and then cut
      x_ = write_all_reduce(w_, {x_}, {x_.type}, groups(axes_of(mask_of(axes))), at_.reduction)[0];
      return;
    }
    Types out = resized(d, extent(d) / ir::parts(axes, mesh_));
    x_ = write_reduce_scatter(w_, {x_}, out, groups(axes), d, at_.reduction)[0];
    at_.dims[d] = to_.dims[d];
  }
  // Axes from the end of one dimension's list to the end of another's.
  void exchange(std::size_t from) {
    if (!is_prefix(to_.dims[from], at_.dims[from])) return;
    AxisList axes = behind(at_.dims[from], to_.dims[from].size());
    for (std::size_t to = 0; to < at_.dims.size() && !axes.empty(); ++to) {
      if (!is_prefix(at_.dims[to], to_.dims[to])) continue;
      if (!is_prefix(axes, behind(to_.dims[to], at_.dims[to].size()))) continue;
      std::int64_t n = ir::parts(axes, mesh_);
      Types out = resized(from, extent(from) * n);
      out[0].shape[to] /= n;
      x_ = write_all_to_all(w_, {x_}, out, groups(axes), to, from)[0];
      at_.dims[from] = to_.dims[from];
      at_.dims[to].insert(at_.dims[to].end(), axes.begin(), axes.end());
      return;
    }
  }
  void gather(std::size_t d, std::size_t keep) {
    AxisList axes = behind(at_.dims[d], keep);
    if (axes.empty()) return;
    x_ = write_all_gather(w_, {x_}, resized(d, extent(d) * ir::parts(axes, mesh_)), groups(axes), d)[0];
    at_.dims[d].resize(keep);
  }
  // A position that holds what this one is to hold, for each: itself where it does, or else one that sends least.
  Dims sources() const {
    AxisList own = axes_of(at_.partial | at_.vary);
    auto held = [&](const Layout& layout, std::int64_t p) {
      Dims key = tile_at(layout, mesh_, p), coordinates = coordinates_of(p, mesh_);
      for (auto a : own) key.push_back(coordinates[a]);
      return key;
    };
    std::map<Dims, std::vector<std::pair<std::int64_t, std::int64_t>>> holders;  // how often each sends, and which
    Dims out(static_cast<std::size_t>(mesh_.num_positions()));
    for (std::int64_t p = 0; p < mesh_.num_positions(); ++p) {
      Dims has = held(at_, p);
      holders[has].emplace_back(has == held(to_, p) ? 1 : 0, p);
    }
    for (std::int64_t p = 0; p < mesh_.num_positions(); ++p) {
      Dims wanted = held(to_, p);
      std::int64_t& source = out[static_cast<std::size_t>(p)];
      source = p;
      if (wanted == held(at_, p)) continue;
      auto least = std::ranges::min_element(holders.at(wanted));
      source = least->second;
      ++least->first;
    }
    return out;
  }
  Text zeros(const Shape& shape) { return w_.wide(w_.constant(0, x_.type.dtype), shape); }
  // A sum over axes along which the value is whole: the first position has it.
  void keep_first(const AxisList& axes) {
    std::vector<std::int64_t> mine(static_cast<std::size_t>(mesh_.num_positions()), 0);
    for (const auto& group : groups(axes)) mine[static_cast<std::size_t>(group[0])] = 1;
    Text which = w_.convert(by_position(w_, mine), DType::Bool);
    x_ = w_.select(w_.wide(which, x_.type.shape), x_, zeros(x_.type.shape));
  }
  // Where the tile of each position begins among those that the axes cut along dimension d.
  Texts starts(std::size_t d, const AxisList& axes, std::int64_t tile) {
    std::vector<std::int64_t> of_position(static_cast<std::size_t>(mesh_.num_positions()));
    for (const auto& group : groups(axes)) {
      for (std::size_t k = 0; k < group.size(); ++k) {
        of_position[static_cast<std::size_t>(group[k])] = static_cast<std::int64_t>(k) * tile;
      }
    }
    Text start = by_position(w_, of_position);
    Texts out(x_.type.shape.size(), w_.constant(0, DType::I32));
    out[d] = start;
    return out;
  }
  // A sum over axes that cut a dimension last: each position has its own tile.
  void keep_tile(std::size_t d, const AxisList& axes) {
    Types out = resized(d, extent(d) * ir::parts(axes, mesh_));
    Texts in{zeros(out[0].shape), x_};
    for (auto& start : starts(d, axes, extent(d))) in.push_back(std::move(start));
    x_ = w_.line(str("stablehlo.dynamic_update_slice ", names_of(in), " : ", signature(in, out)), out)[0];
    at_.dims[d] = to_.dims[d];
  }
  void cut(std::size_t d, const AxisList& axes) {
    if (axes.empty()) return;
    Types out = resized(d, extent(d) / ir::parts(axes, mesh_));
    Texts in{x_};
    for (auto& start : starts(d, axes, out[0].shape[d])) in.push_back(std::move(start));
    x_ = w_.line(
        str("stablehlo.dynamic_slice ", names_of(in), ", sizes = [", join(out[0].shape), "] : ", signature(in, out)),
        out)[0];
  }

  Writer& w_;
  const ir::MeshAxes& mesh_;
  Text x_;
  Layout at_;
  const Layout& to_;
};

// Sums that are completed over the same axes and stay where they are: one exchange, and so one operation.
bool is_joined_sum(const ir::Graph& g, const Eqn& e) {
  if (e.in.size() < 2) return false;
  const Layout& first = g.layout(e.in[0]);
  const ir::AxisMask axes = first.partial & ~g.layout(e.out[0]).partial;
  for (std::size_t i = 0; i < e.in.size(); ++i) {
    const Layout &from = g.layout(e.in[i]), &to = g.layout(e.out[i]);
    const bool stays = from.dims == to.dims && (to.partial & ~from.partial) == 0 && (from.vary & ~to.vary) == 0;
    const bool alike = from.reduction == first.reduction && g.type(e.in[i]).dtype == g.type(e.in[0]).dtype;
    if (!stays || !alike || (from.partial & ~to.partial) != axes) return false;
  }
  return axes != 0;
}
Texts summed_together(Writer& w, const ir::Graph& g, const Eqn& e, const Texts& in) {
  const Layout& from = g.layout(e.in[0]);
  const AxisList axes = axes_of(from.partial & ~g.layout(e.out[0]).partial);
  Types out;
  for (const auto& x : in) out.push_back(x.type);
  return write_all_reduce(w, in, out, position_groups(*w.manual(), {axes.begin(), axes.end()}), from.reduction);
}

// ShardBuffers with other owners.
Text reinterpreted(Writer& w, const Eqn& e, const Text& in, const Type& out) {
  const auto& p = ir::get<ops::Reinterpret>(e.attrs);
  Text x = w.reshape(in, out.shape);
  return p.source.empty() ? x : sent(w, x, p.source);
}

Text exchanged(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  const auto& p = ir::get<ops::GroupExchange>(e.attrs);
  auto dim = static_cast<std::size_t>(p.dim), concat = static_cast<std::size_t>(p.concat);
  using Kind = ops::GroupExchange::Kind;
  switch (p.kind) {
    case Kind::Sum:
      return write_all_reduce(w, in, out, p.groups, ir::Reduction::Sum)[0];
    case Kind::Max:
      return write_all_reduce(w, in, out, p.groups, ir::Reduction::Max)[0];
    case Kind::Min:
      return write_all_reduce(w, in, out, p.groups, ir::Reduction::Min)[0];
    case Kind::AllGather:
      return write_all_gather(w, in, out, p.groups, dim)[0];
    case Kind::ReduceScatter:
      return write_reduce_scatter(w, in, out, p.groups, dim, ir::Reduction::Sum)[0];
    case Kind::AllToAll:
      return write_all_to_all(w, in, out, p.groups, dim, concat)[0];
    case Kind::Ragged:
      break;
  }
  return write_ragged(w, in, out, p.groups)[0];
}
}  // namespace

ir::Types shard_types(const ir::Graph& g) {
  Types out;
  for (auto v : g.inputs) out.push_back(shard_type(g, v));
  return out;
}

Texts write_partitioned(Writer& w, const ir::Graph& g, const Texts& args) {
  std::vector<Text> values(g.num_values());
  for (std::size_t i = 0; i < args.size(); ++i) values[static_cast<std::size_t>(g.inputs[i])] = args[i];
  w.enter(all_manual(*g.mesh));
  for (const auto& e : g.eqns) {
    Texts in;
    Types out;
    for (auto v : e.in) in.push_back(values[static_cast<std::size_t>(v)]);
    for (auto v : e.out) out.push_back(shard_type(g, v));
    Texts results;
    if (e.op == &def::reshard && is_joined_sum(g, e)) {
      results = summed_together(w, g, e, in);
    } else if (e.op == &def::reshard) {
      for (std::size_t i = 0; i < in.size(); ++i) {
        Step step(w, *g.mesh, in[i], g.layout(e.in[i]), g.layout(e.out[i]));
        results.push_back(step.write(ir::get<ops::Reshard>(e.attrs).kind));
      }
    } else if (e.op == &def::inspect_sharding) {
      continue;
    } else if (e.op == &def::reinterpret) {
      results = {reinterpreted(w, e, in[0], out[0])};
    } else if (e.op == &def::group_exchange) {
      results = {exchanged(w, e, in, out)};
    } else if (e.op == &def::manual_enter || e.op == &def::manual_exit) {
      results = {w.reshape(in[0], out[0].shape)};
    } else if (e.op == &def::sharding_constraint) {
      results = in;
    } else {
      results = on_shards(w, g, e, in, out);
    }
    for (std::size_t i = 0; i < results.size(); ++i) values[static_cast<std::size_t>(e.out[i])] = results[i];
  }
  w.leave();
  Texts out;
  for (auto v : g.outputs) out.push_back(values[static_cast<std::size_t>(v)]);
  return out;
}

std::string partitioned_text(const ir::GraphPtr& g, const std::string& name) {
  ir::Module m = ir::module_of(g);
  m.name = name;
  m.num_partitions = g->mesh->num_positions();
  return export_module(m, {.replicas = true});
}

}  // namespace tessera::hlo
