// SPDX-License-Identifier: Apache-2.0
// Sorts and largest elements along one dimension. Kernels work on rows; other dimensions are turned to the end first.
#include <cstring>
#include <memory>
#include <vector>

#include "base/thread_pool.h"
#include "core/strided_copy.h"
#include "engines/cpu/adapters/kernel_table.h"
#include "engines/cpu/kernels/copy_kernels.h"
#include "engines/cpu/kernels/sort_kernels.h"
#include "ops/reduce/sorting.h"

namespace tessera::cpu {

namespace {

// [outer, along, inner] and its turned form [outer, inner, along].
struct SortLines {
  std::int64_t outer = 1, along = 1, inner = 1;
  SortLines(const Shape& shape, std::int64_t dimension) {
    for (std::size_t d = 0; d < shape.size(); ++d) {
      auto n = static_cast<std::int64_t>(d);
      (n < dimension ? outer : n == dimension ? along : inner) *= shape[d];
    }
  }
  std::int64_t rows() const { return outer * inner; }
  std::int64_t size() const { return rows() * along; }
};

using RowMemory = std::unique_ptr<char[]>;
RowMemory allocate(std::int64_t bytes) { return RowMemory(new char[static_cast<std::size_t>(bytes)]); }

// Swaps the last two of three dimensions.
void turn(const void* from, void* to, std::int64_t outer, std::int64_t a, std::int64_t b, std::int64_t itemsize) {
  Dims strides{a * b * itemsize, itemsize, b * itemsize};
  Shape shape{outer, b, a};
  kernels::copy_strided(to, core::contiguous_strides(shape, itemsize), from, strides, shape, itemsize);
}
// The operand as rows: itself, or a copy in `memory`.
const void* as_rows(const void* data, const SortLines& l, std::int64_t itemsize, RowMemory& memory) {
  if (l.inner == 1) return data;
  memory = allocate(l.size() * itemsize);
  turn(data, memory.get(), l.outer, l.along, l.inner, itemsize);
  return memory.get();
}
// Calls `write(rows)` with the result itself or with memory that is turned into it.
template <class Write>
void write_rows(void* out, const SortLines& l, std::int64_t itemsize, const Write& write) {
  if (l.inner == 1) return write(out);
  RowMemory memory = allocate(l.size() * itemsize);
  write(memory.get());
  turn(memory.get(), out, l.outer, l.inner, l.along, itemsize);
}

void pick(const void* from, const std::int32_t* order, void* to, std::int64_t rows, std::int64_t n,
          std::int64_t itemsize) {
  base::parallel_for(rows * n, 16384, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      std::int64_t source = i / n * n + order[i];
      std::memcpy(static_cast<char*>(to) + i * itemsize, static_cast<const char*>(from) + source * itemsize,
                  static_cast<std::size_t>(itemsize));
    }
  });
}

Kernel make_sort(const Request& r) {
  const auto& p = ir::get<ops::Sort>(r.attrs);
  Kernel k;
  SortLines lines(r.in[0].shape, p.dimension);
  if (lines.along >= INT32_MAX || lines.size() == 0) return k;
  std::vector<DType> dtypes;
  for (const auto& t : r.in) dtypes.push_back(t.dtype);
  k.cost = 100 + 20.0 * static_cast<double>(lines.size() * static_cast<std::int64_t>(r.in.size()));
  if (dtypes.size() == 1) {
    k.run = [lines, t = dtypes[0]](const void* const* in, void* const* out) {
      RowMemory memory;
      const void* rows = as_rows(in[0], lines, dtype_size(t), memory);
      write_rows(out[0], lines, dtype_size(t),
                 [&](void* to) { kernels::sort_rows(t, rows, to, lines.rows(), lines.along); });
    };
    return k;
  }
  k.run = [lines, dtypes, keys = static_cast<std::size_t>(p.num_keys)](const void* const* in, void* const* out) {
    std::vector<std::int32_t> order(static_cast<std::size_t>(lines.size()));
    for (std::size_t key = keys; key-- > 0;) {
      RowMemory memory;
      const void* rows = as_rows(in[key], lines, dtype_size(dtypes[key]), memory);
      kernels::sort_permutation(dtypes[key], rows, order.data(), key + 1 < keys, lines.rows(), lines.along);
    }
    for (std::size_t i = 0; i < dtypes.size(); ++i) {
      std::int64_t itemsize = dtype_size(dtypes[i]);
      RowMemory memory;
      const void* rows = as_rows(in[i], lines, itemsize, memory);
      write_rows(out[i], lines, itemsize,
                 [&](void* to) { pick(rows, order.data(), to, lines.rows(), lines.along, itemsize); });
    }
  };
  return k;
}

Kernel make_top_k(const Request& r) {
  const auto& p = ir::get<ops::TopK>(r.attrs);
  Kernel k;
  SortLines from(r.in[0].shape, p.dimension);
  SortLines to(r.out[0].shape, p.dimension);
  DType t = r.in[0].dtype;
  if (is_complex(t) || from.along >= INT32_MAX || from.size() == 0 || p.k == 0) return k;
  k.cost = 100 + 5.0 * static_cast<double>(from.size());
  k.run = [=](const void* const* in, void* const* out) {
    RowMemory memory;
    const void* rows = as_rows(in[0], from, dtype_size(t), memory);
    write_rows(out[0], to, dtype_size(t), [&](void* values) {
      write_rows(out[1], to, dtype_size(DType::I32), [&](void* places) {
        kernels::top_k(t, rows, from.rows(), from.along, to.along, values, static_cast<std::int32_t*>(places));
      });
    });
  };
  return k;
}

}  // namespace

void add_sort_kernels(KernelTable& table) {
  table.add("sort", make_sort);
  table.add("top_k", make_top_k);
}

}  // namespace tessera::cpu
