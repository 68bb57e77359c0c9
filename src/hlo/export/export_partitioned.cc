// SPDX-License-Identifier: Apache-2.0
// Partitioned graphs: every equation on the shards of one position, reshards as collectives between positions.
#include <algorithm>

#include "base/strings.h"
#include "hlo/export/export.h"
#include "hlo/export/partitioned.h"
#include "ir/op_def.h"
#include "ops/collective/manual.h"
#include "ops/ops.h"
#include "ops/shape/sharding_groups.h"
#include "ops/shared_attrs.h"
#include "tessera/error.h"

namespace tessera::hlo {

namespace {
namespace def = ops::def;
using ir::AxisList;
using ir::Eqn;
using ir::Layout;
using ir::Type;
using ir::Types;

ManualText all_manual(const ir::MeshAxes& mesh) {
  return {mesh.names, Dims(mesh.sizes.begin(), mesh.sizes.end()), std::vector<bool>(mesh.sizes.size(), true)};
}
std::vector<std::size_t> numbers(const AxisList& axes) { return {axes.begin(), axes.end()}; }
AxisList axes_in(ir::AxisMask mask) {
  AxisList out;
  for (std::uint8_t a = 0; a < 32; ++a) {
    if (mask >> a & 1) out.push_back(a);
  }
  return out;
}
bool starts_with(const AxisList& list, const AxisList& head) {
  return list.size() >= head.size() && std::equal(head.begin(), head.end(), list.begin());
}
AxisList behind(const AxisList& list, std::size_t n) {
  return {list.begin() + static_cast<std::ptrdiff_t>(n), list.end()};
}

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

// First element of the shard that a position holds.
Dims offsets_at(const ir::Graph& g, ir::ValueId v, const Shape& shard, std::int64_t position) {
  const auto& sizes = g.mesh->sizes;
  Dims coordinates(sizes.size());
  for (std::size_t a = sizes.size(); a-- > 0;) {
    coordinates[a] = position % sizes[a];
    position /= sizes[a];
  }
  Dims out;
  const auto& dims = g.layout(v).dims;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    std::int64_t tile = 0;
    for (auto a : dims[d]) tile = tile * sizes[a] + coordinates[a];
    out.push_back(tile * shard[d]);
  }
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

std::string groups_text(const ManualText& m, const AxisList& axes) {
  return "replica_groups = " + matrix_text(position_groups(m, numbers(axes)));
}
const char* how(ir::Reduction r, DType t) {
  switch (r) {
    case ir::Reduction::Sum:
      return is_bool(t) ? "or" : "add";
    case ir::Reduction::Prod:
      return is_bool(t) ? "and" : "multiply";
    case ir::Reduction::Max:
      return is_bool(t) ? "or" : "maximum";
    case ir::Reduction::Min:
      return is_bool(t) ? "and" : "minimum";
    case ir::Reduction::And:
      return "and";
    case ir::Reduction::Or:
      return "or";
  }
  return "add";
}

// One value on its way from one layout to another.
class Move {
 public:
  Move(Writer& w, const ir::MeshAxes& mesh, Text x, Layout from)
      : w_(w), mesh_(mesh), m_(*w.manual()), x_(std::move(x)), at_(std::move(from)) {}

  Text to(const Layout& want) {
    if ((at_.vary & ~want.vary & ~want.partial) != 0) {
      throw UnimplementedError(
          str("StableHLO text of one device: from ", ir::to_string(at_, mesh_), " to ", ir::to_string(want, mesh_)));
    }
    ir::AxisMask made = want.partial & ~at_.partial;
    for (std::size_t d = 0; d < at_.dims.size(); ++d) keep_tile(d, made);
    made &= ~at_.partial;
    complete(want);
    exchange(want);
    for (std::size_t d = 0; d < at_.dims.size(); ++d) {
      std::size_t same = 0;
      while (same < at_.dims[d].size() && same < want.dims[d].size() && at_.dims[d][same] == want.dims[d][same]) ++same;
      gather(d, same);
    }
    for (std::size_t d = 0; d < at_.dims.size(); ++d) cut(d, behind(want.dims[d], at_.dims[d].size()));
    if (made != 0) keep_first(axes_in(made));
    return x_;
  }

 private:
  std::int64_t size(const AxisList& axes) const { return ir::parts(axes, mesh_); }
  Type resized(std::size_t d, std::int64_t extent) const {
    Type t = x_.type;
    t.shape[d] = extent;
    return t;
  }
  void complete(const Layout& want) {
    AxisList axes = axes_in(at_.partial & ~want.partial);
    if (axes.empty()) return;
    std::string reducer = how(at_.reduction, x_.type.dtype);
    at_.partial &= want.partial;
    // Straight to shards where these axes cut one dimension further.
    for (std::size_t d = 0; d < at_.dims.size() && reducer == "add"; ++d) {
      if (!starts_with(want.dims[d], at_.dims[d])) continue;
      AxisList more = behind(want.dims[d], at_.dims[d].size()), sorted = more;
      std::sort(sorted.begin(), sorted.end());
      if (sorted != axes) continue;
      std::string rest = str(groups_text(m_, more), ", scatter_dimension = ", d, " : i64");
      x_ = w_.generic("stablehlo.reduce_scatter", {x_}, {resized(d, x_.type.shape[d] / size(more))},
                      collective_attributes(w_, "", rest, true), w_.reducer(reducer, x_.type.dtype))[0];
      at_.dims[d] = want.dims[d];
      return;
    }
    x_ = w_.generic("stablehlo.all_reduce", {x_}, {x_.type}, collective_attributes(w_, "", groups_text(m_, axes), true),
                    w_.reducer(reducer, x_.type.dtype))[0];
  }
  // Axes that go from the end of one dimension's list to the end of another's.
  void exchange(const Layout& want) {
    std::vector<std::size_t> differ;
    for (std::size_t d = 0; d < at_.dims.size(); ++d) {
      if (at_.dims[d] != want.dims[d]) differ.push_back(d);
    }
    if (differ.size() != 2) return;
    std::size_t from = differ[0], to = differ[1];
    if (at_.dims[from].size() < want.dims[from].size()) std::swap(from, to);
    if (!starts_with(at_.dims[from], want.dims[from]) || !starts_with(want.dims[to], at_.dims[to])) return;
    AxisList axes = behind(at_.dims[from], want.dims[from].size());
    if (axes != behind(want.dims[to], at_.dims[to].size())) return;
    std::int64_t n = size(axes);
    Type out = x_.type;
    out.shape[from] *= n;
    out.shape[to] /= n;
    std::string rest = str("concat_dimension = ", from, " : i64, ", groups_text(m_, axes), ", split_count = ", n,
                           " : i64, split_dimension = ", to, " : i64");
    x_ = w_.generic("stablehlo.all_to_all", {x_}, ir::Types{out}, collective_attributes(w_, "", rest, false), "")[0];
    at_.dims = want.dims;
  }
  void gather(std::size_t d, std::size_t keep) {
    AxisList axes = behind(at_.dims[d], keep);
    if (axes.empty()) return;
    x_ = w_.generic("stablehlo.all_gather", {x_}, ir::Types{resized(d, x_.type.shape[d] * size(axes))},
                    collective_attributes(w_, str("all_gather_dim = ", d, " : i64, "), groups_text(m_, axes), true),
                    "")[0];
    at_.dims[d].resize(keep);
  }
  Text zeros(const Shape& shape) { return w_.wide(w_.constant(0, x_.type.dtype), shape); }
  // A sum over axes along which the value is whole: the first position has it.
  void keep_first(const AxisList& axes) {
    std::vector<std::int64_t> mine(static_cast<std::size_t>(mesh_.num_positions()), 0);
    for (const auto& group : position_groups(m_, numbers(axes))) mine[static_cast<std::size_t>(group[0])] = 1;
    Text which = w_.convert(by_position(w_, mine), DType::Bool);
    x_ = w_.select(w_.wide(which, x_.type.shape), x_, zeros(x_.type.shape));
  }
  // A sum over axes that cut a dimension last: each position has its own tile.
  void keep_tile(std::size_t d, ir::AxisMask made) {
    std::size_t keep = at_.dims[d].size();
    while (keep > 0 && (made >> at_.dims[d][keep - 1] & 1)) --keep;
    AxisList axes = behind(at_.dims[d], keep);
    if (axes.empty()) return;
    Type out = resized(d, x_.type.shape[d] * size(axes));
    std::vector<std::int64_t> starts(static_cast<std::size_t>(mesh_.num_positions()));
    for (const auto& group : position_groups(m_, numbers(axes))) {
      for (std::size_t k = 0; k < group.size(); ++k) {
        starts[static_cast<std::size_t>(group[k])] = static_cast<std::int64_t>(k) * x_.type.shape[d];
      }
    }
    Texts in{zeros(out.shape), x_};
    Text start = by_position(w_, starts), zero = w_.constant(0, DType::I32);
    for (std::size_t k = 0; k < out.shape.size(); ++k) in.push_back(k == d ? start : zero);
    x_ = w_.line(str("stablehlo.dynamic_update_slice ", names_of(in), " : ", signature(in, {out})), out);
    at_.dims[d].resize(keep);
    for (auto a : axes) at_.partial |= ir::AxisMask{1} << a;
  }
  void cut(std::size_t d, const AxisList& axes) {
    if (axes.empty()) return;
    Type out = resized(d, x_.type.shape[d] / size(axes));
    std::vector<std::int64_t> starts(static_cast<std::size_t>(mesh_.num_positions()));
    for (const auto& group : position_groups(m_, numbers(axes))) {
      for (std::size_t k = 0; k < group.size(); ++k) {
        starts[static_cast<std::size_t>(group[k])] = static_cast<std::int64_t>(k) * out.shape[d];
      }
    }
    Texts in{x_};
    Text start = by_position(w_, starts), zero = w_.constant(0, DType::I32);
    for (std::size_t k = 0; k < out.shape.size(); ++k) in.push_back(k == d ? start : zero);
    x_ = w_.line(
        str("stablehlo.dynamic_slice ", names_of(in), ", sizes = [", join(out.shape), "] : ", signature(in, {out})),
        out);
    at_.dims[d].insert(at_.dims[d].end(), axes.begin(), axes.end());
  }

  Writer& w_;
  const ir::MeshAxes& mesh_;
  ManualText m_;
  Text x_;
  Layout at_;
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
  const AxisList axes = axes_in(from.partial & ~g.layout(e.out[0]).partial);
  Types out;
  for (const auto& x : in) out.push_back(x.type);
  return w.generic("stablehlo.all_reduce", in, out, collective_attributes(w, "", groups_text(*w.manual(), axes), true),
                   w.reducer(how(from.reduction, in[0].type.dtype), in[0].type.dtype));
}

// ShardBuffers with other owners. A shard that several positions want is sent in as many rounds.
Text reinterpreted(Writer& w, const Eqn& e, const Text& in, const Type& out) {
  const auto& p = ir::get<ops::Reinterpret>(e.attrs);
  Text x = w.reshape(in, out.shape);
  std::vector<std::pair<std::int64_t, std::int64_t>> left;
  for (std::size_t i = 0; i < p.source.size(); ++i) {
    if (p.source[i] >= 0) left.emplace_back(p.source[i], static_cast<std::int64_t>(i));
  }
  if (p.source.empty()) return x;
  Text sum;
  while (!left.empty() || sum.name.empty()) {
    std::vector<Dims> pairs;
    std::vector<std::pair<std::int64_t, std::int64_t>> later;
    std::vector<std::int64_t> mine(p.source.size(), 0);
    for (const auto& [from, to] : left) {
      bool taken = std::any_of(pairs.begin(), pairs.end(), [&](const Dims& q) { return q[0] == from; });
      if (taken) {
        later.emplace_back(from, to);
      } else {
        pairs.push_back({from, to});
        mine[static_cast<std::size_t>(to)] = 1;
      }
    }
    std::string text = pairs.empty() ? "dense<> : tensor<0x2xi64>" : matrix_text(pairs);
    Text moved = w.generic("stablehlo.collective_permute", {x}, ir::Types{x.type},
                           collective_attributes(w, "", "source_target_pairs = " + text, false), "")[0];
    if (sum.name.empty()) {
      sum = moved;
    } else {
      Text which = w.convert(by_position(w, mine), DType::Bool);
      sum = w.select(w.wide(which, x.type.shape), moved, sum);
    }
    left = std::move(later);
  }
  return sum;
}

Text exchanged(Writer& w, const Eqn& e, const Texts& in, const Type& out) {
  const auto& p = ir::get<ops::GroupExchange>(e.attrs);
  using Kind = ops::GroupExchange::Kind;
  std::string groups = "replica_groups = " + matrix_text(p.groups);
  auto reducer = [&](const char* name) {
    return w.reducer(is_bool(out.dtype) ? (p.kind == Kind::Min ? "and" : "or") : name, out.dtype);
  };
  switch (p.kind) {
    case Kind::Sum:
    case Kind::Max:
    case Kind::Min:
      return w.generic("stablehlo.all_reduce", in, Types{out}, collective_attributes(w, "", groups, true),
                       reducer(p.kind == Kind::Sum   ? "add"
                               : p.kind == Kind::Max ? "maximum"
                                                     : "minimum"))[0];
    case Kind::AllGather:
      return w.generic("stablehlo.all_gather", in, Types{out},
                       collective_attributes(w, str("all_gather_dim = ", p.dim, " : i64, "), groups, true), "")[0];
    case Kind::ReduceScatter:
      return w.generic("stablehlo.reduce_scatter", in, Types{out},
                       collective_attributes(w, "", str(groups, ", scatter_dimension = ", p.dim, " : i64"), true),
                       reducer("add"))[0];
    case Kind::AllToAll:
      return w.generic("stablehlo.all_to_all", in, Types{out},
                       collective_attributes(
                           w, "",
                           str("concat_dimension = ", p.concat, " : i64, ", groups,
                               ", split_count = ", p.groups[0].size(), " : i64, split_dimension = ", p.dim, " : i64"),
                           false),
                       "")[0];
    case Kind::Ragged:
      break;
  }
  return w.line(str("stablehlo.custom_call @ragged_all_to_all(", names_of(in),
                    ") {api_version = 4 : i32, backend_config = {", groups, "}} : ", signature(in, {out})),
                out);
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
        results.push_back(Move(w, *g.mesh, in[i], g.layout(e.in[i])).to(g.layout(e.out[i])));
      }
    } else if (e.op == &def::inspect_sharding) {
      continue;
    } else if (e.op == &def::reinterpret) {
      results = {reinterpreted(w, e, in[0], out[0])};
    } else if (e.op == &def::group_exchange) {
      results = {exchanged(w, e, in, out[0])};
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
