// SPDX-License-Identifier: Apache-2.0
#include "ops/control/subgraph_structure.h"

#include "base/check.h"
#include "ir/op_def.h"
#include "ops/collective/shard_map_op.h"
#include "ops/shared_attrs.h"

namespace tessera::ops {

namespace {

std::vector<Tie> straight(std::size_t count, std::size_t outer_from = 0) {
  std::vector<Tie> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back({outer_from + i, i});
  return out;
}

Control of_cond(const Cond& p) {
  Control c;
  for (const auto& g : p.branches) {
    c.bodies.push_back({g, straight(g->inputs.size(), 1), straight(g->outputs.size())});
  }
  c.scalars = {0};
  return c;
}

Control of_while(const While& p) {
  auto nc = static_cast<std::size_t>(p.cond_consts);
  auto nb = static_cast<std::size_t>(p.body_consts);
  std::size_t carry = p.body->outputs.size();
  Control c;
  Body cond{p.cond, straight(nc), {}};
  for (std::size_t i = 0; i < carry; ++i) cond.inputs.push_back({nc + nb + i, nc + i});
  Body body{p.body, straight(nb, nc), straight(carry)};
  for (std::size_t i = 0; i < carry; ++i) {
    body.inputs.push_back({nc + nb + i, nb + i});
    c.carried.emplace_back(nc + nb + i, i);
  }
  c.bodies = {std::move(cond), std::move(body)};
  c.times = -1;
  return c;
}

Control of_scan(const Scan& p) {
  auto nk = static_cast<std::size_t>(p.num_consts);
  auto nc = static_cast<std::size_t>(p.num_carry);
  Control c;
  Body body{p.body, straight(p.body->inputs.size()), straight(p.body->outputs.size())};
  for (std::size_t i = nk + nc; i < body.inputs.size(); ++i) body.inputs[i].stacked = true;
  for (std::size_t i = nc; i < body.outputs.size(); ++i) body.outputs[i].stacked = true;
  for (std::size_t i = 0; i < nc; ++i) c.carried.emplace_back(nk + i, i);
  c.bodies = {std::move(body)};
  c.times = p.length;
  return c;
}

}  // namespace

std::optional<Control> control_of(const ir::Eqn& e) {
  if (!e.attrs || e.op->subgraphs(e.attrs).empty()) return std::nullopt;
  if (const auto* p = ir::get_if<Cond>(e.attrs)) return of_cond(*p);
  if (const auto* p = ir::get_if<While>(e.attrs)) return of_while(*p);
  if (const auto* p = ir::get_if<Scan>(e.attrs)) return of_scan(*p);
  if (const auto* p = ir::get_if<Call>(e.attrs)) {
    Control c;
    c.bodies = {{p->body, straight(p->body->inputs.size()), straight(p->body->outputs.size())}};
    return c;
  }
  return std::nullopt;
}

ir::Attrs with_bodies(const ir::Eqn& e, const std::vector<ir::GraphPtr>& graphs) {
  if (ir::get_if<Cond>(e.attrs)) return ir::make_attrs(Cond{graphs});
  if (const auto* p = ir::get_if<While>(e.attrs)) {
    While q = *p;
    q.cond = graphs[0];
    q.body = graphs[1];
    return ir::make_attrs(q);
  }
  if (const auto* p = ir::get_if<Scan>(e.attrs)) {
    Scan q = *p;
    q.body = graphs[0];
    return ir::make_attrs(q);
  }
  if (const auto* p = ir::get_if<Reduce>(e.attrs)) return ir::make_attrs(Reduce{graphs[0], p->axes});
  if (const auto* p = ir::get_if<ReduceWindow>(e.attrs)) {
    ReduceWindow q = *p;
    q.body = graphs[0];
    return ir::make_attrs(q);
  }
  if (const auto* p = ir::get_if<ShardMap>(e.attrs)) {
    ShardMap q = *p;
    q.body = graphs[0];
    return ir::make_attrs(q);
  }
  const auto* p = ir::get_if<Call>(e.attrs);
  TESSERA_CHECK(p != nullptr, "an op without sub-graphs");
  Call q = *p;
  q.body = graphs[0];
  return ir::make_attrs(q);
}

}  // namespace tessera::ops
