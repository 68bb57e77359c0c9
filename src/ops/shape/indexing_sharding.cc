// SPDX-License-Identifier: Apache-2.0
#include "ops/shape/indexing_sharding.h"

#include <algorithm>

#include "base/strings.h"
#include "ops/define_op.h"

namespace tessera::ops {

namespace {

using ir::AxisList;
using ir::DimAxes;
using ir::TypeSharding;

bool among(const Dims& list, std::size_t d) {
  return std::ranges::find(list, static_cast<std::int64_t>(d)) != list.end();
}

[[noreturn]] void refuse(const ir::PlaceArgs& args) {
  ir::refuse_sharding(args, "the placement of the result does not follow without moving data",
                      "Give out_sharding= (x.at[...].get/set/add/... take it), or reshard the operands");
}

// The entry that dimensions which walk together share; refused where two differ.
AxisList shared(const ir::PlaceArgs& args, std::initializer_list<const AxisList*> entries) {
  AxisList out;
  for (const auto* e : entries) {
    if (e->empty()) continue;
    if (!out.empty() && out != *e) refuse(args);
    out = *e;
  }
  return out;
}

bool all_whole(const ir::PlaceArgs& args) {
  return std::ranges::all_of(args.in, [](const Type& t) { return t.sharding == nullptr || t.sharding->split() == 0; });
}
bool has_sums(const ir::PlaceArgs& args) {
  return std::ranges::any_of(args.in,
                             [](const Type& t) { return t.sharding != nullptr && t.sharding->unreduced != 0; });
}

void check_duplicates(const ir::PlaceArgs& args, const Type& out, const TypeSharding& s) {
  ir::AxisMask used = 0;
  for (const auto& dim : s.dims) {
    for (auto a : dim) {
      if ((used >> a & 1) != 0) {
        ir::refuse_sharding(args,
                            str("the result of shape ", out.shape, " would have ", spec_text(s),
                                ", duplicate entries for the mesh axis `", args.mesh.shape_tuple()[a].name, "`"),
                            "Give out_sharding= (x.at[...].get takes it)");
      }
      used |= ir::AxisMask{1} << a;
    }
  }
}

}  // namespace

void place_gather(const ir::PlaceArgs& args, ir::Types& out, const Gather& p) {
  if (!args.strict() || all_whole(args) || has_sums(args)) return derive_by_factors(args, out, attrs(p));
  const TypeSharding x = ir::sharding_of(args.in[0], args.mesh);
  const TypeSharding at_indices = ir::sharding_of(args.in[1], args.mesh);
  const Shape& shape = args.in[0].shape;
  const WindowMap map(p, shape, args.in[1].shape, out[0].shape);
  TypeSharding s{args.mesh, DimAxes(out[0].shape.size()), 0, x.reduced};
  for (std::size_t i = 0; i < map.batch_of_window.size(); ++i) {
    AxisList entry = at_indices.dims[i];
    for (std::size_t k = 0; k < p.indices_batching_dims.size(); ++k) {
      if (p.indices_batching_dims[k] != static_cast<std::int64_t>(i)) continue;
      entry = shared(args, {&entry, &x.dims[at(p.operand_batching_dims[k])]});
    }
    s.dims[at(map.batch_of_window[i])] = std::move(entry);
  }
  for (std::size_t i = 0; i < p.offset_dims.size(); ++i) {
    s.dims[at(p.offset_dims[i])] = x.dims[at(map.operand_of_offset[i])];
  }
  check_duplicates(args, out[0], s);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const bool batching = among(p.operand_batching_dims, d);
    if (!batching && p.slice_sizes[d] != shape[d] && !x.dims[d].empty()) refuse(args);
  }
  for (std::size_t i = 0; i < at_indices.dims.size(); ++i) {
    if (!at_indices.dims[i].empty() && !among(p.indices_batching_dims, i)) refuse(args);
  }
  ir::set_sharding(args, out[0], std::move(s));
}

void place_scatter(const ir::PlaceArgs& args, ir::Types& out, const Scatter& p) {
  if (!args.strict() || all_whole(args) || has_sums(args)) return derive_by_factors(args, out, attrs(p));
  const TypeSharding x = ir::sharding_of(args.in[0], args.mesh);
  const TypeSharding at_indices = ir::sharding_of(args.in[1], args.mesh);
  const TypeSharding updates = ir::sharding_of(args.in[2], args.mesh);
  const Shape& shape = args.in[0].shape;
  const WindowMap map(p, shape, args.in[1].shape, args.in[2].shape);
  TypeSharding s = x;
  for (std::size_t k = 0; k < p.operand_batching_dims.size(); ++k) {
    const auto i = at(p.indices_batching_dims[k]);
    AxisList& entry = s.dims[at(p.operand_batching_dims[k])];
    entry = shared(args, {&entry, &at_indices.dims[i], &updates.dims[at(map.batch_of_window[i])]});
  }
  for (std::size_t i = 0; i < at_indices.dims.size(); ++i) {
    if (among(p.indices_batching_dims, i)) continue;
    if (!at_indices.dims[i].empty()) refuse(args);
    if (i < map.batch_of_window.size() && !updates.dims[at(map.batch_of_window[i])].empty()) refuse(args);
  }
  for (std::size_t i = 0; i < p.update_window_dims.size(); ++i) {
    const auto d = at(map.operand_of_offset[i]);
    const AxisList& entry = updates.dims[at(p.update_window_dims[i])];
    const bool whole = map.sizes[d] == shape[d];
    if (whole ? entry != x.dims[d] : !(entry.empty() && x.dims[d].empty())) refuse(args);
  }
  for (auto d : p.inserted_window_dims) {
    if (!x.dims[at(d)].empty() && shape[at(d)] != 1) refuse(args);
  }
  ir::set_sharding(args, out[0], std::move(s));
}

}  // namespace tessera::ops
