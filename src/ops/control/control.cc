// SPDX-License-Identifier: Apache-2.0
// What control-flow ops share, and cond.
#include "ops/control/control.h"

#include <algorithm>

#include "ir/derive_sharding.h"
#include "ir/rewriter.h"
#include "ops/define_op.h"
#include "ops/transform/interpret.h"

namespace tessera::ops {

void check_type(const char* op, const std::string& what, const Type& got, const Type& want) {
  if (got.dtype != want.dtype || got.shape != want.shape || !ir::same_sharding(got, want)) {
    throw TypeError(str("[", op, "] ", what, " is ", got, "; expected ", want));
  }
}
void check_inputs(const char* op, const std::string& which, const Graph& g, const std::vector<Type>& want) {
  if (g.inputs.size() != want.size()) {
    throw ValueError(str("[", op, "] ", which, " has ", g.inputs.size(), " inputs; expected ", want.size()));
  }
  for (std::size_t i = 0; i < want.size(); ++i) {
    check_type(op, str("input ", i, " of ", which), g.type(g.inputs[i]), want[i]);
  }
}

GraphPtr with_inputs(const Graph& g, const std::vector<std::size_t>& order) {
  Graph out = g;
  for (std::size_t i = 0; i < order.size(); ++i) out.inputs[i] = g.inputs[order[i]];
  ir::prune(out);
  return std::make_shared<const Graph>(std::move(out));
}
GraphPtr with_outputs(const Graph& g, const std::vector<std::size_t>& order) {
  Graph out = g;
  out.outputs.clear();
  for (auto i : order) out.outputs.push_back(g.outputs[i]);
  ir::prune(out);
  return std::make_shared<const Graph>(std::move(out));
}

Flags present(ValueSpan values) {
  Flags out;
  for (const auto& v : values) out.push_back(static_cast<bool>(v));
  return out;
}

Values selected(ValueSpan values, const Flags& flags) {
  Values out;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (flags[i]) out.push_back(values[i]);
  }
  return out;
}
bool merge(Flags& into, const Flags& from) {
  bool changed = false;
  for (std::size_t i = 0; i < into.size(); ++i) {
    changed = changed || (from[i] && !into[i]);
    into[i] = into[i] || from[i];
  }
  return changed;
}
std::size_t count(const Flags& flags) { return at(std::count(flags.begin(), flags.end(), true)); }

namespace {

Types infer(TypeSpan in, const Cond& p) {
  if (p.branches.empty()) bad_attr("cond", "branches", "none; expected at least one");
  if (in.empty()) throw ValueError("[cond] no operands; expected the branch number in front");
  bool is_flag = in[0].dtype == DType::Bool;
  if ((!is_flag && in[0].dtype != DType::I32) || !in[0].shape.empty()) {
    throw TypeError(str("[cond] operand 0 (which branch) is ", in[0], "; expected i32[] or bool[]"));
  }
  if (is_flag && p.branches.size() != 2) {
    bad_attr("cond", "branches", str(p.branches.size(), " of them for a bool; expected 2"));
  }
  Types operands(in.begin() + 1, in.end());
  Types out = p.branches[0]->output_types();
  for (std::size_t i = 0; i < p.branches.size(); ++i) {
    check_inputs("cond", str("branch ", i), *p.branches[i], operands);
    Types own = p.branches[i]->output_types();
    if (own.size() != out.size()) {
      throw TypeError(
          str("[cond] branch ", i, " has ", own.size(), " outputs; expected ", out.size(), ", as branch 0"));
    }
    for (std::size_t k = 0; k < own.size(); ++k) {
      check_type("cond", str("output ", k, " of branch ", i), own[k], out[k]);
      out[k].weak = out[k].weak && own[k].weak;
    }
  }
  return out;
}

// Every lane runs every branch, and takes the results of its own.
Batched batch_which(Builder& b, const BatchArgs& a, const Cond& p) {
  for (const auto& g : p.branches) {
    if (has_effect(*g)) {
      throw UnimplementedError(
          "[cond] batching over the branch number: a branch has an effect, and every branch would run");
    }
  }
  Value which = a.in[0];
  if (which.dtype() == DType::I32) {
    auto last = static_cast<double>(p.branches.size() - 1);
    which = max(min(which, scalar(b, last, DType::I32)), scalar(b, 0, DType::I32));
  }
  ValueSpan operands = subrange(a.in, 1, a.in.size());
  Flags flags = subrange(a.batched, 1, a.batched.size());
  std::vector<Values> results;
  for (const auto& g : p.branches) {
    Batched r = batch_inline(b, *g, operands, flags, a.size);
    for (std::size_t k = 0; k < r.out.size(); ++k) {
      if (!r.batched[k]) r.out[k] = repeat_in_front(r.out[k], a.size);
    }
    results.push_back(r.out);
  }
  Values out;
  for (std::size_t k = 0; k < results[0].size(); ++k) {
    Values cases;
    for (const auto& r : results) cases.push_back(r[k]);
    bool one = cases.size() == 1;
    out.push_back(one ? cases[0] : select_n(broadcast_in_dim(which, cases[0].shape(), {0}), cases));
  }
  return {out, Flags(out.size(), true)};
}

Batched batch(Builder& b, const BatchArgs& a, const Cond& p) {
  if (a.batched[0]) return batch_which(b, a, p);
  Flags flags = subrange(a.batched, 1, a.batched.size());
  Flags any(p.branches[0]->outputs.size());
  for (const auto& g : p.branches) merge(any, batch_graph(*g, flags, a.size).batched_out);
  std::vector<GraphPtr> branches;
  for (const auto& g : p.branches) branches.push_back(batch_graph(*g, flags, a.size, any).graph);
  return {cond(a.in[0], branches, subrange(a.in, 1, a.in.size())), any};
}

// Spreads tangents over all outputs: those not active get an empty value.
Values spread(ValueSpan values, const Flags& active) {
  Values out(active.size());
  for (std::size_t i = 0, k = 0; i < active.size(); ++i) {
    if (active[i]) out[i] = values[k++];
  }
  return out;
}

Duals fused(const ir::DualArgs& a, const Cond& p) {
  ValueSpan operands = subrange(a.in, 1, a.in.size());
  ValueSpan tangents = subrange(a.tangents, 1, a.tangents.size());
  Flags active = present(tangents);
  std::size_t n = p.branches[0]->outputs.size();
  Flags any(n);
  for (const auto& g : p.branches) merge(any, jvp_graph(*g, active).active_out);
  std::vector<GraphPtr> branches;
  for (const auto& g : p.branches) branches.push_back(jvp_graph(*g, active, any).graph);
  Values args(operands.begin(), operands.end());
  append(args, selected(tangents, active));
  Values r = cond(a.in[0], branches, args);
  return {Values(r.begin(), r.begin() + static_cast<std::ptrdiff_t>(n)), spread(subrange(r, n, r.size()), any)};
}

// The branches' residuals share slots of their types; a residual that is an operand is passed as that operand.
struct BranchResiduals {
  Types slots;
  std::vector<std::vector<std::size_t>> slot;  // by branch and residual; kOperand + i for operand i
  static constexpr std::size_t kOperand = std::size_t{1} << 32;

  void add_branch(const Linearized& lin, std::size_t num_outputs) {
    std::vector<bool> taken(slots.size());
    auto& mine = slot.emplace_back();
    const Graph& g = *lin.known;
    for (std::size_t i = 0; i < lin.num_residuals; ++i) {
      auto v = g.outputs[num_outputs + i];
      auto input = std::find(g.inputs.begin(), g.inputs.end(), v);
      if (input != g.inputs.end()) {
        mine.push_back(kOperand + at(input - g.inputs.begin()));
        continue;
      }
      std::size_t s = 0;
      while (s < slots.size() && (taken[s] || slots[s].dtype != g.type(v).dtype || slots[s].shape != g.type(v).shape)) {
        ++s;
      }
      if (s == slots.size()) {
        slots.push_back(g.type(v));
        taken.push_back(false);
      }
      taken[s] = true;
      mine.push_back(s);
    }
  }
};

GraphPtr known_branch(const Linearized& lin, const BranchResiduals& r, std::size_t branch, std::size_t num_outputs) {
  Builder b;
  Values in;
  for (auto v : lin.known->inputs) in.push_back(b.input(lin.known->type(v)));
  Values all = b.inline_graph(*lin.known, in);
  Values out(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(num_outputs));
  Values slots(r.slots.size());
  for (std::size_t i = 0; i < lin.num_residuals; ++i) {
    auto s = r.slot[branch][i];
    if (s < BranchResiduals::kOperand) slots[s] = all[num_outputs + i];
  }
  for (std::size_t s = 0; s < slots.size(); ++s) out.push_back(slots[s] ? slots[s] : zeros(b, r.slots[s]));
  return b.finish_shared(out);
}

// Inputs: slots, operands, tangents.
GraphPtr linear_branch(const Linearized& lin, const BranchResiduals& r, std::size_t branch, const Types& operands,
                       const Types& tangents) {
  Builder b;
  Values slots;
  Values args;
  for (const auto& t : r.slots) slots.push_back(b.input(t));
  Values direct;
  for (const auto& t : operands) direct.push_back(b.input(t));
  for (auto s : r.slot[branch])
    args.push_back(s < BranchResiduals::kOperand ? slots[s] : direct[s - BranchResiduals::kOperand]);
  for (const auto& t : tangents) args.push_back(b.input(t));
  return b.finish_shared(b.inline_graph(*lin.linear, args));
}

Duals split(const ir::DualArgs& a, const Cond& p) {
  ValueSpan operands = subrange(a.in, 1, a.in.size());
  ValueSpan tangents = subrange(a.tangents, 1, a.tangents.size());
  Flags active = present(tangents);
  std::size_t n = p.branches[0]->outputs.size();
  Flags any(n);
  for (const auto& g : p.branches) merge(any, linearize_graph(*g, active).active_out);
  std::vector<Linearized> parts;
  BranchResiduals residuals;
  for (const auto& g : p.branches) {
    parts.push_back(linearize_graph(*g, active, any));
    residuals.add_branch(parts.back(), n);
  }
  // Of the operands, only those that a linear part reads go to it.
  std::vector<std::size_t> place(operands.size(), 0);
  Values direct;
  for (auto& branch : residuals.slot) {
    for (auto& s : branch) {
      if (s < BranchResiduals::kOperand) continue;
      auto i = s - BranchResiduals::kOperand;
      if (place[i] == 0) {
        direct.push_back(operands[i]);
        place[i] = direct.size();
      }
      s = BranchResiduals::kOperand + place[i] - 1;
    }
  }
  Values moving = selected(tangents, active);
  Types direct_types;
  Types tangent_types;
  for (const auto& v : direct) direct_types.push_back(v.type());
  for (const auto& v : moving) tangent_types.push_back(v.type());
  std::vector<GraphPtr> known;
  std::vector<GraphPtr> linear;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    known.push_back(known_branch(parts[i], residuals, i, n));
    linear.push_back(linear_branch(parts[i], residuals, i, direct_types, tangent_types));
  }
  Values r = cond(a.in[0], known, operands);
  Values args(r.begin() + static_cast<std::ptrdiff_t>(n), r.end());
  append(args, direct);
  append(args, moving);
  r.resize(n);
  return {r, spread(cond(a.in[0], linear, args), any)};
}

Values transpose_rule(Builder&, const TransposeArgs& t, const Cond& p) {
  ValueSpan operands = subrange(t.in, 1, t.in.size());
  Flags linear = subrange(t.linear, 1, t.linear.size());
  Flags has_ct = present(t.ct);
  Flags any(linear.size());
  for (const auto& g : p.branches) merge(any, transpose_graph(*g, linear, has_ct).nonzero);
  std::vector<GraphPtr> branches;
  for (const auto& g : p.branches) branches.push_back(transpose_graph(*g, linear, has_ct, any).graph);
  Flags fixed = linear;
  fixed.flip();
  Values args = selected(operands, fixed);
  append(args, selected(t.ct, has_ct));
  Values out{Value{}};
  append(out, spread(cond(t.in[0], branches, args), any));
  return out;
}

void reference(ViewSpan in, ViewSpan out, const Cond& p) {
  auto last = static_cast<std::int64_t>(p.branches.size()) - 1;
  interpret(*p.branches[at(std::clamp<std::int64_t>(load_int(in[0], 0), 0, last))], in.subspan(1), out);
}

GraphPtr sample_branch(int which) {
  Builder b;
  Value x = b.input(Type{DType::F32, {4}});
  Value y = b.input(Type{DType::F32, {4}});
  Value n = b.input(Type{DType::I32, {4}});
  if (which == 0) return b.finish_shared(Values{sin(x) * y, n});
  if (which == 1) return b.finish_shared(Values{y + 1.0, n + 1.0});
  return b.finish_shared(Values{x * convert(n, DType::F32), n});
}

}  // namespace

TESSERA_DEFINE_OP(cond, Cond,
                  {
                      .name = "cond",
                      .traits = {.own_dtypes = true},
                      .infer = infer,
                      .factors = Never{"the partitioner looks into the branches"},
                      .remap = by_default,
                      .batch = batch,
                      .jvp =
                          [](Builder&, const JvpArgs& a, const Cond& p) {
                            return fused(ir::DualArgs{a.in, a.tangents, false}, p).tangents;
                          },
                      .transpose = transpose_rule,
                      .dual = [](Builder&, const ir::DualArgs& a,
                                 const Cond& p) { return a.split ? split(a, p) : fused(a, p); },
                      .place = [](const ir::PlaceArgs& args, Types& out, const Cond&) { ir::keep_inferred(args, out); },
                      .reference = reference,
                      .samples =
                          [] {
                            Type f{DType::F32, {4}};
                            Type n{DType::I32, {4}};
                            auto branch = sample_branch;
                            return std::vector<Sample<Cond>>{
                                {{Type{DType::I32, {}}, f, f, n}, {{branch(0), branch(1), branch(2)}}},
                                {{Type{DType::Bool, {}}, f, f, n}, {{branch(0), branch(2)}}}};
                          },
                  });

Values cond(Value which, const std::vector<GraphPtr>& branches, ValueSpan operands) {
  Values in{which};
  append(in, operands);
  return which.builder->add(def::cond, in, attrs(Cond{branches}));
}

}  // namespace tessera::ops
