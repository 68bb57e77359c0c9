// SPDX-License-Identifier: Apache-2.0
#include "ir/builder.h"

#include "base/check.h"
#include "base/strings.h"
#include "ir/derive_sharding.h"
#include "ir/op_def.h"
#include "ir/rewriter.h"
#include "tessera/error.h"

namespace tessera::ir {

ValueId Builder::fresh(Type type) {
  types_.push_back(type);
  graph_.types.push_back(std::move(type));
  return static_cast<ValueId>(graph_.types.size()) - 1;
}

Value Builder::input(Type type) {
  if (type.sharding != nullptr && typing_ == Typing::Off) typing_ = Typing::Lenient;
  ValueId v = fresh(std::move(type));
  graph_.inputs.push_back(v);
  return {this, v};
}

Values Builder::add(const OpDef& op, ValueSpan in, Attrs attrs) {
  Types types;
  types.reserve(in.size());
  for (const auto& v : in) {
    TESSERA_CHECK(v.builder == this, str("operand of ", op.name(), " comes from another graph"));
    types.push_back(v.type());
  }
  Types out = op.infer(types, attrs);
  if (typing_ != Typing::Off) derive_shardings(op, types, out, attrs, typing_, open_);
  return add_typed(op, in, std::move(attrs), std::move(out));
}

Values Builder::add_typed(const OpDef& op, ValueSpan in, Attrs attrs, Types out) {
  Eqn e{&op, std::move(attrs), {}, {}, loc_};
  e.in.reserve(in.size());
  for (const auto& v : in) e.in.push_back(v.id);
  Values results;
  results.reserve(out.size());
  for (auto& t : out) {
    e.out.push_back(fresh(std::move(t)));
    results.push_back({this, e.out.back()});
  }
  graph_.eqns.push_back(std::move(e));
  return results;
}

Values Builder::inline_graph(const Graph& g, ValueSpan args) {
  Rewriter r(*this, g);
  r.bind(g.inputs, args);
  r.walk();
  return r.outputs();
}

void Builder::set_sharding(Value v, const TypeSharding* sharding) {
  types_[static_cast<std::size_t>(v.id)].sharding = sharding;
  graph_.types[static_cast<std::size_t>(v.id)].sharding = sharding;
}

void Builder::set_layout(Value v, Layout l) {
  auto n = static_cast<std::size_t>(v.id);
  if (graph_.layouts.size() == n) return graph_.layouts.push_back(std::move(l));
  if (graph_.layouts.size() < n) graph_.layouts.resize(n + 1);
  graph_.layouts[n] = std::move(l);
}

Graph Builder::finish(ValueSpan outputs) {
  for (const auto& v : outputs) {
    TESSERA_CHECK(v.builder == this, "an output comes from another graph");
    graph_.outputs.push_back(v.id);
  }
  return std::move(graph_);
}

GraphPtr Builder::finish_shared(ValueSpan outputs) {
  Graph g = finish(outputs);
  prune(g);
  return std::make_shared<const Graph>(std::move(g));
}

}  // namespace tessera::ir
