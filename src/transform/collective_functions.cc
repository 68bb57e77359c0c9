// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "base/strings.h"
#include "ops/collective/collectives.h"
#include "ops/shape/indexing_ops.h"
#include "program/axis_env.h"
#include "program/graph_fragment.h"
#include "program/promote.h"
#include "tessera/collectives.h"
#include "tessera/ops.h"
#include "transform/collective_axes.h"

namespace tessera {

namespace {

using ir::Value;
using ir::Values;
using ops::Collective;
using program::Axes;
using program::each;
using program::one;
using program::positions;
using program::resolve;
using program::set_groups;

bool is_constant(const Array& a) { return a.impl()->trace == 0; }

// Names of meshes are typed in checked maps, those of vmaps are not: a reduction over both takes two steps.
Value over_names(Value x, const Collective& p, Value (*reduce)(Value, const Collective&)) {
  if (!p.checked || p.groups) return reduce(x, p);
  Collective mapped = p;
  Collective rest = p;
  for (auto* c : {&mapped, &rest}) {
    c->names.list.clear();
    c->sizes.clear();
  }
  mapped.checked = false;
  for (std::size_t i = 0; i < p.names.list.size(); ++i) {
    Collective& c = ops::is_vmapped(p.names.list[i]) ? mapped : rest;
    c.names.list.push_back(p.names.list[i]);
    c.sizes.push_back(p.sizes[i]);
  }
  return reduce(reduce(x, mapped), rest);
}

const char* name_of(detail::AxisReduction kind) {
  static constexpr const char* names[] = {"psum", "pmean", "pmax", "pmin"};
  return names[static_cast<int>(kind)];
}

DType mean_dtype(DType t) {
  if (is_inexact(t)) return t;
  return dtype_size(t) == 8 ? float64 : float32;
}

// psum of a constant: no communication.
Value times_instances(Value x, const Axes& axes, const char* function) {
  if (is_bool(x.dtype())) x = ops::convert(x, int32);
  x = ops::reduce_sum(x, positions(axes.positional, x.rank(), function, true));
  return x * static_cast<double>(axes.named.group_size());
}

Value mean_of(Value sum, const Axes& axes) {
  sum = ops::convert(sum, mean_dtype(sum.dtype()));
  return sum / static_cast<double>(axes.named.group_size());
}

Value reduce_value(detail::AxisReduction kind, Value x, const Axes& axes, bool constant) {
  using detail::AxisReduction;
  const char* function = name_of(kind);
  if (kind == AxisReduction::Max || kind == AxisReduction::Min) {
    Dims dims = positions(axes.positional, x.rank(), function, false);
    bool maximum = kind == AxisReduction::Max;
    if (!dims.empty()) x = maximum ? ops::reduce_max(x, dims) : ops::reduce_min(x, dims);
    if (constant) return x;
    return over_names(x, axes.named, maximum ? ops::pmax : ops::pmin);
  }
  Value sum;
  if (constant) {
    sum = times_instances(x, axes, function);
  } else {
    if (is_bool(x.dtype())) x = ops::convert(x, int32);
    Dims dims = positions(axes.positional, x.rank(), function, false);
    if (!dims.empty()) x = ops::reduce_sum(x, dims);
    sum = over_names(x, axes.named, ops::psum);
  }
  return kind == AxisReduction::Mean ? mean_of(sum, axes) : sum;
}

Axes resolve_reduction(detail::AxisReduction kind, const AxisNames& axes, const ReduceOptions& o) {
  const char* function = name_of(kind);
  if (o.axis || o.keepdims || o.dtype || o.initial || o.where || o.out_sharding.given()) {
    throw ValueError(str(function,
                         ": axis, keepdims, dtype, initial, where and out_sharding are options of reductions over "
                         "dimensions; name axes in "
                         "the argument axes"));
  }
  Axes out = resolve(axes, function, true);
  set_groups(out, o.axis_index_groups, function, false);
  if (kind == detail::AxisReduction::Mean && !out.positional.empty()) {
    throw ValueError(str(function, ": axes has the positional axis ", out.positional[0], "; expected names"));
  }
  return out;
}

bool nothing(const Axes& a) { return a.named.names.list.empty() && a.positional.empty(); }

std::int64_t dimension(const char* function, const char* what, std::int64_t d, std::int64_t rank) {
  if (d < 0 || d >= rank) {
    throw IndexError(str(function, ": ", what, " = ", d, " is out of range; expected 0 to ", rank - 1));
  }
  return d;
}

}  // namespace

namespace detail {

Leaves axis_reduce(AxisReduction kind, const Leaves& x, const AxisNames& names, const ReduceOptions& o,
                   const Loc& loc) {
  Axes axes = resolve_reduction(kind, names, o);
  if (nothing(axes) && kind != AxisReduction::Mean) return x;
  Leaves out;
  for (const auto& a : x) {
    bool constant = is_constant(a) && (kind == AxisReduction::Sum || kind == AxisReduction::Mean);
    out.push_back(one(name_of(kind), loc, a, [&](Value v) { return reduce_value(kind, v, axes, constant); }));
  }
  return out;
}

HostArray axis_reduce_host(AxisReduction kind, const HostArray& x, const AxisNames& names, const ReduceOptions& o) {
  Axes axes = resolve_reduction(kind, names, o);
  program::TraceSuspension at_once;
  return one(name_of(kind), Loc::current(), Array(x), [&](Value v) { return reduce_value(kind, v, axes, true); })
      .host();
}

std::int64_t reduced_instances(const AxisNames& names, const ReduceOptions& o, const char* function) {
  AxisReduction kind = std::string(function) == "pmean" ? AxisReduction::Mean : AxisReduction::Sum;
  Axes axes = resolve_reduction(kind, names, o);
  positions(axes.positional, 0, function, true);
  return axes.named.group_size();
}

Array arg_extreme(const Leaves& x, const AxisNames& axis, bool maximum, const Loc& loc) {
  const char* function = maximum ? "pargmax" : "pargmin";
  if (!axis.is_single()) {
    throw TypeError(str(function, " only accepts a single axis; got a list of ", axis.values().size()));
  }
  if (x.size() != 1) throw TypeError(str(function, ": x is a tree of ", x.size(), " arrays; expected one array"));
  Axes axes = resolve(axis, function);
  return program::graph_fragment1(function, loc, x, [&](ir::Builder& b, const Values& v) {
    const Collective& p = axes.named;
    Value value = v[0];
    Value own = is_inexact(value.dtype()) ? ops::no_derivative(value, function) : value;
    Value extreme = maximum ? ops::pmax(own, p) : ops::pmin(own, p);
    Value index = ops::broadcast_to(ops::axis_index(b, p), value.shape());
    Value none = ops::full(b, std::numeric_limits<std::int32_t>::max(), ir::Type{int32, value.shape()});
    return ops::pmin(ops::where(ops::eq(own, extreme), index, none), p);
  });
}

Leaves pbroadcast(const Leaves& x, const AxisNames& names, std::int64_t source, const Loc& loc) {
  ops::Pbroadcast p;
  static_cast<Collective&>(p) = resolve(names, "pbroadcast").named;
  if (source < 0 || source >= p.total()) {
    throw IndexError(str("pbroadcast: source = ", source, " is out of range; expected 0 to ", p.total() - 1));
  }
  p.source = source;
  return each("pbroadcast", loc, x, [&](Value v) { return ops::pbroadcast(v, p); });
}

namespace {
// Names in the order of their bindings, which for the axes of one mesh is the mesh's.
void sort_names(Collective& p) {
  std::vector<std::pair<std::string, std::int64_t>> sorted;
  for (const auto& b : program::axis_env()) {
    auto it = std::find(p.names.list.begin(), p.names.list.end(), b.internal);
    if (it == p.names.list.end()) continue;
    bool known = std::any_of(sorted.begin(), sorted.end(), [&](const auto& s) { return s.first == b.internal; });
    if (!known) sorted.emplace_back(b.internal, p.sizes[static_cast<std::size_t>(it - p.names.list.begin())]);
  }
  p.names.list.clear();
  p.sizes.clear();
  for (const auto& [name, size] : sorted) {
    p.names.list.push_back(name);
    p.sizes.push_back(size);
  }
}

Leaves permute(const char* function, const Leaves& x, const AxisNames& names, const PermutationPairs& perm,
               const Loc& loc) {
  ops::Ppermute p;
  static_cast<Collective&>(p) = resolve(names, function).named;
  sort_names(p);
  std::int64_t n = p.total();
  std::vector<bool> used[2] = {std::vector<bool>(static_cast<std::size_t>(n)),
                               std::vector<bool>(static_cast<std::size_t>(n))};
  for (const auto& [s, d] : perm) {
    Dims pair{s, d};
    for (std::size_t k = 0; k < 2; ++k) {
      if (pair[k] < -n || pair[k] >= n) {
        throw IndexError(str(function, ": perm has the ", k == 0 ? "source " : "destination ", pair[k],
                             ", which is out of range for ", n, " instances"));
      }
      if (pair[k] < 0) pair[k] += n;
    }
    for (std::size_t k = 0; k < 2; ++k) {
      auto i = static_cast<std::size_t>(pair[k]);
      if (used[k][i]) {
        throw ValueError(str(function, ": sources and destinations of perm must be unique; the ",
                             k == 0 ? "source " : "destination ", pair[k], " is not"));
      }
      used[k][i] = true;
    }
    p.pairs.push_back(pair);
  }
  if (p.names.list.empty()) return x;
  return each(function, loc, x, [&](Value v) { return ops::ppermute(v, p); });
}
}  // namespace

Leaves ppermute(const Leaves& x, const AxisNames& names, const PermutationPairs& perm, const Loc& loc) {
  return permute("ppermute", x, names, perm, loc);
}

Leaves pshuffle(const Leaves& x, const AxisNames& names, const std::vector<std::int64_t>& perm, const Loc& loc) {
  std::vector<std::int64_t> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  PermutationPairs pairs;
  for (std::size_t i = 0; i < perm.size(); ++i) {
    if (sorted[i] != static_cast<std::int64_t>(i)) {
      throw ValueError(
          str("pshuffle: perm = ", base::list_text(perm), " is not a permutation of 0 to ", perm.size() - 1));
    }
    pairs.emplace_back(perm[i], static_cast<std::int64_t>(i));
  }
  if (std::int64_t n = resolve(names, "pshuffle").named.total(); static_cast<std::int64_t>(perm.size()) > n) {
    throw ValueError(str("pshuffle: perm has ", perm.size(), " entries for ", n,
                         " instances; expected unique indices of instances"));
  }
  return permute("pshuffle", x, names, pairs, loc);
}

Leaves all_to_all(const Leaves& x, const AxisNames& names, std::int64_t split, std::int64_t concat,
                  const AllToAllOptions& o, const char* function, const Loc& loc) {
  Axes axes = resolve(names, function);
  set_groups(axes, o.axis_index_groups, function, true);
  ops::AllToAll p;
  static_cast<Collective&>(p) = axes.named;
  std::int64_t n = p.group_size();
  return each(function, loc, x, [&](Value v) {
    p.split = dimension(function, "split_axis", split, v.rank());
    p.concat = dimension(function, "concat_axis", concat, v.rank());
    std::int64_t extent = v.shape()[static_cast<std::size_t>(split)];
    if (o.tiled) {
      if (extent % n != 0) {
        throw ValueError(str(function, ": dimension ", split, " has size ", extent, ", which is not divisible by the ",
                             n, " instances"));
      }
      return ops::all_to_all(v, p);
    }
    if (extent != n) {
      throw ValueError(
          str(function, ": dimension ", split, " has size ", extent, "; expected ", n, ", the number of instances"));
    }
    if (split == concat) return ops::all_to_all(v, p);
    // The result's new dimension stands where `concat` counts without the split one.
    p.concat = split < concat ? concat + 1 : concat;
    p.split = split < concat ? split : split + 1;
    Value y = ops::all_to_all(ops::expand_dims(v, {p.concat}), p);
    return ops::squeeze(y, {p.split});
  });
}

Leaves all_gather(const Leaves& x, const AxisNames& names, const AllGatherOptions& o, const char* function,
                  const Loc& loc) {
  Axes axes = resolve(names, function);
  set_groups(axes, o.axis_index_groups, function, true);
  // A reduced result is equal along the names too; the spec by which it leaves the map says the rest.
  bool invarying = o.to == GatherTo::invarying || o.to == GatherTo::reduced;
  if (!invarying && o.to != GatherTo::varying) {
    throw ValueError(str(function, ": to = ", static_cast<int>(o.to), "; expected varying, invarying or reduced"));
  }
  if (invarying && o.axis_index_groups) {
    throw UnimplementedError(str(function,
                                 ": to = invarying with axis_index_groups is not supported, since groups "
                                 "see different values"));
  }
  ops::AllGather p;
  static_cast<Collective&>(p) = axes.named;
  p.to_invariant = invarying && p.checked;
  if (p.names.list.empty()) return x;
  return each(function, loc, x, [&](Value v) {
    std::int64_t rank = v.rank() + (o.tiled ? 0 : 1);
    if (o.axis < -rank || o.axis >= rank) {
      throw IndexError(str(function, ": axis = ", o.axis, " is out of range for a block of shape ", v.shape(),
                           o.tiled ? ", tiled" : ""));
    }
    p.dim = o.axis < 0 ? o.axis + rank : o.axis;
    return ops::all_gather(o.tiled ? v : ops::expand_dims(v, {p.dim}), p);
  });
}

Leaves psum_scatter(const Leaves& x, const AxisNames& names, const PsumScatterOptions& o, const Loc& loc) {
  const char* function = "psum_scatter";
  Axes axes = resolve(names, function);
  set_groups(axes, o.axis_index_groups, function, true);
  ops::PsumScatter p;
  static_cast<Collective&>(p) = axes.named;
  if (p.names.list.empty()) return x;
  std::int64_t n = p.group_size();
  return each(function, loc, x, [&](Value v) {
    p.dim = dimension(function, "scatter_dimension", o.scatter_dimension, v.rank());
    std::int64_t extent = v.shape()[static_cast<std::size_t>(p.dim)];
    if (o.tiled ? extent % n != 0 : extent != n) {
      throw ValueError(
          str(function, ": scatter_dimension ", p.dim, " has size ", extent, "; expected ", n,
              o.tiled ? " times something (divisible by the number of instances)" : ", the number of instances"));
    }
    Value y = ops::psum_scatter(v, p);
    return o.tiled ? y : ops::squeeze(y, {p.dim});
  });
}

namespace {
// The names that are axes of meshes; none in a map that does not check types.
Collective checked_names(const AxisNames& names, const char* function) {
  Collective mesh = resolve(names, function).named;
  std::vector<std::string> list;
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < mesh.names.list.size() && mesh.checked; ++i) {
    if (ops::is_vmapped(mesh.names.list[i])) continue;
    list.push_back(mesh.names.list[i]);
    sizes.push_back(mesh.sizes[i]);
  }
  mesh.names.list = std::move(list);
  mesh.sizes.assign(sizes.begin(), sizes.end());
  return mesh;
}
}  // namespace

Leaves pcast(const Leaves& x, const AxisNames& names, CastTo to, const Loc& loc) {
  if (to == CastTo::varying) return pvary(x, names, "pcast", loc);
  if (to != CastTo::reduced && to != CastTo::unreduced) {
    throw ValueError(str("pcast: to = ", static_cast<int>(to), "; expected varying, reduced or unreduced"));
  }
  // What tells the types apart is the spec by which the value leaves the map.
  Collective mesh = checked_names(names, "pcast");
  bool sums = to == CastTo::unreduced;
  for (const auto& a : x) {
    ops::NameSet set = program::varying_of(a);
    for (const auto& name : mesh.names.list) {
      if (ops::contains(set, name) == sums) continue;
      throw ValueError(str("pcast: to = ", sums ? "unreduced" : "reduced", " and the value is ",
                           sums ? "invarying" : "varying", " over ", name, "; expected one that ",
                           sums ? "varies over all of axes" : "is invarying over all of axes"));
    }
  }
  return x;
}

Leaves pvary(const Leaves& x, const AxisNames& names, const char* function, const Loc& loc) {
  Collective mesh = checked_names(names, function);
  if (mesh.names.list.empty()) return x;
  for (const auto& a : x) {
    ops::NameSet set = program::varying_of(a);
    for (const auto& name : mesh.names.list) {
      if (ops::contains(set, name) && !program::find_axis(name, function).reduced) {
        throw ValueError(str(function, ": the value is varying over ", name, " already; expected one that is invarying",
                             " over all of axes"));
      }
    }
  }
  return each(function, loc, x, [&](Value v) { return ops::pvary(v, mesh); });
}

}  // namespace detail

Array ragged_all_to_all(const Array& operand, const Array& output, const Array& input_offsets, const Array& send_sizes,
                        const Array& output_offsets, const Array& recv_sizes, const AxisNames& names,
                        const ReduceOptions& o, const Loc& loc) {
  Axes axes = resolve(names, "ragged_all_to_all");
  set_groups(axes, o.axis_index_groups, "ragged_all_to_all", true);
  std::vector<Array> in{operand, output, input_offsets, send_sizes, output_offsets, recv_sizes};
  return program::graph_fragment1("ragged_all_to_all", loc, in,
                                  [&](ir::Builder&, const Values& v) { return ops::ragged_all_to_all(v, axes.named); });
}

Array axis_index(const AxisNames& names, const Loc& loc) {
  Axes axes = resolve(names, "axis_index");
  return program::graph_fragment1("axis_index", loc, {},
                                  [&](ir::Builder& b, const Values&) { return ops::axis_index(b, axes.named); });
}

std::int64_t axis_size(const AxisNames& names, const Loc&) { return resolve(names, "axis_size").named.total(); }

Array pgather(const Array& src, const Array& idx, const AxisNames& names, const Loc& loc) {
  const char* function = "pgather";
  resolve(names, function, true);
  if (!is_integer(program::type_of(idx, function).dtype)) {
    throw TypeError(str(function, ": idx is ", program::type_of(idx, function), "; expected an integer dtype"));
  }
  Array all = src;
  std::int64_t rank = src.ndim();
  Dims numbers;
  for (std::size_t i = 0; i < names.values().size(); ++i) {
    if (auto n = names.number(i)) numbers.push_back(*n);
  }
  Dims own = positions(numbers, rank, function, false);
  // Names first, each stacked in front of the last, then the order of the list.
  Dims order;
  std::int64_t stacked = 0;
  std::vector<std::string> named;
  for (const auto& v : names.values()) {
    if (v) named.push_back(*v);
  }
  if (!named.empty()) {
    all = one(function, loc, all, [&](Value v) { return is_inexact(v.dtype()) ? ops::no_derivative(v, function) : v; });
  }
  for (auto it = named.rbegin(); it != named.rend(); ++it) {
    ops::AllGather gather;
    static_cast<Collective&>(gather) = resolve(AxisNames(*it), function).named;
    gather.mapped_only = true;
    all = one(function, loc, all, [&](Value v) { return ops::all_gather(ops::expand_dims(v, {0}), gather); });
    ++stacked;
  }
  std::size_t next_own = 0;
  std::int64_t next_name = 0;
  for (const auto& v : names.values()) order.push_back(v ? next_name++ : own[next_own++] + stacked);
  std::int64_t flat = 1;
  for (auto d : order) flat *= all.shape(d);
  Shape shape{flat};
  for (std::int64_t d = stacked; d < all.ndim(); ++d) {
    if (std::find(order.begin(), order.end(), d) != order.end()) continue;
    order.push_back(d);
    shape.push_back(all.shape(d));
  }
  Array rows = reshape(Operand(transpose(Operand(all, loc), order), loc), shape);
  return program::graph_fragment1(function, loc, {rows, idx}, [&](ir::Builder&, const Values& v) {
    ops::Gather g;
    for (std::int64_t d = 1; d < v[0].rank(); ++d) g.offset_dims.push_back(v[1].rank() + d - 1);
    g.collapsed_slice_dims = {0};
    g.start_index_map = {0};
    g.slice_sizes = v[0].shape();
    g.slice_sizes[0] = 1;
    Shape with_vector = v[1].shape();
    with_vector.push_back(1);
    return ops::gather(v[0], ops::reshape(v[1], with_vector), g);
  });
}

}  // namespace tessera
