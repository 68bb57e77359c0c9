// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/kernels/compiled/folds.h"

#include "engines/cpu/kernels/compiled/emit_float.h"
#include "engines/cpu/kernels/compiled/emit_ops.h"

namespace tessera::kernels {

namespace {
bool is_extremum(const Fragment::Node& n) {
  return n.dtype == DType::F32 && (n.reduce == ReduceOp::Max || n.reduce == ReduceOp::Min);
}
}  // namespace

bool Folds::has_quick_way(const Assembler& a, const Fragment::Node& reduce) { return !a.wide() && is_extremum(reduce); }

void Folds::begin(std::vector<const Fragment::Node*> reduces, std::size_t in_registers, Way way) {
  folds_.assign(reduces.size(), {});
  a_.begin_body(0);
  int nan = Assembler::kFirstFoldMask;
  for (std::size_t r = 0; r < reduces.size(); ++r) {
    Fold& f = folds_[r];
    f.node = reduces[r];
    f.tail = a_.new_slot();
    // Accumulators that keep NaN wait for a comparison with each vector.
    if (a_.wide() && is_extremum(*f.node) && r < in_registers && nan <= Assembler::kLastFoldMask) {
      f.nan = nan++;
      a_.kxorw(Xbyak::Opmask(f.nan), Xbyak::Opmask(f.nan), Xbyak::Opmask(f.nan));
    }
    if (way == Way::Quick) {
      Reg unordered = a_.reserve();
      a_.vxorps(unordered, unordered, unordered);
      f.unordered = unordered.getIdx();
    }
    std::uint32_t identity = 0;
    reduce_identity(f.node->reduce, f.node->dtype, &identity);
    for (std::size_t k = 0; k < f.regs.size(); ++k) {
      Reg acc = r < in_registers ? a_.reserve() : a_.temporary();
      a_.vmovups(acc, a_.constant(identity));
      if (r < in_registers) {
        f.regs[k] = acc.getIdx();
      } else {
        f.slots[k] = a_.new_slot();
        a_.vmovaps(a_.slot(f.slots[k]), acc);
        a_.begin_body(0);
      }
    }
  }
}

void Folds::combine(const Fold& f, Reg acc, Reg x) {
  const bool largest = f.node->reduce == ReduceOp::Max;
  if (f.unordered >= 0) return largest ? a_.vmaxps(acc, acc, x) : a_.vminps(acc, acc, x);
  if (f.nan >= 0) return emit_extremum_of_numbers(a_, largest, acc, acc, x);
  emit_combine(a_, f.node->reduce, f.node->dtype, acc, x);
}

void Folds::add(std::size_t r, std::span<const Reg> x, int vector, bool tail) {
  Fold& f = folds_[r];
  if (tail) return a_.vmovaps(a_.slot(f.tail), x[0]);
  look_for_nan(f, x.front(), x.back());
  Reg joined = x[0];
  if (x.size() == 2) {
    joined = a_.temporary();
    a_.vmovaps(joined, x[0]);
    combine(f, joined, x[1]);
  }
  auto k = static_cast<std::size_t>(vector) / 2 % f.regs.size();
  if (f.regs[k] >= 0) return combine(f, a_.vector(f.regs[k]), joined);
  Reg acc = a_.temporary();
  a_.vmovaps(acc, a_.slot(f.slots[k]));
  combine(f, acc, joined);
  a_.vmovaps(a_.slot(f.slots[k]), acc);
}

// In either: where it is looked for at all, one comparison tells of both.
void Folds::look_for_nan(const Fold& f, Reg x, Reg y) {
  if (f.nan >= 0) return a_.also_where(f.nan, x, y, kUnordered);
  if (f.unordered < 0) return;
  const Reg unordered = a_.vector(f.unordered);
  const Reg found = a_.temporary();
  a_.vcmpps(found, x, y, kUnordered);
  a_.vorps(unordered, unordered, found);
  a_.drop(found);
}

void Folds::jump_if_doubtful(std::size_t r, const Assembler::Address& total, const Xbyak::Label& to) {
  const Reg unordered = a_.vector(folds_[r].unordered);
  const Reg zero = a_.temporary();
  a_.vxorps(zero, zero, zero);
  a_.vcmpps(zero, zero, total, kEq);
  a_.vorps(zero, zero, unordered);
  a_.vmovmskps(a_.eax, zero);
  a_.test(a_.eax, a_.eax);
  a_.jnz(to, Xbyak::CodeGenerator::T_NEAR);
  a_.release(unordered);
}

Assembler::Reg Folds::across(std::size_t r) {
  Fold& f = folds_[r];
  a_.begin_body(0);
  std::array<Reg, 2> acc;
  for (std::size_t k = 0; k < acc.size(); ++k) {
    if (f.regs[k] >= 0) {
      acc[k] = a_.vector(f.regs[k]);
    } else {
      acc[k] = a_.temporary();
      a_.vmovaps(acc[k], a_.slot(f.slots[k]));
      a_.free_slot(f.slots[k]);
    }
  }
  Reg turned = a_.temporary();
  auto combine = [&](Reg x, Reg y) { this->combine(f, x, y); };
  combine(acc[0], acc[1]);
  // Halves against each other, then halves of these.
  constexpr std::uint8_t kSwapPairs = 0b01001110, kSwapNeighbours = 0b10110001;
  if (a_.wide()) {
    a_.vshuff32x4(turned, acc[0], acc[0], kSwapPairs);
    combine(acc[0], turned);
    a_.vshuff32x4(turned, acc[0], acc[0], kSwapNeighbours);
  } else {
    a_.vperm2f128(turned, acc[0], acc[0], 1);
  }
  combine(acc[0], turned);
  a_.vpermilps(turned, acc[0], kSwapPairs);
  combine(acc[0], turned);
  a_.vpermilps(turned, acc[0], kSwapNeighbours);
  combine(acc[0], turned);
  a_.vbroadcastss(acc[0], Xbyak::Xmm(acc[0].getIdx()));
  if (f.nan >= 0) {
    Xbyak::Label none;
    a_.kortestw(Xbyak::Opmask(f.nan), Xbyak::Opmask(f.nan));
    a_.jz(none);
    a_.ones(acc[0]);  // a NaN
    a_.L(none);
  }
  for (int reg : f.regs) {
    if (reg >= 0) a_.release(a_.vector(reg));
  }
  return acc[0];
}

void Folds::add_tail(std::size_t r, Reg total) {
  const Fold& f = folds_[r];
  Reg x = a_.temporary();
  a_.xor_(a_.eax, a_.eax);
  Xbyak::Label next;
  a_.L(next);
  a_.vbroadcastss(x, a_.dword[a_.rsp + a_.rax * 4 + a_.slot_offset(f.tail)]);
  emit_combine(a_, f.node->reduce, f.node->dtype, total, x);
  a_.inc(a_.rax);
  a_.cmp(a_.rax, a_.r10);
  a_.jl(next, Xbyak::CodeGenerator::T_NEAR);
}

}  // namespace tessera::kernels
