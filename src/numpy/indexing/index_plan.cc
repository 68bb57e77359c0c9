// SPDX-License-Identifier: Apache-2.0
#include "numpy/indexing/index_plan.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "base/index.h"
#include "program/graph_fragment.h"
#include "tessera/lax.h"
#include "tessera/numpy.h"
#include "tessera/ops.h"

namespace tessera::program {

namespace {

using Kind = IndexItem::Kind;

bool is_mask(const IndexItem& i) { return i.kind() == Kind::Array && is_bool(i.array().dtype()); }

// One integer array for each dimension of a bool array: where it is true.
void append_true_places(IndexItems& out, const Array& mask, const Loc& loc) {
  HostArray values = mask.host(loc);
  std::vector<std::vector<std::int32_t>> where(at(mask.ndim()));
  auto flags = values.span<bool>();
  for (std::size_t i = 0; i < flags.size(); ++i) {
    if (!flags[i]) continue;
    auto rest = static_cast<std::int64_t>(i);
    for (std::int64_t k = mask.ndim(); k-- > 0;) {
      where[at(k)].push_back(static_cast<std::int32_t>(rest % mask.shape(k)));
      rest /= mask.shape(k);
    }
  }
  for (const auto& w : where) out.emplace_back(Array(HostArray::from(w)));
}

// Items with the ellipsis written out, one for every dimension (bool arrays for as many as they have), new axes in
// between.
IndexItems full_items(const Shape& shape, const IndexItems& items) {
  std::int64_t used = 0;
  std::int64_t dots = 0;
  for (const auto& i : items) {
    dots += i.kind() == Kind::Ellipsis;
    used += is_mask(i) ? i.array().ndim() : i.kind() == Kind::Ellipsis || i.kind() == Kind::NewAxis ? 0 : 1;
  }
  if (dots > 1) throw IndexError("index: more than one ellipsis");
  if (used > rank(shape)) {
    throw IndexError(str("index: ", used, " items for shape ", shape, "; expected at most ", rank(shape)));
  }
  IndexItems out;
  for (const auto& i : items) {
    if (i.kind() == Kind::Ellipsis) {
      out.insert(out.end(), at(rank(shape) - used), IndexItem(Span{}));
    } else {
      out.push_back(i);
    }
  }
  if (dots == 0) out.insert(out.end(), at(rank(shape) - used), IndexItem(Span{}));
  return out;
}

// Bool arrays become the integer arrays of their true places.
IndexItems without_masks(const Shape& shape, const IndexItems& items, const Loc& loc) {
  IndexItems out;
  std::int64_t dim = 0;
  for (const auto& item : items) {
    if (!is_mask(item)) {
      dim += item.kind() == Kind::NewAxis ? 0 : 1;
      out.push_back(item);
      continue;
    }
    const Array& mask = item.array();
    for (std::int64_t k = 0; k < mask.ndim(); ++k) {
      if (shape[at(dim + k)] != mask.shape(k)) {
        throw IndexError(str("index: a bool array of shape ", mask.shape(), " at dimension ", dim, " of shape ", shape,
                             "; expected the extents it selects from"));
      }
    }
    append_true_places(out, mask, loc);
    dim += mask.ndim();
  }
  return out;
}

std::int64_t checked_number(std::int64_t i, std::int64_t dim, const Shape& shape) {
  std::int64_t n = shape[at(dim)];
  if (i < -n || i >= n) {
    throw IndexError(
        str("index: number ", i, " for dimension ", dim, " of shape ", shape, "; expected -", n, "..", n - 1));
  }
  return i < 0 ? i + n : i;
}

// Beside arrays a number is an array of rank 0: one rule for where results stand.
void numbers_to_arrays(IndexItems& items, const Shape& shape, const Loc& loc) {
  std::int64_t dim = 0;
  for (auto& item : items) {
    if (item.kind() == Kind::Number) {
      item = IndexItem(cast(Array(checked_number(item.number(), dim, shape)), int32, false, loc));
    }
    dim += item.kind() == Kind::NewAxis ? 0 : 1;
  }
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

void add_range(IndexPlan& p, const Range& r, std::int64_t d) {
  std::int64_t n = p.operand[at(d)];
  std::int64_t step = std::abs(r.step);
  std::int64_t low = r.step > 0 || r.count == 0 ? r.start : r.start + (r.count - 1) * r.step;
  low = std::clamp<std::int64_t>(low, 0, n);
  p.starts.push_back(low);
  p.limits.push_back(r.count == 0 ? low : low + (r.count - 1) * step + 1);
  p.strides.push_back(step);
  p.sliced.push_back(r.count);
  if (r.step < 0 && r.count > 1) p.reversed.push_back(d);
  p.whole = p.whole && r.count == n && r.step == 1;
}

// The static slice, and the arrays.
void plan_items(IndexPlan& p, const IndexItems& items) {
  std::int64_t d = 0;
  for (const auto& item : items) {
    if (item.kind() == Kind::NewAxis) continue;
    std::int64_t n = p.operand[at(d)];
    Range r{0, n, 1};
    if (item.kind() == Kind::Number) {
      r = {checked_number(item.number(), d, p.operand), 1, 1};
    } else if (item.kind() == Kind::Range) {
      r = resolve(item.range(), n);
    } else {
      if (!is_integer(item.array().dtype())) {
        throw TypeError(
            str("index: an index array has dtype ", dtype_name(item.array().dtype()), "; expected integers or bool"));
      }
      p.arrays.push_back(item.array());
      p.array_dims.push_back(d);
    }
    add_range(p, r, d);
    ++d;
  }
}

// Whether something stands between two array items: their result then goes in front.
bool arrays_apart(const IndexItems& items) {
  std::int64_t last = -1;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(items.size()); ++i) {
    if (items[at(i)].kind() != Kind::Array) continue;
    if (last >= 0 && i != last + 1) return true;
    last = i;
  }
  return false;
}

void plan_gather(IndexPlan& p, bool apart) {
  p.gathered = p.sliced;
  if (p.arrays.empty()) return;
  std::vector<Shape> shapes;
  for (const auto& a : p.arrays) shapes.push_back(a.shape());
  p.picked = broadcast_shapes("index", shapes);
  auto& g = p.gather;
  g.slice_sizes = p.sliced;
  for (auto k : p.array_dims) g.slice_sizes[at(k)] = std::min<std::int64_t>(1, p.sliced[at(k)]);
  g.collapsed_slice_dims = p.array_dims;
  g.start_index_map = p.array_dims;
  // Dimensions before the first array come before what the arrays give.
  std::int64_t before = apart ? 0 : p.array_dims[0];
  p.gathered.clear();
  for (std::int64_t k = 0; k < rank(p.sliced); ++k) {
    if (k == before) p.gathered.insert(p.gathered.end(), p.picked.begin(), p.picked.end());
    if (std::find(p.array_dims.begin(), p.array_dims.end(), k) != p.array_dims.end()) continue;
    g.offset_dims.push_back(rank(p.gathered));
    p.gathered.push_back(p.sliced[at(k)]);
  }
}

void plan_result(IndexPlan& p, const IndexItems& items, bool apart) {
  std::int64_t out = 0;  // of `gathered`
  bool placed = p.arrays.empty();
  auto take = [&](std::int64_t count) {
    for (; count > 0; --count) p.result.push_back(p.gathered[at(out++)]);
  };
  auto put_picked = [&] {
    if (!placed) take(rank(p.picked));
    placed = true;
  };
  if (apart) put_picked();
  for (const auto& item : items) {
    if (item.kind() == Kind::NewAxis) {
      p.result.push_back(1);
    } else if (item.kind() == Kind::Array) {
      put_picked();
    } else if (item.kind() == Kind::Number) {
      ++out;  // of extent 1
    } else {
      take(1);
    }
  }
}

}  // namespace

IndexPlan plan_index(const Shape& shape, const IndexItems& given, const Loc& loc) {
  IndexItems items = without_masks(shape, full_items(shape, given), loc);
  auto is_array = [](const IndexItem& i) { return i.kind() == Kind::Array; };
  if (std::any_of(items.begin(), items.end(), is_array)) numbers_to_arrays(items, shape, loc);
  IndexPlan p;
  p.operand = shape;
  plan_items(p, items);
  const bool apart = arrays_apart(items);
  plan_gather(p, apart);
  plan_result(p, items, apart);
  return p;
}

Array index_vectors(const IndexPlan& p, const Arrays& arrays, bool wrap_negative) {
  constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();
  const bool small = std::all_of(p.operand.begin(), p.operand.end(), [](auto n) { return n < kLargest; });
  const DType dtype = small ? int32 : int64;
  Arrays columns;
  for (std::size_t k = 0; k < arrays.size(); ++k) {
    Array i = as(arrays[k], arrays[k].dtype());
    // Numbers that int32 does not hold stay outside.
    const bool wide = i.dtype() == uint32 || i.dtype() == uint64 || i.dtype() == int64;
    if (small && wide) {
      i = minimum(i, as(Array(kLargest), i.dtype()));
      if (i.dtype() == int64) i = maximum(i, as(Array(-kLargest - 1), int64));
    }
    i = as(i, dtype);
    if (wrap_negative && !is_unsigned_int(arrays[k].dtype())) {
      i = where(i < 0, i + as(Array(p.operand[at(p.array_dims[k])]), dtype), i);
    }
    columns.push_back(lax::expand_dims(broadcast_to(i, p.picked), {rank(p.picked)}));
  }
  return lax::concatenate(columns, rank(p.picked));
}

Array sliced(const IndexPlan& p, const Array& x) {
  if (p.whole) return x;
  Array y = lax::slice(x, p.starts, p.limits, p.strides);
  return p.reversed.empty() ? y : lax::rev(y, p.reversed);
}

ops::IndexMode mode_of(IndexMode mode) { return static_cast<ops::IndexMode>(mode); }
static_assert(static_cast<int>(IndexMode::FillOrDrop) == static_cast<int>(ops::IndexMode::FillOrDrop));

}  // namespace tessera::program
