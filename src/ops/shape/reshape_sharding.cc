// SPDX-License-Identifier: Apache-2.0
#include "ops/shape/reshape_sharding.h"

#include <optional>

#include "base/strings.h"

namespace tessera::ops {

namespace {

using ir::AxisList;

struct Dim {
  std::int64_t extent;
  AxisList entry;
};
using DimList = std::vector<Dim>;

std::int64_t product(const DimList& dims, std::size_t begin, std::size_t end) {
  std::int64_t n = 1;
  for (std::size_t i = begin; i < end; ++i) n *= dims[i].extent;
  return n;
}

// A dimension's axes go to the dimensions that it is split up into, from the left; a dimension is used up before the
// next one gets any. False where they cannot.
bool deal(const AxisList& axes, const AbstractMesh& mesh, DimList& to, std::size_t begin, std::size_t end) {
  std::size_t next = 0;
  for (std::size_t i = begin; i < end && next < axes.size(); ++i) {
    std::int64_t left = to[i].extent;
    while (next < axes.size() && left % mesh.axis_sizes()[axes[next]] == 0 && left > 0) {
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

// Entries of `to`, of dimensions other than of extent 1. False where they do not follow.
bool follow(const DimList& from, DimList& to, const AbstractMesh& mesh) {
  bool some = false;
  for (const auto& d : from) some = some || !d.entry.empty();
  if (!some) return true;
  // What is equal in front and behind.
  std::size_t front = 0;
  while (front < from.size() && front < to.size() && from[front].extent == to[front].extent) ++front;
  std::size_t back = 0;
  while (back < from.size() - front && back < to.size() - front &&
         from[from.size() - 1 - back].extent == to[to.size() - 1 - back].extent) {
    ++back;
  }
  const std::size_t a = from.size() - back;
  const std::size_t b = to.size() - back;
  for (std::size_t i = 0; i < front; ++i) to[i].entry = from[i].entry;
  for (std::size_t i = 0; i < back; ++i) to[b + i].entry = from[a + i].entry;
  if (a == front && b == front) return true;
  if (product(from, front, a) != product(to, front, b)) return false;
  if (a == front + 1) return deal(from[front].entry, mesh, to, front, b);
  if (b == front + 1) return merge(from, front, a, to[front]);
  return false;
}

}  // namespace

void place_reshape(const ir::PlaceArgs& args, ir::Types& out) {
  const Shape& before = args.in[0].shape;
  const Shape& after = out[0].shape;
  const ir::TypeSharding s = ir::sharding_of(args.in[0], args.mesh);
  DimList from, to;
  for (std::size_t d = 0; d < before.size(); ++d) {
    if (before[d] != 1) from.push_back({before[d], s.dims[d]});
  }
  std::vector<std::size_t> places;
  for (std::size_t d = 0; d < after.size(); ++d) {
    if (after[d] == 1) continue;
    to.push_back({after[d], {}});
    places.push_back(d);
  }
  ir::TypeSharding result{args.mesh, std::vector<AxisList>(after.size()), s.unreduced, s.reduced};
  if (before == after) {
    result.dims = s.dims;
  } else if (follow(from, to, args.mesh)) {
    for (std::size_t i = 0; i < places.size(); ++i) result.dims[places[i]] = to[i].entry;
  } else if (args.strict()) {
    ir::refuse_sharding(args, str("the entries of ", args.in[0], " do not follow to the shape ", after),
                        "Give out_sharding= (jnp.reshape and lax.reshape take it), or reshard the operand first");
  } else {
    for (std::size_t i = 0; i < places.size(); ++i) {
      // What one side of the dimensions has in common stays.
      if (i < from.size() && from[i].extent == to[i].extent) {
        result.dims[places[i]] = from[i].entry;
      } else {
        break;
      }
    }
  }
  ir::set_sharding(args, out[0], std::move(result));
}

}  // namespace tessera::ops
