// SPDX-License-Identifier: Apache-2.0
// Formulas as in jax.numpy, so that their derivatives and edges agree.
#include "tessera/elementary.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "program/composite.h"
#include "tessera/control.h"
#include "tessera/custom.h"
#include "tessera/numpy.h"
#include "tessera/ops.h"

namespace tessera {

using program::Arrays;
using program::composite;
using program::composites;
using program::kInfinity;
using program::number_like;
using program::promoted;

namespace {

void no_complex(const char* name, const Array& x) {
  if (is_complex(x.dtype()))
    throw TypeError(str(name, ": dtype is ", dtype_name(x.dtype()), "; expected a real dtype"));
}
DType bits_dtype(DType t) { return t == DType::F64 ? DType::I64 : t == DType::F32 ? DType::I32 : DType::I16; }
}  // namespace

Array positive(const Operand& x) {
  if (is_bool(x.array().dtype())) throw TypeError("positive: dtype is bool; expected a number");
  return x.array();
}
Array fabs(const Operand& x) {
  return composite("fabs", {x}, [](const Arrays& v) {
    no_complex("fabs", v[0]);
    return abs(promoted("fabs", v, true)[0]);
  });
}
Array angle(const Operand& z, bool deg) {
  return composite("angle", {z}, [&](const Arrays& v) {
    Array re = real(v[0]);
    const bool keep = is_inexact(re.dtype()) && (is_complex(v[0].dtype()) || v[0].ndim() > 0);
    re = keep ? re : program::as(re, float32);
    Array im = is_complex(v[0].dtype()) ? imag(v[0]) : zeros_like(re);
    Array a = arctan2(im, re);
    return deg ? rad2deg(a) : a;
  });
}
Array deg2rad(const Operand& x) {
  return composite("deg2rad", {x},
                   [](const Arrays& v) { return promoted("deg2rad", v, true)[0] * (std::numbers::pi / 180); });
}
Array rad2deg(const Operand& x) {
  return composite("rad2deg", {x},
                   [](const Arrays& v) { return promoted("rad2deg", v, true)[0] * (180 / std::numbers::pi); });
}
Array radians(const Operand& x) { return deg2rad(x); }
Array degrees(const Operand& x) { return rad2deg(x); }
Array float_power(const Operand& x, const Operand& y) {
  return composite("float_power", {x, y}, [](const Arrays& v) {
    Arrays p = promoted("float_power", v, true);
    return power(p[0], p[1]);
  });
}
Array fmax(const Operand& x, const Operand& y) {
  return composite("fmax", {x, y}, [](const Arrays& v) { return where((v[0] > v[1]) | isnan(v[1]), v[0], v[1]); });
}
Array fmin(const Operand& x, const Operand& y) {
  return composite("fmin", {x, y}, [](const Arrays& v) { return where((v[0] < v[1]) | isnan(v[1]), v[0], v[1]); });
}
Array hypot(const Operand& x, const Operand& y) {
  return composite("hypot", {x, y}, [](const Arrays& v) {
    no_complex("hypot", v[0]);
    no_complex("hypot", v[1]);
    Arrays p = promoted("hypot", v, true);
    Array a = abs(p[0]);
    Array b = abs(p[1]);
    Array infinite = isposinf(a) | isposinf(b);
    Array large = maximum(a, b);
    Array small = minimum(a, b);
    Array zero = large == 0;
    Array h = where(zero, large, large * sqrt(1 + square(small / where(zero, 1, large))));
    return where(infinite, kInfinity, h);
  });
}
Array logaddexp(const Operand& x, const Operand& y) {
  return composite("logaddexp", {x, y}, [](const Arrays& v) {
    Arrays p = promoted("logaddexp", v, true);
    Array largest = maximum(p[0], p[1]);
    if (is_complex(p[0].dtype())) {
      Array out = largest + log1p(exp(p[0] + p[1] - 2 * largest));
      Array turn = imag(out) + std::numbers::pi;
      return complex(real(out), remainder(turn, 2 * std::numbers::pi) - std::numbers::pi);
    }
    // Smaller less larger, not a magnitude: where both are equal they share the derivative.
    Array delta = minimum(p[0], p[1]) - largest;
    Array alike = isnan(delta);  // equal infinities, or NaN
    return where(alike, p[0] + p[1], largest + log1p(exp(where(alike, 0, delta))));
  });
}
Array logaddexp2(const Operand& x, const Operand& y) {
  return composite("logaddexp2", {x, y}, [](const Arrays& v) {
    no_complex("logaddexp2", v[0]);
    no_complex("logaddexp2", v[1]);
    Arrays p = promoted("logaddexp2", v, true);
    Array largest = maximum(p[0], p[1]);
    Array delta = minimum(p[0], p[1]) - largest;
    Array alike = isnan(delta);
    Array rest = log1p(exp2(where(alike, 0, delta))) * (1 / std::numbers::ln2);
    return where(alike, p[0] + p[1], largest + rest);
  });
}
Array heaviside(const Operand& x, const Operand& at_zero) {
  return composite("heaviside", {x, at_zero}, [](const Arrays& v) {
    Arrays p = promoted("heaviside", v, true);
    Array zero = number_like(p[0], 0);
    Array one = number_like(p[0], 1);
    return where(p[0] < 0, zero, where(p[0] > 0, one, where(isnan(p[0]), p[0], p[1])));
  });
}
Array sinc(const Operand& x) {
  return composite("sinc", {x}, [](const Arrays& v) {
    Array a = promoted("sinc", v, true)[0];
    Array zero = a == 0;
    Array safe = where(zero, 1, std::numbers::pi * a);
    // At zero the first terms of the series, so that derivatives of every order that JAX knows are right there.
    Array near = 1 - square(std::numbers::pi * where(zero, a, 0)) / 6;
    return where(zero, near, sin(safe) / safe);
  });
}
Array i0(const Operand& x) {
  return composite("i0", {x}, [](const Arrays& v) {
    no_complex("i0", v[0]);
    Array a = abs(promoted("i0", v, true)[0]);
    return exp(a) * bessel_i0e(a);
  });
}
Array signbit(const Operand& x) {
  return composite("signbit", {x}, [](const Arrays& v) {
    no_complex("signbit", v[0]);
    DType t = v[0].dtype();
    if (is_bool(t) || is_unsigned_int(t)) return zeros(v[0].shape(), bool_);
    if (is_integer(t)) return v[0] < 0;
    return bitcast_convert_type(program::as(v[0], t), bits_dtype(t)) < 0;
  });
}
Array copysign(const Operand& x, const Operand& sign) {
  return composite("copysign", {x, sign}, [](const Arrays& v) {
    no_complex("copysign", v[0]);
    no_complex("copysign", v[1]);
    Arrays p = promoted("copysign", v, true);
    Array size = abs(p[0]);
    return where(signbit(p[1]), -size, size);
  });
}
Array spacing(const Operand& x) {
  return composite("spacing", {x}, [](const Arrays& v) {
    no_complex("spacing", v[0]);
    Array a = promoted("spacing", v, true)[0];
    Array infinity = number_like(a, kInfinity);
    if (a.dtype() == float16) return nextafter(a, infinity) - a;
    Array d = nextafter(a, copysign(infinity, a)) - a;
    return where(d == 0, copysign(number_like(a, program::float_info(a.dtype()).smallest_subnormal), a), d);
  });
}
namespace {
// The bits of a float taken apart; numbers below the smallest normal one are scaled up first.
struct FloatParts {
  Array mantissa, exponent;
};
FloatParts parts_of(const Array& a) {
  const auto info = program::float_info(a.dtype());
  const DType bits = bits_dtype(a.dtype());
  const std::int64_t mask = (std::int64_t{1} << info.exponent_bits) - 1;
  const std::int64_t bias = mask >> 1;
  auto number = [&](std::int64_t v) { return program::as(Array(v), bits); };
  Array small = abs(a) < info.tiny;
  Array raw = bitcast_convert_type(where(small, a * std::ldexp(1.0, info.mantissa_bits + 1), a), bits);
  Array field = (raw >> info.mantissa_bits) & number(mask);
  Array exponent = program::as(field, int32) - (bias - 1) - where(small, info.mantissa_bits + 1, 0);
  Array cleared = raw & ~number(mask << info.mantissa_bits);
  Array mantissa = bitcast_convert_type(cleared | number((bias - 1) << info.mantissa_bits), a.dtype());
  Array as_is = isinf(a) | isnan(a) | (a == 0);
  return {where(as_is, a, mantissa), where(as_is, 0, exponent)};
}
}  // namespace

std::pair<Array, Array> frexp(const Operand& x) {
  Arrays out = composites("frexp", {x}, [](const Arrays& v) {
    no_complex("frexp", v[0]);
    Array a = promoted("frexp", v, true)[0];
    a = program::as(a, a.dtype());
    // Bits have no derivative: the mantissa's is that of a division by the power of two.
    auto mantissa = custom_jvp(
        [](const Array& y) { return parts_of(y).mantissa; },
        [](const std::tuple<Array>& y, const std::tuple<Array>& t) {
          FloatParts p = parts_of(std::get<0>(y));
          return std::pair{p.mantissa, std::get<0>(t) * exp2(-program::as(p.exponent, std::get<0>(t).dtype()))};
        });
    return Arrays{mantissa(a), parts_of(stop_gradient(a)).exponent};
  });
  return {out[0], out[1]};
}
Array ldexp(const Operand& x, const Operand& exponent) {
  return composite("ldexp", {x, exponent}, [](const Arrays& v) {
    no_complex("ldexp", v[0]);
    if (is_inexact(v[1].dtype()))
      throw TypeError(str("ldexp: exponent is ", dtype_name(v[1].dtype()), "; expected an integer"));
    Array a = promoted("ldexp", {v[0]}, true)[0];
    auto [m, e] = frexp(a);
    e = program::as(e, a.dtype()) + program::as(v[1], a.dtype());
    m = where(e > 0, m * 2, m);
    e = where(e > 0, e - 1, e);
    return where(isinf(a) | (a == 0), a, m * exp2(e));
  });
}
std::pair<Array, Array> modf(const Operand& x) {
  Arrays out = composites("modf", {x}, [](const Arrays& v) {
    no_complex("modf", v[0]);
    Array a = promoted("modf", v, true)[0];
    Array whole = where(a >= 0, floor(a), ceil(a));
    return Arrays{a - whole, whole};
  });
  return {out[0], out[1]};
}
std::pair<Array, Array> divmod(const Operand& x, const Operand& y) {
  Arrays out = composites("divmod", {x, y}, [](const Arrays& v) {
    return Arrays{floor_divide(v[0], v[1]), remainder(v[0], v[1])};
  });
  return {out[0], out[1]};
}

namespace {
Arrays integers(const char* name, const Arrays& v) {
  Arrays p = promoted(name, v);
  if (!is_integer(p[0].dtype()))
    throw TypeError(str(name, ": dtype is ", dtype_name(p[0].dtype()), "; expected integers"));
  const Shape shape = program::broadcast_shapes(name, {p[0].shape(), p[1].shape()});
  for (auto& a : p) a = broadcast_to(abs(a), shape);
  return p;
}
}  // namespace

Array gcd(const Operand& x, const Operand& y) {
  return composite("gcd", {x, y}, [](const Arrays& v) {
    Arrays p = integers("gcd", v);
    // Euclid's steps until the smaller of every pair is zero.
    auto end = while_loop([](const std::vector<Array>& c) { return any(c[1] != 0); },
                          [](const std::vector<Array>& c) {
                            Array more = c[1] != 0;
                            Array rest = where(more, fmod(c[0], where(more, c[1], ones_like(c[1]))), zeros_like(c[0]));
                            Array next = where(more, c[1], c[0]);
                            return std::vector<Array>{next, rest};
                          },
                          std::vector<Array>{p[0], p[1]});
    return abs(end[0]);  // the least integer has no magnitude: its remainders are negative
  });
}
Array lcm(const Operand& x, const Operand& y) {
  return composite("lcm", {x, y}, [](const Arrays& v) {
    Arrays p = integers("lcm", v);
    Array d = gcd(p[0], p[1]);
    Array none = d == 0;
    return where(none, zeros_like(d), p[0] * floor_divide(p[1], where(none, ones_like(d), d)));
  });
}
Array bitwise_count(const Operand& x) {
  return composite("bitwise_count", {x}, [](const Arrays& v) { return astype(population_count(abs(v[0])), uint8); });
}

namespace {
Array is_infinity(const char* name, const Array& x, double infinity) {
  no_complex(name, x);
  return is_float(x.dtype()) ? x == infinity : zeros(x.shape(), bool_);
}
}  // namespace

Array isposinf(const Operand& x) {
  return composite("isposinf", {x}, [](const Arrays& v) { return is_infinity("isposinf", v[0], kInfinity); });
}
Array isneginf(const Operand& x) {
  return composite("isneginf", {x}, [](const Arrays& v) { return is_infinity("isneginf", v[0], -kInfinity); });
}
Array isreal(const Operand& x) {
  return composite("isreal", {x}, [](const Arrays& v) { return imag(v[0]) == 0; });
}
Array iscomplex(const Operand& x) {
  return composite("iscomplex", {x}, [](const Arrays& v) { return imag(v[0]) != 0; });
}
Array isclose(const Operand& x, const Operand& y, const CloseOptions& o) {
  return composite("isclose", {x, y}, [&](const Arrays& v) {
    Arrays p = promoted("isclose", v, true);
    Array in_range = abs(p[0] - p[1]) <= o.atol + o.rtol * abs(p[1]);
    Array close = (p[0] == p[1]) | (isfinite(p[1]) & in_range);
    return o.equal_nan ? close | (isnan(p[0]) & isnan(p[1])) : close;
  });
}
Array allclose(const Operand& x, const Operand& y, const CloseOptions& o) {
  return composite("allclose", {x, y}, [&](const Arrays& v) { return all(isclose(v[0], v[1], o)); });
}
Array array_equal(const Operand& x, const Operand& y, bool equal_nan) {
  return composite("array_equal", {x, y}, [&](const Arrays& v) {
    if (v[0].shape() != v[1].shape()) return zeros({}, bool_);
    Array equal = v[0] == v[1];
    return all(equal_nan ? equal | (isnan(v[0]) & isnan(v[1])) : equal);
  });
}
Array array_equiv(const Operand& x, const Operand& y) {
  return composite("array_equiv", {x, y}, [](const Arrays& v) {
    try {
      program::broadcast_shapes("array_equiv", {v[0].shape(), v[1].shape()});
    } catch (const ValueError&) {
      return zeros({}, bool_);
    }
    return all(v[0] == v[1]);
  });
}
Array nan_to_num(const Operand& x, const NanToNum& by) {
  return composite("nan_to_num", {x}, [&](const Arrays& v) {
    const Array& a = v[0];
    if (!is_inexact(a.dtype())) return a;
    if (is_complex(a.dtype())) return complex(nan_to_num(real(a), by), nan_to_num(imag(a), by));
    const double largest = program::float_info(a.dtype()).max;
    Array y = where(isnan(a), number_like(a, by.nan), a);
    y = where(isposinf(y), number_like(a, by.posinf.value_or(largest)), y);
    return where(isneginf(y), number_like(a, by.neginf.value_or(-largest)), y);
  });
}

Array select(const std::vector<Array>& conditions, const std::vector<Array>& choices, const Operand& otherwise) {
  if (conditions.empty() || conditions.size() != choices.size()) {
    throw ValueError(str("select: ", conditions.size(), " conditions and ", choices.size(),
                         " choices; expected as many of both, at least one"));
  }
  Arrays in{otherwise.array()};
  in.insert(in.end(), conditions.begin(), conditions.end());
  in.insert(in.end(), choices.begin(), choices.end());
  const std::size_t n = conditions.size();
  return composite("select", otherwise.loc(), in, [n](const Arrays& v) {
    Arrays values{v[0]};
    values.insert(values.end(), v.begin() + 1 + static_cast<std::ptrdiff_t>(n), v.end());
    values = promoted("select", values);
    std::vector<Shape> shapes;
    for (const auto& a : v) shapes.push_back(a.shape());
    const Shape shape = program::broadcast_shapes("select", shapes);
    Array y = broadcast_to(values[0], shape);
    for (std::size_t i = n; i-- > 0;) y = where(v[1 + i], values[1 + i], y);
    return y;
  });
}
Array choose(const Operand& a, const std::vector<Array>& choices, bool wrap) {
  if (choices.empty()) throw ValueError("choose: choices is empty; expected at least one array");
  if (!is_integer(a.array().dtype()))
    throw TypeError(str("choose: a has dtype ", dtype_name(a.array().dtype()), "; expected integers"));
  Arrays in{a.array()};
  in.insert(in.end(), choices.begin(), choices.end());
  return composite("choose", a.loc(), in, [wrap](const Arrays& v) {
    Arrays values = promoted("choose", Arrays(v.begin() + 1, v.end()));
    const auto n = static_cast<std::int64_t>(values.size());
    Array which = wrap ? v[0] % n : clip(v[0], 0, n - 1);
    std::vector<Shape> shapes;
    for (const auto& x : v) shapes.push_back(x.shape());
    Array y = broadcast_to(values.back(), program::broadcast_shapes("choose", shapes));
    for (std::int64_t i = n - 1; i-- > 0;) y = where(which == i, values[static_cast<std::size_t>(i)], y);
    return y;
  });
}

}  // namespace tessera
