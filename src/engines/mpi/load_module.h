// SPDX-License-Identifier: Apache-2.0
// Finds and loads the module that speaks to the MPI which started this program.
#pragma once

#include "engines/mpi/module/mpi_module.h"
#include "tessera/device.h"

namespace tessera::mpi {

/// Throws `ValueError` for an unknown implementation, and `StateError` where the program was started by no `mpirun` or
/// by another one than `options` say, and where the module or MPI itself is missing. Loaded once; stays.
const tessera_mpi_module& load_module(const MpiOptions& options);

/// How many processes `mpirun` says that it has started; 0 where it does not.
int started_processes();

}  // namespace tessera::mpi
