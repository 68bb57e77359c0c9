// SPDX-License-Identifier: Apache-2.0
// Programs: checks while they are written, then the assignment of kernels and buffers.
#include "engines/cpu/kernels/elementwise/fused_plan.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

#include "base/intern_table.h"
#include "base/strings.h"
#include "tessera/error.h"

namespace tessera::kernels {

using Value = FusedProgram::Value;

Value FusedProgram::add(Node node) {
  nodes_.push_back(node);
  return static_cast<Value>(nodes_.size() - 1);
}

Value FusedProgram::input(DType dtype, Access access) {
  Extent extent = access == Access::Scalar ? Extent::Once : access == Access::ColBroadcast ? Extent::Row : Extent::Full;
  return add({.kind = Kind::Input, .dtype = dtype, .extent = extent, .access = access, .index = inputs_++});
}

Value FusedProgram::window(DType dtype, Value fill) {
  const Node* outside = fill < 0 ? nullptr : &nodes_.at(static_cast<std::size_t>(fill));
  if (outside != nullptr && (outside->extent != Extent::Once || outside->dtype != dtype)) {
    throw TypeError(str("FusedProgram::window: fill is value ", fill, " of dtype ", dtype_name(outside->dtype),
                        "; expected a ", dtype_name(dtype), " that is the same everywhere"));
  }
  return add({.kind = Kind::Input,
              .dtype = dtype,
              .extent = Extent::Full,
              .access = Access::Window,
              .index = inputs_++,
              .operands = {fill, -1, -1}});
}

Value FusedProgram::window_with_edges(DType dtype) {
  const std::int32_t index = inputs_;
  inputs_ += 2;
  return add({.kind = Kind::Input,
              .dtype = dtype,
              .extent = Extent::Full,
              .access = Access::Window,
              .index = index,
              .edges = index + 1});
}

Value FusedProgram::constant(DType dtype, const void* bytes) {
  Node node{.kind = Kind::Constant, .dtype = dtype, .extent = Extent::Once};
  std::memcpy(node.bytes.data(), bytes, static_cast<std::size_t>(dtype_size(dtype)));
  return add(node);
}

Value FusedProgram::op(EwOp op, DType out, Value a, Value b, Value c) {
  Node node{.kind = Kind::Op, .dtype = out, .extent = Extent::Once, .op = op, .operands = {a, b, c}};
  DType data = dtype(op == EwOp::Select ? b : a);
  for (int i = 0; i < ew_arity(op); ++i) {
    Value v = node.operands[static_cast<std::size_t>(i)];
    const Node& operand = nodes_.at(static_cast<std::size_t>(v));
    node.extent = std::max(node.extent, operand.extent);
    node.phase = std::max(node.phase, operand.phase);
    DType expected = op == EwOp::Select && i == 0 ? DType::Bool : data;
    if (operand.dtype != expected) {
      throw TypeError(str("FusedProgram::op: operand ", i, " has dtype ", dtype_name(operand.dtype), "; expected ",
                          dtype_name(expected)));
    }
  }
  if (!ew_find(op, data, out)) {
    throw TypeError(str("FusedProgram::op: no kernel of operation ", static_cast<int>(op), " from ", dtype_name(data),
                        " to ", dtype_name(out)));
  }
  return add(node);
}

Value FusedProgram::reduce(ReduceOp op, Value a) {
  const Node& operand = nodes_.at(static_cast<std::size_t>(a));
  if (!find_reduce(op, operand.dtype).row) {
    throw TypeError(
        str("FusedProgram::reduce: no reduction ", static_cast<int>(op), " of ", dtype_name(operand.dtype)));
  }
  DType wanted = operand.dtype;
  Value r = add({.kind = Kind::Reduce,
                 .dtype = accumulator_dtype(wanted),
                 .extent = Extent::Row,
                 .reduce = op,
                 .phase = operand.phase + 1,
                 .operands = {a, -1, -1}});
  return dtype(r) == wanted ? r : this->op(EwOp::Convert, wanted, r);
}

void FusedProgram::output(Value value) { outputs_.push_back({value, false}); }

void FusedProgram::row_output(Value value) {
  if (nodes_.at(static_cast<std::size_t>(value)).extent == Extent::Full) {
    throw TypeError(str("FusedProgram::row_output: value ", value, " differs along rows; expected one value a row"));
  }
  outputs_.push_back({value, true});
}

// Writes the steps of one variant.
class VariantBuilder {
 public:
  using Node = FusedProgram::Node;
  using Kind = FusedProgram::Kind;
  using Extent = FusedProgram::Extent;

  struct Options {
    bool chunks, staged;
    FusedPlanner::Code code;
    bool stream;
  };
  VariantBuilder(const std::vector<Node>& nodes, const std::vector<FusedProgram::Output>& outputs, Options options)
      : nodes_(nodes),
        outputs_(outputs),
        chunks_(options.chunks),
        staged_(options.staged),
        code_(options.code != FusedPlanner::Code::None),
        few_(options.code == FusedPlanner::Code::Few),
        stream_(options.stream),
        at_(nodes.size()),
        kept_(nodes.size(), -1) {}

  Variant build() {
    std::vector<bool> needed(nodes_.size());
    for (const auto& o : outputs_) needed[static_cast<std::size_t>(o.value)] = true;
    close(needed);
    prefill(needed);
    std::int32_t phases = 0;
    for (std::size_t v = 0; v < nodes_.size(); ++v) {
      if (needed[v]) phases = std::max(phases, nodes_[v].phase);
    }
    if (chunks_) {
      for (std::int32_t p = 0; p <= phases; ++p) stage(p, p == phases, needed);
    } else {
      Stage& s = variant_.stages.emplace_back();
      steps_ = &s.steps;
      for (std::size_t v = 0; v < nodes_.size(); ++v) {
        if (needed[v]) compute(static_cast<Value>(v));
      }
      store();
    }
    for (std::size_t v = 0; v < nodes_.size(); ++v) {
      const Node& n = nodes_[v];
      if (!needed[v] || n.kind != Kind::Input || n.access != Access::Contiguous) continue;
      variant_.streamed.push_back({Place::Input, n.index, -1, dtype_size(n.dtype)});
    }
    if (code_) use_code();
    auto fixed = static_cast<std::size_t>(fixed_);
    std::vector<std::int64_t> all = std::move(variant_.buffer_sizes);
    variant_.buffer_sizes = {all.begin(), all.begin() + fixed_};
    for (Stage& s : variant_.stages) {
      auto mine = all;
      share_buffers(s.steps, mine, fixed);
      // Stages do not meet: their buffers lie over each other.
      variant_.buffer_sizes.resize(std::max(variant_.buffer_sizes.size(), mine.size()));
      for (std::size_t b = fixed; b < mine.size(); ++b) {
        variant_.buffer_sizes[b] = std::max(variant_.buffer_sizes[b], mine[b]);
      }
    }
    variant_.buffer_starts = {0};
    for (auto size : variant_.buffer_sizes) variant_.buffer_starts.push_back(variant_.buffer_starts.back() + size);
    return std::move(variant_);
  }

 private:
  const Node& node(Value v) const { return nodes_[static_cast<std::size_t>(v)]; }

  // Code reads one vector of what is the same everywhere, and asks for operands ahead of time itself.
  void use_code() {
    for (Stage& s : variant_.stages) compile_steps(s.steps, variant_, variant_.buffer_sizes, stream_, few_);
    bool kernels = false;
    for (Prefill& f : variant_.prefills) f.whole = f.period_input >= 0;
    auto whole = [&](const Operand& o) {
      if (o.place == Place::Buffer && o.buffer < fixed_) prefill_of(o.buffer).whole = true;
    };
    for (const Stage& s : variant_.stages) {
      for (const auto* list : {&s.row_steps, &s.steps}) {
        for (const Step& step : *list) {
          kernels |= step.kind != Step::Kind::Code && !step.per_row;
          for (const Operand& o : step.in) whole(o);
        }
      }
    }
    for (std::size_t i = variant_.prefills.size(); i-- > 0;) {
      const Prefill& f = variant_.prefills[i];
      if (!f.whole) continue;
      for (std::int32_t b : f.operands) {
        if (b >= 0) prefill_of(b).whole = true;
      }
    }
    if (!kernels) variant_.streamed.clear();
    // Copies of what is under windows stay in the first-level cache.
    constexpr std::int64_t kLargeTile = 4096, kTileOfWindows = 2048;
    if (!kernels && !chunks_) variant_.block = variant_.windows.empty() ? kLargeTile : kTileOfWindows;
  }
  Prefill& prefill_of(std::int32_t buffer) {
    auto it = std::find_if(variant_.prefills.begin(), variant_.prefills.end(),
                           [&](const Prefill& f) { return f.buffer == buffer; });
    return *it;
  }

  // Marks everything that marked values are made of.
  void close(std::vector<bool>& needed) const {
    for (std::size_t v = nodes_.size(); v-- > 0;) {
      if (!needed[v]) continue;
      for (Value o : nodes_[v].operands) {
        if (o >= 0) needed[static_cast<std::size_t>(o)] = true;
      }
    }
  }

  std::int32_t new_buffer(DType t) {
    variant_.buffer_sizes.push_back(dtype_size(t));
    return static_cast<std::int32_t>(variant_.buffer_sizes.size() - 1);
  }

  void prefill(const std::vector<bool>& needed) {
    for (std::size_t v = 0; v < nodes_.size(); ++v) {
      const Node& n = nodes_[v];
      bool period = n.kind == Kind::Input && n.access == Access::RowBroadcast;
      if (!needed[v] || (n.extent != Extent::Once && !period)) continue;
      Prefill f;
      f.buffer = new_buffer(n.dtype);
      f.size = dtype_size(n.dtype);
      if (period) {
        f.period_input = n.index;
        at_[v] = {Place::Period, n.index, f.buffer, f.size};
      } else {
        at_[v] = {Place::Buffer, 0, f.buffer, f.size};
      }
      if (n.kind == Kind::Input && !period) f.scalar_input = n.index;
      if (n.kind == Kind::Constant) f.bytes = n.bytes;
      if (n.kind == Kind::Op) {
        f.fn = kernel(n);
        for (std::size_t i = 0; i < 3; ++i) {
          if (n.operands[i] >= 0) f.operands[i] = at_[static_cast<std::size_t>(n.operands[i])].buffer;
        }
      }
      variant_.prefills.push_back(f);
    }
    for (std::size_t v = 0; v < nodes_.size(); ++v) {
      const Node& n = nodes_[v];
      if (n.kind != Kind::Input || n.access != Access::Window) continue;
      WindowedInput w{.input = n.index, .edges = n.edges, .size = dtype_size(n.dtype)};
      if (needed[v]) w.buffer = new_buffer(n.dtype);
      if (needed[v] && n.operands[0] >= 0) w.fill = at_[static_cast<std::size_t>(n.operands[0])].buffer;
      at_[v] = {Place::Window, static_cast<std::int32_t>(variant_.windows.size()), -1, w.size};
      variant_.windows.push_back(w);
    }
    fixed_ = static_cast<std::ptrdiff_t>(variant_.buffer_sizes.size());
  }

  EwFn kernel(const Node& n) const {
    if (n.joined) return n.joined;
    return ew_find(n.op, node(n.operands[n.op == EwOp::Select ? 1 : 0]).dtype, n.dtype);
  }

  // The operand for a step that runs over elements (`full`) or rows; a value of fewer elements is repeated first.
  Operand read(Value v, bool full) {
    Operand& at = at_[static_cast<std::size_t>(v)];
    const Node& n = node(v);
    if (n.kind == Kind::Input && at.place == Place::None) {
      at = {n.access == Access::Contiguous ? Place::Input : Place::InputRow, n.index, -1, dtype_size(n.dtype)};
    }
    if (!full || n.extent != Extent::Row) return at;
    for (auto& [value, operand] : expanded_) {
      if (value == v) return operand;
    }
    Operand wide{Place::Buffer, 0, new_buffer(n.dtype), dtype_size(n.dtype)};
    steps_->push_back({.kind = Step::Kind::Expand, .to = n.dtype, .in = {at}, .out = wide});
    expanded_.emplace_back(v, wide);
    return wide;
  }

  // A full result that this value may be computed into at once.
  std::optional<std::int32_t> direct_output(Value v) const {
    if (staged_ || !storing_) return std::nullopt;
    for (std::size_t o = 0; o < outputs_.size(); ++o) {
      if (outputs_[o].value == v && !outputs_[o].per_row) return static_cast<std::int32_t>(o);
    }
    return std::nullopt;
  }

  // The kernel that takes one operand as it is, one value a row, in place of repeating it.
  EwRowFn row_operand(const Node& n) const {
    if (code_ || n.kind != Kind::Op || n.extent != Extent::Full || n.joined || ew_arity(n.op) != 2) return nullptr;
    const Node& a = node(n.operands[0]);
    const Node& b = node(n.operands[1]);
    if (n.dtype != DType::F32 || a.dtype != DType::F32) return nullptr;
    bool second = a.extent == Extent::Full && b.extent == Extent::Row;
    bool first = a.extent == Extent::Row && b.extent == Extent::Full && (n.op == EwOp::Add || n.op == EwOp::Mul);
    return second || first ? find_row_operand(n.op) : nullptr;
  }

  Operand keep(Value v) {
    std::int32_t& k = kept_[static_cast<std::size_t>(v)];
    if (k < 0) {
      k = static_cast<std::int32_t>(variant_.kept_sizes.size());
      variant_.kept_sizes.push_back(dtype_size(node(v).dtype));
    }
    return {Place::Kept, k, -1, dtype_size(node(v).dtype)};
  }

  void compute(Value v) {
    const Node& n = node(v);
    if (n.kind == Kind::Input || n.kind == Kind::Constant || n.extent == Extent::Once) return;
    Step step;
    std::int64_t size = dtype_size(n.dtype);
    step.op = n.op;
    step.from = node(n.operands[n.op == EwOp::Select ? 1 : 0]).dtype;
    step.to = n.dtype;
    if (n.kind == Kind::Reduce) {
      step.kind = Step::Kind::Reduce;
      step.reduction = n.reduce;
      step.reduce = find_reduce(n.reduce, node(n.operands[0]).dtype).row;
      step.in[0] = read(n.operands[0], true);
      reduce_identity(n.reduce, n.dtype, step.identity.data());
      if (chunks_) {
        step.out = {Place::Partial, static_cast<std::int32_t>(variant_.partials.size()), -1, size};
        variant_.partials.push_back({find_reduce(n.reduce, n.dtype).row, size, keep(v).index});
        at_[static_cast<std::size_t>(v)] = keep(v);
        steps_->push_back(step);
        return;
      }
    } else if (EwRowFn fn = row_operand(n)) {
      bool first = node(n.operands[0]).extent == Extent::Full;
      step.kind = Step::Kind::RowOperand;
      step.row_fn = fn;
      step.in[0] = read(n.operands[first ? 0 : 1], true);
      step.in[1] = read(n.operands[first ? 1 : 0], false);
    } else {
      step.fn = kernel(n);
      step.per_row = n.extent == Extent::Row;
      for (std::size_t i = 0; i < 3; ++i) {
        if (n.operands[i] >= 0) step.in[i] = read(n.operands[i], !step.per_row);
      }
    }
    if (n.extent == Extent::Row && chunks_) {
      step.out = keep(v);
    } else if (auto o = n.extent == Extent::Full ? direct_output(v) : std::nullopt) {
      step.out = {Place::Output, *o, -1, size};
    } else {
      step.out = {Place::Buffer, 0, new_buffer(n.dtype), size};
    }
    at_[static_cast<std::size_t>(v)] = step.out;
    steps_->push_back(step);
  }

  // Copies to the results that were not computed in place.
  void store(bool rows = true, bool full = true) {
    if (staged_ && full && outputs_.size() > 1) lift_inputs();
    for (std::size_t o = 0; o < outputs_.size(); ++o) {
      auto [v, per_row] = outputs_[o];
      if (per_row ? !rows : !full) continue;
      Operand to{per_row ? Place::OutputRow : Place::Output, static_cast<std::int32_t>(o), -1,
                 dtype_size(node(v).dtype)};
      Operand from = read(v, false);
      if (from.place == Place::Output && from.index == to.index) continue;
      auto kind = !per_row && node(v).extent == Extent::Row ? Step::Kind::Expand : Step::Kind::Copy;
      steps_->push_back({.kind = kind, .to = node(v).dtype, .per_row = per_row, .in = {from}, .out = to});
    }
  }

  // A result may lie over an input: inputs that are results themselves are read before the first result is stored.
  void lift_inputs() {
    for (const auto& [v, per_row] : outputs_) {
      Operand from = read(v, false);
      if (from.place != Place::Input) continue;
      Operand lifted{Place::Buffer, 0, new_buffer(node(v).dtype), from.size};
      steps_->push_back({.kind = Step::Kind::Copy, .to = node(v).dtype, .in = {from}, .out = lifted});
      at_[static_cast<std::size_t>(v)] = lifted;
    }
  }

  // Phase `p` of a run over chunks of rows: what reductions of this phase are made of is computed anew in each phase,
  // which costs less than storing it would.
  void stage(std::int32_t p, bool last, const std::vector<bool>& all_needed) {
    Stage& s = variant_.stages.emplace_back();
    steps_ = &s.row_steps;
    expanded_.clear();
    for (std::size_t v = 0; v < nodes_.size(); ++v) {
      const Node& n = nodes_[v];
      if (all_needed[v] && n.extent == Extent::Row && n.phase == p && n.kind == Kind::Op)
        compute(static_cast<Value>(v));
    }
    if (last) store(true, false);
    steps_ = &s.steps;
    std::vector<bool> needed(nodes_.size());
    for (std::size_t v = 0; v < nodes_.size(); ++v) {
      needed[v] = all_needed[v] && nodes_[v].kind == Kind::Reduce && nodes_[v].phase == p + 1;
    }
    if (last) {
      for (const auto& o : outputs_) {
        if (!o.per_row) needed[static_cast<std::size_t>(o.value)] = true;
      }
    }
    for (std::size_t v = nodes_.size(); v-- > 0;) {
      // Row values are at hand: nothing behind them is needed.
      if (!needed[v] || (nodes_[v].extent == Extent::Row && nodes_[v].phase <= p)) continue;
      for (Value o : nodes_[v].operands) {
        if (o >= 0) needed[static_cast<std::size_t>(o)] = true;
      }
    }
    storing_ = last;
    std::size_t before = variant_.partials.size();
    for (std::size_t v = 0; v < nodes_.size(); ++v) {
      const Node& n = nodes_[v];
      bool here = n.extent == Extent::Full ? n.phase <= p : n.kind == Kind::Reduce && n.phase == p + 1;
      if (needed[v] && here) compute(static_cast<Value>(v));
    }
    if (last) store(false, true);
    storing_ = true;
    for (std::size_t i = before; i < variant_.partials.size(); ++i) s.partials.push_back(static_cast<std::int32_t>(i));
  }

  const std::vector<Node>& nodes_;
  const std::vector<FusedProgram::Output>& outputs_;
  bool chunks_, staged_, code_, few_, stream_;
  bool storing_ = true;
  std::vector<Operand> at_;
  std::vector<std::int32_t> kept_;
  std::vector<std::pair<Value, Operand>> expanded_;
  std::ptrdiff_t fixed_ = 0;
  std::vector<Step>* steps_ = nullptr;
  Variant variant_;
};

namespace {

// Nanoseconds an element, to decide what is worth a second thread.
double cost_of(EwOp op, DType t) {
  double wide = static_cast<double>(dtype_size(t)) / 4;
  if (op >= EwOp::Exp && op <= EwOp::Digamma && op != EwOp::Sqrt && op != EwOp::Rsqrt) return 0.4 * wide;
  if (op == EwOp::Pow || op == EwOp::Atan2 || op == EwOp::Rem || op == EwOp::Div) return 1.0 * wide;
  return 0.06 * wide;
}

}  // namespace

// Puts an op whose result is read once, by another op, into that one.
void FusedPlanner::join(std::vector<FusedProgram::Node>& nodes, const std::vector<FusedProgram::Output>& outputs) {
  std::vector<int> uses(nodes.size());
  for (const auto& o : outputs) uses[static_cast<std::size_t>(o.value)] += 2;
  for (const auto& n : nodes) {
    for (Value o : n.operands) {
      if (o >= 0) ++uses[static_cast<std::size_t>(o)];
    }
  }
  auto at = [&](Value v) -> FusedProgram::Node& { return nodes[static_cast<std::size_t>(v)]; };
  auto plain = [&](const FusedProgram::Node& n) {
    bool binary = n.kind == FusedProgram::Kind::Op && (n.op == EwOp::Add || n.op == EwOp::Sub || n.op == EwOp::Mul);
    if (!binary || n.dtype != DType::F32 || n.extent != FusedProgram::Extent::Full || n.joined) return false;
    // An operand that is one value a row has a kernel of its own.
    return at(n.operands[0]).extent != FusedProgram::Extent::Row &&
           at(n.operands[1]).extent != FusedProgram::Extent::Row;
  };
  // Values that are the same everywhere are read as one element: laid out over a block they would fill the cache.
  auto scalars = [&](std::initializer_list<Value> operands) {
    int mask = 0;
    int bit = 1;
    for (Value v : operands) {
      if (at(v).extent == FusedProgram::Extent::Once) mask |= bit;
      bit *= 2;
    }
    return mask;
  };
  for (auto& n : nodes) {
    for (std::size_t k = 0; k < 2 && plain(n); ++k) {
      Value v = n.operands[k];
      const auto& inner = at(v);
      if (!plain(inner) || uses[static_cast<std::size_t>(v)] != 1) continue;
      std::array<Value, 3> operands = {inner.operands[0], inner.operands[1], n.operands[1 - k]};
      n.joined = find_joined(inner.op, n.op, k == 0, scalars({operands[0], operands[1], operands[2]}));
      if (n.joined) n.operands = operands;
    }
  }
  for (auto& n : nodes) {
    bool full = n.kind == FusedProgram::Kind::Op && n.extent == FusedProgram::Extent::Full && n.dtype == DType::F32;
    if (!full || n.joined || ew_arity(n.op) != 2 || at(n.operands[0]).dtype != DType::F32) continue;
    n.joined = find_scalar_operand(n.op, scalars({n.operands[0], n.operands[1]}));
  }
}

// Everything that the plan is made of.
std::string FusedPlanner::key(const FusedProgram& program) {
  std::string key;
  auto put = [&](const auto& value) { key.append(reinterpret_cast<const char*>(&value), sizeof value); };
  for (const auto& n : program.nodes_) {
    put(n.kind);
    put(n.dtype);
    put(n.access);
    put(n.op);
    put(n.reduce);
    put(n.operands);
    put(n.bytes);
    put(n.edges);
  }
  for (const auto& o : program.outputs_) {
    put(o.value);
    put(o.per_row);
  }
  return key;
}

std::shared_ptr<const FusedKernel::Plan> FusedPlanner::plan(FusedProgram program) {
  // Never destroyed: other threads may compile while the program ends.
  static auto& known = *new base::InternTable<FusedKernel::Plan>;
  std::string name = key(program);
  return known.get(
      std::hash<std::string>()(name), [&](const FusedKernel::Plan& plan) { return plan.key == name; },
      [&] {
        auto plan = make(std::move(program));
        plan->key = name;
        return plan;
      });
}

std::shared_ptr<FusedKernel::Plan> FusedPlanner::make(FusedProgram program) {
  FusedProgram joined = program;
  join(joined.nodes_, joined.outputs_);
  auto plan = std::make_shared<FusedKernel::Plan>(std::move(program), std::move(joined));
  using Kind = FusedProgram::Kind;
  for (const auto& n : plan->program.nodes_) {
    if (n.kind == Kind::Input) {
      plan->accesses.insert(plan->accesses.end(), n.edges < 0 ? 1 : 2, n.access);
      plan->rows_matter |= n.access == Access::RowBroadcast || n.access == Access::ColBroadcast;
    }
    plan->reduces |= n.kind == Kind::Reduce;
    plan->by_rows |= n.extent == FusedProgram::Extent::Row;
    plan->cost += n.kind == Kind::Op ? cost_of(n.op, n.dtype) : 0.05;
    if (dtype_size(n.dtype) > 4) plan->block = 512;
  }
  for (const auto& o : plan->program.outputs_) {
    plan->output_dtypes.push_back(plan->program.dtype(o.value));
    plan->output_is_full.push_back(!o.per_row);
    plan->rows_matter |= o.per_row;
  }
  plan->rows_matter |= plan->reduces;
  return plan;
}

Variant FusedPlanner::build(const FusedProgram& program, bool chunks, bool staged, Code code, bool stream) {
  return VariantBuilder(program.nodes_, program.outputs_, {chunks, staged, code, stream}).build();
}

const Prefill* Variant::prefill(std::int32_t buffer) const {
  auto it = std::find_if(prefills.begin(), prefills.end(), [&](const Prefill& f) { return f.buffer == buffer; });
  return it == prefills.end() ? nullptr : &*it;
}

std::vector<std::int64_t> FusedProgram::input_row_bytes(std::int64_t inner) const {
  std::vector<std::int64_t> out(static_cast<std::size_t>(inputs_));
  for (const Node& n : nodes_) {
    if (n.kind != Kind::Input) continue;
    const bool full = n.access == Access::Contiguous, row = n.access == Access::ColBroadcast;
    out[static_cast<std::size_t>(n.index)] = full ? inner * dtype_size(n.dtype) : row ? dtype_size(n.dtype) : 0;
  }
  return out;
}
std::vector<std::int64_t> FusedProgram::output_row_bytes(std::int64_t inner) const {
  std::vector<std::int64_t> out;
  for (const Output& o : outputs_) out.push_back((o.per_row ? 1 : inner) * dtype_size(dtype(o.value)));
  return out;
}

const Variant& FusedKernel::Plan::by_kernels(bool chunks, bool staged) const {
  Built& b = built_[(chunks ? 2 : 0) + (staged ? 1 : 0)];
  std::call_once(b.once, [&] {
    b.variant = FusedPlanner::build(joined, chunks, staged, FusedPlanner::Code::None, false);
    b.variant->block = block;
  });
  return *b.variant;
}

const Variant* FusedKernel::Plan::by_code(bool chunks, bool stream, bool few) const {
  Built& b = built_[few ? 8 + (chunks ? 1 : 0) : 4 + (chunks ? 2 : 0) + (stream ? 1 : 0)];
  std::call_once(b.once, [&] {
    Variant v = FusedPlanner::build(program, chunks, true,
                                    few ? FusedPlanner::Code::Few : FusedPlanner::Code::WherePays, stream && !few);
    if (v.block == 0) v.block = block;
    bool any = std::any_of(v.stages.begin(), v.stages.end(), [](const Stage& s) {
      return std::any_of(s.steps.begin(), s.steps.end(), [](const Step& step) { return step.code != nullptr; });
    });
    if (any) b.variant = std::move(v);
  });
  return b.variant ? &*b.variant : nullptr;
}

}  // namespace tessera::kernels
