// SPDX-License-Identifier: Apache-2.0
#include "spmd/reshard.h"

#include <algorithm>

namespace tessera::spmd {

namespace {

using Kind = ops::Reshard::Kind;

bool even(std::int64_t extent, const AxisList& axes, const ir::MeshAxes& mesh) {
  return extent % ir::parts(axes, mesh) == 0;
}

// Every tile of `fine` lies inside the tile of `coarse` of the same position.
bool nested(std::int64_t extent, const AxisList& coarse, const AxisList& fine, const ir::MeshAxes& mesh) {
  return is_prefix(coarse, fine) && (coarse.empty() || coarse.size() == fine.size() || even(extent, fine, mesh));
}

// Fewest elements of one dimension that a position with a full new tile has already.
std::int64_t least_overlap(std::int64_t extent, const AxisList& from, const AxisList& to, const ir::MeshAxes& mesh) {
  std::int64_t n = ir::parts(from, mesh);
  std::int64_t m = ir::parts(to, mesh);
  auto chunk = [&](std::int64_t count) { return (extent + count - 1) / count; };
  if (from == to || nested(extent, from, to, mesh)) return chunk(m);
  if (nested(extent, to, from, mesh)) {
    auto [begin, end] = ir::part_range(extent, n, n - 1);
    return end - begin;
  }
  if (!is_prefix(from, to) && !is_prefix(to, from)) return 0;
  std::int64_t least = extent;
  for (std::int64_t i = 0; i < std::max(n, m); ++i) {
    auto a = ir::part_range(extent, n, n < m ? i / (m / n) : i);
    auto b = ir::part_range(extent, m, n < m ? i : i / (n / m));
    least = std::min(least, std::max<std::int64_t>(0, std::min(a.second, b.second) - std::max(a.first, b.first)));
  }
  return least;
}

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

  std::vector<Step> run(bool move_first) {
    slice();
    if (move_first) move();
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
      while (axes.size() > next.dims[d].size() && !nested(type_.shape[d], next.dims[d], axes, mesh_)) axes.pop_back();
      used |= mask_of(axes);
      next.dims[d] = std::move(axes);
    }
    push(Kind::Slice, std::move(next));
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
      while (axes.size() > next.dims[d].size() && !nested(type_.shape[d], next.dims[d], axes, mesh_)) {
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
      if (!nested(type_.shape[d], want, have, mesh_)) {
        needed = true;
        have = want;
        std::size_t keep = 0;  // axes that still sum can be added only when they are complete
        while (keep < have.size() && !(now_.partial & bit(have[keep]))) ++keep;
        have.resize(keep);
        continue;
      }
      std::size_t keep = want.size();
      while (keep < have.size() && !(wanted & bit(have[keep]))) ++keep;
      if (!even(type_.shape[d], have, mesh_)) keep = want.size();
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

constexpr std::int64_t kTooLarge = std::int64_t{1} << 50;  // bytes; leaves room for sums and products with axes

std::int64_t local_bytes(const ir::Type& type, const ir::Layout& layout, const ir::MeshAxes& mesh) {
  std::int64_t n = dtype_size(type.dtype);
  for (std::size_t d = 0; d < type.shape.size(); ++d) {
    std::int64_t count = ir::parts(layout.dims[d], mesh);
    // Sizes beyond any memory only have to stay too large: the allocation refuses them.
    if (__builtin_mul_overflow(n, (type.shape[d] + count - 1) / count, &n)) return kTooLarge;
  }
  return n;
}

std::int64_t received(const ir::Type& type, const ir::Layout& from, const ir::Layout& to, const ir::MeshAxes& mesh) {
  AxisMask done = from.partial & ~to.partial;
  std::int64_t mine = local_bytes(type, to, mesh);
  if (done != 0) {
    std::int64_t n = ir::axes_size(done, mesh);
    if (done & to.tiled()) return mine * (n - 1);
    return (2 * mine * (n - 1) + n - 1) / n;  // a scatter, then a gather
  }
  std::int64_t kept = dtype_size(type.dtype);
  for (std::size_t d = 0; d < type.shape.size(); ++d) {
    kept *= least_overlap(type.shape[d], from.dims[d], to.dims[d], mesh);
  }
  return std::max<std::int64_t>(0, mine - kept);
}

std::vector<Step> plan(const ir::Type& type, const ir::Layout& from, const ir::Layout& goal, const ir::MeshAxes& mesh) {
  AxisMask open = from.partial & ~goal.partial;
  if (from == goal) return {};
  std::vector<Step> steps = Planner(type, from, goal, mesh).run(false);
  if ((open & goal.tiled()) == 0) return steps;
  std::vector<Step> other = Planner(type, from, goal, mesh).run(true);
  return total(type, from, other, mesh) < total(type, from, steps, mesh) ? other : steps;
}

std::int64_t cost(const ir::Type& type, const ir::Layout& from, const ir::Layout& goal, const ir::MeshAxes& mesh) {
  if (from.dims == goal.dims && from.partial == goal.partial) return 0;
  return total(type, from, plan(type, from, goal, mesh), mesh);
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
