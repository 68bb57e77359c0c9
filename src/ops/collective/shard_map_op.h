// SPDX-License-Identifier: Apache-2.0
// shard_map as a graph op: a body that every position of a mesh runs on its blocks.
#pragma once

#include <string>
#include <vector>

#include "ops/collective/collectives.h"
#include "ops/shared_attrs.h"

namespace tessera::ops {

/// By operand (result) and dimension: numbers of the map's mesh axes that cut it, major first.
struct Specs {
  std::vector<std::vector<Dims>> list;
  /// By operand, for those before the last that has any: manual axes over which it is the sum of the blocks, and axes
  /// along which blocks are equal and its cotangent is such a sum. Empty at the end of lists: none.
  std::vector<Dims> unreduced, reduced;
  bool operator==(const Specs&) const = default;

  const Dims& unreduced_of(std::size_t i) const { return of(unreduced, i); }
  const Dims& reduced_of(std::size_t i) const { return of(reduced, i); }
  void add(std::vector<Dims> spec, const Dims& unreduced_axes = {}, const Dims& reduced_axes = {}) {
    list.push_back(std::move(spec));
    put(unreduced, unreduced_axes);
    put(reduced, reduced_axes);
  }

 private:
  static const Dims& of(const std::vector<Dims>& all, std::size_t i) {
    static const Dims none;
    return i < all.size() ? all[i] : none;
  }
  void put(std::vector<Dims>& all, const Dims& axes) const {
    if (axes.empty()) return;
    all.resize(list.size());
    all.back() = axes;
  }
};
std::string field_text(const Specs& v);
void read_field(ir::TextReader& r, Specs& v);
std::size_t field_hash(const Specs& v);

struct ShardMap {
  GraphPtr body;  ///< on blocks
  Dims mesh_sizes;
  Names mesh_names;
  Dims devices;  ///< ids when the user named a concrete mesh
  Dims manual;   ///< numbers of the axes that the body names; others stay automatic
  Specs in_specs, out_specs;
  bool checked = true;  ///< varying types are checked
  static constexpr auto fields = std::tuple{field("body", &ShardMap::body),
                                            field("mesh_sizes", &ShardMap::mesh_sizes),
                                            field("mesh_names", &ShardMap::mesh_names),
                                            field("devices", &ShardMap::devices),
                                            field("manual", &ShardMap::manual),
                                            field("in_specs", &ShardMap::in_specs),
                                            field("out_specs", &ShardMap::out_specs),
                                            field("checked", &ShardMap::checked)};
};

/// Shape of a block; throws `IndivisibleError` naming `what` where axes do not divide a dimension.
Shape block_shape(const ShardMap& p, const std::vector<Dims>& spec, const Shape& shape, const std::string& what);
/// The type of a block, but for its shape: placed over the axes that stay outside the map, in a mesh whose others are
/// `Manual`.
Type block_type(const ShardMap& p, const Type& t);
Shape whole_shape(const ShardMap& p, const std::vector<Dims>& spec, const Shape& block);

/// Results of the map. In a checked map the body first gets its casts to varying.
Values shard_map(Builder& b, ShardMap p, ValueSpan in);

}  // namespace tessera::ops
