// SPDX-License-Identifier: Apache-2.0
// Householder's reflectors for split matrices, panel by panel in compact WY form (Schreiber, Van Loan: A
// storage-efficient WY representation for products of Householder transformations, 1989). Those of a panel come from
// its first rows and the triangles of all devices' others (TSQR), as they would from the whole panel: q and r are
// LAPACK's.
#include "ops/linalg/block_cyclic.h"
#include "ops/linalg/split_factors.h"

namespace tessera::ops {

Value reflectors_of(Value packed) { return lower_part(packed, -1) + identity_like(packed); }

// 1 / t has the factors' reciprocals on its diagonal and v^H v above it (Joffrain, Low, Quintana-Orti, van de Geijn,
// Van Zee: Accumulating Householder transformations, revisited, 2006); here with factors that may be zero.
Value compact_factor(Value gram, Value taus) {
  Value scaled = transposed(as_rows(taus)) * upper_part(gram, 1);
  Value diagonal_matrix = identity_like(gram) * as_rows(taus);
  return triangular_solve(scaled, diagonal_matrix, {.left = true, .lower = false, .unit_diagonal = true});
}

Value zero_where_zero(Value v, Value rows) {
  Builder& b = *v.builder;
  Value any = reduce_max(convert(ne(rows, scalar(b, 0, rows.dtype())), DType::I32), {rows.rank() - 1});
  Dims dims(at(any.rank()));
  for (std::size_t d = 0; d < dims.size(); ++d) dims[d] = static_cast<std::int64_t>(d);
  Value none = broadcast_in_dim(eq(any, scalar(b, 0, DType::I32)), v.shape(), dims);
  return where(none, scalar(b, 0, v.dtype()), v);
}

namespace {

Value below(Value x, Value further) { return further ? concatenate(Values{x, further}, x.rank() - 2) : x; }

// c - v f v^H c for each of these panels of columns: what the products with v^H need of other devices is one sum.
Values reflected(const BlockCyclic& grid, Value v, Value factor, const Values& panels) {
  if (panels.empty()) return {};
  Values products;
  std::int64_t rank = v.rank();
  for (auto c : panels) products.push_back(matmul(adjoint(v), c));
  Value sum = matmul(factor, grid.summed_over_rows(concatenate(products, rank - 1)));
  Values out;
  std::int64_t from = 0;
  for (auto c : panels) {
    std::int64_t to = from + c.shape().back();
    out.push_back(c - matmul(v, column_range(sum, from, to)));
    from = to;
  }
  return out;
}

// A panel's reflectors, of which the first rows are known to all devices.
struct Reflectors {
  Value packed;  // the panel's first rows: r, and the reflectors below it
  Value taus;
  Value factor;  // of the compact form
  Value rest;    // rows that a device has alone; empty where there are none
};

// The panel whose rows are `own`.
Reflectors factored(const BlockCyclic& grid, Value own) {
  std::int64_t width = grid.width();
  Value stack = grid.all_rows(row_range(own, 0, grid.block()));
  Value q;
  std::int64_t kept = 0;
  bool more = own.shape()[at(own.rank() - 2)] > grid.block();
  if (more) {
    Values f = qr(row_range(own, grid.block()));
    Values g = qr(grid.gathered_over_columns(f[1]));
    q = matmul(f[0], grid.part_by_column(g[0]));
    kept = g[1].shape()[at(own.rank() - 2)];
    stack = below(stack, grid.gathered_over_rows(g[1]));
  }
  Values packed = packed_qr(stack);
  Value v = reflectors_of(packed[0]);
  Reflectors out{row_range(packed[0], 0, width), packed[1], compact_factor(matmul(adjoint(v), v), packed[1]), {}};
  if (more) {
    Value rest = matmul(q, grid.part_by_row(row_range(packed[0], width), kept));
    out.rest = zero_where_zero(rest, row_range(own, grid.block()));
  }
  return out;
}

}  // namespace

std::optional<ir::Division> qr_by_reflectors(Builder&, const ir::DivideArgs& a, const Qr& p) {
  const Shape& shape = a.in[0].shape();
  std::int64_t m = shape[shape.size() - 2];
  std::int64_t n = shape.back();
  if (p.packed || m < n || (p.full && m != n) || a.deterministic || a.in[0].type().size() == 0) return std::nullopt;
  Values f = packed_qr(a.in[0]);
  Value q = householder_product(f[0], f[1]);
  ir::Layout split = a.operands[0];
  split.partial = 0;
  return ir::Division{{q, upper_part(row_range(f[0], 0, n))}, {{f[0], split}}};
}

std::optional<ir::Division> reflectors_by_panels(Builder& b, const ir::DivideArgs& a, const Qr& p) {
  const Shape& shape = a.in[0].shape();
  std::int64_t m = shape[shape.size() - 2];
  std::int64_t n = shape.back();
  if (!p.packed || m < n || a.deterministic || a.in[0].type().size() == 0) return std::nullopt;
  auto grid = BlockCyclic::of(a, a.operands[0], m, n);
  if (!grid) return std::nullopt;
  std::int64_t panels = grid->column_panels();
  std::int64_t tall = grid->local_rows();
  // By panel of columns: its rows from the current panel of rows on, and those above, which are done.
  Values rest =
      grid->panels(grown(a.in[0], grid->rows(), grid->columns(), false), [](std::int64_t, Value x) { return x; });
  std::vector<Values> done(at(panels));
  Values taus;
  for (std::int64_t k = 0; k < panels; ++k) {
    Reflectors f = factored(*grid, grid->own_rows(rest[at(k)]));
    taus.push_back(f.taus);
    Value others = f.rest ? grid->for_rows(f.rest) : Value{};
    done[at(k)].push_back(grid->columns_of_panel(below(grid->rows_of_panel(f.packed), others)));
    Value v = below(grid->rows_of_panel(reflectors_of(f.packed)), others);
    Values later(rest.begin() + k + 1, rest.end());
    later = reflected(*grid, v, adjoint(f.factor), later);
    for (std::int64_t j = k + 1; j < panels; ++j) {
      Value x = later[at(j - k - 1)];
      done[at(j)].push_back(row_range(x, 0, tall));
      if (j < panels) rest[at(j)] = row_range(x, tall);
    }
  }
  Value whole = grid->joined(b, a.out[0], [&](std::int64_t k) { return concatenate(done[at(k)], a.in[0].rank() - 2); });
  Value all_taus = grid->left(concatenate(taus, taus[0].rank() - 1));
  return ir::Division{{column_range(row_range(whole, 0, m), 0, n), slice_in_dim(all_taus, 0, n, all_taus.rank() - 1)}};
}

std::optional<ir::Division> product_by_panels(Builder& b, const ir::DivideArgs& a, const NoAttrs&) {
  const Shape& shape = a.in[0].shape();
  std::int64_t m = shape[shape.size() - 2];
  std::int64_t n = shape.back();
  // With fewer reflectors, what the other columns hold would have to be kept out.
  bool all = a.in[1].shape().back() == n;
  if (!all || a.deterministic || a.in[0].type().size() == 0) return std::nullopt;
  auto grid = BlockCyclic::of(a, a.operands[0], m, n);
  if (!grid) return std::nullopt;
  std::int64_t panels = grid->column_panels();
  std::int64_t tall = grid->local_rows();
  std::int64_t wide = grid->local_columns();
  std::int64_t width = grid->width();
  Values packed = grid->panels(grown(a.in[0], grid->rows(), grid->columns(), false),
                               [&](std::int64_t k, Value panel) { return row_range(panel, k * tall); });
  Value taus = a.in[1];
  Dims none(at(taus.rank()), 0);
  Dims more = none;
  more.back() = grid->columns() - n;
  taus = grid->entered(pad(taus, scalar(b, 0, taus.dtype()), none, more));
  // By panel of columns, as far as reflectors that have been applied reach.
  Values q(at(panels));
  for (std::int64_t k = panels; k-- > 0;) {
    Value own = grid->own_rows(packed[at(k)]);
    packed[at(k)] = {};
    Value v = reflectors_of(grid->all_rows(row_range(own, 0, grid->block())));
    Value gram = matmul(adjoint(v), v);
    Value one = identity_like(v);
    Value mine = grid->columns_of_panel(grid->rows_of_panel(one));
    Value rows = grid->rows_of_panel(v);
    if (own.shape()[at(own.rank() - 2)] > grid->block()) {
      Value rest = row_range(own, grid->block());
      gram = gram + grid->summed(matmul(adjoint(rest), rest));
      rows = below(rows, grid->for_rows(rest));
    }
    auto blank = [&](std::int64_t count) {
      Shape blank_shape = mine.shape();
      blank_shape[blank_shape.size() - 2] = count;
      blank_shape.back() = wide;
      return zeros(b, {mine.dtype(), blank_shape});
    };
    std::int64_t reach = rows.shape()[at(rows.rank() - 2)];
    Values current{reach > tall ? below(mine, blank(reach - tall)) : mine};
    for (std::int64_t j = k + 1; j < panels; ++j) current.push_back(below(blank(tall), q[at(j)]));
    Value factor = compact_factor(gram, slice_in_dim(taus, k * width, (k + 1) * width, taus.rank() - 1));
    current = reflected(*grid, rows, factor, current);
    std::copy(current.begin(), current.end(), q.begin() + k);
  }
  Value whole = grid->joined(b, a.out[0], [&](std::int64_t k) { return q[at(k)]; });
  return ir::Division{{column_range(row_range(whole, 0, m), 0, n)}};
}

}  // namespace tessera::ops
