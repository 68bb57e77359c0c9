// SPDX-License-Identifier: Apache-2.0
// LAPACK and functions of the host in a plugin's programs, and what is written by other operations for XLA.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "engines/pjrt/lower_for_xla.h"
#include "engines/pjrt/plugin_programs.h"
#include "ir/builder.h"
#include "ops/control/calls.h"
#include "ops/linalg/conv.h"
#include "ops/ops.h"
#include "ops/transform/interpret.h"
#include "program/program.h"
#include "tessera/tessera.h"

namespace tessera::test {

namespace {

// XLA:CPU; this build's own plugin knows LAPACK's routines, and has no calls of functions.
bool calls_functions() { return plugin_client().devices()[0].platform() == "cpu"; }

void expect_near(const Array& got, const Array& want, const std::string& what) {
  ASSERT_EQ(got.shape(), want.shape()) << what;
  const auto a = astype(got, complex128).to_vector<complex128_t>(),
             b = astype(want, complex128).to_vector<complex128_t>();
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_LT(std::abs(a[i] - b[i]), 1e-4) << what << ", element " << i;
}

// What does not depend on the signs of vectors, of a batch of square and of tall matrices.
std::vector<Array> decompositions(const Array& square, const Array& tall) {
  Array gram = matmul(square, conj(swapaxes(square, -1, -2)));
  auto [q, r] = linalg::qr(tall);
  auto full = linalg::qr(tall, true);
  auto factors = linalg::lu(square);
  auto eigen = linalg::eigh(gram);
  auto svd = linalg::svd(tall, false);
  auto all = linalg::svd(tall);
  auto hessenberg = linalg::hessenberg(square, true);
  Array h = *hessenberg.q;
  return {matmul(q, r),
          matmul(full.q, full.r),
          factors.lu,
          factors.pivots,
          factors.permutation,
          eigen.eigenvalues,
          matmul(eigen.eigenvectors * expand_dims(astype(eigen.eigenvalues, gram.dtype()), -2),
                 conj(swapaxes(eigen.eigenvectors, -1, -2))),
          matmul(svd.u * expand_dims(astype(svd.s, tall.dtype()), -2), svd.vh),
          all.s,
          abs(matmul(all.u, conj(swapaxes(all.u, -1, -2)))),
          matmul(matmul(h, hessenberg.h), conj(swapaxes(h, -1, -2))),
          linalg::cholesky(gram + eye(square.shape().back(), std::nullopt, 0, gram.dtype())),
          linalg::inv(square),
          linalg::det(square)};
}

TEST(PjrtHost, Decomposes) {
  for (DType t : {float32, float64, complex64, complex128}) {
    std::vector<std::vector<Array>> results;
    for (const Client& client : {Client::cpu({.devices = 8}), plugin_client()}) {
      ClientScope scope(client);
      auto mesh = make_mesh({8}, "x");
      Array square = sin(reshape(arange(8.0F * 9), {8, 3, 3}) * 1.7F),
            tall = cos(reshape(arange(8.0F * 15), {8, 5, 3}));
      Array turn = is_complex(t) ? astype(Array(complex128_t(0.6, 0.8)), t) : ones({}, t);
      square = astype(square, t) * turn + eye(3, std::nullopt, 0, t) * 2.0;
      tall = astype(tall, t) * turn;
      NamedSharding rows(mesh, P("x"));
      results.push_back(jit(decompositions)(square, tall));
      // The batch may be split.
      auto split = jit(decompositions)(device_put(square, rows), device_put(tall, rows));
      for (std::size_t i = 0; i < split.size(); ++i) {
        expect_near(split[i], results.back()[i], std::string(dtype_name(t)) + ", split, result " + std::to_string(i));
      }
    }
    for (std::size_t i = 0; i < results[0].size(); ++i) {
      expect_near(device_put(results[1][i], results[0][i].devices()[0]), results[0][i],
                  std::string(dtype_name(t)) + ", result " + std::to_string(i));
    }
  }
}

TEST(PjrtHost, DecomposesWhatIsEmptyOrHasNaN) {
  ClientScope scope(plugin_client());
  EXPECT_EQ(linalg::eigh(zeros({2, 0, 0})).eigenvalues.shape(), (Shape{2, 0}));
  EXPECT_EQ(linalg::qr(zeros({3, 0})).q.shape(), (Shape{3, 0}));
  EXPECT_EQ(linalg::det(zeros({0, 2, 2})).shape(), (Shape{0}));
  Array bad = full({2, 2}, std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(std::isnan(linalg::eigh(bad).eigenvalues.to_vector<float>()[0]));
  EXPECT_TRUE(std::isnan(linalg::svd(bad).s.to_vector<float>()[0]));
}

HostArray doubled(const HostArray& x) {
  HostArray out(x.dtype(), x.shape());
  for (std::int64_t i = 0; i < x.size(); ++i) {
    static_cast<float*>(out.data())[i] = 2 * static_cast<const float*>(x.data())[i];
  }
  return out;
}
Array doubled_on_host(const Array& x) {
  return pure_callback([](const std::vector<HostArray>& in) { return std::vector<HostArray>{doubled(in[0])}; },
                       {ShapeDtype(x.shape(), x.dtype())}, {x})[0];
}

// Where the plugin has no FFI extension there is nothing more to see.
bool refused() {
  if (calls_functions()) return false;
  ClientScope scope(plugin_client());
  try {
    static_cast<void>(jit(doubled_on_host)(arange(4.0F)));
    ADD_FAILURE() << "expected an error";
  } catch (const UnimplementedError& e) {
    EXPECT_NE(std::string(e.what()).find("no FFI extension"), std::string::npos) << e.what();
  }
  return true;
}

TEST(PjrtFunctions, GivesValues) {
  if (refused()) return;
  ClientScope scope(plugin_client());
  EXPECT_EQ((jit(doubled_on_host)(arange(4.0F)) + 1.0).to_vector<float>(), (std::vector<float>{1, 3, 5, 7}));
  auto mesh = make_mesh({8}, "x");
  Array split = device_put(arange(16.0F), NamedSharding(mesh, P("x")));
  EXPECT_EQ(jit(doubled_on_host)(split).to_vector<float>()[15], 30.0F);
  auto map = jit(shard_map(doubled_on_host, mesh, P("x"), P("x")));
  EXPECT_EQ(map(split).to_vector<float>()[15], 30.0F);
  EXPECT_EQ(vmap(doubled_on_host)(reshape(arange(6.0F), {3, 2})).to_vector<float>()[5], 10.0F);
}

// Calls with effects, in loops, branches and maps, as the native engine makes them.
struct Log {
  std::mutex mutex;
  std::vector<float> values;
};
void note(const std::shared_ptr<Log>& log, const Array& x) {
  debug_callback(
      [log](const std::vector<HostArray>& in) {
        std::lock_guard lock(log->mutex);
        log->values.push_back(in[0].span<float>()[0]);
      },
      {x});
}
Array counted(const std::shared_ptr<Log>& log, const Array& x) {
  return io_callback(
      [log](const std::vector<HostArray>& in) {
        std::lock_guard lock(log->mutex);
        log->values.push_back(in[0].span<float>()[0]);
        return std::vector<HostArray>{HostArray::scalar(-0.0F), HostArray::scalar(complex64_t(1, -0.0F))};
      },
      {ShapeDtype({}, float32), ShapeDtype({}, complex64)}, {x})[0];
}

TEST(PjrtFunctions, KeepsTheOrderOfEffects) {
  if (refused()) return;
  for (int devices : {1, 8}) {
    std::vector<std::vector<float>> logs;
    for (const Client& client : {Client::cpu({.devices = 8}), plugin_client()}) {
      ClientScope scope(client);
      auto mesh = make_mesh({devices}, "x", {client.devices().begin(), client.devices().begin() + devices});
      auto log = std::make_shared<Log>();
      auto f = jit([log](Array x) {
        note(log, x(0));
        Array zero = counted(log, x(1));
        auto [last, all] = scan(
            [&](Array c, Array v) {
              note(log, v);
              Array next = cond(
                  v > 2.0,
                  [&](Array y) {
                    note(log, y * 10.0);
                    return y;
                  },
                  [&](Array y) { return y - counted(log, y * 100.0); }, c + v);
              return std::pair(next, next);
            },
            Array(zero + 0.0), x);
        Array i = while_loop([](Array n) { return n < 3.0; },
                             [&](Array n) {
                               note(log, n + 1000.0);
                               return n + 1.0;
                             },
                             zeros({}));
        note(log, last + i);
        return std::pair(zero, all);
      });
      auto [zero, all] = f(device_put(arange(8.0F), NamedSharding(mesh, P("x"))));
      all.block_until_ready();
      zero.block_until_ready();
      logs.push_back(log->values);
      EXPECT_TRUE(std::signbit(zero.item<float>())) << "the sign of zero is lost";
    }
    // Each device makes each call; how those of several devices are mixed is open.
    if (devices > 1) {
      for (auto& log : logs) std::ranges::sort(log);
    }
    EXPECT_EQ(logs[1], logs[0]) << devices << " devices";
    EXPECT_GT(logs[0].size(), 20U);
  }
}

TEST(PjrtFunctions, CallsOnceWhereThatIsAskedFor) {
  if (refused()) return;
  ClientScope scope(plugin_client());
  auto mesh = make_mesh({4, 2}, {"x", "y"});
  std::atomic<int> calls = 0;
  ops::Callback attrs;
  attrs.function = ops::host_function(
      [&calls](const std::vector<HostArray>& in) {
        ++calls;
        return std::vector<HostArray>{doubled(in[0]), HostArray::scalar(true), HostArray::scalar(std::int8_t{-3})};
      },
      "doubled");
  attrs.results = {{DType::F32, {8}}, {DType::Bool, {}}, {DType::I8, {}}};
  attrs.once = true;
  ir::Builder b;
  ir::Value x = b.input({DType::F32, {8}});
  ir::Values out = b.add(ops::def::io_callback, {x}, ir::make_attrs(attrs));
  program::Program program(b.finish_shared(out), {});
  auto results = program.call({device_put(arange(8.0F), NamedSharding(mesh, P("x")))});
  EXPECT_EQ(results[0].to_vector<float>()[7], 14.0F);
  EXPECT_TRUE(results[1].item<bool>());
  EXPECT_EQ(results[2].item<std::int8_t>(), -3);
  EXPECT_EQ(calls, 1);
}

TEST(PjrtFunctions, CallsOnEveryDeviceInsideMaps) {
  if (refused()) return;
  ClientScope scope(plugin_client());
  auto mesh = make_mesh({8}, "x");
  auto log = std::make_shared<Log>();
  auto f = jit(shard_map(
      [log](Array x) {
        note(log, x(0));
        return x * 2.0;
      },
      mesh, P("x"), P("x")));
  EXPECT_EQ(f(arange(8.0F)).to_vector<float>()[7], 14.0F);
  std::sort(log->values.begin(), log->values.end());
  EXPECT_EQ(log->values, arange(8.0F).to_vector<float>());
}

Array thrown_on_host(const Array& x) {
  return io_callback(
      [](const std::vector<HostArray>& in) -> std::vector<HostArray> {
        if (in[0].span<float>()[0] >= 0) throw IndexError("the host has enough");
        return {in[0]};
      },
      {ShapeDtype(x.shape(), x.dtype())}, {x})[0];
}

TEST(PjrtFunctions, ThrowsWhatTheyThrow) {
  if (refused()) return;
  ClientScope scope(plugin_client());
  for (int devices : {1, 8}) {
    auto mesh =
        make_mesh({devices}, "x", {plugin_client().devices().begin(), plugin_client().devices().begin() + devices});
    Array x = device_put(arange(8.0F), NamedSharding(mesh, P("x")));
    auto f = jit([](Array v) { return sum(thrown_on_host(v)) + v; });
    for (int again = 0; again < 2; ++again) EXPECT_THROW(f(x).block_until_ready(), IndexError) << devices;
    EXPECT_EQ(f(x - 9.0).to_vector<float>()[0], -44.0F - 9.0F);
    EXPECT_EQ(sum(x).item<float>(), 28.0F);
  }
}

TEST(PjrtFunctions, MayNotRunProgramsThere) {
  if (refused()) return;
  ClientScope scope(plugin_client());
  const Client plugin = plugin_client();
  const Client native = Client::cpu({.devices = 1});
  auto summed_by = [](const Client& client) {
    return jit([client](Array x) {
      return pure_callback(
          [client](const std::vector<HostArray>& in) {
            ClientScope inner(client);
            return std::vector<HostArray>{sum(Array(in[0])).host()};
          },
          {ShapeDtype({}, float32)}, {x})[0];
    });
  };
  EXPECT_EQ(summed_by(native)(arange(4.0F)).item<float>(), 6.0F);
  EXPECT_THROW(summed_by(plugin)(arange(4.0F)).block_until_ready(), StateError);
}

TEST(LoweredForXla, KeepsNaNInExtremesOverDevices) {
  ClientScope scope(plugin_client());
  auto mesh = make_mesh({8}, "x");
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const std::vector<float> values{3, -0.0F, -inf, 0.0F, inf, -5, 7, 1};
  for (float odd : {1.0F, nan, -nan}) {
    for (DType t : {float16, bfloat16, float32, float64}) {
      std::vector<float> row = values;
      row[5] = odd;
      Array x = astype(device_put(HostArray::from(row), NamedSharding(mesh, P("x"))), t);
      Array most = jit(shard_map([](Array v) { return pmax(v, "x"); }, mesh, P("x"), P(none)))(x);
      Array least = jit(shard_map([](Array v) { return pmin(v, "x"); }, mesh, P("x"), P(none)))(x);
      for (const Array& m : {jit([](Array v) { return max(v); })(x), jit([](Array v) { return -min(-v); })(x)}) {
        const float got = astype(m, float32).item<float>();
        EXPECT_TRUE(std::isnan(odd) ? std::isnan(got) : got == inf) << dtype_name(t) << ", " << got;
      }
      if (std::isnan(odd)) {
        EXPECT_EQ(jit([](Array v) { return argmax(v); })(x).item<int>(), 5);
      }
      EXPECT_EQ(std::isnan(astype(most, float32).to_vector<float>()[0]), std::isnan(odd)) << dtype_name(t);
      EXPECT_EQ(std::isnan(astype(least, float32).to_vector<float>()[0]), std::isnan(odd)) << dtype_name(t);
      if (std::isnan(odd)) continue;
      EXPECT_EQ(astype(most, float32).to_vector<float>()[0], inf);
      EXPECT_EQ(astype(least, float32).to_vector<float>()[0], -inf);
    }
  }
}

TEST(LoweredForXla, MultipliesByHalves) {
  const std::vector<std::int64_t> numbers{
      0, 1, -1, 2, -2, 77, -12345678901234567, 0x7fffffffffffffff, INT64_MIN, 0x80000000, -0x80000000LL, 0xffffffff};
  for (DType t : {DType::I8, DType::U8, DType::I16, DType::I32, DType::U32, DType::I64, DType::U64}) {
    std::vector<std::int64_t> left, right;
    for (auto a : numbers) {
      for (auto b : numbers) left.push_back(a), right.push_back(b);
    }
    ir::Builder b;
    const ir::Type type{t, {static_cast<std::int64_t>(left.size())}};
    ir::Value x = b.input(type), y = b.input(type);
    const ir::GraphPtr g = b.finish_shared(ir::Values{ops::mulhi(x, y)});
    const ir::GraphPtr lowered = pjrt_engine::lowered_for_xla(g, "cuda", 1);
    for (const auto& e : lowered->eqns) EXPECT_NE(e.op->name(), "mulhi");
    const std::vector<HostArray> args{HostArray::from(left).astype(t), HostArray::from(right).astype(t)};
    EXPECT_EQ(to_string(ops::interpret(*lowered, args)[0]), to_string(ops::interpret(*g, args)[0])) << dtype_name(t);
  }
}

TEST(LoweredForXla, KeepsWhatThePlatformHas) {
  ir::Builder b;
  ir::Value x = b.input({DType::F32, {4}});
  const ir::GraphPtr g = b.finish_shared(ir::Values{ops::sin(x)});
  EXPECT_EQ(pjrt_engine::lowered_for_xla(g, "cpu", 8), g);
}

// Products of GPUs: which types they have, and complex convolutions of real ones.
TEST(LoweredForXla, WritesProductsThatGpusLack) {
  struct Row {
    DType from, to;
    bool stays;
  };
  for (const Row& row :
       {Row{DType::F16, DType::F32, true}, Row{DType::I8, DType::I32, true}, Row{DType::F64, DType::F64, true},
        Row{DType::F32, DType::F64, false}, Row{DType::I8, DType::F32, false}, Row{DType::C64, DType::C128, false}}) {
    ir::Builder b;
    ir::Value x = b.input({row.from, {3, 4}}), y = b.input({row.from, {4, 2}});
    const ir::GraphPtr g = b.finish_shared(ir::Values{ops::dot_general(x, y, {{1}, {0}, {}, {}}, row.to)});
    const ir::GraphPtr lowered = pjrt_engine::lowered_for_xla(g, "cuda", 1);
    EXPECT_EQ(lowered == g, row.stays) << dtype_name(row.from) << " to " << dtype_name(row.to);
    EXPECT_EQ(pjrt_engine::lowered_for_xla(g, "cpu", 1), g);
    std::vector<HostArray> args;
    for (std::int64_t n : {12, 8}) {
      std::vector<std::int64_t> numbers;
      for (std::int64_t i = 0; i < n; ++i) numbers.push_back(i % 5 - 2);
      args.push_back(HostArray::from(numbers).astype(row.from).reshape(n == 12 ? Shape{3, 4} : Shape{4, 2}));
    }
    EXPECT_EQ(to_string(ops::interpret(*lowered, args)[0]), to_string(ops::interpret(*g, args)[0]));
  }
}

// Of complex numbers those of their parts, of integers, which wrap, those of float64.
TEST(LoweredForXla, WritesConvolutionsThatGpusLack) {
  struct Row {
    DType from;
    std::optional<DType> to;
  };
  for (const Row& row : {Row{DType::C64, {}}, Row{DType::C64, DType::C128}, Row{DType::I8, {}}, Row{DType::U8, {}},
                         Row{DType::I16, DType::I64}, Row{DType::I32, {}}, Row{DType::U32, {}},
                         Row{DType::I32, DType::I64}, Row{DType::I8, DType::I32}}) {
    ir::Builder b;
    ir::Value x = b.input({row.from, {1, 1, 5}}), y = b.input({row.from, {1, 1, 2}});
    ops::Conv p;
    p.lhs_spec = p.rhs_spec = p.out_spec = {0, 1, 2};
    p.strides = p.lhs_dilation = p.rhs_dilation = {1};
    p.pad_low = p.pad_high = {1};
    p.preferred = row.to;
    const ir::GraphPtr g = b.finish_shared(ir::Values{ops::conv_general_dilated(x, y, p)});
    const ir::GraphPtr lowered = pjrt_engine::lowered_for_xla(g, "cuda", 1);
    for (const auto& e : lowered->eqns) {
      EXPECT_TRUE(e.op->name() != "conv_general_dilated" || is_float(lowered->type(e.in[0]).dtype));
    }
    const bool is_complex_row = is_complex(row.from);
    const std::vector<complex128_t> parts_x{{1, 2}, {0, -1}, {3, 0}, {-2, 1}, {1, 1}}, parts_y{{2, -1}, {0, 3}};
    const std::vector<std::int64_t> of_x{-2147483648LL, 100, -7, 2147483647, 123456789}, of_y{77, -1987654321};
    const HostArray left = is_complex_row ? HostArray::from(parts_x) : HostArray::from(of_x);
    const HostArray right = is_complex_row ? HostArray::from(parts_y) : HostArray::from(of_y);
    const std::vector<HostArray> args{left.astype(row.from).reshape({1, 1, 5}),
                                      right.astype(row.from).reshape({1, 1, 2})};
    EXPECT_EQ(to_string(ops::interpret(*lowered, args)[0]), to_string(ops::interpret(*g, args)[0]))
        << dtype_name(row.from);
  }
}

}  // namespace
}  // namespace tessera::test
