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

using kernels::OutOfRange;

// Windows as rows: the last dimensions that windows take whole, in both arrays, are a row's elements; a window of more
// is several rows. Row numbers are worked out first, then whole rows move.
class RowFinder {
 public:
  RowFinder(ops::Numbering numbering, const ops::WindowMap& map, ops::IndexMode mode, const ir::Type& table,
            const ir::Type& indices, const Shape& window)
      : numbering_(numbering), map_(map), mode_(mode), table_(table.shape), indices_(indices), window_(window) {
    std::size_t offsets = map_.operand_of_offset.size();
    std::size_t rank = table_.size();
    while (rank > 0 && offsets > 0 && !window_.empty()) {
      auto d = rank - 1;
      bool last = map_.operand_of_offset[offsets - 1] == static_cast<std::int64_t>(d) &&
                  numbering_.window[offsets - 1] == static_cast<std::int64_t>(window_.size()) - 1;
      if (!last || map_.sizes[d] != table_[d] || window_.back() != table_[d] || starts_at(d)) break;
      size *= table_[d];
      window_.pop_back();
      --offsets;
      --rank;
    }
    offsets_ = offsets;
    strides_ = ops::row_strides(Shape(table_.begin(), table_.begin() + static_cast<std::ptrdiff_t>(rank)));
    index_strides_ = ops::row_strides(indices_.shape);
    for (auto n : window_) rows *= n;
    for (std::size_t d = 0; d < rank; ++d) table_rows *= table_[d];
  }

  std::int64_t size = 1;        ///< elements of a row
  std::int64_t rows = 1;        ///< that move
  std::int64_t table_rows = 1;  ///< that there are

  /// The table's row for each row of the windows; -1 where the window is dropped.
  std::vector<std::int64_t> find(const void* indices) const {
    std::vector<std::int64_t> out(at(rows));
    ir::View view{indices_.dtype, indices_.shape, const_cast<void*>(indices)};
    Dims position(window_.size());
    for (auto& row : out) {
      row = row_at(view, position);
      for (std::size_t d = position.size(); d-- > 0;) {
        if (++position[d] < window_[d]) break;
        position[d] = 0;
      }
    }
    return out;
  }

 private:
  bool starts_at(std::size_t d) const {
    auto has = [&](const Dims& v) { return std::find(v.begin(), v.end(), static_cast<std::int64_t>(d)) != v.end(); };
    // A start that can only be 0 moves nothing, but one out of range drops the window.
    return has(numbering_.map) || has(numbering_.operand_batching);
  }

  std::int64_t row_at(const ir::View& indices, const Dims& position) const {
    std::int64_t first = 0;
    for (std::size_t i = 0; i < map_.batch_of_window.size(); ++i) {
      first += position[at(map_.batch_of_window[i])] * index_strides_[i];
    }
    std::int64_t row = 0;
    for (std::size_t c = 0; c < numbering_.map.size(); ++c) {
      auto d = at(numbering_.map[c]);
      std::int64_t last = table_[d] - map_.sizes[d];
      std::int64_t index = load(indices, first + static_cast<std::int64_t>(c));
      if (mode_ == ops::IndexMode::FillOrDrop) {
        if (index < 0 || index > last) return -1;
      } else {
        index = std::clamp<std::int64_t>(index, 0, std::max<std::int64_t>(last, 0));
      }
      row += index * strides_[d];
    }
    for (std::size_t i = 0; i < numbering_.operand_batching.size(); ++i) {
      auto dim = map_.batch_of_window[at(numbering_.indices_batching[i])];
      row += position[at(dim)] * strides_[at(numbering_.operand_batching[i])];
    }
    for (std::size_t i = 0; i < offsets_; ++i) {
      row += position[at(numbering_.window[i])] * strides_[at(map_.operand_of_offset[i])];
    }
    return row;
  }
  static std::int64_t load(const ir::View& v, std::int64_t i) {
    if (v.dtype == DType::I32) return v.as<std::int32_t>()[i];
    if (!is_unsigned_int(v.dtype)) return ops::load_int(v, i);
    return static_cast<std::int64_t>(std::min<std::uint64_t>(ops::load_uint(v, i), std::uint64_t{1} << 62));
  }

  ops::Numbering numbering_;
  ops::WindowMap map_;
  ops::IndexMode mode_;
  Shape table_;
  ir::Type indices_;
  Shape window_;  // without the dimensions of a row
  std::size_t offsets_ = 0;
  Dims strides_;  // of the table's leading dimensions, in rows
  Dims index_strides_;
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
  auto finder = std::make_shared<RowFinder>(ops::numbering(p), map, p.mode, r.in[0], r.in[1], r.out[0].shape);
  auto fill = std::make_shared<std::vector<char>>();
  if (p.mode == ops::IndexMode::FillOrDrop) *fill = fill_row(r, p, finder->size);
  std::int64_t row_bytes = finder->size * dtype_size(r.out[0].dtype);
  k.run = [finder, fill, row_bytes, keep = r.attrs](const void* const* in, void* const* out) {
    auto rows = finder->find(in[1]);
    kernels::gather_rows(in[0], finder->table_rows, row_bytes, DType::I64, rows.data(), finder->rows, OutOfRange::Skip,
                         fill->empty() ? nullptr : fill->data(), out[0]);
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
    auto finder =
        std::make_shared<RowFinder>(ops::numbering(p, "scatter"), map, p.mode, r.in[0], r.in[1], r.in[2].shape);
    k.in_place = 1;
    k.run = [e = *elements, finder, bytes = r.in[0].nbytes(), keep = r.attrs](const void* const* in, void* const* out) {
      if (out[0] != in[0]) kernels::copy_bytes(out[0], in[0], bytes);
      auto rows = finder->find(in[1]);
      kernels::scatter_rows(e.op, e.dtype, out[0], finder->table_rows, finder->size * e.each, DType::I64, rows.data(),
                            finder->rows, OutOfRange::Skip, in[2]);
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
