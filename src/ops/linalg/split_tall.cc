// SPDX-License-Identifier: Apache-2.0
// Tall matrices whose rows are split: TSQR (Demmel, Grigori, Hoemmen, Langou: Communication-optimal parallel and
// sequential QR and LU factorizations, 2012). The first n rows take part in the last step alone, so that its reflectors
// are those that LAPACK would find for the whole matrix: factors have the signs that they have on one device.
#include <bit>

#include "ops/collective/collectives.h"
#include "ops/collective/manual.h"
#include "ops/linalg/block_cyclic.h"
#include "ops/linalg/split_factors.h"

namespace tessera::ops {

namespace {

Value is_set(Value number, std::int64_t bit) {
  Value b = scalar(*number.builder, static_cast<double>(bit), DType::I32);
  return ne(and_(number, b), scalar(*number.builder, 0, DType::I32));
}

// Triangles (…, n, n) of even n as rectangles (…, n / 2, n + 1) without the zeros: the last rows, turned round, stand
// before the first ones.
Value folded(Value r) {
  Builder& b = *r.builder;
  std::int64_t n = r.shape().back();
  Dims none(at(r.rank()), 0);
  Dims one = none;
  one.back() = 1;
  Value zero = scalar(b, 0, r.dtype());
  Value first = pad(row_range(r, 0, n / 2), zero, one, none);
  Value last = pad(rev(row_range(r, n / 2), {r.rank() - 2, r.rank() - 1}), zero, none, one);
  Value row = iota(b, DType::I32, first.shape(), r.rank() - 2);
  return where(le(iota(b, DType::I32, first.shape(), r.rank() - 1), row), last, first);
}
Value unfolded(Value x) {
  std::int64_t n = x.shape().back() - 1;
  Value last = rev(lower_part(column_range(x, 0, n)), {x.rank() - 2, x.rank() - 1});
  return concatenate(Values{upper_part(column_range(x, 1)), last}, x.rank() - 2);
}

// The triangle of all devices along one axis, and the part of the orthogonal factor that belongs to each.
struct Reduced {
  Value q, r;
};
Reduced joined_along(Reduced x, const Collective& axis) {
  Builder& b = *x.r.builder;
  std::int64_t parts = axis.total();
  std::int64_t rows = x.r.rank() - 2;
  std::int64_t n = x.r.shape().back();
  Value me = axis_index(b, axis);
  if (!std::has_single_bit(static_cast<std::uint64_t>(parts))) {
    AllGather all;
    static_cast<Collective&>(all) = axis;
    all.dim = rows;
    Values f = qr(all_gather(x.r, all));
    Values starts(at(x.r.rank()), scalar(b, 0, DType::I32));
    starts[at(rows)] = me * static_cast<double>(n);
    return {matmul(x.q, dynamic_slice(f[0], starts, x.r.shape())), f[1]};
  }
  // In pairs: in every round each device knows the triangle of twice as many.
  for (std::int64_t bit = 1; bit < parts; bit *= 2) {
    Ppermute pairs;
    static_cast<Collective&>(pairs) = axis;
    for (std::int64_t i = 0; i < parts; ++i) pairs.pairs.push_back({i, i ^ bit});
    Value other = n % 2 == 0 ? unfolded(ppermute(folded(x.r), pairs)) : ppermute(x.r, pairs);
    Value second = is_set(me, bit);
    Values f = qr(concatenate(Values{where(second, other, x.r), where(second, x.r, other)}, rows));
    x = {matmul(x.q, where(second, row_range(f[0], n), row_range(f[0], 0, n))), f[1]};
  }
  return x;
}

// The rows that each device has of a tall matrix, all axes that split it along its rows.
class Rows {
 public:
  static std::optional<Rows> of(const ir::DivideArgs& a) {
    Rows r;
    auto lead = a.in[0].rank() - 2;
    r.n_ = a.in[0].shape().back();
    r.m_ = a.in[0].shape()[at(lead)];
    r.axes_ = a.operands[0].dims[at(lead)];
    for (auto axis : a.operands[0].dims[at(lead + 1)]) r.axes_.push_back(axis);
    r.parts_ = ir::parts(r.axes_, a.mesh);
    r.chunk_ = (r.m_ + r.parts_ - 1) / r.parts_;
    if (r.parts_ == 1 || a.deterministic || r.chunk_ < r.n_ || a.in[0].type().size() == 0) return std::nullopt;
    r.all_ = along(a.mesh, r.axes_);
    for (auto axis : r.axes_) r.each_.push_back(along(a.mesh, {axis}));
    return r;
  }

  Value enter(Value whole) const {
    Shape shape = whole.shape();
    shape[shape.size() - 2] = chunk_;
    return whole.builder->add1(def::manual_enter, {grown(whole, parts_ * chunk_, n_, false)},
                               attrs(cut(shape, whole.rank() - 2)));
  }
  Value enter_shared(Value x) const {
    ManualSpec spec{std::vector<Dims>(at(x.rank())), x.shape(), *all_.axes};
    return x.builder->add1(def::manual_enter, {x}, attrs(spec));
  }
  Value leave(Value rows) const {
    Shape shape = rows.shape();
    shape[shape.size() - 2] *= parts_;
    return row_range(rows.builder->add1(def::manual_exit, {rows}, attrs(cut(shape, rows.rank() - 2))), 0, m_);
  }
  // What all devices have leaves the region in shards of dimension d: a varying value cannot leave it whole.
  Value leave_shared(Value x, std::int64_t d) const {
    Builder& b = *x.builder;
    std::int64_t extent = x.shape()[at(d)];
    std::int64_t share = (extent + parts_ - 1) / parts_;
    Dims low(at(x.rank()), 0);
    Dims high = low;
    high[at(d)] = parts_ * share - extent;
    Values starts(at(x.rank()), scalar(b, 0, DType::I32));
    starts[at(d)] = axis_index(b, all_) * static_cast<double>(share);
    Shape shape = x.shape();
    shape[at(d)] = share;
    x = dynamic_slice(pad(x, scalar(b, 0, x.dtype()), low, high), starts, shape);
    shape[at(d)] = parts_ * share;
    return slice_in_dim(b.add1(def::manual_exit, {x}, attrs(cut(shape, d))), 0, extent, d);
  }

  Value first(Builder& b) const { return eq(axis_index(b, all_), scalar(b, 0, DType::I32)); }
  // The first device's, for all.
  Value from_first(Value x) const {
    Pbroadcast c;
    static_cast<Collective&>(c) = all_;
    return pbroadcast(x, c);
  }
  Value summed(Value x) const { return psum(x, all_); }
  // The first n rows, where the first device has them, and all others.
  Value with_top(Value top, Value rows) const {
    Value mine = where(first(*top.builder), top, row_range(rows, 0, n_));
    return concatenate(Values{mine, row_range(rows, n_)}, rows.rank() - 2);
  }

  // The first n rows, below them the triangle of all others; and what makes a device's rows of that triangle's.
  struct Stack {
    Value rows, q;
  };
  Stack reduced(Value x) const {
    Value top = row_range(x, 0, n_);
    Values f = qr(with_top(zeros_like(top), x));
    Reduced rest{identity_like(f[1]), f[1]};
    for (std::size_t i = each_.size(); i-- > 0;) rest = joined_along(rest, each_[i]);
    return {concatenate(Values{from_first(top), rest.r}, x.rank() - 2), matmul(f[0], rest.q)};
  }
  std::int64_t n() const { return n_; }

 private:
  ManualSpec cut(Shape shape, std::int64_t d) const {
    ManualSpec spec;
    spec.dims.resize(shape.size());
    spec.dims[at(d)] = spec.manual = *all_.axes;
    spec.shape = std::move(shape);
    return spec;
  }
  ir::AxisList axes_;
  Collective all_;
  std::vector<Collective> each_;
  std::int64_t m_ = 0, n_ = 0, parts_ = 1, chunk_ = 0;
};

}  // namespace

std::optional<ir::Division> qr_by_rows(Builder&, const ir::DivideArgs& a, const Qr& p) {
  auto rows = Rows::of(a);
  const Shape& shape = a.in[0].shape();
  if (!rows || p.packed || (p.full && shape[shape.size() - 2] != shape.back())) return std::nullopt;
  auto [stack, q] = rows->reduced(rows->enter(a.in[0]));
  Values f = qr(stack);
  Value mine = rows->with_top(row_range(f[0], 0, rows->n()), matmul(q, row_range(f[0], rows->n())));
  return ir::Division{{rows->leave(mine), rows->leave_shared(f[1], f[1].rank() - 2)}};
}

std::optional<ir::Division> reflectors_by_rows(Builder&, const ir::DivideArgs& a, const Qr& p) {
  auto rows = Rows::of(a);
  if (!rows || !p.packed) return std::nullopt;
  Value x = rows->enter(a.in[0]);
  auto [stack, q] = rows->reduced(x);
  Values f = packed_qr(stack);
  Value rest = zero_where_zero(matmul(q, row_range(f[0], rows->n())), x);
  Value mine = rows->with_top(row_range(f[0], 0, rows->n()), rest);
  return ir::Division{{rows->leave(mine), rows->leave_shared(f[1], f[1].rank() - 1)}};
}

std::optional<ir::Division> product_by_rows(Builder&, const ir::DivideArgs& a, const NoAttrs&) {
  auto rows = Rows::of(a);
  if (!rows || a.in[1].shape().back() != rows->n()) return std::nullopt;
  Value packed = rows->enter(a.in[0]);
  Value top = reflectors_of(row_range(packed, 0, rows->n()));
  Value v = rows->with_top(top, packed);
  Value factor = compact_factor(rows->summed(matmul(adjoint(v), v)), rows->enter_shared(a.in[1]));
  Value q = neg(matmul(v, matmul(factor, adjoint(rows->from_first(top)))));
  Value head = row_range(q, 0, rows->n());
  return ir::Division{{rows->leave(rows->with_top(head + identity_like(head), q))}};
}

std::optional<ir::Division> svd_by_qr(Builder&, const ir::DivideArgs& a, const Svd& p) {
  const Shape& shape = a.in[0].shape();
  std::int64_t m = shape[shape.size() - 2];
  std::int64_t n = shape.back();
  std::int64_t parts = a.parts_of(0, a.in[0].rank() - 2) * a.parts_of(0, a.in[0].rank() - 1);
  if (parts == 1 || a.deterministic || (p.full && p.vectors) || m < parts * n || a.in[0].type().size() == 0) {
    return std::nullopt;
  }
  Values f = qr(a.in[0]);
  Values s = svd(f[1], false, p.vectors);
  if (p.vectors) s[1] = matmul(f[0], s[1]);
  return ir::Division{s};
}

}  // namespace tessera::ops
