// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/kernels/fused_columns.h"

#include <algorithm>
#include <utility>

#include "base/raw_memory.h"
#include "base/thread_pool.h"
#include "engines/cpu/kernels/reduce_kernels.h"

namespace tessera::kernels {

namespace {

constexpr std::int64_t kChunkBytes = 64 << 10;      // of rows that are computed before they are added up
constexpr std::int64_t kBlockElements = 128 << 10;  // of rows that are added into one
constexpr std::int64_t kFewestRows = 32, kMostRows = 512;

}  // namespace

FusedColumns::FusedColumns(FusedProgram program, std::int64_t stored, std::vector<Column> columns)
    : program_(program), kernel_(std::move(program)), stored_(stored), columns_(std::move(columns)) {}

// What one thread has: rows of what is not stored, and pointers to the rows at hand.
class FusedColumns::Share {
 public:
  Share(const FusedColumns& f, std::span<const void* const> inputs, std::span<void* const> outputs, std::int64_t inner)
      : f_(f),
        in_bytes_(f.program_.input_row_bytes(inner)),
        out_bytes_(f.program_.output_row_bytes(inner)),
        inputs_(inputs.begin(), inputs.end()),
        outputs_(outputs.begin(), outputs.begin() + f.stored_),
        inner_(inner) {
    std::int64_t bytes = 0;
    for (auto n = static_cast<std::size_t>(f.stored_); n < out_bytes_.size(); ++n) bytes += out_bytes_[n];
    for (const Column& c : f.columns_) bytes = std::max(bytes, out_bytes_[static_cast<std::size_t>(c.operand)]);
    rows_ = std::max<std::int64_t>(1, kChunkBytes / std::max<std::int64_t>(bytes, 1));
    // Elements of any size begin where they may.
    constexpr std::int64_t kAlignment = 64;
    auto whole = [&](std::size_t n) { return (rows_ * out_bytes_[n] + kAlignment - 1) / kAlignment * kAlignment; };
    std::int64_t all = 0;
    for (auto n = static_cast<std::size_t>(f.stored_); n < out_bytes_.size(); ++n) all += whole(n);
    scratch_ = base::raw_memory(all);
    std::byte* next = scratch_.get();
    for (auto n = static_cast<std::size_t>(f.stored_); n < out_bytes_.size(); ++n) {
      outputs_.push_back(next);
      next += whole(n);
    }
  }

  /// Adds up the rows [begin, end); `sums`: for each column.
  void add(std::int64_t begin, std::int64_t end, std::span<std::byte* const> sums) {
    std::vector<const void*> from(inputs_.size());
    std::vector<void*> to(outputs_.size());
    for (std::int64_t row = begin; row < end; row += rows_) {
      const std::int64_t rows = std::min(rows_, end - row);
      for (std::size_t i = 0; i < from.size(); ++i) {
        from[i] = static_cast<const std::byte*>(inputs_[i]) + row * in_bytes_[i];
      }
      for (std::size_t n = 0; n < to.size(); ++n) {
        const bool stored = n < static_cast<std::size_t>(f_.stored_);
        to[n] = static_cast<std::byte*>(outputs_[n]) + (stored ? row * out_bytes_[n] : 0);
      }
      f_.kernel_.run(from, to, rows, inner_);
      for (std::size_t c = 0; c < sums.size(); ++c) {
        const Column& column = f_.columns_[c];
        const auto operand = static_cast<std::size_t>(column.operand);
        find_reduce(column.op, f_.program_.output_dtype(column.operand))
            .col(sums[c], to[operand], rows, inner_, inner_);
      }
    }
  }

 private:
  const FusedColumns& f_;
  std::vector<std::int64_t> in_bytes_, out_bytes_;  // from one row to the next
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
  std::int64_t inner_, rows_;
  base::RawMemory scratch_;
};

void FusedColumns::run(std::span<const void* const> inputs, std::span<void* const> outputs, std::int64_t outer,
                       std::int64_t inner) const {
  if (inner == 0) return;
  const std::int64_t each = std::clamp(kBlockElements / inner, kFewestRows, kMostRows);
  const std::int64_t blocks = (outer + each - 1) / each;
  std::vector<base::RawMemory> partial;
  for (const Column& c : columns_) {
    partial.push_back(
        base::raw_memory(blocks * inner * dtype_size(accumulator_dtype(program_.output_dtype(c.operand)))));
  }
  base::parallel_for(blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    Share share(*this, inputs, outputs, inner);
    std::vector<std::byte*> sums(columns_.size());
    for (std::int64_t u = begin; u < end; ++u) {
      for (std::size_t c = 0; c < sums.size(); ++c) {
        const DType t = accumulator_dtype(program_.output_dtype(columns_[c].operand));
        sums[c] = partial[c].get() + u * inner * dtype_size(t);
        reduce(columns_[c].op, t, nullptr, sums[c], 1, 0, inner);
      }
      share.add(u * each, std::min(outer, (u + 1) * each), sums);
    }
  });
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    const DType t = program_.output_dtype(columns_[c].operand), wide = accumulator_dtype(t);
    void* to = outputs[static_cast<std::size_t>(stored_) + c];
    if (t == wide) {
      reduce(columns_[c].op, t, partial[c].get(), to, 1, blocks, inner);
      continue;
    }
    const base::RawMemory sums = base::raw_memory(inner * dtype_size(wide));
    reduce(columns_[c].op, wide, partial[c].get(), sums.get(), 1, blocks, inner);
    ew_find(EwOp::Convert, wide, t)(sums.get(), nullptr, nullptr, to, inner);
  }
}

}  // namespace tessera::kernels
