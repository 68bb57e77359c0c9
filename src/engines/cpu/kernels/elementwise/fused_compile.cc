// SPDX-License-Identifier: Apache-2.0
// Machine code in the place of steps that follow each other.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <tuple>
#include <utility>

#include "engines/cpu/kernels/elementwise/fused_plan.h"

namespace tessera::kernels {

namespace {

using Value = Fragment::Value;
using Kind = Fragment::Kind;

// Its code is made of a quotient's.
bool is_remainder(EwOp op, DType t) { return op == EwOp::Rem && (t == DType::I32 || t == DType::U32); }

bool has_code(const Step& s) {
  switch (s.kind) {
    case Step::Kind::Op:
      return compiles(is_remainder(s.op, s.from) ? EwOp::Div : s.op, s.from, s.to);
    case Step::Kind::Expand:
      return compiles(s.to);
    case Step::Kind::Copy:
      return !s.per_row && compiles(s.to);
    case Step::Kind::Reduce:
      return compiles(s.reduction, s.from);
    default:
      return false;
  }
}

// What code saves is what lies between the steps, some 0.015 ns an element for each; a function that it calls takes 0.1
// (log) to 0.8 (pow), and as long in the kernels. With three other steps to a call code gains 5 % and more of all
// functions, with fewer next to nothing of most: these stay with the kernels, and need not be compiled. A single step
// stays there, too, but for functions whose code has several vectors in flight, and where results are stored around the
// caches, which kernels do by a copy.
class Gain {
 public:
  explicit Gain(bool stream) : stream_(stream) {}
  void add(const Step& s) {
    const bool op = s.kind == Step::Kind::Op;
    if (!op && s.kind != Step::Kind::Reduce) return;
    ++steps_;
    if (s.per_row) return;
    ++(op && calls_kernel(s.op, s.from, s.to) ? calls_ : others_);
    together_ |= op && writes_together(s.op, s.from, s.to);
  }
  bool pays() const {
    const int least = together_ || stream_ ? 1 : 2;
    return steps_ >= least && others_ >= kOthersToACall * calls_;
  }
  bool computes() const { return steps_ > 0; }

 private:
  static constexpr int kOthersToACall = 3;
  bool stream_;
  int steps_ = 0, calls_ = 0, others_ = 0;
  bool together_ = false;
};

// One run of steps as a fragment.
class Collector {
 public:
  Collector(const Variant& variant, const std::vector<bool>& one_a_row, bool stream)
      : variant_(variant), one_a_row_(one_a_row), stream_(stream) {}

  void add(const Step& s) {
    switch (s.kind) {
      case Step::Kind::Op: {
        Fragment::Node n{.kind = Kind::Op, .dtype = s.to, .op = s.op};
        for (std::size_t i = 0; i < 3; ++i) {
          if (s.in[i].place == Place::None) continue;
          n.operands[i] = read(s.in[i], s.op == EwOp::Select && i == 0 ? DType::Bool : s.from);
        }
        bind(s.out, compute(n));
        break;
      }
      case Step::Kind::Reduce:
        bind(s.out, f_.add({.kind = Kind::Reduce,
                            .dtype = s.to,
                            .reduce = s.reduction,
                            .operands = {read(s.in[0], s.from), -1, -1}}));
        break;
      default:
        bind(s.out, read(s.in[0], s.to));
    }
  }

  // The code in a step; none where it cannot be had. `wanted`: buffers that other steps read.
  std::optional<Step> finish(const std::vector<bool>& wanted, std::vector<std::int64_t>& buffer_sizes) {
    Step step{.kind = Step::Kind::Code};
    step.reads = reads_;
    for (auto& [out, value] : results_) {
      bool read_outside = out.place != Place::Buffer || wanted[static_cast<std::size_t>(out.buffer)];
      if (read_outside) write(step, out, value);
    }
    step.code = compile(f_);
    if (!step.code) return std::nullopt;
    for (DType t : step.code->scratch) {
      buffer_sizes.push_back(dtype_size(t));
      step.writes.push_back({Place::Buffer, 0, static_cast<std::int32_t>(buffer_sizes.size() - 1), dtype_size(t)});
    }
    return step;
  }

 private:
  bool row_buffer(const Operand& o) const { return one_a_row_[static_cast<std::size_t>(o.buffer)]; }

  void write(Step& step, const Operand& out, Value value) {
    bool row = out.place == Place::Partial || (out.place == Place::Buffer && row_buffer(out));
    bool stream = stream_ && out.place == Place::Output;
    f_.stores.push_back({value, f_.pointers++, !row, stream});
    step.writes.push_back(out);
  }

  void bind(const Operand& out, Value v) {
    if (out.place == Place::Buffer) values_[key(out)] = v;
    results_.emplace_back(out, v);
  }

  using Key = std::tuple<Place, std::int32_t, std::int32_t>;
  static Key key(const Operand& o) { return {o.place, o.index, o.buffer}; }

  Value read(const Operand& o, DType t) {
    if (auto known = values_.find(key(o)); known != values_.end()) return known->second;
    return values_[key(o)] = load(o, t);
  }

  Value load(const Operand& o, DType t) {
    Fragment::Node n{.kind = Kind::Full, .dtype = t};
    if (o.place == Place::InputRow || o.place == Place::Kept) n.kind = Kind::Row;
    if (o.place == Place::Input) n.streamed = true;
    if (o.place == Place::Buffer) {
      if (const Prefill* f = variant_.prefill(o.buffer)) {
        bool constant = f->fn == nullptr && f->scalar_input < 0;
        n.kind = constant ? Kind::Constant : Kind::Once;
        if (constant) {
          n.bytes = f->bytes;
          return f_.add(n);
        }
      } else if (row_buffer(o)) {
        n.kind = Kind::Row;
      }
    }
    n.pointer = f_.pointers++;
    reads_.push_back(o);
    return f_.add(n);
  }

  Value compute(const Fragment::Node& n) {
    if (n.dtype != DType::I32 && n.dtype != DType::U32) return f_.add(n);
    if (n.op != EwOp::Div && n.op != EwOp::Rem) return f_.add(n);
    // A remainder is often taken beside the quotient.
    auto [known, is_new] = quotients_.try_emplace({n.operands[0], n.operands[1]}, -1);
    if (is_new) {
      Fragment::Node quotient = n;
      quotient.op = EwOp::Div;
      known->second = f_.add(quotient);
    }
    if (n.op == EwOp::Div) return known->second;
    Fragment::Node next = n;
    next.op = EwOp::Mul;
    next.operands = {known->second, n.operands[1], -1};
    const Value multiple = f_.add(next);
    next.op = EwOp::Sub;
    next.operands = {n.operands[0], multiple, -1};
    return f_.add(next);
  }

  const Variant& variant_;
  const std::vector<bool>& one_a_row_;
  bool stream_;
  Fragment f_;
  std::map<Key, Value> values_;
  std::map<std::pair<Value, Value>, Value> quotients_;  // of integers, by operands
  std::vector<std::pair<Operand, Value>> results_;
  std::vector<Operand> reads_;
};

}  // namespace

void compile_steps(std::vector<Step>& steps, const Variant& variant, std::vector<std::int64_t>& buffer_sizes,
                   bool stream, bool few) {
  // What results of rows are copied from may be made by code; nothing reads the copies.
  std::stable_partition(steps.begin(), steps.end(), [](const Step& s) { return s.out.place != Place::OutputRow; });
  std::vector<bool> one_a_row(buffer_sizes.size());
  for (const Step& s : steps) {
    if (s.out.place != Place::Buffer) continue;
    one_a_row[static_cast<std::size_t>(s.out.buffer)] = s.per_row || s.kind == Step::Kind::Reduce;
  }
  std::vector<Step> result;
  for (std::size_t begin = 0; begin < steps.size();) {
    std::size_t end = begin;
    Gain gain(stream);
    for (; end < steps.size() && has_code(steps[end]); ++end) gain.add(steps[end]);
    std::optional<Step> code;
    if (few ? gain.computes() : gain.pays()) {
      Collector collector(variant, one_a_row, stream);
      for (std::size_t i = begin; i < end; ++i) collector.add(steps[i]);
      std::vector<bool> wanted(buffer_sizes.size());
      for (std::size_t i = end; i < steps.size(); ++i) {
        for (const Operand& o : steps[i].in) {
          if (o.place == Place::Buffer) wanted[static_cast<std::size_t>(o.buffer)] = true;
        }
      }
      code = collector.finish(wanted, buffer_sizes);
      one_a_row.resize(buffer_sizes.size());
    }
    if (code) {
      result.push_back(std::move(*code));
      begin = end;
    } else {
      end = std::max(end, begin + 1);
      for (; begin < end; ++begin) result.push_back(std::move(steps[begin]));
    }
  }
  steps = std::move(result);
}

}  // namespace tessera::kernels
