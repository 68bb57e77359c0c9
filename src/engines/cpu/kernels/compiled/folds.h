// SPDX-License-Identifier: Apache-2.0
// The reductions of one pass over a row: four accumulators each, by turns, in the kernels' order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engines/cpu/kernels/compiled/assembler.h"
#include "engines/cpu/kernels/compiled/fragment.h"

namespace tessera::kernels {

class Folds {
 public:
  using Reg = Assembler::Reg;

  explicit Folds(Assembler& a) : a_(a) {}

  /// Maxima and minima of AVX2 are six instructions a vector, for NaN and the signs of zeros. The quick way is two, and
  /// knows afterwards whether it was right.
  enum class Way : std::uint8_t { Exact, Quick };
  static bool has_quick_way(const Assembler& a, const Fragment::Node& reduce);

  /// Code that sets the accumulators of these reductions; those of the first `in_registers` of them stay in registers.
  void begin(std::vector<const Fragment::Node*> reduces, std::size_t in_registers, Way way = Way::Exact);
  /// The pass's `vector`-th vector of a body joins reduction `r`, that of a tail is put aside.
  void add(std::size_t r, Reg x, int vector, bool tail);
  /// Quickly, two vectors of a body or, with the same one twice, one have joined.
  void look_for_nan(std::size_t r, Reg x, Reg y);
  /// The four of reduction `r` into one, whose lanes are all the total.
  Reg across(std::size_t r);
  /// Jumps where the total that a quick way has put there may be another than the exact one: there was a NaN, or it is
  /// a zero. eax is written over.
  void jump_if_doubtful(std::size_t r, const Assembler::Address& total, const Xbyak::Label& to);
  /// What was put aside joins `total`: `r10` elements, one after the other; rax is written over.
  void add_tail(std::size_t r, Reg total);
  /// Gives the frame back what reduction `r` took.
  void end(std::size_t r) { a_.free_slot(folds_[r].tail); }

 private:
  struct Fold {
    const Fragment::Node* node = nullptr;
    int nan = -1;  // the register of bits that knows of NaN, of which the accumulators then do not
    std::array<int, 4> regs = {-1, -1, -1, -1};
    std::array<int, 4> slots = {-1, -1, -1, -1};
    int tail = -1;
    int unordered = -1;  // the register whose lanes know of NaN, of a quick way
  };

  void combine(const Fold& f, Reg acc, Reg x);

  Assembler& a_;
  std::vector<Fold> folds_;
};

}  // namespace tessera::kernels
