// SPDX-License-Identifier: Apache-2.0
#include "planner/mesh_search.h"

#include <algorithm>
#include <array>
#include <random>

#include "ir/axis_sets.h"

namespace tessera::planner {

namespace {

constexpr std::size_t kShortList = 12;         // of the candidates of the round before that are tried first
constexpr std::int64_t kSmallestShare = 4096;  // arguments of fewer bytes are left to propagation
constexpr std::size_t kMostShown = 3;          // alternatives

using Decisions = std::vector<Decision>;

void apply(Chosen& chosen, const Decision& d, const std::vector<ValueGroup>& groups) {
  auto& layout = chosen[d.group];
  if (d.layout) {
    layout = d.layout;
    return;
  }
  if (!layout) layout = ir::Layout::replicated(groups[d.group].type.rank());
  layout->dims[d.dim].push_back(d.axis);
}

// Of all decisions but one, in whose place there may be another.
Chosen chosen_of(const Decisions& decisions, const std::vector<ValueGroup>& groups,
                 std::optional<std::size_t> but = std::nullopt, const Decision* instead = nullptr) {
  Chosen out(groups.size());
  for (std::size_t i = 0; i < decisions.size(); ++i) {
    const Decision* d = i == but ? instead : &decisions[i];
    if (d != nullptr) apply(out, *d, groups);
  }
  return out;
}

bool divides(const Decision& d, const Chosen& chosen, const PlanPricer& pricer) {
  const auto& layout = chosen[d.group];
  const std::int64_t parts = layout ? ir::parts(layout->dims[d.dim], pricer.mesh()) : 1;
  const std::int64_t size = pricer.mesh().sizes[d.axis];
  const bool used = layout && (layout->tiled() >> d.axis & 1) != 0;
  return !used && size > 1 && pricer.groups()[d.group].type.shape[d.dim] % (parts * size) == 0;
}

// An axis on one more dimension of a group that it does not split yet, where it divides the extent.
Decisions additions(const Chosen& chosen, const PlanPricer& pricer) {
  const auto& groups = pricer.groups();
  Decisions out;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].inside() || groups[g].type.nbytes() < kSmallestShare) continue;
    for (std::size_t d = 0; d < groups[g].type.shape.size(); ++d) {
      for (std::size_t a = 0; a < pricer.mesh().sizes.size(); ++a) {
        const Decision added{g, d, static_cast<std::uint8_t>(a)};
        if (divides(added, chosen, pricer)) out.push_back(added);
      }
    }
  }
  std::ranges::stable_sort(out, std::greater(), [&](const Decision& d) { return groups[d.group].bytes(); });
  return out;
}

class Climb {
 public:
  Climb(PlanPricer& pricer, Decisions begin) : pricer_(pricer), decisions_(std::move(begin)) {
    now_ = pricer_.price(chosen());
  }

  Price run() {
    do {
      grow();
    } while (refine());
    return now_;
  }
  const Decisions& decisions() const { return decisions_; }

 private:
  Chosen chosen() const { return chosen_of(decisions_, pricer_.groups()); }

  // Priced on top of what is decided, the best first.
  void price(Decisions& list) {
    std::vector<Chosen> all(list.size(), chosen());
    for (std::size_t i = 0; i < list.size(); ++i) apply(all[i], list[i], pricer_.groups());
    const std::vector<Price> prices = pricer_.prices(all);
    for (std::size_t i = 0; i < list.size(); ++i) list[i].price = prices[i];
    sort(list);
  }
  void sort(Decisions& list) const {
    std::ranges::stable_sort(list, {}, [&](const Decision& d) { return pricer_.score(d.price); });
  }
  // Those of the short list, and the others only where none of these helps.
  Decisions tried(const Decisions& list, bool all) {
    const auto most = static_cast<std::ptrdiff_t>(all ? list.size() : std::min(kShortList, list.size()));
    Decisions out(list.begin(), list.begin() + most);
    price(out);
    if (out.size() == list.size() || (!out.empty() && pricer_.better(out[0].price, now_))) return out;
    Decisions others(list.begin() + most, list.end());
    price(others);
    out.insert(out.end(), others.begin(), others.end());
    sort(out);
    return out;
  }

  void grow() {
    Decisions list = additions(chosen(), pricer_);
    bool first = true;
    while (!list.empty()) {
      const Decisions priced = tried(list, first);
      if (!pricer_.better(priced[0].price, now_)) return;
      decisions_.push_back(priced[0]);
      now_ = priced[0].price;
      list = additions(chosen(), pricer_);
      std::ranges::stable_sort(list, {}, [&](const Decision& d) {
        auto same = [&](const Decision& o) { return o.group == d.group && o.dim == d.dim && o.axis == d.axis; };
        return std::ranges::find_if(priced, same) - priced.begin();
      });
      first = false;
    }
  }

  // What was decided early is looked at again beside all that came later: another dimension, or none. True where that
  // made the plan better.
  bool refine() {
    bool any = false;
    for (std::size_t k = 0; k < decisions_.size();) {
      const bool removed = improve(k, any);
      if (!removed) ++k;
    }
    return any;
  }
  bool improve(std::size_t k, bool& any) {
    const auto& groups = pricer_.groups();
    const Decision before = decisions_[k];
    const Chosen without = chosen_of(decisions_, groups, k);
    for (std::size_t to = 0; to < groups[before.group].type.shape.size(); ++to) {
      const Decision moved{before.group, to, before.axis};
      if (to == decisions_[k].dim || !divides(moved, without, pricer_)) continue;
      const Price p = pricer_.price(chosen_of(decisions_, groups, k, &moved));
      if (!pricer_.better(p, now_)) continue;
      decisions_[k] = moved;
      now_ = p;
      any = true;
    }
    // A decision that saves nothing has no place in the plan.
    const Price p = pricer_.price(without);
    if (pricer_.score(p) > pricer_.score(now_)) return false;
    any = any || pricer_.better(p, now_);
    now_ = p;
    decisions_.erase(decisions_.begin() + static_cast<std::ptrdiff_t>(k));
    return true;
  }

  PlanPricer& pricer_;
  Decisions decisions_;
  Price now_;
};

// Which dimension of a shape is split; none: not this one.
using Choice = std::optional<std::size_t> (*)(const Shape& shape);
std::optional<std::size_t> longest(const Shape& s) {
  return static_cast<std::size_t>(std::ranges::max_element(s) - s.begin());
}
std::optional<std::size_t> rows(const Shape&) { return 0; }
std::optional<std::size_t> columns(const Shape& s) { return s.size() - 1; }
std::optional<std::size_t> whole(const Shape&) { return std::nullopt; }

// How an axis splits every second group, and how the others, where it divides them.
struct Pattern {
  Choice even, odd;
};

void split_all(Decisions& out, const PlanPricer& pricer, std::size_t axis, const Pattern& pattern) {
  const auto& groups = pricer.groups();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const ir::Type& type = groups[g].type;
    if (groups[g].inside() || type.shape.empty() || type.nbytes() < kSmallestShare) continue;
    const auto dim = (g % 2 == 0 ? pattern.even : pattern.odd)(type.shape);
    if (!dim) continue;
    const Decision d{g, *dim, static_cast<std::uint8_t>(axis)};
    if (divides(d, chosen_of(out, groups), pricer)) out.push_back(d);
  }
}

// What people begin with: nothing; in small programs also everything split by its longest dimension, or each axis by
// rows and columns, all alike or in turn.
std::vector<Decisions> beginnings(const PlanPricer& pricer, const Decisions& hint) {
  if (!pricer.small()) return {{}};
  std::vector<Decisions> out{{}};
  const std::array<Choice, 3> choices{rows, columns, whole};
  for (std::size_t axis = 0; axis < pricer.mesh().sizes.size(); ++axis) {
    const std::vector<Decisions> before = out;
    out.clear();
    for (const auto& decisions : before) {
      for (auto even : choices) {
        for (auto odd : choices) split_all(out.emplace_back(decisions), pricer, axis, {even, odd});
      }
    }
  }
  Decisions& all = out.emplace_back();
  for (std::size_t axis = 0; axis < pricer.mesh().sizes.size(); ++axis) {
    split_all(all, pricer, axis, {longest, longest});
  }
  out.push_back(hint);
  return out;
}

}  // namespace

namespace {

struct Found {
  double score = 0;
  Decisions decisions;
};

void sort(std::vector<Found>& list) { std::ranges::stable_sort(list, {}, &Found::score); }

// Each once, the best first, and then that without decisions, from which climbs go far.
std::vector<Found> in_order(PlanPricer& pricer, const std::vector<Decisions>& list) {
  std::vector<Chosen> all;
  for (const auto& decisions : list) all.push_back(chosen_of(decisions, pricer.groups()));
  const std::vector<Price> prices = pricer.prices(all);
  std::vector<Found> out;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto end = all.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::find(all.begin(), end, all[i]) == end) out.push_back({pricer.score(prices[i]), list[i]});
  }
  sort(out);
  auto none = std::ranges::find_if(out, [](const Found& f) { return f.decisions.empty(); });
  if (none > out.begin() + 1) std::rotate(out.begin() + 1, none, none + 1);
  return out;
}

// Two decisions taken back at random, others made at random in their place.
Decisions kicked(Decisions decisions, const PlanPricer& pricer, std::mt19937& rng) {
  for (int i = 0; i < 2; ++i) {
    if (!decisions.empty()) {
      decisions.erase(decisions.begin() + static_cast<std::ptrdiff_t>(rng() % decisions.size()));
    }
    const Decisions list = additions(chosen_of(decisions, pricer.groups()), pricer);
    if (!list.empty()) decisions.push_back(list[rng() % list.size()]);
  }
  return decisions;
}

// Where climbs begin and end, the best first.
std::vector<Found> climbed(PlanPricer& pricer, const Decisions& hint) {
  constexpr int kKicks = 12;
  const auto& groups = pricer.groups();
  const std::vector<Found> begins = in_order(pricer, beginnings(pricer, hint));
  std::vector<Found> found = begins;
  sort(found);
  auto climb = [&](const Decisions& begin) {
    Climb one(pricer, begin);
    const double score = pricer.score(one.run());
    auto same = [&](const Found& f) { return chosen_of(f.decisions, groups) == chosen_of(one.decisions(), groups); };
    if (std::ranges::none_of(found, same)) found.push_back({score, one.decisions()});
    sort(found);
  };
  for (const auto& begin : begins) {
    if (&begin == begins.data() || pricer.count() < pricer.most()) climb(begin.decisions);
  }
  std::mt19937 rng;
  for (int i = 0; pricer.small() && i < kKicks && pricer.count() < pricer.most(); ++i) {
    climb(kicked(found[0].decisions, pricer, rng));
  }
  return found;
}

// Prices that are exact for the first few, which are put in order, and forgets the others.
void price_exactly(PlanPricer& exact, std::vector<Found>& found) {
  const std::size_t most = exact.small() ? 24 : 3;
  found.resize(std::min(most, found.size()));
  std::vector<Chosen> all;
  for (const auto& f : found) all.push_back(chosen_of(f.decisions, exact.groups()));
  const std::vector<Price> prices = exact.prices(all);
  for (std::size_t i = 0; i < found.size(); ++i) found[i].score = exact.score(prices[i]);
  sort(found);
}

}  // namespace

MeshPlan best_arguments(PlanPricer& rough, PlanPricer& exact, const Decisions& hint) {
  constexpr std::size_t kFinalists = 3;
  std::vector<Found> found = climbed(rough, hint);
  price_exactly(exact, found);
  found.resize(std::min(kFinalists, found.size()));
  for (auto& f : found) {
    if (!exact.small() || (&f != found.data() && exact.count() > exact.most())) break;
    Climb climb(exact, std::move(f.decisions));
    f.score = exact.score(climb.run());
    f.decisions = climb.decisions();
  }
  MeshPlan out;
  out.mesh = exact.mesh();
  out.decisions = std::ranges::min_element(found, {}, &Found::score)->decisions;
  out.chosen = chosen_of(out.decisions, exact.groups());
  return out;
}

namespace {

// Other layouts for the values of a group than the one that they have: without an axis, or with an axis on one
// dimension and nowhere else.
std::vector<ir::Layout> other_layouts(const ir::Layout& now, const ir::Type& type, const ir::MeshAxes& mesh) {
  std::vector<ir::Layout> out;
  auto add = [&](const ir::Layout& l) {
    if (l != now && std::ranges::find(out, l) == out.end()) out.push_back(l);
  };
  for (std::size_t a = 0; a < mesh.sizes.size(); ++a) {
    if (mesh.sizes[a] == 1) continue;
    ir::Layout without = now;
    for (auto& axes : without.dims) ir::drop_axes(axes, ir::bit(a));
    add(without);
    for (std::size_t d = 0; d < type.shape.size(); ++d) {
      ir::Layout moved = without;
      moved.dims[d].push_back(static_cast<std::uint8_t>(a));
      if (type.shape[d] % ir::parts(moved.dims[d], mesh) == 0) add(moved);
    }
  }
  return out;
}

// Layouts for values inside the program, on top of a plan.
Decisions constraints_on(PlanPricer& pricer, const Chosen& chosen) {
  const auto& groups = pricer.groups();
  const std::vector<ir::Layout> layouts = pricer.layouts(chosen);
  Decisions out;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (!groups[g].inside()) continue;
    ir::Layout now = chosen[g] ? *chosen[g] : layouts[static_cast<std::size_t>(groups[g].values[0])];
    now.partial = 0;
    now.reduction = {};
    now.vary = 0;
    for (auto& l : other_layouts(now, groups[g].type, pricer.mesh())) out.push_back({g, 0, 0, std::move(l)});
    if (!chosen[g]) out.push_back({g, 0, 0, now});  // what is partial, complete
  }
  return out;
}

}  // namespace

void constrain(PlanPricer& pricer, MeshPlan& plan) {
  constexpr int kMostConstraints = 3;
  const auto& groups = pricer.groups();
  for (int round = 0; round < kMostConstraints; ++round) {
    Decisions list = constraints_on(pricer, plan.chosen);
    std::vector<Chosen> all(list.size(), plan.chosen);
    for (std::size_t i = 0; i < list.size(); ++i) apply(all[i], list[i], groups);
    const std::vector<Price> prices = pricer.prices(all);
    for (std::size_t i = 0; i < list.size(); ++i) list[i].price = prices[i];
    auto best = std::ranges::min_element(list, {}, [&](const Decision& d) { return pricer.score(d.price); });
    // A line that someone has to write is worth more than a rounding error.
    constexpr double kWorthALine = 1e-3;
    if (best == list.end() || pricer.score(best->price) > pricer.score(plan.price) * (1 - kWorthALine)) return;
    std::erase_if(plan.decisions, [&](const Decision& d) { return d.layout && d.group == best->group; });
    plan.decisions.push_back(*best);
    plan.price = best->price;
    plan.chosen = chosen_of(plan.decisions, groups);
  }
}

namespace {

// What could stand in the place of decision `k`.
Decisions replacements(const PlanPricer& pricer, const Decisions& decisions, std::size_t k) {
  const Decision& d = decisions[k];
  Decisions out;
  if (d.layout) return out;
  const Chosen without = chosen_of(decisions, pricer.groups(), k);
  for (std::size_t to = 0; to < pricer.groups()[d.group].type.shape.size(); ++to) {
    const Decision moved{d.group, to, d.axis};
    if (to != d.dim && divides(moved, without, pricer)) out.push_back(moved);
  }
  return out;
}

}  // namespace

void account(PlanPricer& pricer, MeshPlan& plan) {
  const auto& groups = pricer.groups();
  Chosen before(groups.size());
  for (std::size_t k = 0; k < plan.decisions.size(); ++k) {
    apply(before, plan.decisions[k], groups);
    plan.decisions[k].price = pricer.price(before);
    std::vector<Alternative> tried{{std::nullopt, pricer.price(chosen_of(plan.decisions, groups, k))}};
    for (const auto& other : replacements(pricer, plan.decisions, k)) {
      tried.push_back({other, pricer.price(chosen_of(plan.decisions, groups, k, &other))});
    }
    auto score = [&](const Alternative& a) { return pricer.score(a.price); };
    std::ranges::stable_sort(tried, {}, score);
    tried.resize(std::min(kMostShown, tried.size()));
    plan.rejected.push_back(std::move(tried));
  }
  plan.further = additions(plan.chosen, pricer);
  if (plan.further.size() > kShortList) plan.further.resize(kShortList);
  for (auto& d : plan.further) {
    Chosen with = plan.chosen;
    apply(with, d, groups);
    d.price = pricer.price(with);
  }
  std::ranges::stable_sort(plan.further, {}, [&](const Decision& d) { return pricer.score(d.price); });
  if (plan.further.size() > kMostShown) plan.further.resize(kMostShown);
}

}  // namespace tessera::planner
