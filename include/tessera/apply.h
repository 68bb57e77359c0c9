// SPDX-License-Identifier: Apache-2.0
// NumPy's functions that take functions.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "tessera/array.h"
#include "tessera/operand.h"

namespace tessera {

/// f of every vector of x along `axis`; the dimensions of its result take the place of the axis. f runs once, on
/// tracers
/// (`vmap`).
Array apply_along_axis(const std::function<Array(const Array&)>& f, std::int64_t axis, const Operand& x);
/// f(f(x, axes[0]), axes[1]) and so on; an axis that f removes comes back with extent 1. Throws `ValueError` where the
/// rank changes otherwise.
Array apply_over_axes(const std::function<Array(const Array&, std::int64_t)>& f, const Operand& x, const Dims& axes);

/// What `piecewise` computes where one condition holds: a scalar, or an element-wise function.
class Piece {
 public:
  // NOLINTBEGIN(google-explicit-constructor): scalars and functions convert
  Piece(double value) : value_(value) {}
  template <class F>
  requires(!std::same_as<F, Array> && std::convertible_to<F, std::function<Array(const Array&)>>) Piece(F f)
      : f_(std::move(f)) {}
  // NOLINTEND(google-explicit-constructor)
  const std::function<Array(const Array&)>& function() const { return f_; }  ///< empty for a scalar
  double value() const { return value_; }

 private:
  std::function<Array(const Array&)> f_;
  double value_ = 0;
};
/// numpy.piecewise: element-wise the function (or scalar) of the last condition that holds; where none holds, the one
/// more function that may follow, else 0. The result has x's dtype. Throws `ValueError` unless there are as many
/// functions as conditions or one more.
Array piecewise(const Operand& x, const std::vector<Array>& conditions, const std::vector<Piece>& functions);

}  // namespace tessera
