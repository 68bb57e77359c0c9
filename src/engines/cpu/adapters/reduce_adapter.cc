// SPDX-License-Identifier: Apache-2.0
// Reductions over axes. Kernels reduce the middle of [outer, red, inner]; axes that do not lie together are reduced run
// by run, from the last one.
#include <algorithm>
#include <cstring>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engines/cpu/adapters/kernel_table.h"
#include "engines/cpu/adapters/reducers.h"
#include "engines/cpu/kernels/copy_kernels.h"
#include "engines/cpu/kernels/fixed_order.h"
#include "engines/cpu/kernels/reduce_axes.h"
#include "ops/shared_attrs.h"

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

void run_passes(ReduceOp op, DType t, bool fixed_order, const std::vector<Pass>& steps, const void* from, void* to) {
  auto reduce = fixed_order ? kernels::reduce_fixed : kernels::reduce;
  std::vector<char> before;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Pass& p = steps[i];
    bool last = i + 1 == steps.size();
    std::vector<char> after(last ? 0 : static_cast<std::size_t>(p.outer * p.inner * dtype_size(t)));
    reduce(op, t, from, last ? to : after.data(), p.outer, p.red, p.inner);
    before = std::move(after);
    from = before.data();
  }
}

bool orders(ReduceOp op, const Request& r) {
  return r.fixed_order && is_inexact(r.in[0].dtype) && (op == ReduceOp::Sum || op == ReduceOp::Prod);
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
    k.run = [=, fixed = orders(op, r)](const void* const* in, void* const* out) {
      run_passes(op, t, fixed, steps, in[0], out[0]);
    };
    return k;
  };
}

// Reducers that programs give are mostly one op.
Kernel make_general_reduce(const Request& r) {
  Kernel k;
  const auto& p = ir::get<ops::Reduce>(r.attrs);
  auto op = simple_reducer(*p.body);
  DType t = r.in[0].dtype;
  auto steps = passes(r.in[0].shape, p.axes);
  if (!op || steps.empty() || !supported(op->reduce, t)) return reduce_by_body(r);
  auto combine = kernels::ew_find(op->combine, t, t);
  if (combine == nullptr) return k;
  k.run = [=, op = op->reduce, fixed = orders(op->reduce, r), n = r.out[0].size()](const void* const* in,
                                                                                   void* const* out) {
    run_passes(op, t, fixed, steps, in[0], out[0]);
    std::vector<char> start(static_cast<std::size_t>(n * dtype_size(t)));
    kernels::fill(start.data(), in[1], dtype_size(t), n);
    combine(start.data(), out[0], nullptr, out[0], n);
  };
  return k;
}

}  // namespace

std::optional<SimpleReducer> simple_reducer(const ir::Graph& body) {
  using kernels::EwOp;
  static const auto& known = *new std::unordered_map<std::string_view, SimpleReducer>{
      {"add", {ReduceOp::Sum, EwOp::Add}}, {"mul", {ReduceOp::Prod, EwOp::Mul}}, {"max", {ReduceOp::Max, EwOp::Max}},
      {"min", {ReduceOp::Min, EwOp::Min}}, {"and", {ReduceOp::And, EwOp::And}},  {"or", {ReduceOp::Or, EwOp::Or}},
  };
  if (body.eqns.size() != 1 || body.inputs.size() != 2 || body.outputs != body.eqns[0].out) return std::nullopt;
  const auto& in = body.eqns[0].in;
  bool both = in == body.inputs || (in.size() == 2 && in[0] == body.inputs[1] && in[1] == body.inputs[0]);
  auto it = known.find(body.eqns[0].op->name());
  return both && it != known.end() ? std::optional(it->second) : std::nullopt;
}

void add_reduce_kernels(KernelTable& table) {
  table.add("reduce", make_general_reduce);
  table.add("reduce_sum", maker(ReduceOp::Sum));
  table.add("reduce_prod", maker(ReduceOp::Prod));
  table.add("reduce_max", maker(ReduceOp::Max));
  table.add("reduce_min", maker(ReduceOp::Min));
  table.add("reduce_and", maker(ReduceOp::And));
  table.add("reduce_or", maker(ReduceOp::Or));
}

}  // namespace tessera::cpu
