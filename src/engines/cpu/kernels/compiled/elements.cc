// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/kernels/compiled/elements.h"

namespace tessera::kernels {

void Elements::begin() {
  tail_mask_ = a_.new_slot();
  a_.begin_body(0);
  a_.mov(a_.r10, a_.r14);
  a_.and_(a_.r10, a_.lanes() - 1);
  if (a_.wide()) {
    a_.mov(a_.r11d, -1);
    a_.bzhi(a_.r11d, a_.r11d, a_.r10d);
    a_.mov(a_.dword[a_.rsp + a_.slot_offset(tail_mask_)], a_.r11d);
    return;
  }
  Reg mask = a_.temporary();
  a_.load_mask(mask, a_.r10, a_.r11);
  a_.vmovaps(a_.slot(tail_mask_), mask);
}

Xbyak::RegExp Elements::at(std::int32_t p, std::int64_t size, int ahead) {
  int r = address_[static_cast<std::size_t>(p)];
  if (r < 0) {
    a_.mov(a_.rax, a_.pointer(p));
    r = Xbyak::Operand::RAX;
  }
  return Xbyak::Reg64(r) + a_.rcx * static_cast<int>(size) + ahead * static_cast<int>(size);
}

// The lanes that are left of the row; good for the next instruction only.
Xbyak::Opmask Elements::tail() {
  a_.kmovw(a_.k7, a_.word[a_.rsp + a_.slot_offset(tail_mask_)]);
  return a_.k7;
}

void Elements::load_wide_tail(DType t, std::int32_t p, int ahead, Reg d) {
  auto from = a_.ptr[at(p, dtype_size(t), ahead)];
  if (dtype_size(t) == 4) return a_.vmovups(d | tail() | Xbyak::util::T_z, from);
  if (t == DType::Bool) {
    Xbyak::Xmm bytes(d.getIdx());
    a_.vmovdqu8(bytes | tail() | Xbyak::util::T_z, from);
    return widen(t, d, bytes);
  }
  a_.vmovdqu16(a_.half(d) | tail() | Xbyak::util::T_z, from);
  widen(t, d, a_.half(d));
}

void Elements::store_wide_tail(DType t, std::int32_t p, int ahead, Reg x) {
  auto to = a_.ptr[at(p, dtype_size(t), ahead)];
  if (dtype_size(t) == 4) return a_.vmovups(to | tail(), x);
  Reg d = a_.temporary();
  narrow(t, d, x);
  t == DType::Bool ? a_.vmovdqu8(to | tail(), Xbyak::Xmm(d.getIdx())) : a_.vmovdqu16(to | tail(), a_.half(d));
}

void Elements::load(DType t, std::int32_t p, int ahead, bool tail, Reg d) {
  if (tail && a_.wide()) return load_wide_tail(t, p, ahead, d);
  std::int64_t size = dtype_size(t);
  if (size == 4) {
    if (tail) a_.vmovaps(d, a_.slot(tail_mask_));
    auto from = a_.vector_at(at(p, size, ahead));
    tail ? a_.vmaskmovps(d, d, from) : a_.vmovups(d, from);
    return;
  }
  if (!tail) return widen(t, d, a_.ptr[at(p, size, ahead)]);
  int slot = a_.new_slot();
  a_.vxorps(d, d, d);
  a_.vmovaps(a_.slot(slot), d);
  a_.lea(a_.rax, a_.ptr[at(p, size, ahead)]);
  a_.lea(a_.r11, a_.slot(slot));
  copy_tail(size);
  widen(t, d, a_.ptr[a_.rsp + a_.slot_offset(slot)]);
  a_.free_slot(slot);
}

void Elements::store(DType t, std::int32_t p, int ahead, bool tail, bool stream, Reg x) {
  if (tail && a_.wide()) return store_wide_tail(t, p, ahead, x);
  std::int64_t size = dtype_size(t);
  if (size == 4) {
    if (tail) {
      Reg mask = a_.temporary();
      a_.vmovaps(mask, a_.slot(tail_mask_));
      a_.vmaskmovps(a_.vector_at(at(p, size, ahead)), mask, x);
      return;
    }
    auto to = a_.vector_at(at(p, size, ahead));
    stream ? a_.vmovntps(to, x) : a_.vmovups(to, x);
    return;
  }
  Reg d = a_.temporary();
  narrow(t, d, x);
  if (tail) {
    int slot = a_.new_slot();
    a_.vmovaps(a_.slot(slot), d);
    a_.lea(a_.r11, a_.ptr[at(p, size, ahead)]);
    a_.lea(a_.rax, a_.slot(slot));
    copy_tail(size);
    a_.free_slot(slot);
    return;
  }
  auto to = a_.ptr[at(p, size, ahead)];
  if (t != DType::Bool) {
    stream ? a_.vmovntps(to, a_.half(d)) : a_.vmovups(to, a_.half(d));
  } else if (a_.wide()) {
    a_.vmovups(to, Xbyak::Xmm(d.getIdx()));
  } else {
    a_.vmovq(to, Xbyak::Xmm(d.getIdx()));
  }
}

void Elements::load_one(DType t, std::int32_t p, Reg d) {
  a_.mov(a_.rax, a_.pointer(p));
  if (dtype_size(t) == 4) return a_.vbroadcastss(d, a_.dword[a_.rax]);
  if (t == DType::Bool) {
    a_.xor_(a_.r11d, a_.r11d);
    a_.cmp(a_.byte[a_.rax], 1);
    a_.sbb(a_.r11d, 0);  // -1 where it is zero
    a_.not_(a_.r11d);
    a_.vmovd(Xbyak::Xmm(d.getIdx()), a_.r11d);
    return a_.vbroadcastss(d, Xbyak::Xmm(d.getIdx()));
  }
  a_.vpbroadcastw(a_.half(d), a_.word[a_.rax]);
  if (t == DType::F16) return a_.vcvtph2ps(d, a_.half(d));
  a_.vpmovzxwd(d, a_.half(d));
  a_.vpslld(d, d, 16);
}

void Elements::store_one(DType t, std::int32_t p, Reg x) {
  a_.mov(a_.rax, a_.pointer(p));
  if (dtype_size(t) == 4) return a_.vmovd(a_.dword[a_.rax], Xbyak::Xmm(x.getIdx()));
  Reg d = a_.temporary();
  narrow(t, d, x);
  a_.vmovd(a_.r11d, Xbyak::Xmm(d.getIdx()));
  t == DType::Bool ? a_.mov(a_.byte[a_.rax], a_.r11b) : a_.mov(a_.word[a_.rax], a_.r11w);
}

// Elements of one or two bytes as lanes.
void Elements::widen(DType t, Reg d, const Xbyak::Operand& from) {
  if (t == DType::F16) return a_.vcvtph2ps(d, from);
  if (t == DType::BF16) {
    a_.vpmovzxwd(d, from);
    a_.vpslld(d, d, 16);
    return;
  }
  a_.vpmovzxbd(d, from);
  a_.vpcmpgtd(d, d, a_.constant(0U));
}

// Lanes as such elements, in the low part of d.
void Elements::narrow(DType t, Reg d, Reg x) {
  Xbyak::Xmm low = a_.half(d);
  if (t == DType::F16) return a_.vcvtps2ph(low, x, 0);
  a_.vpsrld(d, x, t == DType::BF16 ? 16 : 31);
  if (a_.wide()) return t == DType::BF16 ? a_.vpmovdw(low, d) : a_.vpmovdb(Xbyak::Xmm(d.getIdx()), d);
  Reg high = a_.temporary();
  a_.vextracti128(Xbyak::Xmm(high.getIdx()), d, 1);
  a_.vpackusdw(low, low, Xbyak::Xmm(high.getIdx()));
  if (t == DType::Bool) a_.vpackuswb(low, low, low);
}

// The elements that are left of the row from rax to r11, one after the other.
void Elements::copy_tail(std::int64_t size) {
  bool byte = size == 1;
  a_.mov(a_.r10, a_.r14);
  a_.and_(a_.r10, a_.lanes() - 1);
  Xbyak::Label next;
  a_.push(a_.rbx);
  a_.L(next);
  byte ? a_.movzx(a_.ebx, a_.byte[a_.rax]) : a_.movzx(a_.ebx, a_.word[a_.rax]);
  byte ? a_.mov(a_.byte[a_.r11], a_.bl) : a_.mov(a_.word[a_.r11], a_.bx);
  a_.add(a_.rax, static_cast<int>(size));
  a_.add(a_.r11, static_cast<int>(size));
  a_.dec(a_.r10);
  a_.jnz(next);
  a_.pop(a_.rbx);
}

}  // namespace tessera::kernels
