// SPDX-License-Identifier: Apache-2.0
// Attributes, host transfer and life of arrays.
#include "tessera/array.h"

#include <cstring>
#include <ostream>

#include "array/array_impl.h"
#include "array/array_stats.h"
#include "base/strings.h"
#include "base/thread_pool.h"
#include "core/numpy_text.h"
#include "core/strided_copy.h"

namespace tessera {

namespace arrays {

namespace {
// Every concrete array that may still be alive. They take themselves out when they die.
struct Registry {
  std::mutex mutex;
  ArrayImpl* newest = nullptr;
  static Registry& get() {
    static auto* r = new Registry;  // arrays of static duration may outlive any destructor
    return *r;
  }
};
std::atomic<std::int64_t> moved_bytes{0};
std::atomic<std::int64_t> moves{0};
}  // namespace

ArrayImpl::ArrayImpl() = default;
ArrayImpl::~ArrayImpl() {
  if (!enlisted) return;
  auto& r = Registry::get();
  std::lock_guard lock(r.mutex);
  if (older != nullptr) older->newer = newer;
  (newer != nullptr ? newer->older : r.newest) = older;
}

void enlist(const ImplPtr& impl) {
  auto& r = Registry::get();
  std::lock_guard lock(r.mutex);
  impl->older = r.newest;
  if (r.newest != nullptr) r.newest->newer = impl.get();
  r.newest = impl.get();
  impl->enlisted = true;
}

void count_transfer(std::int64_t bytes) {
  moved_bytes.fetch_add(bytes, std::memory_order_relaxed);
  moves.fetch_add(1, std::memory_order_relaxed);
}

const ImplPtr& checked(const Array& a, const char* function, const char* argument) {
  if (!a.defined())
    throw StateError(str(function, ": ", argument, " is an uninitialised Array; expected one with a value"));
  return a.impl();
}

namespace {
[[noreturn]] void deleted(const ArrayImpl& impl, const char* function) {
  throw DeletedArrayError(str(function, ": the array of type ", dtype_name(impl.type.dtype), "[",
                              join(impl.type.shape, ","), "] was deleted or donated"));
}
[[noreturn]] void traced(const ArrayImpl& impl, const char* function, const Loc& loc = {}) {
  throw ConcretizationError(
      str(function, ": ", impl.type, " is a value of a traced function and has no data yet",
          loc.file ? str(" (asked for at ", loc, ")") : std::string(),
          "; use where or cond to decide by it inside the function, or return it and read it outside"));
}
}  // namespace

namespace {
// For members that are called too often to make a `CallSite` each time.
const ArrayImpl& checked_at(const Array& a, const char* function, CallLine at) {
  if (!a.defined()) [[unlikely]] {
    CallSite site(at.file, at.line);
    checked(a, function);
  }
  return *a.impl();
}
}  // namespace

void check_live(const Array& a, const char* function) {
  const auto& impl = *checked(a, function);
  if (impl.trace != 0 || impl.literal) return;
  std::lock_guard lock(impl.mutex);
  if (!impl.storage) deleted(impl, function);
}

Array materialize(const Array& a) {
  const auto& impl = *checked(a, "materialize");
  if (!impl.literal) return a;
  return place(literal_value(impl), default_sharding(), false, false, impl.type.weak);
}

StoragePtr storage_of(const Array& a, const char* function) {
  const auto& impl = *checked(a, function);
  if (impl.trace != 0) traced(impl, function);
  if (impl.literal) return storage_of(materialize(a), function);
  std::lock_guard lock(impl.mutex);
  if (!impl.storage) deleted(impl, function);
  return impl.storage;
}

Array make(ir::Type type, ShardingPtr sharding, StoragePtr storage, bool committed, bool replicas_equal) {
  auto impl = std::make_shared<ArrayImpl>();
  impl->placement = look_up(sharding, type.shape);
  impl->type = std::move(type);
  impl->sharding = std::move(sharding);
  impl->committed = committed;
  impl->replicas_equal = replicas_equal;
  impl->storage = std::move(storage);
  enlist(impl);
  return Array(std::move(impl));
}

Array make_traced(ir::Type type, std::uint64_t trace, ir::ValueId value) {
  auto impl = std::make_shared<ArrayImpl>();
  impl->type = std::move(type);
  impl->trace = trace;
  impl->value = value;
  return Array(std::move(impl));
}

namespace {
Array make_literal(const HostArray& value, bool weak) {
  auto impl = std::make_shared<ArrayImpl>();
  impl->type = ir::Type{value.dtype(), {}, weak};
  impl->literal = value;
  return Array(std::move(impl));
}
// Alone it has the default dtype; beside a wider one all its digits count.
Array weak_literal(const HostArray& digits, DType dtype) {
  auto impl = std::make_shared<ArrayImpl>();
  impl->type = ir::Type{dtype, {}, true};
  impl->literal = digits;
  return Array(std::move(impl));
}

// What members that need a place see: literals go to the default device on first use of such a member.
const ArrayImpl& concrete(const Array& a, const char* function) {
  const auto& impl = *checked(a, function);
  if (impl.trace != 0) traced(impl, function);
  return impl;
}
}  // namespace
}  // namespace arrays

using arrays::ArrayImpl;
using arrays::checked;
using arrays::checked_at;
using arrays::concrete;

Array weak_scalar(bool v) { return arrays::make_literal(HostArray::scalar(v), false); }
Array weak_scalar(std::int64_t v) {
  bool fits = v >= INT32_MIN && v <= INT32_MAX;
  return arrays::make_literal(fits ? HostArray::scalar(static_cast<std::int32_t>(v)) : HostArray::scalar(v), true);
}
Array weak_scalar(double v) { return arrays::weak_literal(HostArray::scalar(v), float32); }
Array weak_scalar(complex128_t v) { return arrays::weak_literal(HostArray::scalar(v), complex64); }
Array strong_scalar(const HostArray& rank0) { return arrays::make_literal(rank0, false); }

Array::Array(const HostArray& value, const Loc&) : Array(device_put(value)) {}

const Shape& Array::shape(CallLine at) const { return checked_at(*this, "Array::shape", at).type.shape; }
std::int64_t Array::shape(std::int64_t dim, CallLine at) const {
  const Shape& s = shape(at);
  std::int64_t d = dim < 0 ? dim + rank(s) : dim;
  if (d >= 0 && d < rank(s)) return s[static_cast<std::size_t>(d)];
  CallSite site(at.file, at.line);
  throw IndexError(str("Array::shape: dim = ", dim, "; expected -", rank(s), "..", rank(s) - 1));
}
DType Array::dtype(CallLine at) const { return checked_at(*this, "Array::dtype", at).type.dtype; }
bool Array::weak_type(CallLine at) const { return checked_at(*this, "Array::weak_type", at).type.weak; }
std::int64_t Array::ndim(CallLine at) const { return rank(checked_at(*this, "Array::ndim", at).type.shape); }
std::int64_t Array::size(CallLine at) const { return checked_at(*this, "Array::size", at).type.size(); }
std::int64_t Array::nbytes(CallLine at) const { return checked_at(*this, "Array::nbytes", at).type.nbytes(); }
std::int64_t Array::device_bytes(const Loc&) const {
  const auto& impl = concrete(*this, "Array::device_bytes");
  if (impl.literal) return nbytes();
  std::int64_t n = 0;
  for (auto p : impl.placement->devices->local_positions) {
    auto tile = static_cast<std::size_t>(impl.placement->tile_of[static_cast<std::size_t>(p)]);
    n += size_of(impl.placement->tile_shape[tile]);
  }
  return n * dtype_size(impl.type.dtype);
}
bool Array::is_traced(CallLine at) const { return checked_at(*this, "Array::is_traced", at).trace != 0; }

const ShardingPtr& Array::sharding(const Loc&) const {
  const auto& impl = concrete(*this, "Array::sharding");
  if (impl.literal) {
    static thread_local ShardingPtr last;  // a number has no place of its own: that of the default device
    last = arrays::default_sharding();
    return last;
  }
  return impl.sharding;
}
bool Array::committed(const Loc&) const { return concrete(*this, "Array::committed").committed; }
std::span<const Device> Array::devices(const Loc&) const {
  arrays::check_live(*this, "Array::devices");
  return sharding()->devices();
}
DeviceSet Array::device_set(const Loc&) const {
  arrays::check_live(*this, "Array::device_set");
  return sharding()->device_set();
}
bool Array::is_fully_addressable(const Loc&) const {
  const auto& impl = concrete(*this, "Array::is_fully_addressable");
  return impl.literal || impl.placement->devices->all_local();
}
bool Array::is_fully_replicated(const Loc&) const { return sharding()->is_fully_replicated(); }

namespace {
// Array of one device around piece of position p.
Array single_device(const ArrayImpl& impl, const arrays::StoragePtr& storage, std::int32_t p) {
  auto position = static_cast<std::size_t>(p);
  auto tile = static_cast<std::size_t>(impl.placement->tile_of[position]);
  auto piece = std::make_shared<arrays::Storage>();
  piece->pieces.push_back(storage->pieces[impl.replicas_equal ? tile : position]);
  ir::Type type{impl.type.dtype, impl.placement->tile_shape[tile], impl.type.weak};
  return arrays::make(std::move(type), SingleDeviceSharding(impl.placement->devices->devices[position]),
                      std::move(piece), true);
}
}  // namespace

std::span<const Shard> Array::addressable_shards(const Loc&) const {
  auto storage = arrays::storage_of(*this, "Array::addressable_shards");
  const auto& impl = *impl_;
  if (impl.literal) throw StateError("Array::addressable_shards: a number has no shards; device_put it first");
  storage->wait();
  std::lock_guard lock(impl.mutex);
  if (!impl.has_shards) {
    for (auto p : impl.placement->devices->local_positions) {
      auto position = static_cast<std::size_t>(p);
      auto tile = static_cast<std::size_t>(impl.placement->tile_of[position]);
      impl.shards.emplace_back(impl.placement->devices->devices[position], impl.placement->tile_index[tile],
                               impl.placement->replica_id[position], single_device(impl, storage, p),
                               impl.placement->shard_shape);
    }
    arrays::count_shards(static_cast<std::int64_t>(impl.shards.size()));
    impl.has_shards = true;
  }
  return impl.shards;
}

std::span<const Shard> Array::global_shards(const Loc&) const {
  auto local = addressable_shards();
  const auto& impl = *impl_;
  if (impl.placement->devices->all_local()) return local;
  std::lock_guard lock(impl.mutex);
  if (!impl.has_all_shards) {
    std::size_t next = 0;
    const auto& list = *impl.placement->devices;
    for (std::size_t position = 0; position < list.size(); ++position) {
      if (next < list.local_positions.size() && static_cast<std::size_t>(list.local_positions[next]) == position) {
        impl.all_shards.push_back(local[next++]);
        continue;
      }
      auto tile = static_cast<std::size_t>(impl.placement->tile_of[position]);
      impl.all_shards.emplace_back(list.devices[position], impl.placement->tile_index[tile],
                                   impl.placement->replica_id[position], std::nullopt, impl.placement->shard_shape);
    }
    arrays::count_shards(static_cast<std::int64_t>(impl.all_shards.size()));
    impl.has_all_shards = true;
  }
  return impl.all_shards;
}

const Array& Array::addressable_data(std::int64_t i, const Loc&) const {
  auto shards = addressable_shards();
  auto n = static_cast<std::int64_t>(shards.size());
  if (i < 0 || i >= n) {
    throw IndexError(n == 0 ? str("Array::addressable_data: index = ", i, "; this process has no device of the array")
                            : str("Array::addressable_data: index = ", i, "; expected 0..", n - 1));
  }
  return shards[is_fully_replicated() ? 0 : static_cast<std::size_t>(i)].value();
}

const HostArray& Array::host(const Loc& loc) const {
  const auto& impl = *checked(*this, "Array::host");
  if (impl.trace != 0) arrays::traced(impl, "Array::host", loc);
  if (impl.literal) {
    std::lock_guard lock(impl.mutex);
    if (!impl.host) impl.host = arrays::literal_value(impl);
    return *impl.host;
  }
  auto storage = arrays::storage_of(*this, "Array::host");
  storage->wait();
  std::lock_guard lock(impl.mutex);
  if (impl.host) return *impl.host;
  const auto& place = *impl.placement;
  auto item = dtype_size(impl.type.dtype);
  auto piece = [&](std::size_t tile) -> runtime::BufferPtr {
    if (impl.replicas_equal) return storage->pieces[tile];
    for (auto p : place.devices->local_positions) {  // the lowest local replica is read
      if (place.tile_of[static_cast<std::size_t>(p)] == static_cast<std::int32_t>(tile)) {
        return storage->pieces[static_cast<std::size_t>(p)];
      }
    }
    return nullptr;
  };
  auto tiles = static_cast<std::size_t>(place.num_tiles);
  for (std::size_t t = 0; t < tiles; ++t) {
    if (piece(t) || size_of(place.tile_shape[t]) == 0) continue;
    std::string missing;
    for (std::size_t p = 0; p < place.tile_of.size(); ++p) {
      if (place.tile_of[p] == static_cast<std::int32_t>(t))
        missing += str(missing.empty() ? "" : ", ", place.devices->devices[p].id());
    }
    throw NotAddressableError(
        str("Array::host: array of shape ", impl.type.shape, " has data on devices ", missing,
            " of other processes; use process_allgather, a replicated out_sharding, or addressable_shards"));
  }
  if (tiles == 1) {
    auto buffer = piece(0);
    impl.host = buffer ? HostArray(impl.type.dtype, impl.type.shape, std::shared_ptr<void>(buffer, buffer->data()))
                       : HostArray(impl.type.dtype, impl.type.shape);
    return *impl.host;
  }
  HostArray out(impl.type.dtype, impl.type.shape);
  Dims strides = core::contiguous_strides(impl.type.shape, item);
  auto copy = [&](std::size_t t) {
    Shape shape = place.tile_shape[t];
    if (size_of(shape) == 0) return;
    Index index = place.tile_index[t];
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) offset += index[d].start.value_or(0) * strides[d];
    core::copy_strided(static_cast<char*>(out.data()) + offset, strides, piece(t)->data(),
                       core::contiguous_strides(shape, item), shape, item);
  };
  // Worth a second thread, which also takes its part of the new memory's page faults.
  constexpr std::int64_t kLarge = 1 << 20;
  auto count = static_cast<std::int64_t>(tiles);
  base::parallel_for(count, out.nbytes() >= kLarge ? 1 : count, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) copy(static_cast<std::size_t>(t));
  });
  arrays::count_transfer(out.nbytes());
  impl.host = std::move(out);
  return *impl.host;
}

const HostArray& Array::single(const Loc& loc) const {
  if (size() != 1) {
    throw ValueError(str("Array::item: the array has shape ", shape(), " and ", size(),
                         " elements; expected one (reduce it with any or all)"));
  }
  return host(loc);
}

Array::operator bool() const {
  const auto& impl = *checked(*this, "Array::operator bool");
  if (impl.trace != 0) arrays::traced(impl, "Array::operator bool");
  if (size() != 1) {
    throw ValueError(
        str("Array::operator bool: the truth of an array of shape ", shape(), " is ambiguous; use any(x) or all(x)"));
  }
  return host().astype(DType::Bool).span<bool>()[0];
}

const Array& Array::block_until_ready(const Loc&) const {
  const auto& impl = *checked(*this, "Array::block_until_ready");
  if (impl.trace == 0 && !impl.literal) arrays::storage_of(*this, "Array::block_until_ready")->wait();
  return *this;
}

void Array::delete_(const Loc&) {
  const auto& impl = checked(*this, "Array::delete_");
  if (impl->trace != 0) arrays::traced(*impl, "Array::delete_");
  std::lock_guard lock(impl->mutex);
  impl->storage.reset();
  impl->host.reset();
  impl->shards.clear();
  impl->all_shards.clear();
  impl->has_shards = impl->has_all_shards = false;
}
bool Array::is_deleted() const {
  const auto& impl = *checked(*this, "Array::is_deleted");
  if (impl.trace != 0 || impl.literal) return false;
  std::lock_guard lock(impl.mutex);
  return impl.storage == nullptr;
}

std::span<const Shard> Array::local_shards(const Loc&) const { return addressable_shards(); }
const Array& Array::local_data(std::int64_t i, const Loc&) const { return addressable_data(i); }

const Array& Shard::value(const Loc&) const {
  if (!data_) {
    throw StateError(str("Shard::value: device ", device_, " belongs to process ", device_.process_index(),
                         "; its data is not in this process"));
  }
  return *data_;
}
Array Shard::padded(const Loc&) const {
  const Array& piece = value();
  if (full_shape_.empty() || piece.shape() == full_shape_) return piece;
  auto item = dtype_size(piece.dtype());
  HostArray out(piece.dtype(), full_shape_);
  if (out.nbytes() > 0) std::memset(out.data(), 0, static_cast<std::size_t>(out.nbytes()));
  core::copy_strided(out.data(), core::contiguous_strides(full_shape_, item), piece.host().data(),
                     core::contiguous_strides(piece.shape(), item), piece.shape(), item);
  return device_put(out, device_);
}
std::string to_string(const Shard& s) {
  return str("Shard(device=", s.device(), ", index=", s.index(), ", replica_id=", s.replica_id(),
             ", data=", s.data().has_value() ? core::numpy_text(s.value().host()) : std::string("None"), ")");
}

std::string to_string(const Array& a, const Loc&) {
  if (!a.defined()) return "Array(uninitialised)";
  const auto& impl = *a.impl();
  auto plain = [&](const char* what) {
    return str(what, "(shape=", impl.type.shape, ", dtype=", dtype_name(impl.type.dtype), ")");
  };
  if (impl.trace != 0) return plain("Traced");
  if (a.is_deleted()) return plain("DeletedArray");
  const HostArray* value = nullptr;
  try {
    value = &a.host();
  } catch (const NotAddressableError&) {
    return plain("Array");
  }
  std::string suffix = str(", dtype=", dtype_name(impl.type.dtype), ")");
  if (impl.type.size() == 0) return str("Array([], shape=", impl.type.shape, suffix);
  return str("Array(", core::numpy_text(*value, 6, static_cast<std::int64_t>(suffix.size())), suffix);
}
std::ostream& operator<<(std::ostream& out, const Array& a) { return out << to_string(a); }

ArrayKind kind(const Array& a, const Loc&) {
  if (!a.is_fully_addressable()) return ArrayKind::MultiProcess;
  return a.sharding()->num_devices() == 1 ? ArrayKind::SingleDevice : ArrayKind::MultiDevice;
}

std::vector<Array> live_arrays(std::string_view platform, const Loc&) {
  if (!platform.empty() && platform != "cpu") {
    throw StateError(str("live_arrays: platform = \"", platform, "\"; expected one of: cpu"));
  }
  auto& r = arrays::Registry::get();
  std::vector<std::shared_ptr<ArrayImpl>> found;  // released outside the lock: a destructor takes it
  {
    std::lock_guard lock(r.mutex);
    for (ArrayImpl* a = r.newest; a != nullptr; a = a->older) {
      if (auto impl = a->weak_from_this().lock()) found.push_back(std::move(impl));
    }
  }
  std::vector<Array> out;
  for (auto& impl : found) {
    Array a(impl);
    if (!a.is_deleted()) out.push_back(std::move(a));
  }
  return out;
}

TransferStats transfer_stats() { return {arrays::moved_bytes.load(), arrays::moves.load()}; }

}  // namespace tessera
