// SPDX-License-Identifier: Apache-2.0
// A save that is cut off anywhere leaves the checkpoints before it as they are, and no half of its own.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <map>
#include <optional>

#include "base/sanitizers.h"
#include "support/checkpoint_files.h"
#include "support/meshes.h"
#include "support/series.h"
#include "tessera/checkpoint.h"
#include "tessera/tessera.h"

namespace tessera {
namespace {

using test::HookedFiles;
using test::random_bits;
using test::TempFolder;
using Tree = std::map<std::string, Array>;

Tree random_tree(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Tree out;
  out["b"] = device_put(random_bits(bool_, {3}, random));
  out["w"] = device_put(random_bits(float32, {5, 7}, random));
  out["step"] = device_put(HostArray::scalar(static_cast<std::int64_t>(seed)));
  return out;
}
void expect_tree(const std::string& dir, std::int64_t step, const Tree& tree) {
  const Tree back = checkpoints::restore(dir, step, tree);
  for (const auto& [name, a] : tree) EXPECT_TRUE(identical(back.at(name).host(), a.host())) << step << " " << name;
}

// --- a disk in memory ------------------------------------------------------------------------------------------------

// What a save asked of its file system.
struct Op {
  enum Kind : unsigned char { MakeDirectory, Create, Write, Sync, Rename, SyncDirectory } kind;
  std::string path, to;
  std::uint64_t offset = 0;
  std::string bytes;
};

class LoggedFiles final : public io::FileSystem {
 public:
  std::vector<Op> log;

  std::unique_ptr<File> create(const std::string& path) override {
    log.push_back({Op::Create, path});
    return std::make_unique<Logged>(*this, path, to_->create(path));
  }
  void make_directories(const std::string& path) override { to_->make_directories(path); }
  void make_directory(const std::string& path) override {
    log.push_back({Op::MakeDirectory, path});
    to_->make_directory(path);
  }
  void rename(const std::string& from, const std::string& to) override {
    log.push_back({Op::Rename, from, to});
    to_->rename(from, to);
  }
  void sync_directory(const std::string& path) override {
    log.push_back({Op::SyncDirectory, path});
    to_->sync_directory(path);
  }
  void remove_all(const std::string& path) override { FAIL() << "a save that succeeds removes nothing: " << path; }
  std::uint64_t file_size(const std::string& path) override { return to_->file_size(path); }

 private:
  struct Logged final : File {
    Logged(LoggedFiles& files, std::string path, std::unique_ptr<File> to)
        : files_(files), path_(std::move(path)), to_(std::move(to)) {}
    void write(std::uint64_t offset, const void* data, std::size_t n) override {
      files_.log.push_back({Op::Write, path_, {}, offset, std::string(static_cast<const char*>(data), n)});
      to_->write(offset, data, n);
    }
    void sync() override {
      files_.log.push_back({Op::Sync, path_});
      to_->sync();
    }
    void close() override { to_->close(); }
    LoggedFiles& files_;
    std::string path_;
    std::unique_ptr<File> to_;
  };
  std::shared_ptr<io::FileSystem> to_ = io::FileSystem::local();
};

// What a disk has after some of the operations, and what of it survives a loss of power.
class Disk {
 public:
  explicit Disk(std::string root) { nodes_[0].is_directory = true, by_path_[std::move(root)] = 0; }

  void apply(const Op& op) {
    switch (op.kind) {
      case Op::MakeDirectory:
      case Op::Create:
        nodes_.emplace_back().is_directory = op.kind == Op::MakeDirectory;
        link(op.path, nodes_.size() - 1);
        break;
      case Op::Write:
        write(node(op.path).now, op.offset, op.bytes);
        node(op.path).pending.emplace_back(op.offset, op.bytes);
        break;
      case Op::Sync:
        node(op.path).durable = node(op.path).now;
        node(op.path).pending.clear();
        break;
      case Op::Rename: {
        const std::size_t what = by_path_.at(op.path);
        auto& parent = nodes_[by_path_.at(folder(op.path))];
        parent.entries.erase(name(op.path));
        parent.entries[name(op.to)] = what;
        parent.history.push_back(parent.entries);
        by_path_.erase(op.path);
        by_path_[op.to] = what;
        break;
      }
      case Op::SyncDirectory:
        node(op.path).durable_entries = node(op.path).entries;
        node(op.path).history.clear();
    }
  }

  enum class Loss : unsigned char { Nothing, Unsynced, Some };
  /// Writes what survives to a folder.
  void survive(Loss loss, std::mt19937_64& random, const std::string& folder, std::size_t at = 0) const {
    const Node& d = nodes_[at];
    const auto* entries = loss == Loss::Nothing ? &d.entries : &d.durable_entries;
    // A journal keeps the order of changes: some first ones have reached the disk.
    if (loss == Loss::Some && !d.history.empty()) {
      const std::size_t k = random() % (d.history.size() + 1);
      if (k > 0) entries = &d.history[k - 1];
    }
    for (const auto& [entry, index] : *entries) {
      const Node& n = nodes_[index];
      const std::string path = folder + "/" + entry;
      if (n.is_directory) {
        std::filesystem::create_directories(path);
        survive(loss, random, path, index);
        continue;
      }
      std::string bytes = loss == Loss::Nothing ? n.now : n.durable;
      for (const auto& [offset, part] : n.pending) {
        if (loss == Loss::Some && random() % 2 == 0) write(bytes, offset, part.substr(0, random() % (part.size() + 1)));
      }
      test::write_bytes(path, bytes);
    }
  }

 private:
  struct Node {
    bool is_directory = false;
    std::string now, durable;
    std::vector<std::pair<std::uint64_t, std::string>> pending;
    std::map<std::string, std::size_t> entries, durable_entries;
    std::vector<std::map<std::string, std::size_t>> history;  // of the entries, since they were last synchronised
  };
  static std::string folder(const std::string& path) { return path.substr(0, path.rfind('/')); }
  static std::string name(const std::string& path) { return path.substr(path.rfind('/') + 1); }
  static void write(std::string& to, std::uint64_t offset, const std::string& bytes) {
    if (to.size() < offset + bytes.size()) to.resize(offset + bytes.size());
    to.replace(offset, bytes.size(), bytes);
  }
  Node& node(const std::string& path) { return nodes_[by_path_.at(path)]; }
  void link(const std::string& path, std::size_t what) {
    auto& parent = node(folder(path));
    parent.entries[name(path)] = what;
    parent.history.push_back(parent.entries);
    by_path_[path] = what;
  }
  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::map<std::string, std::size_t> by_path_;
};

void clear_but_first(const std::string& dir) {
  for (const auto& name : test::names_in(dir)) {
    if (name != "step_00000001") std::filesystem::remove_all(dir + "/" + name);
  }
}

TEST(CheckpointCrash, AfterAnyByteOfASaveTheLastGoodOneIsThere) {
  TempFolder folder;
  TempFolder written;
  const Tree first = random_tree(1);
  const Tree second = random_tree(2);
  checkpoints::save(folder.path(), 1, first).wait();
  const auto files = std::make_shared<LoggedFiles>();
  const std::string root = std::filesystem::absolute(written.path()).string();
  checkpoints::save(root, 2, second, {.file_system = files}).wait();
  const auto& log = files->log;
  ASSERT_EQ(log.back().kind, Op::SyncDirectory);
  std::mt19937_64 random(4);

  std::int64_t states = 0;
  std::int64_t with_second = 0;
  auto check = [&](const Disk& disk, Disk::Loss loss, bool may_have, bool must_have) {
    clear_but_first(folder.path());
    disk.survive(loss, random, folder.path());
    const auto steps = checkpoints::all_steps(folder.path());
    ASSERT_FALSE(steps.empty());
    EXPECT_EQ(steps[0], 1);
    expect_tree(folder.path(), 1, first);
    EXPECT_TRUE(steps.size() == 2 || !must_have);
    EXPECT_TRUE(steps.size() == 1 || may_have);
    if (steps.size() == 2) expect_tree(folder.path(), 2, second);
    with_second += static_cast<std::int64_t>(steps.size()) - 1;
    ++states;
  };
  using enum Disk::Loss;
  Disk disk(root);
  bool renamed = false;
  std::size_t bytes = 0;
  for (std::size_t k = 0; k <= log.size(); ++k) {
    const bool done = k == log.size();
    for (auto loss : {Nothing, Unsynced, Some, Some, Some}) check(disk, loss, renamed, done);
    if (done) break;
    const Op& op = log[k];
    // Cut off at each byte of a write.
    for (std::size_t n = 1; op.kind == Op::Write && n < op.bytes.size();
         n += static_cast<std::size_t>(test::case_stride())) {
      Disk cut = disk;
      cut.apply({Op::Write, op.path, {}, op.offset, op.bytes.substr(0, n)});
      check(cut, n % 8 == 0 ? Some : Nothing, false, false);
      if (HasFailure()) FAIL() << "byte " << n << " of operation " << k;
    }
    bytes += op.bytes.size();
    renamed = renamed || op.kind == Op::Rename;
    disk.apply(op);
  }
  EXPECT_GE(bytes, 1000U);
  EXPECT_GE(states, static_cast<std::int64_t>(bytes) / test::case_stride());
  EXPECT_GE(with_second, 6);
}

// From some step on nothing works any more, as where a disk goes: not the removal of what was begun, either.
TEST(CheckpointCrash, WhatIsLeftBehindIsInNobodysWay) {
  TempFolder folder;
  const Tree first = random_tree(1);
  const Tree second = random_tree(2);
  checkpoints::save(folder.path(), 1, first).wait();
  int cases = 0;
  int left = 0;
  for (int at_step = 0;; ++at_step) {
    int count = 0;
    const auto files = std::make_shared<HookedFiles>([&](const std::string&, const std::string& path) {
      if (count++ >= at_step) throw ValueError("checkpoints::save: cannot write \"" + path + "\": the disk is gone");
    });
    bool failed = false;
    try {
      checkpoints::save(folder.path(), 2, second, {.file_system = files}).wait();
    } catch (const ValueError& e) {
      failed = true;
      EXPECT_TRUE(test::has(e.what(), {"the disk is gone"})) << e.what();
    }
    if (!failed) {
      EXPECT_EQ(count, at_step);
      break;
    }
    ++cases;
    const auto names = test::names_in(folder.path());
    left += static_cast<int>(names.size()) - 1;
    expect_tree(folder.path(), 1, first);
    if (checkpoints::latest_step(folder.path()) == 2) {
      expect_tree(folder.path(), 2, second);
      checkpoints::remove(folder.path(), 2);
    }
    CheckpointManager manager(folder.path(), {.async = false});
    EXPECT_EQ(test::names_in(folder.path()), (std::vector<std::string>{"step_00000001"}));
    EXPECT_TRUE(manager.save(2, second));
    expect_tree(folder.path(), 2, second);
    checkpoints::remove(folder.path(), 2);
  }
  EXPECT_GE(cases, 18);
  EXPECT_GE(left, 15);
}

// Retention deletes what is complete: cut off in between, no reader finds a half.
TEST(CheckpointCrash, ADeletionThatIsCutOffLeavesNoHalf) {
  TempFolder folder;
  for (const char* failing : {"rename", "sync_directory", "remove_all"}) {
    bool deleting = false;
    const auto files = std::make_shared<HookedFiles>([&](const std::string& step, const std::string& path) {
      if (step == "rename" && path.ends_with("/step_00000001")) deleting = true;
      if (deleting && step == failing) throw ValueError(std::string("cannot ") + failing);
    });
    std::filesystem::remove_all(folder.path());
    {
      CheckpointManager manager(folder.path(), {.max_to_keep = 1, .file_system = files});
      manager.save(1, random_tree(1));
      manager.save(2, random_tree(2));
      EXPECT_THROW(manager.wait(), ValueError) << failing;
    }
    for (auto step : checkpoints::all_steps(folder.path())) {
      expect_tree(folder.path(), step, random_tree(static_cast<std::uint64_t>(step)));
    }
    EXPECT_EQ(checkpoints::latest_step(folder.path()), 2);
    CheckpointManager again(folder.path(), {.max_to_keep = 1});
    again.save(3, random_tree(3));
    again.wait();
    EXPECT_EQ(test::names_in(folder.path()), (std::vector<std::string>{"step_00000003"})) << failing;
  }
}

// ThreadSanitizer takes no new threads in a forked child, and no fork that holds 64 locks, as those of all clients are.
#ifndef TESSERA_THREAD_SANITIZER
// The real thing: a process that saves step after step is killed at a random moment and begun again where it was.
TEST(CheckpointCrash, AKilledProcessGoesOn) {
  TempFolder folder;
  std::mt19937_64 random(11);
  std::optional<std::int64_t> last;
  const int kills = 40 / test::case_stride();
  for (int i = 0; i < kills; ++i) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      try {
        CheckpointManager manager(folder.path(), {.max_to_keep = 2});
        std::int64_t step = manager.latest_step().value_or(0);
        for (;;) {
          ++step;
          manager.save(step, random_tree(static_cast<std::uint64_t>(step)));
        }
      } catch (const std::exception& e) {
        ::_exit(std::fputs(e.what(), stderr) < 0 ? 2 : 1);
      }
    }
    // Wherever it is then, from a folder that is just made to an old one that is being deleted.
    for (int polls = 0; polls < 20'000 && checkpoints::latest_step(folder.path()) <= last; ++polls) ::usleep(1000);
    ::usleep(static_cast<unsigned>(random() % 30'000));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status)) << "the child ended by itself: " << status;
    const auto steps = checkpoints::all_steps(folder.path());
    for (auto step : steps) expect_tree(folder.path(), step, random_tree(static_cast<std::uint64_t>(step)));
    const auto now = checkpoints::latest_step(folder.path());
    if (last) {
      ASSERT_TRUE(now.has_value());
      EXPECT_GT(*now, *last);
    }
    last = now;
  }
  ASSERT_TRUE(last.has_value());
  EXPECT_GE(*last, kills);
  // What the kills left is gone with the next save.
  CheckpointManager manager(folder.path(), {.max_to_keep = 2, .async = false});
  manager.save(*last + 1, random_tree(1));
  EXPECT_EQ(test::names_in(folder.path()).size(), 2U);
}
#endif

}  // namespace
}  // namespace tessera
