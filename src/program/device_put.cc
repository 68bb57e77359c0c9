// SPDX-License-Identifier: Apache-2.0
#include "array/array_impl.h"
#include "base/strings.h"
#include "mesh/mesh_state.h"
#include "program/typed/typed_placement.h"
#include "sharding/fits.h"
#include "tessera/error.h"
#include "tessera/numpy.h"
#include "tessera/ops.h"
#include "tessera/sharding.h"
#include "tessera/transfer.h"

namespace tessera {

namespace detail {
HostArray host_of_leaf(const Array& leaf, const std::string& name) {
  if (!arrays::usable(leaf)) arrays::throw_unusable(leaf, "named_leaves", "leaf " + name);
  return leaf.host();
}
}  // namespace detail

HostArray device_get(const Array& x, const Loc&) { return x.host(); }
std::vector<HostArray> device_get(const std::vector<Array>& arrays, const Loc&) {
  std::vector<HostArray> out;
  out.reserve(arrays.size());
  for (const auto& a : arrays) out.push_back(a.host());
  return out;
}

namespace {
bool is_typed(const Sharding& s) {
  const auto* named = dynamic_cast<const NamedSharding*>(&s);
  return named != nullptr && !named->mesh().abstract_mesh().explicit_axes().empty();
}
}  // namespace

Array reshard(const Array& x, const ShardingPtr& sharding, const Loc&) {
  if (sharding && is_typed(*sharding)) {
    return program::reshard_typed(x, program::wanted_type(sharding, x.shape(), "reshard"), sharding, "reshard");
  }
  if (sharding) sharding::check_fits("reshard", "sharding", *sharding, x.shape());
  return with_sharding_constraint(x, sharding);
}
Array reshard(const Array& x, const PartitionSpec& spec, const Loc&) {
  arrays::checked(x, "reshard");
  // As in JAX, a mesh that is set decides that specs name its explicit axes; in an older scope it is a constraint.
  if (!program::is_typed_here(x) && !mesh::axes_are_set()) return with_sharding_constraint(x, spec);
  return program::reshard_typed(x, program::wanted_type(spec, x.shape(), "reshard"), spec, "reshard");
}

Array device_put_sharded(const std::vector<Array>& shards, const std::vector<Device>& devices, const Loc&) {
  if (shards.empty() || shards.size() != devices.size())
    throw ValueError(
        str("device_put_sharded: ", shards.size(), " shards for ", devices.size(), " devices; expected one for each"));
  std::vector<Array> placed;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    if (shards[i].shape() != shards[0].shape() || shards[i].dtype() != shards[0].dtype())
      throw ValueError(str("device_put_sharded: shard ", i, " is ", dtype_name(shards[i].dtype()), shards[i].shape(),
                           " and shard 0 ", dtype_name(shards[0].dtype()), shards[0].shape(), "; expected them equal"));
    placed.push_back(device_put(expand_dims(shards[i], 0), devices[i]));
  }
  Shape shape = placed[0].shape();
  shape[0] = static_cast<std::int64_t>(devices.size());
  return make_array_from_single_device_arrays(shape, PmapSharding(devices).share(), placed);
}
Array device_put_replicated(const Array& x, const std::vector<Device>& devices, const Loc&) {
  return device_put_sharded(std::vector<Array>(devices.size(), x), devices);
}

}  // namespace tessera
