// SPDX-License-Identifier: Apache-2.0
#include "tests/support/collective_programs.h"

#include <nlohmann/json.hpp>

#include "tests/support/collective_case.h"

namespace tessera::test {

namespace {

using nlohmann::json;
using Leaves = std::vector<Array>;

AxisNames names_of(const json& c) { return c.at("mesh_axes").get<std::vector<std::string>>(); }

// `body` under one map of a case: {"kind", …} of a nest, or the case itself, which is a shard_map.
LeafFunction mapped(const CaseRun& run, const json& c, LeafFunction body, const json& in_specs, const json& out_specs) {
  Mesh mesh = run.mesh(c.at("mesh_shape").get<Shape>(), names_of(c));
  return shard_map(std::move(body), mesh, SpecTree{spec_list(in_specs)}, spec_list(out_specs),
                   {.check_vma = c.at("check_vma").get<bool>()});
}

MapAxes map_axes(const json& j) {
  if (j.is_number()) return j.get<std::int64_t>();
  if (j.is_null()) return none;
  std::vector<MapAxes> out;
  for (const auto& e : j) out.push_back(map_axes(e));
  return out;
}
LeafFunction vmapped(const json& n, LeafFunction body, const json& in_axes, const json& out_axes) {
  VmapOptions o{.in_axes = MapAxes(std::vector<MapAxes>{map_axes(in_axes)}), .out_axes = map_axes(out_axes)};
  if (n.contains("axis_name") && n.at("axis_name").is_string()) o.axis_name = n.at("axis_name");
  if (n.contains("axis_size")) o.axis_size = n.at("axis_size").get<std::int64_t>();
  if (n.contains("spmd_axis_name")) o.spmd_axis_name = axis_names(n.at("spmd_axis_name"));
  return vmap(std::move(body), o);
}

// `body` under all maps of a case. `more`: what the maps give further arguments, and results, one list for each map.
struct More {
  std::vector<json> in, out;
};
LeafFunction nested(const CaseRun& run, const json& c, LeafFunction body, const More& more = {}) {
  json nest = c.contains("nest") ? c.at("nest") : json::array({c});
  for (std::size_t k = nest.size(); k-- > 0;) {
    const json& n = nest.at(k);
    bool is_vmap = n.value("kind", "shard_map") == "vmap";
    json in = n.at(is_vmap ? "in_axes" : "in_specs");
    json out = n.at(is_vmap ? "out_axes" : "out_specs");
    if (!more.in.empty()) {
      in.insert(in.end(), more.in[k].begin(), more.in[k].end());
      out = more.out[k];
    }
    body = is_vmap ? vmapped(n, std::move(body), in, out) : mapped(run, n, std::move(body), in, out);
  }
  return body;
}
Leaves chosen(const Leaves& all, const json& diff) {
  Leaves out;
  for (const auto& i : diff) out.push_back(all.at(i.get<std::size_t>()));
  return out;
}
// `f` as a function of the differentiated inputs alone.
template <class F>
auto of_chosen(const F& f, const Leaves& all, const json& diff) {
  return [&f, all, diff](const Leaves& x) {
    Leaves full = all;
    for (std::size_t k = 0; k < x.size(); ++k) full.at(diff.at(k).get<std::size_t>()) = x[k];
    return f(full);
  };
}

Leaves derivative(const json& c, const std::function<Leaves(const Leaves&)>& f, const Leaves& inputs,
                  const Leaves& seeds) {
  auto g = of_chosen(f, inputs, c.at("diff"));
  Leaves x = chosen(inputs, c.at("diff"));
  if (c.at("mode") == "jvp") return jvp(g, std::tuple(x), std::tuple(seeds)).second;
  return std::get<0>(vjp(g, x).second(seeds));
}

std::string outer_derivative(const json& c, const CaseRun& run) {
  auto f = case_program(c, run);
  auto derived = [&](const Leaves& inputs, const Leaves& seeds) { return derivative(c, f, inputs, seeds); };
  Leaves seeds = run.place(arrays(c.at(c.at("mode") == "jvp" ? "tangents" : "cotangents")));
  Leaves x = run.place(arrays(c.at("inputs")));
  return case_difference(run.read(run.compiled ? jit(derived)(x, seeds) : derived(x, seeds)), c.at("expected"));
}

// What the maps give the cotangents, and the cotangents of the inputs.
More of_cotangents(const json& c) {
  More more;
  if (!c.contains("nest")) {
    more.in.push_back(c.at("ct_specs"));
    more.out.push_back(c.at("result_specs"));
    return more;
  }
  const json& map = c.at("nest").at(0);  // one vmap
  json in = json::array();
  for (std::size_t k = 0; k < c.at("cotangents").size(); ++k) {
    in.push_back(map.at("out_axes").is_array() ? map.at("out_axes").at(k) : map.at("out_axes"));
  }
  json out = json::array();
  for (const auto& k : c.at("diff")) out.push_back(map.at("in_axes").at(k.get<std::size_t>()));
  more.in.push_back(in);
  more.out.push_back(out);
  return more;
}

std::string inner_derivative(const json& c, const CaseRun& run) {
  std::size_t n = c.at("inputs").size();
  LeafFunction body = [&](const Leaves& all) {
    Leaves x(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(n));
    Leaves seeds(all.begin() + static_cast<std::ptrdiff_t>(n), all.end());
    return derivative(
        c, [&](const Leaves& in) { return case_body(c, in); }, x, seeds);
  };
  LeafFunction f = nested(run, c, body, of_cotangents(c));
  Leaves x = arrays(c.at("inputs"));
  Leaves seeds = arrays(c.at(c.at("mode") == "jvp" ? "tangents" : "cotangents"));
  x.insert(x.end(), seeds.begin(), seeds.end());
  x = run.place(x);
  return case_difference(run.read(run.compiled ? jit(f)(x) : f(x)), c.at("expected"));
}

}  // namespace

Mesh CaseRun::first_devices(const Shape& sizes, const AxisNames& names) {
  return make_mesh(sizes, names, Client::current().devices().first(static_cast<std::size_t>(size_of(sizes))));
}

LeafFunction case_program(const json& c, const CaseRun& run) {
  return nested(run, c, [&c](const Leaves& x) { return case_body(c, x); });
}

std::string wrong_values(const json& c, const CaseRun& run) {
  auto f = case_program(c, run);
  Leaves x = run.place(arrays(c.at("inputs")));
  return case_difference(run.read(run.compiled ? jit(f)(x) : f(x)), c.at("expected"));
}

std::string wrong_derivatives(const json& c, const CaseRun& run) {
  return c.at("placement") == "outer" ? outer_derivative(c, run) : inner_derivative(c, run);
}

}  // namespace tessera::test
