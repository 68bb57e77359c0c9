// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/kernels/compiled/assembler.h"

#include <algorithm>
#include <bit>
#include <climits>
#include <cstring>

namespace tessera::kernels {

namespace {
constexpr std::int32_t kNobody = -1;
std::size_t index(int r) { return static_cast<std::size_t>(r); }
}  // namespace

void Assembler::begin_body(std::size_t values) {
  if (values_.size() < values) values_.resize(values);
  for (Value& v : values_) {
    if (v.slot >= 0) free_slots_.push_back(v.slot);
    v.reg = v.slot = -1;
    v.uses.clear();
    v.next = 0;
  }
  places_.assign(values_.size(), std::nullopt);
  known_.assign(values_.size(), std::nullopt);
  owner_.fill(kNobody);
  pinned_.fill(false);
  read_.clear();
}

void Assembler::at(int position) {
  read_.clear();
  position_ = position;
}

// A free register, or that of the value which is needed last.
int Assembler::take() {
  int best = -1;
  int furthest = -1;
  for (int r = 0; r < registers_; ++r) {
    if (reserved_[index(r)] || pinned_[index(r)]) continue;
    if (owner_[index(r)] == kNobody) return r;
    Value& v = value(owner_[index(r)]);
    int next = needed(v) ? v.uses[v.next] : INT_MAX;
    if (next > furthest) {
      furthest = next;
      best = r;
    }
  }
  if (best < 0) throw Xbyak::Error(Xbyak::ERR_INTERNAL);  // an op that takes more registers than there are
  spill(best);
  return best;
}

void Assembler::spill(int reg) {
  std::int32_t v = owner_[index(reg)];
  Value& x = value(v);
  if (x.slot < 0 && needed(x) && !placed(v)) {
    x.slot = new_slot();
    vmovaps(slot(x.slot), vector(reg));
  }
  x.reg = -1;
  owner_[index(reg)] = kNobody;
}

void Assembler::load(std::int32_t v, int reg) {
  Value& x = value(v);
  vmovups(vector(reg), memory(v));
  x.reg = reg;
  owner_[index(reg)] = v;
}

void Assembler::lift(std::int32_t v) {
  if (!placed(v)) return;
  if (value(v).reg < 0) load(v, take());
  places_[static_cast<std::size_t>(v)].reset();
}

Assembler::Reg Assembler::reg(std::int32_t v) {
  Value& x = value(v);
  read_.push_back(v);
  if (x.reg < 0) load(v, take());
  pinned_[index(x.reg)] = true;
  return vector(x.reg);
}

Assembler::Source Assembler::source(std::int32_t v) {
  const Value& x = value(v);
  return x.uses.back() > position_ ? reg(v) : reread(v);
}

Assembler::Source Assembler::reread(std::int32_t v) {
  if (value(v).reg >= 0) return reg(v);
  read_.push_back(v);
  return memory(v);
}

Assembler::Reg Assembler::writable(std::int32_t v) {
  Value& x = value(v);
  read_.push_back(v);
  if (x.reg >= 0 && x.uses.back() <= position_) {
    const int r = x.reg;
    owner_[index(r)] = kNobody;
    x.reg = -1;
    pinned_[index(r)] = true;
    return vector(r);
  }
  Reg d = temporary();
  x.reg >= 0 ? vmovaps(d, vector(x.reg)) : vmovups(d, memory(v));
  return d;
}

Assembler::Reg Assembler::temporary() {
  int r = take();
  pinned_[index(r)] = true;
  return vector(r);
}

void Assembler::done() {
  pinned_.fill(false);
  for (std::int32_t v : read_) {
    Value& x = value(v);
    if (!x.uses.empty() && x.uses.back() > position_) continue;
    if (x.reg >= 0) owner_[index(x.reg)] = kNobody;
    if (x.slot >= 0) free_slots_.push_back(x.slot);
    x.reg = x.slot = -1;
    x.next = x.uses.size();
  }
  read_.clear();
}

void Assembler::done(std::int32_t v, Reg result) {
  done();
  Value& x = value(v);
  if (!needed(x)) return;
  x.reg = result.getIdx();
  owner_[index(x.reg)] = v;
}

Assembler::Reg Assembler::call(const void* function, std::initializer_list<std::int32_t> operands) {
  // Vectors are the callee's to use: what is needed later, and the operands first of all, goes to the stack.
  for (int r = 0; r < registers_; ++r) {
    std::int32_t v = owner_[index(r)];
    if (v == kNobody) continue;
    Value& x = value(v);
    if (x.slot < 0 && !placed(v) && needed(x)) {
      x.slot = new_slot();
      vmovaps(slot(x.slot), vector(r));
    }
    x.reg = -1;
    owner_[index(r)] = kNobody;
  }
  int argument = 0;
  for (std::int32_t v : operands) {
    read_.push_back(v);
    vmovups(vector(argument++), memory(v));
  }
  mov(r13, rcx);
  mov(rax, reinterpret_cast<std::size_t>(function));
  Xbyak::CodeGenerator::call(rax);
  mov(rcx, r13);
  pinned_[0] = true;
  return vector(0);
}

Assembler::Reg Assembler::reserve() {
  for (int r = registers_ - 1; r >= 0; --r) {
    if (reserved_[index(r)]) continue;
    reserved_[index(r)] = true;
    return vector(r);
  }
  throw Xbyak::Error(Xbyak::ERR_INTERNAL);
}

int Assembler::new_slot() {
  if (free_slots_.empty()) return slots_++;
  int s = free_slots_.back();
  free_slots_.pop_back();
  return s;
}

void Assembler::prologue(std::int32_t pointers) {
  for (const auto& r : {rbp, rbx, r12, r13, r14, r15}) push(r);
  mov(rbp, rsp);
  base_ = (8 * pointers + vector_bytes_ - 1) / vector_bytes_ * vector_bytes_;
  sub(rsp, INT_MAX);  // the size is written when it is known
  frame_at_ = getSize() - 4;
  and_(rsp, -vector_bytes_);
  for (std::int32_t p = 0; p < pointers; ++p) {
    mov(rax, ptr[rdi + 8 * p]);
    mov(pointer(p), rax);
  }
  mov(r15, rsi);
  mov(r14, rdx);
}

void Assembler::epilogue(bool fence) {
  if (fence) sfence();
  vzeroupper();
  mov(rsp, rbp);
  for (const auto& r : {r15, r14, r13, r12, rbx, rbp}) pop(r);
  ret();
}

void Assembler::finish() {
  for (const auto& write : behind_) write();
  if (masks_used_) {
    L(masks_);
    for (int i = 0; i < vector_bytes_ / 2; ++i) dd(i < vector_bytes_ / 4 ? 0xFFFFFFFFU : 0);
  }
  auto frame = static_cast<std::uint32_t>(base_ + vector_bytes_ * slots_ + vector_bytes_);
  std::memcpy(const_cast<std::uint8_t*>(getCode()) + frame_at_, &frame, sizeof frame);
}

Assembler::Address Assembler::constant(std::uint32_t bits) {
  auto known = std::find(constants_.begin(), constants_.end(), bits);
  auto number = known - constants_.begin();
  auto* at = const_cast<std::uint8_t*>(getCode()) - (number + 1) * vector_bytes_;
  if (known == constants_.end()) {
    constants_.push_back(bits);
    if (constant_bytes() > kConstantBytes) throw Xbyak::Error(Xbyak::ERR_CODE_IS_TOO_BIG);
    for (int i = 0; i < vector_bytes_; i += 4) std::memcpy(at + i, &bits, sizeof bits);
  }
  return vector_at(rip + static_cast<void*>(at));
}
Assembler::Address Assembler::constant(float value) { return constant(std::bit_cast<std::uint32_t>(value)); }

void Assembler::load_mask(Reg mask, const Xbyak::Reg64& lanes, const Xbyak::Reg64& scratch) {
  masks_used_ = true;
  lea(scratch, ptr[rip + masks_]);
  neg(lanes);
  vmovups(mask, ptr[scratch + lanes * 4 + vector_bytes_]);
}

// --- Instructions. k7 is for what the next instruction reads, k1 to k4 are masks, the others the folds'.

Assembler::Mask Assembler::where(Reg x, const Xbyak::Operand& y, std::uint8_t predicate) {
  constexpr int kMasks = kFirstFoldMask - 1;
  Mask m(wide() ? masks_given_++ % kMasks + 1 : temporary().getIdx());
  if (wide()) {
    CodeGenerator::vcmpps(Xbyak::Opmask(m.index_), x, y, predicate);
  } else {
    CodeGenerator::vcmpps(vector(m.index_), x, y, predicate);
  }
  return m;
}

void Assembler::also_where(int k, Reg x, const Xbyak::Operand& y, std::uint8_t predicate) {
  CodeGenerator::vcmpps(k7, x, y, predicate);
  korw(Xbyak::Opmask(k), Xbyak::Opmask(k), k7);
}

void Assembler::blend(Reg d, Reg otherwise, const Xbyak::Operand& chosen, Mask m) {
  if (wide()) return vblendmps(d | Xbyak::Opmask(m.index_), otherwise, chosen);
  CodeGenerator::vblendvps(d, otherwise, chosen, vector(m.index_));
}

void Assembler::vblendvps(Reg d, Reg otherwise, const Xbyak::Operand& chosen, Reg mask) {
  if (!wide()) return CodeGenerator::vblendvps(d, otherwise, chosen, mask);
  constexpr std::uint8_t kFirstChoosesThird = 0b10101100;
  vmovaps(d, mask);
  vpternlogd(d, otherwise, chosen, kFirstChoosesThird);
}

void Assembler::vcmpps(Reg d, Reg x, const Xbyak::Operand& y, std::uint8_t predicate) {
  if (!wide()) return CodeGenerator::vcmpps(d, x, y, predicate);
  CodeGenerator::vcmpps(k7, x, y, predicate);
  vpmovm2d(d, k7);
}
void Assembler::vpcmpeqd(Reg d, Reg x, const Xbyak::Operand& y) {
  if (!wide()) return CodeGenerator::vpcmpeqd(d, x, y);
  CodeGenerator::vpcmpeqd(k7, x, y);
  vpmovm2d(d, k7);
}
void Assembler::vpcmpgtd(Reg d, Reg x, const Xbyak::Operand& y) {
  if (!wide()) return CodeGenerator::vpcmpgtd(d, x, y);
  CodeGenerator::vpcmpgtd(k7, x, y);
  vpmovm2d(d, k7);
}

void Assembler::vpand(Reg d, Reg x, const Xbyak::Operand& y) {
  wide() ? vpandd(d, x, y) : CodeGenerator::vpand(d, x, y);
}
void Assembler::vpandn(Reg d, Reg x, const Xbyak::Operand& y) {
  wide() ? vpandnd(d, x, y) : CodeGenerator::vpandn(d, x, y);
}
void Assembler::vpor(Reg d, Reg x, const Xbyak::Operand& y) { wide() ? vpord(d, x, y) : CodeGenerator::vpor(d, x, y); }
void Assembler::vpxor(Reg d, Reg x, const Xbyak::Operand& y) {
  wide() ? vpxord(d, x, y) : CodeGenerator::vpxor(d, x, y);
}
void Assembler::vroundps(Reg d, const Xbyak::Operand& x, std::uint8_t mode) {
  wide() ? vrndscaleps(d, x, mode) : CodeGenerator::vroundps(d, x, mode);
}
void Assembler::vroundpd(Reg d, const Xbyak::Operand& x, std::uint8_t mode) {
  wide() ? vrndscalepd(d, x, mode) : CodeGenerator::vroundpd(d, x, mode);
}
void Assembler::ones(Reg d) {
  constexpr std::uint8_t kAlways = 0xFF;
  wide() ? vpternlogd(d, d, d, kAlways) : CodeGenerator::vpcmpeqd(d, d, d);
}

}  // namespace tessera::kernels
