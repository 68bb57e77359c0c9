// SPDX-License-Identifier: Apache-2.0
#include "ops/linalg/block_cyclic.h"

#include <numeric>

namespace tessera::ops {

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

namespace {

// The shape of a stack of matrices with other last dimensions.
Shape stacked(Value like, std::int64_t lead, const Dims& last) {
  Shape shape(like.shape().begin(), like.shape().begin() + lead);
  shape.insert(shape.end(), last.begin(), last.end());
  return shape;
}
Value with_last(Value x, const Dims& last) { return reshape(x, stacked(x, x.rank() - 2, last)); }

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

Value grown(Value x, std::int64_t rows, std::int64_t columns, bool ones) {
  Builder& b = *x.builder;
  std::int64_t m = x.shape()[at(x.rank() - 2)];
  std::int64_t n = x.shape().back();
  if (m == rows && n == columns) return x;
  Dims low(at(x.rank()), 0);
  Dims high = low;
  high[high.size() - 2] = rows - m;
  high.back() = columns - n;
  x = pad(x, scalar(b, 0, x.dtype()), low, high);
  if (!ones || n == columns) return x;
  Value row = iota(b, DType::I32, x.shape(), x.rank() - 2);
  Value column = iota(b, DType::I32, x.shape(), x.rank() - 1);
  Value added = and_(eq(row, column), ge(row, scalar(b, static_cast<double>(n), DType::I32)));
  return where(added, scalar(b, 1, x.dtype()), x);
}

std::optional<BlockCyclic> BlockCyclic::of(const ir::DivideArgs& a, const ir::Layout& layout, std::int64_t m,
                                           std::int64_t n, std::int64_t wanted) {
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
  while (panels < wanted && fits(2 * panels, panels < 8 ? kLeastBlock : 2 * kLeastBlock)) panels *= 2;
  if (panels > kMostPanels) return std::nullopt;
  g.block_ = (extent + devices * panels - 1) / (devices * panels);
  auto count = [&](std::int64_t size) { return (size + g.width() * unit - 1) / (g.width() * unit) * unit; };
  g.row_panels_ = count(m);
  g.column_panels_ = count(n);
  return g;
}

BlockCyclic BlockCyclic::of_first_rows() const {
  BlockCyclic g = *this;
  g.row_panels_ = column_panels_;
  return g;
}

ManualSpec BlockCyclic::boundary(Value matrix, const Dims& last, bool cut) const {
  std::int64_t lead = matrix.rank() - 2;
  ManualSpec spec;
  spec.dims.resize(at(matrix.rank()));
  spec.dims[at(lead)] = *rows_.axes;
  if (cut) spec.dims[at(lead + 1)] = *columns_.axes;
  spec.manual = *grid_.axes;
  spec.shape = stacked(matrix, lead, last);
  return spec;
}

// Chunk (i, j) goes to device (i, j), the first dimensions' numbers being those of the grid.
Value BlockCyclic::exchanged(Value chunks) const {
  AllToAll c;
  static_cast<Collective&>(c) = grid_;
  Shape shape = chunks.shape();
  Shape flat(shape.begin() + 1, shape.end());
  flat[0] = p() * q();
  return reshape(all_to_all(reshape(chunks, flat), c), shape);
}

Values BlockCyclic::panels(Value whole, const std::function<Value(std::int64_t k, Value panel)>& kept) const {
  std::int64_t lead = whole.rank() - 2;
  Value x = whole.builder->add1(def::manual_enter, {whole}, attrs(boundary(whole, {rows() / p(), columns() / q()})));
  std::int64_t tall = row_panels_ / p();
  std::int64_t wide = column_panels_ / q();
  Dims back;
  for (std::int64_t d = 0; d < lead; ++d) back.push_back(1 + d);
  for (std::int64_t d : {std::int64_t{0}, lead + 1, lead + 2, lead + 3, lead + 4}) back.push_back(d);
  // One panel of every column of the grid together: all devices then have something to send to all.
  Values out(at(column_panels_));
  for (std::int64_t w = 0; w < wide; ++w) {
    Value part = column_range(x, w * width(), (w + 1) * width());
    part =
        exchanged(ordered(with_last(part, {tall, p(), local_rows(), p(), q(), block_}), lead, {1, 4, 0, 2, 3, 5}, 2));
    for (std::int64_t j = 0; j < q(); ++j) {
      Value panel = transpose(squeeze(slice_in_dim(part, j, j + 1, 1), {1}), back);
      panel = reshape(panel, stacked(panel, lead, {row_panels_ * local_rows(), local_columns()}));
      out[at(j * wide + w)] = kept(j * wide + w, panel);
    }
  }
  return out;
}

Value BlockCyclic::joined(Builder& b, const Type& whole, const std::function<Value(std::int64_t k)>& panel) const {
  std::int64_t lead = whole.rank() - 2;
  std::int64_t tall = row_panels_ / p();
  std::int64_t wide = column_panels_ / q();
  Shape tile = whole.shape;
  tile[at(lead)] = rows() / p();
  tile[at(lead + 1)] = columns() / q();
  Dims back;
  for (std::int64_t d = 0; d < lead; ++d) back.push_back(2 + d);
  for (std::int64_t d : {lead + 2, std::int64_t{0}, lead + 3, lead + 4, std::int64_t{1}, lead + 5}) back.push_back(d);
  // Written into one array: beside the parts of a concatenation there would be room for both.
  Value x;
  Values starts(tile.size(), scalar(b, 0, DType::I32));
  for (std::int64_t w = 0; w < wide; ++w) {
    Values columns;
    for (std::int64_t j = 0; j < q(); ++j) columns.push_back(panel(j * wide + w));
    // Panels wait for those before: exchanges that run ahead would hold copies of theirs.
    if (x) {
      columns.push_back(x);
      columns = optimization_barrier(columns);
      x = columns.back();
      columns.pop_back();
    }
    Value part = concatenate(columns, lead + 1);
    part =
        exchanged(ordered(with_last(part, {p(), tall, local_rows(), q(), p(), block_}), lead, {0, 3, 1, 2, 4, 5}, 2));
    part = transpose(part, back);
    part = reshape(part, stacked(part, lead, {rows() / p(), width()}));
    if (!x) {
      Dims none(tile.size(), 0);
      Dims behind = none;
      behind.back() = tile.back() - width();
      x = pad(part, scalar(b, 0, whole.dtype), none, behind);
      continue;
    }
    starts.back() = scalar(b, static_cast<double>(w * width()), DType::I32);
    x = dynamic_update_slice(x, part, starts);
  }
  return b.add1(def::manual_exit, {x}, attrs(boundary(x, {rows(), columns()})));
}

Value BlockCyclic::spread_rows(Value whole, bool cut) const {
  std::int64_t lead = whole.rank() - 2;
  std::int64_t n = whole.shape().back() / (cut ? q() : 1);
  Value x = whole.builder->add1(def::manual_enter, {whole}, attrs(boundary(whole, {rows() / p(), n}, cut)));
  if (p() == 1) return x;
  AllToAll c;
  static_cast<Collective&>(c) = rows_;
  c.split = lead + 1;
  c.concat = lead;
  x = all_to_all(with_last(x, {row_panels_ / p(), p(), local_rows(), n}), c);
  return reshape(x, stacked(x, lead, {row_panels_ * local_rows(), n}));
}

Value BlockCyclic::joined_rows(const Values& panels, bool cut) const {
  Builder& b = *panels[0].builder;
  std::int64_t lead = panels[0].rank() - 2;
  std::int64_t n = panels[0].shape().back();
  std::int64_t tall = row_panels_ / p();
  // A device keeps the panels of its rows.
  Values mine(panels.begin(), panels.begin() + tall);
  for (std::int64_t i = 1; i < p(); ++i) {
    Value here = eq(axis_index(b, rows_), scalar(b, static_cast<double>(i), DType::I32));
    for (std::int64_t w = 0; w < tall; ++w) mine[at(w)] = where(here, panels[at(i * tall + w)], mine[at(w)]);
  }
  Value x = concatenate(mine, lead);
  return b.add1(def::manual_exit, {x}, attrs(boundary(x, {rows(), cut ? n * q() : n}, cut)));
}

Value BlockCyclic::all_columns(Value panel) const {
  if (q() == 1) return panel;
  std::int64_t lead = panel.rank() - 2;
  std::int64_t m = panel.shape()[at(lead)];
  Value x = gathered(with_last(panel, {m, p(), 1, block_}), columns_, lead + 2);
  return reshape(x, stacked(panel, lead, {m, width()}));
}

Value BlockCyclic::all_rows_of_panel(Value panel) const {
  return p() == 1 ? panel : gathered(panel, rows_, panel.rank() - 2);
}

Value BlockCyclic::own_rows(Value panel) const {
  std::int64_t lead = panel.rank() - 2;
  std::int64_t k = panel.shape()[at(lead)] / local_rows();
  if (q() > 1) {
    AllToAll c;
    static_cast<Collective&>(c) = columns_;
    c.split = lead + 1;
    c.concat = lead + 4;
    panel = all_to_all(with_last(panel, {k, q(), block_, p(), 1, block_}), c);
  }
  return reshape(panel, stacked(panel, lead, {k * block_, width()}));
}

Value BlockCyclic::for_rows(Value own) const {
  if (q() == 1) return own;
  std::int64_t lead = own.rank() - 2;
  std::int64_t k = own.shape()[at(lead)] / block_;
  Value x = gathered(with_last(own, {k, 1, block_, width()}), columns_, lead + 1);
  return reshape(x, stacked(own, lead, {k * local_rows(), width()}));
}

Value BlockCyclic::for_columns(Value own) const {
  if (p() == 1) return own;
  std::int64_t lead = own.rank() - 2;
  std::int64_t k = own.shape()[at(lead)] / block_;
  Value x = gathered(with_last(own, {k, 1, block_, width()}), rows_, lead + 1);
  return reshape(x, stacked(own, lead, {k * local_columns(), width()}));
}

Value BlockCyclic::all_rows(Value own) const { return gathered(own, grid_, own.rank() - 2); }

Value BlockCyclic::summed_over_rows(Value x) const { return p() == 1 ? x : psum(x, rows_); }
Value BlockCyclic::greatest_over_rows(Value x) const { return p() == 1 ? x : pmax(x, rows_); }
Value BlockCyclic::least_over_rows(Value x) const { return p() == 1 ? x : pmin(x, rows_); }
Value BlockCyclic::summed(Value x) const { return psum(x, grid_); }

Value BlockCyclic::gathered_over_columns(Value x) const { return q() == 1 ? x : gathered(x, columns_, x.rank() - 2); }
Value BlockCyclic::gathered_over_rows(Value x) const { return p() == 1 ? x : gathered(x, rows_, x.rank() - 2); }

Value BlockCyclic::part_by_column(Value x) const {
  if (q() == 1) return x;
  std::int64_t lead = x.rank() - 2;
  std::int64_t n = x.shape().back();
  std::int64_t m = x.shape()[at(lead)] / q();
  return reshape(part_of(with_last(x, {q(), m, n}), axis_index(*x.builder, columns_), lead), stacked(x, lead, {m, n}));
}

Value BlockCyclic::part_by_row(Value x, std::int64_t n) const {
  if (p() == 1) return x;
  std::int64_t lead = x.rank() - 2;
  std::int64_t k = x.shape().back();
  return reshape(part_of(with_last(x, {p(), n, k}), axis_index(*x.builder, rows_), lead), stacked(x, lead, {n, k}));
}

Value BlockCyclic::entered(Value x) const {
  ManualSpec spec{std::vector<Dims>(at(x.rank())), x.shape(), *grid_.axes};
  return x.builder->add1(def::manual_enter, {x}, attrs(spec));
}
Value BlockCyclic::left(Value x) const {
  ManualSpec spec{std::vector<Dims>(at(x.rank())), x.shape(), *grid_.axes};
  return x.builder->add1(def::manual_exit, {x}, attrs(spec));
}

Value BlockCyclic::rows_of_panel(Value all) const {
  if (p() == 1) return all;
  std::int64_t lead = all.rank() - 2;
  std::int64_t n = all.shape().back();
  Value x = part_of(with_last(all, {p(), local_rows(), n}), axis_index(*all.builder, rows_), lead);
  return reshape(x, stacked(all, lead, {local_rows(), n}));
}

Value BlockCyclic::columns_of_panel(Value all) const {
  if (q() == 1) return all;
  std::int64_t lead = all.rank() - 2;
  std::int64_t n = all.shape()[at(lead)];
  Value x = part_of(with_last(all, {n, p(), q(), block_}), axis_index(*all.builder, columns_), lead + 2);
  return reshape(x, stacked(all, lead, {n, local_columns()}));
}

}  // namespace tessera::ops
