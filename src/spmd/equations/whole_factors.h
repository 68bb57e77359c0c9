// SPDX-License-Identifier: Apache-2.0
// Householder's reflectors of which a program makes q and r and nothing else: JAX's `qr` is LAPACK's geqrf, orgqr, and
// the upper triangle of what geqrf found. The factors themselves can be divided so that less is moved.
#pragma once

#include "ir/graph.h"

namespace tessera::spmd {

/// The program with `qr` in the place of reflectors and their product, where these are used for nothing but q and the
/// upper triangle. The same values: both are computed by the same routines.
ir::GraphPtr with_whole_factors(const ir::GraphPtr& graph);

}  // namespace tessera::spmd
