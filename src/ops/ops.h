// SPDX-License-Identifier: Apache-2.0
// Ops as functions on graph values: the language in which rules and transformations are written. Public functions on
// Arrays are made from the same definitions.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "ir/builder.h"
#include "ir/op_def.h"

namespace tessera::ops {

namespace def {
#define TESSERA_OP(name) extern const ir::OpDef& name;
#include "ops/ops.def"
}  // namespace def

/// Every op, in the order of ops.def.
std::span<const ir::OpDef* const> all();
/// By name, or null.
const ir::OpDef* find(std::string_view name);
/// The graph of a text as `ir::full_text` writes it, whose ops are of ops.def or made by the partitioner (`halo`) and
/// by manual regions.
ir::Graph parse_graph(std::string_view text);

using ir::Builder;
using ir::Type;
using ir::Value;
using ir::Values;
using ir::ValueSpan;

// --- constants ---------------------------------------------------------------------------------
Value constant(Builder& b, const HostArray& value, bool weak = false);
/// Rank-0 constant; `value` is converted to `dtype`. Element-wise ops take it beside operands of any shape.
Value scalar(Builder& b, double value, DType dtype);
/// `value` in every element of `type`.
Value full(Builder& b, double value, const Type& type);
Value zeros(Builder& b, const Type& type);
Value zeros_like(Value x);
/// Whether the graph so far shows that all elements of `x` are zero: a constant, also broadcast, reshaped, converted or
/// under a constraint.
bool is_zeros(Value x);
Value iota(Builder& b, DType dtype, const Shape& shape, std::int64_t dimension);

// --- element-wise: operands share dtype and shape, or have rank 0 --------------------------------
#define TESSERA_OP(name)
#define TESSERA_UNARY(name) Value name(Value x);
#define TESSERA_BINARY(name) Value name(Value x, Value y);
#include "ops/ops.def"
/// Halves go away from zero, or to the even neighbour.
Value round(Value x, bool to_even = false);
Value integer_pow(Value x, std::int64_t y);
/// Complex operands give their size; unsigned ones themselves.
Value abs(Value x);
/// Real operands give themselves.
Value conj(Value x);
Value reduce_precision(Value x, std::int64_t exponent_bits, std::int64_t mantissa_bits);
Value betainc(Value a, Value b, Value x);
/// min(max(low, x), high); low and high have x's shape or rank 0.
Value clamp(Value low, Value x, Value high);
/// `which` (bool, or i32 numbers) picks, element by element, one of the cases.
Value select_n(Value which, ValueSpan cases);
/// `pred ? yes : no`.
Value where(Value pred, Value yes, Value no);
/// The same value when it already has the dtype.
Value convert(Value x, DType dtype);

/// The same bits as another dtype. A narrower dtype adds a last dimension, a wider one takes it away.
Value bitcast_convert_type(Value x, DType dtype);
/// The same values; no optimisation looks through.
Values optimization_barrier(ValueSpan values);
/// The same values; their tangents and cotangents, those that are not zero, pass one `optimization_barrier`.
Values backward_barrier(ValueSpan values);

// --- shapes ----------------------------------------------------------------------------------------
/// Result dimension `dims[i]` is operand dimension i (of equal extent, or 1).
Value broadcast_in_dim(Value x, const Shape& shape, const Dims& dims);
/// Repeats rank 0 over `shape`; x itself when it has the shape already.
Value broadcast_to(Value x, const Shape& shape);
Value reshape(Value x, const Shape& shape);
Value transpose(Value x, const Dims& permutation);
/// With dimensions of extent 1 at these places of the result; without these dimensions, which have extent 1.
Value expand_dims(Value x, const Dims& dims);
Value squeeze(Value x, const Dims& dims);
Value rev(Value x, const Dims& dimensions);
/// `value` (rank 0) before, behind and (`interior`, empty for none) between the elements of each dimension; negative
/// amounts cut off.
Value pad(Value x, Value value, const Dims& low, const Dims& high, const Dims& interior = {});
/// Empty `strides`: all 1. `x` itself when everything is taken.
Value slice(Value x, const Dims& starts, const Dims& limits, const Dims& strides = {});
Value slice_in_dim(Value x, std::int64_t start, std::int64_t limit, std::int64_t dimension, std::int64_t stride = 1);
/// Starts are rank-0 integers of one dtype, one a dimension, and are clamped so that the slice lies inside.
Value dynamic_slice(Value x, ValueSpan starts, const Dims& sizes);
Value dynamic_update_slice(Value x, Value update, ValueSpan starts);
Value concatenate(ValueSpan parts, std::int64_t dimension);
Values split(Value x, const Dims& sizes, std::int64_t dimension);
/// Moves one dimension to another place.
Value move_dim(Value x, std::int64_t from, std::int64_t to);

// --- reductions and products ------------------------------------------------------------------------
Value reduce_sum(Value x, const Dims& axes);
Value reduce_max(Value x, const Dims& axes);
Value reduce_min(Value x, const Dims& axes);
Value reduce_prod(Value x, const Dims& axes);
Value reduce_xor(Value x, const Dims& axes);
/// The first place of the extreme element; NaN counts as the extreme one.
Value argmax(Value x, std::int64_t axis, DType index_dtype = DType::I32);
Value argmin(Value x, std::int64_t axis, DType index_dtype = DType::I32);
Value cumsum(Value x, std::int64_t axis, bool reverse = false);
Value cumprod(Value x, std::int64_t axis, bool reverse = false);
Value cummax(Value x, std::int64_t axis, bool reverse = false);
Value cummin(Value x, std::int64_t axis, bool reverse = false);
Value cumlogsumexp(Value x, std::int64_t axis, bool reverse = false);
/// Reducer `body`: (n numbers, n numbers) -> n numbers, associative.
Values reduce(ValueSpan arrays, ValueSpan starts, const ir::GraphPtr& body, const Dims& axes);
struct Window;  // ops/shared_attrs.h
Values reduce_window(ValueSpan arrays, ValueSpan starts, const ir::GraphPtr& body, const Window& w);
Value reduce_window_sum(Value x, const Window& w);
Value reduce_window_max(Value x, const Window& w);
Value reduce_window_min(Value x, const Window& w);
/// One element of `source` a window: that beside the extreme element of `operand`; 0 for windows of padding alone.
Value select_and_gather_add(Value source, Value operand, const Window& w, bool maximum);
/// Adds each window's element of `source` where the window's extreme element of `operand` is.
Value select_and_scatter_add(Value source, Value operand, const Window& w, bool maximum);
/// Inverse of a reduction's shape: puts the reduced dimensions back by repetition.
Value broadcast_back(Value x, const Type& full, const Dims& axes);

struct DotDims {
  Dims lhs_contracting, rhs_contracting, lhs_batch, rhs_batch;
};
/// Result dimensions: batch, free ones of lhs, free ones of rhs. `preferred`: result dtype when not that of the
/// operands.
Value dot_general(Value lhs, Value rhs, const DotDims& dims, std::optional<DType> preferred = std::nullopt);

/// Sum of cotangents or tangents; either may be empty (zero).
Value add_any(Value x, Value y);

// --- rules of one equation, with the repairs that every element-wise op needs ---------------------------
/// Tangents of the results; empty where zero. `args.out` are the primal results already computed.
Values jvp_of(Builder& b, const ir::OpDef& op, const ir::JvpArgs& args, const ir::Attrs& attrs);
/// Cotangents of the operands; empty where zero or not asked for.
Values transpose_of(Builder& b, const ir::OpDef& op, const ir::TransposeArgs& args, const ir::Attrs& attrs);

}  // namespace tessera::ops

namespace tessera::ir {
inline Value operator+(Value x, Value y) { return ops::add(x, y); }
inline Value operator-(Value x, Value y) { return ops::sub(x, y); }
inline Value operator*(Value x, Value y) { return ops::mul(x, y); }
inline Value operator/(Value x, Value y) { return ops::div(x, y); }
inline Value operator-(Value x) { return ops::neg(x); }
inline Value operator+(Value x, double y) { return ops::add(x, ops::scalar(*x.builder, y, x.dtype())); }
inline Value operator-(Value x, double y) { return ops::sub(x, ops::scalar(*x.builder, y, x.dtype())); }
inline Value operator*(Value x, double y) { return ops::mul(x, ops::scalar(*x.builder, y, x.dtype())); }
inline Value operator/(Value x, double y) { return ops::div(x, ops::scalar(*x.builder, y, x.dtype())); }
inline Value operator+(double x, Value y) { return ops::add(ops::scalar(*y.builder, x, y.dtype()), y); }
inline Value operator-(double x, Value y) { return ops::sub(ops::scalar(*y.builder, x, y.dtype()), y); }
inline Value operator*(double x, Value y) { return ops::mul(ops::scalar(*y.builder, x, y.dtype()), y); }
inline Value operator/(double x, Value y) { return ops::div(ops::scalar(*y.builder, x, y.dtype()), y); }
}  // namespace tessera::ir
