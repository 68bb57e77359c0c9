// SPDX-License-Identifier: Apache-2.0
// Opens the maps of a program whose mesh is known: one flat graph, in which blocks are values with `manual_enter` and
// `manual_exit` at the boundaries, and collectives know their axes of the program's mesh.
#pragma once

#include "ir/module.h"

namespace tessera::spmd {

/// The graph of a placed module without maps. Their meshes are among the module's.
ir::GraphPtr expand_maps(const ir::Module& m);

}  // namespace tessera::spmd
