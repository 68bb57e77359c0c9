// SPDX-License-Identifier: Apache-2.0
// Arrays, from and to the caller's memory, and what they are.
#include "c_api/handles.h"
#include "tessera/dlpack.h"

namespace tessera::c_api {

namespace {

// Elements of `shape` as bytes; a shape that cannot be is refused.
std::size_t bytes_of(const char* function, DType dtype, const Shape& shape) {
  const std::int64_t n = size_of(shape);
  if (n > INT64_MAX / dtype_size(dtype)) {
    throw ValueError(str(function, ": shape = ", shape, " needs more bytes than 64 bits count"));
  }
  return static_cast<std::size_t>(n * dtype_size(dtype));
}

// The end of the last element that shape and strides reach.
std::size_t reach(const char* function, const HostArrayView& v, std::size_t limit) {
  __int128 end = dtype_size(v.dtype);
  for (std::size_t d = 0; d < v.shape.size(); ++d) {
    if (v.strides[d] < 0) {
      throw ValueError(str(function, ": buffer.strides[", d, "] = ", v.strides[d],
                           "; expected none below 0, as nothing before buffer.data may be read"));
    }
    end += static_cast<__int128>(v.shape[d] - 1) * v.strides[d];
    if (end > static_cast<__int128>(limit)) return limit + 1;
  }
  return static_cast<std::size_t>(end);
}

// Any byte but 0 and 1 is no bool: programs rely on it.
void make_bools(HostArray& a) {
  if (!is_bool(a.dtype())) return;
  auto* bytes = static_cast<unsigned char*>(a.data());
  for (std::int64_t i = 0; i < a.size(); ++i) bytes[i] = bytes[i] != 0 ? 1 : 0;
}

HostArray copied(const char* function, const tessera_host_buffer& b) {
  const DType dtype = dtype_of(function, b.dtype);
  const Shape shape = shape_of(function, b.shape, b.rank);
  const std::size_t bytes = bytes_of(function, dtype, shape);
  HostArray out(dtype, shape);
  if (bytes == 0) return out;
  HostArrayView view{dtype, shape, {}, &need(function, "buffer.data", static_cast<const char*>(b.data))};
  std::size_t wanted = bytes;
  if (b.strides != nullptr) {
    view.strides.assign(b.strides, b.strides + b.rank);
    wanted = reach(function, view, b.nbytes);
  }
  if (wanted > b.nbytes) {
    throw ValueError(
        str(function, ": buffer.nbytes = ", b.nbytes, " for elements of ", dtype_name(dtype), " in shape ", shape,
            b.strides == nullptr ? str("; expected ", bytes, " or more") : "; expected all that the strides reach"));
  }
  if (b.strides != nullptr) {
    out = HostArray(view);
  } else {
    std::memcpy(out.data(), view.data, bytes);
  }
  make_bools(out);
  return out;
}

const Array& array_of(const char* function, const tessera_array* array) { return need(function, "array", array).array; }

Shard shard_of(const char* function, const tessera_array* array, std::size_t i) {
  const ShardList shards = array_of(function, array).addressable_shards();
  if (i < shards.size()) return shards[i];
  throw IndexError(str(function, ": i = ", i, "; this process holds ", shards.size(), " shards"));
}

// Start and stop of every dimension.
std::pair<Dims, Dims> bounds_of(const Index& index, const Shape& shape) {
  std::pair<Dims, Dims> out;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const auto [start, stop] = index[d].resolve(shape[d]);
    out.first.push_back(start);
    out.second.push_back(stop);
  }
  return out;
}

}  // namespace

}  // namespace tessera::c_api

using namespace tessera;         // NOLINT(google-build-using-namespace): the functions of the border are global
using namespace tessera::c_api;  // NOLINT(google-build-using-namespace)

tessera_error* tessera_array_from_host(const tessera_host_buffer* buffer, const tessera_sharding* sharding,
                                       tessera_array** array) {
  return make(__func__, "array", array, [&] {
    const char* function = "tessera_array_from_host";
    const ShardingPtr& to = need(function, "sharding", sharding).sharding;
    return device_put(copied(function, read_struct(function, "buffer", buffer)), to);
  });
}

tessera_error* tessera_array_from_callback(tessera_dtype dtype, const int64_t* shape, size_t rank,
                                           const tessera_sharding* sharding, tessera_fill_shard fill, void* context,
                                           tessera_array** array) {
  return make(__func__, "array", array, [&] {
    const char* function = "tessera_array_from_callback";
    const DType type = dtype_of(function, dtype);
    const Shape global = shape_of(function, shape, rank);
    bytes_of(function, type, global);
    const ShardingPtr& to = need(function, "sharding", sharding).sharding;
    if (fill == nullptr) throw ValueError(str(function, ": fill is null; expected a function that writes a shard"));
    const auto written = [&](const Index& index) {
      const auto [start, stop] = bounds_of(index, global);
      Shape extents;
      for (std::size_t d = 0; d < rank; ++d) extents.push_back(stop[d] - start[d]);
      HostArray shard(type, extents);
      const auto nbytes = static_cast<std::size_t>(shard.nbytes());
      if (nbytes > 0) std::memset(shard.data(), 0, nbytes);
      if (const int32_t code = fill(context, start.data(), stop.data(), rank, shard.data(), nbytes); code != 0) {
        throw StateError(str(function, ": fill gave ", code, " for the shard ", to_string(index), "; expected 0"));
      }
      make_bools(shard);
      return shard;
    };
    return make_array_from_callback(global, to, written, type);
  });
}

tessera_error* tessera_array_put(const tessera_array* array, const tessera_sharding* sharding, tessera_array** result) {
  return make(__func__, "result", result, [&] {
    const char* function = "tessera_array_put";
    const Array& from = array_of(function, array);
    return device_put(from, need(function, "sharding", sharding).sharding);
  });
}

void tessera_array_free(tessera_array* array) { delete array; }
tessera_error* tessera_array_delete(tessera_array* array) {
  return guarded([&] { need("tessera_array_delete", "array", array).array.delete_(); });
}
tessera_error* tessera_array_is_deleted(const tessera_array* array, int32_t* deleted) {
  return guarded([&] {
    const char* function = "tessera_array_is_deleted";
    need(function, "deleted", deleted) = array_of(function, array).is_deleted() ? 1 : 0;
  });
}

tessera_error* tessera_array_dtype(const tessera_array* array, tessera_dtype* dtype) {
  return guarded([&] {
    const char* function = "tessera_array_dtype";
    need(function, "dtype", dtype) = static_cast<tessera_dtype>(array_of(function, array).dtype());
  });
}
tessera_error* tessera_array_shape(const tessera_array* array, int64_t* shape, size_t capacity, size_t* count) {
  return guarded([&] {
    const char* function = "tessera_array_shape";
    give_list(function, "shape", array_of(function, array).shape(), shape, capacity, count);
  });
}
tessera_error* tessera_array_nbytes(const tessera_array* array, size_t* nbytes) {
  return guarded([&] {
    const char* function = "tessera_array_nbytes";
    need(function, "nbytes", nbytes) = static_cast<size_t>(array_of(function, array).nbytes());
  });
}
tessera_error* tessera_array_sharding(const tessera_array* array, tessera_sharding** sharding) {
  return make(__func__, "sharding", sharding, [&] { return array_of("tessera_array_sharding", array).sharding(); });
}
tessera_error* tessera_array_text(const tessera_array* array, tessera_string** text) {
  return make_text(__func__, text, [&] { return to_string(array_of("tessera_array_text", array)); });
}
tessera_error* tessera_array_wait(const tessera_array* array) {
  return guarded([&] { array_of("tessera_array_wait", array).block_until_ready(); });
}
tessera_error* tessera_array_to_host(const tessera_array* array, void* data, size_t nbytes) {
  return guarded([&] {
    const char* function = "tessera_array_to_host";
    const Array& from = array_of(function, array);
    if (nbytes != static_cast<size_t>(from.nbytes())) {
      throw ValueError(str(function, ": nbytes = ", nbytes, " for an array of ", dtype_name(from.dtype()), " in shape ",
                           from.shape(), "; expected ", from.nbytes()));
    }
    if (nbytes > 0) need(function, "data", static_cast<char*>(data));
    const HostArray value = from.host();
    if (nbytes > 0) std::memcpy(data, value.data(), nbytes);
  });
}

tessera_error* tessera_array_shard_count(const tessera_array* array, size_t* count) {
  return guarded([&] {
    const char* function = "tessera_array_shard_count";
    need(function, "count", count) = array_of(function, array).addressable_shards().size();
  });
}
tessera_error* tessera_array_shard_info(const tessera_array* array, size_t i, tessera_shard_info* info) {
  return guarded([&] {
    const char* function = "tessera_array_shard_info";
    const Shard shard = shard_of(function, array, i);
    write_struct(function, "info", info,
                 {.struct_size = 0,
                  .device_id = shard.device().id(),
                  .replica_id = shard.replica_id(),
                  .nbytes = static_cast<size_t>(shard.value().nbytes())});
  });
}
tessera_error* tessera_array_shard_index(const tessera_array* array, size_t i, int64_t* start, int64_t* stop,
                                         size_t capacity, size_t* count) {
  return guarded([&] {
    const char* function = "tessera_array_shard_index";
    const Shard shard = shard_of(function, array, i);
    const auto [starts, stops] = bounds_of(shard.index(), array->array.shape());
    if (capacity > 0) check_room(function, "stop", stop, capacity, stops.size());
    give_list(function, "start", starts, start, capacity, count);
    if (capacity > 0) std::copy(stops.begin(), stops.end(), stop);
  });
}
tessera_error* tessera_array_shard(const tessera_array* array, size_t i, tessera_array** shard) {
  return make(__func__, "shard", shard, [&] { return shard_of("tessera_array_shard", array, i).value(); });
}

tessera_error* tessera_array_from_dlpack(DLManagedTensor* tensor, const tessera_sharding* sharding,
                                         tessera_array** array) {
  return make(__func__, "array", array,
              [&] { return from_dlpack(tensor, need("tessera_array_from_dlpack", "sharding", sharding).sharding); });
}
tessera_error* tessera_array_from_dlpack_versioned(DLManagedTensorVersioned* tensor, const tessera_sharding* sharding,
                                                   tessera_array** array) {
  return make(__func__, "array", array, [&] {
    return from_dlpack(tensor, need("tessera_array_from_dlpack_versioned", "sharding", sharding).sharding);
  });
}
tessera_error* tessera_array_to_dlpack(const tessera_array* array, int32_t copy, DLManagedTensor** tensor) {
  return guarded([&] {
    const char* function = "tessera_array_to_dlpack";
    need(function, "tensor", tensor) = nullptr;
    *tensor = to_dlpack(array_of(function, array), copy != 0);
  });
}
tessera_error* tessera_array_to_dlpack_versioned(const tessera_array* array, int32_t copy,
                                                 DLManagedTensorVersioned** tensor) {
  return guarded([&] {
    const char* function = "tessera_array_to_dlpack_versioned";
    need(function, "tensor", tensor) = nullptr;
    *tensor = to_dlpack_versioned(array_of(function, array), copy != 0);
  });
}
