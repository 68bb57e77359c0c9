// SPDX-License-Identifier: Apache-2.0
// Element-wise ops by themselves. Rank-0 operands are repeated into a block that stays in the cache.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>

#include "base/thread_pool.h"
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

struct Operand {
  std::int64_t itemsize;
  bool repeated;
};

kernels::EwFn reads_scalars(const Request& r, const EwCall& call, const std::array<Operand, 3>& operands) {
  bool floats = r.in.size() == 2 && r.in[0].dtype == DType::F32 && r.out[0].dtype == DType::F32;
  if (!floats) return nullptr;
  return kernels::find_scalar_operand(call.op, (operands[0].repeated ? 1 : 0) + (operands[1].repeated ? 2 : 0));
}

Kernel make(const Request& r) {
  auto call = ew_call(r.op, r.attrs, r.in, r.out);
  if (!call) return {};
  std::array<Operand, 3> operands{};
  bool mixed = false;
  for (std::size_t i = 0; i < r.in.size(); ++i) {
    const auto& t = r.in[call->order[i]];
    operands[i] = {dtype_size(t.dtype), t.shape.empty() && !r.out[0].shape.empty()};
    mixed = mixed || operands[i].repeated;
  }
  std::int64_t n = r.out[0].size();
  std::int64_t out_size = dtype_size(r.out[0].dtype);
  Kernel k;
  // Memory may be shared with an operand of as many bytes; repeated operands are smaller unless there is one element.
  k.in_place = 7;
  auto arity = r.in.size();
  constexpr std::int64_t kSerial = 16384;
  // Where the kernel reads a repeated operand's one element by itself, nothing has to be laid out.
  kernels::EwFn direct = mixed ? reads_scalars(r, *call, operands) : call->fn;
  if (direct && n <= kSerial) {
    k.run = [fn = direct, order = call->order, n, arity](const void* const* in, void* const* out) {
      fn(in[order[0]], arity > 1 ? in[order[1]] : nullptr, arity > 2 ? in[order[2]] : nullptr, out[0], n);
    };
    return k;
  }
  k.run = [=, fn = direct ? direct : call->fn, order = call->order](const void* const* in, void* const* out) {
    constexpr std::int64_t kChunk = 1024;
    base::parallel_for((n + kChunk - 1) / kChunk, kSerial / kChunk, [&](std::int64_t begin, std::int64_t end) {
      alignas(64) std::array<std::array<char, kChunk * 16>, 3> repeated;
      std::array<const char*, 3> from{};
      std::int64_t first = begin * kChunk;
      std::int64_t last = std::min(n, end * kChunk);
      bool any = false;
      for (std::size_t i = 0; i < arity; ++i) {
        from[i] = static_cast<const char*>(in[order[i]]);
        if (operands[i].repeated && !direct) {
          kernels::fill(repeated[i].data(), from[i], operands[i].itemsize, std::min(kChunk, last - first));
          from[i] = repeated[i].data();
          any = true;
        } else if (!operands[i].repeated) {
          from[i] += first * operands[i].itemsize;
        }
      }
      std::int64_t step = any ? kChunk : last - first;
      for (std::int64_t i = first; i < last; i += step) {
        std::int64_t count = std::min(step, last - i);
        fn(from[0], from[1], from[2], static_cast<char*>(out[0]) + i * out_size, count);
        for (std::size_t j = 0; j < arity; ++j) from[j] += operands[j].repeated ? 0 : count * operands[j].itemsize;
      }
    });
  };
  return k;
}

Kernel make_power(const Request& r) {
  Kernel k;
  if (!writes_ew(r.op, r.attrs, r.in, r.out)) return k;
  kernels::FusedProgram program;
  auto x = program.input(r.in[0].dtype, kernels::Access::Contiguous);
  program.output(write_ew(program, r.op, r.attrs, r.in, r.out, [&](std::size_t) { return x; }));
  auto fused = std::make_shared<kernels::FusedKernel>(std::move(program));
  k.in_place = 1;
  k.run = [fused, n = r.out[0].size()](const void* const* in, void* const* out) {
    fused->run({in, 1}, {out, 1}, 1, n);
  };
  k.stream = [fused, n = r.out[0].size()](const void* const* in, void* const* out) {
    fused->run({in, 1}, {out, 1}, 1, n, true);
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
  table.add("integer_pow", make_power);
}

}  // namespace tessera::cpu
