// SPDX-License-Identifier: Apache-2.0
#include "explicit/ops.h"

namespace tessera::test {

namespace {

DotOptions dot_options(const Call& c) {
  DotOptions o;
  if (c.has("preferred_element_type")) o.preferred_element_type = c.dtype("preferred_element_type");
  o.out_sharding = c.out;
  return o;
}

Function product(Array (*f)(const Operand&, const Operand&, const DotOptions&)) {
  return one([f](const Call& c) { return f(c.x(), c.x(1), dot_options(c)); });
}

Array convolved(const Call& c) {
  lax::ConvOptions o;
  o.strides = c.dims("window_strides");
  const json& padding = c.params.at("padding");
  if (padding.is_string()) {
    o.pad_mode = padding == "SAME" ? lax::PadMode::Same : lax::PadMode::Valid;
  } else {
    for (const auto& p : padding) o.padding.push_back({p[0], p[1], 0});
  }
  const bool images = c.x().ndim() == 4;
  o.dimension_numbers =
      images ? std::vector<std::string>{"NCHW", "OIHW", "NCHW"} : std::vector<std::string>{"NCH", "OIH", "NCH"};
  if (c.has("dimension_numbers"))
    o.dimension_numbers = c.params.at("dimension_numbers").get<std::vector<std::string>>();
  o.feature_group_count = c.integer("feature_group_count", 1);
  o.out_sharding = c.out;
  return lax::conv_general_dilated(c.x(), c.x(1), o);
}

}  // namespace

void add_products(Table& t) {
  t["lax.dot_general"] = one([](const Call& c) {
    const json& d = c.params.at("dimension_numbers");
    return dot_general(
        c.x(), c.x(1),
        {.lhs_contracting = d[0][0], .rhs_contracting = d[0][1], .lhs_batch = d[1][0], .rhs_batch = d[1][1]},
        dot_options(c));
  });
  t["jnp.matmul"] = product(matmul);
  t["jnp.dot"] = product(dot);
  t["jnp.vdot"] = product(vdot);
  t["jnp.inner"] = product(inner);
  t["jnp.outer"] = binary(outer);
  t["jnp.tensordot"] = one([](const Call& c) {
    const json& axes = c.params.at("axes");
    if (axes.is_number_integer()) return tensordot(c.x(), c.x(1), axes.get<std::int64_t>(), dot_options(c));
    return tensordot(c.x(), c.x(1), to_dims(axes[0]), to_dims(axes[1]), dot_options(c));
  });
  t["jnp.einsum"] =
      one([](const Call& c) { return einsum(c.params.at("subscripts").get<std::string>(), c.in, dot_options(c)); });
  t["lax.ragged_dot"] = one([](const Call& c) { return lax::ragged_dot(c.x(), c.x(1), c.x(2), dot_options(c)); });
  t["lax.conv_general_dilated"] = one(convolved);
}

}  // namespace tessera::test
