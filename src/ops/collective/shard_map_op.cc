// SPDX-License-Identifier: Apache-2.0
#include "ops/collective/shard_map_op.h"

#include <algorithm>

#include "ir/axis_sets.h"
#include "ir/derive_sharding.h"
#include "ops/collective/varying.h"
#include "ops/control/control.h"
#include "ops/define_op.h"
#include "ops/transform/batch_axes.h"

namespace tessera::ops {

std::string field_text(const Specs& v) {
  std::string out = "(";
  for (std::size_t i = 0; i < v.list.size(); ++i) out += (i > 0 ? ", " : "") + ir::field_text(v.list[i]);
  out += ")";
  if (!v.unreduced.empty()) out += " unreduced " + ir::field_text(v.unreduced);
  if (!v.reduced.empty()) out += " reduced " + ir::field_text(v.reduced);
  return out;
}
void read_field(ir::TextReader& r, Specs& v) {
  ir::read_items(r, [&] { ir::read_field(r, v.list.emplace_back()); });
  if (r.accept("unreduced")) ir::read_field(r, v.unreduced);
  if (r.accept("reduced")) ir::read_field(r, v.reduced);
}
std::size_t field_hash(const Specs& v) {
  std::size_t h = 29;
  for (const auto& s : v.list) h = base::hash_mix(h, ir::field_hash(s));
  return base::hash_mix(base::hash_mix(h, ir::field_hash(v.unreduced)), ir::field_hash(v.reduced));
}

namespace {
std::int64_t cut(const ShardMap& p, const Dims& axes) {
  std::int64_t n = 1;
  for (auto a : axes) n *= p.mesh_sizes[at(a)];
  return n;
}
}  // namespace

Shape block_shape(const ShardMap& p, const std::vector<Dims>& spec, const Shape& shape, const std::string& what) {
  Shape out = shape;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::int64_t n = cut(p, spec[d]);
    if (shape[d] % n != 0) {
      std::vector<std::string> axes;
      for (auto a : spec[d]) axes.push_back(str(p.mesh_names.list[at(a)], " of ", p.mesh_sizes[at(a)]));
      throw IndivisibleError(str("shard_map: ", what, " has shape ", shape, ": axis ", d, " of size ", shape[d],
                                 " is not divisible by the mesh axes ", base::join(axes)));
    }
    out[d] /= n;
  }
  return out;
}
Type block_type(const ShardMap& p, const Type& t) {
  Type out = t;
  if (t.sharding == nullptr) return out;
  AxisTypes types;
  const ir::AxisMask manual = ir::mask_of(p.manual);
  for (auto m : p.manual) types.emplace_back(p.mesh_names.list[at(m)], AxisType::Manual);
  ir::TypeSharding s{t.sharding->mesh.update_axis_types(types), t.sharding->dims, 0, 0};
  out.sharding = nullptr;
  if (s.mesh.explicit_axes().empty()) return out;
  for (auto& axes : s.dims) ir::drop_axes(axes, manual);
  out.sharding = ir::intern(std::move(s));
  return out;
}
Shape whole_shape(const ShardMap& p, const std::vector<Dims>& spec, const Shape& block) {
  Shape out = block;
  for (std::size_t d = 0; d < block.size(); ++d) out[d] *= cut(p, spec[d]);
  return out;
}

namespace {

using Spec = std::vector<Dims>;

NameSet spec_names(const ShardMap& p, const Spec& spec) {
  NameSet out;
  for (const auto& dim : spec) {
    for (auto a : dim) out.push_back(p.mesh_names.list[at(a)]);
  }
  std::sort(out.begin(), out.end());
  return out;
}

// What a value inside varies over. One that is reduced counts: each instance has a cotangent of its own for it.
NameSet varying_names(const ShardMap& p, const Specs& specs, std::size_t i) {
  Spec all = specs.list[i];
  all.push_back(specs.unreduced_of(i));
  all.push_back(specs.reduced_of(i));
  return spec_names(p, all);
}

NameSets input_sets(const ShardMap& p) {
  NameSets out;
  for (std::size_t i = 0; i < p.in_specs.list.size(); ++i) out.push_back(varying_names(p, p.in_specs, i));
  return out;
}

// What results are cast to. One that is reduced stays as it is: instances need not have cotangents of their own.
NameSets output_sets(const ShardMap& p) {
  NameSets out;
  for (std::size_t i = 0; i < p.out_specs.list.size(); ++i) {
    Spec all = p.out_specs.list[i];
    all.push_back(p.out_specs.unreduced_of(i));
    out.push_back(spec_names(p, all));
  }
  return out;
}

// The result's placement: what its spec says, and within it that of the block over the axes that stay outside the map.
void place_map(const ir::PlaceArgs& args, Types& out, const ShardMap& p) {
  for (std::size_t k = 0; k < out.size(); ++k) {
    ir::TypeSharding s{args.mesh, ir::DimAxes(out[k].shape.size()), ir::mask_of(p.out_specs.unreduced_of(k)),
                       ir::mask_of(p.out_specs.reduced_of(k))};
    const auto* inner = out[k].sharding;
    for (std::size_t d = 0; d < s.dims.size(); ++d) {
      for (auto a : p.out_specs.list[k][d]) s.dims[d].push_back(static_cast<std::uint8_t>(a));
      if (inner != nullptr) s.dims[d].insert(s.dims[d].end(), inner->dims[d].begin(), inner->dims[d].end());
    }
    ir::set_sharding(args, out[k], std::move(s));
  }
}

Types infer(TypeSpan in, const ShardMap& p) {
  Types blocks;
  for (std::size_t i = 0; i < in.size(); ++i) {
    blocks.push_back(block_type(p, in[i]));
    blocks.back().shape = block_shape(p, p.in_specs.list[i], in[i].shape, str("operand ", i));
  }
  check_inputs("shard_map", "body", *p.body, blocks);
  Types out = p.body->output_types();
  for (std::size_t i = 0; i < out.size(); ++i) out[i].shape = whole_shape(p, p.out_specs.list[i], out[i].shape);
  return out;
}

// The same map of another body.
ShardMap like(const ShardMap& p, GraphPtr body) {
  ShardMap q = p;
  q.body = std::move(body);
  q.in_specs = {};
  q.out_specs = {};
  return q;
}
void append_specs(Specs& to, const Specs& from, const Flags& which = {}) {
  for (std::size_t i = 0; i < from.list.size(); ++i) {
    if (which.empty() || which[i]) to.add(from.list[i], from.unreduced_of(i), from.reduced_of(i));
  }
}
// Those of cotangents: that of a sum is equal for all addends, and that of a reduced value is a sum.
void append_cotangent_specs(Specs& to, const Specs& from, const Flags& which) {
  for (std::size_t i = 0; i < from.list.size(); ++i) {
    if (which[i]) to.add(from.list[i], from.reduced_of(i), from.unreduced_of(i));
  }
}

Duals fused(Builder& b, const ir::DualArgs& a, const ShardMap& p) {
  Flags active = present(a.tangents);
  JvpGraph jvp = jvp_graph(*p.body, active);
  ShardMap q = like(p, jvp.graph);
  append_specs(q.in_specs, p.in_specs);
  append_specs(q.in_specs, p.in_specs, active);
  append_specs(q.out_specs, p.out_specs);
  append_specs(q.out_specs, p.out_specs, jvp.active_out);
  Values in(a.in.begin(), a.in.end());
  append(in, selected(a.tangents, active));
  Values r = shard_map(b, q, in);
  std::size_t n = p.out_specs.list.size();
  Duals d{Values(r.begin(), r.begin() + static_cast<std::ptrdiff_t>(n)), Values(n)};
  for (std::size_t i = 0, k = n; i < n; ++i) {
    if (jvp.active_out[i]) d.tangents[i] = r[k++];
  }
  return d;
}

// Residuals leave the map with a new dimension 0 that is cut by the manual axes over which they vary, and come back
// through it; those that do not vary pass as they are.
struct MapResiduals {
  std::vector<Dims> axes;  // by residual, empty where it is equal everywhere

  MapResiduals(const ShardMap& p, const Linearized& lin) {
    NameSets sets = varying(*lin.known, input_sets(p));
    std::size_t n = lin.known->outputs.size() - lin.num_residuals;
    for (std::size_t i = 0; i < lin.num_residuals; ++i) {
      Dims cut_by;
      for (auto m : p.manual) {
        if (contains(sets[at(lin.known->outputs[n + i])], p.mesh_names.list[at(m)])) cut_by.push_back(m);
      }
      axes.push_back(std::move(cut_by));
    }
  }
  Spec spec(std::size_t i, std::int64_t rank) const {
    Spec s(at(rank));
    if (!axes[i].empty()) s.insert(s.begin(), axes[i]);
    return s;
  }
};

GraphPtr with_stacked_outputs(const Linearized& lin, const MapResiduals& r) {
  Builder b;
  Values in;
  for (const auto& t : lin.known->input_types()) in.push_back(b.input(t));
  Values out = b.inline_graph(*lin.known, in);
  std::size_t n = out.size() - lin.num_residuals;
  for (std::size_t i = 0; i < lin.num_residuals; ++i) {
    if (!r.axes[i].empty()) out[n + i] = expand_dims(out[n + i], {0});
  }
  return b.finish_shared(out);
}
GraphPtr with_stacked_inputs(const Linearized& lin, const MapResiduals& r) {
  Builder b;
  Values in;
  Types types = lin.linear->input_types();
  for (std::size_t i = 0; i < types.size(); ++i) {
    bool is_stacked = i < r.axes.size() && !r.axes[i].empty();
    Value v = b.input(is_stacked ? stacked(types[i], 1) : types[i]);
    in.push_back(is_stacked ? squeeze(v, {0}) : v);
  }
  return b.finish_shared(b.inline_graph(*lin.linear, in));
}

Duals split(Builder& b, const ir::DualArgs& a, const ShardMap& p) {
  Flags active = present(a.tangents);
  Linearized lin = linearize_graph(*p.body, active);
  MapResiduals residuals(p, lin);
  std::size_t n = p.out_specs.list.size();

  ShardMap known = like(p, with_stacked_outputs(lin, residuals));
  append_specs(known.in_specs, p.in_specs);
  append_specs(known.out_specs, p.out_specs);
  ShardMap linear = like(p, with_stacked_inputs(lin, residuals));
  for (std::size_t i = 0; i < lin.num_residuals; ++i) {
    Spec s = residuals.spec(i, lin.known->type(lin.known->outputs[n + i]).rank());
    known.out_specs.add(s);
    linear.in_specs.add(s);
  }
  append_specs(linear.in_specs, p.in_specs, active);
  append_specs(linear.out_specs, p.out_specs, lin.active_out);

  Values r = shard_map(b, known, a.in);
  Values args(r.begin() + static_cast<std::ptrdiff_t>(n), r.end());
  append(args, selected(a.tangents, active));
  r.resize(n);
  Duals d{r, Values(n)};
  Values t = count(lin.active_out) == 0 ? Values{} : shard_map(b, linear, args);
  for (std::size_t i = 0, k = 0; i < n; ++i) {
    if (lin.active_out[i]) d.tangents[i] = t[k++];
  }
  return d;
}

// Manual axes that nothing is said of.
Dims missing_axes(const ShardMap& p, const Specs& specs, std::size_t i) {
  Spec all = specs.list[i];
  all.push_back(specs.unreduced_of(i));
  all.push_back(specs.reduced_of(i));
  Dims out;
  for (auto m : p.manual) {
    bool there =
        std::any_of(all.begin(), all.end(), [&](const Dims& d) { return std::find(d.begin(), d.end(), m) != d.end(); });
    if (!there) out.push_back(m);
  }
  return out;
}

Collective over(const ShardMap& p, const Dims& axes) {
  Collective c;
  for (auto a : axes) {
    c.names.list.push_back(p.mesh_names.list[at(a)]);
    c.sizes.push_back(p.mesh_sizes[at(a)]);
  }
  c.checked = p.checked;
  return c;
}

// The transposed body. Unchecked, a value that a spec declares equal along an axis may differ: the cotangent of a
// result is shared out, and that of an operand is the sum of what all instances want. Checked, the casts in the body do
// it.
GraphPtr transposed_body(const ShardMap& p, const Flags& linear, const Flags& has_ct, Flags& nonzero) {
  Builder b;
  NameSets sets = p.checked ? varying(*p.body, input_sets(p)) : NameSets{};
  Values in;
  Values ct;
  const Graph& g = *p.body;
  for (std::size_t i = 0; i < linear.size(); ++i) in.push_back(linear[i] ? Value{} : b.input(g.type(g.inputs[i])));
  for (std::size_t i = 0; i < has_ct.size(); ++i) {
    const Type& t = g.type(g.outputs[i]);
    ct.push_back(has_ct[i] ? b.input(ir::cotangent_type(t)) : Value{});
    if (!has_ct[i]) continue;
    if (p.checked) {
      // Instances hold addends of the cotangent of a reduced result; one that they share wants their sum.
      Dims shared;
      for (auto a : p.out_specs.reduced_of(i)) {
        if (!contains(sets[at(g.outputs[i])], p.mesh_names.list[at(a)])) shared.push_back(a);
      }
      if (!shared.empty()) ct[i] = psum(ct[i], over(p, shared));
      continue;
    }
    std::int64_t n = cut(p, missing_axes(p, p.out_specs, i));
    if (n > 1) ct[i] = ct[i] / static_cast<double>(n);
  }
  Values back = transpose_inline(b, g, in, ct);
  nonzero = present(back);
  for (std::size_t i = 0; i < back.size(); ++i) {
    if (back[i] && !p.checked) back[i] = psum(back[i], over(p, missing_axes(p, p.in_specs, i)));
  }
  return b.finish_shared(selected(back, nonzero));
}

Values transpose_rule(Builder& b, const TransposeArgs& t, const ShardMap& p) {
  Flags has_ct = present(t.ct);
  Flags fixed = t.linear;
  fixed.flip();
  Flags nonzero;
  ShardMap q = like(p, transposed_body(p, t.linear, has_ct, nonzero));
  append_specs(q.in_specs, p.in_specs, fixed);
  append_cotangent_specs(q.in_specs, p.out_specs, has_ct);
  append_cotangent_specs(q.out_specs, p.in_specs, nonzero);
  Values args = selected(t.in, fixed);
  append(args, selected(t.ct, has_ct));
  Values out(t.linear.size());
  if (count(nonzero) == 0) return out;
  Values r = shard_map(b, q, args);
  for (std::size_t i = 0, k = 0; i < out.size(); ++i) {
    if (nonzero[i]) out[i] = r[k++];
  }
  return out;
}

// The axes of the map that cut the batch: those that the batch asks for, where they divide it and nothing inside needs
// the batch whole.
Dims batch_axes(const ShardMap& p, std::int64_t size) {
  Dims out;
  std::int64_t n = 1;
  for (const auto& name : BatchMeshAxes::current()) {
    for (auto m : p.manual) {
      if (p.mesh_names.list[at(m)] != name) continue;
      for (const auto* specs : {&p.in_specs, &p.out_specs}) {
        for (std::size_t i = 0; i < specs->list.size(); ++i) {
          if (!contains(varying_names(p, *specs, i), name)) continue;
          throw ValueError(str("vmap: spmd_axis_name = ", name,
                               " occurs in a spec of the shard_map inside; expected an ",
                               "axis that its in_specs and out_specs leave out"));
        }
      }
      out.push_back(m);
      n *= p.mesh_sizes[at(m)];
    }
  }
  const std::string& name = BatchName::current();
  bool whole = size % n != 0 || (!name.empty() && uses_name(*p.body, name));
  return whole ? Dims{} : out;
}

// The batch is one more dimension of the specs.
Batched batch(Builder& b, const BatchArgs& a, const ShardMap& p) {
  Dims axes = batch_axes(p, a.size);
  const ir::AxisList& entry = BatchEntry::current();
  const auto mapped = [&](std::uint8_t e) { return std::ranges::find(p.manual, e) != p.manual.end(); };
  const bool mapped_batch = !entry.empty() && mapped(entry[0]);
  if (!std::ranges::all_of(entry, [&](std::uint8_t e) { return mapped(e) == mapped_batch; })) {
    throw UnimplementedError(str("vmap: of the explicit axes ", entry.size(),
                                 " that the mapped dimension is split over, ",
                                 "a shard_map inside maps some and leaves others outside; map all or none"));
  }
  if (mapped_batch) axes.assign(entry.begin(), entry.end());
  BatchMeshAxes inside(axes.empty() ? BatchMeshAxes::current() : std::vector<std::string>{});
  BatchEntry entry_inside(mapped_batch ? ir::AxisList{} : entry);
  BatchedGraph body = batch_graph(*p.body, a.batched, a.size / cut(p, axes));
  ShardMap q = p;
  q.body = body.graph;
  for (std::size_t i = 0; i < a.batched.size(); ++i) {
    if (a.batched[i]) q.in_specs.list[i].insert(q.in_specs.list[i].begin(), axes);
  }
  for (std::size_t i = 0; i < body.batched_out.size(); ++i) {
    if (body.batched_out[i]) q.out_specs.list[i].insert(q.out_specs.list[i].begin(), axes);
  }
  return {shard_map(b, q, a.in), body.batched_out};
}

}  // namespace

TESSERA_DEFINE_OP(shard_map, ShardMap,
                  {
                      .name = "shard_map",
                      .infer = infer,
                      .factors = Never{"it is opened before the program is partitioned"},
                      .remap = by_default,
                      .batch = batch,
                      .jvp =
                          [](Builder& b, const JvpArgs& a, const ShardMap& p) {
                            return fused(b, ir::DualArgs{a.in, a.tangents, false}, p).tangents;
                          },
                      .transpose = transpose_rule,
                      .dual = [](Builder& b, const ir::DualArgs& a,
                                 const ShardMap& p) { return a.split ? split(b, a, p) : fused(b, a, p); },
                      .place = place_map,
                      .reference = Never{"it is opened before a program runs"},
                      .samples = Never{"needs a mesh; tested with maps"},
                  });

Values shard_map(Builder& b, ShardMap p, ValueSpan in) {
  if (p.checked) {
    std::map<std::string, std::int64_t> sizes;
    for (std::size_t a = 0; a < p.mesh_sizes.size(); ++a) sizes[p.mesh_names.list[a]] = p.mesh_sizes[a];
    p.body = cast_varying(*p.body, input_sets(p), sizes, output_sets(p));
  }
  return b.add(def::shard_map, in, attrs(std::move(p)));
}

}  // namespace tessera::ops
