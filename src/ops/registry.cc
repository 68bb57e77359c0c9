// SPDX-License-Identifier: Apache-2.0
// The registry, and what every op's rules share.
#include <algorithm>
#include <map>
#include <numeric>

#include "ir/graph_text.h"
#include "ops/collective/manual_region.h"
#include "ops/define_op.h"
#include "ops/shape/halo.h"
#include "ops/shape/sharding_groups.h"

namespace tessera::ops {

namespace {
const ir::OpDef* const kAll[] = {
#define TESSERA_OP(name) &def::name,
#include "ops/ops.def"
};
}  // namespace

// The table holds addresses of references bound at load time; it is read only after main began.
std::span<const ir::OpDef* const> all() { return kAll; }

const ir::OpDef* find(std::string_view name) {
  static const auto* table = [] {
    std::map<std::string_view, const ir::OpDef*> t;
    for (const auto* op : all()) t[op->name()] = op;
    return new std::map(std::move(t));
  }();
  auto it = table->find(name);
  return it == table->end() ? nullptr : it->second;
}

ir::Graph parse_graph(std::string_view text) {
  return ir::parse_graph(text, [](std::string_view name) {
    for (const auto* op : {&def::halo, &def::full_to_shard, &def::mark_manual, &def::shard_to_full,
                           &def::sharding_group, &def::inspect_sharding}) {
      if (op->name() == name) return op;
    }
    return find(name);
  });
}

Value add_any(Value x, Value y) {
  if (!x) return y;
  if (!y) return x;
  // A rank-0 term stands for the same number everywhere.
  return add(x, y);
}

Values jvp_of(Builder& b, const ir::OpDef& op, const ir::JvpArgs& args, const ir::Attrs& attrs) {
  bool differentiable = false;
  for (const auto& v : args.out) differentiable = differentiable || is_inexact(v.dtype());
  if (!differentiable) return Values(args.out.size());
  Values t = op.jvp(b, args, attrs);
  for (std::size_t i = 0; i < t.size(); ++i) {
    if (!t[i]) continue;
    if (!is_inexact(args.out[i].dtype())) {
      t[i] = Value{};
    } else {
      t[i] = broadcast_to(t[i], args.out[i].shape());
    }
  }
  return t;
}

Values transpose_of(Builder& b, const ir::OpDef& op, const ir::TransposeArgs& args, const ir::Attrs& attrs) {
  bool any = std::any_of(args.ct.begin(), args.ct.end(), [](const Value& v) { return static_cast<bool>(v); });
  if (!any) return Values(args.types.size());
  Values ct = op.transpose(b, args, attrs);
  if (!op.traits().elementwise) return ct;
  // A rank-0 operand was used everywhere.
  for (std::size_t i = 0; i < ct.size(); ++i) {
    if (!ct[i] || !args.types[i].shape.empty() || ct[i].rank() == 0) continue;
    Dims axes(at(ct[i].rank()));
    std::iota(axes.begin(), axes.end(), 0);
    ct[i] = reduce_sum(ct[i], axes);
  }
  return ct;
}

}  // namespace tessera::ops

namespace tessera::ir::detail {

void no_rule(const OpDef& op, const char* rule, const char* why) {
  throw UnimplementedError(str("[", op.name(), "] has no ", rule, " rule: ", why ? why : "unknown"));
}

Values linear_jvp(Builder& b, const OpDef& op, const JvpArgs& args, const Attrs& a) {
  Values in;
  for (std::size_t i = 0; i < args.in.size(); ++i) {
    in.push_back(args.tangents[i] ? args.tangents[i] : ops::zeros_like(args.in[i]));
  }
  return b.add(op, in, a);
}

// Every operand of full rank gets the batch in front; rank-0 operands that are not batched stay.
Batched elementwise_batch(Builder& b, const OpDef& op, const BatchArgs& args, const Attrs& a) {
  std::int64_t full = 0;
  for (std::size_t i = 0; i < args.in.size(); ++i) {
    full = std::max(full, args.in[i].rank() - (args.batched[i] ? 1 : 0));
  }
  Values in;
  for (std::size_t i = 0; i < args.in.size(); ++i) {
    Value x = args.in[i];
    std::int64_t own = x.rank() - (args.batched[i] ? 1 : 0);
    if (!args.batched[i] && own > 0) {
      x = ops::with_batch(args, i);
    } else if (args.batched[i] && own == 0 && full > 0) {
      // A batched scalar beside full operands must be repeated over their dimensions.
      Shape shape{args.size};
      for (std::size_t j = 0; j < args.in.size(); ++j) {
        if (args.in[j].rank() - (args.batched[j] ? 1 : 0) != full) continue;
        const Shape& s = args.in[j].shape();
        shape.insert(shape.end(), s.begin() + (args.batched[j] ? 1 : 0), s.end());
        break;
      }
      x = ops::broadcast_in_dim(x, shape, {0});
    }
    in.push_back(x);
  }
  Values out = b.add(op, in, a);
  return {out, std::vector<bool>(out.size(), true)};
}

}  // namespace tessera::ir::detail
