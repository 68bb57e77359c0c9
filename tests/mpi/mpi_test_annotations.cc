// SPDX-License-Identifier: Apache-2.0
// The recorded annotation cases of as many devices as there are, on those of all processes: each looks at its shards.
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "annotation/case_json.h"
#include "support/paths.h"

namespace tessera::test {
namespace {

std::string marked(const json& c) {
  const json& e = c["expect"];
  Mesh mesh = to_mesh(c);
  PartitionSpec spec = to_spec(c["spec"]);
  HostArray data = counted(to_shape(c["tensor_shape"]));
  Array a = mark_sharding(Array(data), mesh, spec);
  Differences d;
  d.same("hlo_v1", mesh.op_sharding(spec).hlo_v1(), e["hlo_v1"]);
  d.same("sharding_type", to_string(sharding_type(a).value()), e["type_after_normalising"]);
  std::map<std::int64_t, const Shard*> by_id;
  for (const Shard& s : a.addressable_shards()) by_id[s.device().id()] = &s;
  d.same("shards of this process", by_id.size(), local_devices().size());
  for (const auto& row : e.value("shards", json::array())) {
    auto found = by_id.find(row["device"].get<std::int64_t>());
    if (found == by_id.end()) continue;  // another process's
    const Shard& s = *found->second;
    if (row["index"] != "all") d.same("index", to_json(s.index(), data.shape()), row["index"]);
    d.same("replica_id", s.replica_id(), row["replica_id_mesh_order"]);
    d.same("padded", s.padded().shape(), e["shard_shape"]);
    if (!identical(s.unpadded().host(), data.slice(s.index()))) d.text += "shard differs; ";
  }
  if (!identical(process_allgather(a, {.tiled = true}), data)) d.text += "shards put together differ; ";
  return d.text;
}

std::string minibatch(const json& c) {
  const json& e = c["expect"];
  Mesh mesh = to_mesh(c);
  HostArray local = counted(to_shape(c["per_process_shape"]), 1000 * process_index());
  Array a = device_put(local, ShardingSpec(mesh, to_spec(c["spec"]), {.minibatch = true}));
  Differences d;
  d.same("global_shape", a.shape(), e["global_shape"]);
  compare_rows(e, process_index(), a, local, d);
  return d.text;
}

TEST(MpiAnnotations, RecordedCases) {
  std::ifstream file(data_path("annotation/cases.jsonl"));
  int ran = 0;
  std::string line;
  while (std::getline(file, line)) {
    json c = json::parse(line);
    std::string (*check)(const json&) = nullptr;
    if (c["kind"] == "sharding" && std::ssize(c["device_ids"]) == std::ssize(devices())) check = marked;
    if (c["kind"] == "minibatch" && c["process_count"] == process_count() &&
        c["local_device_count"] == local_devices().size()) {
      check = minibatch;
    }
    if (check == nullptr) continue;
    std::string wrong;
    try {
      wrong = check(c);
    } catch (const std::exception& e) {
      wrong = std::string("threw: ") + e.what();
    }
    EXPECT_EQ(wrong, "") << c["id"];
    ++ran;
  }
  if (std::ssize(devices()) == 8) {
    EXPECT_GE(ran, 124);
  }
}

}  // namespace
}  // namespace tessera::test
