// SPDX-License-Identifier: Apache-2.0
// dot_general as matrix products. Operands are read where they lie as long as their free and their contracted
// dimensions each step evenly through memory; others are brought in order first.
#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "engines/cpu/kernel_table.h"
#include "engines/cpu/kernels/copy.h"
#include "engines/cpu/kernels/gemm.h"
#include "ops/attrs.h"

namespace tessera::cpu {

namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// Dimensions that act as one: `size` steps of `stride` elements.
struct Run {
  std::int64_t size = 1;
  std::int64_t stride = 1;
};

struct Side {
  Shape shape;
  Dims strides;
  Dims batch, free, contract;

  Side(const Shape& s, Dims batch_dims, Dims contract_dims)
      : shape(s), strides(s.size()), batch(std::move(batch_dims)), contract(std::move(contract_dims)) {
    std::int64_t n = 1;
    for (std::size_t d = s.size(); d-- > 0;) {
      strides[d] = n;
      n *= s[d];
    }
    for (std::int64_t d = 0; d < static_cast<std::int64_t>(s.size()); ++d) {
      auto is = [&](const Dims& v) { return std::find(v.begin(), v.end(), d) != v.end(); };
      if (!is(batch) && !is(contract)) free.push_back(d);
    }
  }

  // True when the dimensions step evenly; `run` is then the one dimension that they form.
  bool merge(const Dims& dims, Run& run) const {
    run = {};
    for (std::size_t i = dims.size(); i-- > 0;) {
      auto d = at(dims[i]);
      if (shape[d] == 1) continue;
      if (run.size == 1) {
        run = {shape[d], strides[d]};
      } else if (strides[d] == run.size * run.stride) {
        run.size *= shape[d];
      } else {
        return false;
      }
    }
    return true;
  }
};

// How one operand goes to the product.
struct Matrix {
  bool transposed = false;
  std::int64_t ld = 1;
  Dims batch_strides;  // one a batch dimension, in elements
  bool copied = false;
  Dims order;  // of dimensions in the copy
};

std::int64_t extent(const Side& s, const Dims& dims) {
  std::int64_t n = 1;
  for (auto d : dims) n *= s.shape[at(d)];
  return n;
}

// `rows_free`: the left operand has its free dimensions as rows, the right one its contracted ones.
Matrix matrix(const Side& s, bool rows_free) {
  Matrix m;
  const Dims& row_dims = rows_free ? s.free : s.contract;
  const Dims& col_dims = rows_free ? s.contract : s.free;
  Run rows;
  Run cols;
  bool regular = s.merge(row_dims, rows) && s.merge(col_dims, cols);
  if (regular && (cols.stride == 1 || cols.size == 1) && (rows.size == 1 || rows.stride >= cols.size)) {
    m.ld = rows.size == 1 ? std::max<std::int64_t>(cols.size, 1) : rows.stride;
  } else if (regular && (rows.stride == 1 || rows.size == 1) && (cols.size == 1 || cols.stride >= rows.size)) {
    m.transposed = true;
    m.ld = cols.size == 1 ? std::max<std::int64_t>(rows.size, 1) : cols.stride;
  } else {
    m.copied = true;
    m.order = s.batch;
    m.order.insert(m.order.end(), row_dims.begin(), row_dims.end());
    m.order.insert(m.order.end(), col_dims.begin(), col_dims.end());
    m.ld = std::max<std::int64_t>(extent(s, col_dims), 1);
  }
  std::int64_t step = extent(s, s.free) * extent(s, s.contract);
  m.batch_strides.resize(s.batch.size());
  for (std::size_t i = s.batch.size(); i-- > 0;) {
    m.batch_strides[i] = m.copied ? step : s.strides[at(s.batch[i])];
    step *= s.shape[at(s.batch[i])];
  }
  return m;
}

// The operand with its dimensions in another order.
struct Reorder {
  Shape shape;
  Dims from;
  Dims to;
  std::int64_t itemsize = 0;
  std::int64_t bytes = 0;

  Reorder(const Side& s, const Matrix& m, DType t) : itemsize(dtype_size(t)) {
    for (auto d : m.order) {
      shape.push_back(s.shape[at(d)]);
      from.push_back(s.strides[at(d)] * itemsize);
    }
    to.resize(shape.size());
    bytes = itemsize;
    for (std::size_t d = shape.size(); d-- > 0;) {
      to[d] = bytes;
      bytes *= shape[d];
    }
  }
};

struct Plan {
  DType in, out;
  std::int64_t m = 1, n = 1, k = 1;
  Matrix a, b;
  std::vector<Reorder> reorder_a, reorder_b;  // none or one
  Dims batch;                                 // extents of the batch dimensions

  // The innermost batch dimensions that step evenly in both operands go to one call.
  std::int64_t inner = 1;
  std::int64_t stride_a = 0;
  std::int64_t stride_b = 0;
  std::size_t outer_dims = 0;

  void split_batch() {
    outer_dims = batch.size();
    while (outer_dims > 0) {
      std::size_t d = outer_dims - 1;
      if (batch[d] != 1) {
        if (inner == 1) {
          stride_a = a.batch_strides[d];
          stride_b = b.batch_strides[d];
        } else if (a.batch_strides[d] != stride_a * inner || b.batch_strides[d] != stride_b * inner) {
          break;
        }
        inner *= batch[d];
      }
      --outer_dims;
    }
  }

  void run(const void* lhs, const void* rhs, void* result) const {
    std::unique_ptr<char[]> copy_a;
    std::unique_ptr<char[]> copy_b;
    lhs = ordered(reorder_a, lhs, copy_a);
    rhs = ordered(reorder_b, rhs, copy_b);
    std::int64_t in_size = dtype_size(in);
    std::int64_t out_size = dtype_size(out);
    std::int64_t calls = 1;
    for (std::size_t d = 0; d < outer_dims; ++d) calls *= batch[d];
    for (std::int64_t c = 0; c < calls; ++c) {
      std::int64_t at_a = 0;
      std::int64_t at_b = 0;
      std::int64_t rest = c;
      for (std::size_t d = outer_dims; d-- > 0;) {
        at_a += rest % batch[d] * a.batch_strides[d];
        at_b += rest % batch[d] * b.batch_strides[d];
        rest /= batch[d];
      }
      kernels::gemm(in, out, a.transposed, b.transposed, inner, m, n, k, static_cast<const char*>(lhs) + at_a * in_size,
                    a.ld, stride_a, static_cast<const char*>(rhs) + at_b * in_size, b.ld, stride_b,
                    static_cast<char*>(result) + c * inner * m * n * out_size, std::max<std::int64_t>(n, 1), m * n);
    }
  }

  static const void* ordered(const std::vector<Reorder>& reorder, const void* data, std::unique_ptr<char[]>& memory) {
    if (reorder.empty()) return data;
    const Reorder& r = reorder[0];
    memory.reset(new char[at(r.bytes)]);
    kernels::copy_strided(memory.get(), r.to, data, r.from, r.shape, r.itemsize);
    return memory.get();
  }
};

// Contracted pairs may come in any order: that of the left operand's memory merges best.
void sort_pairs(Dims& lhs, Dims& rhs) {
  std::vector<std::size_t> order(lhs.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::size_t i, std::size_t j) { return lhs[i] < lhs[j]; });
  Dims l;
  Dims r;
  for (auto i : order) {
    l.push_back(lhs[i]);
    r.push_back(rhs[i]);
  }
  lhs = std::move(l);
  rhs = std::move(r);
}

double flops_per_nanosecond(DType t) {
  if (t == DType::F32) return 90;
  if (t == DType::BF16) return 150;
  return is_integer(t) || is_bool(t) ? 1 : 10;
}

Kernel make(const Request& r) {
  ops::DotGeneral p = ir::get<ops::DotGeneral>(r.attrs);
  sort_pairs(p.lhs_contracting, p.rhs_contracting);
  Side lhs(r.in[0].shape, p.lhs_batch, p.lhs_contracting);
  Side rhs(r.in[1].shape, p.rhs_batch, p.rhs_contracting);
  auto plan = std::make_shared<Plan>();
  plan->in = r.in[0].dtype;
  plan->out = r.out[0].dtype;
  plan->m = extent(lhs, lhs.free);
  plan->n = extent(rhs, rhs.free);
  plan->k = extent(lhs, lhs.contract);
  plan->a = matrix(lhs, true);
  plan->b = matrix(rhs, false);
  if (plan->a.copied) plan->reorder_a.emplace_back(lhs, plan->a, plan->in);
  if (plan->b.copied) plan->reorder_b.emplace_back(rhs, plan->b, plan->in);
  for (auto d : lhs.batch) plan->batch.push_back(lhs.shape[at(d)]);
  plan->split_batch();
  Kernel k;
  double work = 2.0 * static_cast<double>(r.out[0].size()) * static_cast<double>(plan->k);
  k.cost = 200 + work / flops_per_nanosecond(plan->in);
  k.run = [plan](const void* const* in, void* const* out) { plan->run(in[0], in[1], out[0]); };
  return k;
}

}  // namespace

void add_dot_kernels(KernelTable& table) { table.add("dot_general", make); }

}  // namespace tessera::cpu
