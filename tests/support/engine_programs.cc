// SPDX-License-Identifier: Apache-2.0
#include "support/engine_programs.h"

#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include "base/strings.h"
#include "core/strided_copy.h"
#include "mesh/device_list.h"
#include "ops/control/subgraph_structure.h"
#include "ops/define_op.h"
#include "ops/transform/graph_rules.h"
#include "runtime/engine.h"
#include "runtime/verify_executable.h"
#include "support/spmd_simulator.h"
#include "tessera/config.h"

namespace tessera::test {

namespace {

using runtime::ShardBuffers;

std::shared_ptr<runtime::Executable> compile_on(const Client& client, ir::GraphPtr graph) {
  auto all = client.devices();
  auto list = mesh::intern_device_list({all.begin(), all.end()}, "test", "devices");
  return runtime::runtime_of(client).engine->compile(ir::module_of(std::move(graph)), std::move(list));
}

ir::GraphPtr whole(ir::Graph g) {
  for (auto& e : g.eqns) {
    auto control = ops::control_of(e);
    if (!control) continue;
    std::vector<ir::GraphPtr> bodies;
    for (const auto& body : control->bodies) bodies.push_back(whole(*body.graph));
    e.attrs = ops::with_bodies(e, bodies);
  }
  g.mesh = std::make_shared<const ir::MeshAxes>(ir::MeshAxes{{1}, {"d"}});
  g.layouts.clear();
  for (const auto& t : g.types) g.layouts.push_back(ir::Layout::replicated(t.rank()));
  return std::make_shared<const ir::Graph>(std::move(g));
}

// The shards of an array that processes of this client hold.
ShardBuffers cut(const HostArray& a, const ir::Layout& layout, const ir::MeshAxes& mesh, const Client& client) {
  auto map = runtime::shard_numbering(layout, mesh);
  auto tiles = scatter(a, layout, mesh);
  auto devices = client.devices();
  ShardBuffers out(at(map.count));
  for (std::int64_t p = 0; p < mesh.num_positions(); ++p) {
    auto& b = out[at(map.of_position[at(p)])];
    if (b || !devices[at(p)].is_local()) continue;
    const HostArray& tile = tiles[at(p)];
    std::int64_t bytes = tile.size() * dtype_size(tile.dtype());
    b = runtime::runtime_of(client).memory->allocate(bytes);
    std::memcpy(b->data(), tile.data(), at(bytes));
  }
  return out;
}

HostArray joined(const ShardBuffers& shards, const ir::Type& type, const ir::Layout& layout, const ir::MeshAxes& mesh) {
  auto map = runtime::shard_numbering(layout, mesh);
  Held held;
  for (std::int64_t p = 0; p < mesh.num_positions(); ++p) {
    auto tile = runtime::tile_at(type.shape, layout, mesh, p);
    HostArray a(type.dtype, tile.shape);
    const auto& b = shards[at(map.of_position[at(p)])];
    if (!b) throw StateError(str("position ", p, " has no shard"));
    if (b->nbytes() != a.size() * dtype_size(type.dtype)) {
      throw StateError(str("position ", p, " has ", b->nbytes(), " bytes for ", ir::Type{type.dtype, tile.shape}));
    }
    std::memcpy(a.data(), b->data(), at(b->nbytes()));
    held.push_back(std::move(a));
  }
  return gather(held, type.shape, layout, mesh);
}

std::vector<HostArray> run(const ir::Graph& g,
                           const std::function<std::vector<ShardBuffers>(std::vector<ShardBuffers>)>& program,
                           const std::vector<HostArray>& args, const Client& client) {
  std::vector<ShardBuffers> in;
  for (std::size_t i = 0; i < args.size(); ++i) in.push_back(cut(args[i], g.layout(g.inputs[i]), *g.mesh, client));
  std::vector<ShardBuffers> out = program(std::move(in));
  std::vector<HostArray> results;
  for (std::size_t i = 0; i < out.size(); ++i) {
    ir::ValueId v = g.outputs[i];
    results.push_back(joined(out[i], g.type(v), g.layout(v), *g.mesh));
  }
  return results;
}

std::vector<HostArray> run(const ir::Graph& g, runtime::Executable& program, const std::vector<HostArray>& args,
                           const Client& client) {
  return run(
      g, [&](std::vector<ShardBuffers> in) { return program.run(std::move(in)); }, args, client);
}

std::string first_difference(const std::vector<HostArray>& got, const std::vector<HostArray>& want, double tolerance,
                             const char* what) {
  for (std::size_t i = 0; i < want.size(); ++i) {
    std::string d = difference(got[i], want[i], tolerance);
    if (!d.empty()) return str("output ", i, " on the mesh and ", what, ": ", d);
  }
  return "";
}

}  // namespace

Client client_with(std::int64_t devices) {
  static std::mutex mutex;
  static std::map<std::int64_t, Client> clients;
  std::lock_guard lock(mutex);
  auto& c = clients[devices];
  if (!c) c = Client::cpu({.devices = devices});
  return c;
}

std::vector<HostArray> run_on_one(const ir::GraphPtr& graph, const std::vector<HostArray>& args) {
  auto g = whole(*graph);
  return run(*g, *compile_on(client_with(1), g), args, client_with(1));
}

std::vector<HostArray> run_plainly(const ir::GraphPtr& graph, const std::vector<HostArray>& args) {
  auto g = whole(*graph);
  Client client = client_with(1);
  auto& compiler = dynamic_cast<runtime::PlainCompiler&>(*runtime::runtime_of(client).engine);
  auto all = client.devices();
  auto program = compiler.compile_plainly(g, mesh::intern_device_list({all.begin(), all.end()}, "test", "devices"));
  return run(
      *g, [&](std::vector<ShardBuffers> in) { return program->run(std::move(in), 0); }, args, client);
}

std::vector<HostArray> run_on_mesh(const ir::Module& module, const std::vector<HostArray>& args, const Client& client) {
  auto g = spmd::partition(module);
  ir::verify(*g);
  return run(*g, *compile_on(client, g), args, client);
}

RandomProgram gradient_of(const RandomProgram& p) {
  const ir::Graph& g = *p.module.graph;
  ops::Flags active;
  for (auto v : g.inputs) active.push_back(is_inexact(g.type(v).dtype));
  RandomProgram out;
  try {
    auto lin = ops::linearize_graph(g, active);
    ops::Flags linear(lin.num_residuals, false);
    linear.resize(lin.linear->inputs.size(), true);
    ops::Flags all(lin.linear->outputs.size(), true);
    auto back = ops::transpose_graph(*lin.linear, linear, all);
    ir::Builder b;
    ir::Values in;
    for (auto v : g.inputs) in.push_back(b.input(g.type(v)));
    ir::Values known = b.inline_graph(*lin.known, in);
    ir::Values operands(known.end() - static_cast<std::ptrdiff_t>(lin.num_residuals), known.end());
    for (auto v : lin.linear->outputs) operands.push_back(ops::full(b, 1, lin.linear->type(v)));
    ir::Values cts = b.inline_graph(*back.graph, operands);
    if (cts.empty()) return out;
    out.module = p.module.with_graph(std::make_shared<const ir::Graph>(b.finish(cts)));
    out.module.inputs = p.module.inputs;
  } catch (const UnimplementedError&) {
    return {};
  }
  out.args = p.args;
  out.tolerance = 5e-4;
  return out;
}

std::string disagreement(const RandomProgram& p) {
  try {
    auto got = run_on_mesh(p.module, p.args, client_with(p.module.mesh->num_positions()));
    std::string d = first_difference(got, p.expected, p.tolerance, "by the references");
    return d.empty() ? first_difference(got, run_on_one(p.module.graph, p.args), p.tolerance, "on one device") : d;
  } catch (const Error& e) {
    return e.what();
  }
}

std::string disagreement(const NumpyProgram& p, std::uint64_t seed, const ir::MeshAxes* mesh) {
  try {
    std::string d = difference(p, run_on_one(p.graph, p.args));
    if (!d.empty()) return str("on one device: ", d);
    d = difference(p, run_plainly(p.graph, p.args));
    if (!d.empty()) return str("equation by equation: ", d);
    if (mesh == nullptr) return "";
    std::mt19937_64 rng(seed);
    ir::Module module = ir::module_over(p.graph, *mesh);
    module.uneven = rng() % 2 == 0;
    auto choose = [&](ir::ValueId v) -> std::optional<ir::Layout> {
      if (rng() % 4 == 0) return std::nullopt;
      return random_layout(rng, p.graph->type(v).shape, *mesh, module.uneven);
    };
    for (std::size_t i = 0; i < module.inputs.size(); ++i) module.inputs[i].layout = choose(p.graph->inputs[i]);
    for (std::size_t i = 0; i < module.outputs.size(); ++i) module.outputs[i].layout = choose(p.graph->outputs[i]);
    d = difference(p, run_on_mesh(module, p.args, client_with(mesh->num_positions())));
    return d.empty() ? "" : str("on a mesh: ", d);
  } catch (const Error& e) {
    return e.what();
  }
}

std::string different_bits(const RandomProgram& p) {
  ConfigScope deterministic(&Config::deterministic, true);
  RandomProgram q = p;
  q.module.deterministic = true;
  q.module.graph = spmd::with_fixed_leaves(p.module.graph);
  try {
    auto got = run_on_mesh(q.module, q.args, client_with(q.module.mesh->num_positions()));
    auto want = run_on_one(q.module.graph, q.args);
    for (std::size_t i = 0; i < want.size(); ++i) {
      std::size_t bytes = at(want[i].size() * dtype_size(want[i].dtype()));
      if (std::memcmp(got[i].data(), want[i].data(), bytes) == 0) continue;
      return str("output ", i, " has other bits on the mesh than on one device: ", difference(got[i], want[i], 0));
    }
    std::string d = p.expected.empty() ? "" : first_difference(want, p.expected, p.tolerance, "by the references");
    return d;
  } catch (const Error& e) {
    return e.what();
  }
}

namespace {

const std::vector<Client>& cluster_with(int processes, std::int64_t devices) {
  static std::mutex mutex;
  static std::map<std::pair<int, std::int64_t>, std::vector<Client>> clusters;
  std::lock_guard lock(mutex);
  auto& clients = clusters[{processes, devices}];
  if (clients.empty()) {
    auto cluster = std::make_shared<Cluster>(processes, devices / processes);
    for (int i = 0; i < processes; ++i) {
      clients.push_back(Client::cpu(
          {.devices = devices / processes, .process_index = i, .process_count = processes, .cluster = cluster}));
      runtime::runtime_of(clients.back());
    }
  }
  return clients;
}

std::string check_local(const RandomProgram& p, const Client& client) {
  auto g = spmd::partition(p.module, spmd::propagate(p.module));
  auto program = compile_on(client, g);
  std::vector<ShardBuffers> in;
  for (std::size_t i = 0; i < p.args.size(); ++i) {
    in.push_back(cut(p.args[i], g->layout(g->inputs[i]), *g->mesh, client));
  }
  std::vector<ShardBuffers> out = program->run(std::move(in));
  auto devices = client.devices();
  for (std::size_t i = 0; i < out.size(); ++i) {
    const ir::Layout& layout = g->layout(g->outputs[i]);
    auto map = runtime::shard_numbering(layout, *g->mesh);
    auto want = scatter(p.expected[i], layout, *g->mesh);
    for (std::int64_t at_position = 0; at_position < g->mesh->num_positions(); ++at_position) {
      if (!devices[at(at_position)].is_local()) continue;
      const auto& shard = out[i][at(map.of_position[at(at_position)])];
      if (!shard) return str("output ", i, ": position ", at_position, " has no shard");
      HostArray got(want[at(at_position)].dtype(), want[at(at_position)].shape());
      std::memcpy(got.data(), shard->data(), at(shard->nbytes()));
      std::string d = difference(got, want[at(at_position)], p.tolerance);
      if (!d.empty()) return str("output ", i, " at position ", at_position, ": ", d);
    }
  }
  return "";
}

}  // namespace

std::string disagreement_here(const RandomProgram& p, const Client& client) {
  try {
    return check_local(p, client);
  } catch (const std::exception& e) {
    return e.what();
  }
}

std::string disagreement_across(const RandomProgram& p, int processes) {
  const auto& clients = cluster_with(processes, p.module.mesh->num_positions());
  std::vector<std::string> why(clients.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < clients.size(); ++i) {
    threads.emplace_back([&, i] { why[i] = disagreement_here(p, clients[i]); });
  }
  for (auto& t : threads) t.join();
  for (std::size_t i = 0; i < why.size(); ++i) {
    if (!why[i].empty()) return str("process ", i, ": ", why[i]);
  }
  return "";
}

}  // namespace tessera::test
