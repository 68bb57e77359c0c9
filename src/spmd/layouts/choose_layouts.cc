// SPDX-License-Identifier: Apache-2.0
// Layouts chosen by the bytes that the whole program moves: propagation decides value by value, from whoever names axes
// first. Here what single equations would rather have is tried out on all of the program (docs/propagation.md).
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "spmd/equations/divided_equations.h"
#include "spmd/layouts/alternatives.h"
#include "spmd/spmd.h"

namespace tessera::spmd {

namespace {

// The same alternative for all equations that are alike: the layers of a model take it together.
struct Idea {
  const ir::Eqn* eqn;
  std::vector<FixedLayout> fixed;
  double saved = 0;
};

class Chooser {
 public:
  explicit Chooser(ir::Module m) : m_(std::move(m)), propagation_(m_, &trial_.factorings) {
    layouts_ = propagation_.run();
    // Who reads results sees what propagation says of them.
    for (std::size_t i = 0; i < m_.outputs.size(); ++i) {
      const ir::ValueId v = m_.graph->outputs[i];
      auto& layout = m_.outputs[i].layout;
      if (!layout) layout = visible(m_.graph->type(v), layouts_[static_cast<std::size_t>(v)], m_);
    }
    for (std::size_t i = 0; i < m_.inputs.size(); ++i) {
      auto& layout = m_.inputs[i].layout;
      if (!layout) layout = layouts_[static_cast<std::size_t>(m_.graph->inputs[i])];
    }
    propagation_.take_ports();
    graph_ = partition(m_, layouts_, trial_);
    price_ = price_of(*graph_);
  }

  ir::GraphPtr run() {
    for (std::size_t left = failures(); left > 0;) {
      bool gained = false;
      for (const auto& idea : ideas()) {
        gained = attempt(idea);
        if (gained || --left == 0) break;
      }
      if (!gained) break;
    }
    return graph_;
  }

 private:
  // After as many no more is tried: each costs a partitioning. In some 130 programs none gained after one that failed.
  std::size_t failures() const {
    constexpr std::size_t kCheap = 512;  // equations
    return m_.graph->eqns.size() < kCheap ? 2 : 1;
  }
  static constexpr double kWorth = 1.0 / 32;  // of all that is moved: less is not tried, and not taken
  // What could be moved while an exchange starts, on any network at least: small values stay in one exchange.
  static constexpr double kStart = 4096;  // bytes

  static double cost(const Price& p) {
    return static_cast<double>(p.bytes) + kStart * static_cast<double>(p.exchanges);
  }
  bool worth(double saved) const { return saved > 0 && saved >= kWorth * cost(price_); }

  // The most promising first.
  std::vector<Idea> ideas() {
    std::vector<Idea> all;
    if (price_.bytes == 0) return all;
    for (auto& other : alternatives(m_, layouts_, trial_)) {
      auto it = std::ranges::find_if(all, [&](const Idea& i) { return alike(i, other); });
      if (it == all.end()) it = all.insert(all.end(), Idea{other.eqn, {}, 0});
      it->saved += other.saved;
      it->fixed.insert(it->fixed.end(), other.results.begin(), other.results.end());
    }
    std::erase_if(all, [&](const Idea& i) { return !worth(i.saved) || tried(i); });
    std::ranges::stable_sort(all, std::ranges::greater{}, &Idea::saved);
    return all;
  }

  bool alike(const Idea& idea, const Alternative& other) const {
    const ir::Eqn &a = *idea.eqn, &b = *other.eqn;
    if (a.op != b.op || !ir::equal(a.attrs, b.attrs) || a.in.size() != b.in.size() || a.out.size() != b.out.size())
      return false;
    for (std::size_t i = 0; i < other.results.size(); ++i) {
      if (!(idea.fixed[i].layout == other.results[i].layout)) return false;
    }
    auto same = [&](ir::ValueId x, ir::ValueId y) {
      const auto &lx = layouts_[static_cast<std::size_t>(x)], &ly = layouts_[static_cast<std::size_t>(y)];
      return m_.graph->type(x) == m_.graph->type(y) && lx == ly;
    };
    return std::ranges::equal(a.in, b.in, same) && std::ranges::equal(a.out, b.out, same);
  }

  bool tried(const Idea& idea) const {
    return std::ranges::any_of(tried_, [&](const std::vector<FixedLayout>& other) {
      return std::ranges::equal(idea.fixed, other, [](const FixedLayout& a, const FixedLayout& b) {
        return a.value == b.value && a.layout == b.layout;
      });
    });
  }

  bool attempt(const Idea& idea) {
    tried_.push_back(idea.fixed);
    std::vector<FixedLayout> fixed;
    for (const auto& f : fixed_) {
      if (std::ranges::find(idea.fixed, f.value, &FixedLayout::value) == idea.fixed.end()) fixed.push_back(f);
    }
    fixed.insert(fixed.end(), idea.fixed.begin(), idea.fixed.end());
    std::vector<ir::Layout> layouts = propagation_.run(fixed);
    auto others = std::move(trial_.others);
    // What it saves at its equations it must not have lost before.
    trial_.limits = {most_bytes_of_less(price_), std::move(trial_.moved), static_cast<std::int64_t>(idea.saved)};
    ir::GraphPtr graph = partition(m_, layouts, trial_);
    const Price found = graph ? price_of(*graph) : Price{};
    if (!graph || !less(found, price_) || !worth(cost(price_) - cost(found))) {
      trial_.others = std::move(others);
      trial_.moved = std::move(trial_.limits.pace);
      trial_.limits = {};
      return false;
    }
    trial_.limits = {};
    fixed_ = std::move(fixed);
    layouts_ = std::move(layouts);
    graph_ = std::move(graph);
    price_ = found;
    return true;
  }

  ir::Module m_;
  Trial trial_;  // of `layouts_`
  Propagation propagation_;
  std::vector<ir::Layout> layouts_;
  ir::GraphPtr graph_;
  Price price_;
  std::vector<FixedLayout> fixed_;
  std::vector<std::vector<FixedLayout>> tried_;
};

std::vector<ir::Layout> undivided_layouts(const ir::Graph& g) {
  std::vector<ir::Layout> out;
  out.reserve(g.num_values());
  for (const auto& type : g.types) out.push_back(ir::Layout::replicated(type.rank()));
  return out;
}

}  // namespace

ir::GraphPtr partition(const ir::Module& m) {
  // On one device there is nothing to choose.
  if (m.mesh->sizes.empty()) return partition(m, undivided_layouts(*m.graph));
  return Chooser(m).run();
}

}  // namespace tessera::spmd
