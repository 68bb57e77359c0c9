// SPDX-License-Identifier: Apache-2.0
#include "oracle/table.h"
#include "tessera/lax.h"
#include "tessera/numpy.h"

namespace tessera::oracle {

namespace {

/// JAX's default layouts: batch, features, then the spatial dimensions.
std::vector<std::string> layouts(std::int64_t spatial) {
  const std::string digits = std::string("012").substr(0, static_cast<std::size_t>(spatial));
  return {"NC" + digits, "OI" + digits, "NC" + digits};
}

Array convolved(const Arrays& a, const Params& p) {
  lax::ConvOptions o{.strides = p.dims("window_strides")};
  if (p.is_text("padding")) {
    o.pad_mode = pad_mode(p);
  } else {
    for (const Dims& d : p.lists("padding")) o.padding.push_back({d[0], d[1], 0});
  }
  o.lhs_dilation = p.maybe_dims("lhs_dilation").value_or(Dims{});
  o.rhs_dilation = p.maybe_dims("rhs_dilation").value_or(Dims{});
  o.dimension_numbers = p.has("dimension_numbers") ? p.texts("dimension_numbers") : layouts(a[0].ndim() - 2);
  o.feature_group_count = p.integer("feature_group_count", 1);
  o.batch_group_count = p.integer("batch_group_count", 1);
  return lax::conv_general_dilated(a[0], a[1], o);
}

}  // namespace

void add_products(Table& t) {
  t["lax.conv_general_dilated"] = one(convolved);
  t["lax.conv"] = one(
      [](const Arrays& a, const Params& p) { return lax::conv(a[0], a[1], p.dims("window_strides"), pad_mode(p)); });
  t["lax.conv_with_general_padding"] = one([](const Arrays& a, const Params& p) {
    std::vector<lax::PadDim> padding;
    for (const Dims& d : p.lists("padding")) padding.push_back({d[0], d[1], 0});
    return lax::conv_with_general_padding(a[0], a[1], p.dims("window_strides"), padding, p.dims("lhs_dilation"),
                                          p.dims("rhs_dilation"));
  });
  t["lax.conv_transpose"] = one([](const Arrays& a, const Params& p) {
    lax::ConvTransposeOptions o{.transpose_kernel = p.flag("transpose_kernel")};
    o.rhs_dilation = p.maybe_dims("rhs_dilation").value_or(Dims{});
    if (p.has("dimension_numbers")) o.dimension_numbers = p.texts("dimension_numbers");
    if (p.is_text("padding")) {
      o.pad_mode = pad_mode(p);
    } else {
      o.pad_mode = lax::PadMode::Explicit;
      for (const Dims& d : p.lists("padding")) o.padding.push_back({d[0], d[1], 0});
    }
    return lax::conv_transpose(a[0], a[1], p.dims("strides"), o);
  });
  t["lax.dot_general"] = one([](const Arrays& a, const Params& p) {
    const auto d = p.items("dimension_numbers");
    return dot_general(a[0], a[1], {d[0].as_list(0), d[0].as_list(1), d[1].as_list(0), d[1].as_list(1)},
                       {.preferred_element_type = p.maybe_dtype("preferred_element_type")});
  });
  t["jnp.matmul"] = one([](const Arrays& a, const Params&) { return matmul(a[0], a[1]); });
  t["jnp.einsum"] = one([](const Arrays& a, const Params& p) { return einsum(p.text("subscripts"), a); });
}

}  // namespace tessera::oracle
