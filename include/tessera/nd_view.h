// SPDX-License-Identifier: Apache-2.0
// Host arrays as multi-dimensional views: `v(i, j)` with the dtype and the rank in the type, as std::mdspan has them.
// Optional: `tessera/tessera.h` leaves it out.
//
//   ts::NdView<const float, 2> v = ts::view<float, 2>(x.host());   // holds the memory
//   for (std::int64_t i = 0; i < v.extent(0); ++i) sum += v(i, 0);
//   ts::HostArray h(ts::float32, {2, 3});
//   ts::mutable_view<float, 2>(h)(1, 2) = 5;
//
// With a standard library that has std::mdspan, `v.to_mdspan()` gives one of the same elements.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <version>

#include "tessera/dtype.h"
#include "tessera/error.h"
#include "tessera/host_array.h"
#include "tessera/loc.h"

#ifdef __cpp_lib_mdspan
#include <mdspan>
#endif

namespace tessera {

/// A view of the elements of a host array of rank `Rank`, row-major with strides in elements. It holds the storage, so
/// that a view of a temporary stays valid; copies share it. The names of its members are those of std::mdspan.
template <class T, std::size_t Rank>
class NdView {
 public:
  using element_type = T;
  using value_type = std::remove_cv_t<T>;
  using index_type = std::int64_t;
  using extents_type = std::array<std::int64_t, Rank>;

  /// Elements that `owner` keeps alive.
  NdView(T* data, const extents_type& extents, const extents_type& strides, std::shared_ptr<const void> owner)
      : data_(data), extents_(extents), strides_(strides), owner_(std::move(owner)) {}

  static constexpr std::size_t rank() { return Rank; }
  std::int64_t extent(std::size_t dim) const { return extents_[dim]; }
  std::int64_t stride(std::size_t dim) const { return strides_[dim]; }
  /// Number of elements.
  std::int64_t size() const {
    std::int64_t n = 1;
    for (std::int64_t e : extents_) n *= e;
    return n;
  }
  bool empty() const { return size() == 0; }
  T* data_handle() const { return data_; }

  /// The element at an index. Throws `IndexError` for a coordinate outside.
  template <std::integral... I>
  requires(sizeof...(I) == Rank) T& operator()(I... index) const {
    const std::int64_t at[Rank + 1] = {static_cast<std::int64_t>(index)..., 0};
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < Rank; ++d) {
      if (at[d] < 0 || at[d] >= extents_[d]) fail(d, at[d]);
      offset += at[d] * strides_[d];
    }
    return data_[offset];
  }

  /// The view of rank `Rank - 1` at index `i` of the first dimension. Throws `IndexError` for an index outside.
  NdView<T, Rank - 1> operator[](std::int64_t i) const requires(Rank > 0) {
    if (i < 0 || i >= extents_[0]) fail(0, i);
    std::array<std::int64_t, Rank - 1> extents{};
    std::array<std::int64_t, Rank - 1> strides{};
    for (std::size_t d = 1; d < Rank; ++d) {
      extents[d - 1] = extents_[d];
      strides[d - 1] = strides_[d];
    }
    return {data_ + i * strides_[0], extents, strides, owner_};
  }

  /// The same elements with the dimensions in reverse order.
  NdView transposed() const {
    NdView out = *this;
    for (std::size_t d = 0; d < Rank; ++d) {
      out.extents_[d] = extents_[Rank - 1 - d];
      out.strides_[d] = strides_[Rank - 1 - d];
    }
    return out;
  }

#ifdef __cpp_lib_mdspan
  /// The elements as a std::mdspan, which does not hold the memory.
  auto to_mdspan() const {
    using Extents = std::dextents<std::int64_t, Rank>;
    return std::mdspan<T, Extents, std::layout_stride>(
        data_, std::layout_stride::mapping<Extents>(Extents(extents_), strides_));
  }
#endif

 private:
  [[noreturn]] void fail(std::size_t dim, std::int64_t i) const {
    throw IndexError("NdView: index " + std::to_string(i) + " of dimension " + std::to_string(dim) +
                     " is outside; expected 0 to " + std::to_string(extents_[dim] - 1));
  }

  T* data_;
  extents_type extents_;
  extents_type strides_;
  std::shared_ptr<const void> owner_;
};

namespace detail {
template <class T, std::size_t Rank>
NdView<T, Rank> nd_view_of(const char* function, T* data, const HostArray& x) {
  if (!x.defined()) throw ValueError(std::string(function) + ": x is undefined; expected an array with storage");
  if (x.dtype() != dtype_of<T>()) {
    throw TypeError(std::string(function) + ": x has dtype " + std::string(dtype_name(x.dtype())) + "; expected " +
                    std::string(dtype_name(dtype_of<T>())) + ", or convert it with astype");
  }
  if (x.ndim() != static_cast<std::int64_t>(Rank)) {
    throw ValueError(std::string(function) + ": x has shape " + to_string(x.shape()) + "; expected rank " +
                     std::to_string(Rank));
  }
  std::array<std::int64_t, Rank> extents{};
  std::array<std::int64_t, Rank> strides{};
  std::int64_t stride = 1;
  for (std::size_t d = Rank; d-- > 0;) {
    extents[d] = x.shape()[d];
    strides[d] = stride;
    stride *= extents[d];
  }
  return {data, extents, strides, x.storage()};
}
}  // namespace detail

/// The elements of a host array, to be read. Throws `TypeError` when T is not the dtype, `ValueError` for another rank.
template <class T, std::size_t Rank>
NdView<const T, Rank> view(const HostArray& x, const Loc& = Loc::current()) {
  return detail::nd_view_of<const T, Rank>("view", static_cast<const T*>(x.data()), x);
}
/// The same, to be written: changes every host array that shares the storage. Throws as `view`.
template <class T, std::size_t Rank>
NdView<T, Rank> mutable_view(HostArray& x, const Loc& = Loc::current()) {
  return detail::nd_view_of<T, Rank>("mutable_view", static_cast<T*>(x.data()), x);
}

}  // namespace tessera
