// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/kernels/gather_rows.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "base/strings.h"
#include "base/thread_pool.h"
#include "core/stream_copy.h"
#include "engines/cpu/kernels/elementwise/elementwise_kernels.h"
#include "tessera/error.h"

namespace tessera::kernels {

namespace {

constexpr std::int64_t kRowGrain = 128 << 10;
constexpr std::int64_t kStreamedRows = 8 << 20;

// Rows lie anywhere, so they are asked for before they are needed: as many as hide the way to memory, and of each its
// beginning, after which the processor sees the rest coming.
constexpr std::int64_t kAheadBytes = 8 << 10;
constexpr std::int64_t kMostRowsAhead = 32;
constexpr std::int64_t kBeginning = 1 << 10;

// Row of the table for an index, -1 for none.
template <class I>
std::int64_t resolve(I index, std::int64_t rows, OutOfRange mode) {
  bool negative = index < I{0};
  // Compared unsigned, so that 64-bit indices beyond int64 are high.
  bool high = !negative && static_cast<std::uint64_t>(index) >= static_cast<std::uint64_t>(rows);
  if (!negative && !high) return static_cast<std::int64_t>(index);
  if (mode == OutOfRange::Skip || rows == 0) return -1;
  return negative ? 0 : rows - 1;
}

template <class F>
auto with_index_type(const char* function, DType index_dtype, const void* indices, const F& f) {
  switch (index_dtype) {
    case DType::I32:
      return f(static_cast<const std::int32_t*>(indices));
    case DType::I64:
      return f(static_cast<const std::int64_t*>(indices));
    case DType::U32:
      return f(static_cast<const std::uint32_t*>(indices));
    case DType::U64:
      return f(static_cast<const std::uint64_t*>(indices));
    default:
      break;
  }
  throw TypeError(
      str(function, ": index_dtype = ", dtype_name(index_dtype), "; expected int32, int64, uint32 or uint64"));
}

}  // namespace

void gather_rows(const void* table, std::int64_t table_rows, std::int64_t row_bytes, DType index_dtype,
                 const void* indices, std::int64_t n, OutOfRange mode, const void* fill, void* out) {
  const auto* from = static_cast<const std::byte*>(table);
  auto* to = static_cast<std::byte*>(out);
  auto bytes = static_cast<std::size_t>(row_bytes);
  bool stream = row_bytes >= 256 && n * row_bytes >= kStreamedRows;
  std::int64_t ahead = std::clamp<std::int64_t>(kAheadBytes / std::max<std::int64_t>(row_bytes, 1), 2, kMostRowsAhead);
  std::int64_t beginning = std::min(row_bytes, kBeginning);
  with_index_type("gather_rows", index_dtype, indices, [&](const auto* index) {
    auto copy = [&](std::int64_t i) {
      std::int64_t row = resolve(index[i], table_rows, mode);
      std::byte* target = to + i * row_bytes;
      if (row < 0) {
        if (fill) {
          std::memcpy(target, fill, bytes);
        } else {
          std::memset(target, 0, bytes);
        }
      } else if (row_bytes == 4) {
        std::memcpy(target, from + row * 4, 4);
      } else if (stream) {
        core::copy_streaming(target, from + row * row_bytes, row_bytes);
      } else {
        std::memcpy(target, from + row * row_bytes, bytes);
      }
    };
    std::int64_t grain = std::max<std::int64_t>(1, kRowGrain / std::max<std::int64_t>(row_bytes, 8));
    base::parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        if (i + ahead < end) {
          std::int64_t next = resolve(index[i + ahead], table_rows, mode);
          if (next >= 0) {
            for (std::int64_t b = 0; b < beginning; b += 64) __builtin_prefetch(from + next * row_bytes + b);
          }
        }
        copy(i);
      }
      if (stream) core::finish_streaming();
    });
  });
}

void scatter_rows(ScatterOp op, DType dtype, void* table, std::int64_t table_rows, std::int64_t row_size,
                  DType index_dtype, const void* indices, std::int64_t n, OutOfRange mode, const void* updates) {
  static constexpr EwOp kOps[] = {EwOp::Convert, EwOp::Add, EwOp::Mul, EwOp::Max, EwOp::Min};
  EwFn fn = ew_find(kOps[static_cast<std::size_t>(op)], dtype, dtype);
  if (!fn) {
    throw UnimplementedError(str("scatter_rows: dtype = ", dtype_name(dtype), " with operation ", static_cast<int>(op),
                                 "; expected a dtype that has it"));
  }
  std::int64_t size = dtype_size(dtype);
  auto* to = static_cast<std::byte*>(table);
  const auto* from = static_cast<const std::byte*>(updates);
  with_index_type("scatter_rows", index_dtype, indices, [&](const auto* index) {
    auto part = [&](std::int64_t i, std::int64_t row, std::int64_t column, std::int64_t columns) {
      std::byte* target = to + (row * row_size + column) * size;
      const std::byte* update = from + (i * row_size + column) * size;
      if (op == ScatterOp::Set) {
        std::memcpy(target, update, static_cast<std::size_t>(columns * size));
      } else {
        fn(target, update, nullptr, target, columns);
      }
    };
    if (n * row_size * size < 2 * kRowGrain || table_rows < 2 * base::num_threads()) {
      // Few rows: threads share columns, so each element still sees its updates in order.
      base::parallel_for(row_size, std::max<std::int64_t>(64, kRowGrain / std::max<std::int64_t>(n * size, 1)),
                         [&](std::int64_t begin, std::int64_t end) {
                           for (std::int64_t i = 0; i < n; ++i) {
                             std::int64_t row = resolve(index[i], table_rows, mode);
                             if (row >= 0) part(i, row, begin, end - begin);
                           }
                         });
      return;
    }
    // Each task owns a range of the table's rows and takes the updates that fall into it, in order.
    std::int64_t owners = 2 * base::num_threads();
    std::int64_t share = (table_rows + owners - 1) / owners;
    base::parallel_for(owners, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = 0; i < n; ++i) {
        std::int64_t row = resolve(index[i], table_rows, mode);
        if (row >= begin * share && row < end * share) part(i, row, 0, row_size);
      }
    });
  });
}

}  // namespace tessera::kernels
