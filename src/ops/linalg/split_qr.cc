// SPDX-License-Identifier: Apache-2.0
// Householder's reflectors for split matrices, panel by panel in compact WY form (Schreiber, Van Loan: A
// storage-efficient WY representation for products of Householder transformations, 1989). Those of a panel come from
// its first rows and the triangles of all devices' others (TSQR), as they would from the whole panel: q and r are
// LAPACK's.
#include <functional>

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
    // Subtracted here and not where the panel is next read: the products of all panels would wait there.
    Values done = optimization_barrier(Values{c - matmul(v, column_range(sum, from, to))});
    out.push_back(done[0]);
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

// Reduces the panels of columns `rest` one after the other. Of each panel of columns, by panel of rows, what is on and
// above the diagonal's: there what `kept` makes of its reflectors and of their rows below, which are those of the
// device's rows (empty where there are none).
using Kept = std::function<Value(const Reflectors& f, Value others)>;
std::vector<Values> reduced(const BlockCyclic& grid, Values rest, const Kept& kept) {
  const std::size_t panels = rest.size();
  const std::int64_t tall = grid.local_rows();
  std::vector<Values> done(panels);
  for (std::size_t k = 0; k < panels; ++k) {
    Reflectors f = factored(grid, grid.own_rows(rest[k]));
    Value others = f.rest ? grid.for_rows(f.rest) : Value{};
    done[k].push_back(kept(f, others));
    Value v = below(grid.rows_of_panel(reflectors_of(f.packed)), others);
    Values later =
        reflected(grid, v, adjoint(f.factor), Values(rest.begin() + static_cast<std::ptrdiff_t>(k) + 1, rest.end()));
    for (std::size_t j = k + 1; j < panels; ++j) {
      Value x = later[j - k - 1];
      done[j].push_back(row_range(x, 0, tall));
      rest[j] = row_range(x, tall);
    }
  }
  return done;
}

// The first columns of the reflectors' product, by panel of columns: `applied` gives a panel's reflectors, those of the
// device's rows, and their compact factor.
struct Applied {
  Value rows, factor;
};
Values product(const BlockCyclic& grid, const std::function<Applied(std::int64_t k)>& applied) {
  const std::int64_t panels = grid.column_panels();
  const std::int64_t tall = grid.local_rows();
  // As far as reflectors that have been applied reach.
  Values q(at(panels));
  for (std::int64_t k = panels; k-- > 0;) {
    auto [rows, factor] = applied(k);
    Builder& b = *rows.builder;
    Value mine = grid.columns_of_panel(grid.rows_of_panel(identity_like(factor)));
    auto blank = [&](std::int64_t count) {
      Shape shape = mine.shape();
      shape[shape.size() - 2] = count;
      return zeros(b, {mine.dtype(), shape});
    };
    std::int64_t reach = rows.shape()[at(rows.rank() - 2)];
    Values current{reach > tall ? below(mine, blank(reach - tall)) : mine};
    for (std::int64_t j = k + 1; j < panels; ++j) current.push_back(below(blank(tall), q[at(j)]));
    current = reflected(grid, rows, factor, current);
    std::copy(current.begin(), current.end(), q.begin() + k);
  }
  return q;
}

}  // namespace

std::optional<ir::Division> qr_by_panels(Builder& b, const ir::DivideArgs& a, const Qr& p) {
  const Shape& shape = a.in[0].shape();
  std::int64_t m = shape[shape.size() - 2];
  std::int64_t n = shape.back();
  if (p.packed || m < n || (p.full && m != n) || a.deterministic || a.in[0].type().size() == 0) return std::nullopt;
  auto grid = BlockCyclic::of(a, a.operands[0], m, n);
  if (!grid) return std::nullopt;
  Values rest =
      grid->panels(grown(a.in[0], grid->rows(), grid->columns(), false), [](std::int64_t, Value x) { return x; });
  // A device keeps of the reflectors and of their factors the rows that it has alone: half of its part of the matrix.
  Values own, factors;
  auto alone = [&](Value all) { return grid->part_by_column(grid->rows_of_panel(all)); };
  std::vector<Values> upper = reduced(*grid, std::move(rest), [&](const Reflectors& f, Value) {
    own.push_back(below(alone(reflectors_of(f.packed)), f.rest));
    factors.push_back(alone(f.factor));
    return grid->columns_of_panel(grid->rows_of_panel(upper_part(f.packed)));
  });
  Values columns = product(*grid, [&](std::int64_t k) {
    return Applied{grid->for_rows(own[at(k)]), grid->all_rows(factors[at(k)])};
  });
  // q first: r, without its zeros, takes half the room until then.
  Value q = grid->joined(b, a.out[0], [&](std::int64_t k) { return columns[at(k)]; });
  BlockCyclic square = grid->of_first_rows();
  Value r = square.joined(b, a.out[1], [&](std::int64_t k) {
    Values parts = upper[at(k)];
    Shape zero = parts[0].shape();
    zero[zero.size() - 2] = (square.row_panels() - k - 1) * square.local_rows();
    if (zero[zero.size() - 2] > 0) parts.push_back(zeros(b, {parts[0].dtype(), zero}));
    return concatenate(parts, a.in[0].rank() - 2);
  });
  return ir::Division{{column_range(row_range(q, 0, m), 0, n), column_range(row_range(r, 0, n), 0, n)}};
}

std::optional<ir::Division> reflectors_by_panels(Builder& b, const ir::DivideArgs& a, const Qr& p) {
  const Shape& shape = a.in[0].shape();
  std::int64_t m = shape[shape.size() - 2];
  std::int64_t n = shape.back();
  if (!p.packed || m < n || a.deterministic || a.in[0].type().size() == 0) return std::nullopt;
  auto grid = BlockCyclic::of(a, a.operands[0], m, n);
  if (!grid) return std::nullopt;
  Values rest =
      grid->panels(grown(a.in[0], grid->rows(), grid->columns(), false), [](std::int64_t, Value x) { return x; });
  Values taus;
  std::vector<Values> done = reduced(*grid, std::move(rest), [&](const Reflectors& f, Value others) {
    taus.push_back(f.taus);
    return grid->columns_of_panel(below(grid->rows_of_panel(f.packed), others));
  });
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
  std::int64_t tall = grid->local_rows();
  std::int64_t width = grid->width();
  Values packed = grid->panels(grown(a.in[0], grid->rows(), grid->columns(), false),
                               [&](std::int64_t k, Value panel) { return row_range(panel, k * tall); });
  Value taus = a.in[1];
  Dims none(at(taus.rank()), 0);
  Dims more = none;
  more.back() = grid->columns() - n;
  taus = grid->entered(pad(taus, scalar(b, 0, taus.dtype()), none, more));
  Values q = product(*grid, [&](std::int64_t k) {
    Value own = grid->own_rows(packed[at(k)]);
    Value v = reflectors_of(grid->all_rows(row_range(own, 0, grid->block())));
    Value gram = matmul(adjoint(v), v);
    Value rows = grid->rows_of_panel(v);
    if (own.shape()[at(own.rank() - 2)] > grid->block()) {
      Value rest = row_range(own, grid->block());
      gram = gram + grid->summed(matmul(adjoint(rest), rest));
      rows = below(rows, grid->for_rows(rest));
    }
    return Applied{rows, compact_factor(gram, slice_in_dim(taus, k * width, (k + 1) * width, taus.rank() - 1))};
  });
  Value whole = grid->joined(b, a.out[0], [&](std::int64_t k) { return q[at(k)]; });
  return ir::Division{{column_range(row_range(whole, 0, m), 0, n)}};
}

}  // namespace tessera::ops
