// SPDX-License-Identifier: Apache-2.0
// Lists of mesh axes as sets, and their common beginnings: what layouts are compared by.
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "ir/layout.h"

namespace tessera::ir {

inline AxisMask bit(std::size_t axis) { return AxisMask{1} << axis; }

/// The set of the axes in a list of numbers, or in the lists of all dimensions. `axes_of` (ir/type_sharding.h) is the
/// other way.
template <class List>
AxisMask mask_of(const List& list) {
  AxisMask mask = 0;
  for (const auto& a : list) {
    if constexpr (std::is_integral_v<std::remove_cvref_t<decltype(a)>>) {
      mask |= bit(static_cast<std::size_t>(a));
    } else {
      mask |= mask_of(a);
    }
  }
  return mask;
}

/// Number of leading axes that both lists share.
inline std::size_t common_prefix(const AxisList& a, const AxisList& b) {
  std::size_t n = 0;
  while (n < a.size() && n < b.size() && a[n] == b[n]) ++n;
  return n;
}
inline bool is_prefix(const AxisList& shorter, const AxisList& longer) {
  return common_prefix(shorter, longer) == shorter.size();
}

/// Takes out of a list the axes for which `drop` holds, or those of a set.
template <class Drop>
void drop_if(AxisList& axes, const Drop& drop) {
  axes.erase(std::remove_if(axes.begin(), axes.end(), drop), axes.end());
}
inline void drop_axes(AxisList& axes, AxisMask mask) {
  drop_if(axes, [mask](std::uint8_t a) { return (mask & bit(a)) != 0; });
}

}  // namespace tessera::ir
