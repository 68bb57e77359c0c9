// SPDX-License-Identifier: Apache-2.0
// Reductions over dimensions: masks, start values and kept dimensions around the ops.
#include "numpy/reduction_functions.h"

#include <cmath>
#include <limits>
#include <vector>

#include "ops/shared_attrs.h"
#include "program/composite.h"
#include "tessera/explicit_sharding.h"
#include "tessera/numpy.h"
#include "tessera/ops.h"

namespace tessera {

using program::attrs;
using program::bind1;
using program::on;
namespace def = ops::def;

namespace program {

void only(const char* name, const ReduceOptions& o, Takes takes) {
  if (o.axis_index_groups) throw ValueError(str(name, ": axis_index_groups is an option of collectives"));
  if (o.out_sharding.given())
    throw ValueError(str(name, ": out_sharding is an option of sum alone; reshard the result"));
  if (o.initial && takes != Takes::InitialAndWhere) {
    throw ValueError(str(name, ": initial is given; expected none, because the result has no start value"));
  }
  if (o.where && takes == Takes::Neither) {
    throw ValueError(str(name, ": where is given; expected none: leave elements out before the call"));
  }
}

Array mask_of(const char* name, const Operand& where, const Shape& shape, const Loc& loc) {
  const Array& w = where.array();
  if (!is_bool(w.dtype())) throw TypeError(str(name, ": where has dtype ", dtype_name(w.dtype()), "; expected bool"));
  if (broadcast_shapes(name, {w.shape(), shape}) != shape) {
    throw ValueError(str(name, ": where has shape ", w.shape(), "; expected one that broadcasts to ", shape));
  }
  return widen(w, shape, loc);
}

Array count_of(const char* name, const Array& x, const MaybeDims& axis, bool keepdims,
               const std::optional<Operand>& where, DType dtype, const Loc& loc) {
  if (!where) {
    double n = 1;
    for (auto d : axes_of(name, axis, x.ndim())) n *= static_cast<double>(x.shape(d));
    return Array(n);
  }
  const Array taken = broadcast_to(on(mask_of(name, *where, x.shape(), loc), loc), x.shape());
  return sum(on(taken, loc), {.axis = axis, .keepdims = keepdims, .dtype = dtype});
}

}  // namespace program

namespace {

using Combine = Array (*)(const Operand&, const Operand&);

// What an op needs beside its name.
struct Kind {
  const ir::OpDef& op;
  const char* name;
  double identity;       ///< what elements that take no part stand for; an infinity is the dtype's extreme
  bool has_identity;     ///< a reduction of nothing has a result
  Combine with_initial;  ///< null: takes none
};

Array identity_of(const Kind& k, const Array& like, const Loc& loc) {
  const DType t = like.dtype();
  if (!std::isinf(k.identity) || is_inexact(t)) return program::number_like(like, k.identity);
  // Saturates at the extremes of integers, and of bool.
  return program::cast(Array(k.identity), t, false, loc);
}

Array reduce(const Kind& k, const Operand& x, const ReduceOptions& o) {
  const Loc& loc = x.loc();
  const Shape shape = x.array().shape();
  const Dims axes = program::axes_of(k.name, o.axis, rank(shape));
  if (!k.has_identity && !o.initial) {
    if (o.where) {
      throw ValueError(str(k.name,
                           ": where is given without initial; expected initial too, because there is no result "
                           "where no element takes part"));
    }
    for (auto a : axes) {
      if (shape[static_cast<std::size_t>(a)] == 0)
        throw ValueError(str(k.name, ": axis ", a, " of shape ", shape, " is empty and there is no identity"));
    }
  }
  Array in = x.array();
  if (o.where) {
    const Array mask = program::mask_of(k.name, *o.where, shape, loc);
    in = where(on(mask, loc), on(in, loc), on(identity_of(k, in, loc), loc));
  }
  Array y = axes.empty() ? in : bind1(k.op, {in}, attrs(ops::Axes{axes}), loc);
  if (o.initial) {
    const Array& start = o.initial->array();
    if (start.ndim() != 0) throw ValueError(str(k.name, ": initial has shape ", start.shape(), "; expected rank 0"));
    const ir::Type& t = y.impl()->type;
    const Array same = is_integer(t.dtype) ? program::meet(k.name, start, t.dtype, t.weak, loc)
                                           : program::cast_exactly(start, t.dtype, t.weak, loc);
    y = k.with_initial(on(same, loc), on(y, loc));
  }
  if (!o.keepdims) return y;
  Shape kept = shape;
  for (auto a : axes) kept[static_cast<std::size_t>(a)] = 1;
  return reshape(on(y, loc), kept);
}

// JAX sums bool and integers narrower than 32 bits in 32 bits.
DType sum_dtype(DType t) {
  if (is_bool(t) || t == int8 || t == int16) return int32;
  return t == uint8 || t == uint16 ? uint32 : t;
}

Array accumulate(const Kind& k, const Operand& x, const ReduceOptions& o) {
  program::only(k.name, o, program::Takes::InitialAndWhere);
  DType own = x.array().dtype();
  DType t = o.dtype.value_or(sum_dtype(own));
  Array in = t == own ? x.array() : program::cast(x.array(), t, false, x.loc());
  return reduce(k, on(in, x.loc()), o);
}

Array extreme(const Kind& k, const Operand& x, const ReduceOptions& o) {
  program::only(k.name, o, program::Takes::InitialAndWhere);
  return reduce(k, x, o);
}

Array truth(const Kind& k, const Operand& x, const ReduceOptions& o) {
  program::only(k.name, o, program::Takes::Where);
  return reduce(k, on(program::cast(x.array(), bool_, false, x.loc()), x.loc()), o);
}

}  // namespace

Array sum(const Operand& x, const ReduceOptions& o) {
  ReduceOptions plain = o;
  plain.out_sharding = {};
  return detail::placed_as(o.out_sharding, "sum", [&] {
    return accumulate({def::reduce_sum, "sum", 0, true, add}, x, plain);
  });
}
Array prod(const Operand& x, const ReduceOptions& o) {
  return accumulate({def::reduce_prod, "prod", 1, true, multiply}, x, o);
}
Array max(const Operand& x, const ReduceOptions& o) {
  return extreme({def::reduce_max, "max", -HUGE_VAL, false, maximum}, x, o);
}
Array min(const Operand& x, const ReduceOptions& o) {
  return extreme({def::reduce_min, "min", HUGE_VAL, false, minimum}, x, o);
}
Array all(const Operand& x, const ReduceOptions& o) { return truth({def::reduce_and, "all", 1, true, nullptr}, x, o); }
Array any(const Operand& x, const ReduceOptions& o) { return truth({def::reduce_or, "any", 0, true, nullptr}, x, o); }

Array mean(const Operand& x, const ReduceOptions& o) {
  const Loc& loc = x.loc();
  program::only("mean", o, program::Takes::Where);
  Array in = program::inexact("mean", x.array(), loc);
  if (o.dtype) in = program::cast(in, *o.dtype, false, loc);
  // Halves are summed in float32 and rounded once.
  const DType out = in.dtype();
  const bool half = out == float16 || out == bfloat16;
  if (half) in = program::cast(in, float32, false, loc);
  const Array total = reduce({def::reduce_sum, "mean", 0, true, nullptr}, on(in, loc),
                             {.axis = o.axis, .keepdims = o.keepdims, .where = o.where});
  const Array count = program::count_of("mean", in, o.axis, o.keepdims, o.where, real_dtype(in.dtype()), loc);
  Array m = divide(on(total, loc), on(count, loc));
  return half ? program::cast(m, out, false, loc) : m;
}

// --- variance ----------------------------------------------------------------------------------------------------

Array var(const Operand& x, const VarOptions& o) {
  const Loc& loc = x.loc();
  Array a = program::inexact("var", x.array(), loc);
  if (o.dtype) {
    if (!is_inexact(*o.dtype) || (is_complex(a.dtype()) && !is_complex(*o.dtype))) {
      throw TypeError(str("var: dtype = ", dtype_name(*o.dtype), " for x of dtype ", dtype_name(a.dtype()),
                          "; expected ", is_complex(a.dtype()) ? "a complex dtype" : "a float or complex dtype"));
    }
    a = program::cast(a, *o.dtype, false, loc);
  }
  const DType own = a.dtype();
  const bool half = own == float16 || own == bfloat16;
  if (half) a = program::cast(a, float32, false, loc);
  const Array centre = o.mean ? program::cast(o.mean->array(), a.dtype(), a.weak_type(), loc)
                              : mean(on(a, loc), {.axis = o.axis, .keepdims = true, .where = o.where});
  const Array centered = subtract(on(a, loc), on(centre, loc));
  const Array squares = is_complex(own) ? real(on(multiply(on(centered, loc), on(conj(on(centered, loc)), loc)), loc))
                                        : square(on(centered, loc));
  const Array total = sum(on(squares, loc), {.axis = o.axis, .keepdims = o.keepdims, .where = o.where});
  const Array nan(std::numeric_limits<double>::quiet_NaN());
  Array v;
  if (o.where) {
    Array count = program::count_of("var", squares, o.axis, o.keepdims, o.where, squares.dtype(), loc);
    count = subtract(on(count, loc), Operand(o.ddof, loc));
    v = divide(on(total, loc), on(count, loc));
    v = where(on(on(count, loc) > Operand(0, loc), loc), on(v, loc), on(nan, loc));
  } else {
    double n = 1;
    for (auto d : program::axes_of("var", o.axis, a.ndim())) n *= static_cast<double>(a.shape(d));
    n -= o.ddof;
    v = divide(on(total, loc), on(n > 0 ? Array(n) : nan, loc));
  }
  return half ? program::cast(v, own, false, loc) : v;
}
Array std_(const Operand& x, const VarOptions& o) { return sqrt(on(var(x, o), x.loc())); }

}  // namespace tessera
