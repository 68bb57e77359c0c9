// SPDX-License-Identifier: Apache-2.0
// Small compositions that several families of rules share.
#pragma once

#include <string_view>
#include <unordered_map>

#include "ops/ops.h"
#include "tessera/host_array.h"

namespace tessera::hlo {

/// Ops by `Traits::stablehlo`: "stablehlo.add", "stablehlo.compare LT", "chlo.erf".
const std::unordered_map<std::string_view, const ir::OpDef*>& ops_by_stablehlo();

/// table[index] at every element of `index` (integers inside the table).
ir::Value look_up(ir::Value index, const HostArray& table);
/// Floats as integers in the order of IEEE's totalOrder: -NaN, -inf, …, -0, +0, …, inf, NaN.
ir::Value total_order(ir::Value x);
/// The last two dimensions exchanged.
ir::Value swapped(ir::Value x);
/// The graph's outputs on arrays in place of numbers: every input has one shape, the graph's have rank 0.
ir::Values map_graph(const ir::Graph& g, ir::ValueSpan in);

}  // namespace tessera::hlo
