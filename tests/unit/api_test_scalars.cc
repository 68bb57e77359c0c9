// SPDX-License-Identifier: Apache-2.0
// A scalar of the program keeps all its digits until it meets an array, whatever it passes through on the way: what
// functions of float64 (int64, complex128) data give is the same bit for bit eagerly, under jit, vmap and grad, in
// control flow and in maps.
#include <gtest/gtest.h>

#include <cstring>

#include "tessera/tessera.h"

namespace tessera {

namespace {

using Function = std::function<Array(const Array& data, const Array& scalar)>;

const std::vector<double>& values() {
  static const std::vector<double> v = {0.1, 1.0 / 3, 1e-300, 9007199254740993.0, 1e300, -0.7, 3.0, 1e-17};
  return v;
}
Array data() { return Array(HostArray::from(std::vector<double>{0.3, -1.25, 7e-5, 2.0})); }

std::string bits(const Array& a) {
  const HostArray& h = a.host();
  return std::string(dtype_name(h.dtype())) + to_string(h.shape()) +
         std::string(static_cast<const char*>(h.data()), static_cast<std::size_t>(h.nbytes()));
}

/// Every function with its name.
const std::vector<std::pair<std::string, Function>>& functions() {
  static const std::vector<std::pair<std::string, Function>> all = {
      {"add", [](const Array& x, const Array& s) { return x + s; }},
      {"subtract", [](const Array& x, const Array& s) { return s - x; }},
      {"multiply", [](const Array& x, const Array& s) { return x * s; }},
      {"divide", [](const Array& x, const Array& s) { return x / s; }},
      {"maximum", [](const Array& x, const Array& s) { return maximum(x, s); }},
      {"where", [](const Array& x, const Array& s) { return where(x > s, x, s); }},
      {"clip", [](const Array& x, const Array& s) { return clip(x, Operand(-abs(s)), Operand(abs(s))); }},
      {"compare", [](const Array& x, const Array& s) { return astype(x * 0 + s == s, float64); }},
      {"full", [](const Array& x, const Array& s) { return full({4}, s, float64) + x * 0; }},
      {"full_like", [](const Array& x, const Array& s) { return full_like(x, s); }},
      {"linspace", [](const Array& x, const Array& s) { return x + linspace(0, s, 4, {.dtype = float64}); }},
      {"pad",
       [](const Array& x, const Array& s) {
         return lax::pad(x, s, {{1, 1, 0}});
       }},
      {"set", [](const Array& x, const Array& s) { return at(x, {1}).set(s); }},
      {"at add", [](const Array& x, const Array& s) { return at(x, {1}).add(s); }},
      {"arithmetic of scalars", [](const Array& x, const Array& s) { return x * (s * 3 + 0.1); }},
      {"quotient of scalars", [](const Array& x, const Array& s) { return x * (s / 7); }},
      {"function of a scalar", [](const Array& x, const Array& s) { return x * tanh(s); }},
      {"integers", [](const Array& x, const Array&) { return x * (Array(1) / 3); }},
      {"broadcast scalar", [](const Array& x, const Array& s) { return x + broadcast_to(s, {4}); }},
      {"stack of scalars",
       [](const Array& x, const Array& s) {
         return x + stack({s, s * 2, s, s});
       }},
      {"astype", [](const Array& x, const Array& s) { return x + astype(s, float64); }},
      {"sum of scalars", [](const Array& x, const Array& s) { return x + sum(broadcast_to(s, {3})); }},
      {"clamp", [](const Array& x, const Array& s) { return clamp(-1e300, x, s); }},
  };
  return all;
}

void expect_same(const Array& got, const std::string& want, const std::string& how) {
  EXPECT_EQ(bits(got), want) << how;
}

/// The function in every surrounding, against the eager answer.
void check(const std::string& name, const Function& f, double value) {
  const Array x = data(), s(value);
  const std::string want = bits(f(x, s));
  const std::string of = name + " of " + std::to_string(value);
  const auto g = [&f](const Array& a, const Array& b) { return f(a, b); };
  expect_same(jit(g)(x, s), want, of + ", jit");
  expect_same(jit([&](const Array& a) { return f(a, Array(value)); })(x), want, of + ", constant under jit");
  expect_same(jit([&](const Array& a, const Array& b) { return jit(g)(a, b); })(x, s), want, of + ", jit in jit");
  expect_same(index(vmap(g, {.in_axes = {0, none}})(stack({x, x}), s), {0}), want, of + ", vmap");
  expect_same(vmap(g, {.in_axes = {none, none}, .out_axes = none, .axis_size = 2})(x, s), want, of + ", vmap of none");
  expect_same(checkpoint(g)(x, s), want, of + ", checkpoint");
  expect_same(cond(Array(true), g, g, x, s), want, of + ", cond");
  expect_same(cond(
                  Array(true), [&](const Array& a) { return f(a, s); }, [&](const Array& a) { return f(a, s); }, x),
              want, of + ", capture of cond");
  using Carry = std::pair<Array, Array>;
  const Array zero = zeros_like(f(x, s));
  const auto end = fori_loop(
      0, 2,
      [&](const Array&, const Carry& c) {
        return Carry{f(x, c.second), c.second};
      },
      Carry{zero, s});
  expect_same(end.first, want, of + ", carry of a loop");
  const auto scanned =
      scan([&](const Carry& c, const Array& a) { return std::pair(c, f(a, c.second)); }, Carry{zero, s}, stack({x, x}));
  expect_same(index(scanned.second, {1}), want, of + ", carry of a scan");
  expect_same(f(x, device_put(s)), want, of + ", device_put");
  expect_same(f(x, device_put(s, Client::current().devices()[0])), want, of + ", device_put to a device");
  expect_same(f(x, jit([](const Array& b) { return b; })(s)), want, of + ", through jit");
}

TEST(Scalars, KeepTheirDigitsInEverySurrounding) {
  for (const auto& [name, f] : functions()) {
    for (double v : values()) check(name, f, v);
  }
}

TEST(Scalars, AreFloat32ToTheUser) {
  const Array s(0.1);
  EXPECT_EQ(s.dtype(), float32);
  EXPECT_TRUE(s.weak_type());
  EXPECT_EQ(s.nbytes(), 4);
  EXPECT_EQ(s.item<double>(), 0.1);
  EXPECT_EQ(s.item<float>(), 0.1F);
  EXPECT_EQ(s.host().dtype(), float32);
  for (const Array& a : {s * 3, jit([](const Array& b) { return b + 1; })(s), device_put(s), -s, exp(s)}) {
    EXPECT_EQ(a.dtype(), float32);
    EXPECT_TRUE(a.weak_type());
    EXPECT_EQ(a.host().dtype(), float32);
    EXPECT_EQ((a * ones({2}, float16)).dtype(), float16);
    EXPECT_EQ((a * ones({2}, int32)).dtype(), float32);
    EXPECT_EQ((a * ones({2}, float64)).dtype(), float64);
  }
  EXPECT_EQ(bitcast_convert_type(s, int32).item<std::int32_t>(), std::bit_cast<std::int32_t>(0.1F));
  EXPECT_EQ(nextafter(Array(1.0), Array(2.0)).item<float>(), std::nextafter(1.0F, 2.0F));
  EXPECT_EQ(eval_shape([](const Array& b) { return b * 2; }, s)[0].dtype, float32);
  const auto shards = make_array_from_single_device_arrays({}, device_put(s).sharding(), std::vector{device_put(s)});
  EXPECT_EQ(shards.item<float>(), 0.1F);
}

TEST(Scalars, GradientsHaveTheirDigits) {
  const Array x = data();
  const auto f = [&](const Array& s) { return sum(x * s * s); };
  const double want = (2.0 * sum(x) * Array(0.1)).item<double>();
  const auto [value, slope] = value_and_grad(f)(Array(0.1));
  EXPECT_EQ(bits(value), bits(f(Array(0.1))));
  EXPECT_EQ(slope.dtype(), float32);
  EXPECT_NEAR(slope.item<double>(), want, 1e-15 * std::abs(want));
  EXPECT_NEAR(jit(grad(f))(Array(0.1)).item<double>(), want, 1e-15 * std::abs(want));
  const auto [out, tangent] = jvp(f, std::tuple(Array(0.1)), std::tuple(Array(1.0)));
  EXPECT_EQ(tangent.dtype(), float64);
  EXPECT_NEAR(tangent.item<double>(), want, 1e-15 * std::abs(want));
  const auto pulled = vjp(f, Array(0.1)).second(Array(HostArray::scalar(1.0)));
  EXPECT_NEAR(std::get<0>(pulled).item<double>(), want, 1e-15 * std::abs(want));
  const auto wide = [&](const Array& a) { return sum(a * 0.1 + Array(0.2) * a); };
  EXPECT_EQ(bits(grad(wide)(x)), bits(jit(grad(wide))(x)));
  EXPECT_EQ(jacfwd(f)(Array(0.1)).dtype(), float64);
  EXPECT_EQ(jacrev(f)(Array(0.1)).dtype(), float32);
}

TEST(Scalars, CrossMapsAndCustomRules) {
  ClientScope eight(Client::cpu({.devices = 8}));
  const Mesh mesh = make_mesh({4}, {"x"});
  const Array x = data(), s(0.1);
  const std::string want = bits(x * s);
  const auto f = [](const Array& a, const Array& b) { return a * b; };
  expect_same(shard_map(f, mesh, SpecTree{P("x"), P()}, P("x"))(x, s), want, "shard_map");
  expect_same(device_put(x, NamedSharding(mesh, P("x"))) * device_put(s, NamedSharding(mesh, P())), want, "sharded");
  const auto custom = custom_vjp(
      f, [&](const Array& a, const Array& b) { return std::pair(f(a, b), std::pair(a, b)); },
      [](const std::pair<Array, Array>& kept, const Array& ct) {
        return std::tuple(ct * kept.second, astype(sum(ct * kept.first), float32));
      });
  expect_same(custom(x, s), want, "custom_vjp");
  expect_same(grad([&](const Array& a) { return sum(custom(a, s)); })(x), bits(0.1 * ones_like(x)),
              "custom_vjp's rule");
  const auto mapped = pmap(f, {.in_axes = {0, none}});
  expect_same(ravel(mapped(reshape(x, {4, 1}), s)), want, "pmap");
}

TEST(Scalars, OtherKinds) {
  const std::int64_t odd = (std::int64_t{1} << 53) + 1;
  const Array i = Array(HostArray::from(std::vector<std::int64_t>{1, 2}));
  const auto add_to = [](const Array& a, const Array& b) { return a + b; };
  EXPECT_EQ(jit(add_to)(i, Array(odd)).to_vector<std::int64_t>(), (std::vector<std::int64_t>{odd + 1, odd + 2}));
  EXPECT_EQ(device_put(Array(odd)).item<std::int64_t>(), odd);
  const complex128_t z(0.1, 1e-300);
  const Array c = Array(HostArray::from(std::vector<complex128_t>{{1, 2}}));
  EXPECT_EQ(bits(jit(add_to)(c, weak_scalar(z))), bits(c + weak_scalar(z)));
  EXPECT_EQ((c + weak_scalar(z)).to_vector<complex128_t>()[0], complex128_t(1.1, 2));
  // One rounding from all digits, not by way of float32.
  const Array half = ones({1}, bfloat16);
  const double tie = 1 + std::ldexp(1, -8) + std::ldexp(1, -40);
  EXPECT_EQ(bits(half * tie), bits(jit(add_to)(half * 0, Array(tie))));
  EXPECT_EQ(static_cast<float>((half * tie).to_vector<bfloat16_t>()[0]), 1.0078125F);
}

TEST(Scalars, CarriesSettle) {
  const auto to_float = fori_loop(
      0, 2, [](const Array&, const Array& c) { return c + 0.1; }, Array(0));
  EXPECT_EQ(to_float.dtype(), float32);
  EXPECT_EQ(to_float.item<double>(), 0.1 + 0.1);
  const auto to_wide = fori_loop(
      0, 2, [](const Array&, const Array& c) { return c + astype(Array(0.1), float64); }, Array(0.1));
  EXPECT_EQ(to_wide.dtype(), float64);
  EXPECT_EQ(to_wide.item<double>(), 0.1 + 0.1 + 0.1);
  EXPECT_THROW(fori_loop(
                   0, 2, [](const Array&, const Array&) { return Array(1); }, Array(0.5)),
               TypeError);
  EXPECT_THROW(fori_loop(
                   0, 2, [](const Array&, const Array&) { return Array(300); }, ones({}, int8)),
               TypeError);
}

TEST(Scalars, QuantilesOfWideData) {
  const Array x = Array(HostArray::from(std::vector<double>{0.1, 0.2, 0.7, 1.1}));
  const double want = 0.1 * (1 - 0.1 * 3) + 0.2 * (0.1 * 3);
  for (const Array& y : {quantile(x, 0.1), percentile(x, 10), nanquantile(x, 0.1), nanpercentile(x, 10.0),
                         jit([](const Array&a, const Array&q) { return quantile(a, q); })(x, Array(0.1)),
                         quantile(x, Array(HostArray::scalar(0.1)))}) {
    EXPECT_EQ(y.dtype(), float64);
    EXPECT_NEAR(y.item<double>(), want, 1e-16);
  }
  EXPECT_NEAR(median(x).item<double>(), 0.45, 1e-16);
}

TEST(Scalars, IntegersThatDoNotFit) {
  const Array i32 = ones({1}, int32), i8 = ones({2}, int8), u8 = ones({2}, uint8);
  EXPECT_THROW(i32 * 3000000000L, ValueError);
  EXPECT_THROW(jit([](const Array& a, const Array& b) { return a * b; })(i32, Array(3000000000L)), ValueError);
  EXPECT_THROW(i8 + 300, ValueError);
  EXPECT_THROW(u8 * -1, ValueError);
  EXPECT_THROW(where(i8 > 0, i8, 300), ValueError);
  EXPECT_THROW(full({2}, 300, int8), ValueError);
  EXPECT_THROW(full({2}, -1, uint8), ValueError);
  EXPECT_THROW(full_like(i8, 300), ValueError);
  EXPECT_THROW(at(i8, {0}).set(300), ValueError);
  EXPECT_THROW(at(u8, {0}).add(-1), ValueError);
  EXPECT_THROW(clip(i8, -300, 300), ValueError);
  EXPECT_THROW(asarray(300, int8), ValueError);
  try {
    i32 * 3000000000L;
  } catch (const ValueError& e) {
    EXPECT_TRUE(std::string(e.what()).starts_with(
        "multiply: the integer 3000000000 does not fit int32 (-2147483648..2147483647), the dtype that it takes here; "
        "use a wider dtype, or astype, which wraps"))
        << e.what();
  }
  EXPECT_EQ(astype(Array(300), int8).item<std::int8_t>(), 44);
  // Comparisons have an answer all the same.
  EXPECT_TRUE(all(i8 < 300).item<bool>());
  EXPECT_TRUE(all(300 > i8).item<bool>());
  EXPECT_FALSE(any(i8 == 300).item<bool>());
  EXPECT_TRUE(all(u8 > -1).item<bool>());
  EXPECT_TRUE(all(u8 != -1).item<bool>());
  EXPECT_FALSE(any(i32 >= 3000000000L).item<bool>());
  // Floats are cut off at the dtype's range, and NaN is 0.
  EXPECT_EQ(full({}, 1e20, int32).item<std::int32_t>(), INT32_MAX);
  EXPECT_EQ(full({}, -1.5, uint8).item<std::uint8_t>(), 0);
  EXPECT_EQ(full({}, std::nan(""), int32).item<std::int32_t>(), 0);
}

}  // namespace

}  // namespace tessera
