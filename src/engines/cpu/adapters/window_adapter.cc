// SPDX-License-Identifier: Apache-2.0
// Sliding windows.
#include <array>
#include <cstdint>

#include "engines/cpu/adapters/kernel_table.h"
#include "engines/cpu/adapters/reducers.h"
#include "engines/cpu/kernels/window_kernels.h"
#include "ops/shared_attrs.h"

namespace tessera::cpu {

namespace {

kernels::WindowSpec spec_of(const ops::Window& w, const Shape& shape) {
  return {shape, w.dimensions, w.strides, w.low, w.high, w.base_dilation, w.window_dilation};
}

bool reduces(kernels::ReduceOp op, DType t) { return !is_bool(t) && (op == kernels::ReduceOp::Sum || !is_complex(t)); }

bool windows(kernels::ReduceOp op) {
  return op == kernels::ReduceOp::Sum || op == kernels::ReduceOp::Max || op == kernels::ReduceOp::Min;
}

MakeKernel window_maker(kernels::ReduceOp op) {
  return [op](const Request& r) {
    Kernel k;
    DType t = r.in[0].dtype;
    if (!reduces(op, t)) return k;
    std::array<std::uint64_t, 2> init{};
    kernels::reduce_identity(op, t, init.data());
    k.run = [=, spec = spec_of(ir::get<ops::Window>(r.attrs), r.in[0].shape)](const void* const* in, void* const* out) {
      kernels::reduce_window(op, t, spec, in[0], init.data(), out[0]);
    };
    return k;
  };
}

Kernel make_general_window(const Request& r) {
  const auto& p = ir::get<ops::ReduceWindow>(r.attrs);
  Kernel k;
  auto op = simple_reducer(*p.body);
  DType t = r.in[0].dtype;
  if (!op || !windows(op->reduce) || !reduces(op->reduce, t)) return run_by_body(r);
  k.run = [op = op->reduce, t, spec = spec_of(p, r.in[0].shape)](const void* const* in, void* const* out) {
    kernels::reduce_window(op, t, spec, in[0], in[1], out[0]);
  };
  return k;
}

Kernel make_scatter(const Request& r) {
  const auto& w = ir::get<ops::SelectWindow>(r.attrs);
  Kernel k;
  DType t = r.in[0].dtype;
  if (is_complex(t) || is_bool(t)) return k;
  k.run = [=, spec = spec_of(w, r.in[1].shape), largest = w.maximum](const void* const* in, void* const* out) {
    std::array<std::uint64_t, 2> zero{};
    kernels::select_and_scatter_add(largest, t, spec, in[1], in[0], zero.data(), out[0]);
  };
  return k;
}

}  // namespace

void add_window_kernels(KernelTable& table) {
  table.add("reduce_window", make_general_window);
  table.add("reduce_window_sum", window_maker(kernels::ReduceOp::Sum));
  table.add("reduce_window_max", window_maker(kernels::ReduceOp::Max));
  table.add("reduce_window_min", window_maker(kernels::ReduceOp::Min));
  table.add("select_and_scatter_add", make_scatter);
}

}  // namespace tessera::cpu
