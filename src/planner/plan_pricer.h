// SPDX-License-Identifier: Apache-2.0
// What a program costs over one mesh under layouts of some of its values.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "planner/few_layers.h"
#include "planner/schedule.h"
#include "planner/search.h"

namespace tessera::planner {

/// How programs are partitioned to be priced.
enum class Effort : std::uint8_t {
  Rough,  ///< under the layouts of one propagation, and large programs of equal layers by what one layer costs
  Exact   ///< as programs that will run, with trials of other layouts
};

class PlanPricer {
 public:
  /// All but `mesh` must outlive it; the memory limit and the number of threads are those of `options`.
  PlanPricer(const ir::Module& m, const std::vector<ValueGroup>& groups, const ir::MeshAxes& mesh,
             const ClusterModel& cluster, const SearchOptions& options, Effort effort,
             std::atomic<std::int64_t>& evaluated);

  /// Each is partitioned and simulated once, however often it is asked for.
  Price price(const Chosen& chosen);
  std::vector<Price> prices(const std::vector<Chosen>& list);
  /// By value of the program: the layout that propagation gives it.
  std::vector<ir::Layout> layouts(const Chosen& chosen) const;
  /// The program with constraints on the values inside it that have layouts.
  ir::GraphPtr constrained(const Chosen& chosen) const;
  /// As a program that will run, whatever the effort.
  ir::GraphPtr partitioned(const Chosen& chosen) const { return partitioned(chosen, constrained(chosen)); }
  /// The same of what was made of `constrained`.
  ir::GraphPtr partitioned(const Chosen& chosen, const ir::GraphPtr& constrained) const;
  Timeline timeline_of(const ir::Graph& partitioned) const;
  Price price_of(const ir::Graph& partitioned) const;
  /// All that was priced so far.
  std::vector<std::pair<Chosen, Price>> priced();

  /// How many were priced, and how many may be before a climb begins.
  std::size_t count();
  std::size_t most() const { return most_; }

  /// What is to become small: first that it fits, then the time.
  double score(const Price& p) const;
  /// Whether so much is saved that a decision is worth it.
  bool better(const Price& p, const Price& than) const { return score(p) < score(than) * (1 - worthwhile_); }
  std::int64_t limit() const { return options_.memory_limit; }
  bool fits(const Price& p) const { return p.memory <= limit(); }

  /// Whether the program is so small that candidates may be partitioned as programs that will run.
  bool small() const { return small_; }
  const ir::MeshAxes& mesh() const { return mesh_; }
  const std::vector<ValueGroup>& groups() const { return groups_; }

 private:
  ir::Module placed(const Chosen& chosen) const { return placed(chosen, constrained(chosen)); }
  ir::Module placed(const Chosen& chosen, const ir::GraphPtr& constrained) const;
  ir::Module with_ports(const Chosen& chosen) const;
  Price price_of(const ir::Graph& partitioned, const std::vector<bool>& donated) const;
  Price computed(const Chosen& chosen);
  Price rough(const Chosen& chosen, const ir::GraphPtr& constrained) const;
  Price rough(const Chosen& chosen, const WithoutLayers& part) const;
  static std::vector<int> key_of(const Chosen& chosen);

  const std::vector<ValueGroup>& groups_;
  const ir::MeshAxes mesh_;
  const ClusterModel& cluster_;
  const SearchOptions& options_;
  const Effort effort_;
  std::atomic<std::int64_t>& evaluated_;
  ir::Module module_;
  std::vector<bool> donated_;
  bool small_;
  std::optional<FewLayers> few_;  ///< of the program without constraints
  std::size_t most_;
  double worthwhile_;
  std::mutex mutex_;
  std::map<std::vector<int>, std::pair<Chosen, Price>> known_;
};

}  // namespace tessera::planner
