// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/kernels/products/gemm.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <utility>

#include "base/check.h"
#include "base/raw_memory.h"
#include "base/thread_pool.h"
#include "engines/cpu/kernels/copy_kernels.h"
#include "engines/cpu/kernels/elementwise/elementwise_kernels.h"
#include "engines/cpu/kernels/fixed_order.h"
#include "engines/cpu/kernels/products/gemm_leaf.h"
#include "engines/cpu/kernels/products/gemm_small.h"

namespace tessera::kernels {

namespace {

// Multiply-adds that are worth waking a thread for: some 20 microseconds.
constexpr double kProductGrain = 1 << 20;
constexpr std::int64_t kConversionGrain = 32 << 10;  // elements, likewise

struct Problem {
  GemmShape shape;
  std::int64_t batch;
  const std::byte *a, *b;
  std::byte* c;
  std::int64_t stride_a, stride_b, stride_c;
  std::int64_t in_size, out_size;
  bool fixed_order = false;
  bool add = false;
};

using Leaf = std::function<void(const GemmShape&, const void*, const void*, void*)>;

// Into how many strips of rows and of columns one product is cut so that `tasks` threads have work: strips as square
// as can be, multiples of the libraries' register blocks.
std::array<std::int64_t, 2> cut(std::int64_t m, std::int64_t n, std::int64_t tasks) {
  std::int64_t rows = 1, cols = 1;
  while (rows * cols < tasks) {
    std::int64_t r = m / rows, c = n / cols;
    if (r >= c && r >= 96) {
      rows *= 2;
    } else if (c >= 96) {
      cols *= 2;
    } else {
      break;
    }
  }
  return {rows, cols};
}

std::int64_t strip(std::int64_t extent, std::int64_t chunks, std::int64_t multiple) {
  std::int64_t size = (extent + chunks - 1) / chunks;
  return std::max<std::int64_t>(1, (size + multiple - 1) / multiple * multiple);
}

// Rows of a tall product with a small right side: what libraries bring in order of the left one, and the result, stay
// in a core's cache.
std::int64_t cached_rows(const Problem& p, std::int64_t rows) {
  constexpr std::int64_t kRight = 256 << 10, kCache = 1 << 20, kLeast = 256;
  const GemmShape& s = p.shape;
  if (s.k > kRight || s.k * s.n * p.in_size > kRight) return rows;
  return std::min(rows, std::max(kLeast, kCache / (s.k * p.in_size + s.n * p.out_size) / 16 * 16));
}

void run(const Problem& p, const Leaf& leaf) {
  const GemmShape& s = p.shape;
  double each = static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
  double work = each * static_cast<double>(p.batch);
  const int threads = base::team_size();
  std::int64_t want = 1;
  if (threads > 1 && work > kProductGrain && p.batch < 4 * threads) {
    // Of many threads one is late: the others take its second strip. Of few, larger strips are worth more.
    constexpr int kMany = 8;
    const std::int64_t strips = std::int64_t{threads >= kMany ? 2 : 1} * threads;
    auto most = static_cast<std::int64_t>(each / kProductGrain) + 1;
    want = std::min<std::int64_t>(most, (strips + p.batch - 1) / p.batch);
  }
  auto [chunks_m, chunks_n] = cut(s.m, s.n, want);
  std::int64_t rows = cached_rows(p, strip(s.m, chunks_m, 16)), cols = strip(s.n, chunks_n, 48);
  std::int64_t down = (s.m + rows - 1) / rows, across = (s.n + cols - 1) / cols;
  auto tasks = p.batch * down * across;
  auto grain = static_cast<std::int64_t>(kProductGrain * static_cast<double>(tasks) / (work + 1)) + 1;
  base::parallel_for(tasks, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t u = begin; u < end; ++u) {
      std::int64_t i = u / (down * across), row = u / across % down * rows, col = u % across * cols;
      GemmShape t = s;
      t.m = std::min(rows, s.m - row);
      t.n = std::min(cols, s.n - col);
      std::int64_t a = i * p.stride_a + (s.trans_a ? row : row * s.lda);
      std::int64_t b = i * p.stride_b + (s.trans_b ? col * s.ldb : col);
      leaf(t, p.a + a * p.in_size, p.b + b * p.in_size, p.c + (i * p.stride_c + row * s.ldc + col) * p.out_size);
    }
  });
}

// One operand of all batch items in another dtype, and without gaps.
struct Converted {
  base::RawMemory memory;
  bool transposed = false;
  std::int64_t ld = 0, stride = 0;
};

// `rows` x `cols` as the product sees it. Integers' products know no transposed operands: these are turned first.
Converted converted(const std::byte* from, DType in, DType to, bool transposed, std::int64_t batch, std::int64_t rows,
                    std::int64_t cols, std::int64_t ld, std::int64_t stride) {
  const std::int64_t size = dtype_size(in), n = rows * cols;
  base::RawMemory turned;
  if (transposed && is_integer(to)) {
    turned = base::raw_memory(batch * n * size);
    const std::array<std::int64_t, 3> shape = {batch, rows, cols}, dst = {n * size, cols * size, size},
                                      src = {stride * size, size, ld * size};
    copy_strided(turned.get(), dst, from, src, shape, size);
    if (in == to) return {std::move(turned), false, cols, n};
    from = turned.get();
    stride = n;
    ld = cols;
    transposed = false;
  }
  if (transposed) std::swap(rows, cols);
  Converted out{base::raw_memory(batch * n * dtype_size(to)), transposed, cols, n};
  const EwFn convert = ew_find(EwOp::Convert, in, to);
  if (ld == cols && (batch == 1 || stride == n)) {  // short rows are not worth a call each
    base::parallel_for(batch * n, kConversionGrain, [&](std::int64_t begin, std::int64_t end) {
      convert(from + begin * size, nullptr, nullptr, out.memory.get() + begin * dtype_size(to), end - begin);
    });
    return out;
  }
  base::parallel_for(batch * rows, std::max<std::int64_t>(1, kConversionGrain / cols),
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t r = begin; r < end; ++r) {
                         convert(from + (r / rows * stride + r % rows * ld) * size, nullptr, nullptr,
                                 out.memory.get() + r * cols * dtype_size(to), cols);
                       }
                     });
  return out;
}

// The dtype in which products that end as `out` are summed.
DType sum_dtype(DType out) {
  if (out == DType::F16 || out == DType::BF16) return DType::F32;
  return out == DType::Bool ? DType::I32 : out;
}

void run_small(DType t, const Problem& p) {
  constexpr double kGrainNanoseconds = 20000;
  const auto grain = static_cast<std::int64_t>(kGrainNanoseconds / small_cost(t, p.shape)) + 1;
  base::parallel_for(p.batch, grain, [&](std::int64_t begin, std::int64_t end) {
    gemm_small(t, p.shape, {end - begin, p.stride_a, p.stride_b, p.stride_c}, p.a + begin * p.stride_a * p.in_size,
               p.b + begin * p.stride_b * p.in_size, p.c + begin * p.stride_c * p.out_size, p.add);
  });
}

// A matrix whose columns are in order times a vector, as that vector times a matrix whose rows are: in small products
// the lanes of a register are columns.
Problem as_row(Problem p) {
  const GemmShape s = p.shape;
  p.shape = {!s.trans_b, !s.trans_a, s.n, s.m, s.k, s.ldb, s.lda, s.m};
  std::swap(p.a, p.b);
  std::swap(p.stride_a, p.stride_b);
  return p;
}

void multiply(DType t, Problem p) {
  const GemmShape& s = p.shape;
  if (s.n == 1 && s.m > 1 && s.trans_a && s.ldc == 1) {
    const Problem row = as_row(p);
    if (suits_small(t, row.shape) && small_cost(t, row.shape) < small_cost(t, s)) p = row;
  }
  if (p.fixed_order && is_inexact(t)) {
    run(p, [t](const GemmShape& s, const void* a, const void* b, void* c) { gemm_fixed(t, s, a, b, c); });
  } else if (suits_small(t, p.shape)) {
    run_small(t, p);
  } else if (t == DType::F32) {
    run(p, [add = p.add](const GemmShape& s, const void* a, const void* b, void* c) { gemm_f32(s, a, b, c, add); });
  } else if (is_integer(t)) {
    run(p, [t](const GemmShape& s, const void* a, const void* b, void* c) { gemm_integer(t, s, a, b, c); });
  } else {
    run(p, [t](const GemmShape& s, const void* a, const void* b, void* c) { gemm_blas(t, s, a, b, c); });
  }
}

// Operands converted to the dtype of the sums, the product there, the result converted back.
void multiply_converted(DType in, DType out, DType sum, Problem p) {
  const GemmShape& s = p.shape;
  // A matrix that all batch items share is converted once.
  std::int64_t batch_a = p.stride_a == 0 ? 1 : p.batch, batch_b = p.stride_b == 0 ? 1 : p.batch;
  const Converted a = converted(p.a, in, sum, s.trans_a, batch_a, s.m, s.k, s.lda, p.stride_a);
  const Converted b = converted(p.b, in, sum, s.trans_b, batch_b, s.k, s.n, s.ldb, p.stride_b);
  std::int64_t size = dtype_size(sum), out_size = dtype_size(out);
  bool direct = sum == out;
  const base::RawMemory sums = base::raw_memory(direct ? 0 : p.batch * s.m * s.n * size);
  Problem q = p;
  q.shape = {a.transposed, b.transposed, s.m, s.n, s.k, a.ld, b.ld, direct ? s.ldc : s.n};
  q.a = a.memory.get();
  q.b = b.memory.get();
  q.c = direct ? p.c : sums.get();
  q.stride_a = batch_a == 1 ? 0 : a.stride;
  q.stride_b = batch_b == 1 ? 0 : b.stride;
  q.stride_c = direct ? p.stride_c : s.m * s.n;
  q.in_size = q.out_size = size;
  multiply(sum, q);
  if (direct) return;
  EwFn convert = ew_find(EwOp::Convert, sum, out);
  base::parallel_for(p.batch * s.m, std::max<std::int64_t>(1, kConversionGrain / s.n),
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t r = begin; r < end; ++r) {
                         convert(sums.get() + r * s.n * size, nullptr, nullptr,
                                 p.c + (r / s.m * p.stride_c + r % s.m * s.ldc) * out_size, s.n);
                       }
                     });
}

}  // namespace

void gemm(DType in, DType out, bool trans_a, bool trans_b, std::int64_t batch, std::int64_t m, std::int64_t n,
          std::int64_t k, const void* a, std::int64_t lda, std::int64_t stride_a, const void* b, std::int64_t ldb,
          std::int64_t stride_b, void* c, std::int64_t ldc, std::int64_t stride_c, bool fixed_order, bool add) {
  TESSERA_CHECK(!add || (in == DType::F32 && out == DType::F32 && !fixed_order), "gemm: no such sum of products");
  if (batch <= 0 || m <= 0 || n <= 0) return;
  std::int64_t in_size = dtype_size(in), out_size = dtype_size(out);
  if (k <= 0) {
    if (add) return;
    std::array<std::int64_t, 3> shape = {batch, m, n}, dst = {stride_c * out_size, ldc * out_size, out_size}, src = {};
    std::array<std::byte, 16> zero = {};
    return copy_strided(c, dst, zero.data(), src, shape, out_size);
  }
  // A single row or column may come with any leading dimension; libraries insist on one that covers the row.
  lda = std::max(lda, trans_a ? m : k);
  ldb = std::max(ldb, trans_b ? k : n);
  ldc = std::max(ldc, n);
  Problem p{{trans_a, trans_b, m, n, k, lda, ldb, ldc},
            batch,
            static_cast<const std::byte*>(a),
            static_cast<const std::byte*>(b),
            static_cast<std::byte*>(c),
            stride_a,
            stride_b,
            stride_c,
            in_size,
            out_size,
            fixed_order,
            add};
  DType sum = sum_dtype(out);
  if (!fixed_order && in == DType::BF16 && (out == DType::BF16 || out == DType::F32) && has_fast_bf16()) {
    return run(p, [out](const GemmShape& s, const void* x, const void* y, void* z) { gemm_bf16(s, out, x, y, z); });
  }
  if (in == DType::I8 && out == DType::I32 && has_fast_int8()) {
    return run(p, [](const GemmShape& s, const void* x, const void* y, void* z) { gemm_int8(s, x, y, z); });
  }
  if (in == out && in == sum && !is_integer(in)) return multiply(in, p);
  if (in == out && in == sum && !trans_a && !trans_b) return multiply(in, p);
  multiply_converted(in, out, sum, p);
}

}  // namespace tessera::kernels
