// SPDX-License-Identifier: Apache-2.0
// Helpers of the engine's tests: random operands, shards by position, clients by size.
#pragma once

#include <complex>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "ir/builder.h"
#include "mesh/device_list.h"
#include "ops/control/subgraph_structure.h"
#include "ops/define_op.h"
#include "runtime/engine.h"
#include "tessera/device.h"

namespace tessera::test {

using runtime::BufferPtr;
using runtime::ShardBuffers;

inline std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// One client a count of devices for the whole run: clients never end.
inline Client client_of(std::int64_t devices) {
  static std::map<std::int64_t, Client> clients;
  auto& c = clients[devices];
  if (!c) c = Client::cpu({.devices = devices});
  return c;
}

inline std::shared_ptr<const mesh::DeviceList> devices_of(const Client& client) {
  auto all = client.devices();
  return mesh::intern_device_list({all.begin(), all.end()}, "test", "devices");
}

inline std::shared_ptr<runtime::Executable> compile(const Client& client, ir::GraphPtr graph) {
  return runtime::runtime_of(client).engine->compile(ir::module_of(std::move(graph)), devices_of(client));
}

/// Sets an element of any dtype from a small integer.
inline void set_element(const ir::View& v, std::int64_t i, std::int64_t x) {
  switch (ops::wide_kind(v.dtype)) {
    case ops::Wide::Bool:
      return ops::store_bool(v, i, (x & 1) != 0);
    case ops::Wide::Int:
      return ops::store_int(v, i, x);
    case ops::Wide::Uint:
      return ops::store_uint(v, i, static_cast<std::uint64_t>(x < 0 ? -x : x));
    case ops::Wide::Float:
      return ops::store_float(v, i, static_cast<double>(x));
    case ops::Wide::Complex:
      return ops::store_complex(v, i, {static_cast<double>(x), static_cast<double>(x % 3)});
  }
}
inline std::complex<double> element_of(const ir::View& v, std::int64_t i) {
  switch (ops::wide_kind(v.dtype)) {
    case ops::Wide::Bool:
      return ops::load_bool(v, i) ? 1.0 : 0.0;
    case ops::Wide::Int:
      return static_cast<double>(ops::load_int(v, i));
    case ops::Wide::Uint:
      return static_cast<double>(ops::load_uint(v, i));
    default:
      return ops::load_complex(v, i);
  }
}
inline double get_element(DType t, const void* data, std::int64_t i) {
  return element_of(ir::View{t, {i + 1}, const_cast<void*>(data)}, i).real();
}

/// Sets `mesh` and layouts of a graph whose layouts follow from `layout(value)`.
inline ir::GraphPtr partitioned(ir::Graph g, ir::MeshAxes mesh, const std::function<ir::Layout(ir::ValueId)>& layout) {
  g.mesh = std::make_shared<const ir::MeshAxes>(std::move(mesh));
  g.layouts.clear();
  for (std::size_t v = 0; v < g.num_values(); ++v) g.layouts.push_back(layout(static_cast<ir::ValueId>(v)));
  return std::make_shared<const ir::Graph>(std::move(g));
}
/// Everything whole, sub-graphs included.
inline ir::GraphPtr on_one_device(ir::Graph g) {
  for (auto& e : g.eqns) {
    auto control = ops::control_of(e);
    if (!control) continue;
    std::vector<ir::GraphPtr> bodies;
    for (const auto& body : control->bodies) bodies.push_back(on_one_device(*body.graph));
    e.attrs = ops::with_bodies(e, bodies);
  }
  auto types = g.types;
  return partitioned(std::move(g), {{1}, {"d"}},
                     [&](ir::ValueId v) { return ir::Layout::replicated(types[at(v)].rank()); });
}

/// ShardBuffers of a value under a layout: `fill(position, tile, view)` writes the shard that the position holds;
/// called once a distinct shard that a process of `client` holds.
inline ShardBuffers make_shards(const Client& client, const ir::Type& type, const ir::Layout& layout,
                                const ir::MeshAxes& mesh,
                                const std::function<void(std::int64_t, const runtime::Tile&, const ir::View&)>& fill) {
  auto map = runtime::shard_numbering(layout, mesh);
  ShardBuffers out(at(map.count));
  auto devices = client.devices();
  for (std::int64_t p = 0; p < mesh.num_positions(); ++p) {
    auto& b = out[at(map.of_position[at(p)])];
    if (b || !devices[at(p)].is_local()) continue;
    auto tile = runtime::tile_at(type.shape, layout, mesh, p);
    ir::View view{type.dtype, tile.shape, nullptr};
    b = runtime::runtime_of(client).memory->allocate(view.size() * dtype_size(type.dtype));
    view.data = b->data();
    fill(p, tile, view);
  }
  return out;
}

/// Calls `body(index in tile, global index)` for every element of a tile.
inline void for_tile(const runtime::Tile& tile, const std::function<void(std::int64_t, const Dims&)>& body) {
  std::int64_t i = 0;
  ops::for_each_position(tile.shape, [&](const Dims& local) {
    Dims global = local;
    for (std::size_t d = 0; d < global.size(); ++d) global[d] += tile.offset[d];
    body(i++, global);
  });
}

/// Runs `body(client)` for every process of a cluster on a thread of its own.
inline void on_cluster(int processes, std::int64_t devices_per_process,
                       const std::function<void(const Client&)>& body) {
  auto cluster = std::make_shared<Cluster>(processes, devices_per_process);
  std::vector<std::thread> threads;
  for (int p = 0; p < processes; ++p) {
    Client client = Client::cpu(
        {.devices = devices_per_process, .process_index = p, .process_count = processes, .cluster = cluster});
    runtime::runtime_of(client);
    threads.emplace_back([&body, client] { body(client); });
  }
  for (auto& t : threads) t.join();
}

}  // namespace tessera::test
