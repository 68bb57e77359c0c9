// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "numpy/reduction_functions.h"
#include "program/composite.h"
#include "tessera/lax.h"
#include "tessera/nn.h"
#include "tessera/shaping.h"

namespace tessera::nn {

using program::Arrays;

namespace {
Array with_batch(const Array& x) { return program::with_leading(x, 4 - x.ndim()); }

void check(const Array& q, const Array& k, const Array& v) {
  if (q.ndim() != 4 || k.ndim() != 4 || k.shape() != v.shape() || q.shape(0) != k.shape(0) ||
      q.shape(3) != k.shape(3) || q.shape(2) % k.shape(2) != 0) {
    throw ValueError(str("dot_product_attention: query, key and value have shapes ", q.shape(), ", ", k.shape(),
                         " and ", v.shape(),
                         "; expected (batch, queries, heads, size), and twice (batch, keys, heads, size) with "
                         "a number of heads that divides the first"));
  }
}

// Scores of keys, laid out (batch, heads, queries, keys).
Array scores(const Array& q, const Array& k, double scale, DType wide) {
  // Summed and kept in at least float32: in float16 they would overflow.
  return dot_general(q, k, {.lhs_contracting = {3}, .rhs_contracting = {3}, .lhs_batch = {0, 2}, .rhs_batch = {0, 2}},
                     {.preferred_element_type = wide}) *
         scale;
}
}  // namespace

Array dot_product_attention(const Operand& query, const Operand& key, const Operand& value, const AttentionOptions& o) {
  Arrays in{query.array(), key.array(), value.array()};
  if (o.bias) in.push_back(*o.bias);
  if (o.mask) in.push_back(*o.mask);
  return program::composite("dot_product_attention", query.loc(), in, [&](const Arrays& a) {
    const Shape shape = a[0].shape();
    Array q = with_batch(a[0]);
    Array k = with_batch(a[1]);
    Array v = with_batch(a[2]);
    check(q, k, v);
    // Several query heads share one of the keys'.
    k = repeat(k, q.shape(2) / k.shape(2), 2);
    v = repeat(v, q.shape(2) / v.shape(2), 2);
    const DType own = q.dtype();
    const DType wide = promote_types(own, float32);
    Array s = scores(q, k, o.scale.value_or(1 / std::sqrt(static_cast<double>(q.shape(3)))), wide);
    if (o.bias) s = s + with_batch(a[3]);
    const double least = -0.7 * program::float_info(wide).max;
    if (o.mask) s = where(with_batch(a.back()), s, program::number_like(s, least));
    if (o.is_causal) {
      Array seen = tri(s.shape(2), s.shape(3), 0, bool_);
      s = where(seen, s, program::number_like(s, least));
    }
    Array w = astype(softmax(s), own);
    Array y =
        dot_general(w, v, {.lhs_contracting = {3}, .rhs_contracting = {1}, .lhs_batch = {0, 1}, .rhs_batch = {0, 2}});
    return reshape(transpose(y, {0, 2, 1, 3}), shape);
  });
}

Array identity(const Operand& x) { return x.array(); }
Array sparse_plus(const Operand& x) {
  return program::composite("sparse_plus", {x}, [](const Arrays& v) {
    return where(v[0] <= -1.0, 0.0, where(v[0] >= 1.0, v[0], square(v[0] + 1.0) / 4));
  });
}
Array sparse_sigmoid(const Operand& x) {
  return program::composite("sparse_sigmoid", {x}, [](const Arrays& v) { return 0.5 * clip(v[0] + 1.0, 0.0, 2.0); });
}
Array log1mexp(const Operand& x) {
  return program::composite("log1mexp", {x}, [](const Arrays& v) {
    Array a = program::promoted("log1mexp", v, true)[0];
    // Each form where it keeps its digits, and where the other could not overflow in a derivative.
    Array small = a < std::log(2.0);
    return where(small, log(-expm1(-where(small, a, 1))), log1p(-exp(-where(small, 1, a))));
  });
}
Array logmeanexp(const Operand& x, const ReduceOptions& o) {
  return program::composite("logmeanexp", {x}, [&](const Arrays& v) {
    const Array y = logsumexp(v[0], o);
    return y - log(program::count_of("logmeanexp", v[0], o.axis, o.keepdims, o.where, real_dtype(y.dtype()), x.loc()));
  });
}

}  // namespace tessera::nn
