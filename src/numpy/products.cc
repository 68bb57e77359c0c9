// SPDX-License-Identifier: Apache-2.0
#include "tessera/products.h"

#include <numeric>

#include "numpy/placed.h"
#include "program/composite.h"
#include "tessera/lax.h"
#include "tessera/numpy.h"

namespace tessera {

using program::Arrays;
using program::composite;
using program::promoted;

namespace {
Array contracted(const char* name, const Arrays& v, const Dims& a, const Dims& b, const DotOptions& o) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (v[0].shape(a[i]) != v[1].shape(b[i])) {
      throw ValueError(str(name, ": shapes ", v[0].shape(), " and ", v[1].shape(), ": dimension ", a[i],
                           " of the first is ", v[0].shape(a[i]), "; expected ", v[1].shape(b[i]), ", dimension ", b[i],
                           " of the second"));
    }
  }
  Arrays p = promoted(name, v);
  for (auto& x : p) x = program::cast(x, x.dtype(), p[0].weak_type() && p[1].weak_type(), Loc::current());
  return dot_general(p[0], p[1], {.lhs_contracting = a, .rhs_contracting = b}, o);
}
// A product with the placement that its options give, f(operands, the other options).
Array placed(const char* name, const std::vector<Operand>& operands, const DotOptions& o,
             const std::function<Array(const Arrays&, const DotOptions&)>& f) {
  return detail::placed_as(o.out_sharding, name, [&] {
    return composite(name, operands, [&](const Arrays& v) { return f(v, program::unplaced(o)); });
  });
}
Dims axes_in(const Dims& axes, const Array& x) {
  Dims out;
  for (auto d : axes) out.push_back(program::axis_of("tensordot", d, x.ndim()));
  return out;
}
}  // namespace

Array dot(const Operand& x, const Operand& y, const DotOptions& o) {
  return placed("dot", {x, y}, o, [](const Arrays& v, const DotOptions& plain) {
    if (v[0].ndim() == 0 || v[1].ndim() == 0) return v[0] * v[1];
    return contracted("dot", v, {v[0].ndim() - 1}, {std::max<std::int64_t>(0, v[1].ndim() - 2)}, plain);
  });
}
Array vdot(const Operand& x, const Operand& y, const DotOptions& o) {
  return placed("vdot", {x, y}, o, [](const Arrays& v, const DotOptions& plain) {
    return contracted("vdot", {ravel(conj(v[0])), ravel(v[1])}, {0}, {0}, plain);
  });
}
Array inner(const Operand& x, const Operand& y, const DotOptions& o) {
  return placed("inner", {x, y}, o, [](const Arrays& v, const DotOptions& plain) {
    if (v[0].ndim() == 0 || v[1].ndim() == 0) return v[0] * v[1];
    return contracted("inner", v, {v[0].ndim() - 1}, {v[1].ndim() - 1}, plain);
  });
}
Array outer(const Operand& x, const Operand& y) {
  return composite("outer", {x, y}, [](const Arrays& v) { return lax::expand_dims(ravel(v[0]), {1}) * ravel(v[1]); });
}
Array tensordot(const Operand& x, const Operand& y, std::int64_t axes, const DotOptions& o) {
  const std::int64_t rx = x.array().ndim();
  if (axes < 0 || axes > rx || axes > y.array().ndim()) {
    throw ValueError(str("tensordot: axes = ", axes, " for ranks ", rx, " and ", y.array().ndim()));
  }
  Dims a(static_cast<std::size_t>(axes));
  Dims b(a.size());
  std::iota(a.begin(), a.end(), rx - axes);
  std::iota(b.begin(), b.end(), 0);
  return tensordot(x, y, a, b, o);
}
Array tensordot(const Operand& x, const Operand& y, const Dims& x_axes, const Dims& y_axes, const DotOptions& o) {
  if (x_axes.size() != y_axes.size()) {
    throw ValueError(str("tensordot: axes ", x_axes, " and ", y_axes, " differ in length"));
  }
  return placed("tensordot", {x, y}, o, [&](const Arrays& v, const DotOptions& plain) {
    return contracted("tensordot", v, axes_in(x_axes, v[0]), axes_in(y_axes, v[1]), plain);
  });
}
Array kron(const Operand& x, const Operand& y) {
  return composite("kron", {x, y}, [](const Arrays& v) {
    const std::int64_t r = std::max(v[0].ndim(), v[1].ndim());
    Array a = program::with_leading(v[0], r - v[0].ndim());
    Array b = program::with_leading(v[1], r - v[1].ndim());
    Shape wide_a;
    Shape wide_b;
    Shape out;
    for (std::int64_t d = 0; d < r; ++d) {
      wide_a.insert(wide_a.end(), {a.shape(d), 1});
      wide_b.insert(wide_b.end(), {1, b.shape(d)});
      out.push_back(a.shape(d) * b.shape(d));
    }
    return reshape(reshape(a, wide_a) * reshape(b, wide_b), out);
  });
}
Array cross(const Operand& x, const Operand& y, const CrossOptions& o) {
  return composite("cross", {x, y}, [&](const Arrays& v) {
    Array a = moveaxis(v[0], {o.axis_x}, {-1});
    Array b = moveaxis(v[1], {o.axis_y}, {-1});
    const std::int64_t na = a.shape(-1);
    const std::int64_t nb = b.shape(-1);
    if (na < 2 || na > 3 || nb < 2 || nb > 3) {
      throw ValueError(str("cross: vectors of ", na, " and ", nb, " components; expected 2 or 3"));
    }
    auto part = [](const Array& u, std::int64_t i) {
      return i < u.shape(-1) ? program::pick(u, i, -1) : zeros_like(program::pick(u, 0, -1));
    };
    Array z = part(a, 0) * part(b, 1) - part(a, 1) * part(b, 0);
    if (na == 2 && nb == 2) return z;
    Array c0 = part(a, 1) * part(b, 2) - part(a, 2) * part(b, 1);
    Array c1 = part(a, 2) * part(b, 0) - part(a, 0) * part(b, 2);
    return moveaxis(stack({c0, c1, z}), {0}, {o.axis_result});
  });
}
Array vecdot(const Operand& x, const Operand& y, std::int64_t axis) {
  return composite("vecdot", {x, y}, [&](const Arrays& v) {
    Array a = moveaxis(v[0], {axis}, {-1});
    Array b = moveaxis(v[1], {axis}, {-1});
    return einsum("...i,...i->...", {conj(a), b});
  });
}
Array matvec(const Operand& x, const Operand& y) {
  return composite("matvec", {x, y}, [](const Arrays& v) { return einsum("...ij,...j->...i", {v[0], v[1]}); });
}
Array vecmat(const Operand& x, const Operand& y) {
  return composite("vecmat", {x, y}, [](const Arrays& v) { return einsum("...i,...ij->...j", {conj(v[0]), v[1]}); });
}

}  // namespace tessera
