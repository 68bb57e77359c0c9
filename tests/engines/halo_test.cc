// SPDX-License-Identifier: Apache-2.0
// Ops along split and unsplit dimensions: values as on one device, and communication of no more than is needed.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "engines/engine_support.h"
#include "ops/shared_attrs.h"
#include "spmd/spmd.h"
#include "tessera/tessera.h"

namespace tessera::test {
namespace {

HostArray numbers(const Shape& shape) {
  std::vector<float> v(static_cast<std::size_t>(size_of(shape)));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = std::sin(static_cast<float>(i) * 0.7F + 0.3F);
  return HostArray::from(v, shape);
}

using Function = std::function<Array(Array)>;

struct Case {
  Shape shape;
  PartitionSpec spec;
  Function f;
  std::int64_t bytes;  ///< most that a device may receive
  double tolerance = 0;
};

void check(const Case& c, const Mesh& mesh) {
  Array whole(numbers(c.shape));
  Array split = device_put(numbers(c.shape), NamedSharding(mesh, c.spec));
  auto program = jit([&](Array x) { return c.f(x); });
  auto plan = program.comm_plan(split);
  EXPECT_LE(plan.bytes_per_device(), c.bytes) << to_string(plan);
  Array y = program(split);
  auto got = y.to_vector<float>();
  auto want = program(whole).to_vector<float>();
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], c.tolerance) << "element " << i;
}

class HaloTest : public ::testing::Test {
 protected:
  ClientScope scope{client_of(8)};
  Mesh line = make_mesh({8}, {"x"});
  Mesh grid = make_mesh({4, 2}, {"x", "y"});
};

constexpr std::int64_t kRow = 16 * 4;  // bytes of a row of 16 floats

// Sums of an array's shifted copies, as stencils are: each with one dimension shifted or several, or cut out of a
// larger array; terms and results are whole numbers, so that any order gives the same bits.
struct Stencil {
  struct Term {
    float factor;
    Dims shift;
    float outside;
  };
  std::vector<Term> terms;

  Array operator()(const Array& u) const {
    Array sum = 2.0F * u;
    for (const Term& t : terms) {
      std::vector<lax::PadDim> pads(t.shift.size());
      for (std::size_t d = 0; d < pads.size(); ++d) pads[d] = {t.shift[d], -t.shift[d]};
      sum = sum + t.factor * lax::pad(u, t.outside, pads);
    }
    return sum;
  }
  std::vector<float> of(const std::vector<float>& u, const Shape& shape) const {
    std::vector<float> out(u.size());
    for (std::size_t i = 0; i < u.size(); ++i) {
      out[i] = 2 * u[i];
      for (const Term& t : terms) {
        std::int64_t rest = static_cast<std::int64_t>(i), from = 0, stride = 1;
        bool inside = true;
        for (std::size_t d = shape.size(); d-- > 0;) {
          const std::int64_t at = rest % shape[d] - t.shift[d];
          rest /= shape[d];
          inside = inside && at >= 0 && at < shape[d];
          from += at * stride;
          stride *= shape[d];
        }
        out[i] += t.factor * (inside ? u[static_cast<std::size_t>(from)] : t.outside);
      }
    }
    return out;
  }
};

TEST_F(HaloTest, StencilsReadTheirShiftedCopiesInPlace) {
  std::mt19937 rng(1);
  auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(rng() % static_cast<unsigned>(n)); };
  const Shape shapes[] = {{64, 64}, {128, 17}, {40, 24, 16}, {400}, {9, 33}, {16, 2, 8, 3}, {512, 256}};
  for (const Shape& shape : shapes) {
    for (int round = 0; round < 12; ++round) {
      Stencil stencil;
      for (auto n = 1 + below(5); n > 0; --n) {
        Stencil::Term t{static_cast<float>(1 + below(3)), Dims(shape.size(), 0), static_cast<float>(below(4))};
        const auto moved = static_cast<std::size_t>(below(static_cast<std::int64_t>(shape.size())));
        t.shift[moved] = below(shape[moved] / 4 + 2) - shape[moved] / 8 - 1;
        if (below(4) == 0) t.shift.back() = 1;
        stencil.terms.push_back(std::move(t));
      }
      std::vector<float> u(static_cast<std::size_t>(size_of(shape)));
      for (auto& x : u) x = static_cast<float>(below(9));
      const std::vector<float> want = stencil.of(u, shape);
      PartitionSpec spec;
      switch (below(4)) {
        case 0:
          spec = shape.size() > 1 ? P("x", "y") : P("x");
          break;
        case 1:
          spec = shape.size() > 1 ? P(none, SpecEntry(std::vector<std::string>{"x", "y"})) : P("y");
          break;
        case 2:
          spec = P(SpecEntry(std::vector<std::string>{"y", "x"}));
          break;
        default:
          break;
      }
      auto step = jit([&](const Array& x) { return stencil(x); });
      auto again = jit([&](const Array& x) {
        return fori_loop(
            0, 3, [&](const Array&, const Array& y) { return stencil(y); }, x);
      });
      const Array placed = device_put(HostArray::from(u, shape), NamedSharding(grid, spec, {.uneven = true}));
      ASSERT_EQ(step(placed).to_vector<float>(), want) << "round " << round << " of rank " << shape.size();
      ASSERT_EQ(step(Array(HostArray::from(u, shape))).to_vector<float>(), want);
      ASSERT_EQ(again(placed).to_vector<float>(), stencil.of(stencil.of(want, shape), shape));
    }
  }
}

// Rings, and parts of an array that was padded once: of each the element that it should be, times what it is added to.
TEST_F(HaloTest, RollsAndPartsOfPaddedArraysAreReadInPlace) {
  std::mt19937 rng(2);
  auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(rng() % static_cast<unsigned>(n)); };
  for (const Shape& shape : {Shape{64, 64}, Shape{40, 24, 16}, Shape{400}, Shape{24, 34}, Shape{8, 512}}) {
    for (int round = 0; round < 16; ++round) {
      const auto d = static_cast<std::size_t>(below(static_cast<std::int64_t>(shape.size())));
      const std::int64_t by = below(shape[d] + 1) - shape[d] / 2;
      const std::int64_t width = 1 + below(3), from = below(2 * width + 1);
      PartitionSpec spec;
      if (round % 4 == 1) spec = shape.size() > 1 ? P("x", "y") : P("x");
      if (round % 4 == 2) spec = P(SpecEntry(std::vector<std::string>{"y", "x"}));
      if (round % 4 == 3) spec = shape.size() > 1 ? P(none, "y") : P("y");
      auto program = jit([&](const Array& x) {
        Dims start(shape.size(), width), limit = shape;
        start[d] = from;
        for (std::size_t k = 0; k < limit.size(); ++k) limit[k] += start[k];
        const Array padded = pad(x, width);
        return std::vector<Array>{x + 2.0F * roll(x, by, static_cast<std::int64_t>(d)),
                                  x + 3.0F * lax::slice(padded, start, limit)};
      });
      std::vector<float> u(static_cast<std::size_t>(size_of(shape)));
      for (auto& x : u) x = static_cast<float>(below(9));
      const auto got = program(device_put(HostArray::from(u, shape), NamedSharding(grid, spec, {.uneven = true})));
      const auto rolled = got[0].to_vector<float>(), cut = got[1].to_vector<float>();
      std::int64_t inner = 1;
      for (std::size_t k = d + 1; k < shape.size(); ++k) inner *= shape[k];
      for (std::int64_t i = 0; i < size_of(shape); ++i) {
        const std::int64_t o = i / inner % shape[d], first = i - o * inner;
        const std::int64_t source = (o - by % shape[d] + shape[d]) % shape[d], moved = o + from - width;
        const auto at = static_cast<std::size_t>(i);
        ASSERT_EQ(rolled[at], u[at] + 2 * u[static_cast<std::size_t>(first + source * inner)])
            << "roll of rank " << shape.size() << ", dimension " << d << " by " << by << ", round " << round;
        const bool inside = moved >= 0 && moved < shape[d];
        ASSERT_EQ(cut[at], u[at] + (inside ? 3 * u[static_cast<std::size_t>(first + moved * inner)] : 0))
            << "part of rank " << shape.size() << ", dimension " << d << " from " << from << ", round " << round;
      }
    }
  }
}

TEST_F(HaloTest, SlicesMoveTheirOffset) {
  // Each shard of 64 rows becomes one of 63 that begins one further on.
  check({{512, 16}, P("x"), [](Array x) { return lax::slice(x, {1, 0}, {505, 16}); }, 8 * kRow}, line);
  check({{512, 16}, P("x"), [](Array x) { return lax::slice(x, {0, 3}, {512, 9}); }, 0}, line);
  check({{512, 16}, P("x"), [](Array x) { return lax::slice(x, {0, 0}, {512, 16}, {2, 1}); }, 0}, line);
  // Eight rows of the second device for all.
  check({{512, 16}, P("x"), [](Array x) { return lax::slice(x, {64, 0}, {72, 16}); }, 8 * kRow}, line);
}

TEST_F(HaloTest, StencilsMoveEdges) {
  auto difference = [](Array x) {
    return lax::pad(lax::slice(x, {1, 0}, {512, 16}) - lax::slice(x, {0, 0}, {511, 16}), Array(0.0F),
                    {{0, 1, 0}, {0, 0, 0}});
  };
  check({{512, 16}, P("x"), difference, 3 * kRow}, line);
  check({{512, 16}, P("x"), [](Array x) { return roll(x, 1, 0); }, 4 * kRow}, line);
}

TEST_F(HaloTest, PaddingAndConcatenation) {
  check({{512, 16}, P("x"), [](Array x) { return lax::pad(x, Array(1.0F), {{8, 0, 0}, {2, 2, 0}}); }, 9 * kRow}, line);
  check({{512, 16}, P("x"), [](Array x) { return concatenate({x, x}, 1); }, 0}, line);
  // Half of every shard of the result comes from elsewhere at most.
  check({{512, 16}, P("x"), [](Array x) { return concatenate({x, x * 2.0}, 0); }, 128 * kRow}, line);
}

TEST_F(HaloTest, WindowsTakeTheEdgesOfNeighbours) {
  ir::Builder b;
  ops::Window w{{3, 1}, {1, 1}, {1, 0}, {1, 0}, {1, 1}, {1, 1}};
  ir::Values y{ops::reduce_window_max(b.input({DType::F32, {512, 16}}), w)};
  auto mesh = std::make_shared<const ir::MeshAxes>(ir::MeshAxes{{8}, {"x"}});
  ir::Module module = ir::module_over(std::make_shared<const ir::Graph>(b.finish(y)), *mesh);
  module.inputs[0].layout = ir::Layout{{{0}, {}}};
  auto graph = spmd::partition(module, spmd::propagate(module));
  auto plan = spmd::comm_plan(*graph);
  ASSERT_EQ(plan.steps().size(), 1U) << to_string(plan);
  EXPECT_EQ(plan.steps()[0].op, "halo_exchange");
  EXPECT_EQ(plan.steps()[0].equation, "reduce_window_max");
  EXPECT_EQ(plan.bytes_per_device(), 2 * kRow);
}

TEST_F(HaloTest, ConvolutionsTakeTheEdgesOfNeighbours) {
  auto conv = [](Array x) {
    Array w(numbers({3, 3, 4, 5}));
    return lax::conv_general_dilated(
        x, w, {.strides = {1, 1}, .pad_mode = lax::PadMode::Same, .dimension_numbers = {"NHWC", "HWIO", "NHWC"}});
  };
  std::int64_t row = 16 * 4 * 4;  // of an image
  check({{2, 64, 16, 4}, P(none, "x"), conv, 2 * 2 * row, 1e-5}, line);
  check({{2, 64, 16, 4}, P(none, "x", "y"), conv, 2 * 2 * row / 2 + 2 * 2 * (16 + 2) * 4 * 4, 1e-5}, grid);
}

// jax-ml/jax #15680, #23052: these gather the split dimension there.
TEST_F(HaloTest, NothingMovesAlongUnsplitDimensions) {
  std::vector<Function> functions{
      [](Array x) {
        return lax::slice(x, {0, 3}, {512, 9});
      },
      [](Array x) { return cumsum(x, 1); },
      [](Array x) { return sort(x, 1); },
      [](Array x) { return astype(argsort(x, 1), float32); },
      [](Array x) { return real(fft::fft(x)); },
      [](Array x) { return flip(x, Dims{1}); },
      [](Array x) { return roll(x, 3, 1); },
      [](Array x) { return grad([](Array v) {
                      return sum(square(lax::slice(v, {0, 3}, {512, 9})));
                    })(x); },
      [](Array x) { return associative_scan([](Array a, Array b) { return a * b; }, x, false, 1); },
      [](Array x) {
        return scan([](Array c, Array v) { return std::pair{c + v, c * v}; }, sum(x, 1), transpose(x)).second;
      },
  };
  for (std::size_t i = 0; i < functions.size(); ++i) {
    SCOPED_TRACE(i);
    auto plan = jit([&](Array x) {
                  return functions[i](x);
                }).comm_plan(device_put(numbers({512, 16}), NamedSharding(line, P("x"))));
    // A gradient of a sum needs no more than the sum's numbers.
    EXPECT_LE(plan.bytes_per_device(), 16) << to_string(plan);
  }
}

}  // namespace
}  // namespace tessera::test
