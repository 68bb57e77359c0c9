// SPDX-License-Identifier: Apache-2.0
#include "oracle/table.h"

namespace tessera::oracle {

namespace {

namespace init = nn::initializers;

std::int64_t column(const Params& p) { return p.integer("column_axis", -1); }
init::FanAxes axes(const Params& p) {
  init::FanAxes a;
  if (p.has("in_axis")) a.in_axis = {p.integer("in_axis")};
  if (p.has("out_axis")) a.out_axis = {p.integer("out_axis")};
  if (p.has("batch_axis")) a.batch_axis = {p.integer("batch_axis")};
  return a;
}
init::Initializer variance(const Params& p) {
  static const std::map<std::string, init::FanMode> modes = {{"fan_in", init::FanMode::fan_in},
                                                             {"fan_out", init::FanMode::fan_out},
                                                             {"fan_avg", init::FanMode::fan_avg},
                                                             {"fan_geo_avg", init::FanMode::fan_geo_avg}};
  static const std::map<std::string, init::FanDistribution> kinds = {
      {"truncated_normal", init::FanDistribution::truncated_normal},
      {"normal", init::FanDistribution::normal},
      {"uniform", init::FanDistribution::uniform}};
  return init::variance_scaling(p.real("scale"), modes.at(p.text("mode")), kinds.at(p.text("distribution")), axes(p));
}

void add_initializers(Table& t) {
  auto add = [&](const std::string& name, const std::function<init::Initializer(const Params&)>& make) {
    t["initializers." + name] = one(
        [make](const Arrays& a, const Params& p) { return make(p)(a[0], p.dims("shape"), p.dtype("dtype", float32)); });
  };
  add("uniform", [](const Params& p) { return init::uniform(p.real("scale", 1e-2)); });
  add("normal", [](const Params& p) { return init::normal(p.real("stddev", 1e-2)); });
  add("truncated_normal", [](const Params& p) {
    return init::truncated_normal(p.real("stddev", 1e-2), p.real("lower", -2), p.real("upper", 2));
  });
  const std::map<std::string, init::Initializer (*)(const init::FanAxes&, const Loc&)> families = {
      {"glorot_uniform", init::glorot_uniform},   {"glorot_normal", init::glorot_normal},
      {"xavier_uniform", init::xavier_uniform},   {"xavier_normal", init::xavier_normal},
      {"lecun_uniform", init::lecun_uniform},     {"lecun_normal", init::lecun_normal},
      {"he_uniform", init::he_uniform},           {"he_normal", init::he_normal},
      {"kaiming_uniform", init::kaiming_uniform}, {"kaiming_normal", init::kaiming_normal}};
  for (const auto& [name, f] : families) add(name, [f = f](const Params& p) { return f(axes(p), Loc::current()); });
  add("variance_scaling", variance);
  add("orthogonal", [](const Params& p) { return init::orthogonal(p.real("scale", 1), column(p)); });
  add("delta_orthogonal", [](const Params& p) { return init::delta_orthogonal(p.real("scale", 1), column(p)); });
}

Arrays both(const std::pair<Array, Array>& p) { return {p.first, p.second}; }

void add_lax_formulas(Table& t) {
  t["lax.sort_key_val"] = [](const Arrays& a, const Params& p) {
    return both(lax::sort_key_val(a[0], a[1], p.integer("dimension", -1)));
  };
  t["lax.approx_max_k"] = [](const Arrays& a, const Params& p) {
    return both(lax::approx_max_k(a[0], p.integer("k")));
  };
  t["lax.approx_min_k"] = [](const Arrays& a, const Params& p) {
    return both(lax::approx_min_k(a[0], p.integer("k")));
  };
  t["lax.mulhi"] = binary(lax::mulhi);
  t["lax.ragged_dot"] = one([](const Arrays& a, const Params&) { return lax::ragged_dot(a[0], a[1], a[2]); });
  t["lax.ragged_dot_general"] = one([](const Arrays& a, const Params& p) {
    const auto d = p.items("dimension_numbers");
    return lax::ragged_dot_general(a[0], a[1], a[2],
                                   {{d[0].as_list(0), d[0].as_list(1), d[1].as_list(0), d[1].as_list(1)},
                                    p.dims("lhs_ragged_dimensions"),
                                    p.dims("rhs_group_dimensions")},
                                   {.preferred_element_type = p.maybe_dtype("preferred_element_type")});
  });
  t["lax.conv_general_dilated_patches"] = one([](const Arrays& a, const Params& p) {
    lax::ConvOptions o;
    if (p.has("dimension_numbers"))
      o.dimension_numbers = p.texts("dimension_numbers");
    else if (a[0].ndim() == 3)
      o.dimension_numbers = {"NCH", "OIH", "NCH"};
    o.strides = p.dims("window_strides");
    if (p.has("rhs_dilation")) o.rhs_dilation = p.dims("rhs_dilation");
    if (p.is_text("padding")) {
      o.pad_mode = pad_mode(p);
    } else {
      for (const Dims& d : p.lists("padding")) o.padding.push_back({d[0], d[1], 0});
    }
    return lax::conv_general_dilated_patches(a[0], p.dims("filter_shape"), o);
  });
}

}  // namespace

void add_extras(Table& t) {
  add_initializers(t);
  add_lax_formulas(t);
}

}  // namespace tessera::oracle
