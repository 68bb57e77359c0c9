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

AxisNames names_of(const json& c) { return c.at("mesh_axes").get<std::vector<std::string>>(); }

template <class F>
auto mapped(const json& c, F body, const json& in_specs, const json& out_specs) {
  Shape sizes = c.at("mesh_shape").get<Shape>();
  std::int64_t n = 1;
  for (auto s : sizes) n *= s;
  auto devices = Client::current().devices();
  Mesh mesh = make_mesh(sizes, names_of(c), devices.first(static_cast<std::size_t>(n)));
  return shard_map(body, mesh, SpecTree{spec_list(in_specs)}, spec_list(out_specs),
                   {.check_vma = c.at("check_vma").get<bool>()});
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
  auto f = mapped(
      c, [&](const Leaves& x) { return case_body(c, x); }, c.at("in_specs"), c.at("out_specs"));
  Leaves x = arrays(c.at("inputs"));
  std::string at_once = case_difference(f(x), c.at("expected"));
  if (!at_once.empty()) return "at once: " + at_once;
  std::string compiled = case_difference(jit(f)(x), c.at("expected"));
  return compiled.empty() ? "" : "under jit: " + compiled;
}

TEST_F(Cases, Values) {
  Outcome o = run_all(collective_cases("cases.jsonl"), forward);
  record_cases("collectives/cases.jsonl", o.passed, o.total);
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
  auto f = mapped(
      c, [&](const Leaves& x) { return case_body(c, x); }, c.at("in_specs"), c.at("out_specs"));
  auto whole = [&](const Leaves& inputs, const Leaves& seeds) { return derivative(c, f, inputs, seeds); };
  Leaves seeds = arrays(c.at(c.at("mode") == "jvp" ? "tangents" : "cotangents"));
  Leaves x = arrays(c.at("inputs"));
  return case_difference(compiled ? jit(whole)(x, seeds) : whole(x, seeds), c.at("expected"));
}

std::string inner_derivative(const json& c, bool compiled) {
  json in_specs = c.at("in_specs");
  for (const auto& s : c.at("ct_specs")) in_specs.push_back(s);
  std::size_t n = c.at("inputs").size();
  auto body = [&](const Leaves& all) {
    Leaves x(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(n));
    Leaves seeds(all.begin() + static_cast<std::ptrdiff_t>(n), all.end());
    return derivative(
        c, [&](const Leaves& in) { return case_body(c, in); }, x, seeds);
  };
  auto f = mapped(c, body, in_specs, c.at("result_specs"));
  Leaves x = arrays(c.at("inputs"));
  Leaves seeds = arrays(c.at(c.at("mode") == "jvp" ? "tangents" : "cotangents"));
  x.insert(x.end(), seeds.begin(), seeds.end());
  return case_difference(compiled ? jit(f)(x) : f(x), c.at("expected"));
}

bool uses_vmap(const json& c) {
  if (!c.contains("nest")) return false;
  return std::any_of(c.at("nest").begin(), c.at("nest").end(), [](const json& n) { return n.at("kind") == "vmap"; });
}

TEST_F(Cases, Derivatives) {
  std::vector<json> cases;
  for (const auto& c : collective_cases("grad_cases.jsonl")) {
    if (!uses_vmap(c)) cases.push_back(c);
  }
  run_all(cases, [](const json& c) {
    bool outer = c.at("placement") == "outer";
    for (bool compiled : {false, true}) {
      std::string wrong = outer ? outer_derivative(c, compiled) : inner_derivative(c, compiled);
      if (!wrong.empty()) return (compiled ? "under jit: " : "at once: ") + wrong;
    }
    return std::string();
  });
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
  auto body = [&](const Leaves& in) { return case_body(c, in); };
  try {
    if (!c.contains("mesh_shape")) {
      body(x);
    } else {
      auto f = mapped(c, body, c.at("in_specs"), c.at("out_specs"));
      if (c.at("mode") == "jvp") {
        jvp(f, std::tuple(x), std::tuple(x));
      } else {
        for (const auto& r : f(x)) r.block_until_ready();
      }
    }
  } catch (const std::exception& e) {
    return wrong_error(c, e);
  }
  return c.at("level") == "either" ? "" : "nothing was thrown";
}

TEST_F(Cases, Errors) {
  std::vector<json> cases;
  for (const auto& c : collective_cases("error_cases.jsonl")) {
    if (!uses_vmap(c)) cases.push_back(c);
  }
  run_all(cases, error_of);
}

}  // namespace
}  // namespace tessera::test
