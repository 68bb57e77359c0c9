// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "core/numpy_text.h"
#include "core/strided_copy.h"
#include "support/meshes.h"
#include "tessera/host_array.h"

namespace tessera {
namespace {

HostArray iota(Shape shape) {
  std::vector<std::int32_t> v(static_cast<std::size_t>(size_of(shape)));
  std::iota(v.begin(), v.end(), 0);
  return HostArray::from(v, std::move(shape));
}

TEST(HostArray, CopiesStridedViews) {
  HostArray x = iota({8, 2});
  HostArrayView column = x.view();
  column.shape = {2, 1};
  EXPECT_EQ(HostArray(column).to_vector<std::int32_t>(), (std::vector<std::int32_t>{0, 2}));
  HostArrayView transposed{DType::I32, {2, 8}, {4, 8}, x.data()};
  EXPECT_EQ(HostArray(transposed).to_vector<std::int32_t>(),
            (std::vector<std::int32_t>{0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15}));
  HostArrayView reversed{DType::I32, {16}, {-4}, static_cast<const char*>(x.data()) + 60};
  EXPECT_EQ(HostArray(reversed).to_vector<std::int32_t>().front(), 15);
  HostArrayView repeated{DType::I32, {3}, {0}, static_cast<const char*>(x.data()) + 20};
  EXPECT_EQ(HostArray(repeated).to_vector<std::int32_t>(), (std::vector<std::int32_t>{5, 5, 5}));
  EXPECT_ERROR(ValueError, HostArray(HostArrayView{DType::I32, {2}, {}, x.data()}), "strides");
  EXPECT_ERROR(ValueError, HostArray(HostArrayView{DType::I32, {2}, {4}, nullptr}), "null");
}

TEST(HostArray, CopyAroundTheCachesEqualsTheOtherOne) {
  constexpr std::int64_t kRows = 9;
  for (std::int64_t row : {700, 1024, 1500, 4099}) {
    const std::int64_t pitch = row + 37;
    std::vector<char> src(static_cast<std::size_t>(kRows * pitch));
    for (std::size_t i = 0; i < src.size(); ++i) src[i] = static_cast<char>(i * 7 + i / 251);
    for (std::int64_t offset : {0, 1, 63}) {
      std::vector<char> want(src.size() + 64, 3), got(want);
      const Dims strides{pitch, 1};
      const Shape shape{kRows, row};
      core::copy_strided(want.data() + offset, strides, src.data(), strides, shape, 1);
      core::copy_strided(got.data() + offset, strides, src.data(), strides, shape, 1, true);
      EXPECT_EQ(got, want) << row << " at " << offset;
    }
  }
}

TEST(HostArray, StridedCopyEqualsElementLoopForEveryItemSize) {
  for (std::int64_t item : {1, 2, 3, 4, 8, 16}) {
    Shape shape{3, 4, 5};
    std::vector<char> src(static_cast<std::size_t>(60 * item)), dst(src.size(), 0);
    for (std::size_t i = 0; i < src.size(); ++i) src[i] = static_cast<char>(i * 7 + 1);
    Dims from{item, 3 * item, 12 * item};  // the transposed order
    core::copy_strided(dst.data(), core::contiguous_strides(shape, item), src.data(), from, shape, item);
    std::size_t at = 0;
    for (std::int64_t i = 0; i < 3; ++i) {
      for (std::int64_t j = 0; j < 4; ++j) {
        for (std::int64_t k = 0; k < 5; ++k) {
          for (std::int64_t b = 0; b < item; ++b, ++at) {
            ASSERT_EQ(dst[at], src[static_cast<std::size_t>((i + 3 * j + 12 * k) * item + b)]);
          }
        }
      }
    }
  }
}

TEST(HostArray, SlicesAndReshapes) {
  HostArray x = iota({8, 2});
  EXPECT_EQ(x.slice({{2, 4}, {1, 2}}).to_vector<std::int32_t>(), (std::vector<std::int32_t>{5, 7}));
  EXPECT_EQ(x.slice({{2, 2}, {}}).shape(), (Shape{0, 2}));
  EXPECT_ERROR(IndexError, x.slice({{0, 9}, {}}), "9", "8");
  EXPECT_ERROR(IndexError, x.slice({{0, 1}}), "rank");
  EXPECT_EQ(x.reshape({4, 4}).data(), x.data());
  EXPECT_ERROR(ValueError, x.reshape({3, 4}), "(3, 4)", "16");
  EXPECT_TRUE(identical(x, iota({8, 2})));
  EXPECT_FALSE(identical(x, iota({4, 4})));
}

TEST(HostArray, TypedAccessIsChecked) {
  HostArray x = iota({2});
  EXPECT_ERROR(TypeError, x.span<float>(), "float32", "int32");
  EXPECT_ERROR(ValueError, HostArray::from(std::vector<float>{1, 2, 3}, {2}), "3", "2");
  HostArray none(DType::F32, {0, 2});
  EXPECT_TRUE(none.defined());
  EXPECT_FALSE(HostArray().defined());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(x.data()) % 64, 0u);
  EXPECT_ERROR(ResourceExhaustedError, HostArray(DType::F64, {std::int64_t{1} << 61}), "bytes");
}

TEST(HostArray, ConvertsBetweenDtypes) {
  auto f = HostArray::from<float>({1.75f, -2.5f, 300.0f, NAN, INFINITY});
  EXPECT_EQ(f.astype(DType::I32).to_vector<std::int32_t>(),
            (std::vector<std::int32_t>{1, -2, 300, 0, std::numeric_limits<std::int32_t>::max()}));
  EXPECT_EQ(f.astype(DType::Bool).to_vector<bool>(), (std::vector<bool>{true, true, true, true, true}));
  auto i = HostArray::from<std::int32_t>({-1, 256, 5});
  EXPECT_EQ(i.astype(DType::U8).to_vector<std::uint8_t>(), (std::vector<std::uint8_t>{255, 0, 5}));
  EXPECT_EQ(i.astype(DType::C64).to_vector<complex64_t>()[1], complex64_t(256, 0));
  auto c = HostArray::from<complex64_t>({{1, 2}, {0, 3}});
  EXPECT_EQ(c.astype(DType::F32).to_vector<float>(), (std::vector<float>{1, 0}));
  EXPECT_EQ(c.astype(DType::Bool).to_vector<bool>(), (std::vector<bool>{true, true}));
  // One rounding: 1 + 2^-11 + 2^-30 lies above the middle of two halves, though not after rounding to float.
  auto d = HostArray::from<double>({1.0 + std::ldexp(1.0, -11) + std::ldexp(1.0, -30)});
  EXPECT_EQ(static_cast<float>(d.astype(DType::F16).to_vector<float16_t>()[0]), 1.0009765625f);
  auto u = HostArray::from<std::uint64_t>({~std::uint64_t{0}});
  EXPECT_EQ(u.astype(DType::F64).to_vector<double>()[0], 18446744073709551615.0);
}

TEST(HostArray, PrintsAsNumPy) {
  EXPECT_EQ(to_string(iota({8})), "[0, 1, 2, 3, 4, 5, 6, 7]");
  EXPECT_EQ(to_string(iota({2, 2})), "[[0, 1],\n [2, 3]]");
  EXPECT_EQ(to_string(iota({2, 1, 2})), "[[[0, 1]],\n\n [[2, 3]]]");
  EXPECT_EQ(to_string(HostArray::scalar(3.5f)), "3.5");
  EXPECT_EQ(to_string(HostArray::scalar(true)), "True");
  EXPECT_EQ(to_string(HostArray::from<bool>({true, false})), "[ True, False]");
  EXPECT_EQ(to_string(HostArray(DType::F32, {0, 2})), "[]");
  EXPECT_EQ(to_string(HostArray::from<float>({0, 1, 2})), "[0., 1., 2.]");
  EXPECT_EQ(to_string(HostArray::from<float>({1.5f, -2.25f, 100})), "[  1.5 ,  -2.25, 100.  ]");
  EXPECT_EQ(to_string(HostArray::from<double>({1.0 / 3, 0.1})), "[0.33333333, 0.1       ]");
  EXPECT_EQ(to_string(HostArray::from<double>({1e10, NAN, -1})), "[ 1.e+10,     nan, -1.e+00]");
  EXPECT_EQ(to_string(HostArray::from<double>({NAN, -INFINITY, 1.5})), "[ nan, -inf,  1.5]");
  EXPECT_EQ(to_string(HostArray::from<complex64_t>({{1, 2}, {-0.5, -1}})), "[ 1. +2.j, -0.5-1.j]");
  EXPECT_EQ(to_string(HostArray::from<std::int8_t>({-1, 10, 100})), "[ -1,  10, 100]");
  EXPECT_EQ(to_string(HostArray::from<float>({1e-5f, 1})), "[1.e-05, 1.e+00]");
  EXPECT_EQ(to_string(HostArray::from<bfloat16_t>({0.1f, 2.0f})), "[0.100098, 2]");
  EXPECT_EQ(to_string(iota({2000})), "[   0,    1,    2, ..., 1997, 1998, 1999]");
  EXPECT_EQ(to_string(iota({30})).find('\n'), 72u);
}

TEST(HostArray, HalvesPrintTheirShortestDigits) {
  EXPECT_EQ(to_string(HostArray::from<float16_t>({0.1f, 0.5f})), "[0.1, 0.5]");
  EXPECT_EQ(to_string(HostArray::from<float16_t>({0.1f, 0.2f, 1.0f / 3, 1000.0f})),
            "[9.998e-02, 2.000e-01, 3.333e-01, 1.000e+03]");
}

}  // namespace
}  // namespace tessera
