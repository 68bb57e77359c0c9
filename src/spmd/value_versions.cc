// SPDX-License-Identifier: Apache-2.0
#include "spmd/value_versions.h"

#include <algorithm>

#include "base/check.h"
#include "base/strings.h"
#include "ir/op_def.h"

namespace tessera::spmd {

namespace {

// A version can stand for a goal only if nothing that the goal wants partial is complete in it.
bool usable(const ir::Layout& have, const ir::Layout& goal) {
  return (goal.partial & ~have.partial) == 0 && (goal.partial == 0 || goal.reduction == have.reduction);
}

bool fits(const ir::Layout& have, const ir::Layout& goal) {
  return have.dims == goal.dims && have.partial == goal.partial &&
         (goal.vary & ~(have.vary | have.tiled() | have.partial)) == 0;
}

std::string dims_text(const ir::Layout& l, const ir::MeshAxes& mesh) {
  ir::Layout only;
  only.dims = l.dims;
  return to_string(only, mesh);
}

}  // namespace

void VersionTable::add(ir::ValueId v, Version version) {
  builder_.set_layout(version.value, version.layout);
  versions_[static_cast<std::size_t>(v)].push_back(std::move(version));
}

const Version* VersionTable::partial(ir::ValueId v) const {
  const auto& all = of(v);
  for (const auto& version : all) {
    if (version.layout.partial == 0) return nullptr;
  }
  return all.empty() ? nullptr : &all.front();
}

bool VersionTable::has(ir::ValueId v, const ir::Layout& goal) const {
  return std::ranges::any_of(of(v), [&](const Version& version) { return usable(version.layout, goal); });
}

std::size_t VersionTable::nearest(ir::ValueId v, const ir::Layout& goal, std::int64_t& bytes) const {
  const auto& all = of(v);
  std::size_t best = all.size();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!usable(all[i].layout, goal)) continue;
    if (fits(all[i].layout, goal)) {
      bytes = 0;
      return i;
    }
    std::int64_t c = costs_.of(graph_.type(v), all[i].layout, goal, mesh_);
    if (best == all.size() || c < bytes) {
      best = i;
      bytes = c;
    }
  }
  TESSERA_CHECK(best < all.size(), str("value ", v, " has no version for ", to_string(goal, mesh_)));
  return best;
}

std::int64_t VersionTable::cost(ir::ValueId v, const ir::Layout& goal) const {
  std::int64_t bytes = 0;
  nearest(v, goal, bytes);
  return bytes;
}

const Version& VersionTable::provide(ir::ValueId v, const ir::Layout& goal, const Consumer& consumer) {
  std::int64_t bytes = 0;
  std::size_t i = nearest(v, goal, bytes);
  if (fits(of(v)[i].layout, goal)) return of(v)[i];
  Version now = of(v)[i];
  const ir::Type& type = graph_.type(v);
  for (auto& step : plan(type, now.layout, goal, mesh_)) {
    bool completes = step.kind == ops::Reshard::Kind::AllReduce || step.kind == ops::Reshard::Kind::ReduceScatter;
    const ir::Eqn* cause = completes && now.origin ? now.origin : consumer.eqn;
    ops::Reshard p{step.kind, moving_axes(now.layout, step.layout), {}};
    if (completes && now.origin) {
      p.reason = str("completes the ", to_string(now.layout.reduction), " of ", now.origin->op->name());
    } else {
      p.reason =
          str(consumer.role, " ", consumer.number, consumer.eqn ? str(" of ", consumer.eqn->op->name()) : std::string(),
              " needs ", dims_text(goal, mesh_));
    }
    p.cause = cause ? std::string(cause->op->name()) : "return";
    builder_.set_loc(cause ? cause->loc : Loc{});
    ir::Value next =
        builder_.add_typed(ops::def::reshard, ir::ValueSpan(&now.value, 1), ir::make_attrs(std::move(p)), {type})[0];
    moved_ += received(type, now.layout, step.layout, mesh_);
    now = {step.layout, next, step.layout.partial ? now.origin : nullptr};
    add(v, now);
  }
  return of(v).back();
}

}  // namespace tessera::spmd
