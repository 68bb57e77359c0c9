// SPDX-License-Identifier: Apache-2.0
// XLA, or whatever else a PJRT plugin holds, as an engine: it takes programs as StableHLO before they are partitioned.
#pragma once

#include <memory>

#include "engines/pjrt/host_calls.h"
#include "engines/pjrt/plugin_client.h"
#include "runtime/engine.h"

namespace tessera::pjrt_engine {

/// Throws what loading a plugin and making its client throw.
PluginClientPtr open_client(const PjrtOptions& options);

/// `memory` is the host's, for copies.
std::shared_ptr<runtime::Engine> make_engine(PluginClientPtr client, std::shared_ptr<runtime::MemoryPool> memory);

/// What a device holds of an argument or a result: shards that are shorter than others are filled up.
Shape device_shape(const Shape& shape, const ir::Layout& layout, const ir::MeshAxes& mesh);
/// The program on arguments and results that are filled up to be split evenly.
ir::GraphPtr with_even_ports(const ir::Module& module);

/// A module in the words of the plugin's compiler: StableHLO with Shardy's shardings. Throws `UnimplementedError` where
/// XLA cannot take it: sums that are not complete, element types that arrays do not have, calls of the host where the
/// plugin cannot make them. Functions of the host that it calls are added to `host_calls`.
std::string program_text(const ir::Module& module, const PluginClient& client, HostCalls& host_calls);
/// xla.CompileOptionsProto: one partition for each of these device ids.
std::string compile_options(const std::vector<std::int64_t>& device_ids, const std::string& platform);

/// A program that the plugin has compiled, one device for each position of its module's mesh.
std::shared_ptr<runtime::Executable> compile(const PluginClientPtr& client,
                                             const std::shared_ptr<runtime::MemoryPool>& memory,
                                             const ir::Module& module, const sharding::DeviceList& devices);

}  // namespace tessera::pjrt_engine
