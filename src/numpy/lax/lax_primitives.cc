// SPDX-License-Identifier: Apache-2.0
// Primitives of jax.lax without promotion or broadcasting.
#include <numeric>

#include "numpy/lax/window_options.h"
#include "ops/linalg/linalg_ops.h"
#include "ops/shared_attrs.h"
#include "program/composite.h"
#include "program/graph_fragment.h"
#include "tessera/lax.h"
#include "tessera/numpy.h"

namespace tessera::lax {

using program::attrs;
using program::bind1;
namespace def = ops::def;

namespace {
Array plain(const ir::OpDef& op, const Operand& x, const Operand& y) {
  return bind1(op, {x.array(), y.array()}, nullptr, x.loc());
}
Array reduced(const char* name, const ir::OpDef& op, const Operand& x, const Dims& axes) {
  return bind1(op, {x.array()}, attrs(ops::Axes{program::axes_of(name, axes, x.array().ndim())}), x.loc());
}

// The reducer as a graph over numbers.
ir::GraphPtr body_of(const char* name, const std::vector<Array>& operands, const std::vector<Array>& init,
                     const Reducer& reducer) {
  const std::size_t n = operands.size();
  if (n == 0 || init.size() != n) {
    throw ValueError(
        str(name, ": ", n, " operands and ", init.size(), " start values; expected as many, at least one"));
  }
  ir::Types types;
  for (std::size_t i = 0; i < 2 * n; ++i) types.push_back(ir::Type{operands[i % n].dtype(), {}});
  program::Traced t = program::trace(
      [&](const std::vector<Array>& v) {
        const auto half = v.begin() + static_cast<std::ptrdiff_t>(n);
        return reducer(std::vector<Array>(v.begin(), half), std::vector<Array>(half, v.end()));
      },
      types);
  if (!t.captures.empty()) {
    throw UnimplementedError(str(name, ": the reducer captures an array; pass what it needs as an operand"));
  }
  return t.graph;
}
std::vector<Array> with_starts(const std::vector<Array>& operands, const std::vector<Array>& init, const Loc& loc) {
  std::vector<Array> in = operands;
  for (std::size_t i = 0; i < init.size(); ++i) in.push_back(program::cast(init[i], operands[i].dtype(), false, loc));
  return in;
}
}  // namespace

Array div(const Operand& x, const Operand& y) { return plain(def::div, x, y); }
Array rem(const Operand& x, const Operand& y) { return plain(def::rem, x, y); }
Array shift_left(const Operand& x, const Operand& y) { return plain(def::shift_left, x, y); }
Array shift_right_arithmetic(const Operand& x, const Operand& y) { return plain(def::shift_right_arithmetic, x, y); }
Array shift_right_logical(const Operand& x, const Operand& y) { return plain(def::shift_right_logical, x, y); }
Array igamma_grad_a(const Operand& a, const Operand& x) { return plain(def::igamma_grad_a, a, x); }
Array random_gamma_grad(const Operand& a, const Operand& x) { return plain(def::random_gamma_grad, a, x); }
Array round(const Operand& x, bool to_even) {
  return program::graph_fragment1("round", x.loc(), {x.array()},
                                  [&](ir::Builder&, const ir::Values& v) { return ops::round(v[0], to_even); });
}
Array select_n(const Operand& which, const std::vector<Array>& cases) {
  std::vector<Array> in{which.array()};
  in.insert(in.end(), cases.begin(), cases.end());
  return bind1(def::select_n, in, nullptr, which.loc());
}
Array select(const Operand& pred, const Operand& on_true, const Operand& on_false) {
  return select_n(pred, {on_false.array(), on_true.array()});
}

Array broadcast(const Operand& x, const Dims& sizes) {
  Shape shape = sizes;
  shape.insert(shape.end(), x.array().shape().begin(), x.array().shape().end());
  return broadcast_to(x, shape);
}
Array collapse(const Operand& x, std::int64_t start, std::int64_t stop) {
  const Shape own = x.array().shape();
  const std::int64_t a = start < 0 ? start + rank(own) : start;
  const std::int64_t b = stop < 0 ? stop + rank(own) : stop;
  if (a < 0 || a >= b || b > rank(own)) {
    throw ValueError(
        str("collapse: dimensions ", start, " to ", stop, " of shape ", own, "; expected a range of them"));
  }
  Shape shape(own.begin(), own.begin() + a);
  shape.push_back(size_of(Shape(own.begin() + a, own.begin() + b)));
  shape.insert(shape.end(), own.begin() + b, own.end());
  return reshape(x, shape);
}
Array batch_matmul(const Operand& lhs, const Operand& rhs) {
  const std::int64_t r = lhs.array().ndim();
  if (r < 2 || rhs.array().ndim() != r) {
    throw ValueError(str("batch_matmul: shapes ", lhs.array().shape(), " and ", rhs.array().shape(),
                         "; expected equal ranks of at least 2"));
  }
  Dims batch(static_cast<std::size_t>(r - 2));
  std::iota(batch.begin(), batch.end(), 0);
  return dot_general(lhs, rhs,
                     {.lhs_contracting = {r - 1}, .rhs_contracting = {r - 2}, .lhs_batch = batch, .rhs_batch = batch});
}

Array reduce_sum(const Operand& x, const Dims& axes) { return reduced("reduce_sum", def::reduce_sum, x, axes); }
Array reduce_prod(const Operand& x, const Dims& axes) { return reduced("reduce_prod", def::reduce_prod, x, axes); }
Array reduce_max(const Operand& x, const Dims& axes) { return reduced("reduce_max", def::reduce_max, x, axes); }
Array reduce_min(const Operand& x, const Dims& axes) { return reduced("reduce_min", def::reduce_min, x, axes); }
Array reduce_and(const Operand& x, const Dims& axes) { return reduced("reduce_and", def::reduce_and, x, axes); }
Array reduce_or(const Operand& x, const Dims& axes) { return reduced("reduce_or", def::reduce_or, x, axes); }
Array reduce_xor(const Operand& x, const Dims& axes) { return reduced("reduce_xor", def::reduce_xor, x, axes); }

std::vector<Array> reduce(const std::vector<Array>& operands, const std::vector<Array>& init, const Reducer& reducer,
                          const Dims& axes, const Loc& loc) {
  ir::GraphPtr body = body_of("reduce", operands, init, reducer);
  const std::size_t n = operands.size();
  const Dims over = program::axes_of("reduce", axes, operands[0].ndim());
  return program::graph_fragment(
      "reduce", loc, with_starts(operands, init, loc), [&](ir::Builder&, const ir::Values& v) {
        return ops::reduce(ir::ValueSpan(v).first(n), ir::ValueSpan(v).subspan(n), body, over);
      });
}
std::vector<Array> reduce_window(const std::vector<Array>& operands, const std::vector<Array>& init,
                                 const Reducer& reducer, const Dims& window, const WindowOptions& o, const Loc& loc) {
  ir::GraphPtr body = body_of("reduce_window", operands, init, reducer);
  const std::size_t n = operands.size();
  const ops::Window w = program::window_of("reduce_window", operands[0].shape(), window, o);
  return program::graph_fragment(
      "reduce_window", loc, with_starts(operands, init, loc), [&](ir::Builder&, const ir::Values& v) {
        return ops::reduce_window(ir::ValueSpan(v).first(n), ir::ValueSpan(v).subspan(n), body, w);
      });
}

Array fft(const Operand& x, FftType type, const Dims& lengths) {
  static_assert(static_cast<int>(FftType::Irfft) == static_cast<int>(ops::FftType::Irfft));
  return program::graph_fragment1("fft", x.loc(), {x.array()}, [&](ir::Builder&, const ir::Values& v) {
    return ops::fft(v[0], static_cast<ops::FftType>(type), lengths);
  });
}

}  // namespace tessera::lax
