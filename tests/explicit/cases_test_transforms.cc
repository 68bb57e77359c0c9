// SPDX-License-Identifier: Apache-2.0
// Transformations of recorded operations, and what moves arrays between placements.
#include "explicit/ops.h"

namespace tessera::test {

namespace {

/// The operation that a transformation is applied to, as a function of its operands.
Body inner_of(const Call& c) {
  static const json none_given = json::object();
  const json& params = c.params.contains("params") ? c.params["params"] : none_given;
  const Function& f = operation(c.params.at("of").get<std::string>());
  return [&f, &params, out = c.out](const Arrays& in) { return f({in, params, out}); };
}

Arrays pulled_back(const Call& c) {
  const Arrays primals(c.in.begin(), c.in.end() - 1);
  std::vector<std::size_t> wrt(primals.size());
  for (std::size_t i = 0; i < wrt.size(); ++i) wrt[i] = i;
  if (c.has("wrt")) wrt = c.params.at("wrt").get<std::vector<std::size_t>>();
  const Body inner = inner_of(c);
  Arrays moving;
  for (auto i : wrt) moving.push_back(primals[i]);
  auto f = [&](const Arrays& given) {
    Arrays all = primals;
    for (std::size_t i = 0; i < wrt.size(); ++i) all[wrt[i]] = given[i];
    return Arrays{inner(all).at(0)};  // cotangents are given for the first result
  };
  const Arrays cotangent{c.in.back()};
  if (c.flag("remat")) return std::get<0>(vjp(checkpoint(f), moving).second(cotangent));
  return std::get<0>(vjp(f, moving).second(cotangent));
}

Arrays pushed_forward(const Call& c) {
  const auto half = static_cast<std::ptrdiff_t>(c.in.size() / 2);
  const std::tuple<Arrays> primals{Arrays(c.in.begin(), c.in.begin() + half)};
  const std::tuple<Arrays> tangents{Arrays(c.in.begin() + half, c.in.end())};
  return jvp([f = inner_of(c)](const Arrays& a) { return f(a); }, primals, tangents).second;
}

MapAxes map_axis(const json& j) { return j.is_null() ? MapAxes(none) : MapAxes(j.get<std::int64_t>()); }

}  // namespace

Arrays vmapped(const Body& f, const Call& c) {
  std::vector<MapAxes> in;
  for (const auto& a : c.params.at("in_axes")) in.push_back(map_axis(a));
  VmapOptions o;
  o.in_axes = MapAxes(std::vector<MapAxes>{MapAxes(in)});
  if (c.params.contains("out_axes")) o.out_axes = map_axis(c.params["out_axes"]);
  if (c.has("axis_name")) o.axis_name = c.params["axis_name"];
  if (c.has("spmd_axis_name")) {
    const json& s = c.params["spmd_axis_name"];
    o.spmd_axis_name = s.is_string() ? AxisNames(s.get<std::string>()) : AxisNames(s.get<std::vector<std::string>>());
  }
  return vmap([&f](const Arrays& a) { return f(a); }, o)(c.in);
}

namespace {
std::optional<AxisNames> axes_of(const Call& c, const char* name) {
  if (!c.has(name)) return std::nullopt;
  return AxisNames(c.params.at(name).get<std::vector<std::string>>());
}

Body named_body(const Call& c) { return body_of(c.params.at("body"), c.params); }
}  // namespace

Arrays in_auto_axes(const Body& f, const Call& c) {
  AutoAxesOptions o{.axes = axes_of(c, "axes")};
  if (c.out.given()) o.out_sharding = {c.out};
  return auto_axes([&f](const Arrays& a) { return f(a); }, o)(c.in);
}

Arrays in_explicit_axes(const Body& f, const Call& c) {
  ExplicitAxesOptions o{.axes = axes_of(c, "axes")};
  if (c.has("in_sharding")) {
    for (const auto& s : c.params.at("in_sharding")) o.in_sharding.push_back(to_partition_spec(s));
  }
  return explicit_axes([&f](const Arrays& a) { return f(a); }, o)(c.in);
}

Arrays in_map(const Body& f, const Call& c) {
  ShardMapOptions o;
  if (c.has("axis_names")) o.axis_names = c.params["axis_names"].get<std::vector<std::string>>();
  SpecTree in = Infer;
  if (c.has("in_specs")) {
    std::vector<SpecTree> specs;
    for (const auto& s : c.params["in_specs"]) specs.emplace_back(to_partition_spec(s));
    in = SpecTree(std::vector<SpecTree>{SpecTree(specs)});
  }
  return shard_map([&f](const Arrays& a) { return f(a); }, in, *c.out.spec(), o)(c.in);
}

Arrays jitted(const Body& f, const Call& c) {
  JitOptions o;
  if (c.has("in_shardings")) o.in_shardings = {to_partition_spec(c.params["in_shardings"])};
  if (c.out.given()) o.out_shardings = {c.out};
  return jit([&f](const Arrays& a) { return f(a); }, o)(c.in);
}

namespace {

/// The gradient type of a function with a rule of its own, whose cotangent is moved to `bwd`.
Array custom_backward(const Call& c) {
  auto forward = [](const Array& x) { return std::pair{sin(x), x}; };
  auto backward = [&](const Array& x, const Array& ct) {
    const Array g = ct * cos(x);
    return std::tuple{c.has("bwd") ? reshard(g, to_partition_spec(c.params["bwd"])) : g};
  };
  auto f = custom_vjp([](const Array& x) { return sin(x); }, forward, backward);
  auto [y, pull] = vjp(f, c.x());
  return std::get<0>(pull(y));
}
Array custom_forward(const Call& c) {
  auto f = custom_jvp([](const Array& x) { return sin(x); },
                      [](const std::tuple<Array>& primals, const std::tuple<Array>& tangents) {
                        const Array& x = std::get<0>(primals);
                        return std::pair{sin(x), cos(x) * std::get<0>(tangents)};
                      });
  return jvp(f, std::tuple{c.x()}, std::tuple{c.x()}).second;
}

}  // namespace

void add_transforms(Table& t) {
  t["typeof"] = one([](const Call& c) { return c.x(); });
  t["reshard"] = one([](const Call& c) { return reshard(c.x(), *c.out.spec()); });
  t["with_sharding_constraint"] = one([](const Call& c) { return with_sharding_constraint(c.x(), *c.out.spec()); });
  t["device_put"] = one([](const Call& c) { return device_put(c.x(), *c.out.spec()); });
  t["jit.identity"] = [](const Call& c) { return jitted([](const Arrays& a) { return a; }, c); };
  t["jit"] = [](const Call& c) { return jitted(inner_of(c), c); };
  t["remat"] = [](const Call& c) { return checkpoint([f = inner_of(c)](const Arrays& a) { return f(a); })(c.in); };
  t["vjp"] = pulled_back;
  t["jvp"] = pushed_forward;
  t["vmap"] = [](const Call& c) { return vmapped(inner_of(c), c); };
  t["auto_axes"] = [](const Call& c) { return in_auto_axes(named_body(c), c); };
  t["explicit_axes"] = [](const Call& c) { return in_explicit_axes(named_body(c), c); };
  t["shard_map"] = [](const Call& c) { return in_map(named_body(c), c); };
  t["custom_vjp"] = one(custom_backward);
  t["custom_jvp"] = one(custom_forward);
}

}  // namespace tessera::test
