// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "base/index.h"
#include "numpy/placed.h"
#include "program/graph_fragment.h"
#include "program/promote.h"
#include "tessera/lax.h"
#include "tessera/numpy.h"

namespace tessera {

using ir::Builder;
using ir::Value;
using ir::Values;
using program::graph_fragment1;
using program::on;

namespace {}  // namespace

Array expand_dims(const Operand& x, const Dims& axis) { return lax::expand_dims(x, axis); }
Array squeeze(const Operand& x, const MaybeDims& axis) {
  if (axis) return lax::squeeze(x, *axis);
  Dims ones;
  for (std::int64_t d = 0; d < x.array().ndim(); ++d) {
    if (x.array().shape(d) == 1) ones.push_back(d);
  }
  return lax::squeeze(x, ones);
}
Array swapaxes(const Operand& x, std::int64_t axis1, std::int64_t axis2) {
  Dims p(at(x.array().ndim()));
  std::iota(p.begin(), p.end(), 0);
  std::swap(p[at(program::axis_of("swapaxes", axis1, rank(p)))], p[at(program::axis_of("swapaxes", axis2, rank(p)))]);
  return transpose(x, p);
}
Array moveaxis(const Operand& x, const Dims& source, const Dims& destination) {
  std::int64_t n = x.array().ndim();
  if (source.size() != destination.size()) {
    throw ValueError(str("moveaxis: source ", source, " and destination ", destination, " differ in length"));
  }
  Dims from;
  Dims to;
  for (auto a : source) from.push_back(program::axis_of("moveaxis", a, n));
  for (auto a : destination) to.push_back(program::axis_of("moveaxis", a, n));
  Dims p(at(n), -1);
  for (std::size_t i = 0; i < to.size(); ++i) p[at(to[i])] = from[i];
  std::int64_t next = 0;
  for (auto& d : p) {
    if (d >= 0) continue;
    while (std::find(from.begin(), from.end(), next) != from.end()) ++next;
    d = next++;
  }
  return transpose(x, p);
}
Array ravel(const Operand& x) { return reshape(x, {-1}); }
Array flip(const Operand& x, const MaybeDims& axis) {
  return lax::rev(x, program::axes_of("flip", axis, x.array().ndim()));
}
Array roll(const Operand& x, std::int64_t shift, std::optional<std::int64_t> axis) {
  if (!axis) {
    Array flat = ravel(x);
    return reshape(on(roll(on(flat, x.loc()), shift, 0), x.loc()), x.array().shape());
  }
  std::int64_t d = program::axis_of("roll", *axis, x.array().ndim());
  std::int64_t n = x.array().shape(d);
  std::int64_t cut = n == 0 ? 0 : ((-shift) % n + n) % n;  // what stands first afterwards
  if (cut == 0) return x.array();
  return graph_fragment1("roll", x.loc(), {x.array()}, [&](Builder&, const Values& v) {
    return ops::concatenate(Values{ops::slice_in_dim(v[0], cut, n, d), ops::slice_in_dim(v[0], 0, cut, d)}, d);
  });
}
Array concatenate(const std::vector<Array>& arrays, std::int64_t axis, const Loc& loc) {
  if (arrays.empty()) throw ValueError("concatenate: arrays is empty; expected at least one");
  return lax::concatenate(program::promote("concatenate", arrays, loc), axis, loc);
}
Array stack(const std::vector<Array>& arrays, std::int64_t axis, const Loc& loc) {
  if (arrays.empty()) throw ValueError("stack: arrays is empty; expected at least one");
  for (std::size_t i = 1; i < arrays.size(); ++i) {
    if (arrays[i].shape() != arrays[0].shape()) {
      throw ValueError(str("stack: arrays[", i, "] has shape ", arrays[i].shape(), "; expected ", arrays[0].shape()));
    }
  }
  std::int64_t d = program::axis_of("stack", axis, arrays[0].ndim() + 1);
  return graph_fragment1("stack", loc, program::promote("stack", arrays, loc), [&](Builder&, const Values& v) {
    Values parts;
    for (auto p : v) parts.push_back(ops::expand_dims(p, {d}));
    return ops::concatenate(parts, d);
  });
}
std::vector<Array> split(const Operand& x, std::int64_t sections, std::int64_t axis) {
  std::int64_t d = program::axis_of("split", axis, x.array().ndim());
  std::int64_t n = x.array().shape(d);
  if (sections <= 0 || n % sections != 0) {
    throw ValueError(str("split: ", sections, " sections of dimension ", d, " of shape ", x.array().shape(),
                         "; expected a divisor of ", n));
  }
  return lax::split(x, Dims(at(sections), n / sections), d);
}
std::vector<Array> split_at(const Operand& x, const Dims& indices, std::int64_t axis) {
  std::int64_t d = program::axis_of("split", axis, x.array().ndim());
  std::int64_t n = x.array().shape(d);
  Dims sizes;
  std::int64_t from = 0;
  auto bound = [&](std::int64_t i) { return std::clamp<std::int64_t>(i < 0 ? i + n : i, 0, n); };
  for (auto i : indices) {
    sizes.push_back(std::max<std::int64_t>(0, bound(i) - from));
    from = std::max(from, bound(i));
  }
  sizes.push_back(n - from);
  return lax::split(x, sizes, d);
}
Array tile(const Operand& x, const Dims& reps) {
  Shape shape = x.array().shape();
  Dims r = reps;
  if (r.size() < shape.size()) r.insert(r.begin(), shape.size() - r.size(), 1);
  if (shape.size() < r.size()) shape.insert(shape.begin(), r.size() - shape.size(), 1);
  Shape wide;
  Dims dims;
  Shape result;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (r[d] < 0) throw ValueError(str("tile: reps = ", reps, "; expected no negative count"));
    if (r[d] != 1) wide.push_back(r[d]);
    dims.push_back(static_cast<std::int64_t>(wide.size()));
    wide.push_back(shape[d]);
    result.push_back(r[d] * shape[d]);
  }
  return graph_fragment1("tile", x.loc(), {x.array()}, [&](Builder&, const Values& v) {
    return ops::reshape(ops::broadcast_in_dim(ops::reshape(v[0], shape), wide, dims), result);
  });
}

// --- triangles ------------------------------------------------------------------------------------------------------

namespace {
// True at and below diagonal k.
Value lower(Builder& b, std::int64_t n, std::int64_t m, std::int64_t k) {
  Value row = ops::iota(b, DType::I32, {n, m}, 0);
  Value column = ops::iota(b, DType::I32, {n, m}, 1);
  return ops::ge(ops::add(row, ops::scalar(b, static_cast<double>(k), DType::I32)), column);
}
Array triangle(const Operand& x, std::int64_t k, bool upper, const char* name) {
  const Shape shape = x.array().shape();
  if (shape.size() < 2) throw ValueError(str(name, ": shape ", shape, "; expected at least rank 2"));
  return graph_fragment1(name, x.loc(), {x.array()}, [&](Builder& b, const Values& v) {
    Value mask = lower(b, shape[shape.size() - 2], shape.back(), upper ? k - 1 : k);
    Dims dims{rank(shape) - 2, rank(shape) - 1};
    mask = program::split_like(v[0], ops::broadcast_in_dim(mask, shape, dims));
    Value zero = ops::scalar(b, 0, v[0].dtype());
    return upper ? ops::where(mask, zero, v[0]) : ops::where(mask, v[0], zero);
  });
}
}  // namespace

Array tri(std::int64_t n, std::optional<std::int64_t> m, std::int64_t k, DType dtype, const Loc& loc) {
  return graph_fragment1("tri", loc, {},
                         [&](Builder& b, const Values&) { return ops::convert(lower(b, n, m.value_or(n), k), dtype); });
}
Array tril(const Operand& x, std::int64_t k) { return triangle(x, k, false, "tril"); }
Array triu(const Operand& x, std::int64_t k) { return triangle(x, k, true, "triu"); }
Array eye(std::int64_t n, std::optional<std::int64_t> m, std::int64_t k, DType dtype, const Loc& loc) {
  return graph_fragment1("eye", loc, {}, [&](Builder& b, const Values&) {
    Shape shape{n, m.value_or(n)};
    Value row = ops::add(ops::iota(b, DType::I32, shape, 0), ops::scalar(b, static_cast<double>(k), DType::I32));
    return ops::convert(ops::eq(row, ops::iota(b, DType::I32, shape, 1)), dtype);
  });
}

}  // namespace tessera
