// SPDX-License-Identifier: Apache-2.0
#include "tessera/global_array.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "array/array_impl.h"
#include "array/array_stats.h"
#include "array/global_build.h"
#include "array/noted.h"
#include "base/strings.h"
#include "runtime/engine.h"

namespace tessera {

namespace arrays {

namespace {
std::atomic<std::int64_t> shards_made{0};
std::atomic<std::int64_t> validations{0};
std::atomic<std::int64_t> place_lookups{0};
std::atomic<bool> checks{false};

// The one device of a buffer that a caller hands in.
const Device& device_of(const Array& buffer, const char* function, std::size_t i) {
  check_live(buffer, function);
  const auto& placement = buffer.impl()->placement;
  if (!placement || placement->devices->size() != 1) {
    throw DeviceMismatchError(str(function, ": array ", i, " is on ", placement ? placement->devices->size() : 0,
                                  " devices; expected a single-device array"));
  }
  return placement->devices->devices[0];
}

void check_buffers(const FastPath& path, std::span<const Array> buffers) {
  const char* name = "GlobalArray";
  count_validation();
  if (buffers.size() != path.local_devices.size()) {
    throw ValueError(str(name, ": device_buffers has ", buffers.size(), " elements; expected ",
                         path.local_devices.size(), " (local devices of global_mesh)"));
  }
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const Device& got = device_of(buffers[i], name, i);
    if (got == path.local_devices[i]) continue;
    throw DeviceMismatchError(str(name, ": device_buffers[", i, "] is on device ", got.id(), "; expected device ",
                                  path.local_devices[i].id(), " (order them as global_mesh.local_devices())"));
  }
  bool shapes = true;
  bool dtypes = true;
  std::string all_shapes;
  std::string all_dtypes;
  for (const auto& b : buffers) {
    shapes = shapes && b.shape() == path.places->shard_shape;
    dtypes = dtypes && b.dtype() == buffers[0].dtype();
    all_shapes += str(all_shapes.empty() ? "" : ", ", b.shape());
    all_dtypes += str(all_dtypes.empty() ? "" : ", ", dtype_name(b.dtype()));
  }
  if (!shapes) {
    throw ValueError(str(name, ": device_buffers have shapes ", all_shapes, "; expected ", path.places->shard_shape,
                         " for each, the shard shape of global_shape ", path.places->global_shape));
  }
  if (!dtypes) {
    throw ValueError(str(name, ": device_buffers have dtypes ", all_dtypes, "; expected ",
                         dtype_name(buffers[0].dtype()), " for each"));
  }
}

// An array around buffers by local device; replicas may differ, so each device keeps its own.
Array adopt(const Shape& shape, const NamedSharding& sharding, const FastPath& path,
            std::vector<runtime::BufferPtr> buffers, DType dtype) {
  const auto& place = *path.places;
  bool own = static_cast<std::size_t>(place.num_tiles) != place.devices->size();
  auto storage = std::make_shared<Storage>();
  storage->shard_buffers.resize(place.devices->size());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    auto position = static_cast<std::size_t>(place.devices->local_positions[i]);
    storage->shard_buffers[own ? position : static_cast<std::size_t>(place.tile_of[position])] = std::move(buffers[i]);
  }
  auto impl = std::make_shared<ArrayImpl>();
  impl->type = ir::Type{dtype, shape};
  impl->sharding = sharding.share();
  impl->placement = path.places;
  impl->committed = true;
  impl->replicas_equal = !own;
  impl->storage = std::move(storage);
  const Array made(std::move(impl));
  enlist({&made, 1});
  return noted(made, "GlobalArray");
}

FastPath fast_path(const NamedSharding& sharding, const Shape& shape) {
  FastPath path;
  path.places = look_up(sharding.share(), shape);
  path.local_devices = path.places->devices->local_devices();
  return path;
}
}  // namespace

std::shared_ptr<const sharding::Placement> look_up(const ShardingPtr& sharding, const Shape& shape) {
  auto found = sharding::placement(sharding, shape);
  if (found->devices->size() > 1) place_lookups.fetch_add(1, std::memory_order_relaxed);
  return found;
}
void count_shards(std::int64_t n) { shards_made.fetch_add(n, std::memory_order_relaxed); }
void count_validation() { validations.fetch_add(1, std::memory_order_relaxed); }

void check_result(const sharding::Placement& place, DType dtype, const runtime::ShardBuffers& shard_buffers,
                  bool by_position) {
  if (!checks) return;
  count_validation();
  auto expected = by_position ? place.devices->size() : static_cast<std::size_t>(place.num_tiles);
  if (shard_buffers.size() != expected) {
    throw InternalError(str("check_result: a program gave ", shard_buffers.size(), " buffers; expected ", expected));
  }
  for (auto p : place.devices->local_positions) {
    auto position = static_cast<std::size_t>(p);
    auto tile = static_cast<std::size_t>(place.tile_of[position]);
    const auto& shard_buffer = shard_buffers[by_position ? position : tile];
    auto bytes = size_of(place.tile_shape[tile]) * dtype_size(dtype);
    if (!shard_buffer || shard_buffer->nbytes() < bytes) {
      throw InternalError(str("check_result: a program gave ", shard_buffer ? shard_buffer->nbytes() : 0,
                              " bytes for device ", place.devices->devices[position], "; expected ", bytes));
    }
  }
}

Array build_global(unchecked_t, const Shape& shape, const NamedSharding& sharding, const FastPath& path,
                   std::span<const Array> buffers, std::optional<DType> dtype) {
  if (checks) check_buffers(path, buffers);
  if (buffers.empty() && !dtype) {
    throw ValueError("GlobalArray: device_buffers is empty (this process has no device of global_mesh); give dtype");
  }
  std::vector<runtime::BufferPtr> shard_buffers;
  for (const auto& b : buffers) {
    auto storage = storage_of(without_digits(b), "GlobalArray");
    storage->wait();
    shard_buffers.push_back(storage->shard_buffers[0]);
  }
  return adopt(shape, sharding, path, std::move(shard_buffers), buffers.empty() ? dtype.value() : buffers[0].dtype());
}

Array build_global(const Shape& shape, const NamedSharding& sharding, const FastPath& path,
                   std::span<const Array> buffers, std::optional<DType> dtype) {
  check_buffers(path, buffers);
  if (dtype && !buffers.empty() && buffers[0].dtype() != *dtype) {
    throw ValueError(str("GlobalArray: device_buffers have dtype ", dtype_name(buffers[0].dtype()),
                         "; dtype = ", dtype_name(*dtype)));
  }
  return build_global(unchecked, shape, sharding, path, buffers, dtype);
}

namespace {

// Shards from callbacks: one buffer a local device.
class ShardCollector {
 public:
  ShardCollector(const char* function, const Shape& shape, const NamedSharding& sharding)
      : function_(function), shape_(shape), sharding_(sharding), path_(fast_path(sharding, shape)) {}

  const FastPath& path() const { return path_; }
  std::size_t size() const { return path_.local_devices.size(); }
  Index index(std::size_t i) const { return place().tile_index[tile(i)]; }
  std::size_t tile(std::size_t i) const {
    return static_cast<std::size_t>(place().tile_of[static_cast<std::size_t>(place().devices->local_positions[i])]);
  }
  void add(std::size_t i, const HostArray& value) {
    const Device& device = path_.local_devices[i];
    Shape expected = place().tile_shape[tile(i)];
    if (value.shape() != expected) {
      throw ValueError(
          str(function_, ": data returned shape ", value.shape(), " for device ", device, "; expected ", expected));
    }
    if (!dtype_) dtype_ = value.dtype();
    if (value.dtype() != *dtype_) {
      throw ValueError(str(function_, ": data returned dtype ", dtype_name(value.dtype()), " for device ", device,
                           "; expected ", dtype_name(*dtype_), " as for the devices before"));
    }
    auto buffer = runtime::runtime_of(place().devices->client).memory->allocate(value.nbytes());
    if (value.nbytes() > 0) std::memcpy(buffer->data(), value.data(), static_cast<std::size_t>(value.nbytes()));
    count_transfer(value.nbytes());
    buffers_.push_back(std::move(buffer));
  }
  Array finish() {
    if (!dtype_) {
      throw ValueError(str(function_,
                           ": this process has no device of global_mesh, so that no shard says the dtype; "
                           "construct a GlobalArray with dtype"));
    }
    return adopt(shape_, sharding_, path_, std::move(buffers_), *dtype_);
  }

 private:
  const sharding::Placement& place() const { return *path_.places; }
  const char* function_;
  const Shape& shape_;
  const NamedSharding& sharding_;
  FastPath path_;
  std::optional<DType> dtype_;
  std::vector<runtime::BufferPtr> buffers_;
};

}  // namespace
}  // namespace arrays

GlobalArray::GlobalArray(const Shape& global_shape, const Mesh& global_mesh, const PartitionSpec& mesh_axes,
                         std::span<const Array> device_buffers, std::optional<DType> dtype, const Loc&) {
  NamedSharding sharding(global_mesh, mesh_axes);
  array_ =
      arrays::build_global(global_shape, sharding, arrays::fast_path(sharding, global_shape), device_buffers, dtype);
}

GlobalArray GlobalArray::from_callback(const Shape& global_shape, const Mesh& global_mesh,
                                       const PartitionSpec& mesh_axes,
                                       const std::function<HostData(const Index&)>& data, const Loc&) {
  NamedSharding sharding(global_mesh, mesh_axes);
  arrays::ShardCollector shard_buffers("GlobalArray::from_callback", global_shape, sharding);
  for (std::size_t i = 0; i < shard_buffers.size(); ++i) shard_buffers.add(i, data(shard_buffers.index(i)).value());
  return shard_buffers.finish();
}

GlobalArray GlobalArray::from_batched_callback(
    const Shape& global_shape, const Mesh& global_mesh, const PartitionSpec& mesh_axes,
    const std::function<std::vector<HostArray>(std::span<const Index>)>& data, const Loc&) {
  NamedSharding sharding(global_mesh, mesh_axes);
  arrays::ShardCollector shard_buffers("GlobalArray::from_batched_callback", global_shape, sharding);
  std::vector<Index> indices;
  for (std::size_t i = 0; i < shard_buffers.size(); ++i) indices.push_back(shard_buffers.index(i));
  std::vector<HostArray> values = data(indices);
  if (values.size() != indices.size()) {
    throw ValueError(str("GlobalArray::from_batched_callback: data_callback returned ", values.size(),
                         " arrays; expected ", indices.size()));
  }
  for (std::size_t i = 0; i < values.size(); ++i) shard_buffers.add(i, values[i]);
  return shard_buffers.finish();
}

GlobalArray GlobalArray::from_batched_callback_with_devices(
    const Shape& global_shape, const Mesh& global_mesh, const PartitionSpec& mesh_axes,
    const std::function<std::vector<Array>(std::span<const IndexedDevices>)>& data, const Loc&) {
  const char* name = "GlobalArray::from_batched_callback_with_devices";
  NamedSharding sharding(global_mesh, mesh_axes);
  arrays::FastPath path = arrays::fast_path(sharding, global_shape);
  const auto& place = *path.places;
  std::vector<IndexedDevices> groups;
  std::vector<std::int64_t> group_of(static_cast<std::size_t>(place.num_tiles), -1);
  for (auto p : place.devices->local_positions) {
    auto position = static_cast<std::size_t>(p);
    auto tile = static_cast<std::size_t>(place.tile_of[position]);
    if (group_of[tile] < 0) {
      group_of[tile] = static_cast<std::int64_t>(groups.size());
      groups.push_back({place.tile_index[tile], {}});
    }
    groups[static_cast<std::size_t>(group_of[tile])].devices.push_back(place.devices->devices[position]);
  }
  std::vector<Array> made = data(groups);
  std::vector<Array> ordered(path.local_devices.size());
  for (std::size_t i = 0; i < made.size(); ++i) {
    const Device& device = arrays::device_of(made[i], name, i);
    auto at = std::find(path.local_devices.begin(), path.local_devices.end(), device);
    if (at == path.local_devices.end()) {
      throw DeviceMismatchError(
          str(name, ": array ", i, " is on device ", device.id(), ", which is no local device of global_mesh"));
    }
    auto& slot = ordered[static_cast<std::size_t>(at - path.local_devices.begin())];
    if (slot.defined()) throw DeviceMismatchError(str(name, ": device ", device.id(), " has two arrays; expected one"));
    slot = made[i];
  }
  std::string missing;
  for (std::size_t i = 0; i < ordered.size(); ++i) {
    if (!ordered[i].defined()) missing += str(missing.empty() ? "" : ", ", path.local_devices[i].id());
  }
  if (!missing.empty()) throw DeviceMismatchError(str(name, ": no array for devices ", missing));
  return arrays::build_global(global_shape, sharding, path, ordered, std::nullopt);
}

namespace {
std::shared_ptr<const NamedSharding> named(const GlobalArray& g, const char* function) {
  ShardingPtr s = g.sharding();
  auto n = std::dynamic_pointer_cast<const NamedSharding>(s);
  if (!n) throw StateError(str(function, ": the array has ", s->text(), "; expected a NamedSharding"));
  return n;
}
}  // namespace

Mesh GlobalArray::mesh(const Loc&) const { return named(*this, "GlobalArray::mesh")->mesh().concrete("mesh"); }
PartitionSpec GlobalArray::mesh_axes(const Loc&) const { return named(*this, "GlobalArray::mesh_axes")->spec(); }
bool GlobalArray::is_fully_replicated(const Loc&) const { return shape() == array_.sharding()->shard_shape(shape()); }
int GlobalArray::process_index() const { return array_.sharding()->devices()[0].client().process_index(); }

Array GlobalArray::local_data(std::size_t i, const Loc&) const {
  ShardList shards = local_shards();
  if (i >= shards.size()) {
    throw IndexError(shards.empty() ? str("local_data: index = ", i, "; this process has no device of the array")
                                    : str("local_data: index = ", i, "; expected 0..", shards.size() - 1));
  }
  return shards[i].value();
}

const GlobalArray& GlobalArray::block_until_ready(const Loc&) const& {
  array_.block_until_ready();
  return *this;
}

std::string to_string(const GlobalArray& g) {
  if (!g.defined()) return "GlobalArray(uninitialised)";
  return str("GlobalArray(shape=", g.shape(), ", dtype=", dtype_name(g.dtype()), ")");
}
std::string repr(const GlobalArray& g) {
  if (!g.defined()) return to_string(g);
  std::string axes;
  for (const auto& [name, size] : g.mesh().shape()) axes += str(axes.empty() ? "'" : ", '", name, "': ", size);
  std::string spec = g.mesh_axes().text();
  return str("GlobalArray(shape=", g.shape(), ", dtype=", dtype_name(g.dtype()), ", global_mesh_shape={", axes,
             "}, mesh_axes=", spec.rfind("P(", 0) == 0 ? "PartitionSpec" + spec.substr(1) : spec, ")");
}

bool equal(const AnyValue& a, const AnyValue& b, const Loc&) {
  if (std::holds_alternative<GlobalArray>(a) || std::holds_alternative<GlobalArray>(b)) {
    throw StateError(
        "equal: a GlobalArray has no equality; compare its shards, or run an elementwise comparison in a program");
  }
  if (a.index() != b.index()) return false;
  if (const auto* h = std::get_if<HostArray>(&a)) return identical(*h, std::get<HostArray>(b));
  if (const auto* s = std::get_if<Shape>(&a)) return *s == std::get<Shape>(b);
  return std::get<std::string>(a) == std::get<std::string>(b);
}

std::string to_string(const ShapedArray& a) { return str("ShapedArray(", a.shape, ", ", dtype_name(a.dtype), ")"); }
ShapedArray abstract_value(const Array& a, const Loc&) { return {a.shape(), a.dtype()}; }

void set_enable_checks(bool on) { arrays::checks = on; }
bool enable_checks() { return arrays::checks; }
ArrayStats array_stats() { return {arrays::shards_made, arrays::validations, arrays::place_lookups}; }

}  // namespace tessera
