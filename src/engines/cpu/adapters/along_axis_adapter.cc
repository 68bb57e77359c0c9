// SPDX-License-Identifier: Apache-2.0
// Ops along one axis: positions of extremes and running totals.
#include <cstdint>

#include "engines/cpu/adapters/kernel_table.h"
#include "engines/cpu/kernels/reduce_axes.h"
#include "ops/shared_attrs.h"

namespace tessera::cpu {

namespace {

struct CumulativeLine {
  std::int64_t outer = 1, along = 1, inner = 1;
  CumulativeLine(const Shape& shape, std::int64_t axis) {
    for (std::size_t d = 0; d < shape.size(); ++d) {
      auto n = static_cast<std::int64_t>(d);
      (n < axis ? outer : n == axis ? along : inner) *= shape[d];
    }
  }
};

MakeKernel arg_maker(bool largest) {
  return [largest](const Request& r) {
    const auto& p = ir::get<ops::ArgReduce>(r.attrs);
    Kernel k;
    DType t = r.in[0].dtype;
    CumulativeLine line(r.in[0].shape, p.axis);
    if (is_complex(t) || (p.index_dtype != DType::I32 && p.index_dtype != DType::I64) || line.along == 0) return k;
    k.run = [=, index = p.index_dtype](const void* const* in, void* const* out) {
      kernels::arg_reduce(largest, t, index, in[0], out[0], line.outer, line.along, line.inner);
    };
    return k;
  };
}

bool accumulates(kernels::ScanOp op, DType t) {
  switch (op) {
    case kernels::ScanOp::LogSumExp:
      return is_float(t);
    case kernels::ScanOp::Max:
    case kernels::ScanOp::Min:
      return !is_complex(t) && !is_bool(t);
    default:
      return !is_bool(t);
  }
}

MakeKernel total_maker(kernels::ScanOp op) {
  return [op](const Request& r) {
    const auto& p = ir::get<ops::Cumulative>(r.attrs);
    Kernel k;
    DType t = r.in[0].dtype;
    if (!accumulates(op, t)) return k;
    k.run = [=, line = CumulativeLine(r.in[0].shape, p.axis), reverse = p.reverse](const void* const* in,
                                                                                   void* const* out) {
      kernels::cumulative(op, t, reverse, in[0], out[0], line.outer, line.along, line.inner);
    };
    return k;
  };
}

}  // namespace

void add_line_kernels(KernelTable& table) {
  table.add("argmax", arg_maker(true));
  table.add("argmin", arg_maker(false));
  table.add("cumsum", total_maker(kernels::ScanOp::Sum));
  table.add("cumprod", total_maker(kernels::ScanOp::Prod));
  table.add("cummax", total_maker(kernels::ScanOp::Max));
  table.add("cummin", total_maker(kernels::ScanOp::Min));
  table.add("cumlogsumexp", total_maker(kernels::ScanOp::LogSumExp));
}

}  // namespace tessera::cpu
