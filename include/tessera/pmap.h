// SPDX-License-Identifier: Apache-2.0
// Parallel maps: a function that every device of the process runs on its own slice, as jax.pmap.
//
//   auto step = pmap([](Array x) { return x / psum(x, "i"); }, {.axis_name = "i"});
//   Array y = step(x);   // x of shape (devices, …); y is placed one slice per device
//
// It is `jit` of a `shard_map` over a mesh of one axis; new programs are better written with those.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/device.h"
#include "tessera/jit.h"
#include "tessera/vmap.h"

namespace tessera {

struct PmapOptions {
  /// What collectives call the mapped axis; empty for nothing.
  std::string axis_name = {};
  MapAxes in_axes = 0;
  /// `none`: the result of one device, which must be the same on all.
  MapAxes out_axes = 0;
  std::optional<std::int64_t> axis_size = std::nullopt;
  /// As in `JitOptions`.
  std::vector<int> donate_argnums = {};
  /// One for every index of the mapped axis; empty for the first devices of this process.
  std::vector<Device> devices = {};
};

namespace detail {

struct PmapRequest {
  std::vector<Array> leaves = {};
  std::string structure = {};
  std::vector<StaticValue> statics = {};
  std::vector<std::size_t> static_argnums = {};
  std::vector<std::size_t> leaves_per_arg = {};
  LeafNames names = {};
  /// Runs the function on blocks; stores the structure of its result, and the leaves of its parts.
  std::function<std::vector<Array>(const std::vector<Array>&, std::shared_ptr<void>*, std::vector<std::size_t>*)> run =
      {};
};
class PmapCore {
 public:
  explicit PmapCore(PmapOptions options);
  ~PmapCore();
  PmapCore(const PmapCore&) = delete;
  PmapCore& operator=(const PmapCore&) = delete;
  /// Leaves of the result; its structure goes to `result`.
  std::vector<Array> call(const PmapRequest& request, std::shared_ptr<void>* result, const Loc& loc);
  std::string stablehlo_text(const PmapRequest& request, const StablehloTextOptions& options, const Loc& loc);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace detail

/// What `pmap` returns. Copies share the cache; calls from several threads are safe.
template <class F>
class Pmapped {
 public:
  Pmapped(F f, PmapOptions options) : shared_(std::make_shared<Shared>(std::move(f), std::move(options))) {}

  /// Mapped dimensions of the arguments all have the size of the axis; arguments that are no trees of arrays are
  /// static. Throws `ValueError` for extents that differ or exceed the devices, and for committed arrays that are not
  /// placed one slice per device.
  TESSERA_MEMBER_OF_ARGUMENTS(operator(), run)
  /// The program for these arguments as StableHLO. With `.replicas` it is what each replica runs on its own slices, in
  /// the manner of older JAX; else one program over partitions.
  template <class... Args>
  std::string as_text(const StablehloTextOptions& options, const Args&... args) const {
    if constexpr (std::is_invocable_v<const F&, detail::Leafy<Args>...>) {
      return text<detail::Leafy<Args>...>(options, args...);
    } else {
      return text<Args...>(options, args...);
    }
  }

 private:
  struct Shared {
    Shared(F function, PmapOptions options) : f(std::move(function)), core(std::move(options)) {}
    F f;
    detail::PmapCore core;
  };

  template <class T>
  static void add(detail::PmapRequest& request, TreeDef& def, const T& arg) {
    std::size_t before = request.leaves.size();
    if constexpr (is_tree_v<T>) {
      Tree<T>::visit(arg, [&](const Array& a) { request.leaves.push_back(a); });
      Tree<T>::describe(arg, def);
    } else {
      detail::require_argument<T>();
      if constexpr (detail::is_static<T>()) def.push_static(detail::make_static(arg));
      request.static_argnums.push_back(request.leaves_per_arg.size());
    }
    request.leaves_per_arg.push_back(request.leaves.size() - before);
  }

  template <class... Args>
  auto run(const Args&... args) const {
    constexpr bool lifts = std::is_invocable_v<const F&, detail::Leafy<Args>...>;
    constexpr bool takes = lifts || std::is_invocable_v<const F&, Args...>;
    static_assert(takes, "pmap: the function does not take arguments of these types in this number");
    if constexpr (lifts) {
      return call<detail::Leafy<Args>...>(args...);
    } else if constexpr (takes) {
      return call<Args...>(args...);
    }
  }
  template <class... Bound, class... Args>
  auto call(const Args&... args) const {
    using R = std::decay_t<std::invoke_result_t<const F&, Bound...>>;
    std::tuple<Bound...> bound{Bound(args)...};
    std::shared_ptr<void> like;
    std::vector<Array> out = shared_->core.call(request_of(bound), &like, Loc::current());
    return tree_unflatten(*static_cast<const R*>(like.get()), out);
  }
  // `bound` outlives the request.
  template <class... Bound>
  detail::PmapRequest request_of(const std::tuple<Bound...>& bound) const {
    using R = std::decay_t<std::invoke_result_t<const F&, Bound...>>;
    static_assert(is_tree_v<R>, "a function under pmap returns a tree of arrays");
    detail::PmapRequest request;
    TreeDef def;
    std::apply([&](const auto&... a) { (add(request, def, a), ...); }, bound);
    request.names = detail::LeafNames(bound);
    request.structure = def.text();
    request.statics = def.statics();
    request.run = [this, &bound](const std::vector<Array>& blocks, std::shared_ptr<void>* result,
                                 std::vector<std::size_t>* parts) {
      std::size_t next = 0;
      auto fill = [&]<class T>(T arg) {
        if constexpr (is_tree_v<T>) Tree<T>::visit(arg, [&](Array& a) { a = blocks[next++]; });
        return arg;
      };
      std::tuple<Bound...> filled =
          std::apply([&](const auto&... a) { return std::tuple<Bound...>{fill(a)...}; }, bound);
      auto r = std::make_shared<R>(std::apply(shared_->f, std::move(filled)));
      *parts = detail::parts_of(*r);
      std::vector<Array> out = tree_leaves(*r);
      Tree<R>::visit(*r, [](Array& a) { a = Array(); });
      *result = r;
      return out;
    };
    return request;
  }
  template <class... Bound, class... Args>
  std::string text(const StablehloTextOptions& options, const Args&... args) const {
    std::tuple<Bound...> bound{Bound(args)...};
    return shared_->core.stablehlo_text(request_of(bound), options, Loc::current());
  }

  std::shared_ptr<Shared> shared_;
};

/// `f` on every device, each on its own slice of the mapped dimensions: jax.pmap. Compiled once per combination of
/// argument types. Only the collectives that `f` calls over `axis_name` communicate.
template <class F>
Pmapped<std::decay_t<F>> pmap(F&& f, PmapOptions options = {}) {
  return {std::forward<F>(f), std::move(options)};
}

}  // namespace tessera
