// SPDX-License-Identifier: Apache-2.0
// Vectorized maps: a function of one example becomes a function of a batch.
//
//   auto rows = vmap([](Array w, Array x) { return sum(w * x); }, {.in_axes = {none, 0}});
//   Array r = rows(w, batch);
//
// The function runs once, on tracers without the mapped dimension, and every operation is replaced by its form for
// a batch: no loop is left. With an axis name, collectives over it (tessera/collectives.h) become local work. It runs
// eagerly, or as part of a jitted program, is differentiated, and nests with every other transformation.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/grad.h"
#include "tessera/mesh.h"
#include "tessera/partition_spec.h"
#include "tessera/shard_map.h"
#include "tessera/tree.h"

namespace tessera {

/// Mapped dimensions for the leaves of a tree: one for all of them (`none`: not mapped), or a list with an entry for
/// every argument (for every element of a result that is a tuple, pair, vector, array, map or struct), each of which is
/// again one for all or a list with one entry per leaf. Negative dimensions count from the end.
class MapAxes {
 public:
  // NOLINTBEGIN(google-explicit-constructor): dimensions and lists of dimensions are trees of them
  template <std::integral I>
  MapAxes(I axis) : is_leaf_(true), axis_(static_cast<std::int64_t>(axis)) {}
  MapAxes(NoneType) : is_leaf_(true) {}
  MapAxes(std::nullopt_t) : is_leaf_(true) {}
  MapAxes(std::initializer_list<MapAxes> children) : children_(children) {}
  MapAxes(std::vector<MapAxes> children) : children_(std::move(children)) {}
  // NOLINTEND(google-explicit-constructor)

  /// One entry per leaf, for parts with these counts of leaves. Throws `ValueError` naming `function` and `what` where
  /// counts differ.
  std::vector<std::optional<std::int64_t>> resolve(const std::vector<std::size_t>& leaves, const char* function,
                                                   const char* what) const;

 private:
  void flatten(std::vector<std::optional<std::int64_t>>& out) const;

  bool is_leaf_ = false;
  std::optional<std::int64_t> axis_;
  std::vector<MapAxes> children_;
};

/// Axes, count and name of `vmap`.
struct VmapOptions {
  MapAxes in_axes = 0;
  /// Where results get the mapped dimension. `none` is for results that do not depend on the mapped index.
  MapAxes out_axes = 0;
  /// What collectives call the mapped dimension; empty for nothing.
  std::string axis_name = {};
  /// Needed where no argument is mapped.
  std::optional<std::int64_t> axis_size = std::nullopt;
  /// Mesh axes over which a `shard_map` inside shards the mapped dimension; values do not change.
  AxisNames spmd_axis_name = {};
};

namespace detail {

/// What the leaves of one call mean: filled while the body is traced.
struct VmapCall {
  VmapOptions options;
  std::vector<std::size_t> leaves_per_arg;
  std::vector<std::size_t> leaves_per_result = {};  ///< set by the body
  LeafNames names = {};
};
std::vector<Array> vmap_leaves(const LeafFn& body, const std::vector<Array>& leaves, const VmapCall& call,
                               const Loc& loc);
/// Extent of the mapped dimensions. Throws `ValueError` where they differ, are out of range, or none is given.
std::int64_t mapped_size(const std::vector<Array>& leaves, std::vector<std::optional<std::int64_t>>& axes,
                         const std::optional<std::int64_t>& given, const char* function);

}  // namespace detail

/// `f` for every index of the mapped dimensions of its arguments, with the results stacked along `out_axes`. Arrays
/// that `f` captures are the same for every index. Communicates nothing by itself; a sharded mapped dimension stays
/// sharded. Throws `ValueError` where the mapped extents differ, an axis is out of range, nothing is mapped and
/// `axis_size` is not given, or `out_axes` is `none` for a result that depends on the index.
template <class F>
auto vmap(F f, VmapOptions options = {}) {
  return Callable([f = std::move(f), options = std::move(options)](const auto&... given) {
    static_assert(detail::takes<F, detail::Leafy<std::decay_t<decltype(given)>>...>,
                  "vmap: the function does not take arguments of these types in this number");
    // Not deduced: a tuple of one pair would become a tuple of its two parts.
    std::tuple<detail::Leafy<std::decay_t<decltype(given)>>...> args{detail::leafy(given)...};
    detail::VmapCall call{options, detail::leaves_per_argument(args)};
    call.names = detail::LeafNames(args);
    detail::FlatFunction flat(f, args);
    detail::LeafFn body = [&](const std::vector<Array>& leaves) {
      std::vector<Array> out = flat(leaves);
      call.leaves_per_result = detail::parts_of(flat.like());
      return out;
    };
    return flat.rebuild(detail::vmap_leaves(body, tree_leaves(args), call, Loc::current()));
  });
}

}  // namespace tessera
