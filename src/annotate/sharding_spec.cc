// SPDX-License-Identifier: Apache-2.0
#include <mutex>
#include <set>

#include "annotate/annotate.h"
#include "base/report/log.h"
#include "base/strings.h"
#include "program/trace.h"
#include "tessera/annotate_input.h"
#include "tessera/error.h"
#include "tessera/multihost.h"

namespace tessera {

namespace {

void log_once(const std::string& line) {
  static std::mutex mutex;
  static auto* said = new std::set<std::string>;
  std::lock_guard lock(mutex);
  if (said->insert(line).second) base::log(LogLevel::Warning, line);
}

// The spec that data of this shape goes under: the given one, or replication where that cannot apply.
PartitionSpec fitting(const ShardingSpec& s, const Shape& shape) {
  if (s.can_apply(shape)) return s.partition_spec();
  log_once(str("device_put: partition_spec = ", s.partition_spec(), " has ", s.partition_spec().size(),
               " entries and cannot apply to data of rank ", rank(shape), ", which is replicated"));
  return PartitionSpec(std::vector<SpecEntry>(shape.size(), SpecEntry(none)));
}

Array put_minibatch(const HostArray& value, const ShardingSpec& s) {
  const char* name = "device_put";
  if (value.ndim() == 0) {
    throw ValueError(str(name, ": a minibatch of rank 0 has no batch dimension; expected rank 1 or more"));
  }
  NamedSharding sharding = annotate::checked_sharding(name, s.mesh(), s.partition_spec(), value.ndim());
  std::int64_t parts = 1;
  for (int a : sharding.dim_axes(0)) parts *= s.mesh().mesh_shape()[static_cast<std::size_t>(a)];
  if (parts != s.mesh().size()) {
    throw ValueError(str(name, ": minibatch with partition_spec = ", s.partition_spec(), " cuts dimension 0 into ",
                         parts, " parts; expected the batch dimension over all ", s.mesh().size(), " devices"));
  }
  auto local = static_cast<std::int64_t>(s.mesh().local_devices().size());
  if (local == 0)
    throw ValueError(str(name, ": minibatch: this process has 0 devices of the mesh; expected at least 1"));
  if (value.shape()[0] % local != 0) {
    throw ValueError(str(name, ": minibatch of shape ", value.shape(), " has ", value.shape()[0],
                         " rows; expected a number divisible by ", local, ", the local devices"));
  }
  Shape global = value.shape();
  global[0] = global[0] / local * s.mesh().size();
  return make_array_from_process_local_data(sharding.share(), value, global);
}

}  // namespace

ShardingSpec::ShardingSpec(const Mesh& mesh, const PartitionSpec& partition_spec, const ShardingSpecOptions& options,
                           const Loc&)
    : mesh_(mesh), spec_(partition_spec), minibatch_(options.minibatch) {
  mesh_.op_sharding(spec_);
}

bool ShardingSpec::can_apply(const Shape& shape) const { return shape.size() == spec_.size(); }
std::optional<NamedSharding> ShardingSpec::for_shape(const Shape& shape, const Loc&) const {
  if (!can_apply(shape)) return std::nullopt;
  return annotate::checked_sharding("ShardingSpec", mesh_, spec_, rank(shape));
}

Array ShardingSpec::apply(const Array& x, const Loc&) const {
  const auto& impl = *arrays::checked(x, "ShardingSpec::apply");
  if (impl.trace == 0 && !impl.literal) {
    auto wanted = Client::current().platform();
    auto own = x.devices()[0].platform();
    if (own != wanted) {
      throw ValueError(str("ShardingSpec::apply: device of the array is of the kind ", own, "; expected ", wanted,
                           ", that of the default device"));
    }
  }
  return mark_sharding(x, mesh_, spec_);
}

Array device_put(const HostArray& value, const ShardingSpec& spec, const Loc&) {
  if (spec.minibatch()) return put_minibatch(value, spec);
  PartitionSpec fit = fitting(spec, value.shape());
  return device_put(value, annotate::checked_sharding("device_put", spec.mesh(), fit, value.ndim()).share());
}
Array device_put(const Array& value, const ShardingSpec& spec, const Loc&) {
  arrays::checked(value, "device_put");
  bool traced = program::Trace::current() != nullptr;
  if (spec.minibatch() && !traced) return put_minibatch(value.host(), spec);
  PartitionSpec fit = fitting(spec, value.shape());
  return device_put(value, annotate::checked_sharding("device_put", spec.mesh(), fit, value.ndim()).share());
}

}  // namespace tessera
