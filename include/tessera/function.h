// SPDX-License-Identifier: Apache-2.0
// Functions of trees as functions of their leaves: what jit, pmap, grad, vmap, shard_map, control flow and custom rules
// trace. Not for use in programs; the names are those of `tessera::detail`.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "tessera/leaf_names.h"
#include "tessera/tree.h"

namespace tessera::detail {

/// A function of the leaves of its arguments that gives the leaves of its result.
using LeafFn = std::function<std::vector<Array>(const std::vector<Array>&)>;

/// Whether f takes arguments of these types: one sentence in place of a page of templates.
template <class F, class... Args>
inline constexpr bool takes = std::is_invocable_v<const F&, Args...>;

/// A C++ scalar is traced as a weakly typed array.
template <class T>
using Leafy = std::conditional_t<Number<T>, Array, T>;
/// v as a leaf.
template <class T>
Leafy<T> leafy(const T& v) {
  if constexpr (Number<T>) {
    return Array(v);
  } else {
    return v;
  }
}

/// A string literal is a static argument as the std::string is.
template <class T>
const T& as_argument(const T& v) {
  return v;
}
/// The same for a literal.
template <std::size_t N>
std::string as_argument(const char (&v)[N]) {
  return v;
}

/// What stands for an argument that the function takes as a `Bound`: itself, or the Array of a scalar.
template <class Bound, class T>
using BoundArgument = std::conditional_t<std::is_same_v<Bound, T>, const T&, Bound>;

/// Refuses to compile for a type that is neither a tree nor static.
template <class T>
constexpr void require_argument() {
  static_assert(is_tree_v<T> || is_static<T>(),
                "an argument of this type is neither a tree of arrays nor static: a tree is an Array, or a container, "
                "pair, tuple or struct of trees; a static argument needs operator== and holds no arrays");
}

/// A tree like this one with other leaves, counted on in `next`.
template <class T>
T with_leaves(const T& like, const std::vector<Array>& leaves, std::size_t& next) {
  T out = like;
  Tree<T>::visit(out, [&](Array& a) { a = leaves[next++]; });
  return out;
}

/// Leaves of each element of a tuple, pair, container or struct, of those that are trees; of a single array.
template <class T>
std::vector<std::size_t> parts_of(const T& tree) {
  std::vector<std::size_t> out;
  auto add = [&]<class Part>(const Part& part) {
    if constexpr (is_tree_v<Part>) out.push_back(tree_leaves(part).size());  // static members need no spec
  };
  if constexpr (std::is_same_v<T, Array>) {
    out.push_back(1);
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    std::apply([&](const auto&... part) { (add(part), ...); }, tree);
  } else if constexpr (requires { typename T::mapped_type; }) {
    for (const auto& [key, part] : tree) add(part);
  } else if constexpr (requires { tree.begin(); }) {
    for (const auto& part : tree) add(part);
  } else if constexpr (is_tree_struct<T>()) {
    std::apply([&](const auto&... part) { (add(part), ...); }, tie_members(tree));
  } else {
    add(tree);
  }
  return out;
}

/// Leaves of each argument.
template <class... Args>
std::vector<std::size_t> leaves_per_argument(const std::tuple<Args...>& args) {
  return std::apply([](const auto&... a) { return std::vector<std::size_t>{tree_leaves(a).size()...}; }, args);
}

/// f of arguments like these as a function of their leaves. Remembers the tree of its last result; copies share it.
/// Refers to f and to the arguments, which outlive its calls.
template <class F, class... Args>
class FlatFunction {
  using Raw = decltype(std::apply(std::declval<F&>(), std::declval<std::tuple<std::decay_t<Args>...>>()));

 public:
  using Result = std::conditional_t<std::is_void_v<Raw>, std::monostate, std::decay_t<Raw>>;

  FlatFunction(F& f, const std::tuple<Args...>& args) : f_(&f), args_(&args) {}

  std::vector<Array> operator()(const std::vector<Array>& leaves) const {
    std::size_t next = 0;
    std::tuple<std::decay_t<Args>...> args = std::apply(
        [&](const auto&... a) { return std::tuple<std::decay_t<Args>...>{with_leaves(a, leaves, next)...}; }, *args_);
    std::shared_ptr<Result> result;
    if constexpr (std::is_void_v<Raw>) {
      std::apply(*f_, std::move(args));
      result = std::make_shared<Result>();
    } else {
      result = std::make_shared<Result>(std::apply(*f_, std::move(args)));
    }
    std::vector<Array> out = tree_leaves(*result);
    Tree<Result>::visit(*result, [](Array& a) { a = Array(); });  // tracers do not outlive the trace
    *like_ = std::move(result);
    return out;
  }

  /// After a call: a tree like its result, whose leaves are undefined.
  const Result& like() const { return **like_; }
  /// `like`, for those who know its type; null before the first call.
  const std::shared_ptr<Result>& like_ptr() const { return *like_; }
  /// Such a tree from these leaves, counted on in `next`.
  Result rebuild(const std::vector<Array>& leaves, std::size_t& next) const {
    return with_leaves(like(), leaves, next);
  }
  Result rebuild(const std::vector<Array>& leaves) const {
    std::size_t next = 0;
    return rebuild(leaves, next);
  }

 private:
  F* f_;
  const std::tuple<Args...>* args_;
  std::shared_ptr<std::shared_ptr<Result>> like_ = std::make_shared<std::shared_ptr<Result>>();
};
template <class F, class... Args>
FlatFunction(F&, const std::tuple<Args...>&) -> FlatFunction<F, Args...>;

/// A function that is about to be traced.
struct FlatBody {
  LeafFn run = {};
  std::function<std::shared_ptr<void>()> like = {};             ///< the tree of its last result
  std::function<std::vector<std::size_t>()> result_parts = {};  ///< its `parts_of`
};

/// One call, flattened: what a program is kept by, and traced for the first time.
struct FlatCall {
  std::vector<Array> leaves = {};
  std::string structure = {};  ///< of the arguments: `TreeDef::text`
  std::vector<StaticValue> statics = {};
  std::vector<std::size_t> static_argnums = {};
  std::vector<std::size_t> leaves_per_arg = {};
  LeafNames names = {};                     ///< refers to the arguments
  std::function<FlatBody()> function = {};  ///< likewise; made when it is traced, which most calls do not need
  bool needs_data = true;                   ///< else arrays without data (`ShapeDtype`) will do
};

/// The arguments alone.
template <class... Args>
FlatCall flat_call(const std::tuple<Args...>& args) {
  FlatCall call;
  TreeDef def;
  auto add = [&]<class T>(const T& arg) {
    std::size_t before = call.leaves.size();
    if constexpr (is_tree_v<T>) {
      Tree<T>::visit(arg, [&](const Array& a) { call.leaves.push_back(a); });
      Tree<T>::describe(arg, def);
    } else {
      require_argument<T>();
      if constexpr (is_static<T>()) def.push_static(make_static(arg));
      call.static_argnums.push_back(call.leaves_per_arg.size());
    }
    call.leaves_per_arg.push_back(call.leaves.size() - before);
  };
  std::apply([&](const auto&... a) { (add(a), ...); }, args);
  call.names = LeafNames(args);
  call.structure = def.text();
  call.statics = def.statics();
  return call;
}
/// The function with them.
template <class F, class... Args>
FlatCall flat_call(F& f, const std::tuple<Args...>& args) {
  static_assert(is_tree_v<typename FlatFunction<F, Args...>::Result>, "a traced function returns a tree of arrays");
  FlatCall call = flat_call(args);
  call.function = [f = &f, args = &args] {
    FlatFunction flat(*f, *args);
    return FlatBody{flat, [flat] { return std::shared_ptr<void>(flat.like_ptr()); },
                    [flat] { return parts_of(flat.like()); }};
  };
  return call;
}

}  // namespace tessera::detail
