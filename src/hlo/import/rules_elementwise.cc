// SPDX-License-Identifier: Apache-2.0
// StableHLO's element-wise operations.
#include "hlo/import/import.h"
#include "hlo/import/narrow.h"
#include "hlo/import/patterns/filled_gather.h"
#include "hlo/import/shared_compositions.h"

namespace tessera::hlo {

namespace {
Items compare(OpCall& c) {
  c.check_operands(2);
  std::string direction, kind;
  for (const auto& w : c.op.words) (direction.empty() ? direction : kind) = c.word_of(w);
  if (direction.empty()) direction = c.word("comparison_direction");
  if (kind.empty()) kind = c.word("compare_type");
  Value x = c.v(0), y = c.v(1);
  if (kind == "TOTALORDER") {
    if (!is_float(x.dtype())) c.fail("TOTALORDER compares floats");
    x = total_order(x);
    y = total_order(y);
  }
  return c.one(compared(c, direction, x, y));
}

// An operation that is an op here.
Items direct(OpCall& c) {
  const ir::OpDef& op = *ops_by_stablehlo().at(c.op.name);
  auto count = static_cast<std::size_t>(op.traits().arity);
  c.check_operands(count);
  ir::Values in;
  for (std::size_t i = 0; i < count; ++i) in.push_back(c.v(i));
  return rounded(c, c.b().add1(op, in));
}

Items select(OpCall& c) {
  c.check_operands(3);
  if (auto filled = filled_gather(c)) return c.one(*filled);
  return c.one(ops::where(c.v(0), c.v(1), c.v(2)));
}
Items clamp(OpCall& c) {
  c.check_operands(3);
  return c.one(ops::clamp(c.v(0), c.v(1), c.v(2)));
}

// The writer's mark (narrow.h).
bool is_exact(OpCall& c) {
  const AstAttr* a = c.find("mhlo.frontend_attributes");
  const AstAttr* own = a == nullptr ? nullptr : a->find("tessera");
  return own != nullptr && own->text == "exact";
}

Items element_convert(OpCall& c) {
  c.check_operands(1);
  Value x = c.v(0);
  Elem to = c.elem();
  if (is_complex(x.dtype()) && !is_complex(storage(to)) && to != Elem::Bool) x = ops::real(x);
  if ((is_narrow_float(to) || is_narrow_int(to)) && x.dtype() == storage(to) && is_exact(c)) return c.one(x);
  if (is_narrow_float(to) || (is_narrow_int(to) && is_float(x.dtype()))) return rounded(c, x);
  Item out = tensor(to, round_to(ops::convert(x, storage(to)), to));
  if (c.in[0].known && !is_narrow_int(to) && !is_narrow_float(c.in[0].elem)) {
    out.known = std::make_shared<const HostArray>(c.in[0].known->astype(storage(to)));
  }
  return {out};
}

Items reduce_precision(OpCall& c) {
  c.check_operands(1);
  std::int64_t exponent = c.integer_or("exponent_bits", 0), mantissa = c.integer_or("mantissa_bits", 0);
  if (c.find("exponent_bits") == nullptr) {
    std::string format = c.word("format");  // e5m10
    auto m = format.find('m');
    if (format.size() < 4 || format[0] != 'e' || m == std::string::npos) c.fail("expected format = e<bits>m<bits>");
    exponent = std::atoll(format.substr(1, m - 1).c_str());
    mantissa = std::atoll(format.substr(m + 1).c_str());
  }
  return rounded(c, ops::reduce_precision(c.v(0), exponent, mantissa));
}

// Between element widths the last dimension grows or goes.
Items bitcast_convert(OpCall& c) {
  c.check_operands(1);
  Elem from = c.in[0].elem, to = c.elem();
  Value x = c.v(0);
  bool narrow_from = is_narrow_int(from) || is_narrow_float(from);
  bool narrow_to = is_narrow_int(to) || is_narrow_float(to);
  if (!narrow_from && !narrow_to) return c.one(ops::bitcast_convert_type(x, storage(to)));
  if (narrow_from) x = narrow_to_bits(x, from);
  int had = bit_width(from), wants = bit_width(to);
  ir::Builder& b = c.b();
  if (had < 8 && wants >= 8) {  // join 8 / had elements in each byte, low bits first
    Shape shape = x.shape();
    std::int64_t per = 8 / had;
    if (shape.empty() || shape.back() % per != 0) c.fail("the last dimension does not fill whole bytes");
    shape.back() /= per;
    shape.push_back(per);
    x = ops::reshape(x, shape);
    Value place = ops::iota(b, DType::U8, shape, static_cast<std::int64_t>(shape.size()) - 1);
    Value shifted = ops::shift_left(x, ops::mul(place, ops::scalar(b, had, DType::U8)));
    x = ops::reduce_sum(shifted, {static_cast<std::int64_t>(shape.size()) - 1});
    if (wants == 8 && x.shape().size() == c.out().shape.size() + 1) x = ops::squeeze(x, {x.rank() - 1});
  } else if (had >= 8 && wants < 8) {
    if (had > 8 || !narrow_from) x = ops::bitcast_convert_type(x, DType::U8);
    std::int64_t per = 8 / wants;
    Shape shape = x.shape();
    shape.push_back(per);
    Value place = ops::iota(b, DType::U8, shape, static_cast<std::int64_t>(shape.size()) - 1);
    Dims keep(x.shape().size());
    for (std::size_t i = 0; i < keep.size(); ++i) keep[i] = static_cast<std::int64_t>(i);
    Value wide = ops::broadcast_in_dim(x, shape, keep);
    x = ops::shift_right_logical(wide, ops::mul(place, ops::scalar(b, wants, DType::U8)));
    x = ops::and_(x, ops::scalar(b, wants == 4 ? 15 : 3, DType::U8));
    x = ops::reshape(x, c.out().shape);
  }
  if (narrow_to) {
    if (x.dtype() != DType::U8) x = ops::bitcast_convert_type(x, DType::U8);
    return c.one(narrow_from_bits(x, to));
  }
  return c.one(x.dtype() == storage(to) ? x : ops::bitcast_convert_type(x, storage(to)));
}

Items shift_right_logical(OpCall& c) {
  Elem e = c.in.empty() ? Elem::I32 : c.in[0].elem;
  if (!is_narrow_int(e)) return binary<ops::shift_right_logical>(c);
  Value bits = narrow_to_bits(c.v(0), e);
  Value by = ops::convert(c.v(1), DType::U8);
  return c.one(narrow_from_bits(ops::shift_right_logical(bits, by), e));
}
Items count_leading_zeros(OpCall& c) {
  Elem e = c.in.empty() ? Elem::I32 : c.in[0].elem;
  if (!is_narrow_int(e)) return unary<ops::clz>(c);
  Value n = ops::clz(narrow_to_bits(c.v(0), e));
  n = ops::sub(n, ops::scalar(c.b(), 8 - bit_width(e), n.dtype()));
  return c.one(ops::convert(n, storage(e)));
}
Items popcnt(OpCall& c) {
  Elem e = c.in.empty() ? Elem::I32 : c.in[0].elem;
  if (!is_narrow_int(e)) return unary<ops::population_count>(c);
  Value n = ops::population_count(narrow_to_bits(c.v(0), e));
  return rounded(c, ops::convert(n, storage(e)));
}

Value round_away(Value x) { return ops::round(x, false); }
Value round_even(Value x) { return ops::round(x, true); }

// stablehlo.map: a function of numbers at every place.
Items map(OpCall& c) {
  RegionGraph r = c.importer.region(c.scope, c.region(0), "stablehlo.map");
  Values in = values_of(c.in);
  for (const auto& v : values_of(r.captured)) in.push_back(v);
  Values out = map_graph(*r.graph, in);
  if (out.size() != 1) c.fail("the function of a map gives one number");
  return c.one(out[0]);
}
}  // namespace

Value compared(OpCall& c, const std::string& direction, Value x, Value y) {
  auto op = ops_by_stablehlo().find("stablehlo.compare " + direction);
  if (op == ops_by_stablehlo().end()) c.fail("unknown comparison \"" + direction + "\"");
  return c.b().add1(*op->second, {x, y});
}

void add_elementwise_rules(RuleTable& t) {
  for (const auto& [name, op] : ops_by_stablehlo()) t[name] = direct;
  t["stablehlo.abs"] = unary<ops::abs>;
  t["stablehlo.round_nearest_afz"] = unary<round_away>;
  t["stablehlo.round_nearest_even"] = unary<round_even>;
  t["stablehlo.popcnt"] = popcnt;
  t["stablehlo.count_leading_zeros"] = count_leading_zeros;
  t["stablehlo.shift_right_logical"] = shift_right_logical;
  t["stablehlo.compare"] = compare;
  t["stablehlo.select"] = select;
  t["stablehlo.clamp"] = clamp;
  t["stablehlo.convert"] = element_convert;
  t["stablehlo.reduce_precision"] = reduce_precision;
  t["stablehlo.bitcast_convert"] = bitcast_convert;
  t["stablehlo.map"] = map;
}

}  // namespace tessera::hlo
