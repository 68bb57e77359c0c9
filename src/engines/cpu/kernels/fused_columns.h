// SPDX-License-Identifier: Apache-2.0
// Fused programs some of whose results are reduced over all rows, as sums for means of columns, for biases and for
// scales are.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engines/cpu/kernels/elementwise/fused.h"
#include "engines/cpu/kernels/reduce_axes.h"

namespace tessera::kernels {

/// What is reduced never reaches memory: some rows of it are computed at a time, and added up while a cache has them.
class FusedColumns {
 public:
  struct Column {
    ReduceOp op;
    std::int64_t operand;  ///< number of a full result of the program
  };
  /// The first `stored` results of the program are results of a run; the others are operands of columns alone. Programs
  /// with windows are not for this.
  FusedColumns(FusedProgram program, std::int64_t stored, std::vector<Column> columns);

  /// As `FusedKernel::run`. `outputs`: what is stored, then for each column `inner` elements of its operand's dtype:
  /// its operation over all rows, its identity where there are none. Floats are added pairwise over blocks of rows that
  /// depend on the sizes alone; f16 and bf16 are added in f32.
  void run(std::span<const void* const> inputs, std::span<void* const> outputs, std::int64_t outer,
           std::int64_t inner) const;

 private:
  class Share;

  FusedProgram program_;
  FusedKernel kernel_;
  std::int64_t stored_;
  std::vector<Column> columns_;
};

}  // namespace tessera::kernels
