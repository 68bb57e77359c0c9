// SPDX-License-Identifier: Apache-2.0
// Picking and writing whole rows of a table, and counting up. Windows of other forms run by the reference.
#include <algorithm>
#include <memory>
#include <vector>

#include "engines/cpu/kernel_table.h"
#include "engines/cpu/kernels/copy.h"
#include "engines/cpu/kernels/elementwise.h"
#include "engines/cpu/kernels/gather.h"
#include "ops/attrs.h"
#include "ops/indexing.h"

namespace tessera::cpu {

namespace {

using kernels::OutOfRange;

std::int64_t product(const Shape& shape, std::size_t from, std::size_t to) {
  std::int64_t n = 1;
  for (std::size_t d = from; d < to; ++d) n *= shape[d];
  return n;
}

// Windows that are rows: one index picks along dimension 0, everything behind it is taken whole.
struct Rows {
  std::int64_t count = 0;  // rows of the table
  std::int64_t size = 0;   // elements of a row
  std::int64_t indices = 0;
};
std::optional<Rows> rows(const ir::Type& table, const ir::Type& indices, const ir::Type& window, const Dims& offset,
                         const Dims& collapsed, const Dims& map, bool batching) {
  auto lead = static_cast<std::int64_t>(indices.shape.size()) - 1;
  if (batching || lead < 0 || map != Dims{0} || collapsed != Dims{0} || indices.shape.back() != 1) return std::nullopt;
  for (std::size_t i = 0; i < offset.size(); ++i) {
    if (offset[i] != lead + static_cast<std::int64_t>(i)) return std::nullopt;
    if (window.shape[static_cast<std::size_t>(offset[i])] != table.shape[i + 1]) return std::nullopt;
  }
  DType t = indices.dtype;
  if (t != DType::I32 && t != DType::I64 && t != DType::U32 && t != DType::U64) return std::nullopt;
  return Rows{table.shape[0], product(table.shape, 1, table.shape.size()),
              product(indices.shape, 0, indices.shape.size())};
}

OutOfRange mode_of(ops::IndexMode mode) {
  return mode == ops::IndexMode::FillOrDrop ? OutOfRange::Skip : OutOfRange::Clamp;
}

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
  auto where = rows(r.in[0], r.in[1], r.out[0], p.offset_dims, p.collapsed_slice_dims, p.start_index_map,
                    !p.operand_batching_dims.empty());
  if (!where || where->count == 0) return k;
  std::int64_t row_bytes = where->size * dtype_size(r.out[0].dtype);
  auto fill = std::make_shared<std::vector<char>>();
  if (p.mode == ops::IndexMode::FillOrDrop) *fill = fill_row(r, p, where->size);
  k.run = [=, n = *where, t = r.in[1].dtype, mode = mode_of(p.mode)](const void* const* in, void* const* out) {
    kernels::gather_rows(in[0], n.count, row_bytes, t, in[1], n.indices, mode, fill->empty() ? nullptr : fill->data(),
                         out[0]);
  };
  return k;
}

MakeKernel scatter_maker(kernels::ScatterOp op) {
  return [op](const Request& r) {
    const auto& p = ir::get<ops::Scatter>(r.attrs);
    Kernel k;
    auto where = rows(r.in[0], r.in[1], r.in[2], p.update_window_dims, p.inserted_window_dims,
                      p.scatter_dims_to_operand_dims, !p.operand_batching_dims.empty());
    bool has = !is_complex(r.in[0].dtype) && !is_bool(r.in[0].dtype);
    if (!where || where->count == 0 || !has) return k;
    k.in_place = 1;
    k.run = [=, n = *where, t = r.in[0].dtype, index = r.in[1].dtype, bytes = r.in[0].nbytes(), mode = mode_of(p.mode)](
                const void* const* in, void* const* out) {
      if (out[0] != in[0]) kernels::copy_bytes(out[0], in[0], bytes);
      kernels::scatter_rows(op, t, out[0], n.count, n.size, index, in[1], n.indices, mode, in[2]);
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
  table.add("scatter_add", scatter_maker(kernels::ScatterOp::Add));
  table.add("scatter_mul", scatter_maker(kernels::ScatterOp::Mul));
  table.add("scatter_max", scatter_maker(kernels::ScatterOp::Max));
  table.add("scatter_min", scatter_maker(kernels::ScatterOp::Min));
  table.add("iota", make_iota);
}

}  // namespace tessera::cpu
