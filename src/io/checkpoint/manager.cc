// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "base/strings.h"
#include "io/checkpoint/save.h"
#include "io/checkpoint/steps.h"
#include "tessera/checkpoint.h"
#include "tessera/error.h"

namespace tessera {

namespace {

constexpr const char kManager[] = "CheckpointManager";

void check_option(const char* name, std::optional<std::int64_t> value) {
  if (value && *value < 1) throw ValueError(str(kManager, ": ", name, " = ", *value, "; expected 1 or more"));
}

}  // namespace

CheckpointManager::CheckpointManager(std::string dir, CheckpointManagerOptions options, const Loc&)
    : dir_(std::move(dir)), options_(std::move(options)) {
  if (dir_.empty()) throw ValueError(str(kManager, ": dir is empty; expected a directory"));
  check_option("max_to_keep", options_.max_to_keep);
  check_option("keep_period", options_.keep_period);
  check_option("save_interval_steps", options_.save_interval_steps);
  dir_ = std::filesystem::absolute(dir_).string();  // the program may change its directory
  if (!options_.client) options_.client = Client::current();
  if (!options_.file_system) options_.file_system = io::FileSystem::local();
  // One process alone, and before its first save: no other process has a folder of its own to write to yet.
  if (options_.client->process_index() == 0) {
    options_.file_system->make_directories(dir_);
    io::remove_unfinished(*options_.file_system, dir_);
  }
  newest_ = latest_step();
}

CheckpointManager::~CheckpointManager() {
  try {
    wait();
  } catch (...) {  // NOLINT(bugprone-empty-catch): a destructor has nobody to tell
  }
}

bool CheckpointManager::should_save(std::int64_t step) const {
  return step % options_.save_interval_steps == 0 && (!newest_ || step > *newest_);
}

void CheckpointManager::wait(const Loc&) {
  const checkpoints::SaveHandle running = std::exchange(running_, {});
  try {
    running.wait();
  } catch (...) {
    newest_ = latest_step();  // the step that failed may be saved again
    throw;
  }
}

void CheckpointManager::save_leaves(std::int64_t step, checkpoints::detail::NamedLeaves tree,
                                    const std::map<std::string, std::string>& metadata) {
  wait();
  running_ = io::begin_save(dir_, step, std::move(tree),
                            {.metadata = metadata,
                             .progress = options_.progress,
                             .client = options_.client,
                             .file_system = options_.file_system},
                            [fs = options_.file_system, dir = dir_, most = options_.max_to_keep,
                             period = options_.keep_period] { io::apply_retention(*fs, dir, most, period); });
  if (!newest_ || step > *newest_) newest_ = step;
  if (!options_.async) wait();
}

std::vector<Array> CheckpointManager::restore_leaves(const checkpoints::detail::NamedLeaves& like,
                                                     std::optional<std::int64_t> step,
                                                     const checkpoints::RestoreOptions& options) {
  wait();
  if (!step) step = latest_step();
  if (!step) throw ValueError(str(kManager, "::restore: \"", dir_, "\" has no checkpoint; ask latest_step before"));
  checkpoints::RestoreOptions with_client = options;
  if (!with_client.client) with_client.client = options_.client;
  return checkpoints::detail::restore(dir_, *step, like, with_client);
}

std::vector<std::int64_t> CheckpointManager::all_steps(const Loc&) const { return io::steps_in(kManager, dir_); }
std::optional<std::int64_t> CheckpointManager::latest_step(const Loc&) const {
  const auto steps = io::steps_in(kManager, dir_);
  return steps.empty() ? std::nullopt : std::optional(steps.back());
}

}  // namespace tessera
