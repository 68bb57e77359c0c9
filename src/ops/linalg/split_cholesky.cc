// SPDX-License-Identifier: Apache-2.0
// A Cholesky decomposition along split dimensions: ScaLAPACK's pdpotrf, with panels that reach all devices evenly.
#include <limits>

#include "ops/linalg/block_cyclic.h"
#include "ops/linalg/split_factors.h"

namespace tessera::ops {

namespace {

// By matrix: whether the factor of a diagonal block says that there is none.
Value failed(Value factor) {
  Value trace = reduce_sum(diagonal(factor), {factor.rank() - 2});
  return ne(trace, trace);
}

// x, or NaN in those of the stack's matrices that have no factor: everywhere, or where `mask` says.
Value unless_failed(Value x, Value fails, Value mask = {}) {
  Dims lead(at(fails.rank()));
  for (std::size_t d = 0; d < lead.size(); ++d) lead[d] = static_cast<std::int64_t>(d);
  Value all = broadcast_in_dim(fails, x.shape(), lead);
  if (mask) all = and_(all, mask);
  return where(all, scalar(*x.builder, std::numeric_limits<double>::quiet_NaN(), x.dtype()), x);
}

}  // namespace

std::optional<ir::Division> cholesky_by_panels(Builder& b, const ir::DivideArgs& a, const NoAttrs&) {
  std::int64_t n = a.in[0].shape().back();
  auto grid = BlockCyclic::of(a, a.operands[0], n, n);
  if (!grid || a.deterministic || a.in[0].type().size() == 0) return std::nullopt;
  std::int64_t panels = grid->column_panels();
  std::int64_t tall = grid->local_rows();
  std::int64_t wide = grid->local_columns();
  // By panel of columns: its rows from the diagonal on.
  Values rest = grid->panels(grown(a.in[0], grid->rows(), grid->rows(), true),
                             [&](std::int64_t k, Value panel) { return row_range(panel, k * tall); });
  auto mine = [&](Value diagonal_block) { return grid->columns_of_panel(grid->rows_of_panel(diagonal_block)); };
  struct Panel {
    Value diagonal, below;  // of the factor
  };
  std::vector<Panel> factor;
  Value fails, lower;
  for (std::int64_t k = 0; k < panels; ++k) {
    Value own = grid->own_rows(rest[at(k)]);
    Value l = cholesky(grid->all_rows(row_range(own, 0, grid->block())));
    fails = fails ? or_(fails, failed(l)) : failed(l);
    if (!lower)
      lower = mine(ge(iota(b, DType::I32, l.shape(), l.rank() - 2), iota(b, DType::I32, l.shape(), l.rank() - 1)));
    factor.push_back({mine(l), {}});
    if (k + 1 == panels) break;
    Value x =
        triangular_solve(l, row_range(own, grid->block()), {.left = false, .transpose_a = true, .conjugate_a = true});
    Value rows = grid->for_rows(x);
    Value columns = adjoint(grid->for_columns(x));
    factor.back().below = grid->columns_of_panel(rows);
    for (std::int64_t j = k + 1; j < panels; ++j) {
      std::int64_t from = j - k - 1;
      Value update = matmul(row_range(rows, from * tall), column_range(columns, from * wide, (from + 1) * wide));
      rest[at(j)] = rest[at(j)] - update;
    }
  }
  Value whole = grid->joined(b, a.out[0], [&](std::int64_t k) {
    auto [diagonal_block, below] = factor[at(k)];
    Values parts;
    if (k > 0) {
      Shape above = diagonal_block.shape();
      above[above.size() - 2] *= k;
      parts.push_back(zeros(b, {diagonal_block.dtype(), above}));
    }
    parts.push_back(unless_failed(diagonal_block, fails, lower));
    if (below) parts.push_back(unless_failed(below, fails));
    return concatenate(parts, diagonal_block.rank() - 2);
  });
  return ir::Division{{column_range(row_range(whole, 0, n), 0, n)}};
}

}  // namespace tessera::ops
