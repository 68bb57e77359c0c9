// SPDX-License-Identifier: Apache-2.0
// What arrays show of their data: shards, and values on the host.
#include <functional>

#include "array/array_impl.h"
#include "array/array_stats.h"
#include "array/concrete.h"
#include "base/machine.h"
#include "base/strings.h"
#include "base/thread_pool.h"
#include "core/strided_copy.h"
#include "runtime/engine.h"

namespace tessera {

namespace arrays {
void check_whole(const ArrayImpl& impl, const char* function) {
  if (!impl.placement || impl.placement->addends == 1) return;
  throw StateError(str(function, ": the array of type ", dtype_name(impl.type.dtype), "[", join(impl.type.shape, ","),
                       "] is unreduced (", impl.sharding->text(),
                       "): its devices hold addends and nobody has the value; reshard it to a spec without unreduced "
                       "axes, or read addressable_shards"));
}
}  // namespace arrays

using arrays::ArrayImpl;
using arrays::checked;

namespace {
// Array of one device around shard of position p.
Array single_device(const ArrayImpl& impl, const arrays::StoragePtr& storage, std::int32_t p) {
  auto position = static_cast<std::size_t>(p);
  auto tile = static_cast<std::size_t>(impl.placement->tile_of[position]);
  auto shard_buffer = std::make_shared<arrays::Storage>();
  shard_buffer->shard_buffers.push_back(storage->shard_buffers[impl.replicas_equal ? tile : position]);
  ir::Type type{impl.type.dtype, impl.placement->tile_shape[tile], impl.type.weak};
  return arrays::make(std::move(type), SingleDeviceSharding(impl.placement->devices->devices[position]),
                      std::move(shard_buffer), true);
}
}  // namespace

namespace {
arrays::ShardsPtr local_shards_of(const ArrayImpl& impl, const arrays::StoragePtr& storage) {
  auto out = std::make_shared<std::vector<Shard>>();
  out->reserve(impl.placement->devices->local_positions.size());
  for (auto p : impl.placement->devices->local_positions) {
    auto position = static_cast<std::size_t>(p);
    auto tile = static_cast<std::size_t>(impl.placement->tile_of[position]);
    out->emplace_back(impl.placement->devices->devices[position], impl.placement->tile_index[tile],
                      impl.placement->replica_id[position], single_device(impl, storage, p),
                      impl.placement->shard_shape);
  }
  arrays::count_shards(std::ssize(*out));
  return out;
}

arrays::ShardsPtr global_shards_of(const ArrayImpl& impl, const ShardList& local) {
  auto out = std::make_shared<std::vector<Shard>>();
  std::size_t next = 0;
  const auto& list = *impl.placement->devices;
  for (std::size_t position = 0; position < list.size(); ++position) {
    if (next < list.local_positions.size() && static_cast<std::size_t>(list.local_positions[next]) == position) {
      out->push_back(local[next++]);
      continue;
    }
    auto tile = static_cast<std::size_t>(impl.placement->tile_of[position]);
    out->emplace_back(list.devices[position], impl.placement->tile_index[tile], impl.placement->replica_id[position],
                      std::nullopt, impl.placement->shard_shape);
  }
  arrays::count_shards(std::ssize(*out));
  return out;
}
}  // namespace

const Shard& ShardList::at(std::size_t i, const Loc&) const& {
  if (i >= size()) {
    throw IndexError(str("ShardList::at: index = ", i, "; expected ", empty() ? 0 : size() - 1, " at most"));
  }
  return (*this)[i];
}

// What is made on first use is kept only while the array has its data: one that was deleted meanwhile holds no memory.
ShardList Array::addressable_shards(const Loc&) const {
  auto storage = arrays::storage_of(*this, "Array::addressable_shards");
  const auto& impl = *impl_;
  if (impl.literal) throw StateError("Array::addressable_shards: a number has no shards; device_put it first");
  storage->wait();
  std::lock_guard lock(impl.mutex);
  if (impl.shards) return ShardList(impl.shards);
  auto made = local_shards_of(impl, storage);
  if (impl.storage == storage) impl.shards = made;
  return ShardList(std::move(made));
}

ShardList Array::global_shards(const Loc&) const {
  ShardList local = addressable_shards();
  const auto& impl = *impl_;
  if (impl.placement->devices->all_local()) return local;
  std::lock_guard lock(impl.mutex);
  if (impl.all_shards) return ShardList(impl.all_shards);
  auto made = global_shards_of(impl, local);
  if (impl.storage) impl.all_shards = made;
  return ShardList(std::move(made));
}

Array Array::addressable_data(std::int64_t i, const Loc&) const {
  ShardList shards = addressable_shards();
  auto n = static_cast<std::int64_t>(shards.size());
  if (i < 0 || i >= n) {
    throw IndexError(n == 0 ? str("Array::addressable_data: index = ", i, "; this process has no device of the array")
                            : str("Array::addressable_data: index = ", i, "; expected 0..", n - 1));
  }
  return shards[is_fully_replicated() ? 0 : static_cast<std::size_t>(i)].value();
}

namespace {
// Throws `NotAddressableError` when another process has a shard.
using ShardBufferOf = std::function<runtime::BufferPtr(std::size_t tile)>;
void check_all_here(const ArrayImpl& impl, const ShardBufferOf& shard_buffer) {
  const auto& place = *impl.placement;
  for (std::size_t t = 0; t < static_cast<std::size_t>(place.num_tiles); ++t) {
    if (shard_buffer(t) || size_of(place.tile_shape[t]) == 0) continue;
    std::string missing;
    for (std::size_t p = 0; p < place.tile_of.size(); ++p) {
      if (place.tile_of[p] == static_cast<std::int32_t>(t))
        missing += str(missing.empty() ? "" : ", ", place.devices->devices[p].id());
    }
    throw NotAddressableError(
        str("Array::host: array of shape ", impl.type.shape, " has data on devices ", missing,
            " of other processes; use process_allgather, a replicated out_sharding, or addressable_shards"));
  }
}

constexpr std::int64_t kLarge = 1 << 20;

// Memory for the whole array. Page faults of new memory take longer than the elements of a large array, so it is memory
// that an earlier value left.
HostArray host_memory(const ArrayImpl& impl) {
  const std::int64_t bytes = size_of(impl.type.shape) * dtype_size(impl.type.dtype);
  if (bytes < kLarge) return {impl.type.dtype, impl.type.shape};
  auto block = runtime::runtime_of(impl.placement->devices->client).host_memory->allocate(bytes);
  return {impl.type.dtype, impl.type.shape, std::shared_ptr<void>(block, block->data())};
}

// `shards` are on the host.
HostArray gathered(const ArrayImpl& impl, const runtime::ShardBuffers& shards) {
  const auto& place = *impl.placement;
  auto item = dtype_size(impl.type.dtype);
  ShardBufferOf shard_buffer = [&](std::size_t tile) -> runtime::BufferPtr {
    if (impl.replicas_equal) return shards[tile];
    for (auto p : place.devices->local_positions) {  // the lowest local replica is read
      if (place.tile_of[static_cast<std::size_t>(p)] == static_cast<std::int32_t>(tile)) {
        return shards[static_cast<std::size_t>(p)];
      }
    }
    return nullptr;
  };
  check_all_here(impl, shard_buffer);
  auto tiles = static_cast<std::size_t>(place.num_tiles);
  if (tiles == 1) {
    auto buffer = shard_buffer(0);
    return buffer ? HostArray(impl.type.dtype, impl.type.shape, std::shared_ptr<void>(buffer, buffer->data()))
                  : HostArray(impl.type.dtype, impl.type.shape);
  }
  HostArray out = host_memory(impl);
  Dims strides = core::contiguous_strides(impl.type.shape, item);
  auto copy = [&](std::size_t t) {
    Shape shape = place.tile_shape[t];
    if (size_of(shape) == 0) return;
    Index index = place.tile_index[t];
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) offset += index[d].start.value_or(0) * strides[d];
    core::copy_strided(static_cast<char*>(out.data()) + offset, strides, shard_buffer(t)->data(),
                       core::contiguous_strides(shape, item), shape, item, out.nbytes() > base::cache_bytes());
  };
  // Worth a second thread, which also takes its part of the page faults of memory that is new.
  auto count = static_cast<std::int64_t>(tiles);
  base::parallel_for(count, out.nbytes() >= kLarge ? 1 : count, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) copy(static_cast<std::size_t>(t));
  });
  arrays::count_transfer(out.nbytes());
  return out;
}
}  // namespace

HostArray Array::whole(const char* function, const Loc& loc) const {
  const auto& impl = *checked(*this, function);
  if (impl.trace != 0) arrays::traced(*this, function, loc);
  if (impl.literal) return arrays::literal_value(impl);
  arrays::check_whole(impl, function);
  auto storage = arrays::storage_of(*this, function);
  storage->wait();
  std::lock_guard lock(impl.mutex);
  if (impl.host) return *impl.host;
  HostArray out = gathered(impl, arrays::HostShards(*storage, impl.placement->devices->client).list());
  if (impl.storage == storage) impl.host = out;
  return out;
}

HostArray Array::host(const Loc& loc) const {
  HostArray out = whole("Array::host", loc);
  return arrays::has_digits(impl_->type) ? out.astype(dtype()) : out;
}

HostArray Array::single(const Loc& loc) const {
  if (size() != 1) {
    throw ValueError(str("Array::item: the array has shape ", shape(), " and ", size(),
                         " elements; expected one (reduce it with any or all)"));
  }
  return whole("Array::item", loc);
}

Array::operator bool() const {
  const auto& impl = *checked(*this, "Array::operator bool");
  if (impl.trace != 0) arrays::traced(*this, "Array::operator bool");
  if (size() != 1) {
    throw ValueError(
        str("Array::operator bool: the truth of an array of shape ", shape(), " is ambiguous; use any(x) or all(x)"));
  }
  return host().astype(DType::Bool).span<bool>()[0];
}

}  // namespace tessera
