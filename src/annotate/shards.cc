// SPDX-License-Identifier: Apache-2.0
// Host snapshots of shards, and the handle whose shards can be replaced.
#include <algorithm>

#include "annotate/annotate.h"
#include "base/strings.h"
#include "core/strided_copy.h"
#include "tessera/error.h"

namespace tessera {

namespace {
void copy_block(void* to, const Shape& to_shape, const void* from, const Shape& from_shape, const Shape& block,
                std::int64_t item) {
  core::copy_strided(to, core::contiguous_strides(to_shape, item), from, core::contiguous_strides(from_shape, item),
                     block, item);
}
}  // namespace

HostArray HostShard::unpadded(const Loc&) const {
  HostArray out(data_.dtype(), real_);
  copy_block(out.data(), real_, data_.data(), data_.shape(), real_, dtype_size(data_.dtype()));
  return out;
}
void HostShard::set_unpadded(const HostArray& value, const Loc&) {
  if (value.dtype() != data_.dtype()) {
    throw TypeError(
        str("set_unpadded: value has dtype ", dtype_name(value.dtype()), "; expected ", dtype_name(data_.dtype())));
  }
  if (value.shape() != real_) {
    throw ValueError(str("set_unpadded: value has shape ", value.shape(), "; expected ", real_, ", the real part"));
  }
  // A snapshot shares its memory with its copies.
  HostArray own(data_.view());
  copy_block(own.data(), own.shape(), value.data(), real_, real_, dtype_size(own.dtype()));
  data_ = std::move(own);
}

ShardedTensor::ShardedTensor(Array array, const Loc&) : array_(std::move(array)) {
  if (arrays::checked(array_, "ShardedTensor")->trace != 0) {
    throw ValueError("ShardedTensor: array is a value of a traced function; expected one with data");
  }
  if (!is_annotated(array_)) {
    throw ValueError(str("ShardedTensor: array of shape ", array_.shape(),
                         " has no annotation; expected the result of mark_sharding"));
  }
}

std::string ShardedTensor::sharding_spec(const Loc&) const {
  auto s = op_sharding(array_);
  return s ? s->hlo_v1() : "";
}

std::vector<HostShard> ShardedTensor::local_shards(const Loc&) const {
  std::vector<HostShard> out;
  for (const Shard& s : array_.addressable_shards()) {
    out.emplace_back(s.device(), s.index(), s.replica_id(), s.padded().host(), s.value().shape());
  }
  std::ranges::sort(out, {}, [](const HostShard& s) { return s.device().id(); });
  return out;
}

void ShardedTensor::load_local_shards(const std::vector<HostShard>& shards, const Loc&) {
  auto own = local_shards();
  if (shards.size() != own.size()) {
    throw ValueError(str("load_local_shards: shards has ", shards.size(), " entries; expected ", own.size(),
                         ", one a local device"));
  }
  std::vector<Array> shard_buffers;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const HostShard& s = shards[i];
    if (!(s.device() == own[i].device()) || s.index() != own[i].index()) {
      throw ValueError(str("load_local_shards: shards[", i, "] is of device ", s.device(), " and index ", s.index(),
                           "; expected ", own[i].device(), " and ", own[i].index()));
    }
    HostArray shard_buffer = s.unpadded();
    if (shard_buffer.dtype() != array_.dtype()) {
      throw TypeError(str("load_local_shards: shards[", i, "] has dtype ", dtype_name(shard_buffer.dtype()),
                          "; expected ", dtype_name(array_.dtype())));
    }
    shard_buffers.push_back(device_put(shard_buffer, s.device()));
  }
  array_ = make_array_from_single_device_arrays(array_.shape(), array_.sharding(), shard_buffers, array_.dtype());
}

}  // namespace tessera
