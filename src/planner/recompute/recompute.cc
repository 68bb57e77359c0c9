// SPDX-License-Identifier: Apache-2.0
#include "planner/recompute/recompute.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "ir/op_def.h"
#include "ir/rewriter.h"
#include "ops/ops.h"

namespace tessera::planner {

namespace {

// A value has versions: the first, and one for the readers after each equation that it is computed again for.
class Recomputer {
 public:
  Recomputer(const ir::Graph& g, const std::vector<Recomputation>& list)
      : g_(g), to_(builder_, g), maker_(g.num_values()) {
    for (const auto& r : list) bounds_[r.value].push_back(r);
    for (auto& [v, bounds] : bounds_) std::ranges::sort(bounds, {}, &Recomputation::after);
    for (const auto& e : g.eqns) {
      for (auto v : e.out) maker_[static_cast<std::size_t>(v)] = &e;
    }
  }

  ir::GraphPtr run() {
    to_.add_inputs();
    for (std::size_t i = 0; i < g_.eqns.size(); ++i) {
      const ir::Eqn& e = g_.eqns[i];
      ir::Values in;
      for (auto v : e.in) in.push_back(version(v, versions_before(v, i), i));
      to_.bind(e.out, to_.copy(e, in));
    }
    return to_.finish("with_recomputations");
  }

 private:
  std::size_t versions_before(ir::ValueId v, std::size_t reader) const {
    auto it = bounds_.find(v);
    if (it == bounds_.end()) return 0;
    return static_cast<std::size_t>(
        std::ranges::count_if(it->second, [&](const Recomputation& r) { return r.after < reader; }));
  }

  // The `k`th version of a value, written now where it is not there yet: before the reader.
  ir::Value version(ir::ValueId v, std::size_t k, std::size_t reader) {
    if (k == 0) return to_[v];
    if (auto it = made_.find({v, k}); it != made_.end()) return it->second;
    const Recomputation& r = bounds_.at(v)[k - 1];
    const ir::Value out = r.copies ? apart(v, version(v, k - 1, reader), r.after) : computed(v, r, reader);
    made_.emplace(std::pair(v, k), out);
    return out;
  }

  ir::Value computed(ir::ValueId v, const Recomputation& r, std::size_t reader) {
    const ir::Eqn& e = *maker_[static_cast<std::size_t>(v)];
    ir::Values in;
    bool differs = false;
    for (auto x : e.in) {
      const std::size_t k = versions_before(x, reader);
      differs = differs || k > 0;
      in.push_back(version(x, k, reader));
    }
    if (!differs && !in.empty()) {
      const std::size_t i = parted(e);
      in[i] = apart(e.in[i], in[i], r.after);
    }
    const ir::Values out = to_.copy(e, in);
    const auto k = static_cast<std::size_t>(std::ranges::find(e.out, v) - e.out.begin());
    return in.empty() ? barrier(out[k]) : out[k];
  }

  // The operand behind a barrier, the largest of those that are in memory anyway: results of products and reductions
  // rather than arguments, which may be there in other layouts too, and these rather than what would have been fused.
  std::size_t parted(const ir::Eqn& e) const {
    auto key = [&](ir::ValueId v) {
      const ir::Eqn* maker = maker_[static_cast<std::size_t>(v)];
      const bool fused = maker != nullptr && (maker->op->traits().elementwise || maker->op->traits().view);
      return std::pair(fused ? 0 : maker == nullptr ? 1 : 2, g_.type(v).nbytes());
    };
    return static_cast<std::size_t>(std::ranges::max_element(e.in, {}, key) - e.in.begin());
  }

  ir::Value apart(ir::ValueId v, ir::Value value, std::size_t after) {
    auto [it, added] = apart_.try_emplace({v, value.id, after});
    if (added) it->second = barrier(value);
    return it->second;
  }
  ir::Value barrier(ir::Value value) { return builder_.add(ops::def::optimization_barrier, ir::Values{value})[0]; }

  const ir::Graph& g_;
  ir::Builder builder_;
  ir::Rewriter to_;
  std::vector<const ir::Eqn*> maker_;  // by value; null: an input
  std::map<ir::ValueId, std::vector<Recomputation>> bounds_;
  std::map<std::pair<ir::ValueId, std::size_t>, ir::Value> made_;  // by value and version
  std::map<std::tuple<ir::ValueId, ir::ValueId, std::size_t>, ir::Value> apart_;
};

}  // namespace

ir::GraphPtr with_recomputations(const ir::GraphPtr& graph, const std::vector<Recomputation>& list) {
  return list.empty() ? graph : Recomputer(*graph, list).run();
}

}  // namespace tessera::planner
