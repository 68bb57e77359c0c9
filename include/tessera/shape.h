// SPDX-License-Identifier: Apache-2.0
// Shapes, slices and indices of global arrays.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tessera {

/// Extents, slowest dimension first; never negative in a valid shape.
using Shape = std::vector<std::int64_t>;
/// Axes or other small lists of integers.
using Dims = std::vector<std::int64_t>;

/// A list that may be left out, written as in NumPy: `sum(x, {.axis = 1})`, `flip(x, {0, 2})`, `squeeze(x)`.
class MaybeDims : public std::optional<Dims> {
 public:
  // NOLINTBEGIN(google-explicit-constructor): integers and lists of integers convert
  MaybeDims() = default;
  MaybeDims(std::nullopt_t) {}
  template <std::integral I>
  MaybeDims(I axis) : std::optional<Dims>(Dims{static_cast<std::int64_t>(axis)}) {}
  MaybeDims(std::initializer_list<std::int64_t> axes) : std::optional<Dims>(Dims(axes)) {}
  MaybeDims(Dims axes) : std::optional<Dims>(std::move(axes)) {}
  MaybeDims(std::optional<Dims> axes) : std::optional<Dims>(std::move(axes)) {}
  // NOLINTEND(google-explicit-constructor)
};

/// Number of dimensions.
inline std::int64_t rank(const Shape& s) { return static_cast<std::int64_t>(s.size()); }
/// Number of elements. Throws `ValueError` naming `global_shape[i]` for a negative extent or when the product
/// overflows.
std::int64_t size_of(const Shape& s);
/// Python's form: "(8, 2)", "(8,)", "()".
std::string to_string(const Shape& s);

/// Half-open range of one dimension; a slice without bounds takes the whole dimension.
struct Slice {
  std::optional<std::int64_t> start;
  std::optional<std::int64_t> stop;

  bool is_full() const { return !start && !stop; }
  /// Both bounds for a dimension of `extent` elements. Throws `IndexError` when stop < start or stop > extent.
  std::pair<std::int64_t, std::int64_t> resolve(std::int64_t extent) const;
  bool operator==(const Slice&) const = default;
};
/// Python's form: "slice(0, 2, None)".
std::string to_string(const Slice& s);

/// One slice per dimension: the shard of a global array that a device holds.
using Index = std::vector<Slice>;
/// "(slice(0, 2, None), slice(None, None, None))".
std::string to_string(const Index& index);

}  // namespace tessera

template <>
struct std::hash<tessera::Slice> {
  std::size_t operator()(const tessera::Slice& s) const noexcept {
    auto h = static_cast<std::size_t>(s.start.value_or(-1)) * 0x9E3779B97F4A7C15ull;
    return (h ^ (h >> 29)) + static_cast<std::size_t>(s.stop.value_or(-1)) * 0xBF58476D1CE4E5B9ull;
  }
};
template <>
struct std::hash<tessera::Index> {
  std::size_t operator()(const tessera::Index& index) const noexcept {
    std::size_t h = index.size();
    for (const auto& s : index) h = h * 0x100000001B3ull ^ std::hash<tessera::Slice>{}(s);
    return h;
  }
};
