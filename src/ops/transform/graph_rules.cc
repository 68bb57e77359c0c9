// SPDX-License-Identifier: Apache-2.0
// Forward mode and linearization of graphs.
#include "ops/transform/graph_rules.h"

#include <algorithm>

#include "base/check.h"
#include "ir/pass.h"
#include "ir/rewriter.h"
#include "ops/define_op.h"
#include "ops/shared_attrs.h"
#include "ops/transform/linearize.h"

namespace tessera::ops {

namespace {

// Inputs of a new graph: those of `g`, then a tangent for each active input of a dtype that has tangents.
struct DualInputs {
  Values in;
  Values tangents;  // empty where not active
};
DualInputs dual_inputs(Builder& b, const Graph& g, const Flags& active) {
  TESSERA_CHECK(active.size() == g.inputs.size(), str(active.size(), " flags for ", g.inputs.size(), " inputs"));
  DualInputs out;
  for (auto v : g.inputs) out.in.push_back(b.input(g.type(v)));
  for (std::size_t i = 0; i < g.inputs.size(); ++i) {
    const Type& t = g.type(g.inputs[i]);
    bool has = active[i] && is_inexact(t.dtype);
    out.tangents.push_back(has ? b.input(ir::tangent_type(t)) : Value{});
  }
  return out;
}

bool may_force(const Flags& force, std::size_t i, const Value& out) {
  return is_set(force, i) && is_inexact(out.dtype());
}

}  // namespace

Duals dual_of(Builder& b, const ir::OpDef& op, const ir::DualArgs& args, const ir::Attrs& attrs) {
  Duals d;
  if (op.has_dual()) {
    d = op.dual(b, args, attrs);
  } else {
    d.out = b.add(op, args.in, attrs);
    d.tangents = jvp_of(b, op, ir::JvpArgs{args.in, args.tangents, d.out}, attrs);
  }
  d.tangents.resize(d.out.size());
  for (std::size_t i = 0; i < d.out.size(); ++i) {
    if (!is_inexact(d.out[i].dtype())) d.tangents[i] = Value{};
  }
  return d;
}

Duals jvp_inline(Builder& b, const Graph& g, ValueSpan in, ValueSpan tangents, bool split) {
  TESSERA_CHECK(in.size() == g.inputs.size() && tangents.size() == in.size(),
                str(in.size(), " values and ", tangents.size(), " tangents for ", g.inputs.size(), " inputs"));
  ir::Rewriter primal(b, g);
  primal.bind(g.inputs, in);
  Values tangent(g.num_values());  // by value of `g`
  for (std::size_t i = 0; i < in.size(); ++i) tangent[at(g.inputs[i])] = tangents[i];
  Values t;
  primal.walk([&](const ir::Eqn& e, const Values& x) {
    t.clear();
    for (auto v : e.in) t.push_back(tangent[at(v)]);
    if (std::none_of(t.begin(), t.end(), [](const Value& v) { return static_cast<bool>(v); })) {
      return primal.copy(e, x);
    }
    const std::size_t own = b.graph().num_values();
    Duals d = dual_of(b, *e.op, ir::DualArgs{x, t, split}, e.attrs);
    for (std::size_t i = 0; i < e.out.size(); ++i) {
      if (d.tangents[i]) d.tangents[i] = placed_as(d.tangents[i], d.out[i].type().sharding, own);
      tangent[at(e.out[i])] = d.tangents[i];
    }
    return d.out;
  });
  Duals out{primal.outputs(), {}};
  for (auto v : g.outputs) out.tangents.push_back(tangent[at(v)]);
  return out;
}

JvpGraph jvp_graph(const Graph& g, const Flags& active_in, const Flags& force_out) {
  Builder b;
  DualInputs x = dual_inputs(b, g, active_in);
  Duals d = jvp_inline(b, g, x.in, x.tangents);
  Values outputs = d.out;
  JvpGraph result;
  for (std::size_t i = 0; i < d.out.size(); ++i) {
    if (!d.tangents[i] && may_force(force_out, i, d.out[i])) d.tangents[i] = zeros_like(d.out[i]);
    result.active_out.push_back(static_cast<bool>(d.tangents[i]));
    if (d.tangents[i]) outputs.push_back(d.tangents[i]);
  }
  result.graph = ir::after_pass("jvp", b.finish_shared(outputs));
  return result;
}

namespace {

// Cuts a graph that computes outputs and tangents into its known and its linear part.
class Splitter {
 public:
  Splitter(const Graph& all, std::size_t num_inputs) : all_(all), num_inputs_(num_inputs), linear_(all.num_values()) {
    for (std::size_t i = num_inputs; i < all.inputs.size(); ++i) linear_[at(all.inputs[i])] = true;
    std::vector<bool> free(all.num_values());
    for (const auto& e : all.eqns) {
      bool depends = std::any_of(e.in.begin(), e.in.end(), [&](auto v) { return linear_[at(v)]; });
      // Cheap and made of constants alone: made again rather than kept.
      bool cheap = !depends && !has_effect(e) && makes_from_little(e) &&
                   std::all_of(e.in.begin(), e.in.end(), [&](auto v) { return free[at(v)]; });
      eqn_linear_.push_back(depends);
      eqn_again_.push_back(cheap || (!depends && spreads(e)));
      for (auto v : e.out) {
        linear_[at(v)] = depends;
        free[at(v)] = cheap;
      }
    }
  }

  bool is_linear(ir::ValueId v) const { return linear_[at(v)]; }

  // Equations of the known part.
  std::vector<bool> known() const {
    std::vector<bool> out = eqn_linear_;
    out.flip();
    return out;
  }

  // The linear part; what it reads of the known one goes to `residuals`.
  GraphPtr cut(const std::vector<ir::ValueId>& tangents, std::vector<ir::ValueId>& residuals) const {
    std::vector<bool> needed(all_.num_values());
    std::vector<bool> copy(all_.eqns.size());
    for (auto v : tangents) needed[at(v)] = true;
    for (std::size_t i = all_.eqns.size(); i-- > 0;) {
      const auto& e = all_.eqns[i];
      if (!eqn_linear_[i] && !eqn_again_[i]) continue;
      bool want = eqn_linear_[i] && has_effect(e);
      for (auto v : e.out) want = want || needed[at(v)];
      copy[i] = want;
      if (!want) continue;
      for (auto v : e.in) needed[at(v)] = true;
      for (auto v : e.out) needed[at(v)] = false;  // made there: no residual
    }
    for (std::size_t v = 0; v < needed.size(); ++v) {
      if (needed[v] && !linear_[v]) residuals.push_back(static_cast<ir::ValueId>(v));
    }
    std::vector<ir::ValueId> read = residuals;
    read.insert(read.end(), all_.inputs.begin() + static_cast<std::ptrdiff_t>(num_inputs_), all_.inputs.end());
    return ir::after_pass("linearize", ir::part_of(all_, read, copy, tangents));
  }

 private:
  static bool makes_from_little(const ir::Eqn& e) {
    return e.op->traits().elementwise || e.op == &def::constant || e.op == &def::iota ||
           e.op == &def::broadcast_in_dim || e.op == &def::reshape || e.op == &def::transpose;
  }
  // A repetition of fewer elements: those are the better residual.
  bool spreads(const ir::Eqn& e) const {
    return e.op == &def::broadcast_in_dim && all_.type(e.in[0]).size() < all_.type(e.out[0]).size();
  }

  const Graph& all_;
  std::size_t num_inputs_;
  std::vector<bool> linear_;      // by value
  std::vector<bool> eqn_linear_;  // by equation
  std::vector<bool> eqn_again_;   // known, but the linear part makes it again
};

}  // namespace

LinearizedInline::LinearizedInline(const Graph& g, const Flags& active_in, const Flags& force_out)
    : num_inputs_(g.inputs.size()) {
  Builder b;
  DualInputs x = dual_inputs(b, g, active_in);
  Duals d = jvp_inline(b, g, x.in, x.tangents, /*split=*/true);
  // A tangent that reads no tangent can only be zero.
  Splitter probe(b.graph(), num_inputs_);
  std::vector<ir::ValueId> tangents;
  for (std::size_t i = 0; i < d.out.size(); ++i) {
    known_.push_back(d.out[i].id);
    bool real = d.tangents[i] && probe.is_linear(d.tangents[i].id);
    bool forced = !real && may_force(force_out, i, d.out[i]);
    if (forced) d.tangents[i] = zeros_like(d.out[i]);
    active_out_.push_back(real || forced);
    if (active_out_.back()) tangents.push_back(d.tangents[i].id);
  }
  all_ = b.finish({});
  const Splitter splitter(all_, num_inputs_);
  stays_ = splitter.known();
  std::vector<ir::ValueId> residuals;
  linear_ = splitter.cut(tangents, residuals);
  known_.insert(known_.end(), residuals.begin(), residuals.end());
}

Values LinearizedInline::known(Builder& b, ValueSpan in) const {
  ir::Rewriter r(b, all_);
  r.bind(std::span(all_.inputs).first(num_inputs_), in);
  for (std::size_t i = 0; i < stays_.size(); ++i) {
    if (stays_[i]) r.copy(all_.eqns[i]);
  }
  return r.of(known_);
}

Linearized linearize_graph(const Graph& g, const Flags& active_in, const Flags& force_out) {
  LinearizedInline lin(g, active_in, force_out);
  Builder b;
  Values in;
  for (auto v : g.inputs) in.push_back(b.input(g.type(v)));
  GraphPtr known = ir::after_pass("linearize", b.finish_shared(lin.known(b, in)));
  return {std::move(known), lin.linear(), lin.num_residuals(), lin.active_out()};
}

}  // namespace tessera::ops
