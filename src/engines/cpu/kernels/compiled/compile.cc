// SPDX-License-Identifier: Apache-2.0
// From fragments to machine code. For each row: the values that all elements of it share, then a loop over its columns
// for each pass, whose reductions are complete before the next.
//
// Registers: r14 columns, r15 rows left, rcx the column, rax, r10 and r11 for anything, r13 keeps rcx in calls, the
// others hold addresses of rows.
#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <new>
#include <span>

#include "engines/cpu/kernels/compiled/assembler.h"
#include "engines/cpu/kernels/compiled/elements.h"
#include "engines/cpu/kernels/compiled/emit_ops.h"
#include "engines/cpu/kernels/compiled/folds.h"
#include "engines/cpu/kernels/compiled/fragment.h"
#include "engines/cpu/kernels/compiled/passes.h"
#include "engines/cpu/kernels/elementwise/elementwise_kernels.h"
#include "engines/cpu/kernels/elementwise/vector_functions.h"

namespace tessera::kernels {

namespace {

using Kind = Fragment::Kind;
using Node = Fragment::Node;
using Value = Fragment::Value;
using Reg = Assembler::Reg;

class Emitter {
 public:
  Emitter(const Fragment& f, std::uint8_t* memory)
      : f_(f),
        passes_(plan_passes(f)),
        a_(memory, vector_bytes()),
        elements_(a_),
        row_slot_(f.nodes.size(), -1),
        aims_(f.nodes.size(), -1),
        codes_(f.nodes.size()),
        folds_(a_) {
    for (std::size_t v = 0; v < f.nodes.size(); ++v) {
      const Node& n = f.nodes[v];
      if (n.kind != Kind::Op) continue;
      codes_[v] = find_code(n.op, node(n.operands[n.op == EwOp::Select ? 1 : 0]).dtype, n.dtype);
    }
    asks_ = number(*std::ranges::max_element(passes_.list, {}, [&](const Pass& p) { return weight(p); }));
  }

  const Passes& passes() const { return passes_; }

  // The constants and the code, which starts `constant_bytes` later.
  std::span<const std::uint8_t> write() {
    auto pointers = f_.pointers + static_cast<std::int32_t>(passes_.scratch_dtypes.size());
    a_.prologue(pointers);
    elements_.begin();
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
    return {a_.getCode() - constant_bytes(), constant_bytes() + a_.getSize()};
  }
  std::size_t constant_bytes() const { return a_.constant_bytes(); }

 private:
  const Node& node(Value v) const { return f_.nodes[static_cast<std::size_t>(v)]; }
  const OpCode& code_of(Value v) const { return codes_[static_cast<std::size_t>(v)]; }
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
      if (s.value == v && !s.full) elements_.store_one(node(v).dtype, s.pointer, r);
    }
  }

  // One element into all lanes.
  void broadcast(Value v) {
    a_.begin_body(0);
    Reg d = a_.temporary();
    elements_.load_one(node(v).dtype, node(v).pointer, d);
    keep_row(v, d);
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
        a_.place(value, lane_bits(n));
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

  // For `count` vectors from the one of this number on.
  void op(Value v, int vector = 0, int count = 1) {
    const Node& n = node(v);
    const OpCode& code = code_of(v);
    std::array<Operands, OpCode::kMostTogether> operands;
    std::array<Reg, OpCode::kMostTogether> results;
    const auto vectors = static_cast<std::size_t>(count);
    for (std::size_t k = 0; k < vectors; ++k) {
      operands[k] = n.operands;
      for (Value& o : operands[k]) o = numbered(o, vector + static_cast<int>(k));
    }
    if (code.emit_together != nullptr) {
      code.emit_together(a_, std::span(operands).first(vectors), std::span(results).first(vectors));
    } else if (code.emit != nullptr) {
      results[0] = code.emit(a_, operands[0]);
    } else if (ew_arity(n.op) == 1) {
      results[0] = a_.call(code.function, {operands[0][0]});
    } else {
      results[0] = a_.call(code.function, {operands[0][0], operands[0][1]});
    }
    for (std::size_t k = 0; k < vectors && is_half(code.rounded); ++k) emit_round(a_, code.rounded, results[k]);
    for (std::size_t k = 0; k < vectors; ++k) a_.done(numbered(v, vector + static_cast<int>(k)), results[k]);
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
    elements_.forget_addresses(f_.pointers + std::ssize(passes_.scratch_dtypes));
    std::vector<int> free = {Xbyak::Operand::RBX, Xbyak::Operand::R12};
    if (!calls(p)) {
      using O = Xbyak::Operand;
      free.insert(free.end(), {O::RDI, O::RSI, O::RDX, O::R8, O::R9, O::R13});
    }
    auto assign = [&](std::int32_t q) {
      if (q < 0 || free.empty() || elements_.holds_address(q)) return;
      elements_.hold_address(q, free.back());
      a_.mov(Xbyak::Reg64(free.back()), a_.pointer(q));
      free.pop_back();
    };
    for (Value v : p.values) assign(loads(v, p) ? source_pointer(v) : -1);
    for (Value v : p.keeps) assign(scratch_pointer(v));
    if (!p.stores) return;
    for (const auto& s : f_.stores) assign(s.full ? s.pointer : -1);
  }
  bool calls(const Pass& p) const {
    return std::ranges::any_of(p.values, [&](Value v) { return computes(v, p) && code_of(v).function != nullptr; });
  }
  // How many vectors an op's code computes side by side, and the most of them that one of the pass does.
  int together(Value v, const Pass& p) const { return computes(v, p) ? code_of(v).together : 1; }
  int most_together(const Pass& p) const {
    int most = 1;
    for (Value v : p.values) most = std::max(most, together(v, p));
    return most;
  }
  std::int32_t number(const Pass& p) const { return static_cast<std::int32_t>(&p - passes_.list.data()); }
  // Whether the pass finds the value in memory: an operand's, or one that an earlier pass kept.
  bool loads(Value v, const Pass& p) const {
    return node(v).kind == Kind::Full || (scratch_pointer(v) >= 0 && node(v).phase < number(p));
  }
  bool computes(Value v, const Pass& p) const { return node(v).kind == Kind::Op && !loads(v, p); }
  std::int32_t source_pointer(Value v) const {
    return node(v).kind == Kind::Full ? node(v).pointer : scratch_pointer(v);
  }

  // A body computes several vectors, op by op: a long chain of one of them waits for itself, those of four do not.
  // Each has values of its own where they differ along the row.
  Value numbered(Value v, int vector) const {
    return v < 0 || !node(v).full ? v : v + vector * static_cast<Value>(f_.nodes.size());
  }

  // The vectors of a body for which an op is written at one position: one, or those that its code writes together.
  template <class F>
  void in_groups(Value v, const Pass& p, int vectors, F write) const {
    const int most = together(v, p);
    for (int k = 0; k < vectors; k += most) write(k, std::min(most, vectors - k));
  }

  // A reduction takes two vectors at one position.
  template <class F>
  static void in_pairs(int vectors, F write) {
    for (int k = 0; k < vectors; k += 2) write(k, std::min(2, vectors - k));
  }

  // Positions of a body: its values in order, then reductions, what is kept, and stores; of each all vectors.
  void count_uses(const Pass& p, int vectors) {
    int at = 0;
    auto each = [&](auto&& use) {
      for (int k = 0; k < vectors; ++k) use(k, at++);
    };
    for (Value v : p.values) {
      in_groups(v, p, vectors, [&](int first, int count) {
        for (int k = first; k < first + count && !loads(v, p); ++k) {
          for (Value o : node(v).operands) {
            if (o >= 0) a_.used(numbered(o, k), at);
          }
        }
        ++at;
      });
    }
    for (Value v : p.reduces) {
      in_pairs(vectors, [&](int first, int count) {
        for (int k = first; k < first + count; ++k) a_.used(numbered(node(v).operands[0], k), at);
        ++at;
      });
    }
    for (Value v : p.keeps) each([&](int k, int position) { a_.used(numbered(v, k), position); });
    if (!p.stores) return;
    for (const auto& s : f_.stores) {
      if (s.full) each([&](int k, int position) { a_.used(numbered(s.value, k), position); });
    }
  }

  // `vectors` of columns from the current one on, or what is left of the row.
  void body(const Pass& p, int vectors, bool tail) {
    a_.begin_body(f_.nodes.size() * static_cast<std::size_t>(vectors));
    place_rows();
    count_uses(p, vectors);
    int at = 0;
    auto each = [&](auto&& write) {
      for (int k = 0; k < vectors; ++k) {
        a_.at(at++);
        write(k);
      }
    };
    for (Value v : p.values) {
      in_groups(v, p, vectors, [&](int first, int count) {
        a_.at(at++);
        loads(v, p) ? load(v, first, tail) : op(v, first, count);
      });
    }
    for (std::size_t r = 0; r < p.reduces.size(); ++r) {
      in_pairs(vectors, [&](int first, int count) {
        a_.at(at++);
        std::array<Reg, 2> x;
        const auto pair = std::span(x).first(static_cast<std::size_t>(count));
        for (int k = 0; k < count; ++k) {
          pair[static_cast<std::size_t>(k)] = a_.reg(numbered(node(p.reduces[r]).operands[0], first + k));
        }
        folds_.add(r, pair, first, tail);
        a_.done();
      });
    }
    auto write = [&](Value v, std::int32_t to, bool stream) {
      each([&](int k) {
        store(v, to, k, stream, tail);
        a_.done();
      });
    };
    for (Value v : p.keeps) write(v, scratch_pointer(v), false);
    if (!p.stores) return;
    // Results may lie over operands: all are read before the first is written.
    for (const auto& s : f_.stores) {
      for (int k = 0; k < vectors && s.full && node(s.value).full; ++k) a_.lift(numbered(s.value, k));
    }
    for (const auto& s : f_.stores) {
      if (s.full) write(s.value, s.pointer, s.stream);
    }
  }

  void load(Value v, int vector, bool tail) {
    std::int32_t from = source_pointer(v);
    DType t = node(v).dtype;
    // Where an address stays good, the value is read as it is needed.
    if (dtype_size(t) == 4 && !tail && elements_.holds_address(from)) {
      a_.place(numbered(v, vector), a_.vector_at(elements_.at(from, 4, vector * a_.lanes())));
      return;
    }
    Reg d = a_.temporary();
    elements_.load(t, from, vector * a_.lanes(), tail, d);
    a_.done(numbered(v, vector), d);
  }

  void store(Value v, std::int32_t to, int vector, bool stream, bool tail) {
    elements_.store(node(v).dtype, to, vector * a_.lanes(), tail, stream, a_.reg(numbered(v, vector)));
  }

  // --- Reductions.

  std::vector<const Node*> reduce_nodes(const Pass& p) const {
    std::vector<const Node*> nodes;
    for (Value v : p.reduces) nodes.push_back(&node(v));
    return nodes;
  }
  // How many reductions keep their accumulators in registers.
  std::size_t folds_in_registers(const Pass& p) const {
    // What else a body holds needs the other registers: calls all of them, and functions of several vectors most.
    if (calls(p)) return 0;
    if (!a_.wide()) return most_together(p) > 1 ? 1 : heavy(p) ? 2 : 4;
    return heavy(p) ? 6 : 8;
  }
  // Whether the pass may be tried the quick way: it leaves nothing but totals and what it keeps, so that it can run
  // again.
  bool is_quick(const Pass& p) const {
    return !p.reduces.empty() && p.reduces.size() <= std::min<std::size_t>(2, folds_in_registers(p)) && !p.stores &&
           !heavy(p) && std::ranges::all_of(p.reduces, [&](Value v) { return Folds::has_quick_way(a_, node(v)); });
  }
  bool heavy(const Pass& p) const { return weight(p) > 24; }
  int weight(const Pass& p) const {
    int sum = 0;
    for (Value v : p.values) {
      sum += computes(v, p) ? code_of(v).weight : 1;
    }
    return sum;
  }

  void keep_total(Value v, Reg r) {
    if (row_slot(v) < 0) row_slot(v) = a_.new_slot();
    a_.vmovaps(a_.slot(row_slot(v)), r);
  }

  // The elements of the last, partial vector.
  void add_tail(const Pass& p) {
    a_.mov(a_.r10, a_.r14);
    a_.and_(a_.r10, a_.lanes() - 1);
    for (std::size_t r = 0; r < p.reduces.size(); ++r) {
      a_.begin_body(0);
      Reg total = a_.temporary();
      a_.vmovaps(total, a_.slot(row_slot(p.reduces[r])));
      folds_.add_tail(r, total);
      keep_total(p.reduces[r], total);
    }
  }

  // --- A pass.

  // Its columns, but for what is left of a vector.
  void whole_vectors(const Pass& p, Folds::Way way) {
    folds_.begin(reduce_nodes(p), folds_in_registers(p), way);
    constexpr int kLong = 150, kLongest = 400;  // instructions of a vector
    constexpr int kUsual = 4;
    int w = weight(p);
    int vectors = w <= kLong ? std::max(kUsual, most_together(p)) : !p.reduces.empty() ? kUsual : w <= kLongest ? 2 : 1;
    a_.xor_(a_.ecx, a_.ecx);
    if (vectors > 1) loop(p, vectors);
    if (vectors > kUsual && f_.by_rows()) loop(p, kUsual);  // a row may be short, what has no rows is not
    loop(p, 1);
  }

  void pass(const Pass& p) {
    row_ops(p);
    if (p.values.empty() && p.reduces.empty() && !p.stores) return;
    assign_pointers(p);
    aim(p);
    Xbyak::Label again, known, whole;
    if (is_quick(p)) {
      whole_vectors(p, Folds::Way::Quick);
      for (std::size_t r = 0; r < p.reduces.size(); ++r) {
        keep_total(p.reduces[r], folds_.across(r));
        folds_.jump_if_doubtful(r, a_.slot(row_slot(p.reduces[r])), again);
        folds_.end(r);
      }
      a_.jmp(known, Xbyak::CodeGenerator::T_NEAR);
      a_.L(again);
    }
    whole_vectors(p, Folds::Way::Exact);
    for (std::size_t r = 0; r < p.reduces.size(); ++r) keep_total(p.reduces[r], folds_.across(r));
    a_.L(known);
    a_.cmp(a_.rcx, a_.r14);
    a_.jge(whole, Xbyak::CodeGenerator::T_NEAR);
    body(p, 1, true);
    if (!p.reduces.empty()) add_tail(p);
    a_.L(whole);
    for (std::size_t r = 0; r < p.reduces.size(); ++r) {
      folds_.end(r);
      store_total(p.reduces[r]);
    }
  }

  void store_total(Value v) {
    for (const auto& s : f_.stores) {
      if (s.value != v || s.full) continue;
      a_.begin_body(0);
      Reg d = a_.temporary();
      a_.vmovaps(d, a_.slot(row_slot(v)));
      elements_.store_one(node(v).dtype, s.pointer, d);
    }
  }

  void loop(const Pass& p, int vectors) {
    constexpr auto kNear = Xbyak::CodeGenerator::T_NEAR;
    const int step = a_.lanes() * vectors;
    const int last = a_.new_slot();  // the column up to which there are as many
    auto until = a_.qword[a_.rsp + a_.slot_offset(last)];
    Xbyak::Label again, end;
    a_.lea(a_.rax, a_.ptr[a_.r14 - step]);
    a_.mov(until, a_.rax);
    a_.cmp(a_.rcx, a_.rax);
    a_.jg(end, kNear);
    a_.align(16);
    a_.L(again);
    prefetch(p, vectors);
    body(p, vectors, false);
    a_.add(a_.rcx, step);
    a_.cmp(a_.rcx, until);
    a_.jle(again, kNear);
    a_.L(end);
    a_.free_slot(last);
  }

  // Operands in memory are asked for by the pass with the most arithmetic, beside which they arrive: further on in its
  // row or, where an earlier pass has read that, in the next one, for which the second-level cache has more room.
  // Addresses beyond the end do no harm.
  bool asks_for(const Node& n, const Pass& p) const { return number(p) == asks_ && n.kind == Kind::Full && n.streamed; }
  // Where its columns begin that are asked for, in a slot.
  void aim(const Pass& p) {
    constexpr int kAhead = 1536;
    for (std::size_t v = 0; v < f_.nodes.size(); ++v) {
      const Node& n = f_.nodes[v];
      if (!asks_for(n, p)) continue;
      if (aims_[v] < 0) aims_[v] = a_.new_slot();
      a_.mov(a_.r11d, kAhead);
      if (asks_ > 0) {
        a_.imul(a_.r10, a_.r14, static_cast<int>(dtype_size(n.dtype)));
        a_.cmp(a_.r11, a_.r10);
        a_.cmovl(a_.r11, a_.r10);
      }
      a_.add(a_.r11, a_.pointer(n.pointer));
      a_.mov(a_.qword[a_.rsp + a_.slot_offset(aims_[v])], a_.r11);
    }
  }
  void prefetch(const Pass& p, int vectors) {
    constexpr int kLine = 64;
    for (std::size_t v = 0; v < f_.nodes.size(); ++v) {
      const Node& n = f_.nodes[v];
      if (!asks_for(n, p)) continue;
      const auto size = static_cast<int>(dtype_size(n.dtype));
      a_.mov(a_.r11, a_.qword[a_.rsp + a_.slot_offset(aims_[v])]);
      for (int b = 0; b < vectors * a_.lanes() * size; b += kLine) {
        auto line = a_.byte[a_.r11 + a_.rcx * size + b];
        asks_ > 0 ? a_.prefetcht1(line) : a_.prefetcht0(line);
      }
    }
  }

  const Fragment& f_;
  Passes passes_;
  std::int32_t asks_ = 0;  // the pass that asks for operands in memory
  Assembler a_;
  Elements elements_;
  std::vector<int> row_slot_;  // by value
  std::vector<int> aims_;      // likewise: the slot with the address that is asked for
  std::vector<OpCode> codes_;
  Folds folds_;
};

}  // namespace

bool can_compile() { return vector_bytes() >= 32; }

std::shared_ptr<const Code> compile(const Fragment& fragment) {
  // Not set to zeros: constants and code fill a small part of it.
  constexpr std::align_val_t kAligned{64};
  auto release = [&](std::uint8_t* p) { ::operator delete(p, kAligned); };
  std::unique_ptr<std::uint8_t, decltype(release)> memory(
      static_cast<std::uint8_t*>(::operator new(Assembler::kConstantBytes + Assembler::kCodeBytes, kAligned)), release);
  auto code = std::make_shared<Code>();
  std::size_t start = 0;
  try {
    Emitter emitter(fragment, memory.get());
    auto written = emitter.write();
    start = emitter.constant_bytes();
    code->size = written.size();
    code->scratch = emitter.passes().scratch_dtypes;
    auto pointers = static_cast<std::size_t>(fragment.pointers) + code->scratch.size();
    if (pointers > Code::kMostPointers) return nullptr;
    code->memory = CodeMemory::make(written);
  } catch (const Xbyak::Error&) {
    return nullptr;
  }
  if (code->memory == nullptr) return nullptr;
  auto* first = static_cast<const std::uint8_t*>(code->memory->start()) + start;
  code->run = reinterpret_cast<Code::Function>(const_cast<std::uint8_t*>(first));
  code->by_rows = fragment.by_rows();
  return code;
}

}  // namespace tessera::kernels
