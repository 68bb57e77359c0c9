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

Collective over(const ir::MeshAxes& mesh, const ir::AxisList& axes) {
  Collective c;
  c.axes.emplace();
  for (auto axis : axes) {
    c.names.list.push_back(mesh.names[axis]);
    c.sizes.push_back(mesh.sizes[axis]);
    c.axes->push_back(axis);
  }
  return c;
}

Value is_set(Value number, std::int64_t bit) {
  Value b = scalar(*number.builder, static_cast<double>(bit), DType::I32);
  return ne(and_(number, b), scalar(*number.builder, 0, DType::I32));
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
    Value other = ppermute(x.r, pairs);
    Value second = is_set(me, bit);
    Values f = qr(concatenate(Values{where(second, other, x.r), where(second, x.r, other)}, rows));
    x = {matmul(x.q, where(second, row_range(f[0], n), row_range(f[0], 0, n))), f[1]};
  }
  return x;
}

}  // namespace

std::optional<ir::Division> qr_by_rows(Builder& b, const ir::DivideArgs& a, const Qr& p) {
  const Shape shape = a.in[0].shape();
  auto lead = a.in[0].rank() - 2;
  std::int64_t m = shape[at(lead)];
  std::int64_t n = shape.back();
  ir::AxisList axes = a.operands[0].dims[at(lead)];
  for (auto axis : a.operands[0].dims[at(lead + 1)]) axes.push_back(axis);
  std::int64_t parts = ir::parts(axes, a.mesh);
  std::int64_t chunk = (m + parts - 1) / parts;
  if (parts == 1 || a.deterministic || (p.full && m != n) || chunk < n || a.in[0].type().size() == 0) {
    return std::nullopt;
  }
  Collective all = over(a.mesh, axes);
  ManualSpec spec;
  spec.dims.resize(shape.size());
  spec.dims[at(lead)] = spec.manual = *all.axes;
  spec.shape = shape;
  spec.shape[at(lead)] = chunk;
  Value x = b.add1(def::manual_enter, {grown(a.in[0], parts * chunk, n, false)}, attrs(spec));
  Value first = eq(axis_index(b, all), scalar(b, 0, DType::I32));
  Pbroadcast from_first;
  static_cast<Collective&>(from_first) = all;
  Value top = row_range(x, 0, n);
  Value all_top = pbroadcast(top, from_first);
  x = concatenate(Values{where(first, zeros_like(top), top), row_range(x, n)}, lead);
  Values f = qr(x);
  Reduced rest{identity_like(f[1]), f[1]};
  for (std::size_t i = axes.size(); i-- > 0;) rest = joined_along(rest, over(a.mesh, {axes[i]}));
  Values last = qr(concatenate(Values{all_top, rest.r}, lead));
  Value q = matmul(f[0], matmul(rest.q, row_range(last[0], n)));
  q = concatenate(Values{where(first, row_range(last[0], 0, n), row_range(q, 0, n)), row_range(q, n)}, lead);
  spec.shape[at(lead)] = parts * chunk;
  ir::Division out;
  out.out.push_back(row_range(b.add1(def::manual_exit, {q}, attrs(spec)), 0, m));
  // All devices have the triangle, but a varying value leaves the region in shards.
  std::int64_t share = (n + parts - 1) / parts;
  Values starts(shape.size(), scalar(b, 0, DType::I32));
  starts[at(lead)] = axis_index(b, all) * static_cast<double>(share);
  Shape cut = last[1].shape();
  cut[at(lead)] = share;
  Value r = dynamic_slice(grown(last[1], parts * share, n, false), starts, cut);
  spec.shape = cut;
  spec.shape[at(lead)] = parts * share;
  out.out.push_back(row_range(b.add1(def::manual_exit, {r}, attrs(spec)), 0, n));
  return out;
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
