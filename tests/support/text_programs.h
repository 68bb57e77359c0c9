// SPDX-License-Identifier: Apache-2.0
// Programs of every family as StableHLO text, with arguments and what Tessera computes from them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tessera/host_array.h"

namespace tessera::test {

struct TextProgram {
  std::string name;  ///< "family.case"
  std::string text;
  std::vector<HostArray> args;
  std::vector<HostArray> expected;
  double tolerance = 2e-4;
  bool replicas = false;  ///< arguments and results are stacked: one index a replica
};
using ProgramSink = std::function<void(TextProgram)>;

/// Leaves the program in a folder of its name under `TESSERA_PROGRAMS_DIR`, for tools/hlo/check_with_xla.py; nothing
/// without that variable.
void keep(const TextProgram& program);

/// One program for each sample of each op, against the ops' references. Returns the ops without a form in the text.
std::vector<std::string> op_programs(const ProgramSink& sink);
/// Random programs, and gradients of such, with random shardings of arguments and results.
void random_programs(const ProgramSink& sink, int count);
/// The recorded programs with collectives.
void map_programs(const ProgramSink& sink);
/// Control flow, gradients, constraints, partial and nested maps, pmap, and the GPT training step.
void written_programs(const ProgramSink& sink);

}  // namespace tessera::test
