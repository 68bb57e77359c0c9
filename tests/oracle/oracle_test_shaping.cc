// SPDX-License-Identifier: Apache-2.0
#include "oracle/table.h"

namespace tessera::oracle {

namespace {

Array padded(const Arrays& a, const Params& p) {
  static const std::map<std::string, PadMode> modes = {
      {"constant", PadMode::Constant}, {"edge", PadMode::Edge},       {"linear_ramp", PadMode::LinearRamp},
      {"maximum", PadMode::Maximum},   {"mean", PadMode::Mean},       {"median", PadMode::Median},
      {"minimum", PadMode::Minimum},   {"reflect", PadMode::Reflect}, {"symmetric", PadMode::Symmetric},
      {"wrap", PadMode::Wrap}};
  const PadMode mode = modes.at(p.text("mode", "constant"));
  const PadOptions o{.constant_value = p.real("constant_values", 0),
                     .end_value = p.real("end_values", 0),
                     .stat_length = p.maybe_integer("stat_length"),
                     .odd_reflection = p.text("reflect_type", "even") == "odd"};
  if (p.is_integer("pad_width")) return pad(a[0], p.integer("pad_width"), mode, o);
  std::vector<std::pair<std::int64_t, std::int64_t>> widths;
  for (const Dims& d : p.lists("pad_width")) widths.emplace_back(d[0], d[1]);
  return pad(a[0], widths, mode, o);
}
Function joined(Array (*f)(const std::vector<Array>&, const Loc&)) {
  return one([f](const Arrays& a, const Params&) { return f(a, Loc::current()); });
}
Function parts(std::vector<Array> (*f)(const Operand&, std::int64_t)) {
  return [f](const Arrays& a, const Params& p) { return f(a[0], p.integer("indices_or_sections")); };
}
DiagonalOptions diagonal_options(const Params& p) {
  return {.offset = p.integer("offset", 0), .axis1 = p.integer("axis1", 0), .axis2 = p.integer("axis2", 1)};
}

void add_joins(Table& t) {
  t["jnp.hstack"] = joined(hstack);
  t["jnp.vstack"] = joined(vstack);
  t["jnp.dstack"] = joined(dstack);
  t["jnp.column_stack"] = joined(column_stack);
  t["jnp.append"] = one([](const Arrays& a, const Params& p) { return append(a[0], a[1], p.maybe_integer("axis")); });
  t["jnp.insert"] =
      one([](const Arrays& a, const Params& p) { return insert(a[0], p.dims("obj"), a[1], p.maybe_integer("axis")); });
  t["jnp.delete"] =
      one([](const Arrays& a, const Params& p) { return delete_(a[0], p.dims("obj"), p.maybe_integer("axis")); });
  t["jnp.array_split"] = [](const Arrays& a, const Params& p) {
    return array_split(a[0], p.integer("indices_or_sections"), p.integer("axis", 0));
  };
  t["jnp.hsplit"] = parts(hsplit);
  t["jnp.vsplit"] = parts(vsplit);
  t["jnp.dsplit"] = parts(dsplit);
  t["jnp.unstack"] = [](const Arrays& a, const Params& p) { return unstack(a[0], p.integer("axis", 0)); };
  t["jnp.broadcast_arrays"] = [](const Arrays& a, const Params&) { return broadcast_arrays(a); };
  t["program.block"] = one([](const Arrays& a, const Params&) { return block({{a[0], a[1]}, {a[2], a[3]}}); });
}

void add_turns(Table& t) {
  t["jnp.repeat"] = one([](const Arrays& a, const Params& p) {
    if (a.size() > 1) return repeat(a[0], a[1], p.maybe_integer("axis"), p.maybe_integer("total_repeat_length"));
    return repeat(a[0], p.integer("repeats"), p.maybe_integer("axis"));
  });
  t["jnp.rot90"] = one([](const Arrays& a, const Params& p) {
    const Dims axes = p.maybe_dims("axes").value_or(Dims{0, 1});
    return rot90(a[0], p.integer("k", 1), {axes[0], axes[1]});
  });
  t["jnp.rollaxis"] =
      one([](const Arrays& a, const Params& p) { return rollaxis(a[0], p.integer("axis"), p.integer("start", 0)); });
  t["jnp.resize"] = one([](const Arrays& a, const Params& p) { return resize(a[0], p.dims("new_shape")); });
  const std::map<std::string, Array (*)(const Operand&)> plain = {
      {"fliplr", fliplr},         {"flipud", flipud},         {"atleast_1d", atleast_1d},
      {"atleast_2d", atleast_2d}, {"atleast_3d", atleast_3d}, {"matrix_transpose", matrix_transpose}};
  for (const auto& [name, f] : plain) t["jnp." + name] = unary(f);
  t["jnp.permute_dims"] = one([](const Arrays& a, const Params& p) { return permute_dims(a[0], p.dims("axes")); });
}

}  // namespace

void add_shaping(Table& t) {
  add_joins(t);
  add_turns(t);
  t["jnp.pad"] = one(padded);
  t["jnp.diagonal"] = one([](const Arrays& a, const Params& p) { return diagonal(a[0], diagonal_options(p)); });
  t["jnp.trace"] =
      one([](const Arrays& a, const Params& p) { return trace(a[0], diagonal_options(p), p.maybe_dtype("dtype")); });
  t["jnp.fill_diagonal"] = one([](const Arrays& a, const Params&) { return fill_diagonal(a[0], a[1]); });
  t["jnp.put_along_axis"] =
      one([](const Arrays& a, const Params& p) { return put_along_axis(a[0], a[1], a[2], p.integer("axis")); });
}

}  // namespace tessera::oracle
