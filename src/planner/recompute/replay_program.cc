// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string_view>

#include "ir/op_def.h"
#include "ops/collective/transfer_bytes.h"
#include "ops/ops.h"
#include "planner/recompute/replay.h"
#include "runtime/program_costs.h"

namespace tessera::planner {

namespace {

constexpr const char* kTag = "#";

bool may_come_twice(const ir::Eqn& e) {
  if (e.op->traits().effect || e.op->traits().collective || e.op == &ops::def::pure_callback) return false;
  return e.op->subgraphs(e.attrs).empty();
}

class StepWriter {
 public:
  StepWriter(const ir::Graph& program, const ir::Graph& partitioned) : program_(program), g_(partitioned) {
    out_.values.resize(g_.num_values());
    out_.bases.assign(program.num_values(), -1);
    out_.outputs = g_.outputs;
  }

  ReplayProgram run(const std::vector<double>& seconds) {
    name_bases();
    const std::vector<ir::ValueId> owners = runtime::memory_owners(g_);
    std::size_t place = 0;
    for (std::size_t i = 0; i < g_.eqns.size(); ++i) {
      const ir::Eqn& e = g_.eqns[i];
      if (const auto tag = tag_of(e.loc)) place = std::max(place, *tag);
      ReplayProgram::Step step{e.in, e.out, place, seconds[i]};
      step.again = may_come_twice(e);
      step.effect = ir::has_effect(e);
      for (const auto& sub : e.op->subgraphs(e.attrs)) {
        step.inside = std::max(step.inside, runtime::temporary_bytes(*sub));
      }
      out_.steps.push_back(std::move(step));
      for (std::size_t k = 0; k < e.out.size(); ++k) describe(e, k, static_cast<std::int32_t>(i), owners);
    }
    return std::move(out_);
  }

 private:
  // Of the equations that one was taken apart into, the last that has its results makes them.
  void name_bases() {
    std::vector<const ir::Eqn*> makers(program_.eqns.size());
    for (const auto& e : g_.eqns) {
      const auto tag = tag_of(e.loc);
      if (tag && e.op != &ops::def::reshard && same_types(e, program_.eqns[*tag])) makers[*tag] = &e;
    }
    for (std::size_t i = 0; i < program_.inputs.size(); ++i) name(g_.inputs[i], program_.inputs[i]);
    for (std::size_t i = 0; i < makers.size(); ++i) {
      const auto& values = program_.eqns[i].out;
      for (std::size_t k = 0; makers[i] != nullptr && k < values.size(); ++k) name(makers[i]->out[k], values[k]);
    }
  }
  bool same_types(const ir::Eqn& partitioned, const ir::Eqn& e) const {
    return std::ranges::equal(partitioned.out, e.out, [&](ir::ValueId a, ir::ValueId b) {
      return g_.type(a).shape == program_.type(b).shape && g_.type(a).dtype == program_.type(b).dtype;
    });
  }
  void name(ir::ValueId value, ir::ValueId of) {
    out_.values[at(value)].of = of;
    out_.bases[at(of)] = value;
  }

  void describe(const ir::Eqn& e, std::size_t k, std::int32_t step, const std::vector<ir::ValueId>& owners) {
    auto& v = out_.values[at(e.out[k])];
    v.step = step;
    v.bytes = ops::local_bytes(g_.type(e.out[k]), g_.layout(e.out[k]), *g_.mesh);
    if (owners[at(e.out[k])] != e.out[k]) v.shares_with = static_cast<std::int32_t>(k);
    if (e.op != &ops::def::reshard || k >= e.in.size()) return;
    v.of = out_.values[at(e.in[k])].of;
    v.copy = v.of >= 0;
  }

  const ir::Graph& program_;
  const ir::Graph& g_;
  ReplayProgram out_;
};

}  // namespace

ir::GraphPtr tagged(const ir::Graph& g) {
  auto out = std::make_shared<ir::Graph>(g);
  for (std::size_t i = 0; i < out->eqns.size(); ++i) out->eqns[i].loc = {kTag, static_cast<std::uint32_t>(i + 1)};
  return out;
}

std::optional<std::size_t> tag_of(const Loc& loc) {
  if (loc.file == nullptr || std::string_view(loc.file) != kTag) return std::nullopt;
  return loc.line - 1;
}

ReplayProgram replay_program(const ir::Graph& program, const ir::Graph& partitioned,
                             const std::vector<double>& seconds) {
  return StepWriter(program, partitioned).run(seconds);
}

}  // namespace tessera::planner
