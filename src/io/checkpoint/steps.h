// SPDX-License-Identifier: Apache-2.0
// Folders of checkpoints: their names, which of them count, which are deleted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/checkpoint/files.h"
#include "io/checkpoint/index.h"

namespace tessera::io {

/// Throws `ValueError` naming `function` for a negative step.
void check_step(const char* function, std::int64_t step);
/// "step_00000100".
std::string step_name(std::int64_t step);
/// A name that no other save has taken: ".step_00000100.tmp-<16 digits>". What begins so is no checkpoint.
std::string unfinished_name(std::int64_t step);

/// A folder has a step's name from the moment when it is complete: a rename is the commit. One without an index is
/// somebody else's.
std::vector<std::int64_t> steps_in(const char* function, const std::string& dir);
/// Reads and checks the index of a step; the folder's path goes to `folder`. Throws `ValueError` naming the steps that
/// are there for one that is not.
CheckpointIndex read_index(const char* function, const std::string& dir, std::int64_t step, std::string& folder);

/// Deletes a checkpoint: it is renamed first, so that no reader finds a part of it.
void remove_step(FileSystem& fs, const std::string& dir, std::int64_t step);
/// Deletes what saves and deletions that were cut off have left.
void remove_unfinished(FileSystem& fs, const std::string& dir);
/// Deletes all but the `max_to_keep` newest checkpoints and those whose steps are multiples of `keep_period`.
void apply_retention(FileSystem& fs, const std::string& dir, std::optional<std::int64_t> max_to_keep,
                     std::optional<std::int64_t> keep_period);

}  // namespace tessera::io
