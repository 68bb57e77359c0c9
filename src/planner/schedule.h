// SPDX-License-Identifier: Apache-2.0
// What one device does in a step, as the simulator takes it: computation, collectives, and loops of both.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/layout.h"
#include "planner/collective_cost.h"
#include "tessera/cluster_model.h"
#include "tessera/loc.h"
#include "tessera/simulation.h"

namespace tessera::planner {

struct Schedule;

/// A value that a task reads or writes, not inside a fused group.
struct Touch {
  ir::ValueId value = 0;
  double bytes = 0;
  enum class Kind : std::uint8_t {
    Read,
    Window,   ///< read, moved, by a fused group that reads the value where it is, too
    Carried,  ///< read, of a loop's body: the round before has written it at its end
    Written,  ///< a result of the graph
    Between,  ///< any other that is written: its memory was another value's a moment before
  } kind = Kind::Read;
  ir::AxisMask distinct = ~ir::AxisMask{0};  ///< axes of the mesh along which devices hold unlike things
  bool writes() const { return kind == Kind::Written || kind == Kind::Between; }
};

/// One step. Which of the three it is follows from what is set: `body`, `collective`, or neither.
struct Task {
  std::string name;
  Loc loc;
  /// Tasks before it in the same schedule whose results it reads.
  std::vector<std::int32_t> after = {};
  /// Of a loop's body: it reads what the round before has computed (`Schedule::carried`).
  bool after_round = false;

  // Computation.
  double products = 0;              ///< operations of matrix products
  double idle = 1;                  ///< times as long as at the full rate: vectors of few channels are filled in part
  double vector = 0;                ///< element-wise operations
  const char* operation = nullptr;  ///< one of `ClusterDevice::known_operations`
  double elements = 0;              ///< of that operation
  double windows = 0;               ///< elements of `Touch::Kind::Window`
  double window_rows = 0;           ///< and their rows
  const char* row_operation = nullptr;  ///< one of `ClusterDevice::known_operations` as well
  double rows = 0;                      ///< of that operation
  double unmeasured = 0;                ///< element-wise operations that these count as where the cluster has no rate
  bool function = false;                ///< where it has none, that of "transcendental" stands for it
  double bytes = 0;                 ///< read from and written to the device's memory; of a collective as in `cost_of`
  std::vector<Touch> touches = {};  ///< in a schedule's own values; collectives have them too
  /// One of `ClusterDevice::known_operations`: what it reads from the memory or from caches has this rate, in bytes,
  /// where that is more.
  const char* reads_at = nullptr;
  DType dtype = DType::F32;
  bool launches = true;                      ///< it is an operation of its own: the device starts it
  std::int32_t group = -1;                   ///< the first task of the fused group that it is in
  bool ends_pass = false;                    ///< what follows in its group needs all of a row: a pass of its own
  ir::AxisMask distinct = ~ir::AxisMask{0};  ///< axes of the mesh along which devices compute, or send, unlike things

  // Communication.
  bool is_collective = false;
  Collective collective = Collective::AllReduce;
  Dims axes = {};     ///< numbers of the mesh's axes over which data moves
  double copied = 0;  ///< as in `InMemory`
  /// Sums products that nothing else reads: inside one process the native engine adds each to the others as it is made.
  bool sums_products = false;

  // Repetition.
  std::shared_ptr<const Schedule> body = nullptr;
  std::int64_t times = 1;
};

struct Schedule {
  std::vector<Task> tasks;
  std::vector<std::int32_t> carried;  ///< of a loop's body: tasks whose results the next round reads
};

/// The schedule of a partitioned graph (the device with the largest shards). Element-wise operations that nothing but
/// element-wise operations read are fused with these: only what leaves a fused group goes through memory. `unknown`
/// counts the loops whose length is not known before they run; they are taken as one round. `Rows::Cached`: reductions
/// of short rows are fused, too, with what they read and what reads them, as the native engine does.
enum class Rows : std::uint8_t { Apart, Cached };
Schedule schedule_of(const ir::Graph& partitioned, std::int64_t& unknown, Rows rows = Rows::Apart);
/// How the devices of this cluster compute.
Rows rows_of(const ClusterModel& cluster);

/// Costs by the user's line.
struct LineCost {
  double compute = 0;  ///< seconds
  double exposed = 0;  ///< seconds in which the device waits for communication
};

struct Timeline {
  double seconds = 0;
  double compute = 0;        ///< in which the device computes
  double communication = 0;  ///< in which a link is in use, summed over collectives
  double exposed = 0;        ///< in which the device waits for a collective
  double products = 0;       ///< operations of matrix products
  std::int64_t collectives = 0;
  std::vector<std::pair<Loc, LineCost>> lines;  ///< most expensive first
  /// In order; of a loop the first two rounds, and one event for the others. At most `kMostEvents`.
  std::vector<SimulatedEvent> events;
  static constexpr std::size_t kMostEvents = 200'000;
};

/// Runs the schedule on a device of the cluster: computation in order, collectives that `ClusterModel::overlaps` names
/// beside it on their links, in order on each level, the others with the device waiting. A loop has the length of its
/// first round and, for all others, of its second.
Timeline run(const Schedule& schedule, const ClusterModel& cluster, const Dims& mesh_sizes);

}  // namespace tessera::planner
