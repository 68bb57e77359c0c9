// SPDX-License-Identifier: Apache-2.0
// Checkpoints of several processes, simulated by threads: each writes its own shards, and all or none commit.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <exception>
#include <optional>
#include <thread>

#include "support/checkpoint_files.h"
#include "support/meshes.h"
#include "tessera/checkpoint.h"
#include "tessera/tessera.h"

namespace tessera {
namespace {

using test::HookedFiles;
using test::random_bits;
using test::TempFolder;
using Tree = std::map<std::string, Array>;
using Values = std::map<std::string, HostArray>;

struct Process {
  Client client;
  int p;
  Mesh mesh(const Shape& sizes, const AxisNames& names) const { return make_mesh(sizes, names, client.devices()); }
};

// What each process's body throws: empty where it does not.
std::vector<std::string> run(int processes, std::int64_t devices_each,
                             const std::function<void(const Process&)>& body) {
  auto clients = test::cluster_clients(processes, devices_each);
  std::vector<std::string> errors(static_cast<std::size_t>(processes));
  std::vector<std::thread> threads;
  for (int p = 0; p < processes; ++p) {
    threads.emplace_back([&, p] {
      const auto i = static_cast<std::size_t>(p);
      ClientScope scope(clients[i]);
      try {
        body({clients[i], p});
      } catch (const std::exception& e) {
        errors[i] = e.what();
      }
    });
  }
  for (auto& t : threads) t.join();
  return errors;
}

std::vector<std::string> fine(int processes) { return std::vector<std::string>(static_cast<std::size_t>(processes)); }

Values random_values(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Values out;
  out["rows"] = random_bits(float32, {16, 6}, random);
  out["columns"] = random_bits(bfloat16, {5, 8}, random);
  out["both"] = random_bits(complex128, {9, 13}, random);
  out["replicated"] = random_bits(int8, {777}, random);
  out["scalar"] = random_bits(int64, {}, random);
  out["empty"] = random_bits(uint16, {0, 4}, random);
  return out;
}

// The same arrays under any number of devices; uneven where they do not divide.
Tree place(const Values& values, const Mesh& mesh, int turn) {
  static const std::vector<std::map<std::string, PartitionSpec>> specs{
      {{"rows", P("x")}, {"columns", P(none, "x")}, {"both", P("x", "y")}},
      {{"rows", P(axes("y", "x"))}, {"columns", P("y", "x")}, {"both", P("y", none)}, {"replicated", P("x")}},
      {{"rows", P(none, "y")}, {"columns", P()}, {"both", P(none, axes("x", "y"))}, {"empty", P("x")}}};
  Tree out;
  for (const auto& [name, value] : values) {
    const auto& of = specs[static_cast<std::size_t>(turn) % specs.size()];
    const auto spec = of.find(name);
    out[name] = device_put(value, NamedSharding(mesh, spec == of.end() ? P() : spec->second, {.uneven = true}));
  }
  return out;
}

void expect_values(const Tree& tree, const Values& values) {
  for (const auto& [name, value] : values) {
    for (const auto& shard : tree.at(name).addressable_shards()) {
      EXPECT_TRUE(identical(shard.value().host(), value.slice(shard.index())))
          << name << " " << to_string(shard.index());
    }
  }
}

struct Size {
  int processes;
  std::int64_t devices;
  Shape mesh;
};
const Size kSizes[] = {{1, 8, {4, 2}}, {2, 4, {2, 4}}, {4, 2, {4, 2}}, {3, 1, {3, 1}}, {1, 1, {1, 1}}};

TEST(CheckpointCluster, AnyNumberOfProcessesRestoresWhatAnyHasSaved) {
  TempFolder folder;
  std::int64_t step = 0;
  for (const Size& from : kSizes) {
    for (int turn = 0; turn < 3; ++turn) {
      const Values values = random_values(static_cast<std::uint64_t>(++step));
      std::int64_t bytes = 0;
      for (const auto& [name, value] : values) bytes += value.nbytes();
      std::atomic<std::int64_t> written{0};
      EXPECT_EQ(run(from.processes, from.devices,
                    [&](const Process& at) {
                      const Tree tree = place(values, at.mesh(from.mesh, {"x", "y"}), turn);
                      written += checkpoints::save(folder.path(), step, tree).stats().data_bytes;
                    }),
                fine(from.processes));
      EXPECT_EQ(written, bytes);
      EXPECT_NO_THROW(checkpoints::verify(folder.path(), step));
      for (const Size& to : kSizes) {
        const auto before = checkpoints::io_stats();
        EXPECT_EQ(run(to.processes, to.devices,
                      [&](const Process& at) {
                        const Tree like = place(random_values(99), at.mesh(to.mesh, {"x", "y"}), turn + to.processes);
                        expect_values(checkpoints::restore(folder.path(), step, like), values);
                      }),
                  fine(to.processes));
        EXPECT_GT(checkpoints::io_stats().data_bytes_read, before.data_bytes_read);
      }
    }
  }
}

// Of a process that owns the lowest replica of nothing there is no file.
TEST(CheckpointCluster, TheLowestReplicaOwnsAShard) {
  TempFolder folder;
  const Values values = random_values(1);
  std::vector<checkpoints::SaveStats> stats(4);
  EXPECT_EQ(run(4, 2,
                [&](const Process& at) {
                  const Mesh mesh = at.mesh({2, 4}, {"x", "y"});  // x crosses the halves of the processes
                  Tree tree;
                  tree["rows"] = device_put(values.at("rows"), NamedSharding(mesh, P("x")));
                  tree["replicated"] = device_put(values.at("replicated"), NamedSharding(mesh, P()));
                  // Each process's own: equal by the caller's word, written by process 0.
                  tree["step"] = device_put(HostArray::scalar(std::int32_t{17 + at.p}));
                  tree["literal"] = Array(3.5);
                  stats[static_cast<std::size_t>(at.p)] = checkpoints::save(folder.path(), 1, tree).stats();
                }),
            fine(4));
  EXPECT_EQ(stats[0].data_bytes, 16 * 6 * 4 / 2 + 777 + 4 + 8);
  EXPECT_EQ(stats[1].data_bytes, 0);
  EXPECT_EQ(stats[1].index_bytes, 0);
  EXPECT_EQ(stats[2].data_bytes, 16 * 6 * 4 / 2);
  EXPECT_EQ(stats[3].data_bytes, 0);
  EXPECT_EQ(test::names_in(checkpoints::step_path(folder.path(), 1)),
            (std::vector<std::string>{"checkpoint.json", "model-00001-of-00004.crc32",
                                      "model-00001-of-00004.safetensors", "model-00003-of-00004.crc32",
                                      "model-00003-of-00004.safetensors", "model.safetensors.index.json"}));
  EXPECT_EQ(checkpoints::load(folder.path(), 1).at("step").span<std::int32_t>()[0], 17);
}

void set_wait(const char* seconds) {
  if (seconds != nullptr) {
    ::setenv("TESSERA_EXCHANGE_SECONDS", seconds, 1);
  } else {
    ::unsetenv("TESSERA_EXCHANGE_SECONDS");
  }
}

// Every step of every process fails once, of two: both throw, the reason is named, nothing is left, nothing is lost.
TEST(CheckpointCluster, WhereOneProcessFailsNoneCommits) {
  TempFolder folder;
  const Values first = random_values(1);
  const Values second = random_values(2);
  EXPECT_EQ(run(2, 4,
                [&](const Process& at) {
                  checkpoints::save(folder.path(), 1, place(first, at.mesh({2, 4}, {"x", "y"}), 0)).wait();
                }),
            fine(2));
  const auto before = test::names_in(folder.path());
  int cases = 0;
  for (int failing = 0; failing < 2; ++failing) {
    bool more = true;
    for (int at_step = 0; more; ++at_step) {
      std::atomic<int> count{0};
      std::string what;
      const auto errors = run(2, 4, [&](const Process& at) {
        const auto files = std::make_shared<HookedFiles>([&, at](const std::string& step, const std::string& path) {
          if (at.p != failing || step == "remove_all" || count++ != at_step) return;
          what = step + " " + path;
          throw ValueError("checkpoints::save: no space on the disk");
        });
        checkpoints::save(folder.path(), 2, place(second, at.mesh({2, 4}, {"x", "y"}), 0), {.file_system = files})
            .wait();
      });
      more = !what.empty();
      if (!more) {
        EXPECT_EQ(errors, fine(2));
        break;
      }
      ++cases;
      for (int p = 0; p < 2; ++p) {
        const std::string& e = errors[static_cast<std::size_t>(p)];
        EXPECT_NE(e.find("no space on the disk"), std::string::npos) << what << ": " << e;
        if (p == failing) continue;
        EXPECT_NE(e.find("step 2"), std::string::npos) << e;
        EXPECT_NE(e.find("failed in process " + std::to_string(failing)), std::string::npos) << e;
      }
      // After the rename only the directory's own entry could still fail: then the new one is complete.
      if (test::names_in(folder.path()) != before) {
        EXPECT_EQ(what, "sync_directory " + std::filesystem::absolute(folder.path()).string());
        EXPECT_NO_THROW(checkpoints::verify(folder.path(), 2));
        checkpoints::remove(folder.path(), 2);
      }
      EXPECT_EQ(test::names_in(folder.path()), before) << what;
    }
    checkpoints::remove(folder.path(), 2);
  }
  EXPECT_GE(cases, 20);
  EXPECT_NO_THROW(checkpoints::verify(folder.path(), 1));
}

TEST(CheckpointCluster, OtherArgumentsInAnotherProcessAreNamed) {
  TempFolder folder;
  const Values values = random_values(1);
  auto both = [&](const std::function<void(const Process&, const Tree&)>& body) {
    return run(2, 4, [&](const Process& at) { body(at, place(values, at.mesh({2, 4}, {"x", "y"}), 0)); });
  };
  auto expect_all = [](const std::vector<std::string>& errors, const std::vector<std::string>& words) {
    for (const auto& e : errors) {
      for (const auto& w : words) EXPECT_NE(e.find(w), std::string::npos) << "\"" << w << "\" in: " << e;
    }
  };
  expect_all(both([&](const Process& at, const Tree& t) { checkpoints::save(folder.path(), 5 + at.p, t).wait(); }),
             {"process 1 saves step 6", "process 0 step 5"});
  expect_all(both([&](const Process& at, Tree t) {
               if (at.p == 1) t.erase("rows");
               checkpoints::save(folder.path(), 5, t).wait();
             }),
             {"process 1 saves leaf \"scalar\" int64[]", "process 0 leaf \"rows\" float32[16, 6]"});
  expect_all(both([&](const Process& at, Tree t) {
               if (at.p == 1) t["rows"].delete_();
               checkpoints::save(folder.path(), 5, t).wait();
             }),
             {"leaf \"rows\"", "was deleted"});
  EXPECT_EQ(checkpoints::all_steps(folder.path()), std::vector<std::int64_t>{});
  EXPECT_TRUE(test::names_in(folder.path()).empty());

  EXPECT_EQ(both([&](const Process&, const Tree& t) { checkpoints::save(folder.path(), 5, t).wait(); }), fine(2));
  // One process cannot restore: no process believes that it could.
  expect_all(both([&](const Process& at, Tree t) {
               if (at.p == 1) t["rows"] = device_put(HostArray(float32, {16, 7}), t["rows"].sharding());
               checkpoints::restore(folder.path(), 5, t);
             }),
             {"leaf \"rows\"", "expected (16, 7)"});
}

TEST(CheckpointCluster, AProcessThatStaysAwayHoldsNobodyUpForEver) {
  TempFolder folder;
  const Values values = random_values(1);
  set_wait("1");
  const auto errors = run(2, 4, [&](const Process& at) {
    const Tree tree = place(values, at.mesh({2, 4}, {"x", "y"}), 0);
    if (at.p == 0) checkpoints::save(folder.path(), 1, tree).wait();
  });
  const auto other = run(2, 4, [&](const Process& at) {
    const Tree tree = place(values, at.mesh({2, 4}, {"x", "y"}), 0);
    if (at.p == 1) checkpoints::save(folder.path(), 1, tree).wait();
  });
  set_wait(nullptr);
  EXPECT_NE(errors[0].find("failed in process 1"), std::string::npos) << errors[0];
  EXPECT_NE(errors[0].find("waited 1 s for process 1"), std::string::npos) << errors[0];
  EXPECT_NE(other[1].find("waited 1 s for process 0"), std::string::npos) << other[1];
  EXPECT_TRUE(test::names_in(folder.path()).empty());
}

// Training goes on in both processes, with collectives of its own, while earlier steps are written.
TEST(CheckpointCluster, ProgramsRunWhileAManagerSaves) {
  TempFolder folder;
  const HostArray start = HostArray::from<float>({1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(run(2, 4,
                [&](const Process& at) {
                  const Mesh mesh = at.mesh({8}, "x");
                  CheckpointManager manager(folder.path(), {.max_to_keep = 3});
                  Array x = device_put(start, NamedSharding(mesh, P("x")));
                  auto step = jit([](const Array& a) { return a + 0.125F * sum(a); }, {.donate_argnums = {0}});
                  std::map<std::int64_t, std::vector<float>> seen;
                  for (std::int64_t i = 0; i < 12; ++i) {
                    for (const auto& s : x.addressable_shards()) seen[i].push_back(s.value().to_vector<float>()[0]);
                    EXPECT_TRUE(manager.save(i, x));
                    x = step(x);
                  }
                  manager.wait();
                  EXPECT_EQ(manager.latest_step(), 11);
                  for (std::int64_t i : {9, 10, 11}) {
                    const Array like = without_data({{8}, float32, false, NamedSharding(mesh, P("x"))});
                    const Array back = manager.restore(like, i);
                    std::vector<float> restored;
                    for (const auto& s : back.addressable_shards()) restored.push_back(s.value().to_vector<float>()[0]);
                    EXPECT_EQ(restored, seen[i]) << i;
                  }
                }),
            fine(2));
  EXPECT_EQ(checkpoints::all_steps(folder.path()), (std::vector<std::int64_t>{9, 10, 11}));
}

}  // namespace
}  // namespace tessera
