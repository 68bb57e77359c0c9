// SPDX-License-Identifier: Apache-2.0
#include "spmd/factor_candidates.h"

#include <algorithm>

namespace tessera::spmd {

namespace {

// Adds what one tensor says to what earlier ones said. True where the tensor said something else.
bool merge(const Factoring& f, const FactorAxes& offer, FactorAxes& into, AxisMask& used) {
  bool conflict = false;
  for (std::size_t n = 0; n < f.num_factors(); ++n) {
    const AxisList& axes = offer[n];
    AxisList& have = into[n];
    if (axes.empty()) continue;
    if (!is_prefix(have, axes)) {
      conflict = conflict || !is_prefix(axes, have);
      continue;
    }
    for (std::size_t i = have.size(); i < axes.size(); ++i) {
      if (used & bit(axes[i])) {
        conflict = true;
        break;
      }
      have.push_back(axes[i]);
      used |= bit(axes[i]);
    }
  }
  return conflict;
}

// Axes that a tensor has on dimensions that must be whole, in order.
AxisList left_over(const Factoring& f, const Hint& hint, const FactorAxes& offer) {
  AxisMask taken = 0;
  for (const auto& axes : offer) taken |= mask_of(axes);
  AxisList out;
  for (std::size_t d = 0; d < hint.dims->size(); ++d) {
    const auto& factors = f.tensor(hint.tensor)[d];
    bool whole = std::all_of(factors.begin(), factors.end(), [&](int n) {
      return f.rule().factors[static_cast<std::size_t>(n)].kind == ir::Factor::Kind::Whole;
    });
    for (auto a : (*hint.dims)[d]) {
      if (whole && !(taken & bit(a))) out.push_back(a);
    }
  }
  return out;
}

// Moves axes that no factor has to the longest factors that can be split, so that an exchange does where everything
// would be gathered. True where one was moved.
bool settle(const Factoring& f, const ir::MeshAxes& mesh, const AxisList& axes, FactorAxes& into) {
  bool moved = false;
  for (auto a : axes) {
    AxisMask used = 0;
    for (const auto& list : into) used |= mask_of(list);
    if (used & bit(a)) continue;
    int best = -1;
    std::int64_t most = 1;
    for (std::size_t n = 0; n < into.size(); ++n) {
      const auto& factor = f.rule().factors[n];
      std::int64_t now = ir::parts(into[n], mesh);
      bool can = factor.kind == ir::Factor::Kind::Pass && f.splittable(static_cast<int>(n), now * mesh.sizes[a]);
      if (!can || factor.size / now <= most) continue;
      most = factor.size / now;
      best = static_cast<int>(n);
    }
    if (best < 0) continue;
    into[static_cast<std::size_t>(best)].push_back(a);
    moved = true;
  }
  return moved;
}

}  // namespace

Candidates candidates(const Factoring& factoring, const std::vector<Hint>& hints, const ir::MeshAxes& mesh) {
  Candidates found;
  if (std::ranges::all_of(hints, [](const Hint& h) { return mask_of(*h.dims) == 0; })) {
    found.ways.emplace_back(factoring.num_factors());  // nobody names an axis
    return found;
  }
  std::vector<FactorAxes> offers;
  offers.reserve(hints.size());
  for (const auto& h : hints) {
    offers.emplace_back(factoring.num_factors());
    factoring.project(h.tensor, *h.dims, offers.back());
  }
  std::vector<std::size_t> order;  // results, then operands by size
  for (std::size_t i = 0; i < hints.size(); ++i) order.push_back(i);
  auto is_result = [&](std::size_t i) { return hints[i].tensor >= factoring.num_operands(); };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (is_result(a) != is_result(b)) return is_result(a);
    return hints[a].weight > hints[b].weight;
  });
  std::vector<FactorAxes>& out = found.ways;
  bool conflict = false;
  auto add = [&](const std::vector<std::size_t>& by) {
    FactorAxes axes(factoring.num_factors());
    AxisMask used = 0;
    for (auto i : by) conflict = merge(factoring, offers[i], axes, used) || conflict;
    factoring.repair(axes);
    if (std::find(out.begin(), out.end(), axes) == out.end()) out.push_back(std::move(axes));
  };
  add(order);
  for (std::size_t i = 0; i < hints.size(); ++i) {
    FactorAxes axes = out.front();
    if (!settle(factoring, mesh, left_over(factoring, hints[i], offers[i]), axes)) continue;
    factoring.repair(axes);
    auto& list = found.settled;
    if (axes != out.front() && std::find(list.begin(), list.end(), axes) == list.end()) list.push_back(std::move(axes));
  }
  if (!conflict) return found;  // every order gives the same
  for (auto first : order) {
    if (mask_of(offers[first]) == 0) continue;
    std::vector<std::size_t> by{first};
    for (auto i : order) {
      if (i != first && !is_result(i)) by.push_back(i);
    }
    for (auto i : order) {
      if (i != first && is_result(i)) by.push_back(i);
    }
    add(by);
  }
  // Without splitting what is summed over, for when operands disagree on it.
  std::size_t n = out.size();
  for (std::size_t k = 0; k < n; ++k) {
    FactorAxes axes = out[k];
    for (std::size_t f = 0; f < axes.size(); ++f) {
      if (factoring.rule().factors[f].kind == ir::Factor::Kind::Reduce) axes[f].clear();
    }
    factoring.repair(axes);
    if (std::find(out.begin(), out.end(), axes) == out.end()) out.push_back(std::move(axes));
  }
  return found;
}

std::vector<FactorAxes> elsewhere(const Factoring& factoring, const std::vector<Hint>& hints, const FactorAxes& first,
                                  const ir::MeshAxes& mesh) {
  AxisMask held = 0;
  for (const auto& h : hints) {
    if (h.tensor < factoring.num_operands()) held |= mask_of(*h.dims);
  }
  std::vector<FactorAxes> out;
  for (std::size_t a = 0; a < mesh.sizes.size(); ++a) {
    const auto axis = static_cast<std::uint8_t>(a);
    if (!(held & bit(axis))) continue;
    FactorAxes rest = first;
    for (auto& axes : rest) ir::drop_axes(axes, bit(axis));
    for (std::size_t n = 0; n < rest.size(); ++n) {
      const bool has = std::ranges::count(first[n], axis) > 0;
      const std::int64_t count = ir::parts(rest[n], mesh) * mesh.sizes[a];
      if (has || factoring.rule().factors[n].kind != ir::Factor::Kind::Pass) continue;
      if (!factoring.splittable(static_cast<int>(n), count)) continue;
      FactorAxes way = rest;
      way[n].push_back(axis);
      factoring.repair(way);
      out.push_back(std::move(way));
    }
  }
  return out;
}

}  // namespace tessera::spmd
