// SPDX-License-Identifier: Apache-2.0
// dot_general as matrix products. Operands are read where they lie as long as their free and their contracted
// dimensions each step evenly through memory; others are brought in order first.
#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <tuple>
#include <vector>

#include "core/strided_copy.h"
#include "engines/cpu/adapters/kernel_table.h"
#include "engines/cpu/kernels/copy_kernels.h"
#include "engines/cpu/kernels/products/gemm.h"
#include "engines/cpu/passes/engine_products.h"
#include "ops/define_op.h"
#include "ops/linalg/dot.h"
#include "ops/shared_attrs.h"

namespace tessera::cpu {

namespace {

// Dimensions that act as one: `size` steps of `stride` elements.
struct Stretch {
  std::int64_t size = 1;
  std::int64_t stride = 1;
};

// True when the dimensions step evenly through memory; `run` is then the one dimension that they form.
bool merge(const Shape& shape, const Dims& strides, const Dims& dims, Stretch& run) {
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

struct Side {
  Shape shape;
  Dims strides;
  Dims batch, free, contract;
  std::int64_t offset = 0;  // of the section that it is

  Side(const Shape& s, Dims batch_dims, Dims contract_dims, const Dims& section)
      : shape(s),
        strides(core::contiguous_strides(s, 1)),
        batch(std::move(batch_dims)),
        contract(std::move(contract_dims)) {
    if (!section.empty()) {
      offset = section[1] * strides[at(section[0])];
      shape.erase(shape.begin() + section[0]);
      strides.erase(strides.begin() + section[0]);
    }
    free = ops::free_dims(static_cast<std::int64_t>(shape.size()), contract, batch);
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
  Stretch rows;
  Stretch cols;
  bool regular = merge(s.shape, s.strides, row_dims, rows) && merge(s.shape, s.strides, col_dims, cols);
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

// Where the product goes: strides of rows and of batch dimensions; columns are contiguous.
struct Target {
  std::int64_t ld = 1;
  Dims batch_strides;
  std::int64_t offset = 0;
};

// One of several sections of a result.
struct ResultSection {
  std::int64_t dimension = 0, count = 1, index = 0;
};

struct Plan {
  DType in, out;
  bool fixed_order = false;
  bool swapped = false;  // the transposed product, of the operands in the other order
  std::int64_t m = 1, n = 1, k = 1;
  std::int64_t offset_a = 0, offset_b = 0, offset_c = 0;
  Matrix a, b;
  std::vector<Reorder> reorder_a, reorder_b;  // none or one
  Target c;
  Dims batch;  // extents of the batch dimensions

  // The innermost batch dimensions that step evenly in operands and result go to one call.
  std::int64_t inner = 1;
  std::int64_t stride_a = 0;
  std::int64_t stride_b = 0;
  std::int64_t stride_c = 0;
  std::size_t outer_dims = 0;

  void split_batch() {
    outer_dims = batch.size();
    while (outer_dims > 0) {
      std::size_t d = outer_dims - 1;
      if (batch[d] != 1) {
        if (inner == 1) {
          stride_a = a.batch_strides[d];
          stride_b = b.batch_strides[d];
          stride_c = c.batch_strides[d];
        } else if (a.batch_strides[d] != stride_a * inner || b.batch_strides[d] != stride_b * inner ||
                   c.batch_strides[d] != stride_c * inner) {
          break;
        }
        inner *= batch[d];
      }
      --outer_dims;
    }
  }

  void run(const void* lhs, const void* rhs, void* result, bool add = false) const {
    if (swapped) std::swap(lhs, rhs);
    std::int64_t in_size = dtype_size(in);
    lhs = static_cast<const char*>(lhs) + offset_a * in_size;
    rhs = static_cast<const char*>(rhs) + offset_b * in_size;
    result = static_cast<char*>(result) + offset_c * dtype_size(out);
    std::unique_ptr<char[]> copy_a;
    std::unique_ptr<char[]> copy_b;
    lhs = ordered(reorder_a, lhs, copy_a);
    rhs = ordered(reorder_b, rhs, copy_b);
    std::int64_t calls = 1;
    for (std::size_t d = 0; d < outer_dims; ++d) calls *= batch[d];
    for (std::int64_t i = 0; i < calls; ++i) {
      std::int64_t at_a = 0;
      std::int64_t at_b = 0;
      std::int64_t at_c = 0;
      std::int64_t rest = i;
      for (std::size_t d = outer_dims; d-- > 0;) {
        at_a += rest % batch[d] * a.batch_strides[d];
        at_b += rest % batch[d] * b.batch_strides[d];
        at_c += rest % batch[d] * c.batch_strides[d];
        rest /= batch[d];
      }
      kernels::gemm(in, out, a.transposed, b.transposed, inner, m, n, k, static_cast<const char*>(lhs) + at_a * in_size,
                    a.ld, stride_a, static_cast<const char*>(rhs) + at_b * in_size, b.ld, stride_b,
                    static_cast<char*>(result) + at_c * dtype_size(out), c.ld, stride_c, fixed_order, add);
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

double flops_per_nanosecond(DType t, DType out) {
  if (t == DType::F32) return 90;
  if (t == DType::BF16 || (t == DType::I8 && out == DType::I32)) return 150;
  return is_integer(t) || is_bool(t) ? 1 : 10;
}

// The result's dimensions in the op's own order (batch, free of lhs, free of rhs), with the strides that they have in
// memory.
struct Result {
  Shape shape;
  Dims strides;
  Dims batch, rows, cols;
  std::int64_t offset = 0;

  Result(const Side& lhs, const Side& rhs, const Dims& permutation, const std::optional<ResultSection>& section) {
    for (const auto& [side, dims, to] : {std::tuple{&lhs, &lhs.batch, &batch}, std::tuple{&lhs, &lhs.free, &rows},
                                         std::tuple{&rhs, &rhs.free, &cols}}) {
      for (auto d : *dims) {
        to->push_back(static_cast<std::int64_t>(shape.size()));
        shape.push_back(side->shape[at(d)]);
      }
    }
    Shape stored;
    for (auto d : permutation) stored.push_back(shape[at(d)]);
    if (section) stored.insert(stored.begin() + section->dimension, section->count);
    Dims stored_strides = core::contiguous_strides(stored, 1);
    if (section) {
      offset = section->index * stored_strides[at(section->dimension)];
      stored_strides.erase(stored_strides.begin() + section->dimension);
    }
    strides.resize(shape.size());
    for (std::size_t i = 0; i < permutation.size(); ++i) strides[at(permutation[i])] = stored_strides[i];
  }

  std::optional<Target> target(const Dims& row_dims, const Dims& col_dims) const {
    Stretch r;
    Stretch c;
    if (!merge(shape, strides, row_dims, r) || !merge(shape, strides, col_dims, c)) return std::nullopt;
    if ((c.stride != 1 && c.size != 1) || (r.size != 1 && r.stride < c.size)) return std::nullopt;
    Target t{r.size == 1 ? std::max<std::int64_t>(c.size, 1) : r.stride, {}, offset};
    for (auto d : batch) t.batch_strides.push_back(strides[at(d)]);
    return t;
  }
};

// Types of a product, and whether floats are summed in an order that other extents have no part in.
struct ProductKind {
  DType in, out;
  bool fixed_order = false;
};

Plan make_plan(const Side& lhs, const Side& rhs, const ProductKind& kind, const Target& target) {
  Plan plan;
  plan.fixed_order = kind.fixed_order;
  plan.in = kind.in;
  plan.out = kind.out;
  plan.m = extent(lhs, lhs.free);
  plan.n = extent(rhs, rhs.free);
  plan.k = extent(lhs, lhs.contract);
  plan.a = matrix(lhs, true);
  plan.b = matrix(rhs, false);
  if (plan.a.copied) plan.reorder_a.emplace_back(lhs, plan.a, kind.in);
  if (plan.b.copied) plan.reorder_b.emplace_back(rhs, plan.b, kind.in);
  plan.c = target;
  plan.offset_a = lhs.offset;
  plan.offset_b = rhs.offset;
  plan.offset_c = target.offset;
  for (auto d : lhs.batch) plan.batch.push_back(lhs.shape[at(d)]);
  plan.split_batch();
  return plan;
}

Kernel make_product(const Shape& left, const Shape& right, const ProductKind& kind, TransposedProduct p,
                    const std::optional<ResultSection>& section = std::nullopt) {
  sort_pairs(p.lhs_contracting, p.rhs_contracting);
  Side lhs(left, p.lhs_batch, p.lhs_contracting, p.lhs_section);
  Side rhs(right, p.rhs_batch, p.rhs_contracting, p.rhs_section);
  Result result(lhs, rhs, p.permutation, section);
  bool adds = kind.in == DType::F32 && kind.out == DType::F32 && !kind.fixed_order;
  Kernel k;
  double work = 2.0 * static_cast<double>(size_of(result.shape)) * static_cast<double>(extent(lhs, lhs.contract));
  k.cost = 200 + work / flops_per_nanosecond(kind.in, kind.out);
  if (auto target = result.target(result.rows, result.cols)) {
    auto plan = std::make_shared<const Plan>(make_plan(lhs, rhs, kind, *target));
    k.run = [plan](const void* const* from, void* const* to) { plan->run(from[0], from[1], to[0]); };
    if (adds) k.add = [plan](const void* const* from, void* const* to) { plan->run(from[0], from[1], to[0], true); };
  } else if (auto turned = result.target(result.cols, result.rows)) {
    auto plan = std::make_shared<Plan>(make_plan(rhs, lhs, kind, *turned));
    plan->swapped = true;
    k.run = [plan](const void* const* from, void* const* to) { plan->run(from[0], from[1], to[0]); };
    if (adds) k.add = [plan](const void* const* from, void* const* to) { plan->run(from[0], from[1], to[0], true); };
  } else {
    Dims own = core::contiguous_strides(result.shape, 1);
    Result plain = result;
    plain.strides = own;
    plain.offset = 0;
    auto plan = std::make_shared<const Plan>(make_plan(lhs, rhs, kind, *plain.target(plain.rows, plain.cols)));
    std::int64_t size = dtype_size(kind.out);
    for (auto& s : own) s *= size;
    Dims strides = result.strides;
    for (auto& s : strides) s *= size;
    const std::int64_t bytes = size_of(result.shape) * size;
    k.run = [=, shape = result.shape, offset = result.offset * size](const void* const* from, void* const* to) {
      std::unique_ptr<char[]> product(new char[at(bytes)]);
      plan->run(from[0], from[1], product.get());
      kernels::copy_strided(static_cast<char*>(to[0]) + offset, strides, product.get(), own, shape, size);
    };
  }
  return k;
}

Kernel make_joined(const Request& r, const JoinedProducts& p) {
  std::vector<Kernel> kernels;
  Kernel all;
  for (std::size_t k = 0; k < p.count(); ++k) {
    const ProductKind kind{r.in[2 * k].dtype, r.out[0].dtype, r.fixed_order};
    const ResultSection section{p.dimension, static_cast<std::int64_t>(p.count()), static_cast<std::int64_t>(k)};
    kernels.push_back(make_product(r.in[2 * k].shape, r.in[2 * k + 1].shape, kind, p.product(k), section));
    all.cost += kernels.back().cost;
  }
  all.run = [kernels = std::move(kernels)](const void* const* from, void* const* to) {
    for (std::size_t k = 0; k < kernels.size(); ++k) kernels[k].run(from + 2 * k, to);
  };
  return all;
}

}  // namespace

void add_dot_kernels(KernelTable& table) {
  auto kind = [](const Request& r) { return ProductKind{r.in[0].dtype, r.out[0].dtype, r.fixed_order}; };
  table.add("dot_general", [=](const Request& r) {
    const auto& p = ir::get<ops::DotGeneral>(r.attrs);
    return make_product(r.in[0].shape, r.in[1].shape, kind(r), plain_product(p, r.out[0].rank()));
  });
  table.add(transposed_product().name(), [=](const Request& r) {
    return make_product(r.in[0].shape, r.in[1].shape, kind(r), ir::get<TransposedProduct>(r.attrs));
  });
  table.add(joined_products().name(),
            [](const Request& r) { return make_joined(r, ir::get<JoinedProducts>(r.attrs)); });
}

}  // namespace tessera::cpu
