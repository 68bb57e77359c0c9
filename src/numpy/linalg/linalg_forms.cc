// SPDX-License-Identifier: Apache-2.0
// Powers, products and exponentials of matrices, solutions from factors, matrices of a form.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "program/composite.h"
#include "tessera/control.h"
#include "tessera/creation.h"
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
Array square_matrix(const char* name, const Array& a) {
  if (a.ndim() < 2 || a.shape(-1) != a.shape(-2)) {
    throw ValueError(
        str("linalg::", name, ": shape ", a.shape(), "; expected a square matrix in the last two dimensions"));
  }
  return a;
}
Array unit_like(const Array& a) { return broadcast_to(eye(a.shape(-1), std::nullopt, 0, a.dtype()), a.shape()); }
}  // namespace

Array matrix_power(const Operand& a, std::int64_t n) {
  return composite("matrix_power", {a}, [&](const Arrays& v) {
    Array z = square_matrix("matrix_power", v[0]);
    if (n == 0) return unit_like(z);
    if (n < 0) z = inv(z);
    Array result;
    for (std::int64_t left = std::abs(n); left > 0; left /= 2) {
      if (left % 2 == 1) result = result.defined() ? matmul(result, z) : z;
      if (left > 1) z = matmul(z, z);
    }
    return result;
  });
}

namespace {
// Numerator terms of the diagonal Pade approximant of exp: odd powers times a, and even powers.
Array pade(const Array& a, const std::vector<double>& c) {
  Array unit = unit_like(a);
  Array a2 = matmul(a, a);
  Array odd = c[1] * unit;
  Array even = c[0] * unit;
  Array power_of = unit;
  for (std::size_t k = 2; k < c.size(); k += 2) {
    power_of = matmul(power_of, a2);
    even = even + c[k] * power_of;
    if (k + 1 < c.size()) odd = odd + c[k + 1] * power_of;
  }
  odd = matmul(a, odd);
  return solve(even - odd, even + odd);
}
const std::vector<double> kPade7{17297280, 8648640, 1995840, 277200, 25200, 1512, 56, 1};
const std::vector<double> kPade13{64764752532480000,
                                  32382376266240000,
                                  7771770303897600,
                                  1187353796428800,
                                  129060195264000,
                                  10559470521600,
                                  670442572800,
                                  33522128640,
                                  1323241920,
                                  40840800,
                                  960960,
                                  16380,
                                  182,
                                  1};
}  // namespace

Array expm(const Operand& given) {
  return composite("expm", {given}, [&](const Arrays& v) {
    Array a = square_matrix("expm", promoted("expm", v, true)[0]);
    const bool wide = a.dtype() == float64 || a.dtype() == complex128;
    // Scaled by a power of two until the approximant holds, then squared back (Higham, 2005).
    const double reach = wide ? 5.371920351148152 : 3.92572478313866;
    Array size = max(sum(abs(a), -2), {.axis = Dims{-1}, .keepdims = true});
    Array squarings = maximum(0, ceil(log2(size / reach)));
    squarings = where(isfinite(squarings), squarings, 0);
    Array scale = lax::expand_dims(exp2(-squarings), {size.ndim()});
    Array r = pade(a * program::as(scale, a.dtype()), wide ? kPade13 : kPade7);
    Array steps = lax::expand_dims(squarings, {size.ndim()});
    for (int i = 0; i < 16; ++i) r = where(steps > i, matmul(r, r), r);
    // More than 16 squarings: the result would be lost in rounding.
    return where(steps > 16, std::nan(""), r);
  });
}

namespace {
// Costs and splits of the cheapest order (Cormen et al.): extents d[0] … d[n].
Array chain(const Arrays& v, const std::vector<std::vector<std::size_t>>& split, std::size_t i, std::size_t j) {
  if (i == j) return v[i];
  const std::size_t k = split[i][j];
  return matmul(chain(v, split, i, k), chain(v, split, k + 1, j));
}
}  // namespace

Array multi_dot(const std::vector<Array>& arrays, const Loc& loc) {
  const std::size_t n = arrays.size();
  if (n < 2) throw ValueError(str("linalg::multi_dot: ", n, " arrays; expected at least two"));
  return composite("multi_dot", loc, arrays, [&](const Arrays& given) {
    Arrays v = promoted("multi_dot", given);
    const bool row = v.front().ndim() == 1;
    const bool column = v.back().ndim() == 1;
    if (row) v.front() = reshape(v.front(), {1, -1});
    if (column) v.back() = reshape(v.back(), {-1, 1});
    for (const auto& a : v) {
      if (a.ndim() != 2) throw ValueError(str("linalg::multi_dot: shape ", a.shape(), "; expected matrices"));
    }
    std::vector<double> d;
    for (const auto& a : v) d.push_back(static_cast<double>(a.shape(0)));
    d.push_back(static_cast<double>(v.back().shape(1)));
    std::vector<std::vector<double>> cost(n, std::vector<double>(n, 0));
    std::vector<std::vector<std::size_t>> split(n, std::vector<std::size_t>(n, 0));
    for (std::size_t length = 1; length < n; ++length) {
      for (std::size_t i = 0; i + length < n; ++i) {
        const std::size_t j = i + length;
        cost[i][j] = infinity;
        for (std::size_t k = i; k < j; ++k) {
          const double c = cost[i][k] + cost[k + 1][j] + d[i] * d[k + 1] * d[j + 1];
          if (c < cost[i][j]) {
            cost[i][j] = c;
            split[i][j] = k;
          }
        }
      }
    }
    Array y = chain(v, split, 0, n - 1);
    Shape shape;
    if (!row) shape.push_back(y.shape(0));
    if (!column) shape.push_back(y.shape(1));
    return reshape(y, shape);
  });
}

Array tensorinv(const Operand& a, std::int64_t ind) {
  const Shape shape = a.array().shape();
  if (ind <= 0 || ind > rank(shape)) throw ValueError(str("linalg::tensorinv: ind = ", ind, " for shape ", shape));
  Shape front(shape.begin(), shape.begin() + ind);
  Shape back(shape.begin() + ind, shape.end());
  if (size_of(front) != size_of(back)) {
    throw ValueError(str("linalg::tensorinv: extents ", front, " and ", back, " have different products"));
  }
  return composite("tensorinv", {a}, [&](const Arrays& v) {
    Shape out = back;
    out.insert(out.end(), front.begin(), front.end());
    return reshape(inv(reshape(v[0], {size_of(front), size_of(back)})), out);
  });
}
Array tensorsolve(const Operand& a, const Operand& b) {
  const Shape full = a.array().shape();
  const Shape known = b.array().shape();
  const bool fits = full.size() >= known.size() && std::equal(known.begin(), known.end(), full.begin());
  Shape out = fits ? Shape(full.begin() + rank(known), full.end()) : Shape{};
  if (!fits || size_of(out) != size_of(known)) {
    throw ValueError(str("linalg::tensorsolve: shapes ", full, " and ", known,
                         "; expected the second in front of as many unknowns"));
  }
  return composite("tensorsolve", {a, b}, [&](const Arrays& v) {
    return reshape(solve(reshape(v[0], {size_of(known), size_of(out)}), ravel(v[1])), out);
  });
}

// --- from factors -------------------------------------------------------------------------------------------------

namespace {
// A vector of unknowns as a matrix with one column, and back.
Array with_columns(const Array& b, const std::function<Array(const Array&)>& f) {
  if (b.ndim() != 1) return f(b);
  return ravel(f(lax::expand_dims(b, {1})));
}
}  // namespace

Array cho_solve(const Operand& lower_factor, const Operand& b) {
  return composite("cho_solve", {lower_factor, b}, [](const Arrays& v) {
    Arrays p = promoted("cho_solve", v, true);
    return with_columns(p[1], [&](const Array& rhs) {
      Array y = triangular_solve(p[0], rhs, {.lower = true});
      return triangular_solve(p[0], y, {.lower = true, .transpose_a = true, .conjugate_a = true});
    });
  });
}
Array lu_solve(const LuResult& f, const Operand& b) {
  return composite("lu_solve", b.loc(), {b.array(), f.lu, f.permutation}, [](const Arrays& v) {
    Arrays p = promoted("lu_solve", {v[1], v[0]}, true);
    return with_columns(p[1], [&](const Array& rhs) {
      Array rows = v[2].ndim() == 1 ? take(rhs, v[2], 0, TakeMode::Clip)
                                    : take_along_axis(rhs, lax::expand_dims(v[2], {v[2].ndim()}), -2);
      Array y = triangular_solve(p[0], rows, {.lower = true, .unit_diagonal = true});
      return triangular_solve(p[0], y, {.lower = false});
    });
  });
}
PolarResult polar(const Operand& a) {
  Arrays out = composites("polar", {a}, [](const Arrays& v) {
    SvdResult f = svd(v[0], false);
    Array s = lax::expand_dims(program::as(f.s, f.u.dtype()), {f.s.ndim()});
    return Arrays{matmul(f.u, f.vh), matmul(conj(matrix_transpose(f.vh)), s * f.vh)};
  });
  return {out[0], out[1]};
}

// --- forms --------------------------------------------------------------------------------------------------------

Array block_diag(const std::vector<Array>& blocks, const Loc& loc) {
  if (blocks.empty()) return zeros({1, 0}, float32, loc);
  return composite("block_diag", loc, blocks, [](const Arrays& v) {
    Arrays p = promoted("block_diag", v);
    std::int64_t columns = 0;
    for (auto& a : p) {
      a = atleast_2d(a);
      if (a.ndim() != 2) throw ValueError(str("linalg::block_diag: shape ", a.shape(), "; expected at most rank 2"));
      columns += a.shape(1);
    }
    Arrays rows;
    std::int64_t at = 0;
    for (const auto& a : p) {
      rows.push_back(lax::pad(a, zeros({}, a.dtype()), {{}, {at, columns - at - a.shape(1), 0}}));
      at += a.shape(1);
    }
    return concatenate(rows, 0);
  });
}

namespace {
// Element (i, j) of the result is values[i * row + j * column + first].
Array strided_matrix(const Array& values, std::int64_t rows, std::int64_t columns, std::int64_t row,
                     std::int64_t column, std::int64_t first) {
  Array place = iota(int32, {rows, columns}, 0) * row + iota(int32, {rows, columns}, 1) * column + first;
  return take(values, place, 0, TakeMode::Clip);
}
}  // namespace

Array toeplitz(const Operand& c, const std::optional<Array>& r) {
  Arrays in{c.array()};
  if (r) in.push_back(*r);
  return composite("toeplitz", c.loc(), in, [](const Arrays& v) {
    Arrays p = promoted("toeplitz", {ravel(v[0]), ravel(v.size() > 1 ? v[1] : conj(v[0]))});
    const std::int64_t m = p[0].shape(0);
    const std::int64_t n = p[1].shape(0);
    // r backwards without its first, then c: diagonals from the upper right to the lower left.
    Array values = concatenate({lax::rev(program::cut(p[1], 1, n, 0), {0}), p[0]}, 0);
    return strided_matrix(values, m, n, 1, -1, n - 1);
  });
}
Array hankel(const Operand& c, const std::optional<Array>& r) {
  Arrays in{c.array()};
  if (r) in.push_back(*r);
  return composite("hankel", c.loc(), in, [](const Arrays& v) {
    Arrays p = promoted("hankel", {ravel(v[0]), ravel(v.size() > 1 ? v[1] : zeros_like(v[0]))});
    Array values = concatenate({p[0], program::cut(p[1], 1, INT64_MAX, 0)}, 0);
    return strided_matrix(values, p[0].shape(0), p[1].shape(0), 1, 1, 0);
  });
}
Array circulant(const Operand& c) {
  return composite("circulant", {c}, [](const Arrays& v) {
    Array a = ravel(v[0]);
    const std::int64_t n = a.shape(0);
    return strided_matrix(concatenate({a, a}, 0), n, n, 1, -1, n);
  });
}
Array companion(const Operand& given) {
  return composite("companion", {given}, [](const Arrays& v) {
    Array a = promoted("companion", v, true)[0];
    if (a.ndim() != 1 || a.shape(0) < 2) {
      throw ValueError(str("linalg::companion: shape ", a.shape(), "; expected a vector of at least 2"));
    }
    const std::int64_t n = a.shape(0) - 1;
    Array first = reshape(-program::cut(a, 1, n + 1, 0) / program::pick(a, 0, 0), {1, n});
    return concatenate({first, eye(n - 1, n, 0, a.dtype())}, 0);
  });
}
Array hilbert(std::int64_t n, const Loc& loc) {
  return composite("hilbert", loc, {}, [&](const Arrays&) {
    return 1 / (iota(float32, {n, n}, 0) + iota(float32, {n, n}, 1) + 1);
  });
}
Array dft(std::int64_t n, const Loc& loc) {
  return composite("dft", loc, {}, [&](const Arrays&) {
    // Exponents modulo n keep the angles small.
    const DType t = n > 46340 ? int64 : int32;  // squares must fit
    Array k = iota(t, {n, n}, 0) * iota(t, {n, n}, 1) % n;
    Array angle = astype(k, float32) * (-2 * std::numbers::pi / static_cast<double>(n));
    return complex(cos(angle), sin(angle));
  });
}

}  // namespace tessera::linalg
