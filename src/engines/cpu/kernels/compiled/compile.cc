// SPDX-License-Identifier: Apache-2.0
// From fragments to machine code. For each row: the values that all elements of it share, then a loop over its columns
// for each pass, whose reductions are complete before the next.
//
// Registers: r14 columns, r15 rows left, rcx the column, rax, r10 and r11 for anything, r13 keeps rcx in calls, the
// others hold addresses of rows.
#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "engines/cpu/kernels/compiled/assembler.h"
#include "engines/cpu/kernels/compiled/emit_ops.h"
#include "engines/cpu/kernels/compiled/fragment.h"
#include "engines/cpu/kernels/compiled/passes.h"
#include "engines/cpu/kernels/elementwise/vector_functions.h"

namespace tessera::kernels {

namespace {

using Kind = Fragment::Kind;
using Node = Fragment::Node;
using Value = Fragment::Value;
using Reg = Assembler::Reg;
using Address = Assembler::Address;
using Xbyak::Reg64;
using Xbyak::Xmm;

constexpr int kLanes = 8;
constexpr std::size_t kLargest = 32768;  // bytes of code

bool is_half(DType t) { return t == DType::F16 || t == DType::BF16; }

std::uint32_t identity_bits(ReduceOp op, DType t) {
  std::uint32_t bits = 0;
  reduce_identity(op, t, &bits);
  return bits;
}

class Emitter {
 public:
  Emitter(const Fragment& f, std::uint8_t* memory)
      : f_(f), passes_(plan_passes(f)), a_(memory, kLargest), row_slot_(f.nodes.size(), -1) {}

  const Passes& passes() const { return passes_; }

  std::size_t write() {
    auto pointers = f_.pointers + static_cast<std::int32_t>(passes_.scratch_dtypes.size());
    a_.prologue(pointers);
    tail_mask_ = a_.new_slot();
    a_.mov(a_.r10, a_.r14);
    a_.and_(a_.r10, kLanes - 1);
    a_.begin_body(0);
    Reg mask = a_.temporary();
    a_.load_mask(mask, a_.r10, a_.r11);
    a_.vmovaps(a_.slot(tail_mask_), mask);
    for (std::size_t v = 0; v < f_.nodes.size(); ++v) {
      if (f_.nodes[v].kind == Kind::Once) broadcast(static_cast<Value>(v));
    }
    Xbyak::Label rows;
    a_.L(rows);
    for (std::size_t v = 0; v < f_.nodes.size(); ++v) {
      if (f_.nodes[v].kind == Kind::Row) broadcast(static_cast<Value>(v));
    }
    for (const Pass& p : passes_.list) pass(p);
    next_row();
    a_.dec(a_.r15);
    a_.jnz(rows, Xbyak::CodeGenerator::T_NEAR);
    a_.epilogue(std::any_of(f_.stores.begin(), f_.stores.end(), [](const auto& s) { return s.stream; }));
    a_.finish();
    return a_.getSize();
  }

 private:
  const Node& node(Value v) const { return f_.nodes[static_cast<std::size_t>(v)]; }
  std::int32_t scratch_pointer(Value v) const {
    std::int32_t s = passes_.scratch[static_cast<std::size_t>(v)];
    return s < 0 ? -1 : f_.pointers + s;
  }

  // --- Values that are the same for a whole row.

  int& row_slot(Value v) { return row_slot_[static_cast<std::size_t>(v)]; }
  void keep_row(Value v, Reg r) {
    if (row_slot(v) < 0) row_slot(v) = a_.new_slot();
    a_.vmovaps(a_.slot(row_slot(v)), r);
    for (const auto& s : f_.stores) {
      if (s.value == v && !s.full) store_row(s, r);
    }
  }

  // One element into all lanes.
  void broadcast(Value v) {
    const Node& n = node(v);
    a_.begin_body(0);
    Reg d = a_.temporary();
    Xmm low(d.getIdx());
    a_.mov(a_.rax, a_.pointer(n.pointer));
    if (dtype_size(n.dtype) == 4) {
      a_.vbroadcastss(d, a_.dword[a_.rax]);
    } else if (n.dtype == DType::Bool) {
      a_.vpbroadcastb(d, a_.byte[a_.rax]);
      Reg zero = a_.temporary();
      a_.vpxor(zero, zero, zero);
      a_.vpcmpeqb(d, d, zero);
      a_.vpcmpeqb(zero, zero, zero);
      a_.vpxor(d, d, zero);
    } else {
      a_.vpbroadcastw(low, a_.word[a_.rax]);
      widen(n.dtype, d, low);
    }
    keep_row(v, d);
  }

  template <class From>
  void widen(DType half, Reg d, const From& from) {
    if (half == DType::F16) {
      a_.vcvtph2ps(d, from);
    } else {
      a_.vpmovzxwd(d, from);
      a_.vpslld(d, d, 16);
    }
  }

  void store_row(const Fragment::Store& s, Reg r) {
    Xmm low(r.getIdx());
    a_.mov(a_.rax, a_.pointer(s.pointer));
    switch (node(s.value).dtype) {
      case DType::Bool:
        a_.vmovd(a_.r11d, low);
        a_.and_(a_.r11d, 1);
        a_.mov(a_.byte[a_.rax], a_.r11b);
        break;
      case DType::BF16:
        a_.vmovd(a_.r11d, low);
        a_.shr(a_.r11d, 16);
        a_.mov(a_.word[a_.rax], a_.r11w);
        break;
      case DType::F16: {
        a_.vcvtps2ph(low, r, 0);
        a_.vmovd(a_.r11d, low);
        a_.mov(a_.word[a_.rax], a_.r11w);
        break;
      }
      default:
        a_.vmovd(a_.dword[a_.rax], low);
    }
  }

  // Every pointer to the next row.
  void next_row() {
    if (!f_.by_rows()) return;
    std::vector<bool> moved(static_cast<std::size_t>(f_.pointers));
    auto move = [&](std::int32_t p, std::int64_t size, bool full) {
      if (p < 0 || moved[static_cast<std::size_t>(p)]) return;
      moved[static_cast<std::size_t>(p)] = true;
      if (full) {
        a_.imul(a_.rax, a_.r14, static_cast<int>(size));
        a_.add(a_.pointer(p), a_.rax);
      } else {
        a_.add(a_.pointer(p), static_cast<std::uint32_t>(size));
      }
    };
    for (const Node& n : f_.nodes) {
      if (n.kind == Kind::Full || n.kind == Kind::Row) move(n.pointer, dtype_size(n.dtype), n.kind == Kind::Full);
    }
    for (const auto& s : f_.stores) move(s.pointer, dtype_size(node(s.value).dtype), s.full);
  }

  // --- Bodies.

  // Constants and values of rows lie in memory, in all lanes.
  void place_rows() {
    for (std::size_t v = 0; v < f_.nodes.size(); ++v) {
      const Node& n = f_.nodes[v];
      auto value = static_cast<Value>(v);
      if (n.kind == Kind::Constant) {
        a_.place(value, a_.constant(lane_bits(n)));
      } else if (row_slot(value) >= 0) {
        a_.place(value, a_.slot(row_slot(value)));
      }
    }
  }
  static std::uint32_t lane_bits(const Node& n) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, n.bytes.data(), static_cast<std::size_t>(dtype_size(n.dtype)));
    if (n.dtype == DType::Bool) return bits != 0 ? 0xFFFFFFFFU : 0;
    if (n.dtype == DType::BF16) return bits << 16;
    if (n.dtype == DType::F16)
      return std::bit_cast<std::uint32_t>(detail::half_to_float(static_cast<std::uint16_t>(bits)));
    return bits;
  }

  void op(Value v) {
    const Node& n = node(v);
    DType in = node(n.operands[n.op == EwOp::Select ? 1 : 0]).dtype;
    OpCode code = find_code(n.op, in, n.dtype);
    Reg d = Reg(0);
    if (code.emit != nullptr) {
      d = code.emit(a_, n.operands);
    } else if (ew_arity(n.op) == 1) {
      d = a_.call(code.function, {n.operands[0]});
    } else {
      d = a_.call(code.function, {n.operands[0], n.operands[1]});
    }
    if (is_half(code.rounded)) emit_round(a_, code.rounded, d);
    a_.done(v, d);
  }

  void row_ops(const Pass& p) {
    for (Value v : p.row_ops) {
      a_.begin_body(f_.nodes.size());
      place_rows();
      for (Value o : node(v).operands) {
        if (o >= 0) a_.used(o, 0);
      }
      a_.used(v, 1);
      a_.at(0);
      op(v);
      a_.at(1);
      Reg d = a_.reg(v);
      keep_row(v, d);
      a_.done();
    }
  }

  // Registers that hold addresses during a pass; what is left over is read from the frame each time.
  void assign_pointers(const Pass& p) {
    address_.assign(static_cast<std::size_t>(f_.pointers) + passes_.scratch_dtypes.size(), -1);
    std::vector<int> free = {Xbyak::Operand::RBX, Xbyak::Operand::R12};
    if (!calls(p)) {
      using O = Xbyak::Operand;
      free.insert(free.end(), {O::RDI, O::RSI, O::RDX, O::R8, O::R9, O::R13});
    }
    auto assign = [&](std::int32_t q) {
      if (q < 0 || free.empty() || address_[static_cast<std::size_t>(q)] >= 0) return;
      address_[static_cast<std::size_t>(q)] = free.back();
      a_.mov(Reg64(free.back()), a_.pointer(q));
      free.pop_back();
    };
    for (Value v : p.values) assign(loads(v, p) ? source_pointer(v) : -1);
    for (Value v : p.keeps) assign(scratch_pointer(v));
    if (!p.stores) return;
    for (const auto& s : f_.stores) assign(s.full ? s.pointer : -1);
  }
  bool calls(const Pass& p) const {
    return std::any_of(p.values.begin(), p.values.end(), [&](Value v) {
      const Node& n = node(v);
      if (n.kind != Kind::Op || loads(v, p)) return false;
      return find_code(n.op, node(n.operands[n.op == EwOp::Select ? 1 : 0]).dtype, n.dtype).emit == nullptr;
    });
  }
  std::int32_t number(const Pass& p) const { return static_cast<std::int32_t>(&p - passes_.list.data()); }
  // Whether the pass finds the value in memory: an operand's, or one that an earlier pass kept.
  bool loads(Value v, const Pass& p) const {
    return node(v).kind == Kind::Full || (scratch_pointer(v) >= 0 && node(v).phase < number(p));
  }
  std::int32_t source_pointer(Value v) const {
    return node(v).kind == Kind::Full ? node(v).pointer : scratch_pointer(v);
  }

  // Element `column` + `ahead` of the row at pointer `p`.
  Xbyak::RegExp element(std::int32_t p, std::int64_t size, int ahead) {
    int r = address_[static_cast<std::size_t>(p)];
    if (r < 0) {
      a_.mov(a_.rax, a_.pointer(p));
      r = Xbyak::Operand::RAX;
    }
    return Reg64(r) + a_.rcx * static_cast<int>(size) + ahead * static_cast<int>(size);
  }

  // Positions of a body: its values in order, then reductions, what is kept, and stores.
  void count_uses(const Pass& p) {
    int at = 0;
    for (Value v : p.values) {
      if (!loads(v, p)) {
        for (Value o : node(v).operands) {
          if (o >= 0) a_.used(o, at);
        }
      }
      ++at;
    }
    for (Value v : p.reduces) a_.used(node(v).operands[0], at++);
    for (Value v : p.keeps) a_.used(v, at++);
    if (!p.stores) return;
    for (const auto& s : f_.stores) {
      if (s.full) a_.used(s.value, at++);
    }
  }

  // Eight columns: those `ahead` of the current one, or what is left of the row.
  void body(const Pass& p, int vector, bool tail) {
    a_.begin_body(f_.nodes.size());
    place_rows();
    count_uses(p);
    int at = 0;
    for (Value v : p.values) {
      a_.at(at++);
      if (loads(v, p)) {
        load(v, p, vector, tail);
      } else {
        op(v);
      }
    }
    for (std::size_t r = 0; r < p.reduces.size(); ++r) {
      a_.at(at++);
      reduce(p, r, vector, tail);
      a_.done();
    }
    for (Value v : p.keeps) {
      a_.at(at++);
      store(v, scratch_pointer(v), vector, false, tail);
      a_.done();
    }
    if (!p.stores) return;
    // Results may lie over operands: all are read before the first is written.
    for (const auto& s : f_.stores) {
      if (s.full && node(s.value).full) a_.lift(s.value);
    }
    for (const auto& s : f_.stores) {
      if (!s.full) continue;
      a_.at(at++);
      store(s.value, s.pointer, vector, s.stream, tail);
      a_.done();
    }
  }

  void load(Value v, const Pass& p, int vector, bool tail) {
    std::int32_t from = source_pointer(v);
    DType t = node(v).dtype;
    std::int64_t size = dtype_size(t);
    bool words = size == 4;
    // Where an address stays good, the value is read as it is needed.
    if (words && !tail && address_[static_cast<std::size_t>(from)] >= 0) {
      a_.place(v, a_.yword[element(from, size, vector * kLanes)]);
      return;
    }
    (void)p;
    Reg d = a_.temporary();
    if (words) {
      if (tail) a_.vmovaps(d, a_.slot(tail_mask_));
      auto e = element(from, size, vector * kLanes);
      tail ? a_.vmaskmovps(d, d, a_.yword[e]) : a_.vmovups(d, a_.yword[e]);
      a_.done(v, d);
      return;
    }
    auto e = element(from, size, vector * kLanes);
    if (tail) {
      int slot = a_.new_slot();
      a_.vxorps(d, d, d);
      a_.vmovaps(a_.slot(slot), d);
      copy_tail(a_.rsp + a_.slot_offset(slot), e, size);
      widened(t, d, a_.rsp + a_.slot_offset(slot));
      a_.free_slot(slot);
    } else {
      widened(t, d, e);
    }
    a_.done(v, d);
  }

  void widened(DType t, Reg d, const Xbyak::RegExp& e) {
    if (t != DType::Bool) return widen(t, d, a_.xword[e]);
    Reg zero = a_.temporary();
    a_.vpmovzxbd(d, a_.qword[e]);
    a_.vpxor(zero, zero, zero);
    a_.vpcmpgtd(d, d, zero);
  }

  // The elements that are left of the row, one after the other.
  void copy_tail(const Xbyak::RegExp& to, const Xbyak::RegExp& from, std::int64_t size) {
    a_.lea(a_.rax, a_.ptr[from]);
    a_.mov(a_.r10, a_.r14);
    a_.and_(a_.r10, kLanes - 1);
    Xbyak::Label next;
    a_.lea(a_.r11, a_.ptr[to]);
    a_.L(next);
    int s = static_cast<int>(size);
    a_.push(a_.rbx);
    s == 1 ? a_.movzx(a_.ebx, a_.byte[a_.rax]) : a_.movzx(a_.ebx, a_.word[a_.rax]);
    s == 1 ? a_.mov(a_.byte[a_.r11], a_.bl) : a_.mov(a_.word[a_.r11], a_.bx);
    a_.pop(a_.rbx);
    a_.add(a_.rax, s);
    a_.add(a_.r11, s);
    a_.dec(a_.r10);
    a_.jnz(next);
  }

  void store(Value v, std::int32_t to, int vector, bool stream, bool tail) {
    DType t = node(v).dtype;
    std::int64_t size = dtype_size(t);
    Reg x = a_.reg(v);
    if (size == 4) {
      if (tail) {
        Reg mask = a_.temporary();
        a_.vmovaps(mask, a_.slot(tail_mask_));
        a_.vmaskmovps(a_.yword[element(to, size, vector * kLanes)], mask, x);
      } else {
        auto e = a_.yword[element(to, size, vector * kLanes)];
        stream ? a_.vmovntps(e, x) : a_.vmovups(e, x);
      }
      return;
    }
    Reg d = a_.temporary();
    Xmm low(d.getIdx());
    narrow(t, d, x);
    if (tail) {
      int slot = a_.new_slot();
      a_.vmovaps(a_.slot(slot), d);
      auto e = element(to, size, vector * kLanes);
      a_.lea(a_.r11, a_.ptr[e]);
      copy_tail_out(slot, size);
      a_.free_slot(slot);
      return;
    }
    auto e = element(to, size, vector * kLanes);
    if (t == DType::Bool) {
      a_.vmovq(a_.qword[e], low);
    } else {
      stream ? a_.vmovntdq(a_.xword[e], low) : a_.vmovdqu(a_.xword[e], low);
    }
  }

  void copy_tail_out(int slot, std::int64_t size) { copy_tail(a_.r11, a_.rsp + a_.slot_offset(slot), size); }

  // Eight elements in the low lanes of d.
  void narrow(DType t, Reg d, Reg x) {
    Xmm low(d.getIdx());
    if (t == DType::F16) {
      a_.vcvtps2ph(low, x, 0);
      return;
    }
    Reg high = a_.temporary();
    a_.vpsrld(d, x, t == DType::BF16 ? 16 : 31);
    a_.vextracti128(Xmm(high.getIdx()), d, 1);
    a_.vpackusdw(low, low, Xmm(high.getIdx()));
    if (t == DType::Bool) a_.vpackuswb(low, low, low);
  }

  // --- Reductions: four accumulators by turns, in the kernels' order.

  struct Fold {
    std::array<int, 4> regs = {-1, -1, -1, -1};
    std::array<int, 4> slots = {-1, -1, -1, -1};
    int tail = -1;
  };

  void begin_folds(const Pass& p) {
    folds_.assign(p.reduces.size(), {});
    std::size_t in_registers = calls(p) ? 0 : heavy(p) ? 1 : 2;
    a_.begin_body(0);
    for (std::size_t r = 0; r < p.reduces.size(); ++r) {
      Fold& f = folds_[r];
      f.tail = a_.new_slot();
      Address identity = a_.constant(identity_bits(node(p.reduces[r]).reduce, node(p.reduces[r]).dtype));
      for (std::size_t k = 0; k < 4; ++k) {
        Reg acc = r < in_registers ? a_.reserve() : a_.temporary();
        a_.vmovups(acc, identity);
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
  bool heavy(const Pass& p) const { return weight(p) > 24; }
  int weight(const Pass& p) const {
    int sum = 0;
    for (Value v : p.values) {
      const Node& n = node(v);
      if (n.kind != Kind::Op || loads(v, p)) {
        ++sum;
      } else {
        sum += find_code(n.op, node(n.operands[n.op == EwOp::Select ? 1 : 0]).dtype, n.dtype).weight;
      }
    }
    return sum;
  }

  void reduce(const Pass& p, std::size_t r, int vector, bool tail) {
    const Node& n = node(p.reduces[r]);
    Fold& f = folds_[r];
    Reg x = a_.reg(n.operands[0]);
    if (tail) {
      a_.vmovaps(a_.slot(f.tail), x);
      return;
    }
    auto k = static_cast<std::size_t>(vector) % 4;
    if (f.regs[k] >= 0) return emit_combine(a_, n.reduce, n.dtype, Reg(f.regs[k]), x);
    Reg acc = a_.temporary();
    a_.vmovaps(acc, a_.slot(f.slots[k]));
    emit_combine(a_, n.reduce, n.dtype, acc, x);
    a_.vmovaps(a_.slot(f.slots[k]), acc);
  }

  // The four into one, its lanes into all of them.
  void across(const Pass& p, std::size_t r) {
    const Node& n = node(p.reduces[r]);
    Fold& f = folds_[r];
    a_.begin_body(0);
    std::array<Reg, 4> acc;
    for (std::size_t k = 0; k < 4; ++k) {
      if (f.regs[k] >= 0) {
        acc[k] = Reg(f.regs[k]);
      } else {
        acc[k] = a_.temporary();
        a_.vmovaps(acc[k], a_.slot(f.slots[k]));
        a_.free_slot(f.slots[k]);
      }
    }
    Reg turned = a_.temporary();
    auto combine = [&](Reg x, Reg y) { emit_combine(a_, n.reduce, n.dtype, x, y); };
    combine(acc[0], acc[1]);
    combine(acc[2], acc[3]);
    combine(acc[0], acc[2]);
    a_.vperm2f128(turned, acc[0], acc[0], 1);
    combine(acc[0], turned);
    a_.vpermilps(turned, acc[0], 0b01001110);
    combine(acc[0], turned);
    a_.vpermilps(turned, acc[0], 0b10110001);
    combine(acc[0], turned);
    a_.vbroadcastss(acc[0], Xmm(acc[0].getIdx()));
    keep_total(p.reduces[r], acc[0]);
    for (int reg : f.regs) {
      if (reg >= 0) a_.release(Reg(reg));
    }
  }
  void keep_total(Value v, Reg r) {
    if (row_slot(v) < 0) row_slot(v) = a_.new_slot();
    a_.vmovaps(a_.slot(row_slot(v)), r);
  }

  // The elements of the last, partial vector, one after the other.
  void add_tail(const Pass& p) {
    a_.mov(a_.r10, a_.r14);
    a_.and_(a_.r10, kLanes - 1);
    for (std::size_t r = 0; r < p.reduces.size(); ++r) {
      const Node& n = node(p.reduces[r]);
      a_.begin_body(0);
      Reg total = a_.temporary();
      Reg x = a_.temporary();
      a_.vmovaps(total, a_.slot(row_slot(p.reduces[r])));
      a_.xor_(a_.eax, a_.eax);
      Xbyak::Label next;
      a_.L(next);
      a_.vbroadcastss(x, a_.dword[a_.rsp + a_.rax * 4 + a_.slot_offset(folds_[r].tail)]);
      emit_combine(a_, n.reduce, n.dtype, total, x);
      a_.inc(a_.rax);
      a_.cmp(a_.rax, a_.r10);
      a_.jl(next, Xbyak::CodeGenerator::T_NEAR);
      keep_total(p.reduces[r], total);
    }
  }

  // --- A pass.

  void pass(const Pass& p) {
    row_ops(p);
    if (p.values.empty() && p.reduces.empty() && !p.stores) return;
    begin_folds(p);
    assign_pointers(p);
    int unrolled = !p.reduces.empty() ? 4 : weight(p) <= 12 ? 4 : weight(p) <= 24 ? 2 : 1;
    a_.xor_(a_.ecx, a_.ecx);
    if (unrolled > 1) loop(p, unrolled);
    loop(p, 1);
    for (std::size_t r = 0; r < p.reduces.size(); ++r) across(p, r);
    Xbyak::Label whole;
    a_.cmp(a_.rcx, a_.r14);
    a_.jge(whole, Xbyak::CodeGenerator::T_NEAR);
    body(p, 0, true);
    if (!p.reduces.empty()) add_tail(p);
    a_.L(whole);
    for (std::size_t r = 0; r < p.reduces.size(); ++r) {
      a_.free_slot(folds_[r].tail);
      store_total(p.reduces[r]);
    }
  }

  void store_total(Value v) {
    for (const auto& s : f_.stores) {
      if (s.value != v || s.full) continue;
      a_.begin_body(0);
      Reg d = a_.temporary();
      a_.vmovaps(d, a_.slot(row_slot(v)));
      store_row(s, d);
    }
  }

  void loop(const Pass& p, int vectors) {
    constexpr auto kNear = Xbyak::CodeGenerator::T_NEAR;
    Xbyak::Label again, end;
    a_.lea(a_.rax, a_.ptr[a_.rcx + kLanes * vectors]);
    a_.cmp(a_.rax, a_.r14);
    a_.jg(end, kNear);
    a_.align(16);
    a_.L(again);
    prefetch(p, vectors);
    for (int k = 0; k < vectors; ++k) body(p, k, false);
    a_.add(a_.rcx, kLanes * vectors);
    a_.lea(a_.rax, a_.ptr[a_.rcx + kLanes * vectors]);
    a_.cmp(a_.rax, a_.r14);
    a_.jle(again, kNear);
    a_.L(end);
  }

  // Operands in memory, by the pass that reads them first; the next rows follow. Addresses beyond the end do no harm.
  void prefetch(const Pass& p, int vectors) {
    constexpr int kAhead = 1536, kLine = 64;
    if (number(p) != 0) return;
    for (Value v : p.values) {
      const Node& n = node(v);
      if (n.kind != Kind::Full || !n.streamed) continue;
      auto size = dtype_size(n.dtype);
      auto e = element(n.pointer, size, 0);
      for (int b = 0; b < vectors * kLanes * static_cast<int>(size); b += kLine) a_.prefetcht0(a_.byte[e + kAhead + b]);
    }
  }

  const Fragment& f_;
  Passes passes_;
  Assembler a_;
  std::vector<int> row_slot_;  // by value
  std::vector<int> address_;   // register of each pointer, or -1
  std::vector<Fold> folds_;
  int tail_mask_ = 0;
};

}  // namespace

bool can_compile() { return vector_bytes() >= 32; }

std::shared_ptr<const Code> compile(const Fragment& fragment) {
  // Not set to zeros: the code fills a small part of it.
  std::unique_ptr<std::uint8_t[]> memory(new std::uint8_t[kLargest]);
  auto code = std::make_shared<Code>();
  try {
    Emitter emitter(fragment, memory.get());
    code->size = emitter.write();
    code->scratch = emitter.passes().scratch_dtypes;
    auto pointers = static_cast<std::size_t>(fragment.pointers) + code->scratch.size();
    if (pointers > Code::kMostPointers) return nullptr;
  } catch (const Xbyak::Error&) {
    return nullptr;
  }
  code->memory = CodeMemory::make({memory.get(), code->size});
  if (code->memory == nullptr) return nullptr;
  code->run = reinterpret_cast<Code::Function>(const_cast<void*>(code->memory->start()));
  code->by_rows = fragment.by_rows();
  return code;
}

}  // namespace tessera::kernels
