// SPDX-License-Identifier: Apache-2.0
// The steps of ew_float-inl.h, with what float_constants.h says of them.
#include "engines/cpu/kernels/compiled/emit_erf.h"

#include <span>

#include "engines/cpu/kernels/compiled/emit_float.h"
#include "engines/cpu/kernels/compiled/emit_group.h"
#include "engines/cpu/kernels/elementwise/float_constants.h"

namespace tessera::kernels {

namespace {

using Reg = Assembler::Reg;

// to = |x| of the operands, which stay where they are.
void magnitudes(const Group& g, std::span<const Operands> v, const Regs& to) {
  Assembler& a = g.assembler();
  const Reg magnitude = g.held(kMagnitude);
  g.each([&](std::size_t k) {
    const Assembler::Source x = a.reread(v[k][0]);
    a.vandps(to[k], magnitude, x);
    a.drop(x);
  });
}

void error_function(Assembler& a, std::span<const Operands> v, std::span<Reg> results) {
  const Group g(a, v.size());
  Parts r;
  r.p = g.temporaries();
  magnitudes(g, v, r.p);
  const Reg bound = g.held(kErfOne);
  g.each([&](std::size_t k) { a.vminps(r.p[k], bound, r.p[k]); });  // the second operand where either is NaN
  r.x = g.temporaries();
  emit_polynomial(g, r.x, r.p, kErfFar);
  r.shifted = g.temporaries();
  emit_powers(g, r, kExpRoundBiased, 1);
  g.each(kMinusLog2, [&](std::size_t k, const auto& c) {
    a.vfmadd231ps(r.x[k], r.p[k], c);
    a.vpslld(r.shifted[k], r.shifted[k], 23);
  });
  emit_exp_rest(g, r);
  g.each([&](std::size_t k) {
    a.vmulps(g.scratch(), r.x[k], r.x[k]);
    a.vfmadd213ps(r.p[k], g.scratch(), r.x[k]);
    a.vfmadd213ps(r.p[k], r.shifted[k], r.shifted[k]);
  });
  const Reg one = g.held(1.0F);
  g.each([&](std::size_t k) { a.vsubps(r.x[k], one, r.p[k]); });
  const Regs& far = r.x;
  const Regs& near = r.p;
  const Regs& magnitude = r.shifted;
  magnitudes(g, v, magnitude);
  g.each([&](std::size_t k) { a.vmulps(magnitude[k], magnitude[k], magnitude[k]); });
  emit_polynomial(g, near, magnitude, kErfNear);
  magnitudes(g, v, magnitude);
  const Reg split = g.held(kErfSplit);
  g.each([&](std::size_t k) {
    a.vfmadd213ps(near[k], magnitude[k], magnitude[k]);
    a.vcmpps(g.scratch(), magnitude[k], split, kLt);
    a.vblendvps(magnitude[k], far[k], near[k], g.scratch());
  });
  const Reg sign = g.held(kSign);
  g.each([&](std::size_t k) {
    const Assembler::Source x = a.reread(v[k][0]);
    a.vandps(g.scratch(), sign, x);
    a.vorps(magnitude[k], magnitude[k], g.scratch());
    a.drop(x);
    results[k] = magnitude[k];
  });
}

// Six registers a vector.
constexpr std::size_t kFew = 2;
void complement(Assembler& a, std::span<const Operands> v, std::span<Reg> results) {
  const Group g(a, v.size());
  const Regs x = g.temporaries(), h = g.temporaries(), t = g.temporaries(), w = g.temporaries();
  magnitudes(g, v, x);
  const Reg bound = g.held(kErfcZero);
  g.each([&](std::size_t k) { a.vminps(x[k], bound, x[k]); });
  const Reg one = g.held(1.0F);
  g.each([&](std::size_t k) {
    a.vaddps(h[k], x[k], one);
    a.vsubps(t[k], h[k], one);
    a.vsubps(t[k], x[k], t[k]);  // what the sum has lost
    a.vdivps(w[k], one, h[k]);
    a.vfnmadd213ps(h[k], w[k], one);
    a.vfnmadd231ps(h[k], w[k], t[k]);
    a.vmovaps(t[k], one);
  });
  g.each(-2.0F, [&](std::size_t k, const auto& c) { a.vfmadd231ps(t[k], w[k], c); });
  // The exponent -s, and in h what is added to it.
  const Regs s = g.temporaries();
  const Reg slope = g.held(kErfcSlope);
  g.each([&](std::size_t k) {
    a.vmulps(s[k], x[k], x[k]);
    a.vfmsub213ps(x[k], x[k], s[k]);
    a.vfmsub213ps(h[k], slope, x[k]);
  });
  const Parts r{s, g.temporaries(), x};
  g.each(kExpRound, [&](std::size_t k, const auto& c) { a.vmovups(r.shifted[k], c); });
  g.each(kLog2E, [&](std::size_t k, const auto& c) { a.vfnmadd231ps(r.shifted[k], s[k], c); });
  g.each(kExpRound, [&](std::size_t k, const auto& c) { a.vsubps(r.p[k], r.shifted[k], c); });
  g.each(kMinusLog2Parts[0], [&](std::size_t k, const auto& c) { a.vfmsub231ps(s[k], r.p[k], c); });
  g.each(kMinusLog2Parts[1], [&](std::size_t k, const auto& c) { a.vfmadd231ps(h[k], r.p[k], c); });
  g.each([&](std::size_t k) { a.vaddps(s[k], s[k], h[k]); });
  emit_exp_rest(g, r);
  const Regs& factor = h;
  emit_polynomial(g, factor, t, kErfcRest);
  g.each([&](std::size_t k) {
    a.vfmadd213ps(factor[k], w[k], w[k]);
    a.vmulps(g.scratch(), s[k], s[k]);
    a.vfmadd213ps(r.p[k], g.scratch(), s[k]);
    a.vfmadd213ps(r.p[k], factor[k], factor[k]);
  });
  g.drop(h);
  g.drop(t);
  g.drop(w);
  emit_times_power(g, r);
  const Reg two = g.held(2.0F);
  g.each([&](std::size_t k) {
    const Reg operand = a.reg(v[k][0]);
    auto below = a.where(operand, a.constant(0.0F), kLt);
    a.vsubps(g.scratch(), two, s[k]);
    a.blend(s[k], s[k], g.scratch(), below);
    a.drop(below);
    a.drop(operand);
    results[k] = s[k];
  });
}

}  // namespace

OpCode error_function_code(EwOp op) {
  if (op == EwOp::Erf) return {nullptr, nullptr, DType::F32, 40, error_function, kGroup};
  if (op == EwOp::Erfc) return {nullptr, nullptr, DType::F32, 60, complement, kFew};
  return {};
}

}  // namespace tessera::kernels
