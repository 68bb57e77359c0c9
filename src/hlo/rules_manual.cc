// SPDX-License-Identifier: Apache-2.0
// Manual computations and the collectives in them. A manual computation is read once, as a program of one device, and
// batched over the devices of its manual axes (hlo/member_collective.h).
#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "base/strings.h"
#include "hlo/import.h"
#include "hlo/member_collective.h"
#include "hlo/parse.h"
#include "hlo/reducers.h"
#include "hlo/sdy.h"
#include "hlo/table.h"
#include "ops/graph_rules.h"
#include "tessera/error.h"

namespace tessera::hlo {

namespace {
using ops::MemberCollective;

// The manual axes of one computation, cut so that every part of an axis that a sharding names is a whole one.
struct Grid {
  std::vector<std::string> axes;  // by part: the mesh axis
  Dims pre;                       // by part: pieces of the axis that are more major
  Dims sizes;
  std::int64_t members = 1;
};

Grid grid_of(OpCall& c, const SdyMesh& mesh, const std::vector<std::string>& manual,
             const std::vector<SdySharding>& shardings) {
  std::map<std::string, std::set<std::int64_t>> cuts;
  for (const auto& name : manual) {
    auto it = std::find(mesh.axes.begin(), mesh.axes.end(), name);
    if (it == mesh.axes.end()) c.fail(str("mesh @", mesh.name, " has no axis \"", name, "\""));
    cuts[name] = {1, mesh.sizes[static_cast<std::size_t>(it - mesh.axes.begin())]};
  }
  auto see = [&](const SdyAxis& a) {
    auto it = cuts.find(a.name);
    if (it == cuts.end() || a.size == 0) return;
    it->second.insert(a.pre_size);
    it->second.insert(a.pre_size * a.size);
  };
  for (const auto& s : shardings) {
    for (const auto& d : s.dims) std::for_each(d.axes.begin(), d.axes.end(), see);
    std::for_each(s.unreduced.begin(), s.unreduced.end(), see);
  }
  Grid g;
  for (const auto& name : mesh.axes) {  // in the order of the mesh
    if (!cuts.contains(name)) continue;
    std::int64_t before = 0;
    for (auto cut : cuts[name]) {
      if (before != 0 && cut % before != 0) c.fail(str("parts of axis \"", name, "\" do not nest"));
      if (before != 0) {
        g.axes.push_back(name);
        g.pre.push_back(before);
        g.sizes.push_back(cut / before);
        g.members *= g.sizes.back();
      }
      before = cut;
    }
  }
  return g;
}

// Parts of the grid that `axis` covers, major first.
std::vector<std::size_t> parts_of(const Grid& g, const SdyAxis& axis) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < g.axes.size(); ++i) {
    if (g.axes[i] != axis.name) continue;
    if (axis.size == 0 || (g.pre[i] >= axis.pre_size && g.pre[i] < axis.pre_size * axis.size)) out.push_back(i);
  }
  return out;
}
// By dimension of the value.
std::vector<std::vector<std::size_t>> parts_of(OpCall& c, const Grid& g, const SdySharding& s, std::int64_t rank) {
  if (static_cast<std::int64_t>(s.dims.size()) != rank) {
    c.fail(str("a sharding of ", s.dims.size(), " dimensions for a value of ", rank));
  }
  std::vector<std::vector<std::size_t>> out;
  std::set<std::size_t> used;
  for (const auto& d : s.dims) {
    out.emplace_back();
    for (const auto& a : d.axes) {
      for (auto p : parts_of(g, a)) {
        if (!used.insert(p).second) c.fail(str("axis \"", a.name, "\" is used twice"));
        out.back().push_back(p);
      }
    }
  }
  return out;
}

// [members, local …] of a whole value: each member's piece.
Value pieces(OpCall& c, const Grid& g, const SdySharding& s, Value x) {
  auto dims = parts_of(c, g, s, x.rank());
  Shape split;
  std::vector<std::int64_t> at_part(g.sizes.size(), -1);  // place of each part in the split shape
  Dims local_at;
  Shape local;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    std::int64_t n = 1;
    for (auto p : dims[d]) {
      at_part[p] = static_cast<std::int64_t>(split.size());
      split.push_back(g.sizes[p]);
      n *= g.sizes[p];
    }
    if (x.shape()[d] % n != 0) c.fail(str("dimension ", d, " of extent ", x.shape()[d], " is cut in ", n, " parts"));
    local_at.push_back(static_cast<std::int64_t>(split.size()));
    split.push_back(x.shape()[d] / n);
    local.push_back(split.back());
  }
  Dims order;
  Shape whole = g.sizes;
  Dims places;
  for (std::size_t p = 0; p < g.sizes.size(); ++p) {
    if (at_part[p] < 0) continue;
    order.push_back(at_part[p]);
    places.push_back(static_cast<std::int64_t>(p));
  }
  for (std::size_t d = 0; d < local.size(); ++d) {
    order.push_back(local_at[d]);
    places.push_back(static_cast<std::int64_t>(whole.size()));
    whole.push_back(local[d]);
  }
  Value moved = ops::transpose(ops::reshape(x, split), order);
  local.insert(local.begin(), g.members);
  return ops::reshape(ops::broadcast_in_dim(moved, whole, places), local);
}

// The whole value from [members, local …]. Members that differ in parts no dimension names hold the same, or addends.
Value whole_of(OpCall& c, const Grid& g, const SdySharding& s, Value x, const Shape& shape) {
  auto dims = parts_of(c, g, s, x.rank() - 1);
  Shape split = g.sizes;
  split.insert(split.end(), x.shape().begin() + 1, x.shape().end());
  Value v = ops::reshape(x, split);
  std::set<std::size_t> sums, used;
  for (const auto& a : s.unreduced) {
    for (auto p : parts_of(g, a)) sums.insert(p);
  }
  for (const auto& d : dims) used.insert(d.begin(), d.end());
  Dims added, dropped;
  Dims starts(split.size(), 0);
  Dims limits = split;
  for (std::size_t p = 0; p < g.sizes.size(); ++p) {
    if (used.contains(p)) continue;
    (sums.contains(p) ? added : dropped).push_back(static_cast<std::int64_t>(p));
    if (!sums.contains(p)) limits[p] = 1;
  }
  if (!dropped.empty()) v = ops::slice(v, starts, limits);
  if (!added.empty()) v = ops::broadcast_back(ops::reduce_sum(v, added), v.type(), added);
  if (!added.empty()) {
    limits = v.shape();
    for (auto p : added) limits[static_cast<std::size_t>(p)] = 1;
    v = ops::slice(v, starts, limits);
  }
  Dims order;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    for (auto p : dims[d]) order.push_back(static_cast<std::int64_t>(p));
    order.push_back(static_cast<std::int64_t>(g.sizes.size() + d));
  }
  for (std::size_t p = 0; p < g.sizes.size(); ++p) {
    if (!used.contains(p)) order.push_back(static_cast<std::int64_t>(p));
  }
  Value out = ops::transpose(v, order);
  if (size_of(out.shape()) != size_of(shape)) c.fail("a result's sharding does not give its type");
  return ops::reshape(out, shape);
}

// Position in the mesh, row-major, from coordinates by axis.
std::int64_t position_of(const SdyMesh& mesh, const std::map<std::string, std::int64_t>& coordinates) {
  std::int64_t at = 0;
  for (std::size_t a = 0; a < mesh.axes.size(); ++a) {
    auto it = coordinates.find(mesh.axes[a]);
    at = at * mesh.sizes[a] + (it == coordinates.end() ? 0 : it->second);
  }
  return at;
}

// Coordinates of each member of the grid.
std::vector<std::map<std::string, std::int64_t>> coordinates_of(const Grid& g) {
  std::vector<std::map<std::string, std::int64_t>> out;
  for (std::int64_t m = 0; m < g.members; ++m) {
    std::map<std::string, std::int64_t> at;
    std::int64_t rest = m, stride = g.members;
    for (std::size_t p = 0; p < g.sizes.size(); ++p) {
      stride /= g.sizes[p];
      at[g.axes[p]] = at[g.axes[p]] * g.sizes[p] + rest / stride;
      rest %= stride;
    }
    out.push_back(std::move(at));
  }
  return out;
}

std::shared_ptr<const ManualLevels> levels_inside(OpCall& c, const SdyMesh& mesh, const Grid& g) {
  auto out = std::make_shared<ManualLevels>();
  const auto& outer = c.scope.levels();
  std::vector<std::map<std::string, std::int64_t>> outside{{}};
  if (outer) {
    if (outer->mesh != mesh.name) {
      throw UnimplementedError("manual computations over different meshes inside each other; use one mesh");
    }
    for (const auto& axis : g.axes) {
      if (std::find(outer->axes.begin(), outer->axes.end(), axis) != outer->axes.end()) {
        c.fail(str("axis \"", axis, "\" is manual outside already"));
      }
    }
    *out = *outer;
    outside = outer->coordinates;
  }
  out->mesh = mesh.name;
  ++out->count;
  out->axes.insert(out->axes.end(), g.axes.begin(), g.axes.end());
  out->coordinates.clear();
  out->devices.clear();
  for (const auto& o : outside) {
    for (auto at : coordinates_of(g)) {
      at.insert(o.begin(), o.end());
      out->coordinates.push_back(at);
      std::int64_t position = position_of(mesh, at);
      out->devices.push_back(mesh.device_ids.empty() ? position : mesh.device_ids[static_cast<std::size_t>(position)]);
    }
  }
  // Every device is some member: its coordinates along the manual axes say which.
  std::map<std::int64_t, std::int64_t> member_at;  // by position with the other coordinates 0
  for (std::size_t m = 0; m < out->coordinates.size(); ++m) {
    member_at[position_of(mesh, out->coordinates[m])] = static_cast<std::int64_t>(m);
  }
  out->member_of.assign(static_cast<std::size_t>(mesh.size()), -1);
  for (std::int64_t position = 0; position < mesh.size(); ++position) {
    std::map<std::string, std::int64_t> at;
    std::int64_t rest = position;
    for (std::size_t a = mesh.axes.size(); a-- > 0;) {
      if (std::find(out->axes.begin(), out->axes.end(), mesh.axes[a]) != out->axes.end()) {
        at[mesh.axes[a]] = rest % mesh.sizes[a];
      }
      rest /= mesh.sizes[a];
    }
    std::int64_t device = mesh.device_ids.empty() ? position : mesh.device_ids[static_cast<std::size_t>(position)];
    if (device >= 0 && device < mesh.size()) {
      out->member_of[static_cast<std::size_t>(device)] = member_at.at(position_of(mesh, at));
    }
  }
  return out;
}

std::vector<std::string> strings_of(OpCall& c, const AstAttr& a) {
  AstAttr list = a;
  if (a.kind == AstAttr::Kind::Dialect) {
    Parser p(c.importer.source(), a.raw);  // manual_axes{"x", "y"}
    p.accept("manual_axes");
    list = p.attribute();
  }
  std::vector<std::string> out;
  for (const auto& i : list.items) out.push_back(i.text);
  return out;
}

// A computation that is manual over nothing: its body, in place.
Items in_place(OpCall& c) {
  RegionGraph r = c.importer.region(c.scope, c.region(0), "a manual computation");
  Values in = values_of(c.in);
  for (const auto& v : values_of(r.captured)) in.push_back(v);
  Values out = c.b().inline_graph(*r.graph, in);
  Items items = r.out_types;
  for (std::size_t i = 0; i < items.size() && i < out.size(); ++i) {
    items[i].value = out[i];
    items[i].known = nullptr;
  }
  return items;
}

Items manual_computation(OpCall& c) {
  const Source& source = c.importer.source();
  auto in_shardings = parse_shardings(source, c.need("in_shardings"));
  auto out_shardings = parse_shardings(source, c.need("out_shardings"));
  auto manual = strings_of(c, c.need("manual_axes"));
  const AstRegion& body = c.region(0);
  if (in_shardings.size() != c.in.size() || body.args.size() != c.in.size() ||
      out_shardings.size() != c.op.result_types.size()) {
    c.fail("needs one sharding for each operand and result");
  }
  if (manual.empty()) return in_place(c);
  const auto& all = in_shardings.empty() ? out_shardings : in_shardings;
  if (all.empty()) c.fail("has neither operands nor results");
  const SdyMesh* mesh = c.importer.mesh(all[0].mesh);
  if (mesh == nullptr) c.fail(str("there is no mesh @", all[0].mesh));
  auto both = in_shardings;
  both.insert(both.end(), out_shardings.begin(), out_shardings.end());
  Grid g = grid_of(c, *mesh, manual, both);
  auto levels = levels_inside(c, *mesh, g);
  RegionGraph r = c.importer.manual_region(c.scope, body, levels);

  Values in;
  ops::Flags batched;
  for (std::size_t i = 0; i < c.in.size(); ++i) {
    if (c.in[i].kind != AstType::Kind::Tensor) continue;
    in.push_back(pieces(c, g, in_shardings[i], c.v(i)));
    Shape local(in.back().shape().begin() + 1, in.back().shape().end());
    if (local != body.args[i].type.shape) {
      c.fail(str("operand ", i, " has pieces of shape ", local, "; its argument is ", to_string(body.args[i].type)));
    }
    batched.push_back(true);
  }
  in.push_back(member_numbers(c, g.members));
  batched.push_back(true);
  for (const auto& v : values_of(r.captured)) {
    in.push_back(v);
    batched.push_back(false);
  }
  c.importer.count_equations(static_cast<std::int64_t>(r.graph->eqns.size()), c.op.pos);
  ir::Batched out = ops::batch_inline(c.b(), *r.graph, in, batched, g.members);
  Items items = r.out_types;
  if (items.size() != out_shardings.size()) c.fail("the body gives another number of results");
  std::size_t next = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    items[i].known = nullptr;
    if (items[i].kind != AstType::Kind::Tensor) continue;
    Value v = out.batched[next] ? out.out[next] : ops::repeat_in_front(out.out[next], g.members);
    ++next;
    items[i].value = whole_of(c, g, out_shardings[i], v, c.out(i).shape);
  }
  return items;
}

// --- collectives -----------------------------------------------------------------------------------------------------

const ManualLevels& levels_of(OpCall& c) {
  if (!c.scope.levels()) {
    throw UnimplementedError("a collective outside any sdy.manual_computation; lower the function with shard_map");
  }
  return *c.scope.levels();
}

// By the specification groups name replicas, partitions or devices, as the channel and a flag say. Programs of one
// replica name devices whatever these say.
std::vector<Dims> device_groups(OpCall& c, std::vector<Dims> groups, bool exchange) {
  std::int64_t partitions = c.importer.partitions(), replicas = c.importer.devices() / partitions;
  if (replicas == 1 || c.flag("use_global_device_ids", false)) return groups;
  std::int64_t channel = 0;
  if (const AstAttr* a = c.find("channel_handle"); a != nullptr && a->kind == AstAttr::Kind::Dialect) {
    Parser p(c.importer.source(), a->raw);  // handle = 1, type = 1
    while (!p.at_end() && !p.accept("handle")) {
      if (p.word().empty()) p.fail("expected a handle");
    }
    p.expect("=");
    channel = p.integer();
  }
  bool of_partitions = exchange && channel > 0, all_partitions = !exchange && channel > 0;
  std::int64_t units = of_partitions ? partitions : replicas, repeats = of_partitions ? replicas : partitions;
  if (groups.empty()) {
    groups.emplace_back(static_cast<std::size_t>(units));
    std::iota(groups[0].begin(), groups[0].end(), 0);
  }
  std::vector<Dims> out;
  for (const auto& g : groups) {
    if (all_partitions) out.emplace_back();
    for (std::int64_t k = 0; k < repeats; ++k) {
      if (!all_partitions) out.emplace_back();
      for (auto id : g) {
        if (id < -1 || id >= units) c.fail(str("there is no replica or partition ", id));
        out.back().push_back(id < 0 ? id : of_partitions ? k * partitions + id : id * partitions + k);
      }
    }
  }
  return out;
}

// Groups of devices as groups of members: devices that differ in axes that are not manual do the same.
std::vector<Dims> members_of(OpCall& c, const std::vector<Dims>& groups, bool ordered_pairs) {
  const ManualLevels& levels = levels_of(c);
  std::vector<Dims> out;
  std::set<Dims> seen;
  for (const auto& g : groups) {
    Dims members;
    for (auto device : g) {
      if (device == -1) continue;  // padding of groups of different sizes
      if (device < 0 || device >= static_cast<std::int64_t>(levels.member_of.size())) {
        c.fail(str("there is no device ", device));
      }
      std::int64_t m = levels.member_of[static_cast<std::size_t>(device)];
      if (m < 0) c.fail(str("device ", device, " is not in the mesh"));
      if (ordered_pairs || std::find(members.begin(), members.end(), m) == members.end()) members.push_back(m);
    }
    if (seen.insert(members).second) out.push_back(members);
  }
  return out;
}

MemberCollective collective(OpCall& c, MemberCollective::Kind kind) {
  MemberCollective p;
  p.kind = kind;
  p.members = static_cast<std::int64_t>(levels_of(c).devices.size());
  p.pending = levels_of(c).count;
  bool pairs = kind == MemberCollective::Kind::Permute;
  const AstAttr& a = c.need(pairs ? "source_target_pairs" : "replica_groups");
  bool exchange = pairs || kind == MemberCollective::Kind::AllToAll || kind == MemberCollective::Kind::Broadcast;
  p.groups = members_of(c, device_groups(c, c.table_of(a), exchange), pairs);
  std::erase_if(p.groups, [](const Dims& g) { return g.empty(); });
  bool one_size = true;
  for (const auto& g : p.groups) one_size = one_size && g.size() == p.groups[0].size();
  if (!one_size) c.importer.count_equations(p.members, c.op.pos);  // each member becomes equations of its own
  for (const auto& g : p.groups) {
    if (pairs && g.size() != 2) c.fail("source_target_pairs must have two columns");
  }
  return p;
}
Value member(OpCall& c) { return c.scope.find(kMember)->value; }

std::string reduction_of(OpCall& c) {
  std::string name = simple_reducer(c.region(0));
  if (name.empty())
    throw UnimplementedError("a collective with a reducer of its own; use add, multiply, maximum or minimum");
  return reducer_for(name, storage(c.region(0).args[0].type.elem));
}

Items each(OpCall& c, const MemberCollective& p) {
  Items out;
  for (std::size_t i = 0; i < c.in.size(); ++i) {
    out.push_back(tensor(c.out(i).elem, ops::member_collective(c.v(i), member(c), p)));
  }
  return out;
}

Items all_reduce(OpCall& c) {
  MemberCollective p = collective(c, MemberCollective::Kind::AllReduce);
  p.reduction = reduction_of(c);
  return each(c, p);
}
Items all_gather(OpCall& c) {
  MemberCollective p = collective(c, MemberCollective::Kind::AllGather);
  p.dim = c.integer("all_gather_dim");
  return each(c, p);
}
Items reduce_scatter(OpCall& c) {
  MemberCollective p = collective(c, MemberCollective::Kind::ReduceScatter);
  p.dim = c.integer("scatter_dimension");
  p.reduction = reduction_of(c);
  return each(c, p);
}
Items all_to_all(OpCall& c) {
  MemberCollective p = collective(c, MemberCollective::Kind::AllToAll);
  p.dim = c.integer("split_dimension");
  p.concat_dim = c.integer("concat_dimension");
  return each(c, p);
}
Items collective_permute(OpCall& c) { return each(c, collective(c, MemberCollective::Kind::Permute)); }
Items collective_broadcast(OpCall& c) { return each(c, collective(c, MemberCollective::Kind::Broadcast)); }

// Outside manual computations every value is whole, and the program is that of device 0.
Items device_id(OpCall& c) {
  if (!c.scope.levels()) return c.one(ops::scalar(c.b(), 0, DType::U32));
  const Dims& devices = c.scope.levels()->devices;
  bool same = true;
  std::vector<std::int32_t> table(devices.begin(), devices.end());
  for (std::size_t i = 0; i < table.size(); ++i) same = same && table[i] == static_cast<std::int32_t>(i);
  Value v = same ? member(c) : look_up(member(c), HostArray::from(table));
  return c.one(ops::convert(v, DType::U32));
}
Items partition_id(OpCall& c) {
  Items device = device_id(c);
  if (c.importer.devices() == c.importer.partitions()) return device;
  return c.one(ops::rem(device[0].value, ops::scalar(c.b(), static_cast<double>(c.importer.partitions()), DType::U32)));
}
Items replica_id(OpCall& c) {
  return c.one(
      ops::div(device_id(c)[0].value, ops::scalar(c.b(), static_cast<double>(c.importer.partitions()), DType::U32)));
}
}  // namespace

Value member_numbers(OpCall& c, std::int64_t each) {
  Value member = ops::iota(c.b(), DType::I32, {each}, 0);
  if (!c.scope.levels()) return member;
  Value outer = c.scope.find(kMember)->value;
  return ops::add(member, ops::mul(outer, ops::scalar(c.b(), static_cast<double>(each), DType::I32)));
}

void add_manual_rules(RuleTable& t) {
  t["sdy.manual_computation"] = manual_computation;
  t["stablehlo.all_reduce"] = all_reduce;
  t["stablehlo.all_gather"] = all_gather;
  t["stablehlo.reduce_scatter"] = reduce_scatter;
  t["stablehlo.all_to_all"] = all_to_all;
  t["stablehlo.collective_permute"] = collective_permute;
  t["stablehlo.collective_broadcast"] = collective_broadcast;
  t["stablehlo.partition_id"] = partition_id;
  t["stablehlo.replica_id"] = replica_id;
}

}  // namespace tessera::hlo
