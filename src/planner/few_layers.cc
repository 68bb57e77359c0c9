// SPDX-License-Identifier: Apache-2.0
#include "planner/few_layers.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>

#include "base/hash.h"
#include "base/index.h"
#include "ir/op_def.h"
#include "ir/rewriter.h"

namespace tessera::planner {

namespace {

constexpr std::size_t kLeastCopies = 12;

// Equations that follow each other in equal copies.
struct Run {
  std::size_t begin, period, copies;
  // Copy c is part of layer `first + step * c`; step 0: of none that is known.
  std::int64_t first = 0, step = 0;

  std::size_t equations() const { return period * copies; }
  std::int64_t layer(std::size_t copy) const { return first + step * static_cast<std::int64_t>(copy); }
};

// A value among those of its kind, of which each layer has one.
struct Place {
  std::size_t kind = 0;
  std::int64_t layer = 0;
};

class Finder {
 public:
  explicit Finder(const ir::Graph& g)
      : g_(g), argument_(g.num_values()), places_(g.num_values()), layered_(g.num_values()) {
    for (auto v : g.inputs) argument_[at(v)] = true;
    find_runs();
    count_layers();
  }

  std::optional<WithoutLayers> keeping(std::int64_t first, std::int64_t last) const;
  std::int64_t layers() const { return layers_; }

 private:
  void find_runs();
  void count_layers();
  bool begin_layers(Run& run);
  bool join(Run& run, bool by_arguments);
  void place_arguments(const Run& run);
  void place_results(const Run& run);
  void place(ir::ValueId v, Place where) {
    places_[at(v)] = where;
    layered_[at(v)] = true;
    values_.try_emplace({where.kind, where.layer}, v);
  }
  const ir::Eqn& equation(const Run& run, std::size_t copy, std::size_t i) const {
    return g_.eqns[run.begin + copy * run.period + i];
  }
  // Operand `slot` of the copies' equation i.
  std::vector<ir::ValueId> operands(const Run& run, std::size_t i, std::size_t slot) const {
    std::vector<ir::ValueId> out;
    for (std::size_t c = 0; c < run.copies; ++c) out.push_back(equation(run, c, i).in[slot]);
    return out;
  }

  const ir::Graph& g_;
  std::vector<Run> runs_;
  std::int64_t layers_ = 0;
  std::size_t kinds_ = 0;
  std::vector<bool> argument_;                                          // by value
  std::vector<Place> places_;                                           // by value
  std::vector<bool> layered_;                                           // by value: whether it has a place
  std::map<std::pair<std::size_t, std::int64_t>, ir::ValueId> values_;  // by kind and layer
};

// The longest run from each equation on, then from where it ends.
void Finder::find_runs() {
  const std::size_t n = g_.eqns.size();
  std::vector<std::size_t> key;
  std::unordered_map<std::size_t, std::vector<std::size_t>> where;
  for (const auto& e : g_.eqns) {
    std::size_t h = base::hash_mix(std::hash<const void*>{}(e.op), ir::hash_of(e.attrs));
    auto add = [&](ir::ValueId v) {
      h = base::hash_mix(base::hash_range(h, g_.type(v).shape), static_cast<std::size_t>(g_.type(v).dtype));
    };
    std::ranges::for_each(e.in, add);
    std::ranges::for_each(e.out, add);
    where[h].push_back(key.size());
    key.push_back(h);
  }
  for (std::size_t i = 0; i < n;) {
    Run best{i, 1, 1};
    const auto& same = where[key[i]];
    for (auto j = std::ranges::upper_bound(same, i); j != same.end(); ++j) {
      const std::size_t period = *j - i;
      if (i + period * kLeastCopies > n) break;
      std::size_t length = 0;
      while (i + period + length < n && key[i + length] == key[i + period + length]) ++length;
      const Run run{i, period, length / period + 1};
      if (run.copies >= kLeastCopies && run.equations() > best.equations()) best = run;
    }
    if (best.copies > 1) runs_.push_back(best);
    i += best.equations();
  }
}

// Layers are counted by the first run whose copies have arguments of their own, and then known by what they are read
// with.
void Finder::count_layers() {
  auto first = std::ranges::find_if(runs_, [&](Run& run) { return begin_layers(run); });
  if (first == runs_.end()) return;
  layers_ = static_cast<std::int64_t>(first->copies);
  for (auto run = first + 1; run != runs_.end(); ++run) {
    if (!join(*run, true) && !join(*run, false)) continue;
    place_arguments(*run);
    place_results(*run);
  }
}

bool Finder::begin_layers(Run& run) {
  run.step = 1;
  const std::size_t before = kinds_;
  place_arguments(run);
  if (kinds_ == before) {
    run.step = 0;
    return false;
  }
  place_results(run);
  return true;
}

// The first operand whose layers follow each other, up or down. The copies at both ends may read something else.
bool Finder::join(Run& run, bool by_arguments) {
  for (std::size_t i = 0; i < run.period; ++i) {
    for (std::size_t slot = 0; slot < equation(run, 0, i).in.size(); ++slot) {
      const std::vector<ir::ValueId> values = operands(run, i, slot);
      if (by_arguments != argument_[at(values[1])] || !layered_[at(values[1])] || !layered_[at(values[2])]) continue;
      const std::int64_t step = places_[at(values[2])].layer - places_[at(values[1])].layer;
      const std::int64_t begin = places_[at(values[1])].layer - step;
      bool follow = step == 1 || step == -1;
      for (std::size_t c = 1; c + 1 < run.copies && follow; ++c) {
        const Place& p = places_[at(values[c])];
        follow = layered_[at(values[c])] && p.kind == places_[at(values[1])].kind &&
                 p.layer == begin + step * static_cast<std::int64_t>(c);
      }
      if (!follow) continue;
      run.step = step;
      run.first = begin;
      // A copy may reach from one layer into the next, and then has arguments of both: where there are as many copies
      // as layers, each is the part of one.
      if (static_cast<std::int64_t>(run.copies) == layers_) run.first = step > 0 ? 0 : layers_ - 1;
      return true;
    }
  }
  return false;
}

// Arguments of which every copy has one of its own.
void Finder::place_arguments(const Run& run) {
  for (std::size_t i = 0; i < run.period; ++i) {
    for (std::size_t slot = 0; slot < equation(run, 0, i).in.size(); ++slot) {
      std::vector<ir::ValueId> values = operands(run, i, slot);
      if (!std::ranges::all_of(values, [&](ir::ValueId v) { return argument_[at(v)] && !layered_[at(v)]; })) continue;
      std::vector<ir::ValueId> once = values;
      std::ranges::sort(once);
      if (std::ranges::adjacent_find(once) != once.end()) continue;
      for (std::size_t c = 0; c < run.copies; ++c) place(values[c], {kinds_, run.layer(c)});
      ++kinds_;
    }
  }
}

void Finder::place_results(const Run& run) {
  for (std::size_t i = 0; i < run.period; ++i) {
    for (std::size_t k = 0; k < equation(run, 0, i).out.size(); ++k, ++kinds_) {
      for (std::size_t c = 0; c < run.copies; ++c) place(equation(run, c, i).out[k], {kinds_, run.layer(c)});
    }
  }
}

// The program with the first and the last so many layers.
std::optional<WithoutLayers> Finder::keeping(std::int64_t first, std::int64_t last) const {
  const std::int64_t gone = layers_ - first - last;
  auto stays = [&](std::int64_t layer) { return layer < first || layer >= layers_ - last; };
  for (const auto& run : runs_) {
    const auto [low, high] = std::minmax({run.layer(0), run.layer(run.copies - 1)});
    if (run.step != 0 && (low > first || high < layers_ - last - 1)) return std::nullopt;  // of some of the layers
  }
  ir::Builder b;
  ir::Rewriter to(b, g_);
  WithoutLayers out;
  for (std::size_t i = 0; i < g_.inputs.size(); ++i) {
    const ir::ValueId v = g_.inputs[i];
    if (layered_[at(v)] && !stays(places_[at(v)].layer)) continue;
    to.bind(v, b.input(g_.type(v)));
    out.inputs.push_back(i);
  }
  // What an equation of this layer reads: of a layer that is gone, what is as far away among those that stay.
  auto operand = [&](ir::ValueId v, std::optional<std::int64_t> layer) -> ir::Value {
    if (!layered_[at(v)] || stays(places_[at(v)].layer)) return to[v];
    if (!layer) return {};
    std::int64_t there = (*layer < first ? *layer : *layer - gone) + places_[at(v)].layer - *layer;
    if (there >= first) there += gone;
    auto like = values_.find({places_[at(v)].kind, there});
    const bool same = like != values_.end() && g_.type(like->second) == g_.type(v);
    return same ? to[like->second] : ir::Value{};
  };
  auto run = runs_.begin();
  for (std::size_t i = 0; i < g_.eqns.size(); ++i) {
    while (run != runs_.end() && i >= run->begin + run->equations()) ++run;
    const bool known = run != runs_.end() && i >= run->begin && run->step != 0;
    std::optional<std::int64_t> layer;
    if (known) layer = run->layer((i - run->begin) / run->period);
    if (layer && !stays(*layer)) continue;
    const ir::Eqn& e = g_.eqns[i];
    ir::Values in;
    for (auto v : e.in) {
      in.push_back(operand(v, layer));
      if (!in.back()) return std::nullopt;
    }
    to.bind(e.out, to.copy(e, in));
  }
  ir::Values results;
  for (std::size_t i = 0; i < g_.outputs.size(); ++i) {
    const ir::Value value = to[g_.outputs[i]];
    if (!value) continue;
    results.push_back(value);
    out.outputs.push_back(i);
  }
  out.graph = b.finish_shared(results);
  return out;
}

}  // namespace

std::optional<FewLayers> few_layers(const ir::Graph& g) {
  const Finder finder(g);
  if (finder.layers() == 0) return std::nullopt;
  auto fewer = finder.keeping(1, 1);
  auto more = finder.keeping(2, 2);
  if (!fewer || !more) return std::nullopt;
  return FewLayers{*std::move(fewer), *std::move(more), static_cast<double>(finder.layers() - 2) / 2};
}

}  // namespace tessera::planner
