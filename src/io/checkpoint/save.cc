// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint/save.h"

#include <sys/stat.h>

#include <chrono>
#include <exception>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/report/log.h"
#include "base/report/progress.h"
#include "base/strings.h"
#include "io/checkpoint/agreement.h"
#include "io/checkpoint/save_plan.h"
#include "io/checkpoint/shard_file.h"
#include "io/checkpoint/steps.h"
#include "tessera/error.h"

namespace tessera {

struct checkpoints::SaveHandle::State {
  runtime::EventPtr done;
  SaveStats stats;  // written before `done`
};

namespace io {

namespace {

constexpr const char kSave[] = "checkpoints::save";

// Everything that a save needs once the call has returned.
struct SaveJob {
  std::string dir;
  std::int64_t step = 0;
  Client client;
  std::int64_t tag = 0;
  checkpoints::SaveOptions options;
  std::shared_ptr<FileSystem> fs;
  std::vector<HeldLeaf> leaves;
  std::exception_ptr fault;  ///< of this process's leaves, for the other processes to learn
  std::function<void()> after_commit;
  checkpoints::SaveStats stats;

  void run();

 private:
  std::vector<std::string> begin(const std::vector<std::string>& plans);
  std::optional<WrittenFile> write(const WriteOrder& order, std::vector<OwnedShard> shards);
  void commit(const std::vector<std::string>& written);
  void write_index(const char* name, const std::string& text);

  SavePlan plan_;       // of process 0
  std::string folder_;  // unfinished, of process 0
};

void check_new(const std::string& dir, std::int64_t step) {
  struct stat s {};
  const std::string path = checkpoints::step_path(dir, step);
  if (::lstat(path.c_str(), &s) != 0) return;
  throw ValueError(str(kSave, ": step = ", step, " is there already: \"", path,
                       "\"; expected a new step, or remove the old one with checkpoints::remove"));
}

std::string file_name(std::size_t process, std::size_t count, const char* ending) {
  const auto five = [](std::size_t v) {
    std::string digits = std::to_string(v);
    return digits.size() < 5 ? std::string(5 - digits.size(), '0') + digits : digits;
  };
  return str("model-", five(process + 1), "-of-", five(count), ending);
}

// Process 0, before anything is written.
std::vector<std::string> SaveJob::begin(const std::vector<std::string>& plans) {
  plan_ = merge_plans(plans);
  fs->make_directories(dir);
  check_new(dir, step);
  const std::string name = unfinished_name(step);
  fs->make_directory(str(dir, "/", name));
  folder_ = str(dir, "/", name);
  std::vector<std::string> orders;
  for (std::size_t p = 0; p < plans.size(); ++p) {
    orders.push_back(order_text(
        {name, file_name(p, plans.size(), ".safetensors"), file_name(p, plans.size(), ".crc32"), plan_.dropped[p]}));
  }
  return orders;
}

std::optional<WrittenFile> SaveJob::write(const WriteOrder& order, std::vector<OwnedShard> shards) {
  for (std::size_t i = order.dropped.size(); i-- > 0;) {
    shards.erase(shards.begin() + static_cast<std::ptrdiff_t>(order.dropped[i]));
  }
  if (shards.empty()) return std::nullopt;
  std::vector<TensorToWrite> tensors;
  checkpoints::Progress progress;
  for (const OwnedShard& s : shards) {
    const HeldLeaf& leaf = leaves[s.leaf];
    tensors.push_back({tensor_name(leaf.type, s.start, s.shape), leaf.type.stored, s.shape,
                       [&leaf, &s] { return elements_of(leaf, s); }});
    progress.bytes_total += size_of(s.shape) * dtype_size(leaf.type.stored);
  }
  ProgressBar bar(str("writing checkpoint ", step), progress.bytes_total);
  const WroteBytes wrote = [&](std::size_t tensor, std::int64_t n) {
    progress.leaf = leaves[shards[tensor].leaf].type.name;
    progress.bytes_done += n;
    bar.update(progress.bytes_done, progress.leaf);
    if (options.progress) options.progress(progress);
  };
  const std::string folder = str(dir, "/", order.folder);
  WrittenFile out = write_shard_file(*fs, folder, order.file, order.checksums, tensors, wrote);
  fs->sync_directory(folder);
  stats = {out.data_bytes, out.index_bytes};
  count_written(out.data_bytes, out.index_bytes);
  return out;
}

void SaveJob::write_index(const char* name, const std::string& text) {
  const auto file = fs->create(str(folder_, "/", name));
  file->write(0, text.data(), text.size());
  file->sync();
  file->close();
  stats.index_bytes += static_cast<std::int64_t>(text.size());
  count_written(0, static_cast<std::int64_t>(text.size()));
}

// Process 0, once every process's files are on the disk. The rename is the commit: before it nobody takes the folder
// for a checkpoint, after it the folder is complete.
void SaveJob::commit(const std::vector<std::string>& written) {
  CheckpointIndex index = merge_written(step, plan_, written, options.metadata);
  for (const StoredFile& f : index.files) {
    const std::string path = str(folder_, "/", f.name);
    const std::uint64_t size = fs->file_size(path);
    if (size == f.nbytes) continue;
    throw StateError(str(kSave, ": \"", path, "\" has ", size, " bytes here; expected the ", f.nbytes,
                         " that its process wrote: the directory must be on a file system that all processes share"));
  }
  const std::string weights = weights_index_text(index);
  index.weights_index_bytes = weights.size();
  index.weights_index_crc = crc32_of(weights);
  write_index(kWeightsIndexName, weights);
  write_index(kIndexName, index_text(index));
  fs->sync_directory(folder_);
  fs->rename(folder_, checkpoints::step_path(dir, step));
  fs->sync_directory(dir);
}

void SaveJob::run() {
  const auto began = std::chrono::steady_clock::now();
  const Agreement agreement(client, tag, str(kSave, ": step ", step, " in \"", dir, "\""));
  try {
    std::vector<OwnedShard> shards;
    const WriteOrder order = parse_order(agreement.round(
        [&] {
          if (fault) std::rethrow_exception(fault);
          shards = owned_shards(leaves);
          return plan_text(step, leaves, shards);
        },
        [&](const std::vector<std::string>& plans) { return begin(plans); }));
    agreement.round([&] { return written_text(write(order, std::move(shards))); },
                    [&](const std::vector<std::string>& written) {
                      commit(written);
                      return std::vector<std::string>(written.size());
                    });
  } catch (...) {
    leaves.clear();
    if (!folder_.empty()) {
      try {
        fs->remove_all(folder_);
      } catch (...) {  // NOLINT(bugprone-empty-catch): what was thrown first is what the caller needs
      }
    }
    throw;
  }
  leaves.clear();  // their memory is free from here on, whoever still has the handle
  base::log(LogLevel::Info, "checkpoint ", checkpoints::step_path(dir, step), ": ", stats.data_bytes,
            " bytes written in ", base::seconds_since(began), " by process ", agreement.process_index());
  if (agreement.process_index() == 0 && after_commit) after_commit();
}

}  // namespace

checkpoints::SaveHandle begin_save(const std::string& dir, std::int64_t step, checkpoints::detail::NamedLeaves tree,
                                   const checkpoints::SaveOptions& options, std::function<void()> after_commit) {
  struct Saving : checkpoints::SaveHandle::State {
    SaveJob job;
  };
  auto saving = std::make_shared<Saving>();
  SaveJob& job = saving->job;
  // The program may change its directory while the save runs.
  if (!dir.empty()) job.dir = std::filesystem::absolute(dir).string();
  while (job.dir.size() > 1 && job.dir.ends_with('/')) job.dir.pop_back();
  job.step = step;
  job.client = client_of(options.client, tree.leaves);
  job.options = options;
  job.fs = options.file_system ? options.file_system : FileSystem::local();
  job.after_commit = std::move(after_commit);
  CheckpointState& state = checkpoint_state(job.client);
  job.tag = state.next_tag();
  try {
    if (dir.empty()) throw ValueError(str(kSave, ": dir is empty; expected a directory"));
    check_step(kSave, step);
    check_new(job.dir, step);
    for (std::size_t i = 0; i < tree.leaves.size(); ++i) job.leaves.push_back(hold(tree.names[i], tree.leaves[i]));
  } catch (const Error&) {
    if (job.client.process_count() == 1) throw;
    job.fault = std::current_exception();
  }
  saving->done = state.writer->submit({.body = [saving] {
    try {
      saving->job.run();
    } catch (const std::exception& e) {
      base::log(LogLevel::Error, e.what());  // whoever never waits learns it here
      throw;
    }
    saving->stats = saving->job.stats;
  }});
  return checkpoints::SaveHandle(std::move(saving));
}

}  // namespace io

namespace checkpoints {

SaveHandle detail::save(const std::string& dir, std::int64_t step, NamedLeaves tree, const SaveOptions& options) {
  return io::begin_save(dir, step, std::move(tree), options, nullptr);
}

void SaveHandle::wait(const Loc&) const {
  if (state_) state_->done->wait();
}
bool SaveHandle::done() const { return !state_ || state_->done->ready(); }
SaveStats SaveHandle::stats(const Loc&) const {
  wait();
  return state_ ? state_->stats : SaveStats{};
}

}  // namespace checkpoints
}  // namespace tessera
