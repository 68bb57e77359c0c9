// SPDX-License-Identifier: Apache-2.0
// The verification mode as users meet it.
#include <gtest/gtest.h>

#include <atomic>

#include "tessera/tessera.h"

namespace tessera {
namespace {

// A function that is wrong where the program itself runs and where its cause is looked for, and right in the
// repetitions: calls 1 and 11, with eight runs in between that move last places.
auto wrong_at_times(std::shared_ptr<std::atomic<int>> calls) {
  return [calls](const std::vector<HostArray>& in) {
    HostArray out(DType::F32, in[0].shape());
    auto x = in[0].span<float>();
    auto y = out.span<float>();
    int n = ++*calls;
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = i == 2 && (n == 1 || n == 11) ? x[i] + 1 : x[i];
    return std::vector<HostArray>{out};
  };
}

TEST(ApiVerify, NamesTheOperationWhoseResultsDiffer) {
  ClientScope scope(Client::cpu({.devices = 2}));
  ConfigScope verify(&Config::verify, true);
  auto calls = std::make_shared<std::atomic<int>>(0);
  auto f = jit([&](Array x) { return exp(pure_callback(wrong_at_times(calls), {{.shape = {4}}}, {x * 2})[0]) + 1; });
  std::string message;
  try {
    f(ones({4})).host();
  } catch (const VerificationError& e) {
    message = e.what();
  }
  EXPECT_NE(message.find("element [2]"), std::string::npos) << message;
  EXPECT_NE(message.find("first at pure_callback at"), std::string::npos) << message;
  EXPECT_NE(message.find("api_test_verify.cc:"), std::string::npos) << message;
}

// Where a choice hangs on a last place, another partition may take the other side: no error. What no rounding moves is
// still compared.
TEST(ApiVerify, ChoicesThatHangOnALastPlace) {
  ClientScope scope(Client::cpu({.devices = 8}));
  ConfigScope verify(&Config::verify, true);
  Mesh mesh = make_mesh({8}, {"x"});
  auto x = device_put(random::uniform(random::key(1), {64, 40}), NamedSharding(mesh, P("x")));
  auto f = jit([](Array a) {
    Array means = mean(a, 0);
    Array sums = sum(a, 0) / 64;
    return std::pair{floor(means * 1e7f), argmax(sums == means, 0)};
  });
  for (int i = 0; i < 5; ++i) EXPECT_EQ(f(x + i).first.shape(), (Shape{40}));
}

TEST(ApiVerify, DonatedArgumentsAndLoops) {
  ClientScope scope(Client::cpu({.devices = 4}));
  ConfigScope verify(&Config::verify, true);
  Mesh mesh = make_mesh({4}, {"x"});
  auto f = jit(
      [](Array a) {
        return fori_loop(
            0, 5,
            [](Array, Array v) {
              Array m = mean(v, {.axis = Dims{1}, .keepdims = true});
              return (v - m) / (1 + std_(v, {.axis = 1, .keepdims = true}));
            },
            a);
      },
      {.donate_argnums = {0}});
  auto x = device_put(reshape(arange(48.0), {8, 6}), NamedSharding(mesh, P("x")));
  EXPECT_EQ(f(x).shape(), (Shape{8, 6}));
}

}  // namespace
}  // namespace tessera
