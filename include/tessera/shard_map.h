// SPDX-License-Identifier: Apache-2.0
// Manual parallelism: a function that every device of a mesh runs on its own blocks, with collectives by axis name
// (tessera/collectives.h).
//
//   auto dot = shard_map([](Array a, Array b) { return psum(sum(a * b), "x"); }, mesh, P("x"), P());
//   Array r = dot(a, b);
//
// It runs eagerly, or as part of a jitted program, is differentiated and batched, and may be nested over axes that are
// still automatic.
#pragma once

#include <concepts>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <tuple>
#include <typeindex>
#include <utility>
#include <vector>

#include "tessera/grad.h"
#include "tessera/mesh.h"
#include "tessera/partition_spec.h"
#include "tessera/tree.h"

namespace tessera {

/// In place of `in_specs`: each argument's own spec, as its type has it.
struct InferType {};
/// The spec follows from the argument's own sharding.
inline constexpr InferType Infer{};

/// Specs for the leaves of a tree: one for all of them, or a list with an entry for every argument (for every element
/// of a result that is a tuple, pair, vector, array, map or struct), each of which is again one for all or a list with
/// one entry per leaf.
class SpecTree {
 public:
  // NOLINTBEGIN(google-explicit-constructor): specs and lists of specs are spec trees
  SpecTree(PartitionSpec spec) : spec_(std::make_shared<PartitionSpec>(std::move(spec))) {}
  SpecTree(InferType) : inferred_(true) {}
  SpecTree(std::initializer_list<SpecTree> children) : children_(children) {}
  SpecTree(std::vector<SpecTree> children) : children_(std::move(children)) {}
  SpecTree(const std::vector<PartitionSpec>& specs) : children_(specs.begin(), specs.end()) {}
  // NOLINTEND(google-explicit-constructor)

  /// Null for a list.
  const PartitionSpec* spec() const { return spec_.get(); }
  /// True for `Infer`.
  bool inferred() const { return inferred_; }
  /// Empty for a single spec and for `Infer`.
  const std::vector<SpecTree>& children() const { return children_; }
  /// One spec per leaf, for parts with these counts of leaves. Throws `ValueError` naming `what` where counts differ,
  /// and for `Infer`.
  std::vector<PartitionSpec> resolve(const std::vector<std::size_t>& leaves, const char* what) const;

 private:
  void flatten(std::vector<PartitionSpec>& out) const;

  std::shared_ptr<PartitionSpec> spec_;
  std::vector<SpecTree> children_;
  bool inferred_ = false;
};

/// Which axes are manual, and what is checked.
struct ShardMapOptions {
  /// Manual axes, which the body may name; empty for all. Others stay automatic: inside, values may be sharded over
  /// them as the partitioner decides.
  std::vector<std::string> axis_names = {};
  /// Tracks the axes that every value varies over; results must be equal along axes that their spec does not name.
  bool check_vma = true;
};

/// A mesh of something other than devices (the cores of one chip): `shard_map` over it runs the body by the rule that
/// is registered for its type, in place of partitioning.
class MeshLike {
 public:
  virtual ~MeshLike() = default;
  /// False for a mesh of something other than devices.
  virtual bool is_device_mesh() const = 0;
  virtual std::vector<std::string> axis_names() const = 0;
  /// Sizes of the axes, in the order of the names.
  virtual Shape shape() const = 0;
};
/// A call over a special mesh. The body takes and returns leaves; what it needs besides it captures.
struct SpecialMapCall {
  const MeshLike& mesh;
  const detail::LeafFn& body;
  const std::vector<Array>& args;
  const SpecTree& in_specs;
  const SpecTree& out_specs;
};
/// Gives the leaves of the result.
using ShardMapRule = std::function<std::vector<Array>(const SpecialMapCall&)>;
/// Registers the rule for meshes of this type; a later rule replaces an earlier one.
void register_shard_map_rule(std::type_index mesh_type, ShardMapRule rule, const Loc& loc = Loc::current());

namespace detail {

/// Throws `StateError` naming the mesh's type when it has no rule.
std::vector<Array> special_map(const SpecialMapCall& call);

/// What the leaves of one call mean: filled while the body is traced.
struct ShardMapCall {
  AnyMesh mesh;
  SpecTree in_specs, out_specs;
  ShardMapOptions options;
  std::vector<std::size_t> leaves_per_arg;
  std::vector<std::size_t> leaves_per_result = {};  ///< set by the body
  LeafNames names = {};
};
std::vector<Array> shard_map_leaves(const LeafFn& body, const std::vector<Array>& leaves, ShardMapCall& call,
                                    const Loc& loc);
/// The mesh of the enclosing scope or map. Throws `StateError` where there is none.
AnyMesh shard_map_mesh();

}  // namespace detail

/// `f` on the blocks of its arguments: dimension d of a block is the argument's divided by the axes of `in_specs`
/// there; results are assembled as `out_specs` specifies. `mesh` may be abstract: then the arguments' shardings give
/// the devices. Arguments of another sharding are resharded first, over `Auto` axes and where some axes stay
/// outside the map; besides that, only the collectives that `f` calls communicate. Over `Explicit` axes `in_specs` must
/// be what the arguments' types have, which `Infer` in their place reads from there. An operand whose spec is
/// `unreduced` over axes gives each device its addend, which varies over them; a result with such a spec is the sum
/// of what the devices return, left undone. One whose spec is `reduced` is equal along the axes, and its cotangent
/// unreduced. Throws `IndivisibleError`, `ValueError` for specs that do not fit and, with `check_vma`, for a result
/// that varies over an axis that its spec does not name or does not vary over an unreduced one; `UnimplementedError`
/// for unreduced and reduced specs in a map that leaves axes automatic; `DeviceMismatchError`.
template <class F>
auto shard_map(F f, AnyMesh mesh, SpecTree in_specs, SpecTree out_specs, ShardMapOptions options = {}) {
  return Callable([f = std::move(f), mesh = std::move(mesh), in = std::move(in_specs), out = std::move(out_specs),
                   options = std::move(options)](const auto&... given) {
    static_assert(detail::takes<F, detail::Leafy<std::decay_t<decltype(given)>>...>,
                  "shard_map: the function does not take arguments of these types in this number");
    // Not deduced: a tuple of one pair would become a tuple of its two parts.
    std::tuple<detail::Leafy<std::decay_t<decltype(given)>>...> args{detail::leafy(given)...};
    detail::ShardMapCall call{mesh, in, out, options, detail::leaves_per_argument(args)};
    call.names = detail::LeafNames(args);
    detail::FlatFunction flat(f, args);
    detail::LeafFn body = [&](const std::vector<Array>& leaves) {
      std::vector<Array> out = flat(leaves);
      call.leaves_per_result = detail::parts_of(flat.like());
      return out;
    };
    return flat.rebuild(detail::shard_map_leaves(body, tree_leaves(args), call, Loc::current()));
  });
}
/// Over a special mesh, by the rule of its type. Throws `StateError` where there is none.
template <class F, class M>
requires std::derived_from<M, MeshLike>
auto shard_map(F f, std::shared_ptr<M> mesh, SpecTree in_specs, SpecTree out_specs) {
  return Callable([f = std::move(f), mesh = std::move(mesh), in = std::move(in_specs),
                   out = std::move(out_specs)](const auto&... given) {
    static_assert(detail::takes<F, detail::Leafy<std::decay_t<decltype(given)>>...>,
                  "shard_map: the function does not take arguments of these types in this number");
    // Not deduced: a tuple of one pair would become a tuple of its two parts.
    std::tuple<detail::Leafy<std::decay_t<decltype(given)>>...> args{detail::leafy(given)...};
    detail::FlatFunction flat(f, args);
    detail::LeafFn body = flat;
    std::vector<Array> leaves = tree_leaves(args);
    std::vector<Array> results = detail::special_map({*mesh, body, leaves, in, out});
    if (!flat.like_ptr()) throw StateError("shard_map: the rule of the mesh's type did not run the body");
    return flat.rebuild(results);
  });
}
/// Over the mesh of the enclosing `MeshScope` or map.
template <class F>
auto shard_map(F f, SpecTree in_specs, SpecTree out_specs, ShardMapOptions options = {}) {
  return Callable([f = std::move(f), in = std::move(in_specs), out = std::move(out_specs),
                   options = std::move(options)](const auto&... given) {
    return shard_map(f, detail::shard_map_mesh(), in, out, options)(given...);
  });
}

}  // namespace tessera
