// SPDX-License-Identifier: Apache-2.0
// Tall matrices whose rows are split: TSQR (Demmel, Grigori, Hoemmen, Langou: Communication-optimal parallel and
// sequential QR and LU factorizations, 2012). In every round devices exchange their triangles, stack them in the same
// order and find the same factors, so that after the last one each has the triangle of all and its part of q without
// being sent either.
//
// Such factors may differ from those of one device by the signs of r's rows. The first device keeps the first n rows
// apart and all triangles that it is sent: Householder's reflectors of these have LAPACK's signs, and the others are
// told which rows to turn.
#include "ops/collective/collectives.h"
#include "ops/collective/manual.h"
#include "ops/linalg/block_cyclic.h"
#include "ops/linalg/split_factors.h"

namespace tessera::ops {

namespace {

// Triangles (…, n, n) as rectangles without the zeros: (…, n / 2, n + 1), or (…, (n + 1) / 2, n) for odd n. The last
// rows, turned round, stand before the first ones.
Value folded(Value r) {
  Builder& b = *r.builder;
  std::int64_t n = r.shape().back();
  if (n == 1) return r;
  std::int64_t odd = n % 2;
  Dims none(at(r.rank()), 0);
  Dims column = none;
  column.back() = 1 - odd;
  Dims row = none;
  row[row.size() - 2] = odd;
  Value zero = scalar(b, 0, r.dtype());
  Value first = pad(row_range(r, 0, (n + 1) / 2), zero, column, none);
  Value last = pad(rev(row_range(r, (n + 1) / 2), {r.rank() - 2, r.rank() - 1}), zero, row, column);
  Value rows = iota(b, DType::I32, first.shape(), r.rank() - 2);
  Value columns = iota(b, DType::I32, first.shape(), r.rank() - 1);
  return where(odd != 0 ? lt(columns, rows) : le(columns, rows), last, first);
}
Value unfolded(Value x, std::int64_t n) {
  if (n == 1) return x;
  std::int64_t odd = n % 2;
  Value last = rev(lower_part(row_range(column_range(x, 0, n), odd), 0), {x.rank() - 2, x.rank() - 1});
  return concatenate(Values{upper_part(column_range(x, 1 - odd)), last}, x.rank() - 2);
}

// Twos first, for which a round is one exchange of two devices.
Dims prime_factors(std::int64_t n) {
  Dims out;
  for (std::int64_t f = 2; n > 1;) {
    if (n % f == 0) {
      out.push_back(f);
      n /= f;
    } else {
      ++f;
    }
  }
  return out;
}

// One round: devices whose numbers along the axis differ in one digit. There are `radix` of them, `stride` apart.
class TriangleRound {
 public:
  TriangleRound(const Collective& axis, std::int64_t stride, std::int64_t radix)
      : axis_(axis), stride_(stride), radix_(radix) {}

  // A device's place among them.
  Value digit(Builder& b) const {
    auto number = [&](std::int64_t v) { return scalar(b, static_cast<double>(v), DType::I32); };
    return rem(div(axis_index(b, axis_), number(stride_)), number(radix_));
  }
  // The triangles of all of them, in the order of their digits.
  Values triangles(Value r) const { return radix_ == 2 ? exchanged(r) : gathered(r); }

 private:
  Values exchanged(Value r) const {
    Ppermute pairs;
    static_cast<Collective&>(pairs) = axis_;
    for (std::int64_t i = 0; i < axis_.total(); ++i) {
      pairs.pairs.push_back({i, i / stride_ % 2 == 0 ? i + stride_ : i - stride_});
    }
    Value other = unfolded(ppermute(folded(r), pairs), r.shape().back());
    Value second = ne(digit(*r.builder), scalar(*r.builder, 0, DType::I32));
    return {where(second, other, r), where(second, r, other)};
  }
  Values gathered(Value r) const {
    AllGather all;
    static_cast<Collective&>(all) = axis_;
    all.dim = r.rank() - 2;
    if (radix_ < axis_.total()) {
      all.groups.emplace();
      for (std::int64_t i = 0; i < axis_.total(); ++i) {
        if (i / stride_ % radix_ != 0) continue;
        Dims& group = all.groups->emplace_back();
        for (std::int64_t k = 0; k < radix_; ++k) group.push_back(i + k * stride_);
      }
    }
    Value packed = all_gather(folded(r), all);
    std::int64_t height = packed.shape()[at(all.dim)] / radix_;
    Values out;
    for (std::int64_t k = 0; k < radix_; ++k) {
      out.push_back(unfolded(row_range(packed, k * height, (k + 1) * height), r.shape().back()));
    }
    return out;
  }

  Collective axis_;
  std::int64_t stride_, radix_;
};

struct Reduced {
  Value q;        // by which a device's own orthogonal factor is multiplied for its part of that of all
  Value r;        // the triangle of all devices
  Values others;  // on the first device: the triangles that it was sent
};
Reduced reduced_over(Value r, const std::vector<Collective>& axes) {
  Builder& b = *r.builder;
  std::int64_t n = r.shape().back();
  std::int64_t rows = r.rank() - 2;
  Reduced out{{}, r, {}};
  for (std::size_t i = axes.size(); i-- > 0;) {
    std::int64_t stride = 1;
    for (auto radix : prime_factors(axes[i].total())) {
      TriangleRound round(axes[i], stride, radix);
      Values all = round.triangles(out.r);
      Values f = qr(concatenate(all, rows));
      Values starts(at(r.rank()), scalar(b, 0, DType::I32));
      starts[at(rows)] = mul(round.digit(b), scalar(b, static_cast<double>(n), DType::I32));
      Value mine = dynamic_slice(f[0], starts, r.shape());
      out.q = out.q ? matmul(out.q, mine) : mine;
      out.r = f[1];
      out.others.insert(out.others.end(), all.begin() + 1, all.end());
      stride *= radix;
    }
  }
  return out;
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
  // What all devices have found alike.
  Value leave_equal(Value x) const {
    ManualSpec spec{std::vector<Dims>(at(x.rank())), x.shape(), *all_.axes, {}, *all_.axes};
    return x.builder->add1(def::manual_exit, {x}, attrs(spec));
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

  // The factors of a device's rows, of those of the first device without the first n.
  Values without_top(Value x) const { return qr(with_top(zeros_like(row_range(x, 0, n_)), x)); }
  Reduced reduced(Value r) const { return reduced_over(r, each_); }
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

// Which rows of r, found of the same matrix, have other signs than those that LAPACK finds for the rows of `stack`.
Value turned(Value stack, Value r) {
  auto negative = [](Value x) {
    Value d = diagonal(x);
    return lt(is_complex(d.dtype()) ? real(d) : d, scalar(*d.builder, 0, real_dtype(d.dtype())));
  };
  return ne(negative(row_range(packed_qr(stack)[0], 0, r.shape().back())), negative(r));
}
// x with the marked rows (dimension rank - 2) or columns (rank - 1) negated.
Value with_turned(Value x, Value marks, std::int64_t dim) {
  Dims dims(at(marks.rank()));
  for (std::size_t d = 0; d < dims.size(); ++d) dims[d] = static_cast<std::int64_t>(d);
  dims.back() = dim;
  return where(broadcast_in_dim(marks, x.shape(), dims), neg(x), x);
}

}  // namespace

std::optional<ir::Division> qr_by_rows(Builder&, const ir::DivideArgs& a, const Qr& p) {
  auto rows = Rows::of(a);
  const Shape& shape = a.in[0].shape();
  if (!rows || p.packed || (p.full && shape[shape.size() - 2] != shape.back())) return std::nullopt;
  std::int64_t n = rows->n();
  Value x = rows->enter(a.in[0]);
  std::int64_t rank = x.rank();
  Value top = row_range(x, 0, n);
  Values own = rows->without_top(x);
  // On the first device its first rows join the others; elsewhere they are among them.
  Value first = rows->first(*x.builder);
  Values f = qr(concatenate(Values{top, own[1]}, rank - 2));
  Reduced all = rows->reduced(where(first, f[1], own[1]));
  Values stack{top, own[1]};
  stack.insert(stack.end(), all.others.begin(), all.others.end());
  Value marks = rows->from_first(turned(concatenate(stack, rank - 2), all.r));
  Value q = with_turned(all.q, marks, rank - 1);
  Value below = where(first, row_range(f[0], n), identity_like(all.r));
  Value mine = rows->with_top(matmul(row_range(f[0], 0, n), q), matmul(own[0], matmul(below, q)));
  Value r = upper_part(with_turned(all.r, marks, rank - 2));
  return ir::Division{{rows->leave(mine), rows->leave_equal(r)}};
}

// Reflectors are not those of the triangles: the first device finds them, of its first rows and of the triangle of all
// others, and sends what they have in the place of that triangle.
std::optional<ir::Division> reflectors_by_rows(Builder&, const ir::DivideArgs& a, const Qr& p) {
  auto rows = Rows::of(a);
  if (!rows || !p.packed) return std::nullopt;
  std::int64_t n = rows->n();
  Value x = rows->enter(a.in[0]);
  Values own = rows->without_top(x);
  Reduced all = rows->reduced(own[1]);
  Values f = packed_qr(concatenate(Values{row_range(x, 0, n), all.r}, x.rank() - 2));
  Value below = unfolded(rows->from_first(folded(row_range(f[0], n))), n);
  Value rest = zero_where_zero(matmul(own[0], matmul(all.q, below)), x);
  Value mine = rows->with_top(row_range(f[0], 0, n), rest);
  return ir::Division{{rows->leave(mine), rows->leave_equal(rows->from_first(f[1]))}};
}

std::optional<ir::Division> product_by_rows(Builder&, const ir::DivideArgs& a, const NoAttrs&) {
  auto rows = Rows::of(a);
  if (!rows || a.in[1].shape().back() != rows->n()) return std::nullopt;
  std::int64_t n = rows->n();
  Value packed = rows->enter(a.in[0]);
  Value top = reflectors_of(row_range(packed, 0, n));
  Value v = rows->with_top(top, packed);
  Value gram = unfolded(rows->summed(folded(upper_part(matmul(adjoint(v), v)))), n);
  Value factor = compact_factor(gram, rows->enter_shared(a.in[1]));
  Value q = neg(matmul(v, matmul(factor, unfolded(rows->from_first(folded(adjoint(top))), n))));
  Value head = row_range(q, 0, n);
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
