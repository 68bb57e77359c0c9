// SPDX-License-Identifier: Apache-2.0
// sdy.manual_computation becomes a map over the mesh that its shardings name. A mesh that the program's devices cannot
// be, beside the grids that they are already, is run by all devices (rules_manual.h).
#include "hlo/import/rules_manual.h"

#include <algorithm>
#include <set>

#include "base/strings.h"
#include "hlo/import/narrow.h"
#include "hlo/sharding/sdy.h"
#include "hlo/text/parse.h"
#include "tessera/error.h"

namespace tessera::hlo {

namespace {
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

// What one computation says.
struct Computation {
  const ir::NamedMesh* mesh = nullptr;
  std::vector<std::string> manual;
  std::vector<ir::AxisSharding> in, out;  // of tensors
  bool is_manual(const std::string& axis) const {
    return std::find(manual.begin(), manual.end(), axis) != manual.end();
  }
};

Computation computation_of(OpCall& c) {
  const Source& source = c.importer.source();
  auto in = parse_shardings(source, c.need("in_shardings"));
  auto out = parse_shardings(source, c.need("out_shardings"));
  Computation m;
  m.manual = strings_of(c, c.need("manual_axes"));
  if (in.size() != c.in.size() || c.region(0).args.size() != c.in.size() || out.size() != c.op.result_types.size()) {
    c.fail("needs one sharding for each operand and result");
  }
  if (m.manual.empty()) return m;
  const auto& all = in.empty() ? out : in;
  if (all.empty()) c.fail("has neither operands nor results");
  m.mesh = c.importer.mesh(all[0].mesh);
  if (m.mesh == nullptr) c.fail(str("there is no mesh @", all[0].mesh));
  for (const auto* list : {&in, &out}) {
    for (const auto& s : *list) {
      const ir::NamedMesh* other = c.importer.mesh(s.mesh);
      bool same = other != nullptr && other->axes == m.mesh->axes && other->sizes == m.mesh->sizes &&
                  other->device_ids == m.mesh->device_ids;
      if (!same) c.fail(str("shardings over two meshes, @", m.mesh->name, " and @", s.mesh));
    }
  }
  if (std::set<std::string>(m.manual.begin(), m.manual.end()).size() != m.manual.size()) {
    c.fail("manual_axes names an axis twice");
  }
  for (const auto& name : m.manual) {
    if (std::find(m.mesh->axes.begin(), m.mesh->axes.end(), name) == m.mesh->axes.end()) {
      c.fail(str("mesh @", m.mesh->name, " has no axis \"", name, "\""));
    }
  }
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (c.in[i].kind == AstType::Kind::Tensor) m.in.push_back(in[i]);
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (c.out(i).kind == AstType::Kind::Tensor) m.out.push_back(out[i]);
  }
  return m;
}

// Parts of the cut mesh that `axis` covers, major first.
Dims parts_of(const ir::CutMesh& cut, const ir::SubAxis& axis) {
  Dims out;
  for (std::size_t a = 0; a < cut.axes.size(); ++a) {
    if (cut.axes[a] != axis.name) continue;
    bool inside = axis.size == 0 || (cut.pre[a] >= axis.pre_size && cut.pre[a] < axis.pre_size * axis.size);
    if (inside) out.push_back(static_cast<std::int64_t>(a));
  }
  return out;
}
// By dimension of the value; axes that are not manual here say nothing about blocks.
std::vector<Dims> spec_of(OpCall& c, const Computation& m, const ir::CutMesh& cut, const ir::AxisSharding& s,
                          std::int64_t rank) {
  if (static_cast<std::int64_t>(s.dims.size()) != rank) {
    c.fail(str("a sharding of ", s.dims.size(), " dimensions for a value of ", rank));
  }
  std::vector<Dims> out;
  std::set<std::int64_t> used;
  for (const auto& d : s.dims) {
    out.emplace_back();
    for (const auto& a : d.axes) {
      if (!m.is_manual(a.name)) continue;
      for (auto p : parts_of(cut, a)) {
        if (!used.insert(p).second) c.fail(str("axis \"", a.name, "\" is used twice"));
        out.back().push_back(p);
      }
    }
  }
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
    items[i].id_size = 0;
  }
  return items;
}

std::shared_ptr<const ManualLevels> levels_inside(OpCall& c, const MapPlan& plan) {
  const auto& outer = c.scope.levels();
  std::set<std::string> axes;
  for (auto a : plan.manual) axes.insert(plan.cut.axes[static_cast<std::size_t>(a)]);
  if (outer) axes.insert(outer->axes.begin(), outer->axes.end());
  std::vector<bool> manual;
  for (const auto& axis : plan.cut.axes) manual.push_back(axes.contains(axis));
  std::string key = plan.mesh->name;
  for (const auto& axis : axes) key += str(" \"", axis, "\"");
  return c.importer.levels(key, [&] { return members_of(*plan.mesh, plan.cut, manual); });
}

// Sums of narrow types must be rounded when they are complete: these results leave the body as whole values.
void complete_narrow_sums(MapPlan& plan, const Items& items, GraphPtr& body) {
  ir::Builder b;
  Values in;
  for (const auto& t : body->input_types()) in.push_back(b.input(t));
  Values out = b.inline_graph(*body, in);
  bool changed = false;
  std::size_t next = 0;
  for (const auto& item : items) {
    if (item.kind != AstType::Kind::Tensor) continue;
    Dims& sums = plan.out_unreduced[next];
    Value& result = out[next++];
    if (sums.empty() || !(is_narrow_int(item.elem) || is_narrow_float(item.elem))) continue;
    ops::Collective over;
    for (auto a : sums) {
      over.names.list.push_back(plan.cut.names[static_cast<std::size_t>(a)]);
      over.sizes.push_back(plan.cut.sizes[static_cast<std::size_t>(a)]);
    }
    result = round_to(ops::psum(result, over), item.elem);
    sums.clear();
    changed = true;
  }
  if (changed) body = b.finish_shared(out);
}

void check_block(OpCall& c, std::size_t i, const ops::ShardMap& p, const std::vector<Dims>& spec, const Shape& shape,
                 const AstType& says) {
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::int64_t n = 1;
    for (auto a : spec[d]) n *= p.mesh_sizes[static_cast<std::size_t>(a)];
    if (shape[d] % n != 0) c.fail(str("dimension ", d, " of extent ", shape[d], " is cut in ", n, " parts"));
  }
  Shape local = ops::block_shape(p, spec, shape, str("operand ", i));
  if (local != says.shape) {
    c.fail(str("operand ", i, " has shards of shape ", local, "; its argument is ", to_string(says)));
  }
}

}  // namespace

Value first_addend(Value number, Value x) {
  ir::Builder& b = *x.builder;
  Value first = ops::eq(number, ops::scalar(b, 0, number.dtype()));
  Value zeros = ops::broadcast_to(ops::scalar(b, 0, x.dtype()), x.shape());
  return ops::where(ops::broadcast_to(first, x.shape()), x, zeros);
}

Items manual_map(OpCall& c, MapPlan plan) {
  ops::ShardMap p;
  p.mesh_names.list = plan.cut.names;
  p.mesh_sizes = plan.cut.sizes;
  p.manual = plan.manual;
  p.checked = false;
  RegionGraph r = c.importer.manual_region(c.scope, c.region(0), levels_inside(c, plan));
  Values in;
  for (std::size_t i = 0; i < c.in.size(); ++i) {
    if (c.in[i].kind != AstType::Kind::Tensor) continue;
    const auto& spec = plan.in[in.size()];
    in.push_back(c.v(i));
    check_block(c, i, p, spec, in.back().shape(), c.region(0).args[i].type);
    p.in_specs.add(spec, plan.in_unreduced[in.size() - 1]);
  }
  for (const auto& v : values_of(r.captured)) {
    in.push_back(v);
    p.in_specs.add(std::vector<Dims>(static_cast<std::size_t>(v.rank())));
  }
  Items items = r.out_types;
  if (items.size() != c.op.result_types.size() || r.graph->outputs.size() != plan.out.size()) {
    c.fail("the body gives other results");
  }
  for (std::size_t i = 0; i < plan.out.size(); ++i) {
    if (plan.out[i].size() != r.graph->type(r.graph->outputs[i]).shape.size()) {
      c.fail("the body gives other results");
    }
  }
  p.body = r.graph;
  complete_narrow_sums(plan, items, p.body);
  for (std::size_t i = 0; i < plan.out.size(); ++i) p.out_specs.add(plan.out[i], plan.out_unreduced[i]);
  c.importer.count_equations(static_cast<std::int64_t>(r.graph->eqns.size()), c.op.pos);
  Values out = ops::shard_map(c.b(), std::move(p), in);
  std::size_t next = 0;
  for (auto& i : items) {
    i.known = nullptr;
    i.id_size = 0;
    if (i.kind != AstType::Kind::Tensor) continue;
    i.value = out[next++];
  }
  return items;
}

namespace {
// The manual ones; over others the value is for the partitioner.
Dims unreduced_over(const Computation& m, const ir::CutMesh& cut, const ir::AxisSharding& s) {
  Dims out;
  for (const auto& axis : s.unreduced) {
    for (auto part : m.is_manual(axis.name) ? parts_of(cut, axis) : Dims{}) out.push_back(part);
  }
  return out;
}

Items as_map(OpCall& c, const Computation& m, const ir::CutMesh& cut) {
  const auto& outer = c.scope.levels();
  MapPlan plan;
  plan.mesh = m.mesh;
  plan.cut = cut;
  for (std::size_t a = 0; a < cut.axes.size(); ++a) {
    if (!m.is_manual(cut.axes[a])) continue;
    if (outer && std::find(outer->axes.begin(), outer->axes.end(), cut.axes[a]) != outer->axes.end()) {
      c.fail(str("axis \"", cut.axes[a], "\" is manual outside already"));
    }
    plan.manual.push_back(static_cast<std::int64_t>(a));
  }
  std::size_t next = 0;
  for (std::size_t i = 0; i < c.in.size(); ++i) {
    if (c.in[i].kind != AstType::Kind::Tensor) continue;
    const ir::AxisSharding& s = m.in[next++];
    plan.in.push_back(spec_of(c, m, cut, s, c.v(i).rank()));
    plan.in_unreduced.push_back(unreduced_over(m, cut, s));
  }
  next = 0;
  for (std::size_t i = 0; i < c.op.result_types.size(); ++i) {
    if (c.out(i).kind != AstType::Kind::Tensor) continue;
    const ir::AxisSharding& s = m.out[next++];
    plan.out.push_back(spec_of(c, m, cut, s, static_cast<std::int64_t>(c.out(i).shape.size())));
    plan.out_unreduced.push_back(unreduced_over(m, cut, s));
  }
  return manual_map(c, std::move(plan));
}

// --- among all devices -----------------------------------------------------------------------------------------------

// By position of the mesh its number along these parts of axes, the first one major.
Dims numbers_along(const ir::NamedMesh& mesh, const std::vector<ir::SubAxis>& axes) {
  Dims strides = strides_of(mesh.sizes);
  Dims out(static_cast<std::size_t>(mesh.size()), 0);
  for (const auto& x : axes) {
    auto a = static_cast<std::size_t>(std::find(mesh.axes.begin(), mesh.axes.end(), x.name) - mesh.axes.begin());
    std::int64_t size = x.size == 0 ? mesh.sizes[a] : x.size;
    std::int64_t minor = mesh.sizes[a] / (x.pre_size * size);
    for (std::size_t q = 0; q < out.size(); ++q) {
      std::int64_t index = static_cast<std::int64_t>(q) / strides[a] % mesh.sizes[a];
      out[q] = out[q] * size + index / minor % size;
    }
  }
  return out;
}

// The parts of the mesh's axes that are none of `axes`.
std::vector<ir::SubAxis> all_but(OpCall& c, const ir::NamedMesh& mesh, const std::vector<ir::SubAxis>& axes) {
  auto cut = ir::cut_mesh(mesh, axes);
  if (!cut) c.fail("parts of an axis do not nest");
  std::vector<bool> named(cut->axes.size());
  for (const auto& x : axes) {
    for (auto p : parts_of(*cut, x)) named[static_cast<std::size_t>(p)] = true;
  }
  std::vector<ir::SubAxis> out;
  for (std::size_t p = 0; p < named.size(); ++p) {
    if (!named[p]) out.push_back({cut->axes[p], cut->pre[p], cut->sizes[p]});
  }
  return out;
}

Items among_devices(OpCall& c, const Computation& m) {
  const ir::NamedMesh& mesh = *m.mesh;
  auto n = static_cast<std::size_t>(c.importer.devices());
  if (mesh.size() > c.importer.devices()) {
    c.fail(str("mesh @", mesh.name, " has ", mesh.size(), " devices; the module says that it runs on ", n));
  }
  auto by_device = [&](const Dims& by_position, std::int64_t otherwise) {
    Dims out(n, otherwise);
    for (std::size_t q = 0; q < by_position.size(); ++q) {
      std::int64_t d = mesh.device_ids.empty() ? static_cast<std::int64_t>(q) : mesh.device_ids[q];
      if (d < 0 || d >= static_cast<std::int64_t>(n)) c.fail(str("there is no device ", d));
      out[static_cast<std::size_t>(d)] = by_position[q];
    }
    return out;
  };
  auto tiles = [&](const ir::AxisSharding& s) {
    Tiles t;
    std::vector<ir::SubAxis> all, summed;
    for (const auto& x : s.unreduced) {
      if (m.is_manual(x.name)) summed.push_back(x);
    }
    for (const auto& d : s.dims) {
      t.dims.push_back(1);
      for (const auto& x : d.axes) {
        if (!m.is_manual(x.name)) continue;
        auto a = static_cast<std::size_t>(std::find(mesh.axes.begin(), mesh.axes.end(), x.name) - mesh.axes.begin());
        t.dims.back() *= x.size == 0 ? mesh.sizes[a] : x.size;
        all.push_back(x);
      }
    }
    t.tile_of = by_device(numbers_along(mesh, all), -1);
    if (summed.empty()) return t;
    t.addend = by_device(numbers_along(mesh, summed), 0);
    std::map<std::int64_t, Dims> groups;
    Dims same = by_device(numbers_along(mesh, all_but(c, mesh, summed)), -1);
    for (std::size_t d = 0; d < n; ++d) {
      if (same[d] >= 0) groups[same[d]].push_back(static_cast<std::int64_t>(d));
    }
    for (auto& [number, group] : groups) t.sum.push_back(std::move(group));
    return t;
  };
  std::vector<Tiles> in, out;
  for (const auto& s : m.in) in.push_back(tiles(s));
  for (const auto& s : m.out) out.push_back(tiles(s));
  std::vector<ir::SubAxis> manual;
  for (const auto& axis : m.manual) manual.push_back({axis, 1, 0});
  return manual_among_devices(c, in, out, by_device(numbers_along(mesh, manual), 0));
}

Items manual_computation(OpCall& c) {
  Computation m = computation_of(c);
  if (m.mesh == nullptr) return in_place(c);
  const auto& outer = c.scope.levels();
  if (outer && outer->mesh.empty()) return among_devices(c, m);
  const ir::CutMesh* cut = c.importer.cut(*m.mesh);
  if (outer && (outer->mesh != m.mesh->name || cut == nullptr)) {
    throw UnimplementedError("manual computations over different meshes inside each other; use one mesh");
  }
  if (cut == nullptr || !c.importer.nests(cut->sizes)) return among_devices(c, m);
  return as_map(c, m, *cut);
}
}  // namespace

void add_manual_rules(RuleTable& t) { t["sdy.manual_computation"] = manual_computation; }

}  // namespace tessera::hlo
