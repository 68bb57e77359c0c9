// SPDX-License-Identifier: Apache-2.0
// DLPack (https://dmlc.github.io/dlpack/latest/), both ways: arrays of NumPy, PyTorch, JAX, CuPy and other C++
// libraries become Arrays and the reverse, without a copy where both sides can read the same memory. Optional:
// `tessera/tessera.h` leaves it out, and nothing here needs DLPack's own header, which defines the two structs.
//
//   ts::Array x = ts::from_dlpack(tensor);                  // takes the tensor, shares its memory
//   DLManagedTensor* t = ts::to_dlpack(x);                  // shares x's memory; whoever gets t calls t->deleter(t)
//   for (const ts::Shard& s : y.addressable_shards()) give(ts::to_dlpack(s.value()));  // of a sharded array: each
//   shard
#pragma once

#include <cstdint>
#include <optional>

#include "tessera/array.h"
#include "tessera/host_array.h"
#include "tessera/loc.h"
#include "tessera/sharding.h"

struct DLManagedTensor;           // <dlpack/dlpack.h>
struct DLManagedTensorVersioned;  // the same of DLPack 1.0 and later

namespace tessera {

/// A tensor of host memory as an array on the default device, uncommitted. Takes the tensor: its deleter is called
/// once, on any thread, when nothing reads its memory any more; where this throws, the caller still has it.
///
/// The memory is shared where the tensor is row-major, compact and aligned to 64 bytes; else the elements are copied,
/// and the tensor is released before this returns. `copy`: true always copies, false throws `ValueError` where a copy
/// is needed. Shared memory must not be written to while the array, or an array made of it, lives: arrays are
/// immutable. Elements of all of Tessera's dtypes, bool and bfloat16 among them. Throws `ValueError` for a null tensor,
/// memory of an accelerator and an invalid shape, `TypeError` for elements that Tessera lacks (vector lanes, 8-bit
/// floats, opaque handles).
Array from_dlpack(DLManagedTensor* tensor, std::optional<bool> copy = std::nullopt, const Loc& loc = Loc::current());
/// The same of a tensor of DLPack 1.x. Throws `ValueError` for another major version.
Array from_dlpack(DLManagedTensorVersioned* tensor, std::optional<bool> copy = std::nullopt,
                  const Loc& loc = Loc::current());
/// The same under a sharding, committed: each device of this process gets its shard, and nothing is sent. The memory is
/// shared where every device holds the whole value; shards are copied straight from the tensor's memory. Throws as
/// `device_put` of a `HostArray`, too.
Array from_dlpack(DLManagedTensor* tensor, const ShardingPtr& sharding, std::optional<bool> copy = std::nullopt,
                  const Loc& loc = Loc::current());
/// The same of a tensor of DLPack 1.x.
Array from_dlpack(DLManagedTensorVersioned* tensor, const ShardingPtr& sharding,
                  std::optional<bool> copy = std::nullopt, const Loc& loc = Loc::current());

/// The value of an array whose devices all hold the whole of it (one device, or replicated) as a tensor of host memory,
/// row-major. Waits for the computation. The memory is the array's own and outlives it, also its deletion and donation;
/// memory of an accelerator is copied to the host. The consumer calls the tensor's deleter and must not write to the
/// memory, unless `copy` is true: then it is the tensor's alone. Throws `ValueError` for an array of several shards
/// (take `addressable_shards()[i].value()`, or the gathered `host()`), `ConcretizationError` for a traced array,
/// `DeletedArrayError`, and what the computation threw.
DLManagedTensor* to_dlpack(const Array& x, bool copy = false, const Loc& loc = Loc::current());
/// The same for DLPack 1.x, whose flags mark the tensor as read-only, or as copied.
DLManagedTensorVersioned* to_dlpack_versioned(const Array& x, bool copy = false, const Loc& loc = Loc::current());
/// An array of the host: shares its storage, which both sides may write to. Throws `ValueError` for an undefined array.
DLManagedTensor* to_dlpack(const HostArray& x, const Loc& loc = Loc::current());

}  // namespace tessera
