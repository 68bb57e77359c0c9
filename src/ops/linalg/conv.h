// SPDX-License-Identifier: Apache-2.0
// conv_general_dilated: https://openxla.org/stablehlo/spec#convolution, numbered as jax.lax.ConvDimensionNumbers.
#pragma once

#include "ir/attrs.h"
#include "ops/ops.h"
#include "ops/shared_attrs.h"

namespace tessera::ops {

using ir::field;

/// Operands: inputs and kernels of one dtype. Lists other than the three specs have one entry a spatial dimension.
struct Conv {
  Dims strides, pad_low, pad_high;  ///< padding may be negative
  Dims lhs_dilation, rhs_dilation;
  Dims lhs_spec;  ///< dimensions of the inputs: batch, features, spatial ones
  Dims rhs_spec;  ///< dimensions of the kernels: output features, input features, spatial ones
  Dims out_spec;  ///< dimensions of the result: batch, features, spatial ones
  std::int64_t feature_groups = 1;
  std::int64_t batch_groups = 1;
  std::optional<DType> preferred = std::nullopt;  ///< of the result, when not that of the operands
  Precision precision = Precision::Default;
  static constexpr auto fields = std::tuple{field("strides", &Conv::strides),
                                            field("pad_low", &Conv::pad_low),
                                            field("pad_high", &Conv::pad_high),
                                            field("lhs_dilation", &Conv::lhs_dilation),
                                            field("rhs_dilation", &Conv::rhs_dilation),
                                            field("lhs_spec", &Conv::lhs_spec),
                                            field("rhs_spec", &Conv::rhs_spec),
                                            field("out_spec", &Conv::out_spec),
                                            field("feature_groups", &Conv::feature_groups),
                                            field("batch_groups", &Conv::batch_groups),
                                            field("preferred", &Conv::preferred),
                                            field("precision", &Conv::precision)};
};

Value conv_general_dilated(Value lhs, Value rhs, const Conv& p);

}  // namespace tessera::ops
