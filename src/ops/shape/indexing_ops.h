// SPDX-License-Identifier: Apache-2.0
// gather and scatter: windows of an array picked, or written, at computed places. The numbering of dimensions is
// jax.lax.GatherDimensionNumbers' and ScatterDimensionNumbers'; the last dimension of the indices holds one index
// vector.
#pragma once

#include <array>

#include "ir/attrs.h"
#include "ops/ops.h"

namespace tessera::ops {

using ir::field;

/// What happens to a window that is not wholly inside.
enum class IndexMode : std::uint8_t {
  PromiseInBounds,  ///< the program vouches that there is none; where the promise fails, Clip is what happens
  Clip,             ///< it is moved inside
  FillOrDrop,       ///< gather gives the fill value, scatter leaves it out
};
constexpr auto enum_names(IndexMode) { return std::array{"promise_in_bounds", "clip", "fill_or_drop"}; }
inline const char* to_string(IndexMode mode) { return enum_names(mode)[static_cast<std::size_t>(mode)]; }

/// Operands: array, indices (integers). Result dimension `offset_dims[i]` is the i-th window dimension of the array
/// (one that is neither collapsed nor batching); the others are the indices' leading dimensions, in order.
struct Gather {
  Dims offset_dims;                 ///< ascending
  Dims collapsed_slice_dims;        ///< ascending; slice size 1
  Dims start_index_map;             ///< array dimension of each component of an index vector
  Dims operand_batching_dims = {};  ///< ascending; walk together with …
  Dims indices_batching_dims = {};  ///< … these dimensions of the indices
  Dims slice_sizes = {};            ///< one an array dimension
  IndexMode mode = IndexMode::Clip;
  /// FillOrDrop; by default NaN, true, the least signed and the greatest unsigned integer.
  std::optional<double> fill = std::nullopt;
  bool unique_indices = false;  ///< no two windows overlap
  static constexpr auto fields = std::tuple{field("offset_dims", &Gather::offset_dims),
                                            field("collapsed_slice_dims", &Gather::collapsed_slice_dims),
                                            field("start_index_map", &Gather::start_index_map),
                                            field("operand_batching_dims", &Gather::operand_batching_dims),
                                            field("indices_batching_dims", &Gather::indices_batching_dims),
                                            field("slice_sizes", &Gather::slice_sizes),
                                            field("mode", &Gather::mode),
                                            field("fill", &Gather::fill),
                                            field("unique_indices", &Gather::unique_indices)};
};

/// Operands: array, indices, updates. Update dimension `update_window_dims[i]` is the i-th window dimension of the
/// array.
struct Scatter {
  Dims update_window_dims;            ///< ascending
  Dims inserted_window_dims;          ///< ascending
  Dims scatter_dims_to_operand_dims;  ///< array dimension of each component of an index vector
  Dims operand_batching_dims = {};
  Dims indices_batching_dims = {};
  IndexMode mode = IndexMode::FillOrDrop;
  bool unique_indices = false;
  /// The array is known to be zeros, so that shards of the updates may be scattered apart and summed.
  bool onto_zeros = false;
  static constexpr auto fields =
      std::tuple{field("update_window_dims", &Scatter::update_window_dims),
                 field("inserted_window_dims", &Scatter::inserted_window_dims),
                 field("scatter_dims_to_operand_dims", &Scatter::scatter_dims_to_operand_dims),
                 field("operand_batching_dims", &Scatter::operand_batching_dims),
                 field("indices_batching_dims", &Scatter::indices_batching_dims),
                 field("mode", &Scatter::mode),
                 field("unique_indices", &Scatter::unique_indices),
                 field("onto_zeros", &Scatter::onto_zeros)};
};

/// The gather that reads what the scatter writes, and the reverse.
Gather inverse_of(const Scatter& p, const Shape& operand, const Shape& updates);
Scatter inverse_of(const Gather& p);

Value gather(Value x, Value indices, const Gather& p);
/// The last of several updates of one element stays.
Value scatter(Value x, Value indices, Value updates, const Scatter& p);
Value scatter_add(Value x, Value indices, Value updates, const Scatter& p);
Value scatter_mul(Value x, Value indices, Value updates, const Scatter& p);
Value scatter_min(Value x, Value indices, Value updates, const Scatter& p);
Value scatter_max(Value x, Value indices, Value updates, const Scatter& p);

/// Where the windows of a gather or a scatter lie. `window` is the result of a gather, the updates of a scatter.
struct WindowMap {
  WindowMap(const Gather& p, const Shape& operand, const Shape& indices, const Shape& window);
  WindowMap(const Scatter& p, const Shape& operand, const Shape& indices, const Shape& window);

  Dims batch_of_window;    ///< window dimension of each leading dimension of the indices
  Dims operand_of_offset;  ///< array dimension of each offset dimension
  Dims sizes;              ///< window extent, by array dimension

 private:
  void fill(const Dims& offset, const Dims& collapsed, const Dims& batching, const Shape& operand, const Shape& indices,
            const Shape& window);
};

}  // namespace tessera::ops
