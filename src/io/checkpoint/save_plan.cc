// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint/save_plan.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "base/json.h"
#include "base/strings.h"
#include "tessera/error.h"

namespace tessera::io {

using base::Json;
using nlohmann::json;

namespace {

constexpr const char kSaving[] = "checkpoints::save";

std::string type_text(const StoredLeaf& l) {
  return str("\"", l.name, "\" ", l.weak ? "weak " : "", dtype_name(l.dtype), base::list_text(l.shape));
}
bool same_type(const StoredLeaf& a, const StoredLeaf& b) {
  return a.name == b.name && a.dtype == b.dtype && a.stored == b.stored && a.weak == b.weak && a.shape == b.shape;
}

std::string plan_dump(const Json& j) {
  try {
    return j.value.dump();
  } catch (const json::exception&) {
    throw ValueError(str(kSaving, ": a leaf's name is no UTF-8, which the format asks for"));
  }
}

std::vector<StoredLeaf> leaves_of(const json& plan) {
  std::vector<StoredLeaf> out;
  for (const json& l : plan.at("leaves")) {
    StoredLeaf leaf;
    leaf.name = l.at("name").get<std::string>();
    leaf.dtype = static_cast<DType>(l.at("dtype").get<int>());
    leaf.stored = static_cast<DType>(l.at("stored").get<int>());
    leaf.weak = l.at("weak").get<bool>();
    leaf.shape = l.at("shape").get<Shape>();
    out.push_back(std::move(leaf));
  }
  return out;
}

void check_equal(const json& first, const json& other, const std::vector<StoredLeaf>& leaves, std::size_t process) {
  const auto step = first.at("step").get<std::int64_t>();
  if (other.at("step").get<std::int64_t>() != step) {
    throw ValueError(str(kSaving, ": process ", process, " saves step ", other.at("step").get<std::int64_t>(),
                         " and process 0 step ", step, "; expected the same calls in every process"));
  }
  const std::vector<StoredLeaf> theirs = leaves_of(other);
  for (std::size_t i = 0; i < std::max(leaves.size(), theirs.size()); ++i) {
    const auto text = [&](const std::vector<StoredLeaf>& of) {
      return i < of.size() ? "leaf " + type_text(of[i]) : std::string("no leaf");
    };
    if (i < leaves.size() && i < theirs.size() && same_type(leaves[i], theirs[i])) continue;
    throw ValueError(str(kSaving, ": process ", process, " saves ", text(theirs), " at position ", i,
                         " of the tree and process 0 ", text(leaves), "; expected the same tree in every process"));
  }
}

void check_names(const SavePlan& plan) {
  std::set<std::string> names;
  for (const StoredLeaf& l : plan.leaves) {
    if (!names.insert(l.name).second) {
      throw ValueError(str(kSaving, ": the tree has two leaves \"", l.name,
                           "\"; expected different names (a key of a map may hold a '.' that another path has)"));
    }
  }
  std::set<std::string> tensors;
  for (const auto& writes : plan.writes) {
    for (const auto& w : writes) {
      const std::string name = tensor_name(plan.leaves[w.leaf], w.start, w.shape);
      if (!tensors.insert(name).second) {
        throw ValueError(
            str(kSaving, ": the leaf name \"", name, "\" is that of a shard of another leaf; choose another"));
      }
    }
  }
}

void check_cover(const SavePlan& plan) {
  std::vector<std::vector<BlockAt>> blocks(plan.leaves.size());
  for (const auto& writes : plan.writes) {
    for (const auto& w : writes) blocks[w.leaf].push_back({&w.start, &w.shape});
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const std::string fault = cover_fault(plan.leaves[i].shape, blocks[i]);
    if (fault.empty()) continue;
    throw ValueError(str(kSaving, ": leaf \"", plan.leaves[i].name, "\": ", fault,
                         "; expected every element once, from the processes of the client that saves"));
  }
}

}  // namespace

std::string plan_text(std::int64_t step, const std::vector<HeldLeaf>& leaves, const std::vector<OwnedShard>& shards) {
  Json plan(json::object());
  json& j = plan.value;
  j["step"] = step;
  j["leaves"] = json::array();
  for (const HeldLeaf& l : leaves) {
    json& leaf = j["leaves"].emplace_back(json::object());
    leaf["name"] = l.type.name;
    leaf["dtype"] = static_cast<int>(l.type.dtype);
    leaf["stored"] = static_cast<int>(l.type.stored);
    leaf["weak"] = l.type.weak;
    leaf["shape"] = l.type.shape;
  }
  j["shards"] = json::array();
  for (const OwnedShard& s : shards) {
    json& shard = j["shards"].emplace_back(json::object());
    shard["leaf"] = s.leaf;
    shard["start"] = s.start;
    shard["shape"] = s.shape;
  }
  return plan_dump(plan);
}

SavePlan merge_plans(const std::vector<std::string>& texts) {
  SavePlan plan;
  Json first;
  std::set<std::tuple<std::size_t, Dims, Shape>> taken;
  for (std::size_t p = 0; p < texts.size(); ++p) {
    Json parsed(json::parse(texts[p]));
    if (p == 0) {
      plan.leaves = leaves_of(parsed.value);
    } else {
      check_equal(first.value, parsed.value, plan.leaves, p);
    }
    plan.writes.emplace_back();
    plan.dropped.emplace_back();
    std::size_t i = 0;
    for (const json& s : parsed.value.at("shards")) {
      SavePlan::Owned w{s.at("leaf").get<std::size_t>(), s.at("start").get<Dims>(), s.at("shape").get<Shape>()};
      if (taken.emplace(w.leaf, w.start, w.shape).second) {
        plan.writes.back().push_back(std::move(w));
      } else {
        plan.dropped.back().push_back(i);
      }
      ++i;
    }
    if (p == 0) first = std::move(parsed);
  }
  check_names(plan);
  check_cover(plan);
  return plan;
}

std::string order_text(const WriteOrder& order) {
  Json j(json::object());
  j.value["folder"] = order.folder;
  j.value["file"] = order.file;
  j.value["checksums"] = order.checksums;
  j.value["dropped"] = order.dropped;
  return plan_dump(j);
}
WriteOrder parse_order(const std::string& text) {
  const Json j(json::parse(text));
  return {j.value.at("folder").get<std::string>(), j.value.at("file").get<std::string>(),
          j.value.at("checksums").get<std::string>(), j.value.at("dropped").get<std::vector<std::size_t>>()};
}

std::string written_text(const std::optional<WrittenFile>& written) {
  Json j(json::object());
  if (!written) return plan_dump(j);
  j.value["name"] = written->file.name;
  j.value["checksums"] = written->file.checksums;
  j.value["nbytes"] = written->file.nbytes;
  j.value["header_bytes"] = written->file.header_bytes;
  j.value["header_crc32"] = written->file.header_crc;
  j.value["offsets"] = written->offsets;
  return plan_dump(j);
}

CheckpointIndex merge_written(std::int64_t step, const SavePlan& plan, const std::vector<std::string>& texts,
                              const std::map<std::string, std::string>& metadata) {
  CheckpointIndex index;
  index.step = step;
  index.leaves = plan.leaves;
  index.metadata = metadata;
  for (std::size_t p = 0; p < texts.size(); ++p) {
    const Json parsed(json::parse(texts[p]));
    const json& j = parsed.value;
    if (!j.contains("name")) continue;
    const auto offsets = j.at("offsets").get<std::vector<std::uint64_t>>();
    for (std::size_t i = 0; i < plan.writes[p].size(); ++i) {
      const auto& w = plan.writes[p][i];
      StoredLeaf& leaf = index.leaves[w.leaf];
      leaf.shards.push_back({index.files.size(), tensor_name(leaf, w.start, w.shape), w.start, w.shape, offsets.at(i)});
    }
    index.files.push_back({j.at("name").get<std::string>(), j.at("checksums").get<std::string>(),
                           j.at("nbytes").get<std::uint64_t>(), j.at("header_bytes").get<std::uint64_t>(),
                           j.at("header_crc32").get<std::uint32_t>()});
  }
  return index;
}

}  // namespace tessera::io
