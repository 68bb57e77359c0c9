// SPDX-License-Identifier: Apache-2.0
// What op files share: the defining macro, checks for `infer`, and element access for references.
#pragma once

#include <complex>
#include <string_view>

#include "base/immortal.h"
#include "base/index.h"
#include "base/strings.h"
#include "ir/op_def.h"
#include "ops/ops.h"
#include "tessera/error.h"

/// TESSERA_DEFINE_OP(reduce_sum, ReduceSum, { … OpSpec fields … });
#define TESSERA_DEFINE_OP(name, Params, ...)                                                                \
  static const ::tessera::base::Immortal<ir::Op<Params>> name##_definition{ir::OpSpec<Params> __VA_ARGS__}; \
  const ir::OpDef& def::name = name##_definition.value

namespace tessera::ops {

using ir::BatchArgs;
using ir::Batched;
using ir::by_default;
using ir::Factor;
using ir::FactorRule;
using ir::field;
using ir::JvpArgs;
using ir::linear;
using ir::Linearity;
using ir::Never;
using ir::NoAttrs;
using ir::Reduction;
using ir::RemapArgs;
using ir::Sample;
using ir::Traits;
using ir::TransposeArgs;
using ir::Types;
using ir::TypeSpan;
using ir::View;
using ir::ViewSpan;

template <class P>
ir::Attrs attrs(P p) {
  return ir::make_attrs(std::move(p));
}

/// "[op] operand i: …" errors.
[[noreturn]] void bad_operand(std::string_view op, std::size_t operand, const std::string& what);
[[noreturn]] void bad_attr(std::string_view op, std::string_view attr, const std::string& what);
void check_count(std::string_view op, TypeSpan in, std::size_t expected);
/// Distinct axes, each in [0, rank).
void check_axes(std::string_view op, std::string_view attr, const Dims& axes, std::int64_t rank);

/// `TypeError` unless `legal`: "operand i has dtype …; expected <kinds>".
void check_kind(std::string_view op, TypeSpan in, std::size_t operand, bool legal, std::string_view kinds);
/// `TypeError` unless operands from `from` on have one dtype.
void check_same_dtype(std::string_view op, TypeSpan in, std::size_t from = 0);

/// A batching rule's operand i, with the batch in front even where it was not batched.
Value with_batch(const BatchArgs& args, std::size_t i);
/// Each axis further by one: what most attributes become when a batch dimension is put in front.
Dims shifted(const Dims& axes, std::int64_t by = 1);

// --- element access for references: every dtype through one of five wide types -----------------------------
enum class Wide { Bool, Int, Uint, Float, Complex };
Wide wide_kind(DType t);
using complexd = std::complex<double>;
double load_float(const View& v, std::int64_t i);
std::int64_t load_int(const View& v, std::int64_t i);
std::uint64_t load_uint(const View& v, std::int64_t i);
complexd load_complex(const View& v, std::int64_t i);
bool load_bool(const View& v, std::int64_t i);
void store_float(const View& v, std::int64_t i, double x);
void store_int(const View& v, std::int64_t i, std::int64_t x);
void store_uint(const View& v, std::int64_t i, std::uint64_t x);
void store_complex(const View& v, std::int64_t i, complexd x);
void store_bool(const View& v, std::int64_t i, bool x);
/// The bytes of one element of up to 64 bits, as an unsigned number.
std::uint64_t load_bits(const View& v, std::int64_t i);
void store_bits(const View& v, std::int64_t i, std::uint64_t x);
/// Copies one element between views of the same dtype.
void copy_element(const View& to, std::int64_t i, const View& from, std::int64_t j);

/// Row-major strides in elements.
Dims row_strides(const Shape& shape);
/// Calls `body(position)` for every position of `shape`, in row-major order.
void for_each_position(const Shape& shape, const std::function<void(const Dims&)>& body);
/// Row-major number of a position.
std::int64_t flat(const Dims& position, const Dims& strides);

}  // namespace tessera::ops
