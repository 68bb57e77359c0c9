// SPDX-License-Identifier: Apache-2.0
// Elements of any dtype in memory as lanes of registers, and back.
#pragma once

#include <cstdint>
#include <vector>

#include "engines/cpu/kernels/compiled/assembler.h"
#include "tessera/dtype.h"

namespace tessera::kernels {

/// A column is r14's where the row ends and rcx's otherwise; rax, r10 and r11 are written over.
class Elements {
 public:
  using Reg = Assembler::Reg;

  explicit Elements(Assembler& a) : a_(a) {}

  /// Code that prepares for the end of rows.
  void begin();
  /// Registers that hold addresses: all of them are forgotten, one is set.
  void forget_addresses(std::int64_t pointers) { address_.assign(static_cast<std::size_t>(pointers), -1); }
  void hold_address(std::int32_t p, int reg) { address_[static_cast<std::size_t>(p)] = reg; }
  bool holds_address(std::int32_t p) const { return address_[static_cast<std::size_t>(p)] >= 0; }

  /// The element `ahead` of the column in the row at pointer `p`. Good until the next call where no register holds the
  /// address.
  Xbyak::RegExp at(std::int32_t p, std::int64_t size, int ahead);
  /// A vector's elements from there on or, of a `tail`, what is left of the row.
  void load(DType t, std::int32_t p, int ahead, bool tail, Reg d);
  void store(DType t, std::int32_t p, int ahead, bool tail, bool stream, Reg x);
  /// The one element at pointer `p` in all lanes, and one lane there.
  void load_one(DType t, std::int32_t p, Reg d);
  void store_one(DType t, std::int32_t p, Reg x);

 private:
  void widen(DType t, Reg d, const Xbyak::Operand& from);
  void narrow(DType t, Reg d, Reg x);
  void copy_tail(std::int64_t size);
  Xbyak::Opmask tail();
  void load_wide_tail(DType t, std::int32_t p, int ahead, Reg d);
  void store_wide_tail(DType t, std::int32_t p, int ahead, Reg x);

  Assembler& a_;
  std::vector<int> address_;  // by pointer: the register that holds it, or -1
  int tail_mask_ = -1;        // its slot: lanes or, for AVX-512, bits
};

}  // namespace tessera::kernels
