// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "numpy/reduction_functions.h"
#include "program/composite.h"
#include "program/promote.h"
#include "tessera/custom.h"
#include "tessera/numpy.h"

namespace tessera {

using program::on;

namespace {
Operand num(double v, const Loc& loc) { return Operand(v, loc); }
}  // namespace

namespace {

// log(abs(sum(b * exp(x)))) and the sum's sign, without a sign where nothing is negative.
struct LogSum {
  Array log, sign;
};
LogSum log_sum(const Operand& x, const std::optional<Operand>& b, const ReduceOptions& o) {
  const Loc& loc = x.loc();
  program::only("logsumexp", o, program::Takes::Where);
  if (o.dtype) throw ValueError("logsumexp: dtype is given; expected none: convert x");
  Array a = program::inexact("logsumexp", x.array(), loc);
  Array factor;
  if (b) {
    std::vector<Array> both = program::promote("logsumexp", {a, program::inexact("logsumexp", b->array(), loc)}, loc);
    const Shape shape = program::broadcast_shapes("logsumexp", {both[0].shape(), both[1].shape()});
    factor = both[1];
    a = where(on(on(factor, loc) != num(0, loc), loc), on(broadcast_to(on(both[0], loc), shape), loc),
              num(-std::numeric_limits<double>::infinity(), loc));
  }
  if (o.where) {  // what takes no part is as a factor of zero
    const Array mask = program::mask_of("logsumexp", *o.where, a.shape(), loc);
    a = where(on(mask, loc), on(a, loc), num(-std::numeric_limits<double>::infinity(), loc));
  }
  const Dims axes = program::axes_of("logsumexp", o.axis, a.ndim());
  const Array re = is_complex(a.dtype()) ? real(on(a, loc)) : a;
  // The largest element as a constant of differentiation, and 0 where it is infinite: x - shift is then finite where it
  // can be.
  ReduceOptions along{.axis = axes, .keepdims = true};
  if (re.size() == 0) along.initial = num(-std::numeric_limits<double>::infinity(), loc);
  Array shift = max(on(re, loc), along);
  shift = stop_gradient(on(where(on(isfinite(on(shift, loc)), loc), on(shift, loc), num(0, loc)), loc));
  Array terms = exp(on(subtract(on(a, loc), on(shift, loc)), loc));
  if (b) terms = multiply(on(terms, loc), on(factor, loc));
  if (b && o.where)
    terms = where(on(program::mask_of("logsumexp", *o.where, terms.shape(), loc), loc), on(terms, loc), num(0, loc));
  Array total = sum(on(terms, loc), {.axis = axes, .keepdims = true});
  LogSum out;
  if (b) {
    out.sign = sign(on(total, loc));
    if (!is_complex(a.dtype())) total = abs(on(total, loc));
  }
  out.log = add(on(log(on(total, loc)), loc), on(shift, loc));
  if (o.keepdims) return out;
  out.log = squeeze(on(out.log, loc), axes);
  if (b) out.sign = squeeze(on(out.sign, loc), axes);
  return out;
}

}  // namespace

Array logsumexp(const Operand& x, const ReduceOptions& o) { return log_sum(x, std::nullopt, o).log; }
Array logsumexp(const Operand& x, const Operand& b, const ReduceOptions& o) {
  const Loc& loc = x.loc();
  const LogSum s = log_sum(x, b, o);
  if (is_complex(s.log.dtype())) return s.log;
  return where(on(on(s.sign, loc) < num(0, loc), loc), num(std::numeric_limits<double>::quiet_NaN(), loc),
               on(s.log, loc));
}
std::pair<Array, Array> logsumexp_and_sign(const Operand& x, const Operand& b, const ReduceOptions& o) {
  LogSum s = log_sum(x, b, o);
  return {is_complex(s.log.dtype()) ? real(on(s.log, x.loc())) : s.log, s.sign};
}

namespace {
// x less its largest along the axes, which takes no part in derivatives.
Array shifted(const Array& x, const Dims& axes) { return x - stop_gradient(max(x, {.axis = axes, .keepdims = true})); }
}  // namespace

Array softmax(const Operand& x, std::int64_t axis) {
  Array a = program::inexact("softmax", x.array(), x.loc());
  const Dims axes{program::axis_of("softmax", axis, a.ndim())};
  auto value = [axes](const Array& v) {
    Array e = exp(shifted(v, axes));
    return e / sum(e, {.axis = axes, .keepdims = true});
  };
  // y (t - sum(y t)), JAX's rule: of the quotient's own one each element would be divided twice more.
  auto rule = [axes, value](const std::tuple<Array>& v, const std::tuple<Array>& tangents) {
    const Array y = value(std::get<0>(v));
    const Array& t = std::get<0>(tangents);
    return std::pair{y, y * (t - sum(y * t, {.axis = axes, .keepdims = true}))};
  };
  const bool differentiable = a.is_traced();  // nothing differentiates what is not
  return program::composite("softmax", x.loc(), {a}, [&](const program::Arrays& v) {
    return differentiable ? custom_jvp(value, rule)(v[0]) : value(v[0]);
  });
}
Array log_softmax(const Operand& x, std::int64_t axis) {
  Array a = program::inexact("log_softmax", x.array(), x.loc());
  const Dims axes{program::axis_of("log_softmax", axis, a.ndim())};
  return program::composite("log_softmax", x.loc(), {a}, [&](const program::Arrays& v) {
    const Array y = shifted(v[0], axes);
    return y - log(sum(exp(y), {.axis = axes, .keepdims = true}));
  });
}
Array clip(const Operand& x, const std::optional<Operand>& min, const std::optional<Operand>& max) {
  Array y = x.array();
  if (min) y = maximum(on(y, x.loc()), *min);
  if (max) y = minimum(on(y, x.loc()), *max);
  return y;
}

}  // namespace tessera
