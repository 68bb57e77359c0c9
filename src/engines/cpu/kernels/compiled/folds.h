// SPDX-License-Identifier: Apache-2.0
// The reductions of one pass over a row: two accumulators each, which pairs of vectors join by turns, in the kernels'
// order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
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
  /// A pair of a body's vectors, the first of which is its `vector`-th, or a single one joins reduction `r`; the single
  /// one of a tail is put aside.
  void add(std::size_t r, std::span<const Reg> x, int vector, bool tail);
  /// The two of reduction `r` into one, whose lanes are all the total.
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
    std::array<int, 2> regs = {-1, -1};
    std::array<int, 2> slots = {-1, -1};
    int tail = -1;
    int unordered = -1;  // the register whose lanes know of NaN, of a quick way
  };

  void combine(const Fold& f, Reg acc, Reg x);
  void look_for_nan(const Fold& f, Reg x, Reg y);

  Assembler& a_;
  std::vector<Fold> folds_;
};

}  // namespace tessera::kernels
