// SPDX-License-Identifier: Apache-2.0
#include "engines/pjrt/plugin_programs.h"

#include <cstdlib>

#include "base/strings.h"
#include "program/program.h"
#include "support/random_graphs.h"
#include "support/spmd_simulator.h"
#include "support/test_client.h"
#include "tessera/tessera.h"

namespace tessera::test {

Client plugin_client() {
  static const Client client = [] {
    if (std::getenv("TESSERA_TEST_PLUGIN") == nullptr) ::setenv("TESSERA_TEST_PLUGIN", TESSERA_PJRT_LIBRARY, 1);
    return test_client(8);
  }();
  return client;
}

namespace {

ShardingPtr sharding_of(const std::optional<ir::Layout>& layout, const Mesh& mesh) {
  if (!layout) return nullptr;
  std::vector<SpecEntry> entries;
  for (const auto& dim : layout->dims) {
    std::vector<AxisRef> axes;
    for (auto a : dim) axes.emplace_back(mesh.axis_names()[a]);
    entries.push_back(axes.empty() ? SpecEntry(none) : SpecEntry(axes));
  }
  return NamedSharding(mesh, PartitionSpec(entries)).share();
}

std::string check(const RandomProgram& p, const Client& client) {
  ClientScope scope(client);
  const ir::MeshAxes& axes = *p.module.mesh;
  Mesh mesh = make_mesh(axes.sizes, AxisNames(axes.names), client.devices());
  program::ProgramOptions options;
  std::vector<Array> args;
  for (std::size_t i = 0; i < p.args.size(); ++i) {
    ShardingPtr sharding = sharding_of(p.module.inputs[i].layout, mesh);
    if (!sharding) sharding = NamedSharding(mesh, P()).share();
    args.push_back(device_put(p.args[i], sharding));
  }
  for (const auto& port : p.module.outputs) options.out_shardings.push_back(sharding_of(port.layout, mesh));
  program::Program program(p.module.graph, std::move(options));
  const std::vector<Array> got = program.call(args);
  for (std::size_t i = 0; i < got.size(); ++i) {
    std::string d = difference(got[i].host(), p.expected[i], p.tolerance);
    if (!d.empty()) return str("result ", i, ": ", d);
  }
  return "";
}

}  // namespace

PluginOutcome run_random_program(std::uint64_t seed, const Client& client) {
  const auto meshes = test_meshes();
  try {
    return {check(random_program(seed, meshes[seed % meshes.size()]), client), false};
  } catch (const UnimplementedError&) {
    return {"", true};
  } catch (const std::exception& e) {
    return {e.what(), false};
  }
}

}  // namespace tessera::test
