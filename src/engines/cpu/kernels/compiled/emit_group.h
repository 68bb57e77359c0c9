// SPDX-License-Identifier: Apache-2.0
// Functions of f32 that are written step by step, each step for all vectors of a group before the next one: each waits
// for the one before, and several of them fill that time; and constants, of which there are as many as arithmetic
// steps, are read once a group. Three registers a vector and two for all leave room for four vectors in sixteen.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engines/cpu/kernels/compiled/assembler.h"

namespace tessera::kernels {

/// Vectors that registers suffice for.
constexpr std::size_t kGroup = 4;
using Regs = std::array<Assembler::Reg, kGroup>;

/// Vectors for which the same steps are written.
class Group {
 public:
  Group(Assembler& a, std::size_t count) : a_(a), count_(count), held_(a.temporary()), scratch_(a.temporary()) {}

  std::size_t count() const { return count_; }
  Regs temporaries() const {
    Regs out;
    for (std::size_t k = 0; k < count_; ++k) out[k] = a_.temporary();
    return out;
  }
  void drop(const Regs& regs) const {
    each([&](std::size_t k) { a_.drop(regs[k]); });
  }
  template <class F>
  void each(F write) const {
    for (std::size_t k = 0; k < count_; ++k) write(k);
  }
  template <class F>
  void each(float value, F write) const {
    const Assembler::Source c = constant(value);
    each([&](std::size_t k) { write(k, c); });
  }
  /// In a register, until the next constant.
  Assembler::Reg held(std::uint32_t bits) const {
    a_.vmovups(held_, a_.constant(bits));
    return held_;
  }
  Assembler::Reg held(float value) const { return held(std::bit_cast<std::uint32_t>(value)); }
  /// The same, or in memory.
  Assembler::Source constant(std::uint32_t bits) const {
    if (count_ == 1) return a_.constant(bits);
    return held(bits);
  }
  Assembler::Source constant(float value) const { return constant(std::bit_cast<std::uint32_t>(value)); }

  /// For one vector at a time.
  Assembler::Reg scratch() const { return scratch_; }
  Assembler& assembler() const { return a_; }

 private:
  Assembler& a_;
  std::size_t count_;
  Assembler::Reg held_, scratch_;
};

/// What a group computes with.
struct Parts {
  Regs x, p, shifted;
};

/// p = the polynomial of x with these coefficients, the highest power first.
void emit_polynomial(const Group& g, const Regs& p, const Regs& x, std::span<const float> coefficients);
/// p = q of exp(x) = 1 + x + q x^2.
void emit_exp_rest(const Group& g, const Parts& r);
/// shifted = n + round and p = n for x, of which a unit is `scale`: exp(x) = 2^n exp(r).
void emit_powers(const Group& g, const Parts& r, float round, float scale);
/// x = p 2^n, for n + kExpRound in `shifted`.
void emit_times_power(const Group& g, const Parts& r);

}  // namespace tessera::kernels
