// SPDX-License-Identifier: Apache-2.0
// Clusters as JSON. What is read comes from outside: each field is checked before it is used.
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "base/strings.h"
#include "tessera/cluster_model.h"
#include "tessera/error.h"

namespace tessera {

namespace {

using nlohmann::json;

constexpr int kDeepest = 5;
constexpr std::size_t kMostText = 1 << 20;

constexpr std::array kDTypes{DType::Bool, DType::I8,  DType::I16,  DType::I32, DType::I64, DType::U8, DType::U16,
                             DType::U32,  DType::U64, DType::BF16, DType::F16, DType::F32, DType::F64};

/// An object whose fields are taken one by one; those that nobody took are unknown.
class Fields {
 public:
  Fields(const json& object, std::string path, const std::string& file)
      : object_(object), path_(std::move(path)), file_(file) {
    if (!object.is_object()) fail("", "an object");
  }
  Fields(const Fields&) = delete;
  Fields& operator=(const Fields&) = delete;

  [[noreturn]] void fail(const std::string& field, const std::string& expected) const {
    const json* v = field.empty() ? &object_ : find(field);
    std::string value = v == nullptr ? "missing" : v->dump(-1, ' ', true, json::error_handler_t::replace);
    if (value.size() > 60) value = value.substr(0, 57) + "...";
    throw FormatError(str(file_, ": ", name(field), " is ", value, "; expected ", expected), file_);
  }
  std::string name(const std::string& field) const {
    if (field.empty()) return path_.empty() ? "the text" : path_;
    return path_.empty() ? field : str(path_, ".", field);
  }

  /// Null where the field is missing.
  const json* take(const std::string& field) {
    taken_.insert(field);
    return find(field);
  }
  const json& need(const std::string& field, const std::string& expected) {
    const json* v = take(field);
    if (v == nullptr) fail(field, expected);
    return *v;
  }
  double number(const std::string& field, std::optional<double> otherwise = std::nullopt) {
    const json* v = take(field);
    if (v == nullptr && otherwise) return *otherwise;
    if (v == nullptr || !v->is_number()) fail(field, "a number");
    return v->get<double>();
  }
  std::int64_t integer(const std::string& field) {
    const double v = number(field);
    constexpr double kMost = 9007199254740992.0;  // 2^53
    if (!(v >= 0) || v > kMost || std::floor(v) != v) fail(field, "an integer of 0 to 2^53");
    return static_cast<std::int64_t>(v);
  }
  std::string text(const std::string& field, std::optional<std::string> otherwise = std::nullopt) {
    const json* v = take(field);
    if (v == nullptr && otherwise) return *otherwise;
    if (v == nullptr || !v->is_string()) fail(field, "a string");
    return v->get<std::string>();
  }
  bool flag(const std::string& field, bool otherwise) {
    const json* v = take(field);
    if (v == nullptr) return otherwise;
    if (!v->is_boolean()) fail(field, "true or false");
    return v->get<bool>();
  }
  const json& list(const std::string& field) {
    const json& v = need(field, "a list");
    if (!v.is_array()) fail(field, "a list");
    return v;
  }
  void end() const {
    for (const auto& [key, value] : object_.items()) {
      if (!taken_.contains(key)) throw FormatError(str(file_, ": there is no field ", name(key)), file_);
    }
  }

 private:
  const json* find(const std::string& field) const {
    auto it = object_.find(field);
    return it == object_.end() ? nullptr : &*it;
  }
  const json& object_;
  std::string path_;
  const std::string& file_;
  std::set<std::string> taken_;
};

DType dtype_of_name(const Fields& f, const std::string& name) {
  for (auto t : kDTypes) {
    if (dtype_name(t) == name) return t;
  }
  f.fail(name, "rates by dtype: bfloat16, float32, int8, ...");
}

ClusterDevice read_device(const json& j, const std::string& file) {
  Fields f(j, "device", file);
  ClusterDevice d;
  d.name = f.text("name", "");
  const json& rates = f.need("flops", "rates by dtype");
  Fields by_dtype(rates, "device.flops", file);
  for (const auto& [key, value] : rates.items()) d.flops[dtype_of_name(by_dtype, key)] = by_dtype.number(key);
  d.vector_flops = f.number("vector_flops");
  d.memory_bandwidth = f.number("memory_bandwidth");
  d.memory = f.integer("memory");
  d.launch = f.number("launch", 0.0);
  d.efficiency = f.number("efficiency", 1.0);
  d.write_cost = f.number("write_cost", 1.0);
  if (f.take("caches") != nullptr) {
    const json& caches = f.list("caches");
    for (std::size_t i = 0; i < caches.size(); ++i) {
      Fields cache(caches[i], str("device.caches[", i, "]"), file);
      d.caches.push_back({cache.integer("bytes"), cache.number("bandwidth"), cache.number("write_cost", 1.0)});
      cache.end();
    }
  }
  if (const json* operations = f.take("operations")) {
    Fields by_kind(*operations, "device.operations", file);
    for (const auto& [key, value] : operations->items()) d.operations[key] = by_kind.number(key);
  }
  f.end();
  return d;
}

ClusterLevel read_level(const json& j, std::size_t i, const std::string& file) {
  Fields f(j, str("levels[", i, "]"), file);
  ClusterLevel l;
  l.name = f.text("name");
  const std::string kind = f.text("kind");
  bool known = false;
  using Kind = ClusterLevel::Kind;
  for (auto k : {Kind::Torus, Kind::Switch, Kind::Shared, Kind::Memory}) {
    if (kind != to_string(k)) continue;
    l.kind = k;
    known = true;
  }
  if (!known) f.fail("kind", "\"torus\", \"switch\", \"shared\" or \"memory\"");
  for (const auto& n : f.list("sizes")) {
    if (!n.is_number_integer() || n.get<double>() < 1 ||
        n.get<double>() > static_cast<double>(ClusterModel::kMostDevices)) {
      f.fail("sizes", str("integers of 1 to ", ClusterModel::kMostDevices));
    }
    l.sizes.push_back(n.get<std::int64_t>());
  }
  l.wrap = f.flag("wrap", true);
  l.latency = f.number("latency", 0.0);
  l.bandwidth = f.number("bandwidth");
  l.efficiency = f.number("efficiency", 1.0);
  l.trees = f.flag("trees", true);
  if (l.kind == Kind::Switch) l.direct = f.flag("direct", false);
  if (l.kind == Kind::Memory) {
    if (f.take("cores") != nullptr) l.cores = f.integer("cores");
    l.spread = f.number("spread", 0.0);
    if (f.take("stream_bytes") != nullptr) l.stream_bytes = f.integer("stream_bytes");
  }
  f.end();
  return l;
}

json level_json(const ClusterLevel& l) {
  json j{{"name", l.name},           {"kind", to_string(l.kind)},  {"sizes", l.sizes}, {"latency", l.latency},
         {"bandwidth", l.bandwidth}, {"efficiency", l.efficiency}, {"trees", l.trees}};
  if (l.kind == ClusterLevel::Kind::Torus) j["wrap"] = l.wrap;
  if (l.kind == ClusterLevel::Kind::Switch) j["direct"] = l.direct;
  if (l.kind == ClusterLevel::Kind::Memory) {
    j["cores"] = l.cores;
    j["spread"] = l.spread;
    j["stream_bytes"] = l.stream_bytes;
  }
  return j;
}

}  // namespace

ClusterModel ClusterModel::parse(const std::string& text, const std::string& file, const Loc& loc) {
  if (text.size() > kMostText)
    throw FormatError(str(file, ": has ", text.size(), " bytes; expected at most ", kMostText), file);
  std::optional<std::string> twice;
  const base::Json read = base::parse_json(text, kDeepest, twice);
  if (read.value.is_discarded()) throw FormatError(str(file, ": the text is no JSON"), file);
  if (twice) throw FormatError(str(file, ": the field \"", *twice, "\" is there twice"), file);
  Fields f(read.value, "", file);
  ClusterModel c;
  c.name = f.text("name");
  c.source = f.text("source", "");
  c.device = read_device(f.need("device", "an object"), file);
  const json& levels = f.list("levels");
  for (std::size_t i = 0; i < levels.size(); ++i) c.levels.push_back(read_level(levels[i], i, file));
  if (const json* o = f.take("overlaps")) {
    c.overlaps.clear();
    if (!o->is_array()) f.fail("overlaps", "a list of collectives");
    for (const auto& name : *o) {
      if (!name.is_string()) f.fail("overlaps", "a list of collectives");
      c.overlaps.push_back(name.get<std::string>());
    }
  }
  f.end();
  c.check(file, loc);
  return c;
}

ClusterModel ClusterModel::load(const std::string& path, const Loc& loc) {
  return parse(base::read_file("ClusterModel::load", path), path, loc);
}

std::string ClusterModel::to_json() const {
  json rates = json::object();
  for (const auto& [dtype, r] : device.flops) rates[std::string(dtype_name(dtype))] = r;
  json j{{"name", name},
         {"source", source},
         {"device",
          {{"name", device.name},
           {"flops", rates},
           {"vector_flops", device.vector_flops},
           {"memory_bandwidth", device.memory_bandwidth},
           {"memory", device.memory},
           {"launch", device.launch},
           {"efficiency", device.efficiency}}},
         {"levels", json::array()},
         {"overlaps", overlaps}};
  for (const auto& c : device.caches) {
    json& cache = j["device"]["caches"].emplace_back(json{{"bytes", c.bytes}, {"bandwidth", c.bandwidth}});
    if (c.write_cost != 1) cache["write_cost"] = c.write_cost;
  }
  if (device.write_cost != 1) j["device"]["write_cost"] = device.write_cost;
  if (!device.operations.empty()) j["device"]["operations"] = device.operations;
  for (const auto& l : levels) j["levels"].push_back(level_json(l));
  return j.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace tessera
