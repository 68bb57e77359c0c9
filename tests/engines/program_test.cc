// SPDX-License-Identifier: Apache-2.0
// Whole programs: fusion, memory, errors, against the interpreter.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "engines/engine_support.h"
#include "ops/control/control.h"
#include "ops/ops.h"
#include "ops/transform/interpret.h"
#include "support/graphs.h"
#include "tessera/config.h"

namespace tessera::test {
namespace {

using ir::Layout;
using ir::MeshAxes;
using ir::Value;
using ir::Values;

constexpr std::int64_t kBatch = 12;

// Dimension 0 is split over `x` where it is the batch; everything else is whole.
Layout batch_layout(const ir::Type& t, bool split) {
  Layout l = Layout::replicated(t.rank());
  if (split && t.rank() > 0 && t.shape[0] == kBatch) l.dims[0] = {0};
  return l;
}

struct Outcome {
  std::string text;
  std::vector<HostArray> results;
};

// Runs on `devices` devices with the batch split over them; joins the results.
Outcome run(const ir::GraphPtr& g, const std::vector<HostArray>& in, std::int64_t devices) {
  Client client = client_of(devices);
  MeshAxes mesh{{devices}, {"x"}};
  auto layout = [&](const ir::Type& t) { return batch_layout(t, devices > 1); };
  auto part = partitioned(*g, mesh, [&](ir::ValueId v) { return layout(g->type(v)); });
  auto exe = compile(client, part);
  std::vector<ShardBuffers> args;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const ir::Type& t = g->type(g->inputs[i]);
    HostArray source = in[i];
    args.push_back(
        make_shards(client, t, layout(t), mesh, [&](std::int64_t, const runtime::Tile& tile, const ir::View& v) {
          std::int64_t row = t.rank() == 0 ? 0 : t.nbytes() / std::max<std::int64_t>(1, t.shape[0]);
          std::int64_t first = t.rank() == 0 ? 0 : tile.offset[0] * row;
          std::memcpy(v.data, static_cast<const char*>(source.data()) + first, at(v.size() * dtype_size(t.dtype)));
        }));
  }
  auto got = exe->run(std::move(args));
  Outcome out{exe->text(), {}};
  for (std::size_t j = 0; j < got.size(); ++j) {
    HostArray joined(g->type(g->outputs[j]).dtype, g->type(g->outputs[j]).shape);
    auto* to = static_cast<char*>(joined.data());
    for (const auto& b : got[j]) {
      std::memcpy(to, b->data(), at(b->nbytes()));
      to += b->nbytes();
    }
    out.results.push_back(joined);
  }
  return out;
}

void check(const ir::Types& in, const std::function<Values(ir::Builder&, const Values&)>& body, std::size_t steps) {
  auto g = make_graph(in, body);
  std::vector<HostArray> args;
  for (std::size_t i = 0; i < in.size(); ++i) args.push_back(host(in[i], static_cast<unsigned>(i + 1)));
  auto want = ops::interpret(*g, args);
  for (std::int64_t devices : {1, 4, 5}) {
    SCOPED_TRACE(devices);
    auto got = run(g, args, devices);
    for (std::size_t j = 0; j < want.size(); ++j) expect_close(got.results[j], want[j], 1e-5);
    std::size_t computed = 0;
    for (std::size_t p = got.text.find(" = "); p != std::string::npos; p = got.text.find(" = ", p + 1)) ++computed;
    for (std::size_t p = got.text.find("(known)"); p != std::string::npos; p = got.text.find("(known)", p + 1))
      --computed;
    EXPECT_LE(computed, steps) << got.text;
  }
}

Value row_sum(Value x) { return ops::reduce_sum(x, {x.rank() - 1}); }
Value back(Value x, Value full) { return ops::broadcast_back(x, full.type(), {full.rank() - 1}); }

TEST(Fusion, ChainIsOneStep) {
  check(
      {{DType::F32, {kBatch, 33}}, {DType::F32, {kBatch, 33}}},
      [](ir::Builder&, const Values& in) {
        Value z = ops::exp(in[0] * in[1] + 1.0) - in[1];
        return Values{ops::tanh(z), z * z};
      },
      1);
}

TEST(Fusion, SoftmaxIsOneStep) {
  check(
      {{DType::F32, {kBatch, 7, 33}}},
      [](ir::Builder&, const Values& in) {
        Value x = in[0];
        Value e = ops::exp(x - back(ops::reduce_max(x, {2}), x));
        return Values{e / back(row_sum(e), x)};
      },
      1);
}

TEST(Fusion, LayerNormWithKeptDimensionsIsOneStep) {
  check(
      {{DType::F32, {kBatch, 5, 64}}, {DType::F32, {64}}, {DType::F32, {64}}},
      [](ir::Builder&, const Values& in) {
        Value x = in[0];
        Value mean = ops::reshape(row_sum(x) * (1.0 / 64), {kBatch, 5, 1});
        Value centred = x - ops::broadcast_in_dim(mean, x.shape(), {0, 1, 2});
        Value variance = row_sum(centred * centred) * (1.0 / 64);
        Value scale = ops::rsqrt(variance + 1e-5);
        Value gamma = ops::broadcast_in_dim(in[1], x.shape(), {2});
        Value beta = ops::broadcast_in_dim(in[2], x.shape(), {2});
        return Values{centred * back(scale, x) * gamma + beta, mean};
      },
      1);
}

// Padded and cut copies of operands are read in place.
TEST(Fusion, StencilIsOneStep) {
  check(
      {{DType::F32, {kBatch, 9, 40}}, {DType::F32, {kBatch, 11, 42}}},
      [](ir::Builder& b, const Values& in) {
        Value edge = ops::constant(b, HostArray::scalar(0.5F));
        Value left = ops::pad(in[0], edge, {0, 0, 1}, {0, 0, -1});
        Value up = ops::pad(in[0], edge, {0, 1, -1}, {0, -1, 1});
        Value cut = ops::slice(in[1], {0, 1, 2}, {kBatch, 10, 42});
        Value wide = ops::pad(in[0], edge, {0, 1, 1}, {0, 1, 1});
        Value corner = ops::slice(wide, {0, 0, 2}, {kBatch, 9, 42});
        return Values{in[0] * left - up * cut + corner, row_sum(left)};
      },
      1);
}

TEST(Fusion, OutsidersReadWhatTheyNeed) {
  check(
      {{DType::F32, {kBatch, 16}}, {DType::F32, {16, 16}}},
      [](ir::Builder&, const Values& in) {
        Value a = ops::exp(in[0]);
        Value p = ops::dot_general(a, in[1], {{1}, {0}, {}, {}});
        Value b = ops::sin(a) + p;  // a is there before the product, b after it
        Value t = ops::reduce_sum(b * a, {1});
        return Values{b, t, ops::where(ops::gt(b, a), b, ops::neg(a))};
      },
      3);
}

TEST(Fusion, MixedDtypesAndColumns) {
  check(
      {{DType::F32, {kBatch, 10}}, {DType::I32, {kBatch, 10}}, {DType::F32, {kBatch}}, {DType::F32, {}}},
      [](ir::Builder&, const Values& in) {
        Value wide = ops::broadcast_in_dim(in[2], {kBatch, 10}, {0});
        Value x = ops::convert(in[1], DType::F32) * wide + in[0] * in[3];
        Value mask = ops::lt(x, ops::broadcast_to(in[3], {kBatch, 10}));
        return Values{ops::where(mask, x, wide), ops::convert(x, DType::F64), row_sum(x) * in[2] + in[3]};
      },
      1);
}

TEST(Fusion, ReductionOfEverythingAndScalars) {
  check(
      {{DType::F32, {3, 4}}, {DType::F32, {}}},
      [](ir::Builder&, const Values& in) {
        Value s = ops::reduce_sum(in[0] * in[0], {0, 1});
        Value r = ops::sqrt(s + in[1]) * 2.0;
        return Values{r, in[0] * (1.0 / r)};
      },
      2);
}

// A gelu stores its result alone: its derivative starts from the same input.
TEST(Fusion, ResidualsAreComputedAgainWhereThatIsCheaper) {
  ir::Types in{{DType::F32, {kBatch, 24}}, {DType::F32, {24, 24}}};
  auto body = [](ir::Builder&, const Values& v) {
    auto product = [&](Value x) { return ops::dot_general(x, v[1], {{1}, {0}, {}, {}}); };
    Value h = product(v[0]);
    Value t = ops::tanh(h);
    Value slope = t - t * t;
    Value z = product(h * t);
    return Values{z * slope * (h + t)};
  };
  auto g = make_graph(in, body);
  std::vector<HostArray> args{host(in[0], 1), host(in[1], 2)};
  auto want = ops::interpret(*g, args);
  for (std::int64_t devices : {1, 4}) {
    auto got = run(g, args, devices);
    expect_close(got.results[0], want[0], 1e-5);
    std::size_t tanhs = 0;
    for (std::size_t p = got.text.find("tanh"); p != std::string::npos; p = got.text.find("tanh", p + 1)) ++tanhs;
    EXPECT_EQ(tanhs, 2U) << got.text;
  }
}

TEST(Products, TranspositionsBesideThemCostNoStep) {
  std::int64_t heads = 3;
  std::int64_t length = 5;
  std::int64_t width = 4;
  // Attention without softmax, as traced: [n, length, heads * width] in and out.
  check(
      {{DType::F32, {kBatch, length, heads * width}}, {DType::F32, {kBatch, length, heads * width}}},
      [&](ir::Builder&, const Values& in) {
        auto split = [&](Value x) {
          return ops::transpose(ops::reshape(x, {kBatch, length, heads, width}), {0, 2, 1, 3});
        };
        Value q = split(in[0]);
        Value k = ops::transpose(split(in[1]), {0, 1, 3, 2});
        Value scores = ops::dot_general(q, k, {{3}, {2}, {0, 1}, {0, 1}});
        Value o = ops::dot_general(scores, split(in[1]), {{3}, {2}, {0, 1}, {0, 1}});
        return Values{ops::reshape(ops::transpose(o, {0, 2, 1, 3}), in[0].shape())};
      },
      6);  // reshapes share; two products
}

TEST(Products, ResultsInEveryOrder) {
  for (Dims order :
       std::vector<Dims>{{0, 1, 2, 3}, {0, 2, 1, 3}, {3, 0, 1, 2}, {0, 3, 2, 1}, {2, 3, 0, 1}, {1, 3, 0, 2}}) {
    SCOPED_TRACE(base::tuple_text(order));
    auto g = make_graph({{DType::F32, {2, 5, 3, 4}}, {DType::F32, {2, 4, 6}}}, [&](ir::Builder&, const Values& in) {
      return Values{ops::transpose(ops::dot_general(in[0], in[1], {{3}, {1}, {0}, {0}}), order)};
    });
    std::vector<HostArray> args{host(g->type(g->inputs[0]), 1), host(g->type(g->inputs[1]), 2)};
    auto want = ops::interpret(*g, args);
    auto got = run(g, args, 1);
    expect_close(got.results[0], want[0], 1e-5);
    EXPECT_NE(got.text.find(order == Dims{0, 1, 2, 3} ? "dot_general (" : "dot_general_transposed ("),
              std::string::npos)
        << got.text;
  }
}

TEST(Products, EqualOnesAreComputedOnce) {
  check(
      {{DType::F32, {kBatch, 64}}, {DType::F32, {64, 48}}},
      [](ir::Builder&, const Values& in) {
        auto product = [&] { return ops::dot_general(in[0] * 2.0, in[1], {{1}, {0}, {}, {}}); };
        return Values{product() + 1.0, product() * product()};
      },
      4);  // the factor, the product, and what follows it
}

// As gradients of attention have them: of a result, of an operand, back and forth, and once more for somebody else.
TEST(Products, TranspositionsOfTranspositionsAreOne) {
  std::int64_t length = 5;
  std::int64_t width = 4;
  check(
      {{DType::F32, {kBatch, 3, length, width}}, {DType::F32, {kBatch, 3, width, 7}}},
      [&](ir::Builder&, const Values& in) {
        Value x = ops::transpose(ops::transpose(in[0], {0, 2, 1, 3}), {0, 2, 1, 3});
        Value y = ops::dot_general(x, in[1], {{3}, {2}, {0, 1}, {0, 1}});
        Value z = ops::transpose(ops::transpose(y, {0, 1, 3, 2}), {0, 2, 1, 3});
        Value w = ops::dot_general(ops::transpose(ops::transpose(in[1], {0, 3, 2, 1}), {0, 3, 1, 2}), in[0],
                                   {{3}, {3}, {0, 1}, {0, 1}});
        Value v = ops::transpose(w, {0, 1, 3, 2});
        return Values{z, ops::transpose(v, {0, 1, 3, 2}) * 2.0, v + 1.0};
      },
      5);  // two products; w twice and once more in the other order, and what follows
}

// Products of 4 parts of the contracted dimension, over a mesh of 4 x 2 whose second axis splits the columns.
TEST(Products, PartialOnesAreSummedInPlace) {
  std::int64_t rows = 10, inner = 32, cols = 24;
  auto g =
      make_graph({{DType::F32, {rows, inner}}, {DType::F32, {inner, cols}}}, [&](ir::Builder& b, const Values& in) {
        Value p = ops::dot_general(in[0], in[1], {{1}, {0}, {}, {}});
        ops::Reshard all_reduce{ops::Reshard::Kind::AllReduce, {0}, "a test"};
        return b.add_typed(ops::def::reshard, {&p, 1}, ir::make_attrs(all_reduce), {p.type()});
      });
  MeshAxes mesh{{4, 2}, {"x", "y"}};
  Layout partial{{{}, {1}}};
  partial.partial = 1;
  std::vector<Layout> layouts{{{{}, {0}}}, {{{0}, {1}}}, partial, {{{}, {1}}}};
  auto part = partitioned(*g, mesh, [&](ir::ValueId v) { return layouts[at(v)]; });
  std::vector<HostArray> whole{host(g->type(0), 1), host(g->type(1), 2)};
  HostArray want = ops::interpret(*g, whole)[0];
  Client client = client_of(8);
  for (bool deterministic : {false, true}) {
    ConfigScope scope(&Config::deterministic, deterministic);
    auto exe = compile(client, part);
    EXPECT_EQ(exe->text().find("dot_general + reshard.all_reduce (8 -> 2 shards)") != std::string::npos, !deterministic)
        << exe->text();
    std::vector<ShardBuffers> args;
    for (std::size_t i = 0; i < 2; ++i) {
      const ir::Type& t = g->type(g->inputs[i]);
      args.push_back(make_shards(client, t, layouts[i], mesh, [&](auto, const runtime::Tile& tile, const ir::View& v) {
        for_tile(tile, [&](std::int64_t k, const Dims& index) {
          v.as<float>()[k] = static_cast<const float*>(whole[i].data())[index[0] * t.shape[1] + index[1]];
        });
      }));
    }
    auto got = exe->run(std::move(args))[0];
    ASSERT_EQ(got.size(), 2U);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) {
        float x = static_cast<const float*>(got[at(c / 12)]->data())[r * 12 + c % 12];
        EXPECT_NEAR(x, static_cast<const float*>(want.data())[r * cols + c], 1e-5);
      }
    }
  }
}

TEST(Program, LentOperandsStayWithTheCaller) {
  auto g = make_graph({{DType::F32, {1000}}, {DType::F32, {1000}}}, [](ir::Builder&, const Values& in) {
    return Values{in[0] + in[1], in[0]};
  });
  Client client = client_of(1);
  auto exe = compile(client, on_one_device(*g));
  auto& pool = *runtime::runtime_of(client).memory;
  ShardBuffers a{pool.allocate(4000)};
  std::fill_n(static_cast<float*>(a[0]->data()), 1000, 3.0F);
  std::vector<ShardBuffers> args{{}, {pool.allocate(4000)}};
  std::fill_n(static_cast<float*>(args[1][0]->data()), 1000, 4.0F);
  auto out = exe->run(std::move(args), {&a, nullptr});
  ASSERT_EQ(a.size(), 1U);
  EXPECT_EQ(*static_cast<float*>(a[0]->data()), 3.0F);
  EXPECT_EQ(*static_cast<float*>(out[0][0]->data()), 7.0F);
  EXPECT_EQ(out[1][0], a[0]);
}

TEST(Program, DonatedOperandsGiveTheirMemory) {
  auto g = make_graph({{DType::F32, {1000}}, {DType::F32, {1000}}},
                      [](ir::Builder&, const Values& in) { return Values{in[0] + in[1]}; });
  Client client = client_of(1);
  auto exe = compile(client, on_one_device(*g));
  auto& pool = *runtime::runtime_of(client).memory;
  auto a = pool.allocate(4000);
  auto b = pool.allocate(4000);
  std::memset(a->data(), 0, 4000);
  std::memset(b->data(), 0, 4000);
  void* memory = a->data();
  std::vector<ShardBuffers> args{{std::move(a)}, {b}};
  auto out = exe->run(std::move(args));
  EXPECT_EQ(out[0][0]->data(), memory);
  // Who else holds the buffer keeps what is in it.
  out = exe->run({{b}, {b}});
  EXPECT_NE(out[0][0]->data(), b->data());
}

// Sums and maxima over rows of what a block makes: one step, on one device and on four, each of which has some rows.
TEST(Program, ReductionsOverRowsJoinTheirBlocks) {
  const ir::Type matrix{DType::F32, {300, 40}}, line{DType::F32, {40}};
  auto g = make_graph({matrix, line}, [&](ir::Builder&, const Values& in) {
    Value d = in[0] - ops::broadcast_in_dim(in[1], matrix.shape, {1});
    Value square = d * d;
    return Values{ops::reduce_sum(square, {0}), ops::reduce_max(square, {0})};
  });
  const std::vector<HostArray> in{host(matrix, 1), host(line, 2)};
  const auto want = ops::interpret(*g, in);
  for (const std::int64_t devices : {1, 4}) {
    const ir::MeshAxes mesh{{devices}, {"x"}};
    auto split = partitioned(*g, mesh, [&](ir::ValueId v) {
      ir::Layout l = ir::Layout::replicated(g->type(v).rank());
      if (g->type(v).rank() == 2) l.dims[0] = {0};
      if (v == g->outputs[0] || v == g->outputs[1]) l.vary = 1;
      return l;
    });
    const Client client = client_of(devices);
    auto exe = compile(client, split);
    if (!config().verify) {
      EXPECT_NE(exe->text().find("mul reduce_sum reduce_max]"), std::string::npos) << exe->text();
    }
    std::vector<ShardBuffers> args;
    for (std::size_t i = 0; i < in.size(); ++i) {
      args.push_back(make_shards(client, g->type(g->inputs[i]), split->layout(split->inputs[i]), mesh,
                                 [&](std::int64_t, const runtime::Tile& tile, const ir::View& v) {
                                   const std::int64_t first = i == 0 ? tile.offset[0] * 40 : 0;
                                   std::memcpy(v.data, static_cast<const float*>(in[i].data()) + first,
                                               at(v.size()) * 4);
                                 }));
    }
    const auto got = exe->run(std::move(args));
    const auto sums = want[0].to_vector<float>(), largest = want[1].to_vector<float>();
    for (std::int64_t j = 0; j < 40; ++j) {
      double sum = 0, most = 0;
      for (const auto& b : got[0]) sum += get_element(DType::F32, b->data(), j);
      for (const auto& b : got[1]) most = std::max(most, get_element(DType::F32, b->data(), j));
      EXPECT_NEAR(sum, sums[at(j)], 1e-4) << devices << " devices, column " << j;
      EXPECT_EQ(most, largest[at(j)]) << devices << " devices, column " << j;
    }
  }
}

TEST(Program, MemoryIsFreedEarlyAndBounded) {
  constexpr std::int64_t kBytes = 4 << 16;
  auto g = make_graph({{DType::F32, {1 << 16}}}, [](ir::Builder&, const Values& in) {
    Value x = in[0];
    // Reversals by reshape and transpose do not fuse: each step makes a buffer.
    for (int i = 0; i < 10; ++i) x = ops::reshape(ops::transpose(ops::reshape(x, {256, 256}), {1, 0}), {1 << 16});
    return Values{x};
  });
  Client client = Client::cpu({.devices = 1, .memory_limit = 4 * kBytes});
  auto exe = compile(client, on_one_device(*g));
  auto& pool = *runtime::runtime_of(client).memory;
  auto in = pool.allocate(kBytes);
  std::memset(in->data(), 0, static_cast<std::size_t>(kBytes));
  EXPECT_NO_THROW(exe->run({{in}}));
  EXPECT_LE(pool.stats().peak_bytes, 3 * kBytes);
  auto more = pool.allocate(2 * kBytes);
  EXPECT_THROW(exe->run({{in}}), ResourceExhaustedError);
  EXPECT_EQ(pool.stats().bytes_in_use, 3 * kBytes);
  more.reset();
  EXPECT_NO_THROW(exe->run({{in}}));
}

TEST(Program, DebugNansNamesTheEquation) {
  auto g =
      make_graph({{DType::F32, {4}}}, [](ir::Builder&, const Values& in) { return Values{ops::log(in[0]) + 1.0}; });
  HostArray negative = HostArray::from<float>({1, 2, -1, 4});
  EXPECT_NO_THROW(run(g, {negative}, 1));
  ConfigScope scope(&Config::debug_nans, true);
  try {
    run(g, {negative}, 1);
    FAIL() << "a NaN went by";
  } catch (const ValueError& e) {
    EXPECT_NE(std::string(e.what()).find("log"), std::string::npos) << e.what();
  }
  EXPECT_NO_THROW(run(g, {HostArray::from<float>({1, 2, 3, 4})}, 1));
}

TEST(Program, ScanComputesInPlaceAndKeepsItsOperands) {
  // Running sums: the carry is an output of every step too.
  auto body = make_graph({{DType::F32, {256}}, {DType::F32, {256}}}, [](ir::Builder&, const Values& in) {
    Value next = in[0] + in[1];
    return Values{next, next, in[1]};
  });
  auto g = make_graph({{DType::F32, {256}}, {DType::F32, {6, 256}}}, [&](ir::Builder& b, const Values& in) {
    return ops::scan(b, {.body = body, .length = 6, .carry = {in[0]}, .xs = {in[1]}});
  });
  std::vector<HostArray> in{host({DType::F32, {256}}, 1), host({DType::F32, {6, 256}}, 2)};
  auto want = ops::interpret(*g, in);
  Client client = client_of(1);
  auto exe = compile(client, on_one_device(*g));
  auto& pool = *runtime::runtime_of(client).memory;
  std::vector<ShardBuffers> args;
  for (const auto& a : in) {
    args.push_back({pool.allocate(a.nbytes())});
    std::memcpy(args.back()[0]->data(), a.data(), at(a.nbytes()));
  }
  auto kept = args;
  auto got = exe->run(args);
  for (std::size_t j = 0; j < want.size(); ++j) {
    HostArray result(want[j].dtype(), want[j].shape());
    std::memcpy(result.data(), got[j][0]->data(), at(result.nbytes()));
    expect_close(result, want[j], 1e-6);
  }
  EXPECT_EQ(std::memcmp(kept[0][0]->data(), in[0].data(), at(in[0].nbytes())), 0);
  EXPECT_EQ(std::memcmp(kept[1][0]->data(), in[1].data(), at(in[1].nbytes())), 0);
}

TEST(Program, ManyThreadsRunOneExecutable) {
  auto g = make_graph({{DType::F32, {64}}}, [](ir::Builder&, const Values& in) {
    return Values{ops::exp(in[0]) * 2.0, ops::reduce_sum(in[0], {0})};
  });
  Client client = client_of(1);
  auto exe = compile(client, on_one_device(*g));
  auto& pool = *runtime::runtime_of(client).memory;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        auto in = pool.allocate(256);
        for (int k = 0; k < 64; ++k) static_cast<float*>(in->data())[k] = static_cast<float>(t);
        auto out = exe->run({{std::move(in)}});
        EXPECT_EQ(*static_cast<float*>(out[1][0]->data()), 64.0F * static_cast<float>(t));
      }
    });
  }
  for (auto& t : threads) t.join();
}

TEST(Program, TinyProgramsCostLittle) {
  auto g = make_graph({{DType::F32, {8}}}, [](ir::Builder&, const Values& in) { return Values{in[0] + 1.0}; });
  Client client = client_of(1);
  auto exe = compile(client, on_one_device(*g));
  EXPECT_TRUE(exe->small());
  auto in = runtime::runtime_of(client).memory->allocate(32);
  std::memset(in->data(), 0, 32);
  for (int i = 0; i < 100; ++i) exe->run({{in}});
  auto start = std::chrono::steady_clock::now();
  constexpr int kRuns = 2000;
  for (int i = 0; i < kRuns; ++i) exe->run({{in}});
  double us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / kRuns;
  std::printf("x + 1 on eight elements: %.2f us a run\n", us);
}

}  // namespace
}  // namespace tessera::test
