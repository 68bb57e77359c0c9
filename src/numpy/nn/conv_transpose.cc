// SPDX-License-Identifier: Apache-2.0
// Convolutions under jax.lax's shorter names.
#include "program/composite.h"
#include "tessera/lax.h"
#include "tessera/numpy.h"

namespace tessera::lax {

namespace {
std::vector<std::string> channels_first(std::int64_t rank) {
  const std::string spatial =
      std::string("012345").substr(0, static_cast<std::size_t>(std::max<std::int64_t>(0, rank - 2)));
  return {"NC" + spatial, "OI" + spatial, "NC" + spatial};
}
std::vector<std::string> channels_last(std::int64_t rank) {
  const std::string spatial = rank == 2 ? "" : rank == 3 ? "H" : rank == 4 ? "HW" : "HWD";
  if (rank < 2 || rank > 5) {
    throw ValueError(str("conv_transpose: rank ", rank, " without dimension_numbers; expected 2 to 5"));
  }
  return {"N" + spatial + "C", spatial + "IO", "N" + spatial + "C"};
}

// What a plain convolution of the dilated operand must be padded with.
PadDim transposed_padding(std::int64_t k, std::int64_t s, PadMode mode) {
  if (mode == PadMode::Same) {
    const std::int64_t total = k + s - 2;
    const std::int64_t low = s > k - 1 ? k - 1 : (total + 1) / 2;
    return {low, total - low, 0};
  }
  if (mode == PadMode::Valid) return {k - 1, s - 1 + std::max<std::int64_t>(k - s, 0), 0};
  throw ValueError("conv_transpose: pad_mode = SameLower; expected Same, Valid or Explicit");
}
}  // namespace

Array conv(const Operand& lhs, const Operand& rhs, const Dims& strides, PadMode mode) {
  ConvOptions o{.strides = strides, .pad_mode = mode};
  o.dimension_numbers = channels_first(lhs.array().ndim());
  return conv_general_dilated(lhs, rhs, o);
}
Array conv_with_general_padding(const Operand& lhs, const Operand& rhs, const Dims& strides,
                                const std::vector<PadDim>& padding, const Dims& lhs_dilation,
                                const Dims& rhs_dilation) {
  ConvOptions o{.strides = strides, .padding = padding, .lhs_dilation = lhs_dilation, .rhs_dilation = rhs_dilation};
  o.dimension_numbers = channels_first(lhs.array().ndim());
  return conv_general_dilated(lhs, rhs, o);
}
Array conv_transpose(const Operand& lhs, const Operand& rhs, const Dims& strides, const ConvTransposeOptions& o) {
  return program::composite("conv_transpose", {lhs, rhs}, [&](const std::vector<Array>& v) {
    ConvOptions plain{.padding = o.padding, .lhs_dilation = strides, .rhs_dilation = o.rhs_dilation};
    plain.dimension_numbers = o.dimension_numbers.empty() ? channels_last(v[0].ndim()) : o.dimension_numbers;
    const std::string& kernel = plain.dimension_numbers.at(1);
    Dims spatial;
    for (char c : plain.dimension_numbers[0]) {
      if (c != 'N' && c != 'C') spatial.push_back(static_cast<std::int64_t>(kernel.find(c)));
    }
    if (spatial.size() != strides.size()) {
      throw ValueError(str("conv_transpose: strides = ", strides, "; expected ", spatial.size(), " entries"));
    }
    for (std::size_t d = 0; d < spatial.size() && o.pad_mode != PadMode::Explicit; ++d) {
      const std::int64_t dilation = o.rhs_dilation.empty() ? 1 : o.rhs_dilation.at(d);
      const std::int64_t reach = (v[1].shape(spatial[d]) - 1) * dilation + 1;
      plain.padding.push_back(transposed_padding(reach, strides[d], o.pad_mode));
    }
    Array w = v[1];
    if (o.transpose_kernel) {
      w = swapaxes(rev(w, spatial), static_cast<std::int64_t>(kernel.find('O')),
                   static_cast<std::int64_t>(kernel.find('I')));
    }
    return conv_general_dilated(v[0], w, plain);
  });
}

}  // namespace tessera::lax
