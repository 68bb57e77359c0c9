// SPDX-License-Identifier: Apache-2.0
// Attributes and life of arrays.
#include "tessera/array.h"

#include <cstring>
#include <ostream>

#include "array/array_impl.h"
#include "array/array_stats.h"
#include "array/concrete.h"
#include "base/strings.h"
#include "core/numpy_text.h"
#include "core/strided_copy.h"
#include "runtime/engine.h"
#include "tessera/shape_dtype.h"

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

void enlist(std::span<const Array> made) {
  auto& r = Registry::get();
  std::lock_guard lock(r.mutex);
  for (const Array& a : made) {
    ArrayImpl* impl = a.impl().get();
    impl->older = r.newest;
    if (r.newest != nullptr) r.newest->newer = impl;
    r.newest = impl;
    impl->enlisted = true;
  }
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
// With the lock of `impl` held.
[[noreturn]] void deleted(const ArrayImpl& impl, const char* function, const std::string& who) {
  const std::string type = str(who, " of type ", dtype_name(impl.type.dtype), "[", join(impl.type.shape, ","), "]");
  if (impl.without_data) {
    throw StateError(str(function, ": ", type,
                         " has no data: it was made from a ShapeDtype, for trace, lower and "
                         "eval_shape; give an array with data"));
  }
  const std::string what = str(function, ": ", type, " was ");
  if (!impl.gone) throw DeletedArrayError(what + "deleted by delete_()");
  throw DeletedArrayError(
      str(what, *impl.gone, "; use what that call returns, or leave the argument out of donate_argnums"));
}
}  // namespace

void traced(const Array& a, const char* function, const Loc& loc) {
  check_trace(a, function);
  const auto& impl = *a.impl();
  throw ConcretizationError(
      str(function, ": ", impl.type, " is a value of a traced function and has no data yet",
          loc.file ? str(" (asked for at ", loc, ")") : std::string(),
          "; use where or cond to decide by it inside the function, or return it and read it outside"));
}

bool usable(const Array& a) {
  if (!a.defined()) return false;
  const auto& impl = *a.impl();
  if (impl.trace != 0 || impl.literal) return true;
  std::lock_guard lock(impl.mutex);
  return impl.storage != nullptr;
}

StoragePtr data_of(const Array& a) {
  if (!a.defined()) return nullptr;
  const auto& impl = *a.impl();
  std::lock_guard lock(impl.mutex);
  return impl.storage;
}

void throw_unusable(const Array& a, const char* function, const std::string& who) {
  if (!a.defined()) {
    throw StateError(str(function, ": ", who, " is an uninitialised Array; expected one with a value"));
  }
  std::lock_guard lock(a.impl()->mutex);
  deleted(*a.impl(), function, who);
}

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
  if (!usable(a)) throw_unusable(a, function, a.defined() ? "the array" : "array");
}

void throw_leaked(const Array& a, const char* function, const std::string& who) {
  const auto& impl = *a.impl();
  bool running = impl.life && impl.life->running;
  throw UnexpectedTracerError(
      str(function, ": ", who, " is a value of a traced function (", impl.type,
          impl.op.empty() ? std::string(", an argument or capture") : str(", made by ", impl.op),
          impl.loc.file ? str(" at ", impl.loc) : std::string(), ") and ",
          !running                                          ? "is used after that function ended"
          : impl.life->thread != std::this_thread::get_id() ? "is used on another thread than the function's"
                                                            : "is used outside that function",
          "; return it from the function instead of storing it, and use what the call returns"));
}

void check_trace(const Array& a, const char* function) {
  const auto& life = a.impl()->life;
  if (life && (!life->running || life->thread != std::this_thread::get_id())) throw_leaked(a, function, "the array");
}

StoragePtr donate(const Array& a, const std::shared_ptr<const std::string>& to) noexcept {
  const auto& impl = *a.impl();
  // Released outside the lock: memory that was given away may end in code of the user.
  std::optional<HostArray> host;
  ShardsPtr shards;
  ShardsPtr all_shards;
  StoragePtr storage;
  std::lock_guard lock(impl.mutex);
  if (!impl.storage) return nullptr;
  std::swap(storage, a.impl()->storage);
  a.impl()->gone = to;
  std::swap(host, impl.host);
  shards.swap(impl.shards);
  all_shards.swap(impl.all_shards);
  return storage;
}

void undo_donation(const Array& a, StoragePtr storage) noexcept {
  std::lock_guard lock(a.impl()->mutex);
  a.impl()->storage = std::move(storage);
  a.impl()->gone.reset();
}

Array materialize(const Array& a) {
  const auto& impl = *checked(a, "materialize");
  if (!impl.literal) return a;
  return place(literal_value(impl), default_sharding(), false, false, impl.type.weak);
}

StoragePtr storage_of(const Array& a, const char* function) {
  const auto& impl = *checked(a, function);
  if (impl.trace != 0) traced(a, function);
  if (impl.literal) return storage_of(materialize(a), function);
  std::lock_guard lock(impl.mutex);
  if (!impl.storage) deleted(impl, function, "the array");
  return impl.storage;
}

Array make(ir::Type type, ShardingPtr sharding, StoragePtr storage, bool committed, bool replicas_equal) {
  auto impl = std::make_shared<ArrayImpl>();
  impl->placement = look_up(sharding, type.shape);
  if (!storage->ready) {  // else it is brought there when a program reads it
    runtime::runtime_of(impl->placement->devices->client)
        .engine->put_on_devices(storage->shard_buffers, type.dtype, *impl->placement, replicas_equal);
  }
  impl->type = std::move(type);
  impl->type.sharding = ir::type_sharding(*sharding, impl->type.rank());
  impl->sharding = std::move(sharding);
  impl->committed = committed;
  impl->replicas_equal = replicas_equal;
  impl->storage = std::move(storage);
  Array made(std::move(impl));
  enlist({&made, 1});
  return made;
}

Array make_traced(ir::Type type, std::uint64_t trace, ir::ValueId value, TraceLifePtr life, std::string_view op,
                  const Loc& loc) {
  auto impl = std::make_shared<ArrayImpl>();
  impl->type = std::move(type);
  impl->trace = trace;
  impl->value = value;
  impl->life = std::move(life);
  impl->op = op;
  impl->loc = loc;
  return Array(std::move(impl));
}

Array like_without_data(const Array& a) {
  const auto& impl = *checked(a, "like_without_data");
  if (impl.trace != 0 || impl.literal) return a;
  auto out = std::make_shared<ArrayImpl>();
  out->type = impl.type;
  out->sharding = impl.sharding;
  out->placement = impl.placement;
  out->committed = impl.committed;
  out->replicas_equal = impl.replicas_equal;
  out->without_data = true;
  return Array(std::move(out));
}

Array without_digits(const Array& a) {
  const auto& impl = *checked(a, "without_digits");
  if (!has_digits(impl.type)) return a;
  return place(a.host(), a.sharding(), impl.committed, false, true);
}

namespace {
Array make_literal(const HostArray& value, bool weak) {
  auto impl = std::make_shared<ArrayImpl>();
  impl->type = ir::Type{value.dtype(), {}, weak};
  impl->literal = value;
  return Array(std::move(impl));
}

// What members that need a place see: literals go to the default device on first use of such a member.
const ArrayImpl& concrete(const Array& a, const char* function) {
  const auto& impl = *checked(a, function);
  if (impl.trace != 0) traced(a, function);
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
Array weak_scalar(double v) { return arrays::make_literal(HostArray::scalar(v), true); }
Array weak_scalar(complex128_t v) { return arrays::make_literal(HostArray::scalar(v), true); }
Array strong_scalar(const HostArray& rank0) { return arrays::make_literal(rank0, false); }

Array::Array(const HostArray& value, const Loc&) : Array(device_put(value)) {}

const Shape& Array::shape(CallLine at) const& { return checked_at(*this, "Array::shape", at).type.shape; }
std::int64_t Array::shape(std::int64_t dim, CallLine at) const {
  const Shape& s = shape(at);
  std::int64_t d = dim < 0 ? dim + rank(s) : dim;
  if (d >= 0 && d < rank(s)) return s[static_cast<std::size_t>(d)];
  CallSite site(at.file, at.line);
  throw IndexError(str("Array::shape: dim = ", dim, "; expected -", rank(s), "..", rank(s) - 1));
}
DType Array::dtype(CallLine at) const {
  const auto& type = checked_at(*this, "Array::dtype", at).type;
  return arrays::visible(type.dtype, type.weak);
}
bool Array::weak_type(CallLine at) const { return checked_at(*this, "Array::weak_type", at).type.weak; }
std::int64_t Array::ndim(CallLine at) const { return rank(checked_at(*this, "Array::ndim", at).type.shape); }
std::int64_t Array::size(CallLine at) const { return checked_at(*this, "Array::size", at).type.size(); }
std::int64_t Array::nbytes(CallLine at) const {
  return arrays::visible(checked_at(*this, "Array::nbytes", at).type).nbytes();
}
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

ShardingPtr Array::sharding(const Loc&) const {
  const auto& impl = concrete(*this, "Array::sharding");
  return impl.literal ? arrays::default_sharding() : impl.sharding;  // a number has no place of its own
}
bool Array::committed(const Loc&) const { return concrete(*this, "Array::committed").committed; }
DeviceSet Array::devices(const Loc&) const {
  arrays::check_live(*this, "Array::devices");
  return sharding()->device_set();
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

const Array& Array::block_until_ready(const Loc&) const& {
  const auto& impl = *checked(*this, "Array::block_until_ready");
  if (impl.trace == 0 && !impl.literal) arrays::storage_of(*this, "Array::block_until_ready")->wait_for_values();
  return *this;
}

void Array::delete_(const Loc&) {
  const auto& impl = checked(*this, "Array::delete_");
  if (impl->trace != 0) arrays::traced(*this, "Array::delete_");
  arrays::donate(*this, nullptr);
}
bool Array::is_deleted() const {
  const auto& impl = *checked(*this, "Array::is_deleted");
  if (impl.trace != 0 || impl.literal) return false;
  std::lock_guard lock(impl.mutex);
  return impl.storage == nullptr;
}

ShardList Array::local_shards(const Loc&) const { return addressable_shards(); }
Array Array::local_data(std::int64_t i, const Loc&) const { return addressable_data(i); }

const Array& Shard::value(const Loc&) const& {
  if (!data_) {
    throw StateError(str("Shard::value: device ", device_, " belongs to process ", device_.process_index(),
                         "; its data is not in this process"));
  }
  return *data_;
}
Array Shard::padded(const Loc&) const {
  const Array& shard_buffer = value();
  if (full_shape_.empty() || shard_buffer.shape() == full_shape_) return shard_buffer;
  auto item = dtype_size(shard_buffer.dtype());
  HostArray out(shard_buffer.dtype(), full_shape_);
  if (out.nbytes() > 0) std::memset(out.data(), 0, static_cast<std::size_t>(out.nbytes()));
  core::copy_strided(out.data(), core::contiguous_strides(full_shape_, item), shard_buffer.host().data(),
                     core::contiguous_strides(shard_buffer.shape(), item), shard_buffer.shape(), item);
  return device_put(out, device_);
}
std::string to_string(const Shard& s) {
  return str("Shard(device=", s.device(), ", index=", s.index(), ", replica_id=", s.replica_id(),
             ", data=", s.data().has_value() ? core::numpy_text(s.value().host()) : std::string("None"), ")");
}

Array without_data(const ShapeDtype& type, const Loc&) {
  auto impl = std::make_shared<arrays::ArrayImpl>();
  const bool scalar = type.weak && type.shape.empty();
  impl->type = ir::Type{scalar ? arrays::with_digits(type.dtype) : type.dtype, type.shape, type.weak};
  impl->sharding = type.sharding ? type.sharding : arrays::default_sharding();
  impl->placement = arrays::look_up(impl->sharding, type.shape);
  impl->committed = type.sharding != nullptr;
  impl->type.sharding = ir::type_sharding(*impl->sharding, impl->type.rank());
  impl->without_data = true;
  return Array(std::move(impl));
}

std::string to_string(const Array& a, const Loc&) {
  if (!a.defined()) return "Array(uninitialised)";
  const auto& impl = *a.impl();
  auto plain = [&](const char* what) {
    return str(what, "(shape=", impl.type.shape, ", dtype=", dtype_name(a.dtype()), ")");
  };
  if (impl.trace != 0) return plain("Traced");
  if (a.is_deleted()) return plain("DeletedArray");
  if (impl.placement && impl.placement->addends > 1) {
    return str("Array(shape=", impl.type.shape, ", dtype=", dtype_name(a.dtype()), ", sharding=", impl.sharding->text(),
               ")");
  }
  HostArray value;
  try {
    value = a.host();
  } catch (const DeletedArrayError&) {
    return plain("DeletedArray");  // since the question above
  } catch (const NotAddressableError&) {
    return plain("Array");
  }
  std::string suffix = str(", dtype=", dtype_name(a.dtype()), ")");
  if (impl.type.size() == 0) return str("Array([], shape=", impl.type.shape, suffix);
  return str("Array(", core::numpy_text(value, 6, static_cast<std::int64_t>(suffix.size())), suffix);
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
