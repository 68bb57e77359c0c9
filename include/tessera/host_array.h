// SPDX-License-Identifier: Apache-2.0
// Arrays in host memory, as callbacks, files and host transfers use them.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/dtype.h"
#include "tessera/error.h"
#include "tessera/loc.h"
#include "tessera/shape.h"

namespace tessera {

/// A view of memory that something else owns. Strides are in bytes and may be any value, negative and zero included.
struct HostArrayView {
  DType dtype = DType::F32;
  Shape shape;
  Dims strides;
  const void* data = nullptr;
};

/// Elements that keep their memory alive: what a temporary host array gives in place of a bare span.
template <class T>
class HostSpan : public std::span<const T> {
 public:
  HostSpan(std::span<const T> elements, std::shared_ptr<const void> owner)
      : std::span<const T>(elements), owner_(std::move(owner)) {}

 private:
  std::shared_ptr<const void> owner_;
};

/// Owning, contiguous (row-major) host array with shared storage: copying the handle copies no data.
/// Storage is 64-byte aligned.
class HostArray {
 public:
  HostArray() = default;
  /// Uninitialised elements. Throws `ValueError` for an invalid shape, `ResourceExhaustedError` when out of memory.
  HostArray(DType dtype, Shape shape);
  /// Copies a strided view.
  explicit HostArray(const HostArrayView& view);
  /// Adopts storage that something else owns.
  HostArray(DType dtype, Shape shape, std::shared_ptr<void> storage);

  /// From elements in row-major order. Throws `ValueError` unless `values.size()` is the size of `shape`.
  template <class T>
  static HostArray from(std::span<const T> values, Shape shape, const Loc& = Loc::current()) {
    HostArray a(dtype_of<T>(), std::move(shape));
    a.check_count(static_cast<std::int64_t>(values.size()));
    T* out = static_cast<T*>(a.data());
    for (std::size_t i = 0; i < values.size(); ++i) out[i] = values[i];
    return a;
  }
  /// The same from a vector.
  template <class T>
  static HostArray from(const std::vector<T>& values, Shape shape, const Loc& = Loc::current()) {
    HostArray a(dtype_of<T>(), std::move(shape));
    a.check_count(static_cast<std::int64_t>(values.size()));
    T* out = static_cast<T*>(a.data());
    for (std::size_t i = 0; i < values.size(); ++i) out[i] = values[i];  // vector<bool> has no span
    return a;
  }
  /// Rank 1.
  template <class T>
  static HostArray from(const std::vector<T>& values, const Loc& = Loc::current()) {
    return from(values, Shape{static_cast<std::int64_t>(values.size())});
  }
  /// Rank 1.
  template <class T>
  static HostArray from(std::initializer_list<T> values, const Loc& = Loc::current()) {
    return from(std::vector<T>(values));
  }
  /// Rank 0.
  template <class T>
  static HostArray scalar(T value) {
    HostArray a(dtype_of<T>(), Shape{});
    *static_cast<T*>(a.data()) = value;
    return a;
  }

  /// False for a default-constructed array.
  bool defined() const { return storage_ != nullptr; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const& { return shape_; }
  Shape shape() const&& { return shape_; }
  std::int64_t ndim() const { return rank(shape_); }
  /// Number of elements.
  std::int64_t size() const { return size_; }
  /// Bytes of all elements.
  std::int64_t nbytes() const { return size_ * dtype_size(dtype_); }
  /// The elements in row-major order; the pointer is valid as long as a handle of the storage. Writing changes every
  /// array that shares the storage.
  const void* data() const { return storage_.get(); }
  void* data() { return storage_.get(); }
  /// The storage, which copies of this array and reshaped ones share.
  const std::shared_ptr<void>& storage() const& { return storage_; }
  std::shared_ptr<void> storage() const&& { return storage_; }
  HostArrayView view() const;

  /// Typed elements. Throws `TypeError` when T is not the dtype. Those of a temporary hold the memory themselves, so
  /// that `for (float v : f(x).host().span<float>())` reads what is there.
  template <class T>
  std::span<const T> span(const Loc& = Loc::current()) const& {
    check_dtype(dtype_of<T>());
    return {static_cast<const T*>(data()), static_cast<std::size_t>(size_)};
  }
  /// Typed elements, to be written. Throws `TypeError` when T is not the dtype.
  template <class T>
  HostSpan<T> span(const Loc& = Loc::current()) const&& {
    return {span<T>(), storage_};
  }
  template <class T>
  std::span<T> span(const Loc& = Loc::current()) & {
    check_dtype(dtype_of<T>());
    return {static_cast<T*>(data()), static_cast<std::size_t>(size_)};
  }
  /// A copy of the elements in row-major order. Throws `TypeError` when T is not the dtype.
  template <class T>
  std::vector<T> to_vector(const Loc& = Loc::current()) const {
    auto s = span<T>();
    return std::vector<T>(s.begin(), s.end());
  }

  /// Copy of a contiguous block, with one slice per dimension. Throws `IndexError` when it is out of range.
  HostArray slice(const Index& index, const Loc& loc = Loc::current()) const;
  /// The same elements under another shape, sharing storage. Throws `ValueError` when sizes differ.
  HostArray reshape(Shape shape, const Loc& loc = Loc::current()) const;
  /// Element-wise conversion as NumPy's astype; floats beyond an integer dtype's range saturate, NaN gives 0.
  HostArray astype(DType dtype, const Loc& loc = Loc::current()) const;

 private:
  void check_count(std::int64_t n) const;
  void check_dtype(DType t) const;

  DType dtype_ = DType::F32;
  Shape shape_;
  std::int64_t size_ = 0;
  std::shared_ptr<void> storage_;
};

/// Same dtype, shape and bytes.
bool identical(const HostArray& a, const HostArray& b);
/// The elements as a nested list, as `numpy.array2string(a, separator=", ")` prints them (summarized above 1,000
/// elements).
std::string to_string(const HostArray& a);

}  // namespace tessera
