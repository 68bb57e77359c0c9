// SPDX-License-Identifier: Apache-2.0
#include "planner/search.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>

#include "base/strings.h"
#include "ir/op_def.h"
#include "ops/collective/shard_map_op.h"
#include "ops/shared_attrs.h"
#include "planner/mesh_search.h"
#include "planner/recompute/fit.h"
#include "tessera/error.h"

namespace tessera::planner {

namespace {

constexpr std::int64_t kSmallestConstrained = 4096;  // bytes
constexpr std::size_t kMostInside = 12;              // groups of values inside the program that are looked at
constexpr std::size_t kLargeProgramInside = 4;
constexpr std::size_t kMostFitted = 8;  // plans that are tried with values computed again
constexpr std::size_t kLargeProgramFitted = 3;
constexpr std::size_t kMeshesConstrained = 2;  // of a small program: the best so many have values inside looked at

void refuse_placed(const ir::Graph& g) {
  for (const auto& e : g.eqns) {
    if (ir::get_if<ops::ShardingConstraint>(e.attrs) || ir::get_if<ops::ShardMap>(e.attrs)) {
      throw UnimplementedError(str("the program places values itself (", std::string(e.op->name()), " at ",
                                   to_string(e.loc),
                                   "), so shardings cannot be searched for it; expected one without "
                                   "constraints and maps over devices, or write its shardings"));
    }
    for (const auto& sub : e.op->subgraphs(e.attrs)) refuse_placed(*sub);
  }
}

// All devices on one axis, or the innermost few on a second one.
std::vector<ir::MeshAxes> meshes_of(const SearchOptions& o) {
  constexpr std::int64_t kMostInner = 64;
  if (o.mesh) return {*o.mesh};
  std::vector<ir::MeshAxes> out{{{o.devices}, {"x"}}};
  for (std::int64_t inner = 2; inner <= std::min(o.devices / 2, kMostInner); inner *= 2) {
    if (o.devices % inner == 0) out.push_back({{o.devices / inner, inner}, {"x", "y"}});
  }
  return out;
}

SearchOptions checked(const SearchOptions& options, const ClusterModel& cluster) {
  SearchOptions o = options;
  const std::int64_t have = cluster.num_devices();
  if (o.mesh) {
    o.devices = o.mesh->num_positions();
    if (o.devices > have) {
      throw ValueError(str("mesh ", mesh_text(*o.mesh), " has ", o.devices, " positions; the cluster \"", cluster.name,
                           "\" has ", have, " devices"));
    }
  }
  if (o.devices == 0) o.devices = have;
  if (o.devices < 1 || o.devices > have) {
    throw ValueError(str("devices is ", o.devices, "; the cluster \"", cluster.name, "\" has ", have));
  }
  if (o.memory_limit == 0) o.memory_limit = cluster.device.memory;
  return o;
}

// The decisions of a mesh of one axis on one of two: what one can do, the other can.
std::vector<Decision> over_both(const std::vector<Decision>& decisions) {
  std::vector<Decision> out;
  for (const auto& d : decisions) {
    out.push_back(d);
    out.push_back({d.group, d.dim, 1});
  }
  return out;
}

// In the order in which people would write them: the largest arguments first, then values inside the program.
std::vector<Decision> decisions_of(const Chosen& chosen, const std::vector<ValueGroup>& groups) {
  std::vector<Decision> out;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (!chosen[g]) continue;
    if (groups[g].inside()) {
      out.push_back({g, 0, 0, chosen[g]});
      continue;
    }
    for (std::size_t d = 0; d < chosen[g]->dims.size(); ++d) {
      for (auto a : chosen[g]->dims[d]) out.push_back({g, d, a});
    }
  }
  auto rank = [&](const Decision& d) { return std::pair(d.layout.has_value(), -groups[d.group].bytes()); };
  std::ranges::stable_sort(out, {}, rank);
  return out;
}

bool comes_first(const MeshPlan& a, const MeshPlan& b) {
  if (a.fits != b.fits) return a.fits;
  return a.fits ? a.price.step < b.price.step : a.price.memory < b.price.memory;
}

struct OneMesh {
  std::unique_ptr<PlanPricer> rough, exact;
  MeshPlan plan;

  // Of several candidates beside the plan.
  PlanPricer& pricer() { return exact->small() ? *exact : *rough; }
  // As a program that will run.
  void finish() {
    const ir::GraphPtr graph =
        exact->partitioned(plan.chosen, with_recomputations(exact->constrained(plan.chosen), plan.again));
    plan.price = exact->price_of(*graph);
    plan.fits = exact->fits(plan.price);
    plan.arguments.clear();
    for (auto v : graph->inputs) plan.arguments.push_back(graph->layout(v));
  }
  // Keeps constraints only where the program that will run is better with them.
  void constrain() {
    MeshPlan with = plan;
    with.price = pricer().price(plan.chosen);
    planner::constrain(pricer(), with);
    if (with.decisions.size() == plan.decisions.size()) return;
    std::swap(plan, with);
    finish();
    if (!exact->better(plan.price, with.price)) std::swap(plan, with);
  }
  // Takes other layouts, with values computed again, where that is better.
  void fit(const Chosen& chosen) {
    Fitted fitted = planner::fit(*exact, chosen);
    if (!exact->better(fitted.price, plan.price)) return;
    if (chosen != plan.chosen) plan.decisions = decisions_of(chosen, exact->groups());
    plan.chosen = chosen;
    plan.again = std::move(fitted.again);
    plan.recomputed = std::move(fitted.recomputed);
    plan.kept = fitted.kept;
    finish();
  }
};

// A candidate that would take more memory than there is.
struct Oversize {
  OneMesh* mesh;
  Chosen chosen;
  Price price;
};

// Those that are faster than all that fits, of several amounts of memory: the less is missing, the less is computed
// again.
std::vector<Oversize> oversize(std::vector<OneMesh>& meshes, std::size_t most) {
  const MeshPlan& best = meshes[0].plan;
  std::vector<Oversize> all;
  for (auto& one : meshes) {
    if (!one.plan.fits) all.push_back({&one, one.plan.chosen, one.plan.price});
    for (auto* pricer : {one.rough.get(), one.exact.get()}) {
      for (auto& [chosen, price] : pricer->priced()) {
        const bool faster = !best.fits || pricer->better(price, {best.price.step, 0});
        if (!pricer->fits(price) && faster) all.push_back({&one, std::move(chosen), price});
      }
    }
  }
  std::ranges::stable_sort(all, {}, [](const Oversize& o) { return o.price.step; });
  std::vector<Oversize> front;
  for (auto& o : all) {
    if (front.empty() || o.price.memory < front.back().price.memory) front.push_back(std::move(o));
  }
  if (front.size() <= most) return front;
  std::vector<Oversize> out;
  for (std::size_t i = 0; i < most; ++i) out.push_back(std::move(front[i * (front.size() - 1) / (most - 1)]));
  return out;
}

// Where memory stands in the way: other plans, which fit because values are computed again. That takes time, so those
// that are slower by themselves need not be tried.
void fit_best(std::vector<OneMesh>& meshes, bool small) {
  for (auto& o : oversize(meshes, small ? kMostFitted : kLargeProgramFitted)) {
    const MeshPlan& best = std::ranges::min_element(meshes, comes_first, &OneMesh::plan)->plan;
    if (!best.fits || o.price.step < best.price.step) o.mesh->fit(o.chosen);
  }
  std::ranges::stable_sort(meshes, comes_first, &OneMesh::plan);
}

}  // namespace

SearchResult search(const ir::Module& m, const ClusterModel& cluster, const SearchOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  refuse_placed(*m.graph);
  const SearchOptions o = checked(options, cluster);
  SearchResult out;
  out.memory_limit = o.memory_limit;
  out.groups = argument_groups(*m.graph, o.arguments.value_or(m.graph->inputs.size()));
  std::atomic<std::int64_t> evaluated = 0;
  auto pricer_over = [&](const ir::MeshAxes& mesh, Effort effort) {
    return std::make_unique<PlanPricer>(m, out.groups, mesh, cluster, o, effort, evaluated);
  };
  const auto alone = pricer_over({{1}, {"x"}}, Effort::Exact);
  out.replicated = alone->price(Chosen(out.groups.size()));
  if (o.constraints) {
    for (auto& g : inner_groups(*m.graph, kSmallestConstrained, alone->small() ? kMostInside : kLargeProgramInside)) {
      out.groups.push_back(std::move(g));
    }
  }
  std::vector<OneMesh> meshes;
  std::vector<Decision> hint;
  for (const auto& mesh : meshes_of(o)) {
    OneMesh& one = meshes.emplace_back();
    one.rough = pricer_over(mesh, Effort::Rough);
    one.exact = pricer_over(mesh, Effort::Exact);
    one.plan = best_arguments(*one.rough, *one.exact, hint);
    if (hint.empty()) hint = over_both(one.plan.decisions);
    one.finish();
  }
  std::ranges::stable_sort(meshes, comes_first, &OneMesh::plan);
  const std::size_t most = alone->small() ? kMeshesConstrained : 1;
  for (std::size_t i = 0; i < std::min(most, meshes.size()); ++i) meshes[i].constrain();
  std::ranges::stable_sort(meshes, comes_first, &OneMesh::plan);
  fit_best(meshes, alone->small());
  account(meshes[0].pricer(), meshes[0].plan);
  for (auto& one : meshes) out.plans.push_back(std::move(one.plan));
  out.evaluated = evaluated;
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return out;
}

}  // namespace tessera::planner
