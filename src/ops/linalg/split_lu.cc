// SPDX-License-Identifier: Apache-2.0
// An LU decomposition along split dimensions: ScaLAPACK's pdgetrf, with rows that stay where they are until the end.
// The pivots are LAPACK's: of every column the greatest element, the first of equal ones in the order of then. What
// rows have been chosen follows from their places in that order; all rows are sent to where they belong once.
#include <limits>

#include "ops/control/control.h"
#include "ops/linalg/block_cyclic.h"
#include "ops/linalg/split_factors.h"

namespace tessera::ops {

namespace {

Value by_row(Value x, const Shape& shape) { return broadcast_in_dim(x, shape, {0}); }
Value by_column(Value x, const Shape& shape) { return broadcast_in_dim(x, shape, {1}); }
constexpr TriangularSolve kUnitLower{.unit_diagonal = true};

// As LAPACK compares complex numbers. Not a number counts as infinite, so that there is always a pivot.
Value magnitude(Value x) {
  Value size = is_complex(x.dtype()) ? abs(real(x)) + abs(imag(x)) : abs(x);
  return where(ne(size, size), scalar(*x.builder, std::numeric_limits<double>::infinity(), size.dtype()), size);
}

// Columns of a panel, and the places of the device's rows in the order of now: i32[rows].
struct Columns {
  Value x, places;
};

// One step of elimination in these columns: column t, whose pivot comes to place `to`. `row` is the pivot's row, and
// `chosen` where it stood.
struct Step {
  Columns now;
  Value row, chosen;
};
Step eliminated(const BlockCyclic& grid, const Columns& c, Value t, Value to) {
  Builder& b = *t.builder;
  Value x = c.x;
  const std::int64_t rows = x.shape()[0];
  const Shape shape{rows, x.shape()[1]};
  Value column = reshape(dynamic_slice(x, Values{number(b, 0), t}, {rows, 1}), {rows});
  Value size = magnitude(column);
  Value target = broadcast_to(to, {rows});
  Value open = ge(c.places, target);
  size = where(open, size, scalar(b, -1, size.dtype()));
  Value most = grid.greatest_over_rows(reduce_max(size, {0}));
  Value candidate = and_(open, eq(size, broadcast_to(most, {rows})));
  Value none = number(b, std::numeric_limits<std::int32_t>::max());
  Step out;
  out.chosen = grid.least_over_rows(reduce_min(where(candidate, c.places, none), {0}));
  Value chosen = broadcast_to(out.chosen, {rows});
  Value pivot = eq(c.places, chosen);
  Value zero = scalar(b, 0, x.dtype());
  out.row = grid.summed_over_rows(reduce_sum(where(by_row(pivot, shape), x, zero), {0}));
  out.now.places = where(pivot, target, where(eq(c.places, target), chosen, c.places));
  // A column of zeros stays as it is.
  Value head = reshape(dynamic_slice(out.row, Values{t}, {1}), {});
  Value divisor = where(eq(head, zero), scalar(b, 1, x.dtype()), head);
  Value below = by_row(gt(out.now.places, target), shape);
  Value factors = by_row(column / broadcast_to(divisor, {rows}), shape);
  Value index = iota(b, DType::I32, shape, 1);
  Value here = broadcast_to(t, shape);
  Value updated = where(gt(index, here), x - factors * by_column(out.row, shape), where(eq(index, here), factors, x));
  out.now.x = where(below, updated, x);
  return out;
}

// The multipliers of rows that are still below the diagonal: of the columns that begin at `first`.
Value multipliers(Value x, Value places, std::int64_t first) {
  const Shape shape{x.shape()[0], x.shape()[1]};
  Value column = iota(*x.builder, DType::I32, shape, 1) + static_cast<double>(first);
  return where(lt(column, by_row(places, shape)), x, scalar(*x.builder, 0, x.dtype()));
}

// A panel that is decomposed: `top` are the rows of its pivots in their order, which all devices know.
struct Panel {
  Columns own;
  Value top;
  Values chosen;
};

// By place from `first` on: where among the device's rows that is which stands there; -1 where it has not.
Value standing_at(Value places, std::int64_t first, std::int64_t count) {
  Builder& b = *places.builder;
  Shape shape{places.shape()[0], count};
  Value place = iota(b, DType::I32, shape, 1) + static_cast<double>(first);
  Value row = iota(b, DType::I32, shape, 0);
  return reduce_max(where(eq(by_row(places, shape), place), row, number(b, -1)), {0});
}

// Rows `at` of x, added up over the devices of which one has each.
Value rows_of_all(const BlockCyclic& grid, Value x, Value at_rows) {
  Builder& b = *x.builder;
  Value none = number(b, 0);
  Value rows = rows_at(x, max(at_rows, broadcast_to(none, at_rows.shape())));
  Value held = ge(at_rows, broadcast_to(none, at_rows.shape()));
  Value mine = by_row(held, rows.shape());
  return grid.summed_over_rows(where(mine, rows, scalar(b, 0, x.dtype())));
}

// Columns [from, to) of the panel, which stand in columns `first + from`… of the matrix.
void eliminate(const BlockCyclic& grid, Panel& panel, std::int64_t first, std::int64_t from, std::int64_t to) {
  Value x = panel.own.x;
  Builder& b = *x.builder;
  std::int64_t width = x.shape()[1];
  std::int64_t count = to - from;
  Builder inner;
  inner.set_loc(b.loc());
  Columns c{inner.input({x.dtype(), {x.shape()[0], count}}), inner.input(panel.own.places.type())};
  Value t = inner.input({DType::I32, {}});
  Step step = eliminated(grid, c, t, t + static_cast<double>(first + from));
  ScanArgs args;
  args.body = inner.finish_shared(Values{step.now.x, step.now.places, step.row, step.chosen});
  args.length = count;
  args.carry = {column_range(x, from, to), panel.own.places};
  args.xs = {iota(b, DType::I32, {count}, 0)};
  Values done = scan(b, args);
  Value places = done[1];
  panel.chosen.push_back(done[3]);
  // What the other columns of the panel have in the rows of these pivots, and the rest of the panel with it.
  Value at_rows = standing_at(places, first + from, count);
  Values top, own;
  if (from > 0) own.push_back(column_range(x, 0, from));
  own.push_back(done[0]);
  Value others = concatenate(Values{column_range(x, 0, from), column_range(x, to, width)}, 1);
  Value rows = rows_of_all(grid, others, at_rows);
  if (from > 0) top.push_back(column_range(rows, 0, from));
  top.push_back(done[2]);
  if (to < width) {
    top.push_back(triangular_solve(done[2], column_range(rows, from), kUnitLower));
    own.push_back(column_range(x, to, width) - matmul(multipliers(done[0], places, first + from), top.back()));
  }
  panel.own = {own.size() == 1 ? own[0] : concatenate(own, 1), places};
  Value band = top.size() == 1 ? top[0] : concatenate(top, 1);
  panel.top = panel.top ? concatenate(Values{panel.top, band}, 0) : band;
}

}  // namespace

std::optional<ir::Division> lu_by_panels(Builder& b, const ir::DivideArgs& a, const NoAttrs&) {
  // Each column waits for three sums: below, they take longer than the bytes that are not moved.
  constexpr std::int64_t kLeastRows = 4096;
  return a.in[0].shape().back() < kLeastRows ? std::nullopt : lu_in_panels(b, a);
}

std::optional<ir::Division> lu_in_panels(Builder& b, const ir::DivideArgs& a) {
  const Shape shape = a.in[0].shape();
  std::int64_t n = shape.back();
  if (a.deterministic || n == 0 || size_of(shape) != n * n || shape[shape.size() - 2] != n) return std::nullopt;
  constexpr std::int64_t kPanels = 32;  // a device has all columns of one several times
  auto grid = BlockCyclic::of(a, a.operands[0], n, n, kPanels);
  if (!grid) return std::nullopt;
  std::int64_t panels = grid->column_panels();
  std::int64_t wide = grid->local_columns();
  std::int64_t width = grid->width();
  constexpr std::int64_t kBands = 4;  // of a panel, one after the other: columns alone would move whole rows each
  std::int64_t band = (width + kBands - 1) / kBands;
  Values rest = grid->panels(grown(reshape(a.in[0], {n, n}), grid->rows(), grid->rows(), true),
                             [](std::int64_t, Value panel) { return panel; });
  Value numbers = grid->numbers_of_rows(b);
  Value places = numbers;
  Values pivots, order;
  for (std::int64_t k = 0; k < panels; ++k) {
    Panel panel{{grid->all_columns(rest[at(k)]), places}, {}, {}};
    for (std::int64_t from = 0; from < width; from += band) {
      eliminate(*grid, panel, k * width, from, std::min(from + band, width));
    }
    places = panel.own.places;
    rest[at(k)] = grid->columns_of_panel(panel.own.x);
    pivots.insert(pivots.end(), panel.chosen.begin(), panel.chosen.end());
    order.push_back(rows_of_all(*grid, numbers, standing_at(places, k * width, width)));
    if (k + 1 == panels) break;
    Values later(rest.begin() + k + 1, rest.end());
    Value factors = multipliers(panel.own.x, places, k * width);
    Value upper = triangular_solve(panel.top, grid->rows_with(order.back(), later), kUnitLower);
    for (std::int64_t j = k + 1; j < panels; ++j) {
      std::int64_t from = (j - k - 1) * wide;
      rest[at(j)] = rest[at(j)] - matmul(factors, column_range(upper, from, from + wide));
    }
  }
  Value permutation = concatenate(order, 0);
  Value whole =
      grid->joined_in_order({a.in[0].dtype(), {n, n}}, permutation, [&](std::int64_t k) { return rest[at(k)]; });
  auto first = [&](Value x) {
    return reshape(slice_in_dim(grid->left(x), 0, n, 0), Shape(shape.begin(), shape.end() - 1));
  };
  Value packed = column_range(row_range(whole, 0, n), 0, n);
  return ir::Division{{reshape(packed, shape), first(concatenate(pivots, 0)), first(permutation)}};
}

}  // namespace tessera::ops
