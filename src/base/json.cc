// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <new>
#include <set>
#include <vector>

namespace tessera::base {

using nlohmann::json;

void Json::take_apart(json& j) {
  auto* array = j.get_ptr<json::array_t*>();
  auto* object = j.get_ptr<json::object_t*>();
  if (array == nullptr && object == nullptr) {
    // A null that was to become an array or an object, for which there was no memory: it has the kind and no value.
    if (j.is_structured()) new (&j) json(nullptr);
    return;
  }
  for (auto& part : j) take_apart(part);
  if (array != nullptr) array->clear();
  if (object != nullptr) object->clear();
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

}  // namespace tessera::base
