// SPDX-License-Identifier: Apache-2.0
// Gamma variates (Marsaglia and Tsang, 2000) and what is built on them. Every element has a key of its own, so that an
// element does not depend on how many tries others needed.
#include <cmath>
#include <limits>

#include "numpy/random/random_common.h"
#include "ops/transform/graph_rules.h"
#include "program/graph_fragment.h"
#include "tessera/control.h"
#include "tessera/custom.h"
#include "tessera/elementary.h"
#include "tessera/lax.h"
#include "tessera/numpy.h"

namespace tessera::random {

using program::Arrays;
using program::composite;

namespace {

// f of one element of each operand, for all elements of dimension 0.
Array for_each(const Arrays& in, const std::function<Array(const Arrays&)>& f) {
  ir::Types types;
  for (const auto& a : in) {
    ir::Type t = program::type_of(a, "gamma");
    t.shape.erase(t.shape.begin());
    types.push_back(t);
  }
  program::Traced one = program::trace([&](const Arrays& v) { return Arrays{f(v)}; }, types);
  const std::int64_t n = in[0].shape(0);
  return program::graph_fragment1("gamma", Loc::current(), in, [&](ir::Builder& b, const ir::Values& v) {
    ir::Batched out = ops::batch_inline(b, *one.graph, v, ops::Flags(in.size(), true), n);
    return out.batched[0] ? out.out[0] : ops::repeat_in_front(out.out[0], n);
  });
}

// A normal number whose cube root transform is positive: (key) -> x, 1 + c x.
std::vector<Array> positive_try(const Array& key, const Array& c) {
  const DType t = c.dtype();
  auto end = while_loop([](const std::vector<Array>& s) { return s[2] <= 0; },
                        [&](const std::vector<Array>& s) {
                          auto keys = split_keys(s[0]);
                          Array x = normal(keys[1], {}, t);
                          return std::vector<Array>{keys[0], x, 1 + x * c};
                        },
                        std::vector<Array>{key, zeros({}, t), full({}, -1, t)});
  return {end[1], end[2]};
}

Array one_gamma(const Array& key, const Array& a, bool log_space) {
  const DType t = a.dtype();
  Array large = a >= 1;
  // Below 1 a variate of a + 1 is scaled down.
  Array d = where(large, a, a + 1) - program::number_like(a, 1.0 / 3);
  Array c = program::number_like(a, 1.0 / 3) / sqrt(d);
  auto first = split_keys(key);
  auto rejected = [&](const std::vector<Array>& s) {
    const Array &x = s[1], &v = s[2], &u = s[3];
    return (u >= 1 - 0.0331 * (x * x)) & (log(u) >= x * 0.5 + d * (1 - v + log(v)));
  };
  auto next = [&](const std::vector<Array>& s) {
    auto keys = split_keys(s[0], 3);
    auto xv = positive_try(keys[1], c);
    const Array& v = xv[1];
    return std::vector<Array>{keys[0], xv[0] * xv[0], v * v * v, uniform(keys[2], {}, t)};
  };
  Array v = while_loop(rejected, next, std::vector<Array>{first[0], zeros({}, t), full({}, 1, t), full({}, 2, t)})[2];
  if (log_space) {
    Array sample = -exponential(first[1], {}, t);
    Array boost = where(large | (sample == 0), 0, sample / a);
    return log(d) + log(v) + boost;
  }
  return d * v * where(large, 1, power(1 - uniform(first[1], {}, t), 1 / a));
}

// Derivative in a, from the sample itself (implicit reparametrisation, Figurnov et al., 2018).
Array gamma_slope(const Array& a, const Array& sample, bool log_space) {
  auto slope = [](const Array& alpha, const Array& x) {
    return program::bind1(ops::def::random_gamma_grad, {alpha, x}, nullptr, Loc::current());
  };
  if (!log_space) return slope(a, sample);
  Array x = exp(sample);
  x = where(x == 0, program::number_like(x, program::float_info(x.dtype()).tiny), x);
  return slope(a, x) / x;
}

Array gammas(const char* name, const Operand& key, const Operand& a, const MaybeShape& shape, DType dtype,
             bool log_space) {
  program::check_float(name, dtype);
  return composite(name, {key, a}, [&](const Arrays& v) {
    Array alpha = broadcast_to(program::as(v[1], dtype), program::shape_for(name, shape, {v[1].shape()}));
    const std::int64_t n = alpha.size();
    Array keys = random::split(v[0], n);
    auto sample = custom_jvp(
        [&](const Array& k, const Array& x) {
          return for_each({k, x}, [&](const Arrays& one) { return one_gamma(one[0], one[1], log_space); });
        },
        [&](const std::tuple<Array, Array>& primals, const std::tuple<Array, Array>& tangents) {
          const auto& [k, x] = primals;
          Array y = for_each({k, x}, [&](const Arrays& one) { return one_gamma(one[0], one[1], log_space); });
          return std::pair{y, gamma_slope(x, y, log_space) * std::get<1>(tangents)};
        });
    if (n == 0) return alpha;
    return reshape(sample(keys, ravel(alpha)), alpha.shape());
  });
}

}  // namespace

Array gamma(const Operand& key, const Operand& a, const MaybeShape& shape, DType dtype) {
  return gammas("gamma", key, a, shape, dtype, false);
}
Array loggamma(const Operand& key, const Operand& a, const MaybeShape& shape, DType dtype) {
  return gammas("loggamma", key, a, shape, dtype, true);
}
Array beta(const Operand& key, const Operand& a, const Operand& b, const MaybeShape& shape, DType dtype) {
  return composite("beta", {key, a, b}, [&](const Arrays& v) {
    const Shape s = program::shape_for("beta", shape, {v[1].shape(), v[2].shape()});
    auto keys = split_keys(v[0]);
    Array x = loggamma(keys[0], broadcast_to(v[1], s), s, dtype);
    Array y = loggamma(keys[1], broadcast_to(v[2], s), s, dtype);
    Array largest = maximum(x, y);
    x = exp(x - largest);
    return x / (x + exp(y - largest));
  });
}
Array dirichlet(const Operand& key, const Operand& alpha, const MaybeShape& shape, DType dtype) {
  if (alpha.array().ndim() < 1) throw ValueError("random::dirichlet: alpha has rank 0; expected at least 1");
  return composite("dirichlet", {key, alpha}, [&](const Arrays& v) {
    const Shape own = v[1].shape();
    Shape s = program::shape_for("dirichlet", shape, {Shape(own.begin(), own.end() - 1)});
    s.push_back(own.back());
    return softmax(loggamma(v[0], v[1], s, dtype));
  });
}
Array chisquare(const Operand& key, const Operand& df, const MaybeShape& shape, DType dtype) {
  return composite("chisquare", {key, df}, [&](const Arrays& v) {
    return exp(loggamma(v[0], program::as(v[1], dtype) / 2, shape, dtype)) * 2;
  });
}
Array f(const Operand& key, const Operand& dfnum, const Operand& dfden, const MaybeShape& shape, DType dtype) {
  return composite("f", {key, dfnum, dfden}, [&](const Arrays& v) {
    const Shape s = program::shape_for("f", shape, {v[1].shape(), v[2].shape()});
    auto keys = split_keys(v[0]);
    Array num = chisquare(keys[1], v[1], s, dtype) / program::as(v[1], dtype);
    return num / (chisquare(keys[0], v[2], s, dtype) / program::as(v[2], dtype));
  });
}
Array t(const Operand& key, const Operand& df, const MaybeShape& shape, DType dtype) {
  return composite("t", {key, df}, [&](const Arrays& v) {
    const Shape s = program::shape_for("t", shape, {v[1].shape()});
    auto keys = split_keys(v[0]);
    Array half = program::as(v[1], dtype) / 2;
    return normal(keys[0], s, dtype) * sqrt(half / gamma(keys[1], half, s, dtype));
  });
}
Array generalized_normal(const Operand& key, const Operand& p, const Shape& shape, DType dtype) {
  return composite("generalized_normal", {key, p}, [&](const Arrays& v) {
    auto keys = split_keys(v[0]);
    Array power_of = program::as(1 / v[1], dtype);
    Array g = gamma(keys[0], power_of, shape, dtype);
    return program::as(rademacher(keys[1], shape), dtype) * power(g, power_of);
  });
}
Array ball(const Operand& key, std::int64_t d, double p, const Shape& shape, DType dtype) {
  return composite("ball", {key}, [&](const Arrays& v) {
    auto keys = split_keys(v[0]);
    Shape wide = shape;
    wide.push_back(d);
    Array g = generalized_normal(keys[0], p, wide, dtype);
    Array e = exponential(keys[1], shape, dtype);
    Array size = power(sum(power(abs(g), p), -1) + e, 1 / p);
    return g / lax::expand_dims(size, {size.ndim()});
  });
}

}  // namespace tessera::random
