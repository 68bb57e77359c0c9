// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include "base/index.h"
#include "numpy/placed.h"
#include "program/graph_fragment.h"
#include "program/promote.h"
#include "tessera/lax.h"
#include "tessera/ops.h"

namespace tessera::lax {

using ir::Builder;
using ir::Value;
using ir::Values;
using program::graph_fragment;
using program::graph_fragment1;

namespace {
Dims wrap_axes(const char* name, const Dims& axes, std::int64_t rank) { return program::axes_of(name, axes, rank); }
}  // namespace

Array expand_dims(const Operand& x, const Dims& dimensions) {
  Dims axes = wrap_axes("expand_dims", dimensions, x.array().ndim() + rank(dimensions));
  return graph_fragment1("expand_dims", x.loc(), {x.array()},
                         [&](Builder&, const Values& v) { return ops::expand_dims(v[0], axes); });
}
Array squeeze(const Operand& x, const Dims& dimensions) {
  const Shape shape = x.array().shape();
  Dims axes = wrap_axes("squeeze", dimensions, rank(shape));
  for (auto a : axes) {
    if (shape[at(a)] != 1)
      throw ValueError(str("squeeze: dimension ", a, " of shape ", shape, " is ", shape[at(a)], "; expected 1"));
  }
  return graph_fragment1("squeeze", x.loc(), {x.array()},
                         [&](Builder&, const Values& v) { return ops::squeeze(v[0], axes); });
}
Array rev(const Operand& x, const Dims& dimensions) {
  Dims axes = wrap_axes("rev", dimensions, x.array().ndim());
  return graph_fragment1("rev", x.loc(), {x.array()}, [&](Builder&, const Values& v) { return ops::rev(v[0], axes); });
}
Array pad(const Operand& x, const Operand& value, const std::vector<PadDim>& config) {
  Dims low, high, interior;
  for (const auto& c : config) {
    low.push_back(c.low);
    high.push_back(c.high);
    interior.push_back(c.interior);
  }
  Array fill = program::cast(value.array(), x.array().dtype(), false, x.loc());
  return graph_fragment1("pad", x.loc(), {x.array(), fill},
                         [&](Builder&, const Values& v) { return ops::pad(v[0], v[1], low, high, interior); });
}
Array slice(const Operand& x, const Dims& start_indices, const Dims& limit_indices, const Dims& strides) {
  return graph_fragment1("slice", x.loc(), {x.array()}, [&](Builder&, const Values& v) {
    return ops::slice(v[0], start_indices, limit_indices, strides);
  });
}
Array slice_in_dim(const Operand& x, std::int64_t start, std::int64_t limit, std::int64_t stride, std::int64_t axis) {
  std::int64_t d = program::axis_of("slice_in_dim", axis, x.array().ndim());
  std::int64_t n = x.array().shape(d);
  auto bound = [&](std::int64_t i) { return i < 0 ? i + n : i; };
  return graph_fragment1("slice_in_dim", x.loc(), {x.array()}, [&](Builder&, const Values& v) {
    return ops::slice_in_dim(v[0], bound(start), bound(limit), d, stride);
  });
}
Array index_in_dim(const Operand& x, std::int64_t index, std::int64_t axis, bool keepdims) {
  std::int64_t d = program::axis_of("index_in_dim", axis, x.array().ndim());
  std::int64_t n = x.array().shape(d);
  std::int64_t i = index < 0 ? index + n : index;
  if (i < 0 || i >= n)
    throw IndexError(str("index_in_dim: index = ", index, " for dimension ", d, " of shape ", x.array().shape(),
                         "; expected -", n, "..", n - 1));
  return graph_fragment1("index_in_dim", x.loc(), {x.array()}, [&](Builder&, const Values& v) {
    Value y = ops::slice_in_dim(v[0], i, i + 1, d);
    return keepdims ? y : ops::squeeze(y, {d});
  });
}
Array concatenate(const std::vector<Array>& parts, std::int64_t dimension, const Loc& loc) {
  if (parts.empty()) throw ValueError("concatenate: parts is empty; expected at least one array");
  std::int64_t d = program::axis_of("concatenate", dimension, parts[0].ndim());
  return graph_fragment1("concatenate", loc, parts, [&](Builder&, const Values& v) { return ops::concatenate(v, d); });
}
std::vector<Array> split(const Operand& x, const Dims& sizes, std::int64_t axis) {
  std::int64_t d = program::axis_of("split", axis, x.array().ndim());
  std::int64_t total = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  if (total != x.array().shape(d)) {
    throw ValueError(str("split: sizes ", sizes, " add up to ", total, "; expected ", x.array().shape(d),
                         ", dimension ", d, " of ", x.array().shape()));
  }
  const auto* placed = program::checked_sharding(x.array(), "split");
  const std::int64_t parts = placed != nullptr ? placed->parts(at(d)) : 1;
  for (std::int64_t n : sizes) {
    if (n % parts == 0) continue;
    throw ShardingTypeError(str("split: a part of extent ", n, " of dimension ", d, " of ",
                                program::type_of(x.array(), "split"), " is not divisible by ", parts,
                                "; reshard the operand so that the dimension is not split"));
  }
  return graph_fragment("split", x.loc(), {x.array()},
                        [&](Builder&, const Values& v) { return ops::split(v[0], sizes, d); });
}

namespace {
// Start numbers as i32 scalars unless they have an integer dtype of their own.
std::vector<Array> with_starts(const char* name, const std::vector<Array>& first, const std::vector<Array>& starts,
                               const Loc& loc) {
  std::vector<Array> in = first;
  for (const auto& s : starts) {
    if (!is_integer(s.dtype()))
      throw TypeError(str(name, ": a start index has dtype ", dtype_name(s.dtype()), "; expected an integer"));
    in.push_back(s.weak_type() ? program::cast(s, int32, false, loc) : s);
  }
  return in;
}
// Operands and starts; negative starts count from the end before the op clamps them.
std::vector<Array> with_starts_from_end(const char* name, const std::vector<Array>& first,
                                        const std::vector<Array>& starts, const Loc& loc) {
  std::vector<Array> in = with_starts(name, first, starts, loc);
  const std::size_t n = std::min(starts.size(), first[0].shape().size());
  for (std::size_t k = 0; k < n; ++k) {
    Array& s = in[first.size() + k];
    if (is_unsigned_int(s.dtype())) continue;
    const double extent = static_cast<double>(first[0].shape()[k]);
    s = graph_fragment1(name, loc, {s}, [extent](Builder& b, const Values& v) {
      return ops::where(ops::lt(v[0], ops::scalar(b, 0, v[0].dtype())), v[0] + extent, v[0]);
    });
  }
  return in;
}
std::vector<Array> start_at(const Operand& x, const Operand& start, std::int64_t axis) {
  std::vector<Array> starts(
      at(x.array().ndim()),
      program::cast(Array(0), start.array().weak_type() ? int32 : start.array().dtype(), false, x.loc()));
  starts[at(axis)] = start.array();
  return starts;
}
}  // namespace

Array dynamic_slice(const Operand& x, const std::vector<Array>& starts, const Dims& sizes) {
  return graph_fragment1(
      "dynamic_slice", x.loc(), with_starts_from_end("dynamic_slice", {x.array()}, starts, x.loc()),
      [&](Builder&, const Values& v) { return ops::dynamic_slice(v[0], ir::ValueSpan(v).subspan(1), sizes); });
}
Array dynamic_slice_in_dim(const Operand& x, const Operand& start, std::int64_t size, std::int64_t axis) {
  std::int64_t d = program::axis_of("dynamic_slice_in_dim", axis, x.array().ndim());
  Shape sizes = x.array().shape();
  sizes[at(d)] = size;
  return dynamic_slice(x, start_at(x, start, d), sizes);
}
Array dynamic_index_in_dim(const Operand& x, const Operand& index, std::int64_t axis, bool keepdims) {
  Array y = dynamic_slice_in_dim(x, index, 1, axis);
  return keepdims ? y : lax::squeeze(Operand(y, x.loc()), {program::axis_of("dynamic_index_in_dim", axis, y.ndim())});
}
Array dynamic_update_slice(const Operand& x, const Operand& update, const std::vector<Array>& starts) {
  Array u = program::cast(update.array(), x.array().dtype(), false, x.loc());
  return graph_fragment1(
      "dynamic_update_slice", x.loc(), with_starts_from_end("dynamic_update_slice", {x.array(), u}, starts, x.loc()),
      [&](Builder&, const Values& v) { return ops::dynamic_update_slice(v[0], v[1], ir::ValueSpan(v).subspan(2)); });
}
Array dynamic_update_slice_in_dim(const Operand& x, const Operand& update, const Operand& start, std::int64_t axis) {
  return dynamic_update_slice(
      x, update, start_at(x, start, program::axis_of("dynamic_update_slice_in_dim", axis, x.array().ndim())));
}
Array dynamic_update_index_in_dim(const Operand& x, const Operand& update, const Operand& index, std::int64_t axis) {
  std::int64_t d = program::axis_of("dynamic_update_index_in_dim", axis, x.array().ndim());
  Array u = update.array();
  if (u.ndim() != x.array().ndim()) u = lax::expand_dims(update, {d});
  return dynamic_update_slice_in_dim(x, Operand(u, x.loc()), index, d);
}

}  // namespace tessera::lax
