// SPDX-License-Identifier: Apache-2.0
#include "tessera/shard_map.h"

#include <algorithm>
#include <exception>
#include <map>
#include <mutex>
#include <typeinfo>

#include "base/strings.h"
#include "ir/axis_sets.h"
#include "ir/derive_sharding.h"
#include "ir/pass.h"
#include "ops/collective/shard_map_op.h"
#include "ops/collective/varying.h"
#include "program/axis_env.h"
#include "program/trace.h"
#include "program/typed/typed_placement.h"

namespace tessera {

void SpecTree::flatten(std::vector<PartitionSpec>& out) const {
  if (spec_) {
    out.push_back(*spec_);
  } else {
    for (const auto& c : children_) c.flatten(out);
  }
}

std::vector<PartitionSpec> SpecTree::resolve(const std::vector<std::size_t>& leaves, const char* what) const {
  std::size_t total = 0;
  for (auto n : leaves) total += n;
  if (spec_) return std::vector<PartitionSpec>(total, *spec_);
  if (inferred_) throw ValueError(str("shard_map: ", what, " = Infer; expected specs"));
  std::vector<PartitionSpec> out;
  if (children_.size() == leaves.size()) {
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const SpecTree& c = children_[i];
      std::size_t before = out.size();
      if (c.spec_) {
        out.insert(out.end(), leaves[i], *c.spec_);
      } else {
        c.flatten(out);
      }
      if (out.size() - before != leaves[i]) {
        throw ValueError(str("shard_map: ", what, "[", i, "] has ", out.size() - before, " specs; expected 1 or ",
                             leaves[i], ", one for each leaf"));
      }
    }
    return out;
  }
  flatten(out);
  if (out.size() != total) {
    throw ValueError(str("shard_map: ", what, " has ", children_.size(), " entries; expected one spec, ", leaves.size(),
                         " entries or one for each of ", total, " leaves"));
  }
  return out;
}

namespace {
struct RuleTable {
  std::mutex mutex;
  std::map<std::type_index, ShardMapRule> rules;
};
RuleTable& rule_table() {
  static auto* table = new RuleTable;
  return *table;
}
}  // namespace

void register_shard_map_rule(std::type_index mesh_type, ShardMapRule rule, const Loc&) {
  RuleTable& t = rule_table();
  std::lock_guard lock(t.mutex);
  t.rules[mesh_type] = std::move(rule);
}

namespace detail {

std::vector<Array> special_map(const SpecialMapCall& call) {
  ShardMapRule rule;
  {
    RuleTable& t = rule_table();
    std::lock_guard lock(t.mutex);
    auto it = t.rules.find(typeid(call.mesh));
    if (it == t.rules.end()) {
      throw StateError(str("shard_map: no rule is registered for meshes of type ", typeid(call.mesh).name(), " (axes ",
                           base::join(call.mesh.axis_names()), "); see register_shard_map_rule"));
    }
    rule = it->second;
  }
  return rule(call);
}

namespace {

std::string axes_text(const AbstractMesh& mesh) { return base::join(mesh.axis_names()); }

ops::ShardMap map_of(const ShardMapCall& call) {
  ops::ShardMap p;
  const AbstractMesh& mesh = call.mesh.abstract_mesh();
  if (!mesh.has_names()) throw ValueError(str("shard_map: the mesh ", mesh, " has no axis names"));
  for (const auto& a : mesh.shape_tuple()) {
    p.mesh_names.list.push_back(a.name);
    p.mesh_sizes.push_back(a.size);
  }
  const auto& wanted = call.options.axis_names;
  for (const auto& name : wanted) {
    if (!mesh.axis_index(name)) {
      throw ValueError(
          str("shard_map: axis_names has ", name, ", which is no axis of the mesh (", axes_text(mesh), ")"));
    }
  }
  const program::ManualMesh* outer = program::manual_mesh();
  for (std::size_t a = 0; a < p.mesh_names.list.size(); ++a) {
    const auto& name = p.mesh_names.list[a];
    bool taken = outer && outer->mesh == mesh &&
                 std::find(outer->manual.begin(), outer->manual.end(), name) != outer->manual.end();
    bool named = std::find(wanted.begin(), wanted.end(), name) != wanted.end();
    if (taken && named) {
      throw ValueError(str("shard_map: axis_names has ", name, ", which an enclosing shard_map maps already"));
    }
    if (!taken && (named || wanted.empty())) p.manual.push_back(static_cast<std::int64_t>(a));
  }
  if (outer && !(outer->mesh == mesh)) {
    throw ValueError(str("shard_map: the mesh ", mesh, " differs from that of the enclosing shard_map, ", outer->mesh));
  }
  if (call.mesh.is_concrete()) {
    for (const auto& d : call.mesh.device_list()->devices) p.devices.push_back(d.id());
  }
  p.checked = call.options.check_vma;
  return p;
}

// Adds one leaf's spec to `to`.
void add_spec(ops::Specs& to, const ops::ShardMap& p, const ShardMapCall& call, const PartitionSpec& spec,
              std::int64_t rank, const char* what) {
  const std::size_t leaf = to.list.size();
  if (static_cast<std::int64_t>(spec.size()) > rank) {
    throw ValueError(str("shard_map: ", what, " ", spec, " of leaf ", leaf, " has ", spec.size(),
                         " entries, but the value has rank ", rank));
  }
  const AbstractMesh& mesh = call.mesh.abstract_mesh();
  std::vector<Dims> out(static_cast<std::size_t>(rank));
  Dims seen;
  auto add = [&](const std::vector<AxisRef>& refs, Dims& axes) {
    for (const auto& ref : refs) {
      auto a = mesh.axis_index(ref);
      if (!a) {
        throw ValueError(str("shard_map: ", what, " ", spec, " names ", ref, ", which is no axis of the mesh (",
                             axes_text(mesh), ")"));
      }
      if (std::find(p.manual.begin(), p.manual.end(), *a) == p.manual.end()) {
        throw ValueError(str("shard_map: ", what, " ", spec, " names the axis ", ref,
                             ", which this map leaves automatic; expected axes of axis_names"));
      }
      if (std::find(seen.begin(), seen.end(), *a) != seen.end()) {
        throw DuplicateAxisError(str("shard_map: ", what, " ", spec, " names the axis ", ref, " twice"));
      }
      seen.push_back(*a);
      axes.push_back(*a);
    }
  };
  for (std::size_t d = 0; d < spec.size(); ++d) {
    if (spec[d].is_unconstrained()) {
      throw ValueError(str("shard_map: ", what, " ", spec, " has an unconstrained dimension; expected axes or none"));
    }
    add(spec[d].axes(), out[d]);
  }
  Dims unreduced, reduced;
  add(spec.unreduced(), unreduced);
  add(spec.reduced(), reduced);
  if (p.manual.size() != p.mesh_sizes.size() && !(unreduced.empty() && reduced.empty())) {
    throw UnimplementedError(
        str("shard_map: ", what, " ", spec,
            " is unreduced or reduced, and the map leaves axes automatic; map all axes of the mesh"));
  }
  to.add(std::move(out), unreduced, reduced);
}

ops::NameSet set_of(const ops::ShardMap& p, const std::vector<Dims>& spec) {
  ops::NameSet out;
  for (const auto& dim : spec) {
    for (auto a : dim) out.push_back(p.mesh_names.list[static_cast<std::size_t>(a)]);
  }
  std::sort(out.begin(), out.end());
  return out;
}

// Results must be equal along the manual axes that their specs leave out, and addends along those that they call
// unreduced.
void check_results(const ops::ShardMap& p, const program::Traced& t, const std::vector<ops::NameSet>& inputs,
                   const std::vector<PartitionSpec>& specs) {
  ops::NameSets sets = ops::varying(*t.graph, inputs);
  // Without what varies only in that its cotangents do.
  std::vector<ops::NameSet> values = inputs;
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = ops::without(values[i], set_of(p, {p.in_specs.reduced_of(i)}));
  }
  ops::NameSets differ = p.in_specs.reduced.empty() ? sets : ops::varying(*t.graph, values);
  ops::NameSet manual = set_of(p, {p.manual});
  for (std::size_t i = 0; i < t.graph->outputs.size(); ++i) {
    auto v = static_cast<std::size_t>(t.graph->outputs[i]);
    ops::NameSet sum = set_of(p, {p.out_specs.unreduced_of(i)});
    ops::NameSet reduced = set_of(p, {p.out_specs.reduced_of(i)});
    if (ops::NameSet equal = ops::without(sum, sets[v]); !equal.empty()) {
      throw ValueError(str("shard_map: out_specs ", specs[i], " of result ", i, " is unreduced over (",
                           base::join(equal),
                           "), and the value is invarying over it; expected addends, which vary, as "
                           "pvary of the value gives"));
    }
    ops::NameSet extra = ops::without(sets[v], ops::unite(sum, ops::without(reduced, differ[v])));
    extra = ops::without(extra, set_of(p, p.out_specs.list[i]));
    extra = ops::without(extra, ops::without(extra, manual));
    if (extra.empty()) continue;
    throw ValueError(str("shard_map: out_specs ", specs[i], " of result ", i, " says that it is replicated over (",
                         base::join(extra),
                         "), but it is varying over it; name the axis in out_specs, make the value "
                         "equal (psum, pmax, all_gather_invariant), or switch the check off (check_vma = false)"));
  }
}

std::vector<program::AxisBinding> bindings_of(const ops::ShardMap& p) {
  std::vector<program::AxisBinding> out;
  for (auto a : p.manual) {
    const auto& name = p.mesh_names.list[static_cast<std::size_t>(a)];
    bool reduced = std::any_of(p.in_specs.reduced.begin(), p.in_specs.reduced.end(),
                               [&](const Dims& axes) { return std::find(axes.begin(), axes.end(), a) != axes.end(); });
    out.push_back({name, name, p.mesh_sizes[static_cast<std::size_t>(a)], true, p.checked, reduced});
  }
  return out;
}

program::ManualMesh manual_of(const ops::ShardMap& p, const ShardMapCall& call) {
  program::ManualMesh m{call.mesh.abstract_mesh(), {}, p.devices};
  if (const auto* outer = program::manual_mesh()) m.manual = outer->manual;
  for (auto a : p.manual) m.manual.push_back(p.mesh_names.list[static_cast<std::size_t>(a)]);
  return m;
}

// Outside programs an abstract mesh takes the devices of an argument (M68).
void adopt_devices(ops::ShardMap& p, const ShardMapCall& call, const std::vector<Array>& leaves) {
  if (call.mesh.is_concrete() || program::Trace::current() != nullptr) return;
  const AbstractMesh& wanted = call.mesh.abstract_mesh();
  for (const auto& a : leaves) {
    const auto& impl = *a.impl();
    if (!impl.sharding) continue;
    const auto* own = dynamic_cast<const NamedSharding*>(impl.sharding.get());
    if (own == nullptr && !impl.committed) continue;  // host data
    if (own == nullptr) {
      throw TypeError(str("shard_map: the mesh ", wanted, " is abstract and the argument has a ", impl.sharding->kind(),
                          "; expected a NamedSharding on a concrete mesh"));
    }
    if (!(own->mesh().abstract_mesh() == wanted)) {
      throw ValueError(str("shard_map: the abstract mesh ", wanted, " differs from the argument's mesh ",
                           own->mesh().abstract_mesh()));
    }
    for (const auto& d : own->devices()) p.devices.push_back(d.id());
    return;
  }
  throw ValueError(str("shard_map: the mesh ", wanted,
                       " is abstract and the arguments are host data; place them on a concrete mesh first"));
}

}  // namespace

AnyMesh shard_map_mesh() {
  if (const auto* outer = program::manual_mesh()) return outer->mesh;
  if (current_mesh().empty()) {
    throw StateError("shard_map: no mesh is given and none is current; open a MeshScope or pass a mesh");
  }
  return current_mesh();
}

namespace {

// What is wrong with a block's shape waits until the body was seen, on blocks rounded up: names and groups that are
// wrong whatever the shapes are told first.
class Blocks {
 public:
  Shape of(const ops::ShardMap& p, std::size_t leaf, const Shape& whole) {
    const auto& spec = p.in_specs.list[leaf];
    try {
      return ops::block_shape(p, spec, whole, str("argument leaf ", leaf));
    } catch (const IndivisibleError&) {
      if (!wrong_) wrong_ = std::current_exception();
    }
    Shape out = whole;
    for (std::size_t d = 0; d < out.size(); ++d) {
      for (auto a : spec[d]) {
        std::int64_t n = p.mesh_sizes[static_cast<std::size_t>(a)];
        out[d] = (out[d] + n - 1) / n;
      }
    }
    return out;
  }
  program::Traced trace(const LeafFn& body, const ir::Types& blocks, const std::vector<ops::NameSet>& varying) const {
    try {
      program::Traced t = program::trace(body, blocks, varying);
      if (!wrong_) return t;
    } catch (const UnboundAxisError&) {
      throw;
    } catch (const program::AxisGroupsError&) {
      throw;
    } catch (const std::exception&) {
      if (!wrong_) throw;
    }
    std::rethrow_exception(wrong_);
  }

 private:
  std::exception_ptr wrong_;
};

}  // namespace

namespace {

// --- over explicit axes ---------------------------------------------------------------------------------------------

// The map's mesh where some of its axes are explicit, else one without axes.
AbstractMesh typed_mesh(const ShardMapCall& call, const std::vector<Array>& leaves) {
  const AbstractMesh& mesh = call.mesh.abstract_mesh();
  const AbstractMesh& current = get_abstract_mesh();
  // Inside another map the scope knows which axes are manual by now.
  if (current.axis_sizes() == mesh.axis_sizes() && !current.explicit_axes().empty()) return current;
  if (!mesh.explicit_axes().empty()) return mesh;
  for (const auto& a : leaves) {
    if (a.impl()->type.sharding != nullptr) return a.impl()->type.sharding->mesh;
  }
  return {};
}

AbstractMesh inner_mesh(const ops::ShardMap& p, const AbstractMesh& mesh) {
  AxisTypes types;
  for (auto m : p.manual) types.emplace_back(p.mesh_names.list[static_cast<std::size_t>(m)], AxisType::Manual);
  return mesh.update_axis_types(types);
}

std::vector<AxisRef> refs(const AbstractMesh& mesh, const ir::AxisList& axes, ir::AxisMask of) {
  std::vector<AxisRef> out;
  for (auto a : axes) {
    if (of >> a & 1) out.emplace_back(mesh.shape_tuple()[a].name);
  }
  return out;
}

// `in_specs` that is left to the argument's type.
PartitionSpec spec_of_type(const ops::ShardMap& p, const AbstractMesh& mesh, const Array& a) {
  for (auto m : p.manual) {
    if (!mesh.empty() && mesh.axis_types()[static_cast<std::size_t>(m)] == AxisType::Explicit) continue;
    throw TypeError(str("shard_map: in_specs may be left out only where all axes that the map takes are Explicit; ",
                        p.mesh_names.list[static_cast<std::size_t>(m)], " is not; give in_specs"));
  }
  const ir::TypeSharding s = ir::sharding_of(a.impl()->type, mesh);
  const ir::AxisMask manual = ir::mask_of(p.manual);
  std::vector<SpecEntry> entries;
  for (const auto& axes : s.dims) {
    auto named = refs(mesh, axes, manual);
    entries.push_back(named.empty() ? SpecEntry(none) : SpecEntry(std::move(named)));
  }
  return PartitionSpec(std::move(entries))
      .with_unreduced(refs(mesh, ir::axes_of(s.unreduced), manual))
      .with_reduced(refs(mesh, ir::axes_of(s.reduced), manual));
}

// The argument placed as its spec says, which must be so already where the map takes all axes and they are explicit.
Array as_spec(const ops::ShardMap& p, const AbstractMesh& mesh, const Array& a, const PartitionSpec& spec,
              std::size_t i) {
  const ir::TypeSharding own = ir::sharding_of(a.impl()->type, mesh);
  const ir::AxisMask manual = ir::mask_of(p.manual);
  ir::TypeSharding want{mesh, {}, ir::mask_of(p.in_specs.unreduced_of(i)), ir::mask_of(p.in_specs.reduced_of(i))};
  for (std::size_t d = 0; d < own.dims.size(); ++d) {
    ir::AxisList dim;
    for (auto x : p.in_specs.list[i][d]) {
      if (mesh.axis_types()[static_cast<std::size_t>(x)] == AxisType::Explicit)
        dim.push_back(static_cast<std::uint8_t>(x));
    }
    for (auto x : own.dims[d]) {
      if ((manual >> x & 1) == 0) dim.push_back(x);
    }
    want.dims.push_back(std::move(dim));
  }
  if (want == own) return a;
  if (p.manual.size() == p.mesh_sizes.size() && mesh.are_all_axes_explicit()) {
    throw ValueError(str("shard_map: in_specs ", spec, " of leaf ", i, " differs from the argument's type ",
                         a.impl()->type, ", placed by ", spec_text(own),
                         "; leave in_specs out (Infer), or reshard the argument: reshard(x, ", spec_text(want), ")"));
  }
  return program::reshard_typed(a, ir::intern(std::move(want)), nullptr, "shard_map");
}

}  // namespace

std::vector<Array> shard_map_leaves(const LeafFn& body, const std::vector<Array>& leaves, ShardMapCall& call,
                                    const Loc& loc) {
  program::check_leaves(leaves, "shard_map", call.names);
  ops::ShardMap p = map_of(call);
  adopt_devices(p, call, leaves);
  const bool infer = call.in_specs.inferred();
  std::vector<PartitionSpec> in_specs;
  if (!infer) in_specs = call.in_specs.resolve(call.leaves_per_arg, "in_specs");
  const AbstractMesh typed = typed_mesh(call, leaves);
  std::vector<Array> placed = leaves;
  ir::Types blocks;
  Blocks checked_blocks;
  std::vector<ops::NameSet> inputs;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (infer) in_specs.push_back(spec_of_type(p, typed, leaves[i]));
    add_spec(p.in_specs, p, call, in_specs[i], leaves[i].ndim(), "in_specs");
    if (!typed.empty()) placed[i] = as_spec(p, typed, leaves[i], in_specs[i], i);
    ir::Type t = ops::block_type(p, program::type_of(placed[i], "shard_map"));
    t.shape = checked_blocks.of(p, i, t.shape);
    blocks.push_back(std::move(t));
    std::vector<Dims> varies = p.in_specs.list[i];
    varies.push_back(p.in_specs.unreduced_of(i));
    varies.push_back(p.in_specs.reduced_of(i));
    inputs.push_back(ops::unite(program::varying_of(leaves[i]), set_of(p, varies)));
  }
  program::Traced t;
  {
    program::MeshAxesScope scope(manual_of(p, call), bindings_of(p));
    std::optional<UseAbstractMesh> axes;
    if (!typed.empty()) axes.emplace(inner_mesh(p, typed));
    t = checked_blocks.trace(body, blocks, inputs);
  }
  p.body = t.graph;
  std::vector<Array> all = placed;
  for (const auto& c : t.captures) {
    all.push_back(c);
    p.in_specs.list.emplace_back(static_cast<std::size_t>(c.ndim()));
    inputs.push_back(program::varying_of(c));
  }
  std::vector<PartitionSpec> out_specs = call.out_specs.resolve(call.leaves_per_result, "out_specs");
  ir::Types results = t.graph->output_types();
  for (std::size_t i = 0; i < results.size(); ++i) {
    add_spec(p.out_specs, p, call, out_specs[i], results[i].rank(), "out_specs");
  }
  if (p.checked) check_results(p, t, inputs, out_specs);
  if (program::Trace* outer = program::Trace::current()) {
    ir::Values in;
    for (const auto& a : all) in.push_back(outer->lift(a, "shard_map"));
    outer->builder().set_loc(loc);
    std::vector<Array> out;
    for (auto v : ops::shard_map(outer->builder(), p, in)) out.push_back(outer->wrap(v));
    return out;
  }
  ir::Builder b;
  b.set_loc(loc);
  ir::Values in;
  for (const auto& a : all) in.push_back(b.input(program::type_of(a, "shard_map")));
  return program::bind_graph(ir::after_pass("shard_map", b.finish_shared(ops::shard_map(b, p, in))), all, loc);
}

}  // namespace detail
}  // namespace tessera
