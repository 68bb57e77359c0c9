// SPDX-License-Identifier: Apache-2.0
// Equations along split dimensions written as others that move less: the ops' own rules (`OpSpec::divide`), and windows
// that slide along split dimensions.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "spmd/layouts/alternatives.h"
#include "spmd/spmd.h"

namespace tessera::spmd {

/// A graph and a layout for each of its values.
struct LaidGraph {
  ir::GraphPtr graph;
  std::vector<ir::Layout> layouts;
  bool by_rules = false;  ///< an equation was divided by a rule of its op
};
/// What a partitioned program asks of a device.
struct Price {
  std::int64_t bytes = 0;      ///< that it moves
  std::int64_t exchanges = 0;  ///< in which it moves them
  std::int64_t largest = 0;    ///< bytes of the largest value that it holds
};
Price price_of(const ir::Graph& partitioned);
/// Whether a is to be preferred: for fewer bytes, but where values are so large that a device may have no room for
/// them, first of all for smaller ones.
bool less(const Price& a, const Price& b);
/// Bytes beyond which no program is less than this one; without bound where its values are that large.
std::int64_t most_bytes_of_less(const Price& p);
/// The price of a program that is partitioned under these layouts as it is.
using Pricing = std::function<Price(const ir::Module& m, const std::vector<ir::Layout>& layouts)>;

/// The program with equations divided that then move less, also those that were written for them; nothing where there
/// are none. `layouts` are propagate's.
std::optional<LaidGraph> divide_equations(const ir::Module& m, const std::vector<ir::Layout>& layouts,
                                          const Pricing& price);

/// Results that rules leave under other layouts than they are wanted with: a transform of several dimensions ends with
/// the last of them whole, and its inverse may begin there.
std::vector<Alternative> left_elsewhere(const ir::Module& m, const std::vector<ir::Layout>& layouts,
                                        const Pricing& price);

}  // namespace tessera::spmd
