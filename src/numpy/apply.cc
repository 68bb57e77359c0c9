// SPDX-License-Identifier: Apache-2.0
#include "tessera/apply.h"

#include "program/composite.h"
#include "tessera/numpy.h"
#include "tessera/ops.h"
#include "tessera/vmap.h"

namespace tessera {

Array apply_along_axis(const std::function<Array(const Array&)>& f, std::int64_t axis, const Operand& x) {
  const std::int64_t rank = x.array().ndim();
  const std::int64_t d = program::axis_of("apply_along_axis", axis, rank);
  std::function<Array(const Array&)> mapped = f;
  for (std::int64_t i = 1; i < rank - d; ++i) mapped = vmap(mapped, {.in_axes = i, .out_axes = -1});
  for (std::int64_t i = 0; i < d; ++i) mapped = vmap(mapped);
  return mapped(x.array());
}

Array apply_over_axes(const std::function<Array(const Array&, std::int64_t)>& f, const Operand& x, const Dims& axes) {
  Array a = x.array();
  for (auto axis : axes) {
    Array b = f(a, axis);
    if (b.ndim() == a.ndim()) {
      a = b;
    } else if (b.ndim() == a.ndim() - 1) {
      a = expand_dims(b, {axis});
    } else {
      throw ValueError(
          str("apply_over_axes: f gave rank ", b.ndim(), " for rank ", a.ndim(), "; expected the same or one less"));
    }
  }
  return a;
}

Array piecewise(const Operand& x, const std::vector<Array>& conditions, const std::vector<Piece>& functions) {
  const std::size_t n = conditions.size();
  if (functions.size() != n && functions.size() != n + 1)
    throw ValueError(
        str("piecewise: ", functions.size(), " functions for ", n, " conditions; expected as many or one more"));
  std::vector<Array> in = conditions;
  in.push_back(x.array());
  return program::composite("piecewise", x.loc(), in, [&](const std::vector<Array>& v) {
    const Array& a = v.back();
    auto value = [&](const Piece& p) {
      return p.function() ? astype(p.function()(a), a.dtype()) : full(a.shape(), p.value(), a.dtype());
    };
    Array out = functions.size() > n ? value(functions.back()) : zeros(a.shape(), a.dtype());
    for (std::size_t i = 0; i < n; ++i) out = where(v[i], value(functions[i]), out);
    return out;
  });
}

}  // namespace tessera
