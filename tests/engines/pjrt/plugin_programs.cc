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

std::string plugin_path_of_test() {
  if (std::getenv("TESSERA_TEST_PLUGIN") == nullptr) ::setenv("TESSERA_TEST_PLUGIN", TESSERA_PJRT_LIBRARY, 1);
  return std::getenv("TESSERA_TEST_PLUGIN");
}

Client plugin_client() {
  plugin_path_of_test();
  static const Client client = test_client(8);
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

std::string check(const RandomProgram& p, const Client& client, bool split) {
  ClientScope scope(client);
  const ir::MeshAxes& axes = *p.module.mesh;
  Mesh mesh = make_mesh(axes.sizes, AxisNames(axes.names), client.devices());
  program::ProgramOptions options;
  std::vector<Array> args;
  for (std::size_t i = 0; i < p.args.size(); ++i) {
    ShardingPtr sharding = split ? sharding_of(p.module.inputs[i].layout, mesh) : nullptr;
    if (!sharding) sharding = NamedSharding(mesh, P()).share();
    args.push_back(device_put(p.args[i], sharding));
  }
  for (const auto& port : p.module.outputs) {
    options.out_shardings.push_back(split ? sharding_of(port.layout, mesh) : NamedSharding(mesh, P()).share());
  }
  program::Program program(p.module.graph, std::move(options));
  const std::vector<Array> got = program.call(args);
  for (std::size_t i = 0; i < got.size(); ++i) {
    // Where the plugin rounds between the steps of a product or sum of narrow numbers is its own choice.
    const bool narrow = is_inexact(p.expected[i].dtype()) && dtype_size(p.expected[i].dtype()) < 4;
    std::string d = difference(got[i].host(), p.expected[i], narrow ? 1e-2 : p.tolerance);
    if (!d.empty()) return str("result ", i, ": ", d);
  }
  return "";
}

}  // namespace

PluginOutcome run_random_program(std::uint64_t seed, const Client& client) {
  const auto meshes = test_meshes();
  const RandomProgram p = random_program(seed, meshes[seed % meshes.size()]);
  PluginOutcome out;
  auto difference_of = [&](bool split) -> std::string {
    try {
      return check(p, client, split);
    } catch (const UnimplementedError& e) {
      out.refused = true;
      return e.what();
    } catch (const std::exception& e) {
      return e.what();
    }
  };
  out.difference = difference_of(true);
  out.partitioner = !out.refused && !out.difference.empty() && difference_of(false).empty();
  return out;
}

}  // namespace tessera::test
