// SPDX-License-Identifier: Apache-2.0
// Attributes that transformations and the partitioner look into. Others are private to their op's file.
#pragma once

#include "ir/attrs.h"
#include "ops/ops.h"

namespace tessera::ops {

using ir::field;

/// `reshard`: the same value under another layout. What moves follows from the two layouts; the rest is for the
/// communication plan.
struct Reshard {
  enum class Kind : std::uint8_t {
    AllReduce,          ///< completes a partial value on every position
    ReduceScatter,      ///< completes a partial value and splits the result
    AllGather,          ///< makes split dimensions whole
    AllToAll,           ///< moves axes from one dimension to another
    CollectivePermute,  ///< as many pieces, other owners
    Slice,              ///< splits a dimension that was whole: no communication
  };
  Kind kind;
  Dims axes;           ///< axis numbers of the program's mesh over which data moves
  std::string reason;  ///< "operand 1 of dot_general at model.cc:42 needs dimension 0 whole"
  static constexpr auto fields =
      std::tuple{field("kind", &Reshard::kind), field("axes", &Reshard::axes), field("reason", &Reshard::reason)};
};
const char* to_string(Reshard::Kind kind);

/// `sharding_constraint`: a user's with_sharding_constraint. Axis names and sizes only, so that a program does not
/// depend on devices; `devices` holds ids when the user named a concrete mesh.
struct ShardingConstraint {
  Dims mesh_sizes;
  std::string mesh_names;  ///< joined by ','
  std::vector<Dims> dims;  ///< per dimension: axis numbers, major first; {-1} leaves the dimension unconstrained
  Dims devices;
  bool uneven = false;
  static constexpr auto fields =
      std::tuple{field("mesh_sizes", &ShardingConstraint::mesh_sizes),
                 field("mesh_names", &ShardingConstraint::mesh_names), field("dims", &ShardingConstraint::dims),
                 field("devices", &ShardingConstraint::devices), field("uneven", &ShardingConstraint::uneven)};
};

struct Axes {
  Dims axes;
  static constexpr auto fields = std::tuple{field("axes", &Axes::axes)};
};

struct DotGeneral {
  Dims lhs_contracting, rhs_contracting, lhs_batch, rhs_batch;
  std::optional<DType> preferred;
  std::string precision;  ///< "default", "high" or "highest"
  static constexpr auto fields = std::tuple{field("lhs_contracting", &DotGeneral::lhs_contracting),
                                            field("rhs_contracting", &DotGeneral::rhs_contracting),
                                            field("lhs_batch", &DotGeneral::lhs_batch),
                                            field("rhs_batch", &DotGeneral::rhs_batch),
                                            field("preferred", &DotGeneral::preferred),
                                            field("precision", &DotGeneral::precision)};
};

}  // namespace tessera::ops
