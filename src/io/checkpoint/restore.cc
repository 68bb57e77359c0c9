// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint/restore.h"

#include <chrono>
#include <set>
#include <utility>

#include "array/array_impl.h"
#include "base/report/log.h"
#include "base/report/progress.h"
#include "base/strings.h"
#include "io/array_to_fill.h"
#include "io/checkpoint/agreement.h"
#include "io/checkpoint/save.h"
#include "io/checkpoint/steps.h"
#include "sharding/fits.h"
#include "tessera/error.h"

namespace tessera {

namespace io {

namespace {

constexpr const char kRestore[] = "checkpoints::restore";

// Where a leaf goes.
struct Target {
  ShardingPtr sharding;
  bool committed = true;
};

Target target_of(const checkpoints::detail::NamedLeaves& like, std::size_t i, const std::vector<ShardingPtr>& given) {
  const ShardingPtr& asked = given.empty() ? nullptr : given.size() == 1 ? given[0] : given[i];
  if (asked) return {asked, true};
  return {like.leaves[i].sharding(), like.leaves[i].committed()};
}

void check_leaf(const OpenCheckpoint& from, const StoredLeaf* leaf, const std::string& name, const Array& like) {
  const std::string where = str(kRestore, ": \"", from.folder(), "\"");
  if (leaf == nullptr) throw ValueError(str(where, " has no leaf \"", name, "\"; it has ", from.names()));
  if (leaf->shape != like.shape()) {
    throw ValueError(str(where, ": leaf \"", name, "\" has shape ", leaf->shape, "; expected ", like.shape(),
                         ", the shape of the leaf of like"));
  }
  if (leaf->dtype != like.dtype()) {
    throw TypeError(str(where, ": leaf \"", name, "\" has dtype ", dtype_name(leaf->dtype), "; expected ",
                        dtype_name(like.dtype()), ", the dtype of the leaf of like; restore as ",
                        dtype_name(leaf->dtype), " and convert with astype"));
  }
}

void read_shown(OpenCheckpoint& from, const std::vector<BlockToFill>& blocks, const std::string& title,
                const std::function<void(const checkpoints::Progress&)>& report) {
  const auto began = std::chrono::steady_clock::now();
  std::int64_t bytes = 0;
  for (const BlockToFill& b : blocks) bytes += size_of(b.shape) * dtype_size(b.leaf->stored);
  ProgressBar bar(title, bytes);
  from.read(blocks, [&](const checkpoints::Progress& p) {
    bar.update(p.bytes_done, p.leaf);
    if (report) report(p);
  });
  base::log(LogLevel::Info, "checkpoint ", from.folder(), ": ", bytes, " bytes read in ", base::seconds_since(began));
}

std::vector<Array> read_leaves(const std::string& dir, std::int64_t step, const checkpoints::detail::NamedLeaves& like,
                               const checkpoints::RestoreOptions& options) {
  const std::size_t n = like.leaves.size();
  if (options.shardings.size() > 1 && options.shardings.size() != n) {
    throw ValueError(str(kRestore, ": shardings has ", options.shardings.size(), " elements for a tree of ", n,
                         " leaves; expected none, one for all, or one for each"));
  }
  OpenCheckpoint from(kRestore, dir, step);
  // Everything that can be wrong with types comes before memory is asked for.
  std::vector<const StoredLeaf*> stored;
  std::set<std::string> wanted;
  for (std::size_t i = 0; i < n; ++i) {
    arrays::checked(like.leaves[i], kRestore, str("leaf \"", like.names[i], "\" of like").c_str());
    stored.push_back(from.find(like.names[i]));
    check_leaf(from, stored.back(), like.names[i], like.leaves[i]);
    wanted.insert(like.names[i]);
  }
  for (const StoredLeaf& leaf : from.index().leaves) {
    if (options.partial || wanted.contains(leaf.name)) continue;
    throw ValueError(str(kRestore, ": \"", from.folder(), "\" has the leaf \"", leaf.name,
                         "\", which like lacks; expected the saved tree, or partial = true to pass over others"));
  }
  std::vector<ArrayToFill> arrays;
  std::vector<BlockToFill> blocks;
  for (std::size_t i = 0; i < n; ++i) {
    const StoredLeaf& leaf = *stored[i];
    const Target to = target_of(like, i, options.shardings);
    sharding::check_fits(kRestore, str("the sharding of leaf \"", leaf.name, "\""), *to.sharding, leaf.shape);
    arrays.emplace_back(ir::Type{leaf.stored, leaf.shape, leaf.weak}, to.sharding, to.committed);
    for (const BlockMemory& b : arrays.back().blocks()) blocks.push_back({&leaf, b.start, b.shape, b.to});
  }
  read_shown(from, blocks, str("restoring checkpoint ", step), options.progress);
  std::vector<Array> out;
  for (const ArrayToFill& a : arrays) out.push_back(a.finish());
  return out;
}

}  // namespace

}  // namespace io

namespace checkpoints {

std::vector<Array> detail::restore(const std::string& dir, std::int64_t step, const NamedLeaves& like,
                                   const RestoreOptions& options) {
  const Client client = io::client_of(options.client, like.leaves);
  const io::Agreement agreement(client, io::checkpoint_state(client).next_tag(),
                                str(io::kRestore, ": step ", step, " in \"", dir, "\""));
  std::vector<Array> out;
  agreement.round(
      [&] {
        out = io::read_leaves(dir, step, like, options);
        return std::string();
      },
      [](const std::vector<std::string>& reports) { return std::vector<std::string>(reports.size()); });
  return out;
}

HostArrays load(const std::string& dir, std::int64_t step, const std::vector<std::string>& names, const Loc&) {
  io::OpenCheckpoint from("checkpoints::load", dir, step);
  std::vector<const io::StoredLeaf*> leaves;
  for (const std::string& name : names) {
    leaves.push_back(from.find(name));
    if (leaves.back() == nullptr) {
      throw ValueError(
          str("checkpoints::load: \"", from.folder(), "\" has no leaf \"", name, "\"; it has ", from.names()));
    }
  }
  if (names.empty()) {
    for (const auto& leaf : from.index().leaves) leaves.push_back(&leaf);
  }
  HostArrays out(from.folder());
  std::vector<io::BlockToFill> blocks;
  for (const auto* leaf : leaves) {
    HostArray& value = out[leaf->name];
    if (value.defined()) continue;  // named twice
    value = HostArray(leaf->stored, leaf->shape);
    blocks.push_back({leaf, Dims(leaf->shape.size(), 0), leaf->shape, static_cast<char*>(value.data())});
  }
  io::read_shown(from, blocks, str("loading checkpoint ", step), nullptr);
  for (const auto* leaf : leaves) {
    if (leaf->stored != leaf->dtype) out[leaf->name] = out[leaf->name].astype(leaf->dtype);
  }
  return out;
}

CheckpointInfo info(const std::string& dir, std::int64_t step, const Loc&) {
  std::string folder;
  const io::CheckpointIndex index = io::read_index("checkpoints::info", dir, step, folder);
  CheckpointInfo out{index.step, {}, index.metadata};
  for (const auto& l : index.leaves) {
    out.leaves.push_back({l.name, l.dtype, l.weak, l.shape, static_cast<std::int64_t>(l.shards.size())});
  }
  return out;
}

void verify(const std::string& dir, std::int64_t step, const Loc&) {
  io::OpenCheckpoint("checkpoints::verify", dir, step).verify();
}

}  // namespace checkpoints
}  // namespace tessera
