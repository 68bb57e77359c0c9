// SPDX-License-Identifier: Apache-2.0
// What functions with `out_sharding` share.
#pragma once

#include <utility>

#include "ir/type_sharding.h"
#include "tessera/explicit_sharding.h"

namespace tessera::program {

/// The options without the placement: those of what is done before a result is placed.
template <class Options>
Options unplaced(Options o) {
  o.out_sharding = {};
  return o;
}

/// True where axes split dimension d of the type.
inline bool is_split(const ir::Type& t, std::int64_t d) {
  return t.sharding != nullptr && !t.sharding->dims[static_cast<std::size_t>(d)].empty();
}

}  // namespace tessera::program
