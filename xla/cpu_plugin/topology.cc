// SPDX-License-Identifier: Apache-2.0
// What a client's devices are, apart from the client.
#include "entries.h"
#include "objects.h"

namespace xla_cpu {

namespace {
std::unique_ptr<PJRT_TopologyDescription> topology_of(const xla::PjRtClient& client) {
  auto out = std::make_unique<PJRT_TopologyDescription>();
  out->topology = value(client.GetTopologyDescription());
  out->owned = out->topology->DeviceDescriptions();
  for (const auto& description : out->owned) {
    PJRT_DeviceDescription& d = out->descriptions.emplace_back();
    d.description = description.get();
    d.attributes.emplace(description->Attributes());
    out->pointers.push_back(&d);
  }
  return out;
}
}  // namespace

void client_topology(PJRT_Client_TopologyDescription_Args& args) {
  std::lock_guard lock(args.client->mutex);
  if (args.client->topology == nullptr) args.client->topology = topology_of(*args.client->client);
  args.topology = args.client->topology.get();
}
// The client has it: without PJRT_TopologyDescription_Create there are no others.
void topology_destroy(PJRT_TopologyDescription_Destroy_Args&) {}
void topology_platform_name(PJRT_TopologyDescription_PlatformName_Args& args) {
  give(args.topology->topology->platform_name(), args.platform_name, args.platform_name_size);
}
void topology_platform_version(PJRT_TopologyDescription_PlatformVersion_Args& args) {
  give(args.topology->topology->platform_version(), args.platform_version, args.platform_version_size);
}
void topology_descriptions(PJRT_TopologyDescription_GetDeviceDescriptions_Args& args) {
  args.descriptions = args.topology->pointers.data();
  args.num_descriptions = args.topology->pointers.size();
}
void topology_serialize(PJRT_TopologyDescription_Serialize_Args& args) {
  auto kept = std::make_unique<PJRT_SerializedTopology>();
  kept->bytes = value(args.topology->topology->Serialize());
  give(kept->bytes, args.serialized_bytes, args.serialized_bytes_size);
  args.serialized_topology = kept.release();
  args.serialized_topology_deleter = [](PJRT_SerializedTopology* t) { delete t; };
}
void topology_attributes(PJRT_TopologyDescription_Attributes_Args& args) {
  args.attributes = nullptr;
  args.num_attributes = 0;
}

}  // namespace xla_cpu
