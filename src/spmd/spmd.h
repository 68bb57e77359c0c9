// SPDX-License-Identifier: Apache-2.0
// Automatic parallelism: graph + shardings -> partitioned graph with explicit collectives.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ir/module.h"
#include "ops/shared_attrs.h"
#include "tessera/comm_plan.h"

namespace tessera::spmd {

/// Layout on the module's mesh of what a user's constraint says; `open[d]` marks dimensions left unconstrained.
struct Constraint {
  ir::Layout layout;
  std::vector<bool> open;
  ir::AxisMask replicated = 0;  ///< axes that open dimensions may not take
};
Constraint resolve(const ops::ShardingConstraint& c, const ir::Module& m);

/// The same program with sums and products of floats written so that their order does not depend on how they are split:
/// a summed dimension becomes leaves of a fixed size, aligned to its first element, whose results are added in one tree
/// (decision D13). For `Module::deterministic`, under which leaves are not split; those that a shard boundary cuts are
/// completed by moving their data.
ir::GraphPtr with_fixed_leaves(const ir::GraphPtr& graph);

/// The graph of a placed module without maps, whose meshes are among the module's: one flat graph, in which blocks are
/// values with `manual_enter` and `manual_exit` at the boundaries, and collectives know their axes of the program's
/// mesh.
ir::GraphPtr expand_maps(const ir::Module& m);

/// A placed module as the partitioner takes it: maps are opened, reflectors that are read as factors alone
/// become factors, and where it is deterministic, sums have their leaves.
ir::Module prepared(ir::Module m);

/// A value inside a graph whose layout is given.
struct FixedLayout {
  ir::ValueId value;
  ir::Layout layout;
};
class Factorings;

/// Propagation over a module, which must outlive it: what relates its values is found once.
class Propagation {
 public:
  /// `factorings`, where given, takes those of the module's equations, and must outlive it, too.
  explicit Propagation(const ir::Module& m, Factorings* factorings = nullptr);
  ~Propagation();
  Propagation(const Propagation&) = delete;
  Propagation& operator=(const Propagation&) = delete;
  /// A layout for every value of the graph: inputs, outputs, constraints and `fixed` values as given, others chosen.
  /// Deterministic.
  std::vector<ir::Layout> run(std::span<const FixedLayout> fixed = {});
  /// Takes up layouts of inputs and outputs that the module has been given since.
  void take_ports();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};
inline std::vector<ir::Layout> propagate(const ir::Module& m, std::span<const FixedLayout> fixed = {}) {
  return Propagation(m).run(fixed);
}

/// What a user sees of a layout that was chosen for an input or an output: without uneven splits, unless they are asked
/// for.
ir::Layout visible(const ir::Type& type, ir::Layout layout, const ir::Module& m);

/// The per-device program: every equation runs on shards under the layouts of its operands and results, and `reshard`
/// equations stand between. `layouts` are propagate's.
ir::GraphPtr partition(const ir::Module& m, const std::vector<ir::Layout>& layouts);

/// The per-device program of a module as `prepared` gives it: under propagate's layouts, but for values that
/// have others where the whole program then moves less. Inputs and outputs have propagate's layouts. Deterministic.
ir::GraphPtr partition(const ir::Module& m);

/// That of given layouts, with every exchange by itself.
ir::GraphPtr partition_apart(const ir::Module& m, const std::vector<ir::Layout>& layouts);
/// A partitioned graph in which exchanges that can take place together are one: small sums over the same axes, and
/// halos of one array, whose edges are then sent once. None waits for what it did not wait for before.
ir::GraphPtr join_exchanges(const ir::GraphPtr& partitioned);

/// Every collective of a partitioned graph, loops included.
CommPlan comm_plan(const ir::Graph& partitioned);

}  // namespace tessera::spmd
