// SPDX-License-Identifier: Apache-2.0
#include "planner/plan_pricer.h"

#include <algorithm>
#include <exception>
#include <thread>

#include "ir/rewriter.h"
#include "ops/ops.h"
#include "ops/shared_attrs.h"
#include "runtime/program_costs.h"
#include "spmd/spmd.h"

namespace tessera::planner {

namespace {

constexpr std::size_t kSmallProgram = 400;  // equations

// Equations of all candidates together that may be partitioned before a climb begins.
constexpr std::size_t kRoughWork = 100'000;
constexpr std::size_t kExactWork = 20'000;

// Shares of the step that a decision must save: in large programs each costs a round of candidates.
constexpr double kWorthwhileSmall = 1e-7;
constexpr double kWorthwhileLarge = 1e-3;

}  // namespace

ir::GraphPtr with_constraints(const ir::GraphPtr& graph, const std::vector<ValueGroup>& groups, const Chosen& chosen,
                              const ir::MeshAxes& mesh) {
  std::map<ir::ValueId, ir::Attrs> constrained;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (!groups[g].inside() || !chosen[g]) continue;
    ops::ShardingConstraint c;
    c.mesh_sizes = mesh.sizes;
    c.mesh_names.list = mesh.names;
    for (const auto& axes : chosen[g]->dims) c.dims.emplace_back(axes.begin(), axes.end());
    for (auto v : groups[g].values) constrained.emplace(v, ir::make_attrs(c));
  }
  if (constrained.empty()) return graph;
  ir::Builder b;
  ir::Rewriter to(b, *graph);
  to.add_inputs();
  to.walk([&](const ir::Eqn& e, const ir::Values& in) {
    ir::Values out = to.copy(e, in);
    for (std::size_t k = 0; k < out.size(); ++k) {
      auto it = constrained.find(e.out[k]);
      if (it != constrained.end()) out[k] = b.add(ops::def::sharding_constraint, ir::Values{out[k]}, it->second)[0];
    }
    return out;
  });
  return to.finish("with_constraints");
}

PlanPricer::PlanPricer(const ir::Module& m, const std::vector<ValueGroup>& groups, const ir::MeshAxes& mesh,
                       const ClusterModel& cluster, const SearchOptions& options, Effort effort,
                       std::atomic<std::int64_t>& evaluated)
    : groups_(groups),
      mesh_(mesh),
      cluster_(cluster),
      options_(options),
      effort_(effort),
      evaluated_(evaluated),
      module_(ir::module_over(m.graph, mesh)),
      small_(m.graph->eqns.size() <= kSmallProgram),
      most_((effort == Effort::Rough ? kRoughWork : kExactWork) / std::max<std::size_t>(1, m.graph->eqns.size())),
      worthwhile_(small_ ? kWorthwhileSmall : kWorthwhileLarge) {
  for (const auto& port : m.inputs) donated_.push_back(port.donated);
  if (effort == Effort::Rough && !small_) few_ = few_layers(*m.graph);
  if (options.mesh != mesh) return;
  for (std::size_t i = 0; i < m.outputs.size(); ++i) module_.outputs[i].layout = m.outputs[i].layout;
}

ir::GraphPtr PlanPricer::constrained(const Chosen& chosen) const {
  return with_constraints(module_.graph, groups_, chosen, mesh_);
}

ir::Module PlanPricer::with_ports(const Chosen& chosen) const {
  ir::Module m = module_;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (!chosen[g]) continue;
    for (auto i : groups_[g].arguments) m.inputs[i].layout = chosen[g];
  }
  return m;
}

ir::Module PlanPricer::placed(const Chosen& chosen, const ir::GraphPtr& constrained) const {
  ir::Module m = with_ports(chosen);
  m.graph = constrained;
  return spmd::prepared(std::move(m));
}

std::vector<ir::Layout> PlanPricer::layouts(const Chosen& chosen) const {
  Chosen arguments = chosen;  // a program with constraints has other values
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g].inside()) arguments[g].reset();
  }
  return spmd::propagate(placed(arguments));
}

ir::GraphPtr PlanPricer::partitioned(const Chosen& chosen, const ir::GraphPtr& constrained) const {
  return spmd::partition(placed(chosen, constrained));
}

Timeline PlanPricer::timeline_of(const ir::Graph& partitioned) const {
  std::int64_t unknown = 0;
  return planner::run(schedule_of(partitioned, unknown, rows_of(cluster_)), cluster_, mesh_.sizes);
}

Price PlanPricer::price_of(const ir::Graph& partitioned, const std::vector<bool>& donated) const {
  return {timeline_of(partitioned).seconds, runtime::memory_of(partitioned, donated).peak_memory_in_bytes.value_or(0)};
}

Price PlanPricer::price_of(const ir::Graph& partitioned) const {
  ++evaluated_;
  return price_of(partitioned, donated_);
}

Price PlanPricer::rough(const Chosen& chosen, const WithoutLayers& part) const {
  const ir::Module whole = with_ports(chosen);
  ir::Module m = ir::module_over(part.graph, mesh_);
  std::vector<bool> donated;
  for (std::size_t i = 0; i < part.inputs.size(); ++i) {
    m.inputs[i].layout = whole.inputs[part.inputs[i]].layout;
    donated.push_back(donated_[part.inputs[i]]);
  }
  for (std::size_t i = 0; i < part.outputs.size(); ++i) m.outputs[i].layout = whole.outputs[part.outputs[i]].layout;
  m = spmd::prepared(std::move(m));
  return price_of(*spmd::partition_apart(m, spmd::propagate(m)), donated);
}

Price PlanPricer::rough(const Chosen& chosen, const ir::GraphPtr& constrained) const {
  const auto own = constrained == module_.graph || !few_ ? std::nullopt : few_layers(*constrained);
  const auto& few = constrained == module_.graph ? few_ : own;
  if (!few) {
    const ir::Module m = placed(chosen, constrained);
    return price_of(*spmd::partition_apart(m, spmd::propagate(m)));
  }
  ++evaluated_;
  const Price fewer = rough(chosen, few->fewer);
  const Price more = rough(chosen, few->more);
  const double memory = few->whole(static_cast<double>(fewer.memory), static_cast<double>(more.memory));
  return {few->whole(fewer.step, more.step), static_cast<std::int64_t>(memory)};
}

Price PlanPricer::computed(const Chosen& chosen) {
  return effort_ == Effort::Exact ? price_of(*partitioned(chosen)) : rough(chosen, constrained(chosen));
}

std::vector<int> PlanPricer::key_of(const Chosen& chosen) {
  std::vector<int> key;
  for (const auto& layout : chosen) {
    key.push_back(layout ? -1 : -2);
    if (!layout) continue;
    for (const auto& axes : layout->dims) {
      key.insert(key.end(), axes.begin(), axes.end());
      key.push_back(-3);
    }
  }
  return key;
}

Price PlanPricer::price(const Chosen& chosen) {
  std::vector<int> key = key_of(chosen);
  {
    const std::lock_guard lock(mutex_);
    if (auto it = known_.find(key); it != known_.end()) return it->second.second;
  }
  const Price p = computed(chosen);
  const std::lock_guard lock(mutex_);
  return known_.emplace(std::move(key), std::pair(chosen, p)).first->second.second;
}

std::vector<std::pair<Chosen, Price>> PlanPricer::priced() {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<Chosen, Price>> out;
  for (const auto& [key, plan] : known_) out.push_back(plan);
  return out;
}

std::vector<Price> PlanPricer::prices(const std::vector<Chosen>& list) {
  std::vector<Price> out(list.size());
  std::atomic<std::size_t> next = 0;
  std::exception_ptr failed;
  std::mutex mutex;
  auto work = [&] {
    try {
      for (std::size_t i = next++; i < list.size(); i = next++) out[i] = price(list[i]);
    } catch (...) {
      const std::lock_guard lock(mutex);
      failed = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int t = 1; t < options_.threads; ++t) threads.emplace_back(work);
    work();
  }
  if (failed) std::rethrow_exception(failed);
  return out;
}

std::size_t PlanPricer::count() {
  const std::lock_guard lock(mutex_);
  return known_.size();
}

double PlanPricer::score(const Price& p) const {
  const double excess = static_cast<double>(p.memory) / static_cast<double>(options_.memory_limit) - 1;
  return excess > 0 ? 1e6 * (1 + excess) + p.step * 1e-3 : p.step;
}

}  // namespace tessera::planner
