// SPDX-License-Identifier: Apache-2.0
// A small N-dimensional array of anything: device grids, id tables, tile assignments.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "tessera/loc.h"
#include "tessera/shape.h"

namespace tessera {

namespace detail {
/// Row-major position of `index`. Throws `IndexError` when the rank differs or a coordinate is out of range.
std::int64_t nd_offset(const Shape& shape, const std::int64_t* index, std::size_t n);
/// Throws `ValueError` unless `shape` has `count` elements.
void check_nd_count(const char* what, const Shape& shape, std::size_t count);
/// Source position of every element of the transposed array. Throws `ValueError` unless `perm` is a permutation.
std::vector<std::int64_t> nd_transposed(const Shape& shape, const Dims& perm);
}  // namespace detail

/// A row-major array of any element type, in host memory.
template <class T>
class NdArray {
 public:
  /// Rank 1 with no elements.
  NdArray() : shape_{0} {}
  /// Row-major elements. Throws `ValueError` unless there are as many as `shape` needs.
  NdArray(std::vector<T> values, Shape shape) : shape_(std::move(shape)), values_(std::move(values)) {
    detail::check_nd_count("NdArray", shape_, values_.size());
  }

  const Shape& shape() const& { return shape_; }
  Shape shape() const&& { return shape_; }
  std::int64_t ndim() const { return rank(shape_); }
  std::int64_t size() const { return static_cast<std::int64_t>(values_.size()); }
  /// The elements in row-major order.
  const std::vector<T>& flat() const& { return values_; }
  std::vector<T> flat() const&& { return values_; }

  /// The element at an index. Throws `IndexError` for a wrong rank or a coordinate out of range, as the two below.
  template <class... I>
  const T& operator()(I... i) const& {
    return values_[offset(i...)];
  }
  template <class... I>
  T operator()(I... i) const&& {
    return values_[offset(i...)];
  }
  template <class... I>
  T& operator()(I... i) & {
    return values_[offset(i...)];
  }
  const T& at(const Dims& index, const Loc& = Loc::current()) const& {
    return values_[static_cast<std::size_t>(detail::nd_offset(shape_, index.data(), index.size()))];
  }
  T at(const Dims& index) const&& { return at(index); }

  /// The same elements under another shape. Throws `ValueError` when sizes differ.
  NdArray reshape(Shape shape, const Loc& = Loc::current()) const { return NdArray(values_, std::move(shape)); }
  /// Dimension i of the result is dimension `perm[i]` of this one. Throws `ValueError` unless it is a permutation.
  NdArray transpose(const Dims& perm, const Loc& = Loc::current()) const {
    std::vector<T> out;
    out.reserve(values_.size());
    for (auto i : detail::nd_transposed(shape_, perm)) out.push_back(values_[static_cast<std::size_t>(i)]);
    Shape shape;
    for (auto p : perm) shape.push_back(shape_[static_cast<std::size_t>(p)]);
    return NdArray(std::move(out), std::move(shape));
  }

  bool operator==(const NdArray&) const = default;

 private:
  template <class... I>
  std::size_t offset(I... i) const {
    const std::int64_t index[sizeof...(I) + 1] = {static_cast<std::int64_t>(i)..., 0};
    return static_cast<std::size_t>(detail::nd_offset(shape_, index, sizeof...(I)));
  }

  Shape shape_;
  std::vector<T> values_;
};

/// "[[0, 1], [2, 3]]".
std::string to_string(const NdArray<std::int64_t>& a);

/// A map in the order in which keys were inserted; made for a handful of entries.
template <class K, class V>
class OrderedMap {
 public:
  using value_type = std::pair<K, V>;
  OrderedMap() = default;
  OrderedMap(std::initializer_list<value_type> entries) : entries_(entries) {}
  explicit OrderedMap(std::vector<value_type> entries) : entries_(std::move(entries)) {}

  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  /// The i-th entry in the order of insertion.
  const value_type& entry(std::size_t i) const { return entries_.at(i); }
  /// The value of a key; null where it is missing.
  const V* find(const K& key) const {
    for (const auto& e : entries_) {
      if (e.first == key) return &e.second;
    }
    return nullptr;
  }
  bool contains(const K& key) const { return find(key) != nullptr; }
  bool operator==(const OrderedMap&) const = default;

 private:
  std::vector<value_type> entries_;
};

}  // namespace tessera
