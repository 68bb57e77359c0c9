// SPDX-License-Identifier: Apache-2.0
#include "sharding/mesh_tiling.h"

#include <algorithm>

#include "sharding/access.h"

namespace tessera::sharding {

std::optional<MeshTiling> mesh_tiling(const Sharding& s, std::int64_t ndim) { return Access::mesh_tiling(s, ndim); }

std::vector<std::int64_t> axis_strides(const std::vector<std::int64_t>& axis_sizes) {
  std::vector<std::int64_t> strides(axis_sizes.size());
  std::int64_t s = 1;
  for (std::size_t i = axis_sizes.size(); i-- > 0;) {
    strides[i] = s;
    s *= axis_sizes[i];
  }
  return strides;
}

std::size_t join_digits(std::span<Digit> digits) {
  std::size_t n = 0;
  for (const Digit d : digits) {
    if (d.size == 1) continue;
    if (n > 0 && digits[n - 1].stride == d.stride * d.size) {
      digits[n - 1] = {digits[n - 1].size * d.size, d.stride};
    } else {
      digits[n++] = d;
    }
  }
  return n;
}
std::vector<Digit> canonical(std::vector<Digit> digits) {
  digits.resize(join_digits(digits));
  return digits;
}

std::vector<std::vector<Digit>> dim_digits(const MeshTiling& t) {
  auto strides = axis_strides(t.axis_sizes);
  std::vector<std::vector<Digit>> out;
  out.reserve(t.dim_axes.size());
  for (const auto& axes : t.dim_axes) {
    std::vector<Digit> digits;
    digits.reserve(axes.size());
    for (int a : axes) {
      auto i = static_cast<std::size_t>(a);
      digits.push_back({t.axis_sizes[i], strides[i]});
    }
    out.push_back(canonical(std::move(digits)));
  }
  return out;
}

std::vector<Digit> addend_digits(const MeshTiling& t) {
  auto strides = axis_strides(t.axis_sizes);
  std::vector<Digit> digits;
  for (int a : t.unreduced) {
    auto i = static_cast<std::size_t>(a);
    digits.push_back({t.axis_sizes[i], strides[i]});
  }
  return canonical(std::move(digits));
}

std::optional<std::vector<std::vector<Digit>>> cut_digits(const std::vector<Digit>& digits, const Dims& products) {
  std::vector<std::vector<Digit>> out;
  std::size_t next = 0;
  Digit rest{1, 1};
  for (std::int64_t need : products) {
    out.emplace_back();
    while (need > 1) {
      while (rest.size == 1) {
        if (next == digits.size()) return std::nullopt;
        rest = digits[next++];
      }
      if (need % rest.size == 0) {
        out.back().push_back(rest);
        need /= rest.size;
        rest.size = 1;
      } else if (rest.size % need == 0) {
        // The slow part of the digit belongs here, the fast part to the next dimension.
        out.back().push_back({need, rest.stride * (rest.size / need)});
        rest.size /= need;
        need = 1;
      } else {
        return std::nullopt;
      }
    }
  }
  return out;
}

std::optional<Refinement> common_refinement(const std::vector<std::vector<std::int64_t>>& grids) {
  // A grid is the set of its suffix products; the common grid cuts at all of them.
  std::vector<std::int64_t> cuts{1};
  std::optional<std::int64_t> total;
  for (const auto& grid : grids) {
    std::int64_t s = 1;
    for (std::size_t i = grid.size(); i-- > 0;) {
      s *= grid[i];
      cuts.push_back(s);
    }
    if (total && *total != s) return std::nullopt;
    total = s;
  }
  std::ranges::sort(cuts);
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  Refinement out;
  std::size_t n = cuts.size() - 1;  // number of refined axes; axis i covers cuts[n-1-i] .. cuts[n-i]
  for (std::size_t i = 0; i < n; ++i) {
    if (cuts[n - i] % cuts[n - 1 - i] != 0) return std::nullopt;
    out.sizes.push_back(cuts[n - i] / cuts[n - 1 - i]);
  }
  for (const auto& grid : grids) {
    auto strides = axis_strides(grid);
    auto& per_axis = out.axes.emplace_back();
    for (std::size_t a = 0; a < grid.size(); ++a) {
      auto& refined = per_axis.emplace_back();
      for (std::size_t i = 0; i < n; ++i) {
        if (cuts[n - 1 - i] >= strides[a] && cuts[n - i] <= strides[a] * grid[a])
          refined.push_back(static_cast<int>(i));
      }
    }
  }
  return out;
}

}  // namespace tessera::sharding
