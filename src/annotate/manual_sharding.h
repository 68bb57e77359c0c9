// SPDX-License-Identifier: Apache-2.0
// The steps of manual regions.
#pragma once

#include "ops/collective/manual_region.h"
#include "tessera/annotate_manual.h"

namespace tessera::annotate {

/// The annotated value `x` as blocks. Throws `ValueError` saying "not sharded" for one without a constraint.
Array full_to_shard_shape(const Array& x, const ops::RegionBoundary& boundary);
/// {manual} on a computed value. Throws `ValueError` naming "data" for an input or a constant. Never alone: it stands
/// before the way back.
Array mark_manual_sharding(const Array& x);
/// The boundary through which a traced value became manual, or null.
const ops::RegionBoundary* manual_region(const Array& x);

}  // namespace tessera::annotate
