// SPDX-License-Identifier: Apache-2.0
#include "ops/shape/reshape_sharding.h"

#include <algorithm>

#include "base/strings.h"

namespace tessera::ops {

namespace {

using ir::AxisList;
using ir::DimAxes;

struct Dim {
  std::int64_t extent;
  AxisList entry;
};
using DimList = std::vector<Dim>;

// A dimension's axes go to the dimensions that it is split up into, from the left; a dimension is used up before the
// next one gets any. False where they cannot.
bool deal(const AxisList& axes, const AbstractMesh& mesh, DimList& to, std::size_t begin, std::size_t end) {
  std::size_t next = 0;
  for (std::size_t i = begin; i < end && next < axes.size(); ++i) {
    std::int64_t left = to[i].extent;
    while (next < axes.size() && left % mesh.axis_sizes()[axes[next]] == 0) {
      left /= mesh.axis_sizes()[axes[next]];
      to[i].entry.push_back(axes[next++]);
    }
    if (next < axes.size() && left != 1) return false;
  }
  return next == axes.size();
}

// A group of dimensions becomes one, with their axes in order. False where a sharded one follows an unsharded one.
bool merge(const DimList& from, std::size_t begin, std::size_t end, Dim& to) {
  bool gap = false;
  for (std::size_t i = begin; i < end; ++i) {
    if (gap && !from[i].entry.empty()) return false;
    gap = gap || from[i].entry.empty();
    to.entry.insert(to.entry.end(), from[i].entry.begin(), from[i].entry.end());
  }
  return true;
}

bool any_entry(const DimList& dims) {
  for (const auto& d : dims) {
    if (!d.entry.empty()) return true;
  }
  return false;
}

// The dimensions of `long_` that each dimension of `short_` becomes: all one by one but for a single group, which takes
// trailing extents of 1 along. Extents of 1 count as any other. Empty where there are several groups, or none fits, or,
// which `uncounted` says, extents of 1 are left over.
struct Group {
  std::size_t begin, end;
};
std::vector<Group> one_group(const DimList& short_, const DimList& long_, bool& uncounted) {
  std::size_t last_short = short_.size();
  std::size_t last_long = long_.size();
  std::vector<Group> tail;
  while (last_short > 0 && last_long > 0 && short_[last_short - 1].extent == 1 && long_[last_long - 1].extent == 1) {
    --last_short;
    --last_long;
    tail.insert(tail.begin(), {last_long, last_long + 1});
  }
  std::vector<Group> out;
  bool grouped = false;
  std::size_t i = 0;
  std::size_t j = 0;
  while (j < last_long) {
    if (i >= last_short) {
      uncounted = true;
      return {};
    }
    const std::size_t begin = j;
    if (short_[i].extent == long_[j].extent) {
      ++j;
    } else {
      if (grouped) return {};
      grouped = true;
      std::int64_t n = long_[j++].extent;
      while (n != short_[i].extent || (j < last_long && long_[j].extent == 1)) {
        if (n == short_[i].extent && i + 1 < last_short && long_[j].extent == short_[i + 1].extent) break;
        if (n > short_[i].extent || j >= last_long) return {};
        n *= long_[j++].extent;
      }
    }
    out.push_back({begin, j});
    ++i;
  }
  if (i != last_short) {
    uncounted = true;
    return {};
  }
  out.insert(out.end(), tail.begin(), tail.end());
  return out;
}

DimList without_ones(const DimList& dims) {
  DimList out;
  for (const auto& d : dims) {
    if (d.extent != 1) out.push_back(d);
  }
  return out;
}

// Entries of `to`. False where they do not follow.
bool follow(const DimList& from, DimList& to, const AbstractMesh& mesh) {
  if (!any_entry(from)) return true;
  const DimList dense = without_ones(from);
  const DimList dense_to = without_ones(to);
  if (std::ranges::equal(dense, dense_to, {}, &Dim::extent, &Dim::extent)) {
    std::size_t next = 0;
    for (auto& d : to) {
      if (d.extent != 1) d.entry = dense[next++].entry;
    }
    return true;
  }
  const bool splits = to.size() > from.size();
  if (to.size() == from.size()) return false;
  bool uncounted = false;
  const std::vector<Group> groups = splits ? one_group(from, to, uncounted) : one_group(to, from, uncounted);
  if (uncounted && (dense.size() != from.size() || dense_to.size() != to.size())) {
    DimList inner = dense_to;
    if (!follow(dense, inner, mesh)) return false;
    std::size_t next = 0;
    for (auto& d : to) {
      if (d.extent != 1) d.entry = inner[next++].entry;
    }
    return true;
  }
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const auto [begin, end] = groups[i];
    if (splits) {
      if (end - begin == 1) {
        to[begin].entry = from[i].entry;
      } else if (!deal(from[i].entry, mesh, to, begin, end)) {
        return false;
      }
    } else if (!merge(from, begin, end, to[i])) {
      return false;
    }
  }
  return !groups.empty();
}

}  // namespace

void place_reshape(const ir::PlaceArgs& args, ir::Types& out) {
  const Shape& before = args.in[0].shape;
  const Shape& after = out[0].shape;
  const ir::TypeSharding s = ir::sharding_of(args.in[0], args.mesh);
  DimList from, to;
  for (std::size_t d = 0; d < before.size(); ++d) from.push_back({before[d], s.dims[d]});
  for (auto extent : after) to.push_back({extent, {}});
  ir::TypeSharding result{args.mesh, DimAxes(after.size()), s.unreduced, s.reduced};
  if (follow(from, to, args.mesh)) {
    for (std::size_t d = 0; d < to.size(); ++d) result.dims[d] = std::move(to[d].entry);
  } else if (args.strict()) {
    ir::refuse_sharding(args, str("the entries of ", args.in[0], " do not follow to the shape ", after),
                        "Give out_sharding= (jnp.reshape and lax.reshape take it), or reshard the operand first");
  } else {
    // What both have in common in front stays.
    for (std::size_t d = 0; d < before.size() && d < after.size() && before[d] == after[d]; ++d) {
      result.dims[d] = s.dims[d];
    }
  }
  ir::set_sharding(args, out[0], std::move(result));
}

}  // namespace tessera::ops
