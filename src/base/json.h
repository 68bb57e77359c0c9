// SPDX-License-Identifier: Apache-2.0
// JSON of files that nobody vouches for.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace tessera::base {

/// A JSON value whose destructor needs no memory: that of nlohmann::json gathers what it holds in a vector, and a
/// destructor that finds no memory ends the program.
struct Json {
  nlohmann::json value;
  Json() = default;
  explicit Json(nlohmann::json v) : value(std::move(v)) {}
  Json(Json&&) = default;
  Json& operator=(Json&&) = default;
  Json(const Json&) = delete;
  Json& operator=(const Json&) = delete;
  ~Json() { take_apart(value); }

 private:
  static void take_apart(nlohmann::json& j);
};

/// What is read of a JSON text: no object deeper than `deepest`. Is discarded (`is_discarded`) where the text is no
/// JSON. `twice` becomes the first key that an object has more than once.
Json parse_json(std::string_view text, int deepest, std::optional<std::string>& twice);

}  // namespace tessera::base
