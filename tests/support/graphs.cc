// SPDX-License-Identifier: Apache-2.0
#include "tests/support/graphs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/strings.h"
#include "ops/define_op.h"

namespace tessera::test {

using ops::complexd;
using ops::Wide;

ir::GraphPtr make_graph(const ir::Types& in, const std::function<ir::Values(ir::Builder&, const ir::Values&)>& body) {
  ir::Builder b;
  ir::Values inputs;
  for (const auto& t : in) inputs.push_back(b.input(t));
  return b.finish_shared(body(b, inputs));
}

namespace {
ir::View view(const HostArray& a) { return {a.dtype(), a.shape(), const_cast<void*>(a.data())}; }
}  // namespace

HostArray host(const ir::Type& type, unsigned seed) {
  HostArray out(type.dtype, type.shape);
  ir::View v = view(out);
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> real(-1, 1);
  for (std::int64_t i = 0; i < out.size(); ++i) {
    switch (ops::wide_kind(type.dtype)) {
      case Wide::Bool:
        ops::store_bool(v, i, random() % 2 == 0);
        break;
      case Wide::Float:
        ops::store_float(v, i, real(random));
        break;
      case Wide::Complex:
        ops::store_complex(v, i, complexd(real(random), real(random)));
        break;
      default:
        ops::store_int(v, i, random() % 7);
    }
  }
  return out;
}

double inner(const HostArray& a, const HostArray& b) {
  complexd sum = 0;
  for (std::int64_t i = 0; i < a.size(); ++i) sum += ops::load_complex(view(a), i) * ops::load_complex(view(b), i);
  return sum.real();
}

void expect_close(const HostArray& got, const HostArray& want, double tolerance) {
  ASSERT_EQ(got.dtype(), want.dtype());
  ASSERT_EQ(got.shape(), want.shape());
  if (!is_inexact(got.dtype())) {
    EXPECT_TRUE(identical(got, want)) << to_string(got) << "\nexpected\n" << to_string(want);
    return;
  }
  for (std::int64_t i = 0; i < got.size(); ++i) {
    complexd x = ops::load_complex(view(got), i);
    complexd y = ops::load_complex(view(want), i);
    bool same = (std::isnan(x.real()) && std::isnan(y.real())) || x == y;
    ASSERT_TRUE(same || std::abs(x - y) <= tolerance * (1 + std::abs(y)))
        << "element " << i << " is " << x << ", expected " << y;
  }
}

HostArray row(const HostArray& a, std::int64_t n) {
  Index index(a.shape().size());
  index[0] = Slice{n, n + 1};
  Shape shape(a.shape().begin() + 1, a.shape().end());
  return a.slice(index).reshape(shape);
}

std::vector<HostArray> difference(const ir::Graph& g, const std::vector<HostArray>& in,
                                  const std::vector<std::size_t>& which, const std::vector<HostArray>& direction,
                                  double step) {
  auto moved = [&](double by) {
    std::vector<HostArray> args = in;
    for (std::size_t k = 0; k < which.size(); ++k) {
      HostArray x(in[which[k]].view());
      ir::View v = view(x);
      for (std::int64_t i = 0; i < x.size(); ++i) {
        complexd sum = ops::load_complex(v, i) + by * ops::load_complex(view(direction[k]), i);
        is_complex(x.dtype()) ? ops::store_complex(v, i, sum) : ops::store_float(v, i, sum.real());
      }
      args[which[k]] = x;
    }
    return ops::interpret(g, args);
  };
  auto up = moved(step);
  auto down = moved(-step);
  std::vector<HostArray> out;
  for (std::size_t k = 0; k < up.size(); ++k) {
    HostArray d(up[k].dtype(), up[k].shape());
    ir::View v = view(d);
    for (std::int64_t i = 0; i < d.size(); ++i) {
      if (!is_inexact(d.dtype())) {
        ops::copy_element(v, i, view(up[k]), i);
        continue;
      }
      complexd slope = (ops::load_complex(view(up[k]), i) - ops::load_complex(view(down[k]), i)) / (2 * step);
      is_complex(d.dtype()) ? ops::store_complex(v, i, slope) : ops::store_float(v, i, slope.real());
    }
    out.push_back(d);
  }
  return out;
}

}  // namespace tessera::test
