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

}  // namespace

std::vector<FactorAxes> candidates(const Factoring& factoring, const std::vector<Hint>& hints) {
  std::vector<FactorAxes> offers;
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
  std::vector<FactorAxes> out;
  bool conflict = false;
  auto add = [&](const std::vector<std::size_t>& by) {
    FactorAxes axes(factoring.num_factors());
    AxisMask used = 0;
    for (auto i : by) conflict = merge(factoring, offers[i], axes, used) || conflict;
    factoring.repair(axes);
    if (std::find(out.begin(), out.end(), axes) == out.end()) out.push_back(std::move(axes));
  };
  add(order);
  if (!conflict) return out;  // every order gives the same
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
  return out;
}

}  // namespace tessera::spmd
