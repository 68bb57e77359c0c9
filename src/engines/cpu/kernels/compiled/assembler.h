// SPDX-License-Identifier: Apache-2.0
// An x86-64 assembler with a register file: values of eight lanes are given vector registers as they are needed, and
// places on the stack when those run out. AVX2, FMA, F16C.
//
// In a register every dtype takes 32 bits a lane: f16 and bf16 are the f32 of their value, bools are 0 or -1.
#pragma once

#include <xbyak/xbyak.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <vector>

namespace tessera::kernels {

class Assembler : public Xbyak::CodeGenerator {
 public:
  using Reg = Xbyak::Ymm;
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
    Reg reg_{0};
    Address address_{0, false, Xbyak::RegExp()};
    bool memory_ = false;
  };

  Assembler(std::uint8_t* memory, std::size_t bytes) : CodeGenerator(bytes, memory) {}

  // --- A body is straight-line code over values that are used a known number of times.

  /// Forgets all values; registers that are reserved stay so.
  void begin_body(std::size_t values);
  /// The op at `position` of the body reads value `v`.
  void used(std::int32_t v, int position) { values_[static_cast<std::size_t>(v)].uses.push_back(position); }
  /// Value `v` lies there throughout the body.
  void place(std::int32_t v, const Address& address) { places_[static_cast<std::size_t>(v)] = address; }
  bool placed(std::int32_t v) const { return places_[static_cast<std::size_t>(v)].has_value(); }
  /// What lies there is about to be written over: `v` moves to a register.
  void lift(std::int32_t v);

  /// Operands read from here on are those of the op at `position`.
  void at(int position);
  /// The value in a register that must not be written, until the op is done.
  Reg reg(std::int32_t v);
  /// The same, or memory.
  Source source(std::int32_t v);
  /// A register for the op's result or for what it needs in between.
  Reg temporary();
  /// A temporary that the op needs no longer.
  void drop(Reg r) { pinned_[static_cast<std::size_t>(r.getIdx())] = false; }
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
  /// Writes the constants and what is known last.
  void finish();
  Address pointer(std::int32_t p) { return qword[rsp + 8 * p]; }
  int new_slot();
  void free_slot(int slot) { free_slots_.push_back(slot); }
  int slot_offset(int slot) const { return base_ + 32 * slot; }
  Address slot(int i) { return yword[rsp + slot_offset(i)]; }
  /// Eight lanes of these bits.
  Address constant(std::uint32_t bits);
  Address constant(float value);
  /// Ones in the first `lanes` lanes, zeros in the others; both general registers are written over.
  void load_mask(Reg mask, const Xbyak::Reg64& lanes, const Xbyak::Reg64& scratch);

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

  std::vector<Value> values_;
  std::vector<std::optional<Address>> places_;  // by value
  std::array<std::int32_t, 16> owner_{};        // value in each register, -1: none
  std::array<bool, 16> pinned_{}, reserved_{};
  std::vector<std::int32_t> read_;  // operands of the op
  int position_ = 0;
  std::vector<int> free_slots_;
  int slots_ = 0, base_ = 0;
  std::map<std::uint32_t, Xbyak::Label> constants_;
  Xbyak::Label masks_;
  bool masks_used_ = false;
  std::size_t frame_at_ = 0;
};

}  // namespace tessera::kernels
