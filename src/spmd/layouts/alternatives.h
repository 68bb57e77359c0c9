// SPDX-License-Identifier: Apache-2.0
// Other layouts of single values than propagation chose, which the partitioner saw to move less.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"
#include "spmd/factoring.h"
#include "spmd/spmd.h"

namespace tessera::spmd {

/// Results of one equation under other layouts than they are wanted with: what the equation reads then moves less,
/// while what reads the results may move more.
struct Alternative {
  const ir::Eqn* eqn;
  std::vector<FixedLayout> results;
  double saved;  ///< bytes a device, for this equation alone
};

/// What a partitioning under some layouts leaves for others of the same module.
struct Trial {
  Factorings factorings;
  /// The alternatives that were seen; nothing where equations were divided, and so none was looked at as it is.
  std::optional<std::vector<Alternative>> others;
};

/// As `partition`, with what it leaves.
ir::GraphPtr partition(const ir::Module& m, const std::vector<ir::Layout>& layouts, Trial& trial);
/// What comes up while a module is partitioned under these layouts as it is, nothing divided. `trial` is that of
/// `partition` under the same layouts.
std::vector<Alternative> alternatives(const ir::Module& m, const std::vector<ir::Layout>& layouts, Trial& trial);

}  // namespace tessera::spmd
