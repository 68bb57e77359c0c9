// SPDX-License-Identifier: Apache-2.0
#include "hlo/member_collective.h"

#include <algorithm>
#include <numeric>

#include "ops/attrs.h"
#include "ops/define.h"
#include "ops/graph_rules.h"
#include "ops/indexing.h"

namespace tessera::ops {

const char* to_string(MemberCollective::Kind kind) {
  static constexpr const char* names[] = {"all_reduce", "all_gather", "reduce_scatter",
                                          "all_to_all", "permute",    "broadcast"};
  return names[static_cast<int>(kind)];
}

namespace {
using Kind = MemberCollective::Kind;

std::int64_t group_size(const MemberCollective& p) {
  return p.groups.empty() ? p.members : static_cast<std::int64_t>(p.groups[0].size());
}

Types infer(TypeSpan in, const MemberCollective& p) {
  check_count("member_collective", in, 2);
  Type t = in[0];
  t.weak = false;
  auto lead = at(p.lead);
  auto extent = [&](std::int64_t d) -> std::int64_t& {
    if (d < 0 || lead + at(d) >= t.shape.size())
      bad_attr("member_collective", "dim", str(d, " lies outside the shape"));
    return t.shape[lead + at(d)];
  };
  std::int64_t k = group_size(p);
  if (p.kind == Kind::AllGather) extent(p.dim) *= k;
  if (p.kind == Kind::ReduceScatter || p.kind == Kind::AllToAll) {
    if (extent(p.dim) % k != 0) {
      bad_attr("member_collective", "dim", str(extent(p.dim), " elements for ", k, " members of a group"));
    }
    extent(p.dim) /= k;
  }
  if (p.kind == Kind::AllToAll) extent(p.concat_dim) *= k;
  return {t};
}

}  // namespace

Value rows_at(Value x, const Dims& order) {
  bool same = static_cast<std::int64_t>(order.size()) == x.shape()[0];
  for (std::size_t i = 0; i < order.size() && same; ++i) same = order[i] == static_cast<std::int64_t>(i);
  if (same) return x;
  Gather g;
  for (std::int64_t d = 1; d < x.rank(); ++d) g.offset_dims.push_back(d);
  g.collapsed_slice_dims = {0};
  g.start_index_map = {0};
  g.slice_sizes = x.shape();
  g.slice_sizes[0] = 1;
  g.mode = IndexMode::PromiseInBounds;
  std::vector<std::int32_t> numbers(order.begin(), order.end());
  Value indices = constant(*x.builder, HostArray::from(numbers, {static_cast<std::int64_t>(order.size()), 1}));
  return gather(x, indices, g);
}

namespace {
Value reduced(Value x, const std::string& how) {
  ir::Attrs axes = attrs(Axes{{1}});
  if (how == "add") return is_bool(x.dtype()) ? x.builder->add1(def::reduce_or, {x}, axes) : reduce_sum(x, {1});
  if (how == "multiply") return is_bool(x.dtype()) ? x.builder->add1(def::reduce_and, {x}, axes) : reduce_prod(x, {1});
  if (how == "maximum") return reduce_max(x, {1});
  if (how == "minimum") return reduce_min(x, {1});
  if (how == "and") return x.builder->add1(def::reduce_and, {x}, axes);
  if (how == "or") return x.builder->add1(def::reduce_or, {x}, axes);
  throw UnimplementedError(str("a collective that reduces by \"", how, "\"; use add, multiply, maximum or minimum"));
}

// [groups, ...] as [groups, k, ...], the same for each of k.
Value for_each_member(Value x, std::int64_t k) {
  Shape shape = x.shape();
  shape.insert(shape.begin() + 1, k);
  Dims dims{0};
  for (std::int64_t d = 1; d < x.rank(); ++d) dims.push_back(d + 1);
  return broadcast_in_dim(x, shape, dims);
}

// `x` is [groups, k, local …]; results are too. Of [groups, local …], dimension `dim` is gathered.
Value gathered(Value x, std::int64_t dim) {
  Value moved = move_dim(x, 1, dim);
  Shape shape = moved.shape();
  shape[at(dim)] *= shape[at(dim + 1)];
  shape.erase(shape.begin() + dim + 1);
  return for_each_member(reshape(moved, shape), x.shape()[1]);
}
// Dimension `dim` of [groups, …] cut in k pieces, one a member.
Value scattered(Value x, std::int64_t dim, std::int64_t k) {
  Shape shape = x.shape();
  shape[at(dim)] /= k;
  shape.insert(shape.begin() + dim, k);
  return move_dim(reshape(x, shape), dim, 1);
}
Value exchanged(Value x, std::int64_t split, std::int64_t concat) {
  std::int64_t k = x.shape()[1];
  // [g, source, …] -> cut `split` by target -> [g, target, source, …] -> sources join along `concat`
  Shape shape = x.shape();
  shape[at(split + 2)] /= k;
  shape.insert(shape.begin() + split + 2, k);
  Value cut = move_dim(reshape(x, shape), split + 2, 1);
  Value moved = move_dim(cut, 2, concat + 2);
  shape = moved.shape();
  shape[at(concat + 2)] *= shape[at(concat + 3)];
  shape.erase(shape.begin() + concat + 3);
  return reshape(moved, shape);
}

// Groups of one size, which hold every member once.
Value by_groups(Value x, const MemberCollective& p, const std::vector<Dims>& groups) {
  auto k = static_cast<std::int64_t>(groups[0].size());
  Dims order, back(at(p.members));
  for (const auto& g : groups) order.insert(order.end(), g.begin(), g.end());
  for (std::size_t i = 0; i < order.size(); ++i) back[at(order[i])] = static_cast<std::int64_t>(i);
  Shape shape = x.shape();
  shape[0] = k;
  shape.insert(shape.begin(), static_cast<std::int64_t>(groups.size()));
  Value grouped = reshape(rows_at(x, order), shape);
  Value out;
  if (p.kind == Kind::AllReduce) out = for_each_member(reduced(grouped, p.reduction), k);
  if (p.kind == Kind::AllGather) out = gathered(grouped, p.dim + 1);
  if (p.kind == Kind::ReduceScatter) out = scattered(reduced(grouped, p.reduction), p.dim + 1, k);
  if (p.kind == Kind::AllToAll) out = exchanged(grouped, p.dim, p.concat_dim);
  shape = out.shape();
  shape.erase(shape.begin());
  shape[0] = p.members;
  return rows_at(reshape(out, shape), back);
}

// By target its source; members without one get zeros.
Value from_sources(Value x, const MemberCollective& p) {
  Dims source(at(p.members), -1);
  for (const auto& g : p.groups) {
    if (p.kind == Kind::Permute) {
      source[at(g[1])] = g[0];
    } else {
      for (auto m : g) source[at(m)] = g[0];
    }
  }
  std::vector<bool> has;
  for (auto& s : source) {
    has.push_back(s >= 0);
    s = std::max<std::int64_t>(s, 0);
  }
  Value out = rows_at(x, source);
  if (std::find(has.begin(), has.end(), false) == has.end()) return out;
  Value mask = broadcast_in_dim(constant(*x.builder, HostArray::from(has)), out.shape(), {0});
  return where(mask, out, zeros_like(out));
}

// Groups of different sizes: each alone.
Value one_by_one(Value x, const MemberCollective& p) {
  Values by_member(at(p.members));
  for (std::int64_t m = 0; m < p.members; ++m) by_member[at(m)] = slice_in_dim(x, m, m + 1, 0);
  for (const auto& g : p.groups) {
    MemberCollective q = p;
    q.members = static_cast<std::int64_t>(g.size());
    Dims inside(g.size());
    std::iota(inside.begin(), inside.end(), 0);
    Value out = by_groups(rows_at(x, g), q, {inside});
    for (std::size_t i = 0; i < g.size(); ++i) {
      by_member[at(g[i])] = slice_in_dim(out, static_cast<std::int64_t>(i), static_cast<std::int64_t>(i) + 1, 0);
    }
  }
  return concatenate(by_member, 0);
}

Value among_members(Value x, const MemberCollective& p) {
  if (p.kind == Kind::Permute || p.kind == Kind::Broadcast) return from_sources(x, p);
  std::vector<Dims> groups = p.groups;
  if (groups.empty()) {
    groups.emplace_back(at(p.members));
    std::iota(groups[0].begin(), groups[0].end(), 0);
  }
  std::size_t count = 0;
  bool equal = true;
  for (const auto& g : groups) {
    count += g.size();
    equal = equal && g.size() == groups[0].size();
  }
  if (equal && static_cast<std::int64_t>(count) == p.members) return by_groups(x, p, groups);
  if (p.kind != Kind::AllReduce) throw ValueError("replica_groups must have one size and hold every device once");
  return one_by_one(x, p);
}

const ir::OpDef& definition();

Batched batch(Builder& b, const BatchArgs& a, const MemberCollective& p) {
  Value x = a.batched[0] ? a.in[0] : repeat_in_front(a.in[0], a.size);
  MemberCollective q = p;
  ++q.lead;
  if (--q.pending > 0) return {{b.add1(definition(), {x, a.in[1]}, attrs(q))}, {true}};
  Shape lead(x.shape().begin(), x.shape().begin() + q.lead);
  Shape flat(x.shape().begin() + q.lead, x.shape().end());
  flat.insert(flat.begin(), p.members);
  Value out = among_members(reshape(x, flat), p);
  Shape shape(out.shape().begin() + 1, out.shape().end());
  shape.insert(shape.begin(), lead.begin(), lead.end());
  return {{reshape(out, shape)}, {true}};
}

constexpr const char* kOnlyInside = "stands in programs read from text only until these are batched over devices";

// Not in ops.def: no program keeps it, and nothing but this room makes it.
const ir::Op<MemberCollective> member_collective_definition{ir::OpSpec<MemberCollective>{
    .name = "member_collective",
    .traits = {.linear_operands = 1},
    .infer = infer,
    .factors = Never{kOnlyInside},
    .remap = by_default,
    .batch = batch,
    .jvp = Never{kOnlyInside},
    .transpose = Never{kOnlyInside},
    .reference = Never{kOnlyInside},
    .samples = Never{kOnlyInside},
}};

const ir::OpDef& definition() { return member_collective_definition; }
}  // namespace

Value member_collective(Value x, Value member, const MemberCollective& p) {
  return x.builder->add1(definition(), {x, member}, attrs(p));
}

}  // namespace tessera::ops
