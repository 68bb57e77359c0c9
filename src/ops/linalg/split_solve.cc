// SPDX-License-Identifier: Apache-2.0
// Substitution with a triangular matrix that is split: ScaLAPACK's pdtrsm, one panel of the matrix after the other.
#include <algorithm>

#include "ops/linalg/block_cyclic.h"
#include "ops/linalg/split_factors.h"

namespace tessera::ops {

namespace {

ir::Layout turned(ir::Layout l) {
  std::swap(l.dims[l.dims.size() - 1], l.dims[l.dims.size() - 2]);
  return l;
}

}  // namespace

std::optional<ir::Division> solve_by_panels(Builder&, const ir::DivideArgs& args, const TriangularSolve& p) {
  std::int64_t n = args.in[0].shape().back();
  // With the matrix on the left, and not transposed: transposes stay on their devices.
  bool turn_a = p.transpose_a == p.left;
  bool lower = p.lower != turn_a;
  auto grid = BlockCyclic::of(args, turn_a ? turned(args.operands[0]) : args.operands[0], n, n);
  if (!grid || args.deterministic || args.in[1].type().size() == 0) return std::nullopt;
  Value a = turn_a ? transposed(args.in[0]) : args.in[0];
  Value x = p.left ? args.in[1] : transposed(args.in[1]);
  std::int64_t columns = x.shape().back();
  std::int64_t q = grid->q();
  constexpr std::int64_t kFewColumns = 4;  // for a device
  bool cut = q > 1 && columns >= kFewColumns * q;
  std::int64_t wide = cut ? (columns + q - 1) / q * q : columns;
  std::int64_t panels = grid->column_panels();
  std::int64_t tall = grid->local_rows();
  Values parts = grid->panels(grown(a, grid->rows(), grid->rows(), true), [&](std::int64_t k, Value panel) {
    Value mine = lower ? row_range(panel, k * tall) : row_range(panel, 0, (k + 1) * tall);
    return p.conjugate_a && is_complex(mine.dtype()) ? conj(mine) : mine;
  });
  Value rest = grid->spread_rows(grown(x, grid->rows(), wide, false), cut);
  Values solved(at(panels));
  TriangularSolve inner{.left = true, .lower = lower, .unit_diagonal = p.unit_diagonal};
  for (std::int64_t step = 0; step < panels; ++step) {
    std::int64_t k = lower ? step : panels - 1 - step;
    std::int64_t others = (panels - 1 - step) * tall;
    Value rows = grid->all_columns(parts[at(k)]);
    // The panel's own rows, and those that depend on it.
    auto own = [&](Value v) { return grid->all_rows_of_panel(lower ? row_range(v, 0, tall) : row_range(v, others)); };
    auto further = [&](Value v) { return lower ? row_range(v, tall) : row_range(v, 0, others); };
    solved[at(k)] = triangular_solve(own(rows), own(rest), inner);
    if (others > 0) rest = further(rest) - matmul(further(rows), solved[at(k)]);
  }
  Value out = column_range(row_range(grid->joined_rows(solved, cut), 0, n), 0, columns);
  return ir::Division{{p.left ? out : transposed(out)}};
}

}  // namespace tessera::ops
