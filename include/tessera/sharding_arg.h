// SPDX-License-Identifier: Apache-2.0
// Placements as arguments: shardings, or specs over the current mesh.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "tessera/partition_spec.h"
#include "tessera/sharding.h"

namespace tessera {

/// A sharding, nothing (null), or a bare spec, which means the mesh that is current where the function is called.
class ShardingArg {
 public:
  ShardingArg() = default;
  // NOLINTBEGIN(google-explicit-constructor): shardings and specs are arguments
  ShardingArg(std::nullptr_t) {}
  ShardingArg(std::nullopt_t) {}
  ShardingArg(ShardingPtr sharding) : sharding_(std::move(sharding)) {}
  ShardingArg(const NamedSharding& sharding) : sharding_(sharding.share()) {}
  ShardingArg(PartitionSpec spec) : spec_(std::move(spec)) {}
  // NOLINTEND(google-explicit-constructor)
  /// False where nothing is asked for.
  bool given() const { return spec_.has_value() || sharding_ != nullptr; }
  const std::optional<PartitionSpec>& spec() const { return spec_; }
  const ShardingPtr& sharding() const { return sharding_; }
  /// Throws `StateError` naming `argument` for a spec outside any mesh, `ValueError` for an axis that the mesh lacks.
  ShardingPtr resolve(const std::string& function, const char* argument) const;

 private:
  ShardingPtr sharding_;
  std::optional<PartitionSpec> spec_;
};

/// Where the result of a function is to be.
struct PlaceOptions {
  /// Over `Explicit` axes: the result has exactly this placement in its type, unreduced and reduced axes included, and
  /// the value that `reshard` of the plain result has. What the rules of the function's operations would refuse is
  /// legal with it. Not given: as the rules derive, which is unsplit for what has no operands.
  ShardingArg out_sharding = {};
};

}  // namespace tessera
