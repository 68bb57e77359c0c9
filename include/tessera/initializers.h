// SPDX-License-Identifier: Apache-2.0
// Initial values of parameters, as jax.nn.initializers: what these return is called with a key, a shape and a dtype.
//
//   Array w = nn::initializers::he_normal()(random::key(0), {128, 64});
#pragma once

#include <functional>
#include <string>

#include "tessera/array.h"
#include "tessera/sharding_arg.h"

namespace tessera::nn::initializers {

/// Gives the same values as JAX's for the same key; random ones need a float dtype.
class Initializer {
 public:
  using Function = std::function<Array(const Array& key, const Shape& shape, DType dtype)>;
  explicit Initializer(Function f) : f_(std::move(f)) {}
  /// The initial value of a parameter.
  Array operator()(const Array& key, const Shape& shape, DType dtype = float32, const Loc& = Loc::current()) const {
    return f_(key, shape, dtype);
  }
  /// The same, placed as `options.out_sharding`.
  Array operator()(const Array& key, const Shape& shape, DType dtype, const PlaceOptions& options,
                   const Loc& = Loc::current()) const;

 private:
  Function f_;
};

/// Zeros; the key is ignored.
Initializer zeros();
/// Ones; the key is ignored.
Initializer ones();
/// `value` everywhere; the key is ignored.
Initializer constant(double value, const Loc& loc = Loc::current());
/// Uniform in [0, scale).
Initializer uniform(double scale = 1e-2, const Loc& loc = Loc::current());
/// Normal with mean 0 and this standard deviation.
Initializer normal(double stddev = 1e-2, const Loc& loc = Loc::current());
/// Standard normal values within (lower, upper), times stddev.
Initializer truncated_normal(double stddev = 1e-2, double lower = -2, double upper = 2,
                             const Loc& loc = Loc::current());

/// Which axes of a weight are inputs, outputs, and neither; the rest is the receptive field of a convolution.
struct FanAxes {
  Dims in_axis = {-2};
  Dims out_axis = {-1};
  Dims batch_axis = {};
};
/// Which fan the scale follows from.
enum class FanMode { fan_in, fan_out, fan_avg, fan_geo_avg };
/// From which the weights are drawn.
enum class FanDistribution { truncated_normal, normal, uniform };
/// Values of variance scale / fan, where `mode` selects the fan. Throws `IndexError` for an axis out of range, so for a
/// vector without `in_axis`.
Initializer variance_scaling(double scale, FanMode mode, FanDistribution distribution, const FanAxes& axes = {},
                             const Loc& loc = Loc::current());
/// Uniform with variance 2 / (fan_in + fan_out) (Glorot and Bengio, 2010).
Initializer glorot_uniform(const FanAxes& axes = {}, const Loc& loc = Loc::current());
/// Truncated normal with variance 2 / (fan_in + fan_out).
Initializer glorot_normal(const FanAxes& axes = {}, const Loc& loc = Loc::current());
/// `glorot_uniform`.
inline Initializer xavier_uniform(const FanAxes& axes = {}, const Loc& = Loc::current()) {
  return glorot_uniform(axes);
}
/// `glorot_normal`.
inline Initializer xavier_normal(const FanAxes& axes = {}, const Loc& = Loc::current()) { return glorot_normal(axes); }
/// Uniform with variance 1 / fan_in (LeCun et al., 1998).
Initializer lecun_uniform(const FanAxes& axes = {}, const Loc& loc = Loc::current());
/// Truncated normal with variance 1 / fan_in.
Initializer lecun_normal(const FanAxes& axes = {}, const Loc& loc = Loc::current());
/// Uniform with variance 2 / fan_in (He et al., 2015).
Initializer he_uniform(const FanAxes& axes = {}, const Loc& loc = Loc::current());
/// Truncated normal with variance 2 / fan_in.
Initializer he_normal(const FanAxes& axes = {}, const Loc& loc = Loc::current());
/// `he_uniform`.
inline Initializer kaiming_uniform(const FanAxes& axes = {}, const Loc& = Loc::current()) { return he_uniform(axes); }
/// `he_normal`.
inline Initializer kaiming_normal(const FanAxes& axes = {}, const Loc& = Loc::current()) { return he_normal(axes); }

/// Uniformly distributed orthogonal matrices, or orthonormal rows or columns, with `column_axis` as the columns. Throws
/// `ValueError` below rank 2.
Initializer orthogonal(double scale = 1, std::int64_t column_axis = -1, const Loc& loc = Loc::current());
/// Kernels of convolutions (spatial dimensions, in, out) that are an orthogonal matrix in the middle and zero elsewhere
/// (Xiao et al., 2018). Throws `ValueError` unless of rank 3 to 5 with in <= out.
Initializer delta_orthogonal(double scale = 1, std::int64_t column_axis = -1, const Loc& loc = Loc::current());

}  // namespace tessera::nn::initializers
