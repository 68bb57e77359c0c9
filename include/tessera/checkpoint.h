// SPDX-License-Identifier: Apache-2.0
// Sharded checkpoints: trees of arrays on disk, written while training goes on, restored onto any mesh.
//
//   CheckpointManager manager("run7", {.max_to_keep = 3, .save_interval_steps = 100});
//   if (auto step = manager.latest_step()) state = manager.restore(state);
//   for (std::int64_t step = first; step < last; ++step) {
//     state = train_step(state, batch);      // may donate: a save holds the bits of its moment
//     manager.save(step, state);             // returns when the arrays are held, not when they are written
//   }
//   manager.wait();                          // what a save threw is rethrown here
//
// A checkpoint is a folder `step_00000100` of safetensors files, one for each process that owns shards, with Hugging
// Face's `model.safetensors.index.json` for other readers and an index of our own, `checkpoint.json`, which holds where
// each shard is placed in its global array and the checksums. Each distinct shard is written once, by the process of
// the lowest replica. The folder gets its name by one rename when all files are on the disk: whatever ends the program,
// at any byte, leaves the earlier checkpoints as they are, and a folder of that name is complete.
//
// With several processes `save`, `restore`, `CheckpointManager::save` and its constructor are collective: every process
// of the client calls them in the same order, with the same directory (on a file system that all share), step and tree.
// Each writes and reads its own shards; what fails in one process is thrown in every one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/array.h"
#include "tessera/device.h"
#include "tessera/io.h"
#include "tessera/sharding.h"
#include "tessera/tree.h"

namespace tessera {

namespace io {
class FileSystem;
}  // namespace io

namespace checkpoints {

/// How far this process's part of a save or restore is.
struct Progress {
  std::string leaf;              ///< that was written or read last: "layers[0].w"
  std::int64_t bytes_done = 0;   ///< of this process's shards
  std::int64_t bytes_total = 0;  ///< of this process's shards; indices and checksums do not count
};

/// What a save may be given.
struct SaveOptions {
  /// Stored in the index: a learning rate, the position in a data set. Keys and values are UTF-8.
  std::map<std::string, std::string> metadata = {};
  /// Called on the thread that writes, after each block of at most 8 MB and once at the end. What it throws fails the
  /// save.
  std::function<void(const Progress&)> progress = nullptr;
  /// Whose processes take part. Empty: the client of the tree's first array that has a device, else the current one.
  std::optional<Client> client = std::nullopt;
  /// How files are written; null: the machine's file system. Tests make writes fail here.
  std::shared_ptr<io::FileSystem> file_system = nullptr;
};

/// Bytes that one process has written for one checkpoint.
struct SaveStats {
  std::int64_t data_bytes = 0;   ///< elements of shards
  std::int64_t index_bytes = 0;  ///< headers, checksums and indices
};

/// A save that may still be running. Copies refer to the same save. Dropping the last one does not stop it, and a
/// program that ends waits for it; only `wait` shows whether it failed.
class SaveHandle {
 public:
  SaveHandle() = default;
  /// Blocks until the checkpoint is committed. Throws what failed, on every call: `ValueError` naming path and reason
  /// for a file that cannot be written, what a computation threw whose result was saved, `StateError` where another
  /// process failed or ended. A failed save leaves no folder of the step. Does nothing for an empty handle.
  void wait(const Loc& loc = Loc::current()) const;
  /// Committed or failed; true for an empty handle.
  bool done() const;
  /// Waits; what this process wrote. Throws as `wait`.
  SaveStats stats(const Loc& loc = Loc::current()) const;

  struct State;
  explicit SaveHandle(std::shared_ptr<const State> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<const State> state_;
};

/// What a restore may be given.
struct RestoreOptions {
  /// Where leaves are placed: empty: as the leaves of `like`; one sharding: all of them; else one for each leaf, in the
  /// order of `tree_paths`, null for that of the leaf of `like`.
  std::vector<ShardingPtr> shardings = {};
  /// Allows leaves of the checkpoint that `like` lacks.
  bool partial = false;
  /// Called after each stored shard that was read from, on any thread, one call at a time.
  std::function<void(const Progress&)> progress = nullptr;
  /// As `SaveOptions::client`.
  std::optional<Client> client = std::nullopt;
};

/// One leaf of a checkpoint.
struct LeafInfo {
  std::string name;  ///< its path: "layers[0].w"; "value" for a tree that is one array
  DType dtype = DType::F32;
  bool weak = false;  ///< promotes as a scalar literal
  Shape shape;        ///< global
  std::int64_t shards = 0;
};

/// What a checkpoint holds, without its elements.
struct CheckpointInfo {
  std::int64_t step = 0;
  std::vector<LeafInfo> leaves;  ///< in the order of the saved tree
  std::map<std::string, std::string> metadata;
};

/// Bytes of checkpoints that this program has written and read since it began, all simulated processes together.
struct IoStats {
  std::int64_t data_bytes_written = 0;
  std::int64_t index_bytes_written = 0;
  std::int64_t data_bytes_read = 0;   ///< elements, in blocks of 4096 bytes of a stored shard
  std::int64_t index_bytes_read = 0;  ///< indices, headers and checksums
};
/// The counters.
IoStats io_stats();

namespace detail {
/// A tree's leaves under the names that a checkpoint gives them.
struct NamedLeaves {
  std::vector<std::string> names;
  std::vector<Array> leaves;
};
template <class T>
NamedLeaves named(const T& tree) {
  NamedLeaves out{tree_paths(tree), tree_leaves(tree)};
  for (auto& name : out.names) {
    if (name.empty()) name = "value";
  }
  return out;
}
SaveHandle save(const std::string& dir, std::int64_t step, NamedLeaves tree, const SaveOptions& options);
std::vector<Array> restore(const std::string& dir, std::int64_t step, const NamedLeaves& like,
                           const RestoreOptions& options);
}  // namespace detail

/// Begins to write a tree as the checkpoint of `step` below `dir`, which is made where it is missing. Returns when the
/// arrays' buffers are held: computations that make them may still run, and arrays that are donated or deleted
/// afterwards are saved as they were. Saves of one process are written one after another, on a thread of their own.
/// Leaves that every process holds for itself (a step counter on each one's default device) are written by process 0.
///
/// Throws `ValueError` for a negative step, a step that exists, a leaf name that occurs twice or that safetensors
/// cannot hold, `StateError` for an array without data (`DeletedArrayError` for a deleted one) and
/// `ConcretizationError` inside a traced function; with several processes these come from `wait`, in every process.
/// Several processes exchange the list of leaves and shards before they write, and the list of files before the commit;
/// elements are not sent.
template <class T>
SaveHandle save(const std::string& dir, std::int64_t step, const T& tree, const SaveOptions& options = {},
                const Loc& = Loc::current()) {
  return detail::save(dir, step, detail::named(tree), options);
}

/// The tree of a checkpoint: `like` with the stored leaves, placed as the options or else the leaves of `like` say.
/// Of `like` only structure, shapes, dtypes and shardings are used, so its leaves may be deleted or without data
/// (`without_data`). Any mesh and any number of processes may restore what any other has saved; each process reads the
/// stored blocks that its own shards need, and checks their checksums. Processes exchange only whether they succeeded.
///
/// Throws `ValueError` where there is no such checkpoint, and, naming file, leaf and expectation, for leaves that are
/// missing or superfluous, another shape, and a file that is missing or cannot be read; `TypeError` for another dtype;
/// `IndivisibleError` for a sharding that does not fit; `FormatError` for a truncated file, an index that contradicts
/// itself or its files, and a checksum that differs. Nothing of `like` is changed then.
template <class T>
T restore(const std::string& dir, std::int64_t step, const T& like, const RestoreOptions& options = {},
          const Loc& = Loc::current()) {
  return tree_unflatten(like, detail::restore(dir, step, detail::named(like), options));
}

/// Leaves on the host, by name, without a tree: all of them, or those named. Reads and checks as `restore`; not
/// collective. Throws as `restore`, and `ValueError` for a name that is not there, with those that are.
HostArrays load(const std::string& dir, std::int64_t step, const std::vector<std::string>& names = {},
                const Loc& loc = Loc::current());
/// Names, types and shapes of a checkpoint; reads its index alone. Not collective. Throws `ValueError` where there is
/// no such checkpoint, `FormatError` for a damaged index.
CheckpointInfo info(const std::string& dir, std::int64_t step, const Loc& loc = Loc::current());
/// Reads every byte of a checkpoint and compares all checksums. Not collective. Throws as `restore`.
void verify(const std::string& dir, std::int64_t step, const Loc& loc = Loc::current());

/// Steps of the checkpoints below `dir`, ascending; none where there is no such directory. Unfinished ones do not
/// count. Throws `ValueError` for a directory that cannot be read.
std::vector<std::int64_t> all_steps(const std::string& dir, const Loc& loc = Loc::current());
/// The last of them.
std::optional<std::int64_t> latest_step(const std::string& dir, const Loc& loc = Loc::current());
/// Folder of a step: "run7/step_00000100".
std::string step_path(const std::string& dir, std::int64_t step);
/// Deletes a checkpoint; it disappears first, then its files. Throws `ValueError` where there is none.
void remove(const std::string& dir, std::int64_t step, const Loc& loc = Loc::current());

}  // namespace checkpoints

/// What a manager keeps and when it saves.
struct CheckpointManagerOptions {
  /// The newest checkpoints that stay; older ones are deleted after each commit. Nothing: all stay.
  std::optional<std::int64_t> max_to_keep = std::nullopt;
  /// Steps that are multiples of it stay as well.
  std::optional<std::int64_t> keep_period = std::nullopt;
  /// `save` passes over steps that are no multiple of it.
  std::int64_t save_interval_steps = 1;
  /// False: `save` returns when the checkpoint is committed.
  bool async = true;
  /// As `SaveOptions::progress`.
  std::function<void(const checkpoints::Progress&)> progress = nullptr;
  /// Whose processes take part; empty: the current client at construction.
  std::optional<Client> client = std::nullopt;
  /// As `SaveOptions::file_system`.
  std::shared_ptr<io::FileSystem> file_system = nullptr;
};

/// The checkpoints of one run: when to save, what to keep, where to go on. One thread of a process uses it at a time.
class CheckpointManager {
 public:
  /// Makes the directory where it is missing and removes what saves that were cut off have left there, so a directory
  /// belongs to one running program. Throws `ValueError` for an option below 1 or a directory that cannot be made.
  explicit CheckpointManager(std::string dir, CheckpointManagerOptions options = {}, const Loc& loc = Loc::current());
  /// Waits for a running save; what it threw is lost, so call `wait` before.
  ~CheckpointManager();
  CheckpointManager(const CheckpointManager&) = delete;
  CheckpointManager& operator=(const CheckpointManager&) = delete;

  /// As an absolute path.
  const std::string& directory() const& { return dir_; }
  std::string directory() const&& { return dir_; }
  /// Whether `save` would write this step: a multiple of the interval, after the newest one.
  bool should_save(std::int64_t step) const;
  /// Saves the tree where `should_save` is true or `force` is set, and returns whether it does. Waits for the save
  /// before, so that the buffers of at most one are held; rethrows what that one threw. Otherwise as
  /// `checkpoints::save`.
  template <class T>
  bool save(std::int64_t step, const T& tree, const std::map<std::string, std::string>& metadata = {},
            bool force = false, const Loc& = Loc::current()) {
    if (!force && !should_save(step)) return false;
    save_leaves(step, checkpoints::detail::named(tree), metadata);
    return true;
  }
  /// Restores the newest checkpoint, or that of `step`, as `checkpoints::restore`; waits for a running save first.
  /// Throws `ValueError` where there is none.
  template <class T>
  T restore(const T& like, std::optional<std::int64_t> step = std::nullopt,
            const checkpoints::RestoreOptions& options = {}, const Loc& = Loc::current()) {
    return tree_unflatten(like, restore_leaves(checkpoints::detail::named(like), step, options));
  }
  /// Blocks until the last save is committed and older checkpoints are deleted; throws what failed, once.
  void wait(const Loc& loc = Loc::current());
  /// As `checkpoints::all_steps`; a save that is still running does not count.
  std::vector<std::int64_t> all_steps(const Loc& loc = Loc::current()) const;
  /// As `checkpoints::latest_step`.
  std::optional<std::int64_t> latest_step(const Loc& loc = Loc::current()) const;

 private:
  void save_leaves(std::int64_t step, checkpoints::detail::NamedLeaves tree,
                   const std::map<std::string, std::string>& metadata);
  std::vector<Array> restore_leaves(const checkpoints::detail::NamedLeaves& like, std::optional<std::int64_t> step,
                                    const checkpoints::RestoreOptions& options);

  std::string dir_;
  CheckpointManagerOptions options_;
  checkpoints::SaveHandle running_;
  std::optional<std::int64_t> newest_;  // saved or being saved
};

}  // namespace tessera
