// SPDX-License-Identifier: Apache-2.0
// Attributes that transformations and the partitioner look into. Others are private to their op's file.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "ir/attrs.h"
#include "ops/ops.h"
#include "tessera/precision.h"

namespace tessera {
constexpr auto enum_names(Precision) { return std::array{"default", "high", "highest"}; }
}  // namespace tessera

namespace tessera::ops {

using ir::field;
using ir::rare_field;

/// Names of axes, most significant first. A name that a vmap binds is marked (`vmapped_name`), so that it is never
/// taken for a mesh axis of the same name.
struct Names {
  std::vector<std::string> list;
  bool operator==(const Names&) const = default;
};
std::string field_text(const Names& v);
void read_field(ir::TextReader& r, Names& v);
std::size_t field_hash(const Names& v);

/// `reshard`: the same value under another layout. What moves follows from the two layouts; the rest is for the
/// communication plan.
struct Reshard {
  enum class Kind : std::uint8_t {
    AllReduce,          ///< completes a partial value on every position
    ReduceScatter,      ///< completes a partial value and splits the result
    AllGather,          ///< makes split dimensions whole
    AllToAll,           ///< moves axes from one dimension to another
    CollectivePermute,  ///< as many shards, other owners
    Slice,              ///< splits a dimension that was whole: no communication
  };
  Kind kind;
  Dims axes;           ///< axis numbers of the program's mesh over which data moves
  std::string reason;  ///< "operand 1 of dot_general needs [-, y]"
  /// Op of the equation that is the cause, which is also the equation whose line the reshard has. Not a field: two
  /// reshards that do the same are the same.
  std::string cause = {};
  static constexpr auto fields =
      std::tuple{field("kind", &Reshard::kind), field("axes", &Reshard::axes), field("reason", &Reshard::reason)};
};
constexpr auto enum_names(Reshard::Kind) {
  return std::array{"all_reduce", "reduce_scatter", "all_gather", "all_to_all", "collective_permute", "slice"};
}
inline const char* to_string(Reshard::Kind kind) { return enum_names(kind)[static_cast<std::size_t>(kind)]; }

/// `sharding_constraint`: a user's with_sharding_constraint. Axis names and sizes only, so that a program does not
/// depend on devices; `devices` holds ids when the user named a concrete mesh.
struct ShardingConstraint {
  Dims mesh_sizes;
  Names mesh_names;
  std::vector<Dims> dims;  ///< per dimension: axis numbers, major first; -1 leaves it open to further axes
  Dims devices;
  bool uneven = false;
  Dims unreduced;        ///< axes over which the value is to stay a sum of what positions hold
  Dims replicated = {};  ///< axes that may not split it, where dimensions are open
  Dims reduced = {};     ///< typed: axes over which the gradient is to stay unreduced
  bool typed = false;    ///< jax.reshard: the result's type has this sharding, over the `Explicit` axes of its mesh
  static constexpr auto fields = std::tuple{field("mesh_sizes", &ShardingConstraint::mesh_sizes),
                                            field("mesh_names", &ShardingConstraint::mesh_names),
                                            field("dims", &ShardingConstraint::dims),
                                            field("devices", &ShardingConstraint::devices),
                                            field("uneven", &ShardingConstraint::uneven),
                                            rare_field("unreduced", &ShardingConstraint::unreduced),
                                            rare_field("replicated", &ShardingConstraint::replicated),
                                            rare_field("reduced", &ShardingConstraint::reduced),
                                            rare_field("typed", &ShardingConstraint::typed)};
};

/// `mesh_cast`: the same value in types over a mesh with other types of axes. Entries over axes that are `Explicit` in
/// both stay; those over axes that become `Auto` leave the type, and nothing moves.
struct MeshCast {
  Dims sizes;
  Names names;
  Dims from, to;  ///< types of the axes
  static constexpr auto fields = std::tuple{field("sizes", &MeshCast::sizes), field("names", &MeshCast::names),
                                            field("from", &MeshCast::from), field("to", &MeshCast::to)};
};

/// jax.reshard: the value under this sharding, in its type too.
Value reshard_to(Value x, const ir::TypeSharding* want);
/// The value with this sharding in its type: one that was made here, from value `own` of the builder on, just gets it,
/// another is resharded. `want` may be null, which asks for nothing.
Value placed_as(Value x, const ir::TypeSharding* want, std::size_t own);

using ir::GraphPtr;

struct Convert {
  DType dtype;
  bool weak = false;
  static constexpr auto fields = std::tuple{field("dtype", &Convert::dtype), field("weak", &Convert::weak)};
};

struct Axes {
  Dims axes;
  static constexpr auto fields = std::tuple{field("axes", &Axes::axes)};
};

/// Result dimension `dims[i]` is operand dimension i.
struct Iota {
  DType dtype;
  Shape shape;
  std::int64_t dimension = 0;
  std::int64_t start = 0;  ///< first number; shards of a split iota begin further on
  static constexpr auto fields = std::tuple{field("dtype", &Iota::dtype), field("shape", &Iota::shape),
                                            field("dimension", &Iota::dimension), field("start", &Iota::start)};
};

struct Reshape {
  Shape shape;
  static constexpr auto fields = std::tuple{field("shape", &Reshape::shape)};
};

struct BroadcastInDim {
  Shape shape;
  Dims dims;
  static constexpr auto fields =
      std::tuple{field("shape", &BroadcastInDim::shape), field("dims", &BroadcastInDim::dims)};
};

/// Result dimension i is operand dimension `permutation[i]`.
struct Transpose {
  Dims permutation;
  static constexpr auto fields = std::tuple{field("permutation", &Transpose::permutation)};
};

// --- element-wise ----------------------------------------------------------------------------------------------------

struct Round {
  enum class Method : std::uint8_t { AwayFromZero, ToNearestEven };
  Method method = Method::AwayFromZero;
  static constexpr auto fields = std::tuple{field("method", &Round::method)};
};
constexpr auto enum_names(Round::Method) { return std::array{"away_from_zero", "to_nearest_even"}; }

struct IntegerPow {
  std::int64_t y = 1;
  static constexpr auto fields = std::tuple{field("y", &IntegerPow::y)};
};

struct ReducePrecision {
  std::int64_t exponent_bits = 8;
  std::int64_t mantissa_bits = 23;
  static constexpr auto fields = std::tuple{field("exponent_bits", &ReducePrecision::exponent_bits),
                                            field("mantissa_bits", &ReducePrecision::mantissa_bits)};
};

struct BitcastConvertType {
  DType dtype = DType::F32;
  static constexpr auto fields = std::tuple{field("dtype", &BitcastConvertType::dtype)};
};

// --- moving elements ----------------------------------------------------------------------------------------------

/// Elements before, behind and between those of each dimension; negative low and high cut elements off.
struct Pad {
  Dims low, high, interior;
  static constexpr auto fields =
      std::tuple{field("low", &Pad::low), field("high", &Pad::high), field("interior", &Pad::interior)};
};

struct StaticSlice {
  Dims starts, limits, strides;
  static constexpr auto fields =
      std::tuple{field("starts", &StaticSlice::starts), field("limits", &StaticSlice::limits),
                 field("strides", &StaticSlice::strides)};
};

struct Rev {
  Dims dimensions;
  static constexpr auto fields = std::tuple{field("dimensions", &Rev::dimensions)};
};

struct Concatenate {
  std::int64_t dimension = 0;
  static constexpr auto fields = std::tuple{field("dimension", &Concatenate::dimension)};
};

/// Operands: array, one start a dimension.
struct DynamicSlice {
  Dims sizes;
  static constexpr auto fields = std::tuple{field("sizes", &DynamicSlice::sizes)};
};

// --- reductions
// -------------------------------------------------------------------------------------------------------

struct ArgReduce {
  std::int64_t axis = 0;
  DType index_dtype = DType::I32;
  static constexpr auto fields =
      std::tuple{field("axis", &ArgReduce::axis), field("index_dtype", &ArgReduce::index_dtype)};
};

struct Cumulative {
  std::int64_t axis = 0;
  bool reverse = false;  ///< from the last element to the first
  static constexpr auto fields = std::tuple{field("axis", &Cumulative::axis), field("reverse", &Cumulative::reverse)};
};

/// Sliding windows, one entry a dimension. `low` and `high` pad (or, negative, cut) the array after `base_dilation` put
/// holes between its elements; `window_dilation` puts holes between the places of a window. Padding and holes hold
/// nothing.
struct Window {
  Dims dimensions, strides, low, high, base_dilation, window_dilation;
  static constexpr auto fields = std::tuple{field("window_dimensions", &Window::dimensions),
                                            field("window_strides", &Window::strides),
                                            field("low", &Window::low),
                                            field("high", &Window::high),
                                            field("base_dilation", &Window::base_dilation),
                                            field("window_dilation", &Window::window_dilation)};
};
struct SelectWindow : Window {
  bool maximum = true;  ///< selects the largest element of a window, else the least
  static constexpr auto fields = std::tuple_cat(Window::fields, std::tuple{field("maximum", &SelectWindow::maximum)});
};

/// Operands: n arrays, n start values. `body`: (n numbers, n numbers) -> n numbers, associative.
struct Reduce {
  GraphPtr body;
  Dims axes;
  static constexpr auto fields = std::tuple{field("body", &Reduce::body), field("axes", &Reduce::axes)};
};
struct ReduceWindow : Window {
  GraphPtr body;
  static constexpr auto fields = std::tuple_cat(Window::fields, std::tuple{field("body", &ReduceWindow::body)});
};

struct DotGeneral {
  Dims lhs_contracting, rhs_contracting, lhs_batch, rhs_batch;
  std::optional<DType> preferred;
  Precision precision = Precision::Default;
  static constexpr auto fields = std::tuple{field("lhs_contracting", &DotGeneral::lhs_contracting),
                                            field("rhs_contracting", &DotGeneral::rhs_contracting),
                                            field("lhs_batch", &DotGeneral::lhs_batch),
                                            field("rhs_batch", &DotGeneral::rhs_batch),
                                            field("preferred", &DotGeneral::preferred),
                                            field("precision", &DotGeneral::precision)};
};

// --- control flow: operands and results are flat lists; sub-graphs are closed (what they capture is an operand) -----

/// Operands: which (i32, or bool for two branches; clamped), then the branches' inputs. Every branch has the same
/// types.
struct Cond {
  std::vector<GraphPtr> branches;
  static constexpr auto fields = std::tuple{field("branches", &Cond::branches)};
};

/// Operands: constants of the condition, constants of the body, carry. `cond`: (its constants, carry) -> bool;
/// `body`: (its constants, carry) -> carry.
struct While {
  GraphPtr cond;
  GraphPtr body;
  std::int64_t cond_consts = 0;
  std::int64_t body_consts = 0;
  static constexpr auto fields =
      std::tuple{field("cond", &While::cond), field("body", &While::body), field("cond_consts", &While::cond_consts),
                 field("body_consts", &While::body_consts)};
};

/// Operands: constants, carry, stacked inputs (dimension 0 has `length`). `body`: (constants, carry, one slice of each
/// stacked input) -> (carry, one slice of each stacked output). Results: carry, stacked outputs.
struct Scan {
  GraphPtr body;
  std::int64_t length = 0;
  bool reverse = false;
  std::int64_t num_consts = 0;
  std::int64_t num_carry = 0;
  static constexpr auto fields =
      std::tuple{field("body", &Scan::body), field("length", &Scan::length), field("reverse", &Scan::reverse),
                 field("num_consts", &Scan::num_consts), field("num_carry", &Scan::num_carry)};
};

/// A sub-graph kept as one equation (remat, custom rules): operands are its inputs.
struct Call {
  GraphPtr body;
  std::string name;
  ir::Opaque rule = {};  ///< derivative of a custom rule (ops/control/calls.h)
  static constexpr auto fields =
      std::tuple{field("body", &Call::body), field("name", &Call::name), field("rule", &Call::rule)};
};

}  // namespace tessera::ops
