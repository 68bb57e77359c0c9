// SPDX-License-Identifier: Apache-2.0
// The values of a graph while it is partitioned: each may exist under several layouts.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "spmd/layout_change.h"

namespace tessera::spmd {

struct Version {
  ir::Layout layout;
  ir::Value value;
  const ir::Eqn* origin = nullptr;  ///< for a partial value: the equation that left it so
};

/// Who asks for a layout, for the communication plan.
struct Consumer {
  const ir::Eqn* eqn;  ///< null: the program's results
  const char* role;    ///< "operand" or "output"
  std::size_t number;
};

class VersionTable {
 public:
  VersionTable(const ir::Graph& graph, const ir::MeshAxes& mesh, ir::Builder& builder, ChangeCosts& costs)
      : graph_(graph), mesh_(mesh), builder_(builder), costs_(costs), versions_(graph.num_values()) {}

  const std::vector<Version>& of(ir::ValueId v) const { return versions_[static_cast<std::size_t>(v)]; }
  void add(ir::ValueId v, Version version);
  /// The only version, when it is partial.
  const Version* partial(ir::ValueId v) const;
  /// Axes over which all versions vary.
  AxisMask vary(ir::ValueId v) const { return of(v).front().layout.vary; }

  /// Whether `provide` can: a complete value has no version under a partial goal.
  bool has(ir::ValueId v, const ir::Layout& goal) const;
  /// Bytes that `provide` would move.
  std::int64_t cost(ir::ValueId v, const ir::Layout& goal) const;
  /// The value under a layout with the dimensions and partial axes of `goal`, made from the version that is nearest.
  const Version& provide(ir::ValueId v, const ir::Layout& goal, const Consumer& consumer);
  /// Bytes that all changes of layout so far move on a device.
  std::int64_t moved() const { return moved_; }

 private:
  std::size_t nearest(ir::ValueId v, const ir::Layout& goal, std::int64_t& bytes) const;

  const ir::Graph& graph_;
  const ir::MeshAxes& mesh_;
  ir::Builder& builder_;
  ChangeCosts& costs_;
  std::vector<std::vector<Version>> versions_;
  std::int64_t moved_ = 0;
};

}  // namespace tessera::spmd
