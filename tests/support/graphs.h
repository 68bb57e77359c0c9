// SPDX-License-Identifier: Apache-2.0
// Small graphs in tests: making, feeding, and comparing what they give.
#pragma once

#include <functional>
#include <vector>

#include "ops/ops.h"
#include "ops/transform/interpret.h"

namespace tessera::test {

/// A graph of these inputs whose outputs `body` makes.
ir::GraphPtr make_graph(const ir::Types& in, const std::function<ir::Values(ir::Builder&, const ir::Values&)>& body);

/// Repeatable elements of a type: floats in (-1, 1) without ties, integers 0..6, mixed bools.
HostArray host(const ir::Type& type, unsigned seed);

/// Sum of the products of elements (real part; no conjugate, as cotangents pair with tangents).
double inner(const HostArray& a, const HostArray& b);
/// Element-wise agreement within `tolerance` absolute plus relative.
void expect_close(const HostArray& got, const HostArray& want, double tolerance);
/// Index n along dimension 0.
HostArray row(const HostArray& a, std::int64_t n);

/// Central differences of all outputs (zeros for outputs without tangents) along `direction` of the inputs `which`.
std::vector<HostArray> difference(const ir::Graph& g, const std::vector<HostArray>& in,
                                  const std::vector<std::size_t>& which, const std::vector<HostArray>& direction,
                                  double step = 1e-5);

}  // namespace tessera::test
