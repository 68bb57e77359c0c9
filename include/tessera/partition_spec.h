// SPDX-License-Identifier: Apache-2.0
// Which mesh axes split which dimension of an array.
//
//   P("x", none, {"y", "z"})   dimension 0 over x, 1 replicated, 2 over y (slow) and z (fast)
//   P(0, none)                 mesh axes may be given by index
//   P(axes("x", "y"), unconstrained)
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
inline constexpr NoneType none{};
inline constexpr NoneType None{};
/// A dimension that the compiler may split as it likes (constraints only).
struct Unconstrained {};
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
/// it. Equality is by entries: trailing `none` counts.
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
  /// Position of the first equal entry. Throws `ValueError` when there is none.
  std::int64_t index(const SpecEntry& entry, const Loc& loc = Loc::current()) const;
  /// "P('x', None)", or with another word in front.
  std::string text(std::string_view name = "P") const;

  bool operator==(const PartitionSpec&) const = default;
  std::size_t hash() const;

 private:
  std::vector<SpecEntry> entries_;
};
using P = PartitionSpec;

/// "P('x', None)".
inline std::string to_string(const PartitionSpec& s) { return s.text(); }
/// The entries of a, then those of b.
PartitionSpec operator+(const PartitionSpec& a, const PartitionSpec& b);

}  // namespace tessera

template <>
struct std::hash<tessera::PartitionSpec> {
  std::size_t operator()(const tessera::PartitionSpec& s) const noexcept { return s.hash(); }
};
