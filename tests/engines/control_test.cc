// SPDX-License-Identifier: Apache-2.0
// Control flow whose predicates differ between devices, and loops over processes.
#include "ops/control/control.h"

#include <gtest/gtest.h>

#include "engines/engine_support.h"
#include "ops/collective/manual.h"
#include "ops/ops.h"
#include "support/graphs.h"

namespace tessera::test {
namespace {

using ir::Layout;
using ir::MeshAxes;
using ir::Value;
using ir::Values;

const MeshAxes& mesh() {
  static const MeshAxes m{{4}, {"x"}};
  return m;
}

// Every value, in sub-graphs too, differs along the axes of `vary`.
ir::GraphPtr manual(ir::Graph g, ir::AxisMask vary) {
  for (auto& e : g.eqns) {
    auto control = ops::control_of(e);
    if (!control) continue;
    std::vector<ir::GraphPtr> bodies;
    for (const auto& body : control->bodies) bodies.push_back(manual(*body.graph, vary));
    e.attrs = ops::with_bodies(e, bodies);
  }
  auto types = g.types;
  return partitioned(std::move(g), mesh(), [&](ir::ValueId v) {
    Layout l = Layout::replicated(types[at(v)].rank());
    l.vary = vary;
    return l;
  });
}

ShardBuffers numbers(const Client& client, DType t, const std::vector<double>& by_position) {
  Layout l;
  l.vary = 1;
  return make_shards(client, {t, {}}, l, mesh(), [&](std::int64_t p, const runtime::Tile&, const ir::View& v) {
    set_element(v, 0, static_cast<std::int64_t>(by_position[at(p)]));
  });
}
std::vector<double> values(DType t, const ShardBuffers& shards) {
  std::vector<double> out;
  for (const auto& b : shards) out.push_back(get_element(t, b->data(), 0));
  return out;
}

TEST(Control, BranchesByDevice) {
  ir::Type f{DType::F32, {}};
  std::vector<ir::GraphPtr> branches;
  branches.push_back(make_graph({f}, [](ir::Builder&, const Values& in) { return Values{in[0] + 10.0}; }));
  branches.push_back(make_graph({f}, [](ir::Builder&, const Values& in) { return Values{in[0] * 2.0}; }));
  branches.push_back(make_graph({f}, [](ir::Builder&, const Values& in) { return Values{ops::neg(in[0])}; }));
  auto g = make_graph({{DType::I32, {}}, f},
                      [&](ir::Builder&, const Values& in) { return ops::cond(in[0], branches, Values{in[1]}); });
  Client client = client_of(4);
  auto exe = compile(client, manual(*g, 1));
  auto x = numbers(client, DType::F32, {1, 2, 3, 4});
  auto got = exe->run({numbers(client, DType::I32, {0, 1, 2, 9}), x});
  EXPECT_EQ(values(DType::F32, got[0]), (std::vector<double>{11, 4, -3, -4}));
  got = exe->run({numbers(client, DType::I32, {1, 1, 1, 1}), x});
  EXPECT_EQ(values(DType::F32, got[0]), (std::vector<double>{2, 4, 6, 8}));
}

ir::GraphPtr halving(bool with_sum) {
  ir::Type f{DType::F32, {}};
  auto cond = make_graph(
      {f}, [](ir::Builder& b, const Values& in) { return Values{ops::gt(in[0], ops::scalar(b, 1, DType::F32))}; });
  auto body = make_graph({f}, [&](ir::Builder& b, const Values& in) {
    Value next = in[0] * 0.5;
    if (!with_sum) return Values{next};
    ops::Reshard sum{ops::Reshard::Kind::AllReduce, {0}, "test"};
    return Values{b.add1(ops::def::reshard, {next}, ir::make_attrs(sum))};
  });
  return make_graph({f}, [&](ir::Builder& b, const Values& in) {
    return ops::while_loop(b, {.cond = cond, .body = body, .carry = {in[0]}});
  });
}

TEST(Control, LoopsEndDeviceByDevice) {
  Client client = client_of(4);
  auto exe = compile(client, manual(*halving(false), 1));
  auto got = exe->run({numbers(client, DType::F32, {16, 3, 1, 100})});
  EXPECT_EQ(values(DType::F32, got[0]), (std::vector<double>{1, 0.75, 1, 0.78125}));
}

TEST(Control, CollectiveUnderADifferingPredicateIsAnError) {
  Client client = client_of(4);
  auto exe = compile(client, manual(*halving(true), 1));
  EXPECT_NO_THROW(exe->run({numbers(client, DType::F32, {8, 8, 8, 8})}));
  try {
    exe->run({numbers(client, DType::F32, {8, 1, 8, 8})});
    FAIL() << "devices must not leave a collective one by one";
  } catch (const ValueError& e) {
    EXPECT_NE(std::string(e.what()).find("while"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("communicates"), std::string::npos) << e.what();
  }
}

// carry <- carry / 2 + sum of x, five times; the sum crosses processes.
ir::GraphPtr summing(bool split) {
  ir::Type f{DType::F32, {}};
  ir::Type line{DType::F32, {8}};
  auto body = make_graph({line, f}, [](ir::Builder& b, const Values& in) {
    Value sum = ops::reduce_sum(in[0], {0});
    ops::Reshard attrs{ops::Reshard::Kind::AllReduce, {0}, "test"};
    Value whole = b.add1(ops::def::reshard, {sum}, ir::make_attrs(attrs));
    return Values{in[1] * 0.5 + whole};
  });
  auto layouts = [](ir::ValueId tiled, ir::ValueId partial) {
    return [=](ir::ValueId v) {
      Layout l = Layout::replicated(v == tiled ? 1 : 0);
      if (v == tiled) l.dims[0] = {0};
      if (v == partial) l.partial = 1;
      return l;
    };
  };
  if (split) body = partitioned(*body, mesh(), layouts(0, 2));
  auto g = make_graph({line, f}, [&](ir::Builder& b, const Values& in) {
    return ops::scan(b, {.body = body, .length = 5, .consts = {in[0]}, .carry = {in[1]}});
  });
  return split ? partitioned(*g, mesh(), layouts(0, -1)) : g;
}

TEST(Control, LoopsCommunicateOverProcesses) {
  HostArray x = host({DType::F32, {8}}, 1);
  HostArray start = host({DType::F32, {}}, 2);
  float want = ops::interpret(*summing(false), std::vector<HostArray>{x, start})[0].to_vector<float>()[0];
  on_cluster(2, 2, [&](const Client& client) {
    auto g = summing(true);
    auto exe = compile(client, g);
    auto shards = [&](std::size_t i, const HostArray& a) {
      ir::ValueId v = g->inputs[i];
      return make_shards(client, g->type(v), g->layout(v), mesh(),
                         [&](std::int64_t, const runtime::Tile& tile, const ir::View& view) {
                           std::int64_t first = tile.offset.empty() ? 0 : tile.offset[0];
                           std::memcpy(view.data, static_cast<const float*>(a.data()) + first, at(view.size()) * 4);
                         });
    };
    for (int i = 0; i < 3; ++i) {
      auto got = exe->run({shards(0, x), shards(1, start)});
      EXPECT_NEAR(get_element(DType::F32, got[0][0]->data(), 0), want, 1e-5);
    }
    EXPECT_FALSE(exe->small());
  });
}

// carry <- carry + sum of this iteration's line, which is a result too; the sums cross processes.
ir::GraphPtr summing_lines(bool split, std::int64_t length, bool reverse) {
  ir::Type f{DType::F32, {}};
  ir::Type line{DType::F32, {8}};
  ir::Type lines{DType::F32, {length, 8}};
  auto body = make_graph({f, line}, [](ir::Builder& b, const Values& in) {
    Value sum = ops::reduce_sum(ops::tanh(in[1]), {0});
    ops::Reshard attrs{ops::Reshard::Kind::AllReduce, {0}, "test"};
    Value whole = b.add1(ops::def::reshard, {sum}, ir::make_attrs(attrs));
    return Values{in[0] * 0.5 + whole, ops::sin(whole)};
  });
  if (split) {
    body = partitioned(*body, mesh(), [&](ir::ValueId v) {
      Layout l = Layout::replicated(body->type(v).rank());
      if (body->type(v).rank() == 1) l.dims[0] = {0};
      for (const auto& e : body->eqns) {
        if (e.op == &ops::def::reshard && e.in[0] == v) l.partial = 1;
      }
      return l;
    });
  }
  auto g = make_graph({f, lines}, [&](ir::Builder& b, const Values& in) {
    return ops::scan(b, {.body = body, .length = length, .reverse = reverse, .carry = {in[0]}, .xs = {in[1]}});
  });
  if (!split) return g;
  return partitioned(*g, mesh(), [&](ir::ValueId v) {
    Layout l = Layout::replicated(g->type(v).rank());
    if (g->type(v).rank() == 2) l.dims[1] = {0};
    return l;
  });
}

TEST(Control, ExchangesOfOneIterationRunBesideOthers) {
  for (const bool reverse : {false, true}) {
    for (const std::int64_t length : {1, 2, 3, 4, 5, 11}) {
      HostArray start = host({DType::F32, {}}, 2);
      HostArray lines = host({DType::F32, {length, 8}}, 3);
      auto want = ops::interpret(*summing_lines(false, length, reverse), std::vector<HostArray>{start, lines});
      on_cluster(2, 2, [&](const Client& client) {
        auto g = summing_lines(true, length, reverse);
        auto exe = compile(client, g);
        auto shards = [&](std::size_t i, const HostArray& a) {
          ir::ValueId v = g->inputs[i];
          return make_shards(client, g->type(v), g->layout(v), mesh(),
                             [&](std::int64_t, const runtime::Tile& tile, const ir::View& view) {
                               for_tile(tile, [&](std::int64_t k, const Dims& at_global) {
                                 std::int64_t n = at_global.empty() ? 0 : at_global[0] * 8 + at_global[1];
                                 static_cast<float*>(view.data)[k] = static_cast<const float*>(a.data())[n];
                               });
                             });
        };
        auto got = exe->run({shards(0, start), shards(1, lines)});
        EXPECT_NEAR(get_element(DType::F32, got[0][0]->data(), 0), want[0].to_vector<float>()[0], 1e-5);
        for (std::int64_t i = 0; i < length; ++i) {
          EXPECT_NEAR(get_element(DType::F32, got[1][0]->data(), i), want[1].to_vector<float>()[at(i)], 1e-5)
              << i << " of " << length;
        }
        const std::string text = exe->text();
        const auto second = text.find("begin ", text.find("begin ") + 1);
        EXPECT_EQ(length > 1, second < text.find("end ")) << text;
      });
    }
  }
}

TEST(Control, ShardsMoveBetweenProcessesBesideComputation) {
  ir::Type f{DType::F32, {}};
  auto g = make_graph({f, f}, [](ir::Builder& b, const Values& in) {
    const ops::Reinterpret next{{}, {2, 3, 0, 1}, {0}, "ppermute"};
    Value moved = b.add1(ops::def::reinterpret, {in[0]}, ir::make_attrs(next));
    return Values{moved * in[0], ops::exp(in[1])};
  });
  on_cluster(2, 2, [&](const Client& client) {
    auto exe = compile(client, manual(*g, 1));
    auto got = exe->run({numbers(client, DType::F32, {1, 2, 3, 4}), numbers(client, DType::F32, {0, 0, 0, 0})});
    const std::vector<double> want{3, 8, 3, 8};
    for (std::size_t p = 0; p < want.size(); ++p) {
      if (!got[0][p]) continue;  // another process's
      EXPECT_EQ(get_element(DType::F32, got[0][p]->data(), 0), want[p]) << "position " << p;
    }
    const std::string text = exe->text();
    const auto begin = text.find("begin ppermute");
    const auto end = text.find("end ppermute");
    EXPECT_LT(begin, text.find("exp")) << text;
    EXPECT_LT(text.find("exp"), end) << text;
    EXPECT_NE(end, std::string::npos) << text;
  });
}

}  // namespace
}  // namespace tessera::test
