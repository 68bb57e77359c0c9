// SPDX-License-Identifier: Apache-2.0
// Element-wise ops are rows: a name, one plain function for each kind of number that is legal, and the derivative.
#pragma once

#include "ops/define_op.h"

namespace tessera::ops {

/// Functions over wide numbers; a null one means that the kind of dtype is not legal. Integer functions get the width
/// in bits.
struct UnaryFns {
  double (*f)(double) = nullptr;
  std::int64_t (*i)(std::int64_t, int bits) = nullptr;
  std::uint64_t (*u)(std::uint64_t, int bits) = nullptr;
  complexd (*c)(complexd) = nullptr;
  bool (*b)(bool) = nullptr;
};
struct BinaryFns {
  double (*f)(double, double) = nullptr;
  std::int64_t (*i)(std::int64_t, std::int64_t, int bits) = nullptr;
  std::uint64_t (*u)(std::uint64_t, std::uint64_t, int bits) = nullptr;
  complexd (*c)(complexd, complexd) = nullptr;
  bool (*b)(bool, bool) = nullptr;
};
/// Comparisons give bool for every kind.
struct CompareFns {
  bool (*f)(double, double) = nullptr;
  bool (*i)(std::int64_t, std::int64_t) = nullptr;
  bool (*u)(std::uint64_t, std::uint64_t) = nullptr;
  bool (*c)(complexd, complexd) = nullptr;
  bool (*b)(bool, bool) = nullptr;
};

/// y = op(x): tangent of y from x, y and the tangent of x. Null: the derivative is zero everywhere.
using UnaryJvp = Value (*)(Value x, Value y, Value t);
/// One term of the tangent: from x, y, z = op(x, y) and the operand's tangent. Null: that derivative is zero.
using BinaryJvp = Value (*)(Value x, Value y, Value z, Value t);

struct UnaryRow {
  const char* name;
  const char* stablehlo = nullptr;  ///< `Traits::stablehlo`
  bool composite = false;           ///< `Traits::composite`
  bool cheap = false;               ///< `Traits::cheap`
  bool exact = false;               ///< `Traits::exact`
  ir::Work work = ir::Work::Plain;  ///< `Traits::work`
  bool by_parts = false;            ///< `Traits::by_parts`
  UnaryFns fns;
  UnaryJvp jvp = nullptr;
  /// Set when the op is linear: cotangent of x from that of y and the type of x.
  Value (*transpose)(Value ct, const Type& x) = nullptr;
};
struct BinaryRow {
  const char* name;
  const char* stablehlo = nullptr;  ///< `Traits::stablehlo`
  bool composite = false;           ///< `Traits::composite`
  bool cheap = false;               ///< `Traits::cheap`
  bool exact = false;               ///< `Traits::exact`
  ir::Work work = ir::Work::Plain;  ///< `Traits::work`
  bool by_parts = false;            ///< `Traits::by_parts`
  BinaryFns fns;
  BinaryJvp jvp_x = nullptr;
  BinaryJvp jvp_y = nullptr;
  Linearity linearity = Linearity::None;
  bool takes_sums = false;  ///< `Traits::takes_sums`
  /// Linear in an operand: its cotangent from that of the result and the other operand (empty when that is linear too).
  Value (*transpose_x)(Value ct, Value y) = nullptr;
  Value (*transpose_y)(Value ct, Value x) = nullptr;
};

ir::OpSpec<NoAttrs> unary_spec(UnaryRow row);
ir::OpSpec<NoAttrs> binary_spec(BinaryRow row);
ir::OpSpec<NoAttrs> compare_spec(const char* name, const char* stablehlo, CompareFns fns);

/// Shape of an element-wise result; operands from `from` on must agree or have rank 0.
Shape elementwise_shape(std::string_view op, TypeSpan in, std::size_t from = 0);
/// Operand element that belongs to result element i.
inline std::int64_t element(const View& operand, const View& out, std::int64_t i) {
  return operand.shape.empty() && !out.shape.empty() ? 0 : i;
}

#define TESSERA_ROW(op, spec)                                                    \
  static const ::tessera::base::Immortal<ir::Op<NoAttrs>> op##_definition{spec}; \
  const ir::OpDef& def::op = op##_definition.value

}  // namespace tessera::ops
