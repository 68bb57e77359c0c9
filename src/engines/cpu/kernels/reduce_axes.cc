// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/kernels/reduce_axes.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <vector>

#include "base/strings.h"
#include "base/thread_pool.h"
#include "core/with_type.h"
#include "engines/cpu/kernels/copy_kernels.h"
#include "engines/cpu/kernels/elementwise/elementwise_kernels.h"
#include "engines/cpu/kernels/reduce_kernels.h"
#include "tessera/error.h"

namespace tessera::kernels {

namespace {

constexpr std::int64_t kReduceGrain = 32 << 10;  // elements
constexpr std::int64_t kChunk = 64 << 10;        // elements of a long row that one task adds up
constexpr std::int64_t kColumns = 2048;          // columns whose accumulators stay in L1
constexpr std::int64_t kRowsPerPartial = 512;    // rows added into one accumulator before it is put aside

struct Job {
  ReduceFns fns;
  ReduceFns total;  // over accumulators
  ReduceOp op;
  DType acc;
  std::int64_t in_size, acc_size;
};

std::vector<std::byte> identities(const Job& job, std::int64_t n) {
  std::vector<std::byte> buffer(static_cast<std::size_t>(n * job.acc_size));
  alignas(16) std::byte one[16];
  reduce_identity(job.op, job.acc, one);
  fill(buffer.data(), one, job.acc_size, n);
  return buffer;
}

// inner == 1: each row is contiguous.
void reduce_rows(const Job& job, const std::byte* in, std::byte* out, std::int64_t outer, std::int64_t red) {
  bool few = outer < 2 * base::num_threads() && red >= 2 * kChunk;
  if (!few) {
    base::parallel_for(outer, std::max<std::int64_t>(1, kReduceGrain / red), [&](std::int64_t begin, std::int64_t end) {
      job.fns.row(in + begin * red * job.in_size, out + begin * job.acc_size, end - begin, red);
    });
    return;
  }
  std::int64_t chunks = (red + kChunk - 1) / kChunk;
  std::vector<std::byte> partial(static_cast<std::size_t>(outer * chunks * job.acc_size));
  base::parallel_for(outer * chunks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t u = begin; u < end; ++u) {
      std::int64_t at = (u % chunks) * kChunk;
      job.fns.row(in + (u / chunks * red + at) * job.in_size, partial.data() + u * job.acc_size, 1,
                  std::min(kChunk, red - at));
    }
  });
  job.total.row(partial.data(), out, outer, chunks);
}

// One block of columns over `rows` rows into `acc`, which holds the identity.
void reduce_block(const Job& job, const std::byte* in, std::byte* acc, std::int64_t rows, std::int64_t cols,
                  std::int64_t stride) {
  if (rows <= kRowsPerPartial) return job.fns.col(acc, in, rows, cols, stride);
  // Two levels of adding keep the error of a long column small.
  for (std::int64_t r = 0; r < rows; r += kRowsPerPartial) {
    auto part = identities(job, cols);
    job.fns.col(part.data(), in + r * stride * job.in_size, std::min(kRowsPerPartial, rows - r), cols, stride);
    job.total.col(acc, part.data(), 1, cols, cols);
  }
}

void reduce_columns(const Job& job, const std::byte* in, std::byte* out, std::int64_t outer, std::int64_t red,
                    std::int64_t inner) {
  std::int64_t blocks = (inner + kColumns - 1) / kColumns;
  // Few columns: the rows are shared out too, in chunks of a size that depends on the shape alone.
  std::int64_t rows = std::max<std::int64_t>(kRowsPerPartial, kChunk / std::min(inner, kColumns));
  std::int64_t chunks = outer * blocks >= 16 ? 1 : (red + rows - 1) / rows;
  if (chunks == 1) rows = red;
  auto partial = identities(job, outer * chunks * inner);
  std::int64_t work = std::max<std::int64_t>(1, rows * std::min(inner, kColumns));
  base::parallel_for(outer * chunks * blocks, std::max<std::int64_t>(1, kReduceGrain / work),
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t u = begin; u < end; ++u) {
                         std::int64_t column = (u % blocks) * kColumns;
                         std::int64_t row = (u / blocks % chunks) * rows;
                         std::int64_t o = u / blocks / chunks;
                         reduce_block(job, in + ((o * red + row) * inner + column) * job.in_size,
                                      partial.data() + ((o * chunks + row / rows) * inner + column) * job.acc_size,
                                      std::min(rows, red - row), std::min(kColumns, inner - column), inner);
                       }
                     });
  if (chunks == 1) {
    std::memcpy(out, partial.data(), partial.size());
    return;
  }
  auto totals = identities(job, outer * inner);
  for (std::int64_t o = 0; o < outer; ++o) {
    job.total.col(totals.data() + o * inner * job.acc_size, partial.data() + o * chunks * inner * job.acc_size, chunks,
                  inner, inner);
  }
  std::memcpy(out, totals.data(), totals.size());
}

// A narrow inner dim would leave vectors nearly empty: `fold` rows at a time count as one row, then those are reduced.
void reduce_narrow(const Job& job, const std::byte* in, std::byte* out, std::int64_t outer, std::int64_t red,
                   std::int64_t inner) {
  std::int64_t fold = 256 / inner;
  std::int64_t wide = red / fold, rest = red - wide * fold;
  std::vector<std::byte> folded(static_cast<std::size_t>(outer * fold * inner * job.acc_size));
  Job whole = job;
  for (std::int64_t o = 0; o < outer; ++o) {
    const std::byte* from = in + o * red * inner * job.in_size;
    std::byte* part = folded.data() + o * fold * inner * job.acc_size;
    reduce_columns(whole, from, part, 1, wide, fold * inner);
    auto acc = identities(job, inner);
    job.total.col(acc.data(), part, fold, inner, inner);
    job.fns.col(acc.data(), from + wide * fold * inner * job.in_size, rest, inner, inner);
    std::memcpy(out + o * inner * job.acc_size, acc.data(), acc.size());
  }
}

template <class T>
void extreme_identity(ReduceOp op, void* out) {
  using L = std::numeric_limits<T>;
  T v = op == ReduceOp::Max ? (L::has_infinity ? -L::infinity() : L::lowest())
                            : (L::has_infinity ? L::infinity() : L::max());
  std::memcpy(out, &v, sizeof v);
}

}  // namespace

void reduce_identity(ReduceOp op, DType dtype, void* out) {
  auto size = static_cast<std::size_t>(dtype_size(dtype));
  if (dtype == DType::Bool) {
    *static_cast<std::uint8_t*>(out) = op == ReduceOp::Prod || op == ReduceOp::Min || op == ReduceOp::And;
    return;
  }
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::Or:
      std::memset(out, 0, size);
      return;
    case ReduceOp::And:
      std::memset(out, 0xff, size);
      return;
    case ReduceOp::Prod: {
      std::uint8_t one = 1;
      ew_find(EwOp::Convert, DType::U8, dtype)(&one, nullptr, nullptr, out, 1);
      return;
    }
    default:
      break;
  }
  core::with_type(dtype, [&]<class T>() {
    if constexpr (std::is_arithmetic_v<T>) {
      extreme_identity<T>(op, out);
    } else {
      float infinity;
      extreme_identity<float>(op, &infinity);
      ew_find(EwOp::Convert, DType::F32, dtype)(&infinity, nullptr, nullptr, out, 1);
    }
  });
}

void reduce(ReduceOp op, DType dtype, const void* in, void* out, std::int64_t outer, std::int64_t red,
            std::int64_t inner) {
  Job job{find_reduce(op, dtype), {}, op, accumulator_dtype(dtype), dtype_size(dtype), 0};
  job.total = find_reduce(op, job.acc);
  job.acc_size = dtype_size(job.acc);
  if (!job.fns.row) {
    throw UnimplementedError(str("reduce: dtype = ", dtype_name(dtype), " with operation ", static_cast<int>(op),
                                 "; expected a dtype that has it"));
  }
  if (outer * inner == 0) return;
  if (red == 0) {
    alignas(16) std::byte one[16];
    reduce_identity(op, dtype, one);
    return fill(out, one, job.in_size, outer * inner);
  }
  const auto* from = static_cast<const std::byte*>(in);
  auto* to = static_cast<std::byte*>(out);
  std::vector<std::byte> wide;
  if (job.acc != dtype) {
    wide.resize(static_cast<std::size_t>(outer * inner * job.acc_size));
    to = wide.data();
  }
  if (inner == 1) {
    reduce_rows(job, from, to, outer, red);
  } else if (inner < 64 && red >= 16 * (256 / inner)) {
    reduce_narrow(job, from, to, outer, red, inner);
  } else {
    reduce_columns(job, from, to, outer, red, inner);
  }
  if (job.acc != dtype) ew_find(EwOp::Convert, job.acc, dtype)(to, nullptr, nullptr, out, outer * inner);
}

}  // namespace tessera::kernels
