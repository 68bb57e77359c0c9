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
#undef TESSERA_OP
}  // namespace def

/// Every op, in the order of ops.def.
std::span<const ir::OpDef* const> all();
/// By name, or null.
const ir::OpDef* find(std::string_view name);

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
Value iota(Builder& b, DType dtype, const Shape& shape, std::int64_t dimension);

// --- element-wise: operands share dtype and shape, or have rank 0 --------------------------------
Value neg(Value x);
Value exp(Value x);
Value log(Value x);
Value sqrt(Value x);
Value rsqrt(Value x);
Value sin(Value x);
Value cos(Value x);
Value tanh(Value x);
Value not_(Value x);
Value copy(Value x);
Value add(Value x, Value y);
Value sub(Value x, Value y);
Value mul(Value x, Value y);
Value div(Value x, Value y);
Value max(Value x, Value y);
Value min(Value x, Value y);
Value pow(Value x, Value y);
Value and_(Value x, Value y);
Value or_(Value x, Value y);
Value eq(Value x, Value y);
Value ne(Value x, Value y);
Value lt(Value x, Value y);
Value le(Value x, Value y);
Value gt(Value x, Value y);
Value ge(Value x, Value y);
/// `which` (bool, or i32 numbers) picks, element by element, one of the cases.
Value select_n(Value which, ValueSpan cases);
/// `pred ? yes : no`.
Value where(Value pred, Value yes, Value no);
/// The same value when it already has the dtype.
Value convert(Value x, DType dtype);

// --- shapes ----------------------------------------------------------------------------------------
/// Result dimension `dims[i]` is operand dimension i (of equal extent, or 1).
Value broadcast_in_dim(Value x, const Shape& shape, const Dims& dims);
/// Repeats rank 0 over `shape`; x itself when it has the shape already.
Value broadcast_to(Value x, const Shape& shape);
Value reshape(Value x, const Shape& shape);
Value transpose(Value x, const Dims& permutation);
/// Moves one dimension to another place.
Value move_dim(Value x, std::int64_t from, std::int64_t to);

// --- reductions and products ------------------------------------------------------------------------
Value reduce_sum(Value x, const Dims& axes);
Value reduce_max(Value x, const Dims& axes);
Value reduce_min(Value x, const Dims& axes);
Value reduce_prod(Value x, const Dims& axes);
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
