// SPDX-License-Identifier: Apache-2.0
#include "tessera/host_array.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "base/strings.h"
#include "core/strided_copy.h"

namespace tessera {

namespace {

std::shared_ptr<void> allocate(DType dtype, const Shape& shape, std::int64_t size) {
  constexpr std::int64_t kLine = 64;
  constexpr std::int64_t kHugePage = 2 << 20;
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(size, dtype_size(dtype), &bytes) || bytes > PTRDIFF_MAX - kHugePage) {
    throw ResourceExhaustedError(
        str("HostArray: ", dtype_name(dtype), shape, " needs more bytes than can be addressed"));
  }
  // Never zero bytes: an array without elements still has storage, which is what `defined` looks at.
  std::int64_t align = bytes >= 2 * kHugePage ? kHugePage : kLine;
  auto rounded = static_cast<std::size_t>(std::max(align, (bytes + align - 1) / align * align));
  // Through `new`, so that a program that counts or bounds its memory there sees arrays too.
  std::align_val_t alignment{static_cast<std::size_t>(align)};
  void* p = ::operator new(rounded, alignment, std::nothrow);
  if (p == nullptr) {
    throw ResourceExhaustedError(
        str("HostArray: ", dtype_name(dtype), shape, " needs ", bytes, " bytes; memory is out"));
  }
  // Large arrays would spend longer on page faults than on their elements.
  if (align == kHugePage) madvise(p, rounded, MADV_HUGEPAGE);
  return {p, [alignment](void* q) { ::operator delete(q, alignment); }};
}

}  // namespace

HostArray::HostArray(DType dtype, Shape shape)
    : dtype_(dtype), shape_(std::move(shape)), size_(size_of(shape_)), storage_(allocate(dtype_, shape_, size_)) {}

HostArray::HostArray(const HostArrayView& view) : HostArray(view.dtype, view.shape) {
  if (view.strides.size() != view.shape.size()) {
    throw ValueError(str("HostArray: view.strides has ", view.strides.size(), " entries; expected ", view.shape.size(),
                         ", the rank of shape ", view.shape));
  }
  if (size_ == 0) return;
  if (view.data == nullptr) throw ValueError("HostArray: view.data is null; expected the address of the elements");
  std::int64_t item = dtype_size(dtype_);
  core::copy_strided(data(), core::contiguous_strides(shape_, item), view.data, view.strides, shape_, item);
}

HostArray::HostArray(DType dtype, Shape shape, std::shared_ptr<void> storage)
    : dtype_(dtype), shape_(std::move(shape)), size_(size_of(shape_)), storage_(std::move(storage)) {
  if (storage_ == nullptr) throw ValueError("HostArray: storage is null; expected memory for the elements");
}

HostArrayView HostArray::view() const {
  return {dtype_, shape_, core::contiguous_strides(shape_, dtype_size(dtype_)), data()};
}

HostArray HostArray::slice(const Index& index, const Loc&) const {
  if (index.size() != shape_.size()) {
    throw IndexError(str("HostArray::slice: index has ", index.size(), " slices; expected ", shape_.size(),
                         ", the rank of shape ", shape_));
  }
  HostArrayView v = view();
  for (std::size_t i = 0; i < index.size(); ++i) {
    auto [start, stop] = index[i].resolve(shape_[i]);
    v.data = static_cast<const char*>(v.data) + start * v.strides[i];
    v.shape[i] = stop - start;
  }
  return HostArray(v);
}

HostArray HostArray::reshape(Shape shape, const Loc&) const {
  if (size_of(shape) != size_) {
    throw ValueError(str("HostArray::reshape: shape = ", shape, " has ", size_of(shape), " elements; expected ", size_,
                         " as in ", shape_));
  }
  HostArray out = *this;
  out.shape_ = std::move(shape);
  return out;
}

void HostArray::check_count(std::int64_t n) const {
  if (n != size_) {
    throw ValueError(str("HostArray::from: values has ", n, " elements; expected ", size_, " for shape ", shape_));
  }
}

void HostArray::check_dtype(DType t) const {
  if (t != dtype_) {
    throw TypeError(str("HostArray::span: asked for ", dtype_name(t), " elements; the array has ", dtype_name(dtype_)));
  }
}

bool identical(const HostArray& a, const HostArray& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && a.defined() == b.defined() &&
         (a.nbytes() == 0 || std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.nbytes())) == 0);
}

}  // namespace tessera
