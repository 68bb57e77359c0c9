// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "ir/op_def.h"
#include "ops/control/subgraph_structure.h"
#include "ops/shared_attrs.h"
#include "spmd/late_completion.h"
#include "spmd/layout_change.h"
#include "spmd/sums_wanted.h"

namespace tessera::spmd {

namespace {

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max() / 4;
constexpr std::size_t kMostValues = 400;  // beyond them the sum is taken to be needed

// A network whose least cut is found by augmenting shortest paths (Edmonds and Karp, doi.org/10.1145/321694.321699).
class Network {
 public:
  std::size_t add_node() {
    edges_.emplace_back();
    return edges_.size() - 1;
  }
  void add_edge(std::size_t from, std::size_t to, std::int64_t capacity) {
    edges_[from].push_back({to, capacity, edges_[to].size()});
    edges_[to].push_back({from, 0, edges_[from].size() - 1});
  }
  std::int64_t flow(std::size_t source, std::size_t sink) {
    std::int64_t sum = 0;
    while (sum < kUnlimited) {
      std::vector<Step> steps = search(source);
      if (!steps[sink].reached) break;
      std::int64_t least = kUnlimited;
      for (std::size_t n = sink; n != source; n = steps[n].from) least = std::min(least, edge(steps[n]).capacity);
      for (std::size_t n = sink; n != source; n = steps[n].from) {
        Edge& e = edge(steps[n]);
        e.capacity -= least;
        edges_[e.to][e.back].capacity += least;
      }
      sum += least;
    }
    return sum;
  }
  /// Nodes on the source's side of the cut, after `flow`.
  std::vector<bool> before(std::size_t source) {
    std::vector<bool> out;
    for (const Step& s : search(source)) out.push_back(s.reached);
    return out;
  }

 private:
  struct Edge {
    std::size_t to;
    std::int64_t capacity;
    std::size_t back;  // of the reverse edge, among those of `to`
  };
  struct Step {
    bool reached = false;
    std::size_t from = 0, edge = 0;
  };
  Edge& edge(const Step& s) { return edges_[s.from][s.edge]; }

  std::vector<Step> search(std::size_t source) const {
    std::vector<Step> steps(edges_.size());
    std::vector<std::size_t> queue{source};
    steps[source].reached = true;
    for (std::size_t next = 0; next < queue.size(); ++next) {
      for (std::size_t k = 0; k < edges_[queue[next]].size(); ++k) {
        const Edge& e = edges_[queue[next]][k];
        if (e.capacity == 0 || steps[e.to].reached) continue;
        steps[e.to] = {true, queue[next], k};
        queue.push_back(e.to);
      }
    }
    return steps;
  }

  std::vector<std::vector<Edge>> edges_;  // by node
};

class Region {
 public:
  Region(const ir::Graph& g, const ir::MeshAxes& mesh, const std::vector<ir::Layout>& wanted, const GraphUses& uses,
         ir::ValueId origin, AxisMask axes, ChangeCosts& costs)
      : g_(g),
        mesh_(mesh),
        wanted_(wanted),
        uses_(uses),
        origin_(origin),
        axes_(axes),
        costs_(costs),
        known_(g.num_values(), false) {
    find();
  }

  std::vector<ir::ValueId> cut() const {
    std::vector<std::int64_t> cost;
    cost.reserve(values_.size());
    for (auto v : values_) cost.push_back(completion(v));
    // No cut is less than its least value: mostly the origin itself.
    if (std::ranges::min(cost) >= cost.front()) return {};
    Network net;
    std::vector<std::size_t> in(g_.num_values());  // where a value comes in; it goes out of the next node
    for (std::size_t n = 0; n < values_.size(); ++n) {
      in[at(values_[n])] = net.add_node();
      net.add_edge(in[at(values_[n])], net.add_node(), cost[n]);
    }
    std::size_t sink = net.add_node();
    for (auto v : values_) {
      bool needed = uses_.returned(v) || split_by_them(v) || uses_.of(v).empty();
      for (const auto& use : uses_.of(v)) {
        if (!passes(use)) {
          needed = true;
          continue;
        }
        for (auto r : use.eqn->out) {
          known_[at(r)] ? net.add_edge(in[at(v)] + 1, in[at(r)], kUnlimited) : (void)(needed = true);
        }
      }
      if (needed) net.add_edge(in[at(v)] + 1, sink, kUnlimited);
    }
    std::size_t source = in[at(origin_)];
    if (net.flow(source, sink) >= cost.front()) return {};
    std::vector<bool> before = net.before(source);
    std::vector<ir::ValueId> out;
    for (auto v : values_) {
      if (v != origin_ && before[in[at(v)]]) out.push_back(v);
    }
    return out;
  }

 private:
  static std::size_t at(ir::ValueId v) { return static_cast<std::size_t>(v); }

  void add(ir::ValueId v) {
    values_.push_back(v);
    known_[at(v)] = true;
  }

  void find() {
    add(origin_);
    for (std::size_t next = 0; next < values_.size() && values_.size() < kMostValues; ++next) {
      if (split_by_them(values_[next])) continue;
      for (const auto& use : uses_.of(values_[next])) {
        if (!passes(use)) continue;
        for (auto r : use.eqn->out) {
          if (!known_[at(r)]) add(r);
        }
      }
    }
  }

  bool split_by_them(ir::ValueId v) const { return (wanted_[at(v)].tiled() & axes_) != 0; }

  // Whether the equation's results are sums where this operand is one. A product is linear in one operand at a time;
  // that its others are not sums, too, is not looked at beyond those of this region.
  bool passes(const Use& use) const {
    const ir::Eqn& e = *use.eqn;
    if (e.op == &ops::def::sharding_constraint || ops::control_of(e) || !linear_in(g_, e, use.operand)) return false;
    if (e.op->traits().linearity == ir::Linearity::Joint) return true;
    for (std::size_t i = 0; i < linear_operands(e); ++i) {
      if (i != use.operand && known_[at(e.in[i])]) return false;
    }
    return true;
  }

  std::int64_t completion(ir::ValueId v) const {
    ir::Layout goal{wanted_[at(v)].dims};
    ir::Layout from = goal;
    for (auto& dim : from.dims) ir::drop_axes(dim, axes_);
    from.partial = axes_;
    return costs_.of(g_.type(v), from, goal, mesh_);
  }

  const ir::Graph& g_;
  const ir::MeshAxes& mesh_;
  const std::vector<ir::Layout>& wanted_;
  const GraphUses& uses_;
  ir::ValueId origin_;
  AxisMask axes_;
  ChangeCosts& costs_;
  std::vector<ir::ValueId> values_;  // reached from the origin through what is linear
  std::vector<bool> known_;          // by value: whether it is one of them
};

}  // namespace

std::vector<ir::ValueId> left_partial(const ir::Graph& g, const ir::MeshAxes& mesh,
                                      const std::vector<ir::Layout>& wanted, const GraphUses& uses, ir::ValueId origin,
                                      AxisMask axes, ChangeCosts& costs) {
  return Region(g, mesh, wanted, uses, origin, axes, costs).cut();
}

}  // namespace tessera::spmd
