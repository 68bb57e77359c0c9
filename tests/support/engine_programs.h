// SPDX-License-Identifier: Apache-2.0
// Random programs under random shardings through the engine.
#pragma once

#include <string>

#include "support/numpy_programs.h"
#include "support/random_graphs.h"
#include "tessera/device.h"

namespace tessera::test {

/// A client with this many devices, made once: clients never end.
Client client_with(std::int64_t devices);

/// Outputs of a graph on whole arrays by the engine on one device.
std::vector<HostArray> run_on_one(const ir::GraphPtr& graph, const std::vector<HostArray>& args);
/// The same equation by equation, without anything that the engine makes of a program.
std::vector<HostArray> run_plainly(const ir::GraphPtr& graph, const std::vector<HostArray>& args);
/// Propagates, partitions, compiles and runs for the problem's mesh over all devices of `client`; arguments are cut as
/// the partitioned program wants them, results joined. Positions that a layout says are equal share a shard.
std::vector<HostArray> run_on_mesh(const ir::Module& module, const std::vector<HostArray>& args, const Client& client);

/// The program (inputs -> cotangents of its float inputs) for cotangents of 1 at every float output, under the
/// layouts of `p` for inputs and free ones for outputs; its `expected` is empty. Empty graph where an op on the way
/// has no derivative.
RandomProgram gradient_of(const RandomProgram& p);

/// What differs between the program on a mesh and on one device, or (where it has `expected`) from the references;
/// empty when nothing does. Errors that are thrown count.
std::string disagreement(const RandomProgram& p);
/// `disagreement` over `processes` simulated processes that share the mesh's devices evenly: every shard that a process
/// gets against what the program's `expected` has there.
std::string disagreement_across(const RandomProgram& p, int processes);
/// The same for what this process gets, of the processes of `client`, all of which call it.
std::string disagreement_here(const RandomProgram& p, const Client& client);

/// What differs between the references and the program on one device, fused and equation by equation, and (`mesh` not
/// null) under random shardings of arguments and results on a mesh; empty when nothing does. Errors that are thrown
/// count.
std::string disagreement(const NumpyProgram& p, std::uint64_t seed, const ir::MeshAxes* mesh);

/// In deterministic mode: what is not the same to the bit on a mesh and on one device.
std::string different_bits(const RandomProgram& p);

}  // namespace tessera::test
