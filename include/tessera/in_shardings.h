// SPDX-License-Identifier: Apache-2.0
// Placements of a jitted function's arguments: written, or found once the program is known.
#pragma once

#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "tessera/sharding_arg.h"

namespace tessera {

namespace detail {
class ShardingFinder;
}  // namespace detail

/// A list of shardings, or `automatic(cluster)`, which finds them.
class InShardings {
 public:
  InShardings() = default;
  // NOLINTBEGIN(google-explicit-constructor): lists of shardings, and what finds them, are arguments
  InShardings(std::initializer_list<ShardingArg> list) : list_(list) {}
  InShardings(std::vector<ShardingArg> list) : list_(std::move(list)) {}
  InShardings(std::shared_ptr<const detail::ShardingFinder> finder) : finder_(std::move(finder)) {}
  // NOLINTEND(google-explicit-constructor)
  /// Empty where they are found.
  const std::vector<ShardingArg>& list() const { return list_; }
  /// Null where they are written.
  const std::shared_ptr<const detail::ShardingFinder>& finder() const { return finder_; }

 private:
  std::vector<ShardingArg> list_;
  std::shared_ptr<const detail::ShardingFinder> finder_;
};

}  // namespace tessera
