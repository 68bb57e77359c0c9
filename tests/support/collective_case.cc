// SPDX-License-Identifier: Apache-2.0
#include "tests/support/collective_case.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/support/oracle_case.h"
#include "tests/support/paths.h"

namespace tessera::test {

using nlohmann::json;

std::vector<json> collective_cases(const std::string& name) {
  std::ifstream in(source_path("tests/spec/collectives/" + name));
  std::vector<json> out;
  for (std::string line; std::getline(in, line);) out.push_back(json::parse(line));
  return out;
}

namespace {

double number(const json& j) {
  if (!j.is_string()) return j.is_boolean() ? (j.get<bool>() ? 1.0 : 0.0) : j.get<double>();
  const auto s = j.get<std::string>();
  if (s == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (s == "inf") return std::numeric_limits<double>::infinity();
  if (s == "-inf") return -std::numeric_limits<double>::infinity();
  if (s == "-0") return -0.0;
  throw ValueError("collective cases: '" + s + "' is no number");
}

template <class T>
T element(const json& j) {
  if constexpr (std::is_same_v<T, complex64_t> || std::is_same_v<T, complex128_t>) {
    using Part = typename T::value_type;
    if (!j.is_array()) return T(static_cast<Part>(number(j)), Part{0});
    return T(static_cast<Part>(number(j.at(0))), static_cast<Part>(number(j.at(1))));
  } else if constexpr (std::is_same_v<T, bool>) {
    return number(j) != 0;
  } else if constexpr (std::is_integral_v<T>) {
    return j.is_number_float() ? static_cast<T>(j.get<double>()) : j.get<T>();
  } else if constexpr (std::is_same_v<T, double>) {
    return number(j);
  } else {
    return T(static_cast<float>(number(j)));
  }
}

template <class T>
HostArray filled(const json& j, const Shape& shape) {
  HostArray out(dtype_of<T>(), shape);
  auto to = out.span<T>();
  std::vector<json> flat{j.contains("data") ? j.at("data") : json(0)};
  if (!j.contains("data")) {
    for (auto& v : to) v = T(0);
    return out;
  }
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::vector<json> next;
    for (const auto& part : flat) next.insert(next.end(), part.begin(), part.end());
    flat = std::move(next);
  }
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = element<T>(flat.at(i));
  return out;
}

DType dtype_named(const std::string& s) {
  static const std::map<std::string, DType> table{
      {"bool", bool_},    {"i8", int8},     {"i16", int16},   {"i32", int32},     {"i64", int64},
      {"u8", uint8},      {"u16", uint16},  {"u32", uint32},  {"u64", uint64},    {"f16", float16},
      {"bf16", bfloat16}, {"f32", float32}, {"f64", float64}, {"c64", complex64}, {"c128", complex128}};
  return table.at(s);
}

std::vector<std::int64_t> integers(const json& j) { return j.get<std::vector<std::int64_t>>(); }

std::optional<AxisIndexGroups> groups(const json& p) {
  if (!p.contains("axis_index_groups") || p.at("axis_index_groups").is_null()) return std::nullopt;
  return p.at("axis_index_groups").get<AxisIndexGroups>();
}

GatherTo gather_to(const json& p) {
  auto to = p.value("to", std::string("varying"));
  if (to == "varying") return GatherTo::varying;
  if (to == "invarying") return GatherTo::invarying;
  return to == "reduced" ? GatherTo::reduced : static_cast<GatherTo>(17);
}
CastTo cast_to(const json& p) {
  auto to = p.value("to", std::string("varying"));
  if (to == "varying") return CastTo::varying;
  if (to == "reduced") return CastTo::reduced;
  return to == "unreduced" ? CastTo::unreduced : static_cast<CastTo>(17);
}

// Operations of the files that are no collectives; nothing when it is one.
std::optional<Array> step_helper(const std::string& op, const std::vector<Array>& x, const json& p) {
  if (op == "const") {
    auto kind = p.at("kind").get<std::string>();
    if (kind == "int") return Array(p.at("value").get<int>());
    if (kind == "bool") return Array(p.at("value").get<bool>());
    return Array(p.at("value").get<double>());
  }
  if (op == "const_array") return Array(host_array(p.at("array")));
  if (op == "add") return x[0] + x[1];
  if (op == "sub") return x[0] - x[1];
  if (op == "mul") return x[0] * x[1];
  if (op == "div") return x[0] / x[1];
  if (op == "square") return x[0] * x[0];
  if (op == "sum") return sum(x[0]);
  if (op == "cast") return astype(x[0], dtype_named(p.at("dtype")));
  if (op == "expand_dims") return expand_dims(x[0], Dims{p.at("axis").get<std::int64_t>()});
  if (op == "identity") return x[0];
  return std::nullopt;
}

std::vector<Array> steps(const json& c, const std::vector<Array>& blocks) {
  std::map<std::string, Array> env;
  for (std::size_t i = 0; i < blocks.size(); ++i) env[c.at("args").at(i)] = blocks[i];
  for (const auto& s : c.at("steps")) {
    std::vector<Array> in;
    for (const auto& a : s.at(2)) in.push_back(env.at(a));
    env[s.at(0)] = collective_call(s.at(1), in, s.size() > 3 ? s.at(3) : json::object()).at(0);
  }
  std::vector<Array> out;
  for (const auto& r : c.at("results")) out.push_back(env.at(r));
  return out;
}

}  // namespace

HostArray host_array(const json& j) {
  auto shape = j.at("shape").get<Shape>();
  switch (dtype_named(j.at("dtype"))) {
    case DType::Bool:
      return filled<bool>(j, shape);
    case DType::I8:
      return filled<std::int8_t>(j, shape);
    case DType::I16:
      return filled<std::int16_t>(j, shape);
    case DType::I32:
      return filled<std::int32_t>(j, shape);
    case DType::I64:
      return filled<std::int64_t>(j, shape);
    case DType::U8:
      return filled<std::uint8_t>(j, shape);
    case DType::U16:
      return filled<std::uint16_t>(j, shape);
    case DType::U32:
      return filled<std::uint32_t>(j, shape);
    case DType::U64:
      return filled<std::uint64_t>(j, shape);
    case DType::F16:
      return filled<float16_t>(j, shape);
    case DType::BF16:
      return filled<bfloat16_t>(j, shape);
    case DType::F32:
      return filled<float>(j, shape);
    case DType::F64:
      return filled<double>(j, shape);
    case DType::C64:
      return filled<complex64_t>(j, shape);
    case DType::C128:
      return filled<complex128_t>(j, shape);
  }
  throw TypeError("collective cases: unknown dtype");
}

std::vector<Array> arrays(const json& list) {
  std::vector<Array> out;
  for (const auto& j : list) out.emplace_back(host_array(j));
  return out;
}

PartitionSpec partition_spec(const json& j) {
  std::vector<SpecEntry> entries;
  for (const auto& e : j) {
    if (e.is_null()) {
      entries.emplace_back(none);
    } else if (e.is_string()) {
      entries.emplace_back(e.get<std::string>());
    } else {
      entries.emplace_back(e.get<std::vector<std::string>>());
    }
  }
  return PartitionSpec(entries);
}
SpecTree spec_list(const json& list) {
  std::vector<PartitionSpec> out;
  for (const auto& j : list) out.push_back(partition_spec(j));
  return out;
}

AxisNames axis_names(const json& j) {
  if (j.is_string()) return j.get<std::string>();
  if (j.is_number()) return j.get<std::int64_t>();
  AxisNames out;
  for (const auto& e : j) {
    out.push(e.is_string() ? AxisNames::Name(e.get<std::string>()) : AxisNames::Name(e.get<std::int64_t>()));
  }
  return out;
}

std::vector<Array> collective_call(const std::string& op, const std::vector<Array>& x, const json& p) {
  if (auto helped = step_helper(op, x, p)) return {*helped};
  if (op == "pgather") return {pgather(x.at(0), x.at(1), axis_names(p.at("axes")))};
  AxisNames axes = p.contains("axis_name") ? axis_names(p.at("axis_name")) : AxisNames();
  if (op == "psum") return psum(x, axes, {.axis_index_groups = groups(p)});
  if (op == "pmean") return pmean(x, axes, {.axis_index_groups = groups(p)});
  if (op == "pmax") return pmax(x, axes, {.axis_index_groups = groups(p)});
  if (op == "pmin") return pmin(x, axes, {.axis_index_groups = groups(p)});
  if (op == "pargmax") return {x.size() == 1 ? pargmax(x[0], axes) : pargmax(x, axes)};
  if (op == "pargmin") return {x.size() == 1 ? pargmin(x[0], axes) : pargmin(x, axes)};
  if (op == "pbroadcast") return pbroadcast(x, axes, p.at("source").get<std::int64_t>());
  if (op == "ppermute") return ppermute(x, axes, p.at("perm").get<PermutationPairs>());
  if (op == "pshuffle") return pshuffle(x, axes, integers(p.at("perm")));
  if (op == "pswapaxes") {
    return pswapaxes(x, axes, p.at("axis").get<std::int64_t>(), {.axis_index_groups = groups(p)});
  }
  if (op == "all_to_all") {
    return all_to_all(x, axes, p.at("split_axis").get<std::int64_t>(), p.at("concat_axis").get<std::int64_t>(),
                      {groups(p), p.value("tiled", false)});
  }
  if (op == "ragged_all_to_all") {
    return {ragged_all_to_all(x.at(0), x.at(1), x.at(2), x.at(3), x.at(4), x.at(5), axes,
                              {.axis_index_groups = groups(p)})};
  }
  if (op == "all_gather") {
    return all_gather(x, axes, {groups(p), p.value("axis", std::int64_t{0}), p.value("tiled", false), gather_to(p)});
  }
  if (op == "all_gather_invariant") {
    return all_gather_invariant(x, axes, p.value("axis", std::int64_t{0}), p.value("tiled", false));
  }
  if (op == "psum_scatter") {
    return psum_scatter(x, axes, {p.value("scatter_dimension", std::int64_t{0}), groups(p), p.value("tiled", false)});
  }
  if (op == "axis_index") return {axis_index(axes)};
  if (op == "axis_size") return {Array(static_cast<int>(axis_size(axes)))};
  if (op == "pvary") return pvary(x, axes);
  if (op == "pcast") return pcast(x, axes, cast_to(p));
  throw ValueError("collective cases: unknown operation " + op);
}

std::vector<Array> case_body(const json& c, const std::vector<Array>& blocks) {
  auto units = c.value("rank_reduce", std::int64_t{0});
  std::vector<Array> in = blocks;
  for (auto& a : in) {
    if (units > 0) a = reshape(a, Shape(a.shape().begin() + units, a.shape().end()));
  }
  std::vector<Array> out = c.contains("steps") ? steps(c, in) : collective_call(c.at("op"), in, c.at("params"));
  for (auto& a : out) {
    if (units == 0) continue;
    Shape shape(static_cast<std::size_t>(units), 1);
    shape.insert(shape.end(), a.shape().begin(), a.shape().end());
    a = reshape(a, shape);
  }
  return out;
}

std::string case_difference(const std::vector<Array>& got, const json& expected) {
  if (got.size() != expected.size()) {
    return std::to_string(got.size()) + " results; expected " + std::to_string(expected.size());
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    HostArray want = host_array(expected.at(i));
    double tolerance = 0;
    if (is_inexact(want.dtype())) {
      bool half = want.dtype() == float16 || want.dtype() == bfloat16;
      tolerance = half ? 1e-2 : want.dtype() == float64 || want.dtype() == complex128 ? 1e-12 : 2e-6;
    }
    std::string d = oracle::difference(got[i].host(), want, tolerance, tolerance);
    if (!d.empty()) return "result " + std::to_string(i) + ": " + d;
  }
  return {};
}

}  // namespace tessera::test
