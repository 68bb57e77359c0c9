// SPDX-License-Identifier: Apache-2.0
#include "spmd/sums_wanted.h"

#include <algorithm>

#include "ir/op_def.h"
#include "ops/collective/manual.h"
#include "spmd/spmd.h"

namespace tessera::spmd {

std::size_t linear_operands(const ir::Eqn& e) {
  int n = e.op->traits().linear_operands;
  return n < 0 ? e.in.size() : static_cast<std::size_t>(n);
}

bool linear_in(const ir::Graph& g, const ir::Eqn& e, std::size_t i) {
  const ir::Traits& t = e.op->traits();
  if (t.linearity == ir::Linearity::None || t.effect || t.collective || i >= linear_operands(e)) return false;
  DType from = g.type(e.in[i]).dtype;
  // Division of integers rounds.
  if (t.linearity == ir::Linearity::Multi && t.linear_operands == 1 && !is_inexact(from)) return false;
  return std::all_of(e.out.begin(), e.out.end(), [&](ir::ValueId v) {
    DType to = g.type(v).dtype;
    return to == from || (is_inexact(from) && is_inexact(to) && dtype_size(to) > dtype_size(from));
  });
}

namespace {
constexpr AxisMask kUnread = ~AxisMask{0};
}

std::vector<AxisMask> read_as_sums(const ir::Module& m) {
  const ir::Graph& g = *m.graph;
  std::vector<AxisMask> out(g.num_values(), kUnread);
  auto at = [&](ir::ValueId v) -> AxisMask& { return out[static_cast<std::size_t>(v)]; };
  for (std::size_t i = 0; i < g.outputs.size(); ++i) {
    const auto& layout = m.outputs[i].layout;
    at(g.outputs[i]) &= layout && layout->reduction == ir::Reduction::Sum ? layout->partial : 0;
  }
  for (auto e = g.eqns.rbegin(); e != g.eqns.rend(); ++e) {
    AxisMask results = kUnread;
    for (auto v : e->out) results &= at(v);
    for (std::size_t i = 0; i < e->in.size(); ++i) {
      AxisMask wanted = 0;
      if (const auto* c = ir::get_if<ops::ShardingConstraint>(e->attrs)) {
        wanted = resolve(*c, m).layout.partial;
      } else if (e->op == &ops::def::manual_enter) {
        for (auto a : ir::get<ops::ManualSpec>(e->attrs).partial) wanted |= bit(static_cast<std::uint8_t>(a));
      } else if (results != kUnread && linear_in(g, *e, i)) {
        wanted = results;
      }
      at(e->in[i]) &= wanted;
    }
  }
  return out;
}

std::vector<AxisMask> sums_wanted(const ir::Module& m) {
  std::vector<AxisMask> out = read_as_sums(m);
  for (auto& mask : out) mask = mask == kUnread ? 0 : mask;
  return out;
}

}  // namespace tessera::spmd
