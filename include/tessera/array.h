// SPDX-License-Identifier: Apache-2.0
// The one array type: shape, dtype, sharding, and one piece of data a device.
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
#include "tessera/host_array.h"
#include "tessera/loc.h"
#include "tessera/shape.h"
#include "tessera/sharding.h"

namespace tessera {

namespace array {
struct ArrayImpl;
}

class Shard;

template <class T>
concept Number = std::is_arithmetic_v<T> || std::same_as<T, float16_t> || std::same_as<T, bfloat16_t> ||
    std::same_as<T, complex64_t> || std::same_as<T, complex128_t>;

/// How an array lies on devices, in the words of older code.
enum class ArrayKind { SingleDevice, MultiDevice, MultiProcess };

/// Immutable global array: a cheap handle to shared state, usable from several threads. Inside a traced function it
/// stands for a value of the program, which has a shape and a dtype but no data.
class Array {
 public:
  /// Uninitialised: any use throws `StateError`.
  Array() = default;
  /// Rank 0, weakly typed as a number written in the program is (int and long: int32 where it fits; float, double:
  /// float32), except for the explicit 8-, 16-bit, unsigned, complex128 and half types, which keep theirs.
  template <Number T>
  explicit Array(T value) : Array(scalar(value)) {}
  /// On the default device, uncommitted; the data is copied.
  explicit Array(const HostArray& value);

  bool defined() const { return impl_ != nullptr; }
  const Shape& shape() const;
  std::int64_t shape(std::int64_t dim) const;
  DType dtype() const;
  /// Promotes as a number written in the program does.
  bool weak_type() const;
  std::int64_t ndim() const;
  std::int64_t size() const;
  /// Bytes of the global value.
  std::int64_t nbytes() const;
  /// Bytes on this process's devices, replicas counted as often as there are devices.
  std::int64_t device_bytes() const;
  /// True inside a traced function.
  bool is_traced() const;

  /// Answers after deletion too. Throws `ConcretizationError` for a traced array.
  const ShardingPtr& sharding() const;
  /// Placed explicitly: it does not move by itself to join others.
  bool committed() const;
  /// In mesh order. Throws `DeletedArrayError`.
  std::span<const Device> devices() const;
  DeviceSet device_set() const;
  bool is_fully_addressable() const;
  bool is_fully_replicated() const;

  /// One shard a local device, in mesh order; made on first use and kept.
  std::span<const Shard> addressable_shards() const;
  /// One shard a device of every process, in mesh order; remote ones have no data.
  std::span<const Shard> global_shards() const;
  /// Piece i of this process as an array on one device. Throws `IndexError`.
  const Array& addressable_data(std::int64_t i) const;

  /// The whole value, gathered once and kept. Throws `NotAddressableError` when this process lacks a piece,
  /// `ConcretizationError` for a traced array, `DeletedArrayError`, and what the computation threw.
  const HostArray& host(const Loc& loc = Loc::current()) const;
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
  /// Truth of the single element.
  explicit operator bool() const;

  /// Waits for this process's pieces; a failed computation throws here. Returns the array itself.
  const Array& block_until_ready() const;
  /// Frees the memory; shape, dtype and sharding still answer.
  void delete_();
  bool is_deleted() const;

  /// Names of older code.
  [[deprecated("use addressable_shards()")]] std::span<const Shard> local_shards() const;
  [[deprecated("use addressable_data(i)")]] const Array& local_data(std::int64_t i) const;

  // For the rooms above.
  explicit Array(std::shared_ptr<array::ArrayImpl> impl) : impl_(std::move(impl)) {}
  const std::shared_ptr<array::ArrayImpl>& impl() const { return impl_; }

 private:
  template <Number T>
  static Array scalar(T value);
  const HostArray& single(const Loc& loc) const;
  std::shared_ptr<array::ArrayImpl> impl_;
};

/// Weak or strong rank-0 arrays from host numbers.
Array weak_scalar(bool v);
Array weak_scalar(std::int64_t v);
Array weak_scalar(double v);
Array weak_scalar(complex128_t v);
Array strong_scalar(const HostArray& rank0);

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

/// One piece of an array.
class Shard {
 public:
  Shard(Device device, Index index, int replica_id, std::optional<Array> data, Shape full_shape = {})
      : device_(device),
        index_(std::move(index)),
        replica_id_(replica_id),
        data_(std::move(data)),
        full_shape_(std::move(full_shape)) {}
  const Device& device() const { return device_; }
  const Index& index() const { return index_; }
  int replica_id() const { return replica_id_; }
  /// Empty exactly when the device belongs to another process.
  const std::optional<Array>& data() const { return data_; }
  /// Throws `StateError` naming the device and its process when there is no data here.
  const Array& value() const;
  /// The true piece: `value()`, which may be shorter than others where an extent does not divide.
  const Array& unpadded() const { return value(); }
  /// The piece at the size of the largest one, on the same device: zeros follow the data in each dimension.
  Array padded() const;

 private:
  Device device_;
  Index index_;
  int replica_id_;
  std::optional<Array> data_;
  Shape full_shape_;  // of the largest piece; empty: that of the data
};
std::string to_string(const Shard& s);

/// "Array([0, 1, 2], dtype=int32)"; shape and dtype alone where this process lacks data.
std::string to_string(const Array& a);
std::ostream& operator<<(std::ostream& out, const Array& a);

ArrayKind kind(const Array& a);

// --- placement ------------------------------------------------------------------------------------
/// On the default device, uncommitted; an `Array` stays as it is.
Array device_put(const HostArray& value);
Array device_put(const Array& value);
/// Committed to one device. Throws `ValueError` for a multi-process array.
Array device_put(const HostArray& value, const Device& device);
Array device_put(const Array& value, const Device& device);
/// Committed to a sharding; between any two shardings. An equal sharding gives the same buffers. Inside a traced
/// function it is a constraint. Throws `IndivisibleError`, `ValueError` (rank too small), `DeletedArrayError`.
Array device_put(const HostArray& value, const ShardingPtr& sharding);
Array device_put(const Array& value, const ShardingPtr& sharding);
/// With the mesh of the current scope. Throws `StateError` asking for a mesh where there is none.
Array device_put(const HostArray& value, const PartitionSpec& spec);
Array device_put(const Array& value, const PartitionSpec& spec);

/// Calls `data(index)` once per local device, or once in all where the sharding is fully replicated. Throws
/// `ValueError` for a piece of the wrong shape, for mixed dtypes and for one that is not `dtype`.
Array make_array_from_callback(const Shape& shape, const ShardingPtr& sharding,
                               const std::function<HostArray(const Index&)>& data,
                               std::optional<DType> dtype = std::nullopt);
/// Adopts one single-device array a local device, in any order, without copying.
Array make_array_from_single_device_arrays(const Shape& shape, const ShardingPtr& sharding,
                                           std::span<const Array> arrays, std::optional<DType> dtype = std::nullopt);
inline Array make_array_from_single_device_arrays(const Shape& shape, const ShardingPtr& sharding,
                                                  const std::vector<Array>& arrays,
                                                  std::optional<DType> dtype = std::nullopt) {
  return make_array_from_single_device_arrays(shape, sharding, std::span<const Array>(arrays), dtype);
}

/// All arrays that are alive, on every client; of one platform where it is named. Throws `StateError` for an unknown
/// platform.
std::vector<Array> live_arrays(std::string_view platform = {});

/// Bytes that crossed between devices or came from the host, and how often, since the program began.
struct TransferStats {
  std::int64_t bytes = 0;
  std::int64_t moves = 0;
};
TransferStats transfer_stats();

}  // namespace tessera

template <>
struct std::hash<tessera::Array> {
  hash() = delete;  // arrays compare element by element
};
