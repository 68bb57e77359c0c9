// SPDX-License-Identifier: Apache-2.0
#include "spmd/loop_boundaries.h"

#include <algorithm>
#include <utility>

#include "ir/op_def.h"
#include "ops/ops.h"
#include "ops/shared_attrs.h"
#include "spmd/sums_wanted.h"

namespace tessera::spmd {

namespace {

// The reshard that a partitioned body does with an input before any other use; null where there is another use.
const ir::Eqn* only_reshard(const ir::Graph& body, std::size_t input) {
  ir::ValueId v = body.inputs[input];
  if (std::find(body.outputs.begin(), body.outputs.end(), v) != body.outputs.end()) return nullptr;
  const ir::Eqn* found = nullptr;
  for (const auto& e : body.eqns) {
    if (std::find(e.in.begin(), e.in.end(), v) == e.in.end()) continue;
    if (e.op != &ops::def::reshard) return nullptr;
    if (found && !(body.layout(found->out[0]) == body.layout(e.out[0]))) return nullptr;
    found = &e;
  }
  return found;
}

// The layout in which a loop variable could stay partial: the body only adds to it, and completes what it adds. `in`
// and `out` number the input and output of the partitioned body that are the variable.
std::optional<ir::Layout> accumulates(const ir::Graph& body, std::size_t in, std::size_t out) {
  ir::ValueId v = body.inputs[in];
  auto producer = [&](ir::ValueId value) -> const ir::Eqn* {
    for (const auto& e : body.eqns) {
      if (std::find(e.out.begin(), e.out.end(), value) != e.out.end()) return &e;
    }
    return nullptr;
  };
  const ir::Eqn* add = producer(body.outputs[out]);
  if (!add || add->op != &ops::def::add || (add->in[0] != v && add->in[1] != v) || add->in[0] == add->in[1]) return {};
  if (std::count(body.outputs.begin(), body.outputs.end(), v) > 0) return {};
  for (const auto& e : body.eqns) {
    if (&e != add && std::find(e.in.begin(), e.in.end(), v) != e.in.end()) return {};
  }
  const ir::Eqn* sum = producer(add->in[0] == v ? add->in[1] : add->in[0]);
  if (!sum || sum->op != &ops::def::reshard) return {};
  const ir::Eqn* made = producer(sum->in[0]);
  if (!made || made->op == &ops::def::reinterpret) return {};  // a collective that the user asked for stays where it is
  const ir::Layout& from = body.layout(sum->in[0]);
  const ir::Layout& to = body.layout(sum->out[0]);
  bool completes = from.partial != 0 && to.partial == 0 && from.reduction == ir::Reduction::Sum;
  bool stays = from.dims == to.dims && to.dims == body.layout(v).dims && body.layout(v).vary == 0;
  return completes && stays ? std::optional(from) : std::nullopt;
}

}  // namespace

std::vector<ir::GraphPtr> partition_bodies(const ir::Module& m, const ops::Control& control, const Boundary& boundary) {
  auto inside = [](ir::Layout l, bool stacked) {
    if (stacked) l.dims.erase(l.dims.begin());
    return l;
  };
  std::vector<ir::GraphPtr> out;
  for (const auto& body : control.bodies) {
    ir::Module inner = m.with_graph(body.graph);
    for (std::size_t i = 0; i < body.inputs.size(); ++i) {
      inner.inputs[i].layout = inside(boundary.in[body.inputs[i].outer], body.inputs[i].stacked);
    }
    for (std::size_t i = 0; i < body.outputs.size(); ++i) {
      inner.outputs[i].layout = inside(boundary.out[body.outputs[i].outer], body.outputs[i].stacked);
    }
    // Outputs that are no results (a loop's condition) are for every position to know.
    for (std::size_t i = body.outputs.size(); i < body.graph->outputs.size(); ++i) {
      inner.outputs[i].layout = ir::Layout::replicated(body.graph->type(body.graph->outputs[i]).rank());
    }
    out.push_back(partition_apart(inner, propagate(inner)));
  }
  return out;
}

bool hoist(const ops::Control& control, const std::vector<ir::GraphPtr>& graphs, Boundary& boundary) {
  if (control.times == 1) return false;
  bool changed = false;
  for (std::size_t b = 0; b < graphs.size(); ++b) {
    for (const auto& t : control.bodies[b].inputs) {
      bool carried = std::any_of(control.carried.begin(), control.carried.end(),
                                 [&](const auto& c) { return c.first == t.outer; });
      const ir::Eqn* e = carried ? nullptr : only_reshard(*graphs[b], t.inner);
      if (!e || (t.stacked && ir::get<ops::Reshard>(e->attrs).kind != ops::Reshard::Kind::Slice)) continue;
      boundary.in[t.outer] = graphs[b]->layout(e->out[0]);
      if (t.stacked) boundary.in[t.outer].dims.insert(boundary.in[t.outer].dims.begin(), ir::AxisList{});
      changed = true;
    }
  }
  return changed;
}

std::optional<Boundary> gathered_before(const ops::Control& control, const Boundary& boundary) {
  if (control.times == 1) return std::nullopt;
  Boundary other = boundary;
  bool changed = false;
  for (const ops::Body& body : control.bodies) {
    for (const auto& t : body.inputs) {
      bool carried = std::any_of(control.carried.begin(), control.carried.end(),
                                 [&](const auto& c) { return c.first == t.outer; });
      if (carried || t.stacked) continue;
      const ir::ValueId v = body.graph->inputs[t.inner];
      for (const auto& e : body.graph->eqns) {
        if (e.op != &ops::def::dynamic_slice || e.in[0] != v) continue;
        const Shape& full = body.graph->type(v).shape;
        const Shape& slice = body.graph->type(e.out[0]).shape;
        for (std::size_t d = 0; d < full.size(); ++d) {
          if (slice[d] == full[d] || other.in[t.outer].dims[d].empty()) continue;
          other.in[t.outer].dims[d].clear();
          changed = true;
        }
      }
    }
  }
  return changed ? std::optional(std::move(other)) : std::nullopt;
}

std::optional<Boundary> summed_after(const ops::Control& control, const std::vector<ir::GraphPtr>& graphs,
                                     const Boundary& boundary) {
  if (control.times == 1) return std::nullopt;
  Boundary other = boundary;
  bool changed = false;
  for (std::size_t b = 0; b < graphs.size(); ++b) {
    const ops::Body& body = control.bodies[b];
    for (auto [operand, result] : control.carried) {
      auto is = [](std::size_t outer) { return [outer](const ops::Tie& t) { return t.outer == outer; }; };
      auto in = std::find_if(body.inputs.begin(), body.inputs.end(), is(operand));
      auto out = std::find_if(body.outputs.begin(), body.outputs.end(), is(result));
      if (in == body.inputs.end() || out == body.outputs.end()) continue;
      auto partial = accumulates(*graphs[b], in->inner, out->inner);
      if (!partial) continue;
      other.in[operand] = other.out[result] = *partial;
      changed = true;
    }
  }
  // A loop's condition knows its variables whole.
  for (std::size_t b = 0; b + 1 < graphs.size() && changed; ++b) {
    for (const auto& t : control.bodies[b].inputs) {
      bool read = false;
      for (const auto& e : graphs[b]->eqns) {
        read = read || std::find(e.in.begin(), e.in.end(), graphs[b]->inputs[t.inner]) != e.in.end();
      }
      if (read && other.in[t.outer].partial != 0) return std::nullopt;
    }
  }
  return changed ? std::optional(std::move(other)) : std::nullopt;
}

void keep_sums(const ir::Module& m, const ops::Control& control, const std::vector<ir::AxisMask>& wanted,
               Boundary& boundary) {
  std::vector<AxisMask> sums;  // by variable
  AxisMask any = 0;
  for (auto [operand, result] : control.carried) {
    const ir::Layout& in = boundary.in[operand];
    const ir::Layout& out = boundary.out[result];
    sums.push_back(wanted[result] & ~(in.distinct() | out.distinct()));
    any |= sums.back();
  }
  for (bool changed = any != 0; changed;) {
    changed = false;
    for (const auto& body : control.bodies) {
      ir::Module inner = m.with_graph(body.graph);
      for (const auto& t : body.outputs) {
        for (std::size_t k = 0; k < sums.size() && !t.stacked; ++k) {
          if (control.carried[k].second != t.outer) continue;
          auto& layout = inner.outputs[t.inner].layout.emplace(boundary.out[t.outer]);
          layout.partial = sums[k];
        }
      }
      std::vector<AxisMask> read = read_as_sums(inner);
      for (const auto& t : body.inputs) {
        for (std::size_t k = 0; k < sums.size(); ++k) {
          if (control.carried[k].first != t.outer) continue;
          AxisMask left = sums[k] & read[static_cast<std::size_t>(body.graph->inputs[t.inner])];
          changed = changed || left != sums[k];
          sums[k] = left;
        }
      }
    }
  }
  for (std::size_t k = 0; k < sums.size(); ++k) {
    boundary.in[control.carried[k].first].partial |= sums[k];
    boundary.out[control.carried[k].second].partial |= sums[k];
  }
}

}  // namespace tessera::spmd
