// SPDX-License-Identifier: Apache-2.0
// Checks and the reference walk that gather and the scatters share.
#pragma once

#include "ops/define_op.h"
#include "ops/shape/indexing_ops.h"

namespace tessera::ops {

/// The numbering of one gather or scatter, under common names.
struct Numbering {
  const char* op;
  const char* window_name;     ///< "offset_dims"
  const char* collapsed_name;  ///< "collapsed_slice_dims"
  const char* map_name;        ///< "start_index_map"
  const Dims& window;
  const Dims& collapsed;
  const Dims& map;
  const Dims& operand_batching;
  const Dims& indices_batching;
};
Numbering numbering(const Gather& p);
Numbering numbering(const Scatter& p, const char* op);

/// Throws unless the numbering fits the array and the indices.
void check_numbering(const Numbering& n, const Type& operand, const Type& indices);

bool contains(const Dims& v, std::int64_t d);

/// Calls `body(element of the window array, element of the operand)` for each element of the windows, row-major; the
/// operand element is -1 where the window is dropped.
void walk_windows(const Numbering& n, const WindowMap& map, IndexMode mode, const View& operand, const View& indices,
                  const Shape& window, const std::function<void(std::int64_t, std::int64_t)>& body);

/// Factors of array, indices and windows. `batch` and `reduction`: kind of the indices' own dimensions.
struct WindowFactors {
  FactorRule::Tensor operand, indices, window;
};
WindowFactors window_factors(FactorRule& r, const Numbering& n, const WindowMap& map, const Shape& operand,
                             const Shape& indices, const Shape& window, Factor::Kind batch, Reduction reduction);

/// An array that is split along dimensions in which single elements are picked: every shard gives what it has of the
/// windows, and their sum is the result; every shard takes what is written to it.
std::optional<ir::Division> gather_by_shards(Builder& b, const ir::DivideArgs& a, const Gather& p);
std::optional<ir::Division> scatter_by_shards(const ir::OpDef& op, Builder& b, const ir::DivideArgs& a,
                                              const Scatter& p);
/// Rows of a table whose indices are split by the same axes: each is sent once, to the position that asks for it.
std::optional<ir::Division> gather_by_routes(Builder& b, const ir::DivideArgs& a, const Gather& p);
/// By element of an array of shape `full` whether it is one of the `window` that begins at `low`; empty where all are.
Value inside_window(Builder& b, const Shape& full, const Dims& low, const Shape& window);
/// Integers as signed ones of 32 or 64 bits, so that offsets can be taken away; those beyond 62 bits are that large.
Value as_signed(Value indices);

}  // namespace tessera::ops
