// SPDX-License-Identifier: Apache-2.0
#include "ops/linalg/block_cyclic.h"

#include <numeric>

#include "ops/collective/manual.h"

namespace tessera::ops {

namespace {

Collective along(const ir::MeshAxes& mesh, const ir::AxisList& axes) {
  Collective c;
  c.axes.emplace();
  for (auto axis : axes) {
    c.names.list.push_back(mesh.names[axis]);
    c.sizes.push_back(mesh.sizes[axis]);
    c.axes->push_back(axis);
  }
  return c;
}

// The shape of a stack of matrices with other last dimensions.
Shape stacked(Value like, std::int64_t lead, const Dims& last) {
  Shape shape(like.shape().begin(), like.shape().begin() + lead);
  shape.insert(shape.end(), last.begin(), last.end());
  return shape;
}
Value as(Value x, const Dims& last) { return reshape(x, stacked(x, x.rank() - 2, last)); }

// Brings dimensions `lead + order[i]` to place i behind the leading ones, or in front of them for the first `front`.
Value ordered(Value x, std::int64_t lead, const Dims& order, std::size_t front) {
  Dims all;
  for (std::size_t i = 0; i < front; ++i) all.push_back(lead + order[i]);
  for (std::int64_t d = 0; d < lead; ++d) all.push_back(d);
  for (std::size_t i = front; i < order.size(); ++i) all.push_back(lead + order[i]);
  return transpose(x, all);
}

Value gathered(Value x, const Collective& c, std::int64_t dim) {
  AllGather p;
  static_cast<Collective&>(p) = c;
  p.dim = dim;
  return all_gather(x, p);
}

// Part number `index` of dimension `dim`, which then has one element.
Value part_of(Value x, Value index, std::int64_t dim) {
  Builder& b = *x.builder;
  Values starts(at(x.rank()), scalar(b, 0, DType::I32));
  starts[at(dim)] = index;
  Dims sizes = x.shape();
  sizes[at(dim)] = 1;
  return dynamic_slice(x, starts, sizes);
}

}  // namespace

Value row_range(Value x, std::int64_t from, std::optional<std::int64_t> to) {
  return slice_in_dim(x, from, to.value_or(x.shape()[at(x.rank() - 2)]), x.rank() - 2);
}
Value column_range(Value x, std::int64_t from, std::optional<std::int64_t> to) {
  return slice_in_dim(x, from, to.value_or(x.shape().back()), x.rank() - 1);
}

std::optional<BlockCyclic> BlockCyclic::of(const ir::DivideArgs& a, const ir::Layout& layout, std::int64_t m,
                                           std::int64_t n) {
  auto d = layout.dims.size();
  ir::AxisList rows = layout.dims[d - 2];
  ir::AxisList columns = layout.dims[d - 1];
  // Axes of one dimension go to both, as evenly as their order allows: a panel then reaches fewer devices.
  if (rows.empty() || columns.empty()) {
    ir::AxisList all = rows.empty() ? columns : rows;
    auto total = ir::parts(all, a.mesh);
    rows.clear();
    columns.clear();
    for (auto axis : all) {
      bool more = ir::parts(rows, a.mesh) * ir::parts(rows, a.mesh) < total;
      (more ? rows : columns).push_back(axis);
    }
  }
  BlockCyclic g;
  g.rows_ = along(a.mesh, rows);
  g.columns_ = along(a.mesh, columns);
  ir::AxisList grid = rows;
  for (auto axis : columns) grid.push_back(axis);
  g.grid_ = along(a.mesh, grid);
  std::int64_t devices = g.p() * g.q();
  if (devices == 1) return std::nullopt;
  // Exchanges between blocks and this distribution are even when panels are a multiple of both dimensions of the grid.
  constexpr std::int64_t kLeastExtent = 128;  // below, messages take longer than bytes
  constexpr std::int64_t kLeastBlock = 4;
  constexpr std::int64_t kMostPanels = 64;
  std::int64_t unit = std::lcm(g.p(), g.q());
  std::int64_t extent = std::min(m, n);
  std::int64_t panels = unit;
  auto fits = [&](std::int64_t k, std::int64_t least) { return extent >= least * devices * k; };
  if (extent < kLeastExtent || !fits(panels, kLeastBlock)) return std::nullopt;
  while (panels < 16 && fits(2 * panels, panels < 8 ? kLeastBlock : 2 * kLeastBlock)) panels *= 2;
  if (panels > kMostPanels) return std::nullopt;
  g.block_ = (extent + devices * panels - 1) / (devices * panels);
  auto count = [&](std::int64_t size) { return (size + g.width() * unit - 1) / (g.width() * unit) * unit; };
  g.row_panels_ = count(m);
  g.column_panels_ = count(n);
  return g;
}

Value BlockCyclic::exchanged(Value chunks) const {
  AllToAll p;
  static_cast<Collective&>(p) = grid_;
  return all_to_all(chunks, p);
}

Value BlockCyclic::spread(Value whole) const {
  Builder& b = *whole.builder;
  std::int64_t lead = whole.rank() - 2;
  ManualSpec spec;
  spec.dims.resize(at(whole.rank()));
  spec.dims[at(lead)] = *rows_.axes;
  spec.dims[at(lead + 1)] = *columns_.axes;
  spec.manual = *grid_.axes;
  spec.shape = stacked(whole, lead, {rows() / p(), columns() / q()});
  Value x = b.add1(def::manual_enter, {whole}, attrs(spec));
  std::int64_t tall = row_panels_ / p();
  std::int64_t wide = column_panels_ / q();
  // Rows (panel, i, (j', t)), columns (panel, i', j, t): chunks for each (i, j).
  x = ordered(as(x, {tall, p(), local_rows(), wide, p(), q(), block_}), lead, {1, 5, 0, 2, 3, 4, 6}, 2);
  Shape shape = x.shape();
  Shape flat = shape;
  flat.erase(flat.begin());
  flat[0] = p() * q();
  x = reshape(exchanged(reshape(x, flat)), shape);
  // Each of (i, j) had its panels.
  Dims order;
  for (std::int64_t d = 0; d < lead; ++d) order.push_back(2 + d);
  for (std::int64_t d : {std::int64_t{0}, lead + 2, lead + 3, std::int64_t{1}, lead + 4, lead + 5, lead + 6}) {
    order.push_back(d);
  }
  x = transpose(x, order);
  return reshape(x, stacked(x, lead, {row_panels_ * local_rows(), column_panels_ * local_columns()}));
}

Value BlockCyclic::collected(Value local) const {
  Builder& b = *local.builder;
  std::int64_t lead = local.rank() - 2;
  std::int64_t tall = row_panels_ / p();
  std::int64_t wide = column_panels_ / q();
  Value x =
      ordered(as(local, {p(), tall, local_rows(), q(), wide, p(), block_}), lead, {0, 3, 1, 2, 4, 5, 6}, 2);
  Shape shape = x.shape();
  Shape flat = shape;
  flat.erase(flat.begin());
  flat[0] = p() * q();
  x = reshape(exchanged(reshape(x, flat)), shape);
  Dims order;
  for (std::int64_t d = 0; d < lead; ++d) order.push_back(2 + d);
  for (std::int64_t d : {lead + 2, std::int64_t{0}, lead + 3, lead + 4, lead + 5, std::int64_t{1}, lead + 6}) {
    order.push_back(d);
  }
  x = transpose(x, order);
  x = reshape(x, stacked(x, lead, {rows() / p(), columns() / q()}));
  ManualSpec spec;
  spec.dims.resize(at(local.rank()));
  spec.dims[at(lead)] = *rows_.axes;
  spec.dims[at(lead + 1)] = *columns_.axes;
  spec.manual = *grid_.axes;
  spec.shape = stacked(local, lead, {rows(), columns()});
  return b.add1(def::manual_exit, {x}, attrs(spec));
}

Value BlockCyclic::own_rows(Value panel) const {
  std::int64_t lead = panel.rank() - 2;
  std::int64_t k = panel.shape()[at(lead)] / local_rows();
  if (q() > 1) {
    AllToAll c;
    static_cast<Collective&>(c) = columns_;
    c.split = lead + 1;
    c.concat = lead + 4;
    panel = all_to_all(as(panel, {k, q(), block_, p(), 1, block_}), c);
  }
  return reshape(panel, stacked(panel, lead, {k * block_, width()}));
}

Value BlockCyclic::for_rows(Value own) const {
  if (q() == 1) return own;
  std::int64_t lead = own.rank() - 2;
  std::int64_t k = own.shape()[at(lead)] / block_;
  Value x = gathered(as(own, {k, 1, block_, width()}), columns_, lead + 1);
  return reshape(x, stacked(own, lead, {k * local_rows(), width()}));
}

Value BlockCyclic::for_columns(Value own) const {
  if (p() == 1) return own;
  std::int64_t lead = own.rank() - 2;
  std::int64_t k = own.shape()[at(lead)] / block_;
  Value x = gathered(as(own, {k, 1, block_, width()}), rows_, lead + 1);
  return reshape(x, stacked(own, lead, {k * local_columns(), width()}));
}

Value BlockCyclic::all_rows(Value own) const { return gathered(own, grid_, own.rank() - 2); }

Value BlockCyclic::rows_of_panel(Value all) const {
  if (p() == 1) return all;
  std::int64_t lead = all.rank() - 2;
  std::int64_t n = all.shape().back();
  Value x = part_of(as(all, {p(), local_rows(), n}), axis_index(*all.builder, rows_), lead);
  return reshape(x, stacked(all, lead, {local_rows(), n}));
}

Value BlockCyclic::columns_of_panel(Value all) const {
  if (q() == 1) return all;
  std::int64_t lead = all.rank() - 2;
  std::int64_t n = all.shape()[at(lead)];
  Value x = part_of(as(all, {n, p(), q(), block_}), axis_index(*all.builder, columns_), lead + 2);
  return reshape(x, stacked(all, lead, {n, local_columns()}));
}

}  // namespace tessera::ops
