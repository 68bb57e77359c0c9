// SPDX-License-Identifier: Apache-2.0
// A slice at a computed place of an array that is split along the dimension, as the slice is: each shard of the slice
// is a range of rows, of which every position sends those that it has.
#include <limits>

#include "ops/collective/manual.h"
#include "ops/shape/dimension_parts.h"
#include "ops/shape/indexing_common.h"
#include "ops/shape/row_routes.h"

namespace tessera::ops {

namespace {

// Along which dimension parts are split alike before and after; the others are taken whole or are not split.
std::optional<std::int64_t> routed_dimension(const ir::DivideArgs& a, const Dims& sizes) {
  const Shape& full = a.in[0].shape();
  std::optional<std::int64_t> out;
  for (std::int64_t d = 0; d < rank(full); ++d) {
    const ir::AxisList& axes = a.operands[0].dims[at(d)];
    if (axes.empty()) continue;
    if (full[at(d)] == sizes[at(d)]) {
      if (full[at(d)] % ir::parts(axes, a.mesh) != 0) return std::nullopt;
    } else {
      if (out || a.results[0].dims[at(d)] != axes) return std::nullopt;
      out = d;
    }
  }
  return out;
}

// An array's block on each position: along d of `extent` elements, along the others as the array is split.
ManualSpec blocks(const ir::DivideArgs& a, Shape shape, std::int64_t d, std::int64_t extent) {
  ManualSpec spec;
  for (std::size_t k = 0; k < shape.size(); ++k) {
    const ir::AxisList& axes = a.operands[0].dims[k];
    spec.dims.emplace_back(axes.begin(), axes.end());
    spec.manual.insert(spec.manual.end(), axes.begin(), axes.end());
    shape[k] /= k == at(d) ? 1 : ir::parts(axes, a.mesh);
  }
  shape[at(d)] = extent;
  spec.shape = std::move(shape);
  return spec;
}

}  // namespace

std::optional<ir::Division> slice_by_routes(Builder& b, const ir::DivideArgs& a, const DynamicSlice& p) {
  Value x = a.in[0];
  const Shape full = x.shape();
  auto d = routed_dimension(a, p.sizes);
  if (!d || size_of(p.sizes) == 0) return std::nullopt;
  DimensionParts from(*d, full[at(*d)], a.parts_of(0, *d));
  DimensionParts to(*d, p.sizes[at(*d)], from.parts);
  if (from.filled_extent() + to.filled_extent() > std::numeric_limits<std::int32_t>::max()) return std::nullopt;
  // Those dimensions first that are not split.
  Values starts(a.in.begin() + 1, a.in.end());
  Value start = as_signed(starts[at(*d)]);
  Value first = scalar(b, 0, start.dtype());
  start = convert(clamp(first, start, first + static_cast<double>(from.extent - to.extent)), DType::I32);
  starts[at(*d)] = scalar(b, 0, starts[at(*d)].dtype());
  Dims sizes = p.sizes;
  sizes[at(*d)] = from.extent;
  if (sizes != full) x = dynamic_slice(x, starts, sizes);

  Collective c;
  c.axes.emplace();
  for (auto axis : a.operands[0].dims[at(*d)]) {
    c.names.list.push_back(a.mesh.names[axis]);
    c.sizes.push_back(a.mesh.sizes[axis]);
    c.axes->push_back(axis);
  }
  ManualSpec spec = blocks(a, sizes, *d, from.chunk());
  Value mine = b.add1(def::manual_enter, {fill_up(x, from, scalar(b, 0, x.dtype()))}, attrs(spec));
  start = b.add1(def::manual_enter, {start}, attrs(ManualSpec{{}, {}, spec.manual, {}}));
  // By source and destination: what the one has of the other's range.
  Shape table{from.parts, from.parts};
  Value begin = iota(b, DType::I32, table, 0) * static_cast<double>(from.chunk());
  Value wanted = iota(b, DType::I32, table, 1) * static_cast<double>(to.chunk());
  auto end = [&](Value first_row, std::int64_t rows, std::int64_t extent) {
    return min(first_row + static_cast<double>(rows), broadcast_to(number(b, extent), table));
  };
  Value offset = broadcast_to(start, table);
  Value low = max(begin, wanted + offset);
  Value high = min(end(begin, from.chunk(), from.extent), end(wanted, to.chunk(), to.extent) + offset);
  Value size = max(high - low, broadcast_to(number(b, 0), table));
  Value inside = where(gt(size, broadcast_to(number(b, 0), table)), low - begin, broadcast_to(number(b, 0), table));
  Value rows = RowRoutes(inside, size, c).sent(move_dim(mine, *d, 0), to.chunk());
  spec = blocks(a, sizes, *d, to.filled_extent());
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    if (k != at(*d)) spec.shape[k] = sizes[k];
  }
  Value whole = b.add1(def::manual_exit, {move_dim(rows, 0, *d)}, attrs(spec));
  return ir::Division{{slice_in_dim(whole, 0, to.extent, *d)}};
}

}  // namespace tessera::ops
