// SPDX-License-Identifier: Apache-2.0
// Substitution with a triangular matrix that stays where it is, for few right-hand sides: what ScaLAPACK's pdtrsv does
// for one. A panel of the result is found by the device that has the matrix's diagonal block and sent to those below
// it; the right-hand sides are where the panel's columns are, and go on to the next columns of the grid.
#include <algorithm>
#include <functional>
#include <numeric>

#include "ops/control/control.h"
#include "ops/linalg/block_cyclic.h"
#include "ops/linalg/split_factors.h"

namespace tessera::ops {

namespace {

Shape with_matrix(Value like, std::int64_t rows, std::int64_t columns) {
  Shape shape(like.shape().begin(), like.shape().end());
  shape[shape.size() - 2] = rows;
  shape.back() = columns;
  return shape;
}

// A grid of p x q devices, the first rows and columns of which have those of the matrix. Panels have `width` rows, and
// each is one device's.
class PlainGrid {
 public:
  static std::optional<PlainGrid> of(const ir::DivideArgs& a, const ir::Layout& matrix, std::int64_t n) {
    constexpr std::int64_t kLeastExtent = 128;  // below, messages take longer than bytes
    constexpr std::int64_t kMostPanels = 64;
    const ir::AxisList& rows = matrix.dims[matrix.dims.size() - 2];
    const ir::AxisList& columns = matrix.dims.back();
    PlainGrid g;
    g.rows_ = along(a.mesh, rows);
    g.columns_ = along(a.mesh, columns);
    g.panels_ = std::lcm(g.p(), g.q());
    g.width_ = (n + g.panels_ - 1) / g.panels_;
    // A permutation numbers devices in the order of the mesh.
    if (g.panels_ == 1 || g.panels_ > kMostPanels || n < kLeastExtent || !std::ranges::is_sorted(columns))
      return std::nullopt;
    return g;
  }

  std::int64_t p() const { return rows_.total(); }
  std::int64_t q() const { return columns_.total(); }
  std::int64_t panels() const { return panels_; }
  std::int64_t size() const { return panels_ * width_; }
  std::int64_t row_of(std::int64_t panel) const { return panel / (panels_ / p()); }
  std::int64_t column_of(std::int64_t panel) const { return panel / (panels_ / q()); }

  // A whole matrix as the devices have it, and back; columns are cut where asked.
  Value entered(Value whole, bool cut) const {
    const std::int64_t columns = whole.shape().back() / (cut ? q() : 1);
    const ManualSpec spec = boundary(whole.rank(), cut, with_matrix(whole, size() / p(), columns));
    return whole.builder->add1(def::manual_enter, {whole}, attrs(spec));
  }
  Value left(Value part, bool cut) const {
    const std::int64_t columns = part.shape().back() * (cut ? q() : 1);
    const ManualSpec spec = boundary(part.rank(), cut, with_matrix(part, size(), columns));
    return part.builder->add1(def::manual_exit, {part}, attrs(spec));
  }

  // A panel's rows of the device that has them, and its columns.
  Value rows_of(Value part, std::int64_t panel) const {
    const std::int64_t from = panel % (panels_ / p()) * width_;
    return row_range(part, from, from + width_);
  }
  Value columns_of(Value part, std::int64_t panel) const {
    const std::int64_t from = panel % (panels_ / q()) * width_;
    return column_range(part, from, from + width_);
  }

  // Whether this device is in the row of the grid that has the panel; has rows that are solved after it; is in its
  // column.
  Value in_row_of(Builder& b, std::int64_t panel) const { return compared(b, eq, rows_, row_of(panel)); }
  Value has_rows_after(Builder& b, std::int64_t panel, bool lower) const {
    const std::int64_t next = panel + (lower ? 1 : -1);
    return compared(b, lower ? ge : le, rows_, row_of(next));
  }
  Value in_column_of(Builder& b, std::int64_t panel) const { return compared(b, eq, columns_, column_of(panel)); }

  Value sent_along_column(Value x, std::int64_t panel) const {
    if (p() == 1) return x;
    Pbroadcast c;
    static_cast<Collective&>(c) = rows_;
    c.source = row_of(panel);
    return pbroadcast(x, c);
  }
  Value moved_to_column(Value x, std::int64_t from, std::int64_t to) const {
    if (from == to) return x;
    Ppermute c;
    static_cast<Collective&>(c) = columns_;
    c.pairs = {{from, to}};
    return ppermute(x, c);
  }
  Value with_all_columns(Value x) const {
    if (q() == 1) return x;
    AllGather c;
    static_cast<Collective&>(c) = columns_;
    c.dim = x.rank() - 1;
    return all_gather(x, c);
  }
  // The sum over a row of the grid, of which each device has its columns where they are cut.
  Value summed_over_columns(Value x, bool cut) const {
    if (q() == 1) return x;
    if (!cut) return psum(x, columns_);
    PsumScatter c;
    static_cast<Collective&>(c) = columns_;
    c.dim = x.rank() - 1;
    return psum_scatter(x, c);
  }

 private:
  ManualSpec boundary(std::int64_t rank, bool cut, Shape shape) const {
    ManualSpec spec;
    spec.dims.resize(at(rank));
    spec.dims[at(rank - 2)] = *rows_.axes;
    if (cut) spec.dims[at(rank - 1)] = *columns_.axes;
    spec.manual = *rows_.axes;
    spec.manual.insert(spec.manual.end(), columns_.axes->begin(), columns_.axes->end());
    spec.shape = std::move(shape);
    return spec;
  }
  static Value compared(Builder& b, Value (*how)(Value, Value), const Collective& axes, std::int64_t to) {
    Value index = axes.total() == 1 ? scalar(b, 0, DType::I32) : axis_index(b, axes);
    return how(index, scalar(b, static_cast<double>(to), DType::I32));
  }

  Collective rows_, columns_;
  std::int64_t panels_ = 0, width_ = 0;
};

// What `f` makes of the operands on the devices where `here` holds; elsewhere `other` has its place.
Value only(Value here, const std::function<Value(const Values&)>& f, const Values& operands, Value other) {
  Values all = operands;
  all.push_back(other);
  auto branch = [&](bool taken) {
    Builder inner;
    Values in;
    for (const auto& x : all) in.push_back(inner.input(x.type()));
    return inner.finish_shared(Values{taken ? f(in) : in.back()});
  };
  return cond(here, std::vector{branch(false), branch(true)}, all)[0];
}

}  // namespace

std::optional<ir::Division> solve_in_place(Builder& b, const ir::DivideArgs& args, const TriangularSolve& p) {
  const std::int64_t n = args.in[0].shape().back();
  const bool turn_a = p.transpose_a == p.left;
  const bool lower = p.lower != turn_a;
  ir::Layout layout = args.operands[0];
  if (turn_a) std::swap(layout.dims[layout.dims.size() - 1], layout.dims[layout.dims.size() - 2]);
  const auto grid = PlainGrid::of(args, layout, n);
  if (!grid || args.deterministic || args.in[1].type().size() == 0) return std::nullopt;
  Value a = turn_a ? transposed(args.in[0]) : args.in[0];
  if (p.conjugate_a && is_complex(a.dtype())) a = conj(a);
  Value x = p.left ? args.in[1] : transposed(args.in[1]);
  const std::int64_t columns = x.shape().back();
  // Devices take turns: for each byte that stays some `columns` operations are added to those that all wait for.
  constexpr std::int64_t kMostColumns = 64;
  if (columns > kMostColumns) return std::nullopt;
  const std::int64_t q = grid->q();
  constexpr std::int64_t kFewColumns = 4;  // for a device
  const bool cut = q > 1 && columns >= kFewColumns * q;
  const std::int64_t wide = cut ? (columns + q - 1) / q * q : columns;
  const Value parts = grid->entered(grown(a, grid->size(), grid->size(), true), true);
  Value rest = grid->entered(grown(x, grid->size(), wide, false), cut);
  if (cut) rest = grid->with_all_columns(rest);
  const Value nothing = zeros(b, {rest.dtype(), grid->rows_of(rest, 0).shape()});
  const TriangularSolve inner{.left = true, .lower = lower, .unit_diagonal = p.unit_diagonal};
  const std::int64_t a_device = grid->panels() / grid->p();
  Values mine(at(a_device));  // of the result, by panel of a device
  std::int64_t column = grid->column_of(lower ? 0 : grid->panels() - 1);
  for (std::int64_t step = 0; step < grid->panels(); ++step) {
    const std::int64_t k = lower ? step : grid->panels() - 1 - step;
    rest = grid->moved_to_column(rest, column, grid->column_of(k));
    column = grid->column_of(k);
    const Value in_row = grid->in_row_of(b, k);
    const Value in_column = grid->in_column_of(b, k);
    // Parts of the matrix are cut out inside, by those who need them.
    Value solved = only(
        and_(in_row, in_column),
        [&](const Values& in) {
          return triangular_solve(grid->rows_of(grid->columns_of(in[0], k), k), grid->rows_of(in[1], k), inner);
        },
        {parts, rest}, nothing);
    Value& own = mine[at(k % a_device)];
    own = where(broadcast_to(and_(in_row, in_column), solved.shape()), solved, own ? own : nothing);
    if (step + 1 == grid->panels()) break;
    solved = grid->sent_along_column(solved, k);
    rest = only(
        and_(in_column, grid->has_rows_after(b, k, lower)),
        [&](const Values& in) { return in[2] - matmul(grid->columns_of(in[0], k), in[1]); }, {parts, solved}, rest);
  }
  Value out = grid->left(grid->summed_over_columns(concatenate(mine, rest.rank() - 2), cut), cut);
  out = column_range(row_range(out, 0, n), 0, columns);
  return ir::Division{{p.left ? out : transposed(out)}};
}

}  // namespace tessera::ops
