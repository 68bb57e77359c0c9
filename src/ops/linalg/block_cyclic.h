// SPDX-License-Identifier: Apache-2.0
// Matrices in a block-cyclic distribution over a grid of devices, as ScaLAPACK has them, for the blocked decompositions
// that rules of `divide` write.
//
// Rows and columns are cut into panels of `width = p q block` on a grid of p x q devices. Within every panel, device
// (i, j) has the rows (i, j', t) for all j' and t < block, and the columns (i', j, t) for all i': the first dimensions'
// numbers are those of the grid. So all devices have as much of every panel, what is done panel by panel shrinks
// evenly, and the rows (i, j, t) of a panel, which a device has alone, are gathered along one axis of the grid to the
// rows of a device and along the other to its columns.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "ops/collective/collectives.h"
#include "ops/collective/manual.h"
#include "ops/linalg/linalg_common.h"
#include "ops/shape/row_routes.h"

namespace tessera::ops {

/// A collective over axes of a program's mesh.
Collective along(const ir::MeshAxes& mesh, const ir::AxisList& axes);

class BlockCyclic {
 public:
  /// For matrices of m x n in the last two dimensions under this layout; nothing where they are whole, or so small that
  /// panels would cost more messages than they save bytes. There are about `wanted` panels, where they are large
  /// enough.
  static std::optional<BlockCyclic> of(const ir::DivideArgs& a, const ir::Layout& layout, std::int64_t m,
                                       std::int64_t n, std::int64_t wanted = 16);

  /// The same for square matrices of the first rows, where there are as many as columns, or more.
  BlockCyclic of_first_rows() const;

  std::int64_t p() const { return rows_.total(); }  ///< rows of the grid
  std::int64_t q() const { return columns_.total(); }
  std::int64_t block() const { return block_; }
  std::int64_t width() const { return p() * q() * block_; }  ///< of a panel
  std::int64_t row_panels() const { return row_panels_; }
  std::int64_t column_panels() const { return column_panels_; }
  std::int64_t rows() const { return row_panels_ * width(); }  ///< those that fill the last panel up included
  std::int64_t columns() const { return column_panels_ * width(); }
  std::int64_t local_rows() const { return q() * block_; }     ///< of a panel, on a device
  std::int64_t local_columns() const { return p() * block_; }  ///< of a panel, on a device

  /// What each device has of a whole matrix (…, rows(), columns()), by panel of columns: what `kept` makes of panel k
  /// (…, row_panels() local_rows(), local_columns()). And back. Both go a few panels at a time, since matrices that
  /// are divided may leave no room for copies.
  Values panels(Value whole, const std::function<Value(std::int64_t k, Value panel)>& kept) const;
  Value joined(Builder& b, const Type& whole, const std::function<Value(std::int64_t k)>& panel) const;

  /// `joined`, with the rows in another order: `numbers`, i32[rows()], which all devices know, says which row comes to
  /// each place. Matrices alone, no stacks of them.
  Value joined_in_order(const Type& whole, Value numbers, const std::function<Value(std::int64_t k)>& panel) const;
  /// For numbers of rows, i32[n]: the row of the grid that has them, and where among its rows they are.
  Value owner_of_row(Value numbers) const;
  Value place_of_row(Value numbers) const;
  /// This device's place along the grid's rows, i32[], and the numbers of its rows, i32[row_panels() local_rows()].
  Value row_of_grid(Builder& b) const;
  Value numbers_of_rows(Builder& b) const;
  /// The rows with these numbers, i32[n], which all devices know, of the matrices (row_panels() local_rows(), …) beside
  /// each other. Each row is sent once to each device of the column of the grid.
  Value rows_with(Value numbers, const Values& matrices) const;

  /// Of rows (…, k local_rows(), local_columns()) of one panel of columns: all columns of the panel, (…, k
  /// local_rows(), width()).
  Value all_columns(Value panel) const;
  /// What each device has of matrices (…, rows(), n) whose rows are spread as this one's: (…, row_panels()
  /// local_rows(), n'), with n' = n / q() where `cut`, and n in their own layout else. The other way from all rows of
  /// each panel, (…, width(), n').
  Value spread_rows(Value whole, bool cut) const;
  Value joined_rows(const Values& panels, bool cut) const;
  /// Of rows (…, local_rows(), n) of one panel of rows: all of them, (…, width(), n).
  Value all_rows_of_panel(Value panel) const;
  /// Of rows (…, k local_rows(), local_columns()) of one panel of columns: the rows that a device has alone, with all
  /// columns of the panel: (…, k block(), width()).
  Value own_rows(Value panel) const;
  /// Of such rows: those of the device's rows (…, k local_rows(), width()), those of its columns (…, k local_columns(),
  /// width()), or all of them, of one panel: (…, width(), width()).
  Value for_rows(Value own) const;
  Value for_columns(Value own) const;
  Value all_rows(Value own) const;
  /// The sum over the devices of a column of the grid, or over all; the greatest and the least over a column.
  Value summed_over_rows(Value x) const;
  Value greatest_over_rows(Value x) const;
  Value least_over_rows(Value x) const;
  Value summed(Value x) const;
  /// The matrices of the devices of a row of the grid (of a column), below each other; and what stands in the place of
  /// this device's, `n` rows each.
  Value gathered_over_columns(Value x) const;
  Value gathered_over_rows(Value x) const;
  Value part_by_column(Value x) const;
  Value part_by_row(Value x, std::int64_t n) const;
  /// Values that all devices have, into the region of the others and back.
  Value entered(Value x) const;
  Value left(Value x) const;
  /// Of (…, width(), n), which all devices have: the device's rows of the panel.
  Value rows_of_panel(Value all) const;
  /// Of (…, n, width()): the device's columns of the panel.
  Value columns_of_panel(Value all) const;

 private:
  ManualSpec boundary(Value matrix, const Dims& last, bool cut = true) const;
  Value exchanged(Value chunks) const;
  Value received_in_order(const RowRoutes& routes, const Values& panels, Value sent, Value order) const;
  Collective rows_, columns_, grid_;  // axes along the grid's first dimension, its second, both
  std::int64_t row_panels_ = 0, column_panels_ = 0, block_ = 0;
};

/// Grown to `rows` x `columns` by zeros; with ones on the diagonal behind square matrices where asked, so that they
/// stay regular.
Value grown(Value x, std::int64_t rows, std::int64_t columns, bool ones);
/// Rows [from, to) of matrices, or columns; `to` empty: to the end.
Value row_range(Value x, std::int64_t from, std::optional<std::int64_t> to = {});
Value column_range(Value x, std::int64_t from, std::optional<std::int64_t> to = {});

}  // namespace tessera::ops
