// SPDX-License-Identifier: Apache-2.0
// Collectives over named axes, as jax.lax: functions that a body calls inside `shard_map`, or inside `vmap` with an
// axis name. Every position along the axes (a device of the mesh, or an index of a mapped dimension) has its own block.
// Over mesh axes each function is the collective of its name; over a vmapped axis it is local work.
//
//   auto normalise = shard_map([](Array x) { return x / psum(sum(x), "x"); }, mesh, P("x"), P("x"));
//
// `axes` is a name, a list of names (one axis, the first name most significant) or, where a comment allows it, indices
// of the block's own dimensions. Every function throws `UnboundAxisError` for a name that no enclosing map binds (and
// for indices where they mean nothing), and `ValueError` for repeated names and groups that do not cover the axis.
// Trees act leaf by leaf.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/collective_options.h"
#include "tessera/detail/collectives.h"
#include "tessera/host_array.h"
#include "tessera/mesh.h"
#include "tessera/reduce_options.h"
#include "tessera/tree.h"

namespace tessera {

/// Tags of the reductions, for `collective_result_t`.
struct PsumOp {
  static constexpr auto kind = detail::AxisReduction::Sum;
};
/// Means over mesh axes (`pmean`).
struct PmeanOp {
  static constexpr auto kind = detail::AxisReduction::Mean;
};
/// Maxima over mesh axes (`pmax`).
struct PmaxOp {
  static constexpr auto kind = detail::AxisReduction::Max;
};
/// Minima over mesh axes (`pmin`).
struct PminOp {
  static constexpr auto kind = detail::AxisReduction::Min;
};
/// Type of a reduction's result: trees keep theirs (their arrays change dtype where the reduction does), the sum of a
/// bool is an int, the mean of an integer is a float.
template <class Op, class T>
using collective_result_t = typename detail::ReducedNumber<Op::kind, T>::type;

/// Sum over the axes (all-reduce); integers in `axes` are dimensions of the block that are summed too. bool is summed
/// as int32. A constant (a scalar, a host array, an array that is not traced) is multiplied without communication:
/// `psum(1, "x")` is the axis size. Throws `IndexError` for a dimension out of range.
template <class T>
requires is_tree_v<T> T psum(const T& x, const AxisNames& axes, const ReduceOptions& o = {},
                             const Loc& loc = Loc::current()) {
  return tree_unflatten(x, detail::axis_reduce(detail::AxisReduction::Sum, tree_leaves(x), axes, o, loc));
}
/// Mean over the axes (all-reduce): floats for integers. Throws `ValueError` for dimensions in `axes`.
template <class T>
requires is_tree_v<T> T pmean(const T& x, const AxisNames& axes, const ReduceOptions& o = {},
                              const Loc& loc = Loc::current()) {
  return tree_unflatten(x, detail::axis_reduce(detail::AxisReduction::Mean, tree_leaves(x), axes, o, loc));
}
/// Element-wise maximum over the axes (all-reduce); NaN where one is. It has no derivative.
template <class T>
requires is_tree_v<T> T pmax(const T& x, const AxisNames& axes, const ReduceOptions& o = {},
                             const Loc& loc = Loc::current()) {
  return tree_unflatten(x, detail::axis_reduce(detail::AxisReduction::Max, tree_leaves(x), axes, o, loc));
}
/// Element-wise minimum over the axes (all-reduce); NaN where one is. It has no derivative.
template <class T>
requires is_tree_v<T> T pmin(const T& x, const AxisNames& axes, const ReduceOptions& o = {},
                             const Loc& loc = Loc::current()) {
  return tree_unflatten(x, detail::axis_reduce(detail::AxisReduction::Min, tree_leaves(x), axes, o, loc));
}
/// Of a host scalar: x times the axis size, known without running anything.
template <Number T>
collective_result_t<PsumOp, T> psum(T x, const AxisNames& axes, const ReduceOptions& o = {},
                                    const Loc& = Loc::current()) {
  using R = collective_result_t<PsumOp, T>;
  return static_cast<R>(static_cast<R>(x) * static_cast<R>(detail::reduced_instances(axes, o, "psum")));
}
/// Of a host scalar: x itself, as a float for integers.
template <Number T>
collective_result_t<PmeanOp, T> pmean(T x, const AxisNames& axes, const ReduceOptions& o = {}) {
  using R = collective_result_t<PmeanOp, T>;
  detail::reduced_instances(axes, o, "pmean");  // checks the axes: the mean of equal values is the value
  return static_cast<R>(x);
}
/// Of a host array, which every position shares: no communication.
inline HostArray psum(const HostArray& x, const AxisNames& axes, const ReduceOptions& o = {},
                      const Loc& = Loc::current()) {
  return detail::axis_reduce_host(detail::AxisReduction::Sum, x, axes, o);
}
/// Of a host array, which every position shares: no communication.
inline HostArray pmean(const HostArray& x, const AxisNames& axes, const ReduceOptions& o = {},
                       const Loc& = Loc::current()) {
  return detail::axis_reduce_host(detail::AxisReduction::Mean, x, axes, o);
}

/// `axis_index` of the block with the largest element, the smallest of several; int32, shape of x; 2147483647 where a
/// block holds NaN. Two all-reduces. Throws `TypeError` for a list of names or a tree.
template <class T>
requires is_tree_v<T> Array pargmax(const T& x, const AxisNames& axis, const Loc& loc = Loc::current()) {
  return detail::arg_extreme(tree_leaves(x), axis, true, loc);
}
/// `axis_index` of the block with the smallest element, as `pargmax`.
template <class T>
requires is_tree_v<T> Array pargmin(const T& x, const AxisNames& axis, const Loc& loc = Loc::current()) {
  return detail::arg_extreme(tree_leaves(x), axis, false, loc);
}

/// The block of position `source`, at every position (broadcast). Throws `IndexError` for a source out of range.
template <class T>
requires is_tree_v<T> T pbroadcast(const T& x, const AxisNames& axes, std::int64_t source,
                                   const Loc& loc = Loc::current()) {
  return tree_unflatten(x, detail::pbroadcast(tree_leaves(x), axes, source, loc));
}
/// Position d receives the block of s for each pair (s, d), zeros where no pair names it (collective-permute).
/// Positions are counted in the order of the mesh, negative ones from the end. Throws `IndexError`, and `ValueError`
/// for a source or destination that is not unique.
template <class T>
requires is_tree_v<T> T ppermute(const T& x, const AxisNames& axes, const PermutationPairs& perm,
                                 const Loc& loc = Loc::current()) {
  return tree_unflatten(x, detail::ppermute(tree_leaves(x), axes, perm, loc));
}
/// Position i receives the block of `perm[i]` (collective-permute). Throws `ValueError` unless `perm` is a permutation.
template <class T>
requires is_tree_v<T> T pshuffle(const T& x, const AxisNames& axes, const std::vector<std::int64_t>& perm,
                                 const Loc& loc = Loc::current()) {
  return tree_unflatten(x, detail::pshuffle(tree_leaves(x), axes, perm, loc));
}
/// Slice r of dimension `split_axis` goes to position r, which stacks what it receives along a new dimension
/// `concat_axis` (counted without the split one); `tiled`: chunks in place of slices, joined along `concat_axis`.
/// Throws `IndexError`, and `ValueError` for a size that does not fit.
template <class T>
requires is_tree_v<T> T all_to_all(const T& x, const AxisNames& axes, std::int64_t split_axis, std::int64_t concat_axis,
                                   const AllToAllOptions& o = {}, const Loc& loc = Loc::current()) {
  return tree_unflatten(x, detail::all_to_all(tree_leaves(x), axes, split_axis, concat_axis, o, "all_to_all", loc));
}
/// `all_to_all` that splits and stacks the same dimension.
template <class T>
requires is_tree_v<T> T pswapaxes(const T& x, const AxisNames& axes, std::int64_t axis, const ReduceOptions& o = {},
                                  const Loc& loc = Loc::current()) {
  return tree_unflatten(
      x, detail::all_to_all(tree_leaves(x), axes, axis, axis, {o.axis_index_groups, false}, "pswapaxes", loc));
}
/// Rows `operand[input_offsets[i] : +send_sizes[i]]` go to peer i / k (k slots per peer) and are written to its result
/// at row `output_offsets[i]`, which the sender specifies; `recv_sizes` are the receiver's view of the sizes. Rows that
/// nobody writes are those of `output`. Throws `ValueError` naming the argument; ranges outside the arrays throw
/// `ValueError` where the result is waited for.
Array ragged_all_to_all(const Array& operand, const Array& output, const Array& input_offsets, const Array& send_sizes,
                        const Array& output_offsets, const Array& recv_sizes, const AxisNames& axes,
                        const ReduceOptions& o = {}, const Loc& loc = Loc::current());
/// The blocks of all positions, stacked along a new dimension `axis`, or joined along it (`tiled`). Throws
/// `IndexError`, `UnimplementedError` for `GatherTo::reduced` and for `invarying` with groups.
template <class T>
requires is_tree_v<T> T all_gather(const T& x, const AxisNames& axes, const AllGatherOptions& o = {},
                                   const Loc& loc = Loc::current()) {
  return tree_unflatten(x, detail::all_gather(tree_leaves(x), axes, o, "all_gather", loc));
}
/// `all_gather` whose result is typed invarying (equal) along the names.
template <class T>
requires is_tree_v<T> T all_gather_invariant(const T& x, const AxisNames& axes, std::int64_t axis = 0,
                                             bool tiled = false, const Loc& loc = Loc::current()) {
  AllGatherOptions o;
  o.axis = axis;
  o.tiled = tiled;
  o.to = GatherTo::invarying;
  return tree_unflatten(x, detail::all_gather(tree_leaves(x), axes, o, "all_gather_invariant", loc));
}
/// Slice r (chunk r when `tiled`) of the sum, at position r (reduce-scatter). Throws `IndexError`, `ValueError` for a
/// size that does not fit, `TypeError` for bool.
template <class T>
requires is_tree_v<T> T psum_scatter(const T& x, const AxisNames& axes, const PsumScatterOptions& o = {},
                                     const Loc& loc = Loc::current()) {
  return tree_unflatten(x, detail::psum_scatter(tree_leaves(x), axes, o, loc));
}
/// `psum_scatter`.
template <class T>
requires is_tree_v<T> T reduce_scatter(const T& x, const AxisNames& axes, const PsumScatterOptions& o = {},
                                       const Loc& loc = Loc::current()) {
  return psum_scatter(x, axes, o, loc);
}

/// The position along the axes, an int32 scalar; 0 for no names. No communication.
Array axis_index(const AxisNames& axes, const Loc& loc = Loc::current());
/// Product of the axes' sizes; 1 for no names. Known while tracing.
std::int64_t axis_size(const AxisNames& axes, const Loc& loc = Loc::current());
/// The listed axes of `src` (names and dimensions, the first most significant) as one dimension, indexed by `idx`,
/// which is clamped. Shape: that of idx, then the other dimensions of src. Names are all-gathered. Throws `TypeError`
/// for an index that is no integer.
Array pgather(const Array& src, const Array& idx, const AxisNames& axes, const Loc& loc = Loc::current());

/// The same value, typed varying over the names; no communication. Throws `ValueError`, in a map with `check_vma`, when
/// it varies already.
template <class T>
requires is_tree_v<T> T pvary(const T& x, const AxisNames& axes, const Loc& loc = Loc::current()) {
  return tree_unflatten(x, detail::pvary(tree_leaves(x), axes, "pvary", loc));
}
/// The same value, typed anew over the names; no communication. `varying`: as `pvary`, and of a reduced operand each
/// device's own. `unreduced`: what the devices hold, which varies, are addends; the result leaves the map by an
/// out-spec with `unreduced`, and its cotangent is the whole one for each. `reduced`: a value that is equal along the
/// names leaves the map by an out-spec with `reduced`; addends of its cotangent come back and are summed. Throws
/// `ValueError`, in a map with `check_vma`, for a value of another type than these.
template <class T>
requires is_tree_v<T> T pcast(const T& x, const AxisNames& axes, CastTo to, const Loc& loc = Loc::current()) {
  return tree_unflatten(x, detail::pcast(tree_leaves(x), axes, to, loc));
}

/// What is beyond the first and the last block.
enum class HaloEdge { periodic, constant };
/// Width and borders of `halo_exchange`.
struct HaloOptions {
  std::int64_t before = 1;  ///< rows of the block before that are put in front
  std::int64_t after = 1;   ///< rows of the block behind that are put at the end
  HaloEdge edge = HaloEdge::constant;
  double value = 0;  ///< beyond the ends, for constant edges
};
/// The block with rows of its neighbors along dimension `dim`, which has before + after more elements: what a stencil
/// over a value that is sharded along `axes` needs (collective-permutes). Linear, so it is differentiated and batched
/// with the rest. Throws `IndexError` for the dimension, `ValueError` for negative widths and for widths beyond a
/// block.
Array halo_exchange(const Array& x, const AxisNames& axes, std::int64_t dim, const HaloOptions& o = {},
                    const Loc& loc = Loc::current());

}  // namespace tessera
