// SPDX-License-Identifier: Apache-2.0
// An x86-64 assembler with a register file: values of a vector's lanes are given vector registers as they are needed,
// and places on the stack when those run out. Sixteen registers of eight lanes for AVX2, FMA and F16C; for AVX-512 (F,
// BW, DQ, VL) twice as many, twice as wide.
//
// In a register every dtype takes 32 bits a lane: f16 and bf16 are the f32 of their value, bools are 0 or -1.
#pragma once

#include <xbyak/xbyak.h>

#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

namespace tessera::kernels {

class Assembler : public Xbyak::CodeGenerator {
 public:
  using Reg = Xbyak::Ymm;  // of either width: its kind says which
  using Address = Xbyak::Address;

  /// A register or memory, where an instruction takes either.
  class Source {
   public:
    Source(Reg r) : reg_(r) {}  // NOLINT(google-explicit-constructor): passed as what it holds
    Source(const Address& a) : address_(a), memory_(true) {}  // NOLINT(google-explicit-constructor): likewise
    operator const Xbyak::Operand&() const {                  // NOLINT(google-explicit-constructor): Xbyak takes it
      return memory_ ? static_cast<const Xbyak::Operand&>(address_) : reg_;
    }

   private:
    friend class Assembler;
    Reg reg_{0};
    Address address_{0, false, Xbyak::RegExp()};
    bool memory_ = false;
  };

  /// Which lanes, for as long as one op is written: ones and zeros in a temporary or, in AVX-512, a register of bits.
  class Mask {
    friend class Assembler;
    explicit Mask(int index) : index_(index) {}
    int index_;
  };

  /// Constants lie before the code and grow downwards: what refers to them knows their place, where labels would be
  /// resolved one by one. `memory` is a multiple of the vectors' size.
  static constexpr std::size_t kConstantBytes = 8192, kCodeBytes = 32768;
  Assembler(std::uint8_t* memory, int vector_bytes)
      : CodeGenerator(kCodeBytes, memory + kConstantBytes),
        vector_bytes_(vector_bytes),
        registers_(vector_bytes == 64 ? 32 : 16) {}
  std::size_t constant_bytes() const { return constants_.size() * static_cast<std::size_t>(vector_bytes_); }

  /// Whether it writes for AVX-512.
  bool wide() const { return vector_bytes_ == 64; }
  int lanes() const { return vector_bytes_ / 4; }
  Reg vector(int index) const { return wide() ? Reg(index, Xbyak::Operand::ZMM, 512) : Reg(index); }
  /// The register's lower half.
  Xbyak::Xmm half(Reg r) const {
    return wide() ? Xbyak::Xmm(r.getIdx(), Xbyak::Operand::YMM, 256) : Xbyak::Xmm(r.getIdx());
  }
  template <class Expression>
  Address vector_at(const Expression& e) const {
    return wide() ? zword[e] : yword[e];
  }

  // --- A body is straight-line code over values that are used a known number of times.

  /// Forgets all values; registers that are reserved stay so.
  void begin_body(std::size_t values);
  /// The op at `position` of the body reads value `v`.
  void used(std::int32_t v, int position) { values_[static_cast<std::size_t>(v)].uses.push_back(position); }
  /// Value `v` lies there throughout the body.
  void place(std::int32_t v, const Address& address) { places_[static_cast<std::size_t>(v)] = address; }
  /// Value `v` has these bits in every lane throughout the body.
  void place(std::int32_t v, std::uint32_t bits) {
    place(v, constant(bits));
    known_[static_cast<std::size_t>(v)] = bits;
  }
  std::optional<std::uint32_t> known(std::int32_t v) const { return known_[static_cast<std::size_t>(v)]; }
  bool placed(std::int32_t v) const { return places_[static_cast<std::size_t>(v)].has_value(); }
  /// What lies there is about to be written over: `v` moves to a register.
  void lift(std::int32_t v);

  /// Operands read from here on are those of the op at `position`.
  void at(int position);
  /// The value in a register that must not be written, until the op is done.
  Reg reg(std::int32_t v);
  /// The same, or memory where this is the last op that reads it.
  Source source(std::int32_t v);
  /// The same, or memory: for an op that reads its operand several times and has no register for it.
  Source reread(std::int32_t v);
  /// A temporary that holds the value.
  Reg writable(std::int32_t v);
  /// A register for the op's result or for what it needs in between.
  Reg temporary();
  /// A temporary or an operand that the op needs no longer.
  void drop(Reg r) { pinned_[static_cast<std::size_t>(r.getIdx())] = false; }
  void drop(const Source& s) {
    if (!s.memory_) drop(s.reg_);
  }
  /// The op is done: `result` holds value `v`, all other registers that it took are free.
  void done(std::int32_t v, Reg result);
  void done();
  /// Calls a function that takes vectors and gives one; the result is in the register returned.
  Reg call(const void* function, std::initializer_list<std::int32_t> operands);
  /// A register that bodies leave alone, until `release`.
  Reg reserve();
  void release(Reg r) { reserved_[static_cast<std::size_t>(r.getIdx())] = false; }

  // --- The frame: the pointers, then slots of one vector.

  void prologue(std::int32_t pointers);
  void epilogue(bool fence);
  /// Code that is rarely reached and jumps back, behind all other. `write` takes no registers but those that it brings.
  void write_behind(std::function<void()> write) { behind_.push_back(std::move(write)); }
  /// Writes what is known last.
  void finish();
  Address pointer(std::int32_t p) { return qword[rsp + 8 * p]; }
  int new_slot();
  void free_slot(int slot) { free_slots_.push_back(slot); }
  int slot_offset(int slot) const { return base_ + vector_bytes_ * slot; }
  Address slot(int i) { return vector_at(rsp + slot_offset(i)); }
  /// These bits in every lane.
  Address constant(std::uint32_t bits);
  Address constant(float value);
  /// Ones in the first `lanes` lanes, zeros in the others, of AVX2; both general registers are written over.
  void load_mask(Reg mask, const Xbyak::Reg64& lanes, const Xbyak::Reg64& scratch);

  // --- What the two instruction sets do not share. Names of AVX2's instructions do what these do: of comparisons the
  // result is 0 or -1 in each lane.

  Mask where(Reg x, const Xbyak::Operand& y, std::uint8_t predicate);
  /// Register of bits `k` gets those lanes as well, of AVX-512. The bodies leave two such registers alone.
  void also_where(int k, Reg x, const Xbyak::Operand& y, std::uint8_t predicate);
  static constexpr int kFirstFoldMask = 5, kLastFoldMask = 6;
  void drop(Mask m) {
    if (!wide()) pinned_[static_cast<std::size_t>(m.index_)] = false;
  }
  /// d = `chosen` in the lanes of the mask, `otherwise` in the others.
  void blend(Reg d, Reg otherwise, const Xbyak::Operand& chosen, Mask m);
  /// The same for a mask in lanes; `d` is none of the others.
  void vblendvps(Reg d, Reg otherwise, const Xbyak::Operand& chosen, Reg mask);
  void vcmpps(Reg d, Reg x, const Xbyak::Operand& y, std::uint8_t predicate);
  void vpcmpeqd(Reg d, Reg x, const Xbyak::Operand& y);
  void vpcmpgtd(Reg d, Reg x, const Xbyak::Operand& y);
  void vpand(Reg d, Reg x, const Xbyak::Operand& y);
  void vpandn(Reg d, Reg x, const Xbyak::Operand& y);
  void vpor(Reg d, Reg x, const Xbyak::Operand& y);
  void vpxor(Reg d, Reg x, const Xbyak::Operand& y);
  void vroundps(Reg d, const Xbyak::Operand& x, std::uint8_t mode);
  void vroundpd(Reg d, const Xbyak::Operand& x, std::uint8_t mode);
  /// -1 in every lane.
  void ones(Reg d);

 private:
  struct Value {
    int reg = -1;
    int slot = -1;
    std::vector<int> uses;  // positions, ascending
    std::size_t next = 0;   // of `uses`
  };
  // Whether the op at this position or a later one reads it.
  bool needed(Value& v) const {
    while (v.next < v.uses.size() && v.uses[v.next] < position_) ++v.next;
    return v.next < v.uses.size();
  }
  Value& value(std::int32_t v) { return values_[static_cast<std::size_t>(v)]; }
  // Where a value lies that no register holds.
  Address memory(std::int32_t v) {
    const auto& place = places_[static_cast<std::size_t>(v)];
    return place ? *place : slot(value(v).slot);
  }
  int take();
  void spill(int reg);
  void load(std::int32_t v, int reg);

  int vector_bytes_, registers_;
  int masks_given_ = 0;
  std::vector<Value> values_;
  std::vector<std::optional<Address>> places_;       // by value
  std::vector<std::optional<std::uint32_t>> known_;  // bits in every lane, by value
  std::array<std::int32_t, 32> owner_{};             // value in each register, -1: none
  std::array<bool, 32> pinned_{}, reserved_{};
  std::vector<std::int32_t> read_;  // operands of the op
  int position_ = 0;
  std::vector<int> free_slots_;
  int slots_ = 0, base_ = 0;
  std::vector<std::uint32_t> constants_;
  Xbyak::Label masks_;
  bool masks_used_ = false;
  std::size_t frame_at_ = 0;
  std::vector<std::function<void()>> behind_;
};

}  // namespace tessera::kernels
