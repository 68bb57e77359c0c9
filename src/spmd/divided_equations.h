// SPDX-License-Identifier: Apache-2.0
// Equations along split dimensions written as others that move less: the ops' own rules (`OpSpec::divide`), and windows
// that slide along split dimensions.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "spmd/spmd.h"

namespace tessera::spmd {

/// A graph and a layout for each of its values.
struct LaidGraph {
  ir::GraphPtr graph;
  std::vector<ir::Layout> layouts;
  bool by_rules = false;  ///< an equation was divided by a rule of its op
};
/// Bytes per device that a program moves when it is partitioned under these layouts as it is.
using Price = std::function<std::int64_t(const ir::Module& m, const std::vector<ir::Layout>& layouts)>;

/// The program with equations divided that then move less, also those that were written for them; nothing where there
/// are none. `layouts` are propagate's.
std::optional<LaidGraph> divide_equations(const ir::Module& m, const std::vector<ir::Layout>& layouts,
                                          const Price& price);

}  // namespace tessera::spmd
