// SPDX-License-Identifier: Apache-2.0
#include "ops/elementwise/bit_generators.h"

#include <algorithm>
#include <array>

#include "ops/elementwise/random_bits.h"

namespace tessera::ops {

namespace {
Value u32(ir::Builder& b, std::uint32_t v) { return scalar(b, static_cast<double>(v), DType::U32); }
Value low_half(Value x) { return convert(x, DType::U32); }
Value high_half(Value x) { return convert(shift_right_logical(x, scalar(*x.builder, 32, DType::U64)), DType::U32); }
Value joined(Value low, Value high) {
  Value up = shift_left(convert(high, DType::U64), scalar(*low.builder, 32, DType::U64));
  return or_(convert(low, DType::U64), up);
}
Value word_of(Value state, std::int64_t i) { return squeeze(slice(state, {i}, {i + 1}), {0}); }
Value first_of(Value x, std::int64_t n) { return slice(x, {0}, {n}); }

// Numbers are flat here.
using Random = GeneratedBits;

// --- Philox4x32-10 ---------------------------------------------------------------------------------------------------

using Four = std::array<Value, 4>;
Four philox(Four x, std::array<Value, 2> key) {
  ir::Builder& b = *x[0].builder;
  auto product = [&](Value v, std::uint32_t k) {
    return mul(convert(v, DType::U64), scalar(b, static_cast<double>(k), DType::U64));
  };
  for (int round = 0; round < 10; ++round) {
    Value p0 = product(x[0], 0xD2511F53U), p1 = product(x[2], 0xCD9E8D57U);
    x = {xor_(xor_(high_half(p1), x[1]), key[0]), low_half(p1), xor_(xor_(high_half(p0), x[3]), key[1]), low_half(p0)};
    key = {add(key[0], u32(b, 0x9E3779B9U)), add(key[1], u32(b, 0xBB67AE85U))};
  }
  return x;
}

// A counter of 128 bits, and that many further on.
std::array<Value, 2> advanced(Value low, Value high, Value by) {
  Value sum = add(low, by);
  Value carry = convert(lt(sum, low), DType::U64);
  return {sum, add(high, carry)};
}

Random philox_bits(Value state, std::int64_t count, bool wide) {
  ir::Builder& b = *state.builder;
  bool three = state.shape()[0] >= 3;
  Value key = word_of(state, 0);
  // Two words of state: the counter's low half follows the key, which is its high half too.
  Value low = word_of(state, 1), high = three ? word_of(state, 2) : key;
  std::int64_t blocks = ((wide ? 2 * count : count) + 3) / 4;
  Value steps = iota(b, DType::U64, {blocks}, 0);
  auto counter = advanced(broadcast_to(low, {blocks}), broadcast_to(high, {blocks}), steps);
  Four x = philox({low_half(counter[0]), high_half(counter[0]), low_half(counter[1]), high_half(counter[1])},
                  {low_half(key), high_half(key)});
  auto next = advanced(low, high, scalar(b, static_cast<double>(blocks), DType::U64));
  Values words{key, next[0]};
  if (three) words.push_back(next[1]);
  for (auto& w : words) w = reshape(w, {1});
  Values columns;
  if (wide) {
    columns = {joined(x[0], x[1]), joined(x[2], x[3])};
  } else {
    columns = {x[0], x[1], x[2], x[3]};
  }
  for (auto& v : columns) v = reshape(v, {blocks, 1});
  auto width = static_cast<std::int64_t>(columns.size());
  Value flat = reshape(concatenate(columns, 1), {blocks * width});
  return {concatenate(words, 0), first_of(flat, count)};
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
  Value counter = add(iota(b, DType::U64, {n}, 0), start);
  auto x = threefry2x32(low_half(key), high_half(key), low_half(counter), high_half(counter));
  Value next = add(start, scalar(b, static_cast<double>(n), DType::U64));
  Value out_state = concatenate(Values{reshape(key, {1}), reshape(next, {1})}, 0);
  if (wide) return {out_state, joined(x[0], x[1])};
  if (shape.empty()) return {out_state, reshape(x[0], {1})};
  Values parts{reshape(x[0], h.half), reshape(x[1], h.half)};
  Value both = reshape(concatenate(parts, h.dim + 1), h.whole);
  both = slice(both, Dims(shape.size(), 0), shape);
  return {out_state, reshape(both, {size_of(shape)})};
}
}  // namespace

GeneratedBits generate_bits(Value state, const Shape& shape, std::int64_t bytes, bool threefry) {
  const bool wide = bytes == 8;
  Random r = threefry ? threefry_bits(state, shape, wide) : philox_bits(state, size_of(shape), wide);
  r.bits = reshape(r.bits, shape);
  if (bytes < 4) r.bits = convert(r.bits, bytes == 1 ? DType::U8 : DType::U16);
  return r;
}

}  // namespace tessera::ops
