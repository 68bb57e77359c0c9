// SPDX-License-Identifier: Apache-2.0
// The ops' references and derivative rules, which engines are checked against, checked against JAX themselves: no
// engine and no array takes part.
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <map>

#include "ops/attrs.h"
#include "ops/graph_rules.h"
#include "ops/interpret.h"
#include "support/oracle_case.h"
#include "tessera/error.h"

namespace tessera::oracle {
namespace {

using ir::Builder;
using ir::Graph;
using ir::GraphPtr;
using ir::Value;
using ir::Values;
using ir::ValueSpan;
using Op = std::function<Value(ValueSpan, const Params&)>;

const std::map<std::string, std::string>& other_names() {
  static const std::map<std::string, std::string> names = {
      {"bitwise_and", "and"}, {"bitwise_or", "or"}, {"bitwise_xor", "xor"}, {"bitwise_not", "not"}};
  return names;
}

const std::map<std::string, Op>& with_params() {
  static const std::map<std::string, Op> table = {
      {"lax.convert_element_type",
       [](ValueSpan x, const Params& p) { return ops::convert(x[0], p.dtype("new_dtype")); }},
      {"lax.transpose", [](ValueSpan x, const Params& p) { return ops::transpose(x[0], p.dims("permutation")); }},
      {"lax.broadcast_in_dim",
       [](ValueSpan x, const Params& p) {
         return ops::broadcast_in_dim(x[0], p.dims("shape"), p.dims("broadcast_dimensions"));
       }},
      {"lax.reshape",
       [](ValueSpan x, const Params& p) {
         Value y = p.has("dimensions") ? ops::transpose(x[0], p.dims("dimensions")) : x[0];
         return ops::reshape(y, p.dims("new_sizes"));
       }},
      {"lax.dot_general",
       [](ValueSpan x, const Params& p) {
         const auto d = p.items("dimension_numbers");
         const auto list = [&](std::size_t i, std::size_t j) { return d[i].as_list(j); };
         return ops::dot_general(x[0], x[1], {list(0, 0), list(0, 1), list(1, 0), list(1, 1)},
                                 p.maybe_dtype("preferred_element_type"));
       }},
  };
  return table;
}

/// Promotion is the public functions' business.
bool promotes(const Case& c) { return c.fn == "lax.pow" && c.args[0].value.dtype() != c.args[1].value.dtype(); }

/// An op of this name without attributes, or one of those above; empty when the case is not for this test.
Op find(const Case& c) {
  const std::string& fn = c.fn;
  if (auto it = with_params().find(fn); it != with_params().end()) return it->second;
  if (fn.rfind("lax.", 0) != 0) return {};
  std::string name = fn.substr(4);
  if (auto it = other_names().find(name); it != other_names().end()) name = it->second;
  const ir::OpDef* op = ops::find(name);
  if (op == nullptr) return {};
  if (name.rfind("reduce_", 0) == 0 && c.params.has("axes")) {
    return [op](ValueSpan x, const Params& p) {
      return x[0].builder->add1(*op, x, ir::make_attrs(ops::Axes{p.dims("axes")}));
    };
  }
  if (!op->traits().elementwise || !c.params.empty() || promotes(c)) return {};
  return [op](ValueSpan x, const Params&) { return x[0].builder->add1(*op, x); };
}

ops::Flags marks(std::size_t size, const std::vector<std::size_t>& set) {
  ops::Flags out(size, false);
  for (std::size_t i : set) out[i] = true;
  return out;
}

/// inputs -> the one result.
GraphPtr forward(const Case& c, const Op& op) {
  Builder b;
  Values in;
  for (const auto& a : c.args) in.push_back(b.input({a.value.dtype(), a.value.shape()}));
  const Value out = op(in, c.params);
  return b.finish_shared(std::span(&out, 1));
}

/// (inputs, cotangent) -> cotangents of the marked inputs.
GraphPtr pull_back(const Graph& g, const ops::Flags& active) {
  const auto lin = ops::linearize_graph(g, active, {true});
  Builder b;
  Values in;
  for (auto id : g.inputs) in.push_back(b.input(g.types[static_cast<std::size_t>(id)]));
  const Value ct = b.input(g.types[static_cast<std::size_t>(g.outputs[0])]);
  const Values known = b.inline_graph(*lin.known, in);
  Values linear_in(known.begin() + 1, known.end());
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (active[i]) linear_in.emplace_back();
  }
  const Values ct_in = ops::transpose_inline(b, *lin.linear, linear_in, std::span(&ct, 1));
  Values out;
  for (std::size_t i = 0, k = known.size() - 1; i < in.size(); ++i) {
    if (!active[i]) continue;
    const Value v = ct_in[k++];
    out.push_back(v ? ops::broadcast_to(v, in[i].shape()) : ops::zeros_like(in[i]));
  }
  return b.finish_shared(out);
}

/// (inputs, tangents of the marked inputs) -> tangents of all outputs.
GraphPtr push_forward(const Graph& g, const ops::Flags& active) {
  return ops::jvp_graph(g, active, ops::Flags(g.outputs.size(), true)).graph;
}

std::vector<HostArray> compute(const Case& c, const Op& op) {
  const GraphPtr g = forward(c, op);
  std::vector<HostArray> in;
  for (const auto& a : c.args) in.push_back(a.value);
  const auto append = [&](const std::vector<HostArray>& more) { in.insert(in.end(), more.begin(), more.end()); };
  if (c.kind == "value") return ops::interpret(*g, in);
  const ops::Flags active = marks(in.size(), c.wrt);
  const auto tangents_of = [](std::vector<HostArray> all, std::size_t n) {
    return std::vector<HostArray>(all.end() - static_cast<std::ptrdiff_t>(n), all.end());
  };
  if (c.kind == "jvp") {
    append(c.tangents);
    return tangents_of(ops::interpret(*push_forward(*g, active), in), 1);
  }
  const GraphPtr pull = pull_back(*g, active);
  append(c.cts);
  if (c.kind == "vjp") return ops::interpret(*pull, in);
  ops::Flags active_pull = active;
  active_pull.push_back(false);
  append(c.tangents);
  return tangents_of(ops::interpret(*push_forward(*pull, active_pull), in), pull->outputs.size());
}

std::string replay(const Case& c, const Op& op) {
  try {
    const auto got = compute(c, op);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const std::string d = difference(got[i], c.out[i].value, c.rtol, c.atol);
      if (!d.empty()) return d;
    }
    return got.size() == c.out.size() ? "" : "count of results";
  } catch (const std::exception& e) {
    return std::string("threw: ") + e.what();
  }
}

class References : public testing::TestWithParam<const char*> {};

TEST_P(References, AgreeWithRecordedResults) {
  std::size_t agreed = 0, tried = 0;
  for (const Case& c : load(GetParam())) {
    const Op op = find(c);
    if (!op) continue;
    ++tried;
    const std::string wrong = replay(c, op);
    agreed += wrong.empty();
    if (!wrong.empty()) ADD_FAILURE() << c.id << ": " << wrong;
  }
  EXPECT_GT(tried, 0u);
  std::printf("references %s: %zu/%zu\n", GetParam(), agreed, tried);
}

INSTANTIATE_TEST_SUITE_P(Groups, References,
                         testing::Values("convert", "elementwise", "products", "reductions", "shapes"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tessera::oracle
