// SPDX-License-Identifier: Apache-2.0
// Reductions over axes. Kernels reduce the middle of [outer, red, inner]; axes that do not lie together are reduced run
// by run, from the last one.
#include <algorithm>
#include <cstring>
#include <vector>

#include "engines/cpu/kernel_table.h"
#include "engines/cpu/kernels/reduce.h"
#include "ops/attrs.h"

namespace tessera::cpu {

namespace {

using kernels::ReduceOp;

struct Pass {
  std::int64_t outer, red, inner;
};

// Runs of neighbouring reduced axes, last run first.
std::vector<Pass> passes(const Shape& shape, const Dims& axes) {
  std::vector<bool> reduced(shape.size());
  for (auto a : axes) reduced[static_cast<std::size_t>(a)] = true;
  std::vector<Pass> out;
  std::int64_t inner = 1;  // kept elements behind
  for (std::size_t d = shape.size(); d > 0;) {
    if (!reduced[d - 1]) {
      inner *= shape[--d];
      continue;
    }
    std::int64_t red = 1;
    while (d > 0 && reduced[d - 1]) red *= shape[--d];
    std::int64_t outer = 1;
    for (std::size_t i = 0; i < d; ++i) outer *= shape[i];
    out.push_back({outer, red, inner});
  }
  return out;
}

bool supported(ReduceOp op, DType t) {
  switch (op) {
    case ReduceOp::Max:
    case ReduceOp::Min:
      return !is_complex(t);
    case ReduceOp::And:
    case ReduceOp::Or:
      return is_bool(t) || is_integer(t);
    default:
      return true;
  }
}

MakeKernel maker(ReduceOp op) {
  return [op](const Request& r) {
    Kernel k;
    DType t = r.in[0].dtype;
    if (!supported(op, t)) return k;
    auto steps = passes(r.in[0].shape, ir::get<ops::Axes>(r.attrs).axes);
    if (steps.empty()) {
      k.shares = true;
      return k;
    }
    k.run = [op, t, steps](const void* const* in, void* const* out) {
      const void* from = in[0];
      std::vector<char> before;
      for (std::size_t i = 0; i < steps.size(); ++i) {
        const Pass& p = steps[i];
        bool last = i + 1 == steps.size();
        std::vector<char> after(last ? 0 : static_cast<std::size_t>(p.outer * p.inner * dtype_size(t)));
        kernels::reduce(op, t, from, last ? out[0] : after.data(), p.outer, p.red, p.inner);
        before = std::move(after);
        from = before.data();
      }
    };
    return k;
  };
}

}  // namespace

void add_reduce_kernels(KernelTable& table) {
  table.add("reduce_sum", maker(ReduceOp::Sum));
  table.add("reduce_prod", maker(ReduceOp::Prod));
  table.add("reduce_max", maker(ReduceOp::Max));
  table.add("reduce_min", maker(ReduceOp::Min));
  table.add("reduce_and", maker(ReduceOp::And));
  table.add("reduce_or", maker(ReduceOp::Or));
}

}  // namespace tessera::cpu
