// SPDX-License-Identifier: Apache-2.0
// Convolutions of one, two, three or more spatial dims (none included), as XLA's conv_general_dilated defines them.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/dtype.h"

namespace tessera::kernels {

/// Which dim of an array is what. For the kernel, `batch` is the output feature and `feature` the input feature.
struct ConvDims {
  std::int64_t batch = 0, feature = 1;
  std::vector<std::int64_t> spatial;
};

struct ConvSpec {
  DType dtype = DType::F32;  // of operands and result
  std::vector<std::int64_t> lhs_shape, rhs_shape, out_shape;
  ConvDims lhs, rhs, out;
  // One entry a spatial dim.
  std::vector<std::int64_t> strides, pad_low, pad_high, lhs_dilation, rhs_dilation;
  std::int64_t feature_groups = 1, batch_groups = 1;
  /// Admits Winograd's algorithm, faster and less exact (errors of some 1e-5 of the largest term in f32).
  bool allow_winograd = false;
  /// Sums in an order that depends on the kernel's extents and features alone.
  bool fixed_order = false;
};

/// out[b, f, o] = sum over input features c and kernel positions k of
/// lhs[b, c, (o * stride - pad_low + k * rhs_dilation) / lhs_dilation] * rhs[f, c, k], where the position exists.
/// Contiguous arrays, row-major in the order of their shapes. Padding may be negative. Any dtype but Bool; f16 and bf16
/// are summed in f32. Shapes must agree with each other; nothing is checked here.
void conv(const ConvSpec& spec, const void* lhs, const void* rhs, void* out);

}  // namespace tessera::kernels
