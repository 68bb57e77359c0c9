// SPDX-License-Identifier: Apache-2.0
#include "planner/value_groups.h"

#include <algorithm>
#include <map>

#include "base/hash.h"
#include "ir/op_def.h"
#include "ops/ops.h"

namespace tessera::planner {

namespace {

// How far along its readers the role of a value is told by: far enough for a matrix's product and what follows it, not
// so far that the first and the last of equal layers differ.
constexpr int kRoleDepth = 2;

std::size_t type_hash(const ir::Type& t) { return base::hash_range(static_cast<std::size_t>(t.dtype), t.shape); }

std::vector<std::size_t> roles(const ir::Graph& g) {
  std::vector<std::size_t> role;
  for (const auto& t : g.types) role.push_back(type_hash(t));
  for (int depth = 0; depth < kRoleDepth; ++depth) {
    std::vector<std::size_t> next = role;
    for (const auto& e : g.eqns) {
      for (std::size_t i = 0; i < e.in.size(); ++i) {
        std::size_t h = std::hash<std::string_view>{}(e.op->name()) + i;
        for (auto v : e.out) h = base::hash_mix(h, role[static_cast<std::size_t>(v)]);
        next[static_cast<std::size_t>(e.in[i])] += base::hash_mix(h, 17);  // in any order of readers
      }
    }
    role = std::move(next);
  }
  return role;
}

// What propagation may place otherwise than would be best: where dimensions meet, vanish or change.
bool is_turn(const ir::Eqn& e) {
  using namespace ops::def;
  return e.op == &dot_general || e.op == &conv_general_dilated || e.op == &reshape || e.op == &gather ||
         e.op == &transpose;
}

}  // namespace

std::vector<ValueGroup> argument_groups(const ir::Graph& g, std::size_t count) {
  const std::vector<std::size_t> role = roles(g);
  std::vector<ValueGroup> out;
  std::map<std::size_t, std::size_t> index;
  for (std::size_t i = 0; i < count; ++i) {
    const ir::ValueId v = g.inputs[i];
    auto [it, added] = index.try_emplace(role[static_cast<std::size_t>(v)], out.size());
    if (added) out.push_back({{}, {}, g.type(v)});
    out[it->second].arguments.push_back(i);
    out[it->second].values.push_back(v);
  }
  return out;
}

std::vector<ValueGroup> inner_groups(const ir::Graph& g, std::int64_t least, std::size_t most) {
  const std::vector<std::size_t> role = roles(g);
  std::vector<ValueGroup> out;
  std::map<std::size_t, std::size_t> index;
  for (const auto& e : g.eqns) {
    if (!is_turn(e) || g.type(e.out[0]).nbytes() < least) continue;
    std::size_t h = std::hash<std::string_view>{}(e.op->name());
    for (auto v : e.in) h = base::hash_mix(h, type_hash(g.type(v)));
    h = base::hash_mix(h, role[static_cast<std::size_t>(e.out[0])]);
    auto [it, added] = index.try_emplace(h, out.size());
    if (added) out.push_back({{}, {}, g.type(e.out[0]), std::string(e.op->name()), e.loc});
    out[it->second].values.push_back(e.out[0]);
  }
  std::ranges::stable_sort(out, std::greater(), &ValueGroup::bytes);
  if (out.size() > most) out.resize(most);
  return out;
}

}  // namespace tessera::planner
