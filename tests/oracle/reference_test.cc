// SPDX-License-Identifier: Apache-2.0
// The ops' references and derivative rules, which engines are checked against, checked against JAX themselves: no
// engine and no array takes part.
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <map>

#include "ops/shared_attrs.h"
#include "ops/transform/graph_rules.h"
#include "ops/transform/interpret.h"
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

ops::Window window_of(const Params& p, const Shape& shape) {
  const Dims ones(shape.size(), 1);
  ops::Window w{p.dims("window_dimensions"),
                p.dims("window_strides"),
                Dims(shape.size(), 0),
                Dims(shape.size(), 0),
                p.maybe_dims("base_dilation").value_or(ones),
                p.maybe_dims("window_dilation").value_or(ones)};
  const bool same = p.is_text("padding") && p.text("padding") == "SAME";
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (!p.is_text("padding")) {
      w.low[d] = p.lists("padding")[d][0];
      w.high[d] = p.lists("padding")[d][1];
    } else if (same) {
      const auto extent = (shape[d] - 1) * w.base_dilation[d] + 1;
      const auto span = (w.dimensions[d] - 1) * w.window_dilation[d] + 1;
      const auto places = (extent + w.strides[d] - 1) / w.strides[d];
      const auto total = std::max<std::int64_t>(0, (places - 1) * w.strides[d] + span - extent);
      w.low[d] = total / 2;
      w.high[d] = total - total / 2;
    }
  }
  return w;
}

/// A reducer of two numbers where no op of its own serves.
GraphPtr product_of(DType t) {
  Builder b;
  const Value x = b.input({t, {}});
  const Value y = b.input({t, {}});
  const Value out = ops::mul(x, y);
  return b.finish_shared(std::span(&out, 1));
}

Value reduce_window(ValueSpan x, const Params& p) {
  const std::string how = p.text("computation");
  const ops::Window w = window_of(p, x[0].shape());
  if (how == "add") return ops::reduce_window_sum(x[0], w);
  if (how == "max") return ops::reduce_window_max(x[0], w);
  if (how == "min") return ops::reduce_window_min(x[0], w);
  const Value one = ops::scalar(*x[0].builder, 1, x[0].dtype());
  return ops::reduce_window(x.first(1), std::span(&one, 1), product_of(x[0].dtype()), w)[0];
}

using Scan = Value (*)(Value, std::int64_t, bool);
Op scan(Scan f) {
  return [f](ValueSpan x, const Params& p) { return f(x[0], p.integer("axis"), p.flag("reverse")); };
}

/// Starts that count from the end are the public functions' business.
Values from_start(ValueSpan starts, const Shape& shape) {
  Values out;
  for (std::size_t d = 0; d < starts.size(); ++d) {
    const Value zero = ops::zeros_like(starts[d]);
    const Value extent = ops::scalar(*zero.builder, static_cast<double>(shape[d]), zero.dtype());
    out.push_back(ops::where(ops::lt(starts[d], zero), starts[d] + extent, starts[d]));
  }
  return out;
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
      {"lax.round",
       [](ValueSpan x, const Params& p) {
         return ops::round(x[0], p.text("rounding_method", "AWAY_FROM_ZERO") == "TO_NEAREST_EVEN");
       }},
      {"lax.integer_pow", [](ValueSpan x, const Params& p) { return ops::integer_pow(x[0], p.integer("y")); }},
      {"lax.reduce_precision",
       [](ValueSpan x, const Params& p) {
         return ops::reduce_precision(x[0], p.integer("exponent_bits"), p.integer("mantissa_bits"));
       }},
      {"lax.bitcast_convert_type",
       [](ValueSpan x, const Params& p) { return ops::bitcast_convert_type(x[0], p.dtype("new_dtype")); }},
      {"lax.pad",
       [](ValueSpan x, const Params& p) {
         Dims low, high, interior;
         for (const Dims& d : p.lists("padding_config")) {
           low.push_back(d[0]);
           high.push_back(d[1]);
           interior.push_back(d[2]);
         }
         return ops::pad(x[0], x[1], low, high, interior);
       }},
      {"lax.slice",
       [](ValueSpan x, const Params& p) {
         return ops::slice(x[0], p.dims("start_indices"), p.dims("limit_indices"),
                           p.maybe_dims("strides").value_or(Dims{}));
       }},
      {"lax.rev", [](ValueSpan x, const Params& p) { return ops::rev(x[0], p.dims("dimensions")); }},
      {"lax.expand_dims", [](ValueSpan x, const Params& p) { return ops::expand_dims(x[0], p.dims("dimensions")); }},
      {"lax.squeeze",
       [](ValueSpan x, const Params& p) {
         Dims dims = p.dims("dimensions");
         for (auto& d : dims) d += d < 0 ? x[0].rank() : 0;
         return ops::squeeze(x[0], dims);
       }},
      {"lax.concatenate", [](ValueSpan x, const Params& p) { return ops::concatenate(x, p.integer("dimension")); }},
      {"lax.dynamic_slice",
       [](ValueSpan x, const Params& p) {
         return ops::dynamic_slice(x[0], from_start(x.subspan(1), x[0].shape()), p.dims("slice_sizes"));
       }},
      {"lax.dynamic_update_slice",
       [](ValueSpan x, const Params&) {
         return ops::dynamic_update_slice(x[0], x[1], from_start(x.subspan(2), x[0].shape()));
       }},
      {"lax.cumsum", scan(ops::cumsum)},
      {"lax.cumprod", scan(ops::cumprod)},
      {"lax.cummax", scan(ops::cummax)},
      {"lax.cummin", scan(ops::cummin)},
      {"lax.cumlogsumexp", scan(ops::cumlogsumexp)},
      {"lax.argmax",
       [](ValueSpan x, const Params& p) { return ops::argmax(x[0], p.integer("axis"), p.dtype("index_dtype")); }},
      {"lax.argmin",
       [](ValueSpan x, const Params& p) { return ops::argmin(x[0], p.integer("axis"), p.dtype("index_dtype")); }},
      {"lax.reduce_window", reduce_window},
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
