// SPDX-License-Identifier: Apache-2.0
#include "tessera/initializers.h"

#include <cmath>

#include "base/strings.h"
#include "tessera/error.h"
#include "tessera/indexing.h"
#include "tessera/lax.h"
#include "tessera/numpy.h"
#include "tessera/ops.h"
#include "tessera/random.h"

namespace tessera::nn::initializers {

namespace {

Array scaled(const Array& numbers, double by) { return numbers * full({}, by, numbers.dtype()); }

double extent(const char* name, const Shape& shape, const Dims& axes) {
  double size = 1;
  for (std::int64_t axis : axes) {
    std::int64_t at = axis < 0 ? axis + rank(shape) : axis;
    if (at < 0 || at >= rank(shape))
      throw IndexError(str("variance_scaling: ", name, " ", axis, " of a weight of shape ", shape,
                           "; expected an axis of it (name the axes of a weight that is no matrix)"));
    size *= static_cast<double>(shape[static_cast<std::size_t>(at)]);
  }
  return size;
}

double fan(const Shape& shape, FanMode mode, const FanAxes& axes) {
  double in = extent("in_axis", shape, axes.in_axis);
  double out = extent("out_axis", shape, axes.out_axis);
  double field = static_cast<double>(size_of(shape)) / in / out / extent("batch_axis", shape, axes.batch_axis);
  in *= field;
  out *= field;
  switch (mode) {
    case FanMode::fan_in:
      return in;
    case FanMode::fan_out:
      return out;
    case FanMode::fan_avg:
      return (in + out) / 2;
    case FanMode::fan_geo_avg:
      return std::sqrt(in * out);
  }
  throw ValueError("variance_scaling: mode is none of FanMode");
}

Array orthogonal_matrix(const Array& key, const Shape& shape, DType dtype, double scale, std::int64_t column_axis) {
  std::int64_t n = rank(shape);
  if (n < 2) throw ValueError(str("orthogonal: shape ", shape, "; expected two dimensions or more"));
  std::int64_t at = column_axis < 0 ? column_axis + n : column_axis;
  if (at < 0 || at >= n) throw IndexError(str("orthogonal: column_axis ", column_axis, " of shape ", shape));
  if (size_of(shape) == 0) return tessera::zeros(shape, dtype);
  std::int64_t columns = shape[static_cast<std::size_t>(at)];
  Array q = random::orthogonal(key, size_of(shape) / columns, {}, dtype, columns);
  Shape moved = shape;
  moved.erase(moved.begin() + at);
  moved.push_back(columns);
  return scaled(moveaxis(reshape(q, moved), Dims{-1}, Dims{at}), scale);
}

}  // namespace

Initializer zeros() {
  return Initializer([](const Array&, const Shape& shape, DType dtype) { return tessera::zeros(shape, dtype); });
}
Initializer ones() {
  return Initializer([](const Array&, const Shape& shape, DType dtype) { return tessera::ones(shape, dtype); });
}
Initializer constant(double value, const Loc&) {
  return Initializer([=](const Array&, const Shape& shape, DType dtype) { return full(shape, value, dtype); });
}
Initializer uniform(double scale, const Loc&) {
  return Initializer([=](const Array& key, const Shape& shape, DType dtype) {
    return scaled(random::uniform(key, shape, dtype), scale);
  });
}
Initializer normal(double stddev, const Loc&) {
  return Initializer([=](const Array& key, const Shape& shape, DType dtype) {
    return scaled(random::normal(key, shape, dtype), stddev);
  });
}
Initializer truncated_normal(double stddev, double lower, double upper, const Loc&) {
  return Initializer([=](const Array& key, const Shape& shape, DType dtype) {
    return scaled(random::truncated_normal(key, lower, upper, shape, dtype), stddev);
  });
}

Initializer variance_scaling(double scale, FanMode mode, FanDistribution distribution, const FanAxes& axes,
                             const Loc&) {
  return Initializer([=](const Array& key, const Shape& shape, DType dtype) {
    double variance = scale / fan(shape, mode, axes);
    switch (distribution) {
      case FanDistribution::truncated_normal:
        // Divided by the deviation of a standard normal number within (-2, 2).
        return scaled(random::truncated_normal(key, -2.0, 2.0, shape, dtype),
                      std::sqrt(variance) / 0.87962566103423978);
      case FanDistribution::normal:
        return scaled(random::normal(key, shape, dtype), std::sqrt(variance));
      case FanDistribution::uniform:
        return scaled(random::uniform(key, shape, dtype, -1.0), std::sqrt(3 * variance));
    }
    throw ValueError("variance_scaling: distribution is none of FanDistribution");
  });
}
Initializer glorot_uniform(const FanAxes& axes, const Loc&) {
  return variance_scaling(1, FanMode::fan_avg, FanDistribution::uniform, axes);
}
Initializer glorot_normal(const FanAxes& axes, const Loc&) {
  return variance_scaling(1, FanMode::fan_avg, FanDistribution::truncated_normal, axes);
}
Initializer lecun_uniform(const FanAxes& axes, const Loc&) {
  return variance_scaling(1, FanMode::fan_in, FanDistribution::uniform, axes);
}
Initializer lecun_normal(const FanAxes& axes, const Loc&) {
  return variance_scaling(1, FanMode::fan_in, FanDistribution::truncated_normal, axes);
}
Initializer he_uniform(const FanAxes& axes, const Loc&) {
  return variance_scaling(2, FanMode::fan_in, FanDistribution::uniform, axes);
}
Initializer he_normal(const FanAxes& axes, const Loc&) {
  return variance_scaling(2, FanMode::fan_in, FanDistribution::truncated_normal, axes);
}

Initializer orthogonal(double scale, std::int64_t column_axis, const Loc&) {
  return Initializer([=](const Array& key, const Shape& shape, DType dtype) {
    return orthogonal_matrix(key, shape, dtype, scale, column_axis);
  });
}
Initializer delta_orthogonal(double scale, std::int64_t column_axis, const Loc&) {
  return Initializer([=](const Array& key, const Shape& shape, DType dtype) {
    std::int64_t n = rank(shape);
    if (n < 3 || n > 5) throw ValueError(str("delta_orthogonal: shape ", shape, "; expected three to five dimensions"));
    Shape matrix(shape.end() - 2, shape.end());
    if (matrix[1] < matrix[0])
      throw ValueError(str("delta_orthogonal: shape ", shape, "; expected no more inputs than outputs"));
    Array middle = orthogonal_matrix(key, matrix, dtype, scale, column_axis);
    std::vector<lax::PadDim> around;
    Shape wide = matrix;
    for (std::int64_t i = n - 3; i >= 0; --i) {
      std::int64_t k = shape[static_cast<std::size_t>(i)];
      around.insert(around.begin(), {(k - 1) / 2, k - 1 - (k - 1) / 2, 0});
      wide.insert(wide.begin(), 1);
    }
    around.resize(static_cast<std::size_t>(n));
    return lax::pad(reshape(middle, wide), full({}, 0.0, dtype), around);
  });
}

}  // namespace tessera::nn::initializers
