// SPDX-License-Identifier: Apache-2.0
// What messages call the leaves of a call's arguments: "argument 1", "leaf layers[0].w of argument 0".
#pragma once

#include <cstddef>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "tessera/tree.h"

namespace tessera::detail {

/// Refers to the arguments of a call while it runs; names are made when a message needs them.
class LeafNames {
 public:
  LeafNames() = default;
  /// Arguments as a tuple, or a tuple of references; those that are no trees have no leaves.
  template <class... Args>
  explicit LeafNames(const std::tuple<Args...>& args)
      : args_(&args), paths_([](const void* p) {
          std::vector<std::vector<std::string>> out;
          std::apply([&](const auto&... a) { (out.push_back(paths_of(a)), ...); },
                     *static_cast<const std::tuple<Args...>*>(p));
          return out;
        }) {}

  /// The name of a leaf. Leaves past those of the arguments are arrays that the function captured.
  std::string operator()(std::size_t leaf) const;
  /// The names of all leaves of the arguments.
  std::vector<std::string> all() const;

 private:
  template <class T>
  static std::vector<std::string> paths_of(const T& arg) {
    std::vector<std::string> out;
    if constexpr (is_tree_v<T>) {
      if constexpr (requires { Tree<T>::paths(arg, std::string(), [](const std::string&) {}); }) {
        Tree<T>::paths(arg, "", [&](const std::string& p) { out.push_back(p); });
      } else {
        Tree<T>::visit(arg, [&](const Array&) { out.push_back("[" + std::to_string(out.size()) + "]"); });
      }
    }
    return out;
  }

  const void* args_ = nullptr;
  std::vector<std::vector<std::string>> (*paths_)(const void*) = nullptr;
};

}  // namespace tessera::detail
