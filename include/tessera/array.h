// SPDX-License-Identifier: Apache-2.0
// The one array type: shape, dtype, sharding, and one shard of data per device.
#pragma once

#include <concepts>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "tessera/device.h"
#include "tessera/dtype.h"
#include "tessera/error.h"
#include "tessera/host_array.h"
#include "tessera/loc.h"
#include "tessera/shape.h"
#include "tessera/sharding.h"

namespace tessera {

namespace arrays {
struct ArrayImpl;
}

class Shard;
class IndexItem;
class ShardList;

/// A C++ type that is the element type of an array.
template <class T>
concept Number = std::is_arithmetic_v<T> || std::same_as<T, float16_t> || std::same_as<T, bfloat16_t> ||
    std::same_as<T, complex64_t> || std::same_as<T, complex128_t>;

/// How an array is placed on devices, in the terms of older code.
enum class ArrayKind { SingleDevice, MultiDevice, MultiProcess };

/// Immutable global array: a cheap handle to shared state, usable from several threads. Inside a traced function it
/// is a tracer: a value of the program, which has a shape and a dtype but no data. What members
/// return belongs to the caller: it stays valid when the array is deleted or donated meanwhile, and when the array was
/// a temporary.
class Array {
 public:
  /// Uninitialised: any use throws `StateError`.
  Array() = default;
  /// Rank 0, weakly typed as a scalar literal of the program is (int and long: int32 where it fits; float and double:
  /// float32; complex: complex64). bool and the explicit 8-bit, 16-bit, unsigned and half types are strong and keep
  /// their dtype.
  template <Number T>
  explicit Array(T value) : Array(scalar(value)) {}
  /// On the default device, uncommitted; the data is copied.
  explicit Array(const HostArray& value, const Loc& loc = Loc::current());

  /// False for an uninitialised array; never throws.
  bool defined() const { return impl_ != nullptr; }
  /// Global extents. Also after deletion, as dtype and sharding.
  const Shape& shape(CallLine at = CallLine::current()) const&;
  Shape shape(CallLine at = CallLine::current()) const&& { return shape(at); }
  /// One extent; negative dimensions count from the end. Throws `IndexError`.
  std::int64_t shape(std::int64_t dim, CallLine at = CallLine::current()) const;
  DType dtype(CallLine at = CallLine::current()) const;
  /// Promotes as a scalar literal of the program does (JAX's weak types).
  bool weak_type(CallLine at = CallLine::current()) const;
  /// Number of dimensions.
  std::int64_t ndim(CallLine at = CallLine::current()) const;
  /// Number of elements of the global value.
  std::int64_t size(CallLine at = CallLine::current()) const;
  /// Bytes of the global value.
  std::int64_t nbytes(CallLine at = CallLine::current()) const;
  /// Bytes on this process's devices, replicas counted as often as there are devices.
  std::int64_t device_bytes(const Loc& loc = Loc::current()) const;
  /// True inside a traced function.
  bool is_traced(CallLine at = CallLine::current()) const;

  /// Answers after deletion too. Throws `ConcretizationError` for a traced array.
  ShardingPtr sharding(const Loc& loc = Loc::current()) const;
  /// True when it was placed explicitly: operations then do not move it to another device.
  bool committed(const Loc& loc = Loc::current()) const;
  /// In mesh order. Throws `DeletedArrayError`.
  DeviceSet devices(const Loc& loc = Loc::current()) const;
  /// The same devices, with a membership test.
  DeviceSet device_set(const Loc& loc = Loc::current()) const;
  /// This process owns every device of the sharding.
  bool is_fully_addressable(const Loc& loc = Loc::current()) const;
  /// Every device holds the whole value.
  bool is_fully_replicated(const Loc& loc = Loc::current()) const;

  /// One shard per local device, in mesh order; made on first use and cached.
  ShardList addressable_shards(const Loc& loc = Loc::current()) const;
  /// One shard per device of every process, in mesh order; remote ones have no data.
  ShardList global_shards(const Loc& loc = Loc::current()) const;
  /// Shard i of this process as an array on one device. Throws `IndexError`.
  Array addressable_data(std::int64_t i, const Loc& loc = Loc::current()) const;

  /// The global value on the host, gathered once from this process's devices and kept while the array lives; it waits
  /// for the computation. Throws `NotAddressableError` when another process holds a shard that this one lacks,
  /// `StateError` for an unreduced array, whose devices hold addends (`reshard` sums them), `ConcretizationError` for a
  /// traced array, `DeletedArrayError`, and what the computation threw.
  HostArray host(const Loc& loc = Loc::current()) const;
  /// Elements in row-major order. Throws `TypeError` when T is not the dtype.
  template <Number T>
  std::vector<T> to_vector(const Loc& loc = Loc::current()) const {
    return host(loc).template to_vector<T>();
  }
  /// The single element, converted to T. Throws `ValueError` unless size() == 1.
  template <Number T>
  T item(const Loc& loc = Loc::current()) const {
    HostArray v = single(loc).astype(dtype_of<T>());
    return v.template span<T>()[0];
  }
  /// The single element as a bool. Throws `ValueError` unless size() == 1, `ConcretizationError` for a traced array.
  explicit operator bool() const;

  /// NumPy's indexing: `x(0, span(1, 5), ellipsis, newaxis, rows)` is x[0, 1:5, ..., None, rows]; see
  /// tessera/indexing.h, also for indices of more items. Throws `IndexError` for an index outside, or for more items
  /// than dimensions.
  Array operator()(const IndexItem& a, const Loc& loc = Loc::current()) const;
  Array operator()(const IndexItem& a, const IndexItem& b, const Loc& loc = Loc::current()) const;
  Array operator()(const IndexItem& a, const IndexItem& b, const IndexItem& c, const Loc& loc = Loc::current()) const;
  Array operator()(const IndexItem& a, const IndexItem& b, const IndexItem& c, const IndexItem& d,
                   const Loc& loc = Loc::current()) const;
  Array operator()(const IndexItem& a, const IndexItem& b, const IndexItem& c, const IndexItem& d, const IndexItem& e,
                   const Loc& loc = Loc::current()) const;
  Array operator()(const IndexItem& a, const IndexItem& b, const IndexItem& c, const IndexItem& d, const IndexItem& e,
                   const IndexItem& f, const Loc& loc = Loc::current()) const;
  Array operator()(const IndexItem& a, const IndexItem& b, const IndexItem& c, const IndexItem& d, const IndexItem& e,
                   const IndexItem& f, const IndexItem& g, const Loc& loc = Loc::current()) const;
  Array operator()(const IndexItem& a, const IndexItem& b, const IndexItem& c, const IndexItem& d, const IndexItem& e,
                   const IndexItem& f, const IndexItem& g, const IndexItem& h, const Loc& loc = Loc::current()) const;

  /// Waits for this process's shards; a failed computation throws here. Returns the array itself.
  const Array& block_until_ready(const Loc& loc = Loc::current()) const&;
  Array block_until_ready(const Loc& loc = Loc::current()) const&& { return block_until_ready(loc); }
  /// Frees the memory; shape, dtype and sharding stay available. Throws `ConcretizationError` for a traced array.
  void delete_(const Loc& loc = Loc::current());
  /// Deleted, or donated to a jitted call.
  bool is_deleted() const;

  /// Older name of `addressable_shards`.
  [[deprecated("use addressable_shards()")]] ShardList local_shards(const Loc& loc = Loc::current()) const;
  /// Older name of `addressable_data`.
  [[deprecated("use addressable_data(i)")]] Array local_data(std::int64_t i, const Loc& loc = Loc::current()) const;

  // For the layers above.
  explicit Array(std::shared_ptr<arrays::ArrayImpl> impl) : impl_(std::move(impl)) {}
  const std::shared_ptr<arrays::ArrayImpl>& impl() const { return impl_; }

 private:
  /// The scalar of a C++ value, with the dtypes of the constructor.
  template <Number T>
  static Array scalar(T value);
  /// The value on the host, weak floats with all their digits.
  HostArray whole(const char* function, const Loc& loc) const;
  HostArray single(const Loc& loc) const;
  std::shared_ptr<arrays::ArrayImpl> impl_;
};

/// A bool scalar, of rank 0; bool has no weak form.
Array weak_scalar(bool v);
/// A weakly typed int32 scalar, int64 where the value needs it.
Array weak_scalar(std::int64_t v);
/// A weakly typed float32 scalar that keeps the double's digits for promotion to float64.
Array weak_scalar(double v);
/// A weakly typed complex64 scalar that keeps the digits for promotion to complex128.
Array weak_scalar(complex128_t v);
/// A strongly typed scalar of `rank0`'s dtype.
Array strong_scalar(const HostArray& rank0);

/// See `Array`.
template <Number T>
Array Array::scalar(T value) {
  if constexpr (std::is_same_v<T, bool>) {
    return weak_scalar(value);
  } else if constexpr (std::is_same_v<T, int> || std::is_same_v<T, long> || std::is_same_v<T, long long>) {
    return weak_scalar(static_cast<std::int64_t>(value));
  } else if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
    return weak_scalar(static_cast<double>(value));
  } else if constexpr (std::is_same_v<T, complex64_t>) {
    return weak_scalar(complex128_t(value));
  } else {
    return strong_scalar(HostArray::scalar(value));
  }
}

/// One shard of an array: its device, its index into the global value, and its data where this process owns the device.
class Shard {
 public:
  Shard(Device device, Index index, int replica_id, std::optional<Array> data, Shape full_shape = {})
      : device_(device),
        index_(std::move(index)),
        replica_id_(replica_id),
        data_(std::move(data)),
        full_shape_(std::move(full_shape)) {}
  const Device& device() const& { return device_; }
  Device device() const&& { return device_; }
  /// One slice per dimension of the global value.
  const Index& index() const& { return index_; }
  Index index() const&& { return index_; }
  /// Position among the shards with an equal index, in mesh order from 0.
  int replica_id() const { return replica_id_; }
  /// Empty exactly when the device belongs to another process.
  const std::optional<Array>& data() const& { return data_; }
  std::optional<Array> data() const&& { return data_; }
  /// Throws `StateError` naming the device and its process when there is no data here.
  const Array& value(const Loc& loc = Loc::current()) const&;
  Array value(const Loc& loc = Loc::current()) const&& { return value(loc); }
  /// The data without padding: `value()`, which may be shorter than others where an extent does not divide.
  const Array& unpadded(const Loc& loc = Loc::current()) const& { return value(loc); }
  Array unpadded(const Loc& loc = Loc::current()) const&& { return value(loc); }
  /// The data at the size of the largest shard, on the same device: zeros follow the data in each dimension.
  Array padded(const Loc& loc = Loc::current()) const;

 private:
  Device device_;
  Index index_;
  int replica_id_;
  std::optional<Array> data_;
  Shape full_shape_;  // of the largest shard; empty: that of the data
};
/// "Shard(device=CpuDevice(id=0), index=(slice(0, 2, None),), replica_id=0, data=[0, 1])"; "data=None" for a remote
/// one.
std::string to_string(const Shard& s);

/// The shards of an array at one moment. Copies share them, and they outlive the array.
class ShardList {
 public:
  using value_type = Shard;
  using const_iterator = const Shard*;
  ShardList() = default;
  explicit ShardList(std::shared_ptr<const std::vector<Shard>> shards) : shards_(std::move(shards)) {}
  std::size_t size() const { return shards_ ? shards_->size() : 0; }
  bool empty() const { return size() == 0; }
  const Shard* data() const { return shards_ ? shards_->data() : nullptr; }
  const Shard* begin() const { return data(); }
  const Shard* end() const { return data() + size(); }
  const Shard& operator[](std::size_t i) const& { return (*shards_)[i]; }
  const Shard operator[](std::size_t i) const&& { return (*shards_)[i]; }
  const Shard& front() const& { return shards_->front(); }
  const Shard front() const&& { return shards_->front(); }
  const Shard& back() const& { return shards_->back(); }
  const Shard back() const&& { return shards_->back(); }
  /// Throws `IndexError`.
  const Shard& at(std::size_t i, const Loc& loc = Loc::current()) const&;
  const Shard at(std::size_t i, const Loc& loc = Loc::current()) const&& { return at(i, loc); }

 private:
  std::shared_ptr<const std::vector<Shard>> shards_;
};

/// "Array([0, 1, 2], dtype=int32)"; shape and dtype alone where this process lacks data.
std::string to_string(const Array& a, const Loc& loc = Loc::current());
/// Writes `to_string(a)`.
std::ostream& operator<<(std::ostream& out, const Array& a);

/// `MultiProcess` unless this process owns every device, else by the number of devices.
ArrayKind kind(const Array& a, const Loc& loc = Loc::current());

// --- placement ------------------------------------------------------------------------------------
/// Copies host data to the default device, uncommitted.
Array device_put(const HostArray& value, const Loc& loc = Loc::current());
/// The array itself; a scalar literal becomes an array on the default device.
Array device_put(const Array& value, const Loc& loc = Loc::current());
/// Copies host data to one device, committed.
Array device_put(const HostArray& value, const Device& device, const Loc& loc = Loc::current());
/// Moves to one device, committed. Throws `ValueError` for a multi-process array, `DeletedArrayError`.
Array device_put(const Array& value, const Device& device, const Loc& loc = Loc::current());
/// Copies host data to the devices of a sharding, committed: each local device receives its shard, nothing is sent
/// between processes. Throws `IndivisibleError`, `ValueError` (rank too small, null sharding).
Array device_put(const HostArray& value, const ShardingPtr& sharding, const Loc& loc = Loc::current());
/// Reshards between any two shardings, committed; an equal sharding shares the buffers. Between equal device lists of
/// several processes it runs the collectives of a program, in which every process takes part. Inside a traced function
/// it is `with_sharding_constraint`. To an unreduced sharding, the first device along those axes keeps the value and
/// the others get zeros, which moves nothing; from one, the addends are summed, by a reduce-scatter where the new
/// sharding splits along their axes. Throws `IndivisibleError`, `ValueError` (rank too small, null sharding),
/// `UnimplementedError` for addends on other devices, `DeletedArrayError`.
Array device_put(const Array& value, const ShardingPtr& sharding, const Loc& loc = Loc::current());
/// With the mesh of the enclosing `shard_map` or of the current scope. Throws `StateError` where there is none.
Array device_put(const HostArray& value, const PartitionSpec& spec, const Loc& loc = Loc::current());
/// The same for an array on devices.
Array device_put(const Array& value, const PartitionSpec& spec, const Loc& loc = Loc::current());

/// Calls `data(index)` once per local device, or once in all where the sharding is fully replicated, and places the
/// results without communication. Of an unreduced sharding the results are addends, in the order of the mesh. Throws
/// `ValueError` for a shard of the wrong shape, for mixed dtypes, for one that is
/// not `dtype`, and without `dtype` where this process has no device of the sharding.
Array make_array_from_callback(const Shape& shape, const ShardingPtr& sharding,
                               const std::function<HostArray(const Index&)>& data,
                               std::optional<DType> dtype = std::nullopt, const Loc& loc = Loc::current());
/// Adopts one single-device array per local device, in any order, without copying. Of an unreduced sharding each is its
/// device's addend. Throws `ValueError` for an array with more than one shard, a device that is missing, repeated or
/// not in the sharding, and for shapes and dtypes that do not fit.
Array make_array_from_single_device_arrays(const Shape& shape, const ShardingPtr& sharding,
                                           std::span<const Array> arrays, std::optional<DType> dtype = std::nullopt,
                                           const Loc& loc = Loc::current());
/// The same from a vector.
inline Array make_array_from_single_device_arrays(const Shape& shape, const ShardingPtr& sharding,
                                                  const std::vector<Array>& arrays,
                                                  std::optional<DType> dtype = std::nullopt,
                                                  const Loc& = Loc::current()) {
  return make_array_from_single_device_arrays(shape, sharding, std::span<const Array>(arrays), dtype);
}

/// All arrays that are alive, on every client; of one platform where it is named. Throws `StateError` for an unknown
/// platform.
std::vector<Array> live_arrays(std::string_view platform = {}, const Loc& loc = Loc::current());

/// Bytes that crossed between devices or came from the host, and how often, since the program began.
struct TransferStats {
  std::int64_t bytes = 0;
  std::int64_t moves = 0;
};
/// The counters of this process.
TransferStats transfer_stats();

}  // namespace tessera

template <>
struct std::hash<tessera::Array> {
  hash() = delete;  // arrays compare element by element
};
