// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "ops/elementwise/random_bits.h"
#include "program/graph_fragment.h"
#include "program/promote.h"
#include "tessera/lax.h"
#include "tessera/numpy.h"
#include "tessera/ops.h"
#include "tessera/random.h"

namespace tessera::random {

using ir::Builder;
using ir::Value;
using ir::Values;
using program::graph_fragment1;
using program::on;

namespace {

Operand num(double v, const Loc& loc) { return Operand(v, loc); }
// A number of a given dtype.
Operand typed(double v, DType dtype, const Loc& loc) { return on(program::cast(Array(v), dtype, false, loc), loc); }

void check_key(const char* name, const Array& key) {
  ir::Type t = program::type_of(key, name);
  if (t.dtype != uint32 || t.shape != Shape{2}) {
    throw TypeError(str("random::", name, ": key is ", t, "; expected u32[2] as random::key gives it"));
  }
}

Value draw(Value key, const Shape& shape, DType dtype) { return ops::random_bits(key, 8 * dtype_size(dtype), shape); }

struct FloatForm {
  DType bits;    // as wide as the float
  DType drawn;   // what is drawn
  double shift;  // drawn bits to drop, so that a mantissa is left
  double one;    // the bits of 1.0
};
FloatForm float_form(const char* name, DType t) {
  switch (t) {
    case DType::F16:
      return {DType::U16, DType::U16, 16 - 10, 0x3C00};
    case DType::BF16:
      return {DType::U16, DType::U8, 8 - 7, 0x3F80};
    case DType::F32:
      return {DType::U32, DType::U32, 32 - 23, 0x3F800000};
    case DType::F64:
      return {DType::U64, DType::U64, 64 - 52, 4607182418800017408.0};
    default:
      throw TypeError(str("random::", name, ": dtype is ", dtype_name(t), "; expected a float dtype"));
  }
}

Array in_range(const char* name, const Operand& key, const Shape& shape, DType dtype, const Array& low,
               const Array& high) {
  check_key(name, key.array());
  size_of(shape);
  FloatForm f = float_form(name, dtype);
  const Loc& loc = key.loc();
  auto fit = [&](const Array& a) {
    Array v = program::cast(a, dtype, false, loc);
    if (v.ndim() > 0) v = broadcast_to(on(v, loc), shape);
    return v;
  };
  return graph_fragment1(name, loc, {key.array(), fit(low), fit(high)}, [&](Builder& b, const Values& v) {
    Value raw = ops::convert(draw(v[0], shape, f.drawn), f.bits);
    raw = ops::or_(ops::shift_right_logical(raw, ops::scalar(b, f.shift, f.bits)), ops::scalar(b, f.one, f.bits));
    Value unit = ops::bitcast_convert_type(raw, dtype) - 1.0;
    return ops::max(v[1], unit * (v[2] - v[1]) + v[1]);
  });
}

// The smallest positive normal number.
double tiny(DType t) {
  switch (t) {
    case DType::F16:
      return std::ldexp(1.0, -14);
    case DType::F64:
      return std::numeric_limits<double>::min();
    default:
      return static_cast<double>(std::numeric_limits<float>::min());
  }
}
// The number after -1 towards 0.
double after_minus_one(DType t) {
  switch (t) {
    case DType::F16:
      return -1 + std::ldexp(1.0, -11);
    case DType::BF16:
      return -1 + std::ldexp(1.0, -8);
    case DType::F32:
      return -1 + std::ldexp(1.0, -24);
    default:
      return -1 + std::ldexp(1.0, -53);
  }
}
double epsilon(DType t) {
  switch (t) {
    case DType::F16:
      return std::ldexp(1.0, -10);
    case DType::BF16:
      return std::ldexp(1.0, -7);
    case DType::F32:
      return std::ldexp(1.0, -23);
    default:
      return std::ldexp(1.0, -52);
  }
}

}  // namespace

Array key(std::int64_t seed, const Loc& loc) {
  auto u = static_cast<std::uint64_t>(seed);
  // Seeds of 32 bits fill the lower word alone, negative ones too, as JAX without 64-bit mode.
  auto high = seed >= INT32_MIN && seed <= INT32_MAX ? 0U : static_cast<std::uint32_t>(u >> 32);
  return graph_fragment1("key", loc, {}, [&](Builder& b, const Values&) {
    return ops::constant(b, HostArray::from<std::uint32_t>({high, static_cast<std::uint32_t>(u)}));
  });
}

Array split(const Operand& key, std::int64_t num) {
  check_key("split", key.array());
  if (num < 0) throw ValueError(str("random::split: num = ", num, "; expected no negative count"));
  return graph_fragment1("split", key.loc(), {key.array()},
                         [&](Builder&, const Values& v) { return ops::random_split(v[0], {num}); });
}
std::vector<Array> split_keys(const Operand& key, std::int64_t num) {
  Array all = random::split(key, num);
  std::vector<Array> out;
  for (std::int64_t i = 0; i < num; ++i) out.push_back(lax::index_in_dim(on(all, key.loc()), i, 0, false));
  return out;
}

Array fold_in(const Operand& key, const Operand& data) {
  check_key("fold_in", key.array());
  ir::Type t = program::type_of(data.array(), "fold_in");
  if (!is_integer(t.dtype) || !t.shape.empty())
    throw TypeError(str("random::fold_in: data is ", t, "; expected an integer scalar"));
  Array word = program::cast(data.array(), uint32, false, key.loc());
  return graph_fragment1("fold_in", key.loc(), {key.array(), word},
                         [](Builder&, const Values& v) { return ops::random_fold_in(v[0], v[1]); });
}

Array bits(const Operand& key, const Shape& shape, DType dtype) {
  check_key("bits", key.array());
  size_of(shape);
  if (!is_unsigned_int(dtype))
    throw TypeError(str("random::bits: dtype is ", dtype_name(dtype), "; expected an unsigned integer"));
  return graph_fragment1("bits", key.loc(), {key.array()},
                         [&](Builder&, const Values& v) { return draw(v[0], shape, dtype); });
}

Array uniform(const Operand& key, const Shape& shape, DType dtype, const Operand& minval, const Operand& maxval) {
  return in_range("uniform", key, shape, dtype, minval.array(), maxval.array());
}

Array normal(const Operand& key, const Shape& shape, DType dtype) {
  const Loc& loc = key.loc();
  if (is_complex(dtype)) {
    auto keys = split_keys(key, 2);
    DType part = real_dtype(dtype);
    Array re = normal(on(keys[0], loc), shape, part);
    Array im = normal(on(keys[1], loc), shape, part);
    return divide(on(complex(on(re, loc), on(im, loc)), loc), num(std::numbers::sqrt2, loc));
  }
  Array u = in_range("normal", key, shape, dtype, typed(after_minus_one(dtype), dtype, loc).array(),
                     typed(1, dtype, loc).array());
  return multiply(typed(std::numbers::sqrt2, dtype, loc), on(erf_inv(on(u, loc)), loc));
}

Array truncated_normal(const Operand& key, const Operand& lower, const Operand& upper, const Shape& shape,
                       DType dtype) {
  const Loc& loc = key.loc();
  float_form("truncated_normal", dtype);
  Operand low = on(program::cast(lower.array(), dtype, false, loc), loc);
  Operand high = on(program::cast(upper.array(), dtype, false, loc), loc);
  Operand root = typed(std::numbers::sqrt2, dtype, loc);
  Array a = erf(on(divide(low, root), loc));
  Array z = erf(on(divide(high, root), loc));
  Array u = in_range("truncated_normal", key, shape, dtype, a, z);
  Array x = multiply(root, on(erf_inv(on(u, loc)), loc));
  // Rounding may touch the bounds; the interval is open.
  double inf = std::numeric_limits<double>::infinity();
  Array first = nextafter(on(stop_gradient(low), loc), typed(inf, dtype, loc));
  Array last = nextafter(on(stop_gradient(high), loc), typed(-inf, dtype, loc));
  return minimum(on(maximum(on(x, loc), on(first, loc)), loc), on(last, loc));
}

namespace {
// A bound of randint, cut to [least, most] in its own dtype and then converted.
Array clamped(const Operand& o, double least, double most, DType to, const Loc& loc) {
  DType own = o.array().dtype();
  if (!is_integer(own))
    throw TypeError(str("random::randint: a bound has dtype ", dtype_name(own), "; expected an integer"));
  int width = static_cast<int>(dtype_size(own)) * 8;
  double own_least = is_unsigned_int(own) ? 0 : -std::ldexp(1.0, width - 1);
  double own_most = std::ldexp(1.0, width - (is_unsigned_int(own) ? 0 : 1)) - 1;
  Array a = program::cast(o.array(), own, false, loc);
  if (least > own_least) a = maximum(on(a, loc), typed(least, own, loc));
  if (most < own_most) a = minimum(on(a, loc), typed(most, own, loc));
  return program::cast(a, to, false, loc);
}
}  // namespace

Array randint(const Operand& key, const Shape& shape, const Operand& minval, const Operand& maxval, DType dtype) {
  check_key("randint", key.array());
  const Loc& loc = key.loc();
  if (!is_integer(dtype))
    throw TypeError(str("random::randint: dtype is ", dtype_name(dtype), "; expected an integer dtype"));
  auto width = static_cast<int>(dtype_size(dtype)) * 8;
  double least = is_unsigned_int(dtype) ? 0 : -std::ldexp(1.0, width - 1);
  double most = std::ldexp(1.0, is_unsigned_int(dtype) ? width : width - 1) - 1;
  if (width < 32) {
    // Narrow integers are drawn in 32 bits, where the remainder favours no number much.
    Array low = clamped(minval, least, most, int32, loc);
    Array high = clamped(maxval, least, most + 1, int32, loc);
    Array wide = randint(key, shape, on(low, loc), on(high, loc), int32);
    return program::cast(wide, dtype, false, loc);
  }
  DType unsigned_dtype = width == 8 ? uint8 : width == 16 ? uint16 : width == 32 ? uint32 : uint64;
  // Bounds beyond the dtype are cut; an upper one beyond it widens the span by one, so that the largest number can
  // come.
  auto bound = [&](const Operand& o) { return clamped(o, least, most, dtype, loc); };
  Array beyond;
  {
    DType own = maxval.array().dtype();
    double own_most = std::ldexp(1.0, static_cast<int>(dtype_size(own)) * 8 - (is_unsigned_int(own) ? 0 : 1)) - 1;
    Array strong = program::cast(maxval.array(), own, false, loc);
    beyond = most < own_most ? on(strong, loc) > typed(most, own, loc) : Array(false);
  }
  auto fit = [&](const Array& a) { return a.ndim() > 0 ? broadcast_to(on(a, loc), shape) : a; };
  std::vector<Array> keys = split_keys(key, 2);
  return graph_fragment1("randint", loc, {keys[0], keys[1], fit(bound(minval)), fit(bound(maxval)), fit(beyond)},
                         [&](Builder& b, const Values& v) {
                           Value high = draw(v[0], shape, unsigned_dtype);
                           Value low = draw(v[1], shape, unsigned_dtype);
                           Value one = ops::scalar(b, 1, unsigned_dtype);
                           Value empty = ops::le(v[3], v[2]);
                           Value span = ops::where(empty, one, ops::convert(ops::sub(v[3], v[2]), unsigned_dtype));
                           span = ops::where(ops::and_(v[4], ops::not_(empty)), ops::add(span, one), span);
                           Value multiplier =
                               ops::rem(ops::scalar(b, std::ldexp(1.0, width / 2), unsigned_dtype), span);
                           multiplier = ops::rem(ops::mul(multiplier, multiplier), span);
                           Value offset = ops::add(ops::mul(ops::rem(high, span), multiplier), ops::rem(low, span));
                           return ops::add(v[2], ops::convert(ops::rem(offset, span), dtype));
                         });
}

Array bernoulli(const Operand& key, const Operand& p, const MaybeDims& shape) {
  Array q = program::inexact("bernoulli", p.array(), key.loc());
  q = program::cast(q, q.dtype(), false, key.loc());
  if (shape && program::broadcast_shapes("random::bernoulli", {*shape, q.shape()}) != *shape) {
    throw ValueError(
        str("random::bernoulli: shape ", *shape, " for p of shape ", q.shape(), "; expected one that p broadcasts to"));
  }
  return on(uniform(key, shape.value_or(q.shape()), q.dtype()), key.loc()) < on(q, key.loc());
}
Array gumbel(const Operand& key, const Shape& shape, DType dtype) {
  const Loc& loc = key.loc();
  Array u = in_range("gumbel", key, shape, dtype, typed(tiny(dtype), dtype, loc).array(), typed(1, dtype, loc).array());
  return negative(on(log(on(negative(on(log(on(u, loc)), loc)), loc)), loc));
}
Array exponential(const Operand& key, const Shape& shape, DType dtype) {
  const Loc& loc = key.loc();
  return negative(on(log1p(on(negative(on(uniform(key, shape, dtype), loc)), loc)), loc));
}
Array laplace(const Operand& key, const Shape& shape, DType dtype) {
  const Loc& loc = key.loc();
  Array u = in_range("laplace", key, shape, dtype, typed(-1 + epsilon(dtype) / 2, dtype, loc).array(),
                     typed(1, dtype, loc).array());
  Array magnitude = log1p(on(negative(on(abs(on(u, loc)), loc)), loc));
  return multiply(on(sign(on(u, loc)), loc), on(magnitude, loc));
}
Array logistic(const Operand& key, const Shape& shape, DType dtype) {
  const Loc& loc = key.loc();
  Array u =
      in_range("logistic", key, shape, dtype, typed(tiny(dtype), dtype, loc).array(), typed(1, dtype, loc).array());
  return subtract(on(log(on(u, loc)), loc), on(log1p(on(negative(on(u, loc)), loc)), loc));
}
Array cauchy(const Operand& key, const Shape& shape, DType dtype) {
  const Loc& loc = key.loc();
  Array u =
      in_range("cauchy", key, shape, dtype, typed(epsilon(dtype), dtype, loc).array(), typed(1, dtype, loc).array());
  return tan(on(multiply(num(std::numbers::pi, loc), on(subtract(on(u, loc), num(0.5, loc)), loc)), loc));
}
Array rademacher(const Operand& key, const Shape& shape, DType dtype) {
  const Loc& loc = key.loc();
  Array heads = bernoulli(key, num(0.5, loc), shape);
  return program::cast(
      subtract(on(multiply(num(2, loc), on(program::cast(heads, int32, false, loc), loc)), loc), num(1, loc)), dtype,
      false, loc);
}

Array categorical(const Operand& key, const Operand& logits, std::int64_t axis, const MaybeDims& shape) {
  const Loc& loc = key.loc();
  Array l = program::inexact("categorical", logits.array(), loc);
  std::int64_t r = l.ndim();
  std::int64_t d = program::axis_of("categorical", axis, r);
  Shape batch = l.shape();
  batch.erase(batch.begin() + d);
  Shape wanted = shape.value_or(batch);
  if (wanted.size() < batch.size() || program::broadcast_shapes("categorical", {wanted, batch}) != wanted) {
    throw ValueError(str("random::categorical: shape ", wanted, " does not hold the batch ", batch, " of the logits"));
  }
  // Categories stand where they stand in the logits, counted from the end.
  Shape full = wanted;
  full.insert(full.end() - (r - 1 - d), l.shape(d));
  Array noise = gumbel(key, full, l.dtype());
  return tessera::argmax(on(add(on(noise, loc), on(l, loc)), loc), d - r);
}

namespace {
// Sorting by random words, as often as makes equal words unlikely.
Array shuffle(const Operand& key, const Array& x, std::int64_t axis) {
  const Loc& loc = key.loc();
  Array k = key.array();
  Array out = x;
  auto rounds = static_cast<int>(
      std::ceil(3 * std::log(std::max<double>(1, static_cast<double>(x.size()))) / std::log(4294967295.0)));
  for (int i = 0; i < rounds; ++i) {
    auto keys = split_keys(on(k, loc), 2);
    k = keys[0];
    out = lax::sort({bits(on(keys[1], loc), out.shape(), uint32), out}, axis, 1, true, loc)[1];
  }
  return out;
}
}  // namespace

Array permutation(const Operand& key, std::int64_t n) {
  check_key("permutation", key.array());
  if (n < 0) throw ValueError(str("random::permutation: n = ", n, "; expected no negative count"));
  return shuffle(key, arange(n, key.loc()), 0);
}
Array permutation(const Operand& key, const Array& x, std::int64_t axis) {
  check_key("permutation", key.array());
  std::int64_t d = program::axis_of("permutation", axis, x.ndim());
  if (x.ndim() == 1) return shuffle(key, x, 0);
  return take(on(x, key.loc()), on(permutation(key, x.shape(d)), key.loc()), d);
}
Array choice(const Operand& key, std::int64_t n, const Shape& shape, bool replace) {
  std::int64_t draws = size_of(shape);
  const Loc& loc = key.loc();
  if (n <= 0 && draws > 0) throw ValueError(str("random::choice: n = ", n, "; expected a positive count"));
  const DType index = n > INT32_MAX ? int64 : int32;
  if (replace) {
    return randint(key, shape, Operand(0, loc), on(Array(HostArray::scalar(n)), loc), index);
  }
  if (draws > n) throw ValueError(str("random::choice: ", draws, " draws of ", n, " without putting back"));
  return reshape(on(lax::slice_in_dim(on(permutation(key, n), loc), 0, draws), loc), shape);
}

}  // namespace tessera::random
