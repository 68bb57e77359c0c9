// SPDX-License-Identifier: Apache-2.0
// Collectives of groups of positions as text, for those that users write and for those of partitioned graphs.
#pragma once

#include <cstddef>
#include <vector>

#include "hlo/export/export.h"

namespace tessera::hlo {

/// A reduction of truth values is "or" or "and".
Texts write_all_reduce(Writer& w, const Texts& in, const ir::Types& out, const std::vector<Dims>& groups,
                       ir::Reduction by);
Texts write_reduce_scatter(Writer& w, const Texts& in, const ir::Types& out, const std::vector<Dims>& groups,
                           std::size_t dim, ir::Reduction by);
Texts write_all_gather(Writer& w, const Texts& in, const ir::Types& out, const std::vector<Dims>& groups,
                       std::size_t dim);
Texts write_all_to_all(Writer& w, const Texts& in, const ir::Types& out, const std::vector<Dims>& groups,
                       std::size_t split, std::size_t concat);
/// Positions that are nobody's target get zeros.
Texts write_permute(Writer& w, const Texts& in, const ir::Types& out, const std::vector<Dims>& pairs);
Texts write_ragged(Writer& w, const Texts& in, const ir::Types& out, const std::vector<Dims>& groups);

}  // namespace tessera::hlo
