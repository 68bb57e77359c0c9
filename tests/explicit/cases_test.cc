// SPDX-License-Identifier: Apache-2.0
// The recorded types of explicit sharding: every case is derived, and nothing runs. TESSERA_EXPLICIT_ONLY chooses cases
// by the beginning of their ids.
#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <typeinfo>

#include "explicit/ops.h"
#include "support/paths.h"
#include "support/spec_report.h"
#include "support/test_client.h"

namespace tessera::test {

const Table& operations() {
  static const Table table = [] {
    Table t;
    add_elementwise(t);
    add_shapes(t);
    add_indexing(t);
    add_reductions(t);
    add_products(t);
    add_creation(t);
    add_control(t);
    add_transforms(t);
    return t;
  }();
  return table;
}
const Function& operation(const std::string& name) {
  auto it = operations().find(name);
  if (it == operations().end()) throw std::out_of_range("no operation " + name);
  return it->second;
}

namespace {

/// What a case came to: types, or an error.
struct Outcome {
  std::vector<ArrayType> types;
  std::exception_ptr error;
};

/// An operand with data, zeros.
Array with_data(const json& j, const Mesh& mesh) {
  const HostArray host(to_dtype(j.at("dtype")), j.at("shape").get<Shape>());
  return device_put(host, NamedSharding(mesh, to_partition_spec(j)).share());
}

Outcome outcome_of(const json& c) {
  const Mesh mesh = to_typed_mesh(c.at("mesh"));
  const SetMesh scope(mesh);
  Outcome out;
  try {
    const std::string op = c.at("op");
    const Function& f = operation(op);
    Call call{{}, c.at("params")};
    if (!c.at("out_sharding").is_null()) call.out = to_partition_spec(c["out_sharding"]);
    Arrays operands;
    if (op == "device_put") {
      for (const auto& o : c.at("operands")) call.in.push_back(with_data(o, mesh));
      for (const auto& y : f(call)) out.types.push_back(type_of(y));
      return out;
    }
    for (const auto& o : c.at("operands")) operands.push_back(to_operand(o, mesh));
    out.types = eval_types(
        [&](const Arrays& in) {
          call.in = in;
          return f(call);
        },
        operands);
  } catch (const std::out_of_range&) {
    throw;
  } catch (...) {
    out.error = std::current_exception();
  }
  return out;
}

template <class E>
bool is(const std::exception& e) {
  return dynamic_cast<const E*>(&e) != nullptr;
}
bool is_of_class(const std::exception& e, const std::string& name) {
  static const std::map<std::string, bool (*)(const std::exception&)> table = {
      {"ShardingTypeError", is<ShardingTypeError>},
      {"ValueError", is<ValueError>},
      {"TypeError", is<TypeError>},
      {"UnimplementedError", is<UnimplementedError>},
      {"IndivisibleError", is<IndivisibleError>},
      {"DuplicateAxisError", is<DuplicateAxisError>},
      {"StateError", is<StateError>},
  };
  return table.at(name)(e);
}

std::string lower(std::string s) {
  for (char& c : s) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return s;
}

/// Empty where the error is as recorded.
std::string compare_error(const std::exception_ptr& error, const json& want) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    std::string wrong;
    if (!is_of_class(e, want.at("class"))) wrong += "another class; ";
    const std::string text = lower(e.what());
    for (const auto& word : want.at("mentions")) {
      if (text.find(lower(word)) == std::string::npos) wrong += "no " + word.dump() + "; ";
    }
    return wrong.empty() ? "" : wrong + "got " + typeid(e).name() + ": " + e.what();
  }
}

std::vector<std::string> axes_in(const json& j) {
  return j.is_null() ? std::vector<std::string>{} : j.get<std::vector<std::string>>();
}
std::vector<std::string> names_of(const std::vector<AxisRef>& axes) {
  std::vector<std::string> out;
  for (const auto& a : axes) out.push_back(a.name());
  return out;
}

std::string text_of(const std::vector<ArrayType>& types) {
  std::string out;
  for (const auto& t : types) out += (out.empty() ? "" : ", ") + t.text();
  return out;
}
std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return std::string(typeid(e).name()) + ": " + e.what();
  }
}

/// Empty where the types are as recorded.
std::string compare_types(const std::vector<ArrayType>& got, const json& want) {
  bool same = got.size() == want.size();
  for (std::size_t i = 0; same && i < got.size(); ++i) {
    const json& w = want[i];
    auto sorted = [](std::vector<std::string> v) {
      std::sort(v.begin(), v.end());
      return v;
    };
    same = got[i].text() == w.at("type") && got[i].shape == w.at("shape").get<Shape>() &&
           got[i].dtype == to_dtype(w.at("dtype")) &&
           sorted(names_of(got[i].spec.unreduced())) == sorted(axes_in(w.at("unreduced"))) &&
           sorted(names_of(got[i].spec.reduced())) == sorted(axes_in(w.at("reduced"))) &&
           got[i].spec.entries() == to_partition_spec({{"spec", w.at("spec")}}).entries();
  }
  return same ? "" : "got " + text_of(got);
}

std::string compare(const Outcome& got, const json& want) {
  if (want.contains("error")) return got.error ? compare_error(got.error, want["error"]) : "got " + text_of(got.types);
  return got.error ? "got " + text_of(got.error) : compare_types(got.types, want["results"]);
}

bool has_marked_operand(const json& c) {
  for (const auto& o : c.at("operands")) {
    for (const char* mark : {"unreduced", "reduced"}) {
      if (o.contains(mark) && !o[mark].empty()) return true;
    }
  }
  return false;
}

/// What the specification's text asks for where the recorded outcome is another.
const json* departure(const std::string& id) {
  static const std::map<std::string, json> table = {
      // E66: unreduced axes are compared too.
      {"constraint/008", json::parse(R"({"error": {"class": "ShardingTypeError", "mentions": ["unreduced"]}})")},
      // Shapes that do not fit are ValueErrors here, and functions of jax.lax broadcast as those of jax.numpy do.
      {"nary/081", json::parse(R"({"error": {"class": "ValueError", "mentions": ["add", "broadcast"]}})")},
      {"nary/082", json::parse(R"({"error": {"class": "ValueError", "mentions": ["add", "broadcast"]}})")},
      {"nary/083", json::parse(R"({"results": [{"shape": [8, 4], "dtype": "f32", "spec": ["x", null],
        "unreduced": [], "reduced": [], "type": "float32[8@x,4]"}]})")},
      {"reshape_out/013", json::parse(R"({"error": {"class": "ValueError", "mentions": ["reshape"]}})")},
      {"reshape_out/014", json::parse(R"({"error": {"class": "ValueError", "mentions": ["reshape"]}})")},
      {"shard_map/022", json::parse(R"({"error": {"class": "ValueError", "mentions": ["broadcast"]}})")},
      {"squeeze/005", json::parse(R"({"error": {"class": "ValueError", "mentions": ["squeeze"]}})")},
      // E90: cotangents have their primals' placements, also where JAX's rule reshapes what it cannot place.
      {"grad/046", json::parse(R"({"results": [{"shape": [8, 4], "dtype": "f32", "spec": ["x", null],
        "unreduced": [], "reduced": [], "type": "float32[8@x,4]"}]})")},
      // E94: a tangent has the type of its primal.
      {"grad/104", json::parse(R"({"error": {"class": "ValueError", "mentions": ["jvp", "x"]}})")},
  };
  auto it = table.find(id);
  return it == table.end() ? nullptr : &it->second;
}

/// Empty where the case is as it should be.
std::string run_case(const json& c) {
  const std::string level = c.at("level");
  const Outcome got = outcome_of(c);
  if (const json* other = departure(c.at("id"))) return compare(got, *other);
  if (level == "core") return compare(got, c.contains("tessera") ? c["tessera"] : c.at("expected"));
  if (c.contains("tessera")) return compare(got, c["tessera"]);
  // Where JAX fails on an assertion or a lookup there are no words, and rules name the class: E5, E12, E65, E68.
  const json& expected = c.at("expected");
  if (level == "defect" && got.error && expected.contains("error") && expected["error"]["mentions"].empty()) {
    return compare_error(got.error, {{"class", "ValueError"}, {"mentions", json::array()}}).empty()
               ? ""
               : compare_error(got.error, expected["error"]);
  }
  const std::string wrong = compare(got, expected);
  // What JAX refuses may have a result, where it is a gap of JAX or a value with marks that an operation can pass on.
  const bool may_succeed = level == "gap" || has_marked_operand(c);
  return !got.error && c["expected"].contains("error") && may_succeed ? "" : wrong;
}

TEST(ExplicitCases, All) {
  ClientScope scope(test_client(8));
  const char* only = std::getenv("TESSERA_EXPLICIT_ONLY");
  std::ifstream file(data_path("explicit/cases.jsonl"));
  std::map<std::string, std::pair<int, int>> families;  // passed, all
  std::set<std::string> requirements;
  int total = 0;
  int passed = 0;
  std::string line;
  while (std::getline(file, line)) {
    const json c = json::parse(line);
    const std::string id = c.at("id");
    if (c.at("level") == "absent" || (only != nullptr && id.rfind(only, 0) != 0)) continue;
    std::string wrong;
    try {
      wrong = run_case(c);
    } catch (const std::exception& e) {
      wrong = std::string("the case threw ") + e.what();
    }
    auto& family = families[id.substr(0, id.find('/'))];
    ++family.second;
    ++total;
    for (const auto& r : c.at("req")) requirements.insert(r);
    if (wrong.empty()) {
      ++family.first;
      ++passed;
      continue;
    }
    const json& e = c.contains("tessera") ? c["tessera"] : c["expected"];
    std::string want;
    if (e.contains("error")) want = e["error"].dump();
    if (e.contains("results")) {
      for (const auto& r : e["results"]) want += (want.empty() ? "" : ", ") + r.at("type").get<std::string>();
    }
    std::cout << id << " " << c["op"].get<std::string>() << " [" << c["level"].get<std::string>() << "]: expected "
              << want << "; " << wrong << "\n";
  }
  for (const auto& [name, n] : families) {
    if (n.first != n.second) std::cout << name << " " << n.first << "/" << n.second << "\n";
  }
  std::cout << "all " << passed << "/" << total << "\n";
  EXPECT_EQ(passed, total);
  if (only != nullptr) return;
  EXPECT_EQ(total, 2393);
  record_cases("explicit_sharding/cases.jsonl", passed, total);
  record_requirements(requirements);
}

}  // namespace
}  // namespace tessera::test
