// SPDX-License-Identifier: Apache-2.0
#include "numpy/indexing/write_sharding.h"

#include <algorithm>

#include "base/strings.h"
#include "tessera/error.h"

namespace tessera::program {

namespace {

std::size_t as_index(std::int64_t i) { return static_cast<std::size_t>(i); }

bool takes_whole(const IndexPlan& p, std::size_t d) {
  return p.starts[d] == 0 && p.limits[d] == p.operand[d] && p.strides[d] == 1;
}

// The entries of what the plan reads.
ir::TypeSharding read_sharding(const IndexPlan& p, const ir::TypeSharding& x, const ir::TypeSharding* indices) {
  ir::TypeSharding out{x.mesh, ir::DimAxes(p.gathered.size()), x.unreduced, x.reduced};
  auto entry = [&](std::int64_t d) {
    const std::size_t k = as_index(d);
    return takes_whole(p, k) || p.sliced[k] % x.parts(k) == 0 ? x.dims[k] : ir::AxisList{};
  };
  if (p.arrays.empty()) {
    for (std::size_t d = 0; d < out.dims.size(); ++d) out.dims[d] = entry(static_cast<std::int64_t>(d));
    return out;
  }
  std::vector<std::int64_t> windows;  // of the operand, in order
  for (std::int64_t d = 0; d < rank(p.operand); ++d) {
    if (std::ranges::find(p.array_dims, d) == p.array_dims.end()) windows.push_back(d);
  }
  for (std::size_t i = 0; i < windows.size(); ++i) out.dims[as_index(p.gather.offset_dims[i])] = entry(windows[i]);
  std::size_t batch = 0;
  for (std::size_t d = 0; d < out.dims.size(); ++d) {
    const bool window =
        std::ranges::find(p.gather.offset_dims, static_cast<std::int64_t>(d)) != p.gather.offset_dims.end();
    if (window) continue;
    if (indices != nullptr) out.dims[d] = indices->dims[batch];
    ++batch;
  }
  return out;
}

}  // namespace

Array placed_update(const IndexPlan& plan, const char* name, const Array& x, const Array& indices,
                    const Array& update) {
  const auto* whole = checked_sharding(x, name);
  if (whole == nullptr) return update;
  const auto* at = indices.defined() ? checked_sharding(indices, name) : nullptr;
  const auto* own = checked_sharding(update, name);
  ir::TypeSharding want = read_sharding(plan, *whole, at);
  for (std::size_t d = 0; own != nullptr && d < want.dims.size(); ++d) {
    if (own->dims[d].empty() || own->dims[d] == want.dims[d]) continue;
    throw ValueError(str(name, ": broadcasting the values, ", type_of(update, name), ", to what the index reads of ",
                         type_of(x, name), ": their dimension ", d, " is split over ",
                         ir::axes_text(own->dims[d], own->mesh),
                         " and what they meet is not; reshard the values, or give out_sharding"));
  }
  // Sums that are open, and axes that index arrays use too, are for the scatter to judge.
  ir::AxisMask used = 0;
  for (const auto& axes : want.dims) {
    for (auto a : axes) {
      const ir::AxisMask bit = ir::AxisMask{1} << a;
      if ((used & bit) != 0) return update;
      used |= bit;
    }
  }
  want.unreduced = own != nullptr ? own->unreduced : 0;
  want.reduced = own != nullptr ? own->reduced : 0;
  if (((want.unreduced | want.reduced) & used) != 0) return update;
  return typed_as(ir::intern(std::move(want)), [&] { return update; });
}

void check_read(const IndexPlan& plan, const char* name, const Array& x, const Array& indices) {
  const auto* whole = checked_sharding(x, name);
  if (whole == nullptr) return;
  const ir::TypeSharding read = read_sharding(plan, *whole, checked_sharding(indices, name));
  ir::AxisMask used = 0;
  for (const auto& axes : read.dims) {
    for (auto a : axes) {
      const ir::AxisMask bit = ir::AxisMask{1} << a;
      if ((used & bit) != 0) {
        throw DuplicateAxisError(str(name, ": the result would be split by ", ir::spec_text(read),
                                     ", duplicate entries for one mesh axis: the indices are ", type_of(indices, name),
                                     " and the operand ", type_of(x, name),
                                     "; give .at[...].get(out_sharding=), or reshard one of them"));
      }
      used |= bit;
    }
  }
}

void check_written_ranges(const IndexPlan& plan, const char* name, const Array& x) {
  const auto* s = checked_sharding(x, name);
  for (std::size_t d = 0; d < plan.operand.size(); ++d) {
    const bool by_array = std::ranges::find(plan.array_dims, static_cast<std::int64_t>(d)) != plan.array_dims.end();
    if (by_array || takes_whole(plan, d) || !is_split(s, static_cast<std::int64_t>(d))) continue;
    throw ShardingTypeError(str(name, ": scatter to a part of dimension ", d, " of ", type_of(x, name),
                                ", which is split; expected .at[...].", name,
                                "(out_sharding=), or an operand that is not split there: reshard it"));
  }
}

}  // namespace tessera::program
