// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/linalg/conv.h"
#include "program/graph_fragment.h"
#include "program/promote.h"
#include "tessera/explicit_sharding.h"
#include "tessera/lax.h"

namespace tessera::lax {

namespace {

// Dimension numbers of a layout: `first`, `second`, then the spatial letters in the order of `spatial`.
Dims numbers(const std::string& layout, char first, char second, const std::string& spatial) {
  Dims out;
  for (char c : std::string{first, second} + spatial) {
    auto at = layout.find(c);
    if (at == std::string::npos || layout.find(c, at + 1) != std::string::npos || layout.size() != spatial.size() + 2) {
      throw ValueError(str("conv_general_dilated: layout \"", layout, "\" in dimension_numbers; expected each of ",
                           std::string(1, first), ", ", std::string(1, second), " and ",
                           spatial.empty() ? "no spatial letter" : spatial, " once"));
    }
    out.push_back(static_cast<std::int64_t>(at));
  }
  return out;
}

Dims or_ones(const char* what, const Dims& v, std::size_t n) {
  if (v.empty()) return Dims(n, 1);
  if (v.size() != n) throw ValueError(str("conv_general_dilated: ", what, " = ", v, "; expected ", n, " entries"));
  return v;
}

// Padding by mode or by amounts; the dilations and strides are set.
void set_padding(ops::Conv& p, const ConvOptions& o, const Shape& x, const Shape& w) {
  std::size_t n = p.strides.size();
  p.pad_low = Dims(n, 0);
  p.pad_high = Dims(n, 0);
  if (o.pad_mode != PadMode::Explicit && !o.padding.empty()) {
    throw ValueError("conv_general_dilated: both pad_mode and padding are given; expected one");
  }
  if (o.pad_mode == PadMode::Same || o.pad_mode == PadMode::SameLower) {
    for (std::size_t d = 0; d < n; ++d) {
      auto size = x[static_cast<std::size_t>(p.lhs_spec[d + 2])];
      std::int64_t extent = size == 0 ? 0 : (size - 1) * p.lhs_dilation[d] + 1;
      std::int64_t reach = (w[static_cast<std::size_t>(p.rhs_spec[d + 2])] - 1) * p.rhs_dilation[d] + 1;
      std::int64_t out = (extent + p.strides[d] - 1) / p.strides[d];
      std::int64_t total = std::max<std::int64_t>(0, (out - 1) * p.strides[d] + reach - extent);
      p.pad_low[d] = (total + (o.pad_mode == PadMode::SameLower ? 1 : 0)) / 2;
      p.pad_high[d] = total - p.pad_low[d];
    }
  } else if (!o.padding.empty()) {
    if (o.padding.size() != n)
      throw ValueError(str("conv_general_dilated: padding has ", o.padding.size(), " entries; expected ", n));
    for (std::size_t d = 0; d < n; ++d) {
      if (o.padding[d].interior != 0) {
        throw ValueError(str("conv_general_dilated: padding[", d, "].interior = ", o.padding[d].interior,
                             "; expected 0 (lhs_dilation puts space between elements)"));
      }
      p.pad_low[d] = o.padding[d].low;
      p.pad_high[d] = o.padding[d].high;
    }
  }
}

}  // namespace

Array conv_general_dilated(const Operand& lhs, const Operand& rhs, const ConvOptions& o) {
  const Loc& loc = lhs.loc();
  if (o.dimension_numbers.size() != 3) {
    throw ValueError(str("conv_general_dilated: dimension_numbers has ", o.dimension_numbers.size(),
                         " layouts; expected those of lhs, rhs and result"));
  }
  std::string spatial;
  for (char c : o.dimension_numbers[1]) {
    if (c != 'O' && c != 'I') spatial += c;
  }
  std::size_t n = spatial.size();
  const Shape x = lhs.array().shape();
  const Shape w = rhs.array().shape();
  if (x.size() != n + 2 || w.size() != n + 2) {
    throw ValueError(str("conv_general_dilated: shapes ", x, " and ", w, " for the layouts ", o.dimension_numbers[0],
                         " and ", o.dimension_numbers[1], "; expected rank ", n + 2));
  }
  ops::Conv p;
  p.lhs_spec = numbers(o.dimension_numbers[0], 'N', 'C', spatial);
  p.rhs_spec = numbers(o.dimension_numbers[1], 'O', 'I', spatial);
  p.out_spec = numbers(o.dimension_numbers[2], 'N', 'C', spatial);
  p.strides = or_ones("strides", o.strides, n);
  p.lhs_dilation = or_ones("lhs_dilation", o.lhs_dilation, n);
  p.rhs_dilation = or_ones("rhs_dilation", o.rhs_dilation, n);
  set_padding(p, o, x, w);
  p.feature_groups = o.feature_group_count;
  p.batch_groups = o.batch_group_count;
  p.preferred = o.preferred_element_type;
  return detail::placed_as(o.out_sharding, "conv_general_dilated", [&] {
    return program::graph_fragment1(
        "conv_general_dilated", loc, {lhs.array(), rhs.array()},
        [&](ir::Builder&, const ir::Values& v) { return ops::conv_general_dilated(v[0], v[1], p); });
  });
}

}  // namespace tessera::lax
