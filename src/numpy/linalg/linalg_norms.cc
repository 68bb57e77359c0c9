// SPDX-License-Identifier: Apache-2.0
// Norms, and what follows from singular values.
#include <algorithm>
#include <cmath>

#include "ops/linalg/linalg_ops.h"
#include "program/composite.h"
#include "program/graph_fragment.h"
#include "tessera/lax.h"
#include "tessera/linalg.h"
#include "tessera/numpy.h"
#include "tessera/shaping.h"

namespace tessera::linalg {

using program::Arrays;
using program::composite;
using program::composites;
using program::promoted;

namespace {

Array matrix(const char* name, const Array& a) {
  if (a.ndim() < 2) throw ValueError(str("linalg::", name, ": shape ", a.shape(), "; expected a matrix"));
  return promoted(name, {a}, true)[0];
}
Array magnitude_squared(const Array& x) { return is_complex(x.dtype()) ? real(x * conj(x)) : x * x; }

// Largest element, 0 where there is none.
Array largest(const Array& x, const ReduceOptions& o) {
  for (auto d : program::axes_of("norm", o.axis, x.ndim())) {
    if (x.shape(d) == 0) return zeros(sum(x, o).shape(), x.dtype());
  }
  return max(x, o);
}

Array of_vector(const Array& x, const NormOrder& order, const ReduceOptions& o) {
  if (!order.name().empty()) {
    throw ValueError(str("linalg::norm: order \"", order.name(), "\" of a vector; expected a number"));
  }
  const double p = order.power().value_or(2);
  if (p == 2) return sqrt(sum(magnitude_squared(x), o));
  if (p == infinity) return largest(abs(x), o);
  if (p == -infinity) return min(abs(x), o);
  if (p == 1) return sum(abs(x), o);
  if (p == 0) {
    ReduceOptions counted = o;
    counted.dtype = real_dtype(x.dtype());
    return sum(x != 0, counted);
  }
  return power(sum(power(abs(x), p), o), 1 / p);
}

// Over the last two dimensions.
Array of_matrix(const Array& x, const NormOrder& order) {
  const std::string& name = order.name();
  if ((name.empty() && !order.power()) || name == "fro" || name == "f") {
    return sqrt(sum(magnitude_squared(x), {.axis = Dims{-2, -1}}));
  }
  if (name == "nuc") return sum(svdvals(x), -1);
  if (name.empty()) {
    const double p = *order.power();
    const std::int64_t inner = std::abs(p) == 1 ? -2 : -1;
    if (std::abs(p) == 1 || std::abs(p) == infinity) {
      Array sums = sum(abs(x), inner);
      return p > 0 ? largest(sums, {.axis = Dims{-1}}) : min(sums, -1);
    }
    if (p == 2) return largest(svdvals(x), {.axis = Dims{-1}});
    if (p == -2) return min(svdvals(x), -1);
  }
  throw ValueError(str("linalg::norm: order ", name.empty() ? str(*order.power()) : "\"" + name + "\"",
                       " of a matrix; expected \"fro\", \"nuc\", 1, -1, 2, -2 or an infinity"));
}

Array norm_of(const Array& given, const NormOptions& o) {
  Array x = promoted("norm", {given}, true)[0];
  const bool plain = o.order.name().empty() && !o.order.power();
  if (!o.axis && plain) return sqrt(sum(magnitude_squared(x), {.keepdims = o.keepdims}));
  Dims axes;
  if (o.axis) {
    for (auto d : *o.axis) axes.push_back(program::axis_of("norm", d, x.ndim()));
  } else {
    axes = program::axes_of("norm", std::nullopt, x.ndim());
  }
  if (axes.size() == 1) return of_vector(x, o.order, {.axis = axes, .keepdims = o.keepdims});
  if (axes.size() != 2 || axes[0] == axes[1]) {
    throw ValueError(str("linalg::norm: axis ", axes, " of shape ", x.shape(), "; expected one axis or two"));
  }
  Array y = of_matrix(moveaxis(x, axes, {-2, -1}), o.order);
  if (!o.keepdims) return y;
  Shape kept = x.shape();
  for (auto d : axes) kept[static_cast<std::size_t>(d)] = 1;
  return reshape(y, kept);
}

}  // namespace

Array svdvals(const Operand& a) {
  return composite("svdvals", {a}, [](const Arrays& v) {
    return program::graph_fragment1("svdvals", Loc::current(), {matrix("svdvals", v[0])},
                                    [](ir::Builder&, const ir::Values& u) { return ops::svd(u[0], false, false)[0]; });
  });
}
Array eigvalsh(const Operand& a) { return eigh(a).eigenvalues; }

Array norm(const Operand& x, const NormOptions& o) {
  return composite("norm", {x}, [&](const Arrays& v) { return norm_of(v[0], o); });
}
Array vector_norm(const Operand& x, const NormOptions& o) {
  return composite("vector_norm", {x}, [&](const Arrays& v) {
    return of_vector(promoted("vector_norm", v, true)[0], o.order, {.axis = o.axis, .keepdims = o.keepdims});
  });
}
Array matrix_norm(const Operand& x, const NormOptions& o) {
  NormOptions last = o;
  last.axis = Dims{-2, -1};
  if (last.order.name().empty() && !last.order.power()) last.order = "fro";
  return norm(x, last);
}
Array cond(const Operand& x, const NormOrder& order) {
  return composite("cond", {x}, [&](const Arrays& v) {
    Array a = matrix("cond", v[0]);
    const double p = order.power().value_or(2);
    Array r;
    if (order.name().empty() && std::abs(p) == 2) {
      Array s = svdvals(a);
      if (p == 2) return program::pick(s, 0, -1) / program::pick(s, -1, -1);
      r = program::pick(s, -1, -1) / program::pick(s, 0, -1);
    } else {
      r = of_matrix(a, order) * of_matrix(inv(a), order);
    }
    return where(isnan(r) & ~any(isnan(a), {.axis = Dims{-2, -1}}), infinity, r);
  });
}

Array pinv(const Operand& a, std::optional<double> rtol) {
  return composite("pinv", {a}, [&](const Arrays& v) {
    Array m = conj(matrix("pinv", v[0]));
    if (m.size() == 0) return zeros(matrix_transpose(m).shape(), m.dtype());
    const double size = static_cast<double>(std::max(m.shape(-1), m.shape(-2)));
    const double tolerance = rtol.value_or(10 * size * program::float_info(m.dtype()).epsilon);
    SvdResult f = svd(m, false);
    Array cutoff = tolerance * program::cut(f.s, 0, 1, -1);
    Array s = program::as(where(f.s > cutoff, f.s, infinity), m.dtype());
    return matmul(matrix_transpose(f.vh), matrix_transpose(f.u) / lax::expand_dims(s, {s.ndim()}));
  });
}
Array matrix_rank(const Operand& a, std::optional<double> tol) {
  return composite("matrix_rank", {a}, [&](const Arrays& v) {
    if (v[0].ndim() < 2) return astype(any(v[0] != zeros({}, v[0].dtype())), int32);
    Array m = matrix("matrix_rank", v[0]);
    Array s = svdvals(m);
    const double size = static_cast<double>(std::max(m.shape(-1), m.shape(-2)));
    Array least = tol ? full({}, *tol, s.dtype())
                      : max(s, {.axis = Dims{-1}, .keepdims = true}) * (size * program::float_info(s.dtype()).epsilon);
    return sum(s > least, -1);
  });
}
LstsqResult lstsq(const Operand& a, const Operand& b, std::optional<double> rcond) {
  if (a.array().ndim() != 2 || b.array().ndim() < 1 || b.array().ndim() > 2 ||
      a.array().shape(0) != b.array().shape(0)) {
    throw ValueError(str("linalg::lstsq: shapes ", a.array().shape(), " and ", b.array().shape(),
                         "; expected a matrix and a vector or matrix with as many rows"));
  }
  Arrays out = composites("lstsq", {a, b}, [&](const Arrays& v) {
    Arrays p = promoted("lstsq", v, true);
    const Array& m = p[0];
    Array rhs = p[1].ndim() == 1 ? lax::expand_dims(p[1], {1}) : p[1];
    const double epsilon = program::float_info(m.dtype()).epsilon;
    const double size = static_cast<double>(std::max(m.shape(0), m.shape(1)));
    const double least = !rcond ? epsilon * size : *rcond < 0 ? epsilon : *rcond;
    SvdResult f = svd(m, false);
    Array used = (f.s > 0) & (f.s >= least * program::cut(f.s, 0, 1, 0));
    Array inverse = where(used, 1 / where(used, f.s, 1), 0);
    Array projected = matmul(conj(transpose(f.u)), rhs);
    Array x = matmul(conj(transpose(f.vh)), program::as(lax::expand_dims(inverse, {1}), m.dtype()) * projected);
    Array residuals = sum(magnitude_squared(rhs - matmul(m, x)), 0);
    if (p[1].ndim() == 1) x = ravel(x);
    return Arrays{x, residuals, sum(used), f.s};
  });
  return {out[0], out[1], out[2], out[3]};
}

}  // namespace tessera::linalg
