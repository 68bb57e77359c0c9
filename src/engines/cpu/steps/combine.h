// SPDX-License-Identifier: Apache-2.0
// Element by element reduction of many equal blocks.
#pragma once

#include <cstdint>
#include <span>

#include "engines/cpu/kernels/elementwise/elementwise_kernels.h"
#include "ir/layout.h"
#include "tessera/dtype.h"

namespace tessera::cpu {

/// Combines blocks in the order of a fixed binary tree over their numbers: the result depends neither on threads nor on
/// how the blocks came here. f16 and bf16 sums and products are carried in f32.
class Combiner {
 public:
  /// Throws `UnimplementedError` when the dtype has no such reduction.
  Combiner(ir::Reduction reduction, DType dtype);
  /// `out[i] = reduction over b of blocks[b][i]` for `n` elements; at least one block. `out` overlaps no block.
  void combine(std::span<const void* const> blocks, void* out, std::int64_t n) const;
  /// Rows of the blocks, whose beginnings are so many bytes apart; `out` has them one after the other.
  struct Rows {
    std::int64_t count, length, stride;
  };
  void combine(std::span<const void* const> blocks, void* out, const Rows& rows) const;
  /// The same in two stages with one rounding: `out` of the first one has the dtype `wide`, and the second one's
  /// blocks.
  void combine_partly(std::span<const void* const> blocks, void* out, std::int64_t n) const;
  void combine_wide(std::span<const void* const> blocks, void* out, std::int64_t n) const;
  /// In which sums are carried: f32 for f16 and bf16, else the dtype itself.
  DType wide() const { return wide_; }
  DType dtype() const { return dtype_; }
  /// True when the reduction of equal values is that value.
  bool idempotent() const { return reduction_ != ir::Reduction::Sum && reduction_ != ir::Reduction::Prod; }
  /// Fills with what changes nothing: 0 for sums, 1 for products (the others are idempotent and need none).
  void fill_identity(void* out, std::int64_t n) const;

 private:
  struct Scratch;
  struct Stage {
    bool widens;
    bool narrows;
  };
  void run(std::span<const void* const> blocks, void* out, const Rows& rows, Stage stage) const;
  const void* tree(std::span<const void* const> blocks, std::int64_t offset_bytes, std::int64_t n, char* out,
                   Scratch& scratch, std::size_t depth, bool widens) const;

  ir::Reduction reduction_;
  DType dtype_;
  DType wide_;
  kernels::EwFn apply_;
  kernels::EwFn widen_ = nullptr;
  kernels::EwFn narrow_ = nullptr;
};

}  // namespace tessera::cpu
