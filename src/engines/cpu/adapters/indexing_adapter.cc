// SPDX-License-Identifier: Apache-2.0
// Windows picked and written at computed places, and counting up.
#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "engines/cpu/adapters/kernel_table.h"
#include "engines/cpu/kernels/copy_kernels.h"
#include "engines/cpu/kernels/elementwise/elementwise_kernels.h"
#include "engines/cpu/kernels/gather_rows.h"
#include "ops/shape/indexing_common.h"
#include "ops/shared_attrs.h"

namespace tessera::cpu {

namespace {

// Windows as rows: the last dimensions that windows take whole, in both arrays, are a row's elements; a window of more
// is several rows.
struct WindowRows {
  std::int64_t size = 1;        ///< elements of a row
  std::int64_t table_rows = 1;  ///< that there are
  kernels::RowNumbers rows;     ///< that move

  WindowRows(const ops::Numbering& numbering, const ops::WindowMap& map, ops::IndexMode mode, const ir::Type& table,
             const ir::Type& indices, Shape window) {
    std::size_t offsets = map.operand_of_offset.size();
    std::size_t rank = table.shape.size();
    while (rank > 0 && offsets > 0 && !window.empty()) {
      auto d = rank - 1;
      bool last = map.operand_of_offset[offsets - 1] == static_cast<std::int64_t>(d) &&
                  numbering.window[offsets - 1] == static_cast<std::int64_t>(window.size()) - 1;
      // A start that can only be 0 moves nothing, but one out of range drops the window.
      const bool starts = ops::contains(numbering.map, static_cast<std::int64_t>(d)) ||
                          ops::contains(numbering.operand_batching, static_cast<std::int64_t>(d));
      if (!last || map.sizes[d] != table.shape[d] || window.back() != table.shape[d] || starts) break;
      size *= table.shape[d];
      window.pop_back();
      --offsets;
      --rank;
    }
    const Dims strides = ops::row_strides(
        Shape(table.shape.begin(), table.shape.begin() + static_cast<std::ptrdiff_t>(rank)));  // in rows
    const Dims index_strides = ops::row_strides(indices.shape);
    for (std::size_t d = 0; d < rank; ++d) table_rows *= table.shape[d];

    for (auto n : window) rows.dims.push_back({n, 0, 0});
    for (std::size_t i = 0; i < map.batch_of_window.size(); ++i) {
      rows.dims[at(map.batch_of_window[i])].index_step += index_strides[i];
    }
    for (std::size_t i = 0; i < numbering.operand_batching.size(); ++i) {
      auto dim = map.batch_of_window[at(numbering.indices_batching[i])];
      rows.dims[at(dim)].row_step += strides[at(numbering.operand_batching[i])];
    }
    for (std::size_t i = 0; i < offsets; ++i) {
      rows.dims[at(numbering.window[i])].row_step += strides[at(map.operand_of_offset[i])];
    }
    for (std::size_t c = 0; c < numbering.map.size(); ++c) {
      auto d = at(numbering.map[c]);
      rows.components.push_back(
          {static_cast<std::int64_t>(c), std::max<std::int64_t>(table.shape[d] - map.sizes[d], 0), strides[d]});
    }
    rows.drop = mode == ops::IndexMode::FillOrDrop;
    rows.index_dtype = indices.dtype;
    rows.simplify();
  }
};

// The value that the op gives for an index out of range, as one row: asked of its reference.
std::vector<char> fill_row(const Request& r, const ops::Gather& p, std::int64_t size) {
  std::int64_t itemsize = dtype_size(r.out[0].dtype);
  std::vector<char> table(static_cast<std::size_t>(itemsize));
  std::vector<char> row(static_cast<std::size_t>(itemsize * size));
  std::int32_t outside = 7;
  std::vector<char> value(static_cast<std::size_t>(itemsize));
  std::vector<ir::View> in{{r.in[0].dtype, {1}, table.data()}, {DType::I32, {1, 1}, &outside}};
  std::vector<ir::View> out{{r.out[0].dtype, {1}, value.data()}};
  ops::Gather one{{}, {0}, {0}, {}, {}, {1}, p.mode, p.fill};
  r.op.reference(in, out, ir::make_attrs(one));
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = value[i % value.size()];
  return row;
}

Kernel make_gather(const Request& r) {
  const auto& p = ir::get<ops::Gather>(r.attrs);
  Kernel k;
  if (r.in[0].size() == 0 || r.out[0].size() == 0) return k;
  ops::WindowMap map(p, r.in[0].shape, r.in[1].shape, r.out[0].shape);
  auto windows = std::make_shared<const WindowRows>(ops::numbering(p), map, p.mode, r.in[0], r.in[1], r.out[0].shape);
  auto fill = std::make_shared<std::vector<char>>();
  if (p.mode == ops::IndexMode::FillOrDrop) *fill = fill_row(r, p, windows->size);
  std::int64_t row_bytes = windows->size * dtype_size(r.out[0].dtype);
  k.run = [windows, fill, row_bytes](const void* const* in, void* const* out) {
    kernels::gather_rows(in[0], row_bytes, windows->rows, in[1], fill->empty() ? nullptr : fill->data(), out[0]);
  };
  return k;
}

// What stands for the elements of a scatter: the same bytes in a dtype that has the operation.
struct Elements {
  DType dtype;
  std::int64_t each = 1;  // elements of that dtype for one of the op's
  kernels::ScatterOp op;
};
std::optional<Elements> elements_of(kernels::ScatterOp op, DType t) {
  using kernels::ScatterOp;
  if (op == ScatterOp::Set) {
    switch (dtype_size(t)) {
      case 1:
        return Elements{DType::U8, 1, op};
      case 2:
        return Elements{DType::U16, 1, op};
      case 4:
        return Elements{DType::U32, 1, op};
      default:
        return Elements{DType::U64, dtype_size(t) / 8, op};
    }
  }
  if (is_complex(t)) return op == ScatterOp::Add ? std::optional(Elements{real_dtype(t), 2, op}) : std::nullopt;
  if (is_bool(t)) {
    bool either = op == ScatterOp::Add || op == ScatterOp::Max;
    return Elements{DType::U8, 1, either ? ScatterOp::Max : ScatterOp::Min};
  }
  return Elements{t, 1, op};
}

MakeKernel scatter_maker(kernels::ScatterOp op) {
  return [op](const Request& r) {
    const auto& p = ir::get<ops::Scatter>(r.attrs);
    Kernel k;
    auto elements = elements_of(op, r.in[0].dtype);
    if (!elements || r.in[0].size() == 0 || r.in[2].size() == 0) return k;
    ops::WindowMap map(p, r.in[0].shape, r.in[1].shape, r.in[2].shape);
    auto windows =
        std::make_shared<const WindowRows>(ops::numbering(p, "scatter"), map, p.mode, r.in[0], r.in[1], r.in[2].shape);
    k.in_place = 1;
    k.run = [e = *elements, windows, bytes = r.in[0].nbytes()](const void* const* in, void* const* out) {
      if (out[0] != in[0]) kernels::copy_bytes(out[0], in[0], bytes);
      kernels::scatter_rows(e.op, e.dtype, out[0], windows->table_rows, windows->size * e.each, windows->rows, in[1],
                            in[2]);
    };
    return k;
  };
}

Kernel make_iota(const Request& r) {
  const auto& p = ir::get<ops::Iota>(r.attrs);
  Kernel k;
  const Shape& shape = r.out[0].shape;
  std::int64_t itemsize = dtype_size(p.dtype);
  auto convert = kernels::ew_find(kernels::EwOp::Convert, DType::I64, p.dtype);
  if (convert == nullptr) return k;
  auto n = shape[static_cast<std::size_t>(p.dimension)];
  // One line of numbers, repeated over the other dimensions.
  auto line = std::make_shared<std::vector<char>>(static_cast<std::size_t>(n * itemsize));
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = p.start + static_cast<std::int64_t>(i);
  convert(numbers.data(), nullptr, nullptr, line->data(), n);
  Dims from(shape.size());
  from[static_cast<std::size_t>(p.dimension)] = itemsize;
  Dims to(shape.size());
  std::int64_t bytes = itemsize;
  for (std::size_t d = shape.size(); d-- > 0;) {
    to[d] = bytes;
    bytes *= shape[d];
  }
  k.run = [=](const void* const*, void* const* out) {
    kernels::copy_strided(out[0], to, line->data(), from, shape, itemsize);
  };
  return k;
}

}  // namespace

void add_indexing_kernels(KernelTable& table) {
  table.add("gather", make_gather);
  table.add("scatter", scatter_maker(kernels::ScatterOp::Set));
  table.add("scatter-add", scatter_maker(kernels::ScatterOp::Add));
  table.add("scatter-mul", scatter_maker(kernels::ScatterOp::Mul));
  table.add("scatter-max", scatter_maker(kernels::ScatterOp::Max));
  table.add("scatter-min", scatter_maker(kernels::ScatterOp::Min));
  table.add("iota", make_iota);
}

}  // namespace tessera::cpu
