// SPDX-License-Identifier: Apache-2.0
// Other layouts of single values than propagation chose, which the partitioner saw to move less.
#pragma once

#include <vector>

#include "ir/graph.h"
#include "spmd/spmd.h"

namespace tessera::spmd {

/// Results of one equation under other layouts than they are wanted with: what the equation reads then moves less,
/// while what reads the results may move more.
struct Alternative {
  const ir::Eqn* eqn;
  std::vector<FixedLayout> results;
  double saved;  ///< bytes a device, for this equation alone
};

/// What comes up while a module is partitioned under these layouts as it is, nothing divided.
std::vector<Alternative> alternatives(const ir::Module& m, const std::vector<ir::Layout>& layouts);

}  // namespace tessera::spmd
