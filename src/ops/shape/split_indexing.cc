// SPDX-License-Identifier: Apache-2.0
// gather and scatter along split dimensions, as one gather or scatter for each shard.
#include <algorithm>
#include <numeric>

#include "ops/shape/dimension_parts.h"
#include "ops/shape/indexing_common.h"

namespace tessera::ops {

namespace {

// The component of index vectors that picks along a dimension, and how that is split.
struct Split : DimensionParts {
  std::int64_t component;
};
std::optional<Split> split_of(const ir::DivideArgs& a, const Dims& map, const Dims& single) {
  const Shape& shape = a.in[0].shape();
  for (std::size_t c = 0; c < map.size(); ++c) {
    std::int64_t d = map[c];
    DimensionParts parts(d, shape[at(d)], a.parts_of(0, d));
    if (parts.parts > 1 && contains(single, d)) return Split{parts, static_cast<std::int64_t>(c)};
  }
  return std::nullopt;
}

// The shards along a new dimension 0, filled up with zeros.
Value stacked(Value x, const Split& s) {
  return move_dim(cut_in_parts(x, s, scalar(*x.builder, 0, x.dtype())), s.dimension, 0);
}
Value unstacked(Value x, const Split& s) { return join_parts(move_dim(x, 0, s.dimension), s); }

Value component(Value indices, std::int64_t c) {
  return squeeze(slice_in_dim(indices, c, c + 1, indices.rank() - 1), {indices.rank() - 1});
}
Value number(Value like, std::int64_t value) { return scalar(*like.builder, static_cast<double>(value), like.dtype()); }
Value clamped(Value indices, std::int64_t low, std::int64_t high) {
  return clamp(number(indices, low), indices, number(indices, high));
}
// Index vectors with another component c, both without the dimension of components.
Value with_component(Value indices, std::int64_t c, Value other) {
  Values columns;
  std::int64_t last = indices.rank() - 1;
  Value column = expand_dims(other, {last});
  if (c > 0) columns.push_back(slice_in_dim(indices, 0, c, last));
  columns.push_back(column);
  if (c + 1 < indices.shape().back()) columns.push_back(slice_in_dim(indices, c + 1, indices.shape().back(), last));
  return columns.size() == 1 ? columns[0] : concatenate(columns, last);
}

// The indices of every shard: [parts, …], counted from its first element along the split dimension.
struct ShardIndices {
  Value vectors;
  Value along;  // their component of the split dimension: [parts, …] without the dimension of components
  Value shard;  // number of the shard, of the same shape
};
ShardIndices of_shards(Value indices, Value along, const Split& s) {
  auto repeated = [&](Value v) {
    Shape shape = v.shape();
    shape.insert(shape.begin(), s.parts);
    Dims dims(v.shape().size());
    std::iota(dims.begin(), dims.end(), 1);
    return broadcast_in_dim(v, shape, dims);
  };
  ShardIndices out;
  out.along = repeated(along);
  out.shard = iota(*indices.builder, indices.dtype(), out.along.shape(), 0);
  out.along = out.along - out.shard * static_cast<double>(s.chunk());
  out.vectors = with_component(repeated(indices), s.component, out.along);
  return out;
}

// The sum over dimension 0, in which at most one element of each line is not made of zero bits.
Value joined(Value x) {
  if (is_complex(x.dtype())) return complex(joined(real(x)), joined(imag(x)));
  if (is_bool(x.dtype())) return convert(joined(convert(x, DType::U8)), DType::Bool);
  if (!is_float(x.dtype())) return reduce_sum(x, {0});
  auto size = dtype_size(x.dtype());
  DType bits = size == 8 ? DType::U64 : size == 4 ? DType::U32 : size == 2 ? DType::U16 : DType::U8;
  return bitcast_convert_type(reduce_sum(bitcast_convert_type(x, bits), {0}), x.dtype());
}

}  // namespace

Value as_signed(Value indices) {
  switch (indices.dtype()) {
    case DType::I32:
    case DType::I64:
      return indices;
    case DType::U32:
      return convert(indices, DType::I64);
    case DType::U64:
      return convert(min(indices, scalar(*indices.builder, 0x1p62, DType::U64)), DType::I64);
    default:
      return convert(indices, DType::I32);
  }
}

std::optional<ir::Division> gather_by_shards(Builder& b, const ir::DivideArgs& a, const Gather& p) {
  auto s = split_of(a, p.start_index_map, p.collapsed_slice_dims);
  if (!s || a.in[0].type().size() == 0 || a.out[0].size() == 0) return std::nullopt;
  bool drop = p.mode == IndexMode::FillOrDrop;
  Value indices = as_signed(a.in[1]);
  Value along = clamped(component(indices, s->component), drop ? -1 : 0, drop ? s->extent : s->extent - 1);
  Value outside = number(along, -1);
  if (drop) along = where(lt(along, number(along, s->extent)), along, outside);
  ShardIndices mine = of_shards(indices, along, *s);
  Value owned = and_(ge(mine.along, number(along, 0)), lt(mine.along, number(along, s->chunk())));
  if (drop) {
    // The first shard gives the fill value of what none has.
    Value first = number(along, 0);
    owned = or_(owned, and_(eq(mine.shard, first), eq(mine.along, outside)));
  }
  Values operands{stacked(a.in[0], *s), mine.vectors};
  std::vector<bool> batched{true, true};
  Value picked = def::gather.batch(b, {operands, batched, s->parts}, attrs(p)).out[0];
  WindowMap map(p, a.in[0].shape(), a.in[1].shape(), a.out[0].shape);
  Dims dims{0};
  for (auto d : map.batch_of_window) dims.push_back(d + 1);
  // Every shard knows what is its own, so that only indices are moved for it.
  ir::Layout by_shard = ir::Layout::replicated(owned.rank());
  by_shard.dims[0] = a.operands[0].dims[at(s->dimension)];
  ir::Division out{{}, {{owned, by_shard}}};
  owned = broadcast_in_dim(owned, picked.shape(), dims);
  out.out = {joined(where(owned, picked, scalar(b, 0, picked.dtype())))};
  return out;
}

std::optional<ir::Division> scatter_by_shards(const ir::OpDef& op, Builder& b, const ir::DivideArgs& a,
                                              const Scatter& p) {
  auto s = split_of(a, p.scatter_dims_to_operand_dims, p.inserted_window_dims);
  if (!s || a.in[0].type().size() == 0 || a.in[2].type().size() == 0) return std::nullopt;
  Value indices = as_signed(a.in[1]);
  if (p.mode != IndexMode::FillOrDrop) {
    WindowMap map(p, a.in[0].shape(), a.in[1].shape(), a.in[2].shape());
    for (std::size_t c = 0; c < p.scatter_dims_to_operand_dims.size(); ++c) {
      auto d = at(p.scatter_dims_to_operand_dims[c]);
      auto n = static_cast<std::int64_t>(c);
      indices = with_component(indices, n, clamped(component(indices, n), 0, a.in[0].shape()[d] - map.sizes[d]));
    }
  }
  Value along = clamped(component(indices, s->component), -1, s->filled_extent());
  ShardIndices mine = of_shards(indices, along, *s);
  Scatter q = p;
  q.mode = IndexMode::FillOrDrop;
  Values operands{stacked(a.in[0], *s), mine.vectors, a.in[2]};
  std::vector<bool> batched{true, true, false};
  return ir::Division{{unstacked(op.batch(b, {operands, batched, s->parts}, attrs(q)).out[0], *s)}};
}

}  // namespace tessera::ops
