// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/lru_cache.h"

namespace tessera::mesh {

base::LruStats local_mesh_cache_stats();
void clear_local_mesh_cache();

}  // namespace tessera::mesh
