// SPDX-License-Identifier: Apache-2.0
#include "tessera/sets.h"

#include <algorithm>

#include "core/integer_range.h"
#include "program/composite.h"
#include "tessera/calculus.h"
#include "tessera/elementary.h"
#include "tessera/indexing.h"
#include "tessera/lax.h"
#include "tessera/numpy.h"

namespace tessera {

using program::Arrays;
using program::composite;
using program::composites;
using program::pick;

namespace {

// The extent asked for, or the number of true elements, read now.
std::int64_t size_or_count(const Operand& x, const SizeOptions& o) {
  if (o.size) return *o.size;
  if (is_bool(x.array().dtype())) {
    HostArray flags = x.array().host(x.loc());
    auto f = flags.span<bool>();
    return std::count(f.begin(), f.end(), true);
  }
  Array mask = x.array() != Operand(zeros({}, x.array().dtype(), x.loc()), x.loc());
  return size_or_count(Operand(mask, x.loc()), o);
}

// Flat places of the true elements of a flattened mask: the k-th is where the running count first reaches k + 1. Places
// beyond the count are the size of the mask.
Array true_places(const Array& mask, std::int64_t n) {
  Array count = lax::cumsum(astype(ravel(mask), int32), 0);
  return searchsorted(count, iota(int32, {n}) + 1);
}
Array filled(const Array& a, const Array& valid, const SizeOptions& o, double otherwise) {
  return where(valid, a, program::number_like(a, o.fill_value.value_or(otherwise)));
}

}  // namespace

std::vector<Array> nonzero(const Operand& x, const SizeOptions& o) {
  const std::int64_t n = size_or_count(x, o);
  return composites("nonzero", {x}, [&](const Arrays& v) {
    if (v[0].ndim() == 0) throw ValueError("nonzero: x has rank 0; expected at least 1");
    Array place = v[0].size() == 0 ? zeros({n}, int32) : true_places(v[0] != zeros({}, v[0].dtype()), n);
    Array valid = place < v[0].size();
    Arrays out;
    std::int64_t stride = v[0].size();
    for (std::int64_t d = 0; d < v[0].ndim(); ++d) {
      stride /= std::max<std::int64_t>(1, v[0].shape(d));
      Array i = floor_divide(place, std::max<std::int64_t>(1, stride)) % std::max<std::int64_t>(1, v[0].shape(d));
      out.push_back(filled(i, valid, o, 0));
    }
    return out;
  });
}
Array flatnonzero(const Operand& x, const SizeOptions& o) { return nonzero(Operand(ravel(x), x.loc()), o)[0]; }
Array argwhere(const Operand& x, const SizeOptions& o) { return stack(nonzero(x, o), 1, x.loc()); }

Array compress(const Operand& condition, const Operand& x, std::optional<std::int64_t> axis, const SizeOptions& o) {
  const std::int64_t n = size_or_count(condition, o);
  return composite("compress", {x, condition}, [&](const Arrays& v) {
    Array a = axis ? v[0] : ravel(v[0]);
    const std::int64_t d = program::axis_of("compress", axis.value_or(0), a.ndim());
    if (v[1].ndim() != 1 || v[1].shape(0) > a.shape(d)) {
      throw ValueError(
          str("compress: condition has shape ", v[1].shape(), "; expected at most ", a.shape(d), " elements"));
    }
    Array place = true_places(v[1] != zeros({}, v[1].dtype()), n);
    Array valid = place < v[1].shape(0);
    Shape line(a.shape().size(), 1);
    line[static_cast<std::size_t>(d)] = n;
    return filled(take(a, place, d, TakeMode::Clip), reshape(valid, line), o, 0);
  });
}
Array extract(const Operand& condition, const Operand& x, const SizeOptions& o) {
  return compress(Operand(ravel(condition), condition.loc()), x, std::nullopt, o);
}

// --- sets ---------------------------------------------------------------------------------------------------------

namespace {

struct Sorted {
  Array values, order, first;  ///< `first`: of its run of equal elements
};
Sorted sorted_runs(const Array& flat) {
  Arrays s = lax::sort({flat, iota(int32, {flat.shape(0)})}, 0, 1);
  const std::int64_t n = flat.shape(0);
  if (n == 0) return {s[0], s[1], zeros({0}, bool_)};
  Array a = program::cut(s[0], 1, n, 0);
  Array b = program::cut(s[0], 0, -1, 0);
  Array differs = a != b;
  if (is_inexact(flat.dtype())) differs = differs & ~(isnan(a) & isnan(b));  // NaNs count as one value
  return {s[0], s[1], concatenate({ones({1}, bool_), differs}, 0)};
}
// How many runs there are, read now.
std::int64_t count_runs(const Operand& x, const SizeOptions& o) {
  if (o.size) return *o.size;
  Array first = composite("unique", {x}, [](const Arrays& v) { return sorted_runs(ravel(v[0])).first; });
  return size_or_count(Operand(first, x.loc()), o);
}
// The sorted elements where `keep` holds, then the fill value (by default the smallest that is kept).
Array kept(const Array& sorted, const Array& keep, std::int64_t n, const SizeOptions& o) {
  if (sorted.shape(0) == 0) return full({n}, o.fill_value.value_or(0), sorted.dtype());
  Array place = true_places(keep, n);
  Array valid = place < sorted.shape(0);
  Array y = take(sorted, place, 0, TakeMode::Clip);
  if (n == 0) return y;
  Array otherwise = o.fill_value ? program::number_like(y, *o.fill_value)
                                 : where(pick(valid, 0, 0), pick(y, 0, 0), program::number_like(y, 0));
  return where(valid, y, otherwise);
}

}  // namespace

UniqueResult unique_all(const Operand& x, const SizeOptions& o) {
  const std::int64_t n = count_runs(x, o);
  Arrays out = composites("unique", {x}, [&](const Arrays& v) {
    Array flat = ravel(v[0]);
    const std::int64_t total = flat.shape(0);
    Sorted s = sorted_runs(flat);
    Array values = kept(s.values, s.first, n, o);
    if (total == 0) return Arrays{values, zeros({n}, int32), zeros(v[0].shape(), int32), zeros({n}, int32)};
    Array start = true_places(s.first, n + 1);  // the places beyond are `total`
    Array places = program::cut(start, 0, n, 0);
    Array valid = places < total;
    Array begin = where(valid, places, 0);
    Array run = lax::cumsum(astype(s.first, int32), 0) - 1;
    Array inverse = at(zeros({total}, int32), {s.order}).set(run, {.unique_indices = true});
    return Arrays{values, take(s.order, begin, 0, TakeMode::Clip), reshape(inverse, v[0].shape()), diff(start)};
  });
  return {out[0], out[1], out[2], out[3]};
}
Array unique(const Operand& x, const SizeOptions& o) {
  const std::int64_t n = count_runs(x, o);
  return composite("unique", {x}, [&](const Arrays& v) {
    Sorted s = sorted_runs(ravel(v[0]));
    return kept(s.values, s.first, n, o);
  });
}
std::pair<Array, Array> unique_counts(const Operand& x, const SizeOptions& o) {
  UniqueResult r = unique_all(x, o);
  return {r.values, r.counts};
}
std::pair<Array, Array> unique_inverse(const Operand& x, const SizeOptions& o) {
  UniqueResult r = unique_all(x, o);
  return {r.values, r.inverse};
}
Array isin(const Operand& x, const Operand& test, bool invert) {
  return composite("isin", {x, test}, [&](const Arrays& v) {
    Arrays p = program::promoted("isin", v);
    Array set = sort(ravel(p[1]));
    Array found = zeros(p[0].shape(), bool_);
    if (set.shape(0) > 0) {
      Array place = minimum(searchsorted(set, p[0]), set.shape(0) - 1);
      found = take(set, place, 0, TakeMode::Clip) == p[0];
    }
    return invert ? ~found : found;
  });
}

namespace {
// Elements of both, each once, sorted: those in both, or those in one alone.
Array combined(const char* name, const Operand& x, const Operand& y, const SizeOptions& o, bool in_both) {
  const Loc& loc = x.loc();
  auto marks = [&](const Arrays& v) {
    Arrays p = program::promoted(name, v);
    Sorted s = sorted_runs(concatenate({ravel(p[0]), ravel(p[1])}, 0));
    Array a = isin(s.values, p[0]);
    Array b = isin(s.values, p[1]);
    return Arrays{s.values, s.first & (in_both ? a & b : a ^ b)};
  };
  Arrays m = composites(name, {x, y}, marks);
  const std::int64_t n = size_or_count(Operand(m[1], loc), o);
  return composite(name, loc, m, [&](const Arrays& v) { return kept(v[0], v[1], n, o); });
}
}  // namespace

Array intersect1d(const Operand& x, const Operand& y, const SizeOptions& o) {
  return combined("intersect1d", x, y, o, true);
}
Array setxor1d(const Operand& x, const Operand& y, const SizeOptions& o) {
  return combined("setxor1d", x, y, o, false);
}
Array union1d(const Operand& x, const Operand& y, const SizeOptions& o) {
  const Loc& loc = x.loc();
  Array all = composite("union1d", {x, y}, [](const Arrays& v) { return concatenate({ravel(v[0]), ravel(v[1])}, 0); });
  return unique(Operand(all, loc), o);
}
Array setdiff1d(const Operand& x, const Operand& y, const SizeOptions& o) {
  auto marks = [&](const Arrays& v) {
    Sorted s = sorted_runs(ravel(v[0]));
    return Arrays{s.values, s.first & isin(s.values, v[1], true)};
  };
  Arrays m = composites("setdiff1d", {x, y}, marks);
  return compress(Operand(m[1], x.loc()), Operand(m[0], x.loc()), 0, o);
}

// --- order --------------------------------------------------------------------------------------------------------

Array lexsort(const std::vector<Array>& keys, std::int64_t axis, const Loc& loc) {
  if (keys.empty()) throw ValueError("lexsort: keys is empty; expected at least one array");
  const std::int64_t d = program::axis_of("lexsort", axis, keys[0].ndim());
  return composite("lexsort", loc, keys, [&](const Arrays& v) {
    Arrays all(v.rbegin(), v.rend());
    all.push_back(iota(int32, v[0].shape(), d));
    return lax::sort(all, d, static_cast<std::int64_t>(v.size())).back();
  });
}

namespace {
void check_kth(const char* name, const Array& x, std::int64_t kth, std::int64_t axis) {
  const std::int64_t n = x.shape(program::axis_of(name, axis, x.ndim()));
  if (kth < -n || kth >= n) throw ValueError(str(name, ": kth = ", kth, "; expected -", n, "..", n - 1));
}
}  // namespace

Array partition(const Operand& x, std::int64_t kth, std::int64_t axis) {
  check_kth("partition", x.array(), kth, axis);
  return sort(x, axis);
}
Array argpartition(const Operand& x, std::int64_t kth, std::int64_t axis) {
  check_kth("argpartition", x.array(), kth, axis);
  return argsort(x, axis);
}
Array sort_complex(const Operand& x) {
  return composite("sort_complex", {x}, [](const Arrays& v) {
    Array y = sort(v[0], 0);
    return is_complex(y.dtype()) ? y : astype(y, complex_dtype(y.dtype()));
  });
}

// --- index arithmetic ---------------------------------------------------------------------------------------------

std::vector<Array> unravel_index(const Operand& indices, const std::vector<std::int64_t>& shape) {
  if (!is_integer(indices.array().dtype())) {
    throw TypeError(
        str("unravel_index: indices have dtype ", dtype_name(indices.array().dtype()), "; expected integers"));
  }
  return composites("unravel_index", {indices}, [&](const Arrays& v) {
    Arrays out(shape.size());
    const DType own = v[0].dtype();
    // Extents may not fit in a narrow dtype of the indices; what is found mostly does.
    Array rest = program::as(v[0], promote_types(own, size_of(shape) > INT32_MAX ? int64 : int32));
    for (std::size_t d = shape.size(); d-- > 0;) {
      auto [quotient, i] = divmod(rest, Array(shape[d]));
      out[d] = i;
      rest = quotient;
    }
    Array beyond = rest > 0;
    Array before = rest < -1;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      out[d] = where(beyond, shape[d] - 1, where(before, 0, out[d]));
      if (shape[d] <= core::largest_integer(own)) out[d] = program::as(out[d], own);
    }
    return out;
  });
}
Array ravel_multi_index(const std::vector<Array>& indices, const std::vector<std::int64_t>& shape, RavelMode mode,
                        const Loc& loc) {
  if (indices.size() != shape.size()) {
    throw ValueError(str("ravel_multi_index: ", indices.size(), " index arrays for shape ", shape));
  }
  return composite("ravel_multi_index", loc, indices, [&](const Arrays& v) {
    std::int64_t stride = size_of(shape);
    const DType wide = stride > INT32_MAX ? int64 : int32;
    Array flat = zeros({}, wide);
    for (std::size_t d = 0; d < shape.size(); ++d) {
      stride /= std::max<std::int64_t>(1, shape[d]);
      Array own = program::as(v[d], promote_types(v[d].dtype(), wide));
      Array i = mode == RavelMode::Clip ? clip(own, 0, shape[d] - 1) : own % shape[d];
      flat = flat + i * stride;
    }
    return flat;
  });
}
std::vector<Array> ix_(const std::vector<Array>& vectors, const Loc& loc) {
  return composites("ix_", loc, vectors, [](const Arrays& v) {
    Arrays out;
    for (std::size_t i = 0; i < v.size(); ++i) {
      Shape line(v.size(), 1);
      line[i] = v[i].size();
      out.push_back(reshape(v[i], line));
    }
    return out;
  });
}

}  // namespace tessera
