// SPDX-License-Identifier: Apache-2.0
// Optimisers in the precision of their parameters; gradient clipping; schedules against optax's formulas.
#include <gtest/gtest.h>

#include <numbers>

#include "tessera/tessera.h"

namespace tessera {

namespace {

Array doubles(const std::vector<double>& v) { return Array(HostArray::from(v)); }

TEST(Optim, AdamOfFloat64HasItsDigits) {
  const double rate = 0.1, b1 = 0.9, b2 = 0.999, epsilon = 1e-8;
  double w = 0.3, m = 0, v = 0;
  Array p = doubles({w});
  auto state = optim::adam_init(p);
  const auto step = jit([](const Array& q, const optim::AdamState<Array>& s) {
    return optim::adam(q, 2.0 * q * 0.7, s, {.learning_rate = 0.1});
  });
  for (int t = 1; t <= 25; ++t) {
    const double g = 2.0 * w * 0.7;
    m = b1 * m + (1 - b1) * g;
    v = b2 * v + (1 - b2) * (g * g);
    w -= rate * (m / -std::expm1(t * std::log(b1))) / (std::sqrt(v / -std::expm1(t * std::log(b2))) + epsilon);
    std::tie(p, state) = t % 2 == 0 ? step(p, state) : optim::adam(p, 2.0 * p * 0.7, state, {.learning_rate = 0.1});
    ASSERT_EQ(p.dtype(), float64);
    ASSERT_NEAR(p.item<double>(), w, 1e-14) << "step " << t;
  }
}

TEST(Optim, LeavesKeepTheirDtype) {
  for (DType t : {bfloat16, float16, float32, float64}) {
    const Array p = ones({2}, t);
    const auto [q, s] = optim::adam(p, p, optim::adam_init(p), {.weight_decay = 0.01});
    EXPECT_EQ(q.dtype(), t);
    EXPECT_EQ(s.m.dtype(), t);
    EXPECT_EQ(s.v.dtype(), t);
    const auto [r, u] = optim::sgd(p, p, optim::sgd_init(p), {.learning_rate = optim::constant_schedule(0.5)(3)});
    EXPECT_EQ(r.dtype(), t);
    EXPECT_EQ(u.dtype(), t);
  }
}

TEST(Optim, Clipping) {
  const std::vector<Array> g{doubles({3, 0}), doubles({-4})};
  EXPECT_EQ(optim::global_norm(g).item<double>(), 5);
  const auto global = optim::clip_by_global_norm(g, 1.0);
  EXPECT_NEAR(index(global[0], {0}).item<double>(), 0.6, 1e-16);
  EXPECT_NEAR(global[1].item<double>(), -0.8, 1e-16);
  EXPECT_EQ(optim::clip_by_global_norm(g, 6.0)[1].item<double>(), -4);
  EXPECT_EQ(optim::clip_by_norm(g, 3.5)[0].to_vector<double>(), (std::vector<double>{3, 0}));
  EXPECT_EQ(optim::clip_by_norm(g, 3.5)[1].item<double>(), -3.5);
  EXPECT_EQ(optim::clip_by_value(g, 3.5)[1].item<double>(), -3.5);
  EXPECT_EQ(optim::clip_by_global_norm(ones({4}, bfloat16), 1.0).dtype(), bfloat16);
  EXPECT_EQ(jit([](const std::vector<Array>& x) { return optim::clip_by_global_norm(x, 6.0); })(g)[1].item<double>(),
            -4);
}

/// A schedule against a formula, eagerly, by a counter under jit, and beside float64.
void check(const optim::Schedule& schedule, const std::function<double(double)>& want) {
  const auto jitted = jit([&](const Array& i) { return schedule(i); });
  const auto beside = jit([&](const Array& i, const Array& x) { return x * schedule(i); });
  for (int i : {0, 1, 3, 9, 10, 11, 24, 25, 26, 99, 100, 150}) {
    const double w = want(i);
    const Array step(HostArray::scalar(std::int32_t{i}));
    EXPECT_NEAR(schedule(i).item<double>(), w, 1e-15 * std::abs(w)) << i;
    EXPECT_EQ(schedule(step).dtype(), float32);
    EXPECT_EQ(jitted(step).item<float>(), static_cast<float>(schedule(i).item<double>())) << i;
    EXPECT_NEAR(beside(step, doubles({1})).item<double>(), w, 1e-15 * std::abs(w)) << i;
  }
}

TEST(Schedules, AreOptaxs) {
  check(optim::constant_schedule(0.1), [](double) { return 0.1; });
  check(optim::linear_schedule(0.1, 0.01, 20, 3),
        [](double i) { return (0.1 - 0.01) * (1 - std::clamp(i - 3, 0.0, 20.0) / 20) + 0.01; });
  check(optim::polynomial_schedule(0.1, 0.01, 2.5, 20),
        [](double i) { return (0.1 - 0.01) * std::pow(1 - std::clamp(i, 0.0, 20.0) / 20, 2.5) + 0.01; });
  check(optim::piecewise_constant_schedule(0.3, {{10, 0.5}, {25, 0.1}}), [](double i) {
    return i < 10 ? 0.3 : i < 25 ? 0.3 * 0.5 : 0.3 * 0.5 * 0.1;
  });
  check(optim::exponential_decay(0.3, 7, 0.9), [](double i) { return i <= 0 ? 0.3 : 0.3 * std::pow(0.9, i / 7); });
  check(optim::exponential_decay(0.3, 7, 0.9, {.transition_begin = 2, .staircase = true, .end_value = 0.2}),
        [](double i) { return std::max(i <= 2 ? 0.3 : 0.3 * std::pow(0.9, std::floor((i - 2) / 7)), 0.2); });
  const auto cosine = [](double i, double peak, double steps, double alpha) {
    const double c = 0.5 * (1 + std::cos(std::numbers::pi * (std::min(i, steps) / steps)));
    return peak * ((1 - alpha) * c + alpha);
  };
  check(optim::cosine_decay_schedule(0.3, 100, 0.1), [&](double i) { return cosine(i, 0.3, 100, 0.1); });
  check(optim::warmup_cosine_decay_schedule(0.01, 0.3, 10, 100, 0.03),
        [&](double i) { return i < 10 ? (0.01 - 0.3) * (1 - i / 10) + 0.3 : cosine(i - 10, 0.3, 90, 0.1); });
  check(optim::warmup_constant_schedule(0.0, 0.3, 10),
        [](double i) { return (0.0 - 0.3) * (1 - std::min(i, 10.0) / 10) + 0.3; });
  check(optim::warmup_exponential_decay_schedule(0.0, 0.3, 10, 7, 0.9), [](double i) {
    return i < 10 ? (0.0 - 0.3) * (1 - i / 10) + 0.3 : i == 10 ? 0.3 : 0.3 * std::pow(0.9, (i - 10) / 7);
  });
  check(optim::join_schedules({optim::constant_schedule(1), optim::constant_schedule(2), optim::constant_schedule(3)},
                              {10, 25}),
        [](double i) { return i < 10   ? 1
                              : i < 25 ? 2
                                       : 3; });
  EXPECT_THROW(optim::cosine_decay_schedule(0.3, 0), ValueError);
  // The name and the counts that the caller wrote, not those of the schedules inside.
  for (std::int64_t decay_steps : {10, 9}) {
    try {
      optim::warmup_cosine_decay_schedule(0.01, 0.3, 10, decay_steps);
      ADD_FAILURE() << decay_steps;
    } catch (const ValueError& e) {
      const std::string want = "warmup_cosine_decay_schedule: decay_steps = " + std::to_string(decay_steps);
      EXPECT_NE(std::string(e.what()).find(want + ", warmup_steps = 10; expected"), std::string::npos) << e.what();
    }
  }
  EXPECT_NEAR(optim::warmup_cosine_decay_schedule(0.01, 0.3, 10, 11, 0.03)(Array(11)).item<float>(), 0.03, 1e-6);
  EXPECT_THROW(optim::join_schedules({optim::constant_schedule(1)}, {1}), ValueError);
  EXPECT_THROW(optim::piecewise_constant_schedule(0.3, {{1, -1}}), ValueError);
}

}  // namespace

}  // namespace tessera
