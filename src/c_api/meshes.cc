// SPDX-License-Identifier: Apache-2.0
// Clients, meshes and shardings.
#include "c_api/handles.h"

using namespace tessera;         // NOLINT(google-build-using-namespace): the functions of the border are global
using namespace tessera::c_api;  // NOLINT(google-build-using-namespace)

tessera_error* tessera_client_cpu(const tessera_cpu_options* options, tessera_client** client) {
  return make(__func__, "client", client, [&] {
    const tessera_cpu_options o = read_options("tessera_client_cpu", options);
    return Client::cpu({.devices = o.devices == 0 ? 1 : o.devices, .memory_limit = o.memory_limit});
  });
}
tessera_error* tessera_client_pjrt(const tessera_pjrt_options* options, tessera_client** client) {
  return make(__func__, "client", client, [&] {
    const tessera_pjrt_options o = read_struct("tessera_client_pjrt", "options", options);
    PjrtOptions to;
    to.plugin = text_of("tessera_client_pjrt", "options.plugin", o.plugin);
    if (o.compilation_cache != nullptr) to.compilation_cache = o.compilation_cache;
    return Client::pjrt(to);
  });
}
tessera_error* tessera_client_from_environment(int64_t cpu_devices, tessera_client** client) {
  return make(__func__, "client", client, [&] { return Client::from_environment(cpu_devices); });
}
void tessera_client_free(tessera_client* client) { delete client; }

tessera_error* tessera_client_platform(const tessera_client* client, tessera_string** platform) {
  return make(__func__, "platform", platform,
              [&] { return std::string(need("tessera_client_platform", "client", client).client.platform()); });
}
tessera_error* tessera_client_devices(const tessera_client* client, int64_t* ids, size_t capacity, size_t* count) {
  return guarded([&] {
    const char* function = "tessera_client_devices";
    std::vector<int64_t> known;
    for (const Device& d : need(function, "client", client).client.devices()) known.push_back(d.id());
    give_list(function, "ids", known, ids, capacity, count);
  });
}
tessera_error* tessera_client_device_info(const tessera_client* client, int64_t id, tessera_device_info* info) {
  return guarded([&] {
    const char* function = "tessera_client_device_info";
    const Device d = need(function, "client", client).client.device(id);
    write_struct(
        function, "info", info,
        {.struct_size = 0, .id = d.id(), .process_index = d.process_index(), .is_local = d.is_local() ? 1 : 0});
  });
}

namespace {
std::vector<std::string> axis_names(const char* function, const char* const* names, std::size_t rank) {
  std::vector<std::string> out;
  const auto given = list(function, "names", names, rank, kMostDims);
  for (std::size_t i = 0; i < rank; ++i) out.push_back(text_of(function, str("names[", i, "]").c_str(), given[i]));
  return out;
}
}  // namespace

tessera_error* tessera_mesh_create(const tessera_client* client, const int64_t* sizes, const char* const* names,
                                   size_t rank, const tessera_mesh_options* options, tessera_mesh** mesh) {
  return make(__func__, "mesh", mesh, [&] {
    const char* function = "tessera_mesh_create";
    const Client& of = need(function, "client", client).client;
    const auto extents = list(function, "sizes", sizes, rank, kMostDims);
    const Shape shape(extents.begin(), extents.end());
    const AxisNames axes(axis_names(function, names, rank));
    const tessera_mesh_options o = read_options(function, options);
    if (o.device_ids == nullptr) return make_mesh(shape, axes, of.devices());
    std::vector<Device> devices;
    for (int64_t id : list(function, "options.device_ids", o.device_ids, o.device_count, kMostArrays)) {
      devices.push_back(of.device(id));
    }
    return Mesh(DeviceArray(std::move(devices), shape), axes);
  });
}
void tessera_mesh_free(tessera_mesh* mesh) { delete mesh; }
tessera_error* tessera_mesh_text(const tessera_mesh* mesh, tessera_string** text) {
  return make_text(__func__, text, [&] { return to_string(need("tessera_mesh_text", "mesh", mesh).mesh); });
}

tessera_error* tessera_sharding_named(const tessera_mesh* mesh, const char* const* spec, size_t rank,
                                      const tessera_sharding_options* options, tessera_sharding** sharding) {
  return make(__func__, "sharding", sharding, [&] {
    const char* function = "tessera_sharding_named";
    const Mesh& over = need(function, "mesh", mesh).mesh;
    std::vector<SpecEntry> entries;
    for (const char* axes : list(function, "spec", spec, rank, kMostDims)) {
      const auto names = names_in(axes);
      entries.push_back(names.empty() ? SpecEntry(none) : SpecEntry(names));
    }
    const tessera_sharding_options o = read_options(function, options);
    const auto unreduced = names_in(o.unreduced);
    const PartitionSpec parts = PartitionSpec(std::move(entries)).with_unreduced({unreduced.begin(), unreduced.end()});
    NamedOptions to{.uneven = o.uneven != 0};
    if (o.memory_kind != nullptr) to.memory_kind = o.memory_kind;
    return NamedSharding(over, parts, to).share();
  });
}
tessera_error* tessera_sharding_single_device(const tessera_client* client, int64_t device_id,
                                              tessera_sharding** sharding) {
  return make(__func__, "sharding", sharding, [&] {
    const Client& of = need("tessera_sharding_single_device", "client", client).client;
    return SingleDeviceSharding(of.device(device_id)).share();
  });
}
void tessera_sharding_free(tessera_sharding* sharding) { delete sharding; }

tessera_error* tessera_sharding_shard_shape(const tessera_sharding* sharding, const int64_t* shape, size_t rank,
                                            int64_t* shard_shape) {
  return guarded([&] {
    const char* function = "tessera_sharding_shard_shape";
    const Sharding& s = *need(function, "sharding", sharding).sharding;
    const Shape global = shape_of(function, shape, rank);
    size_of(global);  // a shape that there can be
    const Shape shard = s.shard_shape(global);
    if (rank > 0) check_room(function, "shard_shape", shard_shape, rank, shard.size());
    std::copy(shard.begin(), shard.end(), shard_shape);
  });
}
tessera_error* tessera_sharding_equal(const tessera_sharding* a, const tessera_sharding* b, int32_t* equal) {
  return guarded([&] {
    const char* function = "tessera_sharding_equal";
    need(function, "equal", equal) = 0;
    *equal = *need(function, "a", a).sharding == *need(function, "b", b).sharding ? 1 : 0;
  });
}
tessera_error* tessera_sharding_text(const tessera_sharding* sharding, tessera_string** text) {
  return make_text(__func__, text,
                   [&] { return to_string(need("tessera_sharding_text", "sharding", sharding).sharding); });
}
