// SPDX-License-Identifier: Apache-2.0
// The recorded programs with collectives: values, derivatives, errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/support/collective_case.h"
#include "tests/support/collective_programs.h"
#include "tests/support/spec_report.h"
#include "tests/support/test_client.h"

namespace tessera::test {
namespace {

using nlohmann::json;
using Leaves = std::vector<Array>;

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
  Client client_ = test_client(8);
  ClientScope scope_{client_};
};

// Empty, or what differs, eagerly or under jit.
std::string eager_and_compiled(const json& c, std::string (*wrong)(const json&, const CaseRun&)) {
  CaseRun run;
  for (bool compiled : {false, true}) {
    run.compiled = compiled;
    const std::string difference = wrong(c, run);
    if (!difference.empty()) return (compiled ? "under jit: " : "at once: ") + difference;
  }
  return "";
}

TEST_F(Cases, Values) {
  TESSERA_SPEC("C113", "C114", "C115");
  Outcome o =
      run_all(collective_cases("cases.jsonl"), [](const json& c) { return eager_and_compiled(c, wrong_values); });
  record_cases("collectives/cases.jsonl", o.passed, o.total);
}

TEST_F(Cases, VmappedValues) {
  TESSERA_SPEC("C116");
  Outcome o =
      run_all(collective_cases("vmap_cases.jsonl"), [](const json& c) { return eager_and_compiled(c, wrong_values); });
  record_cases("collectives/vmap_cases.jsonl", o.passed, o.total);
}

TEST_F(Cases, Derivatives) {
  TESSERA_SPEC("C117");
  Outcome o = run_all(collective_cases("grad_cases.jsonl"),
                      [](const json& c) { return eager_and_compiled(c, wrong_derivatives); });
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
    if (c.contains("mesh_shape") || c.contains("nest")) f = case_program(c);
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
