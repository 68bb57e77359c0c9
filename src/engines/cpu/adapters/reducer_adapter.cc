// SPDX-License-Identifier: Apache-2.0
// Reductions and running reductions by a body that the program gives. A line is cut into blocks of about the root of
// its length; a call of the body combines one element of every block, then blocks are combined one after the other.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/thread_pool.h"
#include "engines/cpu/adapters/ew_ops.h"
#include "engines/cpu/adapters/reducers.h"
#include "engines/cpu/kernels/copy_kernels.h"
#include "ops/define_op.h"
#include "ops/reduce/windows.h"
#include "ops/shared_attrs.h"
#include "ops/transform/interpret.h"

namespace tessera::cpu {

namespace {

using kernels::FusedKernel;
using kernels::FusedProgram;

// The body on vectors of numbers; null where an equation has no kernel.
std::shared_ptr<const FusedKernel> vectorized(const ir::Graph& body) {
  FusedProgram program;
  std::unordered_map<ir::ValueId, FusedProgram::Value> values;
  for (auto v : body.inputs) values[v] = program.input(body.type(v).dtype, kernels::Access::Contiguous);
  for (const auto& e : body.eqns) {
    if (e.op == &ops::def::constant) {
      HostArray number = ops::interpret(*e.op, {}, e.attrs)[0];
      if (number.size() != 1) return nullptr;
      values[e.out[0]] = program.constant(number.dtype(), number.data());
      continue;
    }
    ir::Types in;
    for (auto v : e.in) in.push_back(body.type(v));
    ir::Types out;
    for (auto v : e.out) out.push_back(body.type(v));
    if (!writes_ew(*e.op, e.attrs, in, out)) return nullptr;
    values[e.out[0]] = write_ew(program, *e.op, e.attrs, in, out, [&](std::size_t i) { return values.at(e.in[i]); });
  }
  for (auto v : body.outputs) program.output(values.at(v));
  return std::make_shared<const FusedKernel>(std::move(program));
}

// Numbers of several operands, in memory of their own.
using Memory = std::vector<std::vector<char>>;

class BodyCall {
 public:
  BodyCall(std::shared_ptr<const FusedKernel> kernel, ir::TypeSpan operands, std::size_t n)
      : kernel_(std::move(kernel)) {
    for (std::size_t i = 0; i < n; ++i) sizes_.push_back(dtype_size(operands[i].dtype));
  }

  std::size_t operands() const { return sizes_.size(); }
  std::int64_t size(std::size_t i) const { return sizes_[i]; }
  Memory memory(std::int64_t count) const {
    Memory out;
    for (auto s : sizes_) out.emplace_back(at(count * s));
    return out;
  }
  const char* element(const Memory& m, std::size_t i, std::int64_t k) const { return m[i].data() + k * sizes_[i]; }
  char* element(Memory& m, std::size_t i, std::int64_t k) const { return m[i].data() + k * sizes_[i]; }

  // out[o, o + count) = body(x[a, …), y[b, …)); `out` is neither x nor y there.
  void operator()(const Memory& x, std::int64_t a, const Memory& y, std::int64_t b, Memory& out, std::int64_t o,
                  std::int64_t count) const {
    if (count == 0) return;
    std::vector<const void*> in;
    std::vector<void*> to;
    for (std::size_t i = 0; i < operands(); ++i) in.push_back(element(x, i, a));
    for (std::size_t i = 0; i < operands(); ++i) in.push_back(element(y, i, b));
    for (std::size_t i = 0; i < operands(); ++i) to.push_back(element(out, i, o));
    kernel_->run(in, to, 1, count);
  }
  void copy(const Memory& from, std::int64_t a, Memory& to, std::int64_t b, std::int64_t count) const {
    for (std::size_t i = 0; i < operands(); ++i) {
      std::memcpy(element(to, i, b), element(from, i, a), at(count * sizes_[i]));
    }
  }

 private:
  std::shared_ptr<const FusedKernel> kernel_;
  std::vector<std::int64_t> sizes_;
};

// [outer, length, inner], of which `length` elements are combined in order.
struct ReducedLines {
  std::int64_t outer = 1, length = 1, inner = 1;
  std::int64_t chunk() const { return (length + blocks_wanted() - 1) / blocks_wanted(); }
  std::int64_t blocks() const { return (length + chunk() - 1) / chunk(); }
  // Blocks that have an element j: the last one may be shorter.
  std::int64_t blocks_with(std::int64_t j) const { return (length - j + chunk() - 1) / chunk(); }

 private:
  std::int64_t blocks_wanted() const { return std::max<std::int64_t>(1, std::llround(std::sqrt(length))); }
};

// One index of `outer`: element j of block c of operand i, from the end where the order is reversed.
class ReducedLine {
 public:
  ReducedLine(const BodyCall& call, const ReducedLines& lines, bool reverse)
      : call_(call), lines_(lines), reverse_(reverse) {}

  std::int64_t place(std::int64_t c, std::int64_t j) const {
    std::int64_t t = c * lines_.chunk() + j;
    return (reverse_ ? lines_.length - 1 - t : t) * lines_.inner;
  }
  // Element j of every block that has one, side by side.
  void load(const void* const* in, std::int64_t outer, std::int64_t j, Memory& to) const {
    for (std::size_t i = 0; i < call_.operands(); ++i) {
      std::int64_t size = call_.size(i);
      const char* from = static_cast<const char*>(in[i]) + outer * lines_.length * lines_.inner * size;
      for (std::int64_t c = 0, n = lines_.blocks_with(j); c < n; ++c) {
        std::memcpy(call_.element(to, i, c * lines_.inner), from + place(c, j) * size, at(lines_.inner * size));
      }
    }
  }
  void store(const Memory& from, void* const* out, std::int64_t outer, std::int64_t j) const {
    for (std::size_t i = 0; i < call_.operands(); ++i) {
      std::int64_t size = call_.size(i);
      char* to = static_cast<char*>(out[i]) + outer * lines_.length * lines_.inner * size;
      for (std::int64_t c = 0, n = lines_.blocks_with(j); c < n; ++c) {
        std::memcpy(to + place(c, j) * size, call_.element(from, i, c * lines_.inner), at(lines_.inner * size));
      }
    }
  }
  // What comes earlier in the order of elements stands on the left.
  void combine(const Memory& done, std::int64_t a, const Memory& next, std::int64_t b, Memory& out, std::int64_t o,
               std::int64_t count) const {
    reverse_ ? call_(next, b, done, a, out, o, count) : call_(done, a, next, b, out, o, count);
  }

 private:
  const BodyCall& call_;
  const ReducedLines& lines_;
  bool reverse_;
};

Memory repeated(const BodyCall& call, const void* const* numbers, std::int64_t count) {
  Memory out = call.memory(count);
  for (std::size_t i = 0; i < call.operands(); ++i) kernels::fill(out[i].data(), numbers[i], call.size(i), count);
  return out;
}

// Every block's elements into one, then the start and the blocks into one.
void reduce_lines(const BodyCall& call, const ReducedLines& lines, const void* const* in, const void* const* starts,
                  void* const* out) {
  auto one = [&](std::int64_t o) {
    ReducedLine line(call, lines, false);
    std::int64_t inner = lines.inner;
    std::int64_t width = lines.blocks() * inner;
    Memory total = call.memory(width), next = call.memory(width), sum = call.memory(width);
    line.load(in, o, 0, total);
    for (std::int64_t j = 1; j < lines.chunk(); ++j) {
      std::int64_t count = lines.blocks_with(j) * inner;
      line.load(in, o, j, next);
      call(total, 0, next, 0, sum, 0, count);
      call.copy(sum, 0, total, 0, count);
    }
    Memory result = repeated(call, starts, inner);
    for (std::int64_t c = 0; c < lines.blocks(); ++c) {
      call(result, 0, total, c * inner, sum, 0, inner);
      call.copy(sum, 0, result, 0, inner);
    }
    for (std::size_t i = 0; i < call.operands(); ++i) {
      std::memcpy(static_cast<char*>(out[i]) + o * inner * call.size(i), result[i].data(), at(inner * call.size(i)));
    }
  };
  base::parallel_for(lines.outer, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t o = begin; o < end; ++o) one(o);
  });
}

// Every block runs over its elements; then what all blocks before it came to, and the start, are combined with each.
void run_line(const BodyCall& call, const ReducedLines& lines, bool reverse, std::int64_t o, const void* const* in,
              const void* const* starts, void* const* out) {
  ReducedLine line(call, lines, reverse);
  std::int64_t inner = lines.inner;
  std::int64_t blocks = lines.blocks();
  std::int64_t width = blocks * inner;
  Memory next = call.memory(width);
  std::vector<Memory> runs(at(lines.chunk()));
  for (std::int64_t j = 0; j < lines.chunk(); ++j) {
    Memory& run = runs[at(j)] = call.memory(width);
    line.load(in, o, j, j == 0 ? run : next);
    if (j > 0) line.combine(runs[at(j - 1)], 0, next, 0, run, 0, lines.blocks_with(j) * inner);
  }
  const Memory& totals = runs.back();  // but the last block's
  Memory before = call.memory(width);  // of blocks from 1 on
  if (blocks > 1) call.copy(totals, 0, before, inner, inner);
  for (std::int64_t c = 2; c < blocks; ++c) {
    line.combine(before, (c - 1) * inner, totals, (c - 1) * inner, before, c * inner, inner);
  }
  Memory start = repeated(call, starts, width);
  Memory with = call.memory(width);
  for (std::int64_t j = 0; j < lines.chunk(); ++j) {
    std::int64_t count = lines.blocks_with(j) * inner;
    call.copy(runs[at(j)], 0, next, 0, inner);
    line.combine(before, inner, runs[at(j)], inner, next, inner, count - inner);
    call(start, 0, next, 0, with, 0, count);
    line.store(with, out, o, j);
  }
}

double cost_of(const ReducedLines& lines, std::size_t equations) {
  return static_cast<double>(lines.outer * lines.length * lines.inner) * (2.0 + 2.0 * static_cast<double>(equations));
}

// The reduced axes of `shape`, where they are neighbours.
std::optional<ReducedLines> lines_of(const Shape& shape, Dims axes) {
  std::sort(axes.begin(), axes.end());
  if (axes.empty() || axes.back() - axes.front() + 1 != static_cast<std::int64_t>(axes.size())) return std::nullopt;
  ReducedLines l;
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(shape.size()); ++d) {
    (d < axes.front() ? l.outer : d > axes.back() ? l.inner : l.length) *= shape[at(d)];
  }
  return l.outer * l.length * l.inner > 0 ? std::optional(l) : std::nullopt;
}

}  // namespace

Kernel reduce_by_body(const Request& r) {
  const auto& p = ir::get<ops::Reduce>(r.attrs);
  Kernel k;
  auto lines = lines_of(r.in[0].shape, p.axes);
  auto kernel = lines ? vectorized(*p.body) : nullptr;
  if (!kernel) return k;
  std::size_t n = r.out.size();
  k.run = [call = BodyCall(kernel, r.in, n), lines = *lines, n](const void* const* in, void* const* out) {
    reduce_lines(call, lines, in, in + n, out);
  };
  k.cost = cost_of(*lines, p.body->eqns.size());
  return k;
}

Kernel run_by_body(const Request& r) {
  const auto& p = ir::get<ops::ReduceWindow>(r.attrs);
  Kernel k;
  auto along = ops::running_window(r.in[0].shape, p);
  auto lines = along ? lines_of(r.in[0].shape, {along->axis}) : std::nullopt;
  auto kernel = lines ? vectorized(*p.body) : nullptr;
  if (!kernel) return k;
  std::size_t n = r.out.size();
  k.run = [call = BodyCall(kernel, r.in, n), lines = *lines, n, reverse = along->reverse](const void* const* in,
                                                                                          void* const* out) {
    base::parallel_for(lines.outer, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t o = begin; o < end; ++o) run_line(call, lines, reverse, o, in, in + n, out);
    });
  };
  k.cost = 2 * cost_of(*lines, p.body->eqns.size());
  return k;
}

}  // namespace tessera::cpu
