// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "engines/cpu/kernels/elementwise/fused.h"
#include "tessera/error.h"

namespace tessera::kernels {
namespace {

using Floats = std::vector<float>;

Floats noise(std::int64_t n, unsigned seed) {
  std::mt19937 rng(seed);
  Floats v(static_cast<std::size_t>(n));
  for (auto& x : v) x = static_cast<float>(rng() % 4001) / 1000.0f - 2.0f;
  return v;
}

const std::pair<std::int64_t, std::int64_t> kSpaces[] = {{1, 1},    {1, 5},     {7, 3},      {100, 17},   {3, 1024},
                                                         {5, 1000}, {2000, 8},  {1, 70001},  {300, 1025}, {4, 4096},
                                                         {3, 9000}, {20, 5001}, {1, 300000}, {0, 5},      {513, 1}};

// out = (x + row) * column - scalar, with every kind of access.
TEST(Fused, EveryAccess) {
  for (auto [outer, inner] : kSpaces) {
    FusedProgram p;
    auto x = p.input(DType::F32, Access::Contiguous);
    auto row = p.input(DType::F32, Access::RowBroadcast);
    auto column = p.input(DType::F32, Access::ColBroadcast);
    auto s = p.input(DType::F32, Access::Scalar);
    float half = 0.5f;
    auto h = p.constant(DType::F32, &half);
    auto twice = p.op(EwOp::Add, DType::F32, s, h);  // computed once
    auto t = p.op(EwOp::Mul, DType::F32, p.op(EwOp::Add, DType::F32, x, row), p.op(EwOp::Neg, DType::F32, column));
    auto u = p.op(EwOp::Sub, DType::F32, t, twice);
    p.output(u);
    p.output(p.op(EwOp::Lt, DType::Bool, t, twice));
    p.output(column);
    p.output(row);
    p.output(s);
    p.row_output(p.op(EwOp::Neg, DType::F32, column));
    FusedKernel kernel(p);
    auto vx = noise(outer * inner, 1), vr = noise(inner, 2), vc = noise(outer, 3);
    float vs = 1.25f;
    auto n = static_cast<std::size_t>(outer * inner);
    Floats got(n), columns(n), rows(n), scalars(n), per_row(static_cast<std::size_t>(outer));
    std::vector<std::uint8_t> less(n);
    const void* in[] = {vx.data(), vr.data(), vc.data(), &vs};
    void* out[] = {got.data(), less.data(), columns.data(), rows.data(), scalars.data(), per_row.data()};
    for (bool stream : {false, true}) {
      for (auto* v : {&got, &columns, &rows, &scalars, &per_row}) std::fill(v->begin(), v->end(), 99.0F);
      kernel.run(in, out, outer, inner, stream);
      for (std::int64_t r = 0; r < outer; ++r) {
        ASSERT_EQ(per_row[static_cast<std::size_t>(r)], -vc[static_cast<std::size_t>(r)]);
        for (std::int64_t c = 0; c < inner; ++c) {
          auto i = static_cast<std::size_t>(r * inner + c);
          float m = (vx[i] + vr[static_cast<std::size_t>(c)]) * -vc[static_cast<std::size_t>(r)];
          ASSERT_EQ(got[i], m - 1.75f) << outer << " x " << inner << " at " << r << ", " << c;
          ASSERT_EQ(less[i], m < 1.75f);
          ASSERT_EQ(columns[i], vc[static_cast<std::size_t>(r)]);
          ASSERT_EQ(rows[i], vr[static_cast<std::size_t>(c)]);
          ASSERT_EQ(scalars[i], vs);
        }
      }
    }
  }
}

// Two ops in one pass round as two ops do, whichever operands are numbers.
TEST(Fused, PairsOfOpsGiveTheBitsOfSingleOnes) {
  constexpr std::int64_t kSize = 1237;
  const EwOp arithmetic[] = {EwOp::Add, EwOp::Sub, EwOp::Mul};
  Floats data[3] = {noise(kSize, 1), noise(kSize, 2), noise(kSize, 3)};
  auto at = [&](int operand, int scalars, std::size_t i) {
    return data[operand][(scalars >> operand & 1) != 0 ? 0 : i];
  };
  auto apply = [](EwOp op, float a, float b) { return op == EwOp::Add ? a + b : op == EwOp::Sub ? a - b : a * b; };
  for (EwOp first : arithmetic) {
    for (EwOp second : arithmetic) {
      for (int variant = 0; variant < 16; ++variant) {
        bool left = variant % 2 == 0;
        int scalars = variant / 2;
        FusedProgram p;
        FusedProgram::Value v[3];
        for (int k = 0; k < 3; ++k) {
          v[k] = p.input(DType::F32, (scalars >> k & 1) != 0 ? Access::Scalar : Access::Contiguous);
        }
        auto inner = p.op(first, DType::F32, v[0], v[1]);
        p.output(left ? p.op(second, DType::F32, inner, v[2]) : p.op(second, DType::F32, v[2], inner));
        Floats got(kSize);
        const void* in[] = {data[0].data(), data[1].data(), data[2].data()};
        void* out[] = {got.data()};
        FusedKernel(p).run(in, out, 1, kSize);
        for (std::size_t i = 0; i < got.size(); ++i) {
          volatile float middle = apply(first, at(0, scalars, i), at(1, scalars, i));  // rounded by itself
          float c = at(2, scalars, i);
          ASSERT_EQ(got[i], left ? apply(second, middle, c) : apply(second, c, middle)) << variant << " at " << i;
        }
      }
    }
  }
}

TEST(Fused, Softmax) {
  for (auto [outer, inner] : kSpaces) {
    FusedProgram p;
    auto x = p.input(DType::F32, Access::Contiguous);
    auto top = p.reduce(ReduceOp::Max, x);
    auto e = p.op(EwOp::Exp, DType::F32, p.op(EwOp::Sub, DType::F32, x, top));
    auto sum = p.reduce(ReduceOp::Sum, e);
    p.output(p.op(EwOp::Div, DType::F32, e, sum));
    p.row_output(p.op(EwOp::Add, DType::F32, p.op(EwOp::Log, DType::F32, sum), top));
    auto v = noise(outer * inner, 4);
    Floats got(v.size()), lse(static_cast<std::size_t>(outer)), in_place = v;
    const void* in[] = {v.data()};
    void* out[] = {got.data(), lse.data()};
    run(p, in, out, outer, inner);
    for (std::int64_t r = 0; r < outer; ++r) {
      double high = -INFINITY, total = 0;
      auto at = [&](std::int64_t c) { return static_cast<double>(v[static_cast<std::size_t>(r * inner + c)]); };
      for (std::int64_t c = 0; c < inner; ++c) high = std::max(high, at(c));
      for (std::int64_t c = 0; c < inner; ++c) total += std::exp(at(c) - high);
      ASSERT_NEAR(lse[static_cast<std::size_t>(r)], std::log(total) + high, 2e-6 * (1 + std::log(total)));
      for (std::int64_t c = 0; c < inner; ++c) {
        double want = std::exp(at(c) - high) / total;
        ASSERT_NEAR(got[static_cast<std::size_t>(r * inner + c)], want, 1e-6 * want) << outer << " x " << inner;
      }
    }
    const void* same_in[] = {in_place.data()};
    void* same_out[] = {in_place.data(), lse.data()};
    run(p, same_in, same_out, outer, inner);
    ASSERT_EQ(in_place, got) << "in place, " << outer << " x " << inner;
    Floats streamed(v.size());
    void* streamed_out[] = {streamed.data(), lse.data()};
    FusedKernel(p).run(in, streamed_out, outer, inner, true);
    ASSERT_EQ(streamed, got) << "around the caches, " << outer << " x " << inner;
  }
}

TEST(Fused, LayerNormWithTwoReductionsInSequence) {
  for (auto [outer, inner] : kSpaces) {
    FusedProgram p;
    auto x = p.input(DType::F32, Access::Contiguous);
    float inverse = 1.0f / static_cast<float>(inner), epsilon = 1e-5f;
    auto inv = p.constant(DType::F32, &inverse);
    auto eps = p.constant(DType::F32, &epsilon);
    auto mean = p.op(EwOp::Mul, DType::F32, p.reduce(ReduceOp::Sum, x), inv);
    auto d = p.op(EwOp::Sub, DType::F32, x, mean);
    auto var = p.op(EwOp::Mul, DType::F32, p.reduce(ReduceOp::Sum, p.op(EwOp::Square, DType::F32, d)), inv);
    auto scale = p.op(EwOp::Rsqrt, DType::F32, p.op(EwOp::Add, DType::F32, var, eps));
    p.output(p.op(EwOp::Mul, DType::F32, d, scale));
    auto v = noise(outer * inner, 5);
    Floats got(v.size());
    const void* in[] = {v.data()};
    void* out[] = {got.data()};
    run(p, in, out, outer, inner);
    for (std::int64_t r = 0; r < outer; ++r) {
      double m = 0, q = 0;
      auto at = [&](std::int64_t c) { return static_cast<double>(v[static_cast<std::size_t>(r * inner + c)]); };
      for (std::int64_t c = 0; c < inner; ++c) m += at(c) / static_cast<double>(inner);
      for (std::int64_t c = 0; c < inner; ++c) q += (at(c) - m) * (at(c) - m) / static_cast<double>(inner);
      for (std::int64_t c = 0; c < inner; ++c) {
        ASSERT_NEAR(got[static_cast<std::size_t>(r * inner + c)], (at(c) - m) / std::sqrt(q + 1e-5), 2e-5)
            << outer << " x " << inner;
      }
    }
  }
}

TEST(Fused, ReductionOfExpressionOnly) {
  for (auto [outer, inner] : kSpaces) {
    FusedProgram p;
    auto x = p.input(DType::BF16, Access::Contiguous);
    auto y = p.input(DType::F32, Access::RowBroadcast);
    auto wide = p.op(EwOp::Convert, DType::F32, x);
    p.row_output(p.reduce(ReduceOp::Sum, p.op(EwOp::Mul, DType::F32, wide, y)));
    p.row_output(p.reduce(ReduceOp::Max, x));
    auto vx = noise(outer * inner, 6), vy = noise(inner, 7);
    std::vector<bfloat16_t> h(vx.begin(), vx.end()), top(static_cast<std::size_t>(outer));
    Floats got(static_cast<std::size_t>(outer));
    const void* in[] = {h.data(), vy.data()};
    void* out[] = {got.data(), top.data()};
    run(p, in, out, outer, inner);
    for (std::int64_t r = 0; r < outer; ++r) {
      double want = 0;
      float high = -INFINITY;
      for (std::int64_t c = 0; c < inner; ++c) {
        float e = h[static_cast<std::size_t>(r * inner + c)];
        want += static_cast<double>(e) * vy[static_cast<std::size_t>(c)];
        high = std::max(high, e);
      }
      ASSERT_NEAR(got[static_cast<std::size_t>(r)], want, 1e-6 * static_cast<double>(inner) + 1e-5);
      ASSERT_EQ(float(top[static_cast<std::size_t>(r)]), high);
    }
  }
}

TEST(Fused, MixedTypesAndManyLiveValues) {
  // Integers, doubles and bools in one program; more values alive at once than a few buffers hold.
  std::int64_t n = 5003;
  FusedProgram p;
  auto i = p.input(DType::I32, Access::Contiguous);
  auto d = p.op(EwOp::Convert, DType::F64, i);
  std::vector<FusedProgram::Value> powers = {d};
  for (int k = 1; k < 12; ++k) powers.push_back(p.op(EwOp::Mul, DType::F64, powers.back(), d));
  auto sum = powers[0];
  for (std::size_t k = powers.size() - 1; k > 0; --k) sum = p.op(EwOp::Add, DType::F64, sum, powers[k]);
  std::int32_t limit = 3;
  auto small = p.op(EwOp::Lt, DType::Bool, i, p.constant(DType::I32, &limit));
  p.output(p.op(EwOp::Select, DType::F64, small, sum, d));
  p.output(i);
  std::vector<std::int32_t> v(static_cast<std::size_t>(n)), same(v.size());
  for (std::size_t k = 0; k < v.size(); ++k) v[k] = static_cast<std::int32_t>(k % 7) - 2;
  std::vector<double> got(v.size());
  const void* in[] = {v.data()};
  void* out[] = {got.data(), same.data()};
  run(p, in, out, 1, n);
  EXPECT_EQ(same, v);
  for (std::size_t k = 0; k < v.size(); ++k) {
    double x = v[k], want = 0;
    for (int e = 12; e > 0; --e) want += std::pow(x, e);
    ASSERT_EQ(got[k], v[k] < 3 ? want : x);
  }
}

TEST(Fused, LargeResultsGoAroundTheCaches) {
  std::int64_t n = (5 << 20) + 3;
  FusedProgram p;
  auto x = p.input(DType::F32, Access::Contiguous);
  p.output(p.op(EwOp::Add, DType::F32, x, x));
  Floats v = noise(n, 8), got(v.size());
  const void* in[] = {v.data()};
  void* out[] = {got.data()};
  run(p, in, out, 1, n);
  for (std::size_t k = 0; k < v.size(); ++k) ASSERT_EQ(got[k], 2 * v[k]);
}

// Results in the memory of inputs, some of which are results themselves: each other's, too.
TEST(Fused, ResultsOverInputs) {
  for (auto [outer, inner] : kSpaces) {
    FusedProgram p;
    auto x = p.input(DType::F32, Access::Contiguous);
    auto y = p.input(DType::F32, Access::Contiguous);
    p.output(y);
    p.output(x);
    p.output(p.op(EwOp::Add, DType::F32, x, p.op(EwOp::Mul, DType::F32, y, p.reduce(ReduceOp::Max, x))));
    FusedKernel kernel(p);
    auto vx = noise(outer * inner, 1), vy = noise(outer * inner, 2);
    Floats a = vx, b = vy, sum(vx.size()), expected(vx.size());
    const void* apart[] = {vx.data(), vy.data()};
    const void* in[] = {a.data(), b.data()};
    Floats first(vx.size()), second(vx.size());
    void* other[] = {first.data(), second.data(), expected.data()};
    kernel.run(apart, other, outer, inner);
    void* out[] = {a.data(), b.data(), sum.data()};
    kernel.run(in, out, outer, inner);
    ASSERT_EQ(first, vy);
    ASSERT_EQ(second, vx);
    ASSERT_EQ(a, vy) << outer << " x " << inner;
    ASSERT_EQ(b, vx) << outer << " x " << inner;
    ASSERT_EQ(sum, expected) << outer << " x " << inner;
  }
}

// Sums as wide as the rows that they are made of, in these rows' memory.
TEST(Fused, RowsOverAnInput) {
  FusedProgram p;
  auto x = p.input(DType::F32, Access::Contiguous);
  auto wide = p.op(EwOp::Convert, DType::F64, x);
  p.row_output(p.reduce(ReduceOp::Sum, wide));
  p.output(x);
  constexpr std::int64_t kRows = 3000;
  auto vx = noise(kRows * 2, 1);
  Floats memory = vx, copy(vx.size());
  const void* in[] = {memory.data()};
  void* out[] = {memory.data(), copy.data()};
  FusedKernel(p).run(in, out, kRows, 2);
  EXPECT_EQ(copy, vx);
  for (std::int64_t r = 0; r < kRows; ++r) {
    auto i = static_cast<std::size_t>(r);
    double got = 0;
    std::memcpy(&got, reinterpret_cast<const std::byte*>(memory.data()) + r * 8, 8);
    ASSERT_EQ(got, static_cast<double>(vx[2 * i]) + static_cast<double>(vx[2 * i + 1]));
  }
}

TEST(Fused, EmptyRowsGiveIdentities) {
  FusedProgram p;
  auto x = p.input(DType::F32, Access::Contiguous);
  p.row_output(p.reduce(ReduceOp::Max, x));
  Floats got(3);
  const void* in[] = {nullptr};
  void* out[] = {got.data()};
  run(p, in, out, 3, 0);
  EXPECT_EQ(got[2], -INFINITY);
}

TEST(Fused, RefusesWhatHasNoKernel) {
  FusedProgram p;
  auto x = p.input(DType::F32, Access::Contiguous);
  auto i = p.input(DType::I32, Access::Contiguous);
  EXPECT_THROW(p.op(EwOp::Add, DType::F32, x, i), TypeError);
  EXPECT_THROW(p.op(EwOp::Exp, DType::I32, i), TypeError);
  EXPECT_THROW(p.reduce(ReduceOp::And, x), TypeError);
  EXPECT_THROW(p.row_output(x), TypeError);
}

// A chunk of an uneven split may have rows without elements: their sums are 0, their products 1.
TEST(Fused, RowsWithoutElements) {
  FusedProgram p;
  auto x = p.input(DType::F32, Access::Contiguous);
  auto column = p.input(DType::F32, Access::ColBroadcast);
  p.row_output(p.op(EwOp::Div, DType::F32, p.reduce(ReduceOp::Sum, x), column));
  p.row_output(p.op(EwOp::Add, DType::F32, p.reduce(ReduceOp::Prod, x), column));
  auto n = static_cast<std::size_t>(700);
  Floats columns(n, 2), sums(n, 7), products(n, 7);
  const void* in[] = {nullptr, columns.data()};
  void* out[] = {sums.data(), products.data()};
  FusedKernel(std::move(p)).run(in, out, static_cast<std::int64_t>(n), 0);
  EXPECT_EQ(sums, Floats(n, 0));
  EXPECT_EQ(products, Floats(n, 3));
}

}  // namespace
}  // namespace tessera::kernels
