// SPDX-License-Identifier: Apache-2.0
// Reading the recorded annotation cases.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tessera/tessera.h"

namespace tessera::test {

using nlohmann::json;

inline Shape to_shape(const json& j) { return j.is_null() ? Shape{} : j.get<Shape>(); }
inline AxisNames to_names(const json& j) {
  if (j.is_null()) return std::nullopt;
  return j.get<std::vector<std::string>>();
}
inline SpecEntry to_entry(const json& j) {
  if (j.is_null()) return none;
  if (j.is_string()) return j.get<std::string>();
  if (j.is_number_integer()) return j.get<std::int64_t>();
  std::vector<SpecEntry> parts;
  std::vector<AxisRef> refs;
  for (const auto& e : j) {
    parts.push_back(to_entry(e));
    if (!parts.back().is_none() && !e.is_array()) refs.push_back(parts.back().axes()[0]);
  }
  // Lists with something else than axes are written as a program would.
  if (refs.size() != parts.size()) return axes(parts.at(0), parts.at(1));
  return SpecEntry(std::move(refs));
}
inline PartitionSpec to_spec(const json& j) {
  std::vector<SpecEntry> entries;
  for (const auto& e : j) entries.push_back(to_entry(e));
  return PartitionSpec(std::move(entries));
}
inline Mesh to_mesh(const json& c) {
  return Mesh(std::span<const std::int64_t>(c.at("device_ids").get<std::vector<std::int64_t>>()),
              to_shape(c.at("mesh_shape")), to_names(c.at("axis_names")));
}
inline OpSharding::Ids to_ids(const json& c) { return {c.at("flat"), to_shape(c.at("dims"))}; }
/// A nested list.
inline OpSharding::Ids nested_ids(const json& j) {
  Shape shape;
  for (const json* at = &j; at->is_array(); at = &at->at(0)) {
    shape.push_back(static_cast<std::int64_t>(at->size()));
    if (at->empty()) return {};
  }
  std::vector<std::int64_t> flat;
  std::function<void(const json&)> walk = [&](const json& at) {
    if (!at.is_array()) return flat.push_back(at.get<std::int64_t>());
    for (const auto& e : at) walk(e);
  };
  walk(j);
  return {std::move(flat), std::move(shape)};
}
inline HostArray counted(const Shape& shape, std::int64_t first = 0) {
  std::vector<std::int32_t> v(static_cast<std::size_t>(size_of(shape)));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<std::int32_t>(first + static_cast<std::int64_t>(i));
  return HostArray::from(v, shape);
}
/// [[0, 4], [2, 4]].
inline json to_json(const Index& index, const Shape& shape) {
  json out = json::array();
  for (std::size_t d = 0; d < index.size(); ++d) {
    auto [start, stop] = index[d].resolve(shape[d]);
    out.push_back({start, stop});
  }
  return out;
}

/// What a case found to be otherwise than recorded; empty when nothing was.
struct Differences {
  std::string text;
  void same(const char* what, const json& got, const json& want) {
    if (got != want) text += std::string(what) + ": got " + got.dump() + ", want " + want.dump() + "; ";
  }
};

/// The shards of a minibatch that `process` has given its rows `local` for, against the case's rows of that process.
inline void compare_rows(const json& expect, int process, const Array& a, const HostArray& local, Differences& d) {
  for (const auto& row : expect["rows"]) {
    if (row["process"] != process) continue;
    for (const Shard& s : a.addressable_shards()) {
      if (s.device().id() != row["device"]) continue;
      d.same("shard_shape", s.value().shape(), expect["shard_shape"]);
      d.same("global_rows", to_json(s.index(), a.shape())[0], row["global_rows"]);
      Index rows(static_cast<std::size_t>(local.ndim()));
      rows[0] = {row["local_rows"][0], row["local_rows"][1]};
      if (!identical(s.value().host(), local.slice(rows))) d.text += "rows differ; ";
    }
  }
}

/// Empty when `f` throws an `Error` that mentions the case's words.
template <class F>
std::string refused(const json& c, F&& f) {
  try {
    f();
  } catch (const Error& e) {
    std::string missing;
    for (const auto& word : c.at("expect").at("must_mention")) {
      if (std::string(e.what()).find(word.get<std::string>()) == std::string::npos) {
        missing += "\"" + word.get<std::string>() + "\" is not in: " + e.what() + "; ";
      }
    }
    return missing;
  }
  return "nothing was refused";
}

}  // namespace tessera::test
