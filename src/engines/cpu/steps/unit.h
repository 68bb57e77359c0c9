// SPDX-License-Identifier: Apache-2.0
// What one computing step runs on each shard: an equation, or a group of equations fused into one kernel.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engines/cpu/adapters/kernel_table.h"
#include "engines/cpu/step_program.h"

namespace tessera::cpu {

class Unit {
 public:
  virtual ~Unit() = default;
  virtual std::string name() const = 0;
  /// True when attributes depend on where a shard lies, not on its shape alone.
  virtual bool follows_offsets() const = 0;
  /// Attributes for a shard.
  virtual ir::Attrs remapped(ir::TypeSpan local_in, ir::TypeSpan local_out, std::span<const Dims> in_offsets,
                             std::span<const Dims> out_offsets) const = 0;
  virtual Kernel kernel(ir::TypeSpan local_in, ir::TypeSpan local_out, const ir::Attrs& attrs) const = 0;

  std::vector<ir::ValueId> in;
  std::vector<ir::ValueId> out;
  bool effect = false;  ///< once a device and in mesh order
  bool once = false;    ///< an effect of one device for all
  bool serial = false;  ///< on the calling thread, one shard after the other
};

StepPtr make_unit_step(const ir::Graph& g, const Unit& unit, Context& context);

}  // namespace tessera::cpu
