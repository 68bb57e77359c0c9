// SPDX-License-Identifier: Apache-2.0
// What the passes make of some programs, as golden files in tests/golden/passes. TESSERA_WRITE_GOLDEN=1 writes the
// files anew.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/strings.h"
#include "engines/cpu/passes/engine_products.h"
#include "engines/cpu/passes/fold_constants.h"
#include "engines/cpu/passes/fold_sections.h"
#include "engines/cpu/passes/fold_transposes.h"
#include "engines/cpu/passes/fuse.h"
#include "engines/cpu/passes/inline_calls.h"
#include "engines/cpu/passes/merge.h"
#include "engines/cpu/passes/recompute_cheap.h"
#include "ir/graph_text.h"
#include "ops/collective/collectives.h"
#include "ops/collective/shard_map_op.h"
#include "ops/control/calls.h"
#include "ops/control/control.h"
#include "ops/shape/halo.h"
#include "support/graphs.h"
#include "support/paths.h"
#include "support/spmd_sketch.h"

namespace tessera::test {
namespace {

using ir::Builder;
using ir::GraphPtr;
using ir::Type;
using ir::Value;
using ir::Values;

Type f32(Shape shape) { return {DType::F32, std::move(shape)}; }
Value matmul(Value a, Value b) { return ops::dot_general(a, b, {{1}, {0}, {}, {}}); }

// The graphs of one program as text, pass by pass.
class Golden {
 public:
  explicit Golden(std::string name) : path_(data_path("golden/passes/" + name + ".txt")) {}

  GraphPtr add(const std::string& pass, const GraphPtr& g) {
    text_ += str("== ", pass, "\n", to_string(*g), "\n\n");
    if (!holds_rules(*g)) {
      EXPECT_EQ(full_text(ir::parse_graph(full_text(*g), op_named)), full_text(*g)) << pass;
    }
    return g;
  }

  void check() const {
    if (std::getenv("TESSERA_WRITE_GOLDEN") != nullptr) {
      std::ofstream(path_) << text_;
      return;
    }
    std::ifstream file(path_);
    std::stringstream want;
    want << file.rdbuf();
    EXPECT_EQ(text_, want.str()) << path_;
  }

 private:
  // Rules of custom derivatives and callbacks cannot be read from text.
  static bool holds_rules(const ir::Graph& g) { return full_text(g).find("=<") != std::string::npos; }
  static const ir::OpDef* op_named(std::string_view name) {
    for (const auto* op : {&cpu::transposed_product(), &cpu::joined_products(), &ops::def::halo}) {
      if (op->name() == name) return op;
    }
    return ops::find(name);
  }

  std::filesystem::path path_;
  std::string text_;
};

// Forward, derivative and batch; then the gradient on a mesh.
struct Derivatives {
  explicit Derivatives(Golden& golden, const GraphPtr& g) {
    ops::Flags active(g->inputs.size(), true);
    golden.add("jvp", ops::jvp_graph(*g, active).graph);
    golden.add("batch", ops::batch_graph(*g, active, 3).graph);
    ops::Linearized lin = ops::linearize_graph(*g, active);
    golden.add("linearize: known", lin.known);
    golden.add("linearize: linear", lin.linear);
    ops::Flags linear(lin.num_residuals, false);
    linear.resize(lin.linear->inputs.size(), true);
    ops::Flags cotangents(lin.linear->outputs.size(), true);
    ops::Flags all(linear.size(), true);
    GraphPtr back = golden.add("transpose", ops::transpose_graph(*lin.linear, linear, cotangents, all).graph);
    Values in;
    for (const auto& t : g->input_types()) in.push_back(b.input(t));
    outputs = b.inline_graph(*lin.known, in);
    Values args(outputs.end() - static_cast<std::ptrdiff_t>(lin.num_residuals), outputs.end());
    outputs.resize(g->outputs.size());
    for (auto v : lin.linear->outputs) args.push_back(ops::full(b, 1, lin.linear->type(v)));
    for (auto v : b.inline_graph(*back, args)) outputs.push_back(v);
  }
  Builder b;
  Values outputs;
};

void add_engine_passes(Golden& golden, GraphPtr g) {
  g = golden.add("inline_calls", cpu::inline_calls(g));
  g = golden.add("merge_equal", cpu::merge_equal(cpu::fold_constants(g)));
  g = golden.add("fold_transposes", cpu::fold_transposes(g));
  g = golden.add("fold_sections", cpu::fold_sections(g));
  golden.add("recompute_cheap", cpu::recompute_cheap(g).graph);
}

TEST(PassTexts, TwoLayers) {
  Golden golden("two_layers");
  GraphPtr g =
      golden.add("program", make_graph({f32({8, 6}), f32({6, 12}), f32({12, 6})}, [](Builder&, const Values& v) {
                   Value h = matmul(v[0], v[1]);
                   Value gate = h * ops::logistic(h);
                   Value y = matmul(gate, v[2]) + v[0];
                   return Values{ops::reduce_sum(y * y, {0, 1})};
                 }));
  Derivatives d(golden, g);
  auto p = module(d.b, d.outputs, mesh_of("data:4, model:2"), {"data, -", "-, model", "model, -"});
  add_engine_passes(golden, golden.add("partition", partitioned(p)));
  golden.check();
}

// q, k and v are sections of one product, two heads a device.
TEST(PassTexts, Attention) {
  Golden golden("attention");
  GraphPtr g =
      golden.add("program", make_graph({f32({8, 16, 8}), f32({8, 24}), f32({8, 8})}, [](Builder&, const Values& v) {
                   Values s = ops::split(ops::dot_general(v[0], v[1], {{2}, {0}, {}, {}}), {8, 8, 8}, 2);
                   for (auto& t : s) t = ops::transpose(ops::reshape(t, {8, 16, 4, 2}), {0, 2, 1, 3});
                   Value w = ops::tanh(ops::dot_general(s[0], s[1], {{3}, {3}, {0, 1}, {0, 1}}));
                   Value o = ops::transpose(ops::dot_general(w, s[2], {{3}, {2}, {0, 1}, {0, 1}}), {0, 2, 1, 3});
                   return Values{ops::dot_general(ops::reshape(o, {8, 16, 8}), v[2], {{2}, {0}, {}, {}})};
                 }));
  Derivatives d(golden, g);
  auto p = module(d.b, d.outputs, mesh_of("data:4, model:2"), {"data, -, -", "-, model", "model, -"});
  add_engine_passes(golden, golden.add("partition", partitioned(p)));
  golden.check();
}

TEST(PassTexts, Loop) {
  Golden golden("loop");
  GraphPtr body = make_graph({f32({6, 6}), f32({8, 6}), f32({8, 6})}, [](Builder&, const Values& v) {
    Value next = ops::tanh(matmul(v[1], v[0]) + v[2]);
    return Values{next, ops::reduce_sum(v[1], {1})};
  });
  GraphPtr g =
      golden.add("program", make_graph({f32({6, 6}), f32({8, 6}), f32({5, 8, 6})}, [&](Builder& b, const Values& v) {
                   return ops::scan(b, {body, 5, false, {v[0]}, {v[1]}, {v[2]}});
                 }));
  Derivatives d(golden, g);
  auto p = module(d.b, d.outputs, mesh_of("data:4"), {"-, -", "data, -", "-, data, -"});
  golden.add("with_fixed_leaves", spmd::with_fixed_leaves(p.graph));
  golden.add("partition", partitioned(p));
  golden.check();
}

TEST(PassTexts, Calls) {
  Golden golden("calls");
  GraphPtr inner = make_graph({f32({8, 6})}, [](Builder&, const Values& v) { return Values{ops::exp(v[0]) * v[0]}; });
  GraphPtr outer = make_graph({f32({8, 6})}, [&](Builder& b, const Values& v) {
    return ops::checkpoint(b, inner, Values{ops::sin(ops::checkpoint(b, inner, v)[0])});
  });
  GraphPtr g = golden.add("program", make_graph({f32({8, 6})}, [&](Builder& b, const Values& v) {
                            return Values{ops::checkpoint(b, outer, v)[0] + ops::exp(v[0]) * v[0]};
                          }));
  Derivatives d(golden, g);
  auto p = module(d.b, d.outputs, mesh_of("data:4"), {"data, -"});
  add_engine_passes(golden, golden.add("partition", partitioned(p)));
  golden.check();
}

TEST(PassTexts, Map) {
  Golden golden("map");
  ops::ShardMap p;
  p.mesh_sizes = {4};
  p.mesh_names.list = {"x"};
  p.manual = {0};
  p.in_specs.list = {{{0}, {}}, {{}, {}}};
  p.out_specs.list = {{{}, {}}};
  p.body = make_graph({f32({2, 6}), f32({2, 6})}, [](Builder&, const Values& v) {
    ops::Collective sum;
    sum.names.list = {"x"};
    sum.sizes = {4};
    sum.checked = true;
    return Values{ops::psum(v[0] * v[1], sum) + v[1]};
  });
  GraphPtr g = golden.add("program", make_graph({f32({8, 6}), f32({2, 6})},
                                                [&](Builder& b, const Values& v) { return ops::shard_map(b, p, v); }));
  Derivatives d(golden, g);
  auto mapped = module(d.b, d.outputs, mesh_of("x:4"), {"x, -", "-, -"});
  mapped.graph = golden.add("expand_maps", spmd::expand_maps(mapped));
  golden.add("partition", partitioned(mapped));
  golden.check();
}

TEST(PassTexts, Windows) {
  Golden golden("windows");
  GraphPtr g = golden.add("program", make_graph({f32({16, 6})}, [](Builder&, const Values& v) {
                            ops::Window w;
                            w.dimensions = {3, 1};
                            w.strides = w.base_dilation = w.window_dilation = {1, 1};
                            w.low = w.high = {1, 0};
                            return Values{ops::reduce_window_max(ops::exp(v[0]), w)};
                          }));
  Builder b;
  Values out = b.inline_graph(*g, Values{b.input(f32({16, 6}))});
  golden.add("partition", partitioned(module(b, out, mesh_of("x:4"), {"x, -"}, {"x, -"})));
  golden.check();
}

// A softmax as `softmax` writes it: its maximum does not take part in derivatives.
TEST(Passes, StoppedGradientsPartNoFusedGroup) {
  GraphPtr g = make_graph({f32({8, 6})}, [](Builder&, const Values& v) {
    auto repeated = [](Value rows) { return ops::broadcast_in_dim(rows, {8, 6}, {0}); };
    Value shift = ops::stop_gradient(ops::reduce_max(v[0], {1}));
    Value e = ops::exp(v[0] - repeated(shift));
    return Values{e / repeated(ops::reduce_sum(e, {1})), ops::stop_gradient(v[0])};
  });
  Builder b;
  Values out = b.inline_graph(*g, Values{b.input(f32({8, 6}))});
  GraphPtr before = partitioned(module(b, out, mesh_of("x:4"), {"x, -"}, {"x, -", "x, -"}));
  ASSERT_NE(to_string(*before).find("stop_gradient"), std::string::npos);
  GraphPtr after = cpu::merge_equal(before);
  EXPECT_EQ(to_string(*after).find("stop_gradient"), std::string::npos) << to_string(*after);
  EXPECT_EQ(after->outputs[1], after->inputs[0]);
  cpu::FusedGraph fused = cpu::recompute_cheap(after);
  EXPECT_EQ(cpu::fusion_groups(*fused.graph, true).size(), 1U) << to_string(*fused.graph);
  EXPECT_GT(cpu::fusion_groups(*before, true).size(), 1U);
}

}  // namespace
}  // namespace tessera::test
