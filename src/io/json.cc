// SPDX-License-Identifier: Apache-2.0
#include "io/json.h"

#include <set>
#include <vector>

namespace tessera::io {

using nlohmann::json;

void Json::take_apart(json& j) {
  for (auto& part : j) {
    if (part.is_structured()) take_apart(part);
  }
  if (j.is_array()) j.get_ref<json::array_t&>().clear();
  if (j.is_object()) j.get_ref<json::object_t&>().clear();
}

Json parse_json(std::string_view text, int deepest, std::optional<std::string>& twice) {
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  auto note = [&](int depth, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second && !twice) {
      twice = value.get<std::string>();
    }
    return depth <= deepest;
  };
  Json out;
  out.value = json::parse(text, note, false);
  return out;
}

}  // namespace tessera::io
