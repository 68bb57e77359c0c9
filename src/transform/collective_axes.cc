// SPDX-License-Identifier: Apache-2.0
#include "transform/collective_axes.h"

#include <algorithm>

#include "base/strings.h"
#include "program/axis_env.h"
#include "program/graph_fragment.h"

namespace tessera::program {

namespace {
[[noreturn]] void number_as_name(const char* function, std::int64_t n) {
  throw UnboundAxisError(str(function, ": unbound axis name: ", n, " (a number is no axis name here)"));
}
}  // namespace

Axes resolve(const AxisNames& axes, const char* function, bool numbers) {
  Axes out;
  for (std::size_t i = 0; i < axes.values().size(); ++i) {
    if (auto n = axes.number(i)) {
      if (!numbers) number_as_name(function, *n);
      out.positional.push_back(*n);
      continue;
    }
    const auto& name = axes.values()[i];
    if (!name) throw ValueError(str(function, ": axes[", i, "] has no value; expected an axis name"));
    const auto& bound = find_axis(*name, function);
    auto& list = out.named.names.list;
    if (std::find(list.begin(), list.end(), bound.internal) != list.end()) {
      throw ValueError(str(function, ": the axis name ", *name, " is repeated in ", "axes"));
    }
    list.push_back(bound.internal);
    out.named.sizes.push_back(bound.size);
  }
  out.named.checked = checks_varying();
  return out;
}

void set_groups(Axes& axes, const std::optional<AxisIndexGroups>& groups, const char* function, bool even) {
  if (!groups) return;
  if (!axes.positional.empty()) {
    throw AxisGroupsError(str(function, ": axis_index_groups works with named axes only, and axes has numbers"));
  }
  std::int64_t n = axes.named.total();
  std::vector<bool> seen(static_cast<std::size_t>(n));
  std::int64_t count = 0;
  bool good = !groups->empty();
  for (const auto& g : *groups) {
    good = good && !g.empty();
    for (auto i : g) {
      bool fresh = i >= 0 && i < n && !seen[static_cast<std::size_t>(i)];
      good = good && fresh;
      if (fresh) seen[static_cast<std::size_t>(i)] = true;
      ++count;
    }
  }
  if (!good || count != n) {
    throw AxisGroupsError(str(function, ": axis_index_groups must cover the indices 0 to ", n - 1,
                              " of the axis exactly once, in groups that are not empty"));
  }
  for (const auto& g : *groups) {
    if (even && g.size() != groups->front().size()) {
      throw AxisGroupsError(str(function, ": axis_index_groups has groups of ", groups->front().size(), " and of ",
                                g.size(), " members; expected groups of the same size"));
    }
  }
  axes.named.groups.emplace(groups->begin(), groups->end());
}

Dims positions(const Dims& numbers, std::int64_t rank, const char* function, bool wrap) {
  Dims out;
  for (auto n : numbers) {
    std::int64_t d = wrap && n < 0 ? n + rank : n;
    if (d < 0 || d >= rank) {
      throw IndexError(str(function, ": positional axis ", n, " is out of range for a block of rank ", rank));
    }
    if (std::find(out.begin(), out.end(), d) != out.end()) {
      throw ValueError(str(function, ": the positional axis ", n, " is repeated"));
    }
    out.push_back(d);
  }
  return out;
}

Array one(const char* function, const Loc& loc, const Array& x, const std::function<ir::Value(ir::Value)>& f) {
  return graph_fragment1(function, loc, {x}, [&](ir::Builder&, const ir::Values& v) { return f(v[0]); });
}
detail::Leaves each(const char* function, const Loc& loc, const detail::Leaves& x,
                    const std::function<ir::Value(ir::Value)>& f) {
  detail::Leaves out;
  for (const auto& a : x) out.push_back(one(function, loc, a, f));
  return out;
}

}  // namespace tessera::program
