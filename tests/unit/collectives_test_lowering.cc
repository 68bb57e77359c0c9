// SPDX-License-Identifier: Apache-2.0
// What programs with collectives look like as StableHLO: the recorded facts, and texts in full.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "base/strings.h"
#include "tests/support/collective_case.h"
#include "tests/support/spec_report.h"

namespace tessera::test {
namespace {

using nlohmann::json;
using Leaves = std::vector<Array>;

class Lowering : public ::testing::Test {
 protected:
  Client client_ = Client::cpu({.devices = 8});
  ClientScope scope_{client_};
};

auto mapped(const json& c) {
  auto sizes = c.at("mesh_shape").get<Shape>();
  std::vector<AxisSize> axes;
  for (std::size_t a = 0; a < sizes.size(); ++a) axes.push_back({c.at("mesh_axes").at(a).get<std::string>(), sizes[a]});
  ShardMapOptions options{.check_vma = c.at("check_vma").get<bool>()};
  if (c.contains("manual_axes")) options.axis_names = c.at("manual_axes").get<std::vector<std::string>>();
  return shard_map([c](const Leaves& x) { return case_body(c, x); }, AbstractMesh(axes),
                   SpecTree{spec_list(c.at("in_specs"))}, spec_list(c.at("out_specs")), options);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::string line;
  for (char ch : text) {
    if (ch == '\n') {
      out.push_back(line.substr(std::min(line.find_first_not_of(' '), line.size())));
      line.clear();
    } else {
      line += ch;
    }
  }
  return out;
}

// dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, one number for all included.
json matrix(const std::string& text) {
  std::smatch m;
  if (!std::regex_search(text, m, std::regex("dense<(.*?)> : tensor<([0-9]+)x([0-9]+)xi64>"))) return "no matrix";
  int rows = std::stoi(m[2]), columns = std::stoi(m[3]);
  json v = m[1].str().empty() ? json::array() : json::parse(m[1].str());
  if (v.is_array()) return v;
  return json(
      std::vector<json>(static_cast<std::size_t>(rows), json(std::vector<json>(static_cast<std::size_t>(columns), v))));
}
json tensors(const std::string& text) {
  json out = json::array();
  std::regex type("tensor<(.*?)>");
  for (std::sregex_iterator it(text.begin(), text.end(), type), end; it != end; ++it) out.push_back((*it)[1].str());
  return out;
}
void add_signature(json& d, const std::string& line) {
  auto colon = line.rfind(" : ("), arrow = line.rfind(" -> ");
  d["operands"] = tensors(line.substr(colon, arrow - colon));
  d["results"] = tensors(line.substr(arrow));
}

// Index arithmetic: a partition's number divided, then the remainder.
class Indices {
 public:
  std::optional<json> see(const std::string& s) {
    std::smatch m;
    if (std::regex_match(s, m, std::regex("(%\\S+) = stablehlo\\.constant dense<(\\d+)> : tensor<ui32>"))) {
      constants_[m[1]] = std::stoi(m[2]);
    } else if (std::regex_match(s, m, std::regex("(%\\S+) = stablehlo\\.(partition_id|replica_id) : tensor<ui32>"))) {
      known_[m[1]] = json{{"op", "axis_index"}, {"id", m[2].str()}};
    } else if (std::regex_match(
                   s, m, std::regex("(%\\S+) = stablehlo\\.(divide|remainder) (%\\S+), (%\\S+) : tensor<ui32>"))) {
      if (!known_.contains(m[3])) return std::nullopt;
      json d = known_[m[3]];
      d[m[2] == "divide" ? "divide_by" : "modulo"] = constants_.at(m[4]);
      known_[m[1]] = d;
    } else if (std::regex_match(
                   s, m, std::regex("(%\\S+) = stablehlo\\.convert (%\\S+) : \\(tensor<ui32>\\) -> tensor<(i32)>"))) {
      if (!known_.contains(m[2])) return std::nullopt;
      json d = known_[m[2]];
      d["convert_to"] = m[3].str();
      return d;
    }
    return std::nullopt;
  }

 private:
  std::map<std::string, int> constants_;
  std::map<std::string, json> known_;
};

json collectives_of(const std::string& text) {
  json out = json::array();
  Indices indices;
  auto lines = lines_of(text);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string& s = lines[i];
    if (auto d = indices.see(s)) out.push_back(*d);
    std::smatch m;
    json d;
    if (s.find("custom_call @ragged_all_to_all") != std::string::npos) {
      d = {{"op", "custom_call"}, {"target", "ragged_all_to_all"}};
      if (std::regex_search(s, m, std::regex("api_version = (\\d+)"))) d["api_version"] = std::stoi(m[1]);
      d["backend_config"]["replica_groups"] = matrix(s.substr(s.find("replica_groups")));
      if (std::regex_search(s, m, std::regex("channel_id = \\d+ : (i64)"))) {
        d["backend_config"]["channel_id"] = {{"type", m[1].str()}, {"present", true}};
      }
      add_signature(d, s);
      out.push_back(d);
    }
    static const std::regex op(
        "\"stablehlo\\.(all_reduce|all_gather|all_to_all|reduce_scatter|collective_permute|collective_broadcast)\"");
    if (!std::regex_search(s, m, op)) continue;
    d["op"] = m[1].str();
    for (const char* name : {"replica_groups", "source_target_pairs"}) {
      if (auto at = s.find(name); at != std::string::npos) d[name] = matrix(s.substr(at));
    }
    bool channel = std::regex_search(s, m, std::regex("channel_handle<handle = (\\d+), type = (\\d+)>"));
    if (channel && std::stoi(m[1]) <= 0) d["wrong"] = "the channel's handle is not positive";
    d["channel"] = {{"present", channel}, {"type", channel ? json(std::stoi(m[2])) : json()}};
    d["use_global_device_ids"] = s.find("use_global_device_ids") != std::string::npos;
    for (const char* name :
         {"all_gather_dim", "scatter_dimension", "split_dimension", "concat_dimension", "split_count"}) {
      if (std::regex_search(s, m, std::regex(std::string(name) + " = (\\d+) : i64"))) d[name] = std::stoi(m[1]);
    }
    std::size_t last = i;
    if (s.ends_with("({")) {
      while (!lines[last].starts_with("})")) ++last;
      for (std::size_t k = i + 1; k < last && !d.contains("reducer"); ++k) {
        if (std::regex_search(lines[k], m, std::regex("stablehlo\\.(\\w+)"))) d["reducer"] = m[1].str();
      }
    }
    add_signature(d, lines[last]);
    out.push_back(d);
  }
  return out;
}

std::string text_of(const json& c) {
  StablehloTextOptions options{.shardy = true, .replicas = !c.at("spmd").get<bool>()};
  return jit(mapped(c)).trace(arrays(c.at("inputs"))).as_text(options);
}

TEST_F(Lowering, RecordedFacts) {
  TESSERA_SPEC("C119");
  int passed = 0, total = 0;
  std::set<std::string> shown;
  for (const auto& c : collective_cases("lowering_cases.jsonl")) {
    for (const auto& id : c.at("req")) shown.insert(id.get<std::string>());
    ++total;
    std::string text, wrong;
    try {
      text = text_of(c);
      json got = collectives_of(text);
      if (got != c.at("collectives")) wrong = str("got ", got.dump(), "\nexpected ", c.at("collectives").dump());
    } catch (const std::exception& e) {
      wrong = e.what();
    }
    passed += wrong.empty() ? 1 : 0;
    EXPECT_EQ(wrong, "") << c.at("id") << "\n" << text;
  }
  record_requirements(shown);
  record_cases("collectives/lowering_cases.jsonl", passed, total);
}

// A module's text around the body of one map over 8 f32.
std::string text_of(const std::function<Array(const Array&)>& f, const AbstractMesh& mesh, const PartitionSpec& in,
                    const PartitionSpec& out, const Shape& shape = {8}, StablehloTextOptions options = {}) {
  auto body = shard_map([&](const Array& x) { return f(x); }, mesh, in, out, {.check_vma = false});
  return jit(body).trace(zeros(shape)).as_text(options);
}
std::vector<std::string> operations(const std::string& text) {
  std::vector<std::string> out;
  std::regex op("\"?((stablehlo|sdy)\\.\\w+)");
  for (const auto& l : lines_of(text)) {
    std::smatch m;
    if (l.starts_with("%") && std::regex_search(l, m, op)) out.push_back(m[1]);
  }
  return out;
}

TEST_F(Lowering, ModulesCountPartitionsOrReplicas) {
  TESSERA_SPEC("C20", "C21");
  auto f = [](const Array& x) { return psum(x, "x"); };
  AbstractMesh mesh{{"x", 4}};
  std::string spmd = text_of(f, mesh, P("x"), P("x"));
  EXPECT_NE(spmd.find("mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32"), std::string::npos) << spmd;
  EXPECT_NE(spmd.find("sdy.manual_computation"), std::string::npos) << spmd;
  std::string replica = text_of(f, mesh, P("x"), P("x"), {8}, {.replicas = true});
  EXPECT_EQ(replica,
            "module @jit attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 4 : i32} {\n"
            "  func.func public @main(%arg0: tensor<2xf32>) -> (tensor<2xf32> {jax.result_info = \"result\"}) {\n"
            "    %0 = \"stablehlo.all_reduce\"(%arg0) <{replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> ({\n"
            "    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):\n"
            "      %1 = stablehlo.add %arg1, %arg2 : tensor<f32>\n"
            "      stablehlo.return %1 : tensor<f32>\n"
            "    }) : (tensor<2xf32>) -> tensor<2xf32>\n"
            "    return %0 : tensor<2xf32>\n"
            "  }\n"
            "}\n");
  // What lies outside of the map belongs to no replica.
  auto more = [&](const Array& x) { return shard_map(f, mesh, P("x"), P("x"), {.check_vma = false})(x) + 1.0; };
  EXPECT_THROW(jit(more).trace(zeros({8})).as_text({.replicas = true}), UnimplementedError);
}

TEST_F(Lowering, PmapIsWrittenForReplicas) {
  TESSERA_SPEC("C21");
  auto f = pmap([](Array x) { return x / psum(x, "i") + astype(axis_index("i"), float32); }, {.axis_name = "i"});
  std::string text = f.as_text({.replicas = true}, zeros({8, 3}));
  EXPECT_NE(text.find("mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 8 : i32"), std::string::npos) << text;
  EXPECT_NE(text.find("@main(%arg0: tensor<1x3xf32>)"), std::string::npos) << text;
  EXPECT_NE(text.find("stablehlo.replica_id"), std::string::npos) << text;
  EXPECT_EQ(text.find("channel_handle"), std::string::npos) << text;
  std::string spmd = f.as_text({}, zeros({8, 3}));
  EXPECT_NE(spmd.find("mhlo.num_partitions = 8 : i32"), std::string::npos) << spmd;
  EXPECT_NE(spmd.find("stablehlo.partition_id"), std::string::npos) << spmd;
}

TEST_F(Lowering, GroupsNumberPositionsOfTheWholeMesh) {
  TESSERA_SPEC("C18", "C19", "C22");
  AbstractMesh mesh{{"x", 2}, {"y", 4}};
  auto groups = [&](const AxisNames& names) {
    return text_of([=](const Array& x) { return psum(x, names); }, mesh, P(axes("x", "y")), P(axes("x", "y")));
  };
  EXPECT_NE(groups("y").find("dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>"), std::string::npos);
  EXPECT_NE(groups("x").find("dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>"), std::string::npos);
  EXPECT_NE(groups({"y", "x"}).find("dense<[[0, 4, 1, 5, 2, 6, 3, 7]]> : tensor<1x8xi64>"), std::string::npos);
  // Over part of the axes, the groups still name every position; an index needs the other axes manual, too.
  auto part = shard_map([](Array x) { return psum(x, "x") * astype(axis_index("x"), float32); }, mesh, P("x"), P("x"),
                        {.axis_names = {"x"}, .check_vma = false});
  std::string text = jit(part).trace(zeros({8})).as_text();
  EXPECT_NE(text.find("manual_axes={\"x\"} (%arg1: tensor<4xf32>)"), std::string::npos) << text;
  EXPECT_NE(text.find("dense<[[0, 4], [1, 5], [2, 6], [3, 7]]>"), std::string::npos) << text;
  EXPECT_NE(text.find("sdy.manual_computation() in_shardings=[] out_shardings=[<@mesh, []>] manual_axes={\"y\"} () {"),
            std::string::npos)
      << text;
}

TEST_F(Lowering, NoCollectiveWhereNoneIsNeeded) {
  TESSERA_SPEC("C23");
  AbstractMesh mesh{{"x", 4}};
  auto none_in = [&](const std::function<Array(const Array&)>& f) {
    std::string text = text_of(f, mesh, P("x"), P("x"));
    EXPECT_TRUE(collectives_of(text).empty()) << text;
  };
  none_in([](const Array& x) { return x * psum(1, "x"); });
  none_in([](const Array& x) { return psum(x, AxisNames(std::vector<std::string>{})); });
  none_in([](const Array& x) { return x + psum(x, 0); });
  none_in([](const Array& x) { return x * static_cast<double>(axis_size("x")); });
  none_in([](const Array& x) { return vmap([](Array v) { return psum(v, "i"); }, {.axis_name = "i"})(x); });
  none_in([](const Array& x) {
    return all_to_all(x, "x", 0, 0, {.axis_index_groups = AxisIndexGroups{{0}, {1}, {2}, {3}}, .tiled = true});
  });
  AbstractMesh one{{"x", 1}};
  std::string text = text_of([](const Array& x) { return psum(x, "x"); }, one, P("x"), P("x"));
  EXPECT_NE(text.find("replica_groups = dense<0> : tensor<1x1xi64>"), std::string::npos) << text;
}

TEST_F(Lowering, LocalReductionsComeFirst) {
  TESSERA_SPEC("C39");
  std::string text = text_of(
      [](const Array& x) {
        return psum(x, AxisNames{"x", AxisNames::Name(0)});
      },
      AbstractMesh{{"x", 4}}, P("x"), P(), {8, 3});
  auto local = text.find("applies stablehlo.add across dimensions = [0]"), sum = text.find("stablehlo.all_reduce");
  ASSERT_NE(local, std::string::npos) << text;
  ASSERT_NE(sum, std::string::npos) << text;
  EXPECT_LT(local, sum);
  EXPECT_NE(text.find("stablehlo.add %arg", sum), std::string::npos) << text;
}

using Names = std::vector<std::string>;
// Operations of the map's body.
Names body_operations(const std::function<Array(const Array&)>& f, const Shape& shape,
                      const AbstractMesh& mesh = AbstractMesh{{"x", 4}}) {
  return operations(text_of(f, mesh, P(mesh.axis_names()[0]), P(mesh.axis_names()[0]), shape));
}

TEST_F(Lowering, ArgumentOfTheMaximum) {
  TESSERA_SPEC("C51");
  Names ops = body_operations([](const Array& x) { return pargmax(x, "x"); }, {8});
  auto place = [&](const char* op, std::size_t from = 0) {
    return static_cast<std::size_t>(std::find(ops.begin() + static_cast<std::ptrdiff_t>(from), ops.end(), op) -
                                    ops.begin());
  };
  auto largest = place("stablehlo.all_reduce");
  auto equal = place("stablehlo.compare", largest), chosen = place("stablehlo.select", equal);
  auto least = place("stablehlo.all_reduce", chosen);
  EXPECT_LT(place("stablehlo.partition_id"), ops.size());
  EXPECT_LT(least, ops.size()) << join(ops);
}

TEST_F(Lowering, UnitDimensionsAroundGathersAndExchanges) {
  TESSERA_SPEC("C70", "C71", "C95", "C103");
  Names untiled = body_operations([](const Array& x) { return all_to_all(x, "x", 0, 1); }, {16, 3});
  EXPECT_EQ(untiled, (Names{"sdy.manual_computation", "stablehlo.broadcast_in_dim", "stablehlo.all_to_all",
                            "stablehlo.reshape"}));
  // The split dimension in front of the new one stays where it is, behind it moves by one.
  std::string front =
      text_of([](const Array& x) { return all_to_all(x, "x", 0, 1); }, AbstractMesh{{"x", 4}}, P("x"), P("x"), {16, 3});
  EXPECT_NE(front.find("concat_dimension = 2 : i64"), std::string::npos) << front;
  EXPECT_NE(front.find("split_count = 4 : i64, split_dimension = 0 : i64"), std::string::npos) << front;
  std::string back =
      text_of([](const Array& x) { return all_to_all(x, "x", 1, 0); }, AbstractMesh{{"x", 4}}, P("x"), P("x"), {12, 4});
  EXPECT_NE(back.find("concat_dimension = 0 : i64"), std::string::npos) << back;
  EXPECT_NE(back.find("split_dimension = 2 : i64"), std::string::npos) << back;
  Names same = body_operations([](const Array& x) { return all_to_all(x, "x", 0, 0); }, {16, 3});
  EXPECT_EQ(same, (Names{"sdy.manual_computation", "stablehlo.all_to_all"}));
  Names gathered = body_operations([](const Array& x) { return all_gather(x, "x", {.axis = 1}); }, {8, 3});
  EXPECT_EQ(gathered, (Names{"sdy.manual_computation", "stablehlo.broadcast_in_dim", "stablehlo.all_gather"}));
  Names scattered =
      body_operations([](const Array& x) { return psum_scatter(x, "x", {.scatter_dimension = 1}); }, {8, 4});
  scattered.erase(std::remove(scattered.begin(), scattered.end(), "stablehlo.add"), scattered.end());
  EXPECT_EQ(scattered, (Names{"sdy.manual_computation", "stablehlo.reduce_scatter", "stablehlo.reshape"}));
}

TEST_F(Lowering, BroadcastsAndPermutations) {
  TESSERA_SPEC("C57", "C64", "C88");
  AbstractMesh mesh{{"x", 2}, {"y", 4}};
  auto over = [&](const std::function<Array(const Array&)>& f) {
    return text_of(f, mesh, P(axes("x", "y")), P(axes("x", "y")));
  };
  std::string text = over([](const Array& x) { return pbroadcast(x, "y", 2); });
  EXPECT_NE(text.find("dense<[[2, 0, 1, 3], [6, 4, 5, 7]]> : tensor<2x4xi64>"), std::string::npos) << text;
  std::vector<std::pair<std::int64_t, std::int64_t>> none;
  text = over([&](const Array& x) { return ppermute(x, "y", none); });
  EXPECT_NE(text.find("source_target_pairs = dense<> : tensor<0x2xi64>"), std::string::npos) << text;
  // A tuple counts from its least significant name.
  text = over([](const Array& x) { return x + astype(axis_index({"y", "x"}), float32); });
  json facts = collectives_of(text);
  ASSERT_EQ(facts.size(), 2U) << text;
  EXPECT_EQ(facts[0].at("divide_by"), 4);
  EXPECT_EQ(facts[0].at("modulo"), 2);
  EXPECT_EQ(facts[1].at("modulo"), 4);
}

}  // namespace
}  // namespace tessera::test
