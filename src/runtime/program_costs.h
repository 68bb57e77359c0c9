// SPDX-License-Identifier: Apache-2.0
// What a partitioned program costs one device, that with the largest shards, for those who ask before they run it.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph.h"
#include "tessera/program_analysis.h"

namespace tessera::runtime {

/// Of one equation without those of graphs inside it.
struct EquationCosts {
  double products = 0;  ///< additions and multiplications of matrix products and convolutions
  double flops = 0;     ///< one an element, for other operations
  double transcendentals = 0;
};
EquationCosts costs_of(const ir::Graph& partitioned, const ir::Eqn& e);

/// "flops": additions and multiplications of products, and one an element for other operations; "transcendentals";
/// "bytes accessed", of operations fused or not. Bodies of loops count once, branches all.
CostAnalysis costs_of(const ir::Graph& partitioned);

/// By value: the one whose memory it shares, as a reshaped value that of its operand; itself where it has its own.
std::vector<ir::ValueId> memory_owners(const ir::Graph& g);

/// At most, between equations, without arguments and results.
std::int64_t temporary_bytes(const ir::Graph& partitioned);

/// `donated`: by argument; missing entries are false.
CompiledMemoryStats memory_of(const ir::Graph& partitioned, const std::vector<bool>& donated);

}  // namespace tessera::runtime
