// SPDX-License-Identifier: Apache-2.0
// Varying types: derivatives taken inside a checked map are sums over the instances wherever a weight is equal on all
// of them, whatever control flow stands between; and equal values are computed once.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/tessera.h"
#include "tests/support/spec_report.h"

namespace tessera {
namespace {

class Varying : public ::testing::Test {
 protected:
  Client client_ = Client::cpu({.devices = 4});
  ClientScope scope_{client_};
  Mesh mesh_ = make_mesh({4}, {"x"});
  static Array numbers(const Shape& shape, int seed) { return random::normal(random::key(seed), shape, float64); }
  static void near(const Array& got, const Array& want, const std::string& what) {
    ASSERT_EQ(got.shape(), want.shape()) << what;
    auto a = got.to_vector<double>();
    auto b = want.to_vector<double>();
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-10) << what << ", element " << i;
  }
};

using Loss = std::function<Array(const Array& w, const Array& x)>;

Array layer(const Array& w, const Array& x) { return tanh(matmul(x, w)); }

std::vector<std::pair<std::string, Loss>> losses() {
  return {
      {"plain", [](const Array& w, const Array& x) { return sum(square(layer(w, x))); }},
      {"linear", [](const Array& w, const Array& x) { return sum(w) + 0 * sum(x); }},
      {"scan",
       [](const Array& w, const Array& x) {
         auto body = [&](const Array& c, const Array&) { return std::pair(layer(w, c), sum(c)); };
         auto [last, parts] = scan(body, x, arange(3));
         return sum(square(last)) + sum(parts);
       }},
      {"scan that makes its carry vary",
       [](const Array& w, const Array& x) {
         auto body = [&](const Array& c, const Array&) { return std::pair(c + sum(layer(w, x)), sum(c * w)); };
         auto [last, parts] = scan(body, sum(w), arange(3));
         return last * last + sum(parts);
       }},
      {"cond on what is equal",
       [](const Array& w, const Array& x) {
         return cond(
             sum(w) > 0, [](const Array& a, const Array& b) { return sum(square(layer(a, b))); },
             [](const Array& a, const Array& b) { return sum(layer(a, b)) + sum(a); }, w, x);
       }},
      {"cond on what varies",
       [](const Array& w, const Array& x) {
         return cond(
             sum(x) > 0, [](const Array& a) { return sum(a * a); }, [](const Array& a) { return sum(sin(a)); }, w);
       }},
      {"checkpoint",
       [](const Array& w, const Array& x) {
         return checkpoint([](const Array& a, const Array& b) { return sum(square(layer(a, b))); })(w, x);
       }},
      {"jit inside",
       [](const Array& w, const Array& x) {
         return jit([](const Array& a, const Array& b) { return sum(square(layer(a, b))); })(w, x);
       }},
      {"derivative inside",
       [](const Array& w, const Array& x) {
         return sum(square(grad([&](const Array& b) { return sum(sin(layer(w, b))); })(x)));
       }},
  };
}

TEST_F(Varying, GradientsInsideAreSummed) {
  TESSERA_SPEC("C13", "C14", "C34");
  Array w = numbers({3, 3}, 1);
  Array x = numbers({8, 3}, 2);
  for (const auto& [name, loss] : losses()) {
    // The same loss of every block, summed over blocks.
    auto dense = [&](const Array& v) {
      Array total = loss(v, lax::slice_in_dim(x, 0, 2));
      for (std::int64_t i = 1; i < 4; ++i) total = total + loss(v, lax::slice_in_dim(x, 2 * i, 2 * i + 2));
      return total;
    };
    auto inside = shard_map(
        [&](const Array& v, const Array& block) { return grad([&](const Array& u) { return loss(u, block); })(v); },
        mesh_, SpecTree{P(), P("x")}, P());
    auto outside = [&](const Array& v) {
      return shard_map([&](const Array& u, const Array& block) { return psum(loss(u, block), "x"); }, mesh_,
                       SpecTree{P(), P("x")}, P())(v, x);
    };
    Array want = grad(dense)(w);
    near(inside(w, x), want, name + ", inside");
    near(jit(inside)(w, x), want, name + ", inside, under jit");
    near(grad(outside)(w), want, name + ", outside");
    near(jit(grad(outside))(w), want, name + ", outside, under jit");
    Array second = grad([&](const Array& v) { return sum(sin(grad(dense)(v))); })(w);
    near(grad([&](const Array& v) { return sum(sin(inside(v, x))); })(w), second, name + ", second derivative");
    near(grad([&](const Array& v) { return sum(sin(grad(outside)(v))); })(w), second, name + ", second, outside");
  }
}

// A function of the host tells how often a value is computed.
TEST_F(Varying, EqualValuesAreComputedOnce) {
  ConfigScope once(&Config::verify, false);  // runs every program again
  std::atomic<int> calls{0};
  auto counted = [&](const Array& v) {
    auto f = [&](const std::vector<HostArray>& in) {
      ++calls;
      return in;
    };
    return pure_callback(f, {{v.shape(), v.dtype()}}, {v})[0];
  };
  Array x = numbers({8, 3}, 1);
  auto runs = [&](const std::function<Array(const Array&)>& body, bool check) {
    calls = 0;
    shard_map(body, mesh_, P("x"), P("x"), {.check_vma = check})(x).block_until_ready();
    return calls.load();
  };
  for (bool check : {true, false}) {
    EXPECT_EQ(runs([&](const Array& b) { return counted(b); }, check), 4);
    EXPECT_EQ(runs([&](const Array& b) { return b + counted(psum(b, "x")); }, check), 1);
    EXPECT_EQ(runs([&](const Array& b) { return b + sum(counted(all_gather(b, "x"))); }, check), 1);
    EXPECT_EQ(runs([&](const Array& b) { return b + counted(pbroadcast(b, "x", 2)); }, check), 1);
    // Equal values stay so through a loop.
    auto loop = [&](const Array& b) {
      auto step = [&](const Array& c, const Array&) { return std::pair(counted(c + psum(sum(b), "x")), sum(c)); };
      return b + scan(step, psum(sum(b), "x"), arange(3)).first;
    };
    EXPECT_EQ(runs(loop, check), 3);
  }
}

// Each device calls where its own predicate leads, and loops as often as it wants to.
TEST_F(Varying, CallbacksHappenOnTheDevicesThatChooseThem) {
  std::vector<int> seen;
  auto note = [&](int what) {
    return [&seen, what](const std::vector<HostArray>& in) { seen.push_back(100 * what + in[0].span<int>()[0]); };
  };
  auto f = shard_map(
      [&](const Array& x) {
        Array i = axis_index("x");
        auto even = [&](const Array& k) {
          debug_callback(note(1), {k});
          return cond(
              k > 0,
              [&](const Array& v) {
                debug_callback(note(2), {v});
                return v;
              },
              [](const Array& v) { return -v; }, k);
        };
        auto odd = [&](const Array& k) {
          return while_loop([](const Array& v) { return v > 0; },
                            [&](const Array& v) {
                              debug_callback(note(3), {v});
                              return v - 1;
                            },
                            k);
        };
        return x + cond(i % 2 == 0, even, odd, i);
      },
      mesh_, P("x"), P("x"));
  Array y = jit(f)(arange(4));
  EXPECT_EQ(y.to_vector<int>(), (std::vector<int>{0, 1, 4, 3}));
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen, (std::vector<int>{100, 102, 202, 301, 301, 302, 303}));
}

// A loop that would not end on devices that never come to it.
TEST_F(Varying, LoopsOfDevicesThatDoNotComeToThemAreNotRun) {
  auto f = shard_map(
      [&](const Array& x) {
        Array i = axis_index("x");
        auto loop = [](const Array& k) {
          return while_loop([](const Array& v) { return v != 7; }, [](const Array& v) { return v + 2; }, k);
        };
        return x + cond(
                       i % 2 == 1, loop, [](const Array& k) { return k; }, i);
      },
      mesh_, P("x"), P("x"));
  EXPECT_EQ(jit(f)(arange(4)).to_vector<int>(), (std::vector<int>{0, 8, 4, 10}));
}

}  // namespace
}  // namespace tessera
