// SPDX-License-Identifier: Apache-2.0
// Reading the recorded cases of explicit sharding.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tessera/tessera.h"

namespace tessera::test {

using nlohmann::json;
using Arrays = std::vector<Array>;

inline Dims to_dims(const json& j) {
  if (j.is_number_integer()) return {j.get<std::int64_t>()};
  return j.get<Dims>();
}
inline MaybeDims to_maybe_dims(const json& params, const char* name) {
  if (!params.contains(name) || params[name].is_null()) return std::nullopt;
  return MaybeDims(to_dims(params[name]));
}

inline DType to_dtype(const std::string& name) {
  static const std::map<std::string, DType> table = {
      {"bool", bool_},    {"i8", int8},     {"i16", int16},   {"i32", int32},     {"i64", int64},
      {"u8", uint8},      {"u16", uint16},  {"u32", uint32},  {"u64", uint64},    {"f16", float16},
      {"bf16", bfloat16}, {"f32", float32}, {"f64", float64}, {"c64", complex64}, {"c128", complex128},
  };
  return table.at(name);
}

inline SpecEntry to_spec_entry(const json& j) {
  if (j.is_null()) return none;
  if (j.is_string() && j == "?") return unconstrained;
  if (j.is_string()) return j.get<std::string>();
  std::vector<AxisRef> axes;
  for (const auto& e : j) axes.emplace_back(e.get<std::string>());
  return SpecEntry(std::move(axes));
}
/// {"spec": [...], "unreduced": [...], "reduced": [...]}, the latter two as they are given.
inline PartitionSpec to_partition_spec(const json& j) {
  std::vector<SpecEntry> entries;
  for (const auto& e : j.at("spec")) entries.push_back(to_spec_entry(e));
  PartitionSpec spec(std::move(entries));
  auto axes = [&](const char* name) {
    std::vector<AxisRef> out;
    if (!j.contains(name) || j[name].is_null()) return out;
    for (const auto& a : j[name]) out.emplace_back(a.get<std::string>());
    return out;
  };
  if (auto u = axes("unreduced"); !u.empty()) spec = spec.with_unreduced(u);
  if (auto r = axes("reduced"); !r.empty()) spec = spec.with_reduced(r);
  return spec;
}

inline Mesh to_typed_mesh(const json& j) {
  Shape sizes;
  std::vector<std::string> names;
  std::int64_t count = 1;
  for (const auto& a : j.at("axes")) {
    names.push_back(a[0]);
    sizes.push_back(a[1]);
    count *= sizes.back();
  }
  MeshOptions options;
  for (const auto& t : j.at("types")) {
    options.axis_types.push_back(t == "explicit" ? AxisType::Explicit : AxisType::Auto);
  }
  std::vector<Device> list(devices().begin(), devices().begin() + count);
  return Mesh(DeviceArray(std::move(list), sizes), names, options);
}

/// An operand without data.
inline Array to_operand(const json& j, const Mesh& mesh) {
  const NamedSharding sharding(mesh, to_partition_spec(j));
  return without_data({j.at("shape").get<Shape>(), to_dtype(j.at("dtype")), false, sharding.share()});
}

}  // namespace tessera::test
