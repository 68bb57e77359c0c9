// SPDX-License-Identifier: Apache-2.0
// Which mesh axes split which dimension of an array.
//
//   P("x", none, {"y", "z"})   dimension 0 over x, 1 replicated, 2 over y (slow) and z (fast)
//   P(0, none)                 mesh axes may be given by index
//   P(axes("x", "y"), unconstrained)
//   P("x").unreduced("y")      dimension 0 over x; devices along y hold addends of each block
//   P("x").reduced("y")        devices along y hold equal blocks; the gradient stays unreduced over y
#pragma once

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/mesh.h"

namespace tessera {

/// A dimension that no mesh axis splits.
struct NoneType {};
/// The dimension is not split.
inline constexpr NoneType none{};
/// The same.
inline constexpr NoneType None{};
/// A dimension that the compiler may split as it likes (constraints only).
struct Unconstrained {};
/// The dimension is split as the partitioner decides.
inline constexpr Unconstrained unconstrained{};

/// One entry of a `PartitionSpec`. One axis and a list of that one axis are the same entry.
class SpecEntry {
 public:
  enum class Kind : unsigned char { None, Axes, Unconstrained };

  /// An empty list of axes: places like `none` but is another entry.
  SpecEntry() : kind_(Kind::Axes), listed_(true) {}
  // NOLINTBEGIN(google-explicit-constructor): entries are written as names, indices and lists
  SpecEntry(NoneType) : kind_(Kind::None) {}
  SpecEntry(std::nullopt_t) : kind_(Kind::None) {}
  SpecEntry(Unconstrained) : kind_(Kind::Unconstrained) {}
  SpecEntry(const char* name) : SpecEntry(AxisRef(name)) {}
  SpecEntry(const std::string& name) : SpecEntry(AxisRef(name)) {}
  SpecEntry(std::string_view name) : SpecEntry(AxisRef(name)) {}
  SpecEntry(int axis) : SpecEntry(AxisRef(axis)) {}
  SpecEntry(std::int64_t axis) : SpecEntry(AxisRef(axis)) {}
  SpecEntry(AxisRef axis) : kind_(Kind::Axes) { axes_.push_back(std::move(axis)); }
  SpecEntry(std::vector<AxisRef> axes) : kind_(Kind::Axes), listed_(true), axes_(std::move(axes)) {}
  SpecEntry(const std::vector<std::string>& names)
      : kind_(Kind::Axes), listed_(true), axes_(names.begin(), names.end()) {}
  /// Several axes, slowest first. Throws `ValueError` naming an entry that is no single axis.
  SpecEntry(std::initializer_list<SpecEntry> axes);
  // NOLINTEND(google-explicit-constructor)
  SpecEntry(std::nullptr_t) = delete;
  template <class T>
  requires(std::same_as<T, bool> || std::floating_point<T>) SpecEntry(T)
  = delete;

  Kind kind() const { return kind_; }
  bool is_none() const { return kind_ == Kind::None; }
  bool is_unconstrained() const { return kind_ == Kind::Unconstrained; }
  /// Axes, slowest first; empty for `none`.
  const std::vector<AxisRef>& axes() const& { return axes_; }
  std::vector<AxisRef> axes() const&& { return axes_; }
  /// Written as a list, which may not be nested in another list.
  bool is_listed() const { return listed_; }
  bool operator==(const SpecEntry& other) const { return kind_ == other.kind_ && axes_ == other.axes_; }
  std::size_t hash() const;

 private:
  friend class PartitionSpec;
  friend SpecEntry axes(SpecEntry, SpecEntry, SpecEntry, SpecEntry, SpecEntry, SpecEntry, SpecEntry, SpecEntry,
                        const Loc&);
  struct Absent {};
  explicit SpecEntry(Absent) : absent_(true) {}

  Kind kind_ = Kind::None;
  bool absent_ = false;  // an argument that the caller left out
  bool listed_ = false;
  std::vector<AxisRef> axes_;

 public:
  /// Default of the trailing arguments of `P` and `axes`.
  static SpecEntry absent() { return SpecEntry(Absent{}); }
};
/// "'x'", "('x', 'y')", "()", "None", "UNCONSTRAINED".
std::string to_string(const SpecEntry& e);

/// Several mesh axes for one dimension, slowest first. Throws `ValueError` naming a nested list or a `none`.
SpecEntry axes(SpecEntry a = SpecEntry::absent(), SpecEntry b = SpecEntry::absent(), SpecEntry c = SpecEntry::absent(),
               SpecEntry d = SpecEntry::absent(), SpecEntry e = SpecEntry::absent(), SpecEntry f = SpecEntry::absent(),
               SpecEntry g = SpecEntry::absent(), SpecEntry h = SpecEntry::absent(), const Loc& loc = Loc::current());

/// One entry per dimension; dimensions past the end are replicated. Names are looked up when a sharding is built from
/// it. Equality is by entries, of which a trailing `none` counts, and by the sets of unreduced and reduced axes.
class PartitionSpec {
 public:
  PartitionSpec(SpecEntry a = SpecEntry::absent(), SpecEntry b = SpecEntry::absent(), SpecEntry c = SpecEntry::absent(),
                SpecEntry d = SpecEntry::absent(), SpecEntry e = SpecEntry::absent(), SpecEntry f = SpecEntry::absent(),
                SpecEntry g = SpecEntry::absent(), SpecEntry h = SpecEntry::absent());
  /// `P({"x", "y"})`: one dimension over several axes (this overload keeps the braces from meaning a copied spec).
  template <std::size_t N>
  PartitionSpec(const char* const (&names)[N]) {
    std::vector<AxisRef> refs(names, names + N);
    entries_.emplace_back(std::move(refs));
  }
  /// The same with strings.
  template <std::size_t N>
  PartitionSpec(const std::string (&names)[N]) {
    std::vector<AxisRef> refs(names, names + N);
    entries_.emplace_back(std::move(refs));
  }
  /// The same with indices of axes.
  template <std::size_t N>
  PartitionSpec(const int (&indices)[N]) {
    std::vector<AxisRef> refs(indices, indices + N);
    entries_.emplace_back(std::move(refs));
  }
  /// Any number of entries.
  explicit PartitionSpec(std::vector<SpecEntry> entries);

  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  const SpecEntry& operator[](std::size_t i) const { return entries_[i]; }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  const std::vector<SpecEntry>& entries() const& { return entries_; }
  std::vector<SpecEntry> entries() const&& { return entries_; }
  /// This spec, unreduced over `axes` too: the value is the sum, over these mesh axes, of the blocks that devices hold,
  /// each of the shape that the entries give. Throws `ValueError` naming an axis that an entry or `reduced` has.
  PartitionSpec with_unreduced(std::vector<AxisRef> axes, const Loc& loc = Loc::current()) const;
  /// This spec, reduced over `axes` too: devices along these mesh axes hold equal blocks, as without the mark, by
  /// which the gradient is to stay unreduced over them. Throws `ValueError` naming an axis that an entry or
  /// `unreduced` has.
  PartitionSpec with_reduced(std::vector<AxisRef> axes, const Loc& loc = Loc::current()) const;
  /// `with_unreduced` for axes that are written out: `P("x").unreduced("y", "z")`.
  template <std::convertible_to<AxisRef>... A>
  requires(sizeof...(A) > 0) PartitionSpec unreduced(const A&... axes)
  const { return with_unreduced({AxisRef(axes)...}); }
  /// `with_reduced` for axes that are written out: `P("x").reduced("y", "z")`.
  template <std::convertible_to<AxisRef>... A>
  requires(sizeof...(A) > 0) PartitionSpec reduced(const A&... axes)
  const { return with_reduced({AxisRef(axes)...}); }
  /// The axes over which the value is a sum of what devices hold; a set, in the order of their names.
  const std::vector<AxisRef>& unreduced() const& { return unreduced_; }
  std::vector<AxisRef> unreduced() const&& { return unreduced_; }
  /// The axes over which the gradient is to stay unreduced; a set, in the order of their names.
  const std::vector<AxisRef>& reduced() const& { return reduced_; }
  std::vector<AxisRef> reduced() const&& { return reduced_; }
  /// Position of the first equal entry. Throws `ValueError` when there is none.
  std::int64_t index(const SpecEntry& entry, const Loc& loc = Loc::current()) const;
  /// "P('x', None)", "P('x', unreduced={'y'})", or with another word in front.
  std::string text(std::string_view name = "P") const;

  bool operator==(const PartitionSpec&) const = default;
  std::size_t hash() const;

 private:
  std::vector<SpecEntry> entries_;
  std::vector<AxisRef> unreduced_, reduced_;  // sorted, without repeats
};
/// Short for specs.
using P = PartitionSpec;

/// "P('x', None)".
inline std::string to_string(const PartitionSpec& s) { return s.text(); }
/// The entries of a, then those of b; unreduced and reduced over the axes of either. Throws `ValueError` as
/// `with_unreduced`.
PartitionSpec operator+(const PartitionSpec& a, const PartitionSpec& b);

}  // namespace tessera

template <>
struct std::hash<tessera::PartitionSpec> {
  std::size_t operator()(const tessera::PartitionSpec& s) const noexcept { return s.hash(); }
};
