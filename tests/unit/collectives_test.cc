// SPDX-License-Identifier: Apache-2.0
// The recorded programs with collectives: values, derivatives, errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/support/collective_case.h"
#include "tests/support/spec_report.h"

namespace tessera::test {
namespace {

using nlohmann::json;
using Leaves = std::vector<Array>;
using LeafFunction = std::function<Leaves(const Leaves&)>;

AxisNames names_of(const json& c) { return c.at("mesh_axes").get<std::vector<std::string>>(); }

// `body` under one map of a case: {"kind", …} of a nest, or the case itself, which is a shard_map.
LeafFunction mapped(const json& c, LeafFunction body, const json& in_specs, const json& out_specs) {
  Shape sizes = c.at("mesh_shape").get<Shape>();
  std::int64_t n = 1;
  for (auto s : sizes) n *= s;
  auto devices = Client::current().devices();
  Mesh mesh = make_mesh(sizes, names_of(c), devices.first(static_cast<std::size_t>(n)));
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
LeafFunction nested(const json& c, LeafFunction body, const More& more = {}) {
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
    body = is_vmap ? vmapped(n, std::move(body), in, out) : mapped(n, std::move(body), in, out);
  }
  return body;
}
LeafFunction whole(const json& c) {
  return nested(c, [&c](const Leaves& x) { return case_body(c, x); });
}

struct Outcome {
  int passed = 0;
  int total = 0;
};

// Runs `f` for each case; it returns what differs, empty for agreement. Throwing UnimplementedError is an answer where
// the level says so.
Outcome run_all(const std::vector<json>& cases, const std::function<std::string(const json&)>& f) {
  Outcome o;
  std::set<std::string> shown;
  for (const auto& c : cases) {
    for (const auto& id : c.at("req")) shown.insert(id.get<std::string>());
    ++o.total;
    std::string wrong;
    try {
      wrong = f(c);
    } catch (const UnimplementedError& e) {
      if (c.at("level") != "extended") wrong = std::string("not supported: ") + e.what();
    } catch (const std::exception& e) {
      wrong = std::string("threw ") + e.what();
    }
    o.passed += wrong.empty() ? 1 : 0;
    EXPECT_EQ(wrong, "") << c.at("id");
  }
  record_requirements(shown);
  return o;
}

class Cases : public ::testing::Test {
 protected:
  Client client_ = Client::cpu({.devices = 8});
  ClientScope scope_{client_};
};

std::string forward(const json& c) {
  auto f = whole(c);
  Leaves x = arrays(c.at("inputs"));
  std::string at_once = case_difference(f(x), c.at("expected"));
  if (!at_once.empty()) return "at once: " + at_once;
  std::string compiled = case_difference(jit(f)(x), c.at("expected"));
  return compiled.empty() ? "" : "under jit: " + compiled;
}

TEST_F(Cases, Values) {
  TESSERA_SPEC("C113", "C114", "C115");
  Outcome o = run_all(collective_cases("cases.jsonl"), forward);
  record_cases("collectives/cases.jsonl", o.passed, o.total);
}

TEST_F(Cases, VmappedValues) {
  TESSERA_SPEC("C116");
  Outcome o = run_all(collective_cases("vmap_cases.jsonl"), forward);
  record_cases("collectives/vmap_cases.jsonl", o.passed, o.total);
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

std::string outer_derivative(const json& c, bool compiled) {
  auto f = whole(c);
  auto derived = [&](const Leaves& inputs, const Leaves& seeds) { return derivative(c, f, inputs, seeds); };
  Leaves seeds = arrays(c.at(c.at("mode") == "jvp" ? "tangents" : "cotangents"));
  Leaves x = arrays(c.at("inputs"));
  return case_difference(compiled ? jit(derived)(x, seeds) : derived(x, seeds), c.at("expected"));
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

std::string inner_derivative(const json& c, bool compiled) {
  std::size_t n = c.at("inputs").size();
  LeafFunction body = [&](const Leaves& all) {
    Leaves x(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(n));
    Leaves seeds(all.begin() + static_cast<std::ptrdiff_t>(n), all.end());
    return derivative(
        c, [&](const Leaves& in) { return case_body(c, in); }, x, seeds);
  };
  LeafFunction f = nested(c, body, of_cotangents(c));
  Leaves x = arrays(c.at("inputs"));
  Leaves seeds = arrays(c.at(c.at("mode") == "jvp" ? "tangents" : "cotangents"));
  x.insert(x.end(), seeds.begin(), seeds.end());
  return case_difference(compiled ? jit(f)(x) : f(x), c.at("expected"));
}

TEST_F(Cases, Derivatives) {
  TESSERA_SPEC("C117");
  Outcome o = run_all(collective_cases("grad_cases.jsonl"), [](const json& c) {
    bool outer = c.at("placement") == "outer";
    for (bool compiled : {false, true}) {
      std::string wrong = outer ? outer_derivative(c, compiled) : inner_derivative(c, compiled);
      if (!wrong.empty()) return (compiled ? "under jit: " : "at once: ") + wrong;
    }
    return std::string();
  });
  record_cases("collectives/grad_cases.jsonl", o.passed, o.total);
}

template <class E>
bool is(const std::exception& e) {
  return dynamic_cast<const E*>(&e) != nullptr;
}
bool has_class(const std::exception& e, const std::string& name) {
  if (name == "ValueError") return is<ValueError>(e);
  if (name == "IndexError") return is<IndexError>(e);
  if (name == "TypeError") return is<TypeError>(e);
  if (name == "UnboundAxisError") return is<UnboundAxisError>(e);
  return name == "UnimplementedError" && is<UnimplementedError>(e);
}
std::string lower(std::string s) {
  std::transform(s.begin(), s.end(), s.begin(), [](unsigned char ch) { return static_cast<char>(std::tolower(ch)); });
  return s;
}

std::string wrong_error(const json& c, const std::exception& e) {
  if (!has_class(e, c.at("error"))) return std::string("another class: ") + e.what();
  for (const auto& word : c.at("keywords")) {
    if (lower(e.what()).find(lower(word)) == std::string::npos) {
      return "the message lacks '" + word.get<std::string>() + "': " + e.what();
    }
  }
  return {};
}

std::string error_of(const json& c) {
  Leaves x = arrays(c.at("inputs"));
  try {
    LeafFunction f = [&c](const Leaves& in) { return case_body(c, in); };
    if (c.contains("mesh_shape") || c.contains("nest")) f = whole(c);
    if (c.at("mode") == "jvp") {
      jvp(f, std::tuple(x), std::tuple(x));
    } else {
      for (const auto& r : f(x)) r.block_until_ready();
    }
  } catch (const std::exception& e) {
    return wrong_error(c, e);
  }
  return c.at("level") == "either" ? "" : "nothing was thrown";
}

TEST_F(Cases, Errors) {
  TESSERA_SPEC("C118");
  Outcome o = run_all(collective_cases("error_cases.jsonl"), error_of);
  record_cases("collectives/error_cases.jsonl", o.passed, o.total);
}

}  // namespace
}  // namespace tessera::test
