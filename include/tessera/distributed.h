// SPDX-License-Identifier: Apache-2.0
// Programs of many processes: joining the others.
#pragma once

#include "tessera/device.h"

namespace tessera::distributed {

/// Joins the processes that `mpirun` has started: makes the client (`Client::mpi`) and the default of this process, so
/// that `devices()` are those of all processes. To be called by each of them before anything that uses devices. Returns
/// the client. Throws `StateError` when called twice, `UnimplementedError` where TESSERA_ENGINE names another engine
/// than "cpu", and what `Client::mpi` throws.
Client initialize(const MpiOptions& options = {}, const Loc& loc = Loc::current());
/// Whether `initialize` has returned.
bool is_initialized();

}  // namespace tessera::distributed
