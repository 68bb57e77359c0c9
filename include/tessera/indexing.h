// SPDX-License-Identifier: Apache-2.0
// NumPy indexing.
//
//   x(0, span(1, 5), ellipsis, newaxis, rows)              x[0, 1:5, ..., None, rows]
//   index(x, items, {.mode = IndexMode::FillOrDrop})       the same with options, or with items made at run time
//   at(x, {rows}).add(updates)                             x.at[rows].add(updates): a new array
//
// Integers and ranges are known while tracing; integers count from the end where negative, ranges are clipped to the
// array. Integer arrays gather element by element and broadcast against each other; indices outside read the nearest
// element and write nothing, unless a mode specifies otherwise. Bool arrays must be known while tracing: traced ones
// throw `ConcretizationError` (use where), except alone as the index of an update by a scalar.
#pragma once

#include <concepts>
#include <functional>
#include <initializer_list>
#include <optional>
#include <vector>

#include "tessera/array.h"
#include "tessera/operand.h"
#include "tessera/partition_spec.h"
#include "tessera/sharding_arg.h"

namespace tessera {

struct EllipsisType {};
/// NumPy's `...`.
inline constexpr EllipsisType ellipsis{};
struct NewAxisType {};
/// NumPy's `None` in an index: a dimension of 1.
inline constexpr NewAxisType newaxis{};

/// Python's start:stop:step.
struct Span {
  std::optional<std::int64_t> start, stop;
  std::int64_t step = 1;
};
/// All elements of a dimension.
inline Span span() { return {}; }
/// start:stop:step with Python's defaults and negative indices.
inline Span span(std::optional<std::int64_t> start, std::optional<std::int64_t> stop, std::int64_t step = 1) {
  return {start, stop, step};
}

/// One item of an index: an integer, a range, an ellipsis, a new axis, or an array of integers or bools.
class IndexItem {
 public:
  enum class Kind { Number, Range, Ellipsis, NewAxis, Array };
  // NOLINTBEGIN(google-explicit-constructor): items are written as what they are
  template <std::integral I>
  requires(!std::same_as<I, bool>) IndexItem(I i) : kind_(Kind::Number), number_(static_cast<std::int64_t>(i)) {}
  IndexItem(const Span& s) : kind_(Kind::Range), span_(s) {}
  IndexItem(const Slice& s) : kind_(Kind::Range), span_{s.start, s.stop, 1} {}
  IndexItem(EllipsisType) : kind_(Kind::Ellipsis) {}
  IndexItem(NewAxisType) : kind_(Kind::NewAxis) {}
  IndexItem(NoneType) : kind_(Kind::NewAxis) {}
  IndexItem(const Array& a) : kind_(Kind::Array), array_(a) {}
  /// An index array written as a list: `x({0, 2})` is x[[0, 2]].
  IndexItem(std::initializer_list<std::int64_t> indices) : IndexItem(std::vector<std::int64_t>(indices)) {}
  IndexItem(const std::vector<std::int64_t>& indices);
  // NOLINTEND(google-explicit-constructor)
  Kind kind() const { return kind_; }
  std::int64_t number() const { return number_; }
  const Span& range() const { return span_; }
  const Array& array() const { return array_; }

 private:
  Kind kind_;
  std::int64_t number_ = 0;
  Span span_;
  Array array_;
};
/// The items of an index.
using IndexItems = std::vector<IndexItem>;

/// What index arrays do outside the array.
enum class IndexMode {
  PromiseInBounds,  ///< the program promises that there is none; where the promise fails, reading clips
  Clip,             ///< the nearest element is used
  FillOrDrop,       ///< reading gives the fill value (as `TakeMode::Fill`), writing skips it
};
/// What an index outside means, and what the program promises of its indices.
struct IndexOptions {
  std::optional<IndexMode> mode = std::nullopt;  ///< `PromiseInBounds` for reading, `FillOrDrop` for writing
  std::optional<double> fill_value = std::nullopt;
  bool unique_indices = false;        ///< the program promises that no element is indexed twice
  bool wrap_negative_indices = true;  ///< negative indices in arrays count from the end
  /// As in `PlaceOptions`. An index without arrays is a slice: its rules hold, and the result is resharded.
  ShardingArg out_sharding = {};
};

/// x[items] in x's dtype. A sharded dimension that is indexed by an array is all-gathered; ranges exchange what shards
/// lack. Throws `IndexError` for an integer outside, more items than dimensions, two ellipses, a range of step 0 and a
/// bool array of other extents.
Array index(const Operand& x, const IndexItems& items, const IndexOptions& options = {});

/// Updates of the indexed elements; each gives a new array of the same dtype (`divide` of integers gives floats).
/// Updates broadcast to the index's shape. Of several `set`s of one element the last stays; the others combine all.
/// `apply` reads, calls and sets: an element that is indexed twice is changed once.
class IndexUpdate {
 public:
  IndexUpdate(Operand x, IndexItems items) : x_(std::move(x)), items_(std::move(items)) {}
  /// `index(x, items, options)`.
  Array get(const IndexOptions& options = {}, const Loc& = Loc::current()) const { return index(x_, items_, options); }
  /// Replaces the indexed elements by v.
  Array set(const Operand& v, const IndexOptions& options = {}) const;
  /// Adds v to them.
  Array add(const Operand& v, const IndexOptions& options = {}) const;
  /// Subtracts v from them.
  Array subtract(const Operand& v, const IndexOptions& options = {}) const;
  /// Multiplies them by v.
  Array multiply(const Operand& v, const IndexOptions& options = {}) const;
  /// Divides them by v.
  Array divide(const Operand& v, const IndexOptions& options = {}) const;
  /// Raises them to the power v.
  Array power(const Operand& v, const IndexOptions& options = {}) const;
  /// The smaller of them and v.
  Array min(const Operand& v, const IndexOptions& options = {}) const;
  /// The larger of them and v.
  Array max(const Operand& v, const IndexOptions& options = {}) const;
  /// Replaces them by f of them.
  Array apply(const std::function<Array(const Array&)>& f, const IndexOptions& options = {},
              const Loc& loc = Loc::current()) const;

 private:
  Operand x_;
  IndexItems items_;
};
/// x.at[items] of JAX: names the elements that the member functions read or update.
inline IndexUpdate at(const Operand& x, const IndexItems& items) { return {x, items}; }

}  // namespace tessera
