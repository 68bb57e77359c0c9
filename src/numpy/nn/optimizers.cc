// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <numbers>

#include "program/composite.h"
#include "tessera/error.h"
#include "tessera/optim.h"

namespace tessera::optim {

namespace detail {

Array bias_correction(double beta, const Array& step, DType dtype) {
  const DType t = real_dtype(dtype) == DType::F64 ? DType::F64 : DType::F32;
  const Array c = -expm1(astype(step, t) * std::log(beta));
  return dtype_size(dtype) < 4 ? astype(c, dtype) : c;
}

Array global_norm(const std::vector<Array>& leaves) {
  Array total;
  for (const auto& x : leaves) {
    const Array squares = sum(is_complex(x.dtype()) ? square(real(x)) + square(imag(x)) : square(x));
    total = total.defined() ? total + squares : squares;
  }
  return total.defined() ? sqrt(total) : zeros({});
}

Array clip_to_norm(const Array& x, const Array& norm, const Operand& max_norm) {
  const Array scaled = x / astype(norm, real_dtype(x.dtype())) * max_norm;
  return where(norm < max_norm, x, astype(scaled, x.dtype()));
}

}  // namespace detail

namespace {

// The step as a scalar with float64's digits, from which a rate has them too.
Array counter(const Operand& step) {
  const Array& s = step.array();
  if (s.ndim() != 0) throw ValueError(str("schedule: step has shape ", s.shape(), "; expected rank 0"));
  return program::cast_exactly(s, DType::F64, true, step.loc());
}

Schedule scheduled(std::function<Array(const Array&)> f) {
  return [f = std::move(f)](const Operand& step) {
    return program::composite("schedule", {Operand(counter(step), step.loc())},
                              [&](const program::Arrays& v) { return f(v[0]); });
  };
}

}  // namespace

Schedule constant_schedule(double value) {
  return [value](const Operand&) { return Array(value); };
}

Schedule polynomial_schedule(double init_value, double end_value, double power, std::int64_t transition_steps,
                             std::int64_t transition_begin) {
  if (transition_steps <= 0) return constant_schedule(init_value);
  const auto begin = static_cast<double>(std::max<std::int64_t>(transition_begin, 0));
  const auto steps = static_cast<double>(transition_steps);
  return scheduled([=](const Array& step) {
    const Array share = 1.0 - clip(step - begin, 0.0, steps) / steps;
    return (init_value - end_value) * tessera::power(share, power) + end_value;
  });
}

Schedule linear_schedule(double init_value, double end_value, std::int64_t transition_steps,
                         std::int64_t transition_begin) {
  return polynomial_schedule(init_value, end_value, 1, transition_steps, transition_begin);
}

Schedule piecewise_constant_schedule(double init_value, const std::map<std::int64_t, double>& boundaries_and_scales) {
  for (const auto& [boundary, scale] : boundaries_and_scales) {
    if (scale < 0) {
      throw ValueError(
          str("piecewise_constant_schedule: the factor at step ", boundary, " is ", scale, "; expected 0 or more"));
    }
  }
  return scheduled([=](const Array& step) {
    Array rate(init_value);
    for (const auto& [boundary, scale] : boundaries_and_scales) {
      rate = where(step < static_cast<double>(boundary), rate, rate * scale);
    }
    return rate;
  });
}

Schedule exponential_decay(double init_value, std::int64_t transition_steps, double decay_rate,
                           const ExponentialDecayOptions& o) {
  if (transition_steps <= 0 || decay_rate == 0) return constant_schedule(init_value);
  const auto begin = static_cast<double>(std::max<std::int64_t>(o.transition_begin, 0));
  return scheduled([=](const Array& step) {
    const Array since = step - begin;
    Array share = since / static_cast<double>(transition_steps);
    if (o.staircase) share = floor(share);
    Array rate = where(since <= 0.0, init_value, init_value * power(decay_rate, share));
    if (!o.end_value) return rate;
    return decay_rate < 1 ? maximum(rate, *o.end_value) : minimum(rate, *o.end_value);
  });
}

Schedule cosine_decay_schedule(double init_value, std::int64_t decay_steps, double alpha, double exponent) {
  if (decay_steps <= 0)
    throw ValueError(str("cosine_decay_schedule: decay_steps = ", decay_steps, "; expected a positive count"));
  const auto steps = static_cast<double>(decay_steps);
  return scheduled([=](const Array& step) {
    const Array cosine = 0.5 * (1.0 + cos(std::numbers::pi * (minimum(step, steps) / steps)));
    return init_value * ((1 - alpha) * power(cosine, exponent) + alpha);
  });
}

Schedule join_schedules(const std::vector<Schedule>& schedules, const std::vector<std::int64_t>& boundaries) {
  if (schedules.empty() || schedules.size() != boundaries.size() + 1) {
    throw ValueError(str("join_schedules: ", schedules.size(), " schedules and ", boundaries.size(),
                         " boundaries; expected one boundary fewer than schedules"));
  }
  return scheduled([=](const Array& step) {
    Array rate = schedules[0](step);
    for (std::size_t i = 0; i < boundaries.size(); ++i) {
      const auto boundary = static_cast<double>(boundaries[i]);
      rate = where(step < boundary, rate, schedules[i + 1](step - boundary));
    }
    return rate;
  });
}

Schedule warmup_constant_schedule(double init_value, double peak_value, std::int64_t warmup_steps) {
  return linear_schedule(init_value, peak_value, warmup_steps);
}
Schedule warmup_cosine_decay_schedule(double init_value, double peak_value, std::int64_t warmup_steps,
                                      std::int64_t decay_steps, double end_value, double exponent) {
  if (decay_steps <= warmup_steps) {
    throw ValueError(str("warmup_cosine_decay_schedule: decay_steps = ", decay_steps, ", warmup_steps = ", warmup_steps,
                         "; expected decay_steps, which counts the warm-up too, to be more than warmup_steps "
                         "(warmup_constant_schedule has no decay)"));
  }
  const double alpha = peak_value == 0 ? 0 : end_value / peak_value;
  return join_schedules({linear_schedule(init_value, peak_value, warmup_steps),
                         cosine_decay_schedule(peak_value, decay_steps - warmup_steps, alpha, exponent)},
                        {warmup_steps});
}
Schedule warmup_exponential_decay_schedule(double init_value, double peak_value, std::int64_t warmup_steps,
                                           std::int64_t transition_steps, double decay_rate,
                                           const ExponentialDecayOptions& o) {
  return join_schedules({linear_schedule(init_value, peak_value, warmup_steps),
                         exponential_decay(peak_value, transition_steps, decay_rate, o)},
                        {warmup_steps});
}

}  // namespace tessera::optim
