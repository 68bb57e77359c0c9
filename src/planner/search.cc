// SPDX-License-Identifier: Apache-2.0
#include "planner/search.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "base/hash.h"
#include "base/strings.h"
#include "ir/axis_sets.h"
#include "ir/op_def.h"
#include "ops/collective/shard_map_op.h"
#include "ops/shared_attrs.h"
#include "planner/schedule.h"
#include "runtime/program_costs.h"
#include "spmd/spmd.h"
#include "tessera/error.h"

namespace tessera::planner {

namespace {

// How far along its readers the role of an argument is told by: far enough for a matrix's product and what follows it,
// not so far that the first and the last of equal layers differ.
constexpr int kRoleDepth = 2;
constexpr std::size_t kShortList = 16;         // of the candidates of the round before that are tried first
constexpr double kWorthwhile = 1e-3;           // share of the step that a decision must save
constexpr std::int64_t kSmallestShare = 4096;  // arguments of fewer bytes are left to propagation

void refuse_placed(const ir::Graph& g) {
  for (const auto& e : g.eqns) {
    if (ir::get_if<ops::ShardingConstraint>(e.attrs) || ir::get_if<ops::ShardMap>(e.attrs)) {
      throw UnimplementedError(str("shard: the program places values itself (", std::string(e.op->name()), " at ",
                                   to_string(e.loc), "); expected one without constraints and maps over devices"));
    }
    for (const auto& sub : e.op->subgraphs(e.attrs)) refuse_placed(*sub);
  }
}

// Arguments by what is done with them, and with that.
std::vector<ArgumentGroup> groups_of(const ir::Graph& g) {
  std::vector<std::size_t> role(g.num_values());
  auto type_hash = [&](ir::ValueId v) {
    const ir::Type& t = g.type(v);
    return base::hash_range(static_cast<std::size_t>(t.dtype), t.shape);
  };
  for (std::size_t v = 0; v < role.size(); ++v) role[v] = type_hash(static_cast<ir::ValueId>(v));
  for (int depth = 0; depth < kRoleDepth; ++depth) {
    std::vector<std::size_t> next = role;
    for (const auto& e : g.eqns) {
      for (std::size_t i = 0; i < e.in.size(); ++i) {
        std::size_t h = std::hash<std::string_view>{}(e.op->name()) + i;
        for (auto v : e.out) h = base::hash_mix(h, role[static_cast<std::size_t>(v)]);
        next[static_cast<std::size_t>(e.in[i])] += base::hash_mix(h, 17);  // in any order of readers
      }
    }
    role = std::move(next);
  }
  std::vector<ArgumentGroup> out;
  std::map<std::size_t, std::size_t> index;
  for (std::size_t i = 0; i < g.inputs.size(); ++i) {
    const ir::Type& type = g.type(g.inputs[i]);
    auto [it, added] = index.try_emplace(role[static_cast<std::size_t>(g.inputs[i])], out.size());
    if (added) out.push_back({{}, type});
    out[it->second].arguments.push_back(i);
  }
  return out;
}

struct Price {
  double step = 0;
  std::int64_t memory = 0;
};

// One shape of the mesh.
class MeshSearch {
 public:
  MeshSearch(const ir::Module& m, const std::vector<ArgumentGroup>& groups, ir::MeshAxes mesh,
             const ClusterModel& cluster, const SearchOptions& options, std::atomic<std::int64_t>& evaluated)
      : groups_(groups), cluster_(cluster), options_(options), evaluated_(evaluated) {
    plan_.mesh = std::move(mesh);
    ir::Module over = ir::module_over(m.graph, plan_.mesh);
    for (std::size_t i = 0; i < m.inputs.size(); ++i) donated_.push_back(m.inputs[i].donated);
    prepared_ = spmd::prepared(std::move(over));
    chosen_.resize(groups.size());
  }

  MeshPlan run() {
    Price now = price(chosen_);
    std::vector<Decision> list = candidates();
    while (!list.empty()) {
      std::vector<Decision> tried = tried_of(list, now);
      if (tried.empty() || !better(tried[0], now)) break;
      take(tried[0]);
      now = {tried[0].step, tried[0].memory};
      tried.erase(tried.begin());
      plan_.rejected.emplace_back(tried.begin(),
                                  tried.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(3, tried.size())));
      list = candidates();
      std::ranges::stable_sort(list, {}, [&](const Decision& d) { return rank_of(d, tried); });
    }
    refine(now);
    finish();
    return std::move(plan_);
  }

 private:
  using Chosen = std::vector<std::optional<ir::Layout>>;

  double score(const Price& p) const {
    const auto limit = static_cast<double>(options_.memory_limit);
    const double excess = static_cast<double>(p.memory) / limit - 1;
    return excess > 0 ? 1e6 * (1 + excess) + p.step * 1e-3 : p.step;  // first that it fits, then the time
  }
  bool better(const Decision& d, const Price& now) const {
    return score({d.step, d.memory}) < score(now) * (1 - kWorthwhile);
  }
  static std::size_t rank_of(const Decision& d, const std::vector<Decision>& tried) {
    for (std::size_t i = 0; i < tried.size(); ++i) {
      if (tried[i].group == d.group && tried[i].dim == d.dim && tried[i].axis == d.axis) return i;
    }
    return tried.size();
  }

  ir::GraphPtr partitioned(const Chosen& chosen, bool whole) const {
    ir::Module m = prepared_;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (!chosen[g]) continue;
      for (auto i : groups_[g].arguments) m.inputs[i].layout = chosen[g];
    }
    return whole ? spmd::partition(m) : spmd::partition_apart(m, spmd::propagate(m));
  }
  Price price(const ir::Graph& graph) const {
    std::int64_t unknown = 0;
    const Timeline t = planner::run(schedule_of(graph, unknown), cluster_, plan_.mesh.sizes);
    return {t.seconds, runtime::memory_of(graph, donated_).peak_memory_in_bytes.value_or(0)};
  }
  Price price(const Chosen& chosen) const {
    ++evaluated_;
    return price(*partitioned(chosen, false));
  }

  Chosen with(const Decision& d) const {
    Chosen out = chosen_;
    if (!out[d.group]) out[d.group] = ir::Layout::replicated(groups_[d.group].type.rank());
    out[d.group]->dims[d.dim].push_back(d.axis);
    return out;
  }
  void take(const Decision& d) {
    chosen_ = with(d);
    plan_.decisions.push_back(d);
  }

  // An axis on one more dimension of a group that it does not split yet, where it divides the extent.
  std::vector<Decision> candidates() const {
    std::vector<Decision> out;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const ir::Type& type = groups_[g].type;
      if (type.nbytes() < kSmallestShare) continue;
      for (std::size_t d = 0; d < type.shape.size(); ++d) {
        const std::int64_t parts = chosen_[g] ? ir::parts(chosen_[g]->dims[d], plan_.mesh) : 1;
        for (std::size_t a = 0; a < plan_.mesh.sizes.size(); ++a) {
          const bool used = chosen_[g] && (chosen_[g]->tiled() >> a & 1) != 0;
          if (used || plan_.mesh.sizes[a] == 1 || type.shape[d] % (parts * plan_.mesh.sizes[a]) != 0) continue;
          out.push_back({g, d, static_cast<std::uint8_t>(a)});
        }
      }
    }
    std::ranges::stable_sort(out, std::greater(), [&](const Decision& d) { return bytes(groups_[d.group]); });
    return out;
  }
  static std::int64_t bytes(const ArgumentGroup& g) {
    return g.type.nbytes() * static_cast<std::int64_t>(g.arguments.size());
  }

  // The arguments' layouts with a decision's axis on another dimension, or on none.
  std::optional<Chosen> moved(const Decision& d, std::optional<std::size_t> to) const {
    Chosen out = chosen_;
    ir::Layout& layout = *out[d.group];
    ir::drop_axes(layout.dims[d.dim], ir::bit(d.axis));
    if (to) {
      layout.dims[*to].push_back(d.axis);
      if (groups_[d.group].type.shape[*to] % ir::parts(layout.dims[*to], plan_.mesh) != 0) return std::nullopt;
    } else if (layout.tiled() == 0) {
      out[d.group].reset();
    }
    return out;
  }

  // What was decided early is looked at again beside all that came later: another dimension, or none.
  void refine(Price now) {
    for (std::size_t k = 0; k < plan_.decisions.size();) {
      const Decision before = plan_.decisions[k];
      bool removed = false;
      for (std::size_t to = 0; to <= groups_[before.group].type.shape.size() && !removed; ++to) {
        const bool none = to == groups_[before.group].type.shape.size();
        Decision& d = plan_.decisions[k];
        auto other = to == d.dim ? std::nullopt : moved(d, none ? std::nullopt : std::optional(to));
        if (!other) continue;
        const Price p = price(*other);
        if (!better({d.group, to, d.axis, p.step, p.memory}, now)) continue;
        chosen_ = *std::move(other);
        now = p;
        removed = none;
        if (!none) d = {d.group, to, d.axis, p.step, p.memory};
      }
      if (!removed) {
        ++k;
        continue;
      }
      plan_.decisions.erase(plan_.decisions.begin() + static_cast<std::ptrdiff_t>(k));
      plan_.rejected.erase(plan_.rejected.begin() + static_cast<std::ptrdiff_t>(k));
    }
  }

  // Priced, the best first: those of the short list, and the others only where none of these helps.
  std::vector<Decision> tried_of(const std::vector<Decision>& list, const Price& now) {
    const bool first = plan_.decisions.empty();
    std::vector<Decision> out(
        list.begin(),
        first ? list.end() : list.begin() + static_cast<std::ptrdiff_t>(std::min(kShortList, list.size())));
    price_all(out);
    if (out.size() == list.size() || (!out.empty() && better(out[0], now))) return out;
    std::vector<Decision> others(list.begin() + static_cast<std::ptrdiff_t>(out.size()), list.end());
    price_all(others);
    out.insert(out.end(), others.begin(), others.end());
    sort(out);
    return out;
  }
  void sort(std::vector<Decision>& list) const {
    std::ranges::stable_sort(list, {}, [&](const Decision& d) { return score({d.step, d.memory}); });
  }

  void price_all(std::vector<Decision>& list) {
    std::atomic<std::size_t> next = 0;
    std::exception_ptr failed;
    std::mutex mutex;
    auto work = [&] {
      try {
        for (std::size_t i = next++; i < list.size(); i = next++) {
          const Price p = price(with(list[i]));
          list[i].step = p.step;
          list[i].memory = p.memory;
        }
      } catch (...) {
        std::lock_guard lock(mutex);
        failed = std::current_exception();
      }
    };
    {
      std::vector<std::jthread> threads;
      for (int t = 1; t < options_.threads; ++t) threads.emplace_back(work);
      work();
    }
    if (failed) std::rethrow_exception(failed);
    sort(list);
  }

  // With all that the partitioner does for a program that will run.
  void finish() {
    const ir::GraphPtr graph = partitioned(chosen_, true);
    const Price p = price(*graph);
    plan_.step = p.step;
    plan_.memory = p.memory;
    plan_.fits = p.memory <= options_.memory_limit;
    for (auto v : graph->inputs) plan_.arguments.push_back(graph->layout(v));
  }

  const std::vector<ArgumentGroup>& groups_;
  const ClusterModel& cluster_;
  const SearchOptions& options_;
  std::atomic<std::int64_t>& evaluated_;
  ir::Module prepared_;
  std::vector<bool> donated_;
  Chosen chosen_;
  MeshPlan plan_;
};

// All devices on one axis, or the innermost few on a second one.
std::vector<ir::MeshAxes> meshes_of(std::int64_t devices) {
  constexpr std::int64_t kMostInner = 64;
  std::vector<ir::MeshAxes> out{{{devices}, {"x"}}};
  for (std::int64_t inner = 2; inner <= std::min(devices / 2, kMostInner); inner *= 2) {
    if (devices % inner == 0) out.push_back({{devices / inner, inner}, {"x", "y"}});
  }
  return out;
}

}  // namespace

SearchResult search(const ir::Module& m, const ClusterModel& cluster, const SearchOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  refuse_placed(*m.graph);
  SearchOptions o = options;
  if (o.devices == 0) o.devices = cluster.num_devices();
  if (o.devices < 1 || o.devices > cluster.num_devices()) {
    throw ValueError(
        str("shard: devices is ", o.devices, "; the cluster \"", cluster.name, "\" has ", cluster.num_devices()));
  }
  if (o.memory_limit == 0) o.memory_limit = cluster.device.memory;
  SearchResult out;
  out.memory_limit = o.memory_limit;
  out.groups = groups_of(*m.graph);
  std::atomic<std::int64_t> evaluated = 0;
  for (auto& mesh : meshes_of(o.devices)) {
    out.plans.push_back(MeshSearch(m, out.groups, std::move(mesh), cluster, o, evaluated).run());
  }
  std::ranges::stable_sort(out.plans, [](const MeshPlan& a, const MeshPlan& b) {
    if (a.fits != b.fits) return a.fits;
    return a.fits ? a.step < b.step : a.memory < b.memory;
  });
  const MeshPlan alone = MeshSearch(m, {}, {{1}, {"x"}}, cluster, o, evaluated).run();
  out.replicated = alone.step;
  out.replicated_memory = alone.memory;
  out.evaluated = evaluated;
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return out;
}

}  // namespace tessera::planner
