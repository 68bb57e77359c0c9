// SPDX-License-Identifier: Apache-2.0
// Loops whose memory is laid out beforehand, beside the interpreter: random bodies that pass values on, exchange them,
// give one twice, update arrays in place, and hold loops and branches of their own.
#include <gtest/gtest.h>

#include <cmath>

#include "engines/engine_support.h"
#include "ops/control/control.h"
#include "ops/ops.h"
#include "support/graphs.h"
#include "tessera/config.h"

namespace tessera::test {
namespace {

using ir::Builder;
using ir::GraphPtr;
using ir::Type;
using ir::Types;
using ir::Value;
using ir::Values;

const std::vector<Type>& kinds() {
  static const std::vector<Type> types{
      {DType::F32, {}}, {DType::F32, {6}}, {DType::F32, {2, 3}}, {DType::I32, {}}, {DType::I32, {6}}};
  return types;
}

// Graphs whose values stay small: floats in about (-3, 3), integers of two digits.
class RandomLoops {
 public:
  explicit RandomLoops(unsigned seed) : random_(seed) {}

  int below(std::size_t n) { return static_cast<int>(random_() % n); }
  template <class T>
  const T& one_of(const std::vector<T>& all) {
    return all[random_() % all.size()];
  }
  Types some_types(std::size_t least, std::size_t most) {
    Types out(least + random_() % (most - least + 1));
    for (auto& t : out) t = one_of(kinds());
    return out;
  }

  Values program(Builder& b, const Values& in, const Types& out, int depth) {
    Values pool = in;
    for (const auto& t : kinds()) pool.push_back(ops::constant(b, host(t, static_cast<unsigned>(random_()))));
    for (int n = 2 + below(6); n > 0; --n) {
      for (const Value& v : statement(b, pool, depth)) pool.push_back(v);
    }
    Values results;
    for (const auto& t : out) results.push_back(of(pool, t));
    return results;
  }

 private:
  // One of the type, a late one rather than an early one.
  Value of(const Values& pool, const Type& t) {
    std::vector<Value> fit;
    for (const auto& v : pool) {
      if (v.type().dtype == t.dtype && v.type().shape == t.shape) fit.push_back(v);
    }
    const std::size_t recent = std::min<std::size_t>(fit.size(), 4);
    return below(3) == 0 ? one_of(fit) : fit[fit.size() - 1 - random_() % recent];
  }
  Value index(Builder& b, const Values& pool) {
    Value i = ops::rem(of(pool, kinds()[3]), ops::scalar(b, 6, DType::I32));
    return ops::max(i, ops::scalar(b, 0, DType::I32));
  }

  Values statement(Builder& b, const Values& pool, int depth) {
    const Type& t = one_of(kinds());
    const bool floats = t.dtype == DType::F32;
    switch (below(depth > 0 ? 11 : 8)) {
      case 0:
      case 1: {
        Value sum = of(pool, t) + of(pool, t);
        return {floats ? ops::tanh(sum)
                       : ops::rem(sum, ops::broadcast_in_dim(ops::scalar(b, 50, DType::I32), t.shape, {}))};
      }
      case 2:
        return {floats ? ops::sin(of(pool, t)) * 1.25 : ops::neg(of(pool, t))};
      case 3:
        return {ops::select_n(ops::lt(of(pool, t), of(pool, t)), Values{of(pool, t), of(pool, t)})};
      case 4:
        return {ops::dynamic_update_slice(of(pool, kinds()[1]), ops::reshape(of(pool, kinds()[0]), {1}),
                                          Values{index(b, pool)})};
      case 5:
        return {ops::reshape(ops::dynamic_slice(of(pool, kinds()[1]), Values{index(b, pool)}, {1}), {})};
      case 6:
        return {ops::reshape(of(pool, kinds()[1]), {2, 3}), ops::reshape(of(pool, kinds()[2]), {6})};
      case 7:
        return {ops::sin(ops::reduce_sum(of(pool, kinds()[1]), {0})),
                ops::convert(of(pool, kinds()[3]), DType::F32) * 0.01};
      case 8:
        return branches(pool, depth - 1);
      case 9:
        return scan(b, pool, depth - 1);
      default:
        return while_loop(b, pool, depth - 1);
    }
  }

  Values pick(const Values& pool, const Types& types) {
    Values out;
    for (const auto& t : types) out.push_back(of(pool, t));
    return out;
  }
  GraphPtr graph(const Types& in, const Types& out, int depth) {
    return make_graph(in, [&](Builder& b, const Values& values) { return program(b, values, out, depth); });
  }

  Values branches(const Values& pool, int depth) {
    const Types in = some_types(1, 3), out = some_types(1, 3);
    std::vector<GraphPtr> all;
    for (int n = 2 + below(2); n > 0; --n) all.push_back(graph(in, out, depth));
    return ops::cond(of(pool, kinds()[3]), all, pick(pool, in));
  }

 public:
  Values scan(Builder& b, const Values& pool, int depth) {
    const std::int64_t length = one_of(std::vector<std::int64_t>{0, 1, 2, 3, 7});
    const Types consts = some_types(0, 2), carry = some_types(1, 4), ys = some_types(0, 3);
    const bool sliced = below(2) == 0;
    Types in = consts, out = carry;
    in.insert(in.end(), carry.begin(), carry.end());
    if (sliced) in.push_back(kinds()[1]);
    out.insert(out.end(), ys.begin(), ys.end());
    ops::ScanArgs args{.body = graph(in, out, depth), .length = length, .reverse = below(2) == 0};
    args.consts = pick(pool, consts);
    args.carry = pick(pool, carry);
    if (sliced) args.xs = {ops::broadcast_in_dim(of(pool, kinds()[1]), {length, 6}, {1})};
    Values results = ops::scan(b, args);
    for (std::size_t j = carry.size(); j < results.size(); ++j) {
      // Stacked results become values of the kinds again.
      const Type& t = ys[j - carry.size()];
      Value total = ops::reduce_sum(results[j], {0});
      results[j] = t.dtype == DType::F32
                       ? ops::sin(total)
                       : ops::rem(total, ops::broadcast_in_dim(ops::scalar(b, 50, DType::I32), t.shape, {}));
    }
    return results;
  }

  Values while_loop(Builder& b, const Values& pool, int depth) {
    const Types extra = some_types(1, 4), consts = some_types(0, 2);
    Types carry = extra;
    carry.insert(carry.begin(), kinds()[3]);
    Types in = consts;
    in.insert(in.end(), carry.begin(), carry.end());
    ops::WhileArgs args;
    const int most = below(6);
    args.cond = make_graph(carry, [&](Builder& inner, const Values& v) {
      return Values{ops::lt(v[0], ops::scalar(inner, most, DType::I32))};
    });
    args.body = make_graph(in, [&](Builder& inner, const Values& v) {
      Values out = program(inner, v, extra, depth);
      out.insert(out.begin(), v[consts.size()] + ops::scalar(inner, 1, DType::I32));
      return out;
    });
    args.body_consts = pick(pool, consts);
    args.carry = pick(pool, extra);
    args.carry.insert(args.carry.begin(), ops::scalar(b, 0, DType::I32));
    return ops::while_loop(b, args);
  }

 private:
  std::mt19937 random_;
};

GraphPtr random_program(unsigned seed, bool predicates) {
  RandomLoops random(seed);
  const Types& in = kinds();
  return make_graph(in, [&](Builder& b, const Values& values) {
    const int depth = predicates ? 2 : 0;
    if (seed % 3 == 2) return random.program(b, values, random.some_types(2, 6), depth);
    return predicates && seed % 2 == 0 ? random.while_loop(b, values, depth) : random.scan(b, values, depth);
  });
}

std::vector<HostArray> inputs(unsigned seed) {
  std::vector<HostArray> out;
  for (const auto& t : kinds()) out.push_back(host(t, seed++));
  return out;
}

// The verification mode runs general programs, whose steps it checks.
bool fixed(const runtime::Executable& e) { return e.text().find("memory laid out") != std::string::npos; }

void expect_equal(const ir::Graph& g, std::size_t output, const BufferPtr& got, const HostArray& want, unsigned seed) {
  const Type& t = g.type(g.outputs[output]);
  for (std::int64_t i = 0; i < t.size(); ++i) {
    const ir::View view{t.dtype, t.shape, const_cast<void*>(want.data())};
    EXPECT_NEAR(get_element(t.dtype, got->data(), i), element_of(view, i).real(), 1e-4)
        << "program " << seed << ", output " << output << ", element " << i;
  }
}

ShardBuffers whole(const Client& client, const HostArray& a) {
  return make_shards(client, {a.dtype(), a.shape()},
                     ir::Layout::replicated(static_cast<std::int64_t>(a.shape().size())), {{1}, {"d"}},
                     [&](std::int64_t, const runtime::Tile&, const ir::View& v) {
                       std::memcpy(v.data, a.data(), at(v.size() * dtype_size(v.dtype)));
                     });
}

TEST(FixedLoops, RandomLoopsAgreeWithTheInterpreter) {
  constexpr unsigned kPrograms = 400;
  unsigned laid_out = 0;
  const Client client = client_of(1);
  for (unsigned seed = 0; seed < kPrograms; ++seed) {
    const GraphPtr g = random_program(seed, true);
    const auto in = inputs(seed);
    const auto want = ops::interpret(*g, in);
    auto exe = compile(client, on_one_device(*g));
    laid_out += fixed(*exe) ? 1 : 0;
    for (const bool lent : {false, true, true}) {  // a run leaves nothing for the next one
      std::vector<ShardBuffers> args;
      std::vector<const ShardBuffers*> borrowed;
      for (const auto& a : in) args.push_back(whole(client, a));
      for (const auto& a : args) borrowed.push_back(&a);
      const auto got = lent ? exe->run(std::vector<ShardBuffers>(args.size()), borrowed) : exe->run(std::move(args));
      for (std::size_t j = 0; j < want.size(); ++j) expect_equal(*g, j, got[j][0], want[j], seed);
      for (std::size_t i = 0; lent && i < in.size(); ++i) {
        ASSERT_EQ(std::memcmp(args[i][0]->data(), in[i].data(), at(in[i].nbytes())), 0) << "program " << seed;
      }
      if (HasFailure()) return;
    }
  }
  EXPECT_TRUE(config().verify || laid_out > kPrograms * 9 / 10) << laid_out;
}

// Each device has values of its own.
TEST(FixedLoops, DevicesKeepTheirOwnValues) {
  constexpr unsigned kPrograms = 200;
  const ir::MeshAxes mesh{{4}, {"x"}};
  unsigned laid_out = 0;
  const Client client = client_of(4);
  for (unsigned seed = 0; seed < kPrograms; ++seed) {
    const GraphPtr g = random_program(seed, false);
    auto varying = [&](const GraphPtr& graph, auto&& self) -> GraphPtr {
      ir::Graph out = *graph;
      for (auto& e : out.eqns) {
        const auto control = ops::control_of(e);
        if (!control) continue;
        std::vector<GraphPtr> bodies;
        for (const auto& body : control->bodies) bodies.push_back(self(body.graph, self));
        e.attrs = ops::with_bodies(e, bodies);
      }
      const auto types = out.types;
      return partitioned(std::move(out), mesh, [&](ir::ValueId v) {
        auto l = ir::Layout::replicated(types[at(v)].rank());
        l.vary = 1;
        return l;
      });
    };
    const GraphPtr split = varying(g, varying);
    std::vector<ShardBuffers> args;
    for (std::size_t i = 0; i < kinds().size(); ++i) {
      args.push_back(make_shards(client, kinds()[i], split->layout(split->inputs[i]), mesh,
                                 [&](std::int64_t p, const runtime::Tile&, const ir::View& v) {
                                   const HostArray a = inputs(seed + 100 * static_cast<unsigned>(p))[i];
                                   std::memcpy(v.data, a.data(), at(v.size() * dtype_size(v.dtype)));
                                 }));
    }
    auto exe = compile(client, split);
    laid_out += fixed(*exe) ? 1 : 0;
    std::vector<const ShardBuffers*> borrowed;
    for (const auto& a : args) borrowed.push_back(&a);
    const auto got = exe->run(std::vector<ShardBuffers>(args.size()), borrowed);
    for (unsigned p = 0; p < 4; ++p) {
      const auto want = ops::interpret(*g, inputs(seed + 100 * p));
      for (std::size_t j = 0; j < want.size(); ++j) expect_equal(*g, j, got[j][p], want[j], seed);
    }
    if (HasFailure()) return;
  }
  EXPECT_TRUE(config().verify || laid_out > kPrograms * 9 / 10) << laid_out;
}

// As JAX writes a scan: a loop with a counter, slices of a long array, and another one that takes the results. What the
// loop carries may be as long as it likes, as each iteration writes one element of it.
TEST(FixedLoops, LongArraysAreUpdatedWhereTheyAre) {
  constexpr std::int64_t kLength = 100'000;
  const Type line{DType::F32, {kLength}}, number{DType::F32, {}}, counter{DType::I32, {}};
  auto cond = make_graph({counter, number, line, line}, [&](Builder& b, const Values& in) {
    return Values{ops::lt(in[0], ops::scalar(b, kLength, DType::I32))};
  });
  auto body = make_graph({line, counter, number, line, line}, [&](Builder& b, const Values& in) {
    Value x = ops::reshape(ops::dynamic_slice(in[0], Values{in[1]}, {1}), {});
    Value next = ops::tanh(in[2] * 0.5 + x);
    Value y = ops::reshape(next * 2.0, {1});
    // The two long ones change places each time.
    return Values{in[1] + ops::scalar(b, 1, DType::I32), next, in[4],
                  ops::dynamic_update_slice(in[3], y, Values{in[1]})};
  });
  auto g = make_graph({line, line}, [&](Builder& b, const Values& in) {
    Values carry{ops::scalar(b, 0, DType::I32), ops::scalar(b, 0.25, DType::F32), in[1], in[1]};
    Values out = ops::while_loop(b, {.cond = cond, .body = body, .body_consts = {in[0]}, .carry = carry});
    return Values{out[1], out[2], out[3], in[1]};
  });
  const Client client = client_of(1);
  auto exe = compile(client, on_one_device(*g));
  EXPECT_TRUE(fixed(*exe) || config().verify);
  const HostArray x = host(line, 1), y = host(line, 2);
  const auto got = exe->run({whole(client, x), whole(client, y)});
  const auto xs = x.to_vector<float>(), ys = y.to_vector<float>();
  std::vector<std::vector<float>> want{ys, ys};
  float carried = 0.25F;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    carried = std::tanh(carried * 0.5F + xs[i]);
    want[i % 2][i] = carried * 2.0F;
  }
  EXPECT_NEAR(get_element(DType::F32, got[0][0]->data(), 0), carried, 1e-5);
  for (std::int64_t i = 0; i < kLength; ++i) {
    ASSERT_NEAR(get_element(DType::F32, got[1][0]->data(), i), want[0][at(i)], 1e-5) << i;
    ASSERT_NEAR(get_element(DType::F32, got[2][0]->data(), i), want[1][at(i)], 1e-5) << i;
    ASSERT_EQ(get_element(DType::F32, got[3][0]->data(), i), ys[at(i)]) << i;
  }
}

}  // namespace
}  // namespace tessera::test
