// SPDX-License-Identifier: Apache-2.0
// Ops that change where a value lies, not what it is.
#include <cstring>

#include "ir/axis_sets.h"
#include "ir/derive_sharding.h"
#include "ops/define_op.h"
#include "ops/shared_attrs.h"
#include "ops/transform/batch_axes.h"

namespace tessera::ops {

namespace {
void copy_whole(ViewSpan in, ViewSpan out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    auto bytes = out[i].size() * dtype_size(out[i].dtype);
    if (bytes > 0) std::memcpy(out[i].data, in[i].data, at(bytes));
  }
}

// Only jax.reshard changes a type.
void place_constraint(const ir::PlaceArgs& args, Types& out, const ShardingConstraint& p) {
  if (!p.typed) {
    out[0].sharding = args.in[0].sharding != nullptr ? args.in[0].sharding : ir::unsplit(args.mesh, out[0].rank());
    return;
  }
  ir::TypeSharding s{args.mesh, {}, ir::mask_of(p.unreduced), ir::mask_of(p.reduced)};
  ir::AxisMask used = s.unreduced | s.reduced;
  for (const auto& dim : p.dims) {
    if ((used & ir::mask_of(dim)) != 0) {
      throw DuplicateAxisError(str("reshard: the spec ", ir::spec_text(s),
                                   " and the dimensions after it have duplicate ", "entries for the mesh axis `",
                                   ir::axes_text(ir::axes_of(used & ir::mask_of(dim)), args.mesh),
                                   "`; expected every axis at most once"));
    }
    used |= ir::mask_of(dim);
    s.dims.emplace_back(dim.begin(), dim.end());
  }
  out[0].sharding = ir::intern(std::move(s));
}
}  // namespace

Value reshard_to(Value x, ir::TypeShardingPtr want) {
  ShardingConstraint c;
  c.typed = true;
  for (const auto& a : want->mesh.shape_tuple()) {
    c.mesh_sizes.push_back(a.size);
    c.mesh_names.list.push_back(a.name);
  }
  for (const auto& d : want->dims) c.dims.emplace_back(d.begin(), d.end());
  for (auto a : ir::axes_of(want->unreduced)) c.unreduced.push_back(a);
  for (auto a : ir::axes_of(want->reduced)) c.reduced.push_back(a);
  return x.builder->add1(def::sharding_constraint, {x}, attrs(std::move(c)));
}

Value placed_as(Value x, ir::TypeShardingPtr want, std::size_t own) {
  const auto* have = x.type().sharding;
  if (want == nullptr || have == want || (have == nullptr && want->plain_whole())) return x;
  const ir::AxisMask sums = have != nullptr ? have->unreduced : 0;
  if (static_cast<std::size_t>(x.id) < own || sums != want->unreduced) return reshard_to(x, want);
  x.builder->set_sharding(x, want);
  return x;
}

TESSERA_DEFINE_OP(sharding_constraint, ShardingConstraint,
                  {
                      .name = "sharding_constraint",
                      .traits = {.linearity = Linearity::Joint, .exact = true},
                      .infer =
                          [](TypeSpan in, const ShardingConstraint& p) {
                            check_count("sharding_constraint", in, 1);
                            if (static_cast<std::int64_t>(p.dims.size()) != in[0].rank()) {
                              bad_attr(
                                  "sharding_constraint", "dims",
                                  str(p.dims.size(), " entries for shape ", in[0].shape, "; expected one a dimension"));
                            }
                            return Types{in[0]};
                          },
                      .factors = by_default,
                      .remap = by_default,
                      .batch =
                          [](Builder& b, const BatchArgs& a, const ShardingConstraint& p) {
                            ShardingConstraint q = p;
                            const auto& entry = BatchEntry::current();
                            q.dims.insert(q.dims.begin(), p.typed ? Dims(entry.begin(), entry.end()) : Dims{-1});
                            return Batched{{b.add1(def::sharding_constraint, {a.in[0]}, attrs(q))}, {true}};
                          },
                      .jvp = linear,
                      .transpose =
                          [](Builder& b, const TransposeArgs& t, const ShardingConstraint& p) {
                            if (p.typed) {
                              const auto* back = ir::cotangent_type(t.types[0]).sharding;
                              return Values{back != nullptr ? reshard_to(t.ct[0], back) : t.ct[0]};
                            }
                            ShardingConstraint q = p;  // the cotangent of a sum is whole for each addend
                            q.unreduced.clear();
                            return Values{b.add1(def::sharding_constraint, {t.ct[0]}, attrs(q))};
                          },
                      .place = place_constraint,
                      .reference = [](ViewSpan in, ViewSpan out, const ShardingConstraint&) { copy_whole(in, out); },
                      .samples = Never{"needs a mesh; tested with the partitioner"},
                  });

namespace {
Types infer_cast(TypeSpan in, const MeshCast& p) {
  check_count("mesh_cast", in, 1);
  MeshOptions options;
  for (auto t : p.to) options.axis_types.push_back(static_cast<AxisType>(t));
  const AbstractMesh mesh(Shape(p.sizes.begin(), p.sizes.end()), AxisNames(p.names.list), options);
  Type out = in[0];
  out.sharding = ir::unsplit(mesh, out.rank());
  if (in[0].sharding == nullptr || out.sharding == nullptr) return {out};
  auto explicit_axis = [&](std::uint8_t a) { return p.to[a] == static_cast<std::int64_t>(AxisType::Explicit); };
  ir::TypeSharding s{mesh, in[0].sharding->dims, in[0].sharding->unreduced, in[0].sharding->reduced};
  for (auto& axes : s.dims) ir::drop_if(axes, [&](std::uint8_t a) { return !explicit_axis(a); });
  out.sharding = ir::intern(std::move(s));
  return {out};
}
}  // namespace

TESSERA_DEFINE_OP(mesh_cast, MeshCast,
                  {
                      .name = "mesh_cast",
                      .traits = {.linearity = Linearity::Joint, .exact = true, .casts_mesh = true},
                      .infer = infer_cast,
                      .factors = Never{"it is gone before a program is partitioned"},
                      .remap = by_default,
                      .batch =
                          [](Builder& b, const BatchArgs& a, const MeshCast& p) {
                            return Batched{{b.add1(def::mesh_cast, {a.in[0]}, attrs(p))}, {true}};
                          },
                      .jvp = linear,
                      .transpose =
                          [](Builder& b, const TransposeArgs& t, const MeshCast& p) {
                            MeshCast q = p;
                            std::swap(q.from, q.to);
                            return Values{b.add1(def::mesh_cast, {t.ct[0]}, attrs(q))};
                          },
                      .reference = [](ViewSpan in, ViewSpan out, const MeshCast&) { copy_whole(in, out); },
                      .samples = Never{"needs a mesh; tested with auto_axes"},
                  });

// Several operands are values whose sums are completed in one exchange.
TESSERA_DEFINE_OP(reshard, Reshard,
                  {
                      .name = "reshard",
                      .traits = {.linearity = Linearity::Joint, .collective = true},
                      .infer = [](TypeSpan in, const Reshard&) { return Types(in.begin(), in.end()); },
                      .factors = Never{"stands in partitioned graphs only"},
                      .remap = by_default,
                      .batch = Never{"stands in partitioned graphs only"},
                      .jvp = Never{"stands in partitioned graphs only"},
                      .transpose = Never{"stands in partitioned graphs only"},
                      .reference = [](ViewSpan in, ViewSpan out, const Reshard&) { copy_whole(in, out); },
                      .samples = Never{"needs a mesh; tested with the partitioner"},
                  });

}  // namespace tessera::ops
