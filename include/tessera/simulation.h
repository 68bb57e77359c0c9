// SPDX-License-Identifier: Apache-2.0
// What a step is predicted to cost on a cluster.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/comm_plan.h"
#include "tessera/loc.h"
#include "tessera/program_analysis.h"

namespace tessera {

/// Something that the simulated device or its links are busy with.
struct SimulatedEvent {
  std::string name;   ///< "dot_general", "all_gather"
  std::string track;  ///< "compute", or the levels of the cluster whose links are in use: "ici", "ici+dcn"
  Loc loc;            ///< the user's line
  double begin = 0, seconds = 0;
  double bytes = 0;  ///< through the device's memory; of a collective, of the buffer
};

/// A simulated step of the device with the largest shards. Seconds unless otherwise stated.
struct Simulation {
  std::string cluster;
  std::int64_t devices = 1;
  double step = 0;
  double compute = 0;        ///< in which the device computes
  double communication = 0;  ///< that collectives take, summed
  double exposed = 0;        ///< in which the device waits for collectives: `step` is `compute` and this
  std::int64_t collectives = 0;
  double flops = 0;               ///< of matrix products and convolutions on a device
  double flop_utilization = 0;    ///< these beside what the device's best rate for their dtypes would compute in `step`
  CompiledMemoryStats memory;     ///< of a device
  std::int64_t memory_limit = 0;  ///< of the cluster's device
  std::int64_t loops_of_unknown_length = 0;  ///< taken as one round each
  /// What one source line costs, in seconds.
  struct Line {
    Loc loc;
    double compute = 0, exposed = 0;
    double seconds() const { return compute + exposed; }
  };
  std::vector<Line> lines;  ///< by the user's source line, most expensive first
  CommPlan comm_plan;
  std::vector<SimulatedEvent> events;

  std::int64_t peak_memory() const { return memory.peak_memory_in_bytes.value_or(0); }
  bool fits() const { return peak_memory() <= memory_limit; }
  /// For Perfetto or chrome://tracing: one track for computation and one for each level of links. Of a loop the first
  /// two rounds are drawn, and one bar for the others.
  std::string trace() const;
};
/// The figures, and the five most expensive source lines.
std::string to_string(const Simulation& s);

}  // namespace tessera
