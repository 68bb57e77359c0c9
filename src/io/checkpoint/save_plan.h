// SPDX-License-Identifier: Apache-2.0
// What the processes of a save tell each other: leaves and shards before anything is written, files before the commit.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "io/checkpoint/index.h"
#include "io/checkpoint/save.h"
#include "io/checkpoint/shard_file.h"

namespace tessera::io {

/// A process's leaves, and the shards that it would write.
std::string plan_text(std::int64_t step, const std::vector<HeldLeaf>& leaves, const std::vector<OwnedShard>& shards);

/// What process 0 makes of the plans of all.
struct SavePlan {
  std::vector<StoredLeaf> leaves;  ///< without shards
  struct Owned {
    std::size_t leaf = 0;
    Dims start;
    Shape shape;
  };
  std::vector<std::vector<Owned>> writes;         ///< by process, in the order of its plan
  std::vector<std::vector<std::size_t>> dropped;  ///< by process: shards of its plan that a process before it writes
};
/// Arrays that every process holds for itself are in the plan of each: the lowest process writes them. Throws
/// `ValueError` naming step, leaf and process where plans differ, for a name that occurs twice, and where no process
/// has a part of a leaf.
SavePlan merge_plans(const std::vector<std::string>& texts);

/// The answer to a plan.
struct WriteOrder {
  std::string folder;  ///< name of the unfinished folder
  std::string file;    ///< name for this process's shards
  std::string checksums;
  std::vector<std::size_t> dropped;
};
std::string order_text(const WriteOrder& order);
WriteOrder parse_order(const std::string& text);

/// What a process has written: no file where it owns no shard.
std::string written_text(const std::optional<WrittenFile>& written);
/// The index of what all have written.
CheckpointIndex merge_written(std::int64_t step, const SavePlan& plan, const std::vector<std::string>& texts,
                              const std::map<std::string, std::string>& metadata);

}  // namespace tessera::io
