// SPDX-License-Identifier: Apache-2.0
// Arithmetic, constants, shapes, reductions and products of the public interface.
#include <algorithm>
#include <numeric>

#include "numpy/placed.h"
#include "ops/shared_attrs.h"
#include "program/promote.h"
#include "tessera/ops.h"

namespace tessera {

using program::attrs;
using program::bind1;
using program::elementwise;
using program::elementwise_float;
using program::on;
namespace def = ops::def;

Array add(const Operand& x, const Operand& y) { return elementwise(def::add, "add", x, y); }
Array subtract(const Operand& x, const Operand& y) { return elementwise(def::sub, "subtract", x, y); }
Array multiply(const Operand& x, const Operand& y) { return elementwise(def::mul, "multiply", x, y); }
Array divide(const Operand& x, const Operand& y) {
  const Loc& at = x.loc();
  auto t = program::common_type("divide", {x.array(), y.array()});
  if (is_inexact(t.dtype)) return elementwise(def::div, "divide", x, y);
  const DType dtype = program::inexact_dtype(t.dtype);
  Array a = program::cast(x.array(), dtype, x.array().weak_type(), at);
  Array b = program::cast(y.array(), dtype, y.array().weak_type(), at);
  return elementwise(def::div, "divide", Operand(a, at), Operand(b, at));
}
Array negative(const Operand& x) { return elementwise(def::neg, "negative", x); }
Array maximum(const Operand& x, const Operand& y) { return elementwise(def::max, "maximum", x, y); }
Array minimum(const Operand& x, const Operand& y) { return elementwise(def::min, "minimum", x, y); }
Array power(const Operand& x, const Operand& y) {
  const DType t = program::common_type("power", {x.array(), y.array()}).dtype;
  if (!is_integer(t) || is_unsigned_int(t)) return elementwise(def::pow, "power", x, y);
  const auto& exponent = *y.array().impl();
  if (exponent.literal && y.array().item<std::int64_t>() < 0) {
    throw ValueError(str("power: the exponent is ", y.array().item<std::int64_t>(), " and x has dtype ",
                         dtype_name(x.array().dtype()), "; expected 0 or more, or a float x"));
  }
  Array p = elementwise(def::pow, "power", x, y);
  if (exponent.literal) return p;
  // StableHLO's power divides by 0 here.
  const auto zero = [&](const Array& a) { return on(zeros({}, a.dtype(), x.loc()), x.loc()); };
  const Array none = logical_and(on(x == zero(x.array()), x.loc()), on(y < zero(y.array()), x.loc()));
  return where(on(none, x.loc()), zero(p), on(p, x.loc()));
}
Array exp(const Operand& x) { return elementwise_float(def::exp, "exp", x); }
Array log(const Operand& x) { return elementwise_float(def::log, "log", x); }
Array sqrt(const Operand& x) { return elementwise_float(def::sqrt, "sqrt", x); }
Array rsqrt(const Operand& x) { return elementwise_float(def::rsqrt, "rsqrt", x); }
Array sin(const Operand& x) { return elementwise_float(def::sin, "sin", x); }
Array cos(const Operand& x) { return elementwise_float(def::cos, "cos", x); }
Array tanh(const Operand& x) { return elementwise_float(def::tanh, "tanh", x); }
Array copy(const Operand& x) {
  return elementwise(def::copy, "copy", Operand(arrays::materialize(x.array()), x.loc()));
}

namespace {
Operand truth(const Operand& x) { return on(program::cast(x.array(), bool_, false, x.loc()), x.loc()); }
}  // namespace

Array logical_not(const Operand& x) { return elementwise(def::not_, "logical_not", truth(x)); }
Array logical_and(const Operand& x, const Operand& y) {
  return elementwise(def::and_, "logical_and", truth(x), truth(y));
}
Array logical_or(const Operand& x, const Operand& y) { return elementwise(def::or_, "logical_or", truth(x), truth(y)); }

Array operator+(const Operand& x, const Operand& y) { return add(x, y); }
Array operator-(const Operand& x, const Operand& y) { return subtract(x, y); }
Array operator*(const Operand& x, const Operand& y) { return multiply(x, y); }
Array operator/(const Operand& x, const Operand& y) { return divide(x, y); }
Array operator-(const Operand& x) { return negative(x); }
Array operator!(const Array& x) { return logical_not(x); }
Array operator~(const Operand& x) { return elementwise(def::not_, "bitwise_not", x); }
Array operator&(const Operand& x, const Operand& y) { return elementwise(def::and_, "bitwise_and", x, y); }
Array operator|(const Operand& x, const Operand& y) { return elementwise(def::or_, "bitwise_or", x, y); }

namespace {
// A comparison with an integer of the program that the array's dtype does not hold has one answer for all elements.
Array compare(const ir::OpDef& op, const char* name, const Operand& x, const Operand& y) {
  for (const bool first : {true, false}) {
    const Operand& scalar = first ? x : y;
    const Operand& array = first ? y : x;
    const int side = program::outside(scalar.array(), array.array());
    if (side == 0) continue;
    // As between the numbers -1, 0 and 1: the scalar's side, and the array's middle.
    const Array answer = program::bind1(op, {Array(first ? side : 0), Array(first ? 0 : side)}, nullptr, x.loc());
    return broadcast_to(on(answer, x.loc()), array.array().shape());
  }
  return elementwise(op, name, x, y);
}
}  // namespace

Array operator==(const Operand& x, const Operand& y) { return compare(def::eq, "equal", x, y); }
Array operator!=(const Operand& x, const Operand& y) { return compare(def::ne, "not_equal", x, y); }
Array operator<(const Operand& x, const Operand& y) { return compare(def::lt, "less", x, y); }
Array operator<=(const Operand& x, const Operand& y) { return compare(def::le, "less_equal", x, y); }
Array operator>(const Operand& x, const Operand& y) { return compare(def::gt, "greater", x, y); }
Array operator>=(const Operand& x, const Operand& y) { return compare(def::ge, "greater_equal", x, y); }

namespace {
// Operands of several shapes take part in the split of the result, too; those of one shape must agree as they are.
Array chosen(const Array& pred, const Array& x, const Array& y, const Shape& shape, const Loc& loc) {
  std::vector<Array> in{pred, y, x};
  const bool one_shape = pred.shape() == shape && x.shape() == shape && y.shape() == shape;
  const auto* split = one_shape ? nullptr : program::broadcast_sharding("where", in, shape);
  for (auto& a : in) {
    Array wide = program::widen(a, shape, loc);
    a = wide.ndim() == 0 ? wide : program::typed_as(split, [&] { return wide; });
  }
  return bind1(def::select_n, in, nullptr, loc);
}
}  // namespace
Array where(const Operand& condition, const Operand& x, const Operand& y) {
  const Loc& loc = condition.loc();
  Array pred = truth(condition).array();
  std::vector<Array> in = program::promote("where", {x.array(), y.array()}, loc);
  Shape shape = program::broadcast_shapes("where", {pred.shape(), in[0].shape(), in[1].shape()});
  return chosen(pred, in[0], in[1], shape, loc);
}

Array astype(const Operand& x, DType dtype) { return program::cast(x.array(), dtype, false, x.loc()); }

// --- making ------------------------------------------------------------------------------------------

Array full(const Shape& shape, const Operand& value, std::optional<DType> dtype) {
  size_of(shape);
  Array v = value.array();
  if (!v.shape().empty()) throw ValueError(str("full: value has shape ", v.shape(), "; expected rank 0"));
  if (dtype) v = is_integer(*dtype) ? program::meet("full", v, *dtype, false, value.loc()) : v;
  v = program::cast(v, dtype.value_or(v.dtype()), !dtype && v.weak_type(), value.loc());
  return broadcast_in_dim(on(v, value.loc()), shape, {});
}
Array zeros(const Shape& shape, DType dtype, const Loc& loc) { return full(shape, Operand(0, loc), dtype); }
Array ones(const Shape& shape, DType dtype, const Loc& loc) { return full(shape, Operand(1, loc), dtype); }

namespace {
// A filled array that lies as x does: eager arrays keep their sharding, traced ones let propagation decide.
Array full_like(const Operand& x, int value, const char* name) {
  const auto& impl = *arrays::checked(x.array(), name);
  Array out = program::typed_as(impl.type.sharding,
                                [&] { return full(impl.type.shape, Operand(value, x.loc()), x.array().dtype()); });
  if (impl.trace == 0 && impl.sharding && program::Trace::current() == nullptr && impl.committed)
    return device_put(out, impl.sharding);
  return out;
}
}  // namespace
Array zeros_like(const Operand& x) { return full_like(x, 0, "zeros_like"); }
Array ones_like(const Operand& x) { return full_like(x, 1, "ones_like"); }

Array iota(DType dtype, const Shape& shape, std::int64_t dimension, const Loc& loc) {
  size_of(shape);
  return bind1(def::iota, {}, attrs(ops::Iota{dtype, shape, program::axis_of("iota", dimension, rank(shape)), 0}), loc);
}
Array arange(std::int64_t stop, const Loc& loc) { return arange(0, stop, 1, loc); }
Array arange(std::int64_t start, std::int64_t stop, std::int64_t step, const Loc& loc) {
  if (step == 0) throw ValueError("arange: step = 0; expected another number");
  std::int64_t n =
      std::max<std::int64_t>(0, step > 0 ? (stop - start + step - 1) / step : (start - stop - step - 1) / -step);
  Array x = iota(int32, {n}, 0, loc);
  if (step != 1) x = multiply(on(x, loc), Operand(step, loc));
  if (start != 0) x = add(on(x, loc), Operand(start, loc));
  return x;
}

// --- shapes --------------------------------------------------------------------------------------------

Array reshape(const Operand& x, const Shape& shape) {
  ir::Type t = program::type_of(x.array(), "reshape");
  Shape target = shape;
  auto unknown = std::find(target.begin(), target.end(), -1);
  if (unknown != target.end()) {
    if (std::count(target.begin(), target.end(), -1) > 1)
      throw ValueError(str("reshape: shape = ", shape, " has more than one -1"));
    std::int64_t rest = 1;
    for (auto d : target) rest *= d == -1 ? 1 : d;
    if (rest <= 0 || t.size() % rest != 0) {
      throw ValueError(str("reshape: shape = ", shape, " does not fit the ", t.size(), " elements of ", t.shape));
    }
    *unknown = t.size() / rest;
  }
  return target == t.shape ? x.array() : bind1(def::reshape, {x.array()}, attrs(ops::Reshape{target}), x.loc());
}

Array transpose(const Operand& x) {
  Dims permutation(static_cast<std::size_t>(x.array().ndim()));
  std::iota(permutation.rbegin(), permutation.rend(), 0);
  return transpose(x, permutation);
}
Array transpose(const Operand& x, const Dims& permutation) {
  Dims p = permutation;
  for (auto& d : p) d = program::axis_of("transpose", d, x.array().ndim());
  return bind1(def::transpose, {x.array()}, attrs(ops::Transpose{p}), x.loc());
}
Array broadcast_in_dim(const Operand& x, const Shape& shape, const Dims& dims) {
  size_of(shape);
  return bind1(def::broadcast_in_dim, {x.array()}, attrs(ops::BroadcastInDim{shape, dims}), x.loc());
}
Array broadcast_to(const Operand& x, const Shape& shape) {
  const Shape& own = x.array().shape();
  if (program::broadcast_shapes("broadcast_to", {own, shape}) != shape) {
    throw ValueError(str("broadcast_to: shape ", own, " does not broadcast to ", shape));
  }
  Dims dims(own.size());
  std::iota(dims.begin(), dims.end(), static_cast<std::int64_t>(shape.size() - own.size()));
  return own == shape ? x.array() : broadcast_in_dim(x, shape, dims);
}

// --- products --------------------------------------------------------------------------------------------

Array dot_general(const Operand& lhs, const Operand& rhs, const DotDimensionNumbers& d, const DotOptions& o) {
  return detail::placed_as(o.out_sharding, "dot_general", [&] {
    return bind1(def::dot_general, {lhs.array(), rhs.array()},
                 attrs(ops::DotGeneral{d.lhs_contracting, d.rhs_contracting, d.lhs_batch, d.rhs_batch,
                                       o.preferred_element_type, o.precision}),
                 lhs.loc());
  });
}

namespace {
Array plain_matmul(const Operand& x, const Operand& y, const DotOptions& o) {
  const Loc& loc = x.loc();
  std::vector<Array> in = program::promote("matmul", {x.array(), y.array()}, loc);
  Array a = in[0];
  Array b = in[1];
  if (a.ndim() == 0 || b.ndim() == 0) {
    throw ValueError(str("matmul: shapes ", a.shape(), " and ", b.shape(),
                         "; expected at least rank 1 (multiply scales by a number)"));
  }
  std::int64_t ra = a.ndim();
  std::int64_t rb = b.ndim();
  std::int64_t ka = ra - 1;
  std::int64_t kb = rb == 1 ? 0 : rb - 2;
  if (a.shape(ka) != b.shape(kb)) {
    throw ValueError(str("matmul: shapes ", a.shape(), " and ", b.shape(), ": dimension ", ka, " of the first is ",
                         a.shape(ka), "; expected ", b.shape(kb), ", dimension ", kb, " of the second"));
  }
  Shape batch_a(a.shape().begin(), a.shape().end() - std::min<std::int64_t>(ra, 2));
  Shape batch_b(b.shape().begin(), b.shape().end() - std::min<std::int64_t>(rb, 2));
  if (batch_b.empty() || batch_a.empty()) {
    // At most one side has batch dimensions: they are free dimensions of the product.
    Array out = dot_general(on(a, loc), on(b, loc), {.lhs_contracting = {ka}, .rhs_contracting = {kb}}, o);
    if (batch_b.empty() || ra == 0) return out;
    // Result is (free of a, batch of b, columns); batch goes first.
    std::int64_t free_a = ra - 1;
    Dims permutation;
    auto nb = static_cast<std::int64_t>(batch_b.size());
    for (std::int64_t i = 0; i < nb; ++i) permutation.push_back(free_a + i);
    for (std::int64_t i = 0; i < free_a; ++i) permutation.push_back(i);
    for (std::int64_t i = free_a + nb; i < out.ndim(); ++i) permutation.push_back(i);
    return transpose(on(out, loc), permutation);
  }
  Shape batch = program::broadcast_shapes("matmul", {batch_a, batch_b});
  auto nb = static_cast<std::int64_t>(batch.size());
  auto full_batch = [&](const Array& v, const Shape& own) {
    if (own == batch) return v;
    Shape target = batch;
    target.insert(target.end(), v.shape().end() - 2, v.shape().end());
    return broadcast_to(on(v, loc), target);
  };
  a = full_batch(a, batch_a);
  b = full_batch(b, batch_b);
  Dims dims(batch.size());
  std::iota(dims.begin(), dims.end(), 0);
  return dot_general(on(a, loc), on(b, loc),
                     {.lhs_contracting = {nb + 1}, .rhs_contracting = {nb}, .lhs_batch = dims, .rhs_batch = dims}, o);
}
}  // namespace
Array matmul(const Operand& x, const Operand& y, const DotOptions& o) {
  return detail::placed_as(o.out_sharding, "matmul", [&] { return plain_matmul(x, y, program::unplaced(o)); });
}

}  // namespace tessera
