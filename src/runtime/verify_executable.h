// SPDX-License-Identifier: Apache-2.0
// What an engine offers to the verification mode: programs run as plainly as they are written.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ir/graph.h"
#include "runtime/shard_set.h"
#include "sharding/placement.h"
#include "tessera/dtype.h"

namespace tessera::runtime {

/// The distance of neighboring values at 1, of the real dtype for complex ones.
inline double epsilon(DType t) {
  switch (real_dtype(t)) {
    case DType::F16:
      return 0x1p-10;
    case DType::BF16:
      return 0x1p-7;
    case DType::F32:
      return 0x1p-23;
    default:
      return 0x1p-52;
  }
}

class PlainExecutable {
 public:
  virtual ~PlainExecutable() = default;
  /// As `Executable::run`. With `shake` other than 0, operands and results of every operation whose last bits an engine
  /// may choose (sums, products, elementary functions) are changed by some units in the last place, otherwise for every
  /// number: what that does to the results tells how far two right runs may lie apart.
  virtual std::vector<ShardBuffers> run(std::vector<ShardBuffers> args, std::uint64_t shake) = 0;
};

/// An `Engine` that can be verified is one of these too.
class PlainCompiler {
 public:
  virtual ~PlainCompiler() = default;
  /// Every equation by itself: nothing fused, merged or made again, no result in an operand's memory.
  virtual std::shared_ptr<PlainExecutable> compile_plainly(ir::GraphPtr graph,
                                                           std::shared_ptr<const sharding::DeviceList> devices) = 0;
};

}  // namespace tessera::runtime
