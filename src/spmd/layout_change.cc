// SPDX-License-Identifier: Apache-2.0
#include "spmd/layout_change.h"

#include "base/hash.h"
#include "ir/type_sharding.h"

namespace tessera::spmd {

namespace {

using Kind = ops::Reshard::Kind;

Kind move_kind(const ir::Layout& from, const ir::Layout& to, const ir::MeshAxes& mesh) {
  bool grows = true;
  bool same = true;
  for (std::size_t d = 0; d < to.dims.size(); ++d) {
    grows = grows && is_prefix(to.dims[d], from.dims[d]);
    same = same && ir::parts(from.dims[d], mesh) == ir::parts(to.dims[d], mesh);
  }
  return grows ? Kind::AllGather : same ? Kind::CollectivePermute : Kind::AllToAll;
}

class Planner {
 public:
  Planner(const ir::Type& type, const ir::Layout& from, const ir::Layout& goal, const ir::MeshAxes& mesh)
      : type_(type), mesh_(mesh), now_(from), goal_(goal) {}

  enum class First { Complete, Move, Scatter };
  std::vector<Step> run(First first) {
    slice();
    if (first == First::Move) move();
    if (first == First::Scatter) scatter();
    complete();
    move();
    gather();
    AxisMask vary = goal_.vary & ~now_.distinct();
    if (vary != 0) {
      ir::Layout next = now_;
      next.vary |= vary;
      push(Kind::Slice, next);
    }
    return steps_;
  }

 private:
  void push(Kind kind, ir::Layout next) {
    next.vary &= ~(next.tiled() | next.partial);
    if (next.partial == 0) next.reduction = ir::Reduction::Sum;
    if (next == now_) return;
    steps_.push_back({kind, next});
    now_ = std::move(next);
  }

  // Splitting what every position has: free.
  void slice() {
    ir::Layout next = now_;
    AxisMask used = next.tiled() | next.partial;
    for (std::size_t d = 0; d < next.dims.size(); ++d) {
      const AxisList& want = goal_.dims[d];
      AxisList axes = next.dims[d];
      if (!is_prefix(axes, want)) continue;
      for (std::size_t i = axes.size(); i < want.size() && !(used & bit(want[i])); ++i) axes.push_back(want[i]);
      // Cut short until tiles nest.
      while (axes.size() > next.dims[d].size() && !ops::nested(type_.shape[d], next.dims[d], axes, mesh_))
        axes.pop_back();
      used |= mask_of(axes);
      next.dims[d] = std::move(axes);
    }
    push(Kind::Slice, std::move(next));
  }

  // Scatters over dimensions that need not stay so: where tiles move on anyway, the other half of an all-reduce would
  // bring elements to positions that do not keep them.
  void scatter() {
    ir::Layout next = now_;
    for (auto a : ir::axes_of(now_.partial & ~goal_.partial)) {
      std::size_t best = next.dims.size();
      std::int64_t most = 0;
      for (std::size_t d = 0; d < next.dims.size(); ++d) {
        std::int64_t parts = ir::parts(next.dims[d], mesh_);
        if (type_.shape[d] % (parts * mesh_.sizes[a]) != 0 || type_.shape[d] / parts <= most) continue;
        most = type_.shape[d] / parts;
        best = d;
      }
      if (best == next.dims.size()) continue;
      next.dims[best].push_back(a);
      next.partial &= ~bit(a);
    }
    push(Kind::ReduceScatter, std::move(next));
  }

  // Partial axes that the goal has on a dimension are scattered, others reduced everywhere.
  void complete() {
    AxisMask open = now_.partial & ~goal_.partial;
    if (open == 0) return;
    ir::Layout next = now_;
    AxisMask scattered = 0;
    for (std::size_t d = 0; d < next.dims.size(); ++d) {
      const AxisList& want = goal_.dims[d];
      AxisList axes = next.dims[d];
      if (!is_prefix(axes, want)) continue;
      for (std::size_t i = axes.size(); i < want.size() && (open & ~scattered & bit(want[i])); ++i) {
        axes.push_back(want[i]);
        scattered |= bit(want[i]);
      }
      while (axes.size() > next.dims[d].size() && !ops::nested(type_.shape[d], next.dims[d], axes, mesh_)) {
        scattered &= ~bit(axes.back());
        axes.pop_back();
      }
      next.dims[d] = std::move(axes);
    }
    if (scattered != 0) {
      next.partial &= ~scattered;
      push(Kind::ReduceScatter, next);
    }
    next = now_;
    next.partial &= goal_.partial;
    push(Kind::AllReduce, std::move(next));
    slice();
  }

  // One exchange to the goal, keeping the axes that a gather takes away at the end.
  void move() {
    bool needed = false;
    ir::Layout next = now_;
    AxisMask wanted = goal_.tiled();
    for (std::size_t d = 0; d < next.dims.size(); ++d) {
      const AxisList& want = goal_.dims[d];
      AxisList& have = next.dims[d];
      if (want == have) continue;
      if (!ops::nested(type_.shape[d], want, have, mesh_)) {
        needed = true;
        have = want;
        std::size_t keep = 0;  // axes that still sum can be added only when they are complete
        while (keep < have.size() && !(now_.partial & bit(have[keep]))) ++keep;
        have.resize(keep);
        continue;
      }
      std::size_t keep = want.size();
      while (keep < have.size() && !(wanted & bit(have[keep]))) ++keep;
      if (type_.shape[d] % ir::parts(have, mesh_) != 0) keep = want.size();
      have.resize(keep);
    }
    if (!needed) return;
    Kind kind = move_kind(now_, next, mesh_);
    push(kind, std::move(next));
  }

  void gather() {
    ir::Layout next = now_;
    next.dims = goal_.dims;
    Kind kind = move_kind(now_, next, mesh_);
    push(kind, std::move(next));
  }

  const ir::Type& type_;
  const ir::MeshAxes& mesh_;
  ir::Layout now_;
  const ir::Layout& goal_;
  std::vector<Step> steps_;
};

std::int64_t total(const ir::Type& type, const ir::Layout& from, const std::vector<Step>& steps,
                   const ir::MeshAxes& mesh) {
  std::int64_t sum = 0;
  const ir::Layout* at = &from;
  for (const auto& s : steps) {
    sum += received(type, *at, s.layout, mesh);
    at = &s.layout;
  }
  return sum;
}

}  // namespace

std::vector<Step> plan(const ir::Type& type, const ir::Layout& from, const ir::Layout& goal, const ir::MeshAxes& mesh) {
  AxisMask open = from.partial & ~goal.partial;
  if (from == goal) return {};
  using First = Planner::First;
  std::vector<Step> steps = Planner(type, from, goal, mesh).run(First::Complete);
  if (open == 0 || from.dims == goal.dims) return steps;
  std::int64_t least = total(type, from, steps, mesh);
  for (First first : {First::Move, First::Scatter}) {
    if (first == First::Move && (open & goal.tiled()) == 0) continue;
    std::vector<Step> other = Planner(type, from, goal, mesh).run(first);
    std::int64_t bytes = total(type, from, other, mesh);
    if (bytes >= least) continue;
    least = bytes;
    steps = std::move(other);
  }
  return steps;
}

std::int64_t cost(const ir::Type& type, const ir::Layout& from, const ir::Layout& goal, const ir::MeshAxes& mesh) {
  if (from.dims == goal.dims) return received(type, from, goal, mesh);  // an all-reduce at most
  return total(type, from, plan(type, from, goal, mesh), mesh);
}

namespace {
std::size_t hash_of(const ir::Type& type, const ir::Layout& from, const ir::Layout& goal) {
  using base::hash_mix;
  std::size_t h = static_cast<std::size_t>(dtype_size(type.dtype));
  for (auto extent : type.shape) h = hash_mix(h, static_cast<std::size_t>(extent));
  for (const auto* l : {&from, &goal}) {
    for (const auto& axes : l->dims) {
      h = hash_mix(h, axes.size());
      for (auto a : axes) h = hash_mix(h, a);
    }
    h = hash_mix(h, l->partial + (std::size_t{l->vary} << 32));
    h = hash_mix(h, static_cast<std::size_t>(l->reduction));
  }
  return h;
}
}  // namespace

bool ChangeCosts::Change::is(const ir::Type& type, const ir::Layout& f, const ir::Layout& g) const {
  return element == dtype_size(type.dtype) && shape == type.shape && from == f && goal == g;
}

std::int64_t ChangeCosts::of(const ir::Type& type, const ir::Layout& from, const ir::Layout& goal,
                             const ir::MeshAxes& mesh) {
  if (from.dims == goal.dims) return cost(type, from, goal, mesh);  // as quick as to look it up
  const std::size_t hash = hash_of(type, from, goal);
  for (auto [it, end] = known_.equal_range(hash); it != end; ++it) {
    if (it->second.is(type, from, goal)) return it->second.bytes;
  }
  const std::int64_t bytes = cost(type, from, goal, mesh);
  known_.emplace(hash, Change{type.shape, dtype_size(type.dtype), from, goal, bytes});
  return bytes;
}

bool tiles_stay(const Shape& shape, const ir::Layout& have, const ir::Layout& goal, AxisMask made,
                const ir::MeshAxes& mesh) {
  for (std::size_t d = 0; d < goal.dims.size(); ++d) {
    if (!ops::nested(shape[d], goal.dims[d], have.dims[d], mesh)) return false;
    if ((mask_of(have.dims[d]) & ~mask_of(goal.dims[d]) & ~made) != 0) return false;
  }
  return true;
}

Dims moving_axes(const ir::Layout& from, const ir::Layout& to) {
  AxisMask moved = from.partial & ~to.partial;
  for (std::size_t d = 0; d < from.dims.size(); ++d) {
    if (from.dims[d] == to.dims[d]) continue;
    std::size_t shared = common_prefix(from.dims[d], to.dims[d]);
    for (std::size_t i = shared; i < from.dims[d].size(); ++i) moved |= bit(from.dims[d][i]);
    for (std::size_t i = shared; i < to.dims[d].size(); ++i) {
      // An axis that was not in use splits for nothing.
      if (bit(to.dims[d][i]) & (from.tiled() | from.partial)) moved |= bit(to.dims[d][i]);
    }
  }
  Dims out;
  for (std::uint8_t a = 0; a < 32; ++a) {
    if (moved & bit(a)) out.push_back(a);
  }
  return out;
}

}  // namespace tessera::spmd
