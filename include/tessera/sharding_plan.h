// SPDX-License-Identifier: Apache-2.0
// What a search for shardings has found (tessera/automatic.h), and why.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/dtype.h"
#include "tessera/loc.h"
#include "tessera/mesh.h"
#include "tessera/partition_spec.h"
#include "tessera/shape.h"
#include "tessera/sharding.h"

namespace tessera {

/// Something that was decided, or could have been.
struct PlannedChoice {
  std::string what;              ///< "x on dimension 0 of argument 2 float32[64,32]"; of a mesh: "x=4,y=2"
  double step = 0;               ///< predicted seconds of a step with it, and with all that was decided before it
  std::int64_t peak_memory = 0;  ///< bytes on a device, likewise
};

/// What was decided, and the best that was not taken in its place: it leaves a longer step, or does not fit.
struct PlannedDecision {
  PlannedChoice taken;
  std::vector<PlannedChoice> rejected;  ///< priced with all else as in the plan; the best first, at most three
};

/// A sharding for values inside the program: what `with_sharding_constraint(value, spec)` states on that line.
struct PlannedConstraint {
  Loc loc;  ///< of the operation whose result it is
  std::string op;
  Shape shape;
  DType dtype = DType::F32;
  PartitionSpec spec;      ///< over `ShardingPlan::mesh`
  std::int64_t count = 1;  ///< values, in repeated layers
};

/// Values that late readers get computed again, so that no device keeps them until then.
struct PlannedRecomputation {
  Loc loc;         ///< of the operation whose results they are; unknown for arguments
  std::string op;  ///< "argument": an argument
  Shape shape;
  DType dtype = DType::F32;
  bool copies = false;     ///< they are kept; made again are their copies in other layouts, as gathered weights
  std::int64_t count = 1;  ///< values of this operation and shape
  std::int64_t bytes = 0;  ///< that a device need not keep where memory was highest, of all of them
  double seconds = 0;      ///< of a step that this takes, with what they are computed from
};

/// Shardings that `automatic` has found for a program.
struct ShardingPlan {
  AbstractMesh mesh;
  std::vector<ShardingPtr> arguments;  ///< one for every leaf of the arguments
  std::vector<PlannedConstraint> constraints;
  std::vector<PlannedRecomputation> recomputed;  ///< those that free most first; empty: all is kept
  double kept_step = 0;                          ///< seconds with nothing computed again; 0 where nothing is
  std::int64_t kept_memory = 0;                  ///< bytes on a device, likewise
  double step = 0;                               ///< predicted seconds
  std::int64_t peak_memory = 0;                  ///< predicted bytes on a device
  std::int64_t memory_limit = 0;                 ///< bytes on a device
  double replicated_step = 0;                    ///< seconds with everything on every device
  std::int64_t replicated_memory = 0;
  std::vector<PlannedDecision> decisions;   ///< in order
  std::vector<PlannedChoice> further;       ///< the best of what would come on top, and does not pay; at most three
  std::vector<PlannedChoice> other_meshes;  ///< their best plans, the best first
  std::int64_t candidates = 0;              ///< that were partitioned and simulated
  double seconds = 0;                       ///< that the search took
  std::string text;                         ///< all of this, and annotations to paste, as `tessera shard` prints it
};
/// `ShardingPlan::text`.
inline std::string to_string(const ShardingPlan& p) { return p.text; }

}  // namespace tessera
