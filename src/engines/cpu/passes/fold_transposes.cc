// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/passes/fold_transposes.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engines/cpu/passes/engine_products.h"
#include "ir/op_def.h"
#include "ir/pass.h"
#include "ir/rewriter.h"
#include "ops/define_op.h"
#include "ops/ops.h"
#include "ops/shared_attrs.h"

namespace tessera::cpu {

namespace {

// Rewrites the products of a copy of the graph.
class Folder {
 public:
  explicit Folder(const ir::Graph& g) : g_(g), maker_(g.num_values(), -1), uses_(g.num_values()) {
    for (std::size_t i = 0; i < g_.eqns.size(); ++i) {
      for (auto v : g_.eqns[i].out) maker_[at(v)] = static_cast<std::int64_t>(i);
      for (auto v : g_.eqns[i].in) ++uses_[at(v)];
    }
    for (auto v : g_.outputs) uses_[at(v)] += 2;  // it must stay
  }

  ir::GraphPtr run() {
    bool changed = false;
    for (auto& e : g_.eqns) {
      if (e.op == &ops::def::transpose) changed = compose(e) || changed;
    }
    for (auto& e : g_.eqns) {
      if (e.op != &ops::def::dot_general) continue;
      for (std::size_t side : {0U, 1U}) {
        if (read_through(e, side)) changed = true;
      }
    }
    for (auto& e : g_.eqns) {
      if (e.op == &ops::def::transpose) changed = write_through(e) || changed;
    }
    if (!changed) return nullptr;
    ir::prune(g_);
    return ir::after_pass("fold_transposes", std::make_shared<const ir::Graph>(std::move(g_)));
  }

 private:
  const ir::Eqn* transposition(ir::ValueId v) const {
    if (maker_[at(v)] < 0) return nullptr;
    const ir::Eqn& e = g_.eqns[at(maker_[at(v)])];
    if (e.op != &ops::def::transpose || g_.layout(e.in[0]).distinct() != g_.layout(v).distinct()) return nullptr;
    const auto& permutation = ir::get<ops::Transpose>(e.attrs).permutation;
    for (std::size_t d = 0; d < permutation.size(); ++d) {
      if (g_.layout(v).dims[d] != g_.layout(e.in[0]).dims[at(permutation[d])]) return nullptr;
    }
    return &e;
  }

  // Nobody reads a transposition of which the last reader has gone.
  void read_instead(ir::ValueId& operand, ir::ValueId other) {
    ++uses_[at(other)];
    for (ir::ValueId v = std::exchange(operand, other); --uses_[at(v)] == 0;) {
      const ir::Eqn* t = transposition(v);
      if (t == nullptr) break;
      v = t->in[0];
    }
  }

  // Makes the transposition of a transposition one of the latter's operand.
  bool compose(ir::Eqn& e) {
    const ir::Eqn* inner = transposition(e.in[0]);
    if (inner == nullptr || transposition(e.out[0]) == nullptr) return false;
    Dims permutation = ir::get<ops::Transpose>(e.attrs).permutation;
    const auto& first = ir::get<ops::Transpose>(inner->attrs).permutation;
    for (auto& d : permutation) d = first[at(d)];
    e.attrs = ir::make_attrs(ops::Transpose{permutation});
    read_instead(e.in[0], inner->in[0]);
    return true;
  }

  // Lets a product read the operand of its operand's transposition.
  bool read_through(ir::Eqn& e, std::size_t side) {
    const ir::Eqn* t = transposition(e.in[side]);
    if (t == nullptr) return false;
    const auto& permutation = ir::get<ops::Transpose>(t->attrs).permutation;
    ops::DotGeneral p = ir::get<ops::DotGeneral>(e.attrs);
    Dims& contract = side == 0 ? p.lhs_contracting : p.rhs_contracting;
    Dims& batch = side == 0 ? p.lhs_batch : p.rhs_batch;
    std::int64_t last = -1;
    for (std::int64_t d = 0; d < static_cast<std::int64_t>(permutation.size()); ++d) {
      auto is = [&](const Dims& v) { return std::find(v.begin(), v.end(), d) != v.end(); };
      if (is(contract) || is(batch)) continue;
      if (permutation[at(d)] < last) return false;  // free dimensions would come in another order
      last = permutation[at(d)];
    }
    for (auto* dims : {&contract, &batch}) {
      for (auto& d : *dims) d = permutation[at(d)];
    }
    read_instead(e.in[side], t->in[0]);
    e.attrs = ir::make_attrs(p);
    read_through(e, side);
    return true;
  }

  // Turns the transposition of a product that nobody else reads into the product itself.
  bool write_through(ir::Eqn& e) {
    ir::ValueId v = e.in[0];
    if (transposition(e.out[0]) == nullptr || uses_[at(v)] != 1 || maker_[at(v)] < 0) return false;
    const ir::Eqn& product = g_.eqns[at(maker_[at(v)])];
    if (product.op != &ops::def::dot_general) return false;
    TransposedProduct p = *product_of(g_, product);
    p.permutation = ir::get<ops::Transpose>(e.attrs).permutation;
    e.attrs = ir::make_attrs(std::move(p));
    e.op = &transposed_product();
    e.in = product.in;
    e.loc = product.loc;
    return true;
  }

  ir::Graph g_;
  std::vector<std::int64_t> maker_;  // equation by value
  std::vector<int> uses_;
};

}  // namespace

ir::GraphPtr fold_transposes(const ir::GraphPtr& graph) {
  auto has = [&](const ir::OpDef& op) {
    return std::any_of(graph->eqns.begin(), graph->eqns.end(), [&](const ir::Eqn& e) { return e.op == &op; });
  };
  if (!has(ops::def::transpose) || !has(ops::def::dot_general)) return graph;
  auto folded = Folder(*graph).run();
  return folded ? folded : graph;
}

}  // namespace tessera::cpu
