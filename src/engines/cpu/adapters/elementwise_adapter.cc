// SPDX-License-Identifier: Apache-2.0
// Element-wise ops by themselves.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>

#include "engines/cpu/adapters/ew_ops.h"
#include "engines/cpu/adapters/kernel_table.h"
#include "engines/cpu/kernels/copy_kernels.h"
#include "engines/cpu/kernels/elementwise/ew_joined.h"
#include "ops/shared_attrs.h"

namespace tessera::cpu {

using kernels::EwOp;

namespace {
// By the op's name.
const std::unordered_map<std::string_view, EwOp>& ew_ops() {
  static const auto* table = [] {
    auto* t = new std::unordered_map<std::string_view, EwOp>;
    auto add = [&](std::string_view op, EwOp kernel) {
      if (!op.empty()) t->emplace(op, kernel);
    };
#define TESSERA_EW(kernel, arity, op) add(op, EwOp::kernel);
#include "engines/cpu/kernels/elementwise/ew_kernels.def"
    return t;
  }();
  return *table;
}
}  // namespace

std::optional<EwCall> ew_call(const ir::OpDef& op, const ir::Attrs& attrs, ir::TypeSpan in, ir::TypeSpan out) {
  auto row = ew_ops().find(op.name());
  if (row == ew_ops().end() || !op.traits().elementwise || out.size() != 1 || in.empty() || in.size() > 3)
    return std::nullopt;
  if (static_cast<int>(in.size()) != kernels::ew_arity(row->second)) return std::nullopt;
  EwCall call;
  call.op = row->second;
  if (const auto* round = attrs ? ir::get_if<ops::Round>(attrs) : nullptr) {
    call.op = round->method == ops::Round::Method::AwayFromZero ? EwOp::RoundAfz : EwOp::RoundEven;
  }
  if (call.op == EwOp::Select) {
    if (!is_bool(in[0].dtype)) return std::nullopt;
    call.order = {0, 2, 1};  // select_n takes the false case first
    call.fn = kernels::ew_find(call.op, out[0].dtype, out[0].dtype);
  } else {
    call.fn = kernels::ew_find(call.op, in[0].dtype, out[0].dtype);
  }
  if (call.fn == nullptr) return std::nullopt;
  return call;
}

bool writes_ew(const ir::OpDef& op, const ir::Attrs& attrs, ir::TypeSpan in, ir::TypeSpan out) {
  if (!op.traits().elementwise || out.size() != 1) return false;
  if (const auto* power = attrs ? ir::get_if<ops::IntegerPow>(attrs) : nullptr) {
    DType t = in[0].dtype;
    bool invertible = kernels::ew_find(EwOp::Reciprocal, t, t) != nullptr;
    return power->y != 0 && kernels::ew_find(EwOp::Mul, t, t) != nullptr && (power->y > 0 || invertible);
  }
  return ew_call(op, attrs, in, out).has_value();
}

kernels::FusedProgram::Value write_ew(kernels::FusedProgram& program, const ir::OpDef& op, const ir::Attrs& attrs,
                                      ir::TypeSpan in, ir::TypeSpan out,
                                      const std::function<kernels::FusedProgram::Value(std::size_t)>& operand) {
  using Value = kernels::FusedProgram::Value;
  DType t = out[0].dtype;
  if (const auto* power = attrs ? ir::get_if<ops::IntegerPow>(attrs) : nullptr) {
    Value square = operand(0);
    Value result = -1;
    for (auto y = power->y < 0 ? 0 - static_cast<std::uint64_t>(power->y) : static_cast<std::uint64_t>(power->y);;) {
      if (y & 1) result = result < 0 ? square : program.op(EwOp::Mul, t, result, square);
      y >>= 1;
      if (y == 0) break;
      square = program.op(EwOp::Mul, t, square, square);
    }
    return power->y < 0 ? program.op(EwOp::Reciprocal, t, result) : result;
  }
  EwCall call = *ew_call(op, attrs, in, out);
  std::array<Value, 3> args{-1, -1, -1};
  for (std::size_t i = 0; i < in.size(); ++i) args[i] = operand(call.order[i]);
  return program.op(call.op, t, args[0], args[1], args[2]);
}

namespace {

bool is_repeated(const Request& r, std::size_t i) { return r.in[i].shape.empty() && !r.out[0].shape.empty(); }

// By blocks on all threads, as a program of one op.
Kernel make_blocks(const Request& r) {
  Kernel k;
  if (!writes_ew(r.op, r.attrs, r.in, r.out)) return k;
  kernels::FusedProgram program;
  std::array<kernels::FusedProgram::Value, 3> operands{};
  for (std::size_t i = 0; i < r.in.size(); ++i) {
    const bool repeated = is_repeated(r, i);
    operands[i] = program.input(r.in[i].dtype, repeated ? kernels::Access::Scalar : kernels::Access::Contiguous);
    // Memory may be shared with an operand of as many bytes.
    if (!repeated) k.in_place |= 1U << i;
  }
  program.output(write_ew(program, r.op, r.attrs, r.in, r.out, [&](std::size_t i) { return operands[i]; }));
  auto run = [fused = std::make_shared<kernels::FusedKernel>(std::move(program)), arity = r.in.size(),
              n = r.out[0].size()](bool stream) {
    return [=](const void* const* in, void* const* out) { fused->run({in, arity}, {out, 1}, 1, n, stream); };
  };
  k.run = run(false);
  k.stream = run(true);
  return k;
}

// The kernel itself where there is little to do, and nothing has to be laid out for it.
Kernel make(const Request& r) {
  constexpr std::int64_t kLittle = 16384;
  const std::int64_t n = r.out[0].size();
  auto call = ew_call(r.op, r.attrs, r.in, r.out);
  if (!call) return {};
  int repeated = 0;
  for (std::size_t i = 0; i < r.in.size(); ++i) repeated |= is_repeated(r, call->order[i]) ? 1 << i : 0;
  kernels::EwFn fn = call->fn;
  if (repeated != 0) {
    const bool floats = r.in.size() == 2 && r.in[0].dtype == DType::F32 && r.out[0].dtype == DType::F32;
    fn = floats ? kernels::find_scalar_operand(call->op, repeated) : nullptr;
  }
  if (fn == nullptr || n > kLittle) return make_blocks(r);
  Kernel k;
  k.in_place = 7;  // repeated operands are smaller unless there is one element
  k.run = [fn, n, order = call->order, arity = r.in.size()](const void* const* in, void* const* out) {
    fn(in[order[0]], arity > 1 ? in[order[1]] : nullptr, arity > 2 ? in[order[2]] : nullptr, out[0], n);
  };
  return k;
}

// Other memory is what the op is for.
Kernel make_copy(const Request& r) {
  Kernel k;
  std::int64_t bytes = r.out[0].nbytes();
  k.run = [bytes](const void* const* in, void* const* out) { kernels::copy_bytes(out[0], in[0], bytes); };
  return k;
}

}  // namespace

void add_elementwise_kernels(KernelTable& table) {
  for (const auto& [name, op] : ew_ops()) table.add(name, make);
  table.add("copy", make_copy);
  table.add("integer_pow", make_blocks);
}

}  // namespace tessera::cpu
