// SPDX-License-Identifier: Apache-2.0
// Picking elements by arrays of indices.
#include "ops/shape/indexing_ops.h"
#include "program/graph_fragment.h"
#include "program/promote.h"
#include "tessera/lax.h"
#include "tessera/numpy.h"

namespace tessera {

using ir::Builder;
using ir::Value;
using ir::Values;
using program::graph_fragment1;

namespace {
void check_indices(const char* name, const Array& i) {
  if (!is_integer(i.dtype()))
    throw TypeError(str(name, ": indices have dtype ", dtype_name(i.dtype()), "; expected an integer"));
}
// Negative indices count from the end.
Value from_end(Builder& b, Value i, std::int64_t n) {
  if (is_unsigned_int(i.dtype())) return i;
  return ops::where(ops::lt(i, ops::scalar(b, 0, i.dtype())), i + static_cast<double>(n), i);
}
Value around(Builder& b, Value i, std::int64_t n) {
  Value size = ops::scalar(b, static_cast<double>(n), i.dtype());
  Value r = ops::rem(i, size);
  return is_unsigned_int(i.dtype()) ? r : ops::where(ops::lt(r, ops::scalar(b, 0, i.dtype())), r + size, r);
}
}  // namespace

Array take(const Operand& x, const Operand& indices, std::optional<std::int64_t> axis, TakeMode mode) {
  if (!axis) {
    Array flat = ravel(x);
    return take(Operand(flat, x.loc()), indices, 0, mode);
  }
  const Shape shape = x.array().shape();
  check_indices("take", indices.array());
  std::int64_t d = program::axis_of("take", *axis, rank(shape));
  std::int64_t n = shape[static_cast<std::size_t>(d)];
  Array index = indices.array().weak_type() ? program::cast(indices.array(), indices.array().dtype(), false, x.loc())
                                            : indices.array();
  return graph_fragment1("take", x.loc(), {x.array(), index}, [&](Builder& b, const Values& v) {
    // Clipping moves negative indices to the first element, as NumPy's does.
    Value i = mode == TakeMode::Wrap ? around(b, v[1], n) : mode == TakeMode::Fill ? from_end(b, v[1], n) : v[1];
    ops::Gather g;
    std::int64_t index_rank = i.rank();
    for (std::int64_t k = 0; k < rank(shape); ++k) {
      if (k != d) g.offset_dims.push_back(k < d ? k : k - 1 + index_rank);
    }
    g.collapsed_slice_dims = {d};
    g.start_index_map = {d};
    g.slice_sizes = shape;
    g.slice_sizes[static_cast<std::size_t>(d)] = n == 0 ? 0 : 1;
    g.mode = mode == TakeMode::Fill ? ops::IndexMode::FillOrDrop : ops::IndexMode::Clip;
    return ops::gather(v[0], ops::expand_dims(i, {index_rank}), g);
  });
}

Array take_along_axis(const Operand& x, const Operand& indices, std::int64_t axis) {
  const Shape shape = x.array().shape();
  check_indices("take_along_axis", indices.array());
  if (indices.array().ndim() != rank(shape)) {
    throw ValueError(str("take_along_axis: indices have shape ", indices.array().shape(), " and x ", shape,
                         "; expected equal ranks"));
  }
  std::int64_t d = program::axis_of("take_along_axis", axis, rank(shape));
  Shape wide = shape;
  Shape index_shape = indices.array().shape();
  // All dimensions but the axis broadcast against each other.
  for (std::size_t k = 0; k < wide.size(); ++k) {
    if (static_cast<std::int64_t>(k) == d) continue;
    std::int64_t m = program::broadcast_shapes("take_along_axis", {{wide[k]}, {index_shape[k]}})[0];
    wide[k] = index_shape[k] = m;
  }
  Array source = broadcast_to(x, wide);
  Array index = broadcast_to(indices, index_shape);
  return graph_fragment1("take_along_axis", x.loc(), {source, index}, [&](Builder& b, const Values& v) {
    ops::Gather g;
    Dims batch;
    for (std::int64_t k = 0; k < rank(wide); ++k) {
      if (k != d) batch.push_back(k);
    }
    g.collapsed_slice_dims = {d};
    g.start_index_map = {d};
    g.operand_batching_dims = batch;
    g.indices_batching_dims = batch;
    g.slice_sizes.assign(wide.size(), 1);
    g.mode = ops::IndexMode::FillOrDrop;
    Value i = from_end(b, v[1], wide[static_cast<std::size_t>(d)]);
    return ops::gather(v[0], ops::expand_dims(i, {rank(wide)}), g);
  });
}

Array one_hot(const Operand& x, std::int64_t num_classes, DType dtype, std::int64_t axis) {
  check_indices("one_hot", x.array());
  std::int64_t r = x.array().ndim();
  std::int64_t d = program::axis_of("one_hot", axis, r + 1);
  Array index = program::cast(x.array(), x.array().dtype(), false, x.loc());
  return graph_fragment1("one_hot", x.loc(), {index}, [&](Builder& b, const Values& v) {
    Shape shape = v[0].shape();
    shape.insert(shape.begin() + d, num_classes);
    Dims dims;
    for (std::int64_t k = 0; k < r; ++k) dims.push_back(k < d ? k : k + 1);
    Value wide = ops::broadcast_in_dim(v[0], shape, dims);
    return ops::convert(ops::eq(wide, ops::iota(b, v[0].dtype(), shape, d)), dtype);
  });
}

}  // namespace tessera
