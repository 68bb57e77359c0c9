// SPDX-License-Identifier: Apache-2.0
// Divisions by constant powers of two, which the engine computes as products, and scalars that constants determine.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "engines/cpu/passes/fold_constants.h"
#include "engines/engine_support.h"
#include "ops/ops.h"
#include "support/engine_programs.h"
#include "support/graphs.h"
#include "support/spmd_simulator.h"

namespace tessera::test {
namespace {

using ir::Values;

// Numbers of every size, down to those below the normal range of each dtype, and what is no number.
HostArray numbers(DType dtype) {
  std::vector<double> v = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1.0 / 3, -7.7, 65504.0, 3.0e38, 1.7e308};
  for (int e = -1074; e < 1000; e += 3) v.push_back(std::ldexp(e % 2 == 0 ? 1.37 : -1.99, e));
  return HostArray::from(v).astype(dtype);
}

void expect_same_bits(const HostArray& got, const HostArray& want, double c) {
  const HostArray a = got.astype(DType::F64), b = want.astype(DType::F64);
  for (std::size_t i = 0; i < a.span<double>().size(); ++i) {
    const double x = a.span<double>()[i], y = b.span<double>()[i];
    if (std::isnan(x) && std::isnan(y)) continue;
    EXPECT_TRUE(x == y && std::signbit(x) == std::signbit(y))
        << dtype_name(want.dtype()) << " / " << c << ": " << x << ", " << y;
  }
}

TEST(Divisors, ThatArePowersOfTwoGiveTheSameBitsAsFactors) {
  const std::pair<double, bool> kDivisors[] = {{8, true},     {-2, true},       {0.125, true}, {1, true},
                                               {16384, true}, {65536, false},   {3, false},    {0, false},
                                               {NAN, false},  {INFINITY, false}};
  for (DType t : {DType::F16, DType::BF16, DType::F32, DType::F64}) {
    for (const auto& [c, folds] : kDivisors) {
      const HostArray x = numbers(t);
      ir::GraphPtr g = make_graph({{t, x.shape()}}, [&, c = c](ir::Builder& b, const Values& v) {
        return Values{v[0] / ops::scalar(b, c, t)};
      });
      const ir::GraphPtr after = cpu::fold_constants(on_one_device(*g));
      const auto divisions = std::ranges::count_if(after->eqns, [](const ir::Eqn& e) { return e.op->name() == "div"; });
      EXPECT_EQ(divisions, folds ? 0 : 1) << dtype_name(t) << " / " << c;
      const HostArray want = evaluate(*g, {x})[0];
      expect_same_bits(evaluate(*after, {x})[0], want, c);
      expect_same_bits(run_on_one(g, {x})[0], want, c);
    }
  }
}

TEST(Divisors, OfIntegersAndArraysStay) {
  for (const ir::GraphPtr& g :
       {make_graph({{DType::I32, {4}}},
                   [](ir::Builder&b, const Values&v) { return Values{v[0] / ops::scalar(b, 8, DType::I32)}; }),
        make_graph({{DType::C64, {4}}},
                   [](ir::Builder&b, const Values&v) { return Values{v[0] / ops::scalar(b, 8, DType::C64)}; }),
        make_graph({{DType::F32, {4}}}, [](ir::Builder&b, const Values&v) {
          return Values{v[0] / ops::constant(b, HostArray::from<float>({8, 8, 8, 8}))};
        })}) {
    const ir::GraphPtr whole = on_one_device(*g);
    EXPECT_EQ(cpu::fold_constants(whole), whole);
  }
}

std::int64_t scalars(const ir::Graph& g) {
  return std::ranges::count_if(g.eqns,
                               [&](const ir::Eqn& e) { return !e.in.empty() && g.type(e.out[0]).shape.empty(); });
}

// As NumPy's remainder and floor_divide are written: a zero is replaced before the division.
TEST(Constants, WholeScalarsThatTheyDetermineAreFolded) {
  std::vector<std::int32_t> edges = {INT32_MIN, INT32_MIN + 1, -8, -7, -1, 0, 1, 6, 7, 13, INT32_MAX};
  const HostArray x = HostArray::from(edges);
  for (std::int32_t c : {7, -7, 1, -1, 0, 8, INT32_MIN, INT32_MAX}) {
    ir::GraphPtr g = make_graph({{DType::I32, x.shape()}}, [&](ir::Builder& b, const Values& v) {
      const ir::Value q = ops::constant(b, HostArray::scalar(c)), zero = ops::scalar(b, 0, DType::I32);
      const ir::Value divisor = ops::where(ops::eq(q, zero), ops::scalar(b, 1, DType::I32), q);
      const ir::Value r = ops::rem(v[0], divisor);
      const ir::Value other = ops::ne(ops::lt(r, zero), ops::lt(divisor, zero));
      return Values{ops::where(ops::and_(other, ops::ne(r, zero)), r + divisor, r), ops::div(v[0], q), divisor};
    });
    const ir::GraphPtr after = cpu::fold_constants(on_one_device(*g));
    EXPECT_EQ(scalars(*after), 0) << c;
    const auto want = evaluate(*g, {x});
    const auto got = run_on_one(g, {x});
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_TRUE(std::ranges::equal(got[i].span<std::int32_t>(), want[i].span<std::int32_t>()))
          << c << ", result " << i;
    }
  }
}

TEST(Constants, FloatsAndWhatInputsDecideStay) {
  const ir::GraphPtr g =
      on_one_device(*make_graph({{DType::I32, {}}, {DType::F32, {}}}, [](ir::Builder& b, const Values& v) {
        const ir::Value two = ops::scalar(b, 2, DType::I32), third = ops::scalar(b, 1.0 / 3, DType::F32);
        return Values{v[0] + two, v[1] + third, third * third};
      }));
  EXPECT_EQ(cpu::fold_constants(g), g);
}

}  // namespace
}  // namespace tessera::test
