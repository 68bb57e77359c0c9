// SPDX-License-Identifier: Apache-2.0
// Values with one element a row that a fused block makes, or that another one has made: every shape in which they are
// read.
#include <gtest/gtest.h>

#include "ops/ops.h"
#include "ops/reduce/sorting.h"
#include "ops/transform/interpret.h"
#include "support/engine_programs.h"
#include "support/graphs.h"

namespace tessera::test {
namespace {

using ir::Value;
using ir::Values;

void check_rows(const ir::Types& in, const std::function<Values(ir::Builder&, const Values&)>& body) {
  auto g = make_graph(in, body);
  std::vector<HostArray> args;
  for (std::size_t i = 0; i < in.size(); ++i) args.push_back(host(in[i], static_cast<unsigned>(i + 1)));
  auto want = ops::interpret(*g, args);
  // Memory that nobody has written differs from run to run.
  for (int n = 0; n < 3; ++n) {
    auto got = run_on_one(g, args);
    for (std::size_t j = 0; j < want.size(); ++j) expect_close(got[j], want[j], 1e-5);
  }
}

Value over_columns(Value column, const Shape& shape) { return ops::broadcast_in_dim(column, shape, {0, 1}); }

// The sums `e` are read as [n, 1] inside a block that another block's wish for `e` has split.
TEST(FusedRows, ReadInTwoShapesByTwoBlocks) {
  for (auto n : {1, 2, 13}) {
    for (auto m : {1, 2, 37, 5000}) {
      for (bool reshaped : {false, true}) {
        SCOPED_TRACE(testing::Message() << n << " x " << m << (reshaped ? " reshaped" : " repeated"));
        check_rows({{DType::F32, {n, m}}}, [&](ir::Builder& b, const Values& in) {
          Value x = in[0];
          auto column = [&](Value v) {
            return reshaped ? ops::reshape(v, {n, 1}) : ops::broadcast_in_dim(v, {n, 1}, {0});
          };
          Value e = ops::reduce_sum(ops::exp(x), {1});
          Value q = over_columns(column(ops::reduce_sum(x, {1})) / column(e), x.shape());
          Value t = ops::reduce_sum(x - q, {1});
          return Values{t / (e - ops::full(b, 0, {DType::F32, {n}}))};
        });
      }
    }
  }
}

// Variance with the degrees of freedom of what a mask leaves.
TEST(FusedRows, MaskedVariance) {
  check_rows({{DType::F32, {13, 37}}}, [](ir::Builder& b, const Values& in) {
    Value x = in[0];
    Value zero = ops::full(b, 0, x.type());
    Value mask = ops::gt(x, ops::full(b, -0.5, x.type()));
    Value n = ops::reduce_sum(ops::convert(mask, DType::F32), {1});
    Value mean = ops::broadcast_in_dim(ops::reduce_sum(ops::where(mask, x, zero), {1}), {13, 1}, {0}) /
                 ops::broadcast_in_dim(n, {13, 1}, {0});
    Value d = ops::where(mask, ops::square(x - over_columns(mean, x.shape())), zero);
    Value left = n - ops::full(b, 1, {DType::F32, {13}});
    return Values{ops::sqrt(ops::reduce_sum(d, {1}) / left)};
  });
}

// A step of a running softmax: the product wants `p` before the correction, which reads the maxima in another shape.
TEST(FusedRows, MaximaOfARunningSoftmax) {
  check_rows({{DType::F32, {2, 3, 5}}, {DType::F32, {2, 3}}, {DType::F32, {2, 5, 4}}},
             [](ir::Builder&, const Values& in) {
               Value s = in[0];
               Value next = ops::max(in[1], ops::reduce_max(s, {2}));
               Value column = ops::broadcast_in_dim(next, {2, 3, 1}, {0, 1});
               Value p = ops::exp(s - ops::broadcast_in_dim(next, s.shape(), {0, 1}));
               Value scale = ops::exp(ops::broadcast_in_dim(in[1], {2, 3, 1}, {0, 1}) - column);
               Value product = ops::dot_general(p, in[2], {{2}, {1}, {0}, {0}});
               Value sums = ops::reduce_sum(p, {2}) + ops::reshape(scale, {2, 3});
               return Values{next, sums, product * ops::broadcast_in_dim(scale, {2, 3, 4}, {0, 1, 2})};
             });
}

// A repetition that transposes is no other form of the same rows.
TEST(FusedRows, TransposedByARepetition) {
  check_rows({{DType::F32, {3, 3, 7}}}, [](ir::Builder&, const Values& in) {
    Value s = ops::reduce_sum(in[0], {2});
    Value turned = ops::broadcast_in_dim(s, {3, 3, 1}, {1, 0});
    return Values{in[0] - ops::broadcast_in_dim(turned, in[0].shape(), {0, 1, 2})};
  });
}

// [1, n] as a column of [n, 1]: the operand's extents are not those of the rows.
TEST(FusedRows, ExtentsAreThoseOfTheSpace) {
  check_rows({{DType::F32, {1, 9}}}, [](ir::Builder&, const Values& in) {
    Value x = ops::broadcast_in_dim(in[0], {9, 1}, {1, 0});
    return Values{ops::reduce_sum(ops::exp(x), {1})};
  });
}

// Rows of one element with more bytes than what they are made of, which dies there.
TEST(FusedRows, InTheMemoryOfAnOperand) {
  check_rows({{DType::F32, {600, 2}}}, [](ir::Builder&, const Values& in) {
    Value x = ops::sort(Values{ops::reshape(in[0], {1200})}, 0)[0];
    Value y = ops::reshape(x, {600, 2});
    Value wide = ops::reduce_sum(ops::convert(y, DType::F64), {1});
    return Values{ops::sqrt(ops::square(wide))};
  });
}

}  // namespace
}  // namespace tessera::test
