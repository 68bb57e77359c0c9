// SPDX-License-Identifier: Apache-2.0
// Saves that run while the program goes on.
#include <gtest/gtest.h>

#include <condition_variable>
#include <thread>

#include "support/checkpoint_files.h"
#include "support/meshes.h"
#include "tessera/checkpoint.h"
#include "tessera/tessera.h"

namespace tessera {
namespace {

using test::EightDevices;
using test::HookedFiles;
using test::TempFolder;

// Holds the writer at its first step until it is opened.
class Gate {
 public:
  std::shared_ptr<HookedFiles> files() {
    return std::make_shared<HookedFiles>([this](const std::string&, const std::string&) {
      std::unique_lock lock(mutex_);
      reached_ = true;
      changed_.notify_all();
      changed_.wait(lock, [&] { return open_; });
    });
  }
  void wait_until_reached() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return reached_; });
  }
  void open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  ~Gate() { open(); }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool reached_ = false, open_ = false;
};

struct State {
  Array w, m;
  Array step;
};

TEST(CheckpointAsync, DonationAfterASaveLeavesItsBits) {
  EightDevices on;
  TempFolder folder;
  auto put = [&](std::int64_t n, const PartitionSpec& spec) {
    HostArray v(float32, {n, 8});
    auto s = v.span<float>();
    for (std::size_t i = 0; i < s.size(); ++i) s[i] = 0.001F * static_cast<float>(i % 1013);
    return device_put(v, NamedSharding(on.A(), spec));
  };
  State state{put(256, P("x", "y")), put(256, P()), device_put(HostArray::scalar(0), NamedSharding(on.A(), P()))};
  auto train = jit(
      [](const State& s) {
        return State{s.w * 1.0009765625F + s.m * 0.5F, s.m + 0.25F * s.w, s.step + 1};
      },
      {.donate_argnums = {0}});
  const std::vector<HostArray> before{state.w.host(), state.m.host(), state.step.host()};
  // Undisturbed, for the end of the run.
  State other = tree_map([](const Array& a) { return copy(a); }, state);
  for (int i = 0; i < 20; ++i) other = train(other);

  Gate gate;
  const auto handle = checkpoints::save(folder.path(), 0, state, {.file_system = gate.files()});
  gate.wait_until_reached();
  const Array given_away = state.w;
  for (int i = 0; i < 20; ++i) state = train(state);
  state.w.block_until_ready();
  EXPECT_TRUE(given_away.is_deleted());
  EXPECT_FALSE(handle.done());
  EXPECT_EQ(checkpoints::latest_step(folder.path()), std::nullopt);
  EXPECT_FALSE(identical(state.w.host(), before[0]));
  gate.open();
  handle.wait();
  EXPECT_TRUE(handle.done());
  const State back = checkpoints::restore(folder.path(), 0, state);
  EXPECT_TRUE(identical(back.w.host(), before[0]));
  EXPECT_TRUE(identical(back.m.host(), before[1]));
  EXPECT_TRUE(identical(back.step.host(), before[2]));
  EXPECT_TRUE(identical(state.w.host(), other.w.host()));
  // And from there the run ends with the same bits.
  State again = back;
  for (int i = 0; i < 20; ++i) again = train(again);
  EXPECT_TRUE(identical(again.w.host(), other.w.host()));
  EXPECT_TRUE(identical(again.m.host(), other.m.host()));
}

TEST(CheckpointAsync, DeletedArraysAreSaved) {
  TempFolder folder;
  Gate gate;
  Array x = device_put(HostArray::from<float>({1, 2, 3})) + 1;
  const auto handle = checkpoints::save(folder.path(), 0, x, {.file_system = gate.files()});
  x.delete_();
  // Memory that was given back is written to by others.
  std::vector<Array> others;
  for (int i = 0; i < 50; ++i) others.push_back(device_put(HostArray::from<float>({9, 9, 9})) * 2);
  gate.open();
  handle.wait();
  EXPECT_EQ(checkpoints::load(folder.path(), 0).at("value").to_vector<float>(), (std::vector<float>{2, 3, 4}));
}

// The buffers are free as soon as the files are written, whoever keeps the handle.
TEST(CheckpointAsync, AHandleHoldsNoMemory) {
  TempFolder folder;
  const Client client = Client::cpu({.devices = 1, .memory_limit = 26 << 20});
  ClientScope scope(client);
  std::vector<checkpoints::SaveHandle> handles;
  for (int i = 0; i < 14; ++i) {
    const Array x = zeros({1 << 20}, float32) + static_cast<float>(i);  // 4 MB
    handles.push_back(checkpoints::save(folder.path(), i, x));
    handles.back().wait();
  }
  EXPECT_EQ(checkpoints::all_steps(folder.path()).size(), 14U);
}

TEST(CheckpointAsync, WhatAComputationThrewFailsItsSaveAlone) {
  TempFolder folder;
  const Array fine = device_put(HostArray::from<float>({1, 2}));
  config().debug_nans = true;
  const Array bad = jit([](const Array& x) { return log(x); })(device_put(HostArray::from<float>({-1, 2})));
  config().debug_nans = false;
  const auto failed = checkpoints::save(folder.path(), 0, std::vector<Array>{fine, bad});
  const auto next = checkpoints::save(folder.path(), 1, fine);
  EXPECT_THROW(failed.wait(), Error);
  EXPECT_THROW(failed.wait(), Error);  // every time
  EXPECT_TRUE(failed.done());
  EXPECT_NO_THROW(next.wait());
  EXPECT_EQ(test::names_in(folder.path()), (std::vector<std::string>{"step_00000001"}));
}

TEST(CheckpointAsync, AManagerThrowsWhatTheSaveBeforeThrew) {
  TempFolder folder;
  const Array x = device_put(HostArray::from<float>({1, 2}));
  bool full = true;
  const auto files = std::make_shared<HookedFiles>([&](const std::string& step, const std::string&) {
    if (full && step == "write") throw ValueError("the disk is full");
  });
  CheckpointManager manager(folder.path(), {.file_system = files});
  EXPECT_TRUE(manager.save(1, x));
  EXPECT_ERROR(ValueError, manager.save(2, x), "the disk is full");
  EXPECT_NO_THROW(manager.wait());  // once
  EXPECT_TRUE(manager.should_save(1));
  full = false;
  EXPECT_TRUE(manager.save(1, x));
  manager.wait();
  EXPECT_EQ(manager.all_steps(), (std::vector<std::int64_t>{1}));
}

TEST(CheckpointAsync, SavesOfManyThreadsAreWrittenOneAfterAnother) {
  TempFolder folder;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 8; ++i) {
        const Array x = device_put(HostArray::from<std::int32_t>({t, i}));
        checkpoints::save(folder.path(), t * 100 + i, x).wait();
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(checkpoints::all_steps(folder.path()).size(), 32U);
  for (auto step : checkpoints::all_steps(folder.path())) {
    const auto v = checkpoints::load(folder.path(), step).at("value").to_vector<std::int32_t>();
    EXPECT_EQ(v[0] * 100 + v[1], step);
  }
}

}  // namespace
}  // namespace tessera
