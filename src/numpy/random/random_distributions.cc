// SPDX-License-Identifier: Apache-2.0
// Distributions from uniform, normal and exponential numbers, as jax.random makes them.
#include <algorithm>
#include <cmath>
#include <limits>

#include "numpy/random/random_common.h"
#include "tessera/control.h"
#include "tessera/elementary.h"
#include "tessera/explicit_sharding.h"
#include "tessera/indexing.h"
#include "tessera/lax.h"
#include "tessera/linalg.h"
#include "tessera/numpy.h"
#include "tessera/shaping.h"

namespace tessera {

Shape program::shape_for(const char* name, const std::optional<Shape>& shape, const std::vector<Shape>& parameters) {
  Shape own = broadcast_shapes(name, parameters);
  if (!shape) return own;
  if (broadcast_shapes(name, {*shape, own}) != *shape) {
    throw ValueError(str("random::", name, ": shape ", *shape, " does not hold the parameters' ", own));
  }
  return *shape;
}
void program::check_float(const char* name, DType dtype) {
  if (!is_float(dtype)) {
    throw TypeError(str("random::", name, ": dtype is ", dtype_name(dtype), "; expected a float dtype"));
  }
}

namespace random {

using program::Arrays;
using program::composite;

namespace {
// f(key, parameters under the dtype, shape).
Array drawn(const char* name, const std::vector<Operand>& in, const MaybeShape& shape, DType dtype,
            const std::function<Array(const Array&, const Arrays&, const Shape&)>& f) {
  program::check_float(name, dtype);
  return composite(name, in, [&](const Arrays& v) {
    std::vector<Shape> shapes;
    Arrays parameters;
    for (std::size_t i = 1; i < v.size(); ++i) {
      shapes.push_back(v[i].shape());
      parameters.push_back(program::as(v[i], dtype));
    }
    return f(v[0], parameters, program::shape_for(name, shape, shapes));
  });
}
}  // namespace

Array pareto(const Operand& key, const Operand& b, const MaybeShape& shape, DType dtype) {
  return drawn("pareto", {key, b}, shape, dtype,
               [&](const Array& k, const Arrays& p, const Shape& s) { return exp(exponential(k, s, dtype) / p[0]); });
}
Array rayleigh(const Operand& key, const Operand& scale, const MaybeShape& shape, DType dtype) {
  return drawn("rayleigh", {key, scale}, shape, dtype, [&](const Array& k, const Arrays& p, const Shape& s) {
    return p[0] * sqrt(log(uniform(k, s, dtype)) * -2);
  });
}
Array lognormal(const Operand& key, const Operand& sigma, const MaybeShape& shape, DType dtype) {
  return drawn("lognormal", {key, sigma}, shape, dtype,
               [&](const Array& k, const Arrays& p, const Shape& s) { return exp(normal(k, s, dtype) * p[0]); });
}
Array wald(const Operand& key, const Operand& mean, const MaybeShape& shape, DType dtype) {
  return drawn("wald", {key, mean}, shape, dtype, [&](const Array& k, const Arrays& p, const Shape& s) {
    auto keys = split_keys(k);
    Array m = broadcast_to(p[0], s);
    Array y = square(normal(keys[0], s, dtype));
    Array z = uniform(keys[1], s, dtype);
    Array m2 = square(m);
    Array x = m + m2 * y / 2 - m / 2 * sqrt(4 * m * y + m2 * square(y));
    return where(z <= m / (m + x), x, m2 / x);
  });
}
Array weibull_min(const Operand& key, const Operand& scale, const Operand& concentration, const Shape& shape,
                  DType dtype) {
  return drawn("weibull_min", {key, scale, concentration}, shape, dtype,
               [&](const Array& k, const Arrays& p, const Shape& s) {
                 return power(-log1p(-uniform(k, s, dtype)), 1 / p[1]) * p[0];
               });
}
Array triangular(const Operand& key, const Operand& left, const Operand& mode, const Operand& right,
                 const MaybeShape& shape, DType dtype) {
  return drawn("triangular", {key, left, mode, right}, shape, dtype,
               [&](const Array& k, const Arrays& p, const Shape& s) {
                 const Array &a = p[0], &m = p[1], &b = p[2];
                 Array u = uniform(k, s, dtype);
                 Array rise = a + sqrt(u * (b - a) * (m - a));
                 Array fall = b - sqrt((1 - u) * (b - a) * (b - m));
                 return where(u < (m - a) / (b - a), rise, fall);
               });
}
Array maxwell(const Operand& key, const Shape& shape, DType dtype) {
  return drawn("maxwell", {key}, shape, dtype, [&](const Array& k, const Arrays&, const Shape& s) {
    Shape wide = s;
    wide.push_back(3);
    return linalg::norm(normal(k, wide, dtype), {.axis = Dims{-1}});
  });
}
Array double_sided_maxwell(const Operand& key, const Operand& loc, const Operand& scale, const Shape& shape,
                           DType dtype) {
  program::check_float("double_sided_maxwell", dtype);
  return composite("double_sided_maxwell", {key, loc, scale}, [&](const Arrays& v) {
    // As JAX: the parameters' shape stands behind the one asked for.
    const Shape own = program::broadcast_shapes("double_sided_maxwell", {v[1].shape(), v[2].shape()});
    Shape s = shape.empty() ? own : shape;
    s.insert(s.end(), own.begin(), own.end());
    auto keys = split_keys(v[0]);
    Array size = maxwell(keys[0], s, dtype);
    return program::as(rademacher(keys[1], s), dtype) * size * v[2] + v[1];
  });
}
Array geometric(const Operand& key, const Operand& p, const MaybeShape& shape, DType dtype) {
  return composite("geometric", {key, p}, [&](const Arrays& v) {
    Array q = program::promoted("geometric", {v[1]}, true)[0];
    const Shape& s = program::shape_for("geometric", shape, {q.shape()});
    Array u = uniform(v[0], s, q.dtype());
    u = where(u == 0, 1, u);
    return astype(floor(log(u) / log1p(-q)) + 1, dtype);
  });
}

// --- counts -------------------------------------------------------------------------------------------------------

namespace {
using State = std::vector<Array>;

// Products of uniform numbers until they fall below exp(-lam) (Knuth): for small lam.
Array poisson_by_products(const Array& key, const Array& lam, DType dtype) {
  const Shape& s = lam.shape();
  auto end = while_loop([&](const State& c) { return any(c[2] > -lam); },
                        [&](const State& c) {
                          auto keys = split_keys(c[1]);
                          Array k = where(c[2] > -lam, c[0] + 1, c[0]);
                          return State{k, keys[0], c[2] + log(uniform(keys[1], s))};
                        },
                        State{zeros(s, dtype), key, zeros(s)});
  return end[0] - 1;
}
// Transformed rejection (Hoermann, 1993): for large lam.
Array poisson_by_rejection(const Array& key, const Array& lam, DType dtype) {
  const Shape& s = lam.shape();
  Array log_lam = log(lam);
  Array b = 0.931 + 2.53 * sqrt(lam);
  Array a = -0.059 + 0.02483 * b;
  Array inv_alpha = 1.1239 + 1.1328 / (b - 3.4);
  Array v_r = 0.9277 - 3.6224 / (b - 2);
  auto next = [&](const State& c) {
    auto keys = split_keys(c[2], 3);
    Array u = uniform(keys[1], s) - 0.5;
    Array v = uniform(keys[2], s);
    Array shifted = 0.5 - abs(u);
    Array k = floor((2 * a / shifted + b) * u + lam + 0.43);
    Array left = log(v * inv_alpha / (a / (shifted * shifted) + b));
    Array right = -lam + k * log_lam - lgamma(k + 1);
    Array reject = (k < 0) | ((shifted < 0.013) & (v > shifted));
    Array accept = ((shifted >= 0.07) & (v <= v_r)) | (~reject & (left <= right));
    return State{where(accept, k, c[0]), c[1] | accept, keys[0]};
  };
  auto end =
      while_loop([](const State& c) { return any(~c[1]); }, next, State{full(s, -1, float32), zeros(s, bool_), key});
  return astype(end[0], dtype);
}
}  // namespace

Array poisson(const Operand& key, const Operand& lam, const MaybeShape& shape, DType dtype) {
  if (!is_integer(dtype))
    throw TypeError(str("random::poisson: dtype is ", dtype_name(dtype), "; expected an integer dtype"));
  return composite("poisson", {key, lam}, [&](const Arrays& v) {
    const Shape& s = program::shape_for("poisson", shape, {v[1].shape()});
    Array rate = broadcast_to(program::as(v[1], float32), s);
    Array small = isnan(rate) | (rate < 10);
    Array by_products = poisson_by_products(v[0], where(small, rate, 0), dtype);
    Array by_rejection = poisson_by_rejection(v[0], where(small, 1e5, rate), dtype);
    Array y = where(small, by_products, by_rejection);
    return where(rate == 0, zeros({}, dtype), y);
  });
}

namespace {
// Sums of geometric numbers: for few expected successes.
Array binomial_by_inversion(const Array& key, const Array& n, const Array& p) {
  const Shape& s = n.shape();
  Array log_q = log1p(-p);
  auto next = [&](const State& c) {
    auto keys = split_keys(c[2]);
    Array count = where(c[1] <= n, c[0] + 1, c[0]);
    return State{count, c[1] + ceil(log(uniform(keys[0], s, p.dtype())) / log_q), keys[1]};
  };
  auto end = while_loop([&](const State& c) { return any(c[1] <= n); }, next,
                        State{zeros(s, p.dtype()), zeros(s, p.dtype()), key});
  return end[0] - 1;
}
Array stirling_tail(const Array& given) {
  const std::vector<double> table{0.0810614667953272,  0.0413406959554092, 0.0276779256849983, 0.02079067210376509,
                                  0.0166446911898211,  0.0138761288230707, 0.0118967099458917, 0.010411265261972,
                                  0.00925546218271273, 0.00833056343336287};
  Array k = clip(given, 0.0, 9.0);
  Array k2 = square(k + 1);
  Array series = (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / k2) / k2) / (k + 1);
  Array known = take(program::as(Array(HostArray::from(table)), k.dtype()), astype(floor(k), int32), 0, TakeMode::Clip);
  return where(given <= 9, known, series);
}
// Transformed rejection with squeeze (Hoermann, 1993, BTRS).
Array binomial_by_rejection(const Array& key, const Array& n, const Array& p) {
  const Shape& s = n.shape();
  Array deviation = sqrt(n * p * (1 - p));
  Array b = 1.15 + 2.53 * deviation;
  Array a = -0.0873 + 0.0248 * b + 0.01 * p;
  Array c0 = n * p + 0.5;
  Array v_r = 0.92 - 4.2 / b;
  Array r = p / (1 - p);
  Array alpha = (2.83 + 5.1 / b) * deviation;
  Array m = floor((n + 1) * p);
  auto next = [&](const State& c) {
    auto keys = split_keys(c[2], 3);
    Array u = uniform(keys[1], s, p.dtype()) - 0.5;
    Array v = uniform(keys[2], s, p.dtype());
    Array us = 0.5 - abs(u);
    Array k = floor((2 * a / us + b) * u + c0);
    Array accept = (us >= 0.07) & (v <= v_r);
    Array reject = (k < 0) | (k > n);
    v = log(v * alpha / (a / (us * us) + b));
    Array bound = (m + 0.5) * log((m + 1) / (r * (n - m + 1))) + (n + 1) * log((n - m + 1) / (n - k + 1)) +
                  (k + 0.5) * log(r * (n - k + 1) / (k + 1)) + stirling_tail(m) + stirling_tail(n - m) -
                  stirling_tail(k) - stirling_tail(n - k);
    accept = accept | (~reject & (v <= bound));
    return State{where(accept, k, c[0]), c[1] | accept, keys[0]};
  };
  return while_loop([](const State& c) { return any(~c[1]); }, next,
                    State{full(s, -1, p.dtype()), zeros(s, bool_), key})[0];
}
}  // namespace

Array binomial(const Operand& key, const Operand& n, const Operand& p, const MaybeShape& shape, DType dtype) {
  program::check_float("binomial", dtype);
  return composite("binomial", {key, n, p}, [&](const Arrays& v) {
    const Shape& s = program::shape_for("binomial", shape, {v[1].shape(), v[2].shape()});
    Array prob = program::promoted("binomial", {v[2]}, true)[0];
    prob = broadcast_to(program::as(prob, prob.dtype()), s);
    Array count = broadcast_to(program::as(v[1], prob.dtype()), s);
    const double nan = std::numeric_limits<double>::quiet_NaN();
    // The rarer outcome is counted.
    Array rare = prob < 0.5;
    Array q = where(rare, prob, 1 - prob);
    Array bad_count = isnan(count) | (count < 0);
    Array infinite = isinf(count);
    Array bad_q = isnan(q) | (q < 0);
    Array safe_q = where(bad_q, 0.01, q);
    Array few = bad_count | (count * safe_q <= 10);
    Array whole = floor(count);
    Array inverted = binomial_by_inversion(v[0], where(few & ~bad_count, whole, 0), safe_q);
    Array rejected = binomial_by_rejection(v[0], where(few | infinite, 1e4, whole), where(few, 0.5, safe_q));
    Array y = astype(where(few, inverted, rejected), dtype);
    Array invalid = bad_q | bad_count;
    y = where(invalid, nan, y);
    y = where(infinite & ~invalid, std::numeric_limits<double>::infinity(), y);
    return where(rare | bad_count | isnan(q) | infinite, y, astype(whole, dtype) - y);
  });
}
Array multinomial(const Operand& key, const Operand& n, const Operand& p, const MaybeShape& shape, DType dtype) {
  return composite("multinomial", {key, n, p}, [&](const Arrays& v) {
    Arrays a = program::promoted("multinomial", {v[1], v[2]}, true);
    const Shape& s = shape.value_or(a[1].shape());
    if (s.empty()) throw ValueError("random::multinomial: p has rank 0; expected at least 1");
    Array rest = broadcast_to(program::as(a[0], a[0].dtype()), Shape(s.begin(), s.end() - 1));
    Array probs = moveaxis(broadcast_to(a[1], s), {-1}, {0});
    Array left = lax::cumsum(probs, 0, true);
    Array ratios = clip(probs / where(left == 0, 1, left), 0, 1);
    Array keys = random::split(v[0], s.back());
    // One category after the other, of the trials that are left.
    auto next = [&](const Array& left_over, const std::pair<Array, Array>& x) {
      Array c = binomial(x.second, left_over, x.first, std::nullopt, left_over.dtype());
      return std::pair{left_over - c, c};
    };
    Array counts = scan(next, rest, std::pair{ratios, keys}).second;
    return astype(moveaxis(counts, {0}, {-1}), dtype);
  });
}

// --- vectors and matrices -----------------------------------------------------------------------------------------

Array multivariate_normal(const Operand& key, const Operand& mean, const Operand& cov, const MaybeShape& shape,
                          std::optional<DType> dtype) {
  const Shape m = mean.array().shape();
  const Shape c = cov.array().shape();
  if (m.empty() || c.size() < 2 || c.back() != m.back() || c[c.size() - 2] != m.back()) {
    throw ValueError(str("random::multivariate_normal: mean and cov have shapes ", m, " and ", c,
                         "; expected (…, n) and (…, n, n)"));
  }
  return composite("multivariate_normal", {key, mean, cov}, [&](const Arrays& v) {
    Arrays p = program::promoted("multivariate_normal", {v[1], v[2]}, true);
    const DType t = dtype.value_or(p[0].dtype());
    program::check_float("multivariate_normal", t);
    Shape s = program::shape_for("multivariate_normal", shape,
                                 {Shape(m.begin(), m.end() - 1), Shape(c.begin(), c.end() - 2)});
    s.push_back(m.back());
    return p[0] + einsum("...ij,...j->...i", {linalg::cholesky(p[1]), normal(v[0], s, t)});
  });
}
Array orthogonal(const Operand& key, std::int64_t n, const Shape& shape, DType dtype, std::optional<std::int64_t> m) {
  const std::int64_t columns = m.value_or(n);
  return composite("orthogonal", {key}, [&](const Arrays& v) {
    Shape s = shape;
    s.insert(s.end(), {std::max(n, columns), std::min(n, columns)});
    auto f = linalg::qr(normal(v[0], s, dtype));
    Array d = diagonal(f.r, {.axis1 = -2, .axis2 = -1});
    // The phases of the diagonal make the distribution uniform.
    Array q = f.q * lax::expand_dims(d / program::as(abs(d), d.dtype()), {d.ndim() - 1});
    return n < columns ? matrix_transpose(q) : q;
  });
}
Array choice(const Operand& key, const Array& from, const Shape& shape, const ChoiceOptions& o) {
  const std::int64_t d = program::axis_of("choice", o.axis, from.ndim());
  const std::int64_t n = from.shape(d);
  const std::int64_t draws = size_of(shape);
  if (n == 0 && draws > 0) throw ValueError("random::choice: the array is empty");
  if (!o.replace && draws > n)
    throw ValueError(str("random::choice: ", draws, " draws of ", n, " without putting back"));
  if (o.p && o.p->shape() != Shape{n})
    throw ValueError(str("random::choice: p has shape ", o.p->shape(), "; expected (", n, ",)"));
  Arrays in{key.array(), from};
  if (o.p) in.push_back(*o.p);
  auto draw = [&](const Arrays& v) {
    Array rows;
    if (!o.p && o.replace) {
      rows = randint(v[0], shape, 0, n);
    } else if (!o.p) {
      Array shuffled = program::cut(permutation(v[0], v[1], d), 0, draws, d);
      Shape out = v[1].shape();
      out.erase(out.begin() + d);
      out.insert(out.begin() + d, shape.begin(), shape.end());
      return reshape(shuffled, out);
    } else {
      Array p = program::promoted("choice", {v[2]}, true)[0];
      p = program::as(p, p.dtype());
      if (o.replace) {
        Array sums = cumsum(p, 0);
        rows = searchsorted(sums, program::pick(sums, -1, 0) * (1 - uniform(v[0], shape, p.dtype())));
      } else {
        rows = reshape(lax::top_k(gumbel(v[0], {n}, p.dtype()) + log(p), draws).second, shape);
      }
    }
    return take(v[1], rows, d, TakeMode::Clip);
  };
  return detail::placed_as(o.out_sharding, "random::choice", [&] { return composite("choice", key.loc(), in, draw); });
}

}  // namespace random

}  // namespace tessera
