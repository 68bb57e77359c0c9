// SPDX-License-Identifier: Apache-2.0
#include "tessera/dlpack.h"

#include <cstdint>
#include <memory>
#include <utility>

#include "array/array_impl.h"
#include "base/report/log.h"
#include "base/strings.h"
#include "core/strided_copy.h"
#include "io/dlpack_tensor.h"
#include "io/host_memory.h"
#include "io/input.h"
#include "sharding/fits.h"
#include "tessera/error.h"

namespace tessera {

namespace {

constexpr const char kFrom[] = "from_dlpack";
constexpr std::uintptr_t kAlignment = 64;  // of every HostArray

struct TypeRow {
  DType dtype;
  std::uint8_t code;
  std::uint8_t bits;
};
constexpr TypeRow kDlpackTypes[] = {
    {bool_, io::kDlpackBool, 8}, {int8, kDLInt, 8},           {int16, kDLInt, 16},          {int32, kDLInt, 32},
    {int64, kDLInt, 64},         {uint8, kDLUInt, 8},         {uint16, kDLUInt, 16},        {uint32, kDLUInt, 32},
    {uint64, kDLUInt, 64},       {float16, kDLFloat, 16},     {bfloat16, kDLBfloat, 16},    {float32, kDLFloat, 32},
    {float64, kDLFloat, 64},     {complex64, kDLComplex, 64}, {complex128, kDLComplex, 128}};

DType dtype_of_tensor(const DLDataType& t) {
  for (const TypeRow& row : kDlpackTypes) {
    if (t.lanes == 1 && row.code == t.code && row.bits == t.bits) return row.dtype;
  }
  throw TypeError(str(kFrom, ": the tensor has elements of type code ", int{t.code}, ", ", int{t.bits}, " bits and ",
                      t.lanes,
                      " lanes; expected bool, integers, floats or complex numbers that Tessera has, of one lane"));
}

bool is_host(DLDeviceType type) { return type == kDLCPU || type == kDLCUDAHost || type == kDLROCMHost; }

// The elements where they are. Throws for what cannot be read.
HostArrayView view_of(const DLTensor& t) {
  if (!is_host(t.device.device_type)) {
    throw ValueError(str(kFrom, ": the tensor is in memory of device type ", static_cast<int>(t.device.device_type),
                         "; expected host memory (type 1): copy it to the host first"));
  }
  if (t.ndim < 0 || (t.ndim > 0 && t.shape == nullptr)) {
    throw ValueError(str(kFrom, ": the tensor has ", t.ndim, " dimensions and ", t.shape == nullptr ? "no" : "a",
                         " shape; expected an extent for each dimension"));
  }
  HostArrayView v;
  v.dtype = dtype_of_tensor(t.dtype);
  if (t.ndim > 0) v.shape.assign(t.shape, t.shape + t.ndim);
  const std::int64_t count = size_of(v.shape);  // negative extents throw
  const std::int64_t item = dtype_size(v.dtype);
  v.strides = core::contiguous_strides(v.shape, item);
  for (std::size_t d = 0; t.strides != nullptr && d < v.shape.size(); ++d) v.strides[d] = t.strides[d] * item;
  if (t.data == nullptr && count > 0) {
    throw ValueError(str(kFrom, ": the tensor has no memory; expected ", count, " elements"));
  }
  v.data = static_cast<const char*>(t.data) + (count > 0 ? t.byte_offset : 0);
  return v;
}

bool is_shareable(const HostArrayView& v) {
  if (size_of(v.shape) == 0 || reinterpret_cast<std::uintptr_t>(v.data) % kAlignment != 0) return false;
  const Dims compact = core::contiguous_strides(v.shape, dtype_size(v.dtype));
  for (std::size_t d = 0; d < v.shape.size(); ++d) {
    if (v.shape[d] != 1 && v.strides[d] != compact[d]) return false;
  }
  return true;
}

template <class Managed>
void release(Managed* tensor) {
  if (tensor->deleter != nullptr) tensor->deleter(tensor);
}

void check_version(const DLManagedTensor&) {}
void check_version(const DLManagedTensorVersioned& tensor) {
  if (tensor.version.major != io::kDlpackMajor) {
    throw ValueError(str(kFrom, ": the tensor is of DLPack ", tensor.version.major, ".", tensor.version.minor,
                         "; expected version ", io::kDlpackMajor));
  }
}

template <class Managed>
Array import_tensor(Managed* tensor, const ShardingPtr& sharding, bool committed, std::optional<bool> copy) {
  if (tensor == nullptr) throw ValueError(str(kFrom, ": tensor is null; expected a managed tensor"));
  check_version(*tensor);
  const HostArrayView view = view_of(tensor->dl_tensor);
  sharding::check_fits(kFrom, "sharding", *sharding, view.shape);
  const bool whole = sharding::placement(sharding, view.shape)->num_tiles == 1;
  const bool shared = !copy.value_or(false) && whole && is_shareable(view);
  if (copy == false && !shared && size_of(view.shape) > 0) {
    throw ValueError(str(kFrom, ": copy is false, but ",
                         whole ? "the tensor is not row-major and compact with an address that is a multiple of 64"
                               : "the sharding splits the tensor",
                         "; leave copy out to let it be copied"));
  }
  if (!shared) {
    if (whole && !copy)
      base::log(LogLevel::Debug, kFrom, ": copied, as the tensor's memory is not compact and aligned");
    // Not the caller's memory, so that a single shard needs no second copy.
    Array out = arrays::place(HostArray(view), sharding, committed, /*adopt=*/true);
    release(tensor);
    return out;
  }
  // The deleter is armed when nothing can throw any more.
  struct Owner {
    Managed* tensor = nullptr;
    ~Owner() {
      if (tensor != nullptr) release(tensor);
    }
  };
  auto owner = std::make_shared<Owner>();
  std::shared_ptr<void> storage(owner, const_cast<void*>(view.data));
  Array out = arrays::place(HostArray(view.dtype, view.shape, std::move(storage)), sharding, committed, /*adopt=*/true);
  owner->tensor = tensor;
  return out;
}

template <class Managed>
Array import_under(Managed* tensor, const ShardingPtr& sharding, std::optional<bool> copy) {
  if (!sharding) throw ValueError(str(kFrom, ": sharding is null; expected a Sharding"));
  return import_tensor(tensor, sharding, true, copy);
}

// What a tensor that is given away holds.
template <class Managed>
struct Exported {
  Managed managed{};
  Shape shape;
  Dims strides;  // in elements
  std::shared_ptr<void> memory;
};

template <class Managed>
Managed* export_memory(DType dtype, const Shape& shape, std::shared_ptr<void> memory, void* data) {
  auto out = std::make_unique<Exported<Managed>>();
  out->shape = shape;
  out->strides = core::contiguous_strides(shape, 1);
  out->memory = std::move(memory);
  DLTensor& t = out->managed.dl_tensor;
  t.data = data;
  t.device = {kDLCPU, 0};
  t.ndim = static_cast<int>(shape.size());
  for (const TypeRow& row : kDlpackTypes) {
    if (row.dtype == dtype) t.dtype = {row.code, row.bits, 1};
  }
  t.shape = out->shape.data();
  t.strides = out->strides.data();
  out->managed.manager_ctx = out.get();
  out->managed.deleter = [](Managed* self) { delete static_cast<Exported<Managed>*>(self->manager_ctx); };
  return &out.release()->managed;
}

template <class Managed>
Managed* export_array(const char* function, const Array& x, bool copy) {
  const io::HostMemory m = io::whole_on_host(function, "x", x, copy);
  return export_memory<Managed>(m.dtype, m.shape, m.owner, m.data);
}

}  // namespace

Array from_dlpack(DLManagedTensor* tensor, std::optional<bool> copy, const Loc&) {
  return import_tensor(tensor, arrays::default_sharding(), false, copy);
}
Array from_dlpack(DLManagedTensorVersioned* tensor, std::optional<bool> copy, const Loc&) {
  return import_tensor(tensor, arrays::default_sharding(), false, copy);
}
Array from_dlpack(DLManagedTensor* tensor, const ShardingPtr& sharding, std::optional<bool> copy, const Loc&) {
  return import_under(tensor, sharding, copy);
}
Array from_dlpack(DLManagedTensorVersioned* tensor, const ShardingPtr& sharding, std::optional<bool> copy, const Loc&) {
  return import_under(tensor, sharding, copy);
}

DLManagedTensor* to_dlpack(const Array& x, bool copy, const Loc&) {
  return export_array<DLManagedTensor>("to_dlpack", x, copy);
}
DLManagedTensorVersioned* to_dlpack_versioned(const Array& x, bool copy, const Loc&) {
  auto* out = export_array<DLManagedTensorVersioned>("to_dlpack_versioned", x, copy);
  out->version = {io::kDlpackMajor, io::kDlpackMinor};
  out->flags = copy ? io::kDlpackIsCopied : io::kDlpackReadOnly;
  return out;
}
DLManagedTensor* to_dlpack(const HostArray& x, const Loc&) {
  io::check_defined("to_dlpack", "x", x);
  return export_memory<DLManagedTensor>(x.dtype(), x.shape(), x.storage(), const_cast<void*>(x.data()));
}

}  // namespace tessera
