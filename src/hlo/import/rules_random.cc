// SPDX-License-Identifier: Apache-2.0
// rng_bit_generator and rng.
#include <cmath>

#include "base/strings.h"
#include "hlo/import/import.h"
#include "ops/elementwise/bit_generators.h"
#include "ops/elementwise/random_bits.h"
#include "tessera/error.h"

namespace tessera::hlo {

namespace {
Value u32(ir::Builder& b, std::uint32_t v) { return ops::scalar(b, static_cast<double>(v), DType::U32); }

Items rng_bit_generator(OpCall& c) {
  c.check_operands(1);
  std::string algorithm = c.find("algorithm") ? c.word("algorithm") : c.word("rng_algorithm");
  Value state = c.v(0);
  if (state.rank() != 1 || state.shape()[0] < 2 || state.shape()[0] > 3 || state.dtype() != DType::U64) {
    c.fail("the state must be tensor<2xui64> or tensor<3xui64>");
  }
  bool threefry = algorithm == "THREE_FRY";
  if (!threefry && algorithm != "PHILOX" && algorithm != "DEFAULT")
    c.fail(str("unknown algorithm \"", algorithm, "\""));
  if (threefry && state.shape()[0] != 2) c.fail("THREE_FRY has two words of state");
  const AstType& out = c.out(1);
  DType to = storage(out.elem);
  if (is_bool(to) || is_complex(to)) c.fail("random bits are integers or floats");
  if (size_of(out.shape) == 0) return {c.in[0], tensor(out.elem, ops::zeros(c.b(), {to, out.shape, false}))};
  const ops::GeneratedBits r = ops::generate_bits(state, out.shape, dtype_size(to), threefry);
  Value bits = r.bits;
  if (to != bits.dtype()) bits = ops::bitcast_convert_type(bits, to);
  return {tensor(c.out(0).elem, r.state), tensor(out.elem, bits)};
}

// Numbers that depend on nothing: the specification leaves the generator open, so one fixed key gives them.
Items rng(OpCall& c) {
  c.check_operands(3);
  std::string how = c.find("distribution") ? c.word("distribution") : c.word("rng_distribution");
  ir::Builder& b = c.b();
  const Shape& shape = c.out().shape;
  DType t = storage(c.elem());
  Value key = ops::constant(b, HostArray::from<std::uint32_t>({0x7e55e7aU, c.importer.next_seed()}));
  Value low = c.v(0), high = c.v(1);
  if (is_bool(t)) return c.one(ops::ne(ops::random_bits(key, 8, shape), ops::scalar(b, 0, DType::U8)));
  if (!is_float(t)) {
    if (how != "UNIFORM") c.fail("integers are drawn from UNIFORM alone");
    DType as = dtype_size(t) == 8 ? DType::U64 : DType::U32;
    Value bits = ops::random_bits(key, dtype_size(as) * 8, shape);
    Value span = ops::convert(ops::sub(high, low), as);
    return c.one(ops::add(low, ops::convert(ops::rem(bits, span), t)));
  }
  auto unit = [&](Value k) {  // [0, 1)
    Value bits = ops::shift_right_logical(ops::random_bits(k, 32, shape), u32(b, 8));
    return ops::convert(bits, DType::F32) * std::ldexp(1.0, -24);
  };
  if (how == "UNIFORM") return c.one(ops::add(ops::mul(ops::convert(unit(key), t), ops::sub(high, low)), low));
  if (how != "NORMAL") c.fail(str("unknown distribution \"", how, "\""));
  Value normal = ops::erf_inv(unit(key) * 2.0 + (std::ldexp(1.0, -24) - 1.0)) * std::sqrt(2.0);
  return c.one(ops::add(ops::mul(ops::convert(normal, t), high), low));
}
}  // namespace

void add_random_rules(RuleTable& t) {
  t["stablehlo.rng_bit_generator"] = rng_bit_generator;
  t["stablehlo.rng"] = rng;
}

}  // namespace tessera::hlo
