// SPDX-License-Identifier: Apache-2.0
// Trees of arrays: vectors, std::array, maps, pairs, tuples, optionals and plain structs (aggregates of up to sixteen
// members), nested in any way, with Arrays at the leaves.
//
//   struct Layer { Array w, b; };
//   std::map<std::string, std::vector<Layer>> model;
//   std::vector<Array> leaves = tree_leaves(model);
//   auto zeros = tree_map([](const Array& a) { return zeros_like(a); }, model);
//
// A type that is not of these kinds becomes one by specializing `tessera::Tree<T>`.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "tessera/array.h"
#include "tessera/error.h"

namespace tessera {

/// Structure of a tree without its leaves: sizes of containers and keys of maps, in order of visit.
class TreeDef {
 public:
  /// Adds one node.
  void push(const std::string& token) { text_ += token + ';'; }
  /// All nodes as one string: equal for equal structures.
  const std::string& text() const { return text_; }
  bool operator==(const TreeDef&) const = default;

 private:
  std::string text_;
};

/// `visit(tree, f)` calls f(leaf) on every Array of the tree, const or not, in order; `describe` writes the containers'
/// sizes. `path` gives a leaf's name: "layers[0].w".
template <class T, class = void>
struct Tree {
  static constexpr bool is_tree = false;
};

namespace detail {

struct AnyMember {
  template <class T>
  operator T() const;  // NOLINT(google-explicit-constructor): matches any member while counting
};
template <class T, std::size_t... I>
constexpr bool brace_constructible(std::index_sequence<I...>) {
  return requires { T{(void(I), AnyMember{})...}; };
}
template <class T, std::size_t N = 16>
constexpr std::size_t count_members() {
  if constexpr (N == 0) {
    return 0;
  } else if constexpr (brace_constructible<T>(std::make_index_sequence<N>{})) {
    return N;
  } else {
    return count_members<T, N - 1>();
  }
}

// Structured bindings, one branch per count: the language has no loop over members.
template <class T>
auto tie_members(T& v) {
  constexpr std::size_t n = count_members<std::remove_const_t<T>>();
  if constexpr (n == 1) {
    auto& [a] = v;
    return std::tie(a);
  } else if constexpr (n == 2) {
    auto& [a, b] = v;
    return std::tie(a, b);
  } else if constexpr (n == 3) {
    auto& [a, b, c] = v;
    return std::tie(a, b, c);
  } else if constexpr (n == 4) {
    auto& [a, b, c, d] = v;
    return std::tie(a, b, c, d);
  } else if constexpr (n == 5) {
    auto& [a, b, c, d, e] = v;
    return std::tie(a, b, c, d, e);
  } else if constexpr (n == 6) {
    auto& [a, b, c, d, e, g] = v;
    return std::tie(a, b, c, d, e, g);
  } else if constexpr (n == 7) {
    auto& [a, b, c, d, e, g, h] = v;
    return std::tie(a, b, c, d, e, g, h);
  } else if constexpr (n == 8) {
    auto& [a, b, c, d, e, g, h, i] = v;
    return std::tie(a, b, c, d, e, g, h, i);
  } else if constexpr (n == 9) {
    auto& [a, b, c, d, e, g, h, i, j] = v;
    return std::tie(a, b, c, d, e, g, h, i, j);
  } else if constexpr (n == 10) {
    auto& [a, b, c, d, e, g, h, i, j, k] = v;
    return std::tie(a, b, c, d, e, g, h, i, j, k);
  } else if constexpr (n == 11) {
    auto& [a, b, c, d, e, g, h, i, j, k, l] = v;
    return std::tie(a, b, c, d, e, g, h, i, j, k, l);
  } else if constexpr (n == 12) {
    auto& [a, b, c, d, e, g, h, i, j, k, l, m] = v;
    return std::tie(a, b, c, d, e, g, h, i, j, k, l, m);
  } else if constexpr (n == 13) {
    auto& [a, b, c, d, e, g, h, i, j, k, l, m, o] = v;
    return std::tie(a, b, c, d, e, g, h, i, j, k, l, m, o);
  } else if constexpr (n == 14) {
    auto& [a, b, c, d, e, g, h, i, j, k, l, m, o, p] = v;
    return std::tie(a, b, c, d, e, g, h, i, j, k, l, m, o, p);
  } else if constexpr (n == 15) {
    auto& [a, b, c, d, e, g, h, i, j, k, l, m, o, p, q] = v;
    return std::tie(a, b, c, d, e, g, h, i, j, k, l, m, o, p, q);
  } else if constexpr (n == 16) {
    auto& [a, b, c, d, e, g, h, i, j, k, l, m, o, p, q, r] = v;
    return std::tie(a, b, c, d, e, g, h, i, j, k, l, m, o, p, q, r);
  } else {
    return std::tuple<>();
  }
}

template <class T>
inline constexpr bool is_std_array = false;
template <class T, std::size_t N>
inline constexpr bool is_std_array<std::array<T, N>> = true;

}  // namespace detail

template <class T>
inline constexpr bool is_tree_v = Tree<std::remove_cvref_t<T>>::is_tree;

template <>
struct Tree<Array> {
  static constexpr bool is_tree = true;
  template <class A, class F>
  static void visit(A& a, F&& f) {
    f(a);
  }
  static void describe(const Array&, TreeDef& d) { d.push("*"); }
  template <class F>
  static void paths(const Array&, const std::string& prefix, F&& f) {
    f(prefix);
  }
};

template <class T>
struct Tree<std::vector<T>, std::enable_if_t<is_tree_v<T>>> {
  static constexpr bool is_tree = true;
  template <class V, class F>
  static void visit(V& v, F&& f) {
    for (auto& e : v) Tree<T>::visit(e, f);
  }
  static void describe(const std::vector<T>& v, TreeDef& d) {
    d.push("v" + std::to_string(v.size()));
    for (const auto& e : v) Tree<T>::describe(e, d);
  }
  template <class F>
  static void paths(const std::vector<T>& v, const std::string& prefix, F&& f) {
    for (std::size_t i = 0; i < v.size(); ++i) Tree<T>::paths(v[i], prefix + "[" + std::to_string(i) + "]", f);
  }
};

template <class T, std::size_t N>
struct Tree<std::array<T, N>, std::enable_if_t<is_tree_v<T>>> {
  static constexpr bool is_tree = true;
  template <class V, class F>
  static void visit(V& v, F&& f) {
    for (auto& e : v) Tree<T>::visit(e, f);
  }
  static void describe(const std::array<T, N>& v, TreeDef& d) {
    d.push("a" + std::to_string(N));
    for (const auto& e : v) Tree<T>::describe(e, d);
  }
  template <class F>
  static void paths(const std::array<T, N>& v, const std::string& prefix, F&& f) {
    for (std::size_t i = 0; i < N; ++i) Tree<T>::paths(v[i], prefix + "[" + std::to_string(i) + "]", f);
  }
};

template <class T>
struct Tree<std::map<std::string, T>, std::enable_if_t<is_tree_v<T>>> {
  static constexpr bool is_tree = true;
  template <class M, class F>
  static void visit(M& m, F&& f) {
    for (auto& [key, e] : m) Tree<T>::visit(e, f);
  }
  static void describe(const std::map<std::string, T>& m, TreeDef& d) {
    d.push("m" + std::to_string(m.size()));
    for (const auto& [key, e] : m) {
      d.push(std::to_string(key.size()) + ":" + key);
      Tree<T>::describe(e, d);
    }
  }
  template <class F>
  static void paths(const std::map<std::string, T>& m, const std::string& prefix, F&& f) {
    for (const auto& [key, e] : m) Tree<T>::paths(e, prefix.empty() ? key : prefix + "." + key, f);
  }
};

template <class T>
struct Tree<std::optional<T>, std::enable_if_t<is_tree_v<T>>> {
  static constexpr bool is_tree = true;
  template <class V, class F>
  static void visit(V& v, F&& f) {
    if (v) Tree<T>::visit(*v, f);
  }
  static void describe(const std::optional<T>& v, TreeDef& d) {
    d.push(v ? "o1" : "o0");
    if (v) Tree<T>::describe(*v, d);
  }
  template <class F>
  static void paths(const std::optional<T>& v, const std::string& prefix, F&& f) {
    if (v) Tree<T>::paths(*v, prefix, f);
  }
};

template <class... Ts>
struct Tree<std::tuple<Ts...>, std::enable_if_t<(is_tree_v<Ts> && ...)>> {
  static constexpr bool is_tree = true;
  template <class V, class F>
  static void visit(V& v, F&& f) {
    std::apply([&](auto&... e) { (Tree<std::remove_cvref_t<decltype(e)>>::visit(e, f), ...); }, v);
  }
  static void describe(const std::tuple<Ts...>& v, TreeDef& d) {
    d.push("t" + std::to_string(sizeof...(Ts)));
    std::apply([&](const auto&... e) { (Tree<std::remove_cvref_t<decltype(e)>>::describe(e, d), ...); }, v);
  }
  template <class F>
  static void paths(const std::tuple<Ts...>& v, const std::string& prefix, F&& f) {
    std::size_t i = 0;
    std::apply(
        [&](const auto&... e) {
          (Tree<std::remove_cvref_t<decltype(e)>>::paths(e, prefix + "[" + std::to_string(i++) + "]", f), ...);
        },
        v);
  }
};

template <class A, class B>
struct Tree<std::pair<A, B>, std::enable_if_t<is_tree_v<A> && is_tree_v<B>>> {
  static constexpr bool is_tree = true;
  template <class V, class F>
  static void visit(V& v, F&& f) {
    Tree<A>::visit(v.first, f);
    Tree<B>::visit(v.second, f);
  }
  static void describe(const std::pair<A, B>& v, TreeDef& d) {
    d.push("t2");
    Tree<A>::describe(v.first, d);
    Tree<B>::describe(v.second, d);
  }
  template <class F>
  static void paths(const std::pair<A, B>& v, const std::string& prefix, F&& f) {
    Tree<A>::paths(v.first, prefix + "[0]", f);
    Tree<B>::paths(v.second, prefix + "[1]", f);
  }
};

namespace detail {
template <class Tuple>
inline constexpr bool all_trees = false;
template <class... Ts>
inline constexpr bool all_trees<std::tuple<Ts...>> = (is_tree_v<Ts> && ...);

template <class T>
constexpr bool is_tree_struct() {
  if constexpr (std::is_aggregate_v<T> && std::is_class_v<T> && !std::is_empty_v<T> && !is_std_array<T>) {
    return count_members<T>() > 0 && all_trees<decltype(tie_members(std::declval<T&>()))>;
  } else {
    return false;
  }
}
}  // namespace detail

/// A plain struct whose members are trees.
template <class T>
struct Tree<T, std::enable_if_t<detail::is_tree_struct<T>()>> {
  static constexpr bool is_tree = true;
  template <class V, class F>
  static void visit(V& v, F&& f) {
    std::apply([&](auto&... m) { (Tree<std::remove_cvref_t<decltype(m)>>::visit(m, f), ...); }, detail::tie_members(v));
  }
  static void describe(const T& v, TreeDef& d) {
    d.push("s");
    std::apply([&](const auto&... m) { (Tree<std::remove_cvref_t<decltype(m)>>::describe(m, d), ...); },
               detail::tie_members(v));
  }
  template <class F>
  static void paths(const T& v, const std::string& prefix, F&& f) {
    std::size_t i = 0;
    std::apply(
        [&](const auto&... m) {
          (Tree<std::remove_cvref_t<decltype(m)>>::paths(m, prefix + "." + std::to_string(i++), f), ...);
        },
        detail::tie_members(v));
  }
};

/// No leaves.
template <>
struct Tree<std::monostate> {
  static constexpr bool is_tree = true;
  template <class V, class F>
  static void visit(V&, F&&) {}
  static void describe(const std::monostate&, TreeDef& d) { d.push("0"); }
  template <class F>
  static void paths(const std::monostate&, const std::string&, F&&) {}
};

/// The arrays of a tree, in order of visit.
template <class T>
std::vector<Array> tree_leaves(const T& tree) {
  std::vector<Array> out;
  Tree<T>::visit(tree, [&](const Array& a) { out.push_back(a); });
  return out;
}
/// The structure without the leaves.
template <class T>
TreeDef tree_structure(const T& tree) {
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
T tree_unflatten(const T& like, const std::vector<Array>& leaves) {
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
/// f(leaf, corresponding leaves of `rest`…) in the structure of `tree`. Throws `ValueError` when structures differ.
template <class F, class T, class... Rest>
T tree_map(F&& f, const T& tree, const Rest&... rest) {
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
/// Paths of the leaves: "layers[0].w"; members of structs by index.
template <class T>
std::vector<std::string> tree_paths(const T& tree) {
  std::vector<std::string> out;
  Tree<T>::paths(tree, "", [&](const std::string& p) { out.push_back(p); });
  return out;
}

}  // namespace tessera
