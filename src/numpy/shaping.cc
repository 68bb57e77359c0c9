// SPDX-License-Identifier: Apache-2.0
#include "tessera/shaping.h"

#include <algorithm>
#include <numeric>

#include "base/index.h"
#include "numpy/placed.h"
#include "ops/shape/indexing_ops.h"
#include "program/composite.h"
#include "program/graph_fragment.h"
#include "tessera/creation.h"
#include "tessera/indexing.h"
#include "tessera/lax.h"
#include "tessera/numpy.h"

namespace tessera {

using program::Arrays;
using program::composite;
using program::composites;
using program::cut;

namespace {
// Repeated elements go to other devices than those that they come from.
void check_repeated(const Array& x, std::int64_t d) {
  if (program::is_split(program::checked_sharding(x, "repeat"), d)) {
    throw ValueError(
        str("repeat: dimension ", d, " of ", program::type_of(x, "repeat"), " is split; expected out_sharding"));
  }
}
}  // namespace

// --- repeating and turning ----------------------------------------------------------------------------------------

Array repeat(const Operand& x, std::int64_t repeats, std::optional<std::int64_t> axis) {
  if (repeats < 0) throw ValueError(str("repeat: repeats = ", repeats, "; expected no negative count"));
  return composite("repeat", {x}, [&](const Arrays& v) {
    Array a = axis ? v[0] : ravel(v[0]);
    const std::int64_t d = program::axis_of("repeat", axis.value_or(0), a.ndim());
    check_repeated(a, d);
    Shape wide = a.shape();
    wide.insert(wide.begin() + d + 1, repeats);
    Shape out = a.shape();
    out[at(d)] *= repeats;
    return reshape(broadcast_to(lax::expand_dims(a, {d + 1}), wide), out);
  });
}
Array repeat(const Operand& x, const Array& repeats, std::optional<std::int64_t> axis,
             std::optional<std::int64_t> total) {
  if (repeats.ndim() > 1)
    throw ValueError(str("repeat: repeats has shape ", repeats.shape(), "; expected rank 0 or 1"));
  // Without a length the counts are read now, which throws under a trace.
  std::int64_t n = total.value_or(0);
  if (!total) {
    HostArray counts = repeats.host(x.loc()).astype(int64);
    auto c = counts.span<std::int64_t>();
    for (auto k : c) {
      if (k < 0) throw ValueError(str("repeat: repeats has ", k, "; expected no negative count"));
    }
    n = std::accumulate(c.begin(), c.end(), std::int64_t{0});
    if (c.size() == 1) return repeat(x, c[0], axis);
  }
  return composite("repeat", {x, Operand(repeats, x.loc())}, [&](const Arrays& v) {
    Array a = axis ? v[0] : ravel(v[0]);
    const std::int64_t d = program::axis_of("repeat", axis.value_or(0), a.ndim());
    check_repeated(a, d);
    Array counts = broadcast_to(program::as(v[1], int32), {a.shape(d)});
    // Which element each place shows: how many runs have begun there, less one.
    Array ends = lax::cumsum(counts, 0);
    Array which = searchsorted(ends, iota(int32, {n}), true);
    return take(a, clip(which, 0, a.shape(d) - 1), d, TakeMode::Clip);
  });
}
Array roll(const Operand& x, const Dims& shift, const Dims& axis) {
  if (shift.size() != axis.size() && shift.size() != 1) {
    throw ValueError(str("roll: ", shift.size(), " amounts for ", axis.size(), " axes"));
  }
  return composite("roll", {x}, [&](const Arrays& v) {
    Array y = v[0];
    for (std::size_t i = 0; i < axis.size(); ++i) y = roll(y, shift[shift.size() == 1 ? 0 : i], axis[i]);
    return y;
  });
}
Array fliplr(const Operand& x) { return flip(x, Dims{1}); }
Array flipud(const Operand& x) { return flip(x, Dims{0}); }
Array rot90(const Operand& x, std::int64_t k, std::pair<std::int64_t, std::int64_t> axes) {
  const std::int64_t r = x.array().ndim();
  const std::int64_t a = program::axis_of("rot90", axes.first, r);
  const std::int64_t b = program::axis_of("rot90", axes.second, r);
  if (a == b) throw ValueError(str("rot90: axes = (", axes.first, ", ", axes.second, "); expected two axes"));
  return composite("rot90", {x}, [&](const Arrays& v) {
    switch (((k % 4) + 4) % 4) {
      case 0:
        return v[0];
      case 1:
        return swapaxes(flip(v[0], Dims{b}), a, b);
      case 2:
        return flip(v[0], Dims{a, b});
      default:
        return flip(swapaxes(v[0], a, b), Dims{b});
    }
  });
}
Array rollaxis(const Operand& x, std::int64_t axis, std::int64_t start) {
  const std::int64_t r = x.array().ndim();
  const std::int64_t from = program::axis_of("rollaxis", axis, r);
  if (start < -r || start > r) throw ValueError(str("rollaxis: start = ", start, "; expected -", r, "..", r));
  std::int64_t to = start < 0 ? start + r : start;
  if (to > from) --to;
  return moveaxis(x, {from}, {to});
}
Array matrix_transpose(const Operand& x) {
  if (x.array().ndim() < 2) throw ValueError(str("matrix_transpose: shape ", x.array().shape(), "; expected rank 2"));
  return swapaxes(x, -1, -2);
}
Array permute_dims(const Operand& x, const Dims& axes) { return transpose(x, axes); }
Array atleast_1d(const Operand& x) { return x.array().ndim() > 0 ? arrays::materialize(x.array()) : reshape(x, {1}); }
Array atleast_2d(const Operand& x) {
  const Array& a = x.array();
  return a.ndim() > 1 ? a : reshape(x, a.ndim() == 0 ? Shape{1, 1} : Shape{1, a.shape(0)});
}
Array atleast_3d(const Operand& x) {
  const Array& a = x.array();
  if (a.ndim() > 2) return a;
  return reshape(x, a.ndim() == 0   ? Shape{1, 1, 1}
                    : a.ndim() == 1 ? Shape{1, a.shape(0), 1}
                                    : Shape{a.shape(0), a.shape(1), 1});
}
std::vector<Array> broadcast_arrays(const std::vector<Array>& arrays, const Loc& loc) {
  return composites("broadcast_arrays", loc, arrays, [](const Arrays& v) {
    std::vector<Shape> shapes;
    for (const auto& a : v) shapes.push_back(a.shape());
    const Shape shape = program::broadcast_shapes("broadcast_arrays", shapes);
    Arrays out;
    for (const auto& a : v) out.push_back(broadcast_to(a, shape));
    return out;
  });
}
Array resize(const Operand& x, const Shape& shape) {
  const std::int64_t n = size_of(shape);
  return composite("resize", {x}, [&](const Arrays& v) {
    Array flat = ravel(v[0]);
    if (n == 0 || flat.size() == 0) return zeros(shape, flat.dtype());
    return reshape(cut(tile(flat, {(n + flat.size() - 1) / flat.size()}), 0, n, 0), shape);
  });
}

// --- joining and splitting ----------------------------------------------------------------------------------------

namespace {
Array join(const char* name, const std::vector<Array>& arrays, const Loc& loc, Array (*widen)(const Operand&),
           std::int64_t axis) {
  if (arrays.empty()) throw ValueError(str(name, ": arrays is empty; expected at least one"));
  return composite(name, loc, arrays, [&](const Arrays& v) {
    Arrays parts;
    for (const auto& a : v) parts.push_back(widen(a));
    return concatenate(parts, parts[0].ndim() == 1 ? 0 : axis);
  });
}
Array as_column(const Operand& x) {
  const Array& a = x.array();
  return a.ndim() > 1 ? a : reshape(x, {a.size(), 1});
}
}  // namespace

Array hstack(const std::vector<Array>& arrays, const Loc& loc) { return join("hstack", arrays, loc, atleast_1d, 1); }
Array vstack(const std::vector<Array>& arrays, const Loc& loc) { return join("vstack", arrays, loc, atleast_2d, 0); }
Array dstack(const std::vector<Array>& arrays, const Loc& loc) { return join("dstack", arrays, loc, atleast_3d, 2); }
Array column_stack(const std::vector<Array>& arrays, const Loc& loc) {
  return join("column_stack", arrays, loc, as_column, 1);
}
Array block(const std::vector<std::vector<Array>>& rows, const Loc& loc) {
  Arrays lines;
  for (const auto& row : rows) lines.push_back(concatenate(row, -1, loc));
  if (lines.size() == 1) return lines[0];
  return lines.empty() ? throw ValueError("block: rows is empty; expected at least one")
                       : join("block", lines, loc, atleast_2d, lines[0].ndim() > 1 ? lines[0].ndim() - 2 : 0);
}
Array append(const Operand& x, const Operand& values, std::optional<std::int64_t> axis) {
  return composite("append", {x, values}, [&](const Arrays& v) {
    return axis ? concatenate({v[0], v[1]}, *axis) : concatenate({ravel(v[0]), ravel(v[1])}, 0);
  });
}

namespace {
Dims places_of(const char* name, const Dims& indices, std::int64_t n, bool behind) {
  Dims out;
  for (auto i : indices) {
    if (i < -n || i >= n + (behind ? 1 : 0)) {
      throw IndexError(str(name, ": index ", i, "; expected -", n, "..", n - (behind ? 0 : 1)));
    }
    out.push_back(i < 0 ? i + n : i);
  }
  return out;
}
Array rows_of(const Dims& numbers) {
  std::vector<std::int32_t> v(numbers.begin(), numbers.end());
  return Array(HostArray::from(v));
}
}  // namespace

Array delete_(const Operand& x, const Dims& indices, std::optional<std::int64_t> axis) {
  return composite("delete", {x}, [&](const Arrays& v) {
    Array a = axis ? v[0] : ravel(v[0]);
    const std::int64_t d = program::axis_of("delete", axis.value_or(0), a.ndim());
    Dims gone = places_of("delete", indices, a.shape(d), false);
    Dims kept;
    for (std::int64_t i = 0; i < a.shape(d); ++i) {
      if (std::find(gone.begin(), gone.end(), i) == gone.end()) kept.push_back(i);
    }
    return take(a, rows_of(kept), d, TakeMode::Clip);
  });
}
Array insert(const Operand& x, const Dims& indices, const Operand& values, std::optional<std::int64_t> axis) {
  return composite("insert", {x, values}, [&](const Arrays& v) {
    Array a = axis ? v[0] : ravel(v[0]);
    const std::int64_t d = program::axis_of("insert", axis.value_or(0), a.ndim());
    Array news = program::as(v[1], a.dtype());
    news = program::with_leading(news, a.ndim() - news.ndim());
    Dims before = places_of("insert", indices, a.shape(d), true);
    if (before.size() == 1) before.resize(at(news.shape(d)), before[0]);
    Shape wide = a.shape();
    wide[at(d)] = static_cast<std::int64_t>(before.size());
    news = broadcast_to(news, wide);
    // Row numbers of both, one behind the other, in the order of the result.
    std::vector<std::pair<std::int64_t, std::int64_t>> order;
    for (std::size_t i = 0; i < before.size(); ++i)
      order.emplace_back(before[i] * 2, a.shape(d) + static_cast<std::int64_t>(i));
    for (std::int64_t i = 0; i < a.shape(d); ++i) order.emplace_back(i * 2 + 1, i);
    std::stable_sort(order.begin(), order.end(), [](const auto& l, const auto& r) { return l.first < r.first; });
    Dims rows;
    for (const auto& [place, row] : order) rows.push_back(row);
    return take(concatenate({a, news}, d), rows_of(rows), d, TakeMode::Clip);
  });
}
std::vector<Array> array_split(const Operand& x, std::int64_t sections, std::int64_t axis) {
  if (sections <= 0) throw ValueError(str("array_split: sections = ", sections, "; expected a positive count"));
  const std::int64_t d = program::axis_of("array_split", axis, x.array().ndim());
  const std::int64_t n = x.array().shape(d);
  Dims sizes(at(sections), n / sections);
  for (std::int64_t i = 0; i < n % sections; ++i) ++sizes[at(i)];
  return lax::split(x, sizes, d);
}
std::vector<Array> hsplit(const Operand& x, std::int64_t sections) {
  return split(x, sections, x.array().ndim() == 1 ? 0 : 1);
}
std::vector<Array> vsplit(const Operand& x, std::int64_t sections) { return split(x, sections, 0); }
std::vector<Array> dsplit(const Operand& x, std::int64_t sections) { return split(x, sections, 2); }
std::vector<Array> unstack(const Operand& x, std::int64_t axis) {
  return composites("unstack", {x}, [&](const Arrays& v) {
    const std::int64_t d = program::axis_of("unstack", axis, v[0].ndim());
    if (program::is_split(program::checked_sharding(v[0], "unstack"), d)) {
      throw ShardingTypeError(str("unstack: ", program::type_of(v[0], "unstack"), ": the dimension of unstacking, ", d,
                                  ", is split; reshard the operand first"));
    }
    Arrays out;
    for (std::int64_t i = 0; i < v[0].shape(d); ++i) out.push_back(program::pick(v[0], i, d));
    return out;
  });
}

// --- diagonals ----------------------------------------------------------------------------------------------------

Array diagonal(const Operand& x, std::int64_t offset) { return diagonal(x, DiagonalOptions{.offset = offset}); }
Array diagonal(const Operand& x, const DiagonalOptions& o) {
  const std::int64_t r = x.array().ndim();
  if (r < 2) throw ValueError(str("diagonal: shape ", x.array().shape(), "; expected at least rank 2"));
  const std::int64_t row = program::axis_of("diagonal", o.axis1, r);
  const std::int64_t column = program::axis_of("diagonal", o.axis2, r);
  if (row == column) throw ValueError(str("diagonal: axis1 = axis2 = ", row, "; expected two axes"));
  return composite("diagonal", {x}, [&](const Arrays& v) {
    Array a = moveaxis(v[0], {row, column}, {r - 2, r - 1});
    const std::int64_t n = std::min(a.shape(r - 2) + std::min<std::int64_t>(o.offset, 0),
                                    a.shape(r - 1) - std::max<std::int64_t>(o.offset, 0));
    Array i = arange(std::max<std::int64_t>(0, n));
    Array rows = o.offset < 0 ? i - o.offset : i;
    Array columns = o.offset > 0 ? i + o.offset : i;
    return index(a, {ellipsis, rows, columns}, {.mode = IndexMode::Clip, .unique_indices = true});
  });
}
Array trace(const Operand& x, const DiagonalOptions& o, std::optional<DType> dtype) {
  return composite("trace", {x}, [&](const Arrays& v) {
    return sum(diagonal(v[0], o), ReduceOptions{.axis = Dims{-1}, .dtype = dtype});
  });
}
Array fill_diagonal(const Operand& x, const Operand& value) {
  const Shape shape = x.array().shape();
  if (shape.size() < 2) throw ValueError(str("fill_diagonal: shape ", shape, "; expected at least rank 2"));
  if (shape.size() > 2 && std::any_of(shape.begin(), shape.end(), [&](auto n) { return n != shape[0]; })) {
    throw ValueError(str("fill_diagonal: shape ", shape, "; expected equal extents"));
  }
  return composite("fill_diagonal", {x, value}, [&](const Arrays& v) {
    const std::int64_t n = *std::min_element(shape.begin(), shape.end());
    Array i = arange(n);
    Array u = v[1].ndim() == 0 ? v[1] : resize(v[1], {n});
    return at(v[0], IndexItems(shape.size(), IndexItem(i))).set(u, {.unique_indices = true});
  });
}

Array put_along_axis(const Operand& x, const Operand& indices, const Operand& values, std::int64_t axis) {
  return composite("put_along_axis", {x, indices, values}, [&](const Arrays& v) {
    const std::int64_t d = program::axis_of("put_along_axis", axis, v[0].ndim());
    if (v[1].ndim() != v[0].ndim()) {
      throw ValueError(
          str("put_along_axis: indices have shape ", v[1].shape(), " and x ", v[0].shape(), "; expected equal ranks"));
    }
    Shape wide = v[0].shape();
    wide[at(d)] = v[1].shape(d);
    ops::Scatter s;
    for (std::int64_t k = 0; k < v[0].ndim(); ++k) {
      if (k != d) s.operand_batching_dims.push_back(k);
    }
    s.indices_batching_dims = s.operand_batching_dims;
    s.inserted_window_dims = s.scatter_dims_to_operand_dims = {d};
    Array i = program::as(broadcast_to(v[1], wide), int32);
    i = where(i < 0, i + v[0].shape(d), i);
    Array u = broadcast_to(program::as(v[2], v[0].dtype()), wide);
    return program::graph_fragment1(
        "put_along_axis", Loc::current(), {v[0], lax::expand_dims(i, {v[0].ndim()}), u},
        [&](ir::Builder&, const ir::Values& w) { return ops::scatter(w[0], w[1], w[2], s); });
  });
}

}  // namespace tessera
