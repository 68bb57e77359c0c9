// SPDX-License-Identifier: Apache-2.0
#include "tessera/explicit_sharding.h"

#include <algorithm>
#include <ranges>

#include "base/strings.h"
#include "ir/derive_sharding.h"
#include "ir/pass.h"
#include "mesh/mesh_state.h"
#include "ops/shared_attrs.h"
#include "program/axis_env.h"
#include "program/trace.h"
#include "program/typed/typed_placement.h"
#include "sharding/fits.h"
#include "tessera/error.h"
#include "tessera/mesh.h"
#include "tessera/ops.h"

namespace tessera {

namespace {

using program::has_explicit;
using program::spec_of;

ArrayType public_type(const ir::Type& own, ops::NameSet varying) {
  const ir::Type t = arrays::visible(own);
  ArrayType out{t.shape, t.dtype, t.weak, {}, {}, {}};
  if (t.sharding != nullptr) {
    out.mesh = t.sharding->mesh;
    out.spec = spec_of(*t.sharding);
  } else {
    const AbstractMesh& current = get_abstract_mesh();
    if (has_explicit(current)) out.mesh = current;
    out.spec = PartitionSpec(std::vector<SpecEntry>(t.shape.size(), SpecEntry(none)));
  }
  const AbstractMesh& current = get_abstract_mesh();
  auto place = [&](const std::string& name) { return current.axis_index(name).value_or(INT32_MAX); };
  std::ranges::stable_sort(varying, [&](const auto& a, const auto& b) { return place(a) < place(b); });
  out.varying = std::move(varying);
  return out;
}

std::string type_text(const ArrayType& t, const std::string& dtype) {
  std::string out = str(t.weak ? "~" : "", dtype, "[");
  auto names = [](const std::vector<AxisRef>& axes) {
    std::string list;
    for (const auto& a : axes) list += str(list.empty() ? "" : ",", a.is_name() ? a.name() : str(a.number()));
    return axes.size() == 1 ? list : str("(", list, ")");
  };
  for (std::size_t d = 0; d < t.shape.size(); ++d) {
    out += str(d == 0 ? "" : ",", t.shape[d]);
    if (d < t.spec.size() && !t.spec[d].axes().empty()) out += str("@", names(t.spec[d].axes()));
  }
  out += "]";
  // Sets stand in mesh order.
  auto in_order = [&](std::vector<AxisRef> axes) {
    std::ranges::stable_sort(axes, {}, [&](const AxisRef& a) { return t.mesh.axis_index(a).value_or(INT32_MAX); });
    return axes;
  };
  std::string marks;
  auto mark = [&](const char* what, const std::vector<AxisRef>& axes) {
    if (!axes.empty()) marks += str(marks.empty() ? "" : ", ", what, ":", names(in_order(axes)));
  };
  std::vector<AxisRef> varying(t.varying.begin(), t.varying.end());
  if (!varying.empty()) marks = str("V:", names(varying));
  mark("U", t.spec.unreduced());
  mark("R", t.spec.reduced());
  return marks.empty() ? out : str(out, "{", marks, "}");
}

}  // namespace

std::string ArrayType::text() const { return type_text(*this, std::string(dtype_name(dtype))); }
std::string to_string(const ArrayType& t) { return type_text(t, std::string(dtype_short(t.dtype))); }

ArrayType type_of(const Operand& x) {
  const auto& impl = *arrays::checked(x.array(), "type_of");
  return public_type(impl.type, program::varying_of(x.array()));
}

std::vector<ArrayType> eval_types(const std::function<std::vector<Array>(const std::vector<Array>&)>& f,
                                  const std::vector<Array>& args, const Loc&) {
  ir::Types types;
  for (const auto& a : args) types.push_back(arrays::checked(a, "eval_types")->type);
  std::vector<ArrayType> out;
  for (const auto& t : program::trace(f, types, program::varying_of(args)).graph->output_types()) {
    out.push_back(public_type(t, {}));
  }
  return out;
}

namespace program {

bool has_explicit(const AbstractMesh& mesh) {
  return std::ranges::any_of(mesh.axis_types(), [](AxisType t) { return t == AxisType::Explicit; });
}

PartitionSpec spec_of(const ir::TypeSharding& s) {
  auto refs = [&](const ir::AxisList& axes) {
    std::vector<AxisRef> out;
    for (auto a : axes) out.emplace_back(s.mesh.shape_tuple()[a].name);
    return out;
  };
  std::vector<SpecEntry> entries;
  for (const auto& d : s.dims) entries.push_back(d.empty() ? SpecEntry(none) : SpecEntry(refs(d)));
  return PartitionSpec(std::move(entries))
      .with_unreduced(refs(ir::axes_of(s.unreduced)))
      .with_reduced(refs(ir::axes_of(s.reduced)));
}

bool is_typed_here(const Array& a) { return a.impl()->type.sharding != nullptr || has_explicit(get_abstract_mesh()); }

ir::TypeShardingPtr wanted_type(const ShardingArg& to, const Shape& shape, const std::string& function) {
  const NamedSharding* named = nullptr;
  if (to.sharding() != nullptr) {
    named = dynamic_cast<const NamedSharding*>(to.sharding().get());
    if (named == nullptr) {
      throw TypeError(str(function, ": sharding = ", to.sharding()->text(), "; expected a NamedSharding or a spec"));
    }
  }
  const AbstractMesh mesh = named != nullptr ? named->mesh().abstract_mesh() : get_abstract_mesh();
  const PartitionSpec spec = named != nullptr ? named->spec() : to.spec().value();
  if (mesh.empty()) {
    throw ValueError(
        str(function, ": the spec ", spec, " needs a mesh: set one (SetMesh, MeshScope) or give a NamedSharding"));
  }
  const NamedSharding resolved = sharding::named(function, "spec", mesh, spec);
  auto check = [&](std::span<const int> axes) {
    for (int a : axes) {
      const AxisType type = mesh.axis_types()[static_cast<std::size_t>(a)];
      if (type == AxisType::Explicit) continue;
      throw ValueError(
          str(function, ": spec = ", spec, " names the mesh axis '",
              mesh.shape_tuple()[static_cast<std::size_t>(a)].name, "', which is ", to_string(type), " in ", mesh,
              "; expected Explicit axes (reshard moves over those; with_sharding_constraint names ", "Auto ones)"));
    }
  };
  for (std::size_t d = 0; d < spec.size(); ++d) {
    if (spec[d].is_unconstrained()) {
      throw ValueError(str(function, ": spec = ", spec, " has an UNCONSTRAINED entry, which only Auto axes can fill; ",
                           "expected axes or none over the mesh ", mesh));
    }
    check(resolved.dim_axes(d));
  }
  check(resolved.unreduced_axes());
  check(resolved.reduced_axes());
  if (static_cast<std::int64_t>(spec.size()) > rank(shape)) {
    throw ValueError(str(function, ": spec = ", spec, " has ", spec.size(), " entries for a value of shape ", shape,
                         ", of rank ", rank(shape), "; expected at most one a dimension"));
  }
  sharding::check_fits(function, "sharding", resolved, shape);
  return ir::type_sharding(resolved, rank(shape));
}

Array reshard_typed(const Array& a, ir::TypeShardingPtr to, const ShardingArg& named, const char* function) {
  if (to == nullptr) return a;
  if (Trace* t = Trace::current()) {
    const ir::Value x = t->lift(a, function);
    if (x.type().sharding != nullptr && !(x.type().sharding->mesh == to->mesh)) {
      throw ValueError(str(function, ": the value ", x.type(), " is typed over the mesh ", x.type().sharding->mesh,
                           "; expected that of the spec, ", to->mesh));
    }
    t->builder().set_loc(Loc::current());
    return t->wrap(ops::reshard_to(x, to), "reshard", Loc::current());
  }
  if (named.sharding() != nullptr && named.sharding()->is_concrete()) return device_put(a, named.sharding());
  // Over the devices of the mesh that is current, or of the array's own.
  const auto* own = dynamic_cast<const NamedSharding*>(a.impl()->sharding.get());
  if (own != nullptr && own->mesh().abstract_mesh() == to->mesh && own->is_concrete()) {
    return device_put(a, NamedSharding(own->mesh(), spec_of(*to)).share());
  }
  return device_put(a, NamedSharding(current_mesh(), spec_of(*to)).share());
}

namespace {

bool contracts(const std::string& function) {
  for (const char* name : {"dot_general", "dot", "matmul", "einsum", "tensordot", "ragged_dot", "ragged_dot_general"}) {
    if (function == name) return true;
  }
  return false;
}
bool sums(const std::string& function) { return function == "reduce_sum" || function == "sum"; }

// "dot_general of f32[8@x,4], f32[4,8]"
std::string last_equation(Trace& t) {
  const ir::Graph& g = t.builder().graph();
  if (g.eqns.empty()) return "it";
  const ir::Eqn& e = g.eqns.back();
  ir::Types in;
  for (auto v : e.in) in.push_back(g.type(v));
  return str(e.op->name(), " of ", ir::types_text(in));
}

// Products refuse sums also where the result's placement is given.
void check_products(Trace& t, std::size_t own, const std::string& function) {
  const ir::Graph& g = t.builder().graph();
  for (const auto& e : g.eqns | std::views::reverse) {
    if (!e.out.empty() && static_cast<std::size_t>(e.out[0]) < own) return;
    if (e.op != &ops::def::dot_general) continue;
    for (auto v : e.in) {
      const auto* s = g.type(v).sharding;
      if (s == nullptr || s->unreduced == 0) continue;
      throw ShardingTypeError(str(function, ", dot_general: an operand is unreduced, ", g.type(v),
                                  "; reshard it to a spec without unreduced axes"));
    }
  }
}

// The result of `f`, typed as `want`, in the current trace.
Array placed_in_trace(const ShardingArg& out, const std::string& function, const std::function<Array()>& f) {
  Trace* t = Trace::current();
  const std::size_t own = t->builder().graph().num_values();
  // The shape is known only when the value is there; the axes before.
  const auto* named = dynamic_cast<const NamedSharding*>(out.sharding().get());
  const AbstractMesh& mesh = named != nullptr ? named->mesh().abstract_mesh() : get_abstract_mesh();
  const PartitionSpec& spec = named != nullptr ? named->spec() : out.spec().value();
  ir::AxisMask open = 0;
  const bool opens = contracts(function) || sums(function);
  if (opens) {
    for (const auto& a : spec.unreduced()) {
      if (auto i = mesh.axis_index(a)) open |= ir::AxisMask{1} << *i;
    }
  }
  Array made;
  {
    LenientTyping lenient(open);
    made = f();
  }
  ir::Value x = t->lift(made, function.c_str());
  ir::TypeShardingPtr want = wanted_type(out, x.shape(), function);
  if (want == nullptr) return made;
  const ir::AxisMask have = x.type().sharding != nullptr ? x.type().sharding->unreduced : 0;
  if (contracts(function)) check_products(*t, own, function);
  if (opens && (want->unreduced & ~have) != 0) {
    throw ShardingTypeError(
        str(function, ": out_sharding = ", spec_text(*want), " is unreduced over axes that the ",
            contracts(function) ? "contracting dimensions of both operands are not split over alike"
                                : "summed dimensions are not split over",
            "; ", last_equation(*t), " gives ", x.type(), ". Expected unreduced to be ",
            contracts(function) ? "exactly the axes of the contracting dimensions" : "axes of summed dimensions"));
  }
  t->builder().set_loc(Loc::current());
  x = ops::placed_as(x, want, own);
  return t->wrap(x, "reshard", Loc::current());
}

}  // namespace
}  // namespace program

namespace detail {

Array placed_as(const ShardingArg& out, const char* function, const std::function<Array()>& f) {
  if (!out.given()) return f();
  const auto* named = dynamic_cast<const NamedSharding*>(out.sharding().get());
  const AbstractMesh& mesh = named != nullptr ? named->mesh().abstract_mesh() : get_abstract_mesh();
  if (!has_explicit(mesh)) {
    // Over automatic axes it is a constraint.
    if (mesh.empty() && out.spec()) program::wanted_type(out, {}, function);
    const Array made = f();
    if (mesh.empty() || mesh::axes_are_set()) program::wanted_type(out, made.shape(), function);
    return with_sharding_constraint(made, out.resolve(function, "out_sharding"));
  }
  if (program::Trace::current() != nullptr) return program::placed_in_trace(out, function, f);
  const program::Traced t = program::trace(
      [&](const std::vector<Array>&) { return std::vector<Array>{program::placed_in_trace(out, function, f)}; }, {});
  const Array made = program::bind_graph(t.graph, t.captures, Loc::current())[0];
  // Without arguments and without a mesh in scope only the sharding knows the devices.
  const bool placed = made.impl()->type.sharding == t.graph->output_types()[0].sharding;
  return placed || named == nullptr || !named->is_concrete() ? made : device_put(made, out.sharding());
}

namespace {

// --- other types of axes --------------------------------------------------------------------------------------------

AbstractMesh changed(const AbstractMesh& mesh, const std::optional<AxisNames>& axes, AxisType from, AxisType to,
                     const char* function) {
  AxisTypes types;
  if (!axes) {
    for (std::size_t i = 0; i < mesh.axis_types().size(); ++i) {
      if (mesh.axis_types()[i] == from) types.emplace_back(mesh.shape_tuple()[i].name, to);
    }
    return mesh.update_axis_types(types);
  }
  for (const auto& name : axes->values()) {
    if (!name) continue;
    auto i = mesh.axis_index(*name);
    if (!i) {
      throw ValueError(str(function, ": axes has '", *name, "', which is no axis of the mesh ", mesh));
    }
    if (mesh.axis_types()[static_cast<std::size_t>(*i)] == AxisType::Manual) {
      throw UnimplementedError(str(function, ": axes has '", *name, "', which the enclosing shard_map maps by hand"));
    }
    types.emplace_back(*name, to);
  }
  return mesh.update_axis_types(types);
}

Array cast(const Array& a, const AbstractMesh& from, const AbstractMesh& to, const char* function) {
  if (from == to) return a;
  program::Trace* t = program::Trace::current();
  ops::MeshCast p;
  for (const auto& x : from.shape_tuple()) {
    p.sizes.push_back(x.size);
    p.names.list.push_back(x.name);
  }
  for (auto type : from.axis_types()) p.from.push_back(static_cast<std::int64_t>(type));
  for (auto type : to.axis_types()) p.to.push_back(static_cast<std::int64_t>(type));
  const ir::Value x = t->lift(a, function);
  return t->wrap(x.builder->add1(ops::def::mesh_cast, {x}, program::attrs(p)), function, Loc::current());
}

// The mesh of the scope, or of the arguments.
AbstractMesh mesh_here(const std::vector<Array>& leaves) {
  if (!get_abstract_mesh().empty()) return get_abstract_mesh();
  for (const auto& a : leaves) {
    if (a.impl()->type.sharding != nullptr) return a.impl()->type.sharding->mesh;
  }
  return {};
}

const ShardingArg& of(const std::vector<ShardingArg>& list, std::size_t i, std::size_t count, const char* function,
                      const char* what) {
  if (list.size() == 1) return list[0];
  if (list.size() != count) {
    throw ValueError(str(function, ": ", what, " has ", list.size(), " entries; expected 1 or ", count));
  }
  return list[i];
}

std::vector<Array> traced_if_eager(const ExplicitLeafFn& f, const std::vector<Array>& leaves, const char* function) {
  if (program::Trace::current() != nullptr) return f(leaves);
  ir::Types types;
  for (const auto& a : leaves) types.push_back(arrays::checked(a, function)->type);
  const program::Traced t = program::trace(f, types);
  std::vector<Array> all = leaves;
  all.insert(all.end(), t.captures.begin(), t.captures.end());
  return program::bind_graph(t.graph, all, Loc::current());
}

}  // namespace

std::vector<Array> auto_axes_leaves(const ExplicitLeafFn& f, const std::vector<Array>& leaves,
                                    const AutoAxesOptions& options) {
  const AbstractMesh outer = mesh_here(leaves);
  if (outer.empty()) throw ValueError("auto_axes: no mesh is current and no argument is typed over one; set a mesh");
  const AbstractMesh inner = changed(outer, options.axes, AxisType::Explicit, AxisType::Auto, "auto_axes");
  if (inner == outer) return f(leaves);
  if (options.out_sharding.empty()) {
    throw TypeError("auto_axes: out_sharding is missing; expected the placement of the results: one, or one a leaf");
  }
  auto run = [&](const std::vector<Array>& given) {
    std::vector<Array> in, out;
    for (const auto& a : given) in.push_back(cast(a, outer, inner, "auto_axes"));
    {
      UseAbstractMesh scope(inner);
      out = f(in);
    }
    for (std::size_t i = 0; i < out.size(); ++i) {
      const ShardingArg& to = of(options.out_sharding, i, out.size(), "auto_axes", "out_sharding");
      const Array back = cast(out[i], inner, outer, "auto_axes");
      program::Trace* t = program::Trace::current();
      const ir::Value x = t->lift(back, "auto_axes");
      const auto* want = program::wanted_type(to, x.shape(), "auto_axes");
      out[i] = want == nullptr ? back : t->wrap(ops::reshard_to(x, want), "reshard", Loc::current());
    }
    return out;
  };
  return traced_if_eager(run, leaves, "auto_axes");
}

std::vector<Array> explicit_axes_leaves(const ExplicitLeafFn& f, const std::vector<Array>& leaves,
                                        const ExplicitAxesOptions& options) {
  const AbstractMesh outer = mesh_here(leaves);
  if (outer.empty()) throw ValueError("explicit_axes: no mesh is current; set a mesh");
  if (options.in_sharding.empty()) {
    throw TypeError(
        "explicit_axes: in_sharding is missing; expected the placement of the arguments: one, or one a leaf");
  }
  const AbstractMesh inner = changed(outer, options.axes, AxisType::Auto, AxisType::Explicit, "explicit_axes");
  auto run = [&](const std::vector<Array>& given) {
    std::vector<Array> in, out;
    for (const auto& a : given) in.push_back(cast(a, outer, inner, "explicit_axes"));
    {
      UseAbstractMesh scope(inner);
      for (std::size_t i = 0; i < in.size(); ++i) {
        const ShardingArg& to = of(options.in_sharding, i, in.size(), "explicit_axes", "in_sharding");
        if (!to.given()) continue;
        in[i] = program::reshard_typed(in[i], program::wanted_type(to, in[i].shape(), "reshard"), to, "explicit_axes");
      }
      out = f(in);
    }
    for (auto& a : out) a = cast(a, inner, outer, "explicit_axes");
    return out;
  };
  return traced_if_eager(run, leaves, "explicit_axes");
}

}  // namespace detail
}  // namespace tessera
