// SPDX-License-Identifier: Apache-2.0
// Divisions by constant powers of two, which the engine computes as products.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "engines/cpu/passes/fold_divisors.h"
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
      const ir::GraphPtr after = cpu::fold_divisors(on_one_device(*g));
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
    EXPECT_EQ(cpu::fold_divisors(whole), whole);
  }
}

}  // namespace
}  // namespace tessera::test
