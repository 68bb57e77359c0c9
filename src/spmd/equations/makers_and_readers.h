// SPDX-License-Identifier: Apache-2.0
// Which equation makes each value of a graph and which ones read it, for rewrites that recognize an algorithm in what
// programs write for it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/graph.h"

namespace tessera::spmd {

class MakersAndReaders {
 public:
  explicit MakersAndReaders(const ir::Graph& g);

  const ir::Type& type(ir::ValueId v) const { return graph_.type(v); }
  /// Null for an input.
  const ir::Eqn* maker(ir::ValueId v) const { return maker_[at(v)]; }
  /// Null among them where the value is a result of the program.
  const std::vector<const ir::Eqn*>& readers(ir::ValueId v) const { return readers_[at(v)]; }
  /// The constant that an array has at all places, as far as one is written.
  const ir::Eqn* constant_of(ir::ValueId v) const;
  /// The same as a number, of integers other than u64.
  std::optional<std::int64_t> number_of(ir::ValueId v) const;

 private:
  static std::size_t at(ir::ValueId v) { return static_cast<std::size_t>(v); }

  const ir::Graph& graph_;
  std::vector<const ir::Eqn*> maker_;                 // by value
  std::vector<std::vector<const ir::Eqn*>> readers_;  // by value
};

}  // namespace tessera::spmd
