// SPDX-License-Identifier: Apache-2.0
// Annotations of whole trees by the names of their leaves.
//
//   auto marked = annotate_by_path(params, mesh, {{R"(.*\.attn\.w[qkv])", P(none, "tensor")},
//                                                 {R"(.*\.attn\.wo)", P("tensor", none)}});
//   params = marked.tree;                       // marked.unmatched lists the names that no pattern took
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tessera/annotate.h"
#include "tessera/tree.h"

namespace tessera {

/// A regular expression (ECMAScript) over the whole name of a leaf, and the spec for what it matches.
struct PathRule {
  std::string pattern;
  PartitionSpec spec;
};
/// Rules in order: the first that matches a path decides.
using PathRules = std::vector<PathRule>;

/// Which rule each name takes: the first that matches.
struct PathMatches {
  /// The index of the rule, -1 for none; one per name.
  std::vector<std::int64_t> rule;
  /// Names that no rule takes, in order.
  std::vector<std::string> unmatched;
  /// Patterns that took no name, in order.
  std::vector<std::string> unused;
};
/// Matches every name against the rules. Throws `ValueError` naming a pattern that is no regular expression.
PathMatches match_paths(const std::vector<std::string>& names, const PathRules& rules, const Loc& loc = Loc::current());

/// A tree with annotations, and what no rule took.
template <class T>
struct PathAnnotated {
  T tree;
  std::vector<std::string> unmatched;
  std::vector<std::string> unused;
};

namespace detail {
/// `mark_sharding`, whose errors name the leaf and the pattern.
Array mark_path(const Array& x, const Mesh& mesh, const std::string& name, const PathRule& rule);
ShardingPtr path_sharding(const Array& x, const Mesh& mesh, const std::string& name, const PathRule& rule);
}  // namespace detail

/// `mark_sharding` on every leaf by the first rule whose pattern matches its whole name (`tree_paths`); leaves without
/// a rule stay as they are and are reported. Throws `ValueError` naming leaf and pattern where a spec does not fit.
template <class T>
PathAnnotated<T> annotate_by_path(const T& tree, const Mesh& mesh, const PathRules& rules,
                                  const Loc& = Loc::current()) {
  std::vector<std::string> names = tree_paths(tree);
  std::vector<Array> leaves = tree_leaves(tree);
  PathMatches m = match_paths(names, rules);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (m.rule[i] >= 0)
      leaves[i] = detail::mark_path(leaves[i], mesh, names[i], rules[static_cast<std::size_t>(m.rule[i])]);
  }
  return {tree_unflatten(tree, leaves), std::move(m.unmatched), std::move(m.unused)};
}

/// The same as shardings, one per leaf (null without a rule), for `JitOptions::in_shardings` and `out_shardings`.
template <class T>
std::vector<ShardingPtr> shardings_by_path(const T& tree, const Mesh& mesh, const PathRules& rules,
                                           const Loc& = Loc::current()) {
  std::vector<std::string> names = tree_paths(tree);
  std::vector<Array> leaves = tree_leaves(tree);
  PathMatches m = match_paths(names, rules);
  std::vector<ShardingPtr> out(leaves.size());
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (m.rule[i] >= 0) {
      out[i] = detail::path_sharding(leaves[i], mesh, names[i], rules[static_cast<std::size_t>(m.rule[i])]);
    }
  }
  return out;
}

}  // namespace tessera
