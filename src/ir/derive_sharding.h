// SPDX-License-Identifier: Apache-2.0
// Shardings in types: from those of an equation's operands to those of its results, by the op's factors. Over the
// `Explicit` axes of a mesh nothing is guessed: what fits is propagated, anything else is a `ShardingTypeError`.
#pragma once

#include <string>

#include "ir/op_def.h"
#include "ir/type_sharding.h"
#include "tessera/error.h"

namespace tessera::ir {

/// A `ShardingTypeError` that still knows the equation, for those who can tell what would do.
class ShardingRefusal : public ShardingTypeError {
 public:
  ShardingRefusal(const std::string& message, const OpDef& op, TypeSpan in)
      : ShardingTypeError(message), op(&op), in(in.begin(), in.end()) {}
  const OpDef* op;
  Types in;
  Attrs attrs = nullptr;
};

/// Sets the shardings of `out`, the types that the op infers. `Typing::Lenient` never refuses a split: where an entry
/// cannot stay it goes. `open`: axes over which a contraction or sum of operands split alike is left unreduced
/// (lenient only). Throws `ShardingTypeError` for placements that do not fit, `UnimplementedError` for sums that the op
/// cannot take, `ValueError` for operands over different meshes; each names the op and the operands' types.
void derive_shardings(const OpDef& op, TypeSpan in, Types& out, const Attrs& attrs, Typing typing, AxisMask open = 0);

/// "f32[8@x,4], f32[4,6@y]".
std::string types_text(TypeSpan types);

// --- for the rules of ops -------------------------------------------------------------------------------------------

/// Throws `ShardingTypeError`: "op: what; operands f32[8@x,4], f32[4]. cure".
[[noreturn]] void refuse_sharding(const PlaceArgs& args, const std::string& what, const std::string& cure);
/// The sharding of `t`; one without entries over `mesh` where it has none.
TypeSharding sharding_of(const Type& t, const AbstractMesh& mesh);
/// What the factors and traits of the op give, for rules that see to some cases only.
void derive_by_factors(const PlaceArgs& args, Types& out, const Attrs& attrs);
/// The rule of ops whose results come from graphs that have typed them: nothing split where they have not.
void keep_inferred(const PlaceArgs& args, Types& out);
/// Sets the sharding of a result. Throws `ShardingTypeError` where an axis stands twice in it, or drops the later one.
void set_sharding(const PlaceArgs& args, Type& out, TypeSharding s);
/// A dimension that was `before` long and split over `axes` keeps them when it is `now` long; throws
/// `ShardingTypeError` ("… is not divisible …") where they do not divide it.
AxisList kept_entry(const PlaceArgs& args, const AxisList& axes, std::int64_t before, std::int64_t now);

}  // namespace tessera::ir
