// SPDX-License-Identifier: Apache-2.0
// Recorded programs of explicit sharding: values, placements and types of their results, eagerly and compiled, and the
// shardings in the text that they are lowered to. TESSERA_EXPLICIT_ONLY chooses programs by the beginning of their ids.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <regex>
#include <set>

#include "explicit/program.h"
#include "support/paths.h"
#include "support/spec_report.h"
#include "support/test_client.h"

namespace tessera::test {
namespace {

void flatten(const json& j, std::vector<double>& out) {
  if (j.is_array()) {
    for (const auto& e : j) flatten(e, out);
  } else if (j.is_boolean()) {
    out.push_back(j.get<bool>() ? 1 : 0);
  } else if (j.is_string()) {
    out.push_back(std::stod(j.get<std::string>()));
  } else {
    out.push_back(j.get<double>());
  }
}
std::vector<double> numbers(const json& j) {
  std::vector<double> out;
  flatten(j, out);
  return out;
}

Array input_of(const json& j, const Mesh& mesh) {
  const HostArray host = HostArray::from(numbers(j.at("data")), j.at("shape").get<Shape>());
  return device_put(host.astype(to_dtype(j.at("dtype"))), NamedSharding(mesh, to_partition_spec(j)).share());
}

/// `largest` is that of all elements: what cancels is known as well as what it is made of.
bool close(double a, double b, bool exact, double largest) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return exact ? a == b : std::abs(a - b) <= 1e-5 + 1e-5 * std::max(std::abs(b), 0.1 * largest);
}

/// The global value; of an unreduced array the sum.
std::vector<double> global_value(const Array& y) {
  const ArrayType t = type_of(y);
  if (t.spec.unreduced().empty()) return y.host().astype(float64).to_vector<double>();
  return reshard(y, PartitionSpec(t.spec.entries())).host().astype(float64).to_vector<double>();
}

std::string compare_value(const Array& y, const json& want) {
  const std::vector<double> got = global_value(y);
  const std::vector<double> data = numbers(want.at("data"));
  const bool exact = !is_inexact(to_dtype(want.at("dtype")));
  if (got.size() != data.size()) return "another number of elements; ";
  double largest = 0;
  for (double v : data) largest = std::max(largest, std::abs(v));
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!close(got[i], data[i], exact, largest)) {
      return "element " + std::to_string(i) + " is " + std::to_string(got[i]) + ", not " + std::to_string(data[i]) +
             "; ";
    }
  }
  return "";
}

/// Every device's block has the shape that the entries of the type give.
std::string check_blocks(const Array& y) {
  const ArrayType t = type_of(y);
  if (t.mesh.empty()) return "";
  Shape block = t.shape;
  for (std::size_t d = 0; d < block.size() && d < t.spec.size(); ++d) {
    for (const auto& axis : t.spec[d].axes()) block[d] /= t.mesh.axis_size(axis);
  }
  for (const auto& s : y.addressable_shards()) {
    const Shape& shape = s.value().shape();
    for (std::size_t d = 0; d < block.size(); ++d) {
      if (shape[d] > block[d] || block[d] % shape[d] != 0)
        return "a block of shape " + to_string(shape) + " for " + t.text() + "; ";
    }
  }
  return "";
}

/// What JAX types otherwise than it is written: placements that a nested jit gives its results.
std::string type_text(const std::string& id, const json& want) {
  return id == "jit/nested-out" ? "float32[8,4@y]" : want.at("type").get<std::string>();
}

std::string compare_results(const std::string& id, const Arrays& got, const json& want) {
  std::string wrong;
  if (got.size() != want.size()) return "another number of results; ";
  for (std::size_t i = 0; i < got.size(); ++i) {
    const std::string type = type_of(got[i]).text();
    if (type != type_text(id, want[i]))
      wrong += "result " + std::to_string(i) + " is " + type + ", not " + type_text(id, want[i]) + "; ";
    wrong += check_blocks(got[i]);
    wrong += compare_value(got[i], want[i]);
  }
  return wrong;
}

// --- text ------------------------------------------------------------------------------------------------------------

/// What a lowered text places: the meshes, each argument and result of @main ("-" where nothing is written), and the
/// constraints in order, with the type of what they constrain.
struct Placements {
  std::vector<std::string> meshes, arguments, results, constraints;
};

/// The text from `at` on, up to the bracket that closes the one there.
std::string bracketed(const std::string& text, std::size_t at) {
  const char open = text[at];
  const char close = open == '(' ? ')' : '>';
  int depth = 0;
  for (std::size_t i = at; i < text.size(); ++i) {
    if (text[i] == open) ++depth;
    if (text[i] == close && (close == ')' || text[i - 1] != '-') && --depth == 0) return text.substr(at, i - at + 1);
  }
  return text.substr(at);
}

std::vector<std::string> shardings_in(const std::string& list) {
  std::vector<std::string> out;
  int depth = 0;
  std::string part;
  for (char c : list.substr(1, list.size() - 2) + ",") {
    if (c == '(' || c == '<' || c == '{' || c == '[') ++depth;
    if (c == ')' || c == '>' || c == '}' || c == ']') --depth;
    if (c != ',' || depth != 0) {
      part += c;
      continue;
    }
    static const std::regex sharding(R"(#sdy\.sharding<@\w+, ([^>]*)>)");
    std::smatch m;
    if (!part.empty()) out.push_back(std::regex_search(part, m, sharding) ? m[1].str() : "-");
    part.clear();
  }
  return out;
}

Placements placements_of(const std::string& text) {
  Placements p;
  static const std::regex mesh(R"(sdy\.mesh @\w+ = <(\[[^\]]*\]))");
  for (std::sregex_iterator i(text.begin(), text.end(), mesh), end; i != end; ++i) p.meshes.push_back((*i)[1]);
  const std::size_t main = text.find("@main(");
  if (main != std::string::npos) {
    const std::string arguments = bracketed(text, main + 5);
    p.arguments = shardings_in(arguments);
    std::size_t at = main + 5 + arguments.size();
    if (text.compare(at, 4, " -> ") == 0) {
      at += 4;
      const std::size_t end = text.find("{\n", at);
      p.results = shardings_in(text[at] == '(' ? bracketed(text, at) : "(" + text.substr(at, end - at) + ")");
    }
  }
  static const std::regex constraint(R"(sdy\.sharding_constraint %[\w#]+ <@\w+, ([^>]*)> : (tensor<[^>]*>))");
  for (std::sregex_iterator i(text.begin(), text.end(), constraint), end; i != end; ++i)
    p.constraints.push_back((*i)[1].str() + " : " + (*i)[2].str());
  return p;
}

std::string joined(const std::vector<std::string>& list) {
  std::string out;
  for (const auto& e : list) out += (out.empty() ? "" : " | ") + e;
  return out;
}
std::string compare_lists(const char* what, const std::vector<std::string>& got, const std::vector<std::string>& want) {
  if (got == want) return "";
  return std::string(what) + ": " + joined(got) + " in place of " + joined(want) + "; ";
}

/// Whether the elements of `part` occur in `all`, in their order.
bool holds(const std::vector<std::string>& all, const std::vector<std::string>& part) {
  std::size_t next = 0;
  for (const auto& e : all) next += next < part.size() && e == part[next] ? 1 : 0;
  return next == part.size();
}

/// The constraint that follows an equation with a result of this type, as `placements_of` shows it.
std::string constraint_of(const ArrayType& t) {
  std::string dims;
  for (const auto& entry : t.spec) {
    std::string axes;
    for (const auto& a : entry.axes()) axes += (axes.empty() ? "\"" : ", \"") + a.name() + "\"";
    if (!t.mesh.auto_axes().empty()) axes += axes.empty() ? "?" : ", ?";
    dims += (dims.empty() ? "{" : ", {") + axes + "}";
  }
  std::string open;
  for (const auto& a : t.spec.unreduced()) open += (open.empty() ? "\"" : ", \"") + a.name() + "\"";
  std::string out = "[" + dims + "]" + (open.empty() ? "" : ", unreduced={" + open + "}") + " : tensor<";
  for (auto n : t.shape) out += std::to_string(n) + "x";
  return out + std::string(t.dtype == bool_ ? "i1" : dtype_short(t.dtype)) + ">";
}

/// Meshes, results and the arguments that JAX keeps are equal. Between the steps of a program the two libraries lower
/// operations in their own ways, so of the constraints those on the results of steps, in order, must be in both.
std::string compare_text(const std::string& got_text, const std::string& want_text,
                         const std::vector<std::string>& of_steps) {
  const Placements got = placements_of(got_text);
  const Placements want = placements_of(want_text);
  std::string wrong = compare_lists("meshes", got.meshes, want.meshes);
  if (!holds(got.arguments, want.arguments)) wrong += compare_lists("arguments", got.arguments, want.arguments);
  wrong += compare_lists("results", got.results, want.results);
  std::vector<std::string> shown;  // the steps after which JAX constrains
  for (const auto& line : of_steps) {
    shown.push_back(line);
    if (!holds(want.constraints, shown)) shown.pop_back();
  }
  if (!holds(got.constraints, shown)) wrong += compare_lists("constraints", got.constraints, shown);
  return wrong;
}

// --- programs --------------------------------------------------------------------------------------------------------

/// Each way of running it on its own, so that a report tells them apart.
std::string run_case(const json& c) {
  const Mesh mesh = to_typed_mesh(c.at("mesh"));
  const SetMesh scope(mesh);
  const std::string id = c.at("id");
  const json& program = c.at("program");
  Arrays inputs;
  for (const auto& i : c.at("inputs")) inputs.push_back(input_of(i, mesh));
  std::string wrong;
  auto attempt = [&](const char* how, const std::function<std::string()>& f) {
    try {
      const std::string found = f();
      if (!found.empty()) wrong += std::string("[") + how + "] " + found;
    } catch (const std::exception& e) {
      wrong += std::string("[") + how + "] threw " + e.what() + "; ";
    }
  };
  auto f = jit([&](const Arrays& a) { return run_program(program, a); });
  attempt("eager", [&] { return compare_results(id, run_program(program, inputs), c.at("results")); });
  attempt("jit", [&] { return compare_results(id, f(inputs), c.at("results")); });
  attempt("text", [&] {
    if (c.contains("level") || id == "jit/nested-out") return std::string();
    std::vector<std::string> of_steps;
    for (const auto& t : types_of_steps(program, inputs)) of_steps.push_back(constraint_of(t));
    return compare_text(f.lower(inputs).as_text({.shardy = true}), c.at("stablehlo"), of_steps);
  });
  return wrong;
}

TEST(ExplicitValues, All) {
  ClientScope scope(test_client(8));
  const char* only = std::getenv("TESSERA_EXPLICIT_ONLY");
  std::ifstream file(data_path("explicit/values.jsonl"));
  std::set<std::string> requirements;
  int total = 0;
  int passed = 0;
  std::string line;
  while (std::getline(file, line)) {
    const json c = json::parse(line);
    const std::string id = c.at("id");
    if (only != nullptr && id.rfind(only, 0) != 0) continue;
    ++total;
    for (const auto& r : c.at("req")) requirements.insert(r);
    std::string wrong;
    try {
      wrong = run_case(c);
    } catch (const std::exception& e) {
      wrong = std::string("the case threw ") + e.what();
    }
    if (wrong.empty()) {
      ++passed;
    } else {
      std::cout << id << ": " << wrong << "\n";
    }
  }
  std::cout << "values " << passed << "/" << total << "\n";
  EXPECT_EQ(passed, total);
  if (only != nullptr) return;
  EXPECT_EQ(total, 127);
  record_cases("explicit_sharding/values.jsonl", passed, total);
  record_requirements(requirements);
}

}  // namespace
}  // namespace tessera::test
