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

/// Axes, devices and names of `pmap`.
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

class PmapCore {
 public:
  explicit PmapCore(PmapOptions options);
  ~PmapCore();
  PmapCore(const PmapCore&) = delete;
  PmapCore& operator=(const PmapCore&) = delete;
  /// Leaves of the result, whose tree goes to `result`.
  std::vector<Array> call(const FlatCall& call, std::shared_ptr<void>* result, const Loc& loc);
  std::string stablehlo_text(const FlatCall& call, const StablehloTextOptions& options, const Loc& loc);

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
    std::tuple<detail::BoundArgument<Bound, Args>...> bound{args...};
    std::shared_ptr<void> like;
    std::vector<Array> out =
        shared_->core.call(detail::flat_call(std::as_const(shared_->f), bound), &like, Loc::current());
    using R = typename detail::FlatFunction<const F, Bound...>::Result;
    return tree_unflatten(*static_cast<const R*>(like.get()), out);
  }
  template <class... Bound, class... Args>
  std::string text(const StablehloTextOptions& options, const Args&... args) const {
    std::tuple<detail::BoundArgument<Bound, Args>...> bound{args...};
    return shared_->core.stablehlo_text(detail::flat_call(std::as_const(shared_->f), bound), options, Loc::current());
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
