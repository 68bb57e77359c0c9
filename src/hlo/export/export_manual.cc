// SPDX-License-Identifier: Apache-2.0
// Constraints and maps: Shardy's operations, or the custom calls of GSPMD.
#include <algorithm>

#include "base/strings.h"
#include "hlo/export/export.h"
#include "ops/collective/shard_map_op.h"
#include "ops/ops.h"
#include "ops/shape/sharding_groups.h"
#include "ops/shared_attrs.h"
#include "tessera/error.h"

namespace tessera::hlo {

namespace {
namespace def = ops::def;
using ir::Eqn;
using ir::Types;

// Axes of meshes without names are called by their numbers.
std::vector<std::string> named(std::vector<std::string> names) {
  for (std::size_t a = 0; a < names.size(); ++a) {
    if (names[a].empty()) names[a] = str("d", a);
  }
  return names;
}
// The dimension may be split over further axes.
bool is_open(const Dims& dim) { return std::ranges::count(dim, -1) > 0; }

ir::AxisSharding sdy_of(const std::string& mesh, const std::vector<std::string>& names, const std::vector<Dims>& dims,
                        const Dims& unreduced, bool open) {
  ir::AxisSharding s;
  s.mesh = mesh;
  for (const auto& d : dims) {
    ir::DimSharding dim;
    dim.open = open || is_open(d);
    for (auto a : d) {
      if (a >= 0) dim.axes.push_back({names[static_cast<std::size_t>(a)], 1, 0});
    }
    s.dims.push_back(dim);
  }
  for (auto a : unreduced) s.unreduced.push_back({names[static_cast<std::size_t>(a)], 1, 0});
  return s;
}
Dims manual_axes(const Writer& w, std::size_t count) {
  Dims out;
  for (std::size_t a = 0; w.manual() != nullptr && a < count; ++a) {
    if (w.manual()->manual[a]) out.push_back(static_cast<std::int64_t>(a));
  }
  return out;
}
Text gspmd(Writer& w, const std::string& target, const Text& x, const ir::Type& out, const std::string& sharding,
           const std::string& config = "") {
  return w.line(str("stablehlo.custom_call @", target, "(", x.name, ") {backend_config = \"", config,
                    "\", mhlo.sharding = \"", sharding, "\"} : ", signature({x}, {out})),
                out);
}

[[noreturn]] void refuse_unreduced() {
  throw UnimplementedError("unreduced values in HLO's shardings; write Shardy's");
}

Texts sharding_constraint(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  const auto& p = ir::get<ops::ShardingConstraint>(e.attrs);
  std::int64_t devices = 1;
  for (auto s : p.mesh_sizes) devices *= s;
  // On other devices than the program's (one, by default) a constraint says nothing.
  if (devices != w.num_partitions()) return in;
  auto names = named(p.mesh_names.list);
  if (w.options().shardy) {
    auto s = sdy_of(w.mesh_for(names, p.mesh_sizes), names, p.dims, p.unreduced, false);
    for (auto a : p.replicated) s.replicated.push_back({names[static_cast<std::size_t>(a)], 1, 0});
    return {w.line(str("sdy.sharding_constraint ", in[0].name, " ", to_string(s), " : ", tensor_text(out[0])), out[0])};
  }
  Dims open;
  std::vector<Dims> dims = p.dims;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (!is_open(dims[d])) continue;
    open.push_back(static_cast<std::int64_t>(d));
    if (dims[d].size() > 1) std::erase(dims[d], -1);
  }
  std::string config = open.empty() ? "" : str("unspecified_dims=[", join(open, ","), "]");
  if (!p.unreduced.empty()) refuse_unreduced();
  std::string text = hlo_sharding_text(p.mesh_sizes, dims, manual_axes(w, p.mesh_sizes.size()));
  return {gspmd(w, "Sharding", in[0], out[0], text, config)};
}

Texts sharding_group(Writer& w, const Eqn& e, const Texts& in, const Types&) {
  if (!w.options().shardy) return in;
  auto group = ir::get<ops::ShardingGroup>(e.attrs).group;
  w.line(str("sdy.sharding_group ", in[0].name, " group_id=", group, " : ", tensor_text(in[0].type)), Types{});
  return in;
}
Texts inspect_sharding(Writer& w, const Eqn& e, const Texts& in, const Types&) {
  auto number = ir::get<ops::InspectSharding>(e.attrs).number;
  w.line(str("stablehlo.custom_call @InspectSharding(", in[0].name, ") {backend_config = \"", ops::kInspectKey, number,
             "\", has_side_effect = true} : ", signature(in, {in[0].type})),
         in[0].type);
  return {};
}

ManualText inside(const Writer& w, const ops::ShardMap& p, const std::vector<std::string>& names) {
  ManualText m{names, p.mesh_sizes, std::vector<bool>(names.size(), false)};
  if (w.manual() != nullptr) m.manual = w.manual()->manual;
  for (auto a : p.manual) m.manual[static_cast<std::size_t>(a)] = true;
  return m;
}

Texts map_of_gspmd(Writer& w, const ops::ShardMap& p, const Texts& in, const Types& out, const ManualText& m) {
  if (!p.in_specs.unreduced.empty() || !p.out_specs.unreduced.empty()) refuse_unreduced();
  Dims before = manual_axes(w, m.names.size());
  Dims all;
  for (std::size_t a = 0; a < m.manual.size(); ++a) {
    if (m.manual[a]) all.push_back(static_cast<std::int64_t>(a));
  }
  auto manual = [&](const ir::Type& t) {
    return hlo_sharding_text(p.mesh_sizes, std::vector<Dims>(t.shape.size()), all);
  };
  Texts blocks;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const auto& block = p.body->type(p.body->inputs[i]);
    Text x = gspmd(w, "Sharding", in[i], in[i].type, hlo_sharding_text(p.mesh_sizes, p.in_specs.list[i], before));
    blocks.push_back(gspmd(w, "SPMDFullToShardShape", x, {block.dtype, block.shape, false}, manual(block)));
  }
  w.enter(m);
  Texts results = w.inline_graph(*p.body, blocks);
  w.leave();
  for (std::size_t i = 0; i < out.size(); ++i) {
    Text x = gspmd(w, "Sharding", results[i], results[i].type, manual(results[i].type));
    results[i] =
        gspmd(w, "SPMDShardToFullShape", x, out[i], hlo_sharding_text(p.mesh_sizes, p.out_specs.list[i], before));
  }
  return results;
}

Texts shard_map(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  const auto& p = ir::get<ops::ShardMap>(e.attrs);
  auto names = named(p.mesh_names.list);
  ManualText m = inside(w, p, names);
  if (m.total() == 1) {  // as JAX: there is nothing to map over
    w.enter(m);
    Texts results = w.inline_graph(*p.body, in);
    w.leave();
    return results;
  }
  if (!w.options().shardy) return map_of_gspmd(w, p, in, out, m);
  std::string mesh = w.mesh_for(names, p.mesh_sizes);
  // Axes that the map leaves automatic may cut its values further.
  bool open = p.manual.size() != p.mesh_sizes.size();
  auto shardings = [&](const ops::Specs& specs) {
    std::vector<std::string> list;
    for (std::size_t i = 0; i < specs.list.size(); ++i) {
      list.push_back(to_string(sdy_of(mesh, names, specs.list[i], specs.unreduced_of(i), open)));
    }
    return join(list);
  };
  std::vector<std::string> axes;
  Dims manual = p.manual;
  std::sort(manual.begin(), manual.end());
  for (auto a : manual) axes.push_back(str("\"", names[static_cast<std::size_t>(a)], "\""));
  std::string heads;
  w.enter(m);
  std::string body = w.block(
      p.body->input_types(), [&](const Texts& a) { return w.inline_graph(*p.body, a); }, "sdy.return", &heads);
  w.leave();
  return w.line(str("sdy.manual_computation(", names_of(in), ") in_shardings=[", shardings(p.in_specs),
                    "] out_shardings=[", shardings(p.out_specs), "] manual_axes={", join(axes), "} (", heads, ") {\n",
                    body, w.pad(), "} : ", signature(in, out)),
                out);
}
}  // namespace

void add_manual_writers(WriterTable& t) {
  t[&def::sharding_constraint] = sharding_constraint;
  t[&def::sharding_group] = sharding_group;
  t[&def::inspect_sharding] = inspect_sharding;
  t[&def::shard_map] = shard_map;
}

}  // namespace tessera::hlo
