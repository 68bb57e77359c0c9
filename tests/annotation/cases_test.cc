// SPDX-License-Identifier: Apache-2.0
// The recorded annotation cases, each kind against the public interface.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <thread>

#include "annotation/case_json.h"
#include "support/meshes.h"
#include "support/paths.h"
#include "support/spec_report.h"

namespace tessera::test {
namespace {

// Neither a truth value nor a floating number is an axis.
static_assert(!std::is_constructible_v<SpecEntry, bool> && !std::is_constructible_v<SpecEntry, double>);
static_assert(!std::is_constructible_v<P, bool> && !std::is_constructible_v<P, double>);
static_assert(!std::is_constructible_v<SpecEntry, std::nullptr_t> && !std::is_constructible_v<P, std::nullptr_t>);

std::int64_t largest_client(const json& c) { return c.contains("n_devices") ? c["n_devices"].get<std::int64_t>() : 8; }

std::string run_mesh(const json& c) {
  ClientScope scope(test_client(static_cast<std::int64_t>(c["device_ids"].size())));
  const json& e = c["expect"];
  Mesh m = to_mesh(c);
  Differences d;
  d.same("size", m.size(), e["size"]);
  json shape = json::array();
  for (const auto& [axis, size] : m.shape()) {
    shape.push_back({m.has_names() ? json(axis) : json(std::stoi(axis)), size});
  }
  d.same("shape", shape, e["shape"]);
  d.same("logical_mesh", {{"dims", m.logical_mesh().shape()}, {"flat", m.logical_mesh().flat()}}, e["logical_mesh"]);
  for (const auto& q : e["axis_index"]) {
    auto i = m.axis_index(q[0].get<std::string>());
    d.same("axis_index", i ? json(*i) : json(nullptr), q[1]);
  }
  d.same("device_ids", m.flat_ids(), c["device_ids"]);
  d.same("mesh_shape", m.mesh_shape(), c["mesh_shape"]);
  d.same("axis_names", m.has_names() ? json(std::vector(m.axis_names().begin(), m.axis_names().end())) : json(nullptr),
         c["axis_names"]);
  return d.text;
}

std::string run_mesh_error(const json& c) {
  ClientScope scope(test_client(8));
  return refused(c, [&] { to_mesh(c); });
}

// Every shard by index, padding and replica number; the array put together from them.
void check_shards(const json& c, const Array& a, const HostArray& data, Differences& d) {
  const json& e = c["expect"];
  Shape shape = to_shape(c["tensor_shape"]);
  d.same("shard_shape", a.addressable_shards()[0].padded().shape(), e["shard_shape"]);
  if (!identical(a.host(), data)) d.text += "host data differ; ";
  if (!e.contains("shards")) return;
  std::vector<std::int32_t> whole(static_cast<std::size_t>(size_of(shape)), -1);
  std::map<std::int64_t, const Shard*> by_id;
  for (const Shard& s : a.addressable_shards()) by_id[s.device().id()] = &s;
  for (const auto& row : e["shards"]) {
    const Shard& s = *by_id.at(row["device"].get<std::int64_t>());
    json all = json::array();
    for (auto n : shape) all.push_back({0, n});
    d.same("index", to_json(s.index(), shape), row["index"] == "all" ? all : row["index"]);
    d.same("replica_id", s.replica_id(), row["replica_id_mesh_order"]);
    d.same("padded", s.padded().shape(), e["shard_shape"]);
    if (!identical(s.unpadded().host(), data.slice(s.index()))) d.text += "shard differs; ";
    if (s.replica_id() != 0) continue;
    HostArray shard = s.unpadded().host();
    Shape at(shape.size(), 0);
    for (std::int64_t i = 0; i < shard.size(); ++i) {
      std::int64_t flat = 0;
      std::int64_t rest = i;
      for (std::size_t k = shape.size(); k-- > 0;) {
        at[k] = rest % shard.shape()[k] + s.index()[k].resolve(shape[k]).first;
        rest /= shard.shape()[k];
      }
      for (std::size_t k = 0; k < shape.size(); ++k) flat = flat * shape[k] + at[k];
      auto& cell = whole[static_cast<std::size_t>(flat)];
      if (cell != -1) d.text += "a cell lies in two first replicas; ";
      cell = shard.span<std::int32_t>()[static_cast<std::size_t>(i)];
    }
  }
  if (whole != data.to_vector<std::int32_t>()) d.text += "shards put together differ; ";
}

std::string run_sharding(const json& c) {
  ClientScope scope(test_client(largest_client(c)));
  const json& e = c["expect"];
  Mesh mesh = to_mesh(c);
  PartitionSpec spec = to_spec(c["spec"]);
  const OpSharding& s = mesh.op_sharding(spec);
  Differences d;
  d.same("sharding_type", to_string(s.sharding_type()), e["sharding_type"]);
  d.same("sharding_type_code", static_cast<int>(s.sharding_type()), e["sharding_type_code"]);
  d.same("type_after_normalising", to_string(s.type()), e["type_after_normalising"]);
  d.same("tile_assignment", {{"dims", s.tile_assignment().shape()}, {"flat", s.tile_assignment().flat()}},
         e["tile_assignment"]);
  d.same("group_assignment", {{"dims", s.group_assignment().shape()}, {"flat", s.group_assignment().flat()}},
         e["group_assignment"]);
  d.same("replication_groups", s.replication_groups(), e["replication_groups"]);
  d.same("hlo_v1", s.hlo_v1(), e["hlo_v1"]);
  d.same("hlo_v2", s.hlo_v2(), e["hlo_v2_logical"]);
  HostArray data = counted(to_shape(c["tensor_shape"]));
  Array a = mark_sharding(device_put(data), mesh, spec);
  d.same("sharding_type of the array", to_string(sharding_type(a).value()), e["type_after_normalising"]);
  const auto& named = dynamic_cast<const NamedSharding&>(*a.sharding());
  d.same("NamedSharding", OpSharding::of(named, a.ndim()).hlo_v1(), e["hlo_v1"]);
  d.same("back", OpSharding::of(s.to_named_sharding(mesh), a.ndim()).hlo_v1(), e["hlo_v1"]);
  d.same("parsed", OpSharding::parse(s.hlo_v1()).hlo_v1(), e["hlo_v1"]);
  d.same("parsed iota", OpSharding::parse(s.hlo_v2()).hlo_v2(), e["hlo_v2_logical"]);
  d.same("ShardingSpec", ShardingSpec(mesh, spec).op_sharding().hlo_v1(), e["hlo_v1"]);
  bool plain = true;
  try {
    NamedSharding(mesh, spec).shard_shape(data.shape());
  } catch (const IndivisibleError&) {
    plain = false;
  }
  d.same("even", plain, e["even"]);
  check_shards(c, a, data, d);
  return d.text;
}

std::string run_sharding_error(const json& c) {
  // A truth value or a floating number in a spec does not compile: see the assertions above.
  for (const auto& entry : c["spec"]) {
    if (entry.is_boolean() || entry.is_number_float()) return "";
  }
  ClientScope scope(test_client(largest_client(c)));
  return refused(c, [&] {
    Array a = device_put(counted(to_shape(c["tensor_shape"])));
    mark_sharding(a, to_mesh(c), to_spec(c["spec"]));
  });
}

OpSharding of_parts(const json& c) {
  auto type = ShardingType::REPLICATED;
  for (int i = 0; i < 7; ++i) {
    if (to_string(static_cast<ShardingType>(i)) == c["sharding_type"]) type = static_cast<ShardingType>(i);
  }
  return OpSharding(type, nested_ids(c["tile_assignment"]), nested_ids(c["group_assignment"]), c["replication_groups"]);
}
std::string run_op_sharding(const json& c) {
  Differences d;
  d.same("hlo_v1", of_parts(c).hlo_v1(), c["expect"]["hlo_v1"]);
  return d.text;
}
std::string run_op_sharding_error(const json& c) {
  return refused(c, [&] { of_parts(c); });
}

std::string run_sharding_type(const json& c) {
  const json& e = c["expect"];
  auto type = static_cast<ShardingType>(e["code"].get<int>());
  Differences d;
  d.same("name", to_string(type), c["name"]);
  d.same("xla_proto_type", to_xla(type).type, e["xla_proto_type"]);
  d.same("flag", to_xla(type).replicate_on_last_tile_dim, e["xla_replicate_on_last_tile_dim"]);
  d.same("back", to_string(from_xla(to_xla(type))), c["name"]);
  return d.text;
}

std::string run_cache(const json& c) {
  ClientScope scope(test_client(8));
  Differences d;
  std::int64_t before = annotation_stats().op_shardings_built;
  std::map<std::string, const OpSharding*> first;
  for (std::size_t i = 0; i < c["calls"].size(); ++i) {
    const json& call = c["calls"][i];
    const json& made = c["meshes"][call[0].get<std::string>()];
    std::vector<std::int64_t> ids{0, 1, 2, 3, 4, 5, 6, 7};
    Mesh mesh(std::span<const std::int64_t>(ids), to_shape(made[0]), to_names(made[1]));
    bool failed = false;
    try {
      const OpSharding& s = mesh.op_sharding(to_spec(call[1]));
      auto [it, fresh] = first.emplace(call.dump(), &s);
      if (!fresh && it->second != &s) d.text += "another object for the same call; ";
    } catch (const ValueError&) {
      failed = true;
    }
    if (c["expect"].contains("errors")) d.same("error", failed, c["expect"]["errors"][i]);
    auto built = annotation_stats().op_shardings_built - before;
    if (built > c["expect"]["builds_at_most"][i].get<std::int64_t>())
      d.text += "call " + std::to_string(i) + " built; ";
  }
  return d.text;
}

// --- hybrid meshes ------------------------------------------------------------------------------------------------

HybridMeshOptions hybrid_options(const json& c) {
  HybridMeshOptions o;
  o.ici_mesh_shape = to_shape(c["ici_mesh_shape"]);
  o.dcn_mesh_shape = to_shape(c["dcn_mesh_shape"]);
  o.devices.emplace();
  for (const auto& d : c["devices"]) {
    DeviceAttributes a;
    a.ordinal = d["ordinal"];
    if (d.contains("coords")) a.coords = d["coords"].get<Dims>();
    a.core_on_chip = d.value("core_on_chip", 0);
    if (d.contains("slice_index")) a.slice_index = d["slice_index"].get<std::int64_t>();
    a.process_index = d.value("process_index", 0);
    o.devices->push_back(a);
  }
  if (c.contains("axis_names")) o.axis_names = to_names(c["axis_names"]);
  o.process_is_slice = c.value("process_is_slice", false);
  return o;
}

std::string run_hybrid(const json& c) {
  const json& e = c["expect"];
  HybridMeshOptions o = hybrid_options(c);
  ClientScope scope(test_client(static_cast<std::int64_t>(o.devices->size())));
  HybridMesh mesh = make_hybrid_mesh(o);
  Differences d;
  d.same("mesh_shape", mesh.mesh_shape(), e["mesh_shape"]);
  d.same("logical_mesh", {{"dims", mesh.logical_mesh().shape()}, {"flat", mesh.logical_mesh().flat()}},
         e["logical_mesh"]);
  if (!e.contains("per_slice")) return d.text;
  json slices = json::array();
  for (const auto& s : mesh.info().per_slice) {
    slices.push_back({{"physical_shape", s.physical_shape}, {"assignment", s.assignment}});
  }
  d.same("per_slice", slices, e["per_slice"]);
  return d.text;
}
std::string run_hybrid_error(const json& c) {
  return refused(c, [&] { assign_hybrid_mesh(hybrid_options(c)); });
}

// --- minibatches over simulated processes ---------------------------------------------------------------------------

std::string on_processes(const json& c, const std::function<std::string(int)>& body) {
  int processes = c["process_count"];
  auto clients = cluster_clients(processes, c["local_device_count"]);
  std::vector<std::string> text(clients.size());
  std::vector<std::thread> threads;
  for (std::size_t p = 0; p < clients.size(); ++p) {
    threads.emplace_back([&, p] {
      ClientScope scope(clients[p]);
      try {
        text[p] = body(static_cast<int>(p));
      } catch (const std::exception& e) {
        text[p] = std::string("threw: ") + e.what();
      }
    });
  }
  std::string all;
  for (std::size_t p = 0; p < threads.size(); ++p) {
    threads[p].join();
    all += text[p];
  }
  return all;
}

std::string run_minibatch(const json& c) {
  return on_processes(c, [&](int process) {
    const json& e = c["expect"];
    Mesh mesh = to_mesh(c);
    HostArray local = counted(to_shape(c["per_process_shape"]), 1000 * process);
    Array a = device_put(local, ShardingSpec(mesh, to_spec(c["spec"]), {.minibatch = true}));
    Differences d;
    d.same("global_shape", a.shape(), e["global_shape"]);
    d.same("hlo_v1", mesh.op_sharding(to_spec(c["spec"])).hlo_v1(), e["hlo_v1"]);
    compare_rows(e, process, a, local, d);
    return d.text;
  });
}
std::string run_minibatch_error(const json& c) {
  return on_processes(c, [&](int) {
    return refused(c, [&] {
      Shape shape = to_shape(c["per_process_shape"]);
      device_put(counted(shape), ShardingSpec(to_mesh(c), to_spec(c["spec"]), {.minibatch = true}));
    });
  });
}

// --- linear ---------------------------------------------------------------------------------------------------------

Array floats(const json& values, const Shape& shape) {
  return device_put(HostArray::from(values.get<std::vector<float>>(), shape));
}

std::string run_linear(const json& c) {
  ClientScope scope(test_client(1));
  const json& e = c["expect"];
  const json& data = c["data"];
  Shape ws = to_shape(c["weight_shape"]);
  Array x = floats(data["input"], to_shape(c["input_shape"]));
  Array w = floats(data["weight"], ws);
  Differences d;
  auto check = [&](const char* what, const Array& a, const json& want) {
    d.same(what, a.to_vector<float>(), want.get<std::vector<float>>());
  };
  auto compare = [&](const Array& y, const Array& gx, const Array& gw) {
    d.same("output_shape", y.shape(), e["output_shape"]);
    d.same("shape of grad_weight", gw.shape(), ws);
    check("output", y, e["output"]);
    check("grad_input", gx, e["grad_input"]);
    check("grad_weight", gw, e["grad_weight"]);
  };
  Array g = floats(data["cotangent"], to_shape(e["output_shape"]));
  if (c["bias"].get<bool>()) {
    auto [y, pull] =
        vjp([](Array a, Array b, Array o) { return linear(a, b, o); }, x, w, floats(data["bias"], {ws[0]}));
    auto [gx, gw, gb] = pull(g);
    compare(y, gx, gw);
    check("grad_bias", gb, e["grad_bias"]);
  } else {
    auto [y, pull] = vjp([](Array a, Array b) { return linear(a, b); }, x, w);
    auto [gx, gw] = pull(g);
    compare(y, gx, gw);
  }
  if (!identical(
          linear(x, w, c["bias"].get<bool>() ? std::optional(floats(data["bias"], {ws[0]})) : std::nullopt).host(),
          floats(e["output"], to_shape(e["output_shape"])).host())) {
    d.text += "at once differs; ";
  }
  return d.text;
}

// Devices that differ along one axis alone, by plain loops.
json groups_along(const Mesh& mesh, const std::string& axis) {
  std::map<std::int64_t, std::vector<std::int64_t>> groups;
  auto a = static_cast<std::size_t>(mesh.axis_index(axis).value());
  const Shape& sizes = mesh.mesh_shape();
  for (std::size_t i = 0; i < mesh.flat_ids().size(); ++i) {
    std::int64_t rest = static_cast<std::int64_t>(i);
    std::int64_t key = 0;
    for (std::size_t k = sizes.size(); k-- > 0;) {
      key = key * 1000 + (k == a ? 0 : rest % sizes[k]);
      rest /= sizes[k];
    }
    groups[key].push_back(mesh.flat_ids()[i]);
  }
  json out = json::array();
  for (const auto& [key, ids] : groups) out.push_back(ids);
  std::sort(out.begin(), out.end());
  return out;
}

CommPlan linear_plan(const std::string& equation, const std::vector<Array>& in, const Shape& out_shape,
                     const JitOptions& options) {
  if (equation == "...n,mn->...m")
    return jit([](Array x, Array w) { return linear(x, w); }, options).comm_plan(in[0], in[1]);
  if (equation == "...m,mn->...n") {
    return jit(
               [&](Array g, Array w) {
                 return std::get<0>(vjp([&](Array x) { return linear(x, w); }, zeros(out_shape)).second(g));
               },
               options)
        .comm_plan(in[0], in[1]);
  }
  if (equation == "...m,...n->mn") {
    return jit(
               [&](Array g, Array x) {
                 return std::get<0>(vjp([&](Array w) { return linear(x, w); }, zeros(out_shape)).second(g));
               },
               options)
        .comm_plan(in[0], in[1]);
  }
  Shape x_shape = in[0].shape();
  x_shape.back() = 3;
  return jit(
             [&](Array g) {
               Array x = zeros(x_shape);
               Array w = zeros({out_shape[0], 3});
               return std::get<0>(vjp([&](Array b) { return linear(x, w, b); }, zeros(out_shape)).second(g));
             },
             options)
      .comm_plan(in[0]);
}

std::string run_linear_sharded(const json& c) {
  ClientScope scope(test_client(8));
  Mesh mesh = make_mesh(to_shape(c["mesh_shape"]), to_names(c["axis_names"]));
  std::size_t last = c["shapes"].size() - 1;
  std::vector<Array> in;
  for (std::size_t i = 0; i < last; ++i) {
    in.push_back(mark_sharding(ones(to_shape(c["shapes"][i])), mesh, to_spec(c["specs"][i])));
  }
  JitOptions options;
  options.out_shardings = {NamedSharding(mesh, to_spec(c["specs"][last]))};
  CommPlan plan = linear_plan(c["equation"], in, to_shape(c["shapes"][last]), options);
  json got = json::array();
  for (const auto& step : plan.steps()) {
    for (const auto& axis : step.axes) {
      got.push_back({{"op", step.op}, {"axis", axis}, {"groups", groups_along(mesh, axis)}});
    }
  }
  Differences d;
  d.same("collectives", got, c["expect"]["collectives"]);
  return d.text;
}

// --- manual regions -------------------------------------------------------------------------------------------------

std::string run_manual(const json& c) {
  ClientScope scope(test_client(8));
  const json& e = c["expect"];
  Mesh mesh = to_mesh(c);
  PartitionSpec spec = to_spec(c["spec"]);
  HostArray data = counted(to_shape(c["tensor_shape"]));
  Differences d;
  auto through = [&](const Shape& full) {
    return jit([&](Array x) {
      Array block = enable_manual_sharding(x, spec, mesh);
      d.same("enabled_shape", block.shape(), e["enabled_shape"]);
      d.same("enabled_hlo", op_sharding(block).value().hlo_v1(), e["enabled_hlo"]);
      return disable_manual_sharding(block + 1, spec, full, mesh);
    })(device_put(data));
  };
  Shape full = to_shape(c["full_shape"]);
  if (e.value("error_on_disable", false)) return refused(c, [&] { through(full); }) + d.text;
  Array y = through(full);
  d.same("disabled_shape", y.shape(), e["disabled_shape"]);
  d.same("disabled_hlo_v1", op_sharding(y).value().hlo_v1(), e["disabled_hlo_v1"]);
  if (full == data.shape()) {
    auto want = data.to_vector<std::int32_t>();
    for (auto& v : want) ++v;
    if (y.to_vector<std::int32_t>() != want) d.text += "values differ; ";
  }
  // Each dimension alone at both ends of its range, and one step beyond.
  const json& range = e["accepted_full_size_range"];
  for (std::size_t k = 0; k < range.size(); ++k) {
    std::int64_t low = range[k][0];
    std::int64_t high = range[k][1];
    for (auto [n, good] : {std::pair{low, true}, {high, true}, {low - 1, false}, {high + 1, false}}) {
      Shape other = full;
      other[k] = n;
      bool accepted = true;
      try {
        through(other);
      } catch (const ValueError&) {
        accepted = false;
      }
      if (accepted != good) d.text += "full_shape " + to_string(other) + (good ? " was refused; " : " was accepted; ");
    }
  }
  return d.text;
}

const std::map<std::string, std::string (*)(const json&)>& kinds() {
  static const std::map<std::string, std::string (*)(const json&)> table = {
      {"mesh", run_mesh},
      {"mesh_error", run_mesh_error},
      {"sharding", run_sharding},
      {"sharding_error", run_sharding_error},
      {"op_sharding", run_op_sharding},
      {"op_sharding_error", run_op_sharding_error},
      {"sharding_type", run_sharding_type},
      {"cache", run_cache},
      {"hybrid", run_hybrid},
      {"hybrid_plain", run_hybrid},
      {"hybrid_error", run_hybrid_error},
      {"minibatch", run_minibatch},
      {"minibatch_error", run_minibatch_error},
      {"linear", run_linear},
      {"linear_sharded", run_linear_sharded},
      {"manual", run_manual},
  };
  return table;
}

TEST(AnnotationCases, All) {
  TESSERA_SPEC("T1", "T2", "T3", "T4", "T5", "T6", "T7", "T8", "T10", "T11", "T12", "T13", "T14", "T16", "T22", "T23",
               "T24", "T25", "T26", "T27", "T28", "T29", "T30", "T31", "T32", "T33", "T34", "T35", "T36", "T37", "T38",
               "T39", "T40", "T41", "T42", "T43", "T44", "T45", "T46", "T47", "T48", "T49", "T50", "T51", "T52", "T53",
               "T54", "T55", "T56", "T57", "T58", "T59", "T61", "T62", "T63", "T64", "T67", "T68", "T69", "T70", "T77",
               "T78", "T79", "T80", "T91", "T96", "T97", "T81", "T84", "T85", "T98", "T99", "T100", "T101", "T103");
  std::ifstream file(data_path("annotation/cases.jsonl"));
  int total = 0;
  int passed = 0;
  std::string line;
  while (std::getline(file, line)) {
    json c = json::parse(line);
    ++total;
    std::string wrong;
    try {
      wrong = kinds().at(c["kind"].get<std::string>())(c);
    } catch (const std::exception& e) {
      wrong = std::string("threw: ") + e.what();
    }
    EXPECT_EQ(wrong, "") << c["id"];
    if (wrong.empty()) ++passed;
  }
  EXPECT_EQ(total, 330);
  record_cases("annotation/cases.jsonl", passed, total);
}

}  // namespace
}  // namespace tessera::test
