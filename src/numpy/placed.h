// SPDX-License-Identifier: Apache-2.0
// What functions with `out_sharding` share.
#pragma once

#include <utility>

#include "tessera/explicit_sharding.h"

namespace tessera::program {

/// The options without the placement: those of what is done before a result is placed.
template <class Options>
Options unplaced(Options o) {
  o.out_sharding = {};
  return o;
}

}  // namespace tessera::program
