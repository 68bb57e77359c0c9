// SPDX-License-Identifier: Apache-2.0
// What the ops say about operands and attributes that do not fit: op, operand or attribute, value, expectation.
#include <gtest/gtest.h>

#include <functional>

#include "ops/ops.h"
#include "ops/shared_attrs.h"
#include "tessera/error.h"

namespace tessera::ops {
namespace {

struct Mistake {
  const ir::OpDef& op;
  ir::Types in;
  ir::Attrs attrs;
  const char* text;
};

Type f32(Shape s) { return {DType::F32, std::move(s)}; }
Type i32(Shape s) { return {DType::I32, std::move(s)}; }
template <class P>
ir::Attrs with(P p) {
  return ir::make_attrs(std::move(p));
}

template <class E>
void expect_texts(const std::vector<Mistake>& mistakes) {
  for (const auto& m : mistakes) {
    try {
      (void)m.op.infer(m.in, m.attrs);
      ADD_FAILURE() << m.op.name() << " accepted it; expected " << m.text;
    } catch (const E& e) {
      EXPECT_STREQ(e.what(), m.text);
    }
  }
}

TEST(OpErrors, ShapesThatDoNotFit) {
  expect_texts<ValueError>({
      {def::pad, {f32({4}), f32({1})}, with(Pad{{0}, {0}, {0}}), "[pad] operand 1: shape (1,); expected rank 0"},
      {def::pad,
       {f32({4}), f32({})},
       with(Pad{{-3}, {-2}, {0}}),
       "[pad] low: -3 and high -2 leave -1 elements of dimension 0, which has 4"},
      {def::slice,
       {f32({4})},
       with(StaticSlice{{1}, {5}, {1}}),
       "[slice] starts: 1 and limit 5 for dimension 0; expected 0 <= start <= limit <= 4"},
      {def::slice, {f32({4})}, with(StaticSlice{{1}, {3}, {0}}), "[slice] strides: 0 for dimension 0; expected >= 1"},
      {def::rev, {f32({4, 2})}, with(Rev{{2}}), "[rev] dimensions: axis 2 in (2,); expected 0..1"},
      {def::concatenate,
       {f32({4, 2}), f32({3, 3})},
       with(Concatenate{1}),
       "[concatenate] operand 1: shape (3, 3); expected that of operand 0, (4, 2), except in dimension 1"},
      {def::concatenate,
       {f32({4, 2}), f32({4})},
       with(Concatenate{1}),
       "[concatenate] operand 1: shape (4,); expected that of operand 0, (4, 2), except in dimension 1"},
      {def::dynamic_slice,
       {f32({4, 2}), i32({})},
       with(DynamicSlice{{1, 1}}),
       "[dynamic_slice] 1 starts for shape (4, 2); expected one a dimension"},
      {def::dynamic_slice,
       {f32({4}), i32({})},
       with(DynamicSlice{{5}}),
       "[dynamic_slice] sizes: 5 for dimension 0; expected 0..4"},
      {def::dynamic_update_slice,
       {f32({4}), f32({5}), i32({})},
       nullptr,
       "[dynamic_update_slice] operand 1: shape (5,); expected at most (4,) of operand 0"},
      {def::clamp,
       {f32({2}), f32({4}), f32({})},
       nullptr,
       "[clamp] operand 0: shape (2,); expected (4,) as operand 1, or rank 0"},
      {def::argmax,
       {f32({4, 0})},
       with(ArgReduce{1, DType::I32}),
       "[argmax] axis: 1 is empty in shape (4, 0); expected at least one element"},
      {def::cumsum, {f32({4})}, with(Cumulative{1, false}), "[cumsum] axis: axis 1 in (1,); expected 0..0"},
      {def::reduce_window_sum,
       {f32({4})},
       with(Window{{2, 2}, {1}, {0}, {0}, {1}, {1}}),
       "[reduce_window_sum] window_dimensions: (2, 2) for shape (4,); expected one entry a dimension"},
      {def::reduce_window_max,
       {f32({4})},
       with(Window{{2}, {0}, {0}, {0}, {1}, {1}}),
       "[reduce_window_max] window_strides: (0,); expected entries >= 1"},
      {def::reduce_precision,
       {f32({4})},
       with(ReducePrecision{0, 3}),
       "[reduce_precision] exponent_bits: 0; expected >= 1"},
      {def::bitcast_convert_type,
       {Type{DType::U8, {3}}},
       with(BitcastConvertType{DType::I32}),
       "[bitcast_convert_type] operand 0: shape (3,); expected a last dimension of 4, the uint8s in one int32"},
  });
}

TEST(OpErrors, DtypesThatDoNotFit) {
  expect_texts<TypeError>({
      {def::floor, {i32({4})}, nullptr, "[floor] operand 0 has dtype int32; expected float"},
      {def::clz, {f32({4})}, nullptr, "[clz] operand 0 has dtype float32; expected signed integer, unsigned integer"},
      {def::complex,
       {Type{DType::F16, {4}}, Type{DType::F16, {4}}},
       nullptr,
       "[complex] operand 0 has dtype float16; expected float32 or float64"},
      {def::integer_pow,
       {i32({4})},
       with(IntegerPow{-2}),
       "[integer_pow] y: -2 with dtype int32; expected y >= 0 for integers"},
      {def::pad,
       {f32({4}), i32({})},
       with(Pad{{0}, {0}, {0}}),
       "[pad] operand 1 has dtype int32; expected float32 as operand 0"},
      {def::dynamic_slice,
       {f32({4}), f32({})},
       with(DynamicSlice{{2}}),
       "[dynamic_slice] operand 1 has dtype float32; expected integer"},
      {def::argmin,
       {f32({4})},
       with(ArgReduce{0, DType::F32}),
       "[argmin] index_dtype: float32; expected an integer dtype"},
      {def::cumlogsumexp,
       {i32({4})},
       with(Cumulative{0, false}),
       "[cumlogsumexp] operand 0 has dtype int32; expected float"},
      {def::bitcast_convert_type,
       {Type{DType::Bool, {4}}},
       with(BitcastConvertType{DType::U8}),
       "[bitcast_convert_type] from bool to uint8; expected integers and floats, or the same dtype"},
  });
}

TEST(OpErrors, DerivativesThatNobodyKnows) {
  Builder b;
  Value x = b.input(f32({2}));
  Value y = polygamma(x, x);
  Values in{x, x};
  Values tangents{x, Value{}};
  Values out{y};
  EXPECT_THROW(jvp_of(b, def::polygamma, {in, tangents, out}, nullptr), UnimplementedError);
}

}  // namespace
}  // namespace tessera::ops
