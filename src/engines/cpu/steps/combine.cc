// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/steps/combine.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/raw_memory.h"
#include "base/strings.h"
#include "base/thread_pool.h"
#include "engines/cpu/kernels/copy_kernels.h"
#include "tessera/error.h"

namespace tessera::cpu {

using kernels::EwOp;

namespace {
EwOp ew_op(ir::Reduction r) {
  static constexpr EwOp ops[] = {EwOp::Add, EwOp::Mul, EwOp::Max, EwOp::Min, EwOp::And, EwOp::Or};
  return ops[static_cast<int>(r)];
}
}  // namespace

// A block of memory for each level of the tree, and one more. Those of few elements are on the stack.
struct Combiner::Scratch {
  Scratch(std::int64_t bytes, std::size_t blocks) : level_bytes(static_cast<std::size_t>(bytes)) {
    const std::size_t levels = static_cast<std::size_t>(std::bit_width(blocks)) + 1;
    if (levels * level_bytes > sizeof(few)) many = base::raw_memory(static_cast<std::int64_t>(levels * level_bytes));
    memory = many ? reinterpret_cast<char*>(many.get()) : few;
  }
  char* level(std::size_t depth) { return memory + (depth + 1) * level_bytes; }
  char* more() { return memory; }

  std::size_t level_bytes;
  base::RawMemory many;
  char* memory;
  alignas(64) char few[2048];
};

Combiner::Combiner(ir::Reduction reduction, DType dtype) : reduction_(reduction), dtype_(dtype), wide_(dtype) {
  if (kernels::is_half(dtype) && !idempotent()) {
    wide_ = DType::F32;
    widen_ = kernels::ew_find(EwOp::Convert, dtype, wide_);
    narrow_ = kernels::ew_find(EwOp::Convert, wide_, dtype);
  }
  EwOp op = ew_op(reduction);
  // Over bool, sum and max are or, product and min are and.
  if (is_bool(dtype) && (reduction == ir::Reduction::Sum || reduction == ir::Reduction::Max)) op = EwOp::Or;
  if (is_bool(dtype) && (reduction == ir::Reduction::Prod || reduction == ir::Reduction::Min)) op = EwOp::And;
  apply_ = kernels::ew_find(op, wide_, wide_);
  if (apply_ == nullptr) {
    throw UnimplementedError(str("reshard: there is no ", ir::to_string(reduction), " over ", dtype_name(dtype),
                                 "; convert the value first"));
  }
}

// The first half is the largest power of two, so that a tree over more blocks extends one over fewer.
const void* Combiner::tree(std::span<const void* const> blocks, std::int64_t offset_bytes, std::int64_t n, char* out,
                           Scratch& scratch, std::size_t depth, bool widens) const {
  if (blocks.size() == 1) {
    const void* from = static_cast<const char*>(blocks[0]) + offset_bytes;
    if (!widens) return from;
    widen_(from, nullptr, nullptr, out, n);
    return out;
  }
  std::size_t half = std::bit_floor(blocks.size() - 1);
  const void* left = tree(blocks.first(half), offset_bytes, n, out, scratch, depth + 1, widens);
  const void* right = tree(blocks.subspan(half), offset_bytes, n, scratch.level(depth), scratch, depth + 1, widens);
  apply_(left, right, nullptr, out, n);
  return out;
}

void Combiner::combine(std::span<const void* const> blocks, void* out, std::int64_t n) const {
  run(blocks, out, {1, n, 0}, {widen_ != nullptr, narrow_ != nullptr});
}
void Combiner::combine(std::span<const void* const> blocks, void* out, const Rows& rows) const {
  run(blocks, out, rows, {widen_ != nullptr, narrow_ != nullptr});
}
void Combiner::combine_partly(std::span<const void* const> blocks, void* out, std::int64_t n) const {
  run(blocks, out, {1, n, 0}, {widen_ != nullptr, false});
}
void Combiner::combine_wide(std::span<const void* const> blocks, void* out, std::int64_t n) const {
  run(blocks, out, {1, n, 0}, {false, narrow_ != nullptr});
}

void Combiner::run(std::span<const void* const> blocks, void* out, const Rows& rows, Stage stage) const {
  const std::int64_t item = dtype_size(stage.narrows || wide_ == dtype_ ? dtype_ : wide_);
  const std::int64_t from_item = dtype_size(stage.widens ? dtype_ : wide_);
  std::int64_t chunk = (blocks.size() > 64 ? 4096 : 16384) / dtype_size(wide_);
  chunk = std::clamp<std::int64_t>(rows.length, 1, chunk);
  const std::int64_t chunks = (rows.length + chunk - 1) / chunk;  // of a row
  // A grain of about a hundred microseconds of additions.
  auto grain =
      std::max<std::int64_t>(1, (1 << 20) / (chunk * dtype_size(wide_) * static_cast<std::int64_t>(blocks.size())));
  base::parallel_for(rows.count * chunks, grain, [&](std::int64_t begin, std::int64_t end) {
    Scratch scratch(chunk * dtype_size(wide_), blocks.size());
    for (std::int64_t c = begin; c < end; ++c) {
      const std::int64_t row = c / chunks;
      const std::int64_t first = c % chunks * chunk;
      const std::int64_t count = std::min(chunk, rows.length - first);
      char* to = static_cast<char*>(out) + (row * rows.length + first) * item;
      char* sum = stage.narrows ? scratch.more() : to;
      const void* result = tree(blocks, row * rows.stride + first * from_item, count, sum, scratch, 0, stage.widens);
      if (stage.narrows) {
        narrow_(result, nullptr, nullptr, to, count);
      } else if (result != to) {
        kernels::copy_bytes(to, result, count * item);
      }
    }
  });
}

void Combiner::fill_identity(void* out, std::int64_t n) const {
  std::array<char, 16> one{};
  float value = reduction_ == ir::Reduction::Prod ? 1 : 0;
  kernels::ew_find(EwOp::Convert, DType::F32, dtype_)(&value, nullptr, nullptr, one.data(), 1);
  kernels::fill(out, one.data(), dtype_size(dtype_), n);
}

}  // namespace tessera::cpu
