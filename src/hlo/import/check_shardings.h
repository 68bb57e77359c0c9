// SPDX-License-Identifier: Apache-2.0
// Shardings are advice to most rules, so all of a module's are checked before any rule reads one.
#pragma once

#include <vector>

#include "hlo/module.h"
#include "hlo/text/ast.h"

namespace tessera::hlo {

/// Devices that a module says it is for; 0: it does not say.
struct DeviceCounts {
  std::int64_t partitions = 0;
  std::int64_t all = 0;  ///< partitions of all replicas
};
/// Throws `FormatError` for a sharding, of Shardy's or HLO's form, on a function's argument or result or on any
/// operation, that is malformed, names a mesh or axes that are not there, uses a part of an axis twice, or does not fit
/// the value's rank or the module's devices.
void check_shardings(const Source& source, const AstModule& module, const std::vector<ir::NamedMesh>& meshes,
                     const DeviceCounts& devices);

}  // namespace tessera::hlo
