// SPDX-License-Identifier: Apache-2.0
#include <regex>

#include "annotate/annotate.h"
#include "base/strings.h"
#include "tessera/annotate_paths.h"
#include "tessera/error.h"

namespace tessera {

PathMatches match_paths(const std::vector<std::string>& names, const PathRules& rules, const Loc&) {
  std::vector<std::regex> patterns;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    try {
      patterns.emplace_back(rules[i].pattern);
    } catch (const std::regex_error& e) {
      throw ValueError(
          str("match_paths: rules[", i, "].pattern = \"", rules[i].pattern, "\" is no regular expression: ", e.what()));
    }
  }
  PathMatches out;
  std::vector<bool> used(rules.size());
  for (const auto& name : names) {
    std::int64_t rule = -1;
    for (std::size_t i = 0; i < patterns.size() && rule < 0; ++i) {
      if (std::regex_match(name, patterns[i])) rule = static_cast<std::int64_t>(i);
    }
    out.rule.push_back(rule);
    if (rule < 0) {
      out.unmatched.push_back(name);
    } else {
      used[static_cast<std::size_t>(rule)] = true;
    }
  }
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (!used[i]) out.unused.push_back(rules[i].pattern);
  }
  return out;
}

namespace detail {

namespace {
[[noreturn]] void rethrow(const Error& e, const std::string& name, const PathRule& rule) {
  throw ValueError(str("annotate_by_path: leaf ", name, ", pattern \"", rule.pattern, "\": ", e.what()));
}
}  // namespace

Array mark_path(const Array& x, const Mesh& mesh, const std::string& name, const PathRule& rule) {
  try {
    return mark_sharding(x, mesh, rule.spec);
  } catch (const ValueError& e) {
    rethrow(e, name, rule);
  }
}

ShardingPtr path_sharding(const Array& x, const Mesh& mesh, const std::string& name, const PathRule& rule) {
  try {
    return annotate::checked_sharding("shardings_by_path", mesh, rule.spec, x.ndim()).share();
  } catch (const ValueError& e) {
    rethrow(e, name, rule);
  }
}

}  // namespace detail

}  // namespace tessera
