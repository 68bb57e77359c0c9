// SPDX-License-Identifier: Apache-2.0
#include "tessera/indexing.h"

#include <algorithm>
#include <numeric>

#include "api/compose.h"
#include "api/promote.h"
#include "ops/indexing.h"
#include "tessera/lax.h"
#include "tessera/numpy.h"
#include "tessera/ops.h"

namespace tessera {

namespace {

using ir::Value;
using ir::Values;

std::size_t at_(std::int64_t i) { return static_cast<std::size_t>(i); }
Operand on(const Array& a, const Loc& loc) { return Operand(a, loc.file, loc.line); }

// Bool arrays become the integer arrays of their true positions, one for each of their dimensions.
IndexItems without_masks(const Shape& shape, const IndexItems& items, const Loc& loc) {
  IndexItems out;
  std::int64_t dim = 0;
  for (const auto& item : items) {
    if (item.kind() == IndexItem::Kind::Ellipsis) {
      std::int64_t used = 0;
      for (const auto& other : items) {
        if (other.kind() == IndexItem::Kind::Ellipsis || other.kind() == IndexItem::Kind::NewAxis) continue;
        used += other.kind() == IndexItem::Kind::Array && is_bool(other.array().dtype()) ? other.array().ndim() : 1;
      }
      dim += rank(shape) - used;
      out.push_back(item);
      continue;
    }
    if (item.kind() != IndexItem::Kind::Array || !is_bool(item.array().dtype())) {
      dim += item.kind() == IndexItem::Kind::NewAxis ? 0 : 1;
      out.push_back(item);
      continue;
    }
    const Array& mask = item.array();
    for (std::int64_t k = 0; k < mask.ndim(); ++k) {
      if (dim + k >= rank(shape) || shape[at_(dim + k)] != mask.shape(k)) {
        throw IndexError(str("index: a bool array of shape ", mask.shape(), " at dimension ", dim, " of shape ", shape,
                             "; expected the extents it selects from"));
      }
    }
    HostArray values = mask.host(loc);
    std::vector<std::vector<std::int32_t>> where(at_(mask.ndim()));
    auto flags = values.span<bool>();
    for (std::size_t i = 0; i < flags.size(); ++i) {
      if (!flags[i]) continue;
      auto rest = static_cast<std::int64_t>(i);
      for (std::int64_t k = mask.ndim(); k-- > 0;) {
        where[at_(k)].push_back(static_cast<std::int32_t>(rest % mask.shape(k)));
        rest /= mask.shape(k);
      }
    }
    for (const auto& w : where) out.emplace_back(Array(HostArray::from(w)));
    dim += mask.ndim();
  }
  return out;
}

// Items with the ellipsis written out, one for every dimension, new axes in between.
IndexItems full_items(const Shape& shape, const IndexItems& items) {
  std::int64_t used = 0;
  std::int64_t dots = 0;
  for (const auto& i : items) {
    if (i.kind() == IndexItem::Kind::Ellipsis) {
      ++dots;
    } else if (i.kind() != IndexItem::Kind::NewAxis) {
      ++used;
    }
  }
  if (dots > 1) throw IndexError("index: more than one ellipsis");
  if (used > rank(shape))
    throw IndexError(str("index: ", used, " items for shape ", shape, "; expected at most ", rank(shape)));
  IndexItems out;
  for (const auto& i : items) {
    if (i.kind() == IndexItem::Kind::Ellipsis) {
      out.insert(out.end(), at_(rank(shape) - used), IndexItem(Span{}));
    } else {
      out.push_back(i);
    }
  }
  if (dots == 0) out.insert(out.end(), at_(rank(shape) - used), IndexItem(Span{}));
  return out;
}

struct Range {
  std::int64_t start, count, step;
};
// Python's slice.indices.
Range resolve(const Span& s, std::int64_t n) {
  if (s.step == 0) throw IndexError("index: a range has step 0; expected another number");
  auto bound = [&](std::optional<std::int64_t> v, std::int64_t otherwise) {
    if (!v) return otherwise;
    std::int64_t i = *v < 0 ? *v + n : *v;
    return s.step > 0 ? std::clamp<std::int64_t>(i, 0, n) : std::clamp<std::int64_t>(i, -1, n - 1);
  };
  std::int64_t start = bound(s.start, s.step > 0 ? 0 : n - 1);
  std::int64_t stop = bound(s.stop, s.step > 0 ? n : -1);
  std::int64_t count = s.step > 0 ? (stop - start + s.step - 1) / s.step : (start - stop - s.step - 1) / -s.step;
  return {start, std::max<std::int64_t>(count, 0), s.step};
}

}  // namespace

Array index(const Operand& x, const IndexItems& given) {
  const Loc& loc = x.loc();
  Shape shape = api::type_of(x.array(), "index").shape;
  IndexItems items = full_items(shape, without_masks(shape, given, loc));
  bool advanced =
      std::any_of(items.begin(), items.end(), [](const auto& i) { return i.kind() == IndexItem::Kind::Array; });
  if (advanced) {
    // Beside arrays a number is an array of rank 0: one rule for where results stand.
    std::int64_t dim = 0;
    for (auto& item : items) {
      if (item.kind() == IndexItem::Kind::Number) {
        std::int64_t n = shape[at_(dim)];
        if (item.number() < -n || item.number() >= n) {
          throw IndexError(str("index: number ", item.number(), " for dimension ", dim, " of shape ", shape,
                               "; expected -", n, "..", n - 1));
        }
        item = IndexItem(api::cast(Array(item.number()), int32, false, loc));
      }
      if (item.kind() != IndexItem::Kind::NewAxis) ++dim;
    }
  }

  // First the ranges and numbers, as one static slice; a reversed range is turned round afterwards.
  Dims starts;
  Dims limits;
  Dims strides;
  Dims reversed;
  std::vector<Array> arrays;
  Dims array_dims;
  std::int64_t d = 0;
  for (const auto& item : items) {
    if (item.kind() == IndexItem::Kind::NewAxis) continue;
    std::int64_t n = shape[at_(d)];
    Range r{0, n, 1};
    if (item.kind() == IndexItem::Kind::Number) {
      std::int64_t i = item.number() < 0 ? item.number() + n : item.number();
      if (i < 0 || i >= n) {
        throw IndexError(str("index: number ", item.number(), " for dimension ", d, " of shape ", shape, "; expected -",
                             n, "..", n - 1));
      }
      r = {i, 1, 1};
    } else if (item.kind() == IndexItem::Kind::Range) {
      r = resolve(item.range(), n);
    } else {
      if (!is_integer(item.array().dtype())) {
        throw TypeError(
            str("index: an index array has dtype ", dtype_name(item.array().dtype()), "; expected integers or bool"));
      }
      arrays.push_back(item.array());
      array_dims.push_back(d);
    }
    std::int64_t step = std::abs(r.step);
    std::int64_t low = r.step > 0 || r.count == 0 ? r.start : r.start + (r.count - 1) * r.step;
    low = std::clamp<std::int64_t>(low, 0, n);
    starts.push_back(low);
    limits.push_back(r.count == 0 ? low : low + (r.count - 1) * step + 1);
    strides.push_back(step);
    if (r.step < 0 && r.count > 1) reversed.push_back(d);
    ++d;
  }
  Array y = x.array();
  bool whole = true;
  for (std::size_t k = 0; k < starts.size(); ++k)
    whole = whole && starts[k] == 0 && limits[k] == shape[k] && strides[k] == 1;
  if (!whole) y = lax::slice(on(y, loc), starts, limits, strides);
  if (!reversed.empty()) y = lax::rev(on(y, loc), reversed);

  // Then the arrays, by one gather over their dimensions.
  std::int64_t picked_rank = 0;
  std::int64_t picked_at = 0;
  bool in_front = false;
  if (!arrays.empty()) {
    std::vector<Shape> shapes;
    for (const auto& a : arrays) shapes.push_back(a.shape());
    Shape common = api::broadcast_shapes("index", shapes);
    picked_rank = rank(common);
    std::vector<Array> in{y};
    for (auto& a : arrays) in.push_back(broadcast_to(on(api::cast(a, int32, false, loc), loc), common));
    // Neighbouring array items leave their result where they stood, others in front.
    bool apart = false;
    std::int64_t first = -1;
    std::int64_t last = -1;
    std::int64_t place = 0;
    for (const auto& item : items) {
      bool array = item.kind() == IndexItem::Kind::Array;
      if (array && last >= 0 && place != last + 1) apart = true;
      if (array && first < 0) first = place;
      if (array) last = place;
      ++place;
    }
    ops::Gather g;
    Shape y_shape = y.shape();
    g.slice_sizes = y_shape;
    for (auto k : array_dims) g.slice_sizes[at_(k)] = std::min<std::int64_t>(1, y_shape[at_(k)]);
    g.collapsed_slice_dims = array_dims;
    g.start_index_map = array_dims;
    g.mode = ops::IndexMode::FillOrDrop;
    // Dimensions of y before the first advanced item come before the result of the arrays.
    std::int64_t before = 0;
    std::int64_t dims_before_first = 0;
    if (!apart) {
      std::int64_t k = 0;
      for (std::int64_t i = 0; i < first; ++i) {
        if (items[at_(i)].kind() == IndexItem::Kind::NewAxis) continue;
        ++k;
      }
      dims_before_first = k;
    }
    for (std::int64_t k = 0, out = 0; k < rank(y_shape); ++k) {
      if (std::find(array_dims.begin(), array_dims.end(), k) != array_dims.end()) continue;
      g.offset_dims.push_back(k < dims_before_first ? out : out + picked_rank);
      if (k < dims_before_first) ++before;
      ++out;
    }
    picked_at = before;
    in_front = apart;
    y = api::compose1("index", loc, in, [&](ir::Builder& b, const Values& v) {
      Values columns;
      for (std::size_t k = 1; k < v.size(); ++k) {
        Value i = v[k];
        auto n = static_cast<double>(y_shape[at_(array_dims[k - 1])]);
        i = ops::where(ops::lt(i, ops::scalar(b, 0, DType::I32)), i + n, i);
        columns.push_back(ops::expand_dims(i, {picked_rank}));
      }
      return ops::gather(v[0], ops::concatenate(columns, picked_rank), g);
    });
  }

  // Last the dropped numbers and the new axes, as one reshape.
  Shape result;
  std::int64_t out = 0;
  bool placed = arrays.empty();
  auto put_picked = [&] {
    for (std::int64_t k = 0; k < picked_rank; ++k) result.push_back(y.shape()[at_(picked_at + k)]);
    out += picked_rank;
    placed = true;
  };
  if (in_front) put_picked();
  for (const auto& item : items) {
    if (item.kind() == IndexItem::Kind::NewAxis) {
      result.push_back(1);
      continue;
    }
    if (item.kind() == IndexItem::Kind::Array) {
      if (!placed) put_picked();
    } else if (item.kind() == IndexItem::Kind::Number) {
      ++out;  // of extent 1
    } else {
      result.push_back(y.shape()[at_(out++)]);
    }
  }
  return reshape(on(y, loc), result);
}

namespace {

using Write = Value (*)(Value, Value, Value, const ops::Scatter&);

// The flat positions that the index names, by indexing the numbers 0, 1, …; then one scatter into the flattened array.
Array write(const char* name, Write f, const Operand& x, const IndexItems& items, const Operand& update) {
  const Loc& loc = x.loc();
  Shape shape = api::type_of(x.array(), name).shape;
  std::int64_t n = size_of(shape);
  Array positions = index(on(reshape(on(iota(int32, {n}, 0, loc), loc), shape), loc), items);
  Array u = api::cast(update.array(), x.array().dtype(), false, loc);
  u = broadcast_to(on(u, loc), positions.shape());
  // Only arrays can name an element twice.
  const bool unique =
      std::none_of(items.begin(), items.end(), [](const IndexItem& i) { return i.kind() == IndexItem::Kind::Array; });
  Array flat = reshape(x, {n});
  Array y = api::compose1(name, loc, {flat, reshape(on(positions, loc), {-1}), reshape(on(u, loc), {-1})},
                          [&](ir::Builder&, const Values& v) {
                            ops::Scatter s;
                            s.inserted_window_dims = {0};
                            s.scatter_dims_to_operand_dims = {0};
                            s.mode = ops::IndexMode::FillOrDrop;
                            s.unique_indices = unique;
                            return f(v[0], ops::expand_dims(v[1], {1}), v[2], s);
                          });
  return reshape(on(y, loc), shape);
}

}  // namespace

Array IndexUpdate::set(const Operand& v) const { return write("set", ops::scatter, x_, items_, v); }
Array IndexUpdate::add(const Operand& v) const { return write("add", ops::scatter_add, x_, items_, v); }
Array IndexUpdate::subtract(const Operand& v) const {
  return write("subtract", ops::scatter_add, x_, items_, on(negative(v), v.loc()));
}
Array IndexUpdate::multiply(const Operand& v) const { return write("multiply", ops::scatter_mul, x_, items_, v); }
Array IndexUpdate::min(const Operand& v) const { return write("min", ops::scatter_min, x_, items_, v); }
Array IndexUpdate::max(const Operand& v) const { return write("max", ops::scatter_max, x_, items_, v); }

}  // namespace tessera
