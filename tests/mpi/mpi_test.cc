// SPDX-License-Identifier: Apache-2.0
// Run by every process that mpirun starts. What a program makes on the devices of all processes is compared with what
// the same program makes on as many devices of this process alone.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <iostream>
#include <numeric>

#include "support/meshes.h"
#include "tessera/tessera.h"

namespace tessera::test {
namespace {

std::int64_t devices_here = 1;

HostArray numbers(const Shape& shape, DType dtype = DType::F32) {
  std::vector<float> v(static_cast<std::size_t>(size_of(shape)));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i % 61) - 30 + static_cast<float>(i % 7) / 8;
  return HostArray::from(v, shape).astype(dtype);
}

TEST(Mpi, DevicesOfAllProcesses) {
  const auto all = devices();
  ASSERT_EQ(std::ssize(all), devices_here * process_count());
  EXPECT_TRUE(distributed::is_initialized());
  EXPECT_EQ(std::ssize(local_devices()), devices_here);
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].id(), static_cast<std::int64_t>(i));
    EXPECT_EQ(all[i].process_index(), static_cast<int>(static_cast<std::int64_t>(i) / devices_here));
    EXPECT_EQ(all[i].is_local(), all[i].process_index() == process_index());
  }
  Mesh line = make_mesh({std::ssize(all)}, {"x"});
  EXPECT_EQ(line.local_mesh().size(), devices_here);
  EXPECT_EQ(line.local_mesh().devices_flat()[0].process_index(), process_index());
  EXPECT_THROW(distributed::initialize(), StateError);
  EXPECT_THROW(Client::mpi(), StateError);
}

TEST(Mpi, ArraysAreOnlyPartlyAddressable) {
  const auto n = std::ssize(devices());
  HostArray values = numbers({2 * n, 3});
  Array a = device_put(values, NamedSharding(make_mesh({n}, {"x"}), P("x")));
  EXPECT_FALSE(a.is_fully_addressable());
  ASSERT_EQ(std::ssize(a.addressable_shards()), devices_here);
  for (const Shard& s : a.addressable_shards()) EXPECT_TRUE(identical(s.value().host(), values.slice(s.index())));
  EXPECT_THROW(a.host(), NotAddressableError);
  EXPECT_TRUE(identical(process_allgather(a, {.tiled = true}), values));
}

TEST(Mpi, DataOfProcesses) {
  const int me = process_index();
  const std::int64_t n = process_count();
  HostArray mine = HostArray::from(std::vector<std::int32_t>{me, 10 * me});
  HostArray stacked = process_allgather(mine);
  ASSERT_EQ(stacked.shape(), (Shape{n, 2}));
  for (std::int32_t p = 0; p < n; ++p)
    EXPECT_EQ(stacked.span<std::int32_t>()[static_cast<std::size_t>(2 * p + 1)], 10 * p);
  EXPECT_EQ(process_allgather(mine, {.tiled = true}).shape(), (Shape{2 * n}));

  Mesh line = make_mesh({std::ssize(devices())}, {"x"});
  HostArray rows = numbers({devices_here, 2});
  Array global = host_local_array_to_global_array(rows, line, P("x"));
  EXPECT_EQ(global.shape(), (Shape{devices_here * n, 2}));
  EXPECT_TRUE(identical(global_array_to_host_local_array(global, line, P("x")).host(), rows));
  Array same = make_array_from_process_local_data(NamedSharding(line, P("x")).share(), rows);
  EXPECT_TRUE(identical(process_allgather(same, {.tiled = true}), process_allgather(global, {.tiled = true})));
}

TEST(Mpi, BroadcastsAndChecks) {
  const int me = process_index();
  const int last = process_count() - 1;
  HostArray mine = me == last ? numbers({3, 5}) : HostArray::from(std::vector<std::int32_t>{me});
  EXPECT_TRUE(identical(broadcast_one_to_all(mine, me == last), numbers({3, 5})));
  EXPECT_EQ(broadcast_one_to_all(HostArray::from(std::vector<std::int32_t>{me})).span<std::int32_t>()[0], 0);
  EXPECT_EQ(broadcast_one_to_all(full({2}, me), me == last).to_vector<std::int32_t>()[1], last);
  EXPECT_ERROR(ValueError, broadcast_one_to_all(mine, true), "processes have is_source", "expected one");
  EXPECT_ERROR(ValueError, broadcast_one_to_all(mine, false), "0 processes have is_source");

  sync_global_devices("here");
  EXPECT_ERROR(ValueError, sync_global_devices(me == last ? "there" : "here"), std::to_string(last), "differ");
  assert_equal(numbers({4}));
  EXPECT_ERROR(ValueError, assert_equal(numbers({me == last ? 5 : 4}), "the batch"), std::to_string(last), "the batch");
  sync_global_devices("afterwards all is well");
}

// --- programs -----------------------------------------------------------------------------------------------------

// The same program on the devices of all processes and on as many of this one.
class Both {
 public:
  using Body = std::function<Array(const Mesh&)>;
  // Exactly equal, or within `tolerance` relative to 1.
  static void compare(const Shape& sizes, const AxisNames& names, const Body& body, double tolerance = 0) {
    HostArray expected;
    {
      static const Client alone = Client::cpu({.devices = std::ssize(devices())});
      ClientScope scope(alone);
      expected = body(make_mesh(sizes, names, alone.devices())).host();
    }
    Array got = body(make_mesh(sizes, names));
    HostArray here = got.is_fully_replicated() ? got.host() : process_allgather(got, {.tiled = true});
    ASSERT_EQ(here.shape(), expected.shape());
    ASSERT_EQ(here.dtype(), expected.dtype());
    if (tolerance == 0) {
      EXPECT_TRUE(identical(here, expected)) << to_string(Array(here)) << "\nexpected\n" << to_string(Array(expected));
      return;
    }
    HostArray x = here.astype(DType::F64);
    HostArray y = expected.astype(DType::F64);
    for (std::size_t i = 0; i < static_cast<std::size_t>(x.size()); ++i) {
      double allowed = tolerance * std::max(1.0, std::abs(y.span<double>()[i]));
      ASSERT_NEAR(x.span<double>()[i], y.span<double>()[i], allowed) << i;
    }
  }
  static Shape two_axes() {
    const auto n = std::ssize(devices());
    return {n / 2, 2};
  }
};

Array put(const Shape& shape, const Mesh& mesh, const P& spec, DType dtype = DType::F32) {
  return device_put(numbers(shape, dtype), NamedSharding(mesh, spec));
}

TEST(MpiPrograms, SumsOverEveryAxis) {
  const Shape sizes = Both::two_axes();
  for (DType dtype : {DType::F32, DType::F64, DType::I32, DType::BF16, DType::F16}) {
    for (const P& spec : {P("x"), P("y"), P("x", "y"), P(axes("x", "y")), P(none, "x")}) {
      Both::compare(
          sizes, {"x", "y"},
          [&](const Mesh& m) {
            auto whole = NamedSharding(m, P()).share();
            return jit([](const Array& v) { return sum(v, 0) * 0.125; },
                       {.out_shardings = {whole}})(put({16, 24}, m, spec, dtype));
          },
          dtype == DType::BF16 || dtype == DType::F16 ? 1e-2 : 1e-5);
    }
  }
}

// One process adds f32 and rounds once; so do many. All terms are powers of two, so that no order of adding matters.
TEST(MpiPrograms, HalfPrecisionSumsAreRoundedOnce) {
  const auto n = std::ssize(devices());
  for (DType dtype : {DType::BF16, DType::F16}) {
    Both::compare({n}, {"x"}, [&](const Mesh& m) {
      std::vector<float> v(static_cast<std::size_t>(n * 40));
      for (std::size_t i = 0; i < v.size(); ++i) v[i] = i % 5 == 0 ? 256.0F : 1.0F / static_cast<float>(1 << (i % 4));
      Array x = device_put(HostArray::from(v, {n, 40}).astype(dtype), NamedSharding(m, P("x")));
      return shard_map([](const Array& b) { return psum(sum(b, 0), "x"); }, m, P("x"), P())(x);
    });
  }
}

TEST(MpiPrograms, CollectivesByName) {
  const auto n = std::ssize(devices());
  auto map = [&](const std::function<Array(const Array&)>& f, const P& out, const Shape& shape, DType t = DType::I32) {
    Both::compare({n}, {"x"}, [&](const Mesh& m) { return shard_map(f, m, P("x"), out)(put(shape, m, P("x"), t)); });
  };
  for (std::int64_t rows : {std::int64_t{1}, std::int64_t{3}, std::int64_t{5000}}) {
    const Shape shape{n * n, rows};
    map([](const Array& v) { return psum(v, "x"); }, P(), shape);
    map([](const Array& v) { return pmax(v, "x"); }, P(), shape);
    map([](const Array& v) { return psum_scatter(v, "x", {.tiled = true}); }, P("x"), shape);
    map([](const Array& v) { return all_gather(v, "x", {.axis = 0, .tiled = true}) * 2; }, P("x"), shape);
    map([](const Array& v) { return all_to_all(v, "x", 0, 0, {.tiled = true}); }, P("x"), shape);
    map(
        [n](const Array& v) {
          std::vector<std::pair<std::int64_t, std::int64_t>> ring;
          for (std::int64_t i = 0; i < n; ++i) ring.emplace_back(i, (i + 3) % n);
          return ppermute(v, "x", ring);
        },
        P("x"), shape);
  }
}

TEST(MpiPrograms, SumsInBothAxes) {
  Both::compare(Both::two_axes(), {"x", "y"}, [](const Mesh& m) {
    auto f = shard_map([](const Array& v) { return psum(psum(v, "y") * 2, "x"); }, m, P("x", "y"), P());
    return f(put({16, 8}, m, P("x", "y"), DType::I32));
  });
  Both::compare(Both::two_axes(), {"x", "y"}, [](const Mesh& m) {
    auto f = shard_map([](const Array& v) { return psum(v, "y"); }, m, P("x", "y"), P("x"));
    return f(put({16, 8}, m, P("x", "y"), DType::I32));
  });
}

TEST(MpiPrograms, LayoutsThatChange) {
  const std::vector<P> specs{P("x"), P(none, "x"), P("x", "y"), P("y", "x"), P(axes("x", "y")), P()};
  for (const P& from : specs) {
    for (const P& to : specs) {
      Both::compare(Both::two_axes(), {"x", "y"}, [&](const Mesh& m) {
        auto target = NamedSharding(m, to).share();
        return jit([](const Array& v) { return v + 1; },
                   {.out_shardings = {target}})(put({16, 8}, m, from, DType::I32));
      });
    }
  }
}

TEST(MpiPrograms, LargeMessages) {
  const auto n = std::ssize(devices());
  Both::compare({n}, {"x"}, [n](const Mesh& m) {
    auto f = shard_map([](const Array& v) { return psum(v, "x"); }, m, P("x"), P());
    return f(put({n, 1 << 20}, m, P("x"), DType::I32));
  });
}

TEST(MpiPrograms, WindowsAndShifts) {
  const auto n = std::ssize(devices());
  Both::compare({n}, {"x"}, [n](const Mesh& m) {
    Array x = put({4 * n}, m, P("x"));
    return jit([](const Array& v) { return roll(v, 3) + concatenate({v.shape(0) > 1 ? flip(v, 0) : v}, 0); })(x);
  });
}

TEST(MpiPrograms, OpsAlongSplitDimensions) {
  const auto n = std::ssize(devices());
  auto compare = [&](const std::function<Array(const Array&)>& f) {
    Both::compare({n}, {"x"}, [&](const Mesh& m) {
      Array x = put({64 * n * n}, m, P("x"));
      return jit([&](const Array& v) { return f(sin(v * 3)); })(x);
    });
  };
  compare([](const Array& v) { return sort(v); });
  compare([](const Array& v) { return argsort(floor(v * 4)); });
  compare([](const Array& v) { return argmax(v); });
  compare([](const Array& v) { return lax::cummax(v); });
  compare([](const Array& v) { return lax::top_k(v, 5).first; });
  compare([](const Array& v) { return at(v, {span(3, 20)}).set(7); });
  compare([](const Array& v) { return take(v, astype(arange(40) * 3, int32)); });
}

TEST(MpiPrograms, DecompositionsOfSplitMatrices) {
  const auto n = std::ssize(devices());
  auto compare = [&](const Shape& shape, const P& spec, const std::function<Array(const Array&)>& f) {
    Both::compare(
        Both::two_axes(), {"x", "y"},
        [&](const Mesh& m) {
          auto split = NamedSharding(m, spec).share();
          return jit([&](const Array& v) { return f(sin(v * 3)); }, {.out_shardings = {split}})(put(shape, m, spec));
        },
        1e-4);
  };
  auto definite = [](const Array& v) { return matmul(v, transpose(v)) + 64 * eye(v.shape(0)); };
  compare({512, 512}, P("x", "y"), [&](const Array& v) { return linalg::cholesky(definite(v)); });
  compare({64 * n, 8}, P(axes("x", "y")), [](const Array& v) { return linalg::qr(v).q; });
}

TEST(MpiPrograms, TrainingSteps) {
  Both::compare(
      Both::two_axes(), {"data", "model"},
      [](const Mesh& m) {
        Array w1 = put({12, 16}, m, P(none, "model")) / 40.0;
        Array w2 = put({16, 4}, m, P("model", none)) / 40.0;
        Array x = put({32, 12}, m, P("data")) / 30.0;
        Array y = put({32, 4}, m, P("data")) / 30.0;
        auto loss = [](const Array& a, const Array& b, const Array& in, const Array& wanted) {
          return mean(square(matmul(tanh(matmul(in, a)), b) - wanted));
        };
        auto step = jit([&](const Array& a, const Array& b, const Array& in, const Array& wanted) {
          Array da = grad([&](const Array& v) { return loss(v, b, in, wanted); })(a);
          Array db = grad([&](const Array& v) { return loss(a, v, in, wanted); })(b);
          return std::pair{a - 0.1 * da, b - 0.1 * db};
        });
        for (int i = 0; i < 5; ++i) std::tie(w1, w2) = step(w1, w2, x, y);
        return w2;
      },
      1e-5);
}

TEST(MpiPrograms, PmapOverTheDevicesOfAll) {
  const auto n = std::ssize(devices());
  HostArray rows = numbers({n, 3}, DType::I32);
  auto f = pmap([](const Array& v) { return psum(v, "i") + v; },
                {.axis_name = "i", .devices = {devices().begin(), devices().end()}});
  Array out = f(device_put(rows, NamedSharding(make_mesh({n}, {"i"}), P("i"))));
  EXPECT_EQ(std::ssize(out.addressable_shards()), devices_here);
  HostArray expected;
  {
    const Client alone = Client::cpu({.devices = n});
    ClientScope scope(alone);
    Array x(rows);
    expected = (sum(x, {.axis = 0, .keepdims = true}) + x).host();
  }
  EXPECT_TRUE(identical(process_allgather(out, {.tiled = true}), expected));
}

TEST(MpiPrograms, AFailureReachesAllAndTheNextStepWorks) {
  const auto n = std::ssize(devices());
  Mesh m = make_mesh({n}, {"x"});
  const int last = process_count() - 1;
  auto f = shard_map(
      [last](const Array& v) {
        Array seen = pure_callback(
            [last](const std::vector<HostArray>& in) {
              if (process_index() == last && in[0].span<float>()[0] < 0) throw ValueError("the last process gives up");
              return in;
            },
            {{v.shape(), v.dtype()}}, {v})[0];
        return psum(seen, "x");
      },
      m, P("x"), P());
  for (int i = 0; i < 3; ++i) {
    Array bad =
        device_put(HostArray::from(std::vector<float>(static_cast<std::size_t>(n), -1)), NamedSharding(m, P("x")));
    Array good = bad * -1.0;
    EXPECT_ERROR(Error, f(bad).block_until_ready(), "the last process gives up");
    EXPECT_EQ(f(good).to_vector<float>()[0], static_cast<float>(n));
  }
}

TEST(MpiPrograms, LocalProgramsRunBesideCommonOnes) {
  const auto n = std::ssize(devices());
  Mesh m = make_mesh({n}, {"x"});
  Array x = put({n * 64, 64}, m, P("x"));
  auto common = jit([](const Array& v) { return sum(matmul(v, transpose(v))); });
  Array mine = device_put(numbers({64, 64}), local_devices()[0]);
  auto local = jit([](const Array& v) { return sum(matmul(v, v)); });
  const float whole = common(x).item<float>();
  const float part = local(mine).item<float>();
  std::vector<Array> results;
  for (int i = 0; i < 20; ++i) {
    results.push_back(common(x));
    for (int k = 0; k < process_index() % 3; ++k) results.push_back(local(mine));  // not as many everywhere
  }
  for (const Array& r : results) {
    const float v = r.item<float>();
    EXPECT_TRUE(v == whole || v == part) << v;
  }
}

}  // namespace

void set_devices_here(std::int64_t count) { devices_here = count; }

}  // namespace tessera::test

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  std::int64_t devices = 1;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--devices=", 10) == 0) devices = std::atoll(argv[i] + 10);
  }
  tessera::test::set_devices_here(devices);
  tessera::distributed::initialize({.devices = devices, .timeout_seconds = 120});
  // One of them tells of what is right; all tell of what is not.
  if (tessera::process_index() != 0) {
    auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
    class Failures : public ::testing::EmptyTestEventListener {
      void OnTestPartResult(const ::testing::TestPartResult& r) override {
        if (!r.failed()) return;
        std::cerr << "process " << tessera::process_index() << ": " << (r.file_name() ? r.file_name() : "") << ':'
                  << r.line_number() << ": " << r.summary() << '\n';
      }
    };
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new Failures);
  }
  return RUN_ALL_TESTS();
}
