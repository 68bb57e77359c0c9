// SPDX-License-Identifier: Apache-2.0
// Few elements of an array that is sorted along a split dimension: found by counting, and those of one device.
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "tessera/tessera.h"

namespace tessera {

namespace {

// 128 x 256 elements a device of a 4x2 mesh are enough for a search.
constexpr std::int64_t kRows = 512, kColumns = 512;
constexpr std::int64_t kSorted = 2 * 128 * 256 * 3 / 4;  // elements that an exchange of lines moves, there and back

std::vector<double> numbers(DType t, std::int64_t count) {
  std::mt19937 rng(7);
  std::uniform_int_distribution<int> ties(-20, 20), wide(-1000000, 1000000);
  std::vector<double> out;
  for (std::int64_t i = 0; i < count; ++i) {
    // The first columns have few different values, the others many.
    const double v = i % kColumns < 100 ? ties(rng) : wide(rng);
    out.push_back(t == bool_ ? v > 0 : is_float(t) ? v / 64 : v);
  }
  return out;
}

// Elements as one device has them, in parts over the mesh.
class OrderStatistics : public testing::Test {
 protected:
  Array numbers_of(DType t, const Shape& shape) {
    return Array(HostArray::from(numbers(t, size_of(shape)), shape).astype(t));
  }
  template <class F>
  void expect_found(const F& f, const Array& x, const P& spec, std::int64_t most_bytes, const std::string& what) {
    const auto program = jit(f);
    const Array split = device_put(x, NamedSharding(mesh_, spec));
    const std::int64_t moved = program.lower(split).comm_plan().bytes_per_device();
    EXPECT_LE(moved, most_bytes) << what << "\n" << to_string(program.lower(split).comm_plan());
    const Array want = program(x), got = program(split);
    ASSERT_EQ(got.dtype(), want.dtype()) << what;
    ASSERT_EQ(got.shape(), want.shape()) << what;
    EXPECT_TRUE(all((got == want) | ((got != got) & (want != want))).item<bool>()) << what;
  }

 private:
  static std::int64_t size_of(const Shape& shape) {
    std::int64_t n = 1;
    for (auto d : shape) n *= d;
    return n;
  }
  ClientScope scope_{Client::cpu({.devices = 8})};
  Mesh mesh_ = make_mesh({4, 2}, {"x", "y"});
};

TEST_F(OrderStatistics, OfEveryDtype) {
  // Counts of 16 bits, for every bit of a key and every column of 256; signs of zeros and the result for all.
  constexpr std::int64_t kExchange = 2 * 256 * 3 / 4;
  for (auto [t, bits] : std::vector<std::pair<DType, std::int64_t>>{{float32, 32},
                                                                    {float64, 64},
                                                                    {bfloat16, 16},
                                                                    {float16, 19},
                                                                    {int8, 8},
                                                                    {uint8, 8},
                                                                    {int16, 16},
                                                                    {int32, 32},
                                                                    {uint32, 32},
                                                                    {int64, 64},
                                                                    {bool_, 1}}) {
    const Array x = numbers_of(t, {kRows, kColumns});
    auto third = [](const Array& a) { return index(sort(a, 0), {170}); };
    expect_found(third, x, P("x", "y"), kExchange * (2 * bits + 1 + dtype_size(t)), std::string(dtype_name(t)));
  }
}

TEST_F(OrderStatistics, OfAnyPlaces) {
  const Array x = numbers_of(float32, {kRows, kColumns});
  const std::vector<std::int32_t> four = {3, 511, 0, 300};
  const std::vector<std::int32_t> outside = {-1, 7, 512, 600};
  auto picked = [&](const std::vector<std::int32_t>& places) {
    return [places](const Array& a) { return take(sort(a, 0), Array(HostArray::from(places)), 0); };
  };
  constexpr std::int64_t kMost = 4 * kSorted;
  expect_found(picked(four), x, P("x", "y"), kMost, "take");
  expect_found(picked(outside), x, P("x", "y"), kMost, "take outside");
  expect_found(
      [](const Array& a) {
        return lax::slice(sort(a, 0), {5, 3}, {500, 200}, {200, 2});
      },
      x, P("x", "y"), kMost, "slice");
  expect_found([](const Array& a) { return index(sort(a, 0), {-1}); }, x, P("x", "y"), kMost, "the last");
  expect_found(
      [](const Array& a) { return lax::dynamic_slice_in_dim(sort(a, 0), astype(sum(a * 0), int32) + 509, 2, 0); }, x,
      P("x", "y"), kMost, "dynamic_slice");
  expect_found([](const Array& a) { return index(sort(a, 1), {Slice(), 100}); }, x, P("y", "x"), kMost, "columns");
  // Every column's own place.
  expect_found([](const Array& a) { return take_along_axis(sort(a, 0), lax::expand_dims(arange(kColumns), {0}), 0); },
               x, P("x", "y"), kMost, "take_along_axis");
}

TEST_F(OrderStatistics, MediansAndQuantiles) {
  const Array x = numbers_of(float32, {kRows, kColumns});
  constexpr std::int64_t kMost = 4 * kSorted * 3 / 4;
  expect_found([](const Array& a) { return median(a, {.axis = Dims{0}}); }, x, P("x", "y"), kMost, "median");
  const Array holes = where(x > 15000, Array(std::numeric_limits<float>::quiet_NaN()), x);
  expect_found([](const Array& a) { return median(a, {.axis = Dims{0}}); }, holes, P("x", "y"), kMost, "of NaN");
  expect_found([](const Array& a) { return nanmedian(a, {.axis = Dims{0}}); }, holes, P("x", "y"), kMost, "nanmedian");
  expect_found([](const Array& a) { return quantile(a, 0.99, {.axis = Dims{0}}); }, x, P("x"), 2 * kMost, "quantile");
}

TEST_F(OrderStatistics, OfUnevenShardsAndSeveralAxes) {
  const Array x = numbers_of(float32, {2052, 130});
  expect_found([](const Array& a) { return median(lax::slice_in_dim(a, 0, 2050), {.axis = Dims{0}}); }, x, P("x"),
               130 * 4 * 2 * 130, "uneven");
  const Array y = numbers_of(float32, {4096, 64});
  const SpecEntry both(std::vector<std::string>{"x", "y"});
  expect_found([](const Array& a) { return median(a, {.axis = Dims{0}}); }, y, P(both), 64 * 4 * 2 * 64, "both axes");
  const Array large = numbers_of(float32, {1 << 18, 5});
  expect_found([](const Array& a) { return index(sort(a, 0), {100000}); }, large, P("x"), 48 * 5 * 4 * 2, "two bits");
}

TEST_F(OrderStatistics, SpecialValues) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> values = {inf, -inf, nan, -nan, 0.0F, 1e-40F, -1e-40F, 3e38F, -3e38F};
  std::vector<float> all;
  for (std::int64_t i = 0; i < kRows * kColumns; ++i) {
    all.push_back(values[static_cast<std::size_t>(i * 7 + i / kColumns * 3) % values.size()]);
  }
  const Array x(HostArray::from(all, {kRows, kColumns}));
  for (std::int64_t place : {0, 60, 200, 256, 300, 400, 511}) {
    expect_found([place](const Array& a) { return index(sort(a, 0), {place}); }, x, P("x", "y"), 4 * kSorted,
                 std::to_string(place));
  }
  // Of lines of negative zeros alone the sign stays.
  const Array minus =
      device_put(full({kRows, kColumns}, -0.0, float32), NamedSharding(make_mesh({4, 2}, {"x", "y"}), P("x", "y")));
  EXPECT_TRUE(tessera::all(signbit(jit([](const Array& a) { return index(sort(a, 0), {9}); })(minus))).item<bool>());
}

// What others read of the sorted array, too, is sorted.
TEST_F(OrderStatistics, ASortThatIsReadOtherwiseStays) {
  const Array x = numbers_of(float32, {kRows, kColumns});
  expect_found(
      [](const Array& a) {
        const Array s = sort(a, 0);
        return s + index(s, {100});
      },
      x, P("x", "y"), 4 * kSorted + 4 * 4 * kColumns, "both");
}

}  // namespace

}  // namespace tessera
