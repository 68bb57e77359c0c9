// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/kernels/compiled/emit_exp.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>

#include "engines/cpu/kernels/compiled/emit_float.h"
#include "engines/cpu/kernels/compiled/emit_group.h"
#include "engines/cpu/kernels/elementwise/float_constants.h"

namespace tessera::kernels {

namespace {

using Reg = Assembler::Reg;
// x = r, p = exp(r) and shifted = n + kExpRound
void exp_parts(const Group& g, const Parts& r) {
  Assembler& a = g.assembler();
  emit_powers(g, r, kExpRound, 1);
  for (float of : kMinusLog2Parts) {
    g.each(of, [&](std::size_t k, const auto& c) { a.vfmadd231ps(r.x[k], r.p[k], c); });
  }
  emit_exp_rest(g, r);
  const Assembler::Source one = g.constant(1.0F);
  for (int i = 0; i < 2; ++i) {
    g.each([&](std::size_t k) { a.vfmadd213ps(r.p[k], r.x[k], one); });
  }
}

// x = exp(x) of any x.
void exp_of_any(const Group& g, const Parts& r) {
  Assembler& a = g.assembler();
  // The second operand where either is NaN. The lower bound's smaller factor is zero.
  Reg bound = g.held(-176.0F);
  g.each([&](std::size_t k) { a.vmaxps(r.x[k], bound, r.x[k]); });
  bound = g.held(89.0F);
  g.each([&](std::size_t k) { a.vminps(r.x[k], bound, r.x[k]); });
  exp_parts(g, r);
  emit_times_power(g, r);
}

// x = exp(x). Where all results are normal numbers, 2^n is added to their exponents, which gives the same bits; other
// vectors take the long way, which lies behind the code.
void exp_of(const Group& g, const Regs& x) {
  Assembler& a = g.assembler();
  const Parts r{x, g.temporaries(), g.temporaries()};
  if (a.wide()) {
    exp_of_any(g, r);
  } else {
    constexpr float kNormal = 87.0F;
    constexpr auto kNear = Xbyak::CodeGenerator::T_NEAR;
    const Assembler::Source magnitude = g.constant(kMagnitude);
    g.each([&](std::size_t k) { a.vandps(r.p[k], x[k], magnitude); });
    // As integers: NaN is larger, too.
    g.each([&](std::size_t k) {
      if (k > 0) a.vpmaxsd(r.p[0], r.p[0], r.p[k]);
    });
    a.vpcmpgtd(r.p[0], r.p[0], a.constant(kNormal));
    a.vmovmskps(a.eax, r.p[0]);
    a.test(a.eax, a.eax);
    Xbyak::Label any;
    Xbyak::Label done;
    a.jnz(any, kNear);
    exp_parts(g, r);
    g.each([&](std::size_t k) {
      a.vpslld(r.shifted[k], r.shifted[k], 23);
      a.vpaddd(r.x[k], r.p[k], r.shifted[k]);
    });
    a.L(done);
    a.write_behind([g, r, any, done]() mutable {
      g.assembler().L(any);
      exp_of_any(g, r);
      g.assembler().jmp(done, kNear);
    });
  }
  g.drop(r.p);
  g.drop(r.shifted);
}

void exponential(Assembler& a, std::span<const Operands> v, std::span<Reg> results) {
  const Group g(a, v.size());
  Regs x;
  g.each([&](std::size_t k) { x[k] = a.writable(v[k][0]); });
  exp_of(g, x);
  g.each([&](std::size_t k) { results[k] = x[k]; });
}

// e = exp(-|x|), for NaN of its bits; (x < 0 ? e : 1) / (1 + e)
void logistic(Assembler& a, std::span<const Operands> v, std::span<Reg> results) {
  const Group g(a, v.size());
  const Regs e = g.temporaries();
  g.each([&](std::size_t k) {
    const Reg x = a.reg(v[k][0]);
    auto below = a.where(x, a.constant(0.0F), kLt);
    a.vxorps(e[k], x, a.constant(kSign));
    a.blend(e[k], e[k], x, below);
    a.drop(below);
    a.drop(x);  // until it is compared once more
  });
  exp_of(g, e);
  const Reg one = g.held(1.0F);
  const Reg top = g.scratch();
  g.each([&](std::size_t k) {
    const Reg x = a.reg(v[k][0]);
    auto below = a.where(x, a.constant(0.0F), kLt);
    a.vxorps(top, top, top);
    a.vfmadd213ps(top, e[k], one);
    a.blend(top, top, e[k], below);
    a.vaddps(e[k], one, e[k]);
    a.vdivps(e[k], top, e[k]);
    a.drop(below);
    a.drop(x);
    results[k] = e[k];
  });
}

// t = exp(2 |x|) - 1
Regs tangent_power(const Group& g, std::span<const Operands> v) {
  Assembler& a = g.assembler();
  Parts r;
  r.x = g.temporaries();
  const Reg magnitude = g.held(kMagnitude);
  g.each([&](std::size_t k) {
    const Reg x = a.reg(v[k][0]);
    a.vandps(r.x[k], x, magnitude);
    a.drop(x);  // until its sign is needed
  });
  r.p = g.temporaries();
  r.shifted = g.temporaries();
  const Reg bound = g.held(10.0F);
  g.each([&](std::size_t k) { a.vminps(r.x[k], bound, r.x[k]); });
  emit_powers(g, r, kExpRoundBiased, 2);
  g.each([&](std::size_t k) { a.vaddps(r.x[k], r.x[k], r.x[k]); });
  g.each(kMinusLog2, [&](std::size_t k, const auto& c) {
    a.vfmadd231ps(r.x[k], r.p[k], c);
    a.vpslld(r.shifted[k], r.shifted[k], 23);
  });
  emit_exp_rest(g, r);
  g.each([&](std::size_t k) {
    a.vmulps(g.scratch(), r.x[k], r.x[k]);
    a.vfmadd213ps(r.p[k], g.scratch(), r.x[k]);
  });
  g.each(1.0F, [&](std::size_t k, const auto& one) { a.vsubps(r.x[k], r.shifted[k], one); });
  g.each([&](std::size_t k) { a.vfmadd213ps(r.p[k], r.shifted[k], r.x[k]); });
  g.drop(r.x);
  g.drop(r.shifted);
  return r.p;
}

// t = t / (t + 2)
void tangent_quotient(const Group& g, std::span<const Reg> t) {
  Assembler& a = g.assembler();
  const Regs d = g.temporaries();
  g.each(2.0F, [&](std::size_t k, const auto& two) {
    a.vaddps(d[k], t[k], two);
    a.vdivps(t[k], t[k], d[k]);
  });
  g.drop(d);
}

// Of two groups each step is written for both before the next: neither waits for what it has just asked for.
void hyperbolic_tangent(Assembler& a, std::span<const Operands> v, std::span<Reg> results) {
  const Group g(a, std::min(v.size(), kGroup));
  Regs t = tangent_power(g, v.first(g.count()));
  const bool two = v.size() > kGroup;
  if (two) {
    std::array<int, kGroup> first{};
    g.each([&](std::size_t k) { a.vmovaps(a.slot(first[k] = a.new_slot()), t[k]); });
    g.drop(t);
    const Regs second = tangent_power(g, v.last(kGroup));
    std::ranges::copy(second, results.last(kGroup).begin());
    t = g.temporaries();
    g.each([&](std::size_t k) {
      a.vmovaps(t[k], a.slot(first[k]));
      a.free_slot(first[k]);
    });
  }
  std::copy_n(t.begin(), g.count(), results.begin());
  tangent_quotient(g, results.first(g.count()));
  if (two) tangent_quotient(g, results.last(kGroup));
  const Reg sign = g.held(kSign);
  for (std::size_t k = 0; k < v.size(); ++k) {
    const Assembler::Source x = a.source(v[k][0]);
    a.vandps(g.scratch(), sign, x);
    a.vorps(results[k], results[k], g.scratch());
    a.drop(x);
  }
}

}  // namespace

void emit_polynomial(const Group& g, const Regs& p, const Regs& x, std::span<const float> coefficients) {
  Assembler& a = g.assembler();
  g.each(coefficients.front(), [&](std::size_t k, const auto& c) { a.vmovups(p[k], c); });
  for (float of : coefficients.subspan(1)) {
    g.each(of, [&](std::size_t k, const auto& c) { a.vfmadd213ps(p[k], x[k], c); });
  }
}

void emit_exp_rest(const Group& g, const Parts& r) { emit_polynomial(g, r.p, r.x, kExpRest); }

void emit_powers(const Group& g, const Parts& r, float round, float scale) {
  Assembler& a = g.assembler();
  g.each(round, [&](std::size_t k, const auto& c) { a.vmovups(r.shifted[k], c); });
  g.each(scale * kLog2E, [&](std::size_t k, const auto& c) { a.vfmadd231ps(r.shifted[k], r.x[k], c); });
  g.each(round, [&](std::size_t k, const auto& c) { a.vsubps(r.p[k], r.shifted[k], c); });
}

void emit_times_power(const Group& g, const Parts& r) {
  Assembler& a = g.assembler();
  if (a.wide()) {
    const Assembler::Source round = g.constant(kExpRound);
    g.each([&](std::size_t k) {
      a.vsubps(r.shifted[k], r.shifted[k], round);
      a.vscalefps(r.x[k], r.p[k], r.shifted[k]);
    });
    return;
  }
  // Results below the normal range round once: 2^n is two factors. The bits of kExpRound and of half of it end in
  // zeros, which the shifts leave.
  g.each([&](std::size_t k) {
    a.vpsrad(r.x[k], r.shifted[k], 1);
    a.vpsubd(r.shifted[k], r.shifted[k], r.x[k]);
    a.vpslld(r.x[k], r.x[k], 23);
    a.vpslld(r.shifted[k], r.shifted[k], 23);
  });
  const Assembler::Source power = g.constant(1.0F);
  g.each([&](std::size_t k) {
    a.vpaddd(r.x[k], r.x[k], power);
    a.vmulps(r.p[k], r.p[k], r.x[k]);
    a.vpaddd(r.shifted[k], r.shifted[k], power);
    a.vmulps(r.x[k], r.p[k], r.shifted[k]);
  });
}

OpCode exponential_code(EwOp op) {
  switch (op) {
    case EwOp::Exp:
      return {nullptr, nullptr, DType::F32, 30, exponential, kGroup};
    case EwOp::Tanh:
      return {nullptr, nullptr, DType::F32, 26, hyperbolic_tangent, 2 * kGroup};
    case EwOp::Logistic:
      return {nullptr, nullptr, DType::F32, 36, logistic, kGroup};
    default:
      return {};
  }
}

}  // namespace tessera::kernels
