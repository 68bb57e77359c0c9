// SPDX-License-Identifier: Apache-2.0
// `Tree<T>`: which types are trees of arrays, and how each is walked. tessera/tree.h has the functions on them.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <functional>
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
#include "tessera/tree_members.h"

namespace tessera {

namespace detail {

/// A static value: what it is compared by.
struct StaticValue {
  std::shared_ptr<const void> value;
  bool (*equal)(const void*, const void*) = nullptr;
  std::size_t hash = 0;
  const void* type = nullptr;
  bool operator==(const StaticValue& other) const {
    return type == other.type && hash == other.hash && equal(value.get(), other.value.get());
  }
};

}  // namespace detail

/// Structure of a tree without its leaves: sizes of containers, keys of maps and static values, in order of visit.
class TreeDef {
 public:
  /// Adds one node.
  void push(const std::string& token) { text_ += token + ';'; }
  void push_static(detail::StaticValue value) {
    text_ += "=;";
    statics_.push_back(std::move(value));
  }
  /// All nodes as one string: equal for equal structures.
  const std::string& text() const { return text_; }
  const std::vector<detail::StaticValue>& statics() const { return statics_; }
  bool operator==(const TreeDef&) const = default;

 private:
  std::string text_;
  std::vector<detail::StaticValue> statics_;
};

/// `visit(tree, f)` calls f(leaf) on every Array of the tree, const or not, in order; `describe` writes the containers'
/// sizes. `path` gives a leaf's name: "layers[0].w". For what is no tree they do nothing: a static_assert refuses it
/// where it is used.
template <class T, class = void>
struct Tree {
  static constexpr bool is_tree = false;
  template <class V, class F>
  static void visit(V&, F&&) {}
  static void describe(const T&, TreeDef&) {}
  template <class F>
  static void paths(const T&, const std::string&, F&&) {}
};

namespace detail {

template <class T>
inline constexpr bool is_std_array = false;
template <class T, std::size_t N>
inline constexpr bool is_std_array<std::array<T, N>> = true;

}  // namespace detail

template <class T>
inline constexpr bool is_tree_v = Tree<std::remove_cvref_t<T>>::is_tree;

namespace detail {

// A type that has arrays somewhere in its template arguments, as std::unordered_map<int, Array>, is not static.
template <class T>
inline constexpr bool mentions_arrays = is_tree_v<T>;
template <class T>
inline constexpr bool mentions_arrays<std::shared_ptr<T>> = true;  // may: it is not looked into, T may contain itself
template <template <class...> class C, class... A>
inline constexpr bool mentions_arrays<C<A...>> = is_tree_v<C<A...>> || (mentions_arrays<A> || ...);

template <class T>
constexpr bool is_static();
template <class Tuple>
inline constexpr bool all_static = false;
template <class... T>
inline constexpr bool all_static<std::tuple<T&...>> = (is_static<std::remove_const_t<T>>() && ...);

template <class T>
constexpr bool is_plain_struct() {
  return ListsMembers<T> || (std::is_aggregate_v<T> && std::is_class_v<T> && !std::is_empty_v<T> && !is_std_array<T>);
}
/// Metadata: copied, compared, without arrays.
template <class T>
constexpr bool is_static() {
  constexpr bool without_arrays = !is_tree_v<T> && !mentions_arrays<T>;
  if constexpr (without_arrays && std::copy_constructible<T> && std::equality_comparable<T>) {
    return true;
  } else if constexpr (without_arrays && std::copy_constructible<T> && is_plain_struct<T>()) {
    return num_members<T> > 0 && all_static<decltype(tie_members(std::declval<T&>()))>;
  } else {
    return false;
  }
}
template <class T>
bool equal_static(const T& a, const T& b) {
  if constexpr (std::floating_point<T>) {
    return a == b || (a != a && b != b);  // a NaN is the same program as a NaN
  } else if constexpr (std::equality_comparable<T>) {
    return a == b;
  } else {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      auto x = tie_members(a);
      auto y = tie_members(b);
      return (equal_static(std::get<I>(x), std::get<I>(y)) && ...);
    }
    (std::make_index_sequence<num_members<T>>{});
  }
}
template <class T>
const void* type_tag() {
  static const char tag = 0;
  return &tag;
}
template <class T>
StaticValue make_static(const T& v) {
  StaticValue s;
  s.value = std::make_shared<T>(v);
  s.equal = [](const void* a, const void* b) {
    return equal_static(*static_cast<const T*>(a), *static_cast<const T*>(b));
  };
  if constexpr (requires { std::hash<T>{}(v); }) s.hash = std::hash<T>{}(v);
  s.type = type_tag<T>();
  return s;
}

/// What a struct, pair or tuple does with each of its members.
template <class M, class F>
void visit_member(M& m, F&& f) {
  using T = std::remove_const_t<M>;
  if constexpr (is_tree_v<T>) Tree<T>::visit(m, f);
}
template <class T>
void describe_member(const T& m, TreeDef& d) {
  if constexpr (is_tree_v<T>) {
    Tree<T>::describe(m, d);
  } else {
    d.push_static(make_static(m));
  }
}
template <class T, class F>
void member_paths(const T& m, const std::string& prefix, F&& f) {
  if constexpr (is_tree_v<T>) Tree<T>::paths(m, prefix, f);
}
/// Each member is a tree or static, and some are trees.
template <class... T>
inline constexpr bool are_members = (is_tree_v<T> || ...) && ((is_tree_v<T> || is_static<T>()) && ...);

}  // namespace detail

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
struct Tree<std::tuple<Ts...>, std::enable_if_t<sizeof...(Ts) == 0 || detail::are_members<Ts...>>> {
  static constexpr bool is_tree = true;
  template <class V, class F>
  static void visit(V& v, F&& f) {
    std::apply([&](auto&... e) { (detail::visit_member(e, f), ...); }, v);
  }
  static void describe(const std::tuple<Ts...>& v, TreeDef& d) {
    d.push("t" + std::to_string(sizeof...(Ts)));
    std::apply([&](const auto&... e) { (detail::describe_member(e, d), ...); }, v);
  }
  template <class F>
  static void paths(const std::tuple<Ts...>& v, const std::string& prefix, F&& f) {
    std::size_t i = 0;
    std::apply([&](const auto&... e) { (detail::member_paths(e, prefix + "[" + std::to_string(i++) + "]", f), ...); },
               v);
  }
};

template <class A, class B>
struct Tree<std::pair<A, B>, std::enable_if_t<detail::are_members<A, B>>> {
  static constexpr bool is_tree = true;
  template <class V, class F>
  static void visit(V& v, F&& f) {
    detail::visit_member(v.first, f);
    detail::visit_member(v.second, f);
  }
  static void describe(const std::pair<A, B>& v, TreeDef& d) {
    d.push("t2");
    detail::describe_member(v.first, d);
    detail::describe_member(v.second, d);
  }
  template <class F>
  static void paths(const std::pair<A, B>& v, const std::string& prefix, F&& f) {
    detail::member_paths(v.first, prefix + "[0]", f);
    detail::member_paths(v.second, prefix + "[1]", f);
  }
};

namespace detail {
template <class Tuple>
inline constexpr bool are_struct_members = false;
template <class... Ts>
inline constexpr bool are_struct_members<std::tuple<Ts&...>> = are_members<std::remove_const_t<Ts>...>;

template <class T>
constexpr bool is_tree_struct() {
  if constexpr (is_plain_struct<T>()) {
    return are_struct_members<decltype(tie_members(std::declval<T&>()))>;
  } else {
    return false;
  }
}

/// Collects names; with `numbered_members` those that were used before members had names: ".0" for the first.
struct CollectPaths {
  std::vector<std::string>* out;
  void operator()(const std::string& path) const { out->push_back(path); }
};
struct CollectNumberedPaths : CollectPaths {
  static constexpr bool numbered_members = true;
};
}  // namespace detail

/// A struct whose members are trees or static.
template <class T>
struct Tree<T, std::enable_if_t<detail::is_tree_struct<T>()>> {
  static constexpr bool is_tree = true;
  template <class V, class F>
  static void visit(V& v, F&& f) {
    std::apply([&](auto&... m) { (detail::visit_member(m, f), ...); }, detail::tie_members(v));
  }
  static void describe(const T& v, TreeDef& d) {
    d.push("s");
    std::apply([&](const auto&... m) { (detail::describe_member(m, d), ...); }, detail::tie_members(v));
  }
  template <class F>
  static void paths(const T& v, const std::string& prefix, F&& f) {
    static constexpr auto names = detail::member_names<T>();
    std::size_t i = 0;
    auto next = [&] {
      if constexpr (requires { std::remove_cvref_t<F>::numbered_members; }) {
        return prefix + "." + std::to_string(i++);
      } else {
        return (prefix.empty() ? prefix : prefix + ".") + std::string(names[i++]);
      }
    };
    std::apply([&](const auto&... m) { (detail::member_paths(m, next(), f), ...); }, detail::tie_members(v));
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

namespace detail {
template <class T>
constexpr void require_tree() {
  static_assert(is_tree_v<T>,
                "this type is no tree of arrays: a tree is an Array, a std::vector, std::array, std::optional or "
                "std::map<std::string, ...> of trees, or a pair, tuple or struct with a tree among its members whose "
                "other members can be compared with ==");
}

}  // namespace detail

}  // namespace tessera
