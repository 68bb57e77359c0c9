// SPDX-License-Identifier: Apache-2.0
// Manual regions of a program whose mesh is known: what shard_map and collectives become.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "ops/shared_attrs.h"

namespace tessera::ops {

/// `manual_enter`: a whole value seen as one block a position; `manual_exit`: blocks seen as a whole value. `dims`: by
/// dimension the manual axes of the program's mesh that cut it, major first. Nothing moves but to bring the value under
/// that layout. Over the axes of `partial` the whole value is the sum of the blocks. Blocks that `manual_exit` is given
/// may differ over other axes only where they are known to be equal: over those of `equal`.
struct ManualSpec {
  std::vector<Dims> dims;
  Shape shape;  ///< of the result
  Dims manual;  ///< all axes that are manual inside
  Dims partial;
  Dims equal = {};
  static constexpr auto fields = std::tuple{
      field("dims", &ManualSpec::dims), field("shape", &ManualSpec::shape), field("manual", &ManualSpec::manual),
      rare_field("partial", &ManualSpec::partial), rare_field("equal", &ManualSpec::equal)};
};

/// `reinterpret`, in partitioned graphs only: position p holds the bytes that position `source[p]` held, zeros for -1;
/// its own for an empty list. Shape and layout may change as long as every shard keeps its number of elements. No byte
/// is copied inside a process.
struct Reinterpret {
  Shape shape;
  Dims source;
  Dims axes;  ///< of the program's mesh, over which shards move
  /// The collective that it is of ("ppermute"), for plans. Not a field, as that of `Reshard`.
  std::string cause = {};
  static constexpr auto fields = std::tuple{field("shape", &Reinterpret::shape), field("source", &Reinterpret::source),
                                            field("axes", &Reinterpret::axes)};
};

/// `group_exchange`, in partitioned graphs only: a collective among lists of positions, in rank order. Operand and
/// result are blocks that may differ at every position.
struct GroupExchange {
  enum class Kind : std::uint8_t { Sum, Max, Min, AllGather, ReduceScatter, AllToAll, Ragged };
  Kind kind = Kind::Sum;
  std::int64_t dim = 0;      ///< gathered, scattered or split
  std::int64_t concat = 0;   ///< of AllToAll
  std::vector<Dims> groups;  ///< positions; every position is in one group
  Shape shape;               ///< of the result
  Dims axes;
  std::string cause = {};  ///< as that of `Reinterpret`
  static constexpr auto fields =
      std::tuple{field("kind", &GroupExchange::kind),     field("dim", &GroupExchange::dim),
                 field("concat", &GroupExchange::concat), field("groups", &GroupExchange::groups),
                 field("shape", &GroupExchange::shape),   field("axes", &GroupExchange::axes)};
};
constexpr auto enum_names(GroupExchange::Kind) {
  return std::array{"sum", "max", "min", "all_gather", "reduce_scatter", "all_to_all", "ragged"};
}
inline const char* to_string(GroupExchange::Kind kind) { return enum_names(kind)[static_cast<std::size_t>(kind)]; }

}  // namespace tessera::ops
