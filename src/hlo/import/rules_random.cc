// SPDX-License-Identifier: Apache-2.0
// rng_bit_generator with the two generators of Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3" (SC 2011),
// with state and order of numbers as XLA has them, so that seeds mean the same; and rng.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/strings.h"
#include "hlo/import/import.h"
#include "ops/elementwise/random_bits.h"
#include "tessera/error.h"

namespace tessera::hlo {

namespace {
Value u32(ir::Builder& b, std::uint32_t v) { return ops::scalar(b, static_cast<double>(v), DType::U32); }
Value low_half(Value x) { return ops::convert(x, DType::U32); }
Value high_half(Value x) {
  return ops::convert(ops::shift_right_logical(x, ops::scalar(*x.builder, 32, DType::U64)), DType::U32);
}
Value joined(Value low, Value high) {
  Value up = ops::shift_left(ops::convert(high, DType::U64), ops::scalar(*low.builder, 32, DType::U64));
  return ops::or_(ops::convert(low, DType::U64), up);
}
Value word_of(Value state, std::int64_t i) { return ops::squeeze(ops::slice(state, {i}, {i + 1}), {0}); }
Value first_of(Value x, std::int64_t n) { return ops::slice(x, {0}, {n}); }

struct Random {
  Value state;  // u64[n]
  Value bits;   // u32 or u64 numbers, flat
};

// --- Philox4x32-10 ---------------------------------------------------------------------------------------------------

using Four = std::array<Value, 4>;
Four philox(Four x, std::array<Value, 2> key) {
  ir::Builder& b = *x[0].builder;
  auto product = [&](Value v, std::uint32_t k) {
    return ops::mul(ops::convert(v, DType::U64), ops::scalar(b, static_cast<double>(k), DType::U64));
  };
  for (int round = 0; round < 10; ++round) {
    Value p0 = product(x[0], 0xD2511F53U), p1 = product(x[2], 0xCD9E8D57U);
    x = {ops::xor_(ops::xor_(high_half(p1), x[1]), key[0]), low_half(p1),
         ops::xor_(ops::xor_(high_half(p0), x[3]), key[1]), low_half(p0)};
    key = {ops::add(key[0], u32(b, 0x9E3779B9U)), ops::add(key[1], u32(b, 0xBB67AE85U))};
  }
  return x;
}

// A counter of 128 bits, and that many further on.
std::array<Value, 2> advanced(Value low, Value high, Value by) {
  Value sum = ops::add(low, by);
  Value carry = ops::convert(ops::lt(sum, low), DType::U64);
  return {sum, ops::add(high, carry)};
}

Random philox_bits(Value state, std::int64_t count, bool wide) {
  ir::Builder& b = *state.builder;
  bool three = state.shape()[0] >= 3;
  Value key = word_of(state, 0);
  // Two words of state: the counter's low half follows the key, which is its high half too.
  Value low = word_of(state, 1), high = three ? word_of(state, 2) : key;
  std::int64_t blocks = ((wide ? 2 * count : count) + 3) / 4;
  Value steps = ops::iota(b, DType::U64, {blocks}, 0);
  auto counter = advanced(ops::broadcast_to(low, {blocks}), ops::broadcast_to(high, {blocks}), steps);
  Four x = philox({low_half(counter[0]), high_half(counter[0]), low_half(counter[1]), high_half(counter[1])},
                  {low_half(key), high_half(key)});
  auto next = advanced(low, high, ops::scalar(b, static_cast<double>(blocks), DType::U64));
  Values words{key, next[0]};
  if (three) words.push_back(next[1]);
  for (auto& w : words) w = ops::reshape(w, {1});
  Values columns;
  if (wide) {
    columns = {joined(x[0], x[1]), joined(x[2], x[3])};
  } else {
    columns = {x[0], x[1], x[2], x[3]};
  }
  for (auto& v : columns) v = ops::reshape(v, {blocks, 1});
  auto width = static_cast<std::int64_t>(columns.size());
  Value flat = ops::reshape(ops::concatenate(columns, 1), {blocks * width});
  return {ops::concatenate(words, 0), first_of(flat, count)};
}

// --- Threefry-2x32 ---------------------------------------------------------------------------------------------------

// Two halves of a shape along one dimension are the two words of each hash.
struct Halves {
  Shape half, whole;
  std::int64_t dim = 0;
};
Halves halves_of(const Shape& shape) {
  Halves h;
  if (shape.empty()) return {{1, 1}, {2}, 0};
  h.dim = -1;
  for (std::size_t i = 0; i < shape.size() && h.dim < 0; ++i) {
    if (shape[i] % 2 == 0) h.dim = static_cast<std::int64_t>(i);
  }
  if (h.dim < 0) h.dim = std::max_element(shape.begin(), shape.end()) - shape.begin();
  h.half = h.whole = shape;
  auto& n = h.half[static_cast<std::size_t>(h.dim)];
  n = (n + 1) / 2;
  h.whole[static_cast<std::size_t>(h.dim)] = 2 * n;
  h.half.insert(h.half.begin() + h.dim + 1, 1);
  return h;
}

Random threefry_bits(Value state, const Shape& shape, bool wide) {
  ir::Builder& b = *state.builder;
  Value key = word_of(state, 0), start = word_of(state, 1);
  Halves h = halves_of(shape);
  Shape count_shape = wide ? shape : h.half;
  std::int64_t n = size_of(count_shape);
  Value counter = ops::add(ops::iota(b, DType::U64, {n}, 0), start);
  auto x = ops::threefry2x32(low_half(key), high_half(key), low_half(counter), high_half(counter));
  Value next = ops::add(start, ops::scalar(b, static_cast<double>(n), DType::U64));
  Value out_state = ops::concatenate(Values{ops::reshape(key, {1}), ops::reshape(next, {1})}, 0);
  if (wide) return {out_state, joined(x[0], x[1])};
  if (shape.empty()) return {out_state, ops::reshape(x[0], {1})};
  Values parts{ops::reshape(x[0], h.half), ops::reshape(x[1], h.half)};
  Value both = ops::reshape(ops::concatenate(parts, h.dim + 1), h.whole);
  both = ops::slice(both, Dims(shape.size(), 0), shape);
  return {out_state, ops::reshape(both, {size_of(shape)})};
}

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
  bool wide = dtype_size(to) == 8;
  if (size_of(out.shape) == 0) return {c.in[0], tensor(out.elem, ops::zeros(c.b(), {to, out.shape, false}))};
  Random r = threefry ? threefry_bits(state, out.shape, wide) : philox_bits(state, size_of(out.shape), wide);
  Value bits = ops::reshape(r.bits, out.shape);
  DType as = dtype_size(to) == 1 ? DType::U8 : dtype_size(to) == 2 ? DType::U16 : bits.dtype();
  bits = ops::convert(bits, as);
  if (to != as) bits = ops::bitcast_convert_type(bits, to);
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
