// SPDX-License-Identifier: Apache-2.0
#include "ir/factors.h"

#include "base/index.h"

namespace tessera::ir {

namespace {}  // namespace

FactorRule FactorRule::pointwise(TypeSpan in, TypeSpan out) {
  FactorRule r;
  const Shape& full = out[0].shape;
  Tensor all;
  for (auto extent : full) all.push_back({r.add(extent)});
  for (const auto& t : in) r.operands.push_back(t.shape.empty() && !full.empty() ? Tensor{} : all);
  for (std::size_t i = 0; i < out.size(); ++i) r.results.push_back(all);
  return r;
}

FactorRule FactorRule::whole(TypeSpan in, TypeSpan out) {
  FactorRule r;
  auto tensor = [&](const Type& t) {
    Tensor dims;
    for (auto extent : t.shape) dims.push_back({r.add(extent, Factor::Kind::Whole)});
    return dims;
  };
  for (const auto& t : in) r.operands.push_back(tensor(t));
  for (const auto& t : out) r.results.push_back(tensor(t));
  return r;
}

FactorRule FactorRule::mapped(const Type& in, const Type& out, const Dims& map, bool free_new) {
  FactorRule r;
  r.operands.emplace_back(in.shape.size());
  r.results.emplace_back(out.shape.size());
  for (std::size_t d = 0; d < out.shape.size(); ++d) {
    std::int64_t source = map[d];
    bool same = source >= 0 && in.shape[at(source)] == out.shape[d];
    bool fresh = source < 0 && free_new;
    int f = r.add(out.shape[d], same || fresh ? Factor::Kind::Pass : Factor::Kind::Whole);
    r.results[0][d] = {f};
    if (same) r.operands[0][at(source)] = {f};
  }
  for (std::size_t d = 0; d < in.shape.size(); ++d) {
    if (r.operands[0][d].empty()) r.operands[0][d] = {r.add(in.shape[d], Factor::Kind::Whole)};
  }
  return r;
}

}  // namespace tessera::ir
