// SPDX-License-Identifier: Apache-2.0
// Programs without what XLA, or its backend for the CPU, lacks or gets wrong.
#pragma once

#include <cstdint>
#include <string>

#include "ir/graph.h"

namespace tessera::pjrt_engine {

/// A platform whose programs cannot call the host's LAPACK.
bool is_accelerator(const std::string& platform);

/// The same program, in which operations that this platform's XLA does not take are written by others:
///   - everywhere: `mulhi` by products of halves, collectives without elements by constants, zeros above the diagonal
///     of `cholesky`, where StableHLO leaves open what is;
///   - on the platform "cpu": `pbroadcast` and `ragged_all_to_all` by gathers and exchanges, `pmax` and `pmin`, and
///     with several devices `reduce_max` and `reduce_min`, of floats on integers of the same order, so that NaN stays;
///   - on GPUs: products whose result has another type than its operands by products of that type, where no library has
///     them, convolutions of complex numbers by those of their parts, and of integers by those of float64.
/// The same graph where there is nothing to do. Rows of a ragged exchange that would come from outside their operand
/// are taken from inside, and those that would go outside the result are left out. Throws `UnimplementedError` for
/// decompositions on accelerators, but for Cholesky's and QR.
ir::GraphPtr lowered_for_xla(const ir::GraphPtr& g, const std::string& platform, std::int64_t devices);

}  // namespace tessera::pjrt_engine
