// SPDX-License-Identifier: Apache-2.0
// Shardy's operations and the marks of older texts. Values stay what they are; where they lie is advice.
#include <algorithm>
#include <charconv>

#include "base/strings.h"
#include "hlo/import/import.h"
#include "hlo/import/rules_manual.h"
#include "hlo/sharding/hlo_sharding.h"
#include "hlo/sharding/sdy.h"
#include "ops/shape/sharding_groups.h"
#include "tessera/error.h"

namespace tessera::hlo {

namespace {
// The constraint, unless the sharding says nothing that a layout can hold.
Value constrained(OpCall& c, Value v, const ir::AxisSharding& s, const ir::NamedMesh* mesh) {
  if (mesh == nullptr) {
    if (s.mesh.empty()) return v;
    c.fail(str("there is no mesh @", s.mesh));
  }
  if (static_cast<std::int64_t>(s.dims.size()) != v.rank()) {
    c.fail(str("a sharding of ", s.dims.size(), " dimensions for a value of ", v.rank()));
  }
  const auto& levels = c.scope.levels();
  for (const auto& x : s.unreduced) {
    bool bound = levels && levels->mesh == s.mesh &&
                 std::find(levels->axes.begin(), levels->axes.end(), x.name) != levels->axes.end();
    if (bound) c.fail(str("unreduced over axis \"", x.name, "\", which is manual here"));
  }
  if (mesh->size() != c.importer.devices()) return v;
  ops::ShardingConstraint p = constraint_of(s, *mesh);
  bool says_something = s.dims.empty() || !p.unreduced.empty();
  for (std::size_t d = 0; d < p.dims.size(); ++d) {
    std::int64_t n = 1;
    for (auto a : p.dims[d]) {
      if (a >= 0) n *= p.mesh_sizes[static_cast<std::size_t>(a)];
    }
    if (n > 1 && v.shape()[d] % n != 0) p.uneven = true;
    says_something = says_something || p.dims[d] != Dims{-1};
  }
  if (!says_something || mesh->axes.empty() || !c.importer.nests(p.mesh_sizes)) return v;
  return c.b().add1(ops::def::sharding_constraint, {v}, ir::make_attrs(p));
}

Items constraint(OpCall& c) {
  c.check_operands(1);
  const AstAttr* a = c.find("sharding");
  if (a == nullptr) a = c.find("out_sharding");
  if (a == nullptr && !c.op.words.empty()) a = &c.op.words.back();
  if (a == nullptr) c.fail("has no sharding");
  ir::AxisSharding s = parse_sharding(c.importer.source(), *a);
  return c.one(constrained(c, c.v(0), s, c.importer.mesh(s.mesh)));
}

// "unspecified_dims=[0,1]" of a mark.
Dims open_dims(OpCall& c, std::int64_t rank) {
  const AstAttr* a = c.find("backend_config");
  Dims out;
  if (a == nullptr || a->kind != AstAttr::Kind::String) return out;
  std::string_view text = a->text;
  constexpr std::string_view kBegin = "unspecified_dims=[";
  auto at = text.find(kBegin);
  if (at == std::string_view::npos) return out;
  text.remove_prefix(at + kBegin.size());
  while (true) {
    std::int64_t d = 0;
    auto r = std::from_chars(text.data(), text.data() + text.size(), d);
    if (r.ec != std::errc() || d < 0 || d >= rank) {
      c.fail(str("unspecified_dims of \"", a->text.substr(0, 80), "\": expected dimensions of a value of ", rank));
    }
    out.push_back(d);
    text.remove_prefix(static_cast<std::size_t>(r.ptr - text.data()));
    if (text.starts_with("]")) return out;
    if (!text.starts_with(",")) c.fail(str("unspecified_dims of \"", a->text.substr(0, 80), "\" do not end"));
    text.remove_prefix(1);
  }
}

Items unchanged(OpCall& c) { return c.in; }

// Who reads the value from here on reads the group's member.
Items sharding_group(OpCall& c) {
  c.check_operands(1);
  ops::ShardingGroup p{c.integer("group_id")};
  if (c.importer.devices() == 1) return {};
  Item member = c.in[0];
  member.value = c.b().add1(ops::def::sharding_group, {c.v(0)}, ir::make_attrs(p));
  c.scope.define(c.op.operands[0], member);
  return {};
}

Items named_computation(OpCall& c) { return c.inlined_region("a named computation"); }
}  // namespace

Value marked(OpCall& c, Value v) {
  const ir::NamedMesh* mesh = c.importer.tile_mesh();
  const AstAttr* a = c.find("mhlo.sharding");
  if (mesh == nullptr || a == nullptr || c.scope.levels()) return v;
  auto tiles = grid_tiles(a->text, mesh->size());
  if (!tiles || !tiles->manual.empty()) return v;
  if (tiles->dims.empty()) tiles->dims.resize(v.shape().size());
  if (tiles->dims.size() != v.shape().size()) return v;
  ir::AxisSharding s;
  s.mesh = mesh->name;
  for (const auto& d : tiles->dims) {
    ir::DimSharding& dim = s.dims.emplace_back();
    for (auto axis : axes_of(d, mesh->sizes)) dim.axes.push_back({mesh->axes[static_cast<std::size_t>(axis)], 1, 0});
  }
  for (auto axis : axes_of(tiles->unreduced, mesh->sizes)) {
    s.unreduced.push_back({mesh->axes[static_cast<std::size_t>(axis)], 1, 0});
  }
  for (auto d : open_dims(c, v.rank())) s.dims[static_cast<std::size_t>(d)].open = true;
  return constrained(c, v, s, mesh);
}

void add_sharding_rules(RuleTable& t) {
  t["sdy.sharding_constraint"] = constraint;
  t["sdy.reshard"] = constraint;
  t["sdy.all_gather"] = constraint;
  t["sdy.all_slice"] = constraint;
  t["sdy.all_to_all"] = constraint;
  t["sdy.collective_permute"] = constraint;
  t["sdy.all_reduce"] = constraint;
  t["sdy.reduce_scatter"] = constraint;
  t["sdy.sharded_to_unreduced"] = constraint;
  t["sdy.replicated_to_unreduced"] = constraint;
  t["sdy.propagation_barrier"] = unchanged;
  t["sdy.data_flow_edge"] = unchanged;
  t["sdy.sharding_group"] = sharding_group;
  t["sdy.named_computation"] = named_computation;
}

}  // namespace tessera::hlo
