// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "api/compose.h"
#include "api/promote.h"
#include "tessera/numpy.h"

namespace tessera {

using api::on;

namespace {
Operand num(double v, const Loc& loc) { return Operand(v, loc); }
}  // namespace

Array var(const Operand& x, const VarOptions& o) {
  const Loc& loc = x.loc();
  Array a = api::inexact("var", x.array(), loc);
  DType own = a.dtype();
  bool half = own == float16 || own == bfloat16;
  if (half) a = api::cast(a, float32, false, loc);
  double n = 1;
  for (auto d : api::axes_of("var", o.axis, a.ndim())) n *= static_cast<double>(a.shape(d));
  Array centered = subtract(on(a, loc), on(mean(on(a, loc), {.axis = o.axis, .keepdims = true}), loc));
  Array squares = is_complex(own) ? real(on(multiply(on(centered, loc), on(conj(on(centered, loc)), loc)), loc))
                                  : square(on(centered, loc));
  Array total = sum(on(squares, loc), {.axis = o.axis, .keepdims = o.keepdims});
  Array v = divide(on(total, loc), num(std::max(0.0, n - o.ddof), loc));
  return half ? api::cast(v, own, false, loc) : v;
}
Array std_(const Operand& x, const VarOptions& o) { return sqrt(on(var(x, o), x.loc())); }

namespace {
// The largest element as a constant of differentiation, and 0 where it is infinite: x - shift is then finite where it
// can be.
Array safe_max(const Operand& x, const Dims& axes) {
  Array m = max(x, {.axis = axes, .keepdims = true});
  const Loc& loc = x.loc();
  return stop_gradient(on(where(on(isfinite(on(m, loc)), loc), on(m, loc), num(0, loc)), loc));
}
}  // namespace

Array logsumexp(const Operand& x, const ReduceOptions& o) {
  const Loc& loc = x.loc();
  Array a = api::inexact("logsumexp", x.array(), loc);
  Dims axes = api::axes_of("logsumexp", o.axis, a.ndim());
  Array shift = safe_max(on(is_complex(a.dtype()) ? real(on(a, loc)) : a, loc), axes);
  Array total = sum(on(exp(on(subtract(on(a, loc), on(shift, loc)), loc)), loc), {.axis = axes, .keepdims = true});
  Array y = add(on(log(on(total, loc)), loc), on(shift, loc));
  if (o.keepdims) return y;
  Shape kept;
  for (std::int64_t d = 0; d < a.ndim(); ++d) {
    if (std::find(axes.begin(), axes.end(), d) == axes.end()) kept.push_back(a.shape(d));
  }
  return reshape(on(y, loc), kept);
}

Array softmax(const Operand& x, std::int64_t axis) {
  const Loc& loc = x.loc();
  Array a = api::inexact("softmax", x.array(), loc);
  Dims axes{api::axis_of("softmax", axis, a.ndim())};
  Array shift = stop_gradient(on(max(on(a, loc), {.axis = axes, .keepdims = true}), loc));
  Array e = exp(on(subtract(on(a, loc), on(shift, loc)), loc));
  return divide(on(e, loc), on(sum(on(e, loc), {.axis = axes, .keepdims = true}), loc));
}
Array log_softmax(const Operand& x, std::int64_t axis) {
  const Loc& loc = x.loc();
  Array a = api::inexact("log_softmax", x.array(), loc);
  Dims axes{api::axis_of("log_softmax", axis, a.ndim())};
  Array shift = stop_gradient(on(max(on(a, loc), {.axis = axes, .keepdims = true}), loc));
  Array shifted = subtract(on(a, loc), on(shift, loc));
  Array total = sum(on(exp(on(shifted, loc)), loc), {.axis = axes, .keepdims = true});
  return subtract(on(shifted, loc), on(log(on(total, loc)), loc));
}
Array clip(const Operand& x, const std::optional<Operand>& min, const std::optional<Operand>& max) {
  Array y = x.array();
  if (min) y = maximum(on(y, x.loc()), *min);
  if (max) y = minimum(on(y, x.loc()), *max);
  return y;
}

}  // namespace tessera
