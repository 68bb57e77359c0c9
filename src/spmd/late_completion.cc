// SPDX-License-Identifier: Apache-2.0
#include "spmd/late_completion.h"

#include <algorithm>

#include "ir/op_def.h"
#include "ops/control/subgraph_structure.h"
#include "spmd/layout_change.h"
#include "spmd/sums_wanted.h"

namespace tessera::spmd {

GraphUses::GraphUses(const ir::Graph& g) : uses_(g.num_values()), returned_(g.num_values()), makers_(g.num_values()) {
  for (const auto& e : g.eqns) {
    for (auto v : e.out) makers_[static_cast<std::size_t>(v)] = &e;
    for (std::size_t i = 0; i < e.in.size(); ++i) uses_[static_cast<std::size_t>(e.in[i])].push_back({&e, i});
  }
  for (auto v : g.outputs) returned_[static_cast<std::size_t>(v)] = true;
}

const ir::Eqn* GraphUses::maker_for_one(ir::ValueId v) const {
  return of(v).size() == 1 && !returned(v) ? makers_[static_cast<std::size_t>(v)] : nullptr;
}

bool only_added(const std::vector<ir::Layout>& wanted, const GraphUses& uses, ir::ValueId v) {
  const auto every_use = [&](ir::ValueId x, auto&& holds) {
    return !uses.returned(x) && std::ranges::all_of(uses.of(x), [&](const Use& use) { return holds(*use.eqn); });
  };
  const auto& dims = wanted[static_cast<std::size_t>(v)].dims;
  return every_use(v, [&](const ir::Eqn& reader) {
    if (reader.op == &ops::def::transpose) {
      return every_use(reader.out[0], [&](const ir::Eqn& e) {
        return e.op == &ops::def::sharding_constraint && only_added(wanted, uses, e.out[0]);
      });
    }
    return reader.op == &ops::def::add && every_use(reader.out[0], [&](const ir::Eqn& e) {
             return e.op == &ops::def::sharding_constraint && wanted[static_cast<std::size_t>(e.out[0])].dims == dims;
           });
  });
}

bool LateCompletion::joins(ir::ValueId v, const ir::Layout& made, const std::vector<ir::Layout>& wanted) const {
  constexpr int kMost = 8;  // ops on the way
  for (int i = 0; i < kMost && made.reduction == ir::Reduction::Sum; ++i) {
    const ir::Eqn* e = uses_.of(v).size() == 1 && !uses_.returned(v) ? uses_.of(v)[0].eqn : nullptr;
    if (e == nullptr || e->op == &ops::def::sharding_constraint || ops::control_of(*e)) return false;
    if (e->op == &ops::def::add) {
      const ir::ValueId other = e->in[e->in[0] == v ? 1 : 0];
      if (values_.of(other).size() != 1 || uses_.of(other).size() != 1 || uses_.returned(other)) return false;
      ir::Layout met{wanted[static_cast<std::size_t>(v)].dims};
      for (auto& axes : met.dims) ir::drop_axes(axes, made.partial);
      const Version* sum = values_.partial(other);
      return sum != nullptr && sum->layout.reduction == ir::Reduction::Sum && sum->layout.partial == made.partial &&
             sum->layout.dims == met.dims;
    }
    if (e->in.size() != 1 || e->out.size() != 1 || !linear_in(g_, *e, 0)) return false;
    v = e->out[0];
  }
  return false;
}

double LateCompletion::completed_later(ir::ValueId v, AxisMask axes, const std::vector<ir::Layout>& wanted) const {
  constexpr int kMost = 8;  // equations on the way
  for (int i = 0; i < kMost; ++i) {
    axes &= ~sums_wanted_[static_cast<std::size_t>(v)];  // which nobody completes
    const auto& uses = uses_.of(v);
    if (axes == 0 || uses.size() > 1) return 0;
    const ir::Eqn* reader = uses.empty() || uses_.returned(v) ? nullptr : uses[0].eqn;
    const bool passes = reader != nullptr && reader->out.size() == 1 && linear_in(g_, *reader, uses[0].operand) &&
                        (stays(reader->out[0]) & axes) == axes;
    if (!passes) {
      const ir::Layout goal{wanted[static_cast<std::size_t>(v)].dims};
      ir::Layout sum = goal;
      for (auto& dim : sum.dims) ir::drop_axes(dim, axes);
      sum.partial = axes;
      return static_cast<double>(costs_.of(g_.type(v), sum, goal, mesh_));
    }
    v = reader->out[0];
  }
  return 0;
}

std::vector<bool> LateCompletion::passing(const ir::Eqn& e, const Factoring& f, const FactorAxes& split,
                                          AxisMask& over) const {
  const auto open = [&](ir::ValueId v) { return values_.partial(v) != nullptr; };
  if (std::ranges::none_of(e.in, open)) return {};
  std::vector<bool> marks(e.in.size());
  AxisMask asked = e.out.empty() ? 0 : ~AxisMask{0};
  AxisMask wanted = asked;
  for (auto v : e.out) {
    asked &= stays(v);
    wanted &= sums_wanted_[static_cast<std::size_t>(v)];
  }
  std::size_t count = 0;
  AxisMask sums = 0;
  AxisMask vary = 0;
  for (std::size_t i = 0; i < e.in.size(); ++i) {
    const Version* p = values_.partial(e.in[i]);
    AxisMask mine = !p ? 0 : asked != 0 ? p->layout.partial & asked : p->layout.partial;
    if (mine == 0 || p->layout.reduction != ir::Reduction::Sum || !linear_in(g_, e, i)) {
      vary |= values_.vary(e.in[i]);
      continue;
    }
    if (count > 0 && mine != sums) return {};
    sums = mine;
    marks[i] = true;
    ++count;
  }
  if (count == 0 || (sums & mask_of(split))) return {};
  // Where the sum is asked for, each position takes its own replica of another operand.
  if (wanted == 0 && (sums & vary)) return {};
  bool joint = e.op->traits().linearity == ir::Linearity::Joint;
  if (count != (joint ? linear_operands(e) : 1)) {
    if (!joint || asked == 0) return {};
    for (std::size_t i = 0; i < linear_operands(e); ++i) marks[i] = true;  // complete ones become sums
  }
  for (std::size_t n = 0; n < split.size(); ++n) {
    const auto& factor = f.rule().factors[n];
    if (factor.kind == ir::Factor::Kind::Reduce && factor.reduction != ir::Reduction::Sum) return {};
  }
  if (asked == 0 && !pays(e, f, split, marks)) return {};
  over = sums;
  return marks;
}

bool LateCompletion::pays(const ir::Eqn& e, const Factoring& f, const FactorAxes& split,
                          const std::vector<bool>& marks) const {
  std::int64_t before = 0;
  for (std::size_t i = 0; i < marks.size(); ++i) {
    if (!marks[i]) continue;
    const Version& p = *values_.partial(e.in[i]);
    ir::Layout need = p.layout;
    need.dims = f.dims_of(i, split);
    if (costs_.of(g_.type(e.in[i]), p.layout, need, mesh_) != 0) return false;
    before += local_bytes(g_.type(e.in[i]), need, mesh_);
    if (!readers_pass(e, e.in[i], p.layout.partial)) return false;
  }
  for (std::size_t i = 0; i < e.out.size(); ++i) {
    ir::Layout made;
    made.dims = f.dims_of(e.in.size() + i, split);
    before -= local_bytes(g_.type(e.out[i]), made, mesh_);
  }
  return before >= 0;
}

// Nobody else needs the value complete, and all that its readers make of it is not larger, or smaller where there are
// several of them: otherwise several sums would have to be completed in place of one.
bool LateCompletion::readers_pass(const ir::Eqn& e, ir::ValueId v, AxisMask sums) const {
  if (!(sums & ~sums_wanted_[static_cast<std::size_t>(v)])) return true;
  if (uses_.returned(v)) return false;
  std::int64_t made = 0;
  std::int64_t readers = 0;
  const ir::Eqn* last = nullptr;
  for (const auto& use : uses_.of(v)) {
    if (use.eqn != &e && !could_pass(use, sums)) return false;
    if (use.eqn == last) continue;  // reads it twice
    last = use.eqn;
    ++readers;
    for (auto r : use.eqn->out) made += g_.type(r).nbytes();
  }
  return readers > 1 ? made < g_.type(v).nbytes() : made <= g_.type(v).nbytes();
}

bool LateCompletion::could_pass(const Use& use, AxisMask sums) const {
  const ir::Eqn& e = *use.eqn;
  if (e.op == &ops::def::sharding_constraint || ops::control_of(e) || !linear_in(g_, e, use.operand)) return false;
  bool joint = e.op->traits().linearity == ir::Linearity::Joint;
  for (std::size_t i = 0; i < linear_operands(e); ++i) {
    if (i == use.operand) continue;
    const Version* p = values_.of(e.in[i]).empty() ? nullptr : values_.partial(e.in[i]);
    if (joint ? !p || p->layout.partial != sums : p != nullptr) return false;
  }
  return true;
}

}  // namespace tessera::spmd
