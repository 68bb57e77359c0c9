// SPDX-License-Identifier: Apache-2.0
// Collectives over named axes, as graph ops.
//
// A name is bound by a mesh map (shard_map) or by a vmap. All ops keep the rank: what a public function offers beyond
// that (untiled forms, positional axes, means) is built around them. A program is partitioned after its maps were
// opened: then `axes` holds the axes of the program's mesh that the names stand for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ops/shared_attrs.h"

namespace tessera::ops {

/// "i@vmap2": name `i` of the vmap at this depth of the enclosing maps.
std::string vmapped_name(const std::string& name, std::size_t depth);
bool is_vmapped(const std::string& name);
/// The name as the user wrote it.
std::string plain_name(const std::string& name);

using Groups = std::vector<Dims>;

struct Collective {
  Names names;
  Dims sizes;                     ///< one a name
  std::optional<Groups> groups;   ///< of indices along the tuple of names; each runs alone
  bool checked = false;           ///< inside a map that checks varying types
  std::optional<Dims> axes = {};  ///< of the program's mesh, major first; set when maps are opened
  static constexpr auto fields = std::tuple{field("names", &Collective::names), field("sizes", &Collective::sizes),
                                            field("groups", &Collective::groups),
                                            field("checked", &Collective::checked), field("axes", &Collective::axes)};
  /// Instances along all names.
  std::int64_t total() const;
  /// Instances of a group (the first one), or all.
  std::int64_t group_size() const;
  /// Members of each group; one group of all where none are given.
  Groups group_list() const;
  /// The result is equal along the names, and a checked map knows it.
  bool invariant() const { return checked && !groups; }
};

struct AllGather : Collective {
  std::int64_t dim = 0;
  bool to_invariant = false;  ///< typed equal along the names (all_gather_invariant)
  bool mapped_only = false;   ///< a vmap of the name must map the operand (pgather)
  static constexpr auto fields = std::tuple_cat(
      Collective::fields, std::tuple{field("dim", &AllGather::dim), field("to_invariant", &AllGather::to_invariant),
                                     field("mapped_only", &AllGather::mapped_only)});
};
struct PsumScatter : Collective {
  std::int64_t dim = 0;
  static constexpr auto fields = std::tuple_cat(Collective::fields, std::tuple{field("dim", &PsumScatter::dim)});
};
/// Chunk r of `split` of every instance goes to instance r, which joins them along `concat`.
struct AllToAll : Collective {
  std::int64_t split = 0;
  std::int64_t concat = 0;
  static constexpr auto fields = std::tuple_cat(
      Collective::fields, std::tuple{field("split", &AllToAll::split), field("concat", &AllToAll::concat)});
};
/// Names in the order of the mesh.
struct Ppermute : Collective {
  std::vector<Dims> pairs;  ///< (source, destination)
  static constexpr auto fields = std::tuple_cat(Collective::fields, std::tuple{field("pairs", &Ppermute::pairs)});
  /// By destination: its source, or -1.
  Dims sources() const;
};
struct Pbroadcast : Collective {
  std::int64_t source = 0;
  static constexpr auto fields = std::tuple_cat(Collective::fields, std::tuple{field("source", &Pbroadcast::source)});
};

// --- builders; `p` without names gives the operand ---------------------------------------------------------------

Value psum(Value x, const Collective& p);
Value pmax(Value x, const Collective& p);
Value pmin(Value x, const Collective& p);
Value all_gather(Value x, const AllGather& p);
Value psum_scatter(Value x, const PsumScatter& p);
Value all_to_all(Value x, const AllToAll& p);
Value ppermute(Value x, const Ppermute& p);
Value pbroadcast(Value x, const Pbroadcast& p);
/// The instance's number along the names: i32[].
Value axis_index(Builder& b, const Collective& p);
/// The same value, typed varying over the names.
Value pvary(Value x, const Collective& p);
/// Operands: operand (N, …), output (M, …), input offsets, send sizes, output offsets, receive sizes.
Value ragged_all_to_all(ValueSpan in, const Collective& p);
/// x, which has no derivative; `why` names the operation that was asked for one.
Value no_derivative(Value x, const std::string& why);

/// Attributes of a collective equation; null for other ops.
const Collective* collective_of(const ir::Eqn& e);
/// The same equation's attributes on these axes of the program's mesh.
ir::Attrs with_axes(const ir::Eqn& e, const Dims& axes);

}  // namespace tessera::ops
