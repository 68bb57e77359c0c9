// SPDX-License-Identifier: Apache-2.0
// sort and top_k.
#pragma once

#include "ir/attrs.h"
#include "ops/ops.h"

namespace tessera::ops {

using ir::field;

/// Operands of one shape are rearranged together along `dimension`, ascending by the first `num_keys` of them (the
/// first one decides, later ones break ties). NaN comes last; zeros of either sign are equal.
struct Sort {
  std::int64_t dimension = 0;
  std::int64_t num_keys = 1;
  bool stable = true;  ///< equal keys stay in order; engines may do so always
  static constexpr auto fields = std::tuple{field("dimension", &Sort::dimension), field("num_keys", &Sort::num_keys),
                                            field("stable", &Sort::stable)};
};

/// The `k` greatest along `dimension`, descending, and their places (i32). NaN is the greatest; of equal ones the
/// first.
struct TopK {
  std::int64_t k = 1;
  std::int64_t dimension = 0;
  static constexpr auto fields = std::tuple{field("k", &TopK::k), field("dimension", &TopK::dimension)};
};

/// Unsigned integers in the order of real keys: -0 is 0, NaN comes last, and no float's is 0.
Value ordered_keys(Value key);
/// Rule of `OpSpec::divide` for one line of real keys: each element is sent once.
std::optional<ir::Division> sort_by_exchange(Builder& b, const ir::DivideArgs& a, const Sort& p);

Values sort(ValueSpan operands, std::int64_t dimension, std::int64_t num_keys = 1, bool stable = true);
/// Values and places.
Values top_k(Value x, std::int64_t k, std::int64_t dimension);
/// Element `places` along `dimension`, at each position of `places` (i32, as many dimensions as x; no place twice).
Value take_along(Value x, Value places, std::int64_t dimension);

}  // namespace tessera::ops
