// SPDX-License-Identifier: Apache-2.0
// Other layouts of single values than propagation chose, which the partitioner saw to move less.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "ir/graph.h"
#include "spmd/factoring.h"
#include "spmd/layout_change.h"
#include "spmd/spmd.h"

namespace tessera::spmd {

/// Results of one equation under other layouts than they are wanted with: what the equation reads then moves less,
/// while what reads the results may move more.
struct Alternative {
  const ir::Eqn* eqn;
  std::vector<FixedLayout> results;
  double saved;  ///< bytes a device, for this equation alone
};

/// When a program is given up while it is partitioned: it moves too much.
struct Limits {
  static constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
  std::int64_t most = kAny;        ///< bytes on a device
  std::vector<std::int64_t> pace;  ///< by equation: what the program to beat has moved after it; empty if unknown
  std::int64_t behind = kAny;      ///< by how much more it may have moved in the same place
};

/// What a partitioning under some layouts leaves for others of the same module.
struct Trial {
  Factorings factorings;
  ChangeCosts costs;
  /// The alternatives that were seen; nothing where equations were divided, and so none was looked at as it is.
  std::optional<std::vector<Alternative>> others;
  /// Bytes that changes of layout had moved on a device after each equation of the graph that was partitioned last.
  std::vector<std::int64_t> moved;
  Limits limits;
};

/// As `partition`, with what it leaves. Null where changes of layout go beyond the limits, which is then known before
/// the rest of the program is looked at.
ir::GraphPtr partition(const ir::Module& m, const std::vector<ir::Layout>& layouts, Trial& trial);
/// What comes up while a module is partitioned under these layouts as it is, nothing divided. `trial` is that of
/// `partition` under the same layouts.
std::vector<Alternative> alternatives(const ir::Module& m, const std::vector<ir::Layout>& layouts, Trial& trial);

}  // namespace tessera::spmd
