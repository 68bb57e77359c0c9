// SPDX-License-Identifier: Apache-2.0
// Trees of arrays: vectors, std::array, maps, pairs, tuples, optionals and plain structs (aggregates of up to sixteen
// members), nested in any way, with Arrays at the leaves.
//
//   struct Layer { Array w, b; std::string activation = "relu"; };
//   std::map<std::string, std::vector<Layer>> model;
//   std::vector<Array> leaves = tree_leaves(model);
//   auto zeros = tree_map([](const Array& a) { return zeros_like(a); }, model);
//
// Members of structs, pairs and tuples that hold no array (scalars, strings, enumerations, anything with ==) are
// static: they are part of the tree's structure, pass through every transformation unchanged, and each of their values
// is another program of a jitted function. A value that a program computes with is better an Array.
//
// Classes that are no aggregates list their members with TESSERA_TREE (tessera/tree_members.h); any other type becomes
// a tree by specialising `tessera::Tree<T>`.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tessera/array.h"
#include "tessera/callable.h"
#include "tessera/detail/tree_nodes.h"
#include "tessera/error.h"

namespace tessera {

/// The arrays of a tree, in order of visit.
template <class T>
std::vector<Array> tree_leaves(const T& tree) {
  detail::require_tree<T>();
  std::vector<Array> out;
  Tree<T>::visit(tree, [&](const Array& a) { out.push_back(a); });
  return out;
}
/// The structure without the leaves.
template <class T>
TreeDef tree_structure(const T& tree) {
  detail::require_tree<T>();
  TreeDef d;
  Tree<T>::describe(tree, d);
  return d;
}
/// Leaves and structure.
template <class T>
std::pair<std::vector<Array>, TreeDef> tree_flatten(const T& tree) {
  return {tree_leaves(tree), tree_structure(tree)};
}
/// `like` with other leaves. Throws `ValueError` when the count differs.
template <class T>
T tree_unflatten(const T& like, const std::vector<Array>& leaves, const Loc& = Loc::current()) {
  detail::require_tree<T>();
  T out = like;
  std::size_t i = 0;
  Tree<T>::visit(out, [&](Array& a) {
    if (i < leaves.size()) a = leaves[i];
    ++i;
  });
  if (i != leaves.size()) {
    throw ValueError("tree_unflatten: leaves has " + std::to_string(leaves.size()) + " arrays; expected " +
                     std::to_string(i));
  }
  return out;
}
/// Paths of the leaves: "layers[0].w".
template <class T>
std::vector<std::string> tree_paths(const T& tree) {
  detail::require_tree<T>();
  std::vector<std::string> out;
  Tree<T>::paths(tree, "", detail::CollectPaths{&out});
  return out;
}

namespace detail {
template <class T>
std::vector<std::string> numbered_tree_paths(const T& tree) {
  std::vector<std::string> out;
  Tree<T>::paths(tree, "", CollectNumberedPaths{{&out}});
  return out;
}
template <class F, class T, class... Rest>
T map_trees(F& f, const T& tree, const Rest&... rest) {
  std::vector<std::vector<Array>> others{tree_leaves(rest)...};
  if (((tree_structure(rest) != tree_structure(tree)) || ...)) {
    throw ValueError("tree_map: the trees have different structures");
  }
  std::vector<Array> leaves = tree_leaves(tree);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    [&]<std::size_t... I>(std::index_sequence<I...>) { leaves[i] = f(leaves[i], others[I][i]...); }
    (std::index_sequence_for<Rest...>{});
  }
  return tree_unflatten(tree, leaves);
}
}  // namespace detail

/// tree_map(f, tree, rest...): f on the leaves of trees of one structure, as a tree of the first one's type. Throws
/// `ValueError` when structures differ.
TESSERA_FUNCTION_OF_ARGUMENTS(tree_map, detail::map_trees)

}  // namespace tessera
