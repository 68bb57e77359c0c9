// SPDX-License-Identifier: Apache-2.0
// Members of plain structs: how many there are, references to them, and their names. For aggregates of up to sixteen
// members this needs nothing from the user; TESSERA_TREE lists the members of any other class.
//
//   class Cell { public: explicit Cell(int width); Array w; int width; };
//   TESSERA_TREE(Cell, w, width)      // in the namespace of Cell
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace tessera::detail {

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

// Structured bindings, one arm per count: the language has no loop over members.
template <class T>
constexpr auto tie_aggregate(T& v) {
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

/// Members that TESSERA_TREE lists.
template <class T>
concept ListsMembers = requires(T& v) {
  tessera_members(v);
};

template <class T>
constexpr auto tie_members(T& v) {
  if constexpr (ListsMembers<T>) {
    return tessera_members(v);
  } else {
    return tie_aggregate(v);
  }
}

// A member's name is in the name of a function with a pointer to that member as its template argument. The object that
// the pointer leads into is never defined, nor used.
template <class T>
struct External {
  const T value;
};
#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wundefined-var-template"
#pragma clang diagnostic ignored "-Wundefined-internal"
#endif
template <class T>
extern const External<T> external;
template <class T>
struct MemberPointer {
  const T* to;
};
template <class... M>
consteval auto pointers_to(const std::tuple<M&...>& members) {
  return std::apply([](auto&... m) { return std::tuple{MemberPointer<std::remove_const_t<M>>{&m}...}; }, members);
}
template <class T, std::size_t I>
consteval auto member_pointer() {
  return std::get<I>(pointers_to(tie_aggregate(external<T>.value)));
}
template <auto Pointer>
consteval std::string_view member_name() {
  std::string_view text =
      __PRETTY_FUNCTION__;  // "... external<T>...::value.T::name)}; ...", "... external.value.name}]"
  std::size_t end = text.rfind(")}");
  if (end == std::string_view::npos) end = text.rfind('}');
  std::size_t begin = end;
  auto in_name = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c < 0;
  };
  while (begin > 0 && in_name(text[begin - 1])) --begin;
  return text.substr(begin, end - begin);
}
template <class T, std::size_t I>
inline constexpr std::string_view aggregate_member_name = member_name<member_pointer<T, I>()>();
#if defined(__clang__)
#pragma clang diagnostic pop
#endif

template <std::size_t N>
consteval std::array<std::string_view, N> split_names(std::string_view list) {
  std::array<std::string_view, N> out;
  for (auto& name : out) {
    std::size_t end = std::min(list.find(','), list.size());
    name = list.substr(0, end);
    list.remove_prefix(std::min(end + 1, list.size()));
    while (!list.empty() && list.front() == ' ') list.remove_prefix(1);
  }
  return out;
}

template <class T>
inline constexpr std::size_t num_members =
    std::tuple_size_v<decltype(tie_members(std::declval<std::add_lvalue_reference_t<T>>()))>;

/// Names of T's members, in order.
template <class T>
consteval auto member_names() {
  if constexpr (ListsMembers<T>) {
    return split_names<num_members<T>>(tessera_member_names(static_cast<const T*>(nullptr)));
  } else {
    return []<std::size_t... I>(std::index_sequence<I...>) {
      return std::array<std::string_view, sizeof...(I)>{aggregate_member_name<T, I>...};
    }
    (std::make_index_sequence<num_members<T>>{});
  }
}

}  // namespace tessera::detail

// v.a, v.b, ...: a macro that calls itself is not expanded, so the repetition goes through rescans.
#define TESSERA_PARENS ()
#define TESSERA_RESCAN(...) TESSERA_RESCAN4(TESSERA_RESCAN4(TESSERA_RESCAN4(__VA_ARGS__)))
#define TESSERA_RESCAN4(...) TESSERA_RESCAN2(TESSERA_RESCAN2(TESSERA_RESCAN2(__VA_ARGS__)))
#define TESSERA_RESCAN2(...) TESSERA_RESCAN1(TESSERA_RESCAN1(TESSERA_RESCAN1(__VA_ARGS__)))
#define TESSERA_RESCAN1(...) __VA_ARGS__
#define TESSERA_MEMBERS_OF(V, ...) __VA_OPT__(TESSERA_RESCAN(TESSERA_NEXT_MEMBER(V, __VA_ARGS__)))
#define TESSERA_NEXT_MEMBER(V, M, ...) V.M __VA_OPT__(, TESSERA_NEXT_MEMBER_AGAIN TESSERA_PARENS(V, __VA_ARGS__))
#define TESSERA_NEXT_MEMBER_AGAIN() TESSERA_NEXT_MEMBER

/// Makes a class a tree of the members listed: those that are trees of arrays are its leaves, the others are static.
/// Stands in the namespace of the class, after it. Members that are left out are copied along and take no part: list
/// every member that a computation depends on.
#define TESSERA_TREE(Type, ...)                                                                       \
  inline auto tessera_members(Type& v) { return std::tie(TESSERA_MEMBERS_OF(v, __VA_ARGS__)); }       \
  inline auto tessera_members(const Type& v) { return std::tie(TESSERA_MEMBERS_OF(v, __VA_ARGS__)); } \
  constexpr std::string_view tessera_member_names(const Type*) { return #__VA_ARGS__; }               \
  static_assert(true, "takes the semicolon")
