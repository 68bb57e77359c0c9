// SPDX-License-Identifier: Apache-2.0
// Element-wise ops by themselves. Rank-0 operands are repeated into a block that stays in the cache.
#include <array>
#include <cstring>
#include <optional>

#include "base/thread_pool.h"
#include "engines/cpu/ew_ops.h"
#include "engines/cpu/kernel_table.h"
#include "engines/cpu/kernels/copy.h"

namespace tessera::cpu {

using kernels::EwOp;

namespace {
const std::unordered_map<std::string_view, EwOp>& ew_ops() {
  static const std::unordered_map<std::string_view, EwOp> table = {
      {"neg", EwOp::Neg},
      {"abs", EwOp::Abs},
      {"sign", EwOp::Sign},
      {"floor", EwOp::Floor},
      {"ceil", EwOp::Ceil},
      {"exp", EwOp::Exp},
      {"exp2", EwOp::Exp2},
      {"expm1", EwOp::Expm1},
      {"log", EwOp::Log},
      {"log1p", EwOp::Log1p},
      {"log2", EwOp::Log2},
      {"sqrt", EwOp::Sqrt},
      {"rsqrt", EwOp::Rsqrt},
      {"cbrt", EwOp::Cbrt},
      {"sin", EwOp::Sin},
      {"cos", EwOp::Cos},
      {"tan", EwOp::Tan},
      {"asin", EwOp::Asin},
      {"acos", EwOp::Acos},
      {"atan", EwOp::Atan},
      {"sinh", EwOp::Sinh},
      {"cosh", EwOp::Cosh},
      {"tanh", EwOp::Tanh},
      {"asinh", EwOp::Asinh},
      {"acosh", EwOp::Acosh},
      {"atanh", EwOp::Atanh},
      {"logistic", EwOp::Logistic},
      {"erf", EwOp::Erf},
      {"erfc", EwOp::Erfc},
      {"erf_inv", EwOp::ErfInv},
      {"lgamma", EwOp::Lgamma},
      {"digamma", EwOp::Digamma},
      {"square", EwOp::Square},
      {"reciprocal", EwOp::Reciprocal},
      {"is_finite", EwOp::IsFinite},
      {"not", EwOp::Not},
      {"population_count", EwOp::PopulationCount},
      {"clz", EwOp::Clz},
      {"convert", EwOp::Convert},
      {"real", EwOp::Real},
      {"imag", EwOp::Imag},
      {"conj", EwOp::Conj},
      {"add", EwOp::Add},
      {"sub", EwOp::Sub},
      {"mul", EwOp::Mul},
      {"div", EwOp::Div},
      {"rem", EwOp::Rem},
      {"pow", EwOp::Pow},
      {"max", EwOp::Max},
      {"min", EwOp::Min},
      {"atan2", EwOp::Atan2},
      {"nextafter", EwOp::Nextafter},
      {"and", EwOp::And},
      {"or", EwOp::Or},
      {"xor", EwOp::Xor},
      {"shift_left", EwOp::Shl},
      {"shift_right_logical", EwOp::ShrLogical},
      {"shift_right_arithmetic", EwOp::ShrArith},
      {"eq", EwOp::Eq},
      {"ne", EwOp::Ne},
      {"lt", EwOp::Lt},
      {"le", EwOp::Le},
      {"gt", EwOp::Gt},
      {"ge", EwOp::Ge},
      {"complex", EwOp::Complex},
      {"select_n", EwOp::Select},
      {"clamp", EwOp::Clamp},
  };
  return table;
}
}  // namespace

std::optional<EwCall> ew_call(const ir::OpDef& op, ir::TypeSpan in, ir::TypeSpan out) {
  auto row = ew_ops().find(op.name());
  if (row == ew_ops().end() || !op.traits().elementwise || out.size() != 1 || in.empty() || in.size() > 3)
    return std::nullopt;
  if (static_cast<int>(in.size()) != kernels::ew_arity(row->second)) return std::nullopt;
  EwCall call;
  call.op = row->second;
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

namespace {

struct Operand {
  std::int64_t itemsize;
  bool repeated;
};

Kernel make(const Request& r) {
  auto call = ew_call(r.op, r.in, r.out);
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
  k.in_place = true;
  auto arity = r.in.size();
  constexpr std::int64_t kSerial = 16384;
  if (!mixed && n <= kSerial) {
    k.run = [fn = call->fn, order = call->order, n, arity](const void* const* in, void* const* out) {
      fn(in[order[0]], arity > 1 ? in[order[1]] : nullptr, arity > 2 ? in[order[2]] : nullptr, out[0], n);
    };
    return k;
  }
  k.run = [=, fn = call->fn, order = call->order](const void* const* in, void* const* out) {
    constexpr std::int64_t kChunk = 1024;
    base::parallel_for((n + kChunk - 1) / kChunk, kSerial / kChunk, [&](std::int64_t begin, std::int64_t end) {
      alignas(64) std::array<std::array<char, kChunk * 16>, 3> repeated;
      std::array<const char*, 3> from{};
      std::int64_t first = begin * kChunk;
      std::int64_t last = std::min(n, end * kChunk);
      bool any = false;
      for (std::size_t i = 0; i < arity; ++i) {
        from[i] = static_cast<const char*>(in[order[i]]);
        if (operands[i].repeated) {
          kernels::fill(repeated[i].data(), from[i], operands[i].itemsize, std::min(kChunk, last - first));
          from[i] = repeated[i].data();
          any = true;
        } else {
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

Kernel make_copy(const Request&) {
  Kernel k;
  k.shares = true;
  return k;
}

}  // namespace

void add_elementwise_kernels(KernelTable& table) {
  for (const auto& [name, op] : ew_ops()) table.add(name, make);
  table.add("copy", make_copy);
}

}  // namespace tessera::cpu
